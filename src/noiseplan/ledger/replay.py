"""The history of a ledger: read it, judge it, add to it."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import final

from noiseplan.ledger.chain import EMPTY, Head, Record
from noiseplan.ledger.events import Act
from noiseplan.ledger.sql import append, holds, rows_after, stored_heads
from noiseplan.ledger.state import Books
from noiseplan.ledger.storage import Storage


@final
class History:
    """A file of acts, each checked as it is read and durable once it is added.

    The books of what was read are kept for the next operation, which reads only what is new. An
    operation takes them away and brings them back: so two threads never share them, and books
    that an interrupt left half-written are never seen again.
    """

    def __init__(self, storage: Storage, by: str) -> None:
        self._storage = storage
        self._by = by
        self._spare: deque[Books] = deque(maxlen=1)

    def create(self, act: Act) -> None:
        """Start the history, unless there is one."""
        self._storage.create(self._record(EMPTY, act))

    @contextmanager
    def current(self) -> Iterator[Books]:
        """The books as of now. Not to be changed."""
        with (
            self._storage.transaction(write=False) as connection,
            self._books(connection) as books,
        ):
            yield books

    def add(self, decide: Callable[[Books], Act | None]) -> Record | None:
        """Look at the books, decide, and record the decision: all or nothing.

        If the decision is None, nothing is recorded.

        No other process can write between the look and the record. When this returns, the row is
        on disk. When it raises, the row is not there, or, after a failure of the disk at the very
        end, it may be: a spend that was never acknowledged, which errs to the safe side.
        """
        record = None
        with (
            self._storage.transaction(write=True) as connection,
            self._books(connection) as books,
        ):
            act = decide(books)
            if act is not None:
                books.check(act)
                act = books.with_limit(act)
                record = self._record(books.head, act)
                append(connection, record)
        if record is not None:
            self._remember(record)
        return record

    def replay(self, expected: Head | None = None) -> tuple[Books, tuple[Record, ...]]:
        """Read and check everything from the first row, whatever was read before."""
        books = Books()
        with self._storage.transaction(write=False) as connection:
            self._storage.check_pages(connection)
            records = self._read(connection, books)
            if expected is not None and not holds(connection, expected):
                raise self._storage.damaged(_not_held(expected, books.head))
        return books, records

    @contextmanager
    def _books(self, connection: sqlite3.Connection) -> Iterator[Books]:
        try:
            books = self._spare.pop()
        except IndexError:
            books = Books()
            self._storage.check_pages(connection)
        if books.head != EMPTY and not holds(connection, books.head):
            self._spare.append(books)  # stay suspicious: these are still what was once true
            raise self._storage.damaged(
                f"its row {books.head.count} is not the one this program has read before"
            )
        self._read(connection, books)
        try:
            yield books
        finally:
            self._spare.append(books)

    def _remember(self, record: Record) -> None:
        """Enter what was just written: a file without it is no longer this ledger's."""
        try:
            books = self._spare.pop()
        except IndexError:  # another thread has them, and will read the row
            return
        if books.head == Head(record.position - 1, record.previous):
            books.read(record.position, record.text, record.hash)
        self._spare.append(books)

    def _read(self, connection: sqlite3.Connection, books: Books) -> tuple[Record, ...]:
        try:
            records = tuple(books.read(*row) for row in rows_after(connection, books.head))
        except ValueError as error:
            raise self._storage.damaged(str(error)) from None
        if stored_heads(connection) != [(1, books.head.count, books.head.hash)]:
            raise self._storage.damaged(
                f"its last row is number {books.head.count}, and that is not where it says it ends"
            )
        return records

    def _record(self, head: Head, act: Act) -> Record:
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        return Record(head.count + 1, head.hash, now, self._by, act)


def _not_held(expected: Head, found: Head) -> str:
    if expected.count > found.count:
        return f"it has {found.count} rows, and had {expected.count} when the head was noted"
    return f"row {expected.count} is not the one it had when the head was noted"
