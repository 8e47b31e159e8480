"""The schema in SQL gives every value the code that the schema gives it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depth import examples
from noiseplan.counting import expressions
from noiseplan.counting.expressions import Column
from noiseplan.schema import Attribute, Binned, Categorical, Ordinal

CONNECTION = duckdb.connect()
DAYS = [date(1969, 12, 31) + timedelta(days=n) for n in range(4)]
MOMENTS = [datetime(2020, 1, 1), datetime(2020, 1, 1, 12, 30, 0, 5), datetime(1900, 3, 1)]
ZONED = [
    datetime(2020, 1, 1, tzinfo=UTC),
    datetime(2020, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
    datetime(2020, 1, 1, 2, tzinfo=UTC),
]


FEW = (expressions.MANY, expressions.MANY_CASES)


@pytest.fixture(autouse=True, scope="module", params=[FEW, (0, 0)], ids=["few", "many"])
def _labels_are_few_or_many(request: pytest.FixtureRequest) -> Iterator[None]:
    """Everything twice: by expressions, and as labels are looked up where there are very many."""
    expressions.MANY, expressions.MANY_CASES = request.param  # type: ignore[misc]
    yield
    expressions.MANY, expressions.MANY_CASES = FEW  # type: ignore[misc]


def codes_in_sql(attribute: Attribute, values: Any, *, spelled: bool = False) -> list[int]:
    """Encode a column by the engine; -1 where a value has no code."""
    table = pa.table({"x": values})
    CONNECTION.register("people", table)
    relation = CONNECTION.sql("FROM people")
    column = Column("x", attribute, str(relation.types[0]), spelled)
    codes = relation.project(f"{column.codes()} AS c").fetchall()
    return [-1 if code == column.refused else code for (code,) in codes]


def codes_in_python(attribute: Attribute, values: Sequence[object]) -> list[int]:
    found: list[int] = attribute.encode(list(values)).tolist()
    return found


whole = st.integers(-130, 300)
numbers = whole | st.sampled_from([0.5, -0.25, 1e300, 2.0**53, 2**53, 2**62, -(2**40), True, False])
texts = st.sampled_from(["", "a", "b", "1", "1.0", "01", "it's", 'x"', "true", "2020-01-01", "é"])
labels = numbers | texts | st.sampled_from([*DAYS, *MOMENTS, *ZONED[:1]])


def _midnight(moment: date) -> datetime:
    return datetime.fromisoformat(str(moment))


@st.composite
def attributes(draw: st.DrawFn) -> Attribute:
    kind = draw(st.sampled_from(["ordinal", "range", "categorical", "other", "binned", "dated"]))
    missing = draw(st.sampled_from([None, "not stated", "=gone"]))
    if kind == "range":
        low = draw(whole)
        values = range(low, low + draw(st.integers(1, 300)))
        return Ordinal(values, missing=missing, clip=draw(st.booleans()))
    if kind == "dated":
        moments = draw(
            st.lists(st.sampled_from([*DAYS, *MOMENTS]), min_size=2, unique_by=_midnight)
        )
        return Binned(sorted(moments, key=_midnight), clip=draw(st.booleans()), missing=missing)
    if kind == "binned":
        edges = draw(st.sets(st.floats(-200, 300).map(lambda x: round(x, 1) + 0.0), min_size=2))
        return Binned(sorted(edges), clip=draw(st.booleans()), missing=missing)
    values = draw(st.lists(labels, min_size=1, max_size=8, unique=True))
    other = "elsewhere" if kind == "other" else None
    if kind == "ordinal":
        return Ordinal(values, missing=missing)
    return Categorical(values, other=other, missing=missing)


COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "uint8": (pa.uint8(), st.integers(0, 255)),
    "int16": (pa.int16(), st.integers(-300, 300)),
    "int64": (pa.int64(), whole | st.sampled_from([2**53, 2**53 + 1, 2**62, -(2**63)])),
    "uint64": (pa.uint64(), st.integers(0, 300) | st.sampled_from([2**62, 2**64 - 1])),
    "float": (pa.float32(), st.floats(-200, 300, width=32) | whole.map(float)),
    "double": (
        pa.float64(),
        st.floats() | whole.map(float) | st.sampled_from([0.5, -0.25, 2.0**53, 0.1]),
    ),
    "decimal": (pa.decimal128(9, 2), st.integers(-9999, 9999).map(lambda n: Decimal(n) / 100)),
    "truth": (pa.bool_(), st.booleans()),
    "text": (pa.string(), texts | st.text(max_size=3)),
    "day": (pa.date32(), st.sampled_from([*DAYS, date(2020, 1, 1), date(1, 1, 1)])),
    "moment": (pa.timestamp("us"), st.sampled_from([*MOMENTS, datetime(1970, 1, 1)])),
    "zoned": (pa.timestamp("us", tz="UTC"), st.sampled_from(ZONED)),
    "bytes": (pa.binary(), st.sampled_from([b"a", b"1"])),
}


@pytest.mark.few(10)
@pytest.mark.parametrize("kind", COLUMNS)
@examples(25)
@given(data=st.data(), attribute=attributes())
def test_every_type_of_column(kind: str, data: st.DataObject, attribute: Attribute) -> None:
    arrow, strategy = COLUMNS[kind]
    values = data.draw(st.lists(st.none() | strategy, min_size=1, max_size=8))
    # Labels themselves too, where the column can hold them.
    for label in attribute.labels[:8]:
        if kind in ("day", "moment", "zoned") and not isinstance(label, date):
            continue
        try:
            pa.array([label], arrow)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError):
            continue
        values.append(label)
    if kind == "text" and attribute.missing is not None:
        values.append(attribute.missing)
    column = pa.array(values, arrow)
    held = [float(v) if kind == "float" and v is not None else v for v in column.to_pylist()]
    assert codes_in_sql(attribute, column) == codes_in_python(attribute, held)


@pytest.mark.parametrize("label", [1e300, 2**64 - 1, -(2**63), math.inf, -math.inf])
def test_numbers_that_no_column_holds(label: float) -> None:
    attribute = Categorical([label, 7])
    for kind in (pa.uint8(), pa.int64(), pa.float64(), pa.decimal128(9, 2)):
        assert codes_in_sql(attribute, pa.array([0, 7], kind)) == [-1, 1]
    assert codes_in_sql(Ordinal([label]), pa.array([0])) == [-1]


@examples(100)
@given(attribute=attributes())
def test_text_that_spells_a_label(attribute: Attribute) -> None:
    """As in CSV: each label is recognised by its own spelling, unless a text label has it."""
    if isinstance(attribute, Binned):
        return
    spelled = [str(label) for label in attribute.labels]
    found = codes_in_sql(attribute, pa.array(spelled), spelled=True)
    clipped = attribute.stated - 1 if isinstance(attribute, Ordinal) and attribute.clip else -1
    for code, (label, text) in enumerate(zip(attribute.labels, spelled, strict=True)):
        if code == clipped:  # 99+ is a name, and no number that a file holds
            continue
        if spelled.count(text) == 1 or isinstance(label, str):
            assert found[code] == code


@pytest.mark.parametrize(
    ("attribute", "texts", "codes"),
    [
        (Ordinal(range(3)), ["1", " 1", "01", "1.0", "1e0", "1.5", "", None], [1] * 5 + [-1] * 3),
        (Categorical(["1", 2]), ["1", "1.0", "2.0", "02"], [0, -1, 1, 1]),
        (Categorical([True, False]), ["true", "True", "1", "false", "TRUE"], [0, 0, -1, 1, -1]),
        (Categorical([True, 2]), ["1", "true", "2"], [0, 0, 1]),
        (Categorical([0.5, -1]), ["0.5", ".5", "-1.0", "-01"], [0, 0, 1, 1]),
        (Categorical(["", "a"]), ["", None, "a", " "], [0, 0, 1, -1]),
        (Categorical(["a"], other="b"), ["a", "b", None, "x"], [0, 1, 1, 1]),
        (Ordinal(DAYS), ["1970-01-01", "1970-01-01 00:00:00", "1970-01-01 01:00"], [1, 1, -1]),
        (Binned([0, 1, 2]), ["0", "0.99", "1", "2", "2.1", "x", None], [0, 0, 1, 1, -1, -1, -1]),
        (
            Ordinal(range(3), missing="none"),
            ["2", "", None, "none", "NA", "9"],
            [2, 3, 3, 3, -1, -1],
        ),
        (Binned([0, 1], missing="=x"), ["1", "", "=x", "'=x", "nan", "3"], [0, 1, 1, 1, -1, -1]),
        (Categorical(["", "a"], missing="x"), ["", None, "x", "a"], [0, 0, 2, 1]),
        (Categorical(["a"], "b", missing="x"), ["a", "b", None, "x", "y"], [0, 1, 2, 2, 1]),
        (
            Ordinal(range(3), clip=True),
            ["2", "3", "1e9", "2.5", "inf", "nan", "-1", "1.5", "x"],
            [2, 2, 2, 2, 2, -1, -1, -1, -1],
        ),
        (
            Binned([date(2020, 1, 1), date(2020, 2, 1), date(2020, 3, 1)], missing="none"),
            ["2020-01-01", "2020-01-31 23:59:59", "2020-02-01", "2020-03-01", "", "2020", "5"],
            [0, 0, 1, 1, 2, -1, -1],
        ),
        (Binned([0, 1, 2], clip=True), ["-5", "1e99", "nan", "inf"], [0, 1, -1, 1]),
    ],
)
def test_spellings(attribute: Attribute, texts: list[str | None], codes: list[int]) -> None:
    assert codes_in_sql(attribute, pa.array(texts, pa.string()), spelled=True) == codes


@pytest.mark.parametrize("size", [255, 256, 257, 65_535, 65_536])
def test_the_type_of_codes_leaves_room_for_the_unknown(size: int) -> None:
    attribute = Ordinal(range(size))
    assert codes_in_sql(attribute, pa.array([0, size - 1, size, None])) == [0, size - 1, -1, -1]
    if size < 300:
        labels = [f"v{n}" for n in range(size)]
        found = codes_in_sql(Categorical(labels), pa.array([labels[0], labels[-1], "x", None]))
        assert found == [0, size - 1, -1, -1]


def test_decimals_equal_the_numbers_they_write() -> None:
    values = [Decimal("0.1"), Decimal("0.10"), Decimal("2.00"), Decimal("0.3")]
    attribute = Ordinal([0.1, 2])
    assert codes_in_python(attribute, values) == [0, 0, 1, -1]
    assert codes_in_sql(attribute, pa.array(values, pa.decimal128(9, 2))) == [0, 0, 1, -1]


def test_columns_that_hold_no_values_have_no_codes() -> None:
    lists = pa.array([[1], [2]], pa.list_(pa.int64()))
    for attribute in (Ordinal([1, 2]), Categorical(["a"]), Binned([0, 9])):
        assert codes_in_sql(attribute, lists) == [-1, -1]
    assert codes_in_sql(Categorical(["a"], other="b"), lists) == [1, 1]


def test_many_bins_at_their_edges() -> None:
    edges = np.linspace(-3, 7, 400)
    values = np.concatenate([edges, np.nextafter(edges, 99), np.nextafter(edges, -99)])
    values = np.concatenate([values, [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324]])
    for attribute in (
        Binned(edges),
        Binned(edges, clip=True, missing="none"),
        Binned(sorted({-np.inf, *edges, 0.0, np.inf})),
    ):
        expected = codes_in_python(attribute, values.tolist())
        assert codes_in_sql(attribute, pa.array(values)) == expected
        spelled = [repr(value) for value in values.tolist()]
        told = [-1 if text == "nan" else code for text, code in zip(spelled, expected, strict=True)]
        assert codes_in_sql(attribute, pa.array(spelled), spelled=True) == told
