"""A structured matrix with columns of zeros behind its own: values that its rows never count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.errors import QueryError
from noiseplan.matrices.base import Array, Matrix
from noiseplan.matrices.stack import StackMatrix


@final
@dataclass(frozen=True)
class PaddedMatrix(Matrix):
    """[W 0]: the rows of `inner`, over `columns` values of which it knows the first.

    Examples
    --------
    >>> from noiseplan.matrices import PrefixMatrix
    >>> PaddedMatrix(PrefixMatrix(2), 3).dense().astype(int).tolist()
    [[1, 0, 0], [1, 1, 0]]
    """

    inner: Matrix
    columns: int

    def __post_init__(self) -> None:
        if self.columns < self.inner.shape[1]:
            raise QueryError(
                f"a matrix of {self.inner.shape[1]} columns does not become one of {self.columns}"
            )

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape[0], self.columns

    @property
    def _own(self) -> int:
        return self.inner.shape[1]

    def matmul(self, x: Array) -> Array:
        return self.inner.matmul(x[: self._own])

    def gram(self) -> Array:
        return self._square(self.inner.gram())

    def quadratic_rows(self, s: Array) -> Array:
        return self.inner.quadratic_rows(s[: self._own, : self._own])

    def forms(self, t: Array) -> Array:
        return self.inner.forms(t[: self._own, : self._own])

    def weighted_grams(self, u: Array) -> Array:
        return self._square(self.inner.weighted_grams(u))

    def column_kinds(self) -> IntArray:
        return np.append(self.inner.column_kinds(), np.zeros(self.columns - self._own, np.int64))

    def row_squares(self) -> Array:
        return self.inner.row_squares()

    def take(self, rows: NDArray[np.intp]) -> Array:
        return np.pad(self.inner.take(rows), ((0, 0), (0, self.columns - self._own)))

    def _square(self, own: Array) -> Array:
        """Zeros behind the first two axes."""
        more = self.columns - self._own
        return np.pad(own, ((0, more), (0, more), *[(0, 0)] * (own.ndim - 2)))


def padded(matrix: Matrix, columns: int) -> Matrix:
    """The matrix over so many values, those it does not know never counted.

    Examples
    --------
    >>> from noiseplan.matrices import PrefixMatrix
    >>> padded(PrefixMatrix(2), 3).dense().astype(int).tolist()
    [[1, 0, 0], [1, 1, 0]]
    """
    return matrix if matrix.shape[1] == columns else PaddedMatrix(matrix, columns)


def stacked_parts(matrix: Matrix) -> Iterator[Matrix]:
    """The matrices that one stands on top of another, each with the columns of zeros behind it."""
    if isinstance(matrix, StackMatrix):
        for block in matrix.blocks:
            yield from stacked_parts(block)
    elif isinstance(matrix, PaddedMatrix) and isinstance(matrix.inner, StackMatrix):
        for block in matrix.inner.blocks:
            yield from stacked_parts(PaddedMatrix(block, matrix.columns))
    else:
        yield matrix
