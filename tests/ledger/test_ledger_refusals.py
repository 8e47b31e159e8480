"""Refusals on record: no cost, no detail, and part of the chain."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from tempfile import TemporaryDirectory

import pytest
from ledger_helpers import discrete, forge, rows

import noiseplan as nz
from noiseplan.errors import BudgetError
from noiseplan.ledger import BudgetExceeded, Ledger, LedgerDamaged, LedgerError, UnknownDataset
from noiseplan.ledger.events import Looked, Refused, act_json, read_act
from noiseplan.privacy import GDP, ApproxDP, Budget, PureDP, zCDP


def test_a_refusal_costs_nothing_and_stays(ledger: Ledger) -> None:
    ledger.spend("census", discrete(0.1))
    before = ledger.balance("census")
    ledger.note_refusal("census", "records of nobody", details=True, purpose="tables")
    (kept,) = Ledger(ledger.path).refusals("census")
    assert (kept.found, kept.details, kept.purpose, kept.id) == (
        "records of nobody", True, "tables", ledger.head().count,
    )  # fmt: skip
    after = ledger.balance("census")
    assert (after.sums, after.entries, after.refusals) == (before.sums, 1, 1)
    assert ledger.verify() == ledger.head()


def test_it_is_exported(ledger: Ledger) -> None:
    ledger.note_refusal("census", "records of nobody", details=True)
    exported = json.loads(ledger.export())
    assert exported["history"][-1]["refusal"] == "records of nobody"
    assert exported["datasets"][0]["refusals"] == 1
    table = list(csv.DictReader(io.StringIO(ledger.export("csv"))))
    assert (table[-1]["kind"], table[-1]["refusal"], table[-1]["details"]) == (
        "refused", "records of nobody", "True",
    )  # fmt: skip
    assert table[-1]["rho"] == ""
    assert json.loads(ledger.export("dp-accounting"))["datasets"] == {}


def test_it_cannot_be_taken_out_or_changed(ledger: Ledger) -> None:
    ledger.note_refusal("census", "records of nobody", details=True)
    head = ledger.head()
    forge(ledger.path, lambda content: content[-1].update(details=False))
    with pytest.raises(LedgerDamaged):
        Ledger(ledger.path).verify(expected_head=head)


def test_checks_are_kept_and_exported_and_cost_nothing(ledger: Ledger) -> None:
    ledger.spend("census", discrete(0.1))
    before = ledger.balance("census")
    ledger.note_check("census", "nothing at fault", purpose="tables", plan_hash="ab")
    (kept,) = Ledger(ledger.path).checks("census")
    assert (kept.found, kept.details, kept.purpose, kept.plan_hash, kept.id) == (
        "nothing at fault", False, "tables", "ab", ledger.head().count,
    )  # fmt: skip
    assert ledger.balance("census") == replace(before, checks=1)  # and nothing else
    assert ledger.refusals("census") == ()
    (*_, row) = csv.DictReader(io.StringIO(ledger.export("csv")))
    assert (row["kind"], row["note"], row["rho"]) == ("checked", "nothing at fault", "")
    assert json.loads(ledger.export())["history"][-1]["found"] == "nothing at fault"
    act = Looked("census", "nothing at fault", True, "", "")
    assert read_act(act_json(act)) == act
    with pytest.raises(ValueError, match="unexpected fields"):
        read_act({**act_json(act), "rows": 61395})
    with pytest.raises(UnknownDataset):
        ledger.note_check("nobody's", "nothing at fault")
    head = ledger.head()
    forge(ledger.path, lambda content: content[-1].update(details=True))
    with pytest.raises(LedgerDamaged):
        Ledger(ledger.path).verify(expected_head=head)


def test_changes_of_a_budget_are_listed(ledger: Ledger) -> None:
    before = ledger.balance("census").budget
    ledger.change_budget("census", zCDP(7.0), reason="the board")
    ledger.change_budget("census", zCDP(7.0), reason="a code book", max_rows=2)
    first, second = ledger.changes("census")
    assert (first.before, first.after, first.reason, first.max_rows) == (
        before, zCDP(7.0), "the board", None,
    )  # fmt: skip
    assert (second.before, second.after, second.max_rows) == (zCDP(7.0), zCDP(7.0), 2)
    assert first.id < second.id == ledger.head().count


@pytest.mark.parametrize("of", [zCDP(0.3), GDP(0.9), ApproxDP(1.0, 1e-6)], ids=str)
@pytest.mark.parametrize("asked", [ApproxDP(40.0, 1e-6), PureDP(3.0), zCDP(5.0)], ids=str)
@pytest.mark.parametrize("before", [None, PureDP(0.2), GDP(0.1)], ids=str)
def test_a_plan_within_the_budget_that_is_said_to_fit_is_released(
    asked: Budget, of: Budget, before: Budget | None
) -> None:
    """The line of the refusal, taken literally; of pure DP where that was asked for."""
    schema = nz.Schema.from_sizes({"age": 3})
    data, budgets = {"age": [0, 1, 2, 2]}, (ApproxDP, PureDP, zCDP, GDP)
    with TemporaryDirectory() as folder:
        ledger = Ledger(f"{folder}/a.ledger", create=True)
        ledger.open_dataset("census", of)
        if before is not None:
            ledger.spend("census", before)
        with pytest.raises(BudgetError) as caught:
            nz.plan(nz.Query(schema, ["age"]), budget=asked).release(
                data, ledger=ledger, dataset="census"
            )
        (call,) = re.findall(r"budget=(\w+\([^)]*\)) fits", str(caught.value))
        fits = eval(call, {each.__name__: each for each in budgets})
        assert isinstance(fits, PureDP) == isinstance(asked, PureDP)
        plan = nz.plan(nz.Query(schema, ["age"]), budget=fits)
        plan.release(data, ledger=ledger, dataset="census")
        balance = ledger.balance("census")
        assert balance.room <= 2e-3 * (balance.limit or balance.budget.own_epsilon)
        assert Ledger(ledger.path).balance("census").sums == ledger.balance("census").sums


def test_it_needs_a_dataset(ledger: Ledger) -> None:
    with pytest.raises(UnknownDataset):
        ledger.note_refusal("nobody's", "records of nobody")
    with pytest.raises(LedgerError, match="refusal must be a text"):
        ledger.note_refusal("census", 3)  # type: ignore[arg-type]


def test_rows_are_read_strictly() -> None:
    act = Refused("census", "records of nobody", False, "", "")
    assert read_act(act_json(act)) == act
    for wrong in (1, None, "no"):
        with pytest.raises(ValueError, match="details is"):
            read_act({**act_json(act), "details": wrong})
    with pytest.raises(ValueError, match="unexpected fields"):
        read_act({**act_json(act), "rows": 61395})


def test_asking_records_nothing(ledger: Ledger) -> None:
    before = rows(ledger.path)
    ledger.ask("census", discrete(0.1))
    with pytest.raises(BudgetExceeded):
        ledger.ask("census", discrete(1e6))
    with pytest.raises(UnknownDataset):
        ledger.ask("nobody's", discrete(0.1))
    assert rows(ledger.path) == before


def test_what_is_asked_for_can_be_spent(ledger: Ledger) -> None:
    first = ledger.spend("census", discrete(0.1))
    ledger.ask("census", discrete(0.1), follows=first)
    ledger.spend("census", discrete(0.1), follows=first)
    with pytest.raises(LedgerError, match="followed already"):
        ledger.ask("census", discrete(0.1), follows=first)
