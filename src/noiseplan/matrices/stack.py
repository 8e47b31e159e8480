"""Matrices on top of each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, unique_rows
from noiseplan.errors import QueryError
from noiseplan.matrices.base import Array, Matrix


@final
@dataclass(frozen=True)
class StackMatrix(Matrix):
    """The rows of several matrices of equal width, one block after the other.

    Examples
    --------
    >>> from noiseplan.matrices import IdentityMatrix, TotalMatrix
    >>> StackMatrix((IdentityMatrix(2), TotalMatrix(2))).dense().tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    """

    blocks: tuple[Matrix, ...]

    def __post_init__(self) -> None:
        widths = {block.shape[1] for block in self.blocks}
        if len(widths) != 1:
            raise QueryError(
                f"StackMatrix needs at least one block, all of equal width; found widths "
                f"{[block.shape[1] for block in self.blocks]}"
            )

    @property
    def shape(self) -> tuple[int, int]:
        return sum(block.shape[0] for block in self.blocks), self.blocks[0].shape[1]

    def matmul(self, x: Array) -> Array:
        return np.concatenate([block.matmul(x) for block in self.blocks])

    def gram(self) -> Array:
        total = np.zeros((self.shape[1], self.shape[1]))
        for block in self.blocks:
            total += block.gram()
        return total

    def quadratic_rows(self, s: Array) -> Array:
        return np.concatenate([block.quadratic_rows(s) for block in self.blocks])

    def forms(self, t: Array) -> Array:
        return np.concatenate([block.forms(t) for block in self.blocks])

    def weighted_grams(self, u: Array) -> Array:
        ends = np.cumsum([block.shape[0] for block in self.blocks])[:-1]
        parts = zip(self.blocks, np.split(u, ends), strict=True)
        return np.asarray(sum(block.weighted_grams(part) for block, part in parts))

    def column_kinds(self) -> IntArray:
        kinds = np.column_stack([block.column_kinds() for block in self.blocks])
        found = unique_rows(kinds)[1] + 1
        found[~kinds.any(axis=1)] = 0
        return found

    def row_squares(self) -> Array:
        return np.concatenate([block.row_squares() for block in self.blocks])

    def take(self, rows: NDArray[np.intp]) -> Array:
        wanted = np.arange(self.shape[0])[rows]
        taken = np.empty((len(wanted), self.shape[1]))
        start = 0
        for block in self.blocks:
            inside = (wanted >= start) & (wanted < start + block.shape[0])
            taken[inside] = block.take(wanted[inside] - start)
            start += block.shape[0]
        return taken
