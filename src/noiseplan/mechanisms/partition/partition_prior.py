"""Which intervals may be buckets, and how likely a partition is before the data are looked at.

Everything here depends on the number of cells alone, so none of it costs privacy.

A partition is drawn from left to right as a chain: every bucket belongs to a regime r, has a length
L with weight p_r(L), and hands over to the regime of the next bucket with probability T(r, s). The
coarse regime gives powers of two nearly the same weight, so that a long even stretch is one cheap
bucket and not thousands; finer regimes, rarely entered, make short buckets cheap where the data are
busy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from noiseplan.arrays import IntArray, immutable
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array

Lengths = Literal["auto", "halves", "powers", "every"]
LENGTHS: Final = get_args(Lengths)

# A bucket is at most this part of all cells, by the number of attributes. A range has the bias of
# the two buckets it cuts, while noise grows with the logarithm of their number, so some tens of
# buckets are nearly free. A rectangle cuts all the patches along its border.
FEWEST: Final = {1: 32, 2: 256}
HALVED: Final = {1: 8, 2: 256}  # by halving, where a stretch of busy cells is cheap to enter
# … unless there are few cells: buckets up to this length are always allowed.
SHORT: Final = 8
# Buckets of length L start at multiples of L/GRID.
GRID: Final = 4
# Intervals that the first step weighs, at some tens of bytes each.
MOST_CANDIDATES: Final = 30_000_000
# p_r(L) ∝ FADE[r]^log₂L; a finer regime is entered with probability e^−ENTER for each step down.
FADE: Final = (1.3, 0.5, 0.15)
ENTER: Final = 6.0
LEAVE: Final = 0.1


@immutable
@dataclass(frozen=True, eq=False)
class Candidates:
    """The intervals that may be buckets: of each length those that start at multiples of a step.

    The first length is one, so that every number of cells can be covered.
    """

    cells: int
    lengths: IntArray
    steps: IntArray

    @classmethod
    def powers(cls, cells: int, longest: int, grid: int = GRID) -> Candidates:
        """Powers of two up to `longest`, a length L at every multiple of L/grid."""
        lengths = 2 ** np.arange(longest.bit_length())
        return cls(cells, lengths, np.maximum(lengths // grid, 1))

    @classmethod
    def every(cls, cells: int, longest: int) -> Candidates:
        """All intervals up to `longest` cells."""
        lengths = np.arange(1, longest + 1)
        return cls(cells, lengths, np.ones_like(lengths))

    @classmethod
    def named(
        cls, lengths: Lengths, cells: int, longest: int | None = None, attributes: int = 1
    ) -> Candidates:
        """By the name of their lengths: "powers" or "every"."""
        longest = asked_longest(longest, cells, FEWEST[attributes])
        if lengths == "powers":
            return cls.powers(cells, longest)
        if lengths == "every":
            if cells * longest > MOST_CANDIDATES:
                raise PlanError(
                    f"lengths='every' with {cells:,} cells and buckets of up to {longest:,} is "
                    f"{cells * longest:,} candidates, more than {MOST_CANDIDATES:,}: take "
                    f"longest={max(MOST_CANDIDATES // cells, 1)}, or lengths='powers'"
                )
            return cls.every(cells, longest)
        raise PlanError(f"chains of buckets have lengths 'powers' (of two) or 'every': {lengths!r}")

    def starts(self, number: int) -> IntArray:
        """Where buckets of the length with this number may start."""
        last = self.cells - int(self.lengths[number])
        return np.arange(0, last + 1, self.steps[number], dtype=np.int64)

    @property
    def intervals(self) -> tuple[IntArray, IntArray, IntArray]:
        """Starts and stops of all candidates, length by length, and where each length begins."""
        starts = [self.starts(number) for number in range(len(self.lengths))]
        sizes = np.array([len(part) for part in starts], dtype=np.int64)
        start = np.concatenate(starts)
        stop = start + np.repeat(self.lengths, sizes)
        return start, stop, np.concatenate([[0], np.cumsum(sizes)])


def asked_longest(longest: int | None, cells: int, fewest: int) -> int:
    """The longest bucket that was asked for, or the usual one."""
    if longest is None:
        return default_longest(cells, fewest)
    if not 1 <= longest <= cells:
        raise PlanError(f"longest is from 1 to the {cells:,} cells, found {longest!r}")
    return longest


def default_longest(cells: int, fewest: int = FEWEST[1]) -> int:
    """The longest bucket: the largest power of two within a part of the cells, or eight.

    Examples
    --------
    >>> default_longest(4096), default_longest(4096, 256), default_longest(100), default_longest(5)
    (128, 16, 8, 4)
    """
    limit = min(max(cells // fewest, SHORT), cells)
    return 1 << (limit.bit_length() - 1)


@immutable
@dataclass(frozen=True, eq=False)
class Prior:
    """Weights of a chain of buckets: any positive numbers that do not look at data.

    `weights[r, l]` of a bucket of length number l in regime r, `moves[r, s]` from the regime of a
    bucket to that of the next, `first[r]` of the first bucket's regime.
    """

    weights: Array
    moves: Array
    first: Array

    @classmethod
    def of(cls, candidates: Candidates) -> Prior:
        """The prior described above; lengths between powers of two share the weight of the lower.

        Examples
        --------
        >>> Prior.of(Candidates.powers(64, 2)).weights.round(3).tolist()
        [[0.435, 0.565], [0.667, 0.333], [0.87, 0.13]]
        """
        level = np.log2(candidates.lengths).astype(np.int64)
        shared = np.bincount(level)[level]
        weights = np.array(FADE)[:, None] ** level / shared
        regimes = np.arange(len(FADE))
        down = np.exp(-ENTER * np.maximum(regimes - regimes[:, None], 0))
        up = LEAVE / np.maximum(regimes, 1)[:, None]
        moves = np.where(
            regimes > regimes[:, None], down, np.where(regimes == regimes[:, None], 0, up)
        )
        moves[regimes, regimes] = 1 - moves.sum(axis=1)
        first = np.exp(-ENTER * regimes)
        return cls(weights / weights.sum(axis=1, keepdims=True), moves, first / first.sum())
