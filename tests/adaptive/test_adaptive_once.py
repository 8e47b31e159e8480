"""A look is followed once at the price of the difference: no copy, no second try, no other data."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import noiseplan as nz
from noiseplan.choosing import choice as choice_module
from noiseplan.choosing import circumstances
from noiseplan.errors import PlanError
from noiseplan.planning.plan import Plan
from noiseplan.release.release import make_release

SCHEMA = nz.Schema({"a": nz.Ordinal(range(4))})
DATA = {"a": [0, 1, 2, 3, 3]}


def grouped(rows: list[list[int]]) -> Plan:
    query = nz.Query(SCHEMA, ["a"], matrix=np.array(rows, dtype=float), name="groups")
    return nz.plan(nz.Workload([query]), budget=nz.zCDP(0.5), noise="discrete")


@pytest.fixture(scope="module")
def choice() -> nz.choosing.Choice:
    """Whoever is in the last cells has paid least for the look, and has most left to pay."""
    coarse = grouped([[1, 1, 0, 0], [0, 0, 1, 1]])
    return nz.adaptive([coarse, grouped([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])])


@pytest.fixture
def ledger(tmp_path: Path) -> nz.Ledger:
    book = nz.Ledger(tmp_path / "budget.ledger", create=True)
    book.open_dataset("people", nz.zCDP(10.0))
    return book


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """What every measurement, finished or not, costs a record in each cell."""
    costs: list[np.ndarray] = []

    def watched(plan: Plan, data: object, **how: object) -> nz.Release:
        release = make_release(plan, data, **how)  # type: ignore[arg-type]
        costs.append(np.diagonal(plan.cost_matrix()))
        return release

    monkeypatch.setattr(circumstances, "make_release", watched)
    return costs


def covered(ledger: nz.Ledger, costs: list[np.ndarray]) -> bool:
    """Whether the ledger's sum of 2ρ bears what everybody's records really cost."""
    return float(np.sum(costs, axis=0).max()) <= float(ledger.balance("people").sums.total)


def test_once_is_covered(
    choice: nz.choosing.Choice, ledger: nz.Ledger, measured: list[np.ndarray]
) -> None:
    choice.look(DATA, ledger=ledger, dataset="people").choose(1)
    first, second = ledger.entries()
    assert second.follows == first.id
    assert len(measured) == 2
    assert covered(ledger, measured)
    # The price of the difference would not be enough a second time.
    assert max(measured[1]) > second.guarantee.pcost * (1 + 1e-3)


def test_looks_are_not_copied(choice: nz.choosing.Choice) -> None:
    look = choice.look(DATA)
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PlanError, match=r"followed once.*plan\.given\(nz\.load\(folder\)\)"):
            make(look)
    look.choose(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork processes")
def test_a_forked_process_does_not_follow(
    choice: nz.choosing.Choice, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = choice.look(DATA)
    with monkeypatch.context() as patch:  # what the child of a fork would see
        patch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(PlanError, match="in a process forked from the one that made it"):
            look.choose(1)
    look.choose(1)


def test_a_second_try_is_charged_in_full(
    choice: nz.choosing.Choice,
    ledger: nz.Ledger,
    measured: list[np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look = choice.look(DATA, ledger=ledger, dataset="people")
    seen = choice_module.completed

    def broken(*_: object) -> nz.Release:
        raise KeyboardInterrupt  # after the noise was drawn

    monkeypatch.setattr(choice_module, "completed", broken)
    with pytest.raises(KeyboardInterrupt):
        look.choose(1)
    monkeypatch.setattr(choice_module, "completed", seen)
    with pytest.raises(PlanError, match="followed already"):
        look.choose(1)
    look._followed.clear()  # as after an error of the measurement itself
    look.choose(1)
    assert [entry.follows is None for entry in ledger.entries()] == [True, False, True]
    assert len(measured) == 3
    assert covered(ledger, measured)


def test_a_look_of_another_ledger_is_not_followed(
    choice: nz.choosing.Choice, ledger: nz.Ledger, tmp_path: Path
) -> None:
    look = choice.look(DATA, ledger=ledger.path, dataset="people")
    ledger.path.rename(tmp_path / "away")
    fresh = nz.Ledger(ledger.path, create=True)
    fresh.open_dataset("people", nz.zCDP(10.0))
    with pytest.raises(PlanError, match="not on record in this ledger"):
        look.choose(1)
    assert fresh.entries() == ()


def test_files_are_read_once(choice: nz.choosing.Choice, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    pl.DataFrame(DATA).write_csv(path)
    look = choice.look(path, seed=1)
    path.write_text("a\n" + "0\n" * 1_000_000)
    assert abs(look.choose(1).answer("groups").estimate.sum()) < 1000


def test_readers_are_read_once(ledger: nz.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noiseplan.counting.records._KEPT_BYTES", 1)
    schema = nz.Schema.from_sizes({"a": 4, "b": 3})
    table = pl.DataFrame({"a": [0, 1, 2, 3] * 50, "b": [0, 1, 2, 2] * 50})
    plans = [
        nz.plan(nz.Workload.marginals(schema, k=k), budget=nz.zCDP(0.5), noise="discrete")
        for k in (1, 2)
    ]
    look = nz.adaptive(plans).look(table.to_arrow().to_reader(20), ledger=ledger, dataset="people")
    release = look.choose(1)
    assert release.plan is plans[1]
    assert ledger.balance("people").spent.rho == pytest.approx(0.5, rel=1e-9)


def test_what_is_read_again_is_charged_in_full(
    choice: nz.choosing.Choice,
    ledger: nz.Ledger,
    measured: list[np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(circumstances.Circumstances, "counted", False)
    choice.look(DATA, ledger=ledger, dataset="people").choose(1)
    assert [entry.follows for entry in ledger.entries()] == [None, None]
    assert covered(ledger, measured)
    assert ledger.entries()[1].guarantee.pcost >= max(measured[1])


@pytest.mark.parametrize(
    ("coarse", "fine"),
    [([2], [2, 3]), ([1, 4], [1, 2, 4, 5]), ([], [3]), ([3], [1, 3, 4, 5, 7]), ([2, 6], [2, 5, 6])],
)
def test_nested_histograms_are_followed_either_way(coarse: list[int], fine: list[int]) -> None:
    """What is left of them has no basis of small integers, and some cells have hardly any room."""
    schema = nz.Schema({"a": nz.Ordinal(range(8))})

    def groups(cuts: list[int]) -> Plan:
        owner = np.searchsorted(cuts, np.arange(8), side="right")
        matrix = (owner == np.arange(len(cuts) + 1)[:, None]).astype(float)
        query = nz.Query(schema, ["a"], matrix=matrix, name="groups")
        return nz.plan(nz.Workload([query]), budget=nz.zCDP(0.5), noise="discrete")

    choice = nz.adaptive([groups(coarse), groups(fine)])
    for number, plan in enumerate(choice.plans):
        release = choice.look({"a": [0, 1, 2]}).choose(number)
        assert release.variance("groups") == pytest.approx(plan.variance("groups"), rel=1e-4)
        left = choice.family.rest(plan.mechanism, choice.common.mechanism)
        paid = np.diagonal(choice.common.cost_matrix())
        own = 0.0 if left is None else np.diagonal(left.cost_matrix())
        assert (paid + own).max() <= plan.privacy.pcost


def test_what_cannot_follow_is_refused_before_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noiseplan.choosing.common_and_rest.LAST_OVER", 0.0)
    monkeypatch.setattr("noiseplan.choosing.common_and_rest.MOST_OVER", 0.0)
    with pytest.raises(PlanError, match="costs more than the plan that should contain it"):
        nz.adaptive([grouped([[1, 1, 0, 0], [0, 0, 1, 1]]), grouped([[1, 1, 0, 0], [0, 0, 1, 0]])])
