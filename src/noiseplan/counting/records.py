"""Records: one code per attribute and row, counted by packed keys."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from noiseplan.counting.projectable import checked_sets
from noiseplan.errors import DataError
from noiseplan.schema import Schema

# Keys and counters of one call to bincount should stay in the second-level cache.
_BLOCK: Final = 1 << 16

Keys: TypeAlias = NDArray[np.intp]


def code_dtype(size: int) -> DTypeLike:
    """Return the smallest unsigned type that holds the codes of an attribute."""
    return np.min_scalar_type(size - 1)


@final
@dataclass(frozen=True, eq=False, init=False, repr=False)
class Records:
    """A table of codes, one column for each attribute of the schema.

    Parameters
    ----------
    schema
        The attributes.
    columns
        The codes, an integer array per attribute, all of one length. Arrays that already have the
        smallest type are not copied.
    origin
        The library of the frame the records came from.

    Examples
    --------
    >>> schema = Schema.from_sizes({"a": 2, "b": 3})
    >>> Records(schema, [[0, 1, 1], [2, 0, 0]]).marginals([[0, 1]]).tolist()
    [[[0, 0, 1], [2, 0, 0]]]

    Notes
    -----
    A row's cell in the table of attributes ``a, b, c`` is the key ``(a·n_b + b)·n_c + c``, and
    ``numpy.bincount`` of the keys is the table. Neighbouring sets mostly share all attributes but
    the last, so the key of the shared part is made once.
    """

    schema: Schema
    columns: tuple[NDArray[np.unsignedinteger], ...]
    origin: str

    def __init__(self, schema: Schema, columns: Sequence[ArrayLike], origin: str = "") -> None:
        if len(columns) != len(schema):
            raise DataError(
                f"Records: got {len(columns)} columns for {len(schema)} attributes; give one for "
                f"each of {', '.join(map(repr, schema.names))}."
            )
        named = zip(schema.names, schema.shape, columns, strict=True)
        narrow = tuple(_narrow(name, size, np.asarray(codes)) for name, size, codes in named)
        lengths = {name: len(codes) for name, codes in zip(schema.names, narrow, strict=True)}
        if len(set(lengths.values())) > 1:
            raise DataError(f"Records: columns must have one length, got {lengths}.")
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "columns", narrow)
        object.__setattr__(self, "origin", origin)

    @cached_property
    def rows(self) -> int:
        """The number of records: as confidential as any other count."""
        return len(self.columns[0])

    def __repr__(self) -> str:
        return f"Records({', '.join(self.schema.names)})"  # no count: it would be private

    def marginals(self, sets: ArrayLike) -> NDArray[np.int64]:
        """Count the records by each set of attributes; see :class:`Projectable`."""
        positions, shape = checked_sets(sets, self.schema)
        if not shape:
            return np.full(len(positions), self.rows, dtype=np.int64)
        tables = np.zeros((len(positions), math.prod(shape)), dtype=np.int64)
        runs = list(_runs(positions)) if len(positions) else []
        # A block has several rows per counter, or clearing the counters would cost the most.
        step = max(_BLOCK, 4 * tables.shape[1])
        for start in range(0, self.rows, step):
            block = [column[start : start + step] for column in self.columns]
            for first, last in runs:
                _count_run(block, positions[first:last], shape, tables[first:last])
        return tables.reshape(len(positions), *shape)


def _narrow(name: str, size: int, codes: NDArray[Any]) -> NDArray[np.unsignedinteger]:
    if codes.ndim != 1 or (codes.size and codes.dtype.kind not in "iu"):
        raise DataError(
            f"column {name!r}: codes must be a 1-D array of integers, got {codes.ndim}-D of "
            f"{codes.dtype}; values are encoded by open_source({{{name!r}: values, …}}, schema)."
        )
    if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < size:
        raise DataError(
            f"column {name!r}: codes go from {codes.min()} to {codes.max()}, but the attribute "
            f"has the codes 0 to {size - 1}; if these are values, let open_source encode them: "
            f"open_source({{{name!r}: values, …}}, schema)."
        )
    narrow: NDArray[np.unsignedinteger] = codes.astype(code_dtype(size), copy=False).view()
    narrow.setflags(write=False)
    return narrow


def _runs(sets: NDArray[np.intp]) -> Iterator[tuple[int, int]]:
    """Yield the stretches of neighbouring sets that agree in all attributes but the last."""
    changes = (sets[1:, :-1] != sets[:-1, :-1]).any(axis=1)
    starts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(sets)]
    return pairwise(starts)


def _count_run(
    block: list[NDArray[np.unsignedinteger]],  # one array of codes per attribute, shape (rows,)
    run: NDArray[np.intp],  # shape (tables, k), equal but for the last column
    shape: tuple[int, ...],
    counts: NDArray[np.int64],  # shape (tables, cells), added to
) -> None:
    rows, cells = len(block[0]), counts.shape[1]
    # Few rows: several tables go into one call, each with its own stretch of counters.
    together = max(1, min(len(run), _BLOCK // rows, _BLOCK // cells))
    shared = _packed([block[place] for place in run[0, :-1]], shape, rows)
    bases = shared + cells * np.arange(together)[:, None]
    keys = np.empty_like(bases)
    lasts = run[:, -1].tolist()
    for first in range(0, len(lasts), together):
        group = lasts[first : first + together]
        for base, key, last in zip(bases, keys, group, strict=False):
            np.add(base, block[last], out=key)
        flat = keys[: len(group)].reshape(-1)
        found = np.bincount(flat, minlength=len(group) * cells)
        counts[first : first + together] += found.reshape(len(group), cells)


def _packed(columns: list[NDArray[np.unsignedinteger]], shape: tuple[int, ...], rows: int) -> Keys:
    """Return the keys of all attributes but the last, with room for the last one's code."""
    keys = np.zeros(rows, dtype=np.intp)
    for column, size in zip(columns, shape[1:], strict=True):
        keys += column
        keys *= size
    return keys
