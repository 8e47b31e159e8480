"""The questions every matrix answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, unique_rows
from noiseplan.errors import QueryError

Array = NDArray[np.float64]

# A dense matrix beyond this many numbers (400 MB) is refused rather than made by accident.
DENSE_LIMIT = 50_000_000
# Where there is no formula, so many numbers are written out at a time.
AT_ONCE = 2**24
# Columns are compared to so many decimals, in units of the largest entry of each row.
DIGITS: Final = 12
# Columns of more numbers than this are compared whole, by their bytes.
FEW_ROWS: Final = 8


class Matrix(ABC):
    """A `rows × columns` matrix W that is applied, never stored unless asked for.

    Final subclasses answer the five abstract questions by formula; `dense` is for small sizes and
    for tests, where it is the oracle for all the others. Results may share memory with what was
    given, so they are to be read, not written to.

    `forms` and `weighted_grams` are adjoint to each other: ⟨u, forms(S)⟩ = ⟨weighted_grams(u), S⟩.

    Examples
    --------
    >>> from noiseplan.matrices import PrefixMatrix
    >>> sums = PrefixMatrix(3)
    >>> isinstance(sums, Matrix), sums.shape
    (True, (3, 3))
    >>> sums.matmul(np.array([1.0, 2.0, 4.0])).tolist()
    [1.0, 3.0, 7.0]
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

    def column_kinds(self) -> IntArray:
        """One number for each column: equal columns have equal numbers, columns of zeros have 0.

        Columns are compared by formula, or as `equal_columns` does; where products are compared
        factor by factor, a few equal ones may keep different numbers, which costs nothing but size.
        """
        return equal_columns(self.dense())

    def take_columns(self, columns: NDArray[np.intp]) -> Array:
        """Some columns, as numbers (rows × len(columns))."""
        return self.dense()[:, columns]

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


def equal_columns(matrix: Array) -> IntArray:
    """One number for each column, the same for columns that are equal, 0 for columns of zeros.

    Every row is read in units of its largest entry, for how large a row is has no say in what it
    tells apart, and to `DIGITS` decimals, so that sums of the same numbers in another order are
    equal: columns that differ by rounding would make strategies that are nearly dependent.

    Examples
    --------
    >>> equal_columns(np.array([[0.3, 0.0, 0.4, 0.1 + 0.2]])).tolist()
    [2, 0, 3, 2]
    """
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    rounded = np.round(matrix / np.where(largest > 0, largest, 1.0), DIGITS)
    kinds = exactly_equal_columns(rounded) + 1
    kinds[~rounded.any(axis=0)] = 0
    return kinds


def exactly_equal_columns(matrix: Array) -> IntArray:
    """One number for each column, from 0 on: the same for columns equal to the last digit.

    It is for Gram matrices, where what a small row tells apart shows in its square alone.
    """
    if len(matrix) <= FEW_ROWS:
        ranks = [np.unique(row, return_inverse=True)[1].reshape(-1) for row in matrix]
        return unique_rows(np.column_stack(ranks))[1]
    number: dict[bytes, int] = {}
    columns = np.ascontiguousarray(matrix.T) + 0.0  # −0 is 0, and has its bytes
    return np.array([number.setdefault(c.tobytes(), len(number)) for c in columns])


@dataclass(frozen=True)
class SizedMatrix(Matrix):
    """A matrix that follows from the number of values: square, unless it says otherwise."""

    size: int

    def __post_init__(self) -> None:
        checked_size(self.size)

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size


def checked_size(size: int) -> None:
    """Refuse a matrix without columns."""
    if size < 1:
        raise QueryError(f"a matrix needs at least one column, found {size}")
