"""Workloads: how queries are found, weighted, chosen, printed and kept."""

from __future__ import annotations

import pickle
import time
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import QueryError
from noiseplan.queries import (
    Custom,
    Identity,
    Prefix,
    Query,
    Ranges,
    Workload,
)
from noiseplan.schema import Schema
from slowness import slowness

SIZES = {"age": 10, "sex": 2, "region": 4, "one": 1}
SCHEMA = Schema.from_sizes(SIZES)


def names(workload: Workload) -> list[str]:
    return [query.name for query in workload]


def weights(workload: Workload) -> dict[str, float]:
    return {query.name: query.weight for query in workload}


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


def test_by_the_parts_of_a_name_in_any_order() -> None:
    """As a question or a list has them; a name that was given, or is made, goes first."""
    schema = nz.Schema(
        {"a": nz.Ordinal(range(3)), "b": nz.Ordinal(range(2)), "c, b": nz.Ordinal([1])}
    )
    asked: list[Any] = [["a", "b"], {"a": nz.Prefix(), "b": nz.Identity()}, ["b"], ["a", "c, b"]]
    workload = nz.Workload([nz.Query(schema, each) for each in asked])
    for position, spellings in enumerate(
        [
            ("a × b", "a, b", "b,a", "b × a", "a×b", ["a", "b"], ("b", "a")),
            ("prefix(a) × b", "b, prefix(a)", ["b", "prefix(a)"]),
            ("b", ["b"]),
            ("a × c, b", ["a", "c, b"], ["c, b", "a"]),
        ]
    ):
        for spelling in spellings:
            found = workload.asked(spelling)
            assert found.key == workload[position].key, spelling
    for unknown in ("a", "a, b, b", "a,, b", "a, x", "a; b", ""):
        with pytest.raises(QueryError, match="no query is called"):
            workload.asked(unknown)
    for several in (["a", "x"], [], ["a", 1], [workload[0]], ["b", "b"]):
        with pytest.raises(QueryError, match="asked one by one"):
            workload.asked(several)
    named = nz.Workload([nz.Query(schema, ["b"], name="a, b"), *workload])
    assert named.asked("a, b").attributes == ("b",)


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


WIDE = Schema.from_sizes({f"a{i}": 10 for i in range(100)})
PAIRS = list(combinations(WIDE.names, 2))


@pytest.mark.parametrize(
    "workload",
    [
        Workload.marginals(WIDE, up_to=3),
        Workload([Query(WIDE, [f"a{i % 100}"], name=f"table {i}") for i in range(3000)]),
        Workload(
            [Query(WIDE, list(n), matrix=[[1.0] * 50 + [2.0] * 50]) for n in PAIRS[:2000]],
        ),
    ],
    ids=["made", "given", "dense"],
)
def test_after_the_first_every_name_is_found_at_once(workload: Workload) -> None:
    """One by one through all queries, a thousand names would take as long as a thousand firsts."""
    wanted = [workload.query(q).name for q in range(0, len(workload), len(workload) // 1000)]
    start = time.process_time()
    found = [workload.position(wanted[0])]
    first = time.process_time()
    found += [workload.position(name) for name in wanted[1:]]
    assert time.process_time() - first <= 100 * (first - start)
    assert [workload.query(q).name for q in found] == wanted


def test_names_of_attributes_may_hold_separators() -> None:
    """Every name is read in every way, also where separators overlap."""
    odd = Schema.from_sizes({"a": 2, "a ×": 2, "× b": 2, "b": 2, "c": 2})
    workload = Workload.marginals(odd, up_to=3)
    by_hand: dict[str, list[int]] = {}
    for position, query in enumerate(workload):
        by_hand.setdefault(query.name, []).append(position)
    assert max(map(len, by_hand.values())) > 1
    for name, positions in by_hand.items():
        if len(positions) == 1:
            assert workload.position(name) == positions[0]
        else:
            with pytest.raises(QueryError, match=f"{len(positions)} queries are called"):
                workload.position(name)


def test_a_name_is_a_text() -> None:
    with pytest.raises(QueryError, match="the name of a query is a text"):
        Workload.marginals(SCHEMA, k=1).position(5)  # type: ignore[arg-type]


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


def test_subsets_have_no_factors_or_matrices_of_others() -> None:
    """What is asked stays the same; nobody takes a part of it for more than it is."""
    schema = nz.Schema.from_sizes({"a": 3, "b": 2})
    queries = [
        nz.Query(schema, {"a": nz.Prefix()}, weight=2.0, name="up to a"),
        nz.Query(schema, ["a", "b"], matrix=np.eye(6)[:2]),
        nz.Query(schema, {"a": nz.Custom([[1, 0, 1]]), "b": nz.Identity()}),
        nz.Query(schema, ["a", "b"], matrix=np.eye(6)[3:], name="last"),
    ]
    whole = nz.Workload(queries)
    for chosen in ([0], [3, 0], [2, 1], [0, 2], [3, 1, 2, 0]):
        part = whole.subset(chosen)
        matrices = sum(queries[i].joint is not None for i in chosen)
        factors = {f for i in chosen for f in queries[i].factors.values()}
        assert len(part.columns.matrices) == matrices
        assert set(part.columns.distinct) == factors
        for found, number in zip(part, chosen, strict=True):
            assert (found.name, found.weight) == (queries[number].name, queries[number].weight)
            np.testing.assert_array_equal(found.dense(), queries[number].dense())


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
    assert time.process_time() - start < 1.0 * slowness()
    assert len(both) == comb(20, 13) + comb(20, 14)
    assert np.bincount(both.columns.weights.astype(int)).tolist() == [0, len(one), len(two)]
