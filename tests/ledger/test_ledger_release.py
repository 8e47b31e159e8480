"""`plan.release(data, ledger=..., dataset=...)`: recorded first, refused before noise is drawn."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

import noiseplan as nz
from noiseplan.errors import DataError
from noiseplan.ledger import BudgetExceeded, Ledger, LedgerDamaged, LedgerError

SCHEMA = nz.Schema({"sex": nz.Categorical(["F", "M"]), "age": nz.Ordinal(range(4))})
DATA = {"sex": ["F", "M", "M"], "age": [0, 3, 1]}
WORKLOAD = nz.Workload.marginals(SCHEMA, up_to=2)


def plan(rho: float) -> nz.Plan:
    return nz.plan(WORKLOAD, budget=nz.zCDP(rho), noise="discrete")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Functions to call when noise is about to be drawn; each is called once."""
    waiting: list[Callable[[], None]] = []
    kind = type(plan(0.1).mechanism)
    measure = kind.measure

    def watched(self, marginals, sample, *others):  # type: ignore[no-untyped-def]
        while waiting and hasattr(sample, "brand"):  # a sampler, not an experiment without noise
            waiting.pop()()
        return measure(self, marginals, sample, *others)

    monkeypatch.setattr(kind, "measure", watched)
    return waiting


def test_the_charge_is_on_file_when_noise_is_drawn(
    ledger: Ledger, measured: list[Callable[[], None]]
) -> None:
    seen: list[tuple[str, float]] = []

    def look() -> None:
        (entry,) = Ledger(ledger.path).entries("census")
        seen.append((entry.status, entry.guarantee.rho))

    measured.append(look)
    made = plan(0.25).release(DATA, ledger=ledger, dataset="census", purpose="tables")
    assert seen == [("reserved", made.plan.privacy.rho)]
    (entry,) = ledger.entries()
    assert (entry.status, entry.purpose) == ("released", "tables")
    assert entry.guarantee == made.plan.privacy
    assert len(entry.plan_hash) == 64


def test_a_refused_release_draws_nothing(
    ledger: Ledger, measured: list[Callable[[], None]]
) -> None:
    plan(0.75).release(DATA, ledger=str(ledger.path), dataset="census")  # a path will do
    measured.append(lambda: pytest.fail("noise was drawn"))
    with pytest.raises(BudgetExceeded) as caught:
        plan(0.5).release(DATA, ledger=ledger, dataset="census")
    assert len(ledger.entries()) == 1
    measured.clear()
    assert caught.value.fits is not None
    nearest = nz.plan(WORKLOAD, budget=caught.value.fits, noise="discrete")
    nearest.release(DATA, ledger=ledger, dataset="census")
    assert len(ledger.entries()) == 2


def test_data_that_cannot_be_read_cost_nothing(ledger: Ledger) -> None:
    with pytest.raises(DataError):
        plan(0.5).release({"sex": ["F"]}, ledger=ledger, dataset="census")
    assert ledger.balance("census").sums.total == 0


def test_what_fails_amid_drawing_stays_charged(
    ledger: Ledger, measured: list[Callable[[], None]]
) -> None:
    def fail() -> None:
        raise MemoryError

    measured.append(fail)
    with pytest.raises(MemoryError):
        plan(0.5).release(DATA, ledger=ledger, dataset="census")
    (entry,) = ledger.entries()
    assert (entry.status, entry.note) == ("failed", "MemoryError")
    assert ledger.balance("census").spent.rho > 0.499


def test_a_ledger_that_cannot_be_used_stops_the_release(
    ledger: Ledger, folder: Path, measured: list[Callable[[], None]]
) -> None:
    measured.append(lambda: pytest.fail("noise was drawn"))
    with pytest.raises(LedgerError, match="no dataset 'cencus'"):
        plan(0.5).release(DATA, ledger=ledger, dataset="cencus")
    with pytest.raises(LedgerError, match="is not there"):
        plan(0.5).release(DATA, ledger=folder / "none", dataset="census")
    (folder / "empty").touch()
    with pytest.raises(LedgerDamaged):
        plan(0.5).release(DATA, ledger=folder / "empty", dataset="census")
    measured.clear()


def release_often(path: Path, made: nz.Plan, times: int) -> None:
    ledger = Ledger(path)
    for _ in range(times):
        try:
            made.release(DATA, ledger=ledger, dataset="census")
        except BudgetExceeded:
            continue


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_releases_of_several_processes_stay_within_the_budget(ledger: Ledger) -> None:
    made = plan(0.0625)
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=release_often, args=(ledger.path, made, 6)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    cost = Fraction(made.privacy.pcost)
    admitted = 2 // cost  # ρ = 1
    assert admitted < 24
    assert len(ledger.entries()) == admitted
    assert ledger.balance("census").sums.total == admitted * cost
    assert {entry.status for entry in ledger.entries()} == {"released"}
