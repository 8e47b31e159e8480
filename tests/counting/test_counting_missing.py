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
from noiseplan.study import StudyError, read_study

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


@pytest.mark.parametrize("missing", ["not stated", None])
@pytest.mark.parametrize("kind", ["INTEGER", "REAL"])
@pytest.mark.parametrize("stray", [None, "abc"])
def test_what_is_no_number_is_not_clipped_in_sqlite(
    ibis: Any, missing: str | None, kind: str, stray: str | None
) -> None:
    """SQLite cannot ask whether a number is none, and keeps text in columns of numbers."""
    connection = ibis.sqlite.connect()
    connection.con.execute(f"CREATE TABLE people (x {kind})")
    connection.con.executemany("INSERT INTO people VALUES (?)", [(3,), (15,), (99,), (stray,)])
    table = connection.table("people")
    for attribute, found in (
        (nz.Binned([0, 10, 20], clip=True, missing=missing), [1, 2]),
        (nz.Binned([0, 10, 200], missing=missing), [1, 2]),
        (nz.Binned([0, 200], clip=True, missing=missing), [3]),
        (nz.Ordinal(range(3, 5), clip=True, missing=missing), [1, 2]),
    ):
        source = open_source(table, nz.Schema({"x": attribute}))
        if missing is None or stray is not None:
            with pytest.raises(DataError, match="column 'x' holds values that the schema does not"):
                source.marginals(np.array([[0]]))
        else:
            assert source.marginals(np.array([[0]])).tolist() == [[*found, 1]]


def test_a_cell_catches_missing_values_and_no_others() -> None:
    schema = nz.Schema({"income": SCHEMA["income"]})
    for wrong in ("much", 101.0, -1):
        with pytest.raises(DataError, match="does not declare"):
            open_source({"income": [5.0, wrong]}, schema)
    named = open_source({"income": [5.0, "not stated", np.nan]}, schema)
    assert named.marginals(np.array([[0]]))[0].tolist() == [1, 0, 0, 0, 2]


@pytest.mark.parametrize("make", [list, pd.Series, np.array, lambda v: np.array(v, dtype="S")])
def test_the_name_of_the_cell_in_every_kind_of_text(make: Callable[[list[str]], Any]) -> None:
    values = ["F", "M", "refused", "refused"]
    for sex, found in (
        (SCHEMA["sex"], [1, 1, 0, 2]),
        (nz.Ordinal(["F", "M"], missing="refused"), [1, 1, 2]),
    ):
        source = open_source({"sex": make(values)}, nz.Schema({"sex": sex}))
        assert source.marginals(np.array([[0]])).tolist() == [found]


# ---------------------------------------------------------------------- ways of writing in text

NUMBERS = nz.Schema(
    {
        "income": nz.Binned([0, 1000, 2000.5, 1e6], missing="not stated"),
        "age": nz.Ordinal([0.5, 1, 1234], missing="not known"),
        "place": nz.Categorical(["north", "1.234"], missing="none"),
    }
)


def counted(path: Path, text: str, **how: Any) -> list[list[int]]:
    path.write_text(text, encoding="utf-8")
    source = open_source(nz.TextFile(path, **how), NUMBERS, details=True)
    return [source.marginals(np.array([[place]]))[0].tolist() for place in range(3)]


def test_spellings_of_missing_are_declared_once_for_all_columns(tmp_path: Path) -> None:
    text = "income,age,place\n5,1,north\nNA,.,NA\n , N/A,.\n,,\nnot stated,not known,none\n"
    found = counted(tmp_path / "a.csv", text, missing=["NA", ".", "N/A"])
    assert found == [[1, 0, 0, 4], [0, 1, 0, 4], [1, 0, 4]]
    with pytest.raises(DataError, match=r"'income': 1 of 2 rows .*'n/a'"):
        counted(tmp_path / "b.csv", "income,age,place\n5,1,north\nn/a,1,north\n", missing=["N/A"])


GERMAN = {"decimal": ",", "thousands": "."}


@pytest.mark.parametrize(
    ("written", "how", "place"),
    [
        ("999,9", GERMAN, 0),
        ("1.000", GERMAN, 1),
        ("1.000,5", GERMAN, 1),
        ("2.000,5", GERMAN, 2),
        ("123.456", GERMAN, 2),
        ("1234", GERMAN, 1),
        ("+1.5e3", {"thousands": ","}, 1),
        ("1,500", {"thousands": ","}, 1),
        ("1 500", {"thousands": " "}, 1),
        ("1\u202f500", {"thousands": " "}, 1),
        ("1'500.25", {"thousands": "'"}, 1),
        ("0,5", {"decimal": ","}, 0),
    ],
)
def test_numbers_as_the_file_writes_them(
    written: str, how: dict[str, str], place: int, tmp_path: Path
) -> None:
    text = f"income;age;place\n{written};1;north\n"
    assert counted(tmp_path / "a.csv", text, **how)[0] == [int(n == place) for n in range(4)]


@pytest.mark.parametrize(
    ("written", "how"),
    [
        ("1.5", GERMAN),  # neither fifteen nor one and a half
        ("12.34,5", GERMAN),
        ("1.0000", GERMAN),
        (".500", GERMAN),
        ("1.5", {"decimal": ","}),
        ("1,5", {}),
        ("1,50", {"thousands": ","}),
        ("1500,", {"thousands": ","}),
    ],
)
def test_numbers_written_otherwise_are_none(
    written: str, how: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="'income': 1 of 1 rows"):
        counted(tmp_path / "a.csv", f"income;age;place\n{written};1;north\n", **how)


def test_labels_are_read_as_the_file_writes_numbers(tmp_path: Path) -> None:
    """1.234 is a whole number here, and the text of another column."""
    text = "income;age;place\n1;1.234;1.234\n1;0,5;north\n1;1;north\n"
    assert counted(tmp_path / "a.csv", text, **GERMAN) == [[3, 0, 0, 0], [1, 1, 1, 0], [2, 1, 0]]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"missing": ["north"]}, "'north' stands for a missing value .* is a value of 'place'"),
        ({"missing": ["1.234"], "thousands": ","}, "is a value of 'income'"),
        ({"missing": ["1"]}, "'1' stands for .* 'income'"),
        ({"missing": [1]}, "missing= lists texts"),
        ({"decimal": ";"}, "decimal= is one of"),
        ({"decimal": ",", "thousands": ","}, "thousands= is one of .* not what decimal= is"),
    ],
)
def test_what_could_mean_two_things_is_refused(
    how: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=words):
        counted(tmp_path / "a.csv", "income,age,place\n", **how)


def test_only_text_is_written(tmp_path: Path) -> None:
    path = as_file("parquet", tmp_path)
    with pytest.raises(DataError, match="is Parquet"):
        open_source(nz.TextFile(path, missing=["NA"]), SCHEMA)


def test_a_study_says_how_its_files_are_written(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    declared = (
        '[schema]\nincome = { binned = [0, 10, 20], missing = "not stated" }\n'
        "[[tables]]\nup_to = 1\n[budget]\nzcdp = 1e8\n"
        '[data]\nmissing = ["NA", ""]\ndecimal = ","\nthousands = "."\n'
    )
    study.write_text(declared, encoding="utf-8")
    read = read_study(study)
    (tmp_path / "a.csv").write_text('income\n"1,5"\nNA\n"12,0"\n', encoding="utf-8")
    pl.DataFrame({"income": [1.5, None, 12.0]}).write_parquet(tmp_path / "a.parquet")
    for file in ("a.csv", "a.parquet"):
        release = read.release(read.plan(), tmp_path / file)
        estimate = release.answer(nz.Query(read.schema, ["income"])).estimate
        assert estimate.round().tolist() == [1, 1, 1]
    for old, new, words in (
        ('["NA", ""]', '["15"]', "study.toml:7: data: '15' stands for .* 'income'"),
        ('["NA", ""]', "[15]", "study.toml:8: data.missing 1"),
        ('thousands = "."', 'thousands = ","', "data.thousands: thousands= is one of"),
        ('decimal = ","', 'decimals = ","', "Did you mean 'decimal'"),
    ):
        study.write_text(declared.replace(old, new), encoding="utf-8")
        with pytest.raises(StudyError, match=words):
            read_study(study)


def test_missing_places_are_refused_with_the_cell_that_would_hold_them() -> None:
    """The cell that is named is one that works, also beside values that are not declared."""
    places = {"place": ["a1", "a2", "b1"], "county": ["a", "a", "b"]}
    schema = nz.Schema({"geo": nz.Hierarchical(places)})
    for values, some in ((["a1", None], "They"), (["a1", None, "z9"], "Some")):
        with pytest.raises(DataError, match=f"{some} are missing: declare a cell") as refused:
            open_source({"geo": values}, schema, details=True).marginals(np.array([[0]]))
        assert "missing='not stated'" in str(refused.value)
        assert "Hierarchical(..., other='other')" in str(refused.value)
    declared = nz.Schema({"geo": nz.Hierarchical(places, missing="not stated")})
    counts = open_source({"geo": ["a1", None]}, declared, details=True).marginals(np.array([[0]]))
    assert np.asarray(counts).ravel().tolist() == [1, 0, 0, 1]
