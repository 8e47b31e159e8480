"""Identity, total, prefix sums, all ranges, and a plain array."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from noiseplan.errors import QueryError
from noiseplan.matrices.base import Array, Matrix, checked_size


@final
@dataclass(frozen=True)
class IdentityMatrix(Matrix):
    """One row per value.

    Examples
    --------
    >>> IdentityMatrix(2).dense().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    size: int

    def __post_init__(self) -> None:
        checked_size(self.size)

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    def matmul(self, x: Array) -> Array:
        return x

    def gram(self) -> Array:
        return np.eye(self.size)

    def quadratic_rows(self, s: Array) -> Array:
        return np.diagonal(s).copy()

    def row_squares(self) -> Array:
        return np.ones(self.size)

    def take(self, rows: NDArray[np.intp]) -> Array:
        values = np.arange(self.size)
        taken: Array = (values == values[rows][:, None]).astype(float)
        return taken


@final
@dataclass(frozen=True)
class TotalMatrix(Matrix):
    """One row of ones.

    Examples
    --------
    >>> TotalMatrix(3).matmul(np.array([1.0, 2.0, 4.0])).tolist()
    [7.0]
    """

    size: int

    def __post_init__(self) -> None:
        checked_size(self.size)

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

    def row_squares(self) -> Array:
        return np.array([float(self.size)])

    def take(self, rows: NDArray[np.intp]) -> Array:
        return np.ones((1, self.size))[rows]


@final
@dataclass(frozen=True)
class PrefixMatrix(Matrix):
    """Row r counts the values up to and including r; the last row is the total.

    Examples
    --------
    >>> PrefixMatrix(3).dense().tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    """

    size: int

    def __post_init__(self) -> None:
        checked_size(self.size)

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    def matmul(self, x: Array) -> Array:
        return np.cumsum(x, axis=0)

    def gram(self) -> Array:
        # Values i and j are both counted by the rows from max(i, j) on.
        i = np.arange(self.size)
        return (self.size - np.maximum.outer(i, i)).astype(float)

    def quadratic_rows(self, s: Array) -> Array:
        return np.diagonal(np.cumsum(np.cumsum(s, axis=0), axis=1)).copy()

    def row_squares(self) -> Array:
        return np.arange(1.0, self.size + 1.0)

    def take(self, rows: NDArray[np.intp]) -> Array:
        values = np.arange(self.size)
        return (values <= values[rows][:, None]).astype(float)


@final
@dataclass(frozen=True)
class RangesMatrix(Matrix):
    """One row per contiguous interval: those of length 1 first, then length 2, …, the total last.

    Examples
    --------
    >>> RangesMatrix(3).dense().astype(int).tolist()
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 1, 1]]
    """

    size: int

    def __post_init__(self) -> None:
        checked_size(self.size)

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
        c[1:, 1:] = np.cumsum(np.cumsum(s, axis=0), axis=1)
        start, stop = self._bounds
        return c[stop, stop] - c[start, stop] - c[stop, start] + c[start, start]

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

    def row_squares(self) -> Array:
        result: Array = np.einsum("ri,ri->r", self.values, self.values)
        return result

    def take(self, rows: NDArray[np.intp]) -> Array:
        return self.values[rows]
