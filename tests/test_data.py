"""The shipped survey is what its description and its schema say."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from noiseplan.data import cpssw8_path, cpssw8_schema


def _column(name: str) -> list[Any]:
    return [row[0] for row in _survey().project(name).fetchall()]


def _survey() -> duckdb.DuckDBPyRelation:
    return duckdb.read_parquet(str(cpssw8_path()))


def test_rows_and_columns() -> None:
    survey = _survey()
    assert survey.columns == ["gender", "age", "region", "education", "earnings"]
    assert survey.aggregate("count(*)").fetchall() == [(61_395,)]


def test_small_file() -> None:
    assert cpssw8_path().stat().st_size < 250_000


def test_no_value_is_missing() -> None:
    present = ", ".join(f"count({name})" for name in _survey().columns)
    assert _survey().aggregate(present).fetchall() == [(61_395,) * 5]


@pytest.mark.parametrize(
    ("column", "low", "high"),
    [("age", 21, 64), ("education", 6, 20), ("earnings", 2.003205, 72.115387)],
)
def test_ranges(column: str, low: float, high: float) -> None:
    found = _survey().aggregate(f"min({column}), max({column})").fetchall()[0]
    assert found == pytest.approx((low, high), abs=1e-6)


def test_counts_by_gender_and_region() -> None:
    def counts(column: str) -> dict[str, int]:
        return dict(_survey().aggregate(f"{column}, count(*)").fetchall())

    assert counts("gender") == {"female": 27_047, "male": 34_348}
    assert counts("region") == {
        "Northeast": 12_371,
        "Midwest": 15_136,
        "South": 18_963,
        "West": 14_925,
    }


def test_schema_declares_the_columns_in_order() -> None:
    schema = cpssw8_schema()
    assert list(schema) == _survey().columns
    assert schema.shape == (2, 44, 4, 12, 16)
    assert schema.size == 67_584


@pytest.mark.parametrize("column", ["gender", "age", "region", "education", "earnings"])
def test_every_value_is_covered(column: str) -> None:
    codes = cpssw8_schema()[column].encode(_column(column))
    assert codes.min() >= 0


def test_every_category_occurs() -> None:
    schema = cpssw8_schema()
    for column in ("gender", "age", "region", "education"):
        assert set(_column(column)) == set(schema[column].labels)
