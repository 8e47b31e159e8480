"""Counting in machine code, by numba where it is installed (``pip install 'noiseplan[fast]'``)."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# Keys of one stretch of records stay in the first-level cache.
_STRETCH: Final = 4096

enabled = True  # turned off to measure the other way


@cache
def installed() -> bool:
    """Tell whether numba is there, without importing it."""
    return importlib.util.find_spec("numba") is not None


def loaded() -> bool:
    """Tell whether the compiled function is ready, so that using it costs nothing more."""
    return kernel.cache_info().currsize > 0


@cache
def kernel() -> Any:
    """Return :func:`count` compiled; numba keeps the machine code on disk where it can."""
    numba: Any = importlib.import_module("numba")
    try:
        return numba.njit(nogil=True, cache=True)(count)
    except RuntimeError:  # no folder to keep it in
        return numba.njit(nogil=True)(count)


def count(
    columns: NDArray[np.unsignedinteger],  # shape (attributes, records), all below their sizes
    sizes: NDArray[np.uint32],  # shape (attributes,)
    members: NDArray[np.intp],  # shape (tables, most attributes), rows of each table's columns
    widths: NDArray[np.intp],  # shape (tables,), how many attributes each table has
    starts: NDArray[np.intp],  # shape (tables + 1,), where each table's counters are
    counts: NDArray[np.uint32],  # added to
) -> None:
    """Add the records to the counters of every table, stretch by stretch."""
    records = columns.shape[1]
    keys = np.empty(_STRETCH, dtype=np.uint32)
    for table in range(len(widths)):
        counters = counts[starts[table] : starts[table + 1]]
        for first in range(0, records, _STRETCH):
            length = min(_STRETCH, records - first)
            keys[:length] = columns[members[table, 0], first : first + length]
            for place in range(1, widths[table]):
                column = columns[members[table, place], first : first + length]
                size = sizes[members[table, place]]
                for i in range(length):
                    keys[i] = keys[i] * size + np.uint32(column[i])
            for i in range(length):
                counters[keys[i]] += np.uint32(1)
