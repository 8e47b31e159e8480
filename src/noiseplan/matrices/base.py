"""The questions every matrix answers."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Matrix(ABC):
    """A `rows × columns` matrix W that is applied, never stored unless asked for.

    Final subclasses answer the five abstract questions by formula; `dense` is for small sizes and
    for tests, where it is the oracle for all the others.
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
        """Some rows, as numbers (len(rows) × columns)."""

    def dense(self) -> Array:
        """All rows, as numbers."""
        return self.take(np.arange(self.shape[0]))
