"""Who may read data: the ledger is asked first, and keeps what was refused for what they hold."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import noiseplan as nz
from noiseplan.counting import CountTensor, Projectable, count_tables, open_source
from noiseplan.errors import BudgetError, DataRefused, PlanError
from noiseplan.ledger import BudgetExceeded, LedgerError
from noiseplan.noise import SeededSource, Source

SCHEMA = nz.Schema({"dx": nz.Categorical(["flu", "cold"]), "age": nz.Ordinal(range(3))})
WORKLOAD = nz.Workload.marginals(SCHEMA, k=1)
LINE = nz.Workload([nz.Query(SCHEMA, {"age": nz.Prefix()})])
UNDECLARED = "values that the schema does not declare"


@pytest.fixture
def ledger(tmp_path: Path) -> nz.Ledger:
    book = nz.Ledger(tmp_path / "budgets.ledger", create=True)
    book.open_dataset("people", nz.zCDP(2.0))
    return book


def spend_all(ledger: nz.Ledger) -> None:
    ledger.spend("people", nz.Guarantee(4.0, law="zcdp"))


def csv(folder: Path, values: list[str]) -> Path:
    path = folder / "people.csv"
    path.write_text("dx,age\n" + "".join(f"{value},1\n" for value in values))
    return path


def plan(rho: float = 0.1, noise: str = "discrete") -> nz.Plan:
    return nz.plan(WORKLOAD, budget=nz.zCDP(rho), noise=noise)


def aware(noise: str = "discrete") -> Any:
    return nz.plan(LINE, budget=nz.PureDP(0.3), planner="dawa", noise=noise)


def by_look(data: object, **how: Any) -> Any:
    return nz.adaptive([plan(0.1), plan(0.2)]).look(data, **how)


WAYS: dict[str, Any] = {
    "release": lambda data, **how: plan().release(data, **how),
    "data-aware": lambda data, **how: aware().release(data, **how),
    "look": by_look,
}


class Untouched:
    """Data of which nothing may be asked: a source whose tables nobody must count."""

    def __init__(self) -> None:
        self.schema, self.origin = SCHEMA, ""

    def marginals(self, sets: Any) -> Any:
        raise AssertionError("the data were counted")


@pytest.mark.grid
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["file", "frame", "mapping", "source"])
def test_without_budget_nothing_is_learnt_of_the_data(
    ledger: nz.Ledger, tmp_path: Path, way: str, kind: str
) -> None:
    """The same refusal, to the letter, for data that fit and for data that do not."""
    spend_all(ledger)
    before, messages = ledger.head(), set()
    for values in (["flu"] * 40, ["flu"] * 40 + ["HIV"], []):
        columns = {"dx": values, "age": [1] * len(values)}
        data = {
            "file": lambda values=values: csv(tmp_path, values),
            "frame": lambda columns=columns: pl.DataFrame(columns),
            "mapping": lambda columns=columns: columns,
            "source": Untouched,
        }[kind]()
        with pytest.raises(BudgetExceeded) as error:
            WAYS[way](data, ledger=ledger, dataset="people", purpose="a probe")
        messages.add(str(error.value))
    assert len(messages) == 1
    assert ledger.head() == before


def test_what_is_left_of_a_plan_is_asked_for_first(ledger: nz.Ledger, tmp_path: Path) -> None:
    earlier = plan().release({"dx": ["flu"], "age": [1]}, ledger=ledger, dataset="people")
    rest = plan(5.0).given(earlier)
    before = ledger.head()
    with pytest.raises(BudgetExceeded):
        rest.release({"dx": ["HIV"], "age": [1]}, ledger=ledger, dataset="people")
    assert ledger.head() == before


def test_a_study_with_people_asks_first(ledger: nz.Ledger, tmp_path: Path) -> None:
    from noiseplan.study import read_study

    spend_all(ledger)
    study = tmp_path / "study.toml"
    study.write_text(
        '[schema]\ndx = { categorical = ["flu", "cold"] }\n[[tables]]\nquery = "dx"\n'
        '[budget]\nzcdp = 0.1\n[plan]\nnoise = "discrete"\n[people]\nperson = "id"\nmax_rows = 1\n'
        f'[ledger]\nfile = "{ledger.path}"\ndataset = "people"\n'
    )
    read = read_study(study)
    with pytest.raises(BudgetExceeded):
        read.release(read.plan(), {"dx": ["HIV"], "id": [1]})
    assert ledger.refusals() == ()


@pytest.mark.grid
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("details", [False, True])
def test_refusals_for_what_data_hold_are_kept(
    ledger: nz.Ledger, tmp_path: Path, way: str, details: bool
) -> None:
    path = csv(tmp_path, ["flu"] * 40 + ["HIV"])
    with pytest.raises(DataRefused) as error:
        WAYS[way](path, ledger=ledger, dataset="people", purpose="tables", details=details)
    assert ("HIV" in str(error.value), "1 of 41" in str(error.value)) == (details, details)
    (kept,) = ledger.refusals("people")
    assert kept.kind == "refused"
    assert (kept.dataset, kept.found, kept.details) == ("people", UNDECLARED, details)
    assert kept.purpose.startswith("tables")
    balance = ledger.balance("people")
    assert (balance.spent.pcost, balance.entries, balance.refusals) == (0.0, 0, 1)
    assert "data refused 1 time" in str(balance)
    whole = ledger.export() + ledger.export("csv") + ledger.path.read_bytes().decode("latin-1")
    assert "HIV" not in whole
    assert UNDECLARED in whole
    assert ledger.verify().count == 3
    assert nz.Ledger(ledger.path).refusals() == ledger.refusals()


PERSONS: tuple[object, ...] = (b"x", (1, 2), 1j, datetime(2030, 1, 5))


@pytest.mark.parametrize("odd", PERSONS, ids=repr)
def test_one_person_of_an_odd_type_is_a_refusal(ledger: nz.Ledger, odd: object) -> None:
    """All others are texts: what is told is what one record holds."""
    data = {"dx": ["flu"] * 3, "age": [0] * 3, "id": ["p", odd, "q"]}
    with pytest.raises(DataRefused, match="person column 'id': persons are told apart by plain"):
        plan().release(data, ledger=ledger, dataset="people", person="id")
    assert [kept.kind for kept in ledger.refusals("people")] == ["refused"]
    checked = plan().check(data, ledger=ledger, dataset="people", person="id")
    assert (checked.read, checked.ok, len(ledger.checks("people"))) == (True, False, 1)


def test_an_array_of_as_many_records_as_values_is_a_refusal(ledger: nz.Ledger) -> None:
    """Whether it is refused tells, to the last record, how many there are."""
    schema = nz.Schema.from_sizes({"a": 7, "b": 2})
    asked = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.01))
    for rows, refusals in ((6, 0), (7, 1), (8, 1)):
        try:
            asked.release(np.zeros((rows, 2), int), ledger=ledger, dataset="people")
        except DataRefused:
            assert rows == 7
        assert len(ledger.refusals("people")) == refusals
    checked = asked.check(np.zeros((7, 2), int), ledger=ledger, dataset="people")
    assert (checked.read, checked.ok, len(ledger.checks("people"))) == (True, False, 1)


@pytest.mark.parametrize("kind", [list, pa.array])
def test_records_that_hold_lists_are_a_refusal(ledger: nz.Ledger, kind: Any) -> None:
    """Whether they are all of one length, or one holds a text instead, is told the same way."""
    for odd in ([["flu"], ["cold"]], [["flu"], ["cold", "flu"]]):
        with pytest.raises(DataRefused, match="column 'dx' holds values that the schema does not"):
            plan().release({"dx": kind(odd), "age": [0, 1]}, ledger=ledger, dataset="people")
    assert [kept.found for kept in ledger.refusals("people")] == [UNDECLARED] * 2


def test_numbers_beyond_all_floats_are_not_remarked(ledger: nz.Ledger) -> None:
    """A warning of NumPy's, in tests an error, would tell of a record."""
    schema = nz.Schema({"pay": nz.Binned([0, 1, 2], clip=True), "age": nz.Ordinal(range(3))})
    asked = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.1))
    pay = np.array(["1e400", "1"], dtype=np.longdouble)
    asked.release({"pay": pay, "age": [0, 1]}, ledger=ledger, dataset="people")
    with pytest.raises(DataRefused, match="column 'age' holds values"):
        asked.release({"pay": [0, 1], "age": pay}, ledger=ledger, dataset="people")


def test_a_source_opened_with_details_is_kept_as_such(ledger: nz.Ledger, tmp_path: Path) -> None:
    source = open_source(csv(tmp_path, ["HIV"]), SCHEMA, details=True)
    with pytest.raises(DataRefused, match="HIV"):
        plan().release(source, ledger=ledger, dataset="people")
    assert [kept.details for kept in ledger.refusals()] == [True]


def test_errors_about_columns_and_names_are_not_refusals(ledger: nz.Ledger, tmp_path: Path) -> None:
    """They are seen in the header, before a record is read."""
    for data in (tmp_path / "nowhere.csv", {"dx": ["flu"]}, 3):
        with pytest.raises(nz.NoiseplanError):
            plan().release(data, ledger=ledger, dataset="people")
    assert ledger.refusals() == ()


def test_a_refusal_that_cannot_be_kept_is_not_told(
    ledger: nz.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise LedgerError("its disk is full")

    monkeypatch.setattr(nz.Ledger, "note_refusal", full)
    with pytest.raises(LedgerError, match="disk is full") as error:
        plan().release(csv(tmp_path, ["HIV"]), ledger=ledger, dataset="people")
    assert "dx" not in str(error.value)


def test_the_number_of_records_cannot_be_found_by_refusals(ledger: nz.Ledger) -> None:
    """However wide the rows of a plan, refusals depend on one number that is published."""
    counts = CountTensor(SCHEMA, np.full(SCHEMA.shape, 10**6))
    for bits in (20, 38, 44):  # with so many records 64 bits hold 2⁶² in all, and not 2⁶³
        matrix = np.eye(2) * 2.0**bits
        asked = nz.Workload([nz.Query(SCHEMA, ["dx"], matrix=matrix)])
        wide = nz.plan(asked, budget=nz.PureDP(0.1), planner="workload", noise="discrete")
        wide.release(counts, ledger=ledger, dataset="people")
    assert ledger.refusals() == ()


# ---------------------------------------------------------------------- noise


class Known(Source):
    """Bits that somebody else knows, under a name that does not say so."""

    def read(self, count: int) -> bytes:
        return bytes(count)

    @property
    def brand(self) -> str:
        return "randomness of our own"

    @property
    def private(self) -> bool:
        return False


SIMULATED: dict[str, Any] = {
    "gaussian": lambda **how: plan(noise="gaussian").release(**how),
    "laplace": lambda **how: nz.plan(
        WORKLOAD, budget=nz.PureDP(0.3), noise="laplace"
    ).release(**how),
    "data-aware laplace": lambda **how: aware(noise="laplace").release(**how),
    "data-aware seeded": lambda **how: aware().release(seed=1, **how),
    "seeded": lambda **how: plan().release(seed=1, **how),
    "a seeded source": lambda **how: plan().release(randomness=SeededSource(1), **how),
    "a source of others": lambda **how: plan().release(randomness=Known(), **how),
    "a look, seeded": lambda data, **how: by_look(data, seed=1, **how).release,
}  # fmt: skip


@pytest.mark.parametrize("kind", SIMULATED)
def test_noise_for_simulation_is_never_charged(ledger: nz.Ledger, kind: str) -> None:
    with pytest.raises(PlanError, match="a ledger records releases to be published"):
        SIMULATED[kind](data=Untouched(), ledger=ledger, dataset="people")
    assert ledger.entries() == ()


@pytest.mark.parametrize("kind", [kind for kind in SIMULATED if kind != "a source of others"])
def test_simulations_say_so_wherever_they_are_shown(kind: str, tmp_path: Path) -> None:
    release = SIMULATED[kind](data={"dx": ["flu", "cold"], "age": [1, 2]})
    warning = f"not for publishing: {release.brand}"
    query = nz.Query(SCHEMA, {"age": nz.Identity()})
    assert release.answer(query).text().endswith(warning)
    assert release.brand in str(release)
    release.save(tmp_path / "out")
    assert (tmp_path / "out/certificate.txt").read_text().startswith("SIMULATED RELEASE")
    certificate = json.loads((tmp_path / "out/certificate.json").read_text())
    assert (certificate["simulation"], certificate["noise"]) == (True, release.brand)
    loaded = nz.load(tmp_path / "out")
    assert loaded.answer(query).text().endswith(warning)


def test_a_source_of_others_is_branded() -> None:
    """With bits that are all zero no noise can be drawn, so only the sampler is looked at."""
    from noiseplan.noise.samplers import sampler_for

    sampler = sampler_for("discrete", randomness=Known())
    assert not sampler.private
    assert sampler.brand.endswith("randomness of our own, so NOT PRIVATE")


def test_what_is_published_says_nothing_of_simulation(ledger: nz.Ledger, tmp_path: Path) -> None:
    data = {"dx": ["flu", "cold"], "age": [1, 2]}
    release = plan().release(data, ledger=ledger, dataset="people")
    assert "publishing" not in release.answer("age").text()
    release.save(tmp_path / "out")
    assert json.loads((tmp_path / "out/certificate.json").read_text())["simulation"] is False


def test_a_new_kind_of_noise_must_say_whether_it_is_private() -> None:
    from noiseplan.noise import NoiseSampler

    class Forgetful(NoiseSampler):
        def __call__(self, shape: tuple[int, ...], *parameters: Any) -> Any:
            return np.zeros(shape)

        @property
        def brand(self) -> str:
            return "exact noise"

    with pytest.raises(TypeError, match=r"exact.*secret"):
        Forgetful()  # type: ignore[abstract]


def test_randomness_is_a_source() -> None:
    with pytest.raises(PlanError, match="randomness= is a Source"):
        plan().release(Untouched(), randomness=np.random.default_rng(1))  # type: ignore[arg-type]


def test_untouched_is_a_source() -> None:
    """Or the tests above would pass for another reason."""
    assert isinstance(Untouched(), Projectable)
    with pytest.raises(DataRefused, match="AssertionError"):
        plan().release(Untouched())
    with pytest.raises(BudgetError):
        nz.zCDP(0)


@pytest.mark.parametrize("error", [RuntimeError("Query interrupted"), duckdb.InterruptException()])
def test_an_interruption_is_no_fault_of_the_data(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB takes Ctrl-C for itself, and tells of it by an error of its own."""
    schema = nz.Schema({"a": nz.Categorical(["x", "y"])})
    plan = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.1), noise="discrete")
    (tmp_path / "d.csv").write_text("a\nx\n")
    ledger = nz.Ledger(tmp_path / "l", create=True)
    ledger.open_dataset("d", nz.zCDP(1.0))

    def interrupted(*_: object) -> object:
        raise error

    monkeypatch.setattr("noiseplan.counting.database.code_batches", interrupted)
    with pytest.raises(KeyboardInterrupt):
        plan.release(tmp_path / "d.csv", ledger=ledger, dataset="d")
    assert (ledger.refusals("d"), ledger.entries("d")) == ((), ())


@pytest.mark.parametrize("purpose", ["x" * 10_001, "\x07", "\ud800"])
@pytest.mark.parametrize("details", [False, True])
def test_a_purpose_that_no_ledger_keeps_is_refused_before_data_are_read(
    tmp_path: Path, purpose: str, details: bool
) -> None:
    """Else the refusal of the data could not be entered, and would be told all the same."""
    schema = nz.Schema({"age": nz.Ordinal(range(41))})
    plan = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.1), noise="discrete")
    ledger = nz.Ledger(tmp_path / "l", create=True)
    ledger.open_dataset("d", nz.zCDP(1.0))
    for ages in ([3, 7, 41], [3, 7, 40]):
        with pytest.raises(LedgerError) as caught:
            plan.release(
                {"age": ages}, ledger=ledger, dataset="d", purpose=purpose, details=details
            )
        assert caught.value.__context__ is None
    assert (ledger.refusals("d"), ledger.entries("d")) == ((), ())


def test_a_refusal_that_could_not_be_entered_is_nowhere_to_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = nz.Schema({"age": nz.Ordinal(range(41))})
    plan = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.1), noise="discrete")
    ledger = nz.Ledger(tmp_path / "l", create=True)
    ledger.open_dataset("d", nz.zCDP(1.0))

    def busy(*_: object, **__: object) -> None:
        raise LedgerError("busy")

    monkeypatch.setattr(nz.Ledger, "note_refusal", busy)
    with pytest.raises(LedgerError, match="busy") as caught:
        plan.release({"age": [41]}, ledger=ledger, dataset="d", details=True)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_a_look_has_room_for_the_purposes_of_what_follows(tmp_path: Path) -> None:
    schema = nz.Schema.from_sizes({"a": 3, "b": 2})
    plans = [
        nz.plan(nz.Workload.marginals(schema, k=k), budget=nz.zCDP(0.1), noise="discrete")
        for k in (1, 2)
    ]
    ledger = nz.Ledger(tmp_path / "l", create=True)
    ledger.open_dataset("d; e", nz.zCDP(1.0))
    choice, counts = nz.adaptive(plans), CountTensor(schema, np.ones((3, 2), dtype=int))
    with pytest.raises(LedgerError, match="characters"):
        choice.look(counts, ledger=ledger, dataset="d; e", purpose="x" * 9_990)
    assert ledger.entries("d; e") == ()
    look = choice.look(counts, ledger=ledger, dataset="d; e", purpose="x" * 9_900)
    look.choose(1)
    assert len(ledger.entries("d; e")) == 2


def tables(source: Projectable) -> Projectable:
    """Counted beforehand: by every record, or by those that were chosen."""
    return count_tables(source, [[[0]]])


def test_records_of_nobody_in_particular_are_not_released_for_persons() -> None:
    """Opened without person=, every record of a person would count, whatever was priced."""
    schema = nz.Schema.from_sizes({"a": 3})
    plan = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.1), max_rows=2)
    data = {"a": [0, 1, 2] * 99, "id": [n // 3 for n in range(297)]}
    for given in (data, open_source(data, schema), tables(open_source(data, schema))):
        with pytest.raises(PlanError, match="say whose record each is"):
            plan.release(given)
    # A frame has its columns for attributes, and these are what ready-made counts have.
    disguised = pd.DataFrame(data | dict.fromkeys(("schema", "origin", "marginals", "choice"), 1))
    with pytest.raises(PlanError, match="say whose record each is"):
        plan.release(disguised)
    bounded = open_source(data, schema, person="id", cap=2)
    for given in (bounded, tables(bounded)):
        plan.release(given)
    plan.release(CountTensor(schema, np.array([1, 1, 0])))  # counted by whoever made them


def test_a_dataset_without_budget_answers_nothing(tmp_path: Path) -> None:
    """A plan that costs nothing, or the dust of rounding, would go on telling who is there."""
    schema = nz.Schema({"dx": nz.Categorical(["flu", "cold"])})
    replaced: dict[str, Any] = {"neighbours": "replace", "budget": nz.zCDP(1e-12)}
    total = nz.plan(nz.Workload([nz.Query(schema, {})]), **replaced)
    dust = nz.plan(nz.Query(schema, ["dx"]), **replaced)
    assert total.privacy.pcost == 0.0 < dust.privacy.pcost
    ledger = nz.Ledger(tmp_path / "a.ledger", create=True)
    ledger.open_dataset("d", nz.zCDP(0.5), neighbours="replace")
    how: dict[str, Any] = {"ledger": ledger, "dataset": "d"}
    assert not total.check({"dx": ["HIV"]}, **how).ok  # on record, as long as there is budget
    ledger.spend("d", nz.Guarantee(1.0 - 1e-11, "zcdp", "replace"))
    rows = len(ledger.history())
    for plan in (total, dust):
        for values in (["flu"], ["HIV"]):
            checked = plan.check({"dx": values}, **how)
            assert not checked.read and "used up its budget" in str(checked)
            with pytest.raises(BudgetExceeded, match="used up its budget"):
                plan.release({"dx": values}, **how)
            with pytest.raises(BudgetExceeded, match="used up its budget"):
                nz.adaptive([dust, nz.plan(nz.Query(schema, ["dx"]), **replaced)]).look(
                    {"dx": values}, **how
                )
    assert len(ledger.history()) == rows
    ledger.spend("d", nz.Guarantee(0.0, "zcdp", "replace"))  # by hand, without any record


# ---------------------------------------------------------------------- sources of others


class Lenient(np.ndarray):
    """Numbers that say they are like all others."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return np.ones(self.shape, dtype=bool)


NO_COUNTS: dict[str, Any] = {
    "halves": lambda counts: counts + 0.5,
    "halves that say they are whole": lambda counts: (counts + 0.5).view(Lenient),
    "objects": lambda counts: counts.astype(object),
    "complex numbers": lambda counts: counts.astype(complex),
    "texts": lambda counts: counts.astype(str),
    "not a number": lambda counts: np.where(counts > 0, np.nan, 0.0),
    "without end": lambda counts: np.full(counts.shape, np.inf),
    "one table for all sets": lambda counts: counts[0],
    "tables laid flat": lambda counts: counts.reshape(-1),
}


class Own:
    """A source of somebody's own, whose counts by the second attribute are not counts."""

    schema, origin = SCHEMA, ""

    def __init__(self, spoilt: Any) -> None:
        self.spoilt = spoilt

    def marginals(self, sets: Any) -> Any:
        found = CountTensor(SCHEMA, np.full(SCHEMA.shape, 3)).marginals(sets)
        return self.spoilt(found) if 1 in np.asarray(sets) else found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", NO_COUNTS)
def test_what_is_no_count_of_records_is_refused_before_the_charge(
    ledger: nz.Ledger, way: str, kind: str
) -> None:
    """Wherever in the tables it is, and put down like any other refusal."""
    with pytest.raises(DataRefused) as told:
        WAYS[way](Own(NO_COUNTS[kind]), ledger=ledger, dataset="people", purpose="x")
    assert told.value.kind == "counts or codes that are none"
    assert ledger.balance("people").spent.rho == 0 and not ledger.entries("people")
    (kept,) = ledger.refusals("people")
    assert kept.kind == "refused"


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int32, np.float32, float])
def test_whole_numbers_of_any_kind_are_counted(ledger: nz.Ledger, kind: Any) -> None:
    source = Own(lambda counts: np.minimum(counts, 1).astype(kind))
    released = plan(1.0).release(source, ledger=ledger, dataset="people", purpose="x")
    assert np.isfinite(released.answer(WORKLOAD[1]).estimate).all()
    assert len(ledger.entries("people")) == 1
