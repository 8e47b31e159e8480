"""What is asked of valid tables and answers: large queries, names, and what is no such thing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import DataError, PlanError, QueryError, StorageError
from noiseplan.valid import ValidAnswers, clipped_answer, valid_answers, valid_tables

SCHEMA = nz.Schema.from_sizes({"a": 3, "b": 2})


def release() -> nz.Release:
    table = nz.NoisyTable(["a", "b"], [[9, 7], [4, -2], [1, 0]], 2.0)
    return nz.from_noisy_tables(SCHEMA, [table])


def test_large_queries_are_answered_without_their_matrix() -> None:
    """All ranges of 1,024 cells have 537 million coefficients."""
    schema = nz.Schema({"a": nz.Ordinal(range(1024))})
    counts = np.random.default_rng(1).poisson(2.0, 1024).astype(float)
    made = nz.from_noisy_tables(schema, [nz.NoisyTable(["a"], counts, 1.0)])
    query = nz.Query(schema, {"a": nz.Ranges()})
    found = ValidAnswers(made, counts, "hybrid").answer(query)
    sums = np.r_[0.0, np.cumsum(counts)]
    every = [sums[i + 1 :] - sums[i] for i in range(1024)]
    assert np.sort(found) == pytest.approx(np.sort(np.concatenate(every)))


@pytest.mark.parametrize(
    "query",
    [
        nz.Query(SCHEMA, {"a": nz.Ranges(), "b": nz.Identity()}),
        nz.Query(SCHEMA, {"b": nz.Prefix()}),
        nz.Query(SCHEMA, ["a"], matrix=[[1.0, -1.0, 0.0], [-1.0, -2.0, 0.0], [0.0, 1.0, 1.0]]),
        nz.Query(SCHEMA, []),
    ],
)
def test_answers_and_their_bounds_are_those_of_the_whole_matrix(query: nz.Query) -> None:
    made = valid_answers(release())
    rows = query.dense()
    assert made.answer(query) == pytest.approx(rows @ made.counts.ravel())
    clipped = clipped_answer(release(), query)
    assert clipped.least.tolist() == np.where((rows >= 0).all(axis=1), 0.0, -np.inf).tolist()
    assert clipped.most.tolist() == np.where((rows <= 0).all(axis=1), 0.0, np.inf).tolist()


def test_clipping_needs_no_domain() -> None:
    schema = nz.Schema.from_sizes({f"x{i}": 10 for i in range(9)})
    made = nz.from_noisy_tables(schema, [nz.NoisyTable(["x0"], np.arange(-3.0, 7.0), 1.0)])
    found = clipped_answer(made, nz.Query(schema, ["x0"]))
    assert found.valid == pytest.approx(np.maximum(np.arange(-3.0, 7.0), 0), abs=1e-9)
    assert found.valid.min() == 0


def test_queries_by_name() -> None:
    made = release()
    (name,) = (query.name for query in made.plan.workload)
    valid = made.valid()
    assert valid.answer(name).tolist() == valid.values("a", "b").ravel().tolist()
    with pytest.raises(QueryError, match="no query is called 'b'"):
        valid.answer("b")
    with pytest.raises(QueryError, match="a query is a Query"):
        valid.answer(3)  # type: ignore[arg-type]


def test_only_releases_are_made_valid() -> None:
    wrong: Any = 3
    for call in (valid_answers, valid_tables):
        with pytest.raises(QueryError, match="release"):
            call(wrong)
    with pytest.raises(QueryError, match="release"):
        clipped_answer(wrong, "a")


def test_one_table_by_its_name() -> None:
    assert release().valid(tables="a").names == [(), ("a",)]


def test_attributes_that_are_called_like_columns(tmp_path: Path) -> None:
    schema = nz.Schema(
        {"valid": nz.Categorical(["x", "y"]), "estimate": nz.Categorical(["u", "v"])}
    )
    table = nz.NoisyTable(["valid", "estimate"], [[9, 7], [4, -2]], 2.0)
    made = nz.from_noisy_tables(schema, [table])
    columns = valid_answers(made).columns(nz.Query(schema, ["valid", "estimate"]))
    assert columns["valid (attribute)"] == ["x", "x", "y", "y"]
    assert np.asarray(columns["valid"]).tolist() == valid_answers(made).counts.ravel().tolist()
    for name in schema.names:
        assert made.valid().draw(name, tmp_path / f"{name}.svg").exists()


@pytest.mark.parametrize(
    ("asked", "error", "what"),
    [
        ({"rows": 2.7}, PlanError, "rows is a whole number"),
        ({"rows": True}, PlanError, "rows is a whole number"),
        ({"seed": -1}, PlanError, "a seed is a whole number from 0"),
        ({"seed": 2**40}, PlanError, "a seed is a whole number from 0"),
        ({"seed": "1"}, PlanError, "a seed is a whole number from 0"),
        ({"path": "missing/folder/x.csv"}, StorageError, "there is no folder 'missing/folder'"),
    ],
)
def test_made_up_records_are_refused_before_they_are_fitted(
    asked: dict[str, Any], error: type[Exception], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("fitted")

    monkeypatch.setattr("noiseplan.valid.microdata._modelling", never)
    with pytest.raises(error, match=what):
        release().microdata(**asked)


def test_files_say_what_they_are_made_of(tmp_path: Path) -> None:
    valid = release().valid(total=20)
    valid.save(tmp_path / "v", tables=["a"])
    told = json.loads((tmp_path / "v" / "changes.json").read_text(encoding="utf-8"))
    assert (told["biased"], told["total"], told["public"]) == (True, 20.0, [[]])
    assert [path.suffix for path in sorted((tmp_path / "v").glob("1-*"))] == [".csv", ".parquet"]
    with pytest.raises(StorageError, match="these are valid tables"):
        nz.load(tmp_path / "v")
    with pytest.raises(StorageError, match="there is no folder"):
        valid.draw("a", tmp_path / "missing" / "a.svg")


def test_cells_are_impossible_or_not() -> None:
    halves = np.full((3, 2), 0.5)
    with pytest.raises(DataError, match="true, or 1, where no record can be"):
        release().valid(impossible={("a", "b"): halves})
    found = release().valid(total=20, impossible={("a", "b"): [[1.0, 0.0]] * 3})
    assert not found.values("a", "b")[:, 0].any()


def test_valid_tables_of_rows_that_are_too_many_to_be_compared() -> None:
    """They were refused, with tables to name instead that were refused too."""
    schema = nz.Schema.from_sizes({"a": 66, "b": 66, "c": 3})
    both = nz.Query(schema, {"a": nz.Prefix(), "b": nz.Prefix()})
    asked = nz.Workload([both, nz.Query(schema, ["c"])])
    plan = nz.plan(asked, budget=nz.zCDP(0.5), planner="workload")
    assert "need not agree" in str(plan)
    made = plan.release({name: [0, 1, 2, 1] * 99 for name in "abc"}, seed=4)
    for tables in ([["c"]], ["a"], [["a"], ["b"], ["c"]]):
        valid = made.valid(tables=tables)
        total = float(np.sum(valid.answer(nz.Query(schema, []))))
        for one in valid.tables:
            found = np.asarray(valid.tables[one])
            assert (found >= 0).all() and found.sum() == pytest.approx(total)
