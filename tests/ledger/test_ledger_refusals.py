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

from noiseplan.ledger import BudgetExceeded, Ledger, LedgerDamaged, LedgerError, UnknownDataset
from noiseplan.ledger.events import Looked, Refused, act_json, read_act
from noiseplan.privacy import ApproxDP, PureDP, zCDP


def test_a_refusal_costs_nothing_and_stays(ledger: Ledger) -> None:
    ledger.spend("census", discrete(0.1))
    before = ledger.balance("census")
    ledger.note_refusal("census", "records of nobody", details=True, purpose="tables")
    (kept,) = Ledger(ledger.path).refusals("census")
    assert (kept.found, kept.details, kept.purpose, kept.id) == (
        "records of nobody", True, "tables", ledger.head().count,
    )  # fmt: skip
    after = ledger.balance("census")
    assert (after.total, after.entries, after.refusals) == (before.total, 1, 1)
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


def rho_of(budget: ApproxDP | PureDP) -> zCDP:
    """What a release with all of a budget is charged; ρ = ε²/2 where it is pure."""
    pure = isinstance(budget, PureDP)
    return zCDP(budget.epsilon**2 / 2 if pure else budget.zcdp_rho())


@pytest.mark.parametrize("asked", [ApproxDP(4.0, 1e-6), PureDP(3.0)])
def test_what_fits_is_told_in_the_currency_that_was_asked(asked: ApproxDP | PureDP) -> None:
    """The line of the refusal, taken literally, is a budget that the ledger admits; one with a
    thousandth more is not."""
    with TemporaryDirectory() as folder:
        ledger = Ledger(f"{folder}/a.ledger", create=True)
        ledger.open_dataset("census", zCDP(0.3))
        ledger.spend("census", zCDP(0.1))
        with pytest.raises(BudgetExceeded) as caught:
            ledger.ask("census", rho_of(asked))
        told = caught.value.told_in(asked)
        assert (told.left, told.fits) == (caught.value.left, caught.value.fits)
        (call,) = re.findall(r"budget=(\w+\([^)]*\)) fits", str(told))
        fits = eval(call, {"ApproxDP": ApproxDP, "PureDP": PureDP})
        assert type(fits) is type(asked)
        ledger.ask("census", rho_of(fits))
        more = replace(fits, epsilon=fits.epsilon * 1.001)
        with pytest.raises(BudgetExceeded):
            ledger.ask("census", rho_of(more))
        word = "at δ = 1e-6" if isinstance(asked, ApproxDP) else "pure ε ="
        for line in ("asked", "spent", "left"):
            (found,) = [each for each in str(told).splitlines() if each.startswith(f"  {line} ")]
            assert word in found


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
