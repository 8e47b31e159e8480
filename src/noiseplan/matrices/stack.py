"""Matrices on top of each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noiseplan.matrices.base import Array, Matrix


@dataclass(frozen=True)
class StackMatrix(Matrix):
    """The rows of several matrices of equal width, one block after the other."""

    blocks: tuple[Matrix, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return sum(block.shape[0] for block in self.blocks), self.blocks[0].shape[1]

    def matmul(self, x: Array) -> Array:
        return np.concatenate([block.matmul(x) for block in self.blocks])

    def gram(self) -> Array:
        return np.sum([block.gram() for block in self.blocks], axis=0)

    def quadratic_rows(self, s: Array) -> Array:
        return np.concatenate([block.quadratic_rows(s) for block in self.blocks])

    def take(self, rows: NDArray[np.intp]) -> Array:
        # Stacks are hierarchies: a few hundred short rows, so all rows are made and some are kept.
        every = [block.take(np.arange(block.shape[0])) for block in self.blocks]
        return np.concatenate(every)[rows]
