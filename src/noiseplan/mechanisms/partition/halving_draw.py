"""Drawing a partition by halving: the law of `selection`, with another prior.

One record more or less moves the spread of one bucket by at most one, whatever the partition, so a
draw is 2β-differentially private here as there.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.mechanisms.partition.exact_powers import ERROR, UNIT, Rate
from noiseplan.mechanisms.partition.halving import FIRST, Halves, Level, moves, sums
from noiseplan.mechanisms.partition.selection import choose, countable, draw_epsilon, rate_within
from noiseplan.noise.randomness import Source


@dataclass(frozen=True, eq=False)
class HalvingSelector:
    """The mechanism that draws a partition by halving: its intervals, and its rate β = r·ln 2."""

    halves: Halves
    rate: Rate

    @classmethod
    def within(cls, epsilon: float, halves: Halves) -> HalvingSelector:
        """The selector with the largest β whose cost, roundings included, is at most ε."""
        return cls(halves, rate_within(epsilon, halving_slack(halves)))

    @property
    def epsilon(self) -> float:
        """ε of a draw, recomputed from the rate, with what roundings may add; rounded up."""
        return draw_epsilon(self.rate, halving_slack(self.halves))

    @property
    def longest(self) -> int:
        """The most cells of a bucket."""
        return self.halves.longest

    def sums(self, counts: IntArray) -> list[Level]:
        """The sums over all partitions for these counts. Confidential: it knows the data."""
        return sums(self.halves, self.rate, self.halves.spreads(countable(counts, self.rate)))

    def draw(self, counts: IntArray, source: Source) -> IntArray:
        """A partition: its edges, from 0 to the number of cells.

        Examples
        --------
        >>> from noiseplan.noise import SeededSource
        >>> selector = HalvingSelector.within(2.0, Halves(8, 4))
        >>> selector.draw(np.array([0, 0, 0, 0, 90, 0, 0, 0]), SeededSource(1)).tolist()
        [0, 4, 5, 6, 7, 8]
        """
        return draw_downwards(self.sums(counts), self.halves.cells, source)


def halving_slack(halves: Halves) -> Fraction:
    """What floating point may add to ε when halving: as `slack`, with the roundings of a tree."""
    return 4 * Fraction(halves.roundings) * Fraction(UNIT) + 4 * Fraction(ERROR)


def draw_downwards(levels: list[Level], cells: int, source: Source) -> IntArray:
    """One tree from all of them, from the whole line down to its buckets; their edges."""
    top, stops = len(levels) - 1, [0]
    waiting = [(top, 0, choose((FIRST * levels[top].total[0]).tolist(), None, source))]
    move = moves()
    while waiting:
        level, place, state = waiting.pop()
        here = levels[level]
        weights = [float(here.stop[place, state]), float(here.split[place, state])]
        exponents = [int(here.stop_exponent[place]), int(here.split_exponent[place])]
        if choose(weights, exponents, source) == 0:
            stops.append(min((place + 1) << level, cells))
            continue
        below = levels[level - 1].total
        for half in (2 * place + 1, 2 * place):  # the left one is drawn first
            if half < len(below):
                own = choose((move[state] * below[half]).tolist(), None, source)
                waiting.append((level - 1, half, own))
    return np.array(stops, dtype=np.int64)
