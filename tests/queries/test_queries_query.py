"""One query against the table of all records, and every way to write it wrongly."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

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
from noiseplan.schema import Attribute, Categorical, Ordinal, Schema

repeatable = examples(120)

TOY = Schema(
    {
        "one": Categorical(["a", "b"]),
        "two": Categorical(["y", "n"]),
        "three": Ordinal([1, 2, 3]),
    }
)

# What one row of a factor counts for one value: the definition, value by value.
RowRule = Callable[[int], float]


def rules(factor: Factor, attribute: Attribute) -> list[RowRule]:
    n = attribute.size
    match factor:
        case Identity():
            return [lambda v, r=r: float(v == r) for r in range(n)]  # type: ignore[misc]
        case Total():
            return [lambda v: 1.0]
        case Prefix():
            return [lambda v, r=r: float(v <= r) for r in range(n)]  # type: ignore[misc]
        case Ranges():
            spans = [(a, a + k) for k in range(n) for a in range(n - k)]
            return [lambda v, s=s: float(s[0] <= v <= s[1]) for s in spans]  # type: ignore[misc]
        case Custom():
            return [lambda v, row=row: float(row[v]) for row in factor.values]  # type: ignore[misc]
        case Levels(groups=((*group_of_value,),), leaves=True, total=True):
            sets = [{v} for v in range(n)]
            sets += [
                {v for v in range(n) if group_of_value[v] == g}
                for g in dict.fromkeys(group_of_value)
            ]
            sets += [set(range(n))]
            return [lambda v, s=s: float(v in s) for s in sets]  # type: ignore[misc]
    raise AssertionError(factor)


def brute_force(schema: Schema, factors: dict[str, Factor]) -> NDArray[np.float64]:
    """Ask every row of every possible record, one at a time: rows × records."""
    per_attribute = [
        rules(factors.get(name, Total()), attribute)
        for name, attribute in zip(schema.names, schema.attributes, strict=True)
    ]
    records = list(product(*(range(n) for n in schema.shape)))
    table = [
        [np.prod([rule(v) for rule, v in zip(row, rec, strict=True)]) for rec in records]
        for row in product(*per_attribute)
    ]
    return np.array(table)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    return Schema.from_sizes(dict(zip("cab", sizes, strict=False)))


@st.composite
def factors_on(draw: st.DrawFn, schema: Schema) -> dict[str, Factor]:
    chosen: dict[str, Factor] = {}
    for name in draw(st.permutations(schema.names)):
        n = schema[name].size
        groups = draw(st.lists(st.sampled_from("xyz"), min_size=n, max_size=n))
        rows = draw(st.lists(st.lists(st.integers(-2, 2), min_size=n, max_size=n), min_size=1))
        kinds: list[Factor] = [Identity(), Total(), Prefix(), Ranges(), Levels(groups)]
        if any(map(any, rows)):
            kinds.append(Custom(rows))
        if draw(st.booleans()):
            chosen[name] = draw(st.sampled_from(kinds))
    return chosen


@repeatable
@given(st.data())
def test_dense_is_what_every_record_counts(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    factors = data.draw(factors_on(schema))
    query = Query(schema, factors)
    expected = brute_force(schema, factors)
    np.testing.assert_allclose(query.dense(), expected, rtol=0, atol=1e-12)
    assert query.rows == len(expected)
    kept = [n for n in schema.names if not isinstance(factors.get(n, Total()), Total)]
    assert list(query.attributes) == kept
    labels = query.row_labels()
    assert list(labels) == kept
    assert all(len(column) == query.rows for column in labels.values())


def test_row_labels_run_as_the_rows_do() -> None:
    query = Query(TOY, {"three": Prefix(), "one": Identity()})
    assert query.row_labels() == {
        "one": ["a", "a", "a", "b", "b", "b"],
        "three": ["≤ 1", "≤ 2", "≤ 3"] * 2,
    }
    np.testing.assert_array_equal(query.dense()[4], [0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 1, 0])


def test_toy_data_of_the_paper() -> None:
    """Spec E1: records an2, bn3, by3, an2, by3."""
    x = np.array([0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 1])
    answers = [
        (["one"], [2, 3]),
        (["one", "two"], [0, 2, 2, 1]),
        (["two", "three"], [0, 0, 2, 0, 2, 1]),
        ([], [5]),
    ]
    for names, answer in answers:
        assert (Query(TOY, names).dense() @ x).tolist() == answer


def test_marginal_matrix_of_the_paper() -> None:
    """Spec R2: identity on the attributes of the table, ones elsewhere."""
    dense = Query(TOY, ["one", "three"]).dense()
    assert dense.shape == (6, 12)
    assert dense.sum(axis=0).tolist() == [1] * 12  # every record is in one cell
    assert dense.sum(axis=1).tolist() == [2] * 6


@pytest.mark.parametrize("order", list(permutations(TOY.names)))
def test_the_order_of_attributes_does_not_matter(order: tuple[str, ...]) -> None:
    factors: dict[str, Factor] = {"one": Identity(), "two": Custom([[1, 2]]), "three": Prefix()}
    first = Query(TOY, factors)
    query = Query(TOY, {name: factors[name] for name in order})
    assert query.attributes == TOY.names
    assert query.name == first.name
    np.testing.assert_array_equal(query.dense(), first.dense())
    np.testing.assert_array_equal(Query(TOY, order).dense(), np.eye(12))


def test_total_is_the_same_as_not_naming() -> None:
    query = Query(TOY, {"one": Total(), "two": Identity()})
    assert query.attributes == ("two",)
    assert query.shape == (2,)
    assert query.name == "two"
    np.testing.assert_array_equal(query.dense(), Query(TOY, ["two"]).dense())
    everything = Query(TOY, {"one": Total()})
    assert (everything.name, everything.shape, everything.rows) == ("total", (), 1)
    assert everything.row_labels() == {}
    assert everything.dense().tolist() == [[1] * 12]


def test_names() -> None:
    factors: dict[str, Factor] = {"three": Ranges(), "one": Identity(), "two": Custom([[1, 2]])}
    assert Query(TOY, factors).name == "one × custom[1 row](two) × ranges(three)"
    assert Query(TOY, factors, name="mine").name == "mine"
    assert Query(TOY, ["one", "two"], matrix=np.eye(4)).name == "matrix[4 rows](one, two)"
    assert Query(TOY, ["one", "two"], matrix=[[1, 0, 0, 1]]).name == "matrix[1 row](one, two)"
    assert Query(TOY, factors).named is None
    assert Query(TOY, factors, name="mine").named == "mine"


def test_repr() -> None:
    assert repr(Query(TOY, ["one", "three"])) == "Query(one × three: 6 rows)"
    assert repr(Query(TOY, [], weight=2.5)) == "Query(total: 1 row, weight 2.5)"


@pytest.mark.parametrize("names", [*permutations(["one", "three"]), *permutations(TOY.names)])
def test_dense_matrix_with_attributes_in_any_order(names: tuple[str, ...]) -> None:
    """A column stands for a cell in the order the user named the attributes."""
    sizes = [TOY[n].size for n in names]
    matrix = np.random.default_rng(0).normal(size=(3, int(np.prod(sizes))))
    dense = Query(TOY, names, matrix=matrix).dense()
    for column, record in enumerate(product(*(range(n) for n in TOY.shape))):
        cell = 0
        for name, size in zip(names, sizes, strict=True):
            cell = cell * size + record[TOY.index(name)]
        np.testing.assert_array_equal(dense[:, column], matrix[:, cell])


def test_dense_matrix() -> None:
    query = Query(TOY, ["three", "one"], matrix=np.arange(12.0).reshape(2, 6), weight=3)
    assert query.attributes == ("one", "three")
    assert query.shape == (2,)
    assert query.rows == 2
    assert query.row_labels() == {"row": [0, 1]}
    assert query.joint is not None
    assert query.joint.tolist() == [[0, 2, 4, 1, 3, 5], [6, 8, 10, 7, 9, 11]]
    with pytest.raises(ValueError, match="read-only"):
        query.joint[0, 0] = 1


def test_a_matrix_over_one_attribute_is_a_factor() -> None:
    query = Query(TOY, ["three"], matrix=[[1, 1, 0]])
    assert query.joint is None
    assert query.factors["three"] == Custom([[1, 1, 0]])
    np.testing.assert_array_equal(
        query.dense(), brute_force(TOY, {"three": Custom([[1.0, 1.0, 0.0]])})
    )


@pytest.mark.parametrize(
    ("factors", "matrix", "message"),
    [
        ([], [[1]], "names the attributes its columns run over"),
        ({"one": Prefix(), "two": Identity()}, np.eye(4), "either factors or a matrix"),
        ({"three": Prefix()}, np.eye(3), r"either factors or a matrix.*\['three'\]"),
        ({"three": Total()}, np.eye(3), "either factors or a matrix"),
        (["one", "three"], np.eye(5), r"5 columns, but the table of .* has 2 × 3 = 6 cells"),
        (["three"], np.eye(2), "the matrix has 2 columns, but 'three' has 3 values"),
        (["one", "two"], [1, 2, 3, 4], r"matrix= needs a matrix .* found shape \(4,\)"),
        (["one", "two"], [[1, 2, 3, np.nan]], "finite"),
        (["one", "two"], [[0, 0, 0, 0]], "only zeros"),
    ],
)
def test_what_is_no_matrix_query(factors: Any, matrix: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        Query(TOY, factors, matrix=matrix)


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        (5, "as a list, .*found 5"),
        (None, "as a list, .*found None"),
        (["one", "two", "one"], "named twice in one query: 'one'"),
        ([["one"]], r"named by a text, found \['one'\]"),
        ({"one": 5}, "the factor on 'one' is 5; use Identity"),
        ({"one": "prefixes"}, "'prefixes' is neither a value of 'one' nor .*Did you mean 'prefix'"),
        ({"three": [[1, 0]]}, "Custom on 'three' has 2 columns, but 'three' has 3 values"),
        ({"three": Prefix}, r"the factor on 'three' .*did you mean Prefix\(\)\?"),
        ({"one": Prefix()}, "'one' is Categorical"),
        ({"two": Ranges()}, "'two' is Categorical"),
        ({"three": Levels(["x"])}, "level 0 of Levels on 'three' gives 1 groups for 3 values"),
    ],
)
def test_what_is_no_query(factors: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        Query(TOY, factors)


def test_unknown_attributes() -> None:
    with pytest.raises(SchemaError, match=r"no attribute 'thre'; .*'two'.*Did you mean 'three'\?"):
        Query(TOY, ["one", "thre"])
    with pytest.raises(SchemaError, match="no attribute 'age'"):
        Query(TOY, {"age": Identity()})
    with pytest.raises(SchemaError, match="no attribute 'age'"):
        Query(TOY, ["age", "one"], matrix=np.eye(2))


def test_the_schema_comes_first() -> None:
    with pytest.raises(QueryError, match="starts with its schema, found list"):
        Query(["one"], TOY)  # type: ignore[arg-type]


@pytest.mark.parametrize("weight", [0, -1, np.nan, np.inf, -np.inf, 10**400])
def test_weights_are_positive_and_finite(weight: Any) -> None:
    with pytest.raises(QueryError, match=r"positive finite number, found .*leave a query out"):
        Query(TOY, ["one"], weight=weight)


@pytest.mark.parametrize("weight", [True, "1", None, 1j, np.complex128(1), [1.0], np.array([1.0])])
def test_weights_are_numbers(weight: Any) -> None:
    with pytest.raises(QueryError, match="a weight is a positive number, found"):
        Query(TOY, ["one"], weight=weight)


@pytest.mark.parametrize("weight", [2, 2.0, np.float32(2), np.int8(2), Fraction(4, 2)])
def test_weights_become_floats(weight: Any) -> None:
    query = Query(TOY, ["one"], weight=weight)
    assert query.weight == 2.0
    assert type(query.weight) is float


@pytest.mark.parametrize("name", ["", "   ", 5, b"name"])
def test_names_are_texts(name: Any) -> None:
    with pytest.raises(QueryError, match="name is a text that is not empty"):
        Query(TOY, ["one"], name=name)


def test_dense_has_a_limit() -> None:
    large = Schema.from_sizes({f"a{i}": 10 for i in range(9)})
    query = Query(large, ["a0"])
    with pytest.raises(QueryError) as caught:
        query.dense()
    message = str(caught.value)
    assert "'a0' as a dense matrix has 10 rows × 1,000,000,000 columns" in message
    assert "matrices()" in message
    assert query.rows == 10
    assert Query(TOY, ["one"]).dense(limit=24).shape == (2, 12)
    with pytest.raises(QueryError, match="limit of 23"):
        Query(TOY, ["one"]).dense(limit=23)
    with pytest.raises(QueryError, match="limit of 11"):
        Query(TOY, ["one", "two"], matrix=[[1, 2, 3, 4]]).dense(limit=11)


def test_queries_do_not_change() -> None:
    query = Query(TOY, ["one"])
    with pytest.raises(AttributeError):
        query.weight = 3.0  # type: ignore[misc]
    with pytest.raises(TypeError):
        query.factors["two"] = Prefix()  # type: ignore[index]


def test_structured_matrices_of_each_attribute() -> None:
    matrices = Query(TOY, {"three": Prefix(), "one": Identity()}).matrices()
    assert [matrix.dense().tolist() for matrix in matrices] == [
        [[1, 0], [0, 1]],
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]],
    ]


@pytest.mark.parametrize(
    "query",
    [
        Query(TOY, {"three": Prefix(), "one": Levels({"a": 1, "b": 1})}, weight=2, name="x"),
        Query(TOY, ["three", "one"], matrix=np.arange(1, 7)[None]),
    ],
    ids=repr,
)
def test_pickled_and_back(query: Query) -> None:
    copy = pickle.loads(pickle.dumps(query))
    assert repr(copy) == repr(query)
    assert copy.named == query.named
    assert copy.attributes == query.attributes
    np.testing.assert_array_equal(copy.dense(), query.dense())


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("one", ["one"]),
        ("two, one", ["one", "two"]),
        ("one × two", ["one", "two"]),
        ({"three": "prefix"}, {"three": Prefix()}),
        ({"three": "levels(2)", "one": "identity"}, {"one": Identity(), "three": Levels(2)}),
        ({"three": [[1, 0, 2]]}, {"three": Custom([[1, 0, 2]])}),
        ({"three": np.eye(3)}, {"three": Custom(np.eye(3))}),
        ({"three": sp.csr_array(np.eye(3))}, {"three": Custom(np.eye(3))}),
    ],
)
def test_words_and_matrices_are_factors(said: Any, meant: Any) -> None:
    """What study files write, and what numbers say, is taken as the factor it stands for."""
    asked = Query(TOY, said)
    assert asked.key == Query(TOY, meant).key
    np.testing.assert_array_equal(asked.dense(), Query(TOY, meant).dense())


def test_rows_of_values_are_a_factor() -> None:
    groups = Query(TOY, {"three": f"{TOY['three'].labels[0]} | {TOY['three'].labels[2]}"})
    rows = Query(TOY, {"three": np.eye(3)[[0, 2]]})
    np.testing.assert_array_equal(groups.dense(), rows.dense())


def test_words_are_factors_of_every_table() -> None:
    words = Workload.marginals(TOY, k=2, factors={"three": "prefix"})
    assert [q.key for q in words] == [
        q.key for q in Workload.marginals(TOY, k=2, factors={"three": Prefix()})
    ]
