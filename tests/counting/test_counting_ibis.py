"""Ibis tables: DuckDB, which is spoken to directly, and every database by one statement."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from test_counting_expressions import COLUMNS as TYPES
from test_counting_expressions import attributes
from test_counting_people import CAP, PERSONS, ROWS, chosen_visits, visits
from test_counting_people import SCHEMA as VISITS
from test_counting_sources import (
    COLUMNS,
    FAULTS,
    SCHEMA,
    arrow_table,
    expected_codes,
    some_columns,
)

from depth import examples
from noiseplan.counting import Projectable, count_tables, open_source
from noiseplan.counting.ibis_tables import IbisSource, _IbisColumn
from noiseplan.errors import DataError
from noiseplan.schema import Attribute, Binned, Categorical, Ordinal, Schema

# Ibis 12 asks DuckDB 2 for Arrow by a name that goes away.
pytestmark = [
    pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The 'future.infer_string'"),  # of Ibis on SQLite
]

SETS = [
    np.array(list(members), dtype=int).reshape(1, -1)
    for k in (0, 1, 2)
    for members in combinations(range(len(SCHEMA)), k)
]
WAYS = ["duckdb", "one statement on duckdb", "postgres"]


@pytest.fixture(params=WAYS)
def database(request: pytest.FixtureRequest, ibis: Any) -> Any:
    """A connection, and how its tables are opened."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres")
    return ibis.duckdb.connect()


@pytest.fixture(params=["duckdb", "postgres", "sqlite"])
def bounding(request: pytest.FixtureRequest, ibis: Any) -> Any:
    """A connection to a database whose records are bounded there, or brought here for it."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres")
    return getattr(ibis, request.param).connect()


def open_table(request: pytest.FixtureRequest, table: Any, schema: Schema) -> Projectable:
    if "one statement" in request.node.name:
        source = IbisSource(table, schema)
        source.details = True
        return source
    return open_source(table, schema, details=True)


def stored(database: Any, columns: dict[str, list[Any]], types: Any = None) -> Any:
    """The columns as a table of the database."""
    table = arrow_table(columns) if "sex" in columns else pa.table(columns, schema=types)
    return database.create_table("people", table, overwrite=True)


def expected_table(codes: NDArray[np.int64], members: list[int]) -> NDArray[np.int64]:
    table = np.zeros([SCHEMA.shape[member] for member in members], dtype=int)
    np.add.at(table, (*codes[:, members].T,), 1 if members else len(codes))
    return table


@pytest.mark.few(2)
@pytest.mark.parametrize("rows", [500, 0])
def test_counts_like_every_other_source(
    database: Any, request: pytest.FixtureRequest, rows: int
) -> None:
    columns = {name: values[:rows] for name, values in some_columns(500).items()}
    codes = expected_codes(columns).reshape(rows, len(SCHEMA))
    source = open_table(request, stored(database, columns), SCHEMA)
    counted = count_tables(source, SETS)
    assert (source.origin, source.schema) == ("", SCHEMA)
    for sets in SETS:
        members = sets[0].tolist()
        np.testing.assert_array_equal(counted.marginals(sets)[0], expected_table(codes, members))


@pytest.mark.few(10)
@pytest.mark.parametrize("fault", FAULTS)
def test_values_outside_the_schema_are_refused(
    database: Any, request: pytest.FixtureRequest, fault: str
) -> None:
    changes, words = FAULTS[fault]
    columns = {name: [*values] for name, values in COLUMNS.items()}
    for name, value in changes.items():
        columns[name][17] = value
    source = open_table(request, stored(database, columns), SCHEMA)
    with pytest.raises(DataError, match=words):
        source.marginals(np.array([[0]]))


def test_columns_are_asked_for_at_once(database: Any) -> None:
    table = stored(database, COLUMNS)
    with pytest.raises(DataError, match=r"lack the column\(s\) 'agee'.* Is it 'age' for 'agee'\?"):
        open_source(table, Schema({"agee": Ordinal(range(3))}))
    with pytest.raises(DataError, match="lack the person column 'id'"):
        open_source(table, SCHEMA, person="id")


def test_types_of_columns(database: Any, request: pytest.FixtureRequest) -> None:
    table = pa.table(
        {
            "small": pa.array([1, 2, 2], pa.int16()),
            "exact": pa.array(["1.00", "2.50", "2.50"]).cast(pa.decimal128(9, 2)),
            "truth": pa.array([True, False, False]),
            "single": pa.array([1.0, 0.5, 0.5], pa.float32()),
        }
    )
    people = database.create_table("types", table, overwrite=True)
    for name, attribute in {
        "small": Categorical([1, 2.0]),
        "exact": Ordinal([1, 2.5]),
        "truth": Categorical([1, 0]),
        "single": Ordinal([1, 0.5]),
    }.items():
        source = open_table(request, people, Schema({name: attribute}))
        assert source.marginals(np.array([[0]])).tolist() == [[1, 2]]
    for name in ("small", "exact", "single"):
        source = open_table(request, people, Schema({name: Binned([0, 1, 3])}))
        assert source.marginals(np.array([[0]])).sum() == 3
    with pytest.raises(DataError, match="column 'truth': 3 of 3"):
        open_table(request, people, Schema({"truth": Ordinal(["yes"])})).marginals(np.array([[0]]))


@pytest.mark.parametrize("bins", [7, 64, 600], ids=["few", "many", "read here"])
def test_bins_of_numbers(database: Any, request: pytest.FixtureRequest, bins: int) -> None:
    """Each at its edge and just beside it, as the schema encodes them."""
    edges = np.linspace(-3, 4, bins + 1)
    values = np.concatenate([edges, np.nextafter(edges, 99)[:-1], np.nextafter(edges, -99)[1:]])
    people = database.create_table("numbers", pa.table({"x": values}), overwrite=True)
    attribute = Binned(edges)
    source = open_table(request, people, Schema({"x": attribute}))
    expected = np.bincount(attribute.encode(values), minlength=bins)
    np.testing.assert_array_equal(source.marginals(np.array([[0]]))[0], expected)


def test_expressions_are_tables_too(database: Any, request: pytest.FixtureRequest) -> None:
    people = stored(database, COLUMNS)
    older = people.filter(people.age > 20).mutate(age=people.age - 3)
    source = open_table(request, older, Schema({"age": Ordinal(range(18, 24))}))
    ages = [age - 3 for age in COLUMNS["age"] if age > 20]
    assert source.marginals(np.array([[0]])).tolist() == [[ages.count(a) for a in range(18, 24)]]


def test_what_the_database_says_is_passed_on(database: Any, request: pytest.FixtureRequest) -> None:
    people = database.create_table("broken", pa.table({"a": ["x"]}), overwrite=True)
    source = open_table(
        request, people.mutate(a=people.a.cast("int64")), Schema.from_sizes({"a": 3})
    )
    with pytest.raises(DataError, match=r"cannot read the relation|could not count the table"):
        source.marginals(np.array([[0]]))


def test_a_person_counts_at_most_the_cap(bounding: Any) -> None:
    table = bounding.create_table("visits", pa.table(visits()), overwrite=True)
    source = open_source(table, VISITS, person="id", cap=CAP)
    found = source.marginals(np.array([[0, 1, 2]]))
    np.testing.assert_array_equal(source.marginals(np.array([[0, 1, 2]])), found)
    assert source.marginals(np.zeros((1, 0), dtype=int)).tolist() == [int(found.sum())]
    chosen = chosen_visits(found[0])
    assert [len(set(some)) for some in chosen] == [min(n, CAP) for n in range(PERSONS)]
    subsets = Counter(chosen[ROWS:])
    expected = (PERSONS - ROWS) / 10
    # χ² with 9 degrees of freedom is above 56 once in 10⁸ draws.
    assert sum((subsets[s] - expected) ** 2 / expected for s in combinations(range(5), 2)) < 56


def test_records_of_nobody_are_refused(bounding: Any) -> None:
    columns = visits()
    columns["id"][3] = None
    table = bounding.create_table("nobody", pa.table(columns), overwrite=True)
    with pytest.raises(DataError, match=r"person column 'id': 1 of 5985 rows are null"):
        open_source(table, VISITS, person="id", details=True).marginals(np.array([[0]]))
    with pytest.raises(DataError, match=r"person column 'id': some rows are null") as plain:
        open_source(table, VISITS, person="id").marginals(np.array([[0]]))
    assert "5985" not in str(plain.value)


@pytest.mark.few(5)
@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind != "uint64"])
@examples(10)
@given(data=st.data(), attribute=attributes())
def test_every_value_has_the_code_the_schema_gives_it(
    ibis: Any, kind: str, data: st.DataObject, attribute: Attribute
) -> None:
    """As in DuckDB's SQL, but for unsigned 64-bit numbers, which Ibis takes for signed ones."""
    arrow, strategy = TYPES[kind]
    values = data.draw(st.lists(st.none() | strategy, min_size=1, max_size=8))
    column = pa.array(values, arrow)
    held = [float(v) if kind == "float" and v is not None else v for v in column.to_pylist()]
    table = ibis.memtable(pa.table({"x": column}))
    encoder = _IbisColumn("x", Schema({"x": attribute}))
    found = table.select(c=encoder.code(table)).to_pyarrow()["c"].to_pylist()
    codes = [-1 if code == encoder.refused else code for code in found]
    assert codes == attribute.encode(held).tolist()


def test_values_outside_the_schema_are_refused_where_records_are_bounded(bounding: Any) -> None:
    columns = visits()
    columns["visit"][11] = 77
    table = bounding.create_table("wrong", pa.table(columns), overwrite=True)
    with pytest.raises(DataError, match=r"column 'visit': .*77"):
        open_source(table, VISITS, person="id", details=True).marginals(np.array([[0]]))
    with pytest.raises(DataError, match=r"column 'visit'") as plain:
        open_source(table, VISITS, person="id").marginals(np.array([[0]]))
    assert "77" not in str(plain.value)


def test_what_the_database_says_of_persons_is_passed_on(postgres: Any) -> None:
    people = postgres.create_table("people", pa.table({"a": [0], "p": ["x"]}), overwrite=True)
    broken = people.mutate(p=people.p.cast("int64"))
    schema = Schema.from_sizes({"a": 2})
    with pytest.raises(DataError, match=r"postgres could not count the table.*do not publish"):
        open_source(broken, schema, person="p", details=True).marginals(np.array([[0]]))
    with pytest.raises(DataError, match=r"postgres could not count the table\. \(The details"):
        open_source(broken, schema, person="p").marginals(np.array([[0]]))


def test_zero_and_minus_zero_are_one_person(bounding: Any) -> None:
    table = bounding.create_table(
        "zeros", pa.table({"a": [0, 0], "p": [0.0, -0.0]}), overwrite=True
    )
    source = open_source(table, Schema.from_sizes({"a": 2}), person="p")
    assert source.marginals(np.array([[0]])).tolist() == [[1, 0]]
