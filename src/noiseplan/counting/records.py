"""Records: one code per attribute and row, in memory or passing by in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseplan.arrays import frozen
from noiseplan.counting.counter import Counter, code_dtype
from noiseplan.counting.merged_tables import Members
from noiseplan.counting.projectable import Countable
from noiseplan.counting.refusals import UNCOUNTABLE, refused
from noiseplan.errors import DataError
from noiseplan.progress import waiting
from noiseplan.schema import Schema

# The codes of each attribute, in equal numbers; valid until the next block is asked for.
Block: TypeAlias = Sequence[NDArray[np.unsignedinteger]]

# Codes that are kept, so that few records are read once and not for every table.
_KEPT_BYTES: Final = 1 << 25


@final
class Records(Countable):
    """A table of codes, one column for each attribute of the schema.

    Parameters
    ----------
    schema
        The attributes.
    columns
        The codes, an integer array per attribute, all of one length. They are copied, unless they
        are read-only and have the smallest type.
    origin
        The library of the frame the records came from.

    Examples
    --------
    >>> schema = Schema.from_sizes({"a": 2, "b": 3})
    >>> Records(schema, [[0, 1, 1], [2, 0, 0]]).marginals([[0, 1]]).tolist()
    [[[0, 0, 1], [2, 0, 0]]]
    """

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
            said = "Records: columns must have one length"
            raise refused(UNCOUNTABLE, f"{said}.", f"{said}, got {lengths}.")
        self.schema, self.columns, self.origin = schema, narrow, origin
        self.rows = len(narrow[0])
        """The number of records: as confidential as any other count."""

    def count(self, tables: Sequence[Members]) -> list[NDArray[np.int64]]:
        """Count the records by each of these sets of attributes; see :class:`Countable`."""
        counter = Counter(self.schema, tables, self.rows)
        counter.add(self.columns)
        return counter.tables()


def _narrow(name: str, size: int, codes: NDArray[Any]) -> NDArray[np.unsignedinteger]:
    if codes.ndim != 1 or (codes.size and codes.dtype.kind not in "iu"):
        raise DataError(
            f"column {name!r}: codes must be a 1-D array of integers, got {codes.ndim}-D of "
            f"{codes.dtype}; values are encoded by open_source({{{name!r}: values, …}}, schema)."
        )
    if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < size:
        advice = (
            f"if these are values, let open_source encode them: "
            f"open_source({{{name!r}: values, …}}, schema)."
        )
        raise refused(
            UNCOUNTABLE,
            f"column {name!r}: some codes are outside the attribute's, 0 to {size - 1}; {advice}",
            f"column {name!r}: codes go from {codes.min()} to {codes.max()}, but the attribute "
            f"has the codes 0 to {size - 1}; {advice}",
        )
    if codes.dtype == code_dtype(size):  # counted more than once: the same each time
        kept: NDArray[np.unsignedinteger] = frozen(codes)
        return kept
    narrow: NDArray[np.unsignedinteger] = codes.astype(code_dtype(size))
    narrow.setflags(write=False)
    return narrow


@final
class Stream(Countable):
    """Records that are read anew for every pass, in constant memory.

    Parameters
    ----------
    schema
        The attributes.
    blocks
        Opens the data and yields the records; it raises `DataError` for what does not fit the
        schema, at the latest at its end.
    origin
        The library of the frame the records came from.
    once
        Whether `blocks` can be called a single time only.

    Notes
    -----
    The first pass keeps the codes as long as they take less than 32 MiB; if they all do, later
    passes are made over them.
    """

    def __init__(
        self,
        schema: Schema,
        blocks: Callable[[], Iterator[Block]],
        origin: str = "",
        once: bool = False,
    ) -> None:
        self.schema, self.origin, self.once = schema, origin, once
        self._blocks = blocks
        self._records: Records | None = None
        self._few = True

    def count(self, tables: Sequence[Members]) -> list[NDArray[np.int64]]:
        """Count the records by each of these sets of attributes; see :class:`Countable`."""
        if self._records is not None:
            return self._records.count(tables)
        counter = Counter(self.schema, tables)
        with waiting("counting"):
            for block in self._blocks_kept() if self._few else self._blocks():
                counter.add(block)
            return counter.tables()

    def _blocks_kept(self) -> Iterator[Block]:
        """Pass the blocks on, and keep copies of them while they are few."""
        width = sum(code_dtype(size).itemsize for size in self.schema.shape)
        kept: list[Block] = []
        rows = 0
        for block in self._blocks():
            yield block
            rows += len(block[0])
            self._few = self._few and rows * width <= _KEPT_BYTES
            if self._few:
                kept.append([codes.copy() for codes in block])
            else:
                kept.clear()
        if self._few:
            self._records = Records(self.schema, gathered(self.schema, kept), self.origin)


def gathered(schema: Schema, blocks: Iterable[Block]) -> list[NDArray[np.unsignedinteger]]:
    """Return all records in one block, which is nobody else's and is not changed any more."""
    parts: list[list[NDArray[np.unsignedinteger]]] = [
        [np.empty(0, dtype=code_dtype(size))] for size in schema.shape
    ]
    for block in blocks:
        for part, codes in zip(parts, block, strict=True):
            part.append(codes.astype(part[0].dtype, copy=False))
    columns = [np.concatenate(part) for part in parts]
    for column in columns:
        column.setflags(write=False)
    return columns
