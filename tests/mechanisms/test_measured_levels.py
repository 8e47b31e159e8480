"""Levels with rows of their own: the same written out over all cells, node by node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, permutations
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples, seeds
from noiseplan.domain.tree import Tree
from noiseplan.errors import DataError, PlanError, QueryError, StorageError, UnanswerableError
from noiseplan.mechanisms import level_answers, tree_block
from noiseplan.mechanisms.base import Measurements
from noiseplan.mechanisms.exact_residuals import RECORDS
from noiseplan.mechanisms.level_siblings import Siblings
from noiseplan.mechanisms.measured_levels import LARGEST_SUM, Level, LevelsMechanism
from noiseplan.mechanisms.saved import read_mechanism
from noiseplan.noise import Noise
from noiseplan.privacy.rounding import margin

# The long attribute between two others, and one that no level asks for, so that nothing is in order
# by chance.
SCHEMA = nz.Schema.from_sizes({"a": 2, "t": 7, "unasked": 2, "b": 3})
PLACE, OTHERS, VALUES, CELLS = 1, (0, 3), 7, 6
# Values in no order; an only child of the root's, one below several, and a chain of both.
FINE, COARSE = np.array([2, 0, 1, 0, 3, 3, 4]), np.array([1, 0, 0, 0, 1, 1, 2])
EVERY = np.arange(VALUES)


def tree_of(*partitions: np.ndarray) -> Tree:
    found = Tree.of([np.zeros(len(partitions[0]), dtype=int), *partitions])
    assert found is not None
    return found


TREE = tree_of(EVERY, FINE, COARSE)
assert TREE.sizes == (1, 3, 5, 7)

SEX, BAND = np.kron(np.eye(2), np.ones((1, 3))), np.kron(np.ones((1, 2)), [[1.0, 1, 0], [0, 0, 1]])
TOLD: list[np.ndarray] = [
    np.eye(6) + 0.3 * np.tri(6),  # everything of the whole
    np.vstack([np.eye(6), np.ones((1, 6))]),
    np.vstack([SEX, 2 * BAND]),
    np.vstack([SEX, [[1.0, 2, 2, 1, 2, 2]]]),
]


def levels_of(
    tree: Tree,
    told: list[np.ndarray],
    *,
    whole: bool = False,
    least_squares: bool = False,
    seed: int = 1,
) -> tuple[Level, ...]:
    """Any parts and noise; noise in proportion to the parts where it is to be least squares."""
    rng, found = np.random.default_rng(seed), []
    for level, rows in enumerate(told):
        parts = rng.integers(1, 9, tree.sizes[level]).astype(float)
        if not whole:
            parts *= rng.uniform(0.3, 0.7)
        kept = np.ones(1, dtype=bool)
        if level:
            parent = tree.parents[level - 1]
            kept = (np.bincount(parent) > 1)[parent]
        sizes = rng.uniform(2, 9, len(parts))
        if least_squares and level:
            parent = tree.parents[level - 1]
            sizes = parts * rng.uniform(2, 9, tree.sizes[level - 1])[parent]
        own = np.rint(2 * rows) if whole else rows
        found.append(Level(own, parts, Noise("gaussian", sizes[kept], whole)))
    return tuple(found)


def made(told: list[np.ndarray] = TOLD, **how: Any) -> LevelsMechanism:
    levels = levels_of(TREE, told, **how)
    return LevelsMechanism(SCHEMA, PLACE, OTHERS, TREE, levels, how.get("whole", False))


# ---------------------------------------------------------------------- the oracle


def nodes_of(mechanism: LevelsMechanism, level: int) -> np.ndarray:
    """Nodes × values, zero or one."""
    node = mechanism.tree.node_of_value(level)
    return (node == np.arange(mechanism.tree.sizes[level])[:, None]).astype(float)


def families(mechanism: LevelsMechanism, level: int) -> Iterator[tuple[int, list[int]]]:
    """Every parent of a level with its children, those with siblings."""
    parents = mechanism.tree.parents[level - 1].tolist()
    for parent in sorted(set(parents)):
        children = [node for node, above in enumerate(parents) if above == parent]
        if len(children) > 1:
            yield parent, children


def written_out(mechanism: LevelsMechanism) -> list[np.ndarray]:
    """Of every level what is measured: measured rows × nodes with siblings × values × cells."""
    found = [np.einsum("rx,v->rvx", mechanism.levels[0].rows, np.ones(VALUES))[:, None]]
    for level, own in enumerate(mechanism.levels[1:], 1):
        nodes, along = nodes_of(mechanism, level), []
        for parent, children in families(mechanism, level):
            above, total = nodes_of(mechanism, level - 1)[parent], own.parts[children].sum()
            along += [(child, total * nodes[child] - own.parts[child] * above)
                      for child in children]  # fmt: skip
        rows = [each for _, each in sorted(along, key=lambda pair: pair[0])]
        found.append(np.einsum("rx,jv->rjvx", own.rows, np.array(rows)))
    return found


def estimates(mechanism: LevelsMechanism) -> list[np.ndarray]:
    """Of every level, nodes × cells × all measured numbers: x̂ by its definition, node by node."""
    shapes = mechanism.shapes
    begins = np.cumsum([0, *(r * n for r, n in shapes)])

    def numbers(level: int, place: int) -> np.ndarray:
        """ω of one node among all numbers, through B⁺."""
        rows, count = shapes[level]
        taken = np.zeros((rows, begins[-1]))
        taken[np.arange(rows), begins[level] + np.arange(rows) * count + place] = 1.0
        return np.asarray(np.linalg.pinv(mechanism.levels[level].rows) @ taken)

    found = [numbers(0, 0)[None]]
    for level, own in enumerate(mechanism.levels[1:], 1):
        above, here = found[-1], {}
        parents = mechanism.tree.parents[level - 1]
        kept = sorted(child for _, mine in families(mechanism, level) for child in mine)
        at = {child: place for place, child in enumerate(kept)}
        for parent in range(len(above)):
            children = np.flatnonzero(parents == parent).tolist()
            total = own.parts[children].sum()
            measured = {c: numbers(level, at[c]) if c in at else 0.0 for c in children}
            for child in children:
                share = own.parts[child] / total
                rest = measured[child] - share * sum(measured.values())
                here[child] = share * above[parent] + rest / total
        found.append(np.array([here[node] for node in sorted(here)]))
    return found


def noise_of(mechanism: LevelsMechanism) -> np.ndarray:
    """The variance of every measured number."""
    pairs = zip(mechanism.shapes, mechanism.levels, strict=True)
    return np.concatenate([np.tile(own.noise.variance, shape[0]) for shape, own in pairs])


def flat(found: list[np.ndarray]) -> np.ndarray:
    """All measured numbers × cells of the schema's order: the unasked attribute is summed over."""
    rows = np.concatenate([each.reshape(-1, VALUES, 2, 3) for each in found])
    rows = rows.transpose(0, 2, 1, 3)[:, :, :, None]  # a, t, unasked, b
    return np.broadcast_to(rows, (len(rows), 2, VALUES, 2, 3)).reshape(len(rows), -1)


def asked_of_values(query: nz.Query) -> np.ndarray:
    """Rows × values × cells: all query rows, whose weights do not depend on what is unasked."""
    cube = query.dense().reshape(-1, 2, VALUES, 2, 3)
    assert (cube[:, :, :, :1] == cube).all()
    return cube[:, :, :, 0].transpose(0, 2, 1, 3).reshape(-1, VALUES, CELLS)


def oracle(mechanism: LevelsMechanism, query: nz.Query) -> np.ndarray:
    """Query rows × measured numbers."""
    first = np.unique(mechanism.tree.of_value, return_index=True)[1]  # all of a node are alike
    return np.einsum("qvx,vxm->qm", asked_of_values(query)[:, first], estimates(mechanism)[-1])


def told(mechanism: LevelsMechanism, query: nz.Query) -> bool:
    """Whether what is measured tells it at all, by the row space."""
    rows, measured = query.dense(), flat(written_out(mechanism))
    inside = rows @ np.linalg.pinv(measured, rcond=1e-11) @ measured
    return bool(np.allclose(inside, rows, atol=1e-8 * np.abs(rows).max()))


def groups(of_value: np.ndarray) -> nz.Levels:
    return nz.Levels(of_value.tolist(), leaves=False, total=False)


VALUE_OF_B = nz.Identity()
MATRIX = np.random.default_rng(5).integers(-2, 3, (4, 2, VALUES, 3)).astype(float)
SEX_BY_VALUE = np.zeros((2, 2, VALUES, 3))
SEX_BY_VALUE[0, 1, 4], SEX_BY_VALUE[1, 0, [0, 2]] = 1.0, 2.5
ASKED: dict[str, nz.Query] = {
    "values": nz.Query(SCHEMA, ["t"]),
    "values by one": nz.Query(SCHEMA, ["a", "t"]),
    "by the last": nz.Query(SCHEMA, {"t": groups(FINE), "b": nz.Custom([[1, 1, 0], [0, 0, 1]])}),
    "all at the middle": nz.Query(SCHEMA, {"t": groups(COARSE), "a": nz.Identity(),
                                           "b": nz.Prefix()}),
    "two levels": nz.Query(SCHEMA, {"t": nz.Levels(FINE.tolist(), leaves=True, total=True),
                                    "a": nz.Identity()}),
    "prefixes": nz.Query(SCHEMA, {"t": nz.Prefix(), "a": nz.Identity()}),
    "weights": nz.Query(SCHEMA, {"t": nz.Custom(np.arange(14.0).reshape(2, 7)),
                                 "a": nz.Custom([[1.0, -2.0]])}),
    "another grouping": nz.Query(SCHEMA, {"t": groups(EVERY % 2)}),
    "coarser than the tree": nz.Query(SCHEMA, {"t": nz.Custom([[1, 0, 0, 0, 1, 1, 0]]),
                                               "b": nz.Identity()}),
    "others alone": nz.Query(SCHEMA, ["a", "b"]),
    "one of them": nz.Query(SCHEMA, ["b"]),
    "total": nz.Query(SCHEMA, []),
    "joint": nz.Query(SCHEMA, ["a", "t"], matrix=SEX_BY_VALUE[..., 0].reshape(2, -1),
                      name="joint"),
    "joint, too fine": nz.Query(SCHEMA, ["a", "t", "b"], matrix=MATRIX.reshape(4, -1),
                                name="fine"),
    "joint, without t": nz.Query(SCHEMA, ["a", "b"], matrix=[[1.0, 2, 3, 4, 5, 6]], name="mix"),
    "too fine": nz.Query(SCHEMA, ["t", "b"]),
    "too fine below": nz.Query(SCHEMA, {"t": groups(FINE), "b": nz.Identity()}),
}  # fmt: skip
TOO_FINE = {"joint, too fine", "too fine", "too fine below"}


# ---------------------------------------------------------------------- answers and errors


@pytest.mark.parametrize("name", ASKED)
def test_answers_and_errors_are_those_of_the_estimates_written_out(name: str) -> None:
    mechanism, query = made(), ASKED[name]
    assert told(mechanism, query) == (name not in TOO_FINE)
    if name in TOO_FINE:
        for ask in (mechanism.require, mechanism.variance):
            with pytest.raises(UnanswerableError, match="add the query to the workload"):
                ask(query)
        return
    rows = oracle(mechanism, query)
    values = [np.random.default_rng(9).standard_normal(shape) for shape in mechanism.shapes]
    numbers = np.concatenate([value.ravel() for value in values])
    found = mechanism.answering(Measurements(tuple(values)))(query)
    np.testing.assert_allclose(found, rows @ numbers, atol=1e-9)
    # Without bias: what is measured of counts gives back the counts.
    np.testing.assert_allclose(rows @ flat(written_out(mechanism)), query.dense(), atol=1e-8)
    variances = np.einsum("qm,qm,m->q", rows, rows, noise_of(mechanism))
    np.testing.assert_allclose(mechanism.variance(query), variances, rtol=1e-9)


def test_covariances_of_any_two_queries() -> None:
    mechanism, noise = made(), noise_of(made())
    rows = {n: oracle(mechanism, query) for n, query in ASKED.items() if n not in TOO_FINE}
    for one, two in combinations_with_replacement(rows, 2):
        expected = (rows[one] * noise) @ rows[two].T
        for a, b, truth in ((one, two, expected), (two, one, expected.T)):
            found = mechanism.covariance(ASKED[a], ASKED[b])
            np.testing.assert_allclose(found, truth, atol=1e-9 * np.abs(truth).max())


def test_sums_and_largest_of_single_variances_are_those_of_all_rows() -> None:
    mechanism = made()
    answered = [query for name, query in ASKED.items() if name not in TOO_FINE]
    workload = nz.Workload(answered)
    sums, largest = mechanism.figures_alike(workload, np.arange(len(workload)))
    each = [mechanism.variance(query) for query in workload]
    np.testing.assert_allclose(sums, [v.sum() for v in each], rtol=1e-12)
    np.testing.assert_allclose(largest, [v.max() for v in each], rtol=1e-12)


def test_least_squares_where_noise_goes_with_the_parts() -> None:
    """No other unbiased estimate of any query has less variance then."""
    mechanism = made(least_squares=True)
    measured, noise = flat(written_out(mechanism)), noise_of(mechanism)
    spread = np.linalg.pinv((measured / noise[:, None]).T @ measured, rcond=1e-12)
    for name, query in ASKED.items():
        if name not in TOO_FINE:
            rows = query.dense()
            best = np.diagonal(rows @ spread @ rows.T)
            np.testing.assert_allclose(mechanism.variance(query), best, rtol=1e-7)


def test_faint_discrete_noise_has_the_variance_that_is_drawn() -> None:
    mechanism = made(whole=True)
    faint = tuple(
        replace(own, noise=Noise("gaussian", own.noise.size / 40, exact=True))
        for own in mechanism.levels
    )
    mechanism = replace(mechanism, levels=faint)
    assert noise_of(mechanism).min() < 0.5 * min(own.noise.size.min() for own in faint)
    for name in ("values by one", "prefixes", "joint", "all at the middle"):
        rows = oracle(mechanism, ASKED[name])
        variances = np.einsum("qm,qm,m->q", rows, rows, noise_of(mechanism))
        np.testing.assert_allclose(mechanism.variance(ASKED[name]), variances, rtol=1e-9)


@pytest.mark.parametrize("missing", [False, True])
def test_very_many_prefix_sums(missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are not written down: estimates, variances and covariances are the same."""
    stated = 60 - missing
    t = nz.Ordinal(range(stated), missing="none") if missing else nz.Ordinal(range(stated))
    schema = nz.Schema({"g": nz.Categorical(["x", "y"]), "t": t})
    tree = tree_of(np.arange(60), np.arange(60) // 7, np.arange(60) // 21)
    told = [np.tri(2), np.eye(2), np.eye(2) + 1, np.eye(2)]
    mechanism = LevelsMechanism(schema, 1, (0,), tree, levels_of(tree, told), False)
    sums = nz.Query(schema, {"t": nz.Prefix(), "g": nz.Identity()})
    others = [
        nz.Query(schema, ["g"]),
        nz.Query(schema, {"t": nz.Custom(np.eye(60)[[0, 33, 59]])}),
        nz.Query(schema, {"t": groups(np.arange(stated) // 21)}),
        nz.Query(schema, {"t": nz.Custom(np.arange(60)[None] % 7.0), "g": nz.Custom([[1, 2]])}),
    ]
    values = [np.random.default_rng(2).standard_normal(shape) for shape in mechanism.shapes]
    measured = Measurements(tuple(values))

    def figures() -> list[np.ndarray]:
        shared = [mechanism.covariance(sums, other) for other in others]
        shared += [mechanism.covariance(other, sums) for other in others]
        figures = mechanism.figures_alike(nz.Workload([sums]), np.array([0]))
        return [mechanism.answering(measured)(sums), mechanism.variance(sums), *shared, *figures]

    written = figures()
    monkeypatch.setattr(tree_block, "MOST_WEIGHTS", 60 * 6)
    (piece,) = tree_block.node_rows(sums.matrices()[1], tree)
    assert piece is not None and piece.up_to is not None
    for found, expected in zip(figures(), written, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
    with pytest.raises(QueryError, match="too many numbers to be written down"):
        mechanism.covariance(sums, sums)


# ---------------------------------------------------------------------- privacy


def dearest(mechanism: LevelsMechanism, neighbours: str) -> Fraction:
    """2ρ of the dearest record, from columns of what is measured, in exact arithmetic."""
    rows = flat(written_out(mechanism))
    sizes = np.concatenate(
        [np.tile(o.noise.size, s[0]) for s, o in zip(mechanism.shapes, mechanism.levels)]  # noqa: B905
    )
    columns = [[Fraction(x) for x in column] for column in np.unique(rows, axis=1).T]
    noise = [Fraction(size) for size in sizes]
    pairs = [(one, [Fraction(0)] * len(one)) for one in columns]
    if neighbours == "replace":
        pairs = list(permutations(columns, 2))
    return max(
        sum(((a - b) ** 2 / d for a, b, d in zip(one, two, noise, strict=True)), Fraction(0))
        for one, two in pairs
    )


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("seed", seeds(6))
def test_the_cost_is_that_of_the_dearest_record(seed: int, neighbours: Any) -> None:
    mechanism = made(whole=True, seed=seed)
    truth, stated = dearest(mechanism, neighbours), mechanism.record_cost(neighbours)
    assert truth <= Fraction(stated) <= truth * Fraction(1 + 1e-9)
    unit = flat(written_out(mechanism))
    sizes = [np.tile(o.noise.size, len(o.rows)) for o in mechanism.levels]
    unit = unit / np.sqrt(np.concatenate(sizes))[:, None]
    np.testing.assert_allclose(mechanism.cost_matrix(), unit.T @ unit, atol=1e-9)
    with mock.patch("noiseplan.mechanisms.long_attribute.CELL_BY_CELL", 1):
        loose = mechanism.record_cost(neighbours)
    assert truth <= Fraction(loose) <= 4 * truth * Fraction(1 + 1e-9)


@st.composite
def families_of_parts(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]]]:
    """Children of several parents, their parts as far from each other as they can be."""
    part = st.one_of(st.integers(1, 3), st.integers(1, 1 << 12), st.integers(1 << 19, 1 << 20))
    size = st.integers(1, 1 << 40)
    parts = draw(st.lists(st.lists(part, min_size=1, max_size=4), min_size=1, max_size=3))
    return parts, [[draw(size) for _ in each] for each in parts]


@examples(200)
@given(families_of_parts())
def test_prices_of_very_uneven_children(drawn: tuple[list[list[int]], list[list[int]]]) -> None:
    """What each record pays, and the stated cost, against exact fractions: never below, and hardly
    above what the dearest pays."""
    parts, sizes = drawn
    parent = np.repeat(np.arange(len(parts)), [len(each) for each in parts])
    above = np.zeros(len(parts), dtype=np.int64)
    tree = Tree(np.arange(len(parent)), (above, parent)[len(parts) == 1 :])
    schema = nz.Schema.from_sizes({"t": len(parent)})
    one = Level(np.ones((1, 1)), np.ones(1), Noise("gaussian", 1e9, exact=True))
    kept = [len(each) > 1 for each in parts for _ in each]
    noise = Noise(
        "gaussian", np.array([d for each in sizes for d in each], dtype=float)[kept], exact=True
    )
    last = Level(np.ones((1, 1)), np.array([t for each in parts for t in each], dtype=float), noise)
    levels = [one, last]
    truth = Fraction(1, 10**9)
    if len(parts) > 1:
        middle = Noise("gaussian", np.full(len(parts), 1e12), exact=True)
        levels.insert(1, Level(np.ones((1, 1)), np.ones(len(parts)), middle))
        truth += Fraction(len(parts) * (len(parts) - 1), 10**12)
    each = [
        truth + (sum(
            Fraction((sum(own) * (i == j) - t) ** 2, d)
            for i, (t, d) in enumerate(zip(own, variances, strict=True))
        ) if len(own) > 1 else Fraction(0))
        for own, variances in zip(parts, sizes, strict=True)
        for j in range(len(own))
    ]  # fmt: skip
    mechanism = LevelsMechanism(schema, 0, (), tree, tuple(levels), True)
    stated, most = mechanism.record_cost("add-remove"), max(each)
    assert most <= Fraction(stated) <= most * Fraction(1 + 1e-9)
    of_cells = mechanism.cell_costs() * (1 + margin(mechanism.numbers))  # as a profile says it
    for exact, cost in zip(each, of_cells.tolist(), strict=True):
        assert exact <= Fraction(cost) <= exact + most * Fraction(1e-9)


def test_several_records_of_a_person_pay_as_their_square() -> None:
    mechanism = made(whole=True)
    one, three = (mechanism.cost("add-remove", rows).pcost for rows in (1, 3))
    assert 9 * one <= three * (1 + 1e-15) and three <= 9 * one * (1 + 1e-9)


# ---------------------------------------------------------------------- measuring


def counted(counts: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Tables of sets of attributes of equally many cells."""

    def marginals(sets: np.ndarray) -> np.ndarray:
        away = [tuple(set(range(4)) - set(each)) for each in sets.tolist()]
        return np.array([counts.sum(axis=axes) for axes in away])

    return marginals


def noiseless(shape: tuple[int, ...], noise: Noise) -> np.ndarray:
    assert shape[-1] == len(noise)
    return np.zeros(shape, dtype=noise.dtype)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
@pytest.mark.parametrize("whole", [False, True])
def test_what_is_measured_is_what_costs_were_counted_for(whole: bool, kind: type) -> None:
    mechanism, rng = made(whole=whole), np.random.default_rng(0)
    counts = rng.integers(0, 50, SCHEMA.shape)
    found = mechanism.measure(counted(counts.astype(kind)), noiseless).values
    numbers = np.concatenate([np.asarray(each).ravel() for each in found])
    np.testing.assert_allclose(numbers, flat(written_out(mechanism)) @ counts.ravel(), rtol=1e-12)
    assert [each.shape for each in found] == mechanism.shapes
    assert all(np.issubdtype(each.dtype, np.integer) == whole for each in found)


def heavy() -> LevelsMechanism:
    """The largest parts that there may be, and rows of many bits."""
    levels = list(levels_of(TREE, [np.eye(6)] * 4, whole=True))
    for level in (1, 2, 3):
        parts, parent = levels[level].parts.copy(), TREE.parents[level - 1]
        for above in np.unique(parent):
            mine = np.flatnonzero(parent == above)
            parts[mine] = 1.0
            parts[mine[0]] = LARGEST_SUM - len(mine) + 1
        levels[level] = replace(levels[level], parts=parts)
    levels[3] = replace(levels[3], rows=np.vstack([(1 << 22) * np.eye(6) - 1, np.ones((1, 6))]))
    return LevelsMechanism(SCHEMA, PLACE, OTHERS, TREE, tuple(levels), True)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_as_many_records_as_are_released_do_not_overflow(kind: type) -> None:
    mechanism = heavy()
    for where in ((0, 0, 0, 0), (1, 6, 1, 2), (1, 3, 0, 1)):
        counts = np.zeros(SCHEMA.shape, dtype=kind)
        counts[where] = RECORDS - 3
        counts[1, 5, 0, 2] += 3
        found = mechanism.measure(counted(counts), noiseless).values
        numbers = [int(x) for each in found for x in np.asarray(each).ravel()]
        places = [np.ravel_multi_index(at, SCHEMA.shape) for at in (where, (1, 5, 0, 2))]
        columns = flat(written_out(mechanism))[:, places]
        expected = [int(a) * (RECORDS - 3) + int(b) * 3 for a, b in columns]
        # Beyond 64 bits they are rounded, after noise was added.
        assert all(abs(a - b) <= abs(b) * 2**-50 for a, b in zip(numbers, expected, strict=True))
        assert all(a == b for a, b in zip(numbers, expected, strict=True) if abs(b) < 2**53)
    counts[where] += 3
    with pytest.raises(DataError, match="at most 500,000,000,000 records"):
        mechanism.measure(counted(counts), noiseless)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_more_records_than_are_released_are_simulated_without_overflow(kind: type) -> None:
    mechanism = heavy().floating()
    counts = np.zeros(SCHEMA.shape, dtype=kind)
    counts[1, 3, 0, 1] = 10**15
    found = mechanism.measure(counted(counts), noiseless).values
    for each, rows in zip(found, written_out(mechanism), strict=True):
        expected = flat([rows]) @ counts.ravel()
        np.testing.assert_allclose(each.ravel(), expected, atol=1e-14 * np.abs(expected).max())


def test_counts_of_fractions_are_refused_where_privacy_is_promised() -> None:
    counts = np.full(SCHEMA.shape, 0.25)
    with pytest.raises(DataError, match="not whole numbers of records"):
        made(whole=True).measure(counted(counts), noiseless)


# ---------------------------------------------------------------------- what is told


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


def test_a_row_that_is_not_of_the_tree_is_refused_beside_a_large_one() -> None:
    tree = tree_of(FINE, COARSE)
    levels = levels_of(tree, [np.eye(6)] * 3)
    mechanism = LevelsMechanism(SCHEMA, PLACE, OTHERS, tree, levels, False)
    matrix = np.zeros((2, 2, VALUES, 3))
    matrix[0], matrix[1, 0, 1, 0] = 1e12, 1.0  # value 1 is in one node with value 3
    query = nz.Query(SCHEMA, ["a", "t", "b"], matrix=matrix.reshape(2, -1), name="within a node")
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


# ---------------------------------------------------------------------- saving


@pytest.mark.parametrize("whole", [False, True])
def test_saved_and_read_it_is_the_same(whole: bool) -> None:
    mechanism = made(whole=whole)
    content, arrays = mechanism.parts()
    again = read_mechanism(content, arrays, SCHEMA)
    assert isinstance(again, LevelsMechanism) and again.exact == whole
    assert again.record_cost("add-remove") == mechanism.record_cost("add-remove")
    for name, query in ASKED.items():
        if name not in TOO_FINE:
            assert np.array_equal(again.variance(query), mechanism.variance(query))


DAMAGED: dict[str, tuple[str, dict[str, Any]]] = {
    "an attribute twice": ("not about other attributes", {"others": ["a", "a"]}),
    "the long one": ("not about other attributes", {"others": ["a", "t"]}),
    "in another order": ("not about other attributes", {"others": ["b", "a"]}),
    "fewer attributes": ("does not fit its tree", {"others": ["a"]}),
    "fewer levels": ("not one over its attribute", {"levels": 2}),
    "no noise": ("has no noise", {"level_1_sigma2": 0.0}),
    "noise that is none": ("has no noise", {"level_0_sigma2": -1.0}),
    "infinite noise": ("finite numbers", {"level_2_sigma2": np.inf}),
    "rows that are none": ("finite numbers", {"level_3_rows": np.nan}),
    "rows of fractions": ("rows of whole numbers", {"level_3_rows": 0.3}),
    "parts of fractions": ("rows of whole numbers", {"level_2_parts": 0.3}),
    "no parts": ("does not fit its tree", {"level_2_parts": 0.0}),
    "negative parts": ("does not fit its tree", {"level_1_parts": -1.0}),
    "parts that overflow": ("parts of the nodes", {"level_1_parts": 2.0**50}),
    "fewer parts": ("does not fit its tree", {"level_1_parts": slice(1, None)}),
    "fewer sizes": ("does not fit its tree", {"level_2_sigma2": slice(1, None)}),
    "more than one root": ("does not fit its tree", {"level_0_sigma2": [0, 0]}),
    "no tree": ("numbered by their parents", {"tree_1_parents": slice(None, None, -1)}),
    "fewer cells": ("does not fit its tree", {"level_1_rows": (slice(None), slice(1, None))}),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_makes_no_sense_is_refused_when_it_is_read(name: str) -> None:
    match, damage = DAMAGED[name]
    content, arrays = made(whole=True).parts()
    for key, change in damage.items():
        if key in content:
            content = {**content, key: change}
        else:
            scaled = isinstance(change, float)
            arrays = {**arrays, key: arrays[key] * change if scaled else arrays[key][change]}
    with pytest.raises(StorageError, match=match):
        read_mechanism(content, arrays, SCHEMA)


def test_parts_that_are_hardly_any_have_a_price_still() -> None:
    """As a file might have them: no child pays less than nothing, or more than can be said."""
    content, arrays = made().parts()
    uneven = np.full(len(arrays["level_1_parts"]), 1e-18)
    uneven[0] = 1.0
    mechanism = read_mechanism(content, {**arrays, "level_1_parts": uneven}, SCHEMA)
    assert isinstance(mechanism, LevelsMechanism)
    truth = dearest(mechanism, "add-remove")
    stated = Fraction(mechanism.record_cost("add-remove"))
    assert truth <= stated <= truth * Fraction(1 + 1e-9)


def test_mechanisms_that_make_no_sense_are_not_made() -> None:
    with pytest.raises(PlanError, match="whole numbers"):
        replace(made(), exact=True)
    levels = list(made(whole=True).levels)
    levels[1] = replace(levels[1], parts=levels[1].parts * LARGEST_SUM)
    with pytest.raises(PlanError, match="level 1"):
        replace(made(whole=True), levels=tuple(levels))


def test_what_a_level_measures_is_all_that_is_counted_for_it() -> None:
    """Of levels that do not tell values of an attribute apart the table is without it."""
    mechanism = made([np.eye(6), SEX, SEX, np.ones((1, 6))])
    assert [each.tolist() for each in mechanism.sets] == [[[0, 1, 3]], [[0, 1]], [[1]]]
    counts = np.random.default_rng(0).integers(0, 50, SCHEMA.shape)
    found = mechanism.measure(counted(counts), noiseless).values
    numbers = np.concatenate([each.ravel() for each in found])
    np.testing.assert_allclose(numbers, flat(written_out(mechanism)) @ counts.ravel(), rtol=1e-12)


def test_only_children_have_no_noise_of_their_own() -> None:
    mechanism = made()
    level = Siblings.of(TREE, 2, mechanism.levels[2].parts, mechanism.levels[2].noise)
    alone = ~level.kept
    assert alone.any() and not level.price()[alone].any() and not level.single()[alone].any()
