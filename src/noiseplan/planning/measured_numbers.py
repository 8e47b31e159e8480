"""What is measured: integers, where noise is exact, or any numbers; and how rows are made of it.

Planners find rows of real numbers. What they become before noise is added to them is asked here,
and nowhere by the name of a noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, final

import numpy as np
from numpy.typing import ArrayLike

from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.basis import Basis, MatrixBasis
from noiseplan.noise import Noise
from noiseplan.optimize.integer_cost_matrix import RANK, root_rows, rows_in_integers
from noiseplan.optimize.integer_rounding import integer_rows, integer_strategy, to_lattice
from noiseplan.planning.integers import Measured, as_planned, least_integers, to_integers
from noiseplan.planning.solve import Aim, Solution


class Numbers(ABC):
    """Rows and bases in the numbers that are measured."""

    exact: ClassVar[bool]
    # Whether rows over all cells determine every one of them after they were rounded.
    determines_cells: ClassVar[bool]
    # Precisions left over that are smaller shares of the target's are not measured. Rounding may
    # leave more than the first; then the next is tried.
    negligible: ClassVar[tuple[float, ...]]
    # The basis of an attribute of which values alone count; and the same written down.
    basis: Callable[[int], Basis]
    matrix_basis: Callable[[int], MatrixBasis]

    def noise(self, sigma2: ArrayLike) -> Noise:
        """Gaussian noise on such numbers."""
        return Noise("gaussian", sigma2, self.exact)

    @abstractmethod
    def strategy(self, rows: Array) -> Array:
        """Rows over all cells, near a multiple of these, with columns of their lengths."""

    @abstractmethod
    def rows(self, rows: Array, bits: int) -> Array:
        """Rows near a multiple of these, of at most so many bits."""

    @abstractmethod
    def lattice(self, rows: Array, length: float) -> Array:
        """Rows near a multiple of these, with columns of about this length."""

    @abstractmethod
    def scaled(self, rows: Array, unit: float) -> Array:
        """Rows in units of one over this, each entry as near as can be."""

    @abstractmethod
    def towards_zero(self, rows: Array) -> Array:
        """Rows of which no entry is larger."""

    @abstractmethod
    def bits(self, bits: Callable[[], int]) -> int | None:
        """So many, where rows are rounded to them at all."""

    @abstractmethod
    def lengths(self, bits: Sequence[int]) -> list[float]:
        """Lengths of columns to round rows to, of entries of so many bits; none: not at all."""

    @abstractmethod
    def unit(self, size: int) -> int:
        """How many times as long as those of an orthogonal basis its rows are."""

    @abstractmethod
    def measured(self, aim: Aim, solution: Solution, least: bool, bits: Sequence[int]) -> Measured:
        """What is measured of a residual plan. `least`: targets must be met, whatever that costs.

        `bits` are the sizes of integers to try, from the smallest.
        """

    @abstractmethod
    def rows_of_cost(self, cost: Array, within: Array, room: Array | None) -> tuple[Array, float]:
        """Rows A and σ² with AᵀA/σ² equal to a cost matrix that is not zero, or slightly below.

        The row space lies in that of `within`; every cell may still pay its `room`.
        """

    @abstractmethod
    def span(self, common: Callable[[], Mechanism]) -> Mechanism | None:
        """What decides which queries such rows answer, where not they do; `common`: what all of
        them are meant to measure."""


@final
class Integers(Numbers):
    """With exact noise: nI − 11ᵀ, which is n times an orthogonal basis, and rows rounded."""

    exact: ClassVar[bool] = True
    determines_cells: ClassVar[bool] = True
    negligible: ClassVar[tuple[float, ...]] = (1e-6, 1e-5, 1e-4)
    basis = staticmethod(Basis.integer)
    matrix_basis = staticmethod(MatrixBasis.integer)

    def strategy(self, rows: Array) -> Array:
        return integer_strategy(rows)

    def rows(self, rows: Array, bits: int) -> Array:
        return integer_rows(rows, bits)

    def lattice(self, rows: Array, length: float) -> Array:
        return to_lattice(rows, length)

    def scaled(self, rows: Array, unit: float) -> Array:
        return np.rint(rows * unit)

    def towards_zero(self, rows: Array) -> Array:
        return np.trunc(rows)

    def bits(self, bits: Callable[[], int]) -> int | None:
        return bits()

    def lengths(self, bits: Sequence[int]) -> list[float]:
        return [2.0**each for each in bits]

    def unit(self, size: int) -> int:
        return size

    def measured(self, aim: Aim, solution: Solution, least: bool, bits: Sequence[int]) -> Measured:
        plan = to_integers(aim, solution, bits)
        return least_integers(aim, solution, plan) if least and solution.share.value > 0 else plan

    def rows_of_cost(self, cost: Array, within: Array, room: Array | None) -> tuple[Array, float]:
        return rows_in_integers(cost, within, room)

    def span(self, common: Callable[[], Mechanism]) -> Mechanism | None:
        return common()  # rounded rows may measure every direction, most of them hardly


@final
class Reals(Numbers):
    """With continuous noise: everything as it is."""

    exact: ClassVar[bool] = False
    determines_cells: ClassVar[bool] = False
    negligible: ClassVar[tuple[float, ...]] = (RANK, 1e-8, 1e-6)
    basis = staticmethod(Basis.orthogonal)
    matrix_basis = staticmethod(MatrixBasis.orthogonal)

    def strategy(self, rows: Array) -> Array:
        return rows

    def rows(self, rows: Array, bits: int) -> Array:
        return rows

    def lattice(self, rows: Array, length: float) -> Array:
        return rows

    def scaled(self, rows: Array, unit: float) -> Array:
        return rows

    def towards_zero(self, rows: Array) -> Array:
        return rows

    def bits(self, bits: Callable[[], int]) -> int | None:
        return None

    def lengths(self, bits: Sequence[int]) -> list[float]:
        return []

    def unit(self, size: int) -> int:
        return 1

    def measured(self, aim: Aim, solution: Solution, least: bool, bits: Sequence[int]) -> Measured:
        return as_planned(solution)

    def rows_of_cost(self, cost: Array, within: Array, room: Array | None) -> tuple[Array, float]:
        return np.ascontiguousarray(root_rows(cost)), 1.0

    def span(self, common: Callable[[], Mechanism]) -> Mechanism | None:
        return None


INTEGERS: Final = Integers()
REALS: Final = Reals()


def numbers_of(noise: Noise) -> Numbers:
    """What this noise is added to: the one place that asks."""
    return INTEGERS if noise.exact else REALS
