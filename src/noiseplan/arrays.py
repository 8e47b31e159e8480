"""Small helpers on integer arrays: sets of attributes are rows of numbers here."""

from __future__ import annotations

from itertools import chain, combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


def combination_rows(items: int, size: int) -> IntArray:
    """All `size`-subsets of `range(items)` as ascending rows, in lexicographic order."""
    count = comb(items, size)
    flat = chain.from_iterable(combinations(range(items), size))
    return np.fromiter(flat, dtype=np.int64, count=count * size).reshape(count, size)


def row_keys(rows: NDArray[np.integer], base: int) -> IntArray | None:
    """One integer per row of entries in −1 … base − 2, ordered as the rows are; None if it overflows."""
    if rows.shape[1] * np.log2(max(base, 2)) >= 62:
        return None
    keys = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        keys = keys * base + (column + 1)
    return keys


def unique_rows(rows: NDArray[np.integer]) -> tuple[IntArray, IntArray]:
    """Index of the first row of each distinct kind, and the kind of every row.

    Kinds are numbered in lexicographic order of their rows. Entries must be at least −1.
    """
    if not len(rows):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if not rows.shape[1]:
        return np.zeros(1, dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    keys = row_keys(rows, int(rows.max()) + 2)
    if keys is None:
        _, first, kind = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    else:
        _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    return first.astype(np.int64), kind.reshape(-1).astype(np.int64)
