"""The file: one SQLite database, opened for each operation, every change durable or absent."""

from __future__ import annotations

import os
import random
import secrets
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from noiseplan.ledger.chain import Head, Record
from noiseplan.ledger.errors import LedgerBusy, LedgerDamaged, LedgerError

APPLICATION: Final = 0x6E7A4C67  # "nzLg": tells a ledger from any other SQLite database
VERSION: Final = 1
LONGEST_NAP: Final = 0.003  # seconds between two tries while another process writes

# The head repeats what the last row says. The triggers stop slips, not attackers: those meet the
# hash chain.
SCHEMA: Final = (
    """CREATE TABLE history (
    position INTEGER PRIMARY KEY,
    record TEXT NOT NULL,
    hash TEXT NOT NULL
)""",
    """CREATE TABLE head (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    count INTEGER NOT NULL,
    hash TEXT NOT NULL
)""",
    """CREATE TRIGGER history_moves_head AFTER INSERT ON history BEGIN
    INSERT OR REPLACE INTO head VALUES (1, NEW.position, NEW.hash);
END""",
    """CREATE TRIGGER history_is_not_edited BEFORE UPDATE ON history BEGIN
    SELECT RAISE(ABORT, 'the history of a ledger is append-only');
END""",
    """CREATE TRIGGER history_is_not_deleted BEFORE DELETE ON history BEGIN
    SELECT RAISE(ABORT, 'the history of a ledger is append-only');
END""",
)

# A rollback journal, not a write-ahead log: between operations the ledger is this one file, and a
# copy of it is never behind. EXTRA also syncs the folder once the journal is gone. Without it a
# power cut could bring the journal back and with it undo a spend that had been acknowledged.
PRAGMAS: Final = (
    "PRAGMA synchronous = EXTRA",
    "PRAGMA fullfsync = ON",  # macOS: through the drive's cache as well
    "PRAGMA cell_size_check = ON",  # more suspicion of damaged pages
    "PRAGMA trusted_schema = OFF",
)

EXPLAINED: Final = {
    sqlite3.SQLITE_READONLY: "it is read-only, so nothing can be recorded",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; SQLite must be able to read and write the file "
    "and to make a journal beside it in the folder",
    sqlite3.SQLITE_PERM: "permission denied",
    sqlite3.SQLITE_FULL: "its disk is full, and nothing was recorded",
    sqlite3.SQLITE_IOERR: "its disk failed to read or write",
    sqlite3.SQLITE_NOTADB: "it is not a ledger (not an SQLite database)",
}

WHERE: Final = "choose an existing folder on a local disk that you may write to"

Row = tuple[Any, ...]


@final
@dataclass(frozen=True)
class Storage:
    """A ledger's file and how long to wait for others that use it."""

    path: Path
    timeout: float

    def create(self, first: Record) -> None:
        """Make the file with its first row, at once and whole; leave alone what is there.

        A link to a finished file either appears under the name or does not, so nobody ever sees a
        half-made ledger, and of several that make one at the same time one wins. An empty file,
        which SQLite would take for a new database, is therefore always a damaged ledger.
        """
        if os.path.lexists(self.path):
            return
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.new")
        try:
            with self._explaining(), closing(sqlite3.connect(draft, isolation_level=None)) as made:
                _write_schema(made, first)
            os.link(draft, self.path)
        except FileExistsError:
            return
        except OSError as error:
            raise self._cannot(f"cannot be made ({error.strerror or error}); {WHERE}") from error
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
        _sync_folder(self.path.parent)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the file; with `write`, alone in changing it.

        The change is on disk when the block has ended without an exception, and undone otherwise.
        A connection of its own for each operation is what makes ledgers safe to use from threads
        and after a fork.
        """
        self._require_file()
        address = f"{self.path.as_uri()}?mode=rw"  # rw: never made anew where it is missing
        with self._explaining(), closing(
            sqlite3.connect(address, uri=True, isolation_level=None, timeout=0.0)
        ) as connection:  # fmt: skip
            for pragma in PRAGMAS:  # the first of them reads the file, which needs a lock
                self._patiently(connection, pragma)
            self._patiently(connection, "BEGIN IMMEDIATE" if write else "BEGIN")
            self._require_ledger(connection)
            yield connection
            self._patiently(connection, "COMMIT")

    def check_pages(self, connection: sqlite3.Connection) -> None:
        """Refuse a file whose pages are damaged: the next change might overwrite a live one."""
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise self.damaged(f"SQLite finds it broken: {found}")

    def damaged(self, what: str) -> LedgerDamaged:
        """The error for a history that is not what was written."""
        return LedgerDamaged(
            f"ledger {str(self.path)!r} is damaged or was changed: {what}. Nothing was recorded. "
            f"Restore a copy that verifies, and charge again what was released since"
        )

    def _cannot(self, what: str) -> LedgerError:
        return LedgerError(f"ledger {str(self.path)!r} {what}")

    def _require_file(self) -> None:
        # Asked by name, never by opening: on POSIX, closing any descriptor of the file would drop
        # the locks that another thread's transaction holds on it.
        try:
            found = self.path.stat()
        except FileNotFoundError as error:
            raise self._cannot(
                "is not there. Check the path, or start a new one: Ledger(path, create=True)"
            ) from error
        except (OSError, ValueError) as error:  # ValueError: a path with a null in it
            raise self._cannot(f"cannot be reached: {error}") from error
        if not stat.S_ISREG(found.st_mode):
            raise self._cannot("is not a file")
        if found.st_size == 0:
            raise self.damaged("the file is empty")

    def _require_ledger(self, connection: sqlite3.Connection) -> None:
        (application,) = self._patiently(connection, "PRAGMA application_id")[0]
        if application != APPLICATION:
            raise self._cannot("is not a ledger: it is an SQLite database of something else")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise self._cannot(
                f"has version {version} of the format, made by a newer noiseplan; this one reads "
                f"up to version {VERSION}. Upgrade noiseplan"
            )
        if version < VERSION or _schema_of(connection) != set(SCHEMA):
            raise self.damaged("it does not have the tables of a ledger, and only those")
        (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
        if journal != "delete":
            raise self._cannot(
                f"was switched to SQLite's journal mode {journal!r}, under which a copy of the "
                f"file can miss spends. Switch it back: PRAGMA journal_mode = DELETE"
            )

    def _patiently(self, connection: sqlite3.Connection, statement: str) -> list[Row]:
        """Run a statement that needs a lock, trying again while others hold it.

        SQLite could wait itself, but in growing steps of up to 0.1 s in which the lock lies idle,
        and deaf to an interrupt from the keyboard.
        """
        deadline = time.monotonic() + self.timeout
        while True:
            try:
                return connection.execute(statement).fetchall()
            except sqlite3.OperationalError as error:
                busy = _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
                if not busy or time.monotonic() >= deadline:
                    raise
            time.sleep(random.uniform(0, LONGEST_NAP))

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = _code(error)
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise LedgerBusy(
                    f"ledger {str(self.path)!r}: other processes held it for {self.timeout:g} s; "
                    f"nothing was recorded. Try again, or wait longer: Ledger(path, timeout=…)"
                ) from error
            if code in EXPLAINED:
                raise self._cannot(f"cannot be used: {EXPLAINED[code]} ({error})") from error
            raise self.damaged(f"SQLite says: {error}") from error


def append(connection: sqlite3.Connection, record: Record) -> None:
    """Add a row; the head moves with it."""
    row = (record.position, record.text, record.hash)
    connection.execute("INSERT INTO history VALUES (?, ?, ?)", row)


def rows_after(connection: sqlite3.Connection, head: Head) -> Iterator[Row]:
    """The rows that follow `head`, in order; all rows, whatever their numbers, if it is empty."""
    if head.count == 0:
        yield from connection.execute("SELECT * FROM history ORDER BY position")
    else:
        query = "SELECT * FROM history WHERE position > ? ORDER BY position"
        yield from connection.execute(query, (head.count,))


def holds(connection: sqlite3.Connection, head: Head) -> bool:
    """Whether `head` is a row of the history."""
    query = "SELECT hash FROM history WHERE position = ?"
    return connection.execute(query, (head.count,)).fetchall() == [(head.hash,)]


def stored_heads(connection: sqlite3.Connection) -> list[Row]:
    """What the file itself says its head is."""
    return connection.execute("SELECT * FROM head").fetchall()


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)) & 0xFF


def _write_schema(connection: sqlite3.Connection, first: Record) -> None:
    for pragma in PRAGMAS:
        connection.execute(pragma)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    for statement in SCHEMA:
        connection.execute(statement)
    append(connection, first)
    connection.execute("COMMIT")


def _schema_of(connection: sqlite3.Connection) -> set[str]:
    # Statistics and the like, which an administrator's tools may add, are tables named sqlite_….
    query = """SELECT sql FROM sqlite_master
               WHERE NOT (type = 'table' AND name LIKE 'sqlite\\_%' ESCAPE '\\')"""
    return {sql for (sql,) in connection.execute(query)}


def _sync_folder(folder: Path) -> None:
    """Make the new name durable, where folders can be synced (not on Windows)."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
