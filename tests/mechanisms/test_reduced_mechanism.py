"""A mechanism over fewer cells: the same numbers, answers, errors and cost over all of them."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanism_oracles import Written, dearest

import noiseplan as nz
from depth import examples
from noiseplan.domain.cells import Cells, Classes, MergedValues, SpareValues
from noiseplan.errors import PlanError, StorageError, UnanswerableError
from noiseplan.mechanisms import reduced
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.reduced import ReducedMechanism
from noiseplan.noise import Noise
from oracles import table_counts

Array = np.ndarray[Any, Any]
SCHEMA = nz.Schema(
    {"a": nz.Ordinal(range(4)), "b": nz.Categorical(["x", "y"]), "c": nz.Ordinal(range(3))}
)
HALVES = MergedValues(SCHEMA, np.array([0, 2]), (np.array([0, 0, 1, 1]), np.array([0, 1, 0])))
CLASSES = Classes(HALVES, np.array([0, 1, 1, 2]))
SPARE = SpareValues(SCHEMA, np.array([0, 2]))


def made(cells: Cells, seed: int = 0, exact: bool = True) -> ReducedMechanism:
    rng = np.random.default_rng(seed)
    size = cells.inner.size
    rows = np.vstack([np.eye(size), rng.integers(-2, 3, (2, size))])
    return ReducedMechanism(cells, DenseMechanism(cells.inner, rows, Noise("gaussian", 3.0, exact)))


def over_all_cells(mechanism: ReducedMechanism) -> Array:
    """The rows of the smaller domain, each cell with the column of the one it is merged into."""
    small = mechanism.small
    assert isinstance(small, DenseMechanism)
    return small.strategy[:, mechanism.cells.of_cells()]


@examples(30)
@given(st.sampled_from([HALVES, CLASSES]), st.integers(0, 10**6), st.booleans())
def test_it_measures_merged_cells(cells: Cells, seed: int, exact: bool) -> None:
    mechanism = made(cells, seed, exact)
    rows, rng = over_all_cells(mechanism), np.random.default_rng(seed)
    counts = rng.integers(0, 20, SCHEMA.size)
    noise = rng.integers(-4, 5, len(rows))
    measured, _ = Written(mechanism).measured(counts, noise)
    np.testing.assert_allclose(measured.values[0], rows @ counts + noise)
    mechanism.check(measured)
    for neighbours in ("add-remove", "replace"):
        brute = dearest(rows, np.full(len(rows), 3.0), 2, neighbours)
        stated = mechanism.record_cost(neighbours)  # type: ignore[arg-type]
        assert brute <= stated <= brute * (1 + 1e-9)
    np.testing.assert_allclose(mechanism.cost_matrix(), rows.T @ rows / 3.0, atol=1e-12)


@pytest.mark.parametrize("cells", [HALVES, CLASSES], ids=["values", "classes"])
def test_answers_and_errors_are_those_over_all_cells(cells: Cells) -> None:
    mechanism = made(cells)
    whole = DenseMechanism(SCHEMA, over_all_cells(mechanism), mechanism.noise)
    counts = np.random.default_rng(1).integers(0, 20, SCHEMA.size)
    noise = np.arange(mechanism.numbers) - 3
    one, other = Written(mechanism), Written(whole)
    rows = np.eye(cells.inner.size)[:, cells.of_cells()] @ np.eye(SCHEMA.size)
    asked = [
        nz.Query(SCHEMA, {}),
        nz.Query(SCHEMA, matrix=rows, name="all that is told apart"),
        nz.Query(SCHEMA, {"a": nz.Total(), "c": nz.Total()}),
    ]
    for query in asked:
        if query.attributes == SCHEMA.names:
            with pytest.raises(UnanswerableError, match="needs"):  # b is not measured
                mechanism.require(query)
            query = nz.Query(SCHEMA, ["a", "c"], matrix=_without_b(rows), name="told apart")
        np.testing.assert_allclose(
            one.answers(query, counts, noise), other.answers(query, counts, noise), atol=1e-8
        )
        np.testing.assert_allclose(mechanism.variance(query), whole.variance(query), atol=1e-9)
        for second in (nz.Query(SCHEMA, {}), query):
            np.testing.assert_allclose(
                mechanism.covariance(query, second), whole.covariance(query, second), atol=1e-9
            )


def _without_b(rows: Array) -> Array:
    """Rows over a × c that say the same of every b."""
    cube = rows.reshape(len(rows), 4, 2, 3)
    np.testing.assert_array_equal(cube[:, :, 0], cube[:, :, 1])
    return cube[:, :, 0].reshape(len(rows), -1)


def test_queries_that_tell_more_apart_are_refused() -> None:
    for mechanism, query in (
        (made(HALVES), nz.Query(SCHEMA, ["a"])),
        (made(HALVES), nz.Query(SCHEMA, ["b"])),
        (made(CLASSES), nz.Query(SCHEMA, {"c": nz.Custom([[1, 0, 1]])})),
    ):
        for refused in (mechanism.require, mechanism.variance):
            with pytest.raises(UnanswerableError, match=r"add|Add"):
                refused(query)


def test_it_counts_what_it_needs_and_no_more() -> None:
    asked: list[list[list[int]]] = []
    counts = np.arange(SCHEMA.size).reshape(SCHEMA.shape)

    def marginals(sets: Array) -> Array:
        asked.append(sets.tolist())
        return table_counts(counts)(sets)

    for cells in (HALVES, CLASSES):
        mechanism = made(cells)
        asked.clear()
        mechanism.measure(marginals, lambda shape, noise: np.zeros(shape, np.int64))
        assert asked == [sets.tolist() for sets in mechanism.sets] == [[[0, 2]]]
    assert "tell 3 of 24 apart" in made(CLASSES).describe()


def test_a_cost_matrix_too_large_says_where_the_small_one_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reduced, "DENSE_LIMIT", 24**2 - 1)
    with pytest.raises(PlanError, match=r"plan\.mechanism\.small\.cost_matrix"):
        made(HALVES).cost_matrix()


def test_floating_noise_is_that_of_the_small_one() -> None:
    mechanism = made(HALVES).floating()
    assert not mechanism.noise.exact
    assert mechanism.priced is mechanism.small  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- a value nobody has


@examples(20)
@given(st.integers(0, 10**6), st.booleans())
def test_spare_values_count_nobody(seed: int, exact: bool) -> None:
    """Rows over all cells: those of the wider domain without the cells that nobody is in."""
    mechanism, rng = made(SPARE, seed, exact), np.random.default_rng(seed)
    cube = np.asarray(mechanism.small.strategy).reshape(-1, 5, 2, 4)  # type: ignore[attr-defined]
    rows = cube[:, :4, :, :3].reshape(len(cube), -1)
    np.testing.assert_array_equal(over_all_cells(mechanism), rows)
    counts, noise = rng.integers(0, 20, SCHEMA.size), rng.integers(-4, 5, len(rows))
    measured, _ = Written(mechanism).measured(counts, noise)
    np.testing.assert_allclose(measured.values[0], rows @ counts + noise)
    np.testing.assert_allclose(mechanism.unit_rows(), rows / np.sqrt(3.0))
    np.testing.assert_allclose(mechanism.unit_values(measured), measured.values[0] / np.sqrt(3.0))
    np.testing.assert_allclose(mechanism.cell_costs(), (rows**2).sum(axis=0) / 3.0)
    for neighbours in ("add-remove", "replace"):  # whoever had the spare value might pay more
        brute = dearest(rows, np.full(len(rows), 3.0), 2, neighbours)
        assert brute <= mechanism.record_cost(neighbours)  # type: ignore[arg-type]


SPARE_QUERIES = (
    nz.Query(SCHEMA, {}),
    nz.Query(SCHEMA, ["a", "b"]),
    nz.Query(SCHEMA, {"c": nz.Prefix(), "b": nz.Identity()}),
    nz.Query(SCHEMA, {"a": nz.Custom([[1, 0, 0, 1]]), "c": nz.Identity()}),
    nz.Query(SCHEMA, ["a", "b"], matrix=np.arange(16.0).reshape(2, 8), name="joint"),
    nz.Query(SCHEMA, ["b"], matrix=[[1.0, -1.0]], name="joint of b"),
)


@pytest.mark.parametrize("query", SPARE_QUERIES, ids=str)
def test_answers_with_spare_values_are_those_over_all_cells(query: nz.Query) -> None:
    wider = SPARE.query(query).dense().reshape(-1, 5, 2, 4)
    np.testing.assert_array_equal(wider[:, :4, :, :3].reshape(query.rows, -1), query.dense())
    assert not wider[:, 4].any()
    assert not wider[..., 3].any()
    counts = np.random.default_rng(1).integers(0, 20, SCHEMA.size)
    noise = np.zeros(SPARE.inner.size + 2, dtype=np.int64)
    answered = Written(made(SPARE)).answers(query, counts, noise)
    np.testing.assert_allclose(answered, query.dense() @ counts, atol=1e-8)


def test_sets_with_and_without_spare_values_are_counted_together() -> None:
    counts = table_counts(np.arange(SCHEMA.size).reshape(SCHEMA.shape))
    found = SpareValues(SCHEMA, np.array([1])).marginals(counts)(np.array([[0], [0]]))
    np.testing.assert_array_equal(found, counts(np.array([[0], [0]])))
    assert SPARE.marginals(counts)(np.array([[0, 1], [0, 1]])).shape == (2, 5, 2)
    assert SPARE.marginals(counts)(np.zeros((1, 0), np.int64)).shape == (1,)


# ---------------------------------------------------------------------- saved


@pytest.mark.parametrize("cells", [HALVES, CLASSES, SPARE], ids=["values", "classes", "spare"])
def test_saved_and_read_back(cells: Cells) -> None:
    mechanism = made(cells)
    content, arrays = mechanism.parts()
    again = ReducedMechanism.from_parts(json.loads(json.dumps(content)), arrays, SCHEMA)
    assert type(again.cells) is type(cells)
    np.testing.assert_array_equal(again.cells.of_cells(), cells.of_cells())
    np.testing.assert_array_equal(over_all_cells(again), over_all_cells(mechanism))


DAMAGE = {
    "no list": ("cells_attributes", [[0, 2]], "list of numbers"),
    "no spare values": ("cells_spare", np.zeros(0, np.int64), "list of numbers"),
    "spare values of nothing": ("cells_spare", [3], "not those of the schema"),
    "no numbers": ("cells_attributes", [0.0, 2.0], "list of numbers"),
    "empty": ("cells_attributes", np.zeros(0, np.int64), "list of numbers"),
    "twice": ("cells_attributes", [0, 0], "not those of the schema"),
    "out of order": ("cells_attributes", [2, 0], "not those of the schema"),
    "too large": ("cells_attributes", [0, 3], "not those of the schema"),
    "below": ("cells_attributes", [-1, 2], "not those of the schema"),
    "members missing": ("cells_groups_0", [0, 0, 1], "so many integers"),
    "fractions": ("cells_groups_0", [0.0, 0.0, 1.0, 1.0], "so many integers"),
    "a group missing": ("cells_groups_0", [0, 0, 2, 2], "from 0"),
    "not by first members": ("cells_groups_0", [1, 1, 0, 0], "from 0"),
    "classes": ("cells_classes", [0, 2, 1, 1], "from 0"),
    "classes missing": ("cells_classes", [0, 1, 1], "so many integers"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_cells_are_refused(name: str) -> None:
    array, value, words = DAMAGE[name]
    content, arrays = deepcopy(made(CLASSES).parts())
    arrays[array] = np.asarray(value)
    with pytest.raises(StorageError, match=words):
        ReducedMechanism.from_parts(content, arrays, SCHEMA)


def test_a_small_mechanism_of_no_known_kind_is_refused() -> None:
    content, arrays = made(HALVES).parts()
    content = {**content, "small": {**content["small"], "kind": "magic"}}
    with pytest.raises(StorageError, match="unknown mechanism 'magic'"):
        ReducedMechanism.from_parts(content, arrays, SCHEMA)
