"""Buckets by halving: which partitions there are, how likely before the data, and a draw of one.

The line is halved, its halves are halved again, and so on down to single cells. A partition is a
tree cut off: every interval of it is either a bucket or halved. Each is in one of a few states, of
which the first halves seldom and the last nearly always; a half mostly takes over the state of the
whole. So an even stretch is a few long buckets, a busy one is single cells, and either is cheap:

    W_r(b) = (1 − SPLIT_r) · w(b) + SPLIT_r · Π_{halves c of b} Σ_s MOVE_rs · W_s(c)

with w(b) = exp(−CHARGE − β·spread(x, b)).

All numbers here but the spreads depend on the number of cells alone, so they cost no privacy.

A draw is of the law of `selection`, with another prior. One record more or less moves the spread of
one bucket by at most one, whatever the partition, so a draw is 2β-differentially private here as
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray, immutable
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.partition.exact_powers import ERROR, UNIT, Rate
from noiseplan.mechanisms.partition.interval_spread import IntervalCosts
from noiseplan.mechanisms.partition.selection import choose, countable, draw_epsilon, rate_within
from noiseplan.noise.randomness import Source

# How likely an interval is halved, by its state, and that a half enters the next state, or leaves.
SPLIT: Final = np.array([0.5, 0.8, 0.999])
ENTER: Final = exp(-6.0)
LEAVE: Final = 0.05
FIRST: Final = ENTER ** np.arange(3.0)
# Every bucket costs noise: its weight falls by this many nats (of β/ε₂ for each of Li's charges).
CHARGE: Final = 0.125


@immutable
@dataclass(frozen=True)
class Halves:
    """The intervals got by halving a line of cells; buckets hold at most `longest` of them.

    Those of level l start at the multiples of 2^l; where the cells end, they end.
    """

    cells: int
    longest: int

    @property
    def levels(self) -> int:
        """Levels above that of single cells."""
        return (self.cells - 1).bit_length()

    def intervals(self, level: int) -> tuple[IntArray, IntArray]:
        """Starts and stops of the intervals of a level."""
        start = np.arange(0, self.cells, 1 << level, dtype=np.int64)
        return start, np.minimum(start + (1 << level), self.cells)

    def spreads(self, counts: IntArray) -> list[IntArray]:
        """Σ |x_j − median| of all intervals that may be buckets, level by level."""
        costs = IntervalCosts.of(counts)
        may = range(min(self.levels, self.longest.bit_length() - 1) + 1)
        return [costs.spread(*self.intervals(level)) for level in may]

    @property
    def roundings(self) -> int:
        """Floats rounded for the sums: at most this many for each of fewer than 2·cells intervals.

        Sums over the states of a half (as many products, and one less of sums), again when a state
        is drawn; the two halves, the chances of both ways, and their sum: with some to spare.
        """
        return 2 * self.cells * (2 * len(SPLIT) + 8)


def least_cost(halves: Halves, spreads: Sequence[IntArray], charge: int) -> int:
    """min Σ_b (spread + charge) over all partitions. One record moves it by at most one.

    Examples
    --------
    >>> halves = Halves(4, 4)
    >>> least_cost(halves, halves.spreads(np.array([5, 5, 0, 9])), 2)
    6
    """
    best = spreads[0] + charge
    for spread in spreads[1:]:
        best = np.minimum(spread + charge, np.add.reduceat(best, np.arange(0, len(best), 2)))
    return int(best.sum())


def moves() -> Array:
    """MOVE: how likely a half of an interval in state r is in state s."""
    states = np.arange(len(SPLIT))
    further = states - states[:, None]
    found = np.where(further > 0, ENTER ** np.maximum(further, 0), 0.0)
    found = np.where(further < 0, LEAVE / np.maximum(states, 1)[:, None], found)
    return np.asarray(found + np.diag(1 - found.sum(axis=1)))


@dataclass(frozen=True, eq=False)
class Level:
    """Of the intervals of one level: weights of being a bucket and of being halved, and W.

    Each is a float for every state times 2^exponent, `total` = both together. Where intervals may
    not be buckets, or not be halved, that weight is zero.
    """

    stop: Array
    stop_exponent: IntArray
    split: Array
    split_exponent: IntArray
    total: Array
    exponent: IntArray


def sums(halves: Halves, rate: Rate, spreads: Sequence[IntArray]) -> list[Level]:
    """Sums over all ways to go on from every interval, from single cells up to the line."""
    found: list[Level] = []
    for level in range(halves.levels + 1):
        size = len(halves.intervals(level)[0])
        stop, split = np.zeros((size, len(SPLIT))), np.zeros((size, len(SPLIT)))
        low = high = np.zeros(size, dtype=np.int64)
        if level < len(spreads):
            mantissa, low = rate.powers(spreads[level])
            stop = mantissa[:, None] * (exp(-CHARGE) * (1 - (SPLIT if level else 0 * SPLIT)))
            high = low
        if found:
            split, high = _halved(found[-1], size)
            low = low if level < len(spreads) else high
        found.append(_together(stop, low, split, high))
    return found


def _halved(below: Level, size: int) -> tuple[Array, IntArray]:
    """SPLIT · Π_c Σ_s MOVE_rs W_s(c); a half beyond the last cell counts as one."""
    half = below.total @ moves().T
    lone = 2 * size - len(half)
    half = np.concatenate([half, np.ones((lone, len(SPLIT)))])
    exponent = np.concatenate([below.exponent, np.zeros(lone, dtype=np.int64)])
    return SPLIT * half[0::2] * half[1::2], exponent[0::2] + exponent[1::2]


def _together(stop: Array, low: IntArray, split: Array, high: IntArray) -> Level:
    """Both ways added up, with the exponent of the larger one."""
    top = np.maximum(low, high)
    total = _scaled(stop, low - top) + _scaled(split, high - top)
    lift = np.frexp(total.max(axis=1))[1].astype(np.int64)
    return Level(stop, low, split, high, _scaled(total, -lift), top + lift)


def _scaled(weights: Array, shift: IntArray) -> Array:
    return np.asarray(np.ldexp(weights, np.maximum(shift, -1100)[:, None].astype(np.int32)))


@immutable
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
