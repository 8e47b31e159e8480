"""A counter: blocks of records go in, tables come out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting import kernel_numba, kernel_numpy
from noiseplan.counting.merged_tables import Containers, Members, cells, covering, maximal
from noiseplan.errors import DataError
from noiseplan.progress import progress
from noiseplan.schema import Schema

# How many records to expect where nobody can tell.
_EXPECTED: Final = 1_000_000
# Records are gathered before they are counted: tables take turns in the cache, and a turn must be
# long enough to be worth fetching the table's counters.
_GATHERED: Final = 1 << 20
_GATHERED_BYTES: Final = 1 << 25
# From so many records times tables on, numba's start is earned back.
_WORTH_STARTING: Final = 1 << 28
_WORTH_CALLING: Final = 1 << 20
_WORTH_SHARING: Final = 1 << 22
# From so many on, a second's work, progress is shown, each thread's share in so many steps.
_WORTH_SHOWING: Final = 1 << 29
_STEPS: Final = 16
_LARGEST_TABLE: Final = 1 << 31


@final
class Counter:
    """Counts records by several sets of attributes at once.

    Parameters
    ----------
    schema
        The attributes.
    tables
        The sets of attributes to count by, as positions in ascending order.
    records
        About how many records will come, if that is known: it decides which tables are merged.
    threads
        How many tables are counted at the same time; as many as there are processors by default.

    Notes
    -----
    Tables are merged where one pass over the records then serves several of them
    (:func:`~noiseplan.counting.merged_tables.covering`). Records are packed into one array of the
    narrowest type, about a million at a time, and every table is counted from there.
    """

    def __init__(
        self,
        schema: Schema,
        tables: Sequence[Members],
        records: int | None = None,
        threads: int | None = None,
    ) -> None:
        shape = schema.shape
        self._names, self._shape, self._tables = schema.names, shape, list(tables)
        for table in self._tables:
            if cells(table, shape) > _LARGEST_TABLE:
                raise _too_large(table, schema)
        expected = _EXPECTED if records is None else records
        largest = maximal([table for table in self._tables if table], shape)
        counted = covering(largest, shape, expected)
        self._used = sorted({member for table in counted for member in table})
        place = {member: n for n, member in enumerate(self._used)}
        self._sizes = [shape[member] for member in self._used]
        columns = [tuple(place[member] for member in table) for table in counted]
        self._columns = sorted(columns, key=lambda t: kernel_numpy.order_of_runs(t, self._sizes))
        self._counted = [tuple(self._used[n] for n in table) for table in self._columns]
        ends = np.cumsum([0, *(cells(table, self._sizes) for table in self._columns)])
        self._starts = ends.astype(np.intp)
        self._counts = np.zeros(int(ends[-1]), dtype=np.uint32)
        self._whole: NDArray[np.int64] | None = None
        self._threads = threads
        kind = code_dtype(max(self._sizes, default=1))  # which holds every attribute's codes
        room = _GATHERED_BYTES // max(1, len(self._sizes) * kind.itemsize)
        room = max(1, min(_GATHERED, room, expected))
        self._gathered = np.empty((len(self._sizes), room), dtype=kind)
        self._filled = self._since = self._records = 0

    def add(self, block: Sequence[NDArray[np.integer]]) -> None:
        """Count a block of records: the codes of each attribute of the schema, in equal numbers."""
        columns, first = [block[member] for member in self._used], 0
        records = len(block[0])
        self._records += records
        if not columns:
            return
        for name, size, codes in zip(self._used, self._sizes, columns, strict=True):
            # Asked here because numba would write beyond its counters.
            lowest = 0 if codes.dtype.kind == "u" else int(codes.min(initial=0))
            if lowest < 0 or int(codes.max(initial=0)) >= size:
                raise DataError(f"column {self._names[name]!r}: codes outside 0 to {size - 1}.")
        while first < records:
            room = self._gathered.shape[1] - self._filled
            taken = min(room, records - first)
            for target, codes in zip(self._gathered, columns, strict=True):
                target[self._filled : self._filled + taken] = codes[first : first + taken]
            self._filled += taken
            first += taken
            if self._filled == self._gathered.shape[1]:
                self._empty()

    def tables(self) -> list[NDArray[np.int64]]:
        """Return the counts of all records so far, one array per table in the order asked for."""
        self._empty()
        self._settle()
        assert self._whole is not None
        ends = pairwise(self._starts.tolist())
        counted = {
            table: self._whole[start:end].reshape([self._shape[member] for member in table])
            for table, (start, end) in zip(self._counted, ends, strict=True)
        }
        counted[()] = np.array(self._records, dtype=np.int64)
        sums = Sums(counted, self._shape)
        return [sums.table(table) for table in self._tables]

    def _empty(self) -> None:
        """Count what was gathered, the tables shared among threads."""
        if not self._filled:
            return
        if self._since + self._filled >= 2**32:
            self._settle()
        self._since += self._filled
        columns, fast = self._gathered[:, : self._filled], self._worth_compiling()
        work = self._filled * len(self._columns)
        shared = (self._threads or _processors()) if work >= _WORTH_SHARING else 1
        threads = min(shared, len(self._columns))
        steps = min(_STEPS if work >= _WORTH_SHOWING else 1, len(self._columns) // threads or 1)
        bounds = np.linspace(0, len(self._columns), steps * threads + 1).astype(int).tolist()
        with progress("counting tables", len(self._columns)) as advance:
            if threads == 1:
                for first, last in pairwise(bounds):
                    self._count(columns, first, last, fast)
                    advance(last - first)
            else:
                with ThreadPoolExecutor(threads) as pool:
                    shares = [
                        pool.submit(self._count, columns, first, last, fast)
                        for first, last in pairwise(bounds)
                    ]
                    for share, (first, last) in zip(shares, pairwise(bounds), strict=True):
                        share.result()
                        advance(last - first)
        self._filled = 0

    def _count(
        self, columns: NDArray[np.unsignedinteger], first: int, last: int, fast: bool
    ) -> None:
        tables, starts = self._columns[first:last], self._starts[first : last + 1]
        if not fast:
            counts = self._counts[starts[0] : starts[-1]]
            kernel_numpy.count(columns, self._sizes, tables, counts)
            return
        widths = np.array([len(table) for table in tables], dtype=np.intp)
        members = np.zeros((len(tables), max(widths)), dtype=np.intp)
        for row, table in zip(members, tables, strict=True):
            row[: len(table)] = table
        sizes = np.array(self._sizes, dtype=np.uint32)
        kernel_numba.kernel()(columns, sizes, members, widths, starts, self._counts)

    def _worth_compiling(self) -> bool:
        work = self._since * len(self._columns)
        if work < _WORTH_CALLING or not (kernel_numba.enabled and kernel_numba.installed()):
            return False
        return work >= _WORTH_STARTING or kernel_numba.loaded()

    def _settle(self) -> None:
        """Move the counts to where they cannot overflow."""
        if self._whole is None:
            self._whole = np.zeros(len(self._counts), dtype=np.int64)
        self._whole += self._counts
        self._counts[:] = 0
        self._since = 0


@final
@dataclass(frozen=True, eq=False)
class Sums:
    """Tables that were counted, and all that can be summed from them."""

    counted: Mapping[Members, NDArray[np.int64]]
    shape: Sequence[int]

    @cached_property
    def _containers(self) -> Containers:
        return Containers(self.counted, self.shape)

    def table(self, wanted: Members) -> NDArray[np.int64]:
        """Return a table, summed from the smallest counted one that contains it."""
        counts = self.counted.get(wanted)
        if counts is not None:
            return counts
        source = self._containers.find(wanted)
        assert source is not None, f"no counted table contains {wanted}"
        others = tuple(axis for axis, member in enumerate(source) if member not in wanted)
        return np.asarray(self.counted[source].sum(axis=others, dtype=np.int64))


def code_dtype(size: int) -> np.dtype[np.unsignedinteger]:
    """Return the smallest unsigned type that holds the codes of an attribute."""
    return np.min_scalar_type(size - 1)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _too_large(table: Members, schema: Schema) -> DataError:
    listed = " × ".join(f"{schema.names[m]} ({schema.shape[m]:,})" for m in table)
    return DataError(
        f"the table {listed} has {cells(table, schema.shape):,} cells; at most "
        f"{_LARGEST_TABLE:,} can be counted. Ask for tables of fewer attributes, or merge values: "
        f"Binned, Levels."
    )
