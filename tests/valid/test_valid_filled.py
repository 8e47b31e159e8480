"""Tables of which not every cell was told apart: made valid, filled in, and named."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import noiseplan as nz
from noiseplan.choosing.joined_plans import Origin, Union, described
from noiseplan.errors import UnanswerableError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.cost import cost_of
from noiseplan.mechanisms.workload_rows import WorkloadRowsMechanism
from noiseplan.noise.law import Noise
from noiseplan.progress import listening
from noiseplan.valid import solve_tables
from noiseplan.valid.filling import AskedRows
from noiseplan.valid.result import ValidTables
from noiseplan.valid.unbiased_tables import Unbiased
from own_examples import SCHEMA, mixed, own_plan


def groups(size: int) -> nz.Factor:
    return nz.Levels(size, leaves=False, total=False)


def two_resolutions() -> nz.Workload:
    """Single values of a, groups of four of them by b."""
    schema = nz.Schema.from_sizes({"a": 12, "b": 6})
    by_group = nz.Query(schema, {"a": groups(4), "b": nz.Identity()})
    return nz.Workload([nz.Query(schema, ["a"]), by_group])


def hierarchy() -> nz.Workload:
    """Blocks in tracts, with ages and sex."""
    schema = nz.Schema.from_sizes({"block": 12, "age": 4, "sex": 2})
    tracts = {"block": nz.Levels(6, leaves=False), "age": nz.Prefix()}
    by_sex = {"block": nz.Levels(3, 6), "sex": nz.Identity()}
    asked = [nz.Query(schema, by_sex), nz.Query(schema, tracts), nz.Query(schema, ["block"])]
    return nz.Workload(asked)


def rows_plan(workload: nz.Workload) -> nz.Plan:
    """The rows of the workload themselves, each with noise."""
    mechanism = WorkloadRowsMechanism(workload.schema, workload, None, Noise("gaussian", [2.0]))
    union = Union(workload, np.ones(len(workload)))
    origin = Origin("workload", "none: the rows themselves", "gaussian", 1)
    return described(union, mechanism, cost_of([mechanism], "add-remove"), origin)


def release_of(workload: nz.Workload, planner: str = "auto", rho: float = 0.5) -> nz.Release:
    """Of many records in few cells."""
    counts = np.random.default_rng(0).gamma(0.05, 400, workload.schema.shape).round()
    if planner == "rows":
        return rows_plan(workload).release(counts, seed=1)
    return nz.plan(workload, budget=nz.zCDP(rho), planner=planner).release(counts, seed=1)


def check(valid: ValidTables) -> None:
    """No cell negative, and any two tables agree on what they have in common."""
    for one, table in valid.tables.items():
        assert (table >= 0).all()
        for i, axis in enumerate(one):
            rest = tuple(s for s in one if s != axis)
            if rest in valid.tables:
                np.testing.assert_allclose(table.sum(axis=i), valid.tables[rest], atol=1e-6)


CASES = [
    (two_resolutions, "auto", ("a × b",)),
    (two_resolutions, "rows", ("a × b",)),
    (hierarchy, "auto", ("block × age",)),
    (hierarchy, "rows", ("block × age",)),
]


@pytest.mark.few(1)
@pytest.mark.parametrize(("workload", "planner", "filled"), CASES)
def test_valid_near_every_answer(workload: object, planner: str, filled: tuple[str, ...]) -> None:
    """Cells that are filled in without the others are negative here, and would pull answers by
    tens of standard errors."""
    made = release_of(workload(), planner)
    valid = made.valid()
    check(valid)
    assert valid.changes.filled == filled
    assert f"filled in   {filled[0]}: not every cell was told apart" in str(valid)
    source = valid.source
    (one,) = (s for s in valid.tables if source.title(s) in filled)
    assert (source.estimate(one) < -20).any()
    told = [source.estimate(s) for s in valid.tables if s != one]  # what is filled in has none
    assert valid.changes.negative == sum(int((each < 0).sum()) for each in told)
    for query in made.plan.workload:
        answer = made.answer(query)
        moved = np.abs(valid.answer(query) - answer.estimate) / answer.std_error
        assert moved.max() <= valid.changes.largest_move + 1e-9
        assert moved.mean() < 0.8, query.name


@pytest.mark.parametrize(("workload", "planner", "filled"), CASES)
def test_completed_tables_have_every_answer(
    workload: object, planner: str, filled: tuple[str, ...]
) -> None:
    made = release_of(workload(), planner)
    source = Unbiased.of(made)
    assert [source.title(s) for s in source.sets(None) if not source.determined(s)] == list(filled)
    for one, queries in source.queries.items():
        for query in queries:
            own = query.apply(source.estimate(one))
            np.testing.assert_allclose(own, made.answer(query).estimate, atol=1e-6)


def dense_rows(source: Unbiased, one: tuple[int, ...]) -> Array:
    names = source.names(one)
    asked = [q for s, found in source.queries.items() if set(s) <= set(one) for q in found]
    return np.concatenate([query.over(names).dense() for query in asked])


@pytest.mark.parametrize("workload", [two_resolutions, hierarchy])
def test_what_was_asked_of_a_table(workload: object) -> None:
    source = Unbiased.of(release_of(workload()))
    one = max(source.queries, key=len)
    rows = dense_rows(source, one)
    table = np.random.default_rng(3).standard_normal([source.schema.shape[i] for i in one])
    expected = np.linalg.pinv(rows, rcond=1e-9) @ rows @ table.ravel()
    np.testing.assert_allclose(AskedRows.of(source, one).told(table).ravel(), expected, atol=1e-9)


def test_rows_of_a_matrix_that_were_asked() -> None:
    schema = nz.Schema.from_sizes({"a": 3, "b": 2, "c": 2})
    matrix = np.random.default_rng(1).integers(-1, 2, (3, 6))
    asked = [nz.Query(schema, ["a", "b"], matrix=matrix), nz.Query(schema, ["b"])]
    source = Unbiased.of(nz.plan(nz.Workload(asked), budget=nz.zCDP(1)).release(np.ones((3, 2, 2))))
    rows, table = dense_rows(source, (0, 1)), np.arange(6.0) ** 2
    expected = np.linalg.pinv(rows, rcond=1e-9) @ rows @ table
    found = AskedRows.of(source, (0, 1)).told(table.reshape(3, 2))
    np.testing.assert_allclose(found.ravel(), expected, atol=1e-9)


def test_nearest_in_what_was_asked_by_a_conic_solver() -> None:
    """Σ_S w_S ‖P_S(y_S − ŷ_S)‖² and the sums: the same least value, and the same answers."""
    made = release_of(two_resolutions(), rho=0.0005)
    valid = made.valid()
    source, shape = valid.source, made.schema.shape
    rows = AskedRows.of(source, (0, 1))
    span = np.linalg.pinv(dense_rows(source, (0, 1)), rcond=1e-9) @ dense_rows(source, (0, 1))
    sums = {(): np.ones((1, 72)), (0,): np.kron(np.eye(12), np.ones((1, 6)))}
    sums[1,] = np.kron(np.ones((1, 12)), np.eye(6))
    parts = [(a, source.estimate(s), source.variance(s).sum()) for s, a in sums.items()]
    parts.append((span, span @ source.estimate((0, 1)).ravel(), rows.variance))
    # Groups of four of a count for themselves too, by b and alone: every row is a third of a table.
    four = np.kron(np.eye(3), np.ones((1, 4)))
    for query, a in (
        (nz.Query(made.schema, {"a": groups(4), "b": nz.Identity()}), np.kron(four, np.eye(6))),
        (nz.Query(made.schema, {"a": groups(4)}), np.kron(four, np.ones((1, 6)))),
    ):
        answer = made.answer(query)
        each = np.sqrt(len(a)) * answer.std_error
        parts.append((a / each[:, None], answer.estimate / each, 1.0))
    cells = cp.Variable(72, nonneg=True)
    loss = sum(cp.sum_squares(a @ cells - e.ravel()) / v for a, e, v in parts)
    problem = cp.Problem(cp.Minimize(loss))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12)
    own = valid.values("a", "b").ravel()
    found = sum(float(((a @ own - e.ravel()) ** 2).sum()) / v for a, e, v in parts)
    assert problem.value > 0.1  # noise does show
    assert found == pytest.approx(problem.value, rel=1e-3)
    assert (source.estimate((0,)) < 0).any()
    errors = np.sqrt(source.variance((0,)))
    best = cells.value.reshape(shape)
    assert (np.abs(valid.values("a") - best.sum(axis=1)) < 0.05 * errors).all()


def test_no_errors_beside_what_was_filled_in(tmp_path: Path) -> None:
    made = release_of(two_resolutions())
    valid = made.valid(integers=True)
    filled, told = valid.columns("b", "a"), valid.columns("a")
    for name in ("estimate", "std_error", "lower", "upper"):
        assert np.isnan(filled[name]).all()
        assert np.isfinite(told[name]).all()
    assert np.isfinite(filled["valid"]).all()
    valid.save(tmp_path / "tables")
    changes = json.loads((tmp_path / "tables" / "changes.json").read_text())
    assert changes["filled"] == ["a × b"]
    with (tmp_path / "tables" / "4-a-by-b.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert sum(float(line["valid"]) for line in lines) == valid.total
    assert {line["std_error"] for line in lines} == {"nan"}


def test_an_attribute_told_apart_by_halves_is_drawn_without_intervals(tmp_path: Path) -> None:
    counts = np.arange(24.0).reshape(SCHEMA.shape)
    valid = own_plan(mixed("both")).release(counts, seed=1).valid()
    check(valid)
    assert "a" in valid.changes.filled
    picture = valid.draw("a", tmp_path / "a.svg").read_text()
    assert "valid" in picture
    assert "NaN" not in picture


def test_named_tables() -> None:
    made = release_of(two_resolutions())
    assert made.valid(tables=[["a", "b"]]).changes.filled == ("a × b",)
    assert made.valid(tables=["a"]).changes.filled == ()
    known = np.full((12, 6), 3.0)
    assert made.valid(public={("a", "b"): known}).changes.filled == ()
    schema = nz.Schema.from_sizes({"a": 4, "b": 3})
    apart = release_of(nz.Workload([nz.Query(schema, ["a"]), nz.Query(schema, ["b"])]))
    with pytest.raises(UnanswerableError, match="cell by cell is not determined"):
        apart.valid(tables=[["a", "b"]])


RECORDS = """
import sys
sys.path[:0] = {path!r}
import numpy as np
from test_valid_filled import release_of, two_resolutions

for planner in ("auto", "rows"):
    made = release_of(two_resolutions(), planner)
    records = made.microdata(seed=3, frame="polars")
    assert len(records.frame) == records.rows, planner
    told = {{t.names: t for t in records.fidelity}}
    assert told["a", "b"].filled and told["a", "b"].cells == 18, planner
    assert not told["a",].filled, planner
    assert max(t.mean for t in records.fidelity) < 1.0, (planner, records.fidelity)
    assert "a × b (answers)" in str(records) and "not every cell" in str(records), planner
"""


@pytest.mark.skipif(find_spec("mbi") is None, reason="the extra microdata is missing")
def test_records_of_what_was_told() -> None:
    """In one process, apart: the library that fits the model takes seconds to start."""
    here = Path(__file__).parent
    body = RECORDS.format(path=[str(here), str(here.parent)])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", body], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_one_bar_and_one_number_of_steps_for_all_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn begins where the last one ended; whether it came to an end is said."""
    heard: list[tuple[str, float | None]] = []
    with listening(lambda title, share: heard.append((title, share))):
        whole = release_of(two_resolutions(), rho=0.001).valid()
    shares = [share for title, share in heard if title == "making tables valid"]
    assert shares == sorted(shares) and shares.count(0.0) == 1
    assert whole.changes.filled and whole.changes.solved
    assert "solved      to the end" in str(whole)
    monkeypatch.setattr(solve_tables, "MOST_STEPS", 3)
    monkeypatch.setattr(solve_tables, "STEPS", 3)
    cut = release_of(two_resolutions(), rho=0.001).valid()
    assert not cut.changes.solved and cut.changes.steps == 6
    assert cut.changes.missed > whole.changes.missed
    assert "solved      not to the end, given up after 6 steps" in str(cut)
    check(cut)
