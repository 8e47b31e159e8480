"""The tables of a ledger, and every statement that reads or writes them."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from noiseplan.ledger.chain import Head, Record

APPLICATION: Final = 0x6E7A4C67  # "nzLg": tells a ledger from any other SQLite database
VERSION: Final = 1

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

Row = tuple[Any, ...]


def write(connection: sqlite3.Connection, first: Record) -> None:
    """Make the tables in an empty database, with the first row."""
    for pragma in PRAGMAS:
        connection.execute(pragma)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    for statement in SCHEMA:
        connection.execute(statement)
    append(connection, first)
    connection.execute("COMMIT")


def schema_of(connection: sqlite3.Connection) -> set[str]:
    """The statements that made the tables and triggers of a database."""
    # Statistics and the like, which an administrator's tools may add, are tables named sqlite_….
    query = """SELECT sql FROM sqlite_master
               WHERE NOT (type = 'table' AND name LIKE 'sqlite\\_%' ESCAPE '\\')"""
    return {sql for (sql,) in connection.execute(query)}


def append(connection: sqlite3.Connection, record: Record) -> None:
    """Add a row; the head moves with it."""
    row = (record.position, record.text, record.hash)
    connection.execute("INSERT INTO history VALUES (?, ?, ?)", row)


def rows_after(connection: sqlite3.Connection, head: Head) -> list[Row]:
    """The rows that follow `head`, in order; all rows, whatever their numbers, if it is empty."""
    if head.count == 0:
        return connection.execute("SELECT * FROM history ORDER BY position").fetchall()
    query = "SELECT * FROM history WHERE position > ? ORDER BY position"
    return connection.execute(query, (head.count,)).fetchall()


def holds(connection: sqlite3.Connection, head: Head) -> bool:
    """Whether `head` is a row of the history."""
    query = "SELECT hash FROM history WHERE position = ?"
    return connection.execute(query, (head.count,)).fetchall() == [(head.hash,)]


def stored_heads(connection: sqlite3.Connection) -> list[Row]:
    """What the file itself says its head is."""
    return connection.execute("SELECT * FROM head").fetchall()
