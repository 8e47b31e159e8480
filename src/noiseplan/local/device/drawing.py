"""Exact draws in bulk: integers from thresholds, integers below a bound, subsets of a size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from noiseplan.local.device.integers import BITS
from noiseplan.noise.randomness import Source

Codes = NDArray[np.int64]

_SHIFT = np.uint64(64 - BITS)


def chances(source: Source, count: int) -> Codes:
    """Uniform integers of 62 bits."""
    return (source.words(count, 64) >> _SHIFT).astype(np.int64)


def below(source: Source, bounds: Codes) -> Codes:
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


def subsets(source: Source, items: int, sizes: Codes) -> NDArray[np.bool_]:
    """For each size a uniform subset of `items` things, as a row of truth values.

    Walking down the items, each is taken with chance (still wanted)/(still there): an integer
    below the number still there is less than the number still wanted.
    """
    chosen = np.zeros((len(sizes), items), dtype=bool)
    wanted = sizes.astype(np.int64).copy()
    for item in range(items):
        left = np.full(len(sizes), items - item, dtype=np.int64)
        chosen[:, item] = below(source, left) < wanted
        wanted -= chosen[:, item]
    return chosen
