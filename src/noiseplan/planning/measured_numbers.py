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
from noiseplan.mechanisms.basis import Basis, MatrixBasis
from noiseplan.noise import Noise
from noiseplan.optimize.integer_rounding import integer_rows, integer_strategy, to_lattice


class Numbers(ABC):
    """Rows and bases in the numbers that are measured."""

    exact: ClassVar[bool]
    # Whether rows over all cells determine every one of them after they were rounded.
    determines_cells: ClassVar[bool]
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


@final
class Integers(Numbers):
    """With exact noise: nI − 11ᵀ, which is n times an orthogonal basis, and rows rounded."""

    exact: ClassVar[bool] = True
    determines_cells: ClassVar[bool] = True
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


@final
class Reals(Numbers):
    """With continuous noise: everything as it is."""

    exact: ClassVar[bool] = False
    determines_cells: ClassVar[bool] = False
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


INTEGERS: Final = Integers()
REALS: Final = Reals()


def numbers_of(noise: Noise) -> Numbers:
    """What this noise is added to: the one place that asks."""
    return INTEGERS if noise.exact else REALS
