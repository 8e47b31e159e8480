"""Exact draws by inversion: a table of certified boundaries, and more bits wherever it is unsure.

Let U be uniform on [0, 1), and b₀ < b₁ < … the cumulative probabilities of the law on 0, 1, 2, ….
The number of boundaries bₖ ≤ U has exactly that law. U is known only by its leading bits: they say
that U lies in [w, w + 1)/2ⁿ. For each boundary the table holds integers with

    lower ≤ ⌊bₖ·2ⁿ⌋ ≤ upper        (n = 63; nearly always lower = upper)

so that  w > upper  implies  U ≥ w/2ⁿ ≥ (upper + 1)/2ⁿ > bₖ,
and      w < lower  implies  U < (w + 1)/2ⁿ ≤ lower/2ⁿ ≤ bₖ.
Otherwise, or above the last boundary of the table, more bits of U are drawn and compared with a
longer table at a higher precision, until they decide. So the value is always the one that the
infinitely many bits of U determine: no rounding, no cut tail. After n bits the chance of being
undecided is about (entries + 1)·2⁻ⁿ.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.errors import NoiseError
from noiseplan.noise.energy import Energy, Interval, exp_minus, product
from noiseplan.noise.randomness import Source, Words

# Magnitudes stay below this. A larger one has a probability below e^−5000 wherever a table is used,
# and is refused, not rounded.
LARGEST: Final = 2**18
BITS: Final = 63  # of U in the table: a word of 64 without the one that serves as a sign
_FIRST: Final = 15  # bits of U looked at first; most draws need no more
_MORE: Final = BITS - _FIRST
_STEP: Final = 64  # further bits, each time they are needed


def boundaries(energy: Energy, folded: bool, bits: int) -> tuple[list[int], list[int]]:
    """Integers lower ≤ ⌊bₖ·2^bits⌋ ≤ upper until less than 2^−bits is left beyond.

    bₖ = Sₖ/S∞ with Sₖ = Σ_{j ≤ k} mⱼ·exp(−E(j)). `folded` counts both signs of j: m₀ = 1, else 2;
    otherwise mⱼ = 1.

    Notes
    -----
    exp(−E(j + 1)) = exp(−E(j))·qⱼ, and qⱼ₊₁ = qⱼ·exp(−2·square) does not increase. The rest of the
    sum is therefore at most m·exp(−E(k + 1))/(1 − qₖ). With 64 spare bits the intervals, which
    widen like k³ units, stay far narrower than 2^−bits.
    """
    work = bits + _STEP
    one = 1 << work
    weight: Interval = (one, one)
    ratio, change = exp_minus(energy.at(1), work), exp_minus(2 * energy.square, work)
    low = high = rest = one
    sums = [(low, high)]
    count = 2 if folded else 1
    while True:
        weight = product(weight, ratio, work)
        if ratio[1] < one:
            rest = count * weight[1] * one // (one - ratio[1]) + 1
            if rest >> (work - bits) == 0:
                break
        low, high = low + count * weight[0], high + count * weight[1]
        sums.append((low, high))
        ratio = product(ratio, change, work)
        if len(sums) == LARGEST:
            raise NoiseError(f"a draw at or above {LARGEST} table steps was refused; draw again.")
    most = (1 << bits) - 1  # every boundary is below 1
    return (
        [(s << bits) // (high + rest) for s, _ in sums],
        [min((s << bits) // low, most) for _, s in sums],
    )


@dataclass(frozen=True, eq=False)
class InversionTable:
    """The boundaries of one law on 0, 1, 2, … to 63 bits, and a guide by the first 15 of them.

    `guide[p]` is the value of every U whose leading bits are p, or −1 where they do not decide.
    """

    energy: Energy
    folded: bool
    lower: IntArray
    upper: IntArray
    guide: NDArray[np.int16]

    # Some 90 kB a table. Wide laws share a few hundred (see `coarse_fine`), narrow ones have
    # their own.
    @staticmethod
    @lru_cache(maxsize=256)
    def of(energy: Energy, folded: bool) -> InversionTable:
        """The table, built or remembered.

        All words with the same leading bits, from w to w', have the same value where no boundary
        has lower ≤ w' and upper ≥ w, and the value is within the table.
        """
        bounds = boundaries(energy, folded, BITS)
        lower, upper = (np.array(ends, dtype=np.int64) for ends in bounds)
        first = np.arange(1 << _FIRST, dtype=np.int64) << _MORE
        last = first + ((1 << _MORE) - 1)
        surely_below = np.searchsorted(upper, first)
        perhaps_below = np.searchsorted(lower, last, side="right")
        decided = (surely_below == perhaps_below) & (surely_below < lower.size)
        guide = np.where(decided, surely_below, -1).astype(np.int16)
        return InversionTable(energy, folded, lower, upper, guide)

    def draw(self, count: int, source: Source) -> tuple[IntArray, NDArray[np.bool_]]:
        """So many magnitudes, and a fair sign for each (True for minus)."""
        words = source.words(count, 16)
        leading = words >> 1
        magnitudes = self.guide.take(leading).astype(np.int64)
        unsure = np.flatnonzero(magnitudes < 0)
        if unsure.size:
            magnitudes[unsure] = self._with_more_bits(leading[unsure], source)
        return magnitudes, (words & 1).astype(np.bool_)

    def _with_more_bits(self, leading: Words, source: Source) -> IntArray:
        """The values for these leading bits, completed to 63 bits, and beyond where needed."""
        more = source.words(leading.size, 64) >> (64 - _MORE)
        words = ((leading.astype(np.uint64) << _MORE) | more).astype(np.int64)
        found = np.searchsorted(self.upper, words)  # boundaries with upper < w: surely below U
        next_one = self.lower[np.minimum(found, self.lower.size - 1)]
        for i in np.flatnonzero(next_one <= words):  # also true above the last boundary
            found[i] = self._exactly(int(words[i]), source)
        return found

    def _exactly(self, word: int, source: Source) -> int:
        """The value for a U with these 63 leading bits: more bits until they decide."""
        bits = BITS
        while True:
            bits, word = bits + _STEP, word << _STEP | source.integer(_STEP)
            lower, upper = boundaries(self.energy, self.folded, bits)
            found = bisect_left(upper, word)
            if found < len(lower) and word < lower[found]:
                return found
