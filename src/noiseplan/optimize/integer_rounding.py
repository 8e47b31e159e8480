"""Integer matrices close to a given one: of any kind, and such that columns keep their lengths.

One record costs the square of the longest column, and every column that is shorter wastes what it
might have measured: the lengths matter to first order, the directions only to second. So entries
are rounded to the nearest integers first, and then some of them one further, until the lengths are
almost what they were. Eight or nine bits do what would otherwise take fourteen, and the sizes of
the measured numbers fall with every bit, once for each attribute of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.domain.gram import Reduction
from noiseplan.matrices.base import Array

# Columns of few entries have few ways to be rounded; several scales are tried for them.
FEW_ENTRIES: Final = 32
SCALES: Final = np.linspace(1.0, 0.6, 48, endpoint=False)
# Entries of an integer matrix. Rounding changes a variance by about 2^−bits; where the identity was
# mixed in, by about cells · 4^−bits over its share, so that four thousand cells need this many.
EXPLICIT_BITS: Final = 22
# Share of the identity in an integer matrix that would be singular; it costs as much variance.
FULL_RANK: Final = 1e-5
# Cholesky pivots with unit diagonal from which on rounding cannot make a matrix singular.
ROOMY_PIVOT: Final = 1e-3

# τ is taken in parts of a number of this size at least, and of so many to a value.
FEWEST_PARTS, PARTS_EACH = 256, 16
# How far entries may be moved from the nearest integer; by more where there are few of them.
MOVES: Final = (0, 1, -1)
FAR_MOVES: Final = (0, 1, -1, 2, -2, 3, -3)
FEW_MOVED: Final = 16
# Numbers of the table of moves that are kept at once.
MOST_STATES: Final = 1 << 24


def to_lattice(rows: Array, length: float) -> Array:
    """An integer matrix close to a multiple of `rows`, with columns no longer than about `length`.

    Examples
    --------
    >>> to_lattice(np.array([[0.6, 1.0], [0.8, 0.0]]), 10.0).tolist()
    [[3.0, 5.0], [4.0, 0.0]]
    """
    unit = rows / np.sqrt(_squares(rows).max())
    scales = length * (SCALES if len(rows) <= FEW_ENTRIES else SCALES[:1])
    wanted = scales[:, None] * unit[:, None, :]  # entries × scales × columns
    found = _with_lengths(wanted.reshape(len(rows), -1)).reshape(wanted.shape)
    best = found[:, int(np.argmin(_waste(found, wanted)))]
    return np.asarray(best / (np.gcd.reduce(best.astype(np.int64), axis=None) or 1))


def _squares(rows: Array) -> Array:
    """The squared length of every column."""
    return np.asarray(np.einsum("i...,i...->...", rows, rows))


def _waste(found: Array, wanted: Array) -> Array:
    """Of each scale: how far columns fall short of the longest, and how far directions are off."""
    lengths = _squares(wanted)
    reached = _squares(found) / np.where(lengths > 0, lengths, 1.0)
    short = 1.0 - reached.mean(axis=-1) / reached.max(axis=-1)
    return np.asarray(short + _squares(found - wanted).sum(axis=-1) / lengths.sum(axis=-1))


def _with_lengths(wanted: Array) -> Array:
    """Integers next to these, every squared column length as near to what it was as it gets.

    Moving an entry v by one away from zero adds 2|v| + 1, towards zero takes 2|v| − 1 away. Each
    step moves that entry of each column which brings it nearest to its length, each entry once.
    """
    found = np.rint(wanted) + 0.0  # no −0
    missing = np.rint(_squares(wanted)) - _squares(found)
    outward = np.where(wanted < 0, -1.0, 1.0)
    columns, moved = np.arange(wanted.shape[1]), np.zeros(wanted.shape, dtype=bool)
    while columns.size:
        sizes = np.where(moved[:, columns], np.inf, np.abs(found[:, columns]))
        ways_in = np.where(sizes > 0, 1 - 2 * sizes, np.inf)  # there is none from zero
        gains = np.concatenate([2 * sizes + 1, ways_in])
        left = np.abs(missing[columns] - gains)
        best = left.argmin(axis=0)
        at = np.arange(columns.size)
        better = left[best, at] < np.abs(missing[columns])
        gain, best, columns = gains[best, at][better], best[better], columns[better]
        inward, entry = np.divmod(best, len(wanted))
        missing[columns] -= gain
        found[entry, columns] += (1.0 - 2.0 * inward) * outward[entry, columns]
        moved[entry, columns] = True
    return np.asarray(found)


# ---------------------------------------------------------------------- for Laplace noise


def integer_rows(matrix: Array, bits: int) -> Array:
    """An integer multiple of about the same strategy, entries of at most `bits` bits.

    A strategy that is of zeros and ones up to scale stays what it is, and no row of one value
    becomes zero: a faint one may be all that tells this value from others.
    """
    largest = np.abs(matrix).max()
    if np.isin(np.abs(matrix), (0.0, largest)).all():
        return np.asarray(np.rint(matrix / largest))
    rounded = np.rint(matrix / largest * 2.0**bits)
    lost = ~rounded.any(axis=1) & (np.count_nonzero(matrix, axis=1) == 1)
    rounded[lost] = np.sign(matrix[lost])
    return _levelled(rounded[rounded.any(axis=1)], np.abs(matrix).sum(axis=0) / largest * 2.0**bits)


def _levelled(rounded: Array, norms: Array) -> Array:
    """The same with the L1 norm of each column as it should be, by its largest entry.

    Rounding makes some columns longer, and the longest one is paid for by all.
    """
    columns = np.arange(rounded.shape[1])
    at = np.abs(rounded).argmax(axis=0)
    largest = rounded[at, columns]
    changed = np.abs(largest) + np.floor(norms) - np.abs(rounded).sum(axis=0)
    result = rounded.copy()
    result[at, columns] = np.sign(largest) * np.maximum(changed, 1.0)
    return result


# ---------------------------------------------------------------------- over a small domain


def integer_strategy(strategy: Array) -> Array:
    """An integer matrix for almost the same cost matrix, with a row for every cell told apart.

    Cells with equal columns stay together, and cells that are not measured stay out. Among the rest
    rounding would tilt a row space that is not everything, and queries would fall out of it; so
    where the cost matrix is nearly singular a little of the identity is mixed in first.
    """
    told = Reduction.of_columns(strategy)
    if not told.trivial:
        return told.widened(integer_strategy(told.columns(strategy)))
    cost = strategy.T @ strategy
    root = _upper_root(cost)
    if root is None:
        mixed = (1 - FULL_RANK) * cost
        mixed[np.diag_indices(len(cost))] += FULL_RANK * np.diagonal(cost).max()
        root = np.asarray(np.linalg.cholesky(mixed).T)
    rounded = np.rint(root / np.abs(root).max() * 2**EXPLICIT_BITS)
    # Of a cell that is hardly measured something is left: the matrix stays regular.
    every = np.diag_indices(len(rounded))
    rounded[every] = np.maximum(rounded[every], 1.0)
    return np.asarray(rounded)


def with_every_cell(strategy: Array) -> Array:
    """The same with a little of the identity, so that it determines everything."""
    extra = np.sqrt(FULL_RANK * float(np.einsum("ri,ri->i", strategy, strategy).max())) * np.eye(
        strategy.shape[1]
    )
    return np.concatenate([np.sqrt(1 - FULL_RANK) * strategy, extra])


def _upper_root(cost: Array) -> Array | None:
    """R with RᵀR = C, triangular; nothing if C is nearly singular."""
    try:
        root = np.asarray(np.linalg.cholesky(cost).T)
    except np.linalg.LinAlgError:
        return None
    lengths = np.sqrt(np.diagonal(cost))
    return root if (np.diagonal(root) / lengths).min() ** 2 > ROOMY_PIVOT else None


# ---------------------------------------------------------------------- with a kernel
#
# Integer rows that annihilate a given vector of integers, close to rows that do so as numbers.
#
# Rows of a block see nothing of the sum over an attribute: Uτ = 0, exactly, with τ = t/s rational.
# Every entry is rounded to the nearest integer, and some of them a little further, such that
# r·t = 0 and the squares of all changes are least: a knapsack, solved by dynamic programming over
# the entries with the sum so far as the state, for all rows at once.


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
    moves = FAR_MOVES if rows.shape[1] <= FEW_MOVED else MOVES
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
