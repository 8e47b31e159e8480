"""Releases that build on earlier ones: the same records, on the same ledger, in another program."""

from __future__ import annotations

import copy
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from adaptive_plans import SCHEMA, data, plan

import noiseplan as nz
from noiseplan.counting import open_source
from noiseplan.errors import DataError, PlanError
from noiseplan.ledger import BudgetExceeded
from noiseplan.privacy import Budget

pytestmark = pytest.mark.filterwarnings("ignore:The 'future.infer_string'")  # of Ibis on SQLite

COARSE = nz.Query(SCHEMA, ["age"])


@pytest.fixture
def ledger(tmp_path: Path) -> nz.Ledger:
    book = nz.Ledger(tmp_path / "budget.ledger", create=True)
    book.open_dataset("people", nz.zCDP(10.0))
    book.open_dataset("others", nz.zCDP(10.0))
    return book


def secure(k: int, rho: float = 0.5, **more: Any) -> nz.Plan:
    return plan(k, rho, noise="discrete", **more)


# ---------------------------------------------------------------------- the ledger


def test_what_was_not_charged_is_not_built_on(ledger: nz.Ledger, tmp_path: Path) -> None:
    left = secure(2).given(secure(1, 0.1).release(data()))
    with pytest.raises(PlanError, match=r"not recorded at all.*release the whole plan"):
        left.release(data(), ledger=ledger, dataset="people")
    assert ledger.entries() == ()


def test_the_earlier_release_is_charged_to_the_same_dataset(
    ledger: nz.Ledger, tmp_path: Path
) -> None:
    earlier = secure(1, 0.1).release(data(), ledger=ledger, dataset="people")
    left = secure(2).given(earlier)
    with pytest.raises(PlanError, match=r"not charged to dataset 'others' .*entry 4 of dataset"):
        left.release(data(), ledger=ledger, dataset="others")
    elsewhere = nz.Ledger(tmp_path / "another.ledger", create=True)
    elsewhere.open_dataset("people", nz.zCDP(10.0))
    elsewhere.open_dataset("others", nz.zCDP(10.0))
    secure(1, 0.1).release(data(), ledger=elsewhere, dataset="people")  # an entry of that number
    with pytest.raises(PlanError, match="not charged to dataset 'people' of this ledger"):
        left.release(data(), ledger=elsewhere, dataset="people")
    with pytest.raises(PlanError, match="name the dataset that is charged"):
        left.release(data(), ledger=ledger)
    assert len(ledger.entries()) == 1


def test_a_release_in_steps_is_built_on_by_all_its_entries(ledger: nz.Ledger) -> None:
    coarse, fine = secure(1, 0.1), secure(2, 0.2)
    chosen = nz.adaptive([coarse, fine]).look(data(), ledger=ledger, dataset="people").choose(fine)
    more = secure(2, 0.4).given(chosen)
    last = more.release(data(), ledger=ledger, dataset="people")
    assert len(ledger.entries("people")) == 3
    assert ledger.balance("people").spent.rho == pytest.approx(0.4, rel=1e-6)
    assert last.recorded.count("of dataset 'people'") == 3


def test_a_record_that_paid_for_less_is_not_enough(ledger: nz.Ledger) -> None:
    from dataclasses import replace

    cheap = secure(1, 0.1).release(data(), ledger=ledger, dataset="people")
    dear = secure(1, 0.3).release(data())
    dear = replace(dear, provenance=replace(dear.provenance, recorded=cheap.recorded))
    with pytest.raises(PlanError, match="is not charged to dataset"):
        secure(2).given(dear).release(data(), ledger=ledger, dataset="people")


SAME_AGAIN = (nz.Workload.marginals(SCHEMA, k=1), nz.Workload.marginals(SCHEMA, k=1))
OTHER_TABLES = (nz.Workload.marginals(SCHEMA, k=1), nz.Workload.marginals(SCHEMA, k=2))
NOTHING_IN_COMMON = (nz.Workload([COARSE]), nz.Workload([nz.Query(SCHEMA, ["sex"])]))
LONG = nz.Schema.from_sizes({"day": 1500})
ONE_SERIES = 2 * (nz.Workload([nz.Query(LONG, {"day": nz.Prefix()})]),)


@pytest.mark.grid
@pytest.mark.parametrize("kept", [nz.zCDP(0.62), nz.GDP(1.12)], ids=["by zcdp", "by the curve"])
@pytest.mark.parametrize("asked", [nz.zCDP(1.0), nz.ApproxDP(6.0, 1e-6)], ids=["zcdp", "approx"])
@pytest.mark.parametrize(
    ("before", "wanted", "options"),
    [
        (*SAME_AGAIN, {}),
        (*OTHER_TABLES, {}),
        (*OTHER_TABLES, {"neighbours": "replace"}),
        (*OTHER_TABLES, {"planner": "optimal"}),
        (*NOTHING_IN_COMMON, {}),
        (*ONE_SERIES, {}),
    ],
    ids=["again", "others", "replaced", "matrix", "apart", "series"],
)
def test_the_budget_that_is_advised_fits_when_it_is_typed(
    before: nz.Workload,
    wanted: nz.Workload,
    options: dict[str, Any],
    asked: Budget,
    kept: Budget,
    tmp_path: Path,
) -> None:
    """What is left pays for the rest; a whole plan within it would often measure nothing."""
    book = nz.Ledger(tmp_path / "small.ledger", create=True)
    book.open_dataset("people", kept, neighbours=options.get("neighbours", "add-remove"))
    where: Any = {"ledger": book, "dataset": "people"}
    people = {name: [0, 1] * 9 for name in wanted.schema.names}
    earlier = nz.plan(before, budget=nz.zCDP(0.5), **options).release(people, **where)
    how = {"noise": "discrete Gaussian", **options}
    left = nz.plan(wanted, budget=asked, **how).given(earlier)
    with pytest.raises(BudgetExceeded) as caught:
        left.release(people, **where)
    checked = left.check(people, **where)
    assert [str(caught.value)] == [finding.said for finding in checked.problems]
    call = re.search(r"a plan with budget=(\S+\(.*\)) fits, given the same", str(caught.value))
    assert call is not None, caught.value
    advised = eval(call[1], {"zCDP": nz.zCDP, "GDP": nz.GDP})
    assert type(advised) is type(kept)
    again = nz.plan(wanted, budget=advised, **options).given(earlier)
    room = book.balance("people").room
    again.release(people, **where)
    assert 0.0 <= book.balance("people").room < 0.01 * room  # and is used


def test_where_no_budget_is_known_to_fit_none_is_advised(tmp_path: Path) -> None:
    """Targets are met whatever that costs: another budget would share the noise otherwise."""
    book = nz.Ledger(tmp_path / "small.ledger", create=True)
    book.open_dataset("people", nz.zCDP(0.6))
    earlier = secure(1).release(data(), ledger=book, dataset="people")
    left = nz.plan(nz.Query(SCHEMA, ["sex"], name="sexes"), targets={"sexes": 0.3}).given(earlier)
    with pytest.raises(BudgetExceeded, match=r"does not fit") as caught:
        left.release(data(), ledger=book, dataset="people")
    assert "a plan with budget" not in str(caught.value)
    assert "raises the budget" in str(caught.value)


# ---------------------------------------------------------------------- the same records


def visits(people: int = 200) -> dict[str, Any]:
    """Everybody has six records, one of each age."""
    ages = SCHEMA["age"].size
    return {
        "age": list(range(ages)) * people,
        "sex": [0] * ages * people,
        "region": [0] * ages * people,
        "id": np.repeat(np.arange(people), ages),
    }


def exact(k: int, rho: float, max_rows: int) -> nz.Plan:
    """Hardly any noise: answers are the counts."""
    return plan(k, rho, max_rows=max_rows)


def counted(release: nz.Release) -> list[int]:
    return np.rint(release.answer(COARSE).estimate).astype(int).tolist()


@pytest.mark.parametrize("max_rows", [1, 2])
def test_the_same_records_are_counted_again(max_rows: int, tmp_path: Path) -> None:
    import polars as pl

    path = tmp_path / "visits.parquet"
    pl.DataFrame(visits()).write_parquet(path)
    for source in (visits(), path):
        earlier = exact(1, 1e4, max_rows).release(source, person="id", seed=1)
        assert sum(counted(earlier)) == 200 * max_rows
        left = exact(2, 1e8, max_rows).given(earlier)
        later = left.release(source, person="id", seed=2)
        assert counted(later) == counted(earlier)
        again = exact(1, 1e4, max_rows).release(source, person="id", seed=1)
        assert counted(again) != counted(earlier)


def test_one_source_for_both() -> None:
    source = open_source(visits(), SCHEMA, person="id", cap=2)
    earlier = exact(1, 1e4, 2).release(source, seed=1)
    left = exact(2, 1e8, 2).given(earlier)
    assert counted(left.release(source, seed=2)) == counted(earlier)
    other = open_source(visits(), SCHEMA, person="id", cap=2)
    with pytest.raises(PlanError, match="these data would show others: give it the same source"):
        left.release(other, seed=2)
    with pytest.raises(PlanError, match="say whose record each is"):
        left.release(visits(), seed=2)


def test_records_chosen_in_another_way_are_refused() -> None:
    people = visits() | {"household": np.repeat(np.arange(20), 40)}
    earlier = exact(1, 1e4, 2).release(people, person="id", seed=1)
    left = exact(2, 1e8, 2).given(earlier)
    others = "these data would show others"
    with pytest.raises(PlanError, match=others):  # another column
        left.release(people, person="household", seed=2)
    one = exact(1, 1e4, 2).release(open_source(people, SCHEMA, person="id", cap=1), seed=1)
    with pytest.raises(PlanError, match=others):  # another number of records
        exact(2, 1e8, 2).given(one).release(people, person="id", seed=2)
    assert counted(left.release(people, person="id", seed=2)) == counted(earlier)


def test_the_same_records_are_found_in_any_kind_of_source(tmp_path: Path) -> None:
    import ibis
    import polars as pl

    earlier = exact(1, 1e4, 2).release(visits(), person="id", seed=1)
    left = exact(2, 1e8, 2).given(earlier)
    mixed = pl.DataFrame(visits()).sample(fraction=1, shuffle=True, seed=3)
    mixed.write_csv(tmp_path / "visits.csv")
    database = ibis.sqlite.connect()
    table = database.create_table("visits", mixed.to_arrow())
    for source in (mixed, mixed.lazy(), tmp_path / "visits.csv", table):
        assert counted(left.release(source, person="id", seed=2)) == counted(earlier)


def test_a_database_counts_the_same_records_again() -> None:
    import ibis
    import polars as pl

    table = ibis.sqlite.connect().create_table("visits", pl.DataFrame(visits()).to_arrow())
    earlier = exact(1, 1e4, 2).release(table, person="id", seed=1)
    later = exact(2, 1e8, 2).given(earlier).release(table, person="id", seed=2)
    assert counted(later) == counted(earlier)


def sent(release: nz.Release, folder: Path) -> nz.Release:
    found: nz.Release = pickle.loads(pickle.dumps(release))
    return found


def saved(release: nz.Release, folder: Path) -> nz.Release:
    release.save(folder / "release")
    return nz.load(folder / "release")


@pytest.mark.parametrize(
    "copied",
    [sent, saved, lambda release, _: copy.copy(release), lambda release, _: copy.deepcopy(release)],
    ids=["pickled", "saved", "copied", "deeply copied"],
)
def test_no_copy_of_a_release_knows_which_records_were_counted(
    copied: Callable[[nz.Release, Path], nz.Release], tmp_path: Path
) -> None:
    earlier = exact(1, 1e4, 2).release(visits(), person="id", seed=1)
    again = copied(earlier, tmp_path)
    assert counted(again) == counted(earlier)
    left = exact(2, 1e8, 2).given(again)
    unknown = r"pickled, copied or read from a folder, which does not keep which.*plan\.release\("
    with pytest.raises(PlanError, match=unknown):
        left.release(visits(), person="id", seed=2)
    with pytest.raises(PlanError, match=unknown):
        left.release(open_source(visits(), SCHEMA, person="id", cap=2), seed=2)
    left = exact(2, 1e8, 2).given(earlier)  # and copying takes nothing from the original
    assert counted(left.release(visits(), person="id", seed=2)) == counted(earlier)


def test_the_key_of_the_choice_is_in_nothing_that_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = bytes(range(32, 64))
    monkeypatch.setattr(os, "urandom", lambda size: key[:size])
    source = open_source(visits(), SCHEMA, person="id", cap=2)
    release = exact(1, 1e4, 2).release(source, seed=1)
    release.save(tmp_path / "release")
    files = [path.read_bytes() for path in (tmp_path / "release").rglob("*") if path.is_file()]
    attributes = repr([getattr(release.choice, name) for name in dir(release.choice)])
    shown = [repr(release), str(release), repr(source), repr(vars(release)), attributes]
    for written in (pickle.dumps(release), *files, *(text.encode() for text in shown)):
        for spelled in (key, key.hex().encode(), repr(key)[2:-1].encode()):
            assert spelled not in written


def test_other_records_than_the_earlier_ones_are_refused(tmp_path: Path) -> None:
    whole = exact(1, 1e4, 1).release(visits(), seed=1)
    left = exact(2, 1e8, 1).given(whole)
    copied = copy.deepcopy(open_source(visits(), SCHEMA, person="id"))
    with pytest.raises(PlanError, match="the earlier release counted others, or was read"):
        left.release(visits(), person="id", seed=2)
    with pytest.raises(PlanError, match="the earlier release counted others, or was read"):
        left.release(copied, seed=2)
    some = exact(1, 1e4, 1).release(visits(), person="id", seed=1)
    with pytest.raises(PlanError, match="these data would show others"):
        exact(2, 1e8, 1).given(some).release(visits(), seed=2)
    some.save(tmp_path / "some")
    with pytest.raises(PlanError, match="which does not keep which"):
        left = exact(2, 1e8, 1).given(nz.load(tmp_path / "some"))
        left.release(visits(), person="id", seed=2)


def test_a_look_at_people() -> None:
    choice = nz.adaptive([exact(1, 1e4, 2), exact(2, 1e8, 2)])
    look = choice.look(visits(), person="id", seed=1)
    seen = counted(look.release)
    assert sum(seen) == 400
    assert counted(look.choose(1)) == seen
    with pytest.raises(PlanError, match="people with up to 2 records: say whose record each is"):
        choice.look(visits(), seed=1)
    with pytest.raises(DataError, match="lack the person column 'who'"):
        choice.look(visits(), person="who", seed=1)


# ---------------------------------------------------------------------- another program


LATER = """
import sys
import noiseplan as nz
from adaptive_plans import SCHEMA, data, plan

folder, path = sys.argv[1:]
fine = plan(2, 0.5, noise="discrete")
left = fine.given(nz.load(folder))
release = left.release(data(), ledger=path, dataset="people")
assert release.answer(nz.Query(SCHEMA, ["age", "sex"])).estimate.size
print(left.privacy.rho)
"""


def test_a_look_is_saved_and_followed_in_another_program(ledger: nz.Ledger, tmp_path: Path) -> None:
    choice = nz.adaptive([secure(1), secure(2)])
    look = choice.look(data(), ledger=ledger, dataset="people")
    look.save(tmp_path / "look")
    seen = nz.load(tmp_path / "look")
    assert seen.answer(COARSE).estimate.tolist() == look.answer(COARSE).estimate.tolist()
    done = subprocess.run(
        [sys.executable, "-c", LATER, str(tmp_path / "look"), str(ledger.path)],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=True,
    )  # fmt: skip
    first, second = ledger.entries("people")
    assert first.guarantee.rho == look.privacy.rho
    assert second.guarantee.rho == float(done.stdout)
    assert ledger.balance("people").spent.rho == pytest.approx(0.5, rel=1e-3)


# ---------------------------------------------------------------------- matrices over many cells


def test_matrices_over_more_than_a_thousand_cells_are_built_on() -> None:
    """The second plan's rows hold the first's: less is paid, and all that is paid is accounted."""
    schema = nz.Schema.from_sizes({"a": 131, "b": 8})  # 1,048 cells
    rows = np.random.default_rng(1).integers(0, 2, (8, schema.size)).astype(float)

    def by_matrix(some: np.ndarray, rho: float) -> nz.Plan:
        asked = nz.Workload([nz.Query(schema, ["a", "b"], matrix=some)])
        return nz.plan(asked, budget=nz.zCDP(rho), planner="optimal")

    first, second = by_matrix(rows[:4], 0.05), by_matrix(rows, 0.2)
    data = np.random.default_rng(2).integers(0, schema.shape, size=(500, 2))
    earlier = first.release(data)
    left = second.given(earlier)
    assert left.rest is not None
    # From the rows themselves: what any record pays for both is within what is stated.
    parts = [np.asarray(part.mechanism.unit_rows()) for part in (first, left.rest)]
    paid = sum((part**2).sum(axis=0) for part in parts)
    assert paid.max() <= 2 * second.privacy.rho * (1 + 1e-9)
    assert (parts[1] ** 2).sum(axis=0).max() <= 2 * left.privacy.rho * (1 + 1e-9)
    assert left.privacy.rho < second.privacy.rho
    # The same rows with less noise cost the difference.
    again = by_matrix(rows, 0.4).given(second.release(data))
    assert again.privacy.rho == pytest.approx(0.2, rel=1e-3)
    done = left.release(data)
    cost = sum(part.T @ part for part in parts)
    expected = np.einsum("ri,ri->r", rows @ np.linalg.pinv(cost, rcond=1e-10), rows)
    query = second.workload[0]
    np.testing.assert_allclose(done.answer(query).std_error ** 2, expected, rtol=1e-5)
    assert (expected <= second.variance(query) * (1 + 1e-6)).all()


def test_matrices_over_too_many_cells_say_what_works(monkeypatch: pytest.MonkeyPatch) -> None:
    from noiseplan.choosing import common_and_rest
    from noiseplan.words.hints import in_command_line

    monkeypatch.setattr(common_and_rest, "MOST_CELLS", 1)
    asked = nz.Workload([nz.Query(SCHEMA, ["age"]), nz.Query(SCHEMA, ["sex"])])

    def by(planner: str, rho: float) -> nz.Plan:
        return nz.plan(asked, budget=nz.zCDP(rho), planner=planner)

    with pytest.raises(PlanError, match="explicit matrices go up to 1 cells") as refused:
        by("workload", 0.2).given(by("residual", 0.1).release(data()))
    assert "planner='residual'" in str(refused.value)
    assert "plan.release(data, …)" in str(refused.value)
    assert "leave out --given" in in_command_line(refused.value)
    more = by("residual", 0.2).given(by("residual", 0.1).release(data()))
    assert more.privacy.rho == pytest.approx(0.1, rel=1e-6)
