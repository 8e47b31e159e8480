"""Tables counted beforehand: one pass over the data for everything that will be asked."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import ArrayLike

from noiseplan.counting.counter import Sums
from noiseplan.counting.merged_tables import Members, cells, maximal
from noiseplan.counting.projectable import Countable, Counts, Projectable, checked_sets
from noiseplan.counting.records import Records
from noiseplan.counting.refusals import reading

# Cells held at a time, 256 MiB of counts. Where more are wanted the data are passed over again.
_HELD: Final = 1 << 25
# Below so many records for each cell, keeping the cells costs more than counting the records again.
_RECORDS_PER_CELL: Final = 64


def count_tables(
    source: Projectable, sets: Iterable[ArrayLike], *, held: int = _HELD
) -> Projectable:
    """Count all tables that will be asked for, in as few passes over the data as memory allows.

    Only the tables that no other contains are counted; the rest are sums of them. The first pass
    is made at once, so that data that do not fit the schema are refused here, before anything is
    spent on them.

    Parameters
    ----------
    source
        What :func:`open_source` returned.
    sets
        Arrays of sets of attributes as :meth:`Projectable.marginals` takes them, in the order in
        which they will be asked for.
    held
        How many cells to hold in memory. Sets are split into stretches that fit, and each stretch
        is one pass over the data; a table larger than this is a stretch of its own. Data that can
        be passed over only once have all their tables counted then, whatever they take.

    Examples
    --------
    >>> from noiseplan.counting import open_source
    >>> from noiseplan.schema import Schema
    >>> schema = Schema.from_sizes({"a": 2, "b": 3})
    >>> source = open_source({"a": [0, 1, 1], "b": [2, 0, 0]}, schema)
    >>> counted = count_tables(source, [[[0], ], [[0, 1]]])
    >>> counted.marginals([[0], ]).tolist()
    [[1, 2]]
    """
    if not isinstance(source, Countable):
        return source
    wanted = dict.fromkeys(
        tuple(row) for some in sets for row in checked_sets(some, source.schema)[0].tolist()
    )
    if isinstance(source, Records):
        every = sum(cells(table, source.schema.shape) for table in wanted)
        if source.rows * len(wanted) < _RECORDS_PER_CELL * every:
            return source
    # A second pass over what can be read once would be refused after the ledger was charged.
    most = sys.maxsize if source.once else held
    tables = Tables(source, _stretches(list(wanted), source.schema.shape, most))
    tables.prepare(0)
    return tables


@final
@dataclass(eq=False, repr=False)
class Tables:
    """Counts of some tables, and of all that can be summed from them.

    Each stretch of tables is counted when the first of them is asked for, and let go when another
    stretch is.
    """

    source: Countable
    stretches: list[list[Members]]
    _current: int = -1

    def __post_init__(self) -> None:
        source = self.source
        self.schema, self.origin = source.schema, source.origin
        self.max_rows, self.choice = source.max_rows, source.choice
        self._sums = Sums({}, self.schema.shape)
        pairs = [(members, n) for n, some in enumerate(self.stretches) for members in some]
        self._stretch_of = dict(reversed(pairs))

    def __repr__(self) -> str:
        return f"Tables({', '.join(self.schema.names)})"  # no count: it would be private

    def prepare(self, stretch: int) -> None:
        """Count the tables of a stretch, unless they are those at hand."""
        if stretch == self._current or not self.stretches:
            return
        shape = self.schema.shape
        self._sums = Sums({}, shape)  # lets go of the tables at hand
        tables = maximal(self.stretches[stretch], shape)
        with reading(self.source.details):
            counted = self.source.count(tables)
        self._sums = Sums(dict(zip(tables, counted, strict=True)), shape)
        self._current = stretch

    def marginals(self, sets: ArrayLike) -> Counts:
        """Return the tables of each set of attributes; see :class:`Projectable`.

        A set that was not announced is counted by a pass of its own.
        """
        positions, shape = checked_sets(sets, self.schema)
        wanted = [tuple(row) for row in positions.tolist()]
        stretches = [self._stretch_of.get(members, -1) for members in wanted]
        if not wanted or -1 in stretches:
            return self.source.marginals(sets)
        found = np.empty((len(wanted), *shape), dtype=np.int64)
        for stretch in dict.fromkeys(stretches):
            self.prepare(stretch)
            places = [n for n, where in enumerate(stretches) if where == stretch]
            for n in places:
                found[n] = self._sums.table(wanted[n])
        return found


def _stretches(wanted: list[Members], shape: Sequence[int], held: int) -> list[list[Members]]:
    """Split the sets, in their order, so that the tables of each part fit into memory."""
    if sum(cells(table, shape) for table in maximal(wanted, shape)) <= held:
        return [wanted] if wanted else []
    parts: list[list[Members]] = [[]]
    taken = 0
    for members in wanted:
        size = cells(members, shape)
        if parts[-1] and taken + size > held:
            parts.append([])
            taken = 0
        parts[-1].append(members)
        taken += size
    return parts
