"""Matrices over several attributes, against blocks along a long one: each row told by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples, seeds
from noiseplan.domain.series import Series
from noiseplan.domain.tree import Tree
from noiseplan.errors import UnanswerableError
from noiseplan.mechanisms.base import Measurements
from noiseplan.mechanisms.basis import Basis, MatrixBasis
from noiseplan.mechanisms.long_attribute import LongMechanism
from noiseplan.mechanisms.measured_series import SeriesMechanism
from noiseplan.mechanisms.measured_tree import TreeMechanism
from noiseplan.mechanisms.own_rows import own_basis
from noiseplan.mechanisms.series_block import PartSums, SeriesBlock
from noiseplan.mechanisms.tree_block import TreeBlock
from noiseplan.noise import Noise

# The long attribute between two others; two values of b that nothing tells apart.
SCHEMA = nz.Schema.from_sizes({"a": 3, "t": 6, "b": 4})
SHAPE, VALUES = (3, 6, 4), 6
BANDS = np.array([[1.0, -1.0, 0.0, 0.0], [1.0, 1.0, -1.0, -1.0]])
BASES: tuple[Basis, ...] = (Basis.orthogonal(3), own_basis(BANDS, np.full(4, 0.25)))
BASIS_OF = np.array([0, -1, 1])
PAIRS = np.arange(VALUES) // 2
TREE = Tree.of([np.arange(VALUES), PAIRS])
assert TREE is not None and TREE.sizes == (1, 3, 6)
# How far down the values each set of others is measured: values, pairs of them, their sum.
DEPTH = {(): 2, (0,): 1, (2,): 2, (0, 2): 0}
BOUNDS = {2: np.arange(VALUES + 1), 1: np.array([0, 2, 4, 6]), 0: np.array([0, VALUES])}


def tree() -> TreeMechanism:
    rng, blocks = np.random.default_rng(3), []
    for others, depth in DEPTH.items():
        sizes = TREE.sizes[: depth + 1]
        noise = tuple(Noise("gaussian", rng.uniform(1, 4, n)) for n in sizes)
        blocks.append(TreeBlock(TREE, others, noise))
    return TreeMechanism(SCHEMA, 1, BASES, BASIS_OF, tuple(blocks), exact=False)


def series() -> SeriesMechanism:
    rng, blocks = np.random.default_rng(4), []
    for others, depth in DEPTH.items():
        bounds = BOUNDS[depth]
        size = len(bounds) - 1
        first = np.array([5, 2, 1, 0, 0, 0])[:size]
        along = Series(first, np.array([0]), np.array([1]))
        total = (PartSums(np.array([0, size]), Noise("gaussian", rng.uniform(1, 4))),)
        noise = Noise("gaussian", rng.uniform(9, 20))
        blocks.append(SeriesBlock(others, bounds, along, noise, total if depth else ()))
    return SeriesMechanism(SCHEMA, 1, BASES, BASIS_OF, tuple(blocks), exact=False)


MADE = {"tree": tree, "series": series}


# ---------------------------------------------------------------------- the oracle


def measured_rows(mechanism: LongMechanism) -> tuple[np.ndarray, np.ndarray]:
    """All rows over all cells as they are measured, array by array, and their variances."""
    every, variances = [], []
    for block in mechanism.blocks:
        a, b = (
            np.asarray(mechanism.basis(i).measure) if i in block.others else np.ones((1, n))
            for i, n in ((0, 3), (2, 4))
        )
        if isinstance(block, TreeBlock):
            levels = enumerate(block.noise)
            along = [(np.eye(len(n.size))[:, TREE.node_of_value(at)], n.size) for at, n in levels]
        else:
            rows = np.repeat(block.series.rows(), np.diff(block.bounds), axis=1)
            along = [(rows, np.full(len(rows), block.noise.one))]
            along += [(np.ones((1, VALUES)), each.noise.size) for each in block.sums]
        for rows, sizes in along:
            cube = np.einsum("pa,qb,rt->pqratb", a, b, rows)
            every.append(cube.reshape(-1, SCHEMA.size))
            variances.append(np.tile(sizes, len(a) * len(b)))
    return np.vstack(every), np.concatenate(variances)


class Told:
    """What rows over cells have for estimates, by dense least squares."""

    def __init__(self, mechanism: LongMechanism) -> None:
        self.rows, self.noise = measured_rows(mechanism)
        unit = np.linalg.pinv(self.rows / np.sqrt(self.noise)[:, None], rcond=1e-11)
        self.takes, self.spread = unit / np.sqrt(self.noise), unit @ unit.T

    def told(self, row: np.ndarray) -> bool:
        lost = row - row @ self.takes @ self.rows
        return bool(np.abs(lost).max() <= 1e-8 * np.abs(row).max())


def asked(*rows: np.ndarray, name: str = "rows") -> nz.Query:
    return nz.Query(SCHEMA, ["a", "t", "b"], matrix=np.array(rows).reshape(-1, 72), name=name)


def told_rows(mechanism: LongMechanism, many: int, seed: int) -> np.ndarray:
    """Sums of what is measured with thirds and sevenths in them, which no number has exactly."""
    rows, rng = measured_rows(mechanism)[0], np.random.default_rng(seed)
    weights = rng.integers(-3, 4, (many, len(rows))) * (rng.random((many, len(rows))) < 0.2)
    weights[:, 0] = 1
    return np.asarray((weights / 21.0) @ rows)


# Cells that nothing tells: of one value, of one pair, of two values of b that are always together.
UNTOLD: dict[str, Any] = {
    "value by a": np.s_[0, 2],
    "a pair by a and b": np.s_[1, 4:, 0],
    "one of two alike": np.s_[:, :, 3],
}


def untold_row(kind: str) -> np.ndarray:
    cube = np.zeros(SHAPE)
    cube[UNTOLD[kind]] = 1.0
    return cube.ravel()


# ---------------------------------------------------------------------- answers and refusals


@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize("kind", MADE)
def test_matrices_are_answered_as_by_least_squares(kind: str, seed: int) -> None:
    mechanism = MADE[kind]()
    oracle, rows = Told(mechanism), told_rows(mechanism, 4, seed)
    query, other = asked(*rows[:3]), asked(*rows[2:])
    values = [np.random.default_rng(seed).standard_normal(s) for s in mechanism.shapes]
    numbers = np.concatenate([value.ravel() for value in values])
    found = mechanism.answering(Measurements(tuple(values)))(query)
    np.testing.assert_allclose(found, rows[:3] @ oracle.takes @ numbers, atol=1e-9)
    both = rows @ oracle.spread @ rows.T
    np.testing.assert_allclose(mechanism.variance(query), np.diagonal(both)[:3], rtol=1e-9)
    np.testing.assert_allclose(mechanism.covariance(query, other), both[:3, 2:], atol=1e-9)


@pytest.mark.grid
@pytest.mark.parametrize("small", [1.0, 1e-6, 1e-9, 1e-11, 1e-14])
@pytest.mark.parametrize("untold", UNTOLD)
@pytest.mark.parametrize("kind", MADE)
def test_a_small_row_that_is_not_told_is_refused_beside_a_large_one(
    kind: str, untold: str, small: float
) -> None:
    mechanism, row = MADE[kind](), untold_row(untold)
    oracle, large = Told(mechanism), told_rows(mechanism, 1, 5)[0]
    assert oracle.told(large) and not oracle.told(row)
    mechanism.require(asked(large))
    for rows in ([small * row], [large, small * row], [small * row, large]):
        query = asked(*rows, name="small beside large")
        assert not mechanism.determines(query)
        for ask in (mechanism.variance, lambda q: mechanism.covariance(q, q)):
            with pytest.raises(UnanswerableError, match="small beside large"):
                ask(query)


@pytest.mark.parametrize("small", [1.0, 1e-6, 1e-9, 1e-14])
@pytest.mark.parametrize("kind", MADE)
def test_a_small_row_that_is_told_has_its_own_errors_beside_a_large_one(
    kind: str, small: float
) -> None:
    mechanism = MADE[kind]()
    large, row = told_rows(mechanism, 2, 7)
    alone = mechanism.variance(asked(row))
    both = mechanism.variance(asked(large, small * row))
    np.testing.assert_allclose(both[1] / small**2, alone[0], rtol=1e-9)
    np.testing.assert_allclose(alone[0], row @ Told(mechanism).spread @ row, rtol=1e-9)


@pytest.mark.parametrize("kind", MADE)
def test_rounding_of_a_part_is_no_part(kind: str) -> None:
    """Rows that ask a fine set for nothing but what thirds leave of it are answered still."""
    mechanism = MADE[kind]()
    by_a = np.einsum("a,t,b->atb", [1.0, -2.0, 1.0], np.repeat([0.1, 0.7, 0.3], 2), np.ones(4))
    by_value = np.einsum("a,t,b->atb", np.ones(3), np.arange(6.0) / 7, np.full(4, 1 / 3))
    query = asked(by_a.ravel() / 3, by_value.ravel(), (by_a + by_value / 9).ravel())
    oracle, rows = Told(mechanism), query.dense()
    assert all(oracle.told(row) for row in rows)
    truth = np.einsum("qx,xy,qy->q", rows, oracle.spread, rows)
    np.testing.assert_allclose(mechanism.variance(query), truth, rtol=1e-9)


@examples(60)
@given(st.sampled_from(sorted(MADE)), st.integers(0, 999), st.data())
def test_any_rows_of_any_sizes_are_told_one_by_one(
    kind: str, seed: int, data: st.DataObject
) -> None:
    """Answered if and only if each of them is told; and as each would be by itself."""
    mechanism = MADE[kind]()
    rows = [*told_rows(mechanism, 2, seed), *map(untold_row, UNTOLD)]
    taken = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=4))
    sizes = [10.0 ** data.draw(st.integers(-12, 12)) for _ in taken]
    query = asked(*(size * rows[i] for i, size in zip(taken, sizes, strict=True)))
    assert mechanism.determines(query) == all(i < 2 for i in taken)
    if mechanism.determines(query):
        each = [mechanism.variance(asked(rows[i]))[0] for i in taken]
        found = mechanism.variance(query) / np.square(sizes)
        np.testing.assert_allclose(found, each, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_rows_of_a_basis_of_any_size_tell_the_same(scale: float) -> None:
    """Rows so many times as large, with as much more noise, are what they were."""
    base = tree()
    bases = tuple(
        MatrixBasis(np.asarray(b.measure) * scale, b.centre, np.asarray(b.recover) / scale)
        for b in base.bases
    )
    blocks = []
    for block in base.blocks:
        more = scale ** (2 * len(block.others))
        noise = tuple(Noise("gaussian", each.size * more) for each in block.noise)
        blocks.append(TreeBlock(TREE, block.others, noise))
    mechanism = TreeMechanism(SCHEMA, 1, bases, BASIS_OF, tuple(blocks), exact=False)
    row = told_rows(base, 1, 11)[0]
    truth = row @ Told(base).spread @ row
    np.testing.assert_allclose(mechanism.variance(asked(row)), [truth], rtol=1e-9)
    for untold in UNTOLD:
        assert not mechanism.determines(asked(row, untold_row(untold)))
        assert not mechanism.determines(asked(row + untold_row(untold)))
