"""Ready-made counts over the whole domain."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseplan.counting.projectable import checked_sets
from noiseplan.counting.refusals import TOO_MANY, UNCOUNTABLE, refused
from noiseplan.errors import DataError
from noiseplan.schema import Schema


@final
@dataclass(frozen=True, eq=False, init=False, repr=False)
class CountTensor:
    """Counts of every cell of the domain, for data that were counted elsewhere.

    Parameters
    ----------
    schema
        The attributes.
    counts
        Whole numbers of records, not negative, in an array of shape ``schema.shape``.

    Examples
    --------
    >>> schema = Schema.from_sizes({"a": 2, "b": 3})
    >>> CountTensor(schema, [[1, 0, 2], [0, 3, 0]]).marginals([[0], ]).tolist()
    [[3, 3]]
    """

    schema: Schema
    counts: NDArray[np.int64]
    origin: str

    def __init__(self, schema: Schema, counts: ArrayLike) -> None:
        checked = _checked_counts(schema, np.asarray(counts))
        checked.setflags(write=False)
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "counts", checked)
        object.__setattr__(self, "origin", "")

    def __repr__(self) -> str:
        return f"CountTensor({', '.join(self.schema.names)})"  # no count: it would be private

    def marginals(self, sets: ArrayLike) -> NDArray[np.int64]:
        """Sum the counts onto each set of attributes; see :class:`Projectable`."""
        positions, shape = checked_sets(sets, self.schema)
        tables = np.empty((len(positions), *shape), dtype=np.int64)
        # partial[j] is summed over all attributes before the set's j-th but those in the set;
        # neighbouring sets share a beginning, and the partial sums that go with it.
        partial: list[NDArray[np.int64]] = [self.counts]
        previous: list[int] = []
        for row, current in enumerate(positions.tolist()):
            shared = _shared_beginning(previous, current)
            del partial[shared + 1 :]
            for place in range(shared, len(current)):
                skipped = current[place] - (current[place - 1] + 1 if place else 0)
                partial.append(_summed(partial[-1], place, place + skipped))
            tables[row] = _summed(partial[-1], len(current), partial[-1].ndim)
            previous = current
        return tables


def _summed(table: NDArray[np.int64], first: int, end: int) -> NDArray[np.int64]:
    """Summed over the axes from `first` to before `end`.

    By `einsum`, which is many times as fast as `sum` where the axes are short.
    """
    if first == end:
        return table
    shape = table.shape
    flat = table.reshape(prod(shape[:first]), prod(shape[first:end]), prod(shape[end:]))
    summed: NDArray[np.int64] = np.einsum("ijk->ik", flat)
    return summed.reshape(shape[:first] + shape[end:])


def _shared_beginning(first: list[int], second: list[int]) -> int:
    pairs = zip(first, second, strict=False)
    return next(
        (place for place, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second))
    )


def _checked_counts(schema: Schema, counts: NDArray[Any]) -> NDArray[np.int64]:
    if counts.shape != schema.shape:
        raise DataError(
            f"CountTensor: the counts have shape {counts.shape}, the schema {schema.shape}; one "
            f"axis per attribute is needed, in the order {', '.join(map(repr, schema.names))}."
        )
    if counts.dtype.kind not in "biuf":
        raise DataError(f"CountTensor: counts must be numbers, got {counts.dtype}.")
    if counts.dtype.kind == "f" and not np.isfinite(counts).all():
        raise refused(
            UNCOUNTABLE, "CountTensor: some counts are not finite; counts are whole numbers."
        )
    if (counts < 0).any():
        raise refused(
            UNCOUNTABLE,
            "CountTensor: some counts are negative; counts of records are 0 or more "
            "(answers with noise are no data: they need no second release).",
        )
    if counts.dtype.kind == "f" and (counts != np.floor(counts)).any():
        raise refused(
            UNCOUNTABLE,
            "CountTensor: some counts are not whole numbers; privacy is promised per record, so "
            "weighted records cannot be counted this way. If the fractions are rounding errors, "
            "try CountTensor(schema, np.rint(counts)).",
        )
    if float(counts.sum(dtype=np.float64)) >= 2.0**62:  # every sum must fit 64 bits
        raise refused(TOO_MANY, "CountTensor: the counts add up to 2**62 or more records.")
    return counts.astype(np.int64)
