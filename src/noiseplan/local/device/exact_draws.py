"""Exact draws in bulk: integers from thresholds, integers below a bound, subsets of a size.

How many bits are drawn, and in which order, depends on what is public and on earlier bits, never on
what a user's value is nor on whether a report will be true to it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.local.device.integer_chances import BITS
from noiseplan.noise.randomness import Source

_SHIFT = np.uint64(64 - BITS)
# Subsets drawn at a time: their keys stay in the cache.
ROWS = 1 << 12


def chances(source: Source, count: int) -> IntArray:
    """Uniform integers of 62 bits."""
    return (source.words(count, 64) >> _SHIFT).astype(np.int64)


def below(source: Source, bounds: IntArray) -> IntArray:
    """For each bound a uniform integer from 0 to bound − 1.

    Exact: words beyond the last whole multiple of the bound are drawn again.
    """
    limits = bounds.astype(np.uint64)
    result = np.empty(len(bounds), dtype=np.int64)
    open_ = np.arange(len(bounds))
    while len(open_):
        words, limit = source.words(len(open_), 64), limits[open_]
        remainder = words % limit
        # The block of the word is whole unless it would reach beyond 2⁶⁴ − 1.
        fine = words - remainder <= np.uint64(2**64 - 1) - (limit - np.uint64(1))
        result[open_[fine]] = remainder[fine].astype(np.int64)
        open_ = open_[~fine]
    return result


def nested_subsets(
    source: Source, items: int, sizes: IntArray
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For each size k a uniform subset of k of `items` things, and one of k − 1, as truth values.

    Each of the two is uniform; they share their bits, since only one of them will be used. Where
    there are fewer than k things it is all of them, and where k is 0 none.
    """
    larger = np.zeros((len(sizes), items), dtype=np.bool_)
    smaller = larger.copy()
    for size in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size)
        if size > items:
            larger[rows] = smaller[rows] = True
        elif size:
            for start in range(0, len(rows), ROWS):
                piece = rows[start : start + ROWS]
                larger[piece], smaller[piece] = _of_size(source, items, size, len(piece))
    return larger, smaller


def _of_size(
    source: Source, items: int, size: int, count: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Every thing draws a key, and those with the smallest keys are chosen.

    Exact: rows in which another thing has the key of the last one chosen are drawn again. That
    happens to all subsets equally often, so the others stay uniform.
    """
    larger = np.empty((count, items), dtype=np.bool_)
    smaller = larger.copy()
    open_ = np.arange(count)
    while len(open_):
        keys = source.words(len(open_) * items, 16).reshape(-1, items)
        last = np.partition(keys, size - 1, axis=1)[:, size - 1, None]
        up_to, below_ = keys <= last, keys < last
        # No other has the key of the last one, neither among the chosen nor among the rest.
        fine = (up_to.sum(axis=1) == size) & (below_.sum(axis=1) == size - 1)
        larger[open_], smaller[open_] = up_to, below_
        open_ = open_[~fine]
    return larger, smaller
