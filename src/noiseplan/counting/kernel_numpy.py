"""Counting with NumPy: packed keys and ``bincount``, in blocks that stay in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.merged_tables import Members, cells

# Keys and counters of one call to bincount should stay in the second-level cache.
_BLOCK: Final = 1 << 16


def order_of_runs(table: Members, shape: Sequence[int]) -> tuple[object, ...]:
    """Return what to sort tables by, so that those that share most of their keys are neighbours."""
    return (len(table), table[:-1], [shape[m] for m in table[-1:]], table)


def count(
    columns: NDArray[np.unsignedinteger],  # shape (attributes, records), all below their sizes
    shape: Sequence[int],  # the size of each attribute
    tables: Sequence[Members],  # none empty, in the order of runs
    counts: NDArray[np.uint32],  # the counters of all tables one after the other, added to
) -> None:
    """Add the records to the counters of every table.

    A record's cell in the table of attributes ``a, b, c`` is the key ``(a·n_b + b)·n_c + c``, and
    ``numpy.bincount`` of the keys is the table. Tables that agree in all attributes but the last,
    and in its size, share a key; and where there are few records several such tables go into one
    call, each with its own stretch of counters.
    """
    records, start = columns.shape[1], 0
    most = min(records, max(_BLOCK, 4 * max(cells(table, shape) for table in tables)))
    room = _Buffers(
        np.empty(most, dtype=np.uint32),
        np.empty(most, dtype=np.intp),
        np.empty(max(most, _BLOCK), dtype=np.intp),
    )
    for _, alike in groupby(tables, lambda table: (table[:-1], shape[table[-1]])):
        run = list(alike)
        size = cells(run[0], shape)
        counters = counts[start : start + size * len(run)].reshape(len(run), size)
        # Several records per counter, or clearing the counters would cost the most.
        step = max(_BLOCK, 4 * size)
        for first in range(0, records, step):
            _count_run(columns[:, first : first + step], shape, run, counters, room)
        start += size * len(run)


class _Buffers(NamedTuple):
    """Arrays that are written over and over: fresh ones cost more than the sums they hold."""

    short: NDArray[np.uint32]
    shared: NDArray[np.intp]
    keys: NDArray[np.intp]


def _count_run(
    columns: NDArray[np.unsignedinteger],
    shape: Sequence[int],
    run: list[Members],
    counters: NDArray[np.uint32],  # shape (tables, cells)
    room: _Buffers,
) -> None:
    records, size = columns.shape[1], counters.shape[1]
    together = max(1, min(len(run), _BLOCK // records, _BLOCK // size))
    shared = _shared_key(columns, shape, run[0], room)
    keys = room.keys[: together * records].reshape(together, records)
    for first in range(0, len(run), together):
        group = run[first : first + together]
        for n, (key, table) in enumerate(zip(keys, group, strict=False)):
            np.add(shared, columns[table[-1]], out=key)
            if n:
                key += n * size
        flat = keys[: len(group)].reshape(-1)
        found = np.bincount(flat, minlength=len(group) * size).reshape(len(group), size)
        target = counters[first : first + len(group)]
        np.add(target, found, out=target, casting="unsafe")  # the caller keeps sums below 2**32


def _shared_key(
    columns: NDArray[np.unsignedinteger], shape: Sequence[int], table: Members, room: _Buffers
) -> NDArray[np.intp]:
    """Return the key of all attributes but the last, with room for the last one's code."""
    shared = room.shared[: columns.shape[1]]
    if len(table) == 1:
        shared[:] = 0
        return shared
    key = room.short[: columns.shape[1]]  # half as wide as the result, and twice as fast
    key[:] = columns[table[0]]
    for member in table[1:-1]:
        key *= np.uint32(shape[member])
        key += columns[member]
    return np.multiply(key, shape[table[-1]], out=shared)
