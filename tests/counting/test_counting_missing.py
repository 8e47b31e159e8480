"""A declared cell for missing values: the same counts from every kind of data, end to end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import noiseplan as nz
from noiseplan.counting import open_source
from noiseplan.errors import DataError

pytestmark = [
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The 'future.infer_string'"),  # of Ibis on SQLite
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # of Spark
]

EDGES = [0, 10, 20, 50, 100]
SCHEMA = nz.Schema(
    {
        "income": nz.Binned(EDGES, missing="not stated"),
        "age": nz.Ordinal(range(18, 30), missing="not known"),
        "sex": nz.Categorical(["F", "M"], other="another", missing="refused"),
    }
)


def survey(rows: int = 4000) -> dict[str, list[Any]]:
    """14 % of the incomes are missing, and some of everything else."""
    rng = np.random.default_rng(16)
    income = rng.uniform(0, 100, rows).round(1).tolist()
    age = rng.integers(18, 30, rows).tolist()
    sex = rng.choice(["F", "M", "x"], rows).tolist()
    for column, share in ((income, 0.14), (age, 0.05), (sex, 0.02)):
        for row in np.flatnonzero(rng.random(rows) < share).tolist():
            column[row] = None
    return {"income": income, "age": age, "sex": sex}


COLUMNS = survey()


def expected() -> list[list[int]]:
    """Counted value by value, knowing nothing of the attributes' own code."""
    bins, ages, sexes = [0] * 5, [0] * 13, [0] * 4
    for income, age, sex in zip(*COLUMNS.values(), strict=True):
        bins[4 if income is None else sum(income >= edge for edge in EDGES[1:-1])] += 1
        ages[12 if age is None else age - 18] += 1
        sexes[{"F": 0, "M": 1, "x": 2, None: 3}[sex]] += 1
    return [bins, ages, sexes]


def as_file(kind: str, folder: Path) -> str:
    path = str(folder / f"people.{kind}")
    getattr(pl.DataFrame(COLUMNS), f"write_{kind}")(path)
    return path


def nullable() -> pd.DataFrame:
    return pd.DataFrame(COLUMNS).convert_dtypes()


def masked() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, values in COLUMNS.items():
        gone = [value is None for value in values]
        filled = [("" if name == "sex" else 0) if value is None else value for value in values]
        found[name] = np.ma.MaskedArray(np.array(filled), mask=gone)
    return found


def relation() -> duckdb.DuckDBPyRelation:
    connection = duckdb.connect()
    connection.register("people", pa.table(COLUMNS))
    return connection.sql("FROM people")


SOURCES: dict[str, Callable[[Path], Any]] = {
    "mapping": lambda _: COLUMNS,
    "masked arrays": lambda _: masked(),
    "csv": lambda folder: as_file("csv", folder),
    "parquet": lambda folder: as_file("parquet", folder),
    "pandas": lambda _: pd.DataFrame(COLUMNS),
    "pandas nullable": lambda _: nullable(),
    "polars": lambda _: pl.DataFrame(COLUMNS),
    "polars lazy": lambda _: pl.DataFrame(COLUMNS).lazy(),
    "pyarrow": lambda _: pa.table(COLUMNS),
    "duckdb": lambda _: relation(),
}


def check_release(data: object) -> None:
    """Counts by name, and a release whose sums up to a value leave the missing out."""
    bins, ages, sexes = expected()
    assert 0.12 < bins[4] / sum(bins) < 0.16
    source = open_source(data, SCHEMA, details=True)
    assert [source.marginals(np.array([[place]]))[0].tolist() for place in range(3)] == [
        bins,
        ages,
        sexes,
    ]
    asked = nz.Workload(
        [
            nz.Query(SCHEMA, {"income": nz.Prefix()}, name="up to"),
            nz.Query(SCHEMA, ["income"]),
            nz.Query(SCHEMA, {"age": nz.Ranges()}),
        ]
    ) + nz.Workload.predicates(
        SCHEMA, ["income < 20", "income is null", "not income < 20", "sex != 'F'"]
    )
    release = nz.plan(asked, budget=nz.zCDP(1e8)).release(data)  # so faint that counts are exact

    def counted(name: str) -> list[int]:
        return release.answer(asked[name]).estimate.round().astype(int).tolist()  # type: ignore[no-any-return]

    assert counted("up to") == np.cumsum(bins[:4]).tolist()
    assert counted("income") == bins
    assert counted("income < 20") == [bins[0] + bins[1]]
    assert counted("not income < 20") == [bins[2] + bins[3]]
    assert counted("income is null") == [bins[4]]
    assert counted("sex != 'F'") == [sexes[1] + sexes[2]]
    assert counted("ranges(age)")[-1] == sum(ages[:12])
    assert release.answer(asked["income"]).columns()["income"][-1] == "not stated"


@pytest.mark.parametrize("kind", SOURCES)
def test_missing_incomes_have_their_cell(kind: str, tmp_path: Path) -> None:
    check_release(SOURCES[kind](tmp_path))


def test_missing_incomes_in_spark(spark: Any) -> None:
    kinds = "income double, age int, sex string"
    check_release(spark.createDataFrame(list(zip(*COLUMNS.values(), strict=True)), kinds))


@pytest.mark.parametrize("database", ["duckdb", "sqlite"])
def test_missing_incomes_through_ibis(ibis: Any, database: str) -> None:
    connection = getattr(ibis, database).connect()
    check_release(connection.create_table("people", pa.table(COLUMNS)))


def test_missing_incomes_in_postgres(postgres: Any) -> None:
    check_release(postgres.create_table("gone", pa.table(COLUMNS), overwrite=True))


def test_a_cell_catches_missing_values_and_no_others() -> None:
    schema = nz.Schema({"income": SCHEMA["income"]})
    for wrong in ("much", 101.0, -1):
        with pytest.raises(DataError, match="does not declare"):
            open_source({"income": [5.0, wrong]}, schema)
    named = open_source({"income": [5.0, "not stated", np.nan]}, schema)
    assert named.marginals(np.array([[0]]))[0].tolist() == [1, 0, 0, 0, 2]
