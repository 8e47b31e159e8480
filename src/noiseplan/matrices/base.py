"""The questions every matrix answers."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from noiseplan.errors import QueryError

Array = NDArray[np.float64]

# A dense matrix beyond this many numbers (400 MB) is refused rather than made by accident.
DENSE_LIMIT = 50_000_000


class Matrix(ABC):
    """A `rows × columns` matrix W that is applied, never stored unless asked for.

    Final subclasses answer the five abstract questions by formula; `dense` is for small sizes and
    for tests, where it is the oracle for all the others. Results may share memory with what was
    given, so they are to be read, not written to.
    """

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @abstractmethod
    def matmul(self, x: Array) -> Array:
        """W x, for x of shape (columns, …)."""

    @abstractmethod
    def gram(self) -> Array:
        """WᵀW, columns × columns."""

    @abstractmethod
    def quadratic_rows(self, s: Array) -> Array:
        """diag(W S Wᵀ): one number per row, for a symmetric S (columns × columns)."""

    @abstractmethod
    def take(self, rows: NDArray[np.intp]) -> Array:
        """Some rows, as numbers (len(rows) × columns); negative numbers count from the end."""

    def row_squares(self) -> Array:
        """diag(W Wᵀ): the squared length of every row."""
        return self.quadratic_rows(np.eye(self.shape[1]))

    def dense(self, limit: int = DENSE_LIMIT) -> Array:
        """All rows, as numbers; refused beyond `limit` numbers."""
        rows, columns = self.shape
        if rows * columns > limit:
            raise QueryError(
                f"{type(self).__name__} as a dense matrix has {rows:,} × {columns:,} numbers, "
                f"above the limit of {limit:,}; take some rows with take([...]), or raise the "
                f"limit with dense(limit={rows * columns})"
            )
        return self.take(np.arange(rows))


def checked_size(size: int) -> None:
    """Refuse a matrix without columns."""
    if size < 1:
        raise QueryError(f"a matrix needs at least one column, found {size}")
