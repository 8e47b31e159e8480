"""Workloads: which tables, how many rows, and how they add up."""

from __future__ import annotations

from itertools import combinations
from math import comb, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depth import examples
from noiseplan.errors import QueryError, SchemaError
from noiseplan.queries import (
    Custom,
    Factor,
    Identity,
    Levels,
    Prefix,
    Query,
    Ranges,
    Total,
    Workload,
)
from noiseplan.schema import Categorical, Ordinal, Schema

repeatable = examples(100)

SIZES = {"age": 10, "sex": 2, "region": 4, "one": 1}
SCHEMA = Schema.from_sizes(SIZES)


def names(workload: Workload) -> list[str]:
    return [query.name for query in workload]


def weights(workload: Workload) -> dict[str, float]:
    return {query.name: query.weight for query in workload}


# ---------------------------------------------------------------- marginals


@pytest.mark.parametrize("k", range(5))
def test_tables_of_exactly_k_attributes(k: int) -> None:
    workload = Workload.marginals(SCHEMA, k=k)
    tables = list(combinations(SIZES, k))
    assert [query.attributes for query in workload] == tables
    assert [query.rows for query in workload] == [prod(SIZES[n] for n in t) for t in tables]
    assert len(workload) == comb(4, k)
    assert workload.rows == sum(query.rows for query in workload)
    assert set(weights(workload).values()) == {1.0}


@pytest.mark.parametrize("largest", range(5))
def test_tables_of_at_most_k_attributes(largest: int) -> None:
    workload = Workload.marginals(SCHEMA, up_to=largest)
    tables = [t for k in range(largest + 1) for t in combinations(SIZES, k)]
    assert [query.attributes for query in workload] == tables
    assert workload.rows == sum(prod(SIZES[n] for n in t) for t in tables)
    assert names(workload)[0] == "total"
    assert workload["total"].rows == 1


def test_tables_with_factors() -> None:
    factors: dict[str, Factor] = {"age": Prefix(), "region": Ranges()}
    workload = Workload.marginals(SCHEMA, k=2, factors=factors, weight=2.5)
    assert names(workload) == [
        "prefix(age) × sex",
        "prefix(age) × ranges(region)",
        "prefix(age) × one",
        "sex × ranges(region)",
        "sex × one",
        "ranges(region) × one",
    ]
    assert [query.rows for query in workload] == [20, 100, 10, 20, 2, 10]
    assert workload.sizes.tolist() == [20, 100, 10, 20, 2, 10]
    assert set(weights(workload).values()) == {2.5}


def test_tables_that_become_equal_by_a_total_merge() -> None:
    """Of the pairs (age, sex), (age, region), (sex, region), two lose the age."""
    schema = Schema.from_sizes({"age": 10, "sex": 2, "region": 4})
    pairs = Workload.marginals(schema, k=2, factors={"age": Total()})
    assert weights(pairs) == {"sex": 1.0, "region": 1.0, "sex × region": 1.0}
    both = Workload.marginals(schema, up_to=2, factors={"age": Total()}, weight=0.5)
    assert weights(both) == {"total": 1.0, "sex": 1.0, "region": 1.0, "sex × region": 0.5}
    assert both.rows == 1 + 2 + 4 + 8
    everything = Workload.marginals(schema, k=3, factors={"age": Total(), "region": Total()})
    assert weights(everything) == {"sex": 1.0}
    assert Workload.marginals(schema, k=1, factors=dict.fromkeys(schema, Total())).rows == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either k=2"),
        ({"k": 1, "up_to": 1}, "either k=2"),
        ({"k": 5}, "tables of 5 attributes: the schema has 4"),
        ({"k": -1}, "tables of -1 attributes"),
        ({"up_to": 5}, "the schema has 4"),
        ({"k": 1.0}, r"an integer, found 1\.0"),
        ({"k": True}, "an integer, found True"),
        ({"k": 1, "weight": 0}, "positive finite"),
        ({"k": 1, "factors": {"sex": 7}}, "the factor on 'sex' is 7"),
        ({"k": 1, "factors": {"sex": Custom([[1]])}}, "Custom on 'sex' has 1 columns"),
        ({"k": 1, "factors": [Prefix()]}, "maps attributes to factors"),
    ],
)
def test_what_is_no_family_of_tables(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        Workload.marginals(SCHEMA, **arguments)


def test_factors_on_unknown_attributes() -> None:
    with pytest.raises(SchemaError, match=r"no attribute 'ages'; .*Did you mean 'age'\?"):
        Workload.marginals(SCHEMA, k=1, factors={"ages": Prefix()})


def test_unordered_attributes_in_a_family() -> None:
    schema = Schema({"sex": Categorical("FM"[i] for i in range(2)), "age": Ordinal(range(3))})
    with pytest.raises(QueryError, match="'sex' is Categorical"):
        Workload.marginals(schema, k=2, factors={"sex": Prefix(), "age": Prefix()})


# ---------------------------------------------------------------- adding up


def test_equal_queries_merge_and_weights_add() -> None:
    workload = Workload(
        [
            Query(SCHEMA, ["sex"], weight=2),
            Query(SCHEMA, {"age": Prefix()}),
            Query(SCHEMA, {"sex": Identity(), "region": Total()}, weight=0.25),
            Query(SCHEMA, {"age": Identity()}),
        ]
    )
    assert weights(workload) == {"sex": 2.25, "prefix(age)": 1.0, "age": 1.0}


def test_the_sum_of_workloads() -> None:
    one = Workload.marginals(SCHEMA, up_to=2)
    two = Workload.marginals(SCHEMA, k=2, factors={"age": Prefix()}, weight=3)
    both = one + two
    new = ["prefix(age) × sex", "prefix(age) × region", "prefix(age) × one"]
    assert names(both) == [*names(one), *new]
    expected = weights(one) | dict.fromkeys(names(two), 3.0)
    for name in ("sex × region", "sex × one", "region × one"):
        expected[name] = 4.0  # in both
    assert weights(both) == expected
    assert both.rows == sum(query.rows for query in both)
    assert len(one) == 11, "adding must not change what was added"


def test_a_query_can_be_added() -> None:
    workload = Workload.marginals(SCHEMA, k=1) + Query(SCHEMA, ["age", "sex"], weight=7)
    assert weights(workload)["age × sex"] == 7.0
    with pytest.raises(TypeError):
        workload + 5  # type: ignore[operator]


def test_equal_dense_matrices_merge() -> None:
    m = np.arange(1.0, 9.0).reshape(1, 8)
    swapped = m.reshape(2, 4).T.reshape(1, 8)
    other = m + 1
    workload = Workload(
        [
            Query(SCHEMA, ["sex", "region"], matrix=m),
            Query(SCHEMA, ["sex", "region"], matrix=other, name="other"),
            Query(SCHEMA, ["region", "sex"], matrix=swapped, weight=2),
        ]
    ) + Query(SCHEMA, ["sex", "region"], matrix=m, weight=4)
    assert weights(workload) == {"matrix[1 row](sex, region)": 7.0, "other": 1.0}
    np.testing.assert_array_equal(
        workload[0].dense(), Query(SCHEMA, ["sex", "region"], matrix=m).dense()
    )
    np.testing.assert_array_equal(
        workload["other"].dense(), Query(SCHEMA, ["sex", "region"], matrix=other).dense()
    )
    assert workload.sizes.tolist() == [1, 1]
    assert workload.pairs() == []
    third = np.eye(8)[:3]
    more = workload + Query(SCHEMA, ["sex", "region"], matrix=third)
    assert more.sizes.tolist() == [1, 1, 3]
    np.testing.assert_array_equal(
        more[2].dense(), Query(SCHEMA, ["sex", "region"], matrix=third).dense()
    )


def test_a_dense_matrix_and_a_table_stay_apart() -> None:
    workload = Workload(
        [Query(SCHEMA, ["sex", "one"]), Query(SCHEMA, ["sex", "one"], matrix=np.eye(2))]
    )
    assert len(workload) == 2


def test_names_are_kept() -> None:
    plain, named = Query(SCHEMA, ["sex"], weight=2), Query(SCHEMA, ["sex"], name="by sex")
    for queries in ([plain, named], [named, plain]):
        workload = Workload([Query(SCHEMA, ["age"]), *queries, Query(SCHEMA, ["region"])])
        assert weights(workload) == {"age": 1.0, "by sex": 3.0, "region": 1.0}
    assert weights(Workload([named, named])) == {"by sex": 2.0}


def test_two_names_for_equal_queries_stay_apart() -> None:
    """Targets refer to them by name; what has no name joins the first."""
    workload = Workload(
        [
            Query(SCHEMA, ["sex"], weight=8),
            Query(SCHEMA, ["sex"], name="x"),
            Query(SCHEMA, ["sex"], name="y", weight=2),
            Query(SCHEMA, ["sex"], name="x", weight=4),
        ]
    )
    assert weights(workload) == {"x": 13.0, "y": 2.0}
    more = workload + Query(SCHEMA, ["sex"], name="y") + Query(SCHEMA, ["sex"], weight=16)
    assert weights(more) == {"x": 29.0, "y": 3.0}
    assert names(more) == ["x", "y"]


def test_one_name_for_two_queries_is_refused() -> None:
    one, two = Query(SCHEMA, ["sex"], name="x"), Query(SCHEMA, ["age"], name="x")
    with pytest.raises(QueryError, match="two different queries are both called 'x'"):
        Workload([one, two])
    with pytest.raises(QueryError, match="both called 'x'"):
        Workload([one]) + two


def test_factor_names_are_kept() -> None:
    workload = Workload(
        [
            Query(SCHEMA, {"sex": Custom([[1, 0]], name="women")}),
            Query(SCHEMA, {"sex": Custom([[1, 0]], name="first")}),
            Query(SCHEMA, {"sex": Custom([[1, 0]], name="women")}),
        ]
    )
    assert weights(workload) == {"women(sex)": 2.0, "first(sex)": 1.0}


def test_different_schemas_are_refused() -> None:
    other = Schema.from_sizes(SIZES | {"sex": 3})
    with pytest.raises(QueryError, match=r"'sex' is Ordinal\(range\(0, 3\)\) beside .*0, 2"):
        Workload([Query(SCHEMA, ["sex"]), Query(other, ["sex"])])
    with pytest.raises(QueryError, match=r"\['sex'\] beside \['age', 'sex'"):
        Workload.marginals(SCHEMA, k=1) + Query(Schema.from_sizes({"sex": 2}), ["sex"])
    twin = Schema.from_sizes(SIZES)
    assert len(Workload.marginals(SCHEMA, k=1) + Query(twin, ["sex"])) == 4


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ([], "at least one query"),
        (["age"], "made of queries, found 'age'"),
        (Query(SCHEMA, ["age"]), r"write Workload\(\[Query"),
        (5, "a list of queries"),
    ],
)
def test_what_is_no_workload(queries: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        Workload(queries)


KINDS: tuple[Factor, ...] = (
    Identity(), Total(), Prefix(), Custom([[1, 0]]), Levels([0, 0], leaves=False),
)  # fmt: skip
SMALL = Schema.from_sizes({"a": 2, "b": 2, "c": 2})


@st.composite
def small_queries(draw: st.DrawFn) -> Query:
    chosen = {n: draw(st.sampled_from(KINDS)) for n in "abc" if draw(st.booleans())}
    return Query(SMALL, chosen, weight=draw(st.integers(1, 3)))


@repeatable
@given(st.lists(small_queries(), min_size=1, max_size=12), st.integers(0, 12))
def test_adding_up_against_a_plain_sum(queries: list[Query], cut: int) -> None:
    """However the list is cut in two, the sum of the workloads is the workload of the list."""
    expected: dict[Any, float] = {}
    for query in queries:
        key = tuple(query.factors.items())
        expected[key] = expected.get(key, 0.0) + query.weight
    whole = Workload(queries)
    parts = [Workload(part) for part in (queries[:cut], queries[cut:]) if part]
    for workload in (whole, sum(parts[1:], parts[0])):
        found = {tuple(query.factors.items()): query.weight for query in workload}
        assert found == expected
        assert list(found) == list(expected)
        assert len(workload) == len(expected)
        assert workload.sizes.tolist() == [query.rows for query in workload]
