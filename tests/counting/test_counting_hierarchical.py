"""Hierarchical attributes are counted by their leaves, in every engine, however many they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from numpy.typing import NDArray

from noiseplan.counting import ibis_tables, open_source
from noiseplan.errors import DataRefused
from noiseplan.schema import Categorical, Hierarchical, Schema

# As the tests of Ibis and Spark have them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The 'future.infer_string'"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"),
]

CODES = [f"{i:03d}" for i in range(40)]
GEO = Hierarchical.from_codes(CODES, {"county": 2, "state": 1}, leaf="tract")
RNG = np.random.default_rng(5)
PLACES = RNG.integers(0, len(CODES), 300)
SEXES = RNG.integers(0, 2, 300)
COLUMNS = {"geo": [CODES[i] for i in PLACES], "sex": ["FM"[i] for i in SEXES]}
KINDS = [
    "csv",
    "parquet",
    "relation",
    "pandas",
    "polars",
    "lazy",
    "arrow",
    "arrays",
    "ibis",
    "spark",
]


@pytest.fixture(params=[False, True], ids=["few", "many"])
def many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As attributes of a million leaves are counted."""
    if request.param:
        monkeypatch.setattr("noiseplan.counting.expressions.MANY", 3)
        monkeypatch.setattr(ibis_tables, "MANY", 3)


def opened(kind: str, columns: dict[str, list[Any]], path: Path, request: Any) -> object:
    table = pa.table(columns)
    if kind in ("csv", "parquet"):
        file = path / f"people.{kind}"
        if kind == "csv":
            pd.DataFrame(columns).to_csv(file, index=False)
        else:
            pyarrow.parquet.write_table(table, file)
        return file
    if kind == "ibis":
        database = request.getfixturevalue("ibis").sqlite.connect()
        return database.create_table("people", table, overwrite=True)
    if kind == "spark":
        return request.getfixturevalue("spark").createDataFrame(table)
    made = {
        "relation": lambda: duckdb.from_arrow(table),
        "pandas": lambda: pd.DataFrame(columns),
        "polars": lambda: pl.DataFrame(columns),
        "lazy": lambda: pl.LazyFrame(columns),
        "arrow": lambda: table,
        "arrays": lambda: {name: np.array(values) for name, values in columns.items()},
    }
    return made[kind]()


def counts(places: NDArray[Any], size: int) -> list[list[int]]:
    table = np.zeros((size, 2), dtype=int)
    np.add.at(table, (places, SEXES), 1)
    return table.tolist()


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("kind", KINDS)
def test_leaves_are_counted(kind: str, tmp_path: Path, request: Any) -> None:
    schema = Schema({"geo": GEO, "sex": Categorical(["F", "M"])})
    source = open_source(opened(kind, COLUMNS, tmp_path, request), schema, details=True)
    assert source.marginals(np.array([[0, 1]]))[0].tolist() == counts(PLACES, 40)


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("kind", KINDS)
def test_other_values_are_refused_or_caught(kind: str, tmp_path: Path, request: Any) -> None:
    """The group of a leaf is no leaf, and "7" is not "007"."""
    wrong = {"geo": [*COLUMNS["geo"][:-3], "00", "7", None], "sex": COLUMNS["sex"]}
    data = opened(kind, wrong, tmp_path, request)
    with pytest.raises(DataRefused, match=r"'geo' holds values .*3 levels"):
        source = open_source(data, Schema({"geo": GEO, "sex": Categorical(["F", "M"])}))
        source.marginals(np.array([[0, 1]]))
    other = Hierarchical.from_codes(CODES, {"county": 2, "state": 1}, leaf="tract", other="?")
    source = open_source(data, Schema({"geo": other, "sex": Categorical(["F", "M"])}))
    expected = np.append(PLACES[:-3], [40, 40, 40])
    assert source.marginals(np.array([[0, 1]]))[0].tolist() == counts(expected, 41)


@pytest.mark.grid
@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", [None, "?"])
def test_missing_values_have_their_cell(
    kind: str, other: str | None, tmp_path: Path, request: Any
) -> None:
    """None and the name of the cell itself; what else is not declared is refused or caught."""
    geo = Hierarchical.from_codes(
        CODES, {"county": 2, "state": 1}, leaf="tract", other=other, missing="not stated"
    )
    schema = Schema({"geo": geo, "sex": Categorical(["F", "M"])})
    gone = {"geo": [*COLUMNS["geo"][:-3], None, "not stated", None], "sex": COLUMNS["sex"]}
    source = open_source(opened(kind, gone, tmp_path, request), schema)
    expected = np.append(PLACES[:-3], [geo.size - 1] * 3)
    assert source.marginals(np.array([[0, 1]]))[0].tolist() == counts(expected, geo.size)
    wrong = {"geo": [*COLUMNS["geo"][:-2], None, "00"], "sex": COLUMNS["sex"]}
    (tmp_path / "wrong").mkdir()
    data = opened(kind, wrong, tmp_path / "wrong", request)
    if other is None:
        with pytest.raises(DataRefused, match="'geo' holds values"):
            open_source(data, schema).marginals(np.array([[0, 1]]))
    else:
        expected = np.append(PLACES[:-2], [41, 40])
        found = open_source(data, schema).marginals(np.array([[0, 1]]))[0]
        assert found.tolist() == counts(expected, 42)


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("name", ["label", "code", "declared", "noiseplan: code "])
def test_columns_called_as_a_table_of_labels_might_be(name: str) -> None:
    schema = Schema({name: GEO})
    relation = duckdb.from_arrow(pa.table({name: COLUMNS["geo"]}))
    found = open_source(relation, schema).marginals(np.array([[0]]))[0]
    assert found.tolist() == np.bincount(PLACES, minlength=40).tolist()
