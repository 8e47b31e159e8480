"""The questions every matrix answers."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from noiseplan.errors import QueryError

Array = NDArray[np.float64]

# A dense matrix beyond this many numbers (400 MB) is refused rather than made by accident.
DENSE_LIMIT = 50_000_000
# Where there is no formula, so many numbers are written out at a time.
AT_ONCE = 2**24


class Matrix(ABC):
    """A `rows × columns` matrix W that is applied, never stored unless asked for.

    Final subclasses answer the five abstract questions by formula; `dense` is for small sizes and
    for tests, where it is the oracle for all the others. Results may share memory with what was
    given, so they are to be read, not written to.

    `forms` and `weighted_grams` are adjoint to each other: ⟨u, forms(S)⟩ = ⟨weighted_grams(u), S⟩.
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

    def forms(self, t: Array) -> Array:
        """Σ_ij w_i w_j t_ij for every row w: t of shape (n, n, batch) to (rows, batch)."""
        n, pieces = self.shape[1], []
        for rows in self._batches(t.shape[2]):
            w = self.take(rows)
            half = (w @ t.reshape(n, -1)).reshape(len(w), n, -1)
            pieces.append(np.einsum("ri,rib->rb", w, half))
        return np.concatenate(pieces)

    def weighted_grams(self, u: Array) -> Array:
        """Σ_r u_r w_r w_rᵀ: u of shape (rows, batch) to (n, n, batch)."""
        n = self.shape[1]
        total = np.zeros((n, n * u.shape[1]))
        for rows in self._batches(u.shape[1]):
            w = self.take(rows)
            total += w.T @ (w[:, :, None] * u[rows][:, None, :]).reshape(len(w), -1)
        return total.reshape(n, n, -1)

    def weighted_gram(self, weights: Array) -> Array:
        """Wᵀ diag(u) W, one weight u for every row."""
        return self.weighted_grams(weights[:, None])[..., 0]

    def _batches(self, batch: int) -> list[NDArray[np.intp]]:
        rows, n = self.shape
        count = -(-rows * n * max(batch, 1) // AT_ONCE)
        return np.array_split(np.arange(rows), min(max(count, 1), rows))

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
