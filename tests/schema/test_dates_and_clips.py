"""Bins of dates and times, ordinals of dates, and numbers above the last value counted with it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import noiseplan as nz
from noiseplan.counting import open_source
from noiseplan.errors import DataError, QueryError, SchemaError
from noiseplan.queries.predicates import predicate_query
from noiseplan.queries.questions import read_question
from noiseplan.schema import Attribute, Ordinal
from noiseplan.study import read_study

EDGES = [date(2020, 1, 1), date(2020, 2, 1), date(2020, 3, 1), date(2021, 1, 1)]
SINCE = nz.Binned(EDGES, missing="never")
AGE = nz.Ordinal(range(5), clip=True, missing="not stated")
SCHEMA = nz.Schema({"since": SINCE, "age": AGE})


def test_labels_say_what_is_in_them() -> None:
    assert SINCE.labels == (
        "[2020-01-01, 2020-02-01)",
        "[2020-02-01, 2020-03-01)",
        "[2020-03-01, 2021-01-01]",
        "never",
    )
    assert nz.Prefix().row_labels(SINCE) == ["< 2020-02-01", "< 2020-03-01", "≤ 2021-01-01"]
    assert SINCE.span_label(0, 1) == "[2020-01-01, 2020-03-01)"
    assert AGE.labels == (0, 1, 2, 3, "4+", "not stated")
    assert AGE.describe() == "ordinal: 0, 1, 2, 3, 4 and above, missing values are 'not stated'"
    noon = nz.Binned([date(2020, 1, 1), datetime(2020, 1, 1, 12)])
    assert noon.labels == ("[2020-01-01 00:00:00, 2020-01-01 12:00:00]",)


def test_codes_by_hand() -> None:
    values: list[Any] = [
        date(2020, 1, 1), datetime(2020, 1, 31, 23, 59, 59, 999_999), date(2020, 2, 1),
        date(2021, 1, 1), date(2021, 1, 2), date(2019, 12, 31), None, "2020-01-01", 3,
        datetime(2020, 1, 5, tzinfo=UTC), pd.NaT,
    ]  # fmt: skip
    assert SINCE.encode(values).tolist() == [0, 0, 1, 2, -1, -1, 3, -1, -1, -1, 3]
    for unit in ("D", "s", "us", "ns"):
        moments = np.array(["2020-02-15", "NaT", "2022-01-01"], dtype=f"M8[{unit}]")
        assert SINCE.encode(moments).tolist() == [1, 3, -1]
    clipped = nz.Binned(EDGES, clip=True)
    assert clipped.encode([date(1900, 1, 1), date(2100, 1, 1), None]).tolist() == [0, 2, -1]
    assert AGE.encode([4, 5, 99.5, np.inf, -1, 2.5, None, "7"]).tolist() == [
        4, 4, 4, 4, -1, -1, 5, -1,
    ]  # fmt: skip
    for kind in (np.int8, np.uint64, np.float32, object):
        assert AGE.encode(np.array([3, 4, 100], dtype=kind)).tolist() == [3, 4, 4]


@pytest.mark.parametrize("unit", ["Y", "M", "D", "h", "s", "ms"])
def test_years_beyond_microseconds_are_on_their_side(unit: str) -> None:
    far = np.array(["300000-01-01", "-300000-01-01", "2020-02-01", "NaT"], dtype="M8[M]")
    values = far.astype(f"M8[{unit}]")
    near = 0 if unit == "Y" else 1
    clipped = nz.Binned(EDGES, clip=True, missing="never")
    assert clipped.encode(values).tolist() == [2, 0, near, 3]
    assert SINCE.encode(values).tolist() == [-1, -1, near, 3]


def test_labels_are_no_moments_that_wrap_around() -> None:
    """2⁶¹ milliseconds are 125 · 2⁶⁴ microseconds, after which NumPy is back at the same day."""
    day = np.datetime64("2020-01-01", "ms")
    far = day + np.timedelta64(2**61, "ms")
    assert far.astype("M8[us]") == day
    labels = nz.Categorical([date(2020, 1, 1)])
    assert labels.encode(np.array([day, far])).tolist() == [0, -1]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: nz.Binned([date(2020, 1, 1), 5]), "edge 5 is not a date, as other edges are"),
        (lambda: nz.Binned(EDGES[::-1]), "2021-01-01 is followed by 2020-03-01"),
        (lambda: nz.Binned([datetime(2020, 1, 1, tzinfo=UTC), *EDGES[1:]]), "has a time zone"),
        (lambda: nz.Binned(EDGES[:1]), "a bin needs two"),
        (lambda: nz.Ordinal([1, 3], clip=True), "takes consecutive whole numbers"),
        (lambda: nz.Ordinal(["a", "b"], clip=True), "takes consecutive whole numbers"),
    ],
)
def test_what_cannot_be_declared(wrong: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        wrong()


def records(rows: int = 600) -> dict[str, list[Any]]:
    rng = np.random.default_rng(3)
    days = [date.fromordinal(737_425 + int(n)) for n in rng.integers(0, 367, rows)]
    since = [None if n < 0.1 else day for n, day in zip(rng.random(rows), days, strict=True)]
    return {"since": since, "age": rng.integers(0, 12, rows).tolist()}


COLUMNS = records()


def check_counts(data: object) -> None:
    source = open_source(data, SCHEMA)
    since = [sum(low <= day < high for day in COLUMNS["since"] if day is not None)
             for low, high in ((EDGES[0], EDGES[1]), (EDGES[1], EDGES[2]),
                               (EDGES[2], date(2021, 1, 2)))]  # fmt: skip
    since.append(COLUMNS["since"].count(None))
    age = [COLUMNS["age"].count(n) for n in range(4)]
    age += [sum(n >= 4 for n in COLUMNS["age"]), 0]
    assert sum(since) == 600 and sum(age) == 600
    found = [source.marginals(np.array([[place]]))[0].tolist() for place in (0, 1)]
    assert found == [since, age]


@pytest.mark.parametrize("kind", ["mapping", "pandas", "polars", "csv", "parquet", "moments"])
def test_counts_from_every_kind_of_data(kind: str, tmp_path: Path) -> None:
    frame = pl.DataFrame(COLUMNS)
    if kind == "csv":
        frame.write_csv(tmp_path / "a.csv")
        check_counts(tmp_path / "a.csv")
    elif kind == "parquet":
        frame.write_parquet(tmp_path / "a.parquet")
        check_counts(tmp_path / "a.parquet")
    else:
        moments = frame.with_columns(pl.col("since").cast(pl.Datetime("us")))
        data = {"mapping": COLUMNS, "pandas": pd.DataFrame(COLUMNS), "polars": frame}
        check_counts(data.get(kind, moments))


@pytest.mark.grid
@pytest.mark.parametrize("zone", ["-05:00", "+02", "Z", " UTC", " America/New_York", " (BC)"])
@pytest.mark.parametrize("attribute", [SINCE, nz.Categorical([datetime(2020, 1, 31, 23, 30)])])
def test_times_with_a_zone_do_not_fit_in_text(
    zone: str, attribute: nz.Attribute, tmp_path: Path
) -> None:
    """Half past eleven in New York is a day of February elsewhere."""
    schema = nz.Schema({"since": attribute})
    for written in ("2020-01-31 23:30:00", "2020-01-31T23:30", " 2020-01-31T23:30:00.000 "):
        path = tmp_path / "a.csv"
        path.write_text(f"since,n\n{written},1\n", encoding="utf-8")
        assert open_source(path, schema).marginals(np.array([[0]]))[0, 0] == 1
        path.write_text(f"since,n\n{written.strip()}{zone},1\n", encoding="utf-8")
        with pytest.raises(DataError, match="column 'since' holds values"):
            open_source(path, schema).marginals(np.array([[0]]))


def chosen(text: str) -> list[int]:
    query = predicate_query(SCHEMA, text)
    ((name, factor),) = query.factors.items()
    return factor.matrix(SCHEMA[name]).dense().astype(int)[0].tolist()  # type: ignore[no-any-return]


def test_conditions_on_dates_and_on_the_last_value() -> None:
    assert chosen("since < '2020-03-01'") == [1, 1, 0, 0]
    assert chosen("since >= '2020-02-01 00:00'") == [0, 1, 1, 0]
    assert chosen("since = '[2020-01-01, 2020-02-01)'") == [1, 0, 0, 0]
    assert chosen("age < 4") == [1, 1, 1, 1, 0, 0]
    assert chosen("age >= 4") == chosen("age = '4+'") == chosen("age > 3") == [0, 0, 0, 0, 1, 0]
    for text, words in (
        ("since < '2020-02-15'", "cuts through the bin .* write since < '2020-02-01' or since <"),
        ("since <= '2020-02-01'", "which begins with '2020-02-01': write since < '2020-02-01'"),
        ("since < 5", "compare it with a date"),
        ("since < 'May'", "'May' is no date or time"),
        ("age = 4", r"age = 4 cuts through '4\+', which also holds the numbers above 4"),
        ("age <= 4", r"cuts through '4\+'"),
        ("age > 4", "write age < 4 or age >= 4"),
        ("age < 70", r"cuts through '4\+'"),
    ):
        with pytest.raises(QueryError, match=words):
            chosen(text)
    for question, name, wanted in (
        ("since=2020-02-01..", "since", [0, 1, 1, 0]),
        ("since=..2020-03-01", "since", [1, 1, 0, 0]),
        ("age=3..", "age", [0, 0, 0, 1, 1, 0]),
        ("age=4+", "age", [0, 0, 0, 0, 1, 0]),
    ):
        factor = read_question(question, SCHEMA).factors[name]
        assert factor.matrix(SCHEMA[name]).dense().astype(int)[0].tolist() == wanted
    with pytest.raises(QueryError, match="no edge of a bin; the edges are 2020-01-01, 2020-02-01"):
        read_question("since=2020-01-15..", SCHEMA)


def test_in_a_study(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        "[schema]\n"
        'since = { binned = [2020-01-01, 2020-02-01, 2020-03-01, 2021-01-01], missing = "never" }\n'
        'age = { ordinal = { from = 0, to = 4 }, clip = true, missing = "not stated" }\n'
        "day = { ordinal = { from = 2020-02-28, to = 2020-03-01 } }\n"
        "[[tables]]\nup_to = 1\n[budget]\nzcdp = 0.5\n",
        encoding="utf-8",
    )
    schema = read_study(study).schema
    assert (schema["since"], schema["age"]) == (SINCE, AGE)
    assert schema["day"].labels == (date(2020, 2, 28), date(2020, 2, 29), date(2020, 3, 1))


# ---------------------------------------------------------------------- saved

MINUTES = [datetime(2030, 1, 1) + timedelta(minutes=i) for i in range(5000)]


@pytest.mark.parametrize(
    ("values", "evenly"),
    [
        (MINUTES, True),
        ([date(2030, 1, 1) + timedelta(days=i) for i in range(5000)], True),
        (MINUTES[:1000], False),
        (MINUTES[::-1], False),
        (MINUTES[:2000] + MINUTES[2001:], False),
        ([moment.replace(tzinfo=UTC) for moment in MINUTES], False),
    ],
)
def test_many_moments_at_equal_distances_are_saved_by_the_first(
    values: list[date], evenly: bool
) -> None:
    attribute = Ordinal(values, missing="never")
    saved = json.loads(json.dumps(attribute.to_dict()))
    assert ("evenly" in saved, "values" in saved) == (evenly, not evenly)
    again = Attribute.from_dict(saved)
    assert again == attribute
    assert [type(label) for label in again.labels] == [type(label) for label in attribute.labels]


@pytest.mark.parametrize(
    "change",
    [
        {"count": 10**12},
        {"count": 0},
        {"step": 0},
        {"step": "1"},
        {"first": 3},
        {"step": 10**15, "count": 10**6},
        {"count": None},
    ],
)
def test_moments_that_cannot_be_are_refused(change: dict[str, object]) -> None:
    saved = Ordinal(MINUTES).to_dict()
    with pytest.raises(SchemaError):
        Attribute.from_dict({**saved, "evenly": {**saved["evenly"], **change}})  # type: ignore[dict-item]
