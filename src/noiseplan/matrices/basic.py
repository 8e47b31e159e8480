"""Identity, total, prefix sums, all ranges, and a plain array."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from noiseplan.matrices.base import Array, Matrix


@dataclass(frozen=True)
class IdentityMatrix(Matrix):
    """One row per value."""

    size: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    def matmul(self, x: Array) -> Array:
        return x

    def gram(self) -> Array:
        return np.eye(self.size)

    def quadratic_rows(self, s: Array) -> Array:
        return np.diagonal(s).copy()

    def take(self, rows: NDArray[np.intp]) -> Array:
        return np.eye(self.size)[rows]


@dataclass(frozen=True)
class TotalMatrix(Matrix):
    """One row of ones."""

    size: int

    @property
    def shape(self) -> tuple[int, int]:
        return 1, self.size

    def matmul(self, x: Array) -> Array:
        return x.sum(axis=0, keepdims=True)

    def gram(self) -> Array:
        return np.ones((self.size, self.size))

    def quadratic_rows(self, s: Array) -> Array:
        return np.array([s.sum()])

    def take(self, rows: NDArray[np.intp]) -> Array:
        return np.ones((len(rows), self.size))


@dataclass(frozen=True)
class PrefixMatrix(Matrix):
    """Row r counts the values up to and including r; the last row is the total."""

    size: int

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

    def take(self, rows: NDArray[np.intp]) -> Array:
        return (np.arange(self.size) <= np.asarray(rows)[:, None]).astype(float)


@dataclass(frozen=True)
class RangesMatrix(Matrix):
    """One row per contiguous interval: those of length 1 first, then length 2, …, the total last."""

    size: int

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
        return prefix[stop] - prefix[start]

    def gram(self) -> Array:
        # Values i ≤ j are both counted by the ranges that start at or before i and end at or after j.
        i = np.arange(self.size)
        return ((np.minimum.outer(i, i) + 1) * (self.size - np.maximum.outer(i, i))).astype(float)

    def quadratic_rows(self, s: Array) -> Array:
        c = np.zeros((self.size + 1, self.size + 1))
        c[1:, 1:] = np.cumsum(np.cumsum(s, axis=0), axis=1)
        start, stop = self._bounds
        return c[stop, stop] - c[start, stop] - c[stop, start] + c[start, start]

    def take(self, rows: NDArray[np.intp]) -> Array:
        start, stop = (bound[rows][:, None] for bound in self._bounds)
        values = np.arange(self.size)
        return ((start <= values) & (values < stop)).astype(float)

    def bounds(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """First value and last value (inclusive) of every row."""
        start, stop = self._bounds
        return start, stop - 1


@dataclass(frozen=True, eq=False)
class DenseMatrix(Matrix):
    """Any matrix, given as numbers."""

    values: Array

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

    def take(self, rows: NDArray[np.intp]) -> Array:
        return self.values[rows]
