"""Integer rows that annihilate a given vector of integers, close to rows that do so as numbers.

Rows of a block see nothing of the sum over an attribute: Uτ = 0, exactly, with τ = t/s rational.
Every entry is rounded to the nearest integer, and some of them a little further, such that r·t = 0
and the squares of all changes are least: a knapsack, solved by dynamic programming over the entries
with the sum so far as the state, for all rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array

# τ is taken in parts of a number of this size at least, and of so many to a value.
FEWEST_PARTS, PARTS_EACH = 256, 16
# How far entries may be moved from the nearest integer; by more where there are few of them.
MOVES: Final = (0, 1, -1)
FAR_MOVES: Final = (0, 1, -1, 2, -2, 3, -3)
FEW_ENTRIES: Final = 16
# Numbers of the table of moves that are kept at once.
MOST_STATES: Final = 1 << 24


def in_parts(centre: Array) -> IntArray:
    """Integers t with τ ≈ t/Σt; equal where the entries of τ are all equal."""
    count = len(centre)
    parts = count * max(PARTS_EACH, -(-FEWEST_PARTS // count))
    wanted = centre * parts
    found = np.floor(wanted).astype(np.int64)
    missing = parts - int(found.sum())
    found[np.argsort(found - wanted, kind="stable")[:missing]] += 1
    return np.asarray(found // np.gcd.reduce(found))


def kernel_rows(rows: Array, parts: IntArray) -> Array:
    """Integer rows close to these, with r·t = 0 for every one.

    Where no such rows are near, s·r − (r·t)1ᵀ of the nearest integers r, with s = Σt, which are
    close to s times the rows.
    """
    moves = FAR_MOVES if rows.shape[1] <= FEW_ENTRIES else MOVES
    nearest = np.rint(rows)
    reach = int(np.abs(nearest @ parts).max(initial=0)) + 4 * int(np.abs(parts).max())
    step = max(1, MOST_STATES // (rows.shape[1] * (2 * reach + 1)))
    found = [
        _moved(rows[i : i + step], nearest[i : i + step], parts, moves, reach)
        for i in range(0, len(rows), step)
    ]
    if any(part is None for part in found):
        return centred(nearest, [parts])
    return np.concatenate([nearest[:0], *(part for part in found if part is not None)])


def centred(rows: Array, parts: Sequence[IntArray]) -> Array:
    """Integer rows over the cells of some attributes, made to annihilate t along each of them."""
    cube = rows.reshape(len(rows), *map(len, parts))
    for axis, own in enumerate(parts, start=1):
        seen = np.expand_dims(np.tensordot(cube, own, axes=(axis, 0)), axis)
        cube = int(own.sum()) * cube - seen
    return np.asarray(cube.reshape(rows.shape))


def _moved(
    rows: Array, nearest: Array, parts: IntArray, moves: tuple[int, ...], reach: int
) -> Array | None:
    """The nearest integers moved into the kernel, or nothing if some row cannot be."""
    count, wide = len(rows), 2 * reach + 1
    least = np.full((count, wide), np.inf)
    least[:, reach] = 0.0
    taken = np.empty((rows.shape[1], count, wide), dtype=np.int8)
    for j, part in enumerate(parts.tolist()):
        best, chosen = np.full_like(least, np.inf), taken[j]
        chosen[:] = 0
        for number, move in enumerate(moves):
            penalty = (nearest[:, j] + move - rows[:, j]) ** 2
            tried = _shifted(least, move * part) + penalty[:, None]
            chosen[tried < best] = number
            np.minimum(best, tried, out=best)
        least = best
    at = reach - (nearest @ parts).astype(np.int64)
    every = np.arange(count)
    if not np.isfinite(least[every, at]).all():
        return None
    result, step = nearest.copy(), np.array(moves)
    for j in range(rows.shape[1] - 1, -1, -1):
        move = step[taken[j, every, at]]
        result[:, j] += move
        at = at - move * parts[j]
    return result


def _shifted(values: Array, by: int) -> Array:
    """Columns moved to the right by `by`, infinite where nothing came from."""
    if by == 0:
        return values
    result = np.full_like(values, np.inf)
    if by > 0:
        result[:, by:] = values[:, :-by]
    else:
        result[:, :by] = values[:, -by:]
    return result
