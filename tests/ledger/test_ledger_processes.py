"""Several processes and threads at once, forks, kills: never overspent, nothing under-counted.

`python -m benchmarks --only ledger` repeats the large experiments at full size.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import sqlite3
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ledger_helpers import MEMORY, discrete, filled

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `benchmarks` is not installed

from benchmarks.ledger import Costs, crowd, kill

import noiseplan as nz
from noiseplan.counting import count_tables
from noiseplan.ledger import BudgetExceeded, Ledger, LedgerBusy, LedgerDamaged, LedgerError
from noiseplan.ledger.sql import PRAGMAS
from noiseplan.ledger.storage import Storage
from noiseplan.privacy import zCDP
from noiseplan.release import release

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

# ---------------------------------------------------------------------- processes


@needs_fork
@pytest.mark.parametrize("costs", ["equal", "mixed"])
def test_processes_never_overspend_and_lose_nothing(costs: Costs) -> None:
    found = crowd(processes=6, each=25, admitted=90, costs=costs, start="fork", folder=MEMORY)
    assert found.overspent == 0
    assert (found.lost, found.unaccounted, found.wrongly_refused) == (0, 0, 0)
    assert len(found.granted) + len(found.refused) == 150
    assert len(set(found.granted)) == len(found.granted)
    if costs == "equal":
        assert len(found.granted) == 90
        assert found.room == 0


@needs_fork
def test_killed_processes_leave_a_file_that_verifies_and_never_undercounts() -> None:
    found = kill(times=25, folder=MEMORY)
    assert found.broken == 0
    assert found.missing == 0
    assert found.recorded - found.told <= found.times, "at most the one under way is not told"


def in_child(work: object) -> int:
    """Run `work` in a forked child; 0 if it returned."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()  # type: ignore[operator]
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@needs_fork
def test_a_ledger_works_on_both_sides_of_a_fork(ledger: Ledger) -> None:
    ledger.spend("census", discrete(0.125))
    assert in_child(lambda: ledger.spend("census", discrete(0.25))) == 0
    ledger.spend("census", discrete(0.125))
    assert ledger.balance("census").sums.total == 0.5
    ledger.verify()


@needs_fork
def test_a_fork_amid_a_transaction_of_another_thread(ledger: Ledger) -> None:
    """A child that inherits SQLite's memory of a lock, and not the lock, could never commit."""
    inside, leave = threading.Event(), threading.Event()

    def linger() -> None:
        with ledger._history.current():
            inside.set()
            leave.wait(0.3)

    impatient = Ledger(ledger.path, timeout=60.0)  # a child that waits for ever fails then
    thread = threading.Thread(target=linger)
    thread.start()
    inside.wait()
    try:
        assert in_child(lambda: impatient.spend("census", discrete(0.25))) == 0
    finally:
        leave.set()
        thread.join()
    impatient.spend("census", discrete(0.25))
    assert ledger.balance("census").sums.total == 0.5


@needs_fork
def test_of_several_that_make_a_ledger_one_wins(folder: Path) -> None:
    path = folder / "a.ledger"
    children = []
    for number in range(6):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                made = Ledger(path, create=True)
                made.open_dataset("census", zCDP(1.0))
                made.spend("census", discrete(0.125), purpose=str(number))
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
    assert len(Ledger(path).entries("census")) == 6
    assert [each.name for each in folder.iterdir()] == ["a.ledger"]


# Two releases of which the ledger admits either, and not both: what each is, and why.
EITHER = {
    "the budget of one": ({"rho": 0.3}, {"rho": 0.3}, "does not fit"),
    "records of nobody, and one of each person": ({}, {"person": "who"}, "whose|add up"),
    "a person and a household": (
        {"person": "who"}, {"person": "who", "unit": "household"}, "such costs do not add up",
    ),
}  # fmt: skip


@needs_fork
@pytest.mark.parametrize("either", EITHER)
def test_of_two_releases_that_were_asked_at_once_one_is_charged(
    ledger: Ledger, either: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have asked the ledger and read their data when the first of them is charged."""
    *releases, told = EITHER[either]
    schema = nz.Schema.from_sizes({"age": 10})
    ledger.open_dataset("homes", zCDP(0.5))
    both_asked = multiprocessing.get_context("fork").Barrier(2)

    def counted_at_once(*what: Any) -> Any:
        both_asked.wait(60)
        return count_tables(*what)

    monkeypatch.setattr(release, "count_tables", counted_at_once)
    children = []
    for how in releases:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                plan = nz.plan(nz.Query(schema, ["age"]), budget=zCDP(how.pop("rho", 0.1)))
                unit = how.pop("unit", None)
                plan = plan if unit is None else plan.with_unit(unit)
                plan.release(
                    {"age": [7] * 9, "who": [1] * 9}, ledger=ledger, dataset="homes", **how
                )
                code = 0
            except nz.NoiseplanError as error:
                code = 3 if re.search(told, str(error)) else 1
            finally:
                os._exit(code)
        children.append(child)
    ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert sorted(ended) == [0, 3]
    (entry,) = ledger.entries("homes")
    assert entry.status == "released"
    ledger.verify()


# ---------------------------------------------------------------------- threads


def test_threads_share_a_ledger(ledger: Ledger) -> None:
    def charge(number: int) -> bool:
        try:
            with ledger.charge("census", discrete(0.0625), purpose=str(number)):
                return True
        except BudgetExceeded:
            return False

    with ThreadPoolExecutor(8) as pool:
        granted = list(pool.map(charge, range(60)))
    assert sum(granted) == 32
    assert ledger.balance("census").room == 0
    purposes = [int(entry.purpose) for entry in ledger.entries()]
    assert sorted(purposes) == [i for i, yes in enumerate(granted) if yes]
    assert {entry.status for entry in ledger.entries()} == {"released"}
    ledger.verify()


# ---------------------------------------------------------------------- waiting


def test_a_ledger_that_others_hold_is_busy_and_nothing_is_recorded(ledger: Ledger) -> None:
    impatient = Ledger(ledger.path, timeout=0.05)
    head = ledger.head()
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerBusy, match=r"for 0\.05 s") as caught:
            impatient.spend("census", discrete(0.1))
        assert isinstance(caught.value, TimeoutError)
        assert impatient.balance("census").entries == 0  # reading needs no turn
        other.execute("ROLLBACK")
    impatient.spend("census", discrete(0.1))
    assert ledger.head().count == head.count + 1


def test_threads_of_one_process_wait_for_each_other(ledger: Ledger) -> None:
    impatient = Ledger(ledger.path, timeout=0.05)
    with ledger._history.current(), ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(impatient.head).exception(), LedgerBusy)
    assert impatient.head() == ledger.head()


# ---------------------------------------------------------------------- durability


def test_every_change_is_synced_before_the_call_returns(ledger: Ledger) -> None:
    """EXTRA: the file, its journal and the folder are synced at each commit."""
    with ledger._history._storage.transaction(write=True) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert "PRAGMA fullfsync = ON" in PRAGMAS


def test_a_crash_amid_a_commit_is_undone_by_the_next_reader(folder: Path) -> None:
    """The moment between writing the pages and removing the journal, made by hand."""
    ledger = filled(folder / "a.ledger")
    head = ledger.head()
    journal = folder / "a.ledger-journal"
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as other:
        other.execute("PRAGMA cache_spill = 1")
        other.execute("PRAGMA cache_size = 1")
        other.execute("BEGIN")
        for i in range(100):  # more than the cache holds: pages go to the file before the commit
            other.execute("INSERT INTO history VALUES (?, ?, '')", (1000 + i, "x" * 2000))
        torn, log = ledger.path.read_bytes(), journal.read_bytes()
        other.execute("ROLLBACK")
    crashed = folder / "crashed.ledger"
    crashed.write_bytes(torn)
    (folder / "crashed.ledger-journal").write_bytes(log)
    assert torn != ledger.path.read_bytes()
    assert Ledger(crashed).verify() == head


def test_a_change_half_written_by_another_is_not_damage(tmp_path: Path) -> None:
    """Opening looks at the file without a lock, in the middle of another process's change.

    Here the file has lost its last page, as if it had not grown yet: what is seen without a lock
    is malformed. Only the transaction that follows, with locks, may call that damage.
    """
    path = tmp_path / "a.ledger"
    Ledger(path, create=True).open_dataset("d", zCDP(1.0))
    whole = path.read_bytes()
    storage = Storage.at(path, 1.0)
    path.write_bytes(whole[: len(whole) - 4096])
    storage.identify()  # it starts as a ledger does
    with pytest.raises(LedgerDamaged):
        Ledger(path)  # and nobody is writing: the damage is real
    path.write_bytes(b"\0" * 100 + whole[100:])
    with pytest.raises(LedgerError):
        storage.identify()
    other = bytearray(whole[: len(whole) - 4096])
    other[68:72] = b"else"
    path.write_bytes(bytes(other))
    with pytest.raises(LedgerError):
        storage.identify()
    path.write_bytes(whole)
    assert Ledger(path).balance("d").budget == zCDP(1.0)
