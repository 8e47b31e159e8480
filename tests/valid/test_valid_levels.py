"""Valid tables of one level, or of bands of values, where nothing finer was measured."""

from __future__ import annotations

import html
import json
import re
import shlex
from functools import cache
from itertools import combinations, product
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from click.testing import CliRunner

import noiseplan as nz
from noiseplan.arrays import IntArray
from noiseplan.cli import main
from noiseplan.errors import PlanError, QueryError, UnanswerableError
from noiseplan.matrices.base import Array
from noiseplan.valid import valid_answers
from noiseplan.valid.coarser_cells import CoarserCells

PLACES = 300
COUNTY = np.arange(PLACES) // 50
STATE = np.array([0, 0, 1, 1, 1, 2])
BANDS = nz.Levels(4, leaves=False, total=False)


def schema(missing: str | None = None) -> nz.Schema:
    tract = np.arange(PLACES) // 5
    names = {"place": range(PLACES), "tract": tract + 1000, "county": COUNTY + 5000}
    geo = nz.Hierarchical({**names, "state": STATE[COUNTY] + 9000}, missing=missing)
    sexes = nz.Categorical(["F", "M"])
    return nz.Schema({"geo": geo, "age": nz.Ordinal(range(8)), "sex": sexes})


def census(own: nz.Schema) -> nz.Workload:
    """Single ages by county, bands by tract, sex by place."""
    tracts = {"geo": nz.Level("tract"), "age": BANDS, "sex": nz.Identity()}
    asked = [
        nz.Query(own, ["county", "age", "sex"], name="counties"),
        nz.Query(own, tracts, name="tracts"),
        nz.Query(own, ["geo", "sex"], name="places"),
    ]
    return nz.Workload(asked).weighted("tables")


@cache
def release(missing: str | None = None) -> nz.Release:
    own = schema(missing)
    rng = np.random.default_rng(5)
    counts = rng.poisson(0.02, own.shape).astype(float)
    plan = nz.plan(census(own), budget=nz.zCDP(0.05))
    assert plan.mechanism.kind == "levels"
    return plan.release(counts, seed=2)


def groups(of: IntArray) -> Array:
    return np.asarray(np.arange(of.max() + 1)[:, None] == of, dtype=float)


def nearest(made: nz.Release, along: dict[str, list[tuple[object, Array]]]) -> Array:
    """The valid cells by the formula of the page, with a conic solver.

    `along` has for each attribute the factor of its cells with the unit matrix first, then coarser
    groups of them; plain margins count as a whole, coarser groups row by row.
    """
    cells = [rows[0][1].shape[1] for rows in along.values()]
    parts = []
    for width in range(len(along) + 1):
        for names in combinations(along, width):
            for chosen in product(*(range(len(along[name])) for name in names)):
                factors = {n: along[n][i][0] for n, i in zip(names, chosen, strict=True)}
                rows = np.ones((1, 1))
                for place, (name, size) in enumerate(zip(along, cells, strict=True)):
                    at = chosen[names.index(name)] if name in names else -1
                    own = np.ones((1, cells[place])) if at < 0 else along[name][at][1]
                    assert own.shape[1] == size
                    rows = np.kron(rows, own)
                query = nz.Query(made.schema, factors)  # type: ignore[arg-type]
                estimate, variance = made.answer(query).estimate, made.variance(query)
                weights = np.full(len(variance), 1 / variance.sum())
                if any(chosen):
                    weights = rows.mean(axis=1) / rows.sum(axis=0).max() / variance
                parts.append((rows, estimate, weights))
    x = cp.Variable(int(np.prod(cells)), nonneg=True)
    loss = sum(cp.sum_squares(cp.multiply(np.sqrt(w), a @ x - e)) for a, e, w in parts)
    problem = cp.Problem(cp.Minimize(loss))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-12)
    assert problem.status == "optimal"
    return np.asarray(x.value)


SEX = [(nz.Identity(), np.eye(2))]


def test_counties_by_a_conic_solver() -> None:
    """Single ages were told by county: that is the table, and states count as sums."""
    made = release()
    county = [(nz.Level("county"), np.eye(6)), (nz.Level("state"), groups(STATE))]
    single = (nz.Identity(), np.eye(8))
    cells = {"geo": county, "age": [single], "sex": SEX}
    expected = nearest(made, cells)  # type: ignore[arg-type]
    for named in ([["county", "age", "sex"]], ["counties"], [made.plan.workload["counties"]]):
        valid = made.valid(tables=named)
        assert valid.schema.names == ("county", "age", "sex")
        found = valid.values("county", "age", "sex").ravel()
        assert (made.answer("counties").estimate < 0).any() and (found >= 0).all()
        np.testing.assert_allclose(found, expected, atol=1e-3)
        np.testing.assert_allclose(valid.answer("counties"), found)
        by_state = valid.answer(nz.Query(made.schema, ["state"]))
        np.testing.assert_allclose(by_state, groups(STATE) @ found.reshape(6, -1).sum(axis=1))


def test_bands_by_tract_by_a_conic_solver() -> None:
    made = release()
    tract = np.arange(60)
    of_county = tract // 10
    levels = [(nz.Level("tract"), np.eye(60)), (nz.Level("county"), groups(of_county))]
    levels.append((nz.Level("state"), groups(STATE[of_county])))
    cells = {"geo": levels, "age": [(BANDS, np.eye(2))], "sex": SEX}
    expected = nearest(made, cells)  # type: ignore[arg-type]
    valid = made.valid(tables=["tracts"])
    np.testing.assert_allclose(valid.values("tract", "age", "sex").ravel(), expected, atol=2e-3)
    columns = valid.columns("tract", "age", "sex")
    assert list(columns)[:4] == ["tract", "age", "sex", "valid"]
    assert list(columns["age"][:4]) == ["0 … 3", "0 … 3", "4 … 7", "4 … 7"]
    np.testing.assert_allclose(columns["estimate"], made.answer("tracts").estimate)
    assert valid.left_out() == ["counties", "places"]
    with pytest.raises(QueryError, match="'places' tells values apart that are one group"):
        valid.answer("places")


def test_whole_numbers_of_a_level_and_missing_places() -> None:
    """Who does not say the place is a row of every level."""
    made = release("not stated")
    valid = made.valid(tables=["counties"], integers=True)
    found = valid.values("county", "age", "sex")
    assert found.shape == (7, 8, 2) and found.dtype == np.int64 and (found >= 0).all()
    assert valid.columns("county")["county"][-1] == "not stated"
    assert found.sum() == valid.total


def test_refusals_name_calls_that_work() -> None:
    made = release()
    with pytest.raises(UnanswerableError) as refused:
        made.valid()
    told = str(refused.value).split("Name tables that are: ")[1]
    calls = [call.removeprefix(" or, for itself, ") for call in told.split(";")]
    assert calls[0] == "valid(tables=[['geo', 'sex']])"
    assert calls[1:] == ["valid(tables=['counties'])", "valid(tables=['tracts'])"]
    for call in calls:
        assert eval("made." + call, {"made": made}).changes.solved
    with pytest.raises(UnanswerableError, match=r"tables=\['tracts'\]"):
        made.valid(tables=[["tract", "age", "sex"]])
    with pytest.raises(PlanError, match=r"release.valid\(tables=\[…\]\)"):
        valid_answers(made)
    both = [nz.Query(made.schema, {"age": nz.Levels(n, leaves=False, total=False)}) for n in (2, 4)]
    with pytest.raises(QueryError, match="different ways"):
        made.valid(tables=both)
    with pytest.raises(QueryError, match="no table of cells"):
        made.valid(tables=[nz.Query(made.schema, {"age": nz.Prefix()})])


def test_the_commands(tmp_path: Path) -> None:
    """What a refusal of a command says can be typed."""
    made, folder = release(), tmp_path / "out"
    made.save(folder)
    refused = CliRunner().invoke(main, ["report", str(folder), "--valid"])
    said = " ".join(refused.output.split())
    assert refused.exit_code == 1 and '--table "counties"' in said and "valid(" not in said
    for number, table in enumerate(("counties", "county, age, sex", "tracts")):
        target = tmp_path / f"valid {number}"
        command = ["valid", str(folder), "-o", str(target), "--table", table, "--integers"]
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 0, done.output
        shown = f'noiseplan report {folder} --valid --table "{table}" shows what a table holds'
        assert shown in done.output
        level = "tract" if table == "tracts" else "county"
        assert f"{level} × age × sex" in (target / "index.csv").read_text("utf-8")
        assert json.loads((target / "changes.json").read_text("utf-8"))["solved"]
    page = tmp_path / "page.html"
    done = CliRunner().invoke(
        main, ["report", str(folder), "--valid", "--table", "counties", "-o", str(page)]
    )
    assert done.exit_code == 0, done.output
    assert "no valid table holds them: " in page.read_text("utf-8")
    alone = CliRunner().invoke(main, ["report", str(folder), "--table", "counties"])
    assert alone.exit_code == 2 and "add --valid" in alone.output


def test_a_report_names_a_command_that_works(tmp_path: Path) -> None:
    own = schema()
    bands = {"age": nz.Prefix(), "sex": [[1.0, 2.0]]}
    mixed = nz.plan(nz.Query(own, bands, name="mixed"), budget=nz.zCDP(0.05))
    plain = nz.plan(nz.Workload.marginals(own, k=1), budget=nz.zCDP(0.05))
    told = []
    for number, made in enumerate(
        [release(), *(plan.release(np.zeros(own.shape), seed=1) for plan in (plain, mixed))]
    ):
        folder, page = tmp_path / f"out {number}", tmp_path / f"page {number}.html"
        made.save(folder, tables=[])
        done = CliRunner().invoke(main, ["report", str(folder), "-o", str(page)])
        assert done.exit_code == 0, done.output
        assert "negative" in page.read_text("utf-8")
        found = re.findall("<code>(noiseplan valid .*?)</code>", page.read_text("utf-8"))
        told += [html.unescape(command) for command in found]
        for command in told[-len(found) :] if found else ():
            _, *typed = shlex.split(command)
            places = {"RELEASE": str(folder), "FOLDER": str(tmp_path / f"valid {number}")}
            done = CliRunner().invoke(main, [places.get(word, word) for word in typed])
            assert done.exit_code == 0, done.output
    assert told == [
        'noiseplan valid RELEASE -o FOLDER --table "geo, sex"',
        "noiseplan valid RELEASE -o FOLDER",
        "noiseplan valid RELEASE -o FOLDER",
    ]


def test_queries_go_to_groups_and_back() -> None:
    """A query over groups is the same rows over values."""
    own = schema()
    cells = CoarserCells(own, {"geo": nz.Level("county"), "age": BANDS})
    some = nz.Custom([[1.0, 2.0]], labels=["some"])
    for asked in ({"county": nz.Level("state")}, {"county": nz.Identity(), "age": some}):
        coarse = nz.Query(cells.schema, asked)
        fine = cells.of_values(coarse)
        counts = np.random.default_rng(0).poisson(2.0, own.shape).astype(float)
        grouped = np.einsum("gp,pas,ba->gbs", groups(COUNTY), counts, np.kron(np.eye(2), [1] * 4))
        np.testing.assert_allclose(fine.apply(counts), coarse.apply(grouped))
        again = cells.of_groups(fine)
        assert again is not None
        np.testing.assert_allclose(again.apply(grouped), coarse.apply(grouped))
    assert cells.of_groups(nz.Query(own, ["tract"])) is None
    assert cells.of_groups(nz.Query(own, ["age"])) is None
