"""The file: one SQLite database, opened for each operation, every change durable or absent."""

from __future__ import annotations

import os
import random
import secrets
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from noiseplan.errors import remedy
from noiseplan.ledger import sql
from noiseplan.ledger.chain import Record
from noiseplan.ledger.errors import LIST_ENTRIES, LedgerBusy, LedgerDamaged, LedgerError
from noiseplan.paths import to_disk

# Seconds between two tries while another process writes: at first, and at most.
SHORT_NAP, LONG_NAP = 0.002, 0.02

BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
EXPLAINED: Final = {
    sqlite3.SQLITE_READONLY: "the file or its folder is read-only, so nothing can be recorded",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; SQLite must be able to read and write the file "
    "and to make a journal beside it in the folder",
    sqlite3.SQLITE_PERM: "permission denied",
    sqlite3.SQLITE_FULL: "its disk is full, and nothing was recorded",
    sqlite3.SQLITE_IOERR: "its disk failed to read or write; a spend under way may be recorded or "
    "not, which " + LIST_ENTRIES + " will show",
    sqlite3.SQLITE_NOTADB: "it is not a ledger, or its first bytes were overwritten",
}

DRAFT: Final = ".new-ledger"
WHERE: Final = "choose an existing folder on a local disk that you may write to"

# SQLite's own memory of its locks survives a fork, the locks do not: a child born while another
# thread is in a transaction would believe in locks that it does not hold. So a process has one
# transaction at a time, and forks between two of them.
TURN: Final = threading.Lock()
if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(
        before=TURN.acquire, after_in_parent=TURN.release, after_in_child=TURN.release
    )


@final
@dataclass(frozen=True)
class Storage:
    """A ledger's file and how long to wait for others that use it."""

    path: Path
    timeout: float

    @classmethod
    def at(cls, path: object, timeout: object) -> Storage:
        """The storage at a path, once both arguments are known to make sense."""
        if not isinstance(path, str | os.PathLike):
            raise LedgerError(f"a ledger is a file, named by a path; got {path!r}")
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
            raise LedgerError(f"timeout is a number of seconds, at least 0; got {timeout!r}")
        return cls(Path(path).absolute(), timeout)  # a change of folder does not matter

    def create(self, first: Record) -> None:
        """Make the file with its first row, at once and whole; leave alone what is there.

        A link to a finished file either appears under the name or does not, so nobody ever sees a
        half-made ledger, and of several that make one at the same time one wins. An empty file,
        which SQLite would take for a new database, is therefore always a damaged ledger.
        """
        if os.path.lexists(self.path):
            return
        if not self.path.parent.is_dir():
            raise self._cannot(f"cannot be made: its folder is not there; {WHERE}")
        draft = self.path.parent / f".{secrets.token_hex(8)}{DRAFT}"
        try:
            with self._turn(), self._explaining(), closing(_connect(str(draft))) as connection:
                sql.write(connection, first)
            os.link(draft, self.path)
        except FileExistsError:
            return
        except (OSError, ValueError) as error:  # ValueError: a path with a null in it
            why = error.strerror if isinstance(error, OSError) else error
            raise self._cannot(f"cannot be made ({why}); {WHERE}") from error
        finally:
            with suppress(OSError, ValueError):
                draft.unlink(missing_ok=True)
        to_disk(self.path.parent)

    def identify(self) -> None:
        """Refuse what is no ledger, without touching it.

        A transaction would finish or undo what another program left half-done in its database. So
        this looks without a lock, and may see the pages of a change that another process is just
        writing. What then looks damaged but starts as a ledger does is left to the transactions,
        which have locks, to judge.
        """
        self._require_file()
        address = f"{self.path.as_uri()}?mode=ro&immutable=1"
        with self._turn():
            try:
                with self._explaining(), closing(_connect(address)) as connection:
                    self._require_version(connection)
            except LedgerDamaged:
                if not self._starts_as_a_ledger():
                    raise

    def _starts_as_a_ledger(self) -> bool:
        """Whether SQLite's header, at the start of the file, names a ledger of this version.

        These bytes are the same in every state of a ledger, so no half-written change hides them.
        """
        with self.path.open("rb") as file:  # in our turn: no transaction of ours has locks to lose
            header = file.read(100)
        version, application = header[60:64], header[68:72]
        return (
            header.startswith(b"SQLite format 3\0")
            and int.from_bytes(version, "big") == sql.VERSION
            and int.from_bytes(application, "big") == sql.APPLICATION
        )

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the file; with `write`, alone in changing it.

        The change is on disk when the block has ended without an exception, and undone otherwise.
        Each has a connection of its own: nothing is shared by threads or handed down by a fork.
        """
        self._require_file()
        address = f"{self.path.as_uri()}?mode=rw"  # rw: never made anew where it is missing
        with self._turn(), self._explaining(), closing(_connect(address)) as connection:
            for pragma in sql.PRAGMAS:  # the first of them reads the file, which needs a lock
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
        return LedgerError(f"ledger {str(self.path)!r} " + what)

    def _require_file(self) -> None:
        # Asked by name, never by opening: on POSIX, closing any descriptor of the file would drop
        # the locks that another thread's transaction holds on it.
        try:
            found = self.path.stat()
        except FileNotFoundError as error:
            raise self._cannot(
                "is not there. Check the path, or restore the file; a new one knows nothing of "
                "what was spent. The first is made with "
                + remedy("create ledger", "Ledger(path, create=True), noiseplan ledger init")
            ) from error
        except (OSError, ValueError) as error:  # ValueError: a path with a null in it
            raise self._cannot(f"cannot be reached: {error}") from error
        if not stat.S_ISREG(found.st_mode):
            raise self._cannot("is not a file")
        if found.st_nlink > 1 and self._has_another_name():
            raise self._cannot(
                "is a file of several names (hard links). What a killed program left to be undone "
                "lies beside one of them, and would take away spends that were made by another: "
                "remove all names but one; a copy is made with sqlite3 FILE '.backup COPY'"
            )
        if found.st_size == 0:
            raise self.damaged("the file is empty")

    def _has_another_name(self) -> bool:
        """Whether it has a second name, but for the draft as which it is being made, or was."""
        real = self.path.resolve()
        with os.scandir(real.parent) as names:
            drafts = [each.inode() for each in names if each.name.endswith(DRAFT)]
        found = real.stat()  # after the drafts were seen: they only ever go
        return found.st_nlink > 1 + drafts.count(found.st_ino)

    def _require_version(self, connection: sqlite3.Connection) -> None:
        (application,) = self._patiently(connection, "PRAGMA application_id")[0]
        if application != sql.APPLICATION:
            raise self._cannot("is not a ledger: it is an SQLite database of something else")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > sql.VERSION:
            raise self._cannot(
                f"has version {version} of the format, made by a newer noiseplan; this one reads "
                f"up to version {sql.VERSION}. Upgrade noiseplan"
            )
        if version < sql.VERSION:
            raise self.damaged(f"it says that it has version {version} of the format")

    def _require_ledger(self, connection: sqlite3.Connection) -> None:
        self._require_version(connection)
        if sql.schema_of(connection) != set(sql.SCHEMA):
            raise self.damaged("it does not have the tables of a ledger, and only those")
        (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
        if journal != "delete":
            raise self._cannot(
                f"was switched to SQLite's journal mode {journal!r}, under which a copy of the "
                f"file can miss spends. Switch it back: PRAGMA journal_mode = DELETE"
            )

    def _patiently(self, connection: sqlite3.Connection, statement: str) -> list[sql.Row]:
        """Run a statement that needs a lock, trying again while others hold it.

        SQLite could wait itself, but in growing steps of up to 0.1 s in which the lock lies idle,
        and deaf to an interrupt from the keyboard.
        """
        deadline, nap = time.monotonic() + self.timeout, SHORT_NAP
        while True:
            try:
                return connection.execute(statement).fetchall()
            except sqlite3.OperationalError as error:
                if _code(error) not in BUSY or time.monotonic() >= deadline:
                    raise
            time.sleep(random.uniform(0, nap))
            nap = min(1.2 * nap, LONG_NAP)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not TURN.acquire(timeout=min(self.timeout, threading.TIMEOUT_MAX)):
            raise self._busy()
        try:
            yield
        finally:
            TURN.release()

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = _code(error)
            if code in BUSY:
                raise self._busy() from error
            if code in EXPLAINED:
                raise self._cannot("cannot be used: " + EXPLAINED[code] + f" ({error})") from error
            raise self.damaged(f"SQLite says: {error}") from error
        except UnicodeError as error:  # from SQLite's own message, which quotes broken text
            raise self.damaged("it holds bytes that are no text where text should be") from error

    def _busy(self) -> LedgerBusy:
        return LedgerBusy(
            f"ledger {str(self.path)!r}: others held it for {self.timeout:g} s; nothing was "
            "recorded. " + remedy("try again", "Try again, or wait longer: Ledger(path, timeout=…)")
        )


def _connect(address: str) -> sqlite3.Connection:
    uri = address.startswith("file:")  # what is no address is an absolute path
    return sqlite3.connect(address, uri=uri, isolation_level=None, timeout=0.0)


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)) & 0xFF
