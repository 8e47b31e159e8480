"""Where to begin: prices of many ordered cells, foretold from problems with fewer of them.

Among ordered values the prices y of cells are smooth but near the two ends, where they depend on
how many cells away the end is. So they are foretold from problems over every second cell, every
fourth, and so on: the last prices, drawn to the new length, and what that missed at each end when
it was last done. Where cells have no such order the forecast fails on small problems, at no price.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array

# The shortest problem, and the shortest that is worth others before it.
SHORTEST, WORTH_IT = 64, 512
# The largest mean error of log y that a forecast may have had.
RELIABLE: Final = 0.1
SMALLEST: Final = -60.0

Solver = Callable[[IntArray, Array | None], Array]


def forecast(cells: int, solve: Solver) -> Array | None:
    """log y of every cell, or None where problems of fewer cells do not foretell each other.

    `solve` gives the prices of the best strategy over some cells, from a start.
    """
    if cells < WORTH_IT:
        return None
    known: list[Array] = []
    for kept in _nested(cells):
        start = _foretold(known, len(kept)) if known else None
        found = np.log(np.maximum(solve(kept, start), np.exp(SMALLEST)))
        if start is not None and len(known) > 1 and np.std(start - found) > RELIABLE:
            return None
        known.append(found)
    return _foretold(known, cells)


def _nested(cells: int) -> Iterator[IntArray]:
    """Every 2^k-th cell, down to every second: at equal distances, which a forecast counts on."""
    step = 2
    while cells // (2 * step) >= SHORTEST:
        step *= 2
    while step > 1:
        count = cells // step
        yield np.arange(count) * step + (cells - (count - 1) * step) // 2
        step //= 2


def _foretold(known: list[Array], cells: int) -> Array:
    """Drawn to the new length, and mended at the ends."""
    last = known[-1]
    found = _drawn(last, cells)
    if len(known) > 1:
        found = found + _at_ends(last - _drawn(known[-2], len(last)), cells)
    return found


def _drawn(values: Array, cells: int) -> Array:
    """Numbers along a line, read at other places of it."""
    places = (np.arange(len(values)) + 0.5) / len(values)
    return np.interp((np.arange(cells) + 0.5) / cells, places, values)


def _at_ends(values: Array, cells: int) -> Array:
    """The first half at the beginning, the second at the end, and a straight line between."""
    half, between = len(values) // 2, cells - len(values)
    line = np.linspace(values[half - 1], values[half], between + 2)[1:-1]
    return np.concatenate([values[:half], line, values[half:]])
