"""Exact draws of many sizes at once: few tables serve them all, and the rest is done side by side.

The way of `coarse_fine`, with what differs between sizes in arrays. E₀ is E(cB) cut to 4 bits, so
that sizes within 12 % of each other share a coarse table; 94 % of the tries and more are accepted.
What is refused is drawn again for the same size, so every draw has its own law.

Coefficients are floating-point numbers here. With u = 2⁻⁵³ and q = E's coefficient of cB,

    E₀ ≤ fl(q)(1 − 2⁻⁵⁰) < q      since fl(q) ≤ q(1 + u) ,

and fl(q) − E₀ is exact (both within a factor of two), so that t = E(cB + r) − E₀(c) is wrong by at
most u·E₀(c)·9/8 for the coefficient and a share 10u of itself for the sums and products. Within the
table E₀(c) < 2⁸, so that is below 2⁻⁴⁴ + 10u·t, and where t ≤ 1/2 together with the error of g far
below the margin of 2⁻⁴⁰. Beyond the table, and within the margin, whole numbers decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.noise.coarse_fine import CELLS, MARGIN, QUICK, REACH, decided
from noiseplan.noise.energy import Energy
from noiseplan.noise.inversion import InversionTable
from noiseplan.noise.randomness import Source

# Sizes whose laws are written in floating-point numbers without going near their ends.
SMALLEST: Final = 2.0**-20
_SIGNIFICANT_BITS: Final = 4
_AT_ONCE: Final = 2**15  # draws at a time: what they need stays in the processor's cache


@dataclass(frozen=True, eq=False)
class ManySizes:
    """Laws of one kind by their sizes; E = square·k² + linear·k and its coarse twin, for each."""

    gaussian: bool
    sizes: Array
    square: Array
    linear: Array
    shift: IntArray

    @classmethod
    def of(cls, gaussian: bool, sizes: Array) -> ManySizes:
        """σ² of Gaussian laws, or b of Laplace laws."""
        none = np.zeros_like(sizes)
        square, linear = (0.5 / sizes, none) if gaussian else (none, 1.0 / sizes)
        reach = np.sqrt(REACH / square) if gaussian else REACH / linear
        shift = np.maximum(np.ceil(np.log2(reach / CELLS)), 0.0).astype(np.int64)
        return cls(gaussian, sizes, square, linear, shift)

    def draw(self, of: IntArray, source: Source) -> IntArray:
        """One draw for every entry: the size that it has, by number."""
        values = np.empty(len(of), dtype=np.int64)
        tables, number = self._tables()
        own = number[of]
        order, ends = np.argsort(own, kind="stable"), np.cumsum(np.bincount(own))
        for table, places in zip(tables, np.split(order, ends[:-1]), strict=False):
            for start in range(0, len(places), _AT_ONCE):
                left = places[start : start + _AT_ONCE]
                while left.size:
                    found, accepted = self._tries(table, of[left], source)
                    values[left[accepted]] = found[accepted]
                    left = left[~accepted]
        return values

    def _tables(self) -> tuple[list[InversionTable], IntArray]:
        """The coarse tables, and which of them serves each size."""
        rounded = np.stack([_cut(self._coarse_square), _cut(self._coarse_linear)], axis=1)
        pairs, number = np.unique(rounded, axis=0, return_inverse=True)
        energies = [Energy(Fraction(a), Fraction(b)) for a, b in pairs.tolist()]
        return [InversionTable.of(e, folded=False) for e in energies], number.reshape(-1)

    @property
    def _coarse_square(self) -> Array:
        """Of c ↦ E(cB); powers of two are exact."""
        return np.ldexp(self.square, 2 * self.shift)

    @property
    def _coarse_linear(self) -> Array:
        return np.ldexp(self.linear, self.shift)

    def _tries(
        self, table: InversionTable, of: IntArray, source: Source
    ) -> tuple[IntArray, NDArray[np.bool_]]:
        """A try for each, and which are accepted."""
        cells, minus = table.draw(len(of), source)
        shift = self.shift[of]
        bits = 32 if int(self.shift.max()) + QUICK <= 32 else 64
        words = source.words(len(of), bits)
        remainders = words.astype(np.int64) & ((1 << shift) - 1)
        quick = (words >> (bits - QUICK)).astype(np.uint32)
        t = self._exponents(table, of, cells, remainders)
        accepted = quick * 2.0**-QUICK >= t + MARGIN  # V ≥ t ≥ g(t)
        unsure = np.flatnonzero(~accepted)
        if unsure.size:

            def exponent(i: int) -> Fraction:
                law, cell = int(of[unsure[i]]), int(cells[unsure[i]])
                value = (cell << int(self.shift[law])) + int(remainders[unsure[i]])
                return self._energy(law).at(value) - table.energy.at(cell)

            accepted[unsure] = decided(t[unsure], quick[unsure], exponent, source)
        values = (cells << shift) | remainders
        accepted &= (values != 0) | ~minus  # no minus zero
        sign = -minus.astype(np.int64)
        return (values ^ sign) - sign, accepted

    def _energy(self, law: int) -> Energy:
        size = Fraction(float(self.sizes[law]))
        return Energy.gaussian(size) if self.gaussian else Energy.laplace(size)

    def _exponents(
        self, table: InversionTable, of: IntArray, cells: IntArray, remainders: IntArray
    ) -> Array:
        """t = (E(cB) − E₀(c)) + r·(square·(2cB + r) + linear); infinite beyond the table."""
        c, r = cells.astype(np.float64), remainders.astype(np.float64)
        excess = (self._coarse_square - float(table.energy.square))[of] * c
        excess += (self._coarse_linear - float(table.energy.linear))[of]
        reach = np.ldexp(c, self.shift[of] + 1) + r
        t = excess * c + r * (self.square[of] * reach + self.linear[of])
        t[cells >= table.lower.size] = np.inf
        return t


def _cut(x: Array) -> Array:
    """At most x(1 − 2⁻⁵⁰), and of four bits."""
    mantissa, exponent = np.frexp(x * (1.0 - 2.0**-50))
    bits = _SIGNIFICANT_BITS
    return np.asarray(np.ldexp(np.floor(np.ldexp(mantissa, bits)), exponent - bits))
