"""The privacy unit: at most so many records of each person, chosen at random.

What a person's records cost is computed in :mod:`noiseplan.privacy.people`; here the promise behind
it is kept. Which records are chosen depends on the person's own records and on a key, never on
anybody else's, and it is fixed before anything is counted: every table shows the same.
"""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.refusals import NOBODY as NOBODYS
from noiseplan.counting.refusals import UNREADABLE, refused
from noiseplan.errors import DataError

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation

_KEY_BYTES: Final = 32
# What becomes of a record: left out, counted, or a reason to refuse all of them.
CHOSEN, NOBODY, ROUNDED = 1, 2, 3


@final
@dataclass(frozen=True)
class PersonCap:
    """Whose records these are, and how many of each person's are counted.

    Parameters
    ----------
    column
        The column that says whose record it is.
    cap
        The most records of one person that are counted.
    key
        What the choice is derived from: 256 bits from the operating system, by default.

    Notes
    -----
    Every record draws the SHA-256 digest of a text: the key, the codes of the record, its place
    among the equal records of its person, and the person as :mod:`.persons` spells it. The records
    with the lowest draws of each person are counted. SHA-256 of a secret key and a text that is
    never the same twice is as good as a fresh random number, so all subsets are alike likely.
    Equal records are interchangeable, so the order of records changes nothing; and it is one text
    wherever the data are, so DuckDB and Spark choose the same records of the same data.

    Privacy
    -------
    No draw depends on the records of others. Whoever knew the key would know which of *given*
    records of a person are counted, and nothing of who is there: for every key by itself, adding or
    removing a person changes at most `cap` records, and what a release promises holds. The key is
    still kept to the process that drew it, see :class:`ChosenRecords`. Where an engine chooses, it
    is part of the engine's query.
    """

    column: str
    cap: int
    key: bytes = field(default_factory=lambda: os.urandom(_KEY_BYTES), repr=False)

    @staticmethod
    def declared(column: object, cap: object, key: bytes | None = None) -> PersonCap | None:
        """Check what the user declared; None where every record is a person of its own."""
        call = 'open_source(data, schema, person="id", cap=3)'
        if isinstance(cap, bool) or not hasattr(cap, "__index__"):
            raise DataError(f"cap: {cap!r} is no whole number of records per person; try {call}.")
        rows = operator.index(cap)
        if rows < 1:
            raise DataError(
                f"cap: at least 1 record of a person is counted, got {rows}; try {call}."
            )
        if column is None:
            if rows > 1:
                raise DataError(
                    f"cap={rows} needs the column that says whose record it is; try {call}."
                )
            return None
        if not isinstance(column, str) or not column:
            raise DataError(f"person: {column!r} is no name of a column; try {call}.")
        return PersonCap(column, rows) if key is None else PersonCap(column, rows, key)

    def with_choice(self, coded: DuckDBPyRelation) -> DuckDBPyRelation:
        """Turn the column `person` of a relation of codes into `choice`: what becomes of each."""
        codes = [name for name in coded.columns if name != "person"]
        place = f"row_number() OVER (PARTITION BY person, {', '.join(codes)})"
        record = " || ',' || ".join([*codes, "place", "person"])
        draw = f"sha256('{self.key.hex()},' || {record})"
        rank = f"row_number() OVER (PARTITION BY person ORDER BY {draw} ASC)"
        choice = (
            f"CASE WHEN person IS NULL THEN {NOBODY} WHEN person = '' THEN {ROUNDED} "
            f"WHEN {rank} <= {self.cap} THEN {CHOSEN} ELSE 0 END"
        )
        placed = coded.project(f"*, {place} AS place")
        return placed.project(f"{', '.join(codes)}, CAST({choice} AS UTINYINT) AS choice")


@dataclass
class Sieve:
    """Keeps the chosen records of blocks that pass by, and minds those that name nobody."""

    nobody: int = 0
    rounded: int = 0
    rows: int = 0

    def chosen(self, block: list[NDArray[Any]], choice: NDArray[np.integer]) -> list[NDArray[Any]]:
        """The chosen records of a block."""
        self.rows += len(choice)
        self.nobody += int((choice == NOBODY).sum())
        self.rounded += int((choice == ROUNDED).sum())
        return [codes[choice == CHOSEN] for codes in block]

    def refuse(self, people: PersonCap) -> None:
        """Refuse records that belong to nobody, or to one who cannot be known again."""
        column = people.column
        if self.nobody:
            raise refused(
                NOBODYS,
                f"person column {column!r}: some rows are null, empty or spell a missing value "
                f"(such as NA or nan); every record must belong to somebody. Fill the column (a "
                f"fresh value for each unknown person, if each has one record), or drop those rows "
                f"beforehand.",
                f"person column {column!r}: {self.nobody} of {self.rows} rows are null, empty or "
                f"spell a missing value; every record must belong to somebody. Fill the column, or "
                f"drop those rows beforehand.",
            )
        if self.rounded:
            raise refused(
                UNREADABLE,
                f"person column {column!r}: some rows hold floating-point numbers of so many "
                f"digits that they have been rounded, so that one may be several people, or one "
                f"person several numbers. Read the column as whole numbers or as text, from where "
                f"its numbers are still exact.",
            )


@final
class ChosenRecords:
    """Stands for a choice among the records of each person, and tells nothing about it.

    Releases carry it. What it stands for is known in the process where the choice was made, and
    nowhere else: pickled, copied or saved it is one that stands for nothing any more.
    """

    __slots__ = ("__weakref__",)

    @staticmethod
    def by(people: PersonCap) -> ChosenRecords:
        """What stands for the choice of these people's records."""
        made = ChosenRecords()
        _MADE[made] = people
        return made

    def recalled(self) -> PersonCap | None:
        """Who chose, and by which key; None where that is not known."""
        return _MADE.get(self)

    def __reduce__(self) -> tuple[type[ChosenRecords], tuple[()]]:
        return ChosenRecords, ()


_MADE: WeakKeyDictionary[ChosenRecords, PersonCap] = WeakKeyDictionary()
