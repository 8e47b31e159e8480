"""Edited tables, chains forged anew, old copies: what is found, and what needs a noted head."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ledger_helpers import curved, discrete, filled, forge, refused, rows, sql, untouched

from noiseplan.ledger import Head, Ledger, LedgerDamaged, LedgerError
from noiseplan.ledger.sql import SCHEMA
from noiseplan.privacy import ApproxDP, PureDP, gaussian_pcost

# ---------------------------------------------------------------------- edits of the tables

EDITS = {
    "a changed cost": "UPDATE history SET record = replace(record, '0.5', '0.05')",
    "a changed hash": "UPDATE history SET hash = 'x' || substr(hash, 2) WHERE position = 5",
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
        set_field(9, budget={"currency": "zCDP", "rho": 0.1}), "row 9.*has spent"),
    "an unknown currency": (set_field(2, budget={"currency": "EUR", "rho": 1.0}), "row 2.*'EUR'"),
    "a budget without its number": (set_field(2, budget={"currency": "zCDP"}), "row 2"),
    "a budget with too much": (
        set_field(2, budget={"currency": "zCDP", "rho": 1.0, "mu": 1.0}), "row 2"),
    "a budget of nothing": (set_field(2, budget={"currency": "zCDP", "rho": 0.0}), "row 2"),
    "a budget that is a number": (set_field(2, budget=1.0), "row 2.*budget"),
    "a limit of a budget that needs none": (set_field(2, limit=9.0), "row 2.*unexpected"),
    "a limit where none begins": (set_field(5, limit=2.0), "row 5.*a limit other than"),
    "a limit of a change to zCDP": (set_field(9, limit=4.0), "row 9.*a limit other than"),
    "a μ below what zCDP has": (set_field(5, mu2=0.4999), "row 5.*mu2 of discrete noise"),
    "a μ of continuous noise": (set_field(7, mu2=0.3), "row 7.*law 'gaussian' with mu2"),
    "an ε of noise that has none": (set_field(5, epsilon=0.5), "row 5.*law 'zcdp' with mu2"),
    "an ε that is not there": (set_field(5, law="pure", pcost=0.25), "row 5.*law 'pure' with"),
    "an ε that does not fit": (
        set_field(5, law="pure", pcost=0.2499, epsilon=0.5), "row 5.*another pcost"),
    "a μ of pure DP": (
        set_field(5, law="pure", pcost=0.25, epsilon=0.5, mu2=0.25), "row 5.*with mu2 = 0.25"),
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


LIMITS: dict[str, Callable[[float], object]] = {
    "above what the budget admits": lambda own: 1.00001 * own,
    "of no budget": lambda own: 1e308,
    "not there": lambda own: None,
    "a text": str,
}


@pytest.mark.parametrize("stated", LIMITS)
@pytest.mark.parametrize("place", ["the first Gaussian release", "a change of the budget"])
def test_a_limit_that_the_budget_does_not_admit(folder: Path, stated: str, place: str) -> None:
    path, row = folder / "a.ledger", 4 if place == "the first Gaussian release" else 6
    ledger = Ledger(path, create=True)
    ledger.open_dataset("d", ApproxDP(1.0, 1e-6))
    ledger.spend("d", PureDP(0.5))
    ledger.spend("d", curved(0.004))
    ledger.spend("d", PureDP(0.01))
    ledger.change_budget("d", ApproxDP(1.5, 1e-6), reason="a vote")
    own = [each.get("limit") for each in rows(path)]
    assert own == [
        None, None, None, gaussian_pcost(0.5, 1e-6), None, gaussian_pcost(1.0, 1e-6)
    ]  # fmt: skip
    limit = LIMITS[stated](own[row - 1])
    if limit is None:
        forge(path, lambda content: content[row - 1].pop("limit"))
    else:
        forge(path, set_field(row, limit=limit))
    refused(path, LedgerDamaged, f"row {row}.*limit")
    # The last digit of a conversion is that of the machine that wrote it.
    forge(path, set_field(row, limit=math.nextafter(own[row - 1], 1)))
    balance = Ledger(path).balance("d")
    assert balance.limit == (math.nextafter(own[5], 1) if row == 6 else own[5])


@pytest.mark.parametrize("text", ["[]", "7", "null", "{", "[" * 100_000, '{"a":NaN}', "\\ud800"])
def test_rows_that_are_no_objects(folder: Path, text: str) -> None:
    path = folder / "a.ledger"
    filled(path)
    digest = hashlib.sha256(text.encode()).hexdigest()
    sql(path, f"UPDATE history SET record = '{text}', hash = '{digest}' WHERE position = 4")
    assert "row 4" in refused(path, LedgerDamaged)


def test_rows_not_in_the_canonical_form(folder: Path) -> None:
    path = folder / "a.ledger"
    filled(path)
    text = json.dumps(rows(path)[9])  # the last row, with spaces
    digest = hashlib.sha256(text.encode()).hexdigest()
    quoted = text.replace("'", "''")
    sql(path, f"UPDATE history SET record = '{quoted}', hash = '{digest}' WHERE position = 10",
        f"UPDATE head SET hash = '{digest}'")  # fmt: skip
    assert "canonical" in refused(path, LedgerDamaged)


def test_huge_values(folder: Path) -> None:
    path = folder / "a.ledger"
    filled(path)
    forge(path, set_field(5, purpose="x" * 3_000_000))
    assert len(Ledger(path).entries()[0].purpose) == 3_000_000  # long, but a history like any
    forge(path, set_field(5, pcost=1e308))
    refused(path, LedgerDamaged, "row 5")


def test_the_schema_is_what_these_tests_put_back(ledger: Ledger) -> None:
    with closing(sqlite3.connect(ledger.path)) as connection:
        found = {text for (text,) in connection.execute("SELECT sql FROM sqlite_master")}
    assert found == set(SCHEMA)


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
