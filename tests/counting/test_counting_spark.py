"""Spark DataFrames count like every other source, in one scan for all tables."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from test_counting_people import CAP, PERSONS, ROWS, chosen_visits, visits
from test_counting_people import SCHEMA as VISITS
from test_counting_sources import COLUMNS, SCHEMA, arrow_table, expected_codes

import noiseplan as nz
from noiseplan.counting import count_tables, open_source
from noiseplan.counting.spark import count_partition, values_without_code
from noiseplan.errors import DataError, DataRefused
from noiseplan.schema import Categorical, Ordinal, Schema

# Spark leaves sockets for the garbage collector to close.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"),
]

SETS = [
    np.array(list(members), dtype=int).reshape(1, -1)
    for k in (0, 1, 2)
    for members in combinations(range(len(SCHEMA)), k)
]


class TestOneWorker:
    """What the workers do needs no Spark."""

    def test_counts_and_notes(self) -> None:
        schema = Schema({"a": Ordinal(range(3)), "b": Categorical(["x", "y"])})
        table = pa.table({"a": [0, 2, 2, 7, None], "b": ["x", "y", "y", "x", "z"]})
        counts = pa.Table.from_batches(count_partition(schema, [(0, 1)], table.to_batches()))
        # No counts of what is refused; then the records, those without a code, those of nobody or
        # of somebody who was rounded.
        noted = counts.filter(pa.compute.greater_equal(counts["place"], 1)).to_pydict()
        assert noted == {"place": [1, 2, 3, 4, 5], "cell": [0] * 5, "records": [5, 2, 1, 0, 0]}
        values = pa.Table.from_batches(values_without_code(schema, table.to_batches())).to_pydict()
        assert values == {"place": [0, 0, 1], "written": ["7", "null", "'z'"]}

    def test_cells_that_hold_records(self) -> None:
        schema = Schema.from_sizes({"a": 3, "b": 2})
        batches = pa.table({"a": [0, 2, 2], "b": [0, 1, 1]}).to_batches(max_chunksize=1)
        counts = pa.Table.from_batches(count_partition(schema, [(0, 1), ()], batches))
        assert counts[:3].to_pydict() == {
            "place": [0, 0, 1],
            "cell": [0, 5, 0],
            "records": [1, 2, 3],
        }

    def test_an_empty_partition(self) -> None:
        counts = pa.Table.from_batches(count_partition(Schema.from_sizes({"a": 3}), [(0,)], []))
        assert counts["records"].to_pylist() == [0, 0, 0, 0]


def scans(frame: Any, counter: Any) -> Any:
    """The frame, with an accumulator that counts every record read from it."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            counter.add(batch.num_rows)
            yield batch

    return frame.mapInArrow(read, frame.schema)


def test_all_tables_in_one_scan_equal_those_of_other_sources(spark: Any) -> None:
    table = arrow_table(COLUMNS)
    read = spark.sparkContext.accumulator(0)
    frame = scans(spark.createDataFrame(table).repartition(3), read)
    counted = count_tables(open_source(frame, SCHEMA), SETS)
    assert read.value == len(table)
    codes = expected_codes(COLUMNS)
    for sets in SETS:
        members = sets[0].tolist()
        expected = np.zeros([SCHEMA.shape[member] for member in members], dtype=int)
        np.add.at(expected, (*codes[:, members].T,), 1 if members else len(codes))
        np.testing.assert_array_equal(counted.marginals(sets)[0], expected, err_msg=str(members))


def test_a_study_of_a_file_by_spark_and_by_duckdb(spark: Any, tmp_path: Path) -> None:
    """The same release, noise and all, wherever the records are counted."""
    pl.DataFrame(pl.from_arrow(arrow_table(COLUMNS))).write_parquet(tmp_path / "people.parquet")
    frame = spark.read.parquet(str(tmp_path / "people.parquet"))
    plan = nz.plan(nz.Workload.marginals(SCHEMA, k=1), budget=nz.zCDP(0.5))
    here = plan.release(tmp_path / "people.parquet", seed=1)
    there = plan.release(frame, seed=1)
    for (_, first), (_, second) in zip(here.answers(), there.answers(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_values_outside_the_schema_are_refused(spark: Any) -> None:
    columns = {name: [*values] for name, values in COLUMNS.items()}
    columns["sex"][17], columns["kids"][3], columns["kids"][4] = "X", 9, None
    frame = spark.createDataFrame(arrow_table(columns)).repartition(2)
    words = r"column 'sex': 1 of 500 rows .*: 'X'\. .*The same goes for 'kids' \(2 rows\)"
    with pytest.raises(DataError, match=words):
        open_source(frame, SCHEMA, details=True).marginals(np.array([[0]]))
    with pytest.raises(DataError, match=r"^column 'sex' holds values .* 'kids'\. \(The") as plain:
        open_source(frame, SCHEMA).marginals(np.array([[0]]))
    assert "500" not in str(plain.value)
    assert "'X'" not in str(plain.value)


def test_names_with_dots_and_backticks(spark: Any) -> None:
    frame = spark.createDataFrame([(0, 1), (1, 1)], "`a.b` int, `c``d` int")
    source = open_source(frame, Schema.from_sizes({"a.b": 2, "c`d": 3}))
    assert source.marginals(np.array([[1]])).tolist() == [[0, 2, 0]]
    with pytest.raises(DataError, match=re.escape("lack the column(s) 'a'")):
        open_source(frame, Schema.from_sizes({"a": 2}))


def test_what_spark_says_is_passed_on(spark: Any) -> None:
    frame = spark.range(3).selectExpr("assert_true(id > 5) as x", "id as a")
    frame = frame.selectExpr("if(isnull(x), a, a) as a", "x").selectExpr("a + coalesce(x, 0) as a")
    with pytest.raises(DataError, match="Spark could not count the DataFrame"):
        open_source(frame, Schema.from_sizes({"a": 3})).marginals(np.array([[0]]))


@pytest.mark.parametrize("lacking", ["module", "version", "program"])
def test_what_workers_lack_is_no_secret(
    spark: Any, lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, python = spark.sparkContext, tmp_path / "python"
    (tmp_path / "noiseplan.py").write_text("import noiseplan.counting\n")  # shadows the package
    said = {
        "module": "lack the Python module 'noiseplan': install noiseplan",
        "version": f"another version of Python than {sys.version_info[0]}.{sys.version_info[1]}",
        "program": "found no Python: name a Python",
    }[lacking]
    if lacking == "module":
        start = f'PYTHONPATH={tmp_path}:"$PYTHONPATH" exec {sys.executable} "$@"'
        python.write_text(f"#!/bin/sh\n{start}\n")
        python.chmod(0o755)
    if lacking == "version":
        monkeypatch.setattr(context, "pythonVer", "3.1")
    else:
        monkeypatch.setattr(context, "pythonExec", str(python))
    frame = spark.range(3).selectExpr("id as a")
    with pytest.raises(DataRefused, match=said) as refusal:
        open_source(frame, Schema.from_sizes({"a": 3})).marginals(np.array([[0]]))
    assert "details" not in str(refusal.value)


def test_a_person_counts_at_most_the_cap(spark: Any) -> None:
    frame = spark.createDataFrame(pa.table(visits())).repartition(3)
    source = open_source(frame, VISITS, person="id", cap=CAP)
    found = source.marginals(np.array([[0, 1, 2]]))
    np.testing.assert_array_equal(source.marginals(np.array([[0, 1, 2]])), found)
    chosen = chosen_visits(found[0])
    assert [len(set(some)) for some in chosen] == [min(n, CAP) for n in range(PERSONS)]
    subsets = Counter(chosen[ROWS:])
    expected = (PERSONS - ROWS) / 10
    # χ² with 9 degrees of freedom is above 56 once in 10⁸ draws.
    assert sum((subsets[s] - expected) ** 2 / expected for s in combinations(range(5), 2)) < 56


def test_records_of_nobody_are_refused(spark: Any) -> None:
    columns = visits()
    columns["id"][3] = None
    frame = spark.createDataFrame(pa.table(columns))
    with pytest.raises(DataError, match=r"person column 'id': 1 of 5985 rows are null"):
        open_source(frame, VISITS, person="id", details=True).marginals(np.array([[0]]))
    with pytest.raises(DataError, match=r"person column 'id': some rows are null") as plain:
        open_source(frame, VISITS, person="id").marginals(np.array([[0]]))
    assert "5985" not in str(plain.value)
    with pytest.raises(DataError, match="lack the person column 'who'"):
        open_source(frame, VISITS, person="who")


def test_ibis_on_spark(spark: Any, ibis: Any) -> None:
    connection = ibis.pyspark.connect(spark)
    spark.createDataFrame(arrow_table(COLUMNS)).createOrReplaceTempView("people")
    people = connection.table("people")
    older = people.filter(people.age > 20)
    source = open_source(older, SCHEMA)
    ages = [age for age in COLUMNS["age"] if age > 20]
    assert source.marginals(np.array([[0]])).tolist() == [[ages.count(a) for a in range(18, 24)]]


def test_zero_and_minus_zero_are_one_person(spark: Any) -> None:
    frame = spark.createDataFrame(pa.table({"a": [0, 0], "p": [0.0, -0.0]}))
    source = open_source(frame, Schema.from_sizes({"a": 2}), person="p")
    assert source.marginals(np.array([[0]])).tolist() == [[1, 0]]
