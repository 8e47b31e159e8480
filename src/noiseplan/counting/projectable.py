"""What the rest of the house needs of data: a schema, and the table of any set of attributes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseplan.counting.merged_tables import Members
from noiseplan.counting.person_cap import ChosenRecords
from noiseplan.counting.refusals import reading
from noiseplan.errors import DataError
from noiseplan.schema import Schema

Counts: TypeAlias = NDArray[np.int64] | NDArray[np.float64]


@runtime_checkable
class Projectable(Protocol):
    """Anything that can be projected onto a few attributes.

    Privacy
    -------
    What :meth:`marginals` returns is exact and confidential; noise is added elsewhere.

    Examples
    --------
    >>> import noiseplan as nz
    >>> from noiseplan.counting import CountTensor
    >>> schema = nz.Schema.from_sizes({"age": 3, "sex": 2})
    >>> counts = CountTensor(schema, [[1, 0], [2, 2], [0, 4]])
    >>> counts.marginals(np.array([[1]])).tolist()
    [[3, 6]]
    """

    @property
    def schema(self) -> Schema:
        """The attributes that can be counted."""

    @property
    def origin(self) -> str:
        """The library of the frame the data came from: pandas, polars, pyarrow, or nothing."""

    def marginals(self, sets: NDArray[np.integer]) -> Counts:
        """Count the records by each set of attributes.

        Parameters
        ----------
        sets
            One set a row, as positions of attributes in ascending order. All sets must lead to
            tables of one shape.

        Returns
        -------
        counts
            An array of shape ``(len(sets), n_1, …, n_k)``; for sets without attributes, the
            number of records once for each set.
        """


class Countable(ABC):
    """Data that are counted by passing over the records, the base of most sources.

    Examples
    --------
    >>> import noiseplan as nz
    >>> from noiseplan.counting import open_source
    >>> schema = nz.Schema.from_sizes({"age": 3})
    >>> records = open_source({"age": [0, 1, 1]}, schema)
    >>> isinstance(records, Countable), records.marginals([[0]]).tolist()
    (True, [[1, 2, 0]])
    """

    schema: Schema
    origin: str
    max_rows: int = 1
    """The most records of one person: what a release of these data must be priced for."""
    once: bool = False
    """Whether the data can be passed over a single time only."""
    details: bool = False
    """Whether refusals of the records may show private details, as the custodian asked."""
    choice: ChosenRecords | None = None
    """Stands for the choice among the records of each person, if there was one."""

    @abstractmethod
    def count(self, tables: Sequence[Members]) -> list[NDArray[np.int64]]:
        """Count the records by each of these sets of attributes, in one pass over the data.

        Raises
        ------
        DataError
            When a record does not fit the schema, whether or not these tables show it.
        """

    def marginals(self, sets: ArrayLike) -> NDArray[np.int64]:
        """Count the records by each set of attributes; see :class:`Projectable`."""
        positions, shape = checked_sets(sets, self.schema)
        if not len(positions):
            return np.zeros((0, *shape), dtype=np.int64)
        with reading(self.details):
            return np.stack(self.count([tuple(row) for row in positions.tolist()]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.schema.names)})"  # a count would be private


def checked_sets(sets: ArrayLike, schema: Schema) -> tuple[NDArray[np.intp], tuple[int, ...]]:
    """Return the sets as an integer array and the shape of their tables, or say what is wrong."""
    found = np.asarray(sets)
    if found.ndim != 2:
        raise DataError(
            f"marginals: sets must be a 2-D array, one set of attributes a row, got shape "
            f"{found.shape}; try np.array([[0, 1], [0, 2]])."
        )
    if found.size and found.dtype.kind not in "iu":
        raise DataError(f"marginals: sets must be integers, got {found.dtype}; try .astype(int).")
    positions = found.astype(np.intp)
    outside = (positions < 0) | (positions >= len(schema))
    if outside.any():
        raise DataError(
            f"marginals: there is no attribute {positions[outside][0]}; "
            f"positions go from 0 to {len(schema) - 1}."
        )
    unordered = (np.diff(positions, axis=1) <= 0).any(axis=1)
    if unordered.any():
        wrong = positions[unordered][0].tolist()
        raise DataError(
            f"marginals: the set {wrong} is not in ascending order without repetition; "
            f"try {sorted(set(wrong))}."
        )
    shapes = np.array(schema.shape, dtype=np.intp)[positions]
    if len(shapes) and (shapes != shapes[0]).any():
        raise DataError(
            f"marginals: the sets lead to tables of different shapes, {tuple(shapes[0].tolist())} "
            f"and others; ask for one shape at a time."
        )
    shape = tuple(shapes[0].tolist()) if len(shapes) else (0,) * positions.shape[1]
    return positions, shape
