"""Matrices made of others: with columns of zeros, columns in another order, several stacked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, unique_rows
from noiseplan.errors import QueryError
from noiseplan.matrices.base import Array, Matrix, SizedMatrix

Number = TypeVar("Number", np.float64, np.int64)


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


# ---------------------------------------------------------------------- differences from the mean


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
