"""Files that are no ledger, or may not be used: a clear error, nothing written."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from ledger_helpers import discrete, refused, sql, untouched

from noiseplan.ledger import Ledger, LedgerDamaged, LedgerError
from noiseplan.ledger.ledger import reserved
from noiseplan.ledger.sql import append
from noiseplan.privacy import zCDP

# ---------------------------------------------------------------------- not a ledger at all


def test_a_missing_file_is_no_fresh_budget(folder: Path) -> None:
    with untouched(folder), pytest.raises(LedgerError, match=r"is not there.*create=True"):
        Ledger(folder / "mistyped.ledger")


def test_an_empty_file_is_a_damaged_ledger(folder: Path) -> None:
    (folder / "a.ledger").write_bytes(b"")
    refused(folder / "a.ledger", LedgerDamaged, "empty")


CONTENTS = {
    "text": b"ledger\n" * 400,
    "zeros": bytes(8192),
    "one byte": b"S",
    "a header alone": b"SQLite format 3\x00",
    "a header and noise": b"SQLite format 3\x00" + random.Random(1).randbytes(8000),
    "noise": random.Random(0).randbytes(10_000),
    "json": json.dumps({"format": "noiseplan ledger", "history": []}).encode(),
}


@pytest.mark.parametrize("content", CONTENTS)
def test_other_files(folder: Path, content: str) -> None:
    (folder / "a.ledger").write_bytes(CONTENTS[content])
    refused(folder / "a.ledger", match="is not a ledger")


def test_a_folder(folder: Path) -> None:
    (folder / "a.ledger").mkdir()
    refused(folder / "a.ledger", match="is not a file")


def test_a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "a.ledger")
    refused(folder / "a.ledger", match="is not a file")


def test_a_link_to_nothing(folder: Path) -> None:
    (folder / "a.ledger").symlink_to(folder / "nothing")
    refused(folder / "a.ledger", match="is not there")


def test_a_link_to_a_ledger_is_that_ledger(ledger: Ledger, folder: Path) -> None:
    (folder / "link").symlink_to(ledger.path)
    Ledger(folder / "link").spend("census", discrete(0.5))
    assert ledger.balance("census").entries == 1


def charge_of_a_killed_program(path: Path) -> None:
    """Write a charge, and leave the journal as a program does that is killed before it removes it.

    The next program that opens this name undoes the charge, which nobody was told of.
    """
    journal, kept = path.with_name(f"{path.name}-journal"), path.with_name("kept")
    record = Ledger(path)._history
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # the journal counts without being synced
        connection.execute("BEGIN IMMEDIATE")
        with record.current() as books:
            act = reserved("census", discrete(0.25), "", "", 1, None)
            append(connection, record._record(books.head, act))
        shutil.copy(journal, kept)
        connection.execute("COMMIT")
    kept.rename(journal)


def test_what_a_killed_program_left_is_undone(ledger: Ledger) -> None:
    charge_of_a_killed_program(ledger.path)
    assert Ledger(ledger.path).entries() == ()


def test_a_file_of_several_names_is_refused(ledger: Ledger, folder: Path) -> None:
    """Charged by one name, a spend was undone by what a killed program had left beside another."""
    charge_of_a_killed_program(ledger.path)
    os.link(ledger.path, folder / "second.ledger")
    for name in (ledger.path, folder / "second.ledger"):
        with pytest.raises(LedgerError, match="several names"):
            Ledger(name).spend("census", discrete(0.5))
    with pytest.raises(LedgerError, match="several names"):
        ledger.spend("census", discrete(0.5))
    (folder / "second.ledger").unlink()
    assert ledger.spend("census", discrete(0.5)).id == ledger.head().count


def test_the_draft_of_a_program_killed_while_making_a_ledger_is_no_second_name(
    ledger: Ledger, folder: Path
) -> None:
    os.link(ledger.path, folder / ".0123.new-ledger")
    Ledger(ledger.path).spend("census", discrete(0.5))
    (folder / "link").symlink_to(ledger.path)
    assert len(Ledger(folder / "link").entries()) == 1


def test_other_databases(folder: Path) -> None:
    path = folder / "a.ledger"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE history (position, record, hash)")
    refused(path, match="database of something else")


def test_another_programs_unfinished_business_is_left_alone(folder: Path) -> None:
    """A database in write-ahead mode, with changes that are in its log only."""
    original = folder / "original.db"
    with closing(sqlite3.connect(original, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
        for ending in ("", "-wal"):
            shutil.copy(f"{original}{ending}", f"{folder / 'a.ledger'}{ending}")
    refused(folder / "a.ledger", match="something else")


def test_a_ledger_in_another_journal_mode(ledger: Ledger) -> None:
    sql(ledger.path, "PRAGMA journal_mode = WAL")
    with pytest.raises(LedgerError, match=r"'wal'.*PRAGMA journal_mode = DELETE"):
        Ledger(ledger.path)


def test_versions(ledger: Ledger) -> None:
    sql(ledger.path, "PRAGMA user_version = 2")
    refused(ledger.path, match="Upgrade noiseplan")
    sql(ledger.path, "PRAGMA user_version = 0")
    refused(ledger.path, LedgerDamaged, "version 0")


@pytest.mark.parametrize("path", [7, None, b"a.ledger", ["a"]])
def test_paths_that_are_none(path: object) -> None:
    with pytest.raises(LedgerError, match="named by a path"):
        Ledger(path)  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [-1, float("nan"), "10", None, True])
def test_timeouts_that_are_none(ledger: Ledger, timeout: object) -> None:
    with pytest.raises(LedgerError, match="seconds"):
        Ledger(ledger.path, timeout=timeout)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "no/such/folder", ""])
def test_paths_that_cannot_be(folder: Path, name: str) -> None:
    for create in (False, True):
        with untouched(folder), pytest.raises(LedgerError, match="ledger"):
            Ledger(f"{folder}/{name}", create=create)


@pytest.mark.parametrize(
    "name", ["a?b.ledger", "a#b %41.ledger", "file:x?mode=memory", "é 'q\"", "-"]
)
def test_names_that_could_be_misread(folder: Path, name: str) -> None:
    made = Ledger(folder / name, create=True)
    made.open_dataset("census", zCDP(1.0))
    assert [each.name for each in folder.iterdir()] == [name]
    assert Ledger(folder / name).datasets() == ("census",)


# ---------------------------------------------------------------------- permissions

AS_NOBODY = """
import getpass, os, pwd, sys
from noiseplan.ledger import Ledger, LedgerError
from noiseplan.privacy import Guarantee, zCDP
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
path, action = sys.argv[1:]
try:
    ledger = Ledger(path, create=action == "create")
    if action == "spend":
        ledger.spend("census", Guarantee(0.1, law="zcdp"))
    print("read", ledger.balance("census").entries)
except LedgerError as error:
    print("refused", error)
"""


def as_nobody(path: Path, action: str) -> str:
    """Without the rights of root, whom no permission stops."""
    command = [sys.executable, "-c", AS_NOBODY, str(path), action]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_file_that_may_only_be_read(ledger: Ledger, folder: Path) -> None:
    folder.chmod(0o755)
    ledger.path.chmod(0o444)
    with untouched(folder):
        assert as_nobody(ledger.path, "look") == "read 0\n"
        assert "refused" in (said := as_nobody(ledger.path, "spend"))
        assert "read-only" in said


def test_a_folder_that_may_only_be_read(ledger: Ledger, folder: Path) -> None:
    folder.chmod(0o555)
    ledger.path.chmod(0o666)
    with untouched(folder):
        assert as_nobody(ledger.path, "look") == "read 0\n"
        assert "refused" in (said := as_nobody(ledger.path, "spend"))
        assert "folder is read-only" in said
        assert "refused" in as_nobody(folder / "new.ledger", "create")
    folder.chmod(0o755)


def test_a_file_that_may_not_be_read(ledger: Ledger, folder: Path) -> None:
    folder.chmod(0o755)
    ledger.path.chmod(0o000)
    assert "refused" in (said := as_nobody(ledger.path, "look"))
    assert "cannot be opened" in said
