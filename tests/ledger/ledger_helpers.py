"""Ledgers for tests: raw access to the file, rows chained by an independent hand, refusals."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from noiseplan.ledger import Ledger, LedgerBusy, LedgerError
from noiseplan.privacy import GDP, ApproxDP, Guarantee, zCDP

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


def discrete(pcost: float) -> Guarantee:
    """A release of which zCDP is all that is known."""
    return Guarantee(pcost, law="zcdp")


def curved(pcost: float) -> Guarantee:
    """A release with discrete noise of which μ is known too."""
    return Guarantee(pcost, law="zcdp", mu2=1.001 * pcost if pcost > 1e-300 else pcost)


def filled(path: Path) -> Ledger:
    """A ledger in which everything that can happen has happened."""
    ledger = Ledger(path, create=True, by="tester")
    ledger.open_dataset("census", zCDP(1.0), note="people of 2030")
    ledger.open_dataset("panel", GDP(1.0), neighbours="replace")
    ledger.open_dataset("études", ApproxDP(1.0, 1e-9))
    with ledger.charge("census", discrete(0.5), purpose="tables", plan_hash="ab" * 32):
        pass
    failed = ledger.spend("panel", Guarantee(0.25, "gaussian", "replace"), purpose="quarter 1")
    ledger.mark_failed(failed, note="ValueError")
    ledger.change_budget("census", zCDP(2.0), reason="a vote of the board")
    ledger.spend("census", Guarantee(0.1), purpose="left reserved\nwith a second line")
    return ledger


def sql(path: Path, *statements: str, triggers: bool = False) -> None:
    """Change the file behind the ledger's back, without its triggers by default."""
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        kept = [] if triggers else connection.execute(query).fetchall()
        for name, _ in kept:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        for _, trigger in kept:
            connection.execute(trigger)
        connection.commit()


def rows(path: Path) -> list[dict[str, Any]]:
    """The stored rows, parsed."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT record FROM history ORDER BY position").fetchall()
    return [json.loads(text) for (text,) in found]


def forge(path: Path, edit: Callable[[list[dict[str, Any]]], object]) -> None:
    """Edit the rows and write the whole chain anew, so that every hash fits again.

    Whoever can write the file and knows the format can do this: only the rules and an outside
    head stand in the way.
    """
    content = rows(path)
    edit(content)
    previous, written = "0" * 64, []
    for position, row in enumerate(content, start=1):
        row |= {"position": position, "previous": previous}
        text = json.dumps(row, sort_keys=True, separators=(",", ":"))
        previous = hashlib.sha256(text.encode()).hexdigest()
        written.append((position, text, previous))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER history_is_not_deleted")
        connection.execute("DELETE FROM history")
        connection.executemany("INSERT INTO history VALUES (?, ?, ?)", written)
        connection.execute(
            "CREATE TRIGGER history_is_not_deleted BEFORE DELETE ON history BEGIN\n"
            "    SELECT RAISE(ABORT, 'the history of a ledger is append-only');\nEND"
        )
        connection.commit()


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
