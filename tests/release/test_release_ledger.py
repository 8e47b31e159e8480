"""Releases with a ledger: what is checked before anything is spent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.counting.tensor import CountTensor
from noiseplan.errors import BudgetError, DataError, PlanError
from noiseplan.mechanisms.exact_residuals import RECORDS

SCHEMA = nz.Schema.from_sizes({"a": 3})
WORKLOAD = nz.Workload.marginals(SCHEMA, k=1)


@pytest.fixture
def ledger(tmp_path: Path) -> nz.Ledger:
    book = nz.Ledger(tmp_path / "budgets.ledger", create=True)
    book.open_dataset("people", nz.zCDP(10.0))
    return book


def secure(workload: nz.Workload = WORKLOAD, **more: object) -> nz.Plan:
    return nz.plan(workload, budget=nz.zCDP(0.5), noise="discrete", **more)  # type: ignore[arg-type]


def spent(ledger: nz.Ledger) -> float:
    return ledger.balance("people").spent.rho


def test_a_release_is_charged_once(ledger: nz.Ledger) -> None:
    plan = secure()
    release = plan.release({"a": [0, 1]}, ledger=ledger, dataset="people", purpose="test")
    assert spent(ledger) == plan.privacy.rho
    assert "dataset 'people'" in release.recorded
    assert [entry.status for entry in ledger.entries("people")] == ["released"]


def test_a_dataset_without_a_ledger_would_go_unrecorded() -> None:
    for more in ({"dataset": "people"}, {"purpose": "tables"}):
        with pytest.raises(PlanError, match="nothing would be recorded"):
            secure().release({"a": [0]}, **more)  # type: ignore[arg-type]


def test_a_ledger_needs_a_dataset(ledger: nz.Ledger) -> None:
    with pytest.raises(PlanError, match="name the dataset"):
        secure().release("nowhere.parquet", ledger=ledger)


@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_what_is_not_for_publishing_is_not_recorded(ledger: nz.Ledger, noise: str) -> None:
    plan = nz.plan(WORKLOAD, budget=nz.zCDP(0.5), noise=noise)
    seed = 1 if noise == "discrete" else None
    with pytest.raises(PlanError, match="a ledger records releases to be published"):
        plan.release({"a": [0]}, ledger=ledger, dataset="people", seed=seed)
    assert spent(ledger) == 0


def test_bad_data_cost_nothing(ledger: nz.Ledger) -> None:
    with pytest.raises(DataError):
        secure().release({"a": [0, 7]}, ledger=ledger, dataset="people")
    assert spent(ledger) == 0


def test_more_records_than_fit_cost_nothing(ledger: nz.Ledger) -> None:
    """How many that is does not depend on the plan, or its refusals would count the records."""
    schema = nz.Schema.from_sizes({f"x{i}": 4 for i in range(5)})
    query = nz.Query(schema, {name: nz.Prefix() for name in schema.names})
    plan = secure(nz.Workload([query]), planner="residual")
    counts = np.zeros(schema.shape, dtype=np.int64)
    counts[0, 0, 0, 0, 0] = RECORDS + 1
    with pytest.raises(DataError, match=r"more than 500,000,000,000 records.* Nothing was spent"):
        plan.release(CountTensor(schema, counts), ledger=ledger, dataset="people")
    assert spent(ledger) == 0
    assert [each.found for each in ledger.refusals()] == ["more records than are counted"]
    counts[0, 0, 0, 0, 0] = RECORDS
    plan.release(CountTensor(schema, counts), ledger=ledger, dataset="people")
    assert spent(ledger) == plan.privacy.rho


def test_people_and_records_are_not_added_up(ledger: nz.Ledger) -> None:
    data = {"a": [0, 1, 1], "id": [7, 7, 8]}
    people = secure(max_rows=2)
    people.release(data, person="id", ledger=ledger, dataset="people", purpose="visits")
    people.release(data, person="id", ledger=ledger, dataset="people")
    with pytest.raises(BudgetError, match="charged for one person, at most 2 records, and this"):
        secure().release(data, ledger=ledger, dataset="people")
    with pytest.raises(BudgetError, match=r"do not add up, .* Plan with max_rows=2\.") as error:
        secure(max_rows=3).release(data, person="id", ledger=ledger, dataset="people")
    assert "another dataset" not in str(error.value), "a second budget for the same people"
    assert [entry.purpose for entry in ledger.entries("people")] == ["visits", ""]
    assert [entry.max_rows for entry in ledger.entries("people")] == [2, 2]
    assert "one person, at most 2 records" in str(ledger.balance("people"))


def test_a_purpose_says_nothing_about_the_unit(ledger: nz.Ledger) -> None:
    claim = "visits (one person, at most 2 records)"
    secure().release({"a": [0, 1]}, ledger=ledger, dataset="people", purpose=claim)
    data = {"a": [0, 1, 1], "id": [7, 7, 8]}
    with pytest.raises(BudgetError, match="charged for one record, and this"):
        secure(max_rows=2).release(data, person="id", ledger=ledger, dataset="people")


def test_a_plan_for_people_needs_to_know_them() -> None:
    with pytest.raises(PlanError, match="say whose record each is"):
        secure(max_rows=2).release({"a": [0, 1]})


def test_a_reader_that_can_be_read_once_is_released(
    ledger: nz.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables beyond memory are counted in several passes: here there is only one."""
    import pyarrow as pa

    from noiseplan.counting import count_tables, records

    monkeypatch.setattr(records, "_KEPT_BYTES", 0)
    monkeypatch.setitem(count_tables.__kwdefaults__, "held", 4)
    schema = nz.Schema.from_sizes({"a": 3, "b": 3, "c": 3})
    reader = pa.table({name: [0, 1, 1, 2] for name in "abc"}).to_reader(max_chunksize=2)
    tables = nz.Workload.marginals(schema, k=1)
    plan = nz.plan(tables, budget=nz.zCDP(9.9), noise="discrete")
    release = plan.release(reader, ledger=ledger, dataset="people")
    assert [entry.status for entry in ledger.entries("people")] == ["released"]
    for name in "abc":
        error = release.answer(name).estimate - [1, 2, 1]
        assert np.abs(error).max() < 10 * plan.std_error(name).max()
