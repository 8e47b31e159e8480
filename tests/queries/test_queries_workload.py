"""Workloads: which tables, how many rows, how they add up, and how they are found."""

from __future__ import annotations

import pickle
import time
from itertools import combinations
from math import comb, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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

repeatable = settings(max_examples=100, deadline=None, derandomize=True)

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
        ({"k": 1, "factors": {"sex": "prefix"}}, "the factor on 'sex' is 'prefix'"),
        ({"k": 1, "factors": {"sex": Custom([[1]])}}, "Custom on 'sex' has 1 columns"),
        ({"k": 1, "factors": [Prefix()]}, "maps attributes to factors"),
    ],
)
def test_what_is_no_family_of_tables(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        Workload.marginals(SCHEMA, **arguments)


def test_factors_on_unknown_attributes() -> None:
    with pytest.raises(SchemaError, match=r"no attribute 'ages'; did you mean 'age'\?"):
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


# ---------------------------------------------------------------- finding


def test_by_position() -> None:
    workload = Workload.marginals(SCHEMA, k=1)
    assert [workload[i].name for i in range(4)] == list(SIZES)
    assert [workload[np.int64(i)].name for i in (-1, -4)] == ["one", "age"]
    assert [query.name for query in workload] == list(SIZES)
    named = workload + Query(SCHEMA, ["age", "sex"], name="last")
    assert (named[-1].name, named[4].name) == ("last", "last")
    for position in (4, -5):
        with pytest.raises(QueryError, match=f"no query at position {position}: .* has 4"):
            workload[position]
    for wrong in (1.0, slice(2), ("age", "sex"), None):
        with pytest.raises(QueryError, match=r"by name or by position.*subset"):
            workload[wrong]  # type: ignore[index]


def test_by_name() -> None:
    workload = (
        Workload.marginals(SCHEMA, up_to=2)
        + Workload.marginals(SCHEMA, k=2, factors={"age": Prefix(), "sex": Custom([[1, 1]])})
        + Query(SCHEMA, ["age", "sex"], matrix=np.ones((1, 20)))
        + Query(SCHEMA, {"age": Ranges()}, name="all ages")
    )
    for position, query in enumerate(workload):
        assert workload.position(query.name) == position
        assert workload[query.name].attributes == query.attributes
        assert workload[query.name].factors == query.factors
    assert workload["all ages"].factors == {"age": Ranges()}
    with pytest.raises(QueryError, match=r"ranges\(age\)"):
        workload["ranges(age)"]  # it has another name


def test_a_name_that_is_unknown() -> None:
    with pytest.raises(QueryError) as caught:
        Workload.marginals(SCHEMA, k=1)["wage"]
    assert str(caught.value) == (
        "no query is called 'wage'; the workload has 'age', 'sex', 'region', 'one'; "
        "did you mean 'age'?"
    )
    with pytest.raises(QueryError, match=r"'sex × region' …; did you mean 'age'"):
        Workload.marginals(SCHEMA, up_to=2).subset([0, 1, 2, 3, 4, 5, 6, 8, 9])["wage"]
    with pytest.raises(QueryError, match="no query is called 'age × sex'"):
        Workload.marginals(SCHEMA, k=1)["age × sex"]
    for near in ("age × ", " × age", "sex × age", "age×sex", "age × age", "", "AGE"):
        with pytest.raises(QueryError, match="no query is called"):
            Workload.marginals(SCHEMA, up_to=2)[near]


def test_names_that_are_not_unique() -> None:
    workload = Workload(
        [Query(SCHEMA, {"sex": Custom([[1, 0]])}), Query(SCHEMA, {"sex": Custom([[0, 1]])})]
    )
    with pytest.raises(QueryError, match=r"2 queries are called 'custom\[1 row\]\(sex\)'"):
        workload["custom[1 row](sex)"]
    odd = Schema.from_sizes({"a": 2, "b": 2, "a × b": 2, "total": 2})
    tables = Workload.marginals(odd, up_to=2)
    for name in ("a × b", "total"):
        with pytest.raises(QueryError, match=f"2 queries are called '{name}'"):
            tables[name]
    assert tables["b × a × b"].attributes == ("b", "a × b")


def test_given_names_go_first() -> None:
    workload = Workload([Query(SCHEMA, ["age"]), Query(SCHEMA, {"age": Prefix()}, name="age")])
    assert workload.position("age") == 1


def test_finding_by_name_among_many_is_quick() -> None:
    schema = Schema.from_sizes({f"a{i}": 10 for i in range(100)})
    workload = Workload.marginals(schema, up_to=3)
    start = time.process_time()
    assert workload["a3 × a50 × a99"].attributes == ("a3", "a50", "a99")
    assert time.process_time() - start < 0.5


# ---------------------------------------------------------------- weights and subsets


def test_weighting_schemes() -> None:
    workload = Workload.marginals(SCHEMA, k=1, weight=3) + Query(SCHEMA, ["age", "sex"])
    base, sizes = np.array([3.0, 3, 3, 3, 1]), np.array([10.0, 2, 4, 1, 20])
    for scheme, expected in [
        ("rows", base),
        ("tables", base / sizes),
        ("sqrt", base / np.sqrt(sizes)),
    ]:
        found = workload.weighted(scheme)
        np.testing.assert_allclose(found.columns.weights, expected, rtol=1e-15)
        assert names(found) == names(workload)
    assert weights(workload)["age"] == 3.0
    with pytest.raises(QueryError, match=r"'cells'; choose from \['rows', 'tables', 'sqrt'\]"):
        workload.weighted("cells")


def test_subsets() -> None:
    workload = Workload(
        [
            Query(SCHEMA, ["age"], name="x"),
            Query(SCHEMA, ["sex"], weight=2),
            Query(SCHEMA, ["region"], name="z"),
            Query(SCHEMA, ["sex", "region"], matrix=np.arange(1.0, 9.0)[None], name="m"),
        ]
    )
    some = workload.subset([3, 0, 1])
    assert weights(some) == {"m": 1.0, "x": 1.0, "sex": 2.0}
    assert names(some) == ["m", "x", "sex"]
    assert some.position("x") == 1
    assert some.rows == 1 + 10 + 2
    np.testing.assert_array_equal(some["m"].dense(), workload["m"].dense())
    assert names(workload.subset([-1, -2])) == ["m", "z"]
    assert names(workload.subset(np.array([True, False, True, False]))) == ["x", "z"]
    assert names(workload.subset(range(2))) == ["x", "sex"]


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([], "at least one query"),
        ([4], "positions are 0 to 3"),
        ([-5], "positions are 0 to 3"),
        ([1, 1], "different positions"),
        ([1, -3], "different positions"),
        ([0.5], "positions are 0 to 3"),
        ([[0, 1]], "list of different positions"),
        ([False] * 4, "at least one"),
        ([True], "positions are 0 to 3"),
    ],
)
def test_what_is_no_subset(positions: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        Workload.marginals(SCHEMA, k=1).subset(positions)


def test_pairs_are_what_is_asked_of_each_attribute() -> None:
    workload = Workload.marginals(SCHEMA, k=2, factors={"age": Prefix()}) + Query(SCHEMA, ["age"])
    kinds = workload.columns.distinct
    asked = {(SCHEMA.names[a], kinds[f].label) for a, f in workload.pairs()}
    assert asked == {("age", "prefix"), ("age", ""), ("sex", ""), ("region", ""), ("one", "")}
    for a, f in workload.pairs():
        assert workload.matrix(a, f).shape == kinds[f].matrix(SCHEMA.attributes[a]).shape


def test_columns_hold_what_the_queries_say() -> None:
    """The layout planners read: ascending attributes and their factors, padded with −1."""
    workload = Workload(
        [Query(SCHEMA, {"region": Identity(), "age": Prefix()}), Query(SCHEMA, ["sex"])]
    ) + Query(SCHEMA, ["sex", "age"], matrix=np.ones((2, 20)), weight=5)
    c = workload.columns
    assert c.attributes.tolist() == [[0, 2], [1, -1], [0, 1]]
    assert [[c.distinct[f] for f in row if f >= 0] for row in c.factors[:2]] == [
        [Prefix(), Identity()],
        [Identity()],
    ]
    assert c.factors[1, 1] == -1
    assert c.weights.tolist() == [1, 1, 5]
    assert c.joint.tolist() == [-1, -1, 0]
    assert c.matrices[0].shape == (2, 20)


# ---------------------------------------------------------------- printing, saving, size


def test_str() -> None:
    workload = (
        Workload.marginals(SCHEMA, k=0)
        + Workload([Query(SCHEMA, {"age": Ranges(), "sex": Identity()}, weight=4)])
        + Query(SCHEMA, ["age", "sex", "region"], name="everything", weight=0.5)
    )
    assert str(workload) == (
        "3 queries, 191 rows, over age, sex, region, one\n"
        "  total                1 row\n"
        "  ranges(age) × sex  110 rows  weight 4\n"
        "  everything          80 rows  weight 0.5"
    )
    assert repr(workload) == "Workload(3 queries, 191 rows)"
    assert repr(workload.subset([0])) == "Workload(1 query, 1 row)"


def test_str_of_a_large_workload() -> None:
    schema = Schema.from_sizes({f"a{i}": 100 for i in range(100)})
    lines = str(Workload.marginals(schema, up_to=2)).splitlines()
    assert lines[0] == "5,051 queries, 49,510,001 rows, over a0, a1, a2, …, a99"
    assert lines[1:3] == ["  total    1 row", "  a0     100 rows"]
    assert lines[-1] == "  … and 5,039 more"
    assert len(lines) == 14


def test_workloads_do_not_change() -> None:
    workload = Workload.marginals(SCHEMA, k=1)
    with pytest.raises(AttributeError):
        workload.schema = SCHEMA  # type: ignore[misc]


def test_pickled_and_back() -> None:
    workload = Workload.marginals(SCHEMA, up_to=2) + Query(SCHEMA, {"age": Prefix()}, name="p")
    copy = pickle.loads(pickle.dumps(workload))
    assert str(copy) == str(workload)
    assert copy.schema == SCHEMA


def test_rows_beyond_64_bits() -> None:
    schema = Schema.from_sizes({f"a{i}": 2 for i in range(80)})
    largest = Workload([Query(schema, schema.names[:61])])
    assert largest.rows == 2**61
    many = [Query(schema, schema.names[i : i + 61]) for i in range(16)]
    assert Workload(many).rows == 16 * 2**61
    with pytest.raises(QueryError, match=r"query 1 .* about 10\^24 rows"):
        _ = Workload([Query(schema, ["a0"]), Query(schema, schema.names)]).rows


def test_a_hundred_attributes_up_to_three_way() -> None:
    schema = Schema.from_sizes({f"a{i}": 10 for i in range(100)})
    start = time.process_time()
    workload = Workload.marginals(schema, up_to=3)
    rows = workload.rows
    assert time.process_time() - start < 0.5
    assert len(workload) == 166_751
    assert rows == sum(comb(100, k) * 10**k for k in range(4))


def test_adding_a_hundred_thousand_wide_tables() -> None:
    """Thirteen attributes and factors do not fit one 64-bit key; the merge is still exact."""
    schema = Schema.from_sizes({f"a{i}": 3 for i in range(20)})
    one = Workload.marginals(schema, k=13)
    two = Workload.marginals(schema, k=14, factors={"a0": Prefix()})
    start = time.process_time()
    both = one + two + two
    assert time.process_time() - start < 1.0
    assert len(both) == comb(20, 13) + comb(20, 14)
    assert np.bincount(both.columns.weights.astype(int)).tolist() == [0, len(one), len(two)]
