"""Exact draws from wide laws: a table draw at a coarse scale, a uniform remainder, and a rejection.

For mass ∝ exp(−E(|k|)) let B = 2^shift, and let E₀ be an energy with E₀(c) ≤ E(cB) for c = 0, 1, ….
Draw a fair sign, c with mass ∝ exp(−E₀(c)) by inversion, and r uniform on 0 … B − 1. Accept the
magnitude x = cB + r with probability exp(−t), where

    t = E(cB + r) − E₀(c) ≥ E(cB) − E₀(c) ≥ 0,

and refuse minus zero. Each x ≥ 0 is cB + r in one way, so an accepted (sign, x) has mass
∝ exp(−E₀(c))·(1/B)·exp(−t) ∝ exp(−E(x)), and zero counts once: exactly the law.

E₀ is E(cB) with coefficients cut to 7 bits, so that a few hundred tables serve all laws. Of the
tries for a wide Gaussian 99 % are accepted, for a wide Laplace law 95 %.

The rejection. Let V be uniform on [0, 1), known by its leading bits. Reject where V < g(t), with
g(t) = 1 − exp(−t).

1. g(t) ≤ t ≤ t̄, the largest t of the cell c. So 16 bits v of V with v/2¹⁶ ≥ t̄ decide: accept.
2. Where they do not, 53 bits v of V are compared with a floating-point ĝ, |ĝ − g(t)| ≤ 2⁻⁴⁰:
   v/2⁵³ ≥ ĝ + 2⁻⁴⁰ accepts, (v + 1)/2⁵³ ≤ ĝ − 2⁻⁴⁰ rejects.
3. Where they do not either (chance 2⁻³⁹), bits of V are drawn until an enclosure of g(t) in
   integers decides.

Each step can only say what all the bits of V would have said.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.noise.energy import Energy, exp_minus
from noiseplan.noise.inversion import InversionTable
from noiseplan.noise.randomness import Source
from noiseplan.noise.wide_integers import BITS, WideIntegers, floats

REACH: Final = 44  # exp(−44) < 2⁻⁶³: a table of 63 bits ends where the energy is about this
CELLS: Final = 1024  # coarse cells up to the reach
QUICK: Final = 16  # bits of V in the first look
MARGIN: Final = 2.0**-40
_NARROW: Final = 44  # bits of a remainder, up to which draws fit 62 bits
_CELL_BITS: Final = 18  # of a coarse cell, at most
_SERIES_LIMIT: Final = 0.5
_COEFFICIENTS: Final = tuple((-1) ** n / math.factorial(n + 1) for n in range(14))

Floats = NDArray[np.float64]


def rejection_probability(t: Floats) -> Floats:
    """g(t) = 1 − exp(−t) for 0 ≤ t ≤ 1/2, to within 2⁻⁴⁸.

    Notes
    -----
    t·Σ_{n<14} (−t)ⁿ/(n + 1)! by Horner's rule: no term meets more than 1 rounded coefficient and 27
    rounded sums and products, each a factor 1 + θ with |θ| ≤ u = 2⁻⁵³. The error is at most
    30u·Σ tⁿ⁺¹/(n + 1)! ≤ 30u·(e^½ − 1) < 20u < 2⁻⁴⁸·(2/3), and the terms left out are below
    2⁻¹⁵/15! < 2⁻⁵⁵. Only sums and products are used, which IEEE 754 rounds correctly.
    """
    total = np.full_like(t, _COEFFICIENTS[-1])
    for coefficient in _COEFFICIENTS[-2::-1]:
        total *= t
        total += coefficient
    total *= t
    return total


def is_accepted(t: Fraction, word: int, bits: int, source: Source) -> bool:
    """Whether V ≥ 1 − exp(−t), for a V whose leading `bits` bits are `word`: exact."""
    while True:
        low, high = exp_minus(t, bits)
        one = 1 << bits
        if word >= one - low:  # V ≥ word/2^bits ≥ g
            return True
        if word + 1 <= one - high:  # V < (word + 1)/2^bits ≤ g
            return False
        bits, word = bits + 64, word << 64 | source.integer(64)


def decided(
    t: Floats, quick: NDArray[np.uint32], exponent: Callable[[int], Fraction], source: Source
) -> NDArray[np.bool_]:
    """Steps 2 and 3: 53 bits of V against ĝ, then all that are needed against g.

    Every V has 16 bits already; t is right to 2⁻⁴³ where it is at most 1/2, `exponent` exactly.
    """
    more = source.words(t.size, 64)
    v = ((quick.astype(np.uint64) << 37) | (more >> 27)).astype(np.float64) * 2.0**-53
    within = t <= _SERIES_LIMIT
    g = rejection_probability(np.minimum(t, _SERIES_LIMIT))
    accepted = within & (v >= g + MARGIN)
    rejected = within & (v + 2.0**-53 <= g - MARGIN)
    for i in np.flatnonzero(~(accepted | rejected)):
        word = int(quick[i]) << 64 | int(more[i])
        accepted[i] = is_accepted(exponent(int(i)), word, QUICK + 64, source)
    return accepted


@dataclass(frozen=True, eq=False)
class CoarseFine:
    """One law with its coarse table.

    `sure[c]` is a number of 16 bits from which V accepts whatever the remainder; the last entry
    stands for every c beyond the table and is never reached.
    """

    energy: Energy
    shift: int
    table: InversionTable
    sure: NDArray[np.uint32]

    @staticmethod
    @lru_cache(maxsize=1024)  # some 5 kB each, apart from the shared tables
    def of(energy: Energy) -> CoarseFine:
        """The sampler, built or remembered."""
        shift = 0
        while energy.at(CELLS << shift) < REACH:
            shift += 1
        table = InversionTable.of(energy.coarsened(1 << shift).rounded_down(), folded=False)
        unset = np.zeros(table.lower.size + 1, dtype=np.uint32)
        sampler = CoarseFine(energy, shift, table, unset)
        cells = np.arange(unset.size, dtype=np.int64)
        largest = sampler._exponents(cells, np.full(cells.shape, float((1 << shift) - 1)))
        # The floats are right to a factor 1 ± 2⁻⁴⁹ plus 2⁻⁹⁸⁰, so ⌊·⌋ + 2 is above 2¹⁶·t̄.
        sure = np.minimum(np.floor(largest * 2.0**QUICK) + 2, 2.0**QUICK).astype(np.uint32)
        sure[-1] = 1 << QUICK
        return CoarseFine(energy, shift, table, sure)

    def draw(self, count: int, source: Source) -> IntArray:
        """So many draws: the first that are accepted. In limbs, which come first, where it is wide.

        Otherwise x < LARGEST·B ≤ 2¹⁸·2⁴⁴ = 2⁶², so nothing overflows.
        """
        parts, missing = [], count
        while missing > 0:
            part = self._tries(missing + missing // 32 + 8, source)[..., :missing]
            parts.append(part)
            missing -= part.shape[-1]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

    @property
    def wide(self) -> bool:
        """Whether draws might not fit 62 bits."""
        return self.shift > _NARROW

    def _tries(self, count: int, source: Source) -> IntArray:
        """What is accepted of so many tries."""
        cells, minus = self.table.draw(count, source)
        remainders, quick = self._uniform(count, source)
        accepted = quick >= self.sure.take(cells, mode="clip")
        unsure = np.flatnonzero(~accepted)
        if unsure.size:
            some = cells[unsure], remainders[:, unsure], quick[unsure]
            accepted[unsure] = self._decide(*some, source)
        perhaps_zero = np.flatnonzero((cells == 0) & minus)
        accepted[perhaps_zero] &= remainders[:, perhaps_zero].any(axis=0)  # no minus zero
        sign = -minus.astype(np.int64)
        if not self.wide:
            values = (cells << self.shift) | remainders[0]
            return np.asarray(((values ^ sign) - sign)[accepted])  # −x = ~x + 1, in 64 bits
        parts = [*((r, BITS * i) for i, r in enumerate(remainders)), (cells, self.shift)]
        signed = (((part ^ sign) - sign, offset) for part, offset in parts)
        return WideIntegers.of(signed, self.shift + _CELL_BITS).limbs[:, accepted]

    def _uniform(self, count: int, source: Source) -> tuple[IntArray, NDArray[np.uint32]]:
        """Remainders, their limbs first (one of any length where x fits 62 bits), and bits of V."""
        if not self.wide:
            bits = 32 if self.shift + QUICK <= 32 else 64
            words = source.words(count, bits)
            remainders = (words & ((1 << self.shift) - 1)).astype(np.int64)
            return remainders[None], (words >> (bits - QUICK)).astype(np.uint32)
        limbs = -(-self.shift // BITS)
        words = source.words(limbs * count, 32).reshape(limbs, count) >> (32 - BITS)
        words[-1] >>= BITS * limbs - self.shift
        return words.astype(np.int64), source.words(count, QUICK).astype(np.uint32)

    def _decide(
        self, cells: IntArray, remainders: IntArray, quick: NDArray[np.uint32], source: Source
    ) -> NDArray[np.bool_]:
        """Steps 2 and 3: 53 bits of V against ĝ, then all that are needed against g."""

        def exponent(i: int) -> Fraction:
            remainder = sum(int(r) << (BITS * k) for k, r in enumerate(remainders[:, i]))
            return self._exponent(int(cells[i]), remainder)

        return decided(self._exponents(cells, floats(remainders)), quick, exponent, source)

    def _exponent(self, cell: int, remainder: int) -> Fraction:
        """t itself."""
        return self.energy.at((cell << self.shift) + remainder) - self.table.energy.at(cell)

    def _exponents(self, cells: IntArray, r: Floats) -> Floats:
        """t = D(c) + r·(square·(2cB + r) + linear), D(c) = E(cB) − E₀(c), in floating point.

        r has at most ten limbs, so nine roundings at most. No term is negative and each takes at
        most forty factors 1 + θ, |θ| ≤ u = 2⁻⁵³, or falls below 2⁻¹⁰²² (less than 2⁻⁷⁰⁰ in all):
        where t ≤ 1/2, the error is below 41u·t ≤ 2⁻⁴⁸.
        With g' ≤ 1 it adds that much to the 2⁻⁴⁸ of g: together far below the margin of 2⁻⁴⁰.
        """
        coarse, table = self.energy.coarsened(1 << self.shift), self.table.energy
        square, linear = float(coarse.square - table.square), float(coarse.linear - table.linear)
        c = cells.astype(np.float64)
        reach = c * 2.0 ** (self.shift + 1) + r
        inner = r * (float(self.energy.square) * reach + float(self.energy.linear))
        return np.asarray((square * c + linear) * c + inner)
