"""Files that are no ledger, or no longer the one that was written: a clear error, nothing written.

"Nothing written" is checked byte by byte, with the names in the folder, after every refusal.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_helpers import discrete, filled, forge, rows, sql

from noiseplan.ledger import Head, Ledger, LedgerBusy, LedgerDamaged, LedgerError
from noiseplan.ledger.tables import SCHEMA
from noiseplan.privacy import zCDP


@contextmanager
def untouched(folder: Path) -> Iterator[None]:
    def state() -> dict[str, bytes | None]:
        return {
            each.name: each.read_bytes() if each.is_file() else None
            for each in sorted(folder.iterdir())
        }

    before = state()
    yield
    assert state() == before


def refused(path: Path, kind: type[LedgerError] = LedgerError, match: str | None = None) -> str:
    """Every way to use the file is refused with the same kind of error, and touches nothing."""
    with untouched(path.parent):
        for create in (False, True):
            with pytest.raises(kind, match=match) as caught:
                Ledger(path, create=create)
            assert not isinstance(caught.value, LedgerBusy)
    return str(caught.value)


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


# ---------------------------------------------------------------------- edits of the tables

EDITS = {
    "a changed cost": "UPDATE history SET record = replace(record, '0.5', '0.05')",
    "a changed hash": "UPDATE history SET hash = 'a' || substr(hash, 2) WHERE position = 5",
    "a row deleted": "DELETE FROM history WHERE position = 5",
    "the last row deleted": "DELETE FROM history WHERE position = 10",
    "the first row deleted": "DELETE FROM history WHERE position = 1",
    "all rows deleted": "DELETE FROM history",
    "a row moved": "UPDATE history SET position = 50 WHERE position = 10",
    "a row before the first": "INSERT INTO history VALUES (-5, '{}', '')",
    "a row after a gap": "INSERT INTO history VALUES (99, '{}', '')",
    "a row repeated": "INSERT INTO history SELECT 11, record, hash FROM history LIMIT 1 OFFSET 9",
    "a number for a text": "UPDATE history SET record = 7 WHERE position = 4",
    "bytes for a text": "UPDATE history SET record = CAST(record AS BLOB) WHERE position = 4",
    "bytes that are no text": "UPDATE history SET record = CAST(x'FF' AS TEXT) WHERE position = 4",
    "an empty text": "UPDATE history SET record = '' WHERE position = 4",
    "the head moved": "UPDATE head SET count = 9",
    "the head's hash": "UPDATE head SET hash = upper(hash)",
    "the head's type": "UPDATE head SET count = 'ten'",
    "no head": "DELETE FROM head",
    "a table more": "CREATE TABLE other (x)",
    "a view": "CREATE VIEW other AS SELECT * FROM history",
    "an index": "CREATE INDEX other ON history (hash)",
    "a trigger more": "CREATE TRIGGER other AFTER INSERT ON history BEGIN DELETE FROM head; END",
    "no history": "DROP TABLE history",
    "a column more": "ALTER TABLE history ADD COLUMN x",
}


@pytest.mark.parametrize("edit", EDITS)
def test_edited_tables_are_refused(folder: Path, edit: str) -> None:
    path = folder / "a.ledger"
    used = filled(path)
    sql(path, EDITS[edit], triggers=edit == "no history")  # triggers go with their table
    refused(path, LedgerDamaged)
    # Who had it open refuses too: what was read once is remembered, the rest is read anew.
    with untouched(folder), pytest.raises(LedgerDamaged):
        used.verify()


def test_two_rows_exchanged(folder: Path) -> None:
    path = folder / "a.ledger"
    filled(path)
    sql(path, "UPDATE history SET position = -1 WHERE position = 5",
        "UPDATE history SET position = 5 WHERE position = 6",
        "UPDATE history SET position = 6 WHERE position = -1")  # fmt: skip
    assert "row 5" in refused(path, LedgerDamaged)


@pytest.mark.parametrize("statement", ["UPDATE history SET hash = ''", "DELETE FROM history"])
def test_the_triggers_stop_slips(ledger: Ledger, statement: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        sql(ledger.path, statement, triggers=True)
    ledger.verify()


def test_statistics_of_an_administrator_do_no_harm(ledger: Ledger) -> None:
    sql(ledger.path, "ANALYZE", "VACUUM", triggers=True)
    ledger.verify()
    ledger.spend("census", discrete(0.5))


# ---------------------------------------------------------------------- chains forged anew


def set_field(row: int, **fields: object) -> Callable[[list[dict[str, Any]]], object]:
    return lambda content: content[row - 1].update(fields)


FORGERIES: dict[str, tuple[Callable[[list[dict[str, Any]]], object], str]] = {
    "more than the budget": (set_field(5, pcost=3.0), "row 5.*does not fit"),
    "an infinite cost": (set_field(5, pcost=float("inf")), "row 5"),
    "not a number": (set_field(5, pcost=float("nan")), "row 5"),
    "a negative cost": (set_field(5, pcost=-0.5), "row 5.*pcost is -0.5"),
    "an integer cost": (set_field(5, pcost=0), "row 5.*pcost is 0, not a float"),
    "a huge integer cost": (set_field(5, pcost=10**400), "row 5"),
    "a text cost": (set_field(5, pcost="0.5"), "row 5.*not a float"),
    "an unknown law": (set_field(5, law="laplace"), "row 5.*law"),
    "other neighbours": (set_field(5, neighbours="replace"), "row 5.*neighbours"),
    "no such neighbours": (set_field(2, neighbours="friends"), "row 2.*neighbours"),
    "an unknown dataset": (set_field(5, dataset="nobody"), "row 5.*no dataset"),
    "a null dataset": (set_field(5, dataset=None), "row 5.*dataset is None"),
    "a dataset twice": (set_field(3, dataset="census"), "row 3.*is open"),
    "a dataset under two spellings": (set_field(3, dataset="Census"), "row 3.*second budget"),
    "an unknown kind": (set_field(5, kind="refund"), "row 5.*unknown kind 'refund'"),
    "a kind that is a list": (set_field(5, kind=[]), "row 5.*kind"),
    "a field more": (set_field(5, refund=1.0), "row 5.*unexpected fields 'refund'"),
    "a field less": (lambda content: content[4].pop("law"), "row 5.*law"),
    "settled twice": (lambda content: content.insert(6, dict(content[5])), "row 7.*released"),
    "settled for another": (set_field(6, dataset="panel"), "row 6.*belongs to 'census'"),
    "settled before it is charged": (set_field(6, entry=10), "row 6.*no entry 10"),
    "settled by a text": (set_field(6, entry="5"), "row 6.*entry is '5'"),
    "a budget below what is spent": (
        set_field(9, budget={"currency": "zCDP", "rho": 0.1},
                  limits={"gaussian": 0.2, "zcdp": 0.2}), "row 9.*has spent"),
    "an unknown currency": (set_field(2, budget={"currency": "EUR", "rho": 1.0}), "row 2.*'EUR'"),
    "a budget without its number": (set_field(2, budget={"currency": "zCDP"}), "row 2"),
    "a budget with too much": (
        set_field(2, budget={"currency": "zCDP", "rho": 1.0, "mu": 1.0}), "row 2"),
    "a budget of nothing": (set_field(2, budget={"currency": "zCDP", "rho": 0.0}), "row 2"),
    "a budget that is a number": (set_field(2, budget=1.0), "row 2.*budget"),
    "a limit more": (set_field(2, limits={"gaussian": 2.0, "zcdp": 2.0, "x": 1.0}), "row 2"),
    "a time that is none": (set_field(5, time="yesterday"), "row 5"),
    "an author that is none": (set_field(5, by=None), "row 5.*by is None"),
    "a second start": (lambda content: content.append(dict(content[0])), "row 11.*starts once"),
    "no start": (lambda content: content.pop(0), "row 1.*starts once"),
    "a future format": (set_field(1, format=2), "row 1.*format 2"),
}  # fmt: skip


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_history_that_could_not_have_been_written_is_refused(folder: Path, forgery: str) -> None:
    """Even if all hashes fit: reading obeys the rules of writing."""
    path = folder / "a.ledger"
    filled(path)
    edit, match = FORGERIES[forgery]
    forge(path, edit)
    refused(path, LedgerDamaged, match)


def test_rewriting_with_the_same_content_is_accepted(folder: Path) -> None:
    """The forger of these tests writes a file that is right in all else."""
    path = folder / "a.ledger"
    head = filled(path).head()
    forge(path, lambda content: None)
    assert Ledger(path).verify(head) == head


@pytest.mark.parametrize("budget", ["limits above it", "GDP with a limit for zCDP"])
def test_limits_that_do_not_belong_to_the_budget(folder: Path, budget: str) -> None:
    path = folder / "a.ledger"
    filled(path)
    row = 2 if budget == "limits above it" else 3
    forge(path, set_field(row, limits={"gaussian": 100.0, "zcdp": 100.0}))
    with untouched(folder), pytest.raises(LedgerDamaged, match=f"row {row} states limits"):
        Ledger(path).verify()


@pytest.mark.parametrize("text", ["[]", "7", "null", "{", "[" * 100_000, '{"a":NaN}', "\\ud800"])
def test_rows_that_are_no_objects(folder: Path, text: str) -> None:
    import hashlib

    path = folder / "a.ledger"
    filled(path)
    digest = hashlib.sha256(text.encode()).hexdigest()
    sql(path, f"UPDATE history SET record = '{text}', hash = '{digest}' WHERE position = 4")
    assert "row 4" in refused(path, LedgerDamaged)


def test_rows_not_in_the_canonical_form(folder: Path) -> None:
    import hashlib

    path = folder / "a.ledger"
    filled(path)
    text = json.dumps(rows(path)[9])  # the last row, with spaces
    digest = hashlib.sha256(text.encode()).hexdigest()
    quoted = text.replace("'", "''")
    sql(path, f"UPDATE history SET record = '{quoted}', hash = '{digest}' WHERE position = 10",
        f"UPDATE head SET hash = '{digest}'")  # fmt: skip
    assert "canonical" in refused(path, LedgerDamaged)


# ---------------------------------------------------------------------- what only a head can show


def test_a_truncated_history_with_its_head_moved_needs_the_outside_head(folder: Path) -> None:
    """What a hash chain cannot show by itself, and what shows it."""
    path = folder / "a.ledger"
    used = filled(path)
    noted = used.head()
    forge(path, lambda content: content.pop())
    shorter = Ledger(path).verify()  # not seen
    assert shorter.count == noted.count - 1
    with pytest.raises(LedgerDamaged, match=r"has 9 rows, and had 10"):
        Ledger(path).verify(noted)
    with pytest.raises(LedgerDamaged, match="is not the one this program has read before"):
        used.head()


def test_a_restored_copy_needs_the_outside_head(folder: Path) -> None:
    path = folder / "a.ledger"
    used = filled(path)
    shutil.copy(path, folder / "backup")
    entry = used.spend("census", discrete(0.5))
    shutil.copy(folder / "backup", path)
    Ledger(path).verify()  # not seen
    for expected in (entry.head, str(entry.head), used_head := Head(entry.id, entry.hash)):
        with pytest.raises(LedgerDamaged, match="had 11 when the head was noted"):
            Ledger(path).verify(expected)
    # Once it grows again, the row is there, but it is another one.
    Ledger(path).spend("census", discrete(0.01))
    with pytest.raises(LedgerDamaged, match="row 11 is not the one"):
        Ledger(path).verify(used_head)
    with pytest.raises(LedgerDamaged):
        used.spend("census", discrete(0.01))


def test_a_history_that_grew_still_holds_its_earlier_heads(ledger: Ledger) -> None:
    heads = [ledger.head()]
    for _ in range(3):
        heads.append(ledger.spend("census", discrete(0.1)).head)
        assert heads[-1] == ledger.head()
    for head in heads:
        assert ledger.verify(expected_head=head) == heads[-1]


@pytest.mark.parametrize("head", ["", "3", "3:abc", 3, "x:" + "0" * 64, b"3", "0:" + "0" * 64])
def test_heads_that_are_none(ledger: Ledger, head: object) -> None:
    with pytest.raises(LedgerError, match=r"count:hash|is not the one"):
        ledger.verify(head)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- broken bytes


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "a.ledger"
    filled(path)
    return path


def survives(whole: Path, damaged: Path) -> None:
    """Damage is refused, or it hit what carries no meaning and the history is all there."""
    truth = Ledger(whole)
    with untouched(damaged.parent):
        try:
            found = Ledger(damaged)
            assert found.verify() == truth.head()
            assert found.history() == truth.history()
            assert found.entries() == truth.entries()
        except LedgerError as error:
            assert not isinstance(error, LedgerBusy)
            assert str(damaged) in str(error)


@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_flipped_bits(whole: Path, folder: Path, data: st.DataObject) -> None:
    content = bytearray(whole.read_bytes())
    # A third of the flips in the header and a third in the first page, where they hurt most.
    for size in (100, 4096, len(content)):
        if data.draw(st.booleans()):
            content[data.draw(st.integers(0, size - 1))] ^= 1 << data.draw(st.integers(0, 7))
    (folder / "a.ledger").write_bytes(content)
    survives(whole, folder / "a.ledger")


def test_bytes_that_are_no_text_all_over_the_file(whole: Path, folder: Path) -> None:
    """SQLite quotes what it finds, and what it quotes may not be text."""
    content, damaged = whole.read_bytes(), folder / "a.ledger"
    for position in range(0, len(content), 41):
        broken = bytearray(content)
        broken[position] = 0xFE
        damaged.write_bytes(broken)
        survives(whole, damaged)


def test_flipped_bits_in_what_matters_are_found(whole: Path, folder: Path) -> None:
    """Every byte of every stored row."""
    content, damaged = whole.read_bytes(), folder / "a.ledger"
    for row in Ledger(whole).history()[::3]:
        start = content.index(row.text.encode())
        for offset in range(0, len(row.text), 7):
            broken = bytearray(content)
            broken[start + offset] ^= 1
            damaged.write_bytes(broken)
            with pytest.raises(LedgerError):
                Ledger(damaged)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(share=st.floats(0, 1))
def test_truncated_files(whole: Path, folder: Path, share: float) -> None:
    content = whole.read_bytes()
    length = min(int(share * len(content)), len(content) - 1)
    (folder / "a.ledger").write_bytes(content[:length])
    refused(folder / "a.ledger")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_overwritten_stretches(whole: Path, folder: Path, data: st.DataObject) -> None:
    content = bytearray(whole.read_bytes())
    start = data.draw(st.integers(0, len(content) - 1))
    length = data.draw(st.sampled_from([1, 16, 512, 4096]))
    filling = data.draw(st.sampled_from([b"\x00", b"\xff", b"A"]))
    content[start : start + length] = filling * len(content[start : start + length])
    (folder / "a.ledger").write_bytes(content)
    survives(whole, folder / "a.ledger")


def test_a_page_of_a_backup_among_newer_ones(folder: Path) -> None:
    """Pages restored one by one, as broken disks do."""
    path = folder / "a.ledger"
    used = filled(path)
    old = path.read_bytes()
    for _ in range(30):
        used.spend("census", discrete(0.001))
    new, head = path.read_bytes(), used.head()
    assert len(new) > len(old)
    for start in range(0, len(old), 4096):
        mixed = bytearray(new)
        mixed[start : start + 4096] = old[start : start + 4096]
        path.write_bytes(mixed)
        if mixed == new:
            assert Ledger(path).head() == head
        else:
            refused(path, LedgerDamaged)


def test_a_long_tail_after_the_file(whole: Path, folder: Path) -> None:
    (folder / "a.ledger").write_bytes(whole.read_bytes() + bytes(4096 * 3))
    survives(whole, folder / "a.ledger")


def test_huge_values(folder: Path) -> None:
    path = folder / "a.ledger"
    filled(path)
    forge(path, set_field(5, purpose="x" * 3_000_000))
    assert len(Ledger(path).entries()[0].purpose) == 3_000_000  # long, but a history like any
    forge(path, set_field(5, pcost=1e308))
    refused(path, LedgerDamaged, "row 5")


def test_a_disk_that_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite is told that the file may not grow."""
    from noiseplan.ledger import tables

    ledger = filled(folder / "a.ledger")
    head = ledger.head()
    full = (*tables.PRAGMAS, "PRAGMA max_page_count = 1")
    monkeypatch.setattr(tables, "PRAGMAS", full)
    with pytest.raises(LedgerError, match="disk is full"):
        for _ in range(100):
            ledger.spend("études", discrete(1e-9), purpose="x" * 2000)
            head = ledger.head()
    assert ledger.verify() == head
    monkeypatch.undo()
    ledger.spend("études", discrete(1e-9))


def test_the_schema_is_what_these_tests_put_back(ledger: Ledger) -> None:
    with closing(sqlite3.connect(ledger.path)) as connection:
        found = {text for (text,) in connection.execute("SELECT sql FROM sqlite_master")}
    assert found == set(SCHEMA)
