"""How far apart the columns of two records are: what it costs to replace one by the other."""

from __future__ import annotations

from typing import Final

import numpy as np

from noiseplan.arrays import distinct_rows
from noiseplan.matrices.base import DENSE_LIMIT, Array

EPS: Final = float(np.finfo(float).eps)
# Numbers of all differences of columns that are looked at.
PAIRED_NUMBERS: Final = 1 << 31
# Inner products of columns that are held at once.
HELD: Final = 1 << 20


def pair_distances(gram: Array, numbers: int) -> Array:
    """‖u(x) − u(y)‖² of every pair, and no less, from inner products of so many numbers.

    Columns may be long and near each other, so what rounding takes is counted in units of their
    lengths, not of what is left of them.

    Examples
    --------
    >>> pair_distances(np.eye(2), 2).round(12).tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    own = np.diagonal(gram)
    apart = np.maximum(own[:, None] + own[None, :] - 2 * gram, 0.0)
    return np.asarray(apart + _rounding(own, numbers))


def columns_apart(rows: Array, power: int) -> float:
    """The largest Σ_r |a_ru − a_rv|^p over pairs of columns, to the rounding of its sums; over very
    many cells a bound, 2^p times the largest column.

    Examples
    --------
    >>> rows = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 0.0]])
    >>> columns_apart(rows, 1), round(columns_apart(rows, 2), 12)
    (2.0, 4.0)
    """
    if power == 2:
        return _farthest_columns(rows)
    if rows.size * rows.shape[1] > PAIRED_NUMBERS:
        return 2.0 * float(np.abs(rows).sum(axis=0).max(initial=0.0))
    each = (np.abs(rows[:, :u] - rows[:, [u]]).sum(axis=0) for u in range(1, rows.shape[1]))
    return max((float(apart.max()) for apart in each), default=0.0)


def different_columns(rows: Array) -> Array:
    """The columns that are not the same, each once.

    Examples
    --------
    >>> different_columns(np.array([[1.0, 2.0, 1.0], [0.0, 3.0, 0.0]])).tolist()
    [[1.0, 2.0], [0.0, 3.0]]
    """
    return np.ascontiguousarray(rows[:, distinct_rows(rows.T)[0]])


def _farthest_columns(rows: Array) -> float:
    """`farthest` of their inner products, some at a time: a few rows may have very many columns."""
    own, count = np.einsum("ri,ri->i", rows, rows), rows.shape[1]
    if count < 2:
        return 0.0
    if count**2 > DENSE_LIMIT:
        return 4.0 * float(own.max())
    largest, step = 0.0, max(1, HELD // count)
    for begin in range(0, count, step):
        some = slice(begin, begin + step)
        products = rows[:, some].T @ rows
        largest = max(largest, float((own[some, None] + own - 2 * products).max()))
    return largest + _rounding(own, len(rows))


def _rounding(own: Array, numbers: int) -> float:
    """What sums of so many numbers may be off, in units of the longest column."""
    return float(4 * (numbers + 4) * EPS * own.max(initial=0.0))


def farthest(gram: Array, numbers: int) -> float:
    """The largest distance of two different columns; 0 where there is one."""
    return float(pair_distances(gram, numbers).max()) if len(gram) > 1 else 0.0
