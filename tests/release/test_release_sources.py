"""One release from every kind of data: the same answers, frames of the library that came in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import noiseplan as nz
from noiseplan.counting.tensor import CountTensor
from noiseplan.errors import DataError

SCHEMA = nz.Schema(
    {
        "age": nz.Ordinal(range(5)),
        "sex": nz.Categorical(["F", "M"]),
        "income": nz.Binned([0, 10, 20, 50]),
    }
)
ROWS = 300


@pytest.fixture(scope="module")
def columns() -> dict[str, list[Any]]:
    rng = np.random.default_rng(11)
    return {
        "age": rng.integers(0, 5, ROWS).tolist(),
        "sex": rng.choice(["F", "M"], ROWS).tolist(),
        "income": rng.uniform(0, 50, ROWS).round(1).tolist(),
    }


@pytest.fixture(scope="module")
def counts(columns: dict[str, list[Any]]) -> np.ndarray:
    """By hand: one record at a time."""
    tensor = np.zeros((5, 2, 3), dtype=int)
    for age, sex, income in zip(*columns.values(), strict=True):
        tensor[age, "FM".index(sex), 0 if income < 10 else 1 if income < 20 else 2] += 1
    return tensor


@pytest.fixture(scope="module")
def plan() -> nz.Plan:
    queries = [
        nz.Query(SCHEMA, {"age": nz.Prefix(), "sex": nz.Identity()}),
        nz.Query(SCHEMA, ["income"]),
        nz.Query(SCHEMA, ["age", "income"], matrix=np.eye(3, 15), name="a few cells"),
    ]
    return nz.plan(nz.Workload(queries), budget=nz.zCDP(0.5))


Columns = dict[str, list[Any]]


def structured(columns: Columns) -> np.ndarray:
    rows = list(zip(*columns.values(), strict=True))
    return np.array(rows, dtype=[("age", int), ("sex", "U1"), ("income", float)])


def codes(columns: Columns) -> np.ndarray:
    income = np.digitize(columns["income"], [10, 20])
    return np.column_stack([columns["age"], ["FM".index(s) for s in columns["sex"]], income])


def parquet(columns: Columns, folder: Path) -> Path:
    pq.write_table(pa.table(columns), folder / "people.parquet")
    return folder / "people.parquet"


def csv(columns: Columns, folder: Path) -> str:
    pd.DataFrame(columns).to_csv(folder / "people.csv", index=False)
    return str(folder / "people.csv")


SOURCES: dict[str, tuple[Callable[[Columns, Path], Any], str]] = {
    "pandas": (lambda c, _: pd.DataFrame(c), "pandas"),
    "polars": (lambda c, _: pl.DataFrame(c), "polars"),
    "polars, lazy": (lambda c, _: pl.LazyFrame(c), "polars"),
    "pyarrow": (lambda c, _: pa.table(c), "pyarrow"),
    "parquet": (parquet, ""),
    "csv": (csv, ""),
    "duckdb": (lambda c, _: duckdb.from_arrow(pa.table(c)), ""),
    "mapping of lists": (lambda c, _: c, ""),
    "mapping of arrays": (lambda c, _: {k: np.array(v) for k, v in c.items()}, ""),
    "structured array": (lambda c, _: structured(c), ""),
    "codes": (lambda c, _: codes(c), ""),
}
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}


@pytest.mark.parametrize("name", SOURCES)
def test_the_same_answers_from_every_source(
    name: str, columns: Columns, counts: np.ndarray, plan: nz.Plan, tmp_path: Path
) -> None:
    make, library = SOURCES[name]
    release = plan.release(make(columns, tmp_path), seed=7)
    for same in (counts, CountTensor(SCHEMA, counts)):
        expected = plan.release(same, seed=7)
        for query in plan.workload:
            np.testing.assert_allclose(
                release.answer(query).estimate, expected.answer(query).estimate, rtol=0, atol=1e-9
            )
    assert isinstance(release.table("age"), FRAMES[library or "pandas"])


def test_answers_are_near_the_truth(counts: np.ndarray, plan: nz.Plan) -> None:
    """Six standard errors: a wrong order of columns or values would be far outside."""
    release = plan.release(counts, seed=1)
    for query in plan.workload:
        answer = release.answer(query)
        exact = query.dense() @ counts.ravel()
        assert (np.abs(answer.estimate - exact) < 6 * answer.std_error).all()


@pytest.mark.parametrize("library", FRAMES)
def test_a_table_in_any_library(library: str, counts: np.ndarray, plan: nz.Plan) -> None:
    release = plan.release(counts, seed=1)
    frame = release.table("age", "sex", frame=library, level=0.9)
    assert isinstance(frame, FRAMES[library])
    table = (
        frame.to_pydict() if library == "pyarrow" else {n: list(frame[n]) for n in frame.columns}
    )
    assert list(table) == ["age", "sex", "estimate", "std_error", "lower", "upper"]
    assert table["age"] == [age for age in range(5) for _ in "FM"]
    assert table["sex"] == ["F", "M"] * 5
    answer = release.answer(nz.Query(SCHEMA, ["age", "sex"]), level=0.9)
    for column in ("estimate", "std_error", "lower", "upper"):
        np.testing.assert_array_equal(table[column], getattr(answer, column))


def test_labels_of_other_factors(counts: np.ndarray, plan: nz.Plan) -> None:
    release = plan.release(counts, seed=1)
    frame = release.answer(plan.workload[0]).frame("pandas")
    assert frame["age"].tolist()[:4] == ["≤ 0", "≤ 0", "≤ 1", "≤ 1"]
    dense = release.answer(plan.workload["a few cells"]).frame("pandas")
    assert dense["row"].tolist() == [0, 1, 2]
    total = release.table(frame="pandas")
    assert total.columns.tolist() == ["estimate", "std_error", "lower", "upper"]
    assert len(total) == 1


def test_data_that_does_not_fit_is_refused_before_anything_is_released(plan: nz.Plan) -> None:
    with pytest.raises(DataError, match="'income'"):
        plan.release(pd.DataFrame({"age": [1], "sex": ["F"]}))
    with pytest.raises(DataError, match="'sex'"):
        plan.release({"age": [1], "sex": ["X"], "income": [3.0]})
    with pytest.raises(DataError, match="cannot count a int"):
        plan.release(42)


def test_no_records_at_all(plan: nz.Plan) -> None:
    """An empty table is data like any other: its answers are noise around zero."""
    with pytest.warns(RuntimeWarning, match="the data hold no records"):
        release = plan.release({"age": [], "sex": [], "income": []}, seed=3)
    zeros = plan.release(np.zeros((5, 2, 3), dtype=int), seed=3)
    for query in plan.workload:
        np.testing.assert_allclose(release.answer(query).estimate, zeros.answer(query).estimate)
