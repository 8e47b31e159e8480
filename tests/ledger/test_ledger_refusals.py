"""Refusals on record: no cost, no detail, and part of the chain."""

from __future__ import annotations

import csv
import io
import json

import pytest
from ledger_helpers import discrete, forge, rows

from noiseplan.ledger import BudgetExceeded, Ledger, LedgerDamaged, LedgerError, UnknownDataset
from noiseplan.ledger.events import Refused, act_json, read_act


def test_a_refusal_costs_nothing_and_stays(ledger: Ledger) -> None:
    ledger.spend("census", discrete(0.1))
    before = ledger.balance("census")
    ledger.note_refusal("census", "records of nobody", details=True, purpose="tables")
    (kept,) = Ledger(ledger.path).refusals("census")
    assert (kept.refusal, kept.details, kept.purpose, kept.id) == (
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
