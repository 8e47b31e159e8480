"""One attribute's split into its sum and its residual.

Choose U such that M = [1ᵀ; U] is invertible, and split the inverse, T = M⁻¹ = [τ | V]:

    1ᵀτ = 1,   Uτ = 0,   1ᵀV = 0,   UV = I,   I = τ1ᵀ + VU .

Every query factor then splits as W = (Wτ)1ᵀ + (WV)U: a part that needs only the sum over the
attribute, and a part that needs the residual U. τ = 1/n gives ResidualPlanner(+); a free τ makes
the split oblique, and better.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np

from noiseplan.arrays import IntArray, first_of, immutable
from noiseplan.matrices import (
    CentringMatrix,
    DenseMatrix,
    StackMatrix,
    TotalMatrix,
    UncentringMatrix,
)
from noiseplan.matrices.base import Array, Matrix, exactly_equal_columns
from noiseplan.mechanisms.pair_distances import farthest

# Squared norms this much smaller than what their factors could make are taken for rounding.
ROUNDING = 1e-26
# T must invert M to this precision: answers are no better than that.
INVERTED = 1e-7


# From so many values on, a plain attribute is centred by formula instead of by a matrix.
WIDE = 257
# Pairs of so many kinds of values are looked at, however few numbers are measured of them.
PAIRED_KINDS = 1024
# Quadratic forms are computed from sums and differences; below this share nothing but rounding is
# left of them.
EVEN = 1e-14


class Basis(ABC):
    """U, τ and V of one attribute."""

    @staticmethod
    def orthogonal(size: int) -> Basis:
        """UᵀU = I − 11ᵀ/n and τ = 1/n (ResidualPlanner)."""
        return MatrixBasis.orthogonal(size) if size < WIDE else WideBasis(size, 1.0 / size)

    @staticmethod
    def integer(size: int) -> Basis:
        """nI − 11ᵀ: the same residual measured by integers, with as many numbers as values.

        U†U = I − 11ᵀ/n, and VVᵀ = (I − 11ᵀ/n)/n²: with n² times the variance it is the orthogonal
        basis over again (ResidualPlanner+, Algorithm 3).
        """
        return MatrixBasis.integer(size) if size < WIDE else WideBasis(size)

    @staticmethod
    def from_rows(measure: Array, groups: IntArray | None = None) -> MatrixBasis:
        """The basis measured by U over groups of values (each value its own group by default).

        Raises `numpy.linalg.LinAlgError` where M is singular for all that numbers can tell.
        """
        count = measure.shape[1]
        matrix = np.vstack([np.ones(count), measure])
        inverse = np.linalg.inv(matrix)
        if not np.abs(matrix @ inverse - np.eye(count)).max() <= INVERTED:
            raise np.linalg.LinAlgError("the measured rows and the sum are linearly dependent")
        if groups is not None:
            members = np.bincount(groups, minlength=count)
            measure, inverse = measure[:, groups], (inverse / members[:, None])[groups]
        own = (np.ascontiguousarray(measure), inverse[:, 0].copy(), inverse[:, 1:].copy())
        return MatrixBasis(*own)

    if TYPE_CHECKING:  # fields of some bases, formulas of others

        @property
        def size(self) -> int:
            """Values of the attribute."""

        @property
        def rows(self) -> int:
            """Numbers that are measured."""

        @property
        def measure(self) -> Array | Matrix:
            """U, rows × n."""

        @property
        def centre(self) -> Array:
            """τ."""

        @property
        def recover(self) -> Array:
            """V, n × rows, as numbers."""

        @property
        def forward(self) -> Array | Matrix:
            """M = [1ᵀ; U]: counts to sum and residual."""

        @property
        def inverse(self) -> Array | Matrix:
            """T = [τ | V]: sum and residual back to counts."""

        @property
        def gram(self) -> Array:
            """UᵀU, n × n: what one record's value costs against another's."""

        @property
        def lowest(self) -> float:
            """γ, the smallest entry of UᵀU."""

        @property
        def sensitivity(self) -> float:
            """β, the largest squared column norm of U (zero when nothing is measured)."""

        @property
        def farthest(self) -> float:
            """The largest squared distance of two columns of U; never less."""

        @property
        def spread_trace(self) -> float:
            """tr VVᵀ."""

    @abstractmethod
    def residual_rows(self, factor: Matrix) -> Array:
        """(WVVᵀWᵀ)_qq of every row of a factor; zero where it is no more than rounding.

        A row that gives every value the same weight asks for the sum alone, and has exactly zero.
        """

    @abstractmethod
    def split(self, factor: Matrix) -> Array:
        """[Wτ | WV], as numbers."""

    @abstractmethod
    def spans(self, factor: Matrix) -> bool:
        """Whether W = (Wτ)1ᵀ + (WV)U, so that the factor can be answered from this basis."""

    def same_rows(self, other: Basis) -> bool:
        """Whether both measure by the same numbers."""
        if isinstance(self.measure, np.ndarray) and isinstance(other.measure, np.ndarray):
            return np.array_equal(self.measure, other.measure)
        return self == other


@final
@immutable
@dataclass(frozen=True, eq=False)
class MatrixBasis(Basis):
    """U (rows × n), τ (n) and V (n × rows) as numbers.

    Values that are never told apart may share columns of U; then I = τ1ᵀ + VU holds for every
    factor that does not tell them apart, which `spans` checks.
    """

    measure: Array
    centre: Array
    recover: Array
    size: int = field(init=False, repr=False)
    rows: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rows, size = self.measure.shape
        object.__setattr__(self, "rows", int(rows))
        object.__setattr__(self, "size", int(size))

    @classmethod
    def orthogonal(cls, size: int) -> MatrixBasis:
        """An orthonormal basis of 1^⊥: U Uᵀ = I, UᵀU = I − 11ᵀ/n, τ = 1/n (ResidualPlanner).

        The rows are those of the Householder reflection that takes 1/√n to the first unit vector.
        """
        axis = np.full(size, size**-0.5)
        axis[0] -= 1.0
        norm = axis @ axis
        mirror = np.eye(size) - (2.0 / norm if norm else 0.0) * np.outer(axis, axis)
        rows = mirror[1:]
        return cls(rows, np.full(size, 1.0 / size), np.ascontiguousarray(rows.T))

    @classmethod
    def integer(cls, size: int) -> MatrixBasis:
        """nI − 11ᵀ."""
        centred = size * np.eye(size) - 1.0
        return cls(centred, np.full(size, 1.0 / size), centred / size**2)

    @cached_property
    def forward(self) -> Array:
        return np.vstack([np.ones(self.size), self.measure])

    @cached_property
    def inverse(self) -> Array:
        return np.column_stack([self.centre, self.recover])

    @cached_property
    def gram(self) -> Array:
        return self.measure.T @ self.measure

    @cached_property
    def pairs(self) -> Array | None:
        """UᵀU of one value of each kind that U tells apart; None where these are many more than
        the numbers measured, as no planner makes them: saved numbers take no more than they are.
        """
        if self.size <= max(self.rows + 1, PAIRED_KINDS):
            return self.gram
        first = first_of(exactly_equal_columns(self.measure))
        if len(first) > max(self.rows + 1, PAIRED_KINDS):
            return None
        kept = self.measure[:, first]
        return np.asarray(kept.T @ kept)

    @cached_property
    def lowest(self) -> float:
        if not self.rows:
            return 0.0
        # |aᵀb| ≤ β bounds what is not looked at.
        return -self.sensitivity if self.pairs is None else float(self.pairs.min())

    @cached_property
    def sensitivity(self) -> float:
        return float(np.max(np.einsum("ri,ri->i", self.measure, self.measure), initial=0.0))

    @cached_property
    def farthest(self) -> float:
        return 4.0 * self.sensitivity if self.pairs is None else farthest(self.pairs, self.rows)

    @cached_property
    def spread(self) -> Array:
        """VVᵀ, n × n: the noise of the residual part, in counts."""
        return self.recover @ self.recover.T

    @property
    def spread_trace(self) -> float:
        return float((self.recover**2).sum())

    def residual_rows(self, factor: Matrix) -> Array:
        if isinstance(factor, DenseMatrix):  # of few rows, often, over very many values
            split = factor.matmul(self.recover)
            squares: Array = np.einsum("ri,ri->r", split, split)
        else:
            squares = factor.quadratic_rows(self.spread)
        return without_rounding(squares, self.spread_trace * factor.row_squares())

    def split(self, factor: Matrix) -> Array:
        return factor.matmul(self.inverse)

    def spans(self, factor: Matrix) -> bool:
        if self.rows == self.size - 1:
            return True
        length = np.sqrt(factor.row_squares())[:, None]
        if isinstance(factor, DenseMatrix):
            lost = factor.values - self.split(factor) @ self.forward
            return bool((np.abs(lost) <= 1e-9 * length).all())
        lost = np.eye(self.size) - self.inverse @ self.forward
        # A few columns at a time: a factor may have half a million rows.
        blocks = (lost[:, start : start + 32] for start in range(0, self.size, 32))
        return all((np.abs(factor.matmul(block)) <= 1e-9 * length).all() for block in blocks)


@final
@immutable
@dataclass(frozen=True)
class WideBasis(Basis):
    """scale · (nI − 11ᵀ) by formula, for plain attributes of many values: no n × n numbers."""

    size: int
    scale: float = 1.0

    @property
    def rows(self) -> int:
        return self.size

    @property
    def measure(self) -> Matrix:
        return CentringMatrix(self.size, self.scale)

    @property
    def centre(self) -> Array:
        return np.full(self.size, 1.0 / self.size)

    @property
    def recover(self) -> Array:
        return self.split_identity()[:, 1:]

    @property
    def forward(self) -> Matrix:
        return StackMatrix((TotalMatrix(self.size), self.measure))

    @property
    def inverse(self) -> Matrix:
        return UncentringMatrix(self.size, self.scale)

    @property
    def gram(self) -> Array:
        return self.measure.gram()

    @property
    def _unit(self) -> float:
        """UᵀU = unit · (I − 11ᵀ/n)."""
        return (self.scale * self.size) ** 2

    @property
    def lowest(self) -> float:
        return -self._unit / self.size

    @property
    def sensitivity(self) -> float:
        return self._unit * (self.size - 1) / self.size

    @property
    def farthest(self) -> float:
        return 2.0 * self._unit

    @property
    def spread_trace(self) -> float:
        return (self.size - 1) / self._unit

    def residual_rows(self, factor: Matrix) -> Array:
        squares = factor.row_squares()
        sums = factor.matmul(np.ones((self.size, 1)))[:, 0]
        return without_rounding(squares - sums**2 / self.size, squares) / self._unit

    def split(self, factor: Matrix) -> Array:
        return factor.matmul(self.split_identity())

    def split_identity(self) -> Array:
        """[τ | V] as numbers; refused where they are too many."""
        return self.inverse.dense()

    def spans(self, factor: Matrix) -> bool:
        return True


def without_rounding(squares: Array, scale: Array) -> Array:
    """Zero where a square is no more than rounding can make of what it was computed from."""
    return np.where(squares <= EVEN * scale, 0.0, squares)
