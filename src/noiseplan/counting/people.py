"""The privacy unit: at most so many records of each person, chosen at random.

What a person's records cost is computed in :mod:`noiseplan.privacy.people`; here the promise behind
it is kept. Which records are chosen depends on the person's own records and on fresh randomness,
never on anybody else's, and it is fixed before anything is counted: every table shows the same.
"""

from __future__ import annotations

import hashlib
import operator
import os
from dataclasses import dataclass, field
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.counting.codes import is_missing
from noiseplan.counting.telling import NOBODY, UNREADABLE, cause, refused
from noiseplan.errors import DataError

_KEY_BYTES: Final = 32


@final
@dataclass(frozen=True)
class People:
    """Whose records these are, and how many of each person's are counted.

    Parameters
    ----------
    column
        The column that says whose record it is.
    cap
        The most records of one person that are counted.
    key
        What the choice is derived from: 256 bits from the operating system, by default. Where an
        engine chooses, the key is part of its query; it protects nobody, and only makes the choice
        unpredictable (whichever records are chosen, the cap is what privacy rests on).
    """

    column: str
    cap: int
    key: bytes = field(default_factory=lambda: os.urandom(_KEY_BYTES), repr=False)

    @staticmethod
    def declared(column: object, cap: object, key: bytes | None = None) -> People | None:
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
        return People(column, rows) if key is None else People(column, rows, key)

    def choice(self, how: str) -> bytes:
        """What says which records are counted: the key, and a digest of all else it depends on.

        `how` names the way in which records are chosen, which differs between kinds of data.
        """
        told = "\0".join([self.column, str(self.cap), how])
        return self.key + hashlib.sha256(told.encode()).digest()

    @staticmethod
    def key_of(choice: bytes) -> bytes:
        """The key of a choice, to make it again."""
        return choice[: -hashlib.sha256().digest_size]

    @staticmethod
    def most(people: People | None) -> int:
        """The most records of one person: the cap, or the one that everybody has."""
        return 1 if people is None else people.cap

    def check_column(self, found: list[str]) -> None:
        """Refuse data without the column of persons."""
        if self.column not in found:
            raise DataError(
                f"the data lack the person column {self.column!r}; they have "
                f"{', '.join(map(repr, found)) or 'none'}."
            )

    def refuse_nobody(self, nobody: int, rows: int) -> None:
        """Refuse records that belong to nobody: their number could not be bounded."""
        if nobody:
            raise refused(
                NOBODY,
                f"person column {self.column!r}: some rows are null; every record must belong to "
                f"somebody. Fill the column (a fresh value for each unknown person, if each has "
                f"one record), or drop those rows beforehand.",
                f"person column {self.column!r}: {nobody} of {rows} rows are null; every record "
                f"must belong to somebody.",
            )

    def chosen(self, persons: NDArray[Any]) -> NDArray[np.bool_]:
        """Choose at most `cap` records of each person, all subsets alike likely.

        Every record draws 64 random bits, and the lowest of each person are chosen. Two equal draws
        are told apart by their place, which needs no correction: among 10⁹ records of one person
        that happens once in 40.
        """
        numbers = self._numbered(persons)
        draws = np.frombuffer(hashlib.shake_256(self.key).digest(8 * len(numbers)), dtype=np.uint64)
        order = np.lexsort((draws, numbers))
        ordered = numbers[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(order) else order
        lengths = np.diff(np.r_[starts, len(order)])
        rank = np.arange(len(order)) - np.repeat(starts, lengths)
        chosen = np.empty(len(order), dtype=np.bool_)
        chosen[order] = rank < self.cap
        return chosen

    def _numbered(self, persons: NDArray[Any]) -> NDArray[np.int64]:
        """Number the persons; missing ones are refused."""
        plain = np.ma.getdata(persons)
        missing = np.ma.getmaskarray(persons).copy()
        if plain.dtype.kind == "f":
            missing |= np.isnan(plain)
        elif plain.dtype.kind == "O":
            missing |= np.array([is_missing(value) for value in plain.tolist()], dtype=np.bool_)
        elif plain.dtype.kind == "M":
            missing |= np.isnat(plain)
        self.refuse_nobody(int(missing.sum()), len(plain))
        if plain.dtype.kind != "O":
            return np.unique(plain, return_inverse=True)[1].astype(np.int64)
        known: dict[object, int] = {}
        listed = plain.tolist()
        try:
            return np.fromiter(
                (known.setdefault(value, len(known)) for value in listed), np.int64, len(listed)
            )
        except TypeError as error:  # lists, say
            raise refused(
                UNREADABLE,
                f"person column {self.column!r}: persons are told apart by plain values (text, "
                f"numbers, dates), and these are none: {error}.",
            ) from cause(error)
