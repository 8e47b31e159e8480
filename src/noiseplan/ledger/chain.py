"""The chain: every row carries the hash of the row before, so no row can change unnoticed."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final, final

from noiseplan.errors import remedy
from noiseplan.ledger.errors import LedgerError
from noiseplan.ledger.events import Act, Fields, Json, Started, act_json, read_act

NOTHING: Final = "0" * 64  # the "hash" before the first row


@final
@dataclass(frozen=True)
class Head:
    """How long a history is and the hash of its last row, which depends on all rows.

    Write it down where those who can write the ledger file cannot, and give it to
    `Ledger.verify(expected_head=...)` later: then no part of the history up to it can have been
    replaced, and none cut off.

    Examples
    --------
    >>> head = Head(3, "ab" * 32)
    >>> Head.parse(str(head)) == head
    True
    """

    count: int
    hash: str

    def __str__(self) -> str:
        return f"{self.count}:{self.hash}"

    @classmethod
    def parse(cls, head: Head | str) -> Head:
        """A head as it was kept, or from its printed form, `count:hash`."""
        found = re.fullmatch(r"([0-9]{1,18}):([0-9a-f]{64})", str(head).strip())
        if found is None:
            raise LedgerError(
                "a head is written as count:hash, the hash in 64 hexadecimal digits, as "
                + remedy("show head", "print(ledger.head())")
                + f" shows it; got {head!r}"
            )
        return cls(int(found[1]), found[2])


EMPTY: Final = Head(0, NOTHING)


@final
@dataclass(frozen=True)
class Record:
    """One row of the history.

    Parameters
    ----------
    position
        1 for the first row.
    previous
        The hash of the row before.
    time
        When, in UTC, by the clock of the machine that wrote it.
    by
        The login name of the process that wrote it.
    act
        What happened.

    Examples
    --------
    >>> import tempfile
    >>> from noiseplan.ledger import Ledger
    >>> from noiseplan.privacy import Guarantee, zCDP
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(f"{folder}/budget.ledger", create=True)
    ...     _ = ledger.open_dataset("census", zCDP(1.0))
    ...     history = ledger.history()
    >>> [record.position for record in history]  # the file, and the dataset
    [1, 2]
    """

    position: int
    previous: str
    time: str
    by: str
    act: Act

    @property
    def dataset(self) -> str | None:
        """The dataset it is about; None for the start of the ledger."""
        return None if isinstance(self.act, Started) else self.act.dataset

    def json(self) -> Json:
        """The row as plain JSON, without its own hash."""
        own = {"position": self.position, "previous": self.previous}
        return {**own, "time": self.time, "by": self.by, **act_json(self.act)}

    @cached_property
    def text(self) -> str:
        """The row as it is stored."""
        return canonical(self.json())

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the stored text."""
        return digest(self.text)


def canonical(content: Json) -> str:
    """The one way to write some JSON: keys sorted, no spaces, ASCII, no infinities.

    Examples
    --------
    >>> canonical({"b": 0.5, "a": "é"})
    '{"a":"\\\\u00e9","b":0.5}'
    """
    # Floats are written as their shortest decimal that reads back as the same float.
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(text: str) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def read_record(head: Head, position: object, text: object, stored: object) -> Record:
    """The stored row that follows `head`, checked in every respect that needs no other row.

    Raises
    ------
    ValueError
        Saying what is wrong.
    """
    if position != head.count + 1:
        raise ValueError(f"row {head.count + 1} is missing; row {position!r} comes instead")
    # The hash first: nothing else is read of a row that is not as it was written.
    if not isinstance(text, str) or digest(text) != stored:
        raise ValueError("its text does not have the hash that was stored with it")
    record = _parsed(text)
    if record.position != position:
        raise ValueError(f"it says that it is row {record.position}")
    if record.previous != head.hash:
        raise ValueError("it does not follow the row before it")
    if record.text != text:
        raise ValueError("it is not written in the canonical way")
    return record


def _parsed(text: str) -> Record:
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")
    own = Fields({name: content.pop(name, None) for name in ("position", "previous", "time", "by")})
    time = own.take("time", str)
    datetime.fromisoformat(time)
    act = read_act(content)
    position, previous, by = (
        own.take("position", int),
        own.take("previous", str),
        own.take("by", str),
    )
    return Record(position, previous, time, by, act)
