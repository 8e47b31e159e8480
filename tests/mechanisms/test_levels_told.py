"""Levels with rows of their own: what is told is answered, and all else refused."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from levels_oracles import (
    ASKED,
    BAND,
    CELLS,
    COARSE,
    EVERY,
    FINE,
    OTHERS,
    PLACE,
    SCHEMA,
    SEX,
    TOO_FINE,
    TREE,
    VALUE_OF_B,
    VALUES,
    flat,
    levels_of,
    made,
    noise_of,
    oracle,
    told,
    tree_of,
    written_out,
)

import noiseplan as nz
from depth import examples
from noiseplan.domain.tree import Tree
from noiseplan.errors import UnanswerableError
from noiseplan.mechanisms import level_answers
from noiseplan.mechanisms.base import Measurements
from noiseplan.mechanisms.measured_levels import LARGEST_SUM, LevelsMechanism


@st.composite
def random_trees(draw: st.DrawFn) -> Tree:
    """Of up to three levels over seven values, with chains and only children."""
    found, above = [], np.zeros(VALUES, dtype=int)
    for _ in range(draw(st.integers(1, 3))):
        finer = draw(st.lists(st.integers(0, 2), min_size=VALUES, max_size=VALUES))
        above = np.unique(above * 3 + finer, return_inverse=True)[1].reshape(-1)
        found.append(above)
    return tree_of(*found)


@examples(60)
@given(random_trees(), st.lists(st.sampled_from(range(5)), min_size=4, max_size=4), st.data())
def test_what_is_told_is_answered_as_written_out_on_any_tree(
    tree: Tree, which: list[int], data: st.DataObject
) -> None:
    """Rows of levels at random: a query is answered rightly, or refused; never refused where every
    level tells all it asks, and never answered where what is measured does not tell it."""
    kinds = [np.eye(6), np.vstack([SEX, BAND]), SEX, BAND, np.ones((1, 6))]
    told_rows = [kinds[each] for each in which[: tree.depth + 1]]
    levels = levels_of(tree, told_rows, seed=data.draw(st.integers(0, 9)))
    mechanism = LevelsMechanism(SCHEMA, PLACE, OTHERS, tree, levels, False)
    names = data.draw(st.lists(st.sampled_from(sorted(ASKED)), min_size=2, max_size=2))
    answered = {}
    for name in names:
        query = ASKED[name]
        try:
            variance = mechanism.variance(query)
        except UnanswerableError:
            rows = query.dense().reshape(-1, 2, VALUES, 2, 3)[:, :, :, 0]
            over = rows.transpose(0, 2, 1, 3).reshape(-1, CELLS)
            by_node = rows.transpose(0, 2, 1, 3).reshape(len(rows), VALUES, CELLS)
            node = tree.of_value
            same = all(
                np.allclose(by_node[:, node == n], by_node[:, node == n][:, :1])
                for n in range(tree.sizes[-1])
            )
            every = all(
                np.allclose(over @ np.linalg.pinv(b) @ b, over, atol=1e-8) for b in told_rows
            )
            assert not (same and every)
            continue
        assert told(mechanism, query)
        rows = oracle(mechanism, query)
        truth = np.einsum("qm,qm,m->q", rows, rows, noise_of(mechanism))
        np.testing.assert_allclose(variance, truth, rtol=1e-8, atol=1e-10)
        answered[name] = rows
    if len(answered) == 2:
        one, two = answered
        truth = (answered[one] * noise_of(mechanism)) @ answered[two].T
        found = mechanism.covariance(ASKED[one], ASKED[two])
        np.testing.assert_allclose(found, truth, atol=1e-8 * max(np.abs(truth).max(), 1.0))


def parts_far_apart() -> LevelsMechanism:
    """Children of one parent in a million parts each, those of others in one: the last level is
    told by sex alone."""
    levels = list(levels_of(TREE, [np.eye(6), np.eye(6), np.eye(6), SEX], whole=True))
    parts = np.ones(TREE.sizes[3])
    pairs = np.flatnonzero(np.bincount(TREE.parents[2]) == 2)
    parts[TREE.parents[2] == pairs[0]] = LARGEST_SUM / 4
    levels[3] = replace(levels[3], parts=parts)
    return LevelsMechanism(SCHEMA, PLACE, OTHERS, TREE, tuple(levels), True)


@pytest.mark.parametrize("value", range(VALUES))
def test_a_little_too_much_is_refused_however_parts_are(value: int) -> None:
    """Most of the weight is on what is told: the rest must not be lost in it."""
    mechanism = parts_far_apart()
    assert mechanism.siblings[2].total.min() == 1.0
    assert mechanism.siblings[2].total.max() == LARGEST_SUM / 2
    matrix = np.zeros((1, 2, VALUES, 3))
    matrix[0, 1, value], matrix[0, 1, value, 2] = 1.0, 1.05
    query = nz.Query(SCHEMA, ["a", "t", "b"], matrix=matrix.reshape(1, -1), name="a little more")
    if told(mechanism, query):  # an only child, whose parent tells it
        rows = oracle(mechanism, query)
        truth = np.einsum("qm,qm,m->q", rows, rows, noise_of(mechanism))
        np.testing.assert_allclose(mechanism.variance(query), truth, rtol=1e-9)
        return
    with pytest.raises(UnanswerableError, match="a little more"):
        mechanism.variance(query)


@pytest.mark.parametrize("large", [1.0, 1e9, 1e12])
def test_a_small_row_beside_a_large_one_is_refused_if_it_is_not_told(large: float) -> None:
    mechanism = parts_far_apart()
    matrix = np.zeros((2, 2, VALUES, 3))
    matrix[0], matrix[1, 1, 1, 2] = large, 1.0
    query = nz.Query(SCHEMA, ["a", "t", "b"], matrix=matrix.reshape(2, -1), name="two sizes")
    assert not told(mechanism, nz.Query(SCHEMA, ["a", "t", "b"], matrix=matrix[1:].reshape(1, -1)))
    with pytest.raises(UnanswerableError, match="two sizes"):
        mechanism.variance(query)


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1e6, 1e12])
@pytest.mark.parametrize("name", ["joint", "joint, without t", "joint, too fine"])
def test_matrices_of_any_size_are_told_or_not_as_they_are(name: str, size: float) -> None:
    mechanism, query = made(), ASKED[name]
    scaled = nz.Query(SCHEMA, list(query.attributes), matrix=size * np.asarray(query.joint))
    assert mechanism.determines(scaled) == mechanism.determines(query) == (name not in TOO_FINE)
    if name not in TOO_FINE:
        found = mechanism.variance(scaled) / size**2
        np.testing.assert_allclose(found, mechanism.variance(query), rtol=1e-12)


def test_a_row_that_is_not_of_the_tree_is_refused_beside_a_large_one() -> None:
    tree = tree_of(FINE, COARSE)
    levels = levels_of(tree, [np.eye(6)] * 3)
    mechanism = LevelsMechanism(SCHEMA, PLACE, OTHERS, tree, levels, False)
    matrix = np.zeros((2, 2, VALUES, 3))
    matrix[0], matrix[1, 0, 1, 0] = 1e12, 1.0  # value 1 is in one node with value 3
    for rows in (matrix, matrix[1:], 1e-12 * matrix[1:], 1e12 * matrix[1:]):
        cells = rows.reshape(len(rows), -1)
        query = nz.Query(SCHEMA, ["a", "t", "b"], matrix=cells, name="within a node")
        with pytest.raises(UnanswerableError, match="within a node"):
            mechanism.variance(query)


@pytest.mark.parametrize("kind", ["within a node", "below a level"])
def test_a_small_row_of_a_factor_is_refused_beside_a_large_one(kind: str) -> None:
    """Along the tree too: one row of all values, and one that a level does not tell."""
    fine = kind == "below a level"
    tree = tree_of(EVERY, FINE, COARSE) if fine else tree_of(FINE, COARSE)
    rows = [np.eye(6), np.eye(6), np.eye(6), SEX][: tree.depth + 1]
    mechanism = LevelsMechanism(SCHEMA, PLACE, OTHERS, tree, levels_of(tree, rows), False)
    along = np.vstack([np.full(VALUES, 1e12), np.eye(VALUES)[1]])  # 1 and 3 are in one node
    query = nz.Query(SCHEMA, {"t": nz.Custom(along), "b": VALUE_OF_B}, name=kind)
    with pytest.raises(UnanswerableError, match=kind):
        mechanism.variance(query)


def test_what_the_root_alone_tells_is_answered_of_everybody() -> None:
    """Levels below it tell sex alone: of b there is the whole, and no node."""
    mechanism = made([np.eye(6), SEX, SEX, SEX])
    for name in ("one of them", "others alone", "joint, without t"):
        rows = oracle(mechanism, ASKED[name])
        truth = np.einsum("qm,qm,m->q", rows, rows, noise_of(mechanism))
        np.testing.assert_allclose(mechanism.variance(ASKED[name]), truth, rtol=1e-9)
    for name in ("by the last", "all at the middle", "coarser than the tree"):
        assert not told(mechanism, ASKED[name]) and not mechanism.determines(ASKED[name])


def test_what_no_level_measures_is_refused() -> None:
    with pytest.raises(UnanswerableError, match=r"needs \['unasked'\]"):
        made().require(nz.Query(SCHEMA, ["t", "unasked"]))
    other = nz.Schema.from_sizes({"a": 2, "t": 7})
    with pytest.raises(UnanswerableError, match="another schema"):
        made().require(nz.Query(other, ["t"]))
    with (
        mock.patch.object(level_answers, "MOST_WEIGHTS", 50),
        pytest.raises(UnanswerableError, match="ask for tables by level"),
    ):
        made().variance(ASKED["joint"])


# The second and the third of three have one child, which has two.
CHAINED = tree_of(EVERY, np.array([0, 0, 1, 2, 2, 3, 3]), np.array([0, 0, 0, 1, 1, 2, 2]))


@pytest.mark.parametrize("rows", [[[3]], [[3], [6]], [[3, 4, 4]], [[5, 6]], [[1], [3]], [[2, 3]]])
def test_only_children_need_not_be_told_at_their_own_level(rows: list[list[int]]) -> None:
    """Nothing is measured of them there: what levels above and below them tell is enough."""
    levels = levels_of(CHAINED, [np.eye(6), np.eye(6), SEX, np.eye(6)])
    mechanism = LevelsMechanism(SCHEMA, PLACE, OTHERS, CHAINED, levels, False)
    along = np.array([np.bincount(row, minlength=VALUES) for row in rows], dtype=float)
    factors = {"a": nz.Identity(), "t": nz.Custom(along), "b": nz.Identity()}
    query = nz.Query(SCHEMA, factors, name="some places")
    if not told(mechanism, query):  # siblings at the level that tells less
        assert min(map(min, rows)) < 3
        with pytest.raises(UnanswerableError, match="some places"):
            mechanism.variance(query)
        return
    found = oracle(mechanism, query)
    truth = np.einsum("qm,qm,m->q", found, found, noise_of(mechanism))
    np.testing.assert_allclose(mechanism.variance(query), truth, rtol=1e-9)
    np.testing.assert_allclose(
        mechanism.covariance(query, query),
        (found * noise_of(mechanism)) @ found.T,
        atol=1e-9 * truth.max(),
    )
    np.testing.assert_allclose(found @ flat(written_out(mechanism)), query.dense(), atol=1e-9)
    measured = np.random.default_rng(0).normal(size=found.shape[1])
    parts = np.split(measured, np.cumsum([rows * n for rows, n in mechanism.shapes])[:-1])
    shaped = zip(parts, mechanism.shapes, strict=True)
    values = tuple(part.reshape(shape) for part, shape in shaped)
    answer = mechanism.answering(Measurements(values))(query)
    np.testing.assert_allclose(answer, found @ measured, rtol=1e-9)
