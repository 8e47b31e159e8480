"""The cell of missing values: outside order, ranges and sums up to a value, and asked by name."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.errors import PlanError, QueryError
from noiseplan.queries.predicates import predicate_query
from noiseplan.queries.questions import read_question

GONE = "not stated"
AGE = nz.Ordinal(range(4), missing=GONE)
INCOME = nz.Binned([0, 10, 20, 50], missing=GONE)
SEX = nz.Categorical(["F", "M"], other="another", missing=GONE)
SCHEMA = nz.Schema({"age": AGE, "income": INCOME, "sex": SEX})


def rows(factor: nz.Factor, attribute: nz.Attribute) -> dict[object, list[int]]:
    dense = factor.matrix(attribute).dense().astype(int).tolist()
    return dict(zip(factor.row_labels(attribute), dense, strict=True))


def test_factors_of_an_order_never_count_the_missing() -> None:
    assert AGE.labels == (0, 1, 2, 3, GONE)
    assert rows(nz.Prefix(), INCOME) == {
        "< 10": [1, 0, 0, 0],
        "< 20": [1, 1, 0, 0],
        "≤ 50": [1, 1, 1, 0],
    }
    ranges = rows(nz.Ranges(), AGE)
    assert len(ranges) == 10 and ranges["1 … 3"] == [0, 1, 1, 1, 0]
    assert not any(row[-1] for row in ranges.values())
    assert rows(nz.Levels(2), AGE) == {
        0: [1, 0, 0, 0, 0],
        1: [0, 1, 0, 0, 0],
        2: [0, 0, 1, 0, 0],
        3: [0, 0, 0, 1, 0],
        "0 … 1": [1, 1, 0, 0, 0],
        "2 … 3": [0, 0, 1, 1, 0],
        "all but not stated": [1, 1, 1, 1, 0],
    }
    groups = {"F": "one", "M": "two", "another": "two"}
    assert rows(nz.Levels(groups, leaves=False), SEX) == {
        "one": [1, 0, 0, 0],
        "two": [0, 1, 1, 0],
        "all but not stated": [1, 1, 1, 0],
    }
    assert nz.Levels(["a", "a", "b", "b"]).matrix(AGE).shape == (7, 5)


def test_plain_tables_show_it_last_and_totals_count_it() -> None:
    assert list(rows(nz.Identity(), INCOME)) == ["[0, 10)", "[10, 20)", "[20, 50]", GONE]
    assert rows(nz.Total(), INCOME) == {"total": [1, 1, 1, 1]}


VALUES = {
    "age": [0, 1, 2, 3, None],
    "income": [5, 15, 30, None],
    "sex": ["F", "M", "another", None],
}
comparisons = st.sampled_from(
    [
        "age < 2",
        "age >= 1",
        "age = 3",
        "age != 1",
        "age in (0, 3)",
        "age between 1 and 2",
        "income < 20",
        "income >= 10",
        "sex = 'F'",
        "sex <> 'M'",
        "sex not in ('F', 'M')",
        "age is null",
        "income is null",
        "sex is not null",
    ]
)
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        inner.map(lambda one: f"not ({one})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
            lambda three: f"({three[0]}) {three[1]} ({three[2]})"
        ),
    ),
    max_leaves=6,
)


CELLS = [(a, i, s) for a in VALUES["age"] for i in VALUES["income"] for s in VALUES["sex"]]


@pytest.fixture(scope="module")
def people() -> Iterator[duckdb.DuckDBPyConnection]:
    """Every cell of the domain as one record of a table with nulls."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE people (age INT, income INT, sex VARCHAR, cell INT)")
        connection.executemany(
            "INSERT INTO people VALUES (?, ?, ?, ?)",
            [[*values, number] for number, values in enumerate(CELLS)],
        )
        yield connection


@examples(150)
@given(text=conditions)
def test_conditions_mean_what_they_mean_in_sql(
    people: duckdb.DuckDBPyConnection, text: str
) -> None:
    found = people.execute(f"SELECT cell FROM people WHERE {text}").fetchall()
    wanted = np.zeros(len(CELLS))
    wanted[[cell for (cell,) in found]] = 1
    if not wanted.any():
        with pytest.raises(QueryError, match="no record can satisfy"):
            predicate_query(SCHEMA, text)
        return
    np.testing.assert_array_equal(predicate_query(SCHEMA, text).dense()[0], wanted)


def test_the_cell_is_asked_for_by_name() -> None:
    one = predicate_query(SCHEMA, "income = 'not stated'").dense()
    np.testing.assert_array_equal(one, predicate_query(SCHEMA, "income is null").dense())
    named = predicate_query(SCHEMA, "age < 2 or age = 'not stated'")
    assert named.row_labels() == {"age": ["0 … 1 + not stated"]}
    assert named.dense().sum() == 3 * 16
    not_named = predicate_query(SCHEMA, "age != 'not stated'").dense()
    np.testing.assert_array_equal(not_named, predicate_query(SCHEMA, "age is not null").dense())
    for question, chosen in (
        ("age=..1", [1, 1, 0, 0, 0]),
        ("age=2..", [0, 0, 1, 1, 0]),
        ("age=not stated", [0, 0, 0, 0, 1]),
        ("age=1..+not stated", [0, 1, 1, 1, 1]),
    ):
        factor = read_question(question, SCHEMA).factors["age"]
        assert factor.matrix(AGE).dense().astype(int).tolist() == [chosen], question


def test_it_has_no_place_in_the_order() -> None:
    with pytest.raises(QueryError, match="outside the order of 'age'; write age is null"):
        predicate_query(SCHEMA, "age < 'not stated'")
    with pytest.raises(QueryError, match="outside the order; join it with"):
        read_question("age=1..not stated", SCHEMA)
    one = nz.Schema({"age": AGE})
    with pytest.raises(PlanError, match="nobody's neighbour"):
        nz.plan(nz.Workload.prefix(one), budget=nz.zCDP(0.5), planner="dawa")


@pytest.mark.parametrize("factor", [nz.Prefix(), nz.Ranges(), nz.Levels(4)])
def test_sums_cost_what_they_cost_without_the_cell(factor: nz.Factor) -> None:
    """Nothing is spent on a cell that no query counts: errors and bounds are those without it."""
    bare = nz.Schema({"age": nz.Ordinal(range(16)), "sex": nz.Categorical(["F", "M"])})
    wide = nz.Schema({**{n: bare[n] for n in bare}, "age": nz.Ordinal(range(16), missing=GONE)})
    plans = [
        nz.plan(
            nz.Workload([nz.Query(schema, {"age": factor, "sex": nz.Identity()})]),
            budget=nz.zCDP(0.5),
        )
        for schema in (bare, wide)
    ]
    assert plans[1].total_variance == pytest.approx(plans[0].total_variance, rel=1e-3)
    assert plans[1].lower_bound == pytest.approx(plans[0].lower_bound, rel=1e-6)


def test_attributes_of_one_size_are_told_apart() -> None:
    """Prefix sums of five values, and of four with a cell: their variances by brute force."""
    schema = nz.Schema({"a": nz.Ordinal(range(5)), "b": nz.Ordinal(range(4), missing=GONE)})
    queries = [nz.Query(schema, {name: nz.Prefix()}) for name in schema]
    queries.append(nz.Query(schema, ["a", "b"]))
    plan = nz.plan(nz.Workload(queries), budget=nz.zCDP(0.5))
    inverse = np.linalg.inv(plan.cost_matrix())
    for query in queries:
        wanted = np.einsum("ri,ij,rj->r", query.dense(), inverse, query.dense())
        np.testing.assert_allclose(plan.variance(query), wanted, rtol=1e-8)
    assert np.diag(plan.cost_matrix()).max() <= 1.0 + 1e-9
