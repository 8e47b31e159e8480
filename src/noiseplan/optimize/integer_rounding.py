"""Integer matrices close to a given one whose columns keep their lengths.

One record costs the square of the longest column, and every column that is shorter wastes what it
might have measured: the lengths matter to first order, the directions only to second. So entries
are rounded to the nearest integers first, and then some of them one further, until the lengths are
almost what they were. Eight or nine bits do what would otherwise take fourteen, and the sizes of
the measured numbers fall with every bit, once for each attribute of a table.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from noiseplan.matrices.base import Array

# Columns of few entries have few ways to be rounded; several scales are tried for them.
FEW_ENTRIES: Final = 32
SCALES: Final = np.linspace(1.0, 0.6, 48, endpoint=False)


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
