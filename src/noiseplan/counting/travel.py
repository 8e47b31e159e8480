"""Counts as they travel from an engine: only the cells that hold records, of all tables at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.covering import Members, cells


def unpacked(
    found: Mapping[str, NDArray[np.integer]], tables: Sequence[Members], shape: Sequence[int]
) -> tuple[list[NDArray[np.int64]], dict[int, int]]:
    """Put the counts into tables.

    Parameters
    ----------
    found
        The columns ``place``, ``cell`` and ``records``: which table, which of its cells by packed
        number, and how many records are there. Places beyond the tables hold notes.
    tables
        The sets of attributes that were counted.
    shape
        The size of each attribute.

    Returns
    -------
    tables, notes
        The tables, zero where nothing came; and the notes, numbered from 0.

    Examples
    --------
    >>> found = {"place": [1, 0, 2], "cell": [3, 0, 0], "records": [5, 7, 9]}
    >>> counts, notes = unpacked({k: np.array(v) for k, v in found.items()}, [(0,), (0, 1)], (2, 2))
    >>> [table.tolist() for table in counts], notes
    ([[7, 0], [[0, 0], [0, 5]]], {0: 9})
    """
    order = np.argsort(found["place"], kind="stable")
    place, cell, records = (found[name][order] for name in ("place", "cell", "records"))
    ends = np.searchsorted(place, np.arange(len(tables) + 1)).tolist()
    unpacked_tables = []
    for table, (first, last) in zip(tables, pairwise(ends), strict=True):
        counts = np.zeros(cells(table, shape), dtype=np.int64)
        counts[cell[first:last]] = records[first:last]
        unpacked_tables.append(counts.reshape([shape[member] for member in table]))
    noted = (place[ends[-1] :] - len(tables)).tolist()
    return unpacked_tables, dict(zip(noted, records[ends[-1] :].tolist(), strict=True))
