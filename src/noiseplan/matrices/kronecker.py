"""Kronecker products, one axis at a time; and matrices over some axes of a table.

None ever writes out the rows of prefix sums or ranges: all ranges over 2,048 cells are two million
rows, but their quadratic forms are four terms each of one table of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, numbered
from noiseplan.errors import QueryError
from noiseplan.matrices.base import Array, Matrix, equal_columns
from noiseplan.matrices.basic import TotalMatrix

# Columns of products are compared entry by entry up to so many numbers, beyond factor by factor.
COMPARED: Final = 262_144


@final
@dataclass(frozen=True)
class KroneckerMatrix(Matrix):
    """⊗ factors: one row for each choice of a row of every factor, the last factor's fastest.

    Examples
    --------
    >>> from noiseplan.matrices import PrefixMatrix, TotalMatrix
    >>> rows = KroneckerMatrix((PrefixMatrix(2), TotalMatrix(2)))
    >>> rows.dense().tolist(), rows.weighted_gram(np.array([1.0, 10.0]))[0].tolist()
    ([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]], [11.0, 11.0, 10.0, 10.0])
    """

    factors: tuple[Matrix, ...]

    @cached_property
    def _rows(self) -> tuple[int, ...]:
        return tuple(factor.shape[0] for factor in self.factors)

    @cached_property
    def _widths(self) -> tuple[int, ...]:
        return tuple(factor.shape[1] for factor in self.factors)

    @property
    def shape(self) -> tuple[int, int]:
        return prod(self._rows), prod(self._widths)

    def matmul(self, x: Array) -> Array:
        tensor = x.reshape(*self._widths, prod(x.shape[1:]))
        return kronecker_apply(self.factors, tensor).reshape(self.shape[0], *x.shape[1:])

    def gram(self) -> Array:
        return kronecker_dense([factor.gram() for factor in self.factors])

    def quadratic_rows(self, s: Array) -> Array:
        if s.shape != (self.shape[1],) * 2:
            raise QueryError(
                f"factors of widths {self._widths} need a matrix over {self.shape[1]:,} cells, "
                f"found shape {s.shape}"
            )
        return self.forms(s[:, :, None])[:, 0].copy()

    def forms(self, t: Array) -> Array:
        k, widths = len(self.factors), self._widths
        tensor = t.reshape(*widths, *widths, t.shape[2])
        # What shrinks most goes first.
        for i in sorted(range(k), key=lambda i: self._rows[i] / widths[i] ** 2):
            front = np.moveaxis(tensor, (i, k + i), (0, 1))
            found = self.factors[i].forms(front.reshape(widths[i], widths[i], -1))
            tensor = np.moveaxis(found.reshape(-1, 1, *front.shape[2:]), (0, 1), (i, k + i))
        return tensor.reshape(self.shape[0], t.shape[2])

    def weighted_grams(self, u: Array) -> Array:
        k, widths = len(self.factors), self._widths
        tensor = u.reshape(*self._rows, *(1,) * k, u.shape[1])
        # What grows most goes last.
        for i in sorted(range(k), key=lambda i: widths[i] ** 2 / self._rows[i]):
            front = np.moveaxis(tensor, (i, k + i), (0, 1))
            found = self.factors[i].weighted_grams(front.reshape(self._rows[i], -1))
            wide = found.reshape(widths[i], widths[i], *front.shape[2:])
            tensor = np.moveaxis(wide, (0, 1), (i, k + i))
        size = self.shape[1]
        return np.ascontiguousarray(tensor.reshape(size, size, u.shape[1]))

    def column_kinds(self) -> IntArray:
        """Columns of products with many rows are compared factor by factor.

        ⊗c_i = ⊗d_i if c_i = d_i for all i, or if some c_i and some d_i are zero. For rows of zeros
        and ones there is no other way; in general a few equal columns may keep different numbers.
        """
        told = [i for i, f in enumerate(self.factors) if not isinstance(f, TotalMatrix)]
        if len(told) < len(self.factors):  # the others are summed over, and tell nothing apart
            inner = KroneckerMatrix(tuple(self.factors[i] for i in told))
            return SummedMatrix(inner, self._widths, tuple(told)).column_kinds()
        if prod(self.shape) <= COMPARED:
            return equal_columns(self.dense())
        kinds = np.ones(1, dtype=np.int64)
        for factor in self.factors:
            own = factor.column_kinds()
            pairs = kinds[:, None] * (own.max() + 1) + own
            pairs[np.multiply.outer(kinds, own) == 0] = 0
            kinds = numbered(pairs.ravel())[1] + int(pairs.min() > 0)
        return kinds

    def take_columns(self, columns: NDArray[np.intp]) -> Array:
        wanted = np.arange(self.shape[1])[columns]
        places, found = np.unravel_index(wanted, (1, *self._widths))[1:], np.ones((1, len(wanted)))
        for factor, place in zip(self.factors, places, strict=True):
            spread = found[:, None, :] * factor.take_columns(place)[None, :, :]
            found = spread.reshape(spread.shape[0] * spread.shape[1], len(wanted))
        return found

    def row_squares(self) -> Array:
        return kronecker_dense([factor.row_squares()[:, None] for factor in self.factors])[:, 0]

    def take(self, rows: NDArray[np.intp]) -> Array:
        wanted = np.arange(self.shape[0])[rows]
        found = np.ones((len(wanted), 1))
        places = np.unravel_index(wanted, (1, *self._rows))[1:]  # of no factors at all as well
        for factor, place in zip(self.factors, places, strict=True):
            spread = np.einsum("ri,rj->rij", found, factor.take(place))
            found = spread.reshape(len(wanted), spread.shape[1] * spread.shape[2])
        return found


@final
@dataclass(frozen=True)
class SummedMatrix(Matrix):
    """A matrix over the table of some axes, as one over all: the other axes are summed over.

    `widths` are those of all axes; the axes numbered in `kept`, ascending, are `inner`'s.

    Examples
    --------
    >>> from noiseplan.matrices import IdentityMatrix
    >>> SummedMatrix(IdentityMatrix(2), (3, 2), (1,)).matmul(np.arange(6.0)).tolist()
    [6.0, 9.0]
    """

    inner: Matrix
    widths: tuple[int, ...]
    kept: tuple[int, ...]

    @cached_property
    def _summed(self) -> tuple[int, ...]:
        return tuple(i for i in range(len(self.widths)) if i not in self.kept)

    @cached_property
    def _narrow(self) -> tuple[int, ...]:
        return tuple(n if i in self.kept else 1 for i, n in enumerate(self.widths))

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape[0], prod(self.widths)

    def matmul(self, x: Array) -> Array:
        cells = x.reshape(*self.widths, *x.shape[1:]).sum(axis=self._summed)
        return self.inner.matmul(cells.reshape(self.inner.shape[1], *x.shape[1:]))

    def gram(self) -> Array:
        return self._widened(self.inner.gram()[..., None])[..., 0]

    def quadratic_rows(self, s: Array) -> Array:
        return self.forms(s[:, :, None])[:, 0].copy()

    def forms(self, t: Array) -> Array:
        both = (*self._summed, *(len(self.widths) + i for i in self._summed))
        narrow = t.reshape(*self.widths, *self.widths, t.shape[2]).sum(axis=both)
        return self.inner.forms(narrow.reshape(*(self.inner.shape[1],) * 2, t.shape[2]))

    def weighted_grams(self, u: Array) -> Array:
        return self._widened(self.inner.weighted_grams(u))

    def column_kinds(self) -> IntArray:
        kinds = self.inner.column_kinds().reshape(self._narrow)
        return np.array(np.broadcast_to(kinds, self.widths), order="C").ravel()

    def take_columns(self, columns: NDArray[np.intp]) -> Array:
        cells = np.arange(self.inner.shape[1]).reshape(self._narrow)
        return self.inner.take_columns(np.broadcast_to(cells, self.widths).ravel()[columns])

    def row_squares(self) -> Array:
        return np.asarray(self.shape[1] // self.inner.shape[1] * self.inner.row_squares())

    def take(self, rows: NDArray[np.intp]) -> Array:
        taken = self.inner.take(rows)
        spread = np.broadcast_to(
            taken.reshape(len(taken), *self._narrow), (len(taken), *self.widths)
        )
        return np.array(spread, order="C").reshape(len(taken), self.shape[1])

    def _widened(self, narrow: Array) -> Array:
        """Square matrices over the kept axes as ones over all: the same in every slice."""
        batch, size = narrow.shape[2], self.shape[1]
        spread = narrow.reshape(*self._narrow, *self._narrow, batch)
        wide = np.broadcast_to(spread, (*self.widths, *self.widths, batch))
        return np.array(wide, order="C").reshape(size, size, batch)


def kronecker_apply(factors: Sequence[Matrix | Array], x: Array) -> Array:
    """Apply ⊗ factors to a batch of tensors.

    Parameters
    ----------
    factors
        One matrix (rows_i × n_i) per axis, structured or plain.
    x
        Shape (n_1, …, n_k, batch). The batch comes last so that every product is one matrix times a
        long row of columns, with nothing to transpose.

    Returns
    -------
    Array of shape (rows_1, …, rows_k, batch).

    Examples
    --------
    >>> from noiseplan.matrices import PrefixMatrix
    >>> table, total = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 1.0]])
    >>> kronecker_apply([PrefixMatrix(2), total], table[..., None])[..., 0].tolist()
    [[3.0], [10.0]]
    """
    widths = tuple(factor.shape[1] for factor in factors)
    if widths != x.shape[: len(widths)]:
        raise QueryError(
            f"factors of widths {widths} cannot be applied to a tensor of shape {x.shape}: "
            f"one factor per leading axis, as wide as the axis is long, then the batch"
        )
    for axis, factor in enumerate(factors):
        x = apply_along(factor, x, axis)
    return x


def apply_along(factor: Matrix | Array, x: Array, axis: int) -> Array:
    """One factor applied along one axis of a tensor."""
    shape = x.shape
    before, after = prod(shape[:axis]), prod(shape[axis + 1 :])
    if isinstance(factor, Matrix):
        moved = factor.matmul(np.moveaxis(x, axis, 0))
        return np.moveaxis(moved, 0, axis)
    if after == 1:  # a last axis without a batch: rows times the transposed factor
        y = x.reshape(before, shape[axis]) @ factor.T
    elif after < 16 < before:  # short columns: one product over all, not `before` small ones
        y = np.tensordot(x.reshape(before, shape[axis], after), factor, axes=(1, 1)).swapaxes(1, 2)
    else:
        y = np.matmul(factor, x.reshape(before, shape[axis], after))
    return y.reshape(*shape[:axis], factor.shape[0], *shape[axis + 1 :])


def kronecker_dense(factors: Sequence[Array]) -> Array:
    """⊗ factors as numbers (small sizes only); the empty product is the number one.

    Examples
    --------
    >>> kronecker_dense([np.array([[1.0, 1.0]]), np.eye(2)]).tolist()
    [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]]
    """
    result: Array = np.ones((1, 1))
    for factor in factors:  # as np.kron does it, which asks much about its arguments first
        own = np.atleast_2d(factor)
        shape = len(result) * len(own), result.shape[1] * own.shape[1]
        result = (result[:, None, :, None] * own[None, :, None, :]).reshape(shape)
    return np.asarray(result, dtype=np.float64)
