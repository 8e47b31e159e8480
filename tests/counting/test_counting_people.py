"""Contribution bounding: no person counts more than the cap, and who is chosen is chance."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import noiseplan as nz
from noiseplan.counting import CountTensor, Records, count_tables, open_source, records
from noiseplan.counting.database import stream_from_relation
from noiseplan.counting.person_cap import PersonCap
from noiseplan.errors import DataError, PlanError
from noiseplan.schema import Schema

PERSONS, ROWS, CAP = 1200, 5, 2
# Every person's records are told apart by `visit`, and the persons by the pair (high, low).
SCHEMA = Schema.from_sizes({"visit": ROWS, "high": 40, "low": 30})


@pytest.fixture(autouse=True)
def seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same choices every time; a fresh key for every opening all the same."""
    monkeypatch.setattr(os, "urandom", np.random.default_rng(3).bytes)


def visits(ids: Callable[[int], Any] = lambda n: f"p{n}") -> dict[str, list[Any]]:
    """Five records for each person, all persons mixed; the first persons have fewer."""
    rows = [(n, visit) for n in range(PERSONS) for visit in range(n if n < ROWS else ROWS)]
    order = np.random.default_rng(0).permutation(len(rows)).tolist()
    mixed = [rows[place] for place in order]
    return {
        "id": [ids(n) for n, _ in mixed],
        "visit": [visit for _, visit in mixed],
        "high": [n // 30 for n, _ in mixed],
        "low": [n % 30 for n, _ in mixed],
    }


def write_csv(path: Path) -> Path:
    pl.DataFrame(visits()).write_csv(path / "visits.csv")
    return path / "visits.csv"


def write_parquet(path: Path) -> Path:
    pl.DataFrame(visits()).write_parquet(path / "visits.parquet")
    return path / "visits.parquet"


def relation() -> duckdb.DuckDBPyRelation:
    connection = duckdb.connect()
    connection.register("visits", pa.table(visits()))
    return connection.sql("FROM visits")


SOURCES: dict[str, Callable[[Path], Any]] = {
    "mapping": lambda _: visits(),
    "numbers": lambda _: {name: np.array(v) for name, v in visits(lambda n: n).items()},
    "pandas": lambda _: pd.DataFrame(visits()),
    "pandas categories": lambda _: pd.DataFrame(visits()).astype({"id": "category"}),
    "polars": lambda _: pl.DataFrame(visits()),
    "polars lazy": lambda _: pl.DataFrame(visits(lambda n: n)).lazy(),
    "pyarrow": lambda _: pa.table(visits()),
    "pyarrow reader": lambda _: pa.table(visits()).to_reader(max_chunksize=77),
    "pyarrow dataset": lambda path: pyarrow.dataset.dataset(write_parquet(path)),
    "relation": lambda _: relation(),
    "csv": write_csv,
    "parquet": write_parquet,
}


def chosen_visits(table: NDArray[Any]) -> list[tuple[int, ...]]:
    """Of every person the visits that were counted, with repetition."""
    people = table.reshape(ROWS, PERSONS).T
    return [tuple(np.repeat(np.arange(ROWS), row).tolist()) for row in people]


@pytest.mark.parametrize("kind", SOURCES)
def test_a_person_counts_at_most_the_cap_and_every_subset_is_alike_likely(
    kind: str, tmp_path: Path
) -> None:
    source = open_source(SOURCES[kind](tmp_path), SCHEMA, person="id", cap=CAP)
    assert getattr(source, "max_rows", None) == CAP
    chosen = chosen_visits(source.marginals(np.array([[0, 1, 2]]))[0])
    for n, found in enumerate(chosen):
        assert len(found) == min(n, CAP) == len(set(found))
        if n <= CAP:
            assert found == tuple(range(n))
    subsets = Counter(chosen[ROWS:])
    assert set(subsets) <= set(combinations(range(ROWS), CAP))
    # χ² with 9 degrees of freedom is above 56 once in 10⁸ draws.
    expected = (PERSONS - ROWS) / comb(ROWS, CAP)
    assert sum((subsets[s] - expected) ** 2 / expected for s in combinations(range(5), 2)) < 56


@pytest.mark.parametrize("kind", ["csv", "parquet", "relation"])
def test_every_pass_chooses_the_same_records(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "_KEPT_BYTES", 0)
    source = open_source(SOURCES[kind](tmp_path), SCHEMA, person="id", cap=CAP)
    first, second = (source.marginals(np.array([[0, 1, 2]])) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    again = open_source(SOURCES[kind](tmp_path), SCHEMA, person="id", cap=CAP)
    assert (again.marginals(np.array([[0, 1, 2]])) != first).any()


def test_the_order_of_records_does_not_change_what_an_engine_chooses() -> None:
    schema = Schema.from_sizes({"visit": 3, "high": 40})
    rows = [(n % 50, n % 3, n % 7) for n in range(2000)]  # with many equal records
    tables = []
    for order in (range(2000), np.random.default_rng(1).permutation(2000).tolist()):
        columns = list(zip(*(rows[n] for n in order), strict=True))
        connection = duckdb.connect()
        table = pa.table({name: columns[n] for n, name in enumerate(("id", "visit", "high"))})
        connection.register("visits", table)
        people = PersonCap("id", 7, key=bytes(32))
        stream = stream_from_relation(connection.sql("FROM visits"), schema, people)
        tables.append(stream.marginals([[0, 1]]))
        assert tables[-1].sum() == 50 * 7
    np.testing.assert_array_equal(*tables)


@pytest.mark.parametrize("kind", ["mapping", "polars", "csv", "relation"])
def test_one_record_by_default(kind: str, tmp_path: Path) -> None:
    source = open_source(SOURCES[kind](tmp_path), SCHEMA, person="id")
    counted = count_tables(source, [[[1, 2]], [[0]]])
    people = counted.marginals(np.array([[1, 2]]))[0].ravel()
    assert people.tolist() == [0] + [1] * (PERSONS - 1)
    assert counted.marginals(np.array([[0]])).sum() == PERSONS - 1


@pytest.mark.parametrize("kind", ["mapping", "pandas", "polars", "pyarrow reader", "relation"])
def test_records_of_nobody_are_refused(kind: str, tmp_path: Path) -> None:
    columns = visits()
    columns["id"][3] = columns["id"][4] = None
    made: dict[str, Callable[[], Any]] = {
        "mapping": lambda: columns,
        "pandas": lambda: pd.DataFrame(columns),
        "polars": lambda: pl.DataFrame(columns),
        "pyarrow reader": lambda: pa.table(columns).to_reader(),
        "relation": lambda: duckdb.from_arrow(pa.table(columns)),
    }
    with pytest.raises(DataError, match=r"person column 'id': 2 of 5985 rows are null"):
        open_source(made[kind](), SCHEMA, person="id", details=True).marginals(np.array([[0]]))
    with pytest.raises(DataError, match=r"person column 'id': some rows are null") as plain:
        open_source(made[kind](), SCHEMA, person="id").marginals(np.array([[0]]))
    assert "5985" not in str(plain.value)


@pytest.mark.parametrize("kind", ["mapping", "polars", "csv"])
def test_records_that_are_not_chosen_must_fit_the_schema_too(kind: str, tmp_path: Path) -> None:
    columns = visits()
    columns["visit"][11] = 77
    made: dict[str, Callable[[], Any]] = {
        "mapping": lambda: columns,
        "polars": lambda: pl.DataFrame(columns).lazy(),
        "csv": lambda: pl.DataFrame(columns).write_csv(tmp_path / "v.csv") or tmp_path / "v.csv",
    }
    with pytest.raises(DataError, match=r"column 'visit': 1 of 5985 rows .*77"):
        open_source(made[kind](), SCHEMA, person="id", details=True).marginals(np.array([[0]]))


@pytest.mark.parametrize(
    ("person", "cap", "words"),
    [
        (None, 3, r'cap=3 needs the column .*person="id", cap=3'),
        ("id", 0, "at least 1 record of a person is counted, got 0"),
        ("id", 1.5, "cap: 1.5 is no whole number"),
        ("id", True, "cap: True is no whole number"),
        (7, 1, "person: 7 is no name of a column"),
        ("who", 1, "lack the person column 'who'; they have 'id', 'visit'"),
    ],
)
@pytest.mark.parametrize("kind", ["mapping", "pandas", "csv", "pyarrow reader", "relation"])
def test_what_is_declared_is_checked(
    kind: str, person: Any, cap: Any, words: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=words):
        open_source(SOURCES[kind](tmp_path), SCHEMA, person=person, cap=cap)


def test_codes_and_counts_know_no_persons() -> None:
    schema = Schema.from_sizes({"a": 2, "b": 2, "c": 2})
    for data in (np.zeros((4, 3), dtype=int), np.zeros((2, 2, 2), dtype=int)):
        with pytest.raises(DataError, match=r"do not say whose .* person='id'"):
            open_source(data, schema, person="id")
    opened = (Records(schema, [[0], [0], [0]]), CountTensor(schema, np.zeros((2, 2, 2))))
    for source in opened:
        with pytest.raises(DataError, match="open already do not say whose"):
            open_source(source, schema, person="id")


def test_persons_are_plain_values() -> None:
    data = {"a": [0, 1], "id": [[1], [2, 3]]}
    with pytest.raises(DataError, match="person column 'id': persons are told apart by plain"):
        open_source(data, Schema.from_sizes({"a": 2}), person="id")


def test_a_plan_for_one_record_refuses_data_with_more() -> None:
    plan = nz.plan(nz.Workload.marginals(SCHEMA, k=1), budget=nz.zCDP(0.5))
    plan.release(open_source(visits(), SCHEMA, person="id"), seed=1)
    with pytest.raises(PlanError, match=r"up to 2 records of one person.* open the data with"):
        plan.release(open_source(visits(), SCHEMA, person="id", cap=2), seed=1)


def test_no_records() -> None:
    empty: dict[str, list[Any]] = {"a": [], "id": []}
    for data in (empty, pl.DataFrame(empty, schema={"a": pl.Int64, "id": pl.String})):
        source = open_source(data, Schema.from_sizes({"a": 2}), person="id", cap=3)
        assert source.marginals(np.array([[0]])).tolist() == [[0, 0]]


def test_keys_are_fresh_and_not_shown() -> None:
    first, second = PersonCap("id", 1), PersonCap("id", 1)
    assert first.key != second.key
    assert "key" not in repr(first)


@pytest.mark.parametrize("kind", ["dict", "float32", "decimal", "relation", "parquet"])
def test_people_who_are_not_a_number_are_nobody(tmp_path: Path, kind: str) -> None:
    """Taken for one person they would share one cap; taken for many, nobody would be capped."""
    schema = Schema.from_sizes({"a": 3})
    table = pa.table({"a": [0] * 4, "p": [1.0, 2.0, float("nan"), float("nan")]})
    if kind == "dict":
        data: object = {"a": [0] * 4, "p": [1.0, 2.0, float("nan"), float("nan")]}
    elif kind == "float32":
        data = {"a": [0] * 4, "p": [np.float32(1), np.float32(2), np.float32("nan"), None]}
    elif kind == "decimal":
        data = {"a": [0] * 4, "p": [Decimal(1), Decimal(2), Decimal("NaN"), Decimal("NaN")]}
    elif kind == "relation":
        data = duckdb.from_arrow(table)
    else:
        pq.write_table(table, tmp_path / "people.parquet")
        data = tmp_path / "people.parquet"
    with pytest.raises(DataError):
        count_tables(open_source(data, schema, person="p", cap=1), [np.array([[0]])])


ZEROS = [0.0, -0.0, 0.0, -0.0]


@pytest.mark.parametrize("kind", ["dict", "float32", "polars", "relation", "float", "parquet"])
def test_zero_and_minus_zero_are_one_person(tmp_path: Path, kind: str) -> None:
    table = pa.table({"a": [0] * 4, "p": ZEROS})
    pq.write_table(table, tmp_path / "people.parquet")
    made: dict[str, Any] = {
        "dict": {"a": [0] * 4, "p": ZEROS},
        "float32": {"a": [0] * 4, "p": np.array(ZEROS, dtype=np.float32)},
        "polars": pl.from_arrow(table),
        "relation": duckdb.from_arrow(table),
        "float": duckdb.from_arrow(table).project("a, CAST(p AS FLOAT) AS p"),
        "parquet": tmp_path / "people.parquet",
    }
    source = open_source(made[kind], Schema.from_sizes({"a": 3}), person="p", cap=1)
    assert source.marginals(np.array([[0]])).tolist() == [[1, 0, 0]]
