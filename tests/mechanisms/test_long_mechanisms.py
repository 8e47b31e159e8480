"""Mechanisms along a long attribute, beside others: dense least squares over all cells, costs."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.domain.series import Series
from noiseplan.domain.tree import Tree
from noiseplan.errors import PlanError, StorageError, UnanswerableError
from noiseplan.matrices import kronecker_dense
from noiseplan.mechanisms import long_attribute
from noiseplan.mechanisms.base import Measurements
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.long_attribute import LongMechanism
from noiseplan.mechanisms.measured_series import SeriesMechanism
from noiseplan.mechanisms.measured_tree import TreeMechanism
from noiseplan.mechanisms.series_block import PartSums, SeriesBlock
from noiseplan.mechanisms.tree_block import TreeBlock
from noiseplan.noise import Noise

# The long attribute between two others, so that nothing is in order by chance.
SCHEMA = nz.Schema.from_sizes({"a": 2, "t": 6, "b": 3})
PLACE, VALUES = 1, 6
BASES, BASIS_OF = (Basis.orthogonal(2), Basis.integer(3)), np.array([0, -1, 1])
SETS = ((), (0,), (2,), (0, 2))
TREE = Tree.of([np.arange(VALUES), np.arange(VALUES) // 2])
assert TREE is not None
SERIES = Series(np.array([5, 2, 1, 0, 0, 0]), np.array([0, 4]), np.array([1, 2]))
ASKED = {
    "along": nz.Query(SCHEMA, ["t"]),
    "prefixes": nz.Query(SCHEMA, {"t": nz.Prefix()}),
    "by another": nz.Query(SCHEMA, {"b": nz.Identity(), "t": nz.Prefix()}),
    "by both": nz.Query(SCHEMA, ["b", "t", "a"]),
    "others alone": nz.Query(SCHEMA, ["a", "b"]),
    "total": nz.Query(SCHEMA, []),
}


def tree(sets: tuple[tuple[int, ...], ...] = SETS) -> TreeMechanism:
    rng = np.random.default_rng(3)
    blocks = tuple(
        TreeBlock(TREE, s, tuple(Noise("gaussian", rng.uniform(1, 4, n)) for n in TREE.sizes))
        for s in sets
    )
    return TreeMechanism(SCHEMA, PLACE, BASES, BASIS_OF, blocks, exact=False)


def series(sets: tuple[tuple[int, ...], ...] = SETS) -> SeriesMechanism:
    rng, bounds = np.random.default_rng(4), np.arange(VALUES + 1)
    # Nothing beside the series, the total, groups of unequal size, and both.
    beside = ((), ([0, VALUES],), ([0, 1, 4, VALUES],), ([0, 2, VALUES], [0, VALUES]))
    blocks = tuple(
        SeriesBlock(
            s,
            bounds,
            SERIES,
            Noise("gaussian", rng.uniform(9, 20)),
            tuple(
                PartSums(np.array(parts), Noise("gaussian", rng.uniform(1, 4)))
                for parts in beside[number % 4]
            ),
        )
        for number, s in enumerate(sets)
    )
    return SeriesMechanism(SCHEMA, PLACE, BASES, BASIS_OF, blocks, exact=False)


MADE = {"tree": tree, "series": series}


def along(block: TreeBlock | SeriesBlock) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of every measured array: its rows over the long attribute, and their variances."""
    if isinstance(block, TreeBlock):
        levels = enumerate(block.noise)
        return [(np.eye(len(n.size))[:, TREE.node_of_value(at)], n.size) for at, n in levels]
    found = [(SERIES.rows(), np.full(VALUES, block.noise.one))]
    for each in block.sums:
        place = np.arange(VALUES)
        rows = [(a <= place) & (place < b) for a, b in pairwise(each.bounds)]
        found.append((np.array(rows, dtype=float), np.full(len(rows), each.noise.one)))
    return found


def written_out(mechanism: LongMechanism) -> tuple[np.ndarray, np.ndarray]:
    """All rows over all cells, other attributes first, and the variance of each."""
    every, variances = [], []
    for block in mechanism.blocks:
        for rows, sizes in along(block):
            # Rows by the others first and then along; cells in the order of the schema.
            axes = {
                i: np.asarray(mechanism.basis(i).measure @ np.eye(n)) for i, n in ((0, 2), (2, 3))
            }
            a, b = (axes[i] if i in block.others else np.ones((1, len(axes[i].T))) for i in (0, 2))
            dense = kronecker_dense([a, rows, b]).reshape(len(a), len(rows), len(b), -1)
            every.append(dense.transpose(0, 2, 1, 3).reshape(-1, SCHEMA.size))
            variances.append(np.tile(sizes, len(a) * len(b)))
    return np.vstack(every), np.concatenate(variances)


def estimator(mechanism: LongMechanism) -> tuple[np.ndarray, np.ndarray]:
    rows, variances = written_out(mechanism)
    found = np.linalg.pinv(rows / np.sqrt(variances)[:, None], rcond=1e-10)
    return found / np.sqrt(variances), found @ found.T


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("kind", MADE)
def test_answers_and_errors_are_those_of_least_squares(kind: str, name: str) -> None:
    mechanism, query = MADE[kind](), ASKED[name]
    takes, spread = estimator(mechanism)
    values = [np.random.default_rng(9).standard_normal(shape) for shape in mechanism.shapes]
    flat = np.concatenate([value.ravel() for value in values])
    rows = query.dense()
    found = mechanism.answering(Measurements(tuple(values)))(query)
    np.testing.assert_allclose(found, rows @ takes @ flat, atol=1e-9)
    covariance = rows @ spread @ rows.T
    np.testing.assert_allclose(mechanism.variance(query), np.diagonal(covariance), rtol=1e-9)
    np.testing.assert_allclose(mechanism.covariance(query, query), covariance, atol=1e-9)


@pytest.mark.parametrize("kind", MADE)
def test_covariances_of_two_queries(kind: str) -> None:
    mechanism = MADE[kind]()
    spread = estimator(mechanism)[1]
    for one, two in combinations(ASKED.values(), 2):
        found = mechanism.covariance(one, two)
        np.testing.assert_allclose(found, one.dense() @ spread @ two.dense().T, atol=1e-9)


@pytest.mark.parametrize("kind", MADE)
def test_the_cost_is_that_of_the_dearest_record(kind: str) -> None:
    mechanism = MADE[kind]()
    rows, variances = written_out(mechanism)
    unit = rows / np.sqrt(variances)[:, None]
    dearest = float((unit**2).sum(axis=0).max())
    assert dearest <= mechanism.record_cost("add-remove") <= dearest * (1 + 1e-9)
    np.testing.assert_allclose(mechanism.cost_matrix(), unit.T @ unit, atol=1e-9)


SHAPES_OF_SERIES = {
    "as above": ([5, 2, 1, 0, 0, 0], [1, 2]),
    "single values": ([1, 0, 0, 0, 0, 0], [1, 1]),
    "single values of levels": ([1, 0, 0, 0, 0, 0], [3, 7]),
    "single values, many times": ([1024, 0, 0, 0, 0, 0], [1, 1]),
    "single values, many times, of levels": ([1024, 0, 0, 0, 0, 0], [3, 7]),
    "with the last one": ([1, 0, 0, 0, 0, 1], [1, 1]),
    "with what is taken off": ([7, -2, 0, 0, 0, 0], [1, 5]),
}


@pytest.mark.parametrize("people", [1, 10**11, 10**11 * 3 + 1])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", SHAPES_OF_SERIES)
def test_what_a_series_measures_are_its_rows(name: str, exact: bool, people: int) -> None:
    """Whatever its coefficients, in 64 bits and beyond: no factor is left out on the way."""
    first, levels = SHAPES_OF_SERIES[name]
    own = Series(np.array(first), np.array([0, 4]), np.array(levels))
    noise = Noise("gaussian", 1.0, exact)
    block = SeriesBlock((2,), np.arange(VALUES + 1), own, noise)
    bases = (Basis.integer(2), BASES[1])
    mechanism = SeriesMechanism(SCHEMA, PLACE, bases, BASIS_OF, (block,), exact)
    counts = np.random.default_rng(1).integers(1, 9, (VALUES, 3)) * people
    (found,) = mechanism.measure(
        lambda sets: counts[None], lambda shape, _: np.zeros(shape, np.int64 if exact else float)
    ).values
    others = np.asarray(BASES[1].measure @ np.eye(3)).astype(int).astype(object)
    truth = others @ (own.rows().astype(int).astype(object) @ counts.astype(object)).T
    if exact and np.abs(truth).max() < 2**62:
        assert (found == truth).all()
    largest = float(np.abs(truth).max())
    np.testing.assert_allclose(found, truth.astype(float), rtol=1e-14, atol=1e-14 * largest)


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("sets", [((),), ((), (2,)), ((0,), (2,), (0, 2))])
@pytest.mark.parametrize("kind", MADE)
def test_what_is_not_told_is_refused(
    kind: str, sets: tuple[tuple[int, ...], ...], name: str
) -> None:
    mechanism, rows = MADE[kind](sets), ASKED[name].dense()
    measured = written_out(mechanism)[0]
    told = np.allclose(rows @ np.linalg.pinv(measured) @ measured, rows, atol=1e-9)
    if told:
        mechanism.require(ASKED[name])
        return
    with pytest.raises(UnanswerableError):
        mechanism.require(ASKED[name])


@pytest.mark.parametrize("kind", MADE)
def test_a_set_is_in_one_block(kind: str) -> None:
    with pytest.raises(PlanError, match="put it into one"):
        MADE[kind](((), (0,), (0,)))


@pytest.mark.parametrize("kind", MADE)
def test_cells_and_replaced_records_cost_what_their_columns_do(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism = MADE[kind]()
    rows, variances = written_out(mechanism)
    unit = rows / np.sqrt(variances)[:, None]
    np.testing.assert_allclose(mechanism.cell_costs(), (unit**2).sum(axis=0), rtol=1e-9)
    apart = max(float(((u - v) ** 2).sum()) for u, v in combinations(unit.T, 2))
    assert apart <= mechanism.record_cost("replace") <= apart * (1 + 1e-9)
    # Over many cells pairs are not compared: four times the dearest, which no pair exceeds.
    monkeypatch.setattr(long_attribute, "CELL_BY_CELL", SCHEMA.size - 1)
    assert mechanism.record_cost("replace") == 4 * mechanism.record_cost("add-remove") >= apart
    monkeypatch.setattr(long_attribute, "CELL_BY_CELL", SCHEMA.size)
    assert mechanism.record_cost("replace") <= apart * (1 + 1e-9)


@pytest.mark.parametrize("kind", MADE)
def test_numbers_are_all_that_is_measured(kind: str) -> None:
    mechanism = MADE[kind]()
    assert mechanism.numbers == len(written_out(mechanism)[0])
    assert mechanism.numbers == sum(int(np.prod(shape)) for shape in mechanism.shapes)


@pytest.mark.parametrize(
    ("others", "good"),
    [((), True), ((0,), True), ((0, 2), True), ((2, 0), False), ((0, 0), False), ((1,), False),
     ((0, 1), False), ((3,), False), ((-1,), False)],
)  # fmt: skip
def test_saved_blocks_are_about_other_attributes_in_order(
    others: tuple[int, ...], good: bool
) -> None:
    if good:
        assert long_attribute.read_others({"others": others}, 4, PLACE, BASIS_OF) == others
        return
    with pytest.raises(StorageError, match="block 4 is not about attributes"):
        long_attribute.read_others({"others": others}, 4, PLACE, BASIS_OF)
