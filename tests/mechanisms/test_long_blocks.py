"""What is measured along a long attribute: rows as its blocks see them, and dense least squares."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from depth import examples, seeds
from noiseplan.domain.series import Series
from noiseplan.domain.tree import Tree
from noiseplan.matrices import (
    DenseMatrix,
    GroupMatrix,
    IdentityMatrix,
    Matrix,
    PrefixMatrix,
    RangesMatrix,
    StackMatrix,
    TotalMatrix,
)
from noiseplan.mechanisms import series_rows
from noiseplan.mechanisms import tree_block as of_trees
from noiseplan.mechanisms.long_block import LongBlock
from noiseplan.mechanisms.series_block import PartSums, SeriesBlock
from noiseplan.mechanisms.series_rows import AllRanges, Spans, Weighted, rows_of_matrix
from noiseplan.mechanisms.tree_block import NodeRows, TreeBlock, node_rows
from noiseplan.noise import Noise

VALUES = 12
# Values by pairs, those by groups of four, and all: a tree of four levels.
PAIRS, FOURS = np.arange(VALUES) // 2, np.arange(VALUES) // 4
TREE = Tree.of([np.arange(VALUES), PAIRS, FOURS])
assert TREE is not None

MATRICES: dict[str, Matrix] = {
    "total": TotalMatrix(VALUES),
    "values": IdentityMatrix(VALUES),
    "pairs": GroupMatrix(PAIRS),
    "fours": GroupMatrix(FOURS),
    "odd and even": GroupMatrix(np.arange(VALUES) % 2),
    "prefixes": PrefixMatrix(VALUES),
    "ranges": RangesMatrix(VALUES),
    "weights": DenseMatrix(np.random.default_rng(1).standard_normal((3, VALUES))),
    "several": StackMatrix((TotalMatrix(VALUES), PrefixMatrix(VALUES), GroupMatrix(FOURS))),
}
SERIES = Series(np.array([9, 4, 2, 1, 0, 0]), np.array([0, 3]), np.array([2, 3]))
BOUNDS = np.array([0, 2, 4, 6, 8, 10, 12])


# ---------------------------------------------------------------------- rows


def over_values(rows: Spans | AllRanges | Weighted, size: int = VALUES) -> np.ndarray:
    """Rows of any kind written out over the values, from their definition."""
    if isinstance(rows, AllRanges):
        rows = rows.spans()
    if isinstance(rows, Spans):
        ends = zip(rows.start.tolist(), rows.stop.tolist(), strict=True)
        rows_of = [[float(a <= v < b) for v in range(size)] for a, b in ends]
        return np.array(rows_of).reshape(-1, size)
    found = np.zeros((rows.count, size))
    for part, (start, stop) in enumerate(zip(rows.bounds[:-1], rows.bounds[1:], strict=True)):
        found[:, start:stop] = rows.weights.toarray()[:, [part]]
    return found


@pytest.mark.parametrize("name", MATRICES)
def test_rows_in_order_are_those_of_the_matrix(name: str) -> None:
    pieces = [*rows_of_matrix(MATRICES[name])]
    assert all(piece is not None for piece in pieces)
    written = np.vstack([over_values(piece) for piece in pieces if piece is not None])
    np.testing.assert_allclose(written, MATRICES[name].dense())
    assert sum(piece.count for piece in pieces if piece is not None) == len(written)


@pytest.mark.parametrize("name", MATRICES)
def test_some_of_the_rows(name: str) -> None:
    for piece in rows_of_matrix(MATRICES[name]):
        assert piece is not None
        whole = over_values(piece)
        np.testing.assert_allclose(over_values(piece.part(slice(1, 3))), whole[1:3])


def test_rows_of_too_many_numbers_are_not_written_down() -> None:
    wide = mock.Mock(spec=Matrix)
    wide.shape = (VALUES, VALUES)
    with mock.patch.object(series_rows, "MOST_WEIGHTS", VALUES):
        assert [*rows_of_matrix(wide)] == [None]
    with mock.patch.object(of_trees, "MOST_WEIGHTS", VALUES):
        assert [*node_rows(wide, TREE)] == [None]
        (prefixes,) = node_rows(PrefixMatrix(VALUES), TREE)  # which end at a node each
        assert prefixes is not None and prefixes.weights is None and prefixes.count == VALUES


@pytest.mark.parametrize("name", MATRICES)
def test_rows_over_nodes_are_those_of_the_matrix(name: str) -> None:
    """Every value is a node of the last level of this tree, which therefore tells all rows."""
    pieces = [*node_rows(MATRICES[name], TREE)]
    written = [
        piece.sparse(TREE.sizes[piece.level]).toarray()[:, TREE.node_of_value(piece.level)]
        for piece in pieces
        if piece is not None
    ]
    np.testing.assert_allclose(np.vstack(written), MATRICES[name].dense())


def test_nodes_are_told_from_what_crosses_them() -> None:
    coarse = Tree.of([PAIRS, FOURS])
    assert coarse is not None
    assert [*node_rows(IdentityMatrix(VALUES), coarse)] == [None]
    (fours,) = node_rows(GroupMatrix(FOURS), coarse)
    assert fours is not None and fours.level == 1


def test_rows_above_and_below() -> None:
    """Weights that do not tell children apart go up a level, and down again as they were."""
    level = TREE.depth
    same = NodeRows(level, weights=sp.csr_array(np.repeat(np.arange(6.0), 2)[None, :]))
    above = same.over(TREE, level - 1)
    assert above is not None and above.level == level - 1
    np.testing.assert_allclose(above.down(TREE, level).toarray(), same.sparse(VALUES).toarray())
    assert above.over(TREE, level - 2) is None
    assert NodeRows(level, nodes=np.array([0])).over(TREE, level - 1) is None


# ---------------------------------------------------------------------- blocks


def tree_block(seed: int, depth: int = TREE.depth) -> TreeBlock:
    rng = np.random.default_rng(seed)
    sizes = [rng.uniform(0.5, 4.0, n) for n in TREE.sizes[: depth + 1]]
    return TreeBlock(TREE, (), tuple(Noise("gaussian", size) for size in sizes))


def tree_measured(block: TreeBlock) -> np.ndarray:
    """A row for each node that is measured, over the values."""
    levels = range(len(block.noise))
    return np.vstack(
        [np.eye(TREE.sizes[at])[:, TREE.node_of_value(at)] for at in levels],
    )


def series_block(*sums: list[int]) -> SeriesBlock:
    """A series, and sums of its parts between some of their numbers."""
    beside = tuple(PartSums(np.array(each), Noise("gaussian", 2.0 + len(each))) for each in sums)
    return SeriesBlock((), BOUNDS, SERIES, Noise("gaussian", 40.0), beside)


def series_measured(block: SeriesBlock) -> np.ndarray:
    rows, place = [*np.repeat(SERIES.rows(), np.diff(BOUNDS), axis=1)], np.arange(VALUES)
    for each in block.sums:
        ends = BOUNDS[each.bounds]
        rows += [((a <= place) & (place < b)).astype(float) for a, b in pairwise(ends)]
    return np.array(rows)


BLOCKS: dict[str, tuple[LongBlock[Any], np.ndarray, np.ndarray]] = {}
for kind, block in {"tree": tree_block(1), "tree without values": tree_block(2, 2)}.items():
    variances = np.concatenate([noise.size for noise in block.noise])
    BLOCKS[kind] = block, tree_measured(block), variances
for kind, own in {
    "series": series_block(),
    "series and total": series_block([0, 6]),
    "series and groups": series_block([0, 1, 4, 6], [0, 2, 6]),
}.items():
    more = [each.noise.one for each in own.sums for _ in range(each.count)]
    BLOCKS[kind] = own, series_measured(own), np.array([own.noise.one] * 6 + more)


def asked_of(block: LongBlock[Any], name: str) -> Any:
    """Rows of a matrix as the block sees them; None where it tells less apart."""
    if isinstance(block, TreeBlock):
        (rows,) = node_rows(MATRICES[name], TREE)
    else:
        (rows,) = rows_of_matrix(MATRICES[name])
    return None if rows is None else block.seen(rows)


def least_squares(measured: np.ndarray, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From noisy numbers to the values, for all rows that they tell; and the covariance."""
    to_values = np.linalg.pinv(measured / np.sqrt(variances)[:, None])
    return to_values / np.sqrt(variances), to_values @ to_values.T


def told(measured: np.ndarray, rows: np.ndarray) -> bool:
    return bool(np.allclose(rows @ np.linalg.pinv(measured) @ measured, rows, atol=1e-9))


NAMES = [name for name in MATRICES if name != "several"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", BLOCKS)
def test_a_block_sees_what_it_tells(kind: str, name: str) -> None:
    """All ranges are many, and are seen as such only where every value is measured by itself."""
    block, measured, _ = BLOCKS[kind]
    seen = asked_of(block, name) is not None
    assert seen <= told(measured, MATRICES[name].dense())
    if name in ("total", "pairs", "fours"):
        assert seen


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", BLOCKS)
def test_estimates_and_errors_are_those_of_least_squares(kind: str, name: str) -> None:
    block, measured, variances = BLOCKS[kind]
    rows = asked_of(block, name)
    if rows is None:
        assert not told(measured, MATRICES[name].dense()) or name == "ranges"
        return
    asked, (takes, spread) = MATRICES[name].dense(), least_squares(measured, variances)
    numbers = np.random.default_rng(7).standard_normal(len(measured))
    parts = np.split(numbers, np.cumsum(block.counts)[:-1])
    found = block.estimate(block.estimates(parts), rows)
    np.testing.assert_allclose(found, asked @ takes @ numbers, atol=1e-9)
    covariance = asked @ spread @ asked.T
    np.testing.assert_allclose(block.variance(rows), np.diagonal(covariance), rtol=1e-9)
    assert block.variance_sum(rows) == pytest.approx(np.trace(covariance))
    np.testing.assert_allclose(block.covariance(rows, rows), covariance, atol=1e-9)


@pytest.mark.parametrize("kind", BLOCKS)
def test_covariances_of_different_rows(kind: str) -> None:
    block, measured, variances = BLOCKS[kind]
    spread = least_squares(measured, variances)[1]
    one, two = asked_of(block, "pairs"), asked_of(block, "fours")
    expected = MATRICES["pairs"].dense() @ spread @ MATRICES["fours"].dense().T
    np.testing.assert_allclose(block.covariance(one, two), expected, atol=1e-9)


@pytest.mark.parametrize("kind", BLOCKS)
def test_what_a_block_costs(kind: str) -> None:
    block, measured, variances = BLOCKS[kind]
    np.testing.assert_allclose(
        block.cost_along(), (measured.T / variances) @ measured, rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("kind", BLOCKS)
def test_weights_over_what_is_estimated(kind: str) -> None:
    """Weights times the estimates are the answers, and rows made of the weights are the rows."""
    block, measured, _ = BLOCKS[kind]
    numbers = np.random.default_rng(8).standard_normal(len(measured))
    found = block.estimates(np.split(numbers, np.cumsum(block.counts)[:-1]))
    for name in ("total", "pairs", "fours"):
        rows = asked_of(block, name)
        weights = block.weights(rows)
        answers = block.estimate(found, rows)
        np.testing.assert_allclose(weights @ block.values(found), answers, atol=1e-9)
        again = block.of_weights(weights)
        np.testing.assert_allclose(block.estimate(found, again), answers, atol=1e-9)
        np.testing.assert_allclose(block.variance(again), block.variance(rows), rtol=1e-9)


@given(st.integers(0, 2**32), st.integers(0, 3))
@examples(40)
def test_trees_of_any_noise(seed: int, depth: int) -> None:
    block = tree_block(seed, depth)
    variances = np.concatenate([noise.size for noise in block.noise])
    spread = least_squares(tree_measured(block), variances)[1]
    level = min(depth, 1)
    nodes = np.eye(TREE.sizes[level])[:, TREE.node_of_value(level)]
    rows = NodeRows(level, nodes=np.arange(TREE.sizes[level]))
    covariance = nodes @ spread @ nodes.T
    np.testing.assert_allclose(block.covariance(rows, rows), covariance, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(block.variance(rows), np.diagonal(covariance), rtol=1e-8)


def test_discrete_noise_counts_by_what_is_drawn() -> None:
    """A variance far below σ², where σ² is: estimates weigh by it."""
    exact = tuple(Noise("gaussian", np.full(n, 0.2), exact=True) for n in TREE.sizes)
    block = replace(tree_block(1), noise=exact)
    really = np.concatenate([noise.variance for noise in exact])
    assert really.max() < 0.19
    spread = least_squares(tree_measured(block), really)[1]
    rows = asked_of(block, "fours")
    fours = MATRICES["fours"].dense()
    np.testing.assert_allclose(block.variance(rows), np.diagonal(fours @ spread @ fours.T))
    plain = block.on_lattice(False)
    assert (plain.variance(rows) > block.variance(rows)).all()


# ---------------------------------------------------------------------- sums up to a node


def prefixes_of(level: int) -> np.ndarray:
    """Sums of all nodes of a level up to each, over the values: TREE's nodes are in their order."""
    nodes = TREE.node_of_value(level)
    return (nodes <= np.arange(TREE.sizes[level])[:, None]).astype(float)


@pytest.mark.parametrize("level", range(1, TREE.depth + 1))
@pytest.mark.parametrize("seed", seeds(4))
def test_sums_up_to_a_node_are_those_of_least_squares(seed: int, level: int) -> None:
    block = tree_block(seed)
    measured = tree_measured(block)
    variances = np.concatenate([noise.size for noise in block.noise])
    asked, (takes, spread) = prefixes_of(level), least_squares(measured, variances)
    rows = NodeRows(level, up_to=np.arange(TREE.sizes[level]))
    numbers = np.random.default_rng(seed).standard_normal(len(measured))
    parts = np.split(numbers, np.cumsum(block.counts)[:-1])
    found = block.estimate(block.estimates(parts), rows)
    np.testing.assert_allclose(found, asked @ takes @ numbers, atol=1e-9)
    covariance = asked @ spread @ asked.T
    np.testing.assert_allclose(block.variance(rows), np.diagonal(covariance), rtol=1e-9)
    assert block.variance_sum(rows) == pytest.approx(np.trace(covariance))
    some = rows.part(slice(1, 3))
    np.testing.assert_allclose(block.variance(some), np.diagonal(covariance)[1:3], rtol=1e-9)


@pytest.mark.parametrize("name", ["total", "values", "pairs", "fours", "weights"])
def test_sums_up_to_a_node_with_rows_of_any_other_kind(name: str) -> None:
    """Of the last level, which alone is asked by prefix sums."""
    block, measured, variances = BLOCKS["tree"]
    level = TREE.depth
    spread, other = least_squares(measured, variances)[1], asked_of(block, name)
    rows = NodeRows(level, up_to=np.arange(TREE.sizes[level]))
    expected = prefixes_of(level) @ spread @ MATRICES[name].dense().T
    np.testing.assert_allclose(block.covariance(rows, other), expected, atol=1e-9)
    np.testing.assert_allclose(block.covariance(other, rows), expected.T, atol=1e-9)
