"""Records that pass by in blocks, from a file, a relation or batches of a frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.counter import Counter, code_dtype
from noiseplan.counting.merged_tables import Members
from noiseplan.counting.projectable import Countable
from noiseplan.counting.records import Records
from noiseplan.schema import Schema

# The codes of each attribute, in equal numbers; valid until the next block is asked for.
Block: TypeAlias = Sequence[NDArray[np.unsignedinteger]]

# Codes that are kept, so that few records are read once and not for every table.
_KEPT_BYTES: Final = 1 << 25


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
    max_rows
        The most records of one person.
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
        max_rows: int = 1,
        once: bool = False,
    ) -> None:
        self.schema, self.origin, self.max_rows, self.once = schema, origin, max_rows, once
        self._blocks = blocks
        self._records: Records | None = None
        self._few = True

    def count(self, tables: Sequence[Members]) -> list[NDArray[np.int64]]:
        """Count the records by each of these sets of attributes; see :class:`Countable`."""
        if self._records is not None:
            return self._records.count(tables)
        counter = Counter(self.schema, tables)
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
            columns = gathered(self.schema, kept)
            self._records = Records(self.schema, columns, self.origin, self.max_rows)


def gathered(schema: Schema, blocks: Iterable[Block]) -> list[NDArray[np.unsignedinteger]]:
    """Return all records in one block."""
    parts: list[list[NDArray[np.unsignedinteger]]] = [
        [np.empty(0, dtype=code_dtype(size))] for size in schema.shape
    ]
    for block in blocks:
        for part, codes in zip(parts, block, strict=True):
            part.append(codes.astype(part[0].dtype, copy=False))
    return [np.concatenate(part) for part in parts]
