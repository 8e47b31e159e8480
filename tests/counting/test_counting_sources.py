"""Every kind of data gives the same counts, and every fault is refused with its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from numpy.typing import NDArray

from noiseplan.counting import CountTensor, Records, open_source, records
from noiseplan.errors import DataError, DataRefused
from noiseplan.schema import Binned, Categorical, Ordinal, Schema

DAYS = [date(2020, 1, 1), date(2020, 2, 1), date(2020, 3, 1)]

SCHEMA = Schema(
    {
        "age": Ordinal(range(18, 24)),
        "sex": Categorical(["F", "it's", 'M"']),
        "region": Categorical(["north", "007"], other="elsewhere"),
        "member": Categorical([True, False]),
        "income": Binned([-5, 0, 0.1, 1_000, 5_000.5]),
        "gain": Binned([0, 10, 20], clip=True),
        "since": Ordinal(DAYS),
        "kids": Categorical([4, 0, 2]),
        "score": Ordinal([0.0, 0.5, 1.0]),
        "one": Categorical(["only"]),
    }
)


def some_columns(rows: int, seed: int = 0) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)

    def draw(*values: Any) -> list[Any]:
        return [values[n] for n in rng.integers(0, len(values), rows)]

    return {
        "unused": draw("x", None),
        "age": draw(*range(18, 24)),
        "sex": draw("F", "it's", 'M"'),
        "region": draw("north", "007", "7", "south", "elsewhere", None),
        "member": draw(True, False),
        "income": draw(-5.0, -0.001, 0.0, -0.0, 0.1, 0.0999, 999.99, 1000.0, 5000.5),
        "gain": draw(-3, 0, 9, 10, 20, 99),
        "since": draw(*DAYS),
        "kids": draw(0, 2, 4),
        "score": draw(0.0, -0.0, 0.5, 1.0),
        "one": draw("only"),
    }


COLUMNS = some_columns(500)


def count_everything(data: object, schema: Schema, details: bool = True) -> list[list[int]]:
    """Open and count: what lives elsewhere is checked while it is counted."""
    source = open_source(data, schema, details=details)
    return [source.marginals(np.array([[place]]))[0].tolist() for place in range(len(schema))]


def expected_codes(columns: dict[str, list[Any]]) -> NDArray[np.int64]:
    """Encode the columns value by value, knowing nothing of the attributes' own code."""
    edges = [-5, 0, 0.1, 1_000, 5_000.5]
    rules: dict[str, Callable[[Any], int]] = {
        "age": lambda v: v - 18,
        "sex": ["F", "it's", 'M"'].index,
        "region": lambda v: {"north": 0, "007": 1}.get(v, 2),
        "member": [True, False].index,
        "income": lambda v: min(3, max(n for n, edge in enumerate(edges) if v >= edge)),
        "gain": lambda v: int(v >= 10),
        "since": DAYS.index,
        "kids": [4, 0, 2].index,
        "score": [0.0, 0.5, 1.0].index,
        "one": lambda v: 0,
    }
    return np.array([[rules[name](v) for v in columns[name]] for name in rules], dtype=int).T


def arrow_table(columns: dict[str, list[Any]]) -> pa.Table:
    if columns["age"]:
        return pa.table(columns)
    empty = pa.table(some_columns(5)).schema
    return pa.table({field.name: pa.array([], field.type) for field in empty}, schema=empty)


def with_dictionaries(table: pa.Table) -> pa.Table:
    for name in ("sex", "region", "kids"):
        encoded = table[name].combine_chunks().dictionary_encode()
        table = table.set_column(table.column_names.index(name), name, encoded)
    return table


def arrow_columns(table: pa.Table) -> Iterator[tuple[str, Any]]:
    return zip(table.column_names, table.columns, strict=True)


def relation(table: pa.Table) -> duckdb.DuckDBPyRelation:
    connection = duckdb.connect()
    connection.register("people", table)
    connection.execute("CREATE TABLE copied AS FROM people")
    return connection.sql("FROM copied")


def structured(columns: dict[str, list[Any]]) -> NDArray[np.void]:
    kinds = [(name, "M8[D]" if name == "since" else object) for name in columns]
    return np.array(list(zip(*columns.values(), strict=True)), dtype=kinds)


def as_csv(columns: dict[str, list[Any]], path: Path) -> str:
    pl.from_arrow(arrow_table(columns)).write_csv(path / "people.csv")  # type: ignore[union-attr]
    return str(path / "people.csv")


def as_parquet(columns: dict[str, list[Any]], path: Path) -> Path:
    pl.from_arrow(arrow_table(columns)).write_parquet(path / "people.parquet")  # type: ignore[union-attr]
    return path / "people.parquet"


def as_parts(columns: dict[str, list[Any]], path: Path) -> str:
    half = len(columns["age"]) // 2
    table = arrow_table(columns)
    pl.from_arrow(table[:half]).write_parquet(path / "part1.parquet")  # type: ignore[union-attr]
    pl.from_arrow(table[half:]).write_parquet(path / "part2.parquet")  # type: ignore[union-attr]
    return str(path / "part*.parquet")


def object_pandas(columns: dict[str, list[Any]]) -> pd.DataFrame:
    return pd.DataFrame(columns, dtype=object)


def pandas_categories(columns: dict[str, list[Any]]) -> pd.DataFrame:
    return pd.DataFrame(columns).astype(
        {"sex": "category", "region": "category", "kids": "category"}
    )


def polars_categories(columns: dict[str, list[Any]]) -> pl.DataFrame:
    kinds = {"sex": pl.Enum(['M"', "F", "it's"]), "region": pl.Categorical}
    return pl.DataFrame(pl.from_arrow(arrow_table(columns))).cast(kinds)  # type: ignore[arg-type]


SOURCES: dict[str, tuple[str, Callable[[dict[str, list[Any]], Path], Any]]] = {
    "mapping": ("", lambda c, _: c),
    "mapping of arrays": ("", lambda c, _: {k: np.array(v, dtype=object) for k, v in c.items()}),
    "mapping of series": ("", lambda c, _: {name: pl.Series(v) for name, v in c.items()}),
    "mapping of arrow": ("", lambda c, _: dict(arrow_columns(with_dictionaries(arrow_table(c))))),
    "structured array": ("", lambda c, _: structured(c)),
    "codes": ("", lambda c, _: expected_codes(c).reshape(-1, len(SCHEMA))),
    "pandas": ("pandas", lambda c, _: pd.DataFrame(c)),
    "pandas objects": ("pandas", lambda c, _: object_pandas(c)),
    "pandas categories": ("pandas", lambda c, _: pandas_categories(c)),
    "pandas on arrow": (
        "pandas",
        lambda c, _: arrow_table(c).to_pandas(types_mapper=pd.ArrowDtype),
    ),
    "polars": ("polars", lambda c, _: pl.from_arrow(arrow_table(c))),
    "polars categories": ("polars", lambda c, _: polars_categories(c)),
    "polars lazy": ("polars", lambda c, _: pl.DataFrame(pl.from_arrow(arrow_table(c))).lazy()),
    "narwhals": ("polars", lambda c, _: nw.from_native(pl.DataFrame(arrow_table(c)))),
    "pyarrow": ("pyarrow", lambda c, _: arrow_table(c)),
    "pyarrow dictionaries": ("pyarrow", lambda c, _: with_dictionaries(arrow_table(c))),
    "pyarrow reader": ("pyarrow", lambda c, _: arrow_table(c).to_reader(max_chunksize=99)),
    "pyarrow dataset": ("pyarrow", lambda c, p: pyarrow.dataset.dataset(as_parquet(c, p))),
    "polars scan": ("polars", lambda c, p: pl.scan_parquet(as_parquet(c, p))),
    "relation": ("", lambda c, _: relation(arrow_table(c))),
    "relation with enums": ("", lambda c, _: relation(with_dictionaries(arrow_table(c)))),
    "csv": ("", as_csv),
    "parquet": ("", as_parquet),
    "parquet parts": ("", as_parts),
}


@pytest.mark.grid
@pytest.mark.parametrize("rows", [500, 0])
@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_counts_alike(kind: str, rows: int, tmp_path: Path) -> None:
    columns = {name: values[:rows] for name, values in COLUMNS.items()}
    if not rows and kind == "pyarrow reader":
        pytest.skip("an empty reader cannot be told from one that was read before: refused")
    codes = expected_codes(columns).reshape(rows, len(SCHEMA))
    origin, make = SOURCES[kind]
    source = open_source(make(columns, tmp_path), SCHEMA)
    assert source.origin == origin
    assert source.schema == SCHEMA
    for k in (0, 1, 2):
        for members in combinations(range(len(SCHEMA)), k):
            table = np.zeros([SCHEMA.shape[member] for member in members], dtype=int)
            np.add.at(table, (*codes[:, members].T,) if k else (), 1 if k else rows)
            sets = np.array([members], dtype=int).reshape(1, k)
            np.testing.assert_array_equal(source.marginals(sets)[0], table, err_msg=str(members))


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "text unknown": (
        {"sex": "X"},
        r"column 'sex': 1 of 500 rows .*: 'X'\. Declared .*other='other'",
    ),
    "text null": ({"sex": None}, "column 'sex': 1 of 500 rows .*: null"),
    "number unknown": ({"age": 99}, r"column 'age': 1 of 500 .*: '?99(\.0)?'?\. .*Ordinal\("),
    "number null": ({"age": None}, "column 'age': 1 of 500 .*: null.* declare a cell for those"),
    "beyond the edges": ({"income": -6.0}, r"column 'income': 1 of 500 .*-6\.0.*clip=True"),
    "no number": ({"income": None}, "column 'income': 1 of 500 .*: null"),
    "clipped null": ({"gain": None}, "column 'gain': 1 of 500 .*: null"),
    "category unknown": ({"kids": 1}, r"column 'kids': 1 of 500 .*: '?1(\.0)?'?\. "),
    "truth null": ({"member": None}, "column 'member': 1 of 500 .*: null"),
    "day unknown": ({"since": date(1999, 1, 1)}, "column 'since': 1 of 500 .*1999.*Ordinal"),
}


@pytest.mark.grid
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", [kind for kind in SOURCES if kind != "codes"])
def test_values_outside_the_schema_are_refused(kind: str, fault: str, tmp_path: Path) -> None:
    changes, words = FAULTS[fault]
    columns = {name: [*values] for name, values in COLUMNS.items()}
    for name, value in changes.items():
        columns[name][17] = value
    if kind == "polars categories" and fault == "text unknown":
        pytest.skip("Polars itself refuses the value")
    with pytest.raises(DataRefused, match=words):
        count_everything(SOURCES[kind][1](columns, tmp_path), SCHEMA)
    ((name, value),) = changes.items()
    with pytest.raises(DataRefused) as plain:
        count_everything(SOURCES[kind][1](columns, tmp_path), SCHEMA, details=False)
    message = str(plain.value)
    assert message.startswith(f"column {name!r} holds values that the schema does not declare.")
    assert message.endswith("details=True.)")
    assert " of 500" not in message
    assert name == "kids" or str(value) not in message  # of "kids", 1 is part of what is declared
    assert plain.value.kind == "values that the schema does not declare"
    assert plain.value.__cause__ is None


def test_every_column_at_fault_is_named(tmp_path: Path) -> None:
    columns = {name: [*values] for name, values in COLUMNS.items()}
    columns["sex"][3], columns["kids"][5], columns["kids"][7] = "X", 9, None
    with pytest.raises(DataError, match=r"column 'sex': 1 .* The same goes for 'kids' \(2 rows\)"):
        count_everything(as_csv(columns, tmp_path), SCHEMA)
    with pytest.raises(DataError, match=r"column 'sex' holds .* The same goes for 'kids'\. \(The"):
        count_everything(as_csv(columns, tmp_path), SCHEMA, details=False)


@pytest.mark.parametrize("kind", ["csv", "pyarrow reader", "pyarrow dataset", "polars scan"])
def test_many_records_are_not_kept(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "_KEPT_BYTES", 100)
    source = open_source(SOURCES[kind][1](COLUMNS, tmp_path), SCHEMA)
    codes = expected_codes(COLUMNS)
    expected = np.bincount(codes[:, 0], minlength=6).tolist()
    assert source.marginals(np.array([[0]])).tolist() == [expected]
    if kind == "pyarrow reader":
        with pytest.raises(DataError, match="read to its end"):
            source.marginals(np.array([[0]]))
    else:
        assert source.marginals(np.array([[0]])).tolist() == [expected]


@pytest.mark.parametrize("kind", [kind for kind in SOURCES if kind != "codes"])
def test_missing_columns_are_listed(kind: str, tmp_path: Path) -> None:
    schema = Schema({"age": SCHEMA["age"], "aeg": SCHEMA["age"], "b": SCHEMA["age"]})
    with pytest.raises(
        DataError, match=r"lack the column\(s\) 'aeg', 'b'; they have 'unused', 'age'"
    ):
        # The first line of text may be a record: all of it is shown to those who ask.
        open_source(SOURCES[kind][1](COLUMNS, tmp_path), schema, details=kind == "csv")


def test_few_of_many_unknown_values_are_shown() -> None:
    values = [*range(100), *range(100)]
    with pytest.raises(DataError, match="200 of 200 rows") as error:
        open_source(
            {"a": np.array(values)}, Schema({"a": Ordinal(range(1000, 1001))}), details=True
        )
    assert "0, 1, 2, 3, 4, …" in str(error.value)
    assert "do not publish" in str(error.value)


class TestArrays:
    schema = Schema.from_sizes({"a": 2, "b": 3, "c": 4})

    def test_counts_of_the_domain(self) -> None:
        counts = np.arange(24).reshape(2, 3, 4)
        source = open_source(counts, self.schema)
        assert isinstance(source, CountTensor)
        assert source.marginals(np.array([[0]])).tolist() == [[66, 210]]

    def test_one_attribute(self) -> None:
        schema = Schema.from_sizes({"a": 3})
        assert isinstance(open_source(np.array([5, 0, 2]), schema), CountTensor)
        codes = open_source(np.array([[2], [2], [0]]), schema)
        assert codes.marginals(np.array([[0]])).tolist() == [[1, 0, 2]]

    def test_two_dimensions_are_codes(self) -> None:
        schema = Schema.from_sizes({"a": 2, "b": 2})
        codes = np.array([[0, 1], [1, 1], [1, 1]])
        table = [[[0, 1], [0, 2]]]
        assert open_source(codes, schema).marginals(np.array([[0, 1]])).tolist() == table

    @pytest.mark.parametrize("kind", [int, float])
    def test_what_may_be_codes_or_counts_is_refused(self, kind: type) -> None:
        schema = Schema.from_sizes({"a": 12, "b": 2})
        both = np.ones((12, 2), dtype=kind)
        with pytest.raises(
            DataError, match=r"may hold 12 records .* CountTensor\(schema, counts\)"
        ):
            open_source(both, schema)
        counts = open_source(CountTensor(schema, both), schema)
        assert counts.marginals(np.array([[1]])).tolist() == [[12, 12]]
        records = open_source({"a": both[:, 0], "b": both[:, 1]}, schema)
        assert records.marginals(np.array([[1]])).tolist() == [[0, 12]]

    @pytest.mark.parametrize("kind", [int, float])
    def test_counts_of_two_attributes_and_flat_ones(self, kind: type) -> None:
        schema = Schema.from_sizes({"a": 2, "b": 3})
        counts = np.arange(6, dtype=kind)
        for data in (counts, counts.reshape(2, 3)):
            source = open_source(data, schema)
            assert source.marginals(np.array([[0, 1]])).tolist() == [[[0, 1, 2], [3, 4, 5]]]

    def test_codes_are_a_copy(self) -> None:
        codes = np.zeros((4, 1), dtype=np.uint8)
        source = open_source(codes, Schema.from_sizes({"a": 2}))
        codes[0] = 1
        assert source.marginals(np.array([[0]])).tolist() == [[4, 0]]

    @pytest.mark.parametrize("shape", [(5,), (5, 2), (3, 2), (2, 3, 5), ()])
    def test_other_shapes_are_refused(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(DataError, match=r"shape \(rows, 3\), counts \(2, 3, 4\)"):
            open_source(np.zeros(shape, dtype=int), self.schema)

    def test_codes_outside_are_refused(self) -> None:
        codes = np.array([[2, 0, 0]])
        with pytest.raises(DataError, match="column 'a': codes go from 2 to 2"):
            open_source(codes, self.schema, details=True)
        with pytest.raises(DataError, match=r"column 'a': some codes are outside .*, 0 to 1; if"):
            open_source(codes, self.schema)

    def test_unequal_columns_are_refused(self) -> None:
        with pytest.raises(DataError, match="one length"):
            open_source({"a": [0], "b": [0, 1], "c": [0]}, self.schema)

    def test_columns_have_one_dimension(self) -> None:
        with pytest.raises(DataError, match="column 'b': must be a 1-D"):
            open_source({"a": [0], "b": np.zeros((1, 1)), "c": [0]}, self.schema)
        with pytest.raises(DataError, match="column 'b'"):
            open_source({"a": [0], "b": 3, "c": [0]}, self.schema)

    def test_masked_values_are_missing(self) -> None:
        masked = np.ma.MaskedArray([0, 1], mask=[False, True])
        with pytest.raises(DataError, match=r"1 of 2 rows .*: null"):
            open_source({"a": masked}, Schema.from_sizes({"a": 2}), details=True)
        caught = Schema({"a": Categorical([0, 1], other="missing")})
        assert open_source({"a": masked}, caught).marginals(np.array([[0]])).tolist() == [[1, 0, 1]]


class TestProjectable:
    def test_is_returned_as_it_is(self) -> None:
        schema = Schema.from_sizes({"a": 2})
        records = Records(schema, [[0, 1]])
        assert open_source(records, Schema.from_sizes({"a": 2})) is records

    def test_another_schema_is_refused(self) -> None:
        records = Records(Schema.from_sizes({"a": 2}), [[0, 1]])
        with pytest.raises(DataError, match="another schema"):
            open_source(records, Schema.from_sizes({"a": 3}))


@pytest.mark.parametrize("data", [3, None, [1, 2], pl.Series([1]), object(), b"people.csv"])
def test_anything_else_is_refused(data: object) -> None:
    with pytest.raises(DataError, match=f"cannot count a {type(data).__qualname__}; pass a path"):
        open_source(data, SCHEMA)


def test_two_columns_of_one_name_are_refused() -> None:
    people = pd.DataFrame([[1, 2]], columns=["age", "age"])
    with pytest.raises(DataError, match=r"cannot read the frame: (.|\n)*'age' 2 times"):
        open_source(people, Schema({"age": Ordinal(range(3))}), details=True)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
class TestTypesOfFrames:
    """What an array of NumPy would lose on the way."""

    def made(self, library: str, column: pa.Array) -> Any:
        table = pa.table({"x": column})
        if library == "pandas":
            return table.to_pandas(types_mapper=pd.ArrowDtype)
        return table if library == "pyarrow" else pl.from_arrow(table)

    def test_large_numbers_beside_missing_ones(self, library: str) -> None:
        numbers = [2**53, 2**53 + 1, None, 0]
        schema = Schema({"x": Categorical([2**53 + 1], other="other")})
        frame = self.made(library, pa.array(numbers, pa.int64()))
        assert count_everything(frame, schema) == [[1, 3]]
        zero = Schema({"x": Ordinal([0, 2**53, 2**53 + 1])})
        with pytest.raises(DataError, match=r"1 of 4 rows .*: null\."):
            count_everything(frame, zero)

    def test_times_with_a_zone(self, library: str) -> None:
        noon = datetime(2020, 6, 1, 12, tzinfo=UTC)
        column = pa.array([noon, noon, None], pa.timestamp("us", tz="Europe/Paris"))
        frame = self.made(library, column)
        aware = Categorical([noon.astimezone(timezone(timedelta(hours=2)))], other="other")
        naive = Categorical([datetime(2020, 6, 1, 12)], other="other")
        assert count_everything(frame, Schema({"x": aware})) == [[2, 1]]
        assert count_everything(frame, Schema({"x": naive})) == [[0, 3]]


def test_records_are_no_longer_the_callers() -> None:
    """They are counted more than once, and what is counted later must be the same records."""
    schema = Schema.from_sizes({"a": 3, "b": 300})
    mine = [np.zeros(5, np.uint8), np.zeros(5, np.uint16)]
    behind = np.zeros(5, np.uint8)
    shown = behind[:]
    shown.setflags(write=False)  # but for whoever has the array behind it
    for columns in (mine, [shown, mine[1]], [column.astype(np.int64) for column in mine]):
        records = Records(schema, columns)
        before = records.marginals([[0]]).tolist()
        for column in (*columns, behind):
            if column.flags.writeable:
                column += 1
        assert records.marginals([[0]]).tolist() == before == [[5, 0, 0]]
        assert not any(column.flags.writeable for column in records.columns)
        for column in (*mine, behind):
            column[:] = 0


def test_read_only_records_are_not_copied() -> None:
    column = np.zeros(5, np.uint8)
    column.setflags(write=False)
    assert Records(Schema.from_sizes({"a": 3}), [column]).columns[0] is column
