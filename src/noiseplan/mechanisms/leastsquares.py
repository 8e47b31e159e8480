"""Least squares for a strategy A over a small domain: (AᵀA)⁺, estimates, what is determined.

A regular AᵀA is factored by Cholesky; where it is singular or nearly so, A itself is, by its
singular values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve, cholesky, lapack, qr

from noiseplan.arrays import immutable
from noiseplan.matrices.base import Array, Matrix

# Cholesky pivots of AᵀA with unit diagonal: above this its inverse is right to ten digits.
SAFE_PIVOT = 1e-6
# Singular values below this share of the largest are rounding.
NOISE_FLOOR = 1e-10
# A row is determined if no more than this of it, relative, lies outside the span.
OUTSIDE = 1e-7
# Rows looked at together, as numbers.
AT_ONCE = 2**24


@immutable
@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The best linear unbiased estimates from Ax + z, with independent unit noise z."""

    strategy: Array

    @cached_property
    def _factor(self) -> tuple[Array, Array] | None:
        """L and d with AᵀA = diag(d) L Lᵀ diag(d), if it is safely regular."""
        if len(self.strategy) < self.strategy.shape[1]:
            return None
        gram = self.strategy.T @ self.strategy
        scale = np.sqrt(np.diagonal(gram))
        if not scale.all():
            return None
        try:
            lower = cholesky(gram / scale / scale[:, None], lower=True, overwrite_a=True)
        except np.linalg.LinAlgError:
            return None
        safe = float(np.diagonal(lower).min()) ** 2 > SAFE_PIVOT
        return (np.asarray(lower), scale) if safe else None

    @cached_property
    def _singular(self) -> tuple[Array, Array, Array]:
        """U, s, V with A = U diag(s) Vᵀ, without rounding."""
        if not self.strategy.size:
            return np.zeros((0, 0)), np.zeros(0), np.zeros((self.strategy.shape[1], 0))
        u, s, vt = np.linalg.svd(self.strategy, full_matrices=False)
        kept = s > NOISE_FLOOR * s[0]
        return u[:, kept], s[kept], vt[kept].T

    @cached_property
    def spread(self) -> Array:
        """(AᵀA)⁺: the covariance of the estimated cells."""
        if self._factor is None:
            _, s, v = self._singular
            return np.asarray((v / s**2) @ v.T)
        lower, scale = self._factor
        inverse, failed = lapack.dpotri(lower, lower=1)
        assert failed == 0, "a factor with positive pivots has an inverse"
        inverse = np.tril(inverse)
        inverse += np.tril(inverse, -1).T
        return np.asarray(inverse / scale / scale[:, None])

    def estimate(self, measured: Array) -> Array:
        """x̂ = A⁺ω, for one ω or several as columns."""
        if self._factor is None:
            u, s, v = self._singular
            return np.asarray(v @ ((u.T @ measured).T / s).T)
        lower, scale = self._factor
        right = (self.strategy.T @ measured).T / scale
        return np.asarray((cho_solve((lower, True), right.T).T / scale).T)

    def determines(self, rows: Matrix) -> bool:
        """Whether every row lies in the row space of A."""
        if self._factor is not None:
            return True
        v = self._singular[2]
        count, cells = rows.shape
        if v.shape[1] == cells:
            return True
        if count > 4 * cells:  # many rows: what each has outside, in a basis of the outside
            whole = np.asarray(qr(v, mode="full")[0], dtype=np.float64)
            outside = whole[:, v.shape[1] :]
            columns = max(1, AT_ONCE // count)
            missed = np.zeros(count)
            for start in range(0, outside.shape[1], columns):
                missed += (rows.matmul(outside[:, start : start + columns]) ** 2).sum(axis=1)
            return bool((missed <= OUTSIDE**2 * rows.row_squares()).all())
        for some in np.array_split(np.arange(count), -(-count * cells // AT_ONCE)):
            w = rows.take(some)
            missed = np.abs(w - (w @ v) @ v.T).max(axis=1)
            if (missed > OUTSIDE * np.abs(w).max(axis=1)).any():
                return False
        return True
