"""How uneven an interval of counts is, for any intervals at once, in O(log n) each.

Two measures of x over an interval b of cells:

    deviation   Σ |x_j − mean|      what uniform expansion loses (Li, equation 6.3)
    spread      Σ |x_j − median|    an integer, at least half of the deviation and at most all of it

One record more or less moves the spread by at most one, the deviation by up to 2 − 2/|b|.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array

Number = TypeVar("Number", np.int64, np.float64)

# Intervals looked up at a time: what they need stays in the processor's cache.
AT_ONCE: Final = 1 << 16


@dataclass(frozen=True, eq=False)
class IntervalCosts:
    """A wavelet matrix over the ranks of the counts: sums of the smallest within any interval.

    Level by level, from the leading bit of the ranks, cells with bit 0 are put before those with
    bit 1, keeping their order. `zeros[i]` counts the zero bits before place i and `sums[i]` adds up
    their counts, so that an interval is followed downwards in constant time a level.

    References
    ----------
    Claude, Navarro and Ordóñez, "The wavelet matrix", 2015. The dissertation (6.3.2.3) keeps a
    balanced tree for a sliding window instead, to the same order of work.
    """

    sorted: IntArray
    prefix: IntArray  # sums of the counts before each place
    zeros: tuple[IntArray, ...]
    sums: tuple[IntArray, ...]

    @classmethod
    def of(cls, counts: IntArray) -> IntervalCosts:
        """The structure for a vector of counts, in O(n log n)."""
        values = np.asarray(counts, dtype=np.int64)
        order = np.argsort(values, kind="stable")
        ranks = np.empty(len(values), dtype=np.int64)
        ranks[order] = np.arange(len(values))
        ordered, prefix = values[order], _before(values)
        zeros, sums = [], []
        for bit in reversed(range(max(1, (len(values) - 1).bit_length()))):
            zero = (ranks >> bit) & 1 == 0
            zeros.append(_before(zero.astype(np.int64)))
            sums.append(_before(np.where(zero, values, 0)))
            places = np.concatenate([np.flatnonzero(zero), np.flatnonzero(~zero)])
            ranks, values = ranks[places], values[places]
        return cls(ordered, prefix, tuple(zeros), tuple(sums))

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.sorted)

    def totals(self, start: IntArray, stop: IntArray) -> IntArray:
        """Σ x_j over start ≤ j < stop."""
        return np.asarray(self.prefix[stop] - self.prefix[start])

    def spread(self, start: IntArray, stop: IntArray) -> IntArray:
        """Σ |x_j − median| over start ≤ j < stop, exactly.

        Examples
        --------
        >>> x = IntervalCosts.of(np.array([2, 3, 8, 1]))
        >>> x.spread(np.array([0, 0, 3]), np.array([2, 4, 4])).tolist()
        [1, 8, 0]
        """
        return _in_parts(self._spread, start, stop, np.int64)

    def deviation(self, start: IntArray, stop: IntArray) -> Array:
        """Σ |x_j − mean| over start ≤ j < stop.

        Examples
        --------
        >>> x = IntervalCosts.of(np.array([2, 3, 8, 1]))
        >>> x.deviation(np.array([0, 0, 3]), np.array([2, 4, 4])).tolist()
        [1.0, 9.0, 0.0]
        """
        return _in_parts(self._deviation, start, stop, np.float64)

    def _spread(self, start: IntArray, stop: IntArray) -> IntArray:
        """The larger half minus the smaller half; the middle one of an odd number is in neither."""
        length, total = stop - start, self.totals(start, stop)
        wanted, below, rank = length // 2, np.zeros_like(start), np.zeros_like(start)
        for zeros, sums in zip(self.zeros, self.sums, strict=True):
            left, right = zeros[start], zeros[stop]
            high = wanted >= right - left
            below += np.where(high, sums[stop] - sums[start], 0)
            wanted = np.where(high, wanted - (right - left), wanted)
            start = np.where(high, start - left + zeros[-1], left)
            stop = np.where(high, stop - right + zeros[-1], right)
            rank = 2 * rank + high
        return np.asarray(total - 2 * below - (length & 1) * self.sorted[rank])

    def _deviation(self, start: IntArray, stop: IntArray) -> Array:
        """2 (|I| mean − Σ_I x_j) over the cells I below the mean."""
        mean = self.totals(start, stop) / (stop - start)
        limit = np.searchsorted(self.sorted, mean)  # ranks below it are below the mean
        below, count = np.zeros_like(start), np.zeros_like(start)
        for level, (zeros, sums) in enumerate(zip(self.zeros, self.sums, strict=True)):
            left, right = zeros[start], zeros[stop]
            high = (limit >> (len(self.zeros) - 1 - level)) & 1 == 1
            below += np.where(high, sums[stop] - sums[start], 0)
            count += np.where(high, right - left, 0)
            start = np.where(high, start - left + zeros[-1], left)
            stop = np.where(high, stop - right + zeros[-1], right)
        return np.asarray(np.maximum(2 * (mean * count - below), 0.0))


def hidden_norm(counts: IntArray, edges: IntArray) -> int:
    """⌊‖x − Px‖₂⌋, with P the mean over every bucket: what even sharing hides, exactly.

    One record moves ‖x − Px‖₂ by ‖(I − P)e_j‖ < 1 at most, and so its whole part by at most one.

    Examples
    --------
    >>> hidden_norm(np.array([3, 5, 0, 9]), np.array([0, 2, 4]))
    6
    """
    exact = [int(x) for x in counts]
    squares = sum(x * x for x in exact)
    totals = np.add.reduceat(np.array(exact, dtype=object), edges[:-1])
    widths = np.diff(edges)
    shared = sum(
        Fraction(sum(t * t for t in totals[widths == width]), int(width))
        for width in np.unique(widths)
    )
    return isqrt(int(squares - shared))


def _before(values: IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(values)])


def _in_parts(
    measure: Callable[[IntArray, IntArray], NDArray[Number]],
    start: IntArray,
    stop: IntArray,
    kind: type[Number],
) -> NDArray[Number]:
    start, stop = np.asarray(start, dtype=np.int64), np.asarray(stop, dtype=np.int64)
    found = np.empty(len(start), dtype=kind)
    for first in range(0, len(start), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        found[part] = measure(start[part], stop[part])
    return found
