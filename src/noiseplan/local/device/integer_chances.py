"""Chances as whole numbers: tables a device can draw from exactly, with their ε recomputed.

Chances are integers out of 2⁶². Rounding never breaks the promise: every entry of a row is kept
between lo and hi = ⌊lo · e⌋, with e a rational number proved to be at most exp(ε), and columns are
made to add up to 2⁶² by moves inside these bounds. ε of the result is then computed anew from the
integers, in rationals, and rounded up.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.noise.randomness import Source
from noiseplan.privacy.rounding import down, up

BITS = 62
WHOLE = 1 << BITS

Number = TypeVar("Number", np.int64, np.float64)

_PRECISION = 256
# Entries so close to a bound of their row, as a share of its lower bound, are put on it: files get
# shorter. What that adds up to in a column is then moved to one of its other entries.
SNAP = 1e-9

_SHIFT = np.uint64(64 - BITS)
# Subsets drawn at a time: their keys stay in the cache.
ROWS = 1 << 12


def exp_down(epsilon: float) -> Fraction:
    """A rational number at most exp(ε), for ε ≥ 0, closer than 2⁻²⁰⁰ of it.

    Notes
    -----
    Partial sums of the exponential series are below exp(ε), and every term is rounded down.

    Examples
    --------
    >>> 0 <= math.e - exp_down(1.0) < 1e-15
    True
    """
    x = Fraction(epsilon)
    term = total = 1 << _PRECISION
    k = 0
    while term:
        k += 1
        term = term * x.numerator // (x.denominator * k)
        total += term
    return Fraction(total, 1 << _PRECISION)


def log_up(ratio: Fraction) -> float:
    """The smallest float ε found with exp(ε) ≥ ratio proved, for a ratio of at least 1.

    Examples
    --------
    >>> log_up(Fraction(3)) - math.log(3) < 1e-15, log_up(Fraction(1))
    (True, 0.0)
    """
    if ratio <= 1:
        return 0.0
    guess = math.log1p(float(ratio - 1))  # within a few units of the last place
    epsilon = max(down(guess, 8), 0.0)
    while exp_down(epsilon) < ratio:
        epsilon = up(epsilon)
    return epsilon


def settled(
    table: NDArray[Number], low: NDArray[Number], high: NDArray[Number], whole: Number | float
) -> NDArray[Number]:
    """Columns made to sum to `whole` by moving few entries, each inside the bounds of its row."""
    table = table.copy()
    columns = np.arange(table.shape[1])
    for _ in range(len(table) + 1):  # one move of every row, and a last look
        missing = whole - table.sum(axis=0)
        if table.dtype.kind == "f":
            missing[np.abs(missing) <= 1e-15] = 0
        if not missing.any():
            return table
        rising = missing > 0
        room = np.where(rising, high[:, None] - table, table - low[:, None])
        row = room.argmax(axis=0)
        moved = np.minimum(np.abs(missing), room[row, columns])
        table[row, columns] += np.where(rising, moved, -moved)
    raise PlanError("no chances inside these bounds add up to one: Σ low > 1 or Σ high < 1")


def rounded_table(chances: Array, epsilon: float) -> IntArray:
    """The strategy as integers out of 2⁶², within ε whatever rounding does."""
    low = np.maximum(np.floor(chances.min(axis=1) * WHOLE), 1).astype(np.int64)
    high = _times(low, exp_down(epsilon))
    scaled = np.floor(chances * float(WHOLE)).astype(np.int64)
    table = np.clip(scaled, low[:, None], high[:, None])
    for bound in (low, high):
        near = np.abs(table - bound[:, None]) <= SNAP * low[:, None]
        table = np.where(near, bound[:, None], table)
    return settled(table, low, high, np.int64(WHOLE))


def _times(low: IntArray, factor: Fraction) -> IntArray:
    """⌊lo · e⌋, at most 2⁶²: an entry is a chance."""
    products = [min(int(v) * factor.numerator // factor.denominator, WHOLE) for v in low]
    return np.array(products, dtype=np.int64)


def table_epsilon(table: IntArray) -> float:
    """ε of a table of integers whose columns all have the same sum, rounded up."""
    if (table <= 0).any():
        return math.inf
    low, high = table.min(axis=1), table.max(axis=1)
    ratios = high / low
    likely = np.flatnonzero(ratios >= ratios.max() * (1 - 1e-12))  # floats err by less than that
    return log_up(max(Fraction(int(high[o]), int(low[o])) for o in likely))


def high_chance(size: int, types: int, epsilon: float) -> int:
    """The chance, out of 2⁶², to report one of k shapes that hold the type, of n in all.

    The largest h with (h/k) ÷ ((2⁶² − h)/(n − k)) ≤ e: a shape that holds the type is then at most
    e times as likely as one that does not.
    """
    if size in (0, types):
        return WHOLE if size else 0
    e = exp_down(epsilon)
    weight = e.numerator * size
    return WHOLE * weight // (e.denominator * (types - size) + weight)


def high_chances(sizes: IntArray, types: int, epsilon: float) -> IntArray:
    """The same for each of several sizes."""
    return np.array([high_chance(k, types, epsilon) for k in sizes.tolist()], dtype=np.int64)


def high_epsilon(high: int, size: int, types: int) -> float:
    """ε of such a chance: the log of (h/k) ÷ ((2⁶² − h)/(n − k)), rounded up."""
    if size in (0, types):  # one shape, whatever the type
        return 0.0 if high == (WHOLE if size else 0) else math.inf
    if not 0 < high < WHOLE:
        return math.inf
    ratio = Fraction(high * (types - size), (WHOLE - high) * size)
    return max(log_up(ratio), log_up(1 / ratio))


def shapes_epsilon(high: IntArray, sizes: IntArray, types: int) -> float:
    """ε of a choice among shapes of these sizes, which is public: the largest of theirs."""
    pairs = set(zip(high.tolist(), sizes.tolist(), strict=True))
    return max(high_epsilon(h, k, types) for h, k in pairs)


def rounded_shares(shares: Array) -> IntArray:
    """Shares that add up to one as integers that add up to 2⁶² (they hold no secret)."""
    table = np.floor(shares * float(WHOLE)).astype(np.int64)
    table[int(table.argmax())] += WHOLE - int(table.sum())
    return table


# ---------------------------------------------------------------------- draws in bulk
#
# Exact draws in bulk: integers from thresholds, integers below a bound, subsets of a size.
#
# How many bits are drawn, and in which order, depends on what is public and on earlier bits, never
# on what a user's value is nor on whether a report will be true to it.


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
