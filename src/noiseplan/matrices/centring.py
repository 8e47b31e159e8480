"""Counts and their differences from the mean, for attributes of many values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.matrices.base import Array, SizedMatrix

Number = TypeVar("Number", np.float64, np.int64)


@final
@dataclass(frozen=True)
class CentringMatrix(SizedMatrix):
    """scale · (nI − 11ᵀ): every value against the mean; in whole numbers for scale 1.

    Examples
    --------
    >>> CentringMatrix(3).matmul(np.array([4.0, 1.0, 1.0])).tolist()
    [6.0, -3.0, -3.0]
    """

    scale: float = 1.0

    def matmul(self, x: Array) -> Array:
        return self.scale * self.centred(x)

    def centred(self, x: NDArray[Number]) -> NDArray[Number]:
        """The same with scale 1; integers stay integers."""
        return np.asarray(self.size * x - x.sum(axis=0), dtype=x.dtype)

    def gram(self) -> Array:
        # (nI − 11ᵀ)² = n (nI − 11ᵀ)
        return self.scale**2 * self.size * (self.size * np.eye(self.size) - 1.0)

    def quadratic_rows(self, s: Array) -> Array:
        rows = self.matmul(np.asarray(s, dtype=np.float64))
        return np.diagonal(self.matmul(rows.T)).copy()

    def row_squares(self) -> Array:
        return np.full(self.size, self.scale**2 * self.size * (self.size - 1.0))

    def take(self, rows: NDArray[np.intp]) -> Array:
        values = np.arange(self.size)
        taken: Array = self.scale * (self.size * (values == values[rows][:, None]) - 1.0)
        return taken


@final
@dataclass(frozen=True)
class UncentringMatrix(SizedMatrix):
    """[1/n | (I − 11ᵀ/n)/(n · scale)]: from the sum and what `CentringMatrix` made of them, counts.

    Examples
    --------
    >>> UncentringMatrix(3).matmul(np.array([6.0, 6.0, -3.0, -3.0])).tolist()
    [4.0, 1.0, 1.0]
    """

    scale: float = 1.0

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size + 1

    def matmul(self, x: Array) -> Array:
        rest = x[1:]
        centred: Array = (rest - rest.mean(axis=0)) / (self.size * self.scale)
        return np.asarray(centred + x[0] / self.size)

    def gram(self) -> Array:
        return self.dense().T @ self.dense()

    def quadratic_rows(self, s: Array) -> Array:
        result: Array = np.einsum("ri,ri->r", self.dense() @ s, self.dense())
        return result

    def take(self, rows: NDArray[np.intp]) -> Array:
        values = np.arange(self.size)
        centred = self.size * (values == values[rows][:, None]) - 1.0
        first = np.full((len(centred), 1), 1.0 / self.size)
        return np.hstack([first, centred / (self.scale * self.size**2)])
