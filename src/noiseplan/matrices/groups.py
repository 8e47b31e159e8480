"""Sums over groups of values: one number per value instead of a row per group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array, Matrix, checked_size

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
