"""Least squares among the rows of a workload, in their row space, whatever the number of cells.

Some rows W₁ are a basis of all rows W = [W₁; W₂], and the others follow from them: W₂ = HW₁. Both
are read off the Gram matrix, whose Cholesky factor with pivoting is WWᵀ = LLᵀ, L = [L₁; L₂]:

    W = LOᵀ with orthonormal O ,    H = L₂L₁⁻¹ ,    a query Q is TW₁ with T = (QW₁ᵀ)(L₁L₁ᵀ)⁻¹ .

Where noise is far larger on some rows than on others, the basis is taken of the precise rows first,
and of rows with more noise only what these do not tell. So a row follows from rows of the basis
with no more noise than its own, or not much more, and where H would have nothing but rounding, that
is times noise of any size, it has zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Final

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cholesky, lapack, solve_triangular

from noiseplan.arrays import IntArray, immutable
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
# Rows whose noise differs by less than this factor are taken into the basis as they come.
ALIKE: Final = 1e4
# What a row has of others is rounding alone if it is no more of its squared length.
ROUNDING: Final = 1e-20


@immutable
@dataclass(frozen=True, eq=False)
class RowSpace:
    """The row space of some queries, whose rows may have noise of these variances."""

    rows: StackedRows
    variances: Array | None = None

    @cached_property
    def _factored(self) -> tuple[IntArray, Array, list[int]]:
        """The basis, L of the rows as they are, and where the columns of each kind end.

        What is left of rows of one kind, the precise first, is factored with pivoting, and the rest
        of them loses what these tell of it (Schur complements). Rows have no columns of later kinds
        than their own, nor of kinds after those that tell them.
        """
        left = self.rows.gram(self.rows)
        lengths = np.sqrt(np.diagonal(left))
        lengths = np.where(lengths > 0, lengths, 1.0)
        left /= lengths
        left /= lengths[:, None]
        basis, columns, rest = [], [], np.ones(len(left), dtype=bool)
        for own in self._kinds(lengths):
            some = own[rest[own]]
            rest[own] = False
            block = left[np.ix_(some, some)]
            factor, order, rank, _ = lapack.dpstrf(block, tol=RANK_FLOOR, lower=1, overwrite_a=1)
            place, found = some[order - 1], np.zeros((len(left), rank))
            found[place] = np.tril(factor)[:, :rank]
            later = np.flatnonzero(rest)
            if rank and len(later):
                new = left[np.ix_(place[:rank], later)]
                found[later] = _solved(found[place[:rank]], new).T
                left[np.ix_(later, later)] -= found[later] @ found[later].T
                rest[later] = np.diagonal(left)[later] > RANK_FLOOR
            basis.append(place[:rank])
            columns.append(found * lengths[:, None])
        ends = np.cumsum([each.shape[1] for each in columns]).tolist()
        return np.concatenate(basis), np.concatenate(columns, axis=1), ends

    def _kinds(self, lengths: Array) -> list[IntArray]:
        """Rows with noise of about one size, for rows of unit length; the precise first."""
        if self.variances is None:
            return [np.arange(len(lengths))]
        size = np.log(self.variances / lengths**2)
        kind = np.floor((size - size.min()) / np.log(ALIKE))
        return [np.flatnonzero(kind == each) for each in np.unique(kind)]

    @property
    def basis(self) -> IntArray:
        """The rows W₁."""
        return self._factored[0]

    @cached_property
    def others(self) -> IntArray:
        """The rows W₂."""
        return np.setdiff1d(np.arange(len(self.rows)), self.basis)

    @cached_property
    def _first(self) -> Array:
        """L₁."""
        return self.lower[self.basis]

    @property
    def lower(self) -> Array:
        """L, rows as they are."""
        return self._factored[1]

    @cached_property
    def relations(self) -> Array:
        """H."""
        return _solved(self._first, self.lower[self.others].T, turned=True).T

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
        """T, without rows of the basis with more noise that come in by rounding alone."""
        squares = inside**2
        for end in self._factored[2][:-1]:
            told = squares[end:].sum(axis=0) <= ROUNDING * squares.sum(axis=0)
            inside[end:, told] = 0.0
        found = np.zeros((inside.shape[1], len(self.rows)))
        found[:, self.basis] = _solved(self._first, inside, turned=True).T
        return sp.csr_array(found)


def _solved(lower: Array, right: Array, turned: bool = False) -> Array:
    """L⁻¹ or, turned, L⁻ᵀ times something."""
    if not right.size:
        return right
    return np.asarray(solve_triangular(lower, right, lower=True, trans="T" if turned else "N"))


@immutable
@dataclass(frozen=True, eq=False)
class OwnEstimates:
    """The best unbiased estimates of all rows, each measured with noise of its own variance d.

    All rows are F = [1; H] times those of the basis, and in units of their noise, K = D₂^{−1/2} H
    D₁^{1/2}, what the others tell of these is least squares with the precision 1 + KᵀK:

        ŷ = F(y₁ + D₁^{1/2} G D₂^{−1/2} (y₂ − Hy₁)) ,   G = (1 + KᵀK)⁻¹Kᵀ = Kᵀ(1 + KKᵀ)⁻¹ ,
        covariance V(1 + KᵀK)⁻¹Vᵀ = V(1 − GK)Vᵀ ,       V = FD₁^{1/2} .

    Whichever is smaller is factored. Where the basis is of the precise rows first, no K is much
    larger than H, and no digits are lost however far noise differs; differences of all rows'
    variances and what the others tell of them would lose all.

    Without a space each row is what was measured of it.
    """

    variances: Array
    space: RowSpace | None

    @cached_property
    def _basis(self) -> IntArray:
        return np.arange(len(self.variances)) if self.space is None else self.space.basis

    @cached_property
    def _others(self) -> IntArray:
        return np.zeros(0, dtype=np.int64) if self.space is None else self.space.others

    @cached_property
    def _relations(self) -> Array:
        """H."""
        return np.zeros((0, len(self._basis))) if self.space is None else self.space.relations

    @cached_property
    def _rows(self) -> sp.csr_array:
        """F, rows as they are."""
        row, column = np.nonzero(self._relations)
        count = len(self._basis)
        entries = np.concatenate([np.ones(count), self._relations[row, column]])
        places = (
            np.concatenate([self._basis, self._others[row]]),
            np.concatenate([np.arange(count), column]),
        )
        return sp.csr_array((entries, places), shape=(len(self.variances), count))

    @cached_property
    def _own(self) -> Array:
        """D₁."""
        return self.variances[self._basis]

    @cached_property
    def _told(self) -> Array:
        """K."""
        return np.asarray((self._relations * np.sqrt(self._own)) / self._deviations[:, None])

    @property
    def _deviations(self) -> Array:
        """D₂^{1/2}."""
        return np.sqrt(self.variances[self._others])

    @property
    def _fewer(self) -> bool:
        """Whether the rows of the basis are fewer than the others."""
        return len(self._basis) < len(self._others)

    @cached_property
    def _lower(self) -> Array:
        """R, of 1 + KᵀK or 1 + KKᵀ."""
        told = self._told.T if self._fewer else self._told
        gram = told @ told.T
        gram[np.diag_indices(len(gram))] += 1.0
        return np.asarray(cholesky(gram, lower=True, overwrite_a=True)) if len(gram) else gram

    @cached_property
    def _known(self) -> Array:
        """R⁻¹K D₁^{1/2}, of R of the others."""
        return np.asarray(_solved(self._lower, self._told) * np.sqrt(self._own))

    def answers(self, measured: Array) -> Array:
        """ŷ."""
        first = measured[self._basis]
        apart = (measured[self._others] - self._relations @ first) / self._deviations
        if self._fewer:
            moved = _solved(self._lower, _solved(self._lower, self._told.T @ apart), turned=True)
            moved *= np.sqrt(self._own)
        else:
            moved = self._known.T @ _solved(self._lower, apart)
        return np.asarray(self._rows @ (first + moved))

    def variance(self, asked: sp.csr_array) -> Array:
        """Of sums of rows, each."""
        rows = sp.csr_array(asked @ self._rows)
        if self._fewer:
            return np.asarray((self._halves(rows) ** 2).sum(axis=0))
        known = ((rows @ self._known.T) ** 2).sum(axis=1)
        return np.asarray(np.maximum(rows.power(2) @ self._own - known, 0.0))

    def covariance(self, one: sp.csr_array, two: sp.csr_array) -> Array:
        """Of sums of rows with others."""
        a, b = (sp.csr_array(each @ self._rows) for each in (one, two))
        if self._fewer:
            return np.asarray(self._halves(a).T @ self._halves(b))
        known = (a @ self._known.T) @ (b @ self._known.T).T
        return np.asarray(((a * self._own) @ b.T).toarray() - known)

    def _halves(self, rows: sp.csr_array) -> Array:
        """R⁻¹Vᵀ of sums of the basis, of R of the basis."""
        return _solved(self._lower, (rows * np.sqrt(self._own)).toarray().T)

    def determines(self, asked: sp.csr_array) -> bool:
        """All that are sums of rows are known."""
        return True


@immutable
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
