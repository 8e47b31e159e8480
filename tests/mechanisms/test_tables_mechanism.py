"""Tables with Laplace noise: put together by precisions, they are least squares of all rows."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanism_oracles import Written, dearest, every_set, least_squares

import noiseplan as nz
from depth import examples
from noiseplan.errors import PlanError, StorageError, UnanswerableError
from noiseplan.matrices import Matrix
from noiseplan.mechanisms import tables
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.tables import (
    TableBlock,
    TablesMechanism,
    View,
    _add_last,
    by_difference,
    by_strategy,
    by_value,
)
from noiseplan.noise import Noise

Array = np.ndarray[Any, Any]
SCHEMA = nz.Schema.from_sizes({"a": 3, "b": 2, "c": 3})
BASES = (Basis.orthogonal(3), Basis.orthogonal(2))
BASIS_OF = np.array([0, 1, 0])
VALUES = (by_value(3, BASES[0]), by_value(2, BASES[1]))


def made(scales: dict[tuple[int, ...], float], exact: bool = False) -> TablesMechanism:
    """One block for each table, every value of its attributes counted."""
    blocks = []
    for attributes, scale in scales.items():
        sets = np.array([attributes], dtype=np.int64).reshape(1, len(attributes))
        views = tuple(VALUES[BASIS_OF[a]] for a in attributes)
        blocks.append(TableBlock(sets, Noise("laplace", [scale], exact), views))
    return TablesMechanism(SCHEMA, tuple(blocks), BASES, BASIS_OF)


def written_out(mechanism: TablesMechanism) -> tuple[Array, Array]:
    """Every measured row over the whole domain, and the scale of its noise, table by table."""
    rows, scales = [], []
    for block in mechanism.tables:
        for attributes, scale in zip(block.sets.tolist(), block.noise.size, strict=True):
            pieces = {a: view.measure for a, view in zip(attributes, block.views, strict=True)}
            product = np.ones((1, 1))
            for i, n in enumerate(mechanism.schema.shape):
                own = pieces.get(i, np.ones((1, n)))
                product = np.kron(product, own.dense() if isinstance(own, Matrix) else own)
            rows.append(product)
            scales += [float(scale)] * len(product)
    return np.vstack(rows), np.array(scales)


some_tables = st.dictionaries(
    st.sampled_from(every_set(3)), st.sampled_from([0.4, 1.0, 3.0]), min_size=1, max_size=5
)


@examples(25)
@given(some_tables, st.booleans())
def test_answers_are_the_best_that_all_tables_together_give(
    scales: dict[tuple[int, ...], float], exact: bool
) -> None:
    mechanism = made(scales, exact)
    rows, sizes = written_out(mechanism)
    variances = np.array([Noise("laplace", s, exact).variance[0] for s in sizes])
    counts = np.random.default_rng(len(scales)).integers(0, 30, SCHEMA.size)
    written = Written(mechanism)
    inside = {part for each in scales for part in every_set(3) if set(part) <= set(each)}
    for attributes in every_set(3):
        query = nz.Query(SCHEMA, [SCHEMA.names[i] for i in attributes])
        if attributes not in inside:
            with pytest.raises(UnanswerableError):
                mechanism.require(query)
            continue
        w, last = query.dense(), query
        np.testing.assert_allclose(written.answers(query, counts), w @ counts, atol=1e-8)
        truth = least_squares(rows, variances, w, w)
        np.testing.assert_allclose(mechanism.covariance(query, query), truth, atol=1e-7)
        np.testing.assert_allclose(mechanism.variance(query), np.diagonal(truth), atol=1e-7)
    # And the noise that is really added does what is stated, for the last that is answered.
    by_noise = written.noise_map(last)
    np.testing.assert_allclose(
        (by_noise * written.variances) @ by_noise.T, mechanism.covariance(last, last), atol=1e-7
    )


@examples(40)
@given(some_tables, st.sampled_from(["add-remove", "replace"]))
def test_the_cost_is_one_cell_of_every_table(
    scales: dict[tuple[int, ...], float], neighbours: str
) -> None:
    mechanism = made(scales)
    rows, sizes = written_out(mechanism)
    stated = mechanism.record_cost(neighbours)  # type: ignore[arg-type]
    assert dearest(rows, sizes, 1, neighbours) <= stated
    # A record is in one cell of every table, and two in different ones but for the total.
    told = [1 / scale for each, scale in scales.items() if each or neighbours == "add-remove"]
    truth = sum(told) * (1 if neighbours == "add-remove" else 2)
    assert stated == pytest.approx(truth, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(
        np.sort(np.abs(mechanism.dense_rows()), axis=0), np.sort(rows / sizes[:, None], axis=0)
    )


@examples(25)
@given(some_tables, st.sampled_from([0.3, 1.7]), st.booleans())
def test_rows_that_records_share_are_not_paid_for(
    scales: dict[tuple[int, ...], float], shared: float, exact: bool
) -> None:
    """The farthest two records, by brute force; where there are many, as two that share nothing
    but the total."""
    mechanism = made({**scales, (): shared}, exact)
    truth = dearest(*written_out(mechanism), 1, "replace")
    record = mechanism.record_cost("add-remove")
    rounding = 1e-11 * record  # outward, of the size of the columns
    assert truth <= mechanism.record_cost("replace") <= truth * (1 + 1e-9) + rounding
    assert truth <= 2 * (record - 1 / shared) * (1 + 1e-9) + rounding
    with mock.patch.object(tables, "PAIRED_NUMBERS", 0):
        many = mechanism.record_cost("replace")
    assert truth <= many <= 2 * (record - 1 / shared) * (1 + 1e-9) + rounding


def test_tables_of_strategies_and_differences() -> None:
    """An attribute by a strategy of its own, and one of two values by its difference alone."""
    strategy = np.vstack([np.eye(3), [[1.0, 1.0, 0.0]]])
    view, basis = by_strategy(strategy, np.arange(3))
    two = Basis.orthogonal(2)
    blocks = (
        TableBlock(np.array([[0]]), Noise("laplace", [2.0]), (view,)),
        TableBlock(np.array([[0, 1]]), Noise("laplace", [1.0]), (view, by_difference(two))),
    )
    schema = nz.Schema.from_sizes({"a": 3, "b": 2})
    mechanism = TablesMechanism(schema, blocks, (basis, two), np.array([0, 1]))
    rows, sizes = written_out(mechanism)
    assert mechanism.numbers == len(rows) == 8
    query = nz.Query(schema, ["a", "b"])
    truth = least_squares(rows, 2 * sizes**2, np.eye(6), np.eye(6))
    np.testing.assert_allclose(mechanism.covariance(query, query), truth, atol=1e-8)
    np.testing.assert_allclose(Written(mechanism).covariance(query, query), truth, atol=1e-8)
    norm = np.abs(strategy).sum(axis=0).max()
    assert mechanism.record_cost("add-remove") == pytest.approx(norm / 2 + norm, rel=1e-9)
    assert dearest(rows, sizes, 1, "add-remove") <= mechanism.record_cost("add-remove")
    np.testing.assert_allclose(
        mechanism.cost_matrix(), (rows / (2 * sizes**2)[:, None]).T @ rows, atol=1e-9
    )
    assert "a by 4 weighted sums" in mechanism.describe()


def test_a_block_of_many_tables_is_each_of_them() -> None:
    """Tables of one shape measured together, their noise each its own."""
    views = (VALUES[0],)
    together = TablesMechanism(
        SCHEMA,
        (TableBlock(np.array([[0], [2]]), Noise("laplace", [1.0, 3.0]), views),),
        BASES,
        BASIS_OF,
    )
    apart = made({(0,): 1.0, (2,): 3.0})
    for names in (["a"], ["c"], []):
        query = nz.Query(SCHEMA, names)
        np.testing.assert_allclose(together.variance(query), apart.variance(query), rtol=1e-12)
    assert (together.steps, together.numbers) == (2, 6)
    assert "6 noisy numbers in 2 tables" in together.describe()
    assert "noisy numbers in 1 table" in made({(0,): 1.0}).describe()


def test_places_may_repeat() -> None:
    sums = np.zeros((2, 4))
    values = np.arange(10.0).reshape(2, 5)
    _add_last(sums, np.array([3, 0, 3, 1, 3]), values)
    expected = np.zeros((2, 4))
    for column, place in enumerate([3, 0, 3, 1, 3]):
        expected[:, place] += values[:, column]
    np.testing.assert_array_equal(sums, expected)
    _add_last(sums, np.array([2, 0]), np.ones((2, 2)))
    expected[:, [2, 0]] += 1
    np.testing.assert_array_equal(sums, expected)


def test_exact_noise_measures_whole_rows_only() -> None:
    view, basis = by_strategy(np.array([[1.0, 0], [0, 1.0], [0.5, 0.5]]), np.arange(2))
    schema = nz.Schema.from_sizes({"a": 2})
    for exact in (True, False):
        block = TableBlock(np.array([[0]]), Noise("laplace", [1.0], exact), (view,))
        arguments = (schema, (block,), (basis,), np.array([0]))
        if exact:
            with pytest.raises(PlanError, match="whole numbers"):
                TablesMechanism(*arguments)
        else:
            assert not TablesMechanism(*arguments).noise.exact
    floating = made({(0,): 2.0}, exact=True).floating()
    assert not floating.noise.exact and floating.noise.size.tolist() == [2.0]


# ---------------------------------------------------------------------- saved


def example() -> TablesMechanism:
    view, basis = by_strategy(np.array([[1.0, 0], [0, 1.0], [1, 1]]), np.arange(2))
    blocks = (
        TableBlock(np.array([[1]]), Noise("laplace", [0.7], True), (view,)),
        TableBlock(np.array([[0, 1]]), Noise("laplace", [1.3], True), (VALUES[0], view)),
    )
    schema = nz.Schema.from_sizes({"a": 3, "b": 2})
    return TablesMechanism(schema, blocks, (BASES[0], basis), np.array([0, 1]))


def test_saved_and_read_back() -> None:
    mechanism = example()
    content, arrays = mechanism.parts()
    again = TablesMechanism.from_parts(json.loads(json.dumps(content)), arrays, mechanism.schema)
    assert again.noise.exact
    query = nz.Query(mechanism.schema, ["a", "b"])
    np.testing.assert_array_equal(again.variance(query), mechanism.variance(query))
    np.testing.assert_array_equal(again.dense_rows(), mechanism.dense_rows())


def _views(**change: Any) -> Any:
    def damage(content: Any, arrays: Any) -> None:
        for view in content["views"]:
            view.update(change)

    return damage


def _array(name: str, value: Any) -> Any:
    return lambda content, arrays: arrays.update({name: np.asarray(value)})


DAMAGE = {
    "unknown view": (_views(kind="guess"), "unknown view"),
    "size of a view": (_views(size=9), "does not fit its basis"),
    "no variance": (_views(kind="strategy", total=-1.0), "fit"),
    "no noise": (_array("table_0_scales", [0.0]), "no noise"),
    "negative noise": (_array("table_0_scales", [-1.0]), "no noise"),
    "infinite noise": (_array("table_0_scales", [np.inf]), "finite"),
    "too many scales": (_array("table_0_scales", [1.0, 2.0]), "do not fit"),
    "not attributes": (_array("table_0_sets", [[0.5]]), "rows of attribute numbers"),
    "an attribute too many": (_array("table_0_sets", [[7]]), "not there"),
    "an attribute below": (_array("table_0_sets", [[-1]]), "not there"),
    "another attribute": (_array("table_0_sets", [[0]]), "different bases"),
    "a view unused": (lambda content, arrays: content["views"].append({}), "unused"),
    "shape of a strategy": (_array("view_0_reduce", np.ones((2, 2))), "do not fit"),
    "bases": (_array("basis_of_attribute", [0, 5]), "not there"),
    "attributes": (_array("basis_of_attribute", [0]), "schema"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_parts_are_refused(name: str) -> None:
    damage, words = DAMAGE[name]
    mechanism = example()
    content, arrays = deepcopy(mechanism.parts())
    damage(content, arrays)
    with pytest.raises(StorageError, match=words):
        TablesMechanism.from_parts(content, arrays, mechanism.schema)


def test_attributes_out_of_order_are_refused() -> None:
    mechanism = made({(0, 2): 1.0})
    content, arrays = mechanism.parts()
    arrays = {**arrays, "table_0_sets": np.array([[2, 0]])}
    with pytest.raises(StorageError, match="ascending order"):
        TablesMechanism.from_parts(content, arrays, SCHEMA)


def test_views_are_read_as_they_were_written() -> None:
    content, arrays = example().parts()
    again = TablesMechanism.from_parts(content, arrays, example().schema)
    kinds = [[view.kind for view in block.views] for block in again.tables]
    assert kinds == [["strategy"], ["values", "strategy"]]
    assert isinstance(again.tables[0].views[0], View)
