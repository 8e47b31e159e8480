"""Least squares among the rows of a workload, in their row space, whatever the number of cells.

Some rows W₁ are a basis of all rows W = [W₁; W₂], and the others follow from them: W₂ = HW₁. Both
are read off the Gram matrix, whose Cholesky factor with pivoting is WWᵀ = LLᵀ, L = [L₁; L₂]:

    W = LOᵀ with orthonormal O ,    H = L₂L₁⁻¹ ,    a query Q is TW₁ with T = (QW₁ᵀ)(L₁L₁ᵀ)⁻¹ .
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Final

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cholesky, lapack, solve_triangular

from noiseplan.arrays import IntArray
from noiseplan.domain.stacked_rows import StackedRows
from noiseplan.matrices import (
    DenseMatrix,
    GroupMatrix,
    IdentityMatrix,
    Matrix,
    PaddedMatrix,
    PrefixMatrix,
)
from noiseplan.matrices.base import Array
from noiseplan.matrices.composed import stacked_parts
from noiseplan.mechanisms.leastsquares import LeastSquares
from noiseplan.queries import Query

# Of a row of unit length, what is left outside the span of others if it lies in it, squared. A row
# that is kept though it lies in it costs a little accuracy, and no answer is wrong.
RANK_FLOOR: Final = 1e-11
# A query lies in the row space if no more than this of its squared length is outside.
OUTSIDE: Final = 1e-11


@dataclass(frozen=True, eq=False)
class RowSpace:
    """The row space of some queries."""

    rows: StackedRows

    @cached_property
    def _pivoted(self) -> tuple[IntArray, Array]:
        """The rows with those of the basis first, and L in this order."""
        gram = self.rows.gram(self.rows)
        lengths = np.sqrt(np.diagonal(gram))
        lengths = np.where(lengths > 0, lengths, 1.0)
        unit = gram / lengths / lengths[:, None]
        factor, order, rank, _ = lapack.dpstrf(unit, tol=RANK_FLOOR, lower=1, overwrite_a=1)
        order = order - 1
        return order, np.tril(factor)[:, :rank] * lengths[order, None]

    @property
    def basis(self) -> IntArray:
        """The rows W₁."""
        order, lower = self._pivoted
        return order[: lower.shape[1]]

    @property
    def others(self) -> IntArray:
        """The rows W₂."""
        order, lower = self._pivoted
        return order[lower.shape[1] :]

    @property
    def _first(self) -> Array:
        """L₁."""
        lower = self._pivoted[1]
        return lower[: lower.shape[1]]

    @property
    def lower(self) -> Array:
        """L, rows as they are."""
        order, lower = self._pivoted
        found = np.empty_like(lower)
        found[order] = lower
        return found

    @cached_property
    def relations(self) -> Array:
        """H."""
        second = self._pivoted[1][len(self.basis) :]
        return _solved(self._first, second.T, turned=True).T

    def coefficients(self, query: Query) -> sp.csr_array | None:
        """T, as sums over all rows; None where the query is outside the row space, as one of higher
        rank is: its rows may be too many to be written down."""
        if _least_rank(query) > len(self.basis):
            return None
        own = StackedRows.of(self.rows.schema, [query])
        inside = self._inside(own)
        squares = own.squares()
        if (squares - (inside**2).sum(axis=0) > OUTSIDE * squares).any():
            return None
        return self._sums(inside)

    def nearest(self, query: Query) -> sp.csr_array:
        """T of what lies in the row space of a query: QOOᵀ = TW₁."""
        return self._sums(self._inside(StackedRows.of(self.rows.schema, [query])))

    def solved(self, rows: Array) -> Array:
        """(W₁W₁ᵀ)⁻¹ times numbers of the rows, of W₁; zero for the others."""
        found = np.zeros(len(self.rows))
        inside = _solved(self._first, rows[self.basis])
        found[self.basis] = _solved(self._first, inside, turned=True)
        return found

    def _inside(self, own: StackedRows) -> Array:
        """(QO)ᵀ."""
        return _solved(self._first, own.gram(self.rows)[:, self.basis].T)

    def _sums(self, inside: Array) -> sp.csr_array:
        found = np.zeros((inside.shape[1], len(self.rows)))
        found[:, self.basis] = _solved(self._first, inside, turned=True).T
        return sp.csr_array(found)


def _solved(lower: Array, right: Array, turned: bool = False) -> Array:
    """L⁻¹ or, turned, L⁻ᵀ times something."""
    if not right.size:
        return right
    return np.asarray(solve_triangular(lower, right, lower=True, trans="T" if turned else "N"))


@dataclass(frozen=True, eq=False)
class OwnEstimates:
    """The best unbiased estimates of all rows, each measured with noise of its own variance d.

    What the rows must satisfy, Ny = 0 with N = [−H, 1], tells how far the noise has carried them:
    with NDNᵀ = RRᵀ and B = R⁻¹ND

        ŷ = y − Bᵀ R⁻¹Ny ,    covariance D − BᵀB .

    Without a space each row is what was measured of it.
    """

    variances: Array
    space: RowSpace | None

    @cached_property
    def _factor(self) -> tuple[Array, Array]:
        """N and R, the columns of N in the order of the rows."""
        if self.space is None:
            return np.zeros((0, len(self.variances))), np.zeros((0, 0))
        n = np.zeros((len(self.space.others), len(self.variances)))
        n[:, self.space.basis] = -self.space.relations
        n[np.arange(len(n)), self.space.others] = 1.0
        return n, np.asarray(cholesky((n * self.variances) @ n.T, lower=True)) if len(n) else n[
            :, :0
        ]

    @cached_property
    def _known(self) -> Array:
        """B."""
        n, lower = self._factor
        return _solved(lower, n * self.variances)

    def answers(self, measured: Array) -> Array:
        """ŷ."""
        n, lower = self._factor
        return np.asarray(measured - self._known.T @ _solved(lower, n @ measured))

    def variance(self, asked: sp.csr_array) -> Array:
        """Of sums of rows, each."""
        known = (asked @ self._known.T) ** 2
        found = (asked * asked) @ self.variances - known.sum(axis=1)
        return np.asarray(np.maximum(found, 0.0))

    def covariance(self, one: sp.csr_array, two: sp.csr_array) -> Array:
        """Of sums of rows with others."""
        plain = (one * self.variances[None, :]) @ two.T
        return np.asarray(plain.toarray() - (one @ self._known.T) @ (two @ self._known.T).T)

    def determines(self, asked: sp.csr_array) -> bool:
        """All that are sums of rows are known."""
        return True


@dataclass(frozen=True, eq=False)
class MixedEstimates:
    """The same where sums C of rows are measured: least squares of ξ = Oᵀx from CLξ."""

    variances: Array
    space: RowSpace
    mix: Array

    @cached_property
    def _fit(self) -> LeastSquares:
        return LeastSquares((self.mix @ self._lower) / np.sqrt(self.variances)[:, None])

    @cached_property
    def _lower(self) -> Array:
        return self.space.lower

    def answers(self, measured: Array) -> Array:
        """All rows."""
        return np.asarray(self._lower @ self._fit.estimate(measured / np.sqrt(self.variances)))

    def variance(self, asked: sp.csr_array) -> Array:
        """Of sums of rows, each."""
        forms = DenseMatrix(asked @ self._lower).quadratic_rows(self._fit.spread)
        return np.asarray(np.maximum(forms, 0.0))

    def covariance(self, one: sp.csr_array, two: sp.csr_array) -> Array:
        """Of sums of rows with others."""
        return np.asarray((one @ self._lower) @ self._fit.spread @ (two @ self._lower).T)

    def determines(self, asked: sp.csr_array) -> bool:
        """Whether the sums that are measured tell these."""
        return self._fit.determines(DenseMatrix(asked @ self._lower))


def _least_rank(query: Query) -> int:
    """A rank that a query has at least: that of a product is the product."""
    if query.joint is not None:
        return 1
    ranks = (map(_full_rank, stacked_parts(matrix)) for matrix in query.matrices())
    return prod(max(each) for each in ranks)


def _full_rank(matrix: Matrix) -> int:
    """The rows of what has as many dimensions; one of what may have fewer."""
    while isinstance(matrix, PaddedMatrix):
        matrix = matrix.inner
    independent = isinstance(matrix, IdentityMatrix | GroupMatrix | PrefixMatrix)
    return matrix.shape[0] if independent else 1
