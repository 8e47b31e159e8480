"""Identity, total, prefix sums, all ranges, groups of values, and a plain array."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.errors import QueryError
from noiseplan.matrices.base import Array, Matrix, SizedMatrix, checked_size, equal_columns


@final
@dataclass(frozen=True)
class IdentityMatrix(SizedMatrix):
    """One row per value.

    Examples
    --------
    >>> IdentityMatrix(2).dense().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    @property
    def touched(self) -> int:
        """How many numbers one record can change, by one each."""
        return 1

    def matmul(self, x: Array) -> Array:
        return x

    def recover(self, y: Array) -> Array:
        """The values that y was made of."""
        return y

    def gram(self) -> Array:
        return np.eye(self.size)

    def quadratic_rows(self, s: Array) -> Array:
        return np.diagonal(s).copy()

    def forms(self, t: Array) -> Array:
        return t[np.arange(self.size), np.arange(self.size)]

    def weighted_grams(self, u: Array) -> Array:
        diagonal = np.zeros((self.size, self.size, u.shape[1]))
        diagonal[np.arange(self.size), np.arange(self.size)] = u
        return diagonal

    def column_kinds(self) -> IntArray:
        return np.arange(1, self.size + 1)

    def row_squares(self) -> Array:
        return np.ones(self.size)

    def take(self, rows: NDArray[np.intp]) -> Array:
        values = np.arange(self.size)
        taken: Array = (values == values[rows][:, None]).astype(float)
        return taken


@final
@dataclass(frozen=True)
class TotalMatrix(SizedMatrix):
    """One row of ones.

    Examples
    --------
    >>> TotalMatrix(3).matmul(np.array([1.0, 2.0, 4.0])).tolist()
    [7.0]
    """

    @property
    def shape(self) -> tuple[int, int]:
        return 1, self.size

    def matmul(self, x: Array) -> Array:
        total: Array = x.sum(axis=0, keepdims=True)
        return total

    def gram(self) -> Array:
        return np.ones((self.size, self.size))

    def quadratic_rows(self, s: Array) -> Array:
        return np.array([s.sum()])

    def forms(self, t: Array) -> Array:
        return np.asarray(t.sum(axis=(0, 1)))[None]

    def weighted_grams(self, u: Array) -> Array:
        return np.broadcast_to(u[0], (self.size, self.size, u.shape[1]))

    def column_kinds(self) -> IntArray:
        return np.ones(self.size, dtype=np.int64)

    def row_squares(self) -> Array:
        return np.array([float(self.size)])

    def take(self, rows: NDArray[np.intp]) -> Array:
        return np.ones((1, self.size))[rows]


@final
@dataclass(frozen=True)
class PrefixMatrix(SizedMatrix):
    """Row r counts the values up to and including r; the last row is the total.

    Examples
    --------
    >>> PrefixMatrix(3).dense().tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    """

    def matmul(self, x: Array) -> Array:
        return np.cumsum(x, axis=0)

    def gram(self) -> Array:
        # Values i and j are both counted by the rows from max(i, j) on.
        i = np.arange(self.size)
        return (self.size - np.maximum.outer(i, i)).astype(float)

    def quadratic_rows(self, s: Array) -> Array:
        return np.diagonal(_sums(s)).copy()

    def forms(self, t: Array) -> Array:
        return _sums(t)[np.arange(self.size), np.arange(self.size)]

    def weighted_grams(self, u: Array) -> Array:
        # Values i and j are both counted by the rows from max(i, j) on.
        cells, tails = np.arange(self.size), np.cumsum(u[::-1], axis=0)[::-1]
        return tails[np.maximum.outer(cells, cells)]

    def column_kinds(self) -> IntArray:
        return np.arange(1, self.size + 1)

    def row_squares(self) -> Array:
        return np.arange(1.0, self.size + 1.0)

    def take(self, rows: NDArray[np.intp]) -> Array:
        values = np.arange(self.size)
        return (values <= values[rows][:, None]).astype(float)


@final
@dataclass(frozen=True)
class RangesMatrix(SizedMatrix):
    """One row per contiguous interval: those of length 1 first, then length 2, …, the total last.

    Examples
    --------
    >>> RangesMatrix(3).dense().astype(int).tolist()
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 1, 1]]
    """

    @property
    def shape(self) -> tuple[int, int]:
        return self.size * (self.size + 1) // 2, self.size

    @cached_property
    def _bounds(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """First value and one past the last value of every row."""
        n = self.size
        starts = np.concatenate([np.arange(n - length + 1) for length in range(1, n + 1)])
        lengths = np.repeat(np.arange(1, n + 1), np.arange(n, 0, -1))
        return starts, starts + lengths

    def matmul(self, x: Array) -> Array:
        prefix = np.concatenate([np.zeros_like(x[:1]), np.cumsum(x, axis=0)])
        start, stop = self._bounds
        sums: Array = prefix[stop] - prefix[start]
        return sums

    def gram(self) -> Array:
        # Values i ≤ j are both counted by the ranges that start by i and end at j or later.
        i = np.arange(self.size)
        counts: Array = (np.minimum.outer(i, i) + 1.0) * (self.size - np.maximum.outer(i, i))
        return counts

    def quadratic_rows(self, s: Array) -> Array:
        c = np.zeros((self.size + 1, self.size + 1))
        c[1:, 1:] = _sums(s)
        start, stop = self._bounds
        return c[stop, stop] - c[start, stop] - c[stop, start] + c[start, start]

    def forms(self, t: Array) -> Array:
        sums = np.zeros((self.size + 1, self.size + 1, t.shape[2]))
        sums[1:, 1:] = _sums(t)
        start, stop = self._bounds
        found = sums[stop, stop] + sums[start, start]
        found -= sums[start, stop]
        found -= sums[stop, start]
        return found

    def weighted_grams(self, u: Array) -> Array:
        # Values i ≤ j are both counted by the ranges that start by i and end at j or later.
        cells, (first, last) = np.arange(self.size), self.bounds()
        by_ends = np.zeros((self.size, self.size, u.shape[1]))
        by_ends[first, last] = u
        np.cumsum(by_ends, axis=0, out=by_ends)
        sums = np.cumsum(by_ends[:, ::-1], axis=1)[:, ::-1]
        return sums[np.minimum.outer(cells, cells), np.maximum.outer(cells, cells)]

    def column_kinds(self) -> IntArray:
        return np.arange(1, self.size + 1)

    def row_squares(self) -> Array:
        start, stop = self._bounds
        return (stop - start).astype(np.float64)

    def take(self, rows: NDArray[np.intp]) -> Array:
        start, stop = (bound[rows][:, None] for bound in self._bounds)
        values = np.arange(self.size)
        return ((start <= values) & (values < stop)).astype(float)

    def bounds(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """First value and last value (inclusive) of every row."""
        start, stop = self._bounds
        return start, stop - 1


@final
@dataclass(frozen=True, eq=False)
class DenseMatrix(Matrix):
    """Any matrix, given as numbers.

    Examples
    --------
    >>> DenseMatrix(np.array([[1.0, 2.0]])).gram().tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """

    values: Array

    def __post_init__(self) -> None:
        if self.values.ndim != 2:
            raise QueryError(
                f"DenseMatrix needs a two-dimensional array, found shape {self.values.shape}; "
                f"a single row is written values[None, :]"
            )
        checked_size(self.values.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    def matmul(self, x: Array) -> Array:
        return np.tensordot(self.values, x, axes=1)

    def gram(self) -> Array:
        return self.values.T @ self.values

    def quadratic_rows(self, s: Array) -> Array:
        result: Array = np.einsum("ri,ri->r", self.values @ s, self.values)
        return result

    def column_kinds(self) -> IntArray:
        return equal_columns(self.values)

    def row_squares(self) -> Array:
        result: Array = np.einsum("ri,ri->r", self.values, self.values)
        return result

    def take(self, rows: NDArray[np.intp]) -> Array:
        return self.values[rows]


def _sums(t: Array) -> Array:
    """Sums over all values up to i and up to j."""
    sums = np.cumsum(t, axis=0)
    return np.cumsum(sums, axis=1, out=sums)


# A matrix of so few numbers is written out to be applied.
FEW: Final = 1 << 16


@final
@dataclass(frozen=True, eq=False)
class GroupMatrix(Matrix):
    """Row g counts the values of group g; every value is in one group, and no group is empty.

    Examples
    --------
    >>> GroupMatrix(np.array([0, 1, 0])).dense().astype(int).tolist()
    [[1, 0, 1], [0, 1, 0]]
    """

    group: IntArray

    def __post_init__(self) -> None:
        checked_size(len(self.group))

    @cached_property
    def _sorted(self) -> tuple[IntArray, IntArray]:
        """Values by group, and where each group begins."""
        order = np.argsort(self.group, kind="stable")
        return order, np.searchsorted(self.group[order], np.arange(self.shape[0]))

    @cached_property
    def shape(self) -> tuple[int, int]:
        return int(self.group.max()) + 1, len(self.group)

    def matmul(self, x: Array) -> Array:
        rows, columns = self.shape
        if rows * columns <= FEW:  # answers of earlier versions keep their last digits
            return np.tensordot(self.dense(), x, axes=1)
        order, begin = self._sorted
        return np.asarray(np.add.reduceat(x[order], begin, axis=0))

    def gram(self) -> Array:
        return np.asarray(self.group[:, None] == self.group, dtype=np.float64)

    def quadratic_rows(self, s: Array) -> Array:
        return np.asarray(np.bincount(self.group, self.matmul(s)[self.group, np.arange(len(s))]))

    def weighted_grams(self, u: Array) -> Array:
        return np.asarray(self.gram()[..., None] * u[self.group])

    def column_kinds(self) -> IntArray:
        return self.group + 1

    def row_squares(self) -> Array:
        return np.bincount(self.group).astype(float)

    def take_columns(self, columns: NDArray[np.intp]) -> Array:
        numbers = np.arange(self.shape[0])
        return np.asarray(self.group[columns] == numbers[:, None], dtype=np.float64)

    def take(self, rows: NDArray[np.intp]) -> Array:
        numbers = np.arange(self.shape[0])[rows]
        return np.asarray(self.group == numbers[:, None], dtype=np.float64)
