"""A structured matrix whose columns stand in another order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.errors import QueryError
from noiseplan.matrices.base import Array, Matrix


@final
@dataclass(frozen=True)
class PermutedMatrix(Matrix):
    """W with its columns moved: column j of `inner` is column `order[j]` here.

    Examples
    --------
    >>> from noiseplan.matrices import PrefixMatrix
    >>> PermutedMatrix(PrefixMatrix(3), (2, 0, 1)).dense().astype(int).tolist()
    [[0, 0, 1], [1, 0, 1], [1, 1, 1]]
    """

    inner: Matrix
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(self.inner.shape[1])):
            raise QueryError(
                f"an order of {self.inner.shape[1]} columns names each of 0 to "
                f"{self.inner.shape[1] - 1} once"
            )

    @cached_property
    def _to(self) -> NDArray[np.intp]:
        return np.array(self.order, dtype=np.intp)

    @cached_property
    def _from(self) -> NDArray[np.intp]:
        return np.argsort(self._to)

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    def matmul(self, x: Array) -> Array:
        return self.inner.matmul(x[self._to])

    def gram(self) -> Array:
        return self.inner.gram()[np.ix_(self._from, self._from)]

    def quadratic_rows(self, s: Array) -> Array:
        return self.inner.quadratic_rows(s[np.ix_(self._to, self._to)])

    def forms(self, t: Array) -> Array:
        return self.inner.forms(t[np.ix_(self._to, self._to)])

    def weighted_grams(self, u: Array) -> Array:
        return self.inner.weighted_grams(u)[np.ix_(self._from, self._from)]

    def column_kinds(self) -> IntArray:
        return self.inner.column_kinds()[self._from]

    def row_squares(self) -> Array:
        return self.inner.row_squares()

    def take(self, rows: NDArray[np.intp]) -> Array:
        return self.inner.take(rows)[:, self._from]
