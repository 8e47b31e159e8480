"""Predicates: read back as written, and true of the cells that a plain evaluation finds."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.errors import NoiseplanError, QueryError
from noiseplan.queries.parsing import And, Comparison, Condition, Not, Or, parse
from noiseplan.queries.predicates import predicate_query

repeatable = examples(100)

AGES = range(5)
REGIONS = ["north", "it's south", "east"]
EDGES = [0, 10, 20.5, 50]
SCHEMA = nz.Schema(
    {
        "age": nz.Ordinal(AGES),
        "region": nz.Categorical(REGIONS, other="elsewhere"),
        "the income": nz.Binned(EDGES),
        "grade": nz.Ordinal(["low", "mid", "high"]),
    }
)
# Numbers of each bin: a comparison that the bins decide gives all of them the same answer.
INSIDE = [[0, 3, 9.9], [10, 15, 20.4], [20.5, 30, 50]]
GRADES = {"low": 0, "mid": 1, "high": 2}


# ---------------------------------------------------------------- an evaluation of its own


@dataclass(frozen=True)
class Written:
    """A condition as text, with what it should be true of: a record → truth."""

    text: str
    holds: Callable[[dict[str, Any]], bool]


SIGNS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "=": operator.eq, "==": operator.eq, "!=": operator.ne, "<>": operator.ne,
}  # fmt: skip
MIRRORED = {
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
    "=": "=",
    "==": "==",
    "!=": "<>",
    "<>": "!=",
}


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@st.composite
def comparisons(draw: st.DrawFn) -> Written:
    kind = draw(
        st.sampled_from(
            ["age", "mirrored", "chain", "between", "ages", "region", "income", "grade"]
        )
    )
    sign = draw(st.sampled_from(sorted(SIGNS)))
    n, m = draw(st.sampled_from(AGES)), draw(st.sampled_from(AGES))
    age = draw(st.sampled_from(["age", '"age"', "`age`"]))
    if kind == "age":
        return Written(f"{age}{sign} {n}", lambda r: SIGNS[sign](r["age"], n))
    if kind == "mirrored":
        return Written(f"{n} {MIRRORED[sign]}{age}", lambda r: SIGNS[sign](r["age"], n))
    if kind == "chain":
        return Written(
            f"{n} <= {age} {sign} {m}", lambda r: n <= r["age"] and SIGNS[sign](r["age"], m)
        )
    if kind == "between":
        word = draw(st.sampled_from(["between", "not BETWEEN"]))
        inside = word == "between"
        return Written(f"{age} {word} {n} and {m}", lambda r: (n <= r["age"] <= m) == inside)
    if kind == "ages":
        return Written(f"age IN ({n} ,{m})", lambda r: r["age"] in (n, m))
    if kind == "region":
        some = draw(st.lists(st.sampled_from([*REGIONS, "elsewhere"]), min_size=1, max_size=3))
        word = draw(st.sampled_from(["in", "Not In"]))
        inside = word == "in"
        listed = ", ".join(map(quoted, some))
        return Written(f"region {word} ({listed})", lambda r: (r["region"] in some) == inside)
    if kind == "income":
        edge, way = draw(st.sampled_from(EDGES[:3])), draw(st.sampled_from(["<", ">="]))
        return Written(f'"the income" {way}{edge}', lambda r: SIGNS[way](r["the income"], edge))
    grade = draw(st.sampled_from(sorted(GRADES)))
    return Written(
        f"grade {sign} {quoted(grade)}", lambda r: SIGNS[sign](GRADES[r["grade"]], GRADES[grade])
    )


def combined(children: st.SearchStrategy[Written]) -> st.SearchStrategy[Written]:
    several = st.lists(children, min_size=2, max_size=3)
    return st.one_of(
        several.map(lambda parts: Written(
            "(" + " and ".join(p.text for p in parts) + ")",
            lambda r: all(p.holds(r) for p in parts))),
        several.map(lambda parts: Written(
            "(" + "\tOR ".join(p.text for p in parts) + ")",
            lambda r: any(p.holds(r) for p in parts))),
        children.map(lambda part: Written(f"not {part.text}", lambda r: not part.holds(r))),
    )  # fmt: skip


conditions = st.recursive(comparisons(), combined, max_leaves=6)


def truth(condition: Written) -> np.ndarray:
    """Of every cell, last attribute fastest, whether the condition holds; bins must agree."""
    cells = []
    for age, region, numbers, grade in product(AGES, [*REGIONS, "elsewhere"], INSIDE, GRADES):
        found = {
            condition.holds({"age": age, "region": region, "the income": x, "grade": grade})
            for x in numbers
        }
        assert len(found) == 1
        cells.append(found.pop())
    return np.array(cells, dtype=float)


@repeatable
@given(conditions)
def test_a_predicate_counts_the_cells_it_is_true_of(condition: Written) -> None:
    expected = truth(condition)
    if not expected.any():
        with pytest.raises(QueryError, match="no record can satisfy"):
            predicate_query(SCHEMA, condition.text)
        return
    query = predicate_query(SCHEMA, condition.text)
    assert query.rows == 1
    assert query.name == condition.text.strip()
    np.testing.assert_array_equal(query.dense(), expected[None, :])


@repeatable
@given(conditions)
def test_only_attributes_that_matter_are_named(condition: Written) -> None:
    """Minimal, and a product of factors exactly where the truth is one."""
    expected = truth(condition)
    if not expected.any():
        return
    query = predicate_query(SCHEMA, condition.text)
    cube = expected.reshape(SCHEMA.shape).astype(bool)
    matter = [n for axis, n in enumerate(SCHEMA.names) if (cube != cube.take([0], axis=axis)).any()]
    assert list(query.attributes) == matter
    sides = [cube.any(axis=tuple({0, 1, 2, 3} - {axis})) for axis in range(4)]
    box = np.einsum("a,b,c,d->abcd", *sides)
    assert (query.joint is None) == bool((box == cube).all())


# ---------------------------------------------------------------- the tree


names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip)
values = st.one_of(
    st.integers(-(10**12), 10**12),
    st.floats(-1e12, 1e12),
    st.booleans(),
    st.text(st.characters(codec="utf-8")),
)


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> tuple[str, Any]:
    """A text, and the tree it means: comparisons as (name, sign, values), the rest as tuples."""
    kind = draw(
        st.sampled_from(["compare", "in", "and", "or", "not"] if depth else ["compare", "in"])
    )
    if kind in ("and", "or"):
        parts = draw(st.lists(trees(depth - 1), min_size=2, max_size=3))
        return f" {kind} ".join(f"({text})" for text, _ in parts), (kind, *(t for _, t in parts))
    if kind == "not":
        text, tree = draw(trees(depth - 1))
        return f"NOT({text})", ("not", tree)
    name = draw(names)
    quote = draw(st.sampled_from('"`'))
    written = quote + name.replace(quote, quote * 2) + quote
    if kind == "in":
        found = draw(st.lists(values, min_size=1, max_size=3))
        return f"{written} in ({', '.join(map(literal, found))})", (name, "in", *found)
    sign, value = draw(st.sampled_from(["<", "<=", ">", ">=", "=", "!="])), draw(values)
    return f"{written}{sign}{literal(value)}", (name, sign, value)


def literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return quoted(value) if isinstance(value, str) else repr(value)


def plain(tree: Condition) -> Any:
    if isinstance(tree, Comparison):
        return (tree.name, tree.sign, *(found.value for found in tree.values))
    if isinstance(tree, Not):
        return "not", plain(tree.inner)
    assert isinstance(tree, And | Or)
    return type(tree).__name__.lower(), *map(plain, tree.parts)


@repeatable
@given(trees())
def test_trees_are_read_back_as_they_were_written(written: tuple[str, Any]) -> None:
    text, expected = written
    assert plain(parse(text)) == expected


@repeatable
@given(st.text(st.sampled_from("age<>=!'\"` ()19.,andortinbew-&+e"), max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(NoiseplanError):
        predicate_query(SCHEMA, text)


def test_and_binds_closer_than_or_and_not_closest() -> None:
    assert plain(parse("a=1 or not b=2 and c=3")) == (
        "or", ("a", "=", 1), ("and", ("not", ("b", "=", 2)), ("c", "=", 3)),
    )  # fmt: skip


# ---------------------------------------------------------------- what it says when it refuses

FAULTS = [
    ("", "the predicate is empty"),
    ("age <", "age < ⟨here⟩: a value is missing"),
    ("age", "expected =, !=, <, <=, >, >=, in, between or is null after age"),
    ("< 3", "⟨here⟩ < 3: the name of an attribute is missing"),
    ("agee < 3", "⟨here⟩ agee < 3: no attribute 'agee'; the schema has"),
    ("age < 3 and region = nrth", "region = ⟨here⟩ nrth: a text is written in quotes, 'nrth'"),
    ("region = 'nrth'", "'nrth' is no value of 'region', which is .*; did you mean 'north'?"),
    ("age = '3'", "'3' is no value of 'age'.*did you mean 3?"),
    ("age = 3.5", "3.5 is no value of 'age'"),
    ("age = true", "true is no value of 'age'"),
    ("region < 'north'", "'region' has no order .*region in \\('north'"),
    ("grade < 'top'", "'top' is no value of 'grade'"),
    ("grade < 2", "2 is no value of 'grade'"),
    ('"the income" < 15', "cuts through the bin \\[10, 20.5\\): write \"the income\" < 10 or "
     '"the income" < 20.5, or declare 15 as an edge'),
    ('"the income" <= 10', "begins with 10: write \"the income\" < 10"),
    ('"the income" > 10', "begins with 10: write \"the income\" >= 10"),
    ('"the income" > 0', "through the bin \\[0, 10\\), which also holds 0 itself: declare"),
    ('"the income" = 10', "cannot tell single numbers; name a bin, \"the income\" = '\\[0, 10\\)'"),
    ('"the income" < \'10\'', "compare it with a number"),
    ("(age < 3", "a closing \\) is missing"),
    ("age < 3)", "age < 3 ⟨here⟩ \\): expected and, or, or the end"),
    ("age < 3 age > 1", "expected and, or, or the end"),
    ("age in 3", "the values come in brackets"),
    ("age in (3", "expected , or \\) after a value"),
    ("age in ()", "a value is missing"),
    ("age between 1 or 3", "between has two ends"),
    ("age not 3", "expected in or between after not"),
    ("age < 3 && age > 1", "write and, or, not as words"),
    ("region = 'north", "the quote ' is not closed"),
    ("3x < 4", "a name that starts with a digit needs quotes"),
    ("age # 3", "'#' has no meaning here"),
    ("age = 1 and age = 2", "no record can satisfy this"),
    ("age > 99", "no record can satisfy this"),
    ("not " * 200 + "age < 3", "nested more than 100 deep"),
    ("(" * 5000 + "age < 3" + ")" * 5000, "nested more than 100 deep"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), FAULTS, ids=[text[:20] for text, _ in FAULTS])
def test_faults_are_named_with_their_place(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        nz.Workload.predicates(SCHEMA, [text])


def test_what_is_no_list_of_predicates() -> None:
    for given_, message in [
        ("age < 3", "come as a list"),
        (7, "come as a list"),
        ([], "no predicates are given"),
        ([7], "a predicate is a text"),
    ]:
        with pytest.raises(QueryError, match=message):
            nz.Workload.predicates(SCHEMA, given_)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="start with their schema"):
        nz.Workload.predicates(["age < 3"], SCHEMA)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="1 weights for 2 predicates"):
        nz.Workload.predicates(SCHEMA, ["age < 3", "age < 4"], weight=[1.0])


# ---------------------------------------------------------------- single rules


def test_bins_that_take_what_lies_beyond() -> None:
    income = nz.Binned([0, 10, 20], clip=True)
    schema = nz.Schema({"income": income})
    assert predicate_query(schema, "income >= 10").dense().tolist() == [[0, 1]]
    for text in ("income >= 0", "income <= 20", "income < 30"):  # the end bins reach further
        with pytest.raises(QueryError, match="cuts through"):
            predicate_query(schema, text)


def test_the_last_bin_holds_its_edge() -> None:
    schema = nz.Schema({"x": nz.Binned([0, 10, 20])})
    assert predicate_query(schema, "x <= 20").dense().tolist() == [[1, 1]]
    with pytest.raises(QueryError, match="cuts through the bin \\[10, 20\\]"):
        predicate_query(schema, "x < 20")
    assert predicate_query(schema, "x = '[10, 20]'").dense().tolist() == [[0, 1]]
    infinite = nz.Schema({"x": nz.Binned([float("-inf"), 0, float("inf")])})
    assert predicate_query(infinite, "x < 0").dense().tolist() == [[1, 0]]


def test_order_is_the_declared_one() -> None:
    schema = nz.Schema({"size": nz.Ordinal([3, 1, 2]), "half": nz.Ordinal([0.5, 1.5])})
    assert predicate_query(schema, "size <= 1").dense()[0, ::2].tolist() == [1, 1, 0]
    with pytest.raises(QueryError, match="5 is no value of 'size'"):
        predicate_query(schema, "size < 5")
    assert predicate_query(schema, "half < 1").dense()[0, :2].tolist() == [1, 0]


def test_dates_and_truths() -> None:
    days = [date(2020, 1, 1), date(2020, 6, 1), date(2021, 1, 1)]
    times = [datetime(2020, 1, 1, 8), datetime(2020, 1, 1, 9)]
    schema = nz.Schema(
        {"day": nz.Ordinal(days), "at": nz.Ordinal(times), "ok": nz.Categorical([True, False])}
    )
    assert predicate_query(schema, "day >= '2020-03-15'").dense()[0, ::4].tolist() == [0, 1, 1]
    assert predicate_query(schema, "day = '2020-06-01'").dense()[0, ::4].tolist() == [0, 1, 0]
    assert predicate_query(schema, "at <= '2020-01-01 08:30'").dense()[0, :4].tolist() == [
        1,
        1,
        0,
        0,
    ]
    for quoted, bare in (
        ("day >= '2020-03-15'", "day>=2020-03-15"),
        ("day in ('2020-06-01', '2021-01-01')", "day in (2020-06-01,2021-01-01)"),
        ("day between '2020-01-01' and '2020-06-01'", "day between 2020-01-01 and 2020-06-01"),
        ("at <= '2020-01-01T08:30'", "2020-01-01T08:30>=at"),
        ("at = '2020-01-01T08:00:00'", "at = 2020-01-01T08:00:00.000"),
    ):
        same = predicate_query(schema, quoted).dense() == predicate_query(schema, bare).dense()
        assert same.all()
    with pytest.raises(QueryError, match=r"day > ⟨here⟩ 2020-13-01: '2020-13-01' is no date"):
        predicate_query(schema, "day > 2020-13-01")
    for text in ("day > 2020-01-01-05", "day > 2020-01-011", "at > 2020-01-01T08:00+01:00"):
        with pytest.raises(QueryError, match="⟨here⟩"):
            predicate_query(schema, text)
    assert predicate_query(schema, "ok = true").dense()[0, :2].tolist() == [1, 0]
    for text in ("day > 'soon'", "at > '2020-01-01T08:00+01:00'", "ok = 1"):
        with pytest.raises(QueryError, match=r"is no (value of|date or time)"):
            predicate_query(schema, text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("x < 10", 10),
        ("x <= 10.5", 11),
        ("x = 999999 or x in (3, 4.0)", 3),
        ("x < 1e999", 10**6),
        ("x < 1000000000000000000000000000000", 10**6),
        ("x > -1000000000000000000000000000000 and x != 7", 10**6 - 1),
    ],
)
def test_very_many_values(text: str, count: int) -> None:
    schema = nz.Schema.from_sizes({"x": 10**6})
    query = predicate_query(schema, text)
    found = query.matrices()[0].row_squares()[0] if query.attributes else 10**6
    assert found == count


def test_one_as_a_number_is_not_true() -> None:
    schema = nz.Schema({"x": nz.Categorical([1, 2])})
    with pytest.raises(QueryError, match="true is no value"):
        predicate_query(schema, "x = true")


# ---------------------------------------------------------------- workloads


def test_names_and_weights() -> None:
    workload = nz.Workload.predicates(
        SCHEMA, {"young": "age < 2", "old or north": "age > 3 or region = 'north'"}, weight=[2, 3]
    )
    assert [(q.name, q.weight) for q in workload] == [("young", 2.0), ("old or north", 3.0)]
    again = nz.Workload.predicates(SCHEMA, ["age < 2", "not age >= 2", "age < 2"])
    assert [(q.name, q.weight) for q in again] == [("age < 2", 2.0), ("not age >= 2", 1.0)]
    with pytest.raises(QueryError, match="both called"):
        nz.Workload.predicates(SCHEMA, {"a": "age < 2"}) + nz.Workload.predicates(
            SCHEMA, {"a": "age < 3"}
        )


def test_labels_of_rows() -> None:
    query = predicate_query(SCHEMA, "age != 2 and region != 'east' and \"the income\" < 20.5")
    labels = {"age": ["0 … 1 + 3 … 4"], "region": ["north + it's south + elsewhere"],
              "the income": ["[0, 20.5)"]}  # fmt: skip
    assert query.row_labels() == labels


def test_few_attributes_of_a_huge_schema() -> None:
    schema = nz.Schema.from_sizes({f"x{i}": 1000 for i in range(60)})
    conjunction = " and ".join(f"x{i} < {i + 1}" for i in range(60))
    workload = nz.Workload.predicates(
        schema, [conjunction, f"not ({conjunction.replace('and', 'or')})", "x1 = 1 or x7 > 3"]
    )
    assert [len(q.attributes) for q in workload] == [60, 60, 2]
    assert workload[2].joint is not None
    assert workload[2].joint.shape == (1, 10**6)
    assert workload[2].joint.sum() == 10**6 - 999 * 4
    with pytest.raises(QueryError, match="1,000,000,000 cells, above the limit"):
        nz.Workload.predicates(schema, ["x1 = 1 or x7 > 3 or x8 > 3"])
    with pytest.raises(QueryError, match="combinations, above the limit"):
        nz.Workload.predicates(schema, [" or ".join(f"x{i} = 3" for i in range(30))])


def test_conditions_that_are_no_products_have_a_limit_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("noiseplan.queries.predicates.MOST_NUMBERS", 35)
    nz.Workload.predicates(SCHEMA, ["age < 2 or region = 'north'"])
    with pytest.raises(QueryError, match="take 40 numbers, above the limit of 35"):
        nz.Workload.predicates(SCHEMA, [f"age < {n} or region = 'north'" for n in (2, 3)])


def test_plans_of_predicates_answer_each() -> None:
    """Variances against the cost matrix, answers without noise against the counts."""
    texts = ["age < 2 and region = 'north'", "grade >= 'mid' or age = 4", "not age between 1 and 2"]
    workload = nz.Workload.predicates(SCHEMA, texts)
    plan = nz.plan(workload, budget=nz.zCDP(0.5), planner="residual")
    inverse = np.linalg.pinv(plan.cost_matrix(), rcond=1e-11, hermitian=True)
    for text, query in zip(texts, workload, strict=True):
        row = query.dense()
        np.testing.assert_allclose(plan.variance(text), np.diag(row @ inverse @ row.T), rtol=1e-6)
    counts = np.random.default_rng(5).integers(0, 10**7, SCHEMA.shape)
    release = plan.release(counts, seed=1)
    for text, query in zip(texts, workload, strict=True):
        answer = release.answer(text)
        assert abs(answer.estimate - query.dense() @ counts.ravel()) < 8 * answer.std_error
