"""`plan.check(data)`: what would stop a release, told without a number or a value, at no cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import noiseplan as nz
from noiseplan.errors import DataError, DataRefused, PlanError
from noiseplan.ledger import BudgetExceeded, LedgerError, UnknownDataset
from noiseplan.privacy import zcdp_epsilon
from noiseplan.privacy.doubts import doubts
from noiseplan.release.ledger_charge import MOST_TABLES, published

SCHEMA = nz.Schema({"dx": nz.Categorical(["flu", "cold"]), "age": nz.Ordinal(range(3))})
WORKLOAD = nz.Workload.marginals(SCHEMA, k=1)
UNDECLARED = "values that the schema does not declare"
# Numbers of records that are in no other line of a report.
MANY = 4917


@pytest.fixture
def ledger(tmp_path: Path) -> nz.Ledger:
    book = nz.Ledger(tmp_path / "budgets.ledger", create=True)
    book.open_dataset("people", nz.zCDP(2.0))
    return book


def plan(rho: float = 0.1, **more: Any) -> nz.Plan:
    return nz.plan(WORKLOAD, budget=nz.zCDP(rho), **more)


def aware() -> nz.Plan:
    line = nz.Workload([nz.Query(SCHEMA, {"age": nz.Prefix()})])
    return nz.plan(line, budget=nz.PureDP(0.3), planner="dawa")


def columns(values: list[str]) -> dict[str, list[Any]]:
    return {"dx": values, "age": [1] * len(values), "id": list(range(len(values)))}


def as_csv(folder: Path, values: list[str]) -> Path:
    path = folder / "people.csv"
    path.write_text("dx,age,id\n" + "".join(f"{v},1,{n}\n" for n, v in enumerate(values)))
    return path


KINDS: dict[str, Any] = {
    "file": as_csv,
    "frame": lambda _, values: pl.DataFrame(columns(values), schema_overrides={"dx": pl.String}),
    "mapping": lambda _, values: columns(values),
    "once": lambda _, values: pa.table(columns(values)).to_reader(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [plan, aware])
def test_what_check_finds_is_what_release_does(
    kind: str, make: Any, ledger: nz.Ledger, tmp_path: Path
) -> None:
    """The release refuses in the words of the check, and goes through where that says so."""
    how: dict[str, Any] = {"ledger": ledger, "dataset": "people"}
    well = make().check(KINDS[kind](tmp_path, ["flu"] * 5), **how)
    assert (well.ok, well.read, well.problems, well.warnings) == (True, True, (), ())
    make().release(KINDS[kind](tmp_path, ["flu"] * 5), **how)
    ill = make().check(KINDS[kind](tmp_path, ["flu", "HIV"]), **how)
    with pytest.raises(DataRefused) as refused:
        make().release(KINDS[kind](tmp_path, ["flu", "HIV"]), **how)
    (problem,) = ill.problems
    assert (problem.about, problem.said) == ("data", str(refused.value))
    assert [kept.found for kept in ledger.checks()] == ["nothing at fault", UNDECLARED]


def test_a_check_spends_nothing_and_is_on_record(ledger: nz.Ledger, tmp_path: Path) -> None:
    before = ledger.balance("people")
    how: dict[str, Any] = {"ledger": ledger.path, "dataset": "people", "purpose": "tables"}
    checked = plan().check(as_csv(tmp_path, ["flu"] * MANY), **how)
    assert ledger.balance("people") == replace(before, checks=1)  # and nothing else
    (kept,) = ledger.checks("people")
    assert (kept.found, kept.details, kept.purpose) == ("nothing at fault", False, "tables")
    assert kept.plan_hash == plan().hash()
    assert "budgets.ledger" in str(checked)
    assert "for the custodian, and not to be published" in str(checked)
    assert plan().check(as_csv(tmp_path, ["flu"])).recorded == ""
    assert "after  left ρ = 1.9" in str(checked)


@pytest.mark.parametrize("details", [False, True])
def test_values_and_numbers_only_if_asked_for(
    details: bool, ledger: nz.Ledger, tmp_path: Path
) -> None:
    how: dict[str, Any] = {"ledger": ledger, "dataset": "people", "details": details}
    well = str(plan().check(as_csv(tmp_path, ["flu"] * MANY), **how))
    ill = str(plan().check(as_csv(tmp_path, ["flu"] * (MANY - 1) + ["HIV"]), **how))
    assert ("4,917" in well) == details
    assert ("HIV" in ill) == ("4917" in ill) == details
    assert [kept.details for kept in ledger.checks()] == [details, details]
    whole = ledger.export() + ledger.export("csv") + ledger.path.read_bytes().decode("latin-1")
    assert "HIV" not in whole
    assert {kept.found for kept in ledger.checks()} == {"nothing at fault", UNDECLARED}


def test_without_budget_nothing_is_learnt_of_the_data(ledger: nz.Ledger, tmp_path: Path) -> None:
    ledger.spend("people", nz.zCDP(2.0))
    head, told = ledger.head(), set()
    for values in (["flu"], ["HIV"], []):
        checked = plan().check(as_csv(tmp_path, values), ledger=ledger, dataset="people")
        (problem,) = checked.problems
        assert isinstance(problem.error, BudgetExceeded)
        assert not checked.read
        told.add(str(checked))
    assert len(told) == 1
    assert "no record was read" in told.pop()
    assert ledger.head() == head


@pytest.mark.parametrize(
    ("data", "how", "error"),
    [
        ("nowhere.csv", {}, DataError),
        ({"dx": ["flu"]}, {}, DataError),
        ({"dx": ["flu"], "age": [1]}, {"dataset": "nobody's"}, UnknownDataset),
        ({"dx": ["flu"], "age": [1]}, {"ledger": "nowhere.ledger"}, LedgerError),
        ({"dx": ["flu"], "age": [1]}, {"person": "id"}, DataError),
    ],
)
def test_other_faults(data: object, how: Any, error: type, ledger: nz.Ledger) -> None:
    checked = plan().check(data, **({"ledger": ledger, "dataset": "people"} | how))
    (problem,) = checked.problems
    assert isinstance(problem.error, error)
    assert (checked.read, ledger.checks()) == (False, ())


def test_plans_that_cannot_be_released(tmp_path: Path) -> None:
    plan().release(columns(["flu"])).save(tmp_path / "out")
    loaded = nz.load(tmp_path / "out").plan
    assert isinstance(loaded.check(columns(["flu"])).problems[0].error, PlanError)
    people = plan(max_rows=3)
    assert "say whose record each is" in people.check(columns(["flu"])).problems[0].said


def test_persons(tmp_path: Path, ledger: nz.Ledger) -> None:
    data = {"dx": ["flu"] * 7, "age": [1] * 7, "id": [1, 1, 1, 1, 2, 2, 3]}
    told = str(plan(max_rows=3).check(data, person="id"))
    assert "of each, at most 3 records would count" in told
    assert "private" not in told
    told = str(plan(max_rows=3).check(data, person="id", details=True))
    assert "6 records would be counted (private)" in told
    assert "1 record beyond that would not" in told
    data["id"][2] = None  # type: ignore[call-overload]
    how: dict[str, Any] = {"ledger": ledger, "dataset": "people", "person": "id"}
    (problem,) = plan(max_rows=3).check(data, **how).problems
    assert "every record must belong to somebody" in problem.said
    assert [kept.found for kept in ledger.checks()] == ["records that belong to nobody"]
    # One record more of somebody may take the place of another: nothing is promised to a record.
    told = str(plan().check(data, person="id"))
    assert ", for one person, of whom one record counts\n" in told and "one record\n" not in told
    assert ", for one record\n" in str(plan().check(data))


def test_a_check_that_cannot_be_kept_is_not_told(
    ledger: nz.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise LedgerError("its disk is full")

    monkeypatch.setattr(nz.Ledger, "note_check", full)
    for values in (["flu"], ["HIV"]):
        with pytest.raises(LedgerError, match="disk is full") as error:
            plan().check(as_csv(tmp_path, values), ledger=ledger, dataset="people")
        assert "dx" not in str(error.value)
        assert error.value.__context__ is None


def test_data_without_records_are_told_of_and_released(ledger: nz.Ledger, tmp_path: Path) -> None:
    how: dict[str, Any] = {"ledger": ledger, "dataset": "people"}
    checked = plan().check(as_csv(tmp_path, []), **how)
    assert checked.ok
    assert "no records" in checked.warnings[0].said
    with pytest.warns(RuntimeWarning, match="no records"):
        release = plan().release(as_csv(tmp_path, []), **how)
    assert release.recorded
    assert [kept.found for kept in ledger.checks()] == ["no records", "no records"]


def test_an_earlier_release_of_the_same_people_is_told_of(ledger: nz.Ledger) -> None:
    data, how = columns(["flu", "cold"]), {"ledger": ledger, "dataset": "people"}
    assert plan().check(data, **how).warnings == ()  # type: ignore[arg-type]
    plan().release(data, purpose="yearly tables", **how)  # type: ignore[arg-type]
    (again,) = plan().check(data, **how).warnings  # type: ignore[arg-type]
    assert "(yearly tables) released this very plan" in again.said
    (other,) = plan(0.2).check(data, **how).warnings  # type: ignore[arg-type]
    assert "is an earlier release of this dataset; its numbers and these will differ" in other.said
    assert "release --given FOLDER" in other.said
    pure = nz.plan(WORKLOAD, budget=nz.PureDP(0.1))
    (laplace,) = pure.check(data, **how).warnings  # type: ignore[arg-type]
    assert laplace.said.endswith("its numbers and these will differ")  # it can continue nothing
    assert [name for name, *_ in ledger.entries()[0].tables] == [q.name for q in plan().workload]


def test_a_continuation_disagrees_with_others_than_the_one_it_is_built_on(tmp_path: Path) -> None:
    """Another release of the same people is not forgotten."""
    schema = nz.Schema.from_sizes({"age": 3, "sex": 2})
    ledger = nz.Ledger(tmp_path / "b.ledger", create=True)
    ledger.open_dataset("people", nz.zCDP(10.0))
    data = {name: [0, 1, 1] * 20 for name in schema.names}
    how: dict[str, Any] = {"ledger": ledger, "dataset": "people"}
    first, other, more = (
        nz.plan(nz.Workload([nz.Query(schema, table)]), budget=nz.zCDP(rho))
        for table, rho in ((["age"], 0.1), (["sex"], 0.1), (["age", "sex"], 0.5))
    )
    earlier = first.release(data, **how)
    assert more.given(earlier).check(data, **how).warnings == ()
    other.release(data, **how)
    said = " ".join(each.said for each in more.given(earlier).check(data, **how).warnings)
    entry = ledger.entries()[-1]
    assert f"entry {entry.id} of" in said and "before it" not in said
    assert more.given(earlier).check(data, **how).ok


def test_a_continuation_of_other_records_is_refused_by_its_check() -> None:
    """What the release refuses is found, not raised."""
    schema = nz.Schema.from_sizes({"age": 3})
    tables = nz.Workload([nz.Query(schema, ["age"])])
    first, more = (nz.plan(tables, budget=nz.zCDP(rho)) for rho in (0.1, 0.5))
    data = {"age": [0, 1, 2] * 30, "id": [n // 9 for n in range(90)]}
    earlier = first.release(data, person="id")
    for how in ({}, {"person": "id"}):
        checked = more.given(earlier).check(data, **how)
        if checked.ok:
            more.given(earlier).release(data, **how)
            continue
        with pytest.raises(PlanError) as refused:
            more.given(earlier).release(data, **how)
        assert checked.problems[0].said == str(refused.value)
    assert not more.given(earlier).check(data).ok


def test_many_tables_are_kept_by_the_names_of_the_first() -> None:
    schema = nz.Schema.from_sizes({f"a{i}": 2 for i in range(30)})
    kept = published(nz.Workload.marginals(schema, up_to=2))
    assert len(kept) == MOST_TABLES
    assert all(len(name) <= 120 for name, *_ in kept)
    long = nz.Query(schema, ["a1"], name="x" * 500 + "\n")
    assert published(nz.Workload([long])) == (("x" * 119 + "…", "a1"),)


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (nz.zCDP(0.5), []),
        (nz.ApproxDP(10, 1e-9), []),
        (nz.ApproxDP(20, 1e-9), ["ε = 20 protects next to nobody"]),
        (nz.PureDP(100), ["ε = 100 protects nobody"]),
        (nz.zCDP(50), [f"ε = {int(zcdp_epsilon(50, 1e-9))} protects nobody"]),
        (nz.ApproxDP(1, 0.1), ["δ = 0.1 is a chance"]),
        (nz.ApproxDP(100, 1e-3), ["ε = 100 protects nobody", "δ = 0.001 is a chance"]),
    ],
)
def test_budgets_that_promise_little(budget: Any, said: list[str]) -> None:
    found = doubts(budget)
    assert len(found) == len(said)
    assert all(text.startswith(start) for text, start in zip(found, said, strict=True))


def test_delta_is_compared_with_the_records_only_where_they_may_be_told() -> None:
    """At δ = 1/2000, 1,999 records are few enough and 2,001 too many."""
    rough = nz.plan(WORKLOAD, budget=nz.ApproxDP(1, 5e-4))
    few, many = columns(["flu"] * 1999), columns(["flu"] * 2001)
    assert rough.check(many).warnings == rough.check(few, details=True).warnings == ()
    (warning,) = rough.check(many, details=True).warnings
    assert "more than one over the number of records" in warning.said
