"""Counts as they travel from an engine: only the cells that hold records, of all tables at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.merged_tables import Members, cells


@final
class Parcel:
    """What came from an engine.

    Parameters
    ----------
    found
        The columns ``place``, ``cell`` and ``records``: which table, which of its cells by packed
        number, and how many records are there. Places beyond the tables hold notes.
    tables
        The sets of attributes that were counted.

    Examples
    --------
    >>> found = {"place": [1, 0, 2], "cell": [3, 0, 0], "records": [5, 7, 9]}
    >>> parcel = Parcel({k: np.array(v) for k, v in found.items()}, [(0,), (0, 1)])
    >>> parcel.notes, [table.tolist() for table in parcel.tables(shape=(2, 2))]
    ({0: 9}, [[7, 0], [[0, 0], [0, 5]]])
    """

    def __init__(self, found: Mapping[str, NDArray[np.integer]], tables: Sequence[Members]) -> None:
        order = np.argsort(found["place"], kind="stable")
        place, self._cell, self._records = (found[k][order] for k in ("place", "cell", "records"))
        self._sets = tables
        self._ends = np.searchsorted(place, np.arange(len(tables) + 1)).tolist()
        noted = (place[self._ends[-1] :] - len(tables)).tolist()
        values = self._records[self._ends[-1] :].tolist()
        self.notes: dict[int, int] = dict(zip(noted, values, strict=True))
        """The notes, numbered from 0."""

    def tables(self, shape: Sequence[int]) -> list[NDArray[np.int64]]:
        """Return the tables, zero where nothing came.

        Ask after the notes were read: values without a code have no cell.
        """
        unpacked = []
        for table, (first, last) in zip(self._sets, pairwise(self._ends), strict=True):
            counts = np.zeros(cells(table, shape), dtype=np.int64)
            counts[self._cell[first:last]] = self._records[first:last]
            unpacked.append(counts.reshape([shape[member] for member in table]))
        return unpacked
