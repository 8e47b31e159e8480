"""Prefix sums measured by a series: rows c_{i−j}d_j of whole numbers, and what they tell.

    A = T(c) D ,      T(c) lower triangular with c_{i−j},  D = diag(d), constant on a few pieces.

With r = 1/c as power series, R its sums, R_m = Σ_{k≤m} r_k, and e = 1/d, the prefix sum up to k is
estimated by row k of T(1)D⁻¹T(r). Summing by parts, with b_p the last value of piece p,

    Q_k(j) = e_{p(k)} R_{k−j} + C_{p(k)}(j) ,   C_p(j) = Σ_{p'<p} (e_{p'} − e_{p'+1}) R_{b_{p'}−j} ,

where R_m = 0 for m < 0: what a piece gives is counted with its own e, and stays at its end. So for
noise of variance one the variances of all prefix sums take one product of series for each piece:

    v_k = Σ_j Q_k(j)² = e² Σ_{m≤k} R_m² + 2e Σ_j R_{k−j}C_p(j) + ‖C_p‖² .
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy.linalg import toeplitz

from noiseplan.arrays import IntArray, immutable
from noiseplan.domain.convolutions import Toeplitz, later_terms, series_inverse
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array

# Norms of columns are counted in 64 bits.
LARGEST_NORM: Final = 2**62
# Covariances of prefix sums are written down for so many values.
DENSE_VALUES: Final = 4500
# Numbers that are worked on at once.
HELD: Final = 1 << 22


@immutable
@dataclass(frozen=True, eq=False)
class Series:
    """c, where each piece begins, and d of each piece, all of them whole numbers.

    Examples
    --------
    >>> series = Series(np.array([2, 1, 1]), np.array([0, 1]), np.array([1, 3]))
    >>> series.rows().tolist()
    [[2.0, 0.0, 0.0], [1.0, 6.0, 0.0], [1.0, 3.0, 6.0]]
    >>> series.column_norms().tolist()
    [6, 45, 36]
    """

    coefficients: IntArray
    starts: IntArray
    levels: IntArray

    def __post_init__(self) -> None:
        squares = float(np.square(self.coefficients, dtype=np.float64).sum()) * (1 + 1e-9)
        if squares * float(self.levels.max()) ** 2 >= LARGEST_NORM:
            raise PlanError("the rows of a series are too large for 64 bits")

    @staticmethod
    def identity(size: int) -> Series:
        """Every value by itself."""
        first = np.zeros(size, dtype=np.int64)
        first[0] = 1
        return Series(first, np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64))

    @property
    def size(self) -> int:
        """How many values."""
        return len(self.coefficients)

    @property
    def alone(self) -> bool:
        """Whether every value is measured by itself, times a whole number."""
        return not self.coefficients[1:].any()

    @cached_property
    def piece(self) -> IntArray:
        """The piece of each value."""
        return np.repeat(np.arange(len(self.starts)), np.diff(self.starts, append=self.size))

    @property
    def largest(self) -> int:
        """The largest entry of a row."""
        return int(np.abs(self.coefficients).max()) * int(self.levels.max())

    def column_norms(self) -> IntArray:
        """Σ_{k<n−j} c_k² d_j² of every column, exactly."""
        return np.cumsum(self.coefficients**2)[::-1] * self.levels[self.piece] ** 2

    def rows(self) -> Array:
        """A, for few values."""
        zeros = np.zeros(self.size)
        first = toeplitz(self.coefficients.astype(float), zeros)
        return np.asarray(np.tril(first) * self.levels[self.piece])

    # ------------------------------------------------------------------ estimates

    @cached_property
    def sums(self) -> Array:
        """R: the inverse of (1 − x)c, which is better conditioned than adding up r."""
        return series_inverse(np.diff(self.coefficients, prepend=0).astype(np.float64))

    @cached_property
    def inverse(self) -> Toeplitz:
        """T(r)."""
        return Toeplitz(np.diff(self.sums, prepend=0.0))

    @cached_property
    def _shares(self) -> Array:
        """e of every value."""
        return 1.0 / self.levels[self.piece]

    def values(self, measured: Array) -> Array:
        """A⁻¹y = D⁻¹T(r)y, along the last axis."""
        return np.asarray(self._shares * self.inverse.apply(measured))

    def whitened(self, rows: Array) -> Array:
        """A⁻ᵀw of rows w over the values: what each is of the noise."""
        return self.inverse.transposed(rows * self._shares)

    def covariances(self, rows: Array) -> Array:
        """(AᵀA)⁻¹w: the covariance of every value with rows w."""
        return self.values(self.whitened(rows))

    @cached_property
    def with_total(self) -> Array:
        """Covariances of every value with the total."""
        return self.covariances(np.ones(self.size))

    # ------------------------------------------------------------------ variances

    @cached_property
    def value_variances(self) -> Array:
        """e_i² Σ_{m≤i} r_m²."""
        return np.asarray(self._shares**2 * np.cumsum(self.inverse.first**2))

    @cached_property
    def prefix_variances(self) -> Array:
        """v of every prefix sum."""
        sums, shares = self.sums, 1.0 / self.levels
        squares, found = np.cumsum(sums**2), np.empty(self.size)
        ends = np.append(self.starts[1:], self.size)
        carried = np.zeros(self.size)  # C
        for p, (begin, end) in enumerate(zip(self.starts.tolist(), ends.tolist(), strict=True)):
            here, part = carried[:begin], slice(begin, end)
            across = later_terms(here, sums[:end], begin) if begin else 0.0
            found[part] = shares[p] ** 2 * squares[part] + 2 * shares[p] * across + here @ here
            if end < self.size:
                carried[:end] += (shares[p] - shares[p + 1]) * sums[:end][::-1]
        return found

    def span_variances(self, start: IntArray, stop: IntArray) -> Array:
        """Of sums over the values from each start up to, and without, each stop.

        Where both ends lie in one piece, C falls out of Q_t − Q_s, and Σ_m (R_m − R_{m−l})² serves
        all spans of a length l; the few others are worked out one by one.
        """
        found = np.full(len(start), np.nan)
        length, from_zero = stop - start, start == 0
        found[from_zero] = self.prefix_variances[stop[from_zero] - 1]
        single = (length == 1) & ~from_zero
        found[single] = self.value_variances[start[single]]
        before, last = self.piece[np.maximum(start - 1, 0)], self.piece[stop - 1]
        inside = np.flatnonzero((before == last) & ~from_zero & ~single)
        for each in np.unique(length[inside]):
            some = inside[length[inside] == each]
            steps = self.sums.copy()
            steps[each:] -= self.sums[:-each]
            ends = stop[some] - 1
            found[some] = self._shares[ends] ** 2 * np.cumsum(steps**2)[ends]
        rest = np.flatnonzero(np.isnan(found))
        found[rest] = self._one_by_one(start[rest], stop[rest])
        return found

    def _one_by_one(self, start: IntArray, stop: IntArray) -> Array:
        if len(start) > self.size and self.size <= DENSE_VALUES:
            prefix = np.zeros((self.size + 1, self.size + 1))
            prefix[1:, 1:] = self._prefix_covariance()
            own = np.diagonal(prefix)
            return np.asarray(own[stop] + own[start] - 2 * prefix[start, stop])
        rows = (self._difference(s, t) for s, t in zip(start - 1, stop - 1, strict=True))
        return np.array([row @ row for row in rows])

    def _difference(self, before: int, last: int) -> Array:
        """Q_t − Q_s, over the values up to t."""
        shares, first, end = 1.0 / self.levels, self.piece[before], self.piece[last]
        found = np.asarray(shares[end] * self.sums[last::-1])
        found[: before + 1] -= shares[first] * self.sums[before::-1]
        for p in range(first, end):
            at = int(self.starts[p + 1])
            found[:at] += (shares[p] - shares[p + 1]) * self.sums[at - 1 :: -1]
        return found

    def _prefix_covariance(self) -> Array:
        """QQᵀ, for few values."""
        spread = toeplitz(self.inverse.first, np.zeros(self.size)) * self._shares[:, None]
        rows = np.cumsum(np.tril(spread), axis=0)
        return np.asarray(rows @ rows.T)

    @cached_property
    def range_sum(self) -> float:
        """Σ over all ranges of Var(P_t − P_s) = (n + 1) Σ_k v_k − Var(Σ_k P_k)."""
        weights = np.arange(self.size, 0, -1.0)  # how many prefix sums count each value
        together = float((self.whitened(weights) ** 2).sum())
        return (self.size + 1) * float(self.prefix_variances.sum()) - together
