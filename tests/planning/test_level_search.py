"""What levels with rows of their own are searched by: against programs and matrices written out."""

from __future__ import annotations

from unittest import mock

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.optimize import minimize as generic

from depth import seeds
from noiseplan.domain.tree import Tree
from noiseplan.mechanisms.level_siblings import Siblings
from noiseplan.noise import Noise
from noiseplan.optimize import tree_bound
from noiseplan.optimize.level_bound import Together, norm_of_levels
from noiseplan.optimize.level_precisions import best_precisions
from noiseplan.optimize.optimum import dense_optimum
from noiseplan.optimize.tree_bound import TreeNorm
from noiseplan.optimize.tree_components import Components, ComponentSearch, Counted
from noiseplan.optimize.tree_sharing import Alike

VALUES = 8
# Children alike and not, an only child of the root's, and one with a chain below it.
TREES = {
    "even": [np.arange(8), np.arange(8) // 2, np.arange(8) // 4],
    "uneven": [np.arange(8), np.array([0, 0, 0, 1, 1, 2, 3, 4]), np.array([0] * 5 + [1, 1, 1])],
    "chains": [np.arange(8), np.array([0, 0, 0, 1, 1, 1, 2, 3]), np.array([0] * 6 + [1, 2])],
    "an only child": [np.arange(8), np.array([0, 0, 0, 0, 0, 1, 2, 2])],
    "one level": [np.arange(8)],
}


def tree_of(name: str) -> Tree:
    found = Tree.of([np.zeros(VALUES, dtype=int), *TREES[name]])
    assert found is not None
    return found


def counts_of(alike: Alike, seed: int) -> Counted:
    """φ at random, of a kind of nodes in all."""
    rng, copies = np.random.default_rng(seed), alike.copies
    return [
        [rng.uniform(0.2, 2.0) * rng.uniform(0.5, 1.0, len(n)) * n for n in copies[c:]]
        for c in range(len(copies))
    ]


# ---------------------------------------------------------------------- sharing along a tree


def shares(e: np.ndarray) -> tuple[float, np.ndarray]:
    """S and g of the children of one parent."""
    if len(e) == 1:
        return 0.0, np.ones(1)
    total = brentq(lambda log: float((1 / (1 + np.exp(log) * e)).sum() - 1), -60, 60, xtol=1e-14)
    return float(np.exp(total)), 1 / (1 + np.exp(total) * e)


def written_out(tree: Tree, paid: list[np.ndarray]) -> list[list[np.ndarray]]:
    """Of every level and component the covariance of all nodes, from what every node pays."""
    found = [[np.array([[1 / paid[0][0]]])]]
    for level, parent in enumerate(tree.parents, 1):
        size = len(parent)
        down, own = np.zeros((size, len(found[-1][0]))), np.zeros((size, size))
        for above in range(down.shape[1]):
            mine = np.flatnonzero(parent == above)
            total, g = shares(paid[level][mine])
            down[mine, above] = g
            own[np.ix_(mine, mine)] = total * (np.diag(g) - np.outer(g, g))
        found.append([*(down @ k @ down.T for k in found[-1]), own])
    return found


def value_of(tree: Tree, paid: list[np.ndarray], counted: Counted, alike: Alike) -> float:
    total = 0.0
    for level, components in enumerate(written_out(tree, paid)):
        for c, covariance in enumerate(components):
            each = (counted[c][level - c] / alike.copies[level])[alike.kind[level]]
            total += float(each @ np.diagonal(covariance))
    return total


def spread(alike: Alike, found: Components) -> list[np.ndarray]:
    return [each[kind] for each, kind in zip(found.paid, alike.kind, strict=True)]


def spent(tree: Tree, paid: list[np.ndarray], prices: np.ndarray) -> np.ndarray:
    """Of every leaf."""
    return np.asarray(
        sum(y * e[tree.node_of_value(level)] for level, (y, e) in enumerate(zip(prices, paid)))  # noqa: B905
    )


def prices_of(tree: Tree, seed: int) -> np.ndarray:
    return np.random.default_rng(seed + 100).uniform(0.5, 2.0, tree.depth + 1)


@pytest.mark.parametrize("name", TREES)
def test_components_are_those_of_matrices_written_out(name: str) -> None:
    tree = tree_of(name)
    alike, prices = Alike.of(tree), prices_of(tree, 0)
    search = ComponentSearch(alike, prices)
    x = np.random.default_rng(1).normal(size=len(search.start()))
    found = search.at(x)
    paid = spread(alike, found)
    np.testing.assert_allclose(spent(tree, paid, prices), 1.0, rtol=1e-12)  # all records alike
    for level, components in enumerate(written_out(tree, paid)):
        for k, covariance in zip(found.variances[level], components, strict=True):
            np.testing.assert_allclose(k[alike.kind[level]], np.diagonal(covariance), atol=1e-9)
    along = found.path_prices() @ prices
    np.testing.assert_allclose(along, 1.0, rtol=1e-12)
    counted = counts_of(alike, 2)
    logarithm = np.log(value_of(tree, paid, counted, alike))
    assert search._value(counted, x)[0] == pytest.approx(logarithm, rel=1e-9)


@pytest.mark.parametrize("name", TREES)
def test_what_nodes_pay_is_what_is_measured_of_them(name: str) -> None:
    """s x − t x_p with noise of S s t: a record pays e, and nodes vary as the components say."""
    tree = tree_of(name)
    alike = Alike.of(tree)
    search = ComponentSearch(alike, np.ones(tree.depth + 1))
    found = search.at(np.random.default_rng(3).normal(size=len(search.start())))
    for level in range(1, tree.depth + 1):
        kind, parent = alike.kind[level], tree.parents[level - 1]
        parts = 7.5 * found.share[level][kind]
        kept = (np.bincount(parent) > 1)[parent]
        noise = (found.spread[level][kind] * 7.5 * parts)[kept]
        siblings = Siblings.of(tree, level, parts, Noise("gaussian", noise))
        np.testing.assert_allclose(siblings.price(), found.paid[level][kind], atol=1e-9)
        np.testing.assert_allclose(siblings.single(), found.own[level][kind], atol=1e-9)


@pytest.mark.parametrize("name", TREES)
def test_slopes_are_those_of_differences(name: str) -> None:
    tree = tree_of(name)
    alike = Alike.of(tree)
    search, counted = ComponentSearch(alike, prices_of(tree, 1)), counts_of(alike, 4)
    x = np.random.default_rng(2).normal(size=len(search.start()))
    _, slope = search._value(counted, x)
    for place in range(len(x)):
        step = 1e-5 * (np.arange(len(x)) == place)
        ends = [search._value(counted, at)[0] for at in (x + step, x - step)]
        assert slope[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-7)


@pytest.mark.grid
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("seed", seeds(4))
def test_no_other_way_to_share_is_better(name: str, seed: int) -> None:
    """Every node by itself, records limited one by one, from another start, by another method."""
    tree = tree_of(name)
    alike, prices = Alike.of(tree), prices_of(tree, seed)
    search, counted = ComponentSearch(alike, prices), counts_of(alike, seed)
    _, found = search.best(counted, search.start())
    value = value_of(tree, spread(alike, found), counted, alike)
    several = [np.ones(1, dtype=bool)] + [(np.bincount(p) > 1)[p] for p in tree.parents]
    ends = np.cumsum([each.sum() for each in several])

    def nodes(z: np.ndarray) -> list[np.ndarray]:
        paid = [np.zeros(len(each)) for each in several]
        for own, kept, part in zip(paid, several, np.split(np.exp(z), ends[:-1]), strict=True):
            own[kept] = part
        return paid

    rng = np.random.default_rng(seed)
    result = generic(
        lambda z: np.log(value_of(tree, nodes(z), counted, alike)),
        np.log(rng.uniform(0.2, 0.3, ends[-1]) / prices.max()),
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda z: 1 - spent(tree, nodes(z), prices)},
        options={"maxiter": 60, "ftol": 1e-8},
    )
    assert spent(tree, nodes(result.x), prices).max() <= 1 + 1e-6
    other = value_of(tree, nodes(result.x), counted, alike)
    assert value <= other * (1 + 1e-5)
    assert value >= other * (1 - 1e-3)


def test_an_even_tree_has_the_optimum_of_all_mechanisms() -> None:
    tree = tree_of("even")
    alike = Alike.of(tree)
    asked = [0.7, 2.0, 1.0, 0.4]  # of every node of a level
    counted = [[w * n for w, n in zip(asked[c:], alike.copies[c:], strict=True)] for c in range(4)]
    search = ComponentSearch(alike, np.ones(4))
    _, found = search.best(counted, search.start())
    value = value_of(tree, spread(alike, found), counted, alike)
    gram = np.zeros((VALUES, VALUES))
    for level, w in enumerate(asked):
        node = tree.node_of_value(level)
        gram += w * (node[:, None] == node)
    assert value == pytest.approx(dense_optimum(gram, 1e-9).value, rel=1e-6)


@pytest.mark.parametrize("name", TREES)
def test_leaves_pay_what_the_others_on_their_way_leave(name: str) -> None:
    """Cells that pay differently at each level: no record more than it may, and each as much."""
    tree = tree_of(name)
    alike, squares = Alike.of(tree), np.random.default_rng(6).uniform(0.5, 1.5, (tree.depth + 1, 5))
    squares[0, 3] = 0.0
    search = ComponentSearch(alike, np.ones(tree.depth + 1))
    before = search.at(np.random.default_rng(7).normal(size=len(search.start())))
    for most in (1.2, 1.6):
        found = search.within(before, squares, most)
        paid = np.array([e[tree.node_of_value(at)] for at, e in enumerate(spread(alike, found))])
        dearest = (paid.T @ squares).max(axis=1)
        assert dearest.max() == pytest.approx(most, rel=1e-9)
        enough = (found.path_prices() >= 2e-3 * before.path_prices()).all(axis=1)
        np.testing.assert_allclose(dearest[enough[alike.kind[-1]]], most, rtol=1e-9)
        # As the best differences for what is paid now.
        for level, components in enumerate(written_out(tree, spread(alike, found))):
            for k, covariance in zip(found.variances[level], components, strict=True):
                np.testing.assert_allclose(k[alike.kind[level]], np.diagonal(covariance), atol=1e-9)


@pytest.mark.parametrize("name", TREES)
def test_weights_of_records_are_what_cheaper_ones_would_gain(name: str) -> None:
    """At the optimum, by the value where records of one leaf may cost a little more."""
    tree = tree_of(name)
    alike = Alike.of(tree)
    search, counted = ComponentSearch(alike, np.ones(tree.depth + 1)), counts_of(alike, 5)
    x, found = search.best(counted, search.start())
    weights = search.record_weights(counted, x)
    assert weights @ alike.copies[-1] == pytest.approx(1.0)
    value = value_of(tree, spread(alike, found), counted, alike)
    for leaf in range(VALUES):
        more = [e.copy() for e in spread(alike, found)]
        # The last node on its way that has siblings pays for it; all below it have the same value.
        level = tree.depth
        while level and np.count_nonzero(tree.parents[level - 1] == tree.parents[level - 1][
            tree.node_of_value(level)[leaf]
        ]) == 1:  # fmt: skip
            level -= 1
        node = tree.node_of_value(level)[leaf]
        more[level][node] *= 1 + 1e-6
        gain = value - value_of(tree, more, counted, alike)
        slope = gain / (more[level][node] * 1e-6)
        kind = alike.kind[-1][tree.of_value[leaf]]
        below = np.count_nonzero(tree.node_of_value(level) == node)
        assert weights[kind] * below == pytest.approx(slope / value, rel=2e-2)


# ---------------------------------------------------------------------- precisions


def grams_of(cells: int, levels: int, seed: int) -> list[np.ndarray]:
    """Of full rank and not."""
    rng = np.random.default_rng(seed)
    rows = [rng.normal(size=(cells - (level == 1), cells)) for level in range(levels)]
    return [r.T @ r for r in rows]


def by_convex_program(grams: list[np.ndarray], paths: np.ndarray) -> float:
    """The least Σ tr(H Y⁻¹), with a limit for each path and cell."""
    cells = len(grams[0])
    precisions = [cp.Variable((cells, cells), PSD=True) for _ in grams]
    goal = 0
    for gram, precision in zip(grams, precisions, strict=True):
        values, vectors = np.linalg.eigh(gram)
        for value, vector in zip(values, vectors.T, strict=True):
            if value > 1e-9:
                goal += cp.matrix_frac(np.sqrt(value) * vector, precision)
    costs = [sum(a * cp.diag(y) for a, y in zip(p, precisions, strict=True)) for p in paths]
    return float(cp.Problem(cp.Minimize(goal), [cost <= 1 for cost in costs]).solve("CLARABEL"))


@pytest.mark.parametrize("seed", seeds(4))
def test_precisions_are_those_of_a_convex_program(seed: int) -> None:
    cells, levels = 3, 1 + seed % 3
    grams, prices = grams_of(cells, levels, seed), np.array([0.5, 1.0, 2.0])[:levels]
    found = best_precisions(grams, prices, 1e-7)
    best = by_convex_program(grams, prices[None, :])
    assert found.value == pytest.approx(best, rel=1e-5)
    assert found.bound <= best * (1 + 1e-7)
    assert found.bound == pytest.approx(best, rel=1e-5)
    # What it says of itself is so.
    paid = sum(a * (r**2).sum(axis=0) for a, r in zip(prices, found.rows, strict=True))
    assert paid.max() <= 1 + 1e-9
    each = [
        float((g * np.linalg.pinv(r.T @ r)).sum()) for g, r in zip(grams, found.rows, strict=True)
    ]
    assert sum(each) == pytest.approx(found.value, rel=1e-9)
    assert found.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("seed", seeds(4))
def test_every_path_pays_for_itself(seed: int) -> None:
    grams = grams_of(3, 2, seed)
    paths = np.random.default_rng(seed).uniform(0.1, 2.0, (4, 2))
    found = best_precisions(grams, paths, 1e-7)
    best = by_convex_program(grams, paths)
    assert found.value == pytest.approx(best, rel=1e-5)
    assert best * (1 - 1e-5) <= found.bound <= best * (1 + 1e-7)
    squares = np.array([(rows**2).sum(axis=0) for rows in found.rows])
    assert (paths @ squares).max() <= 1 + 1e-9
    assert found.weights.shape == (4, 3)


@pytest.mark.parametrize("seed", seeds(4))
def test_precisions_of_one_level_are_the_optimum(seed: int) -> None:
    (gram,) = grams_of(5, 1, seed)
    found, best = best_precisions([gram], np.ones(1), 1e-8), dense_optimum(gram, 1e-9)
    assert found.value == pytest.approx(best.value, rel=1e-6)
    assert found.bound <= best.value * (1 + 1e-9)


# ---------------------------------------------------------------------- bounds


def nuclear(
    tree: Tree, alike: Alike, asked: list[tuple[list[np.ndarray], np.ndarray]], leaves: np.ndarray,
    cells: np.ndarray,
) -> float:  # fmt: skip
    """‖W Λ^{1/2}‖_*, from the Gram matrix over all leaves and cells."""
    count = tree.sizes[-1]
    gram = np.zeros((count * len(cells),) * 2)
    for level, (different, kind) in enumerate(asked):
        at = tree.node_of_value(level)[np.unique(tree.of_value, return_index=True)[1]]
        for node in range(tree.sizes[level]):
            mine = (at == node).astype(float)
            gram += np.kron(np.outer(mine, mine), different[kind[alike.kind[level][node]]])
    half = np.sqrt(np.kron(leaves[alike.kind[-1]], cells))
    values = np.linalg.eigvalsh(gram * half * half[:, None])
    return float(np.sqrt(np.maximum(values, 0)).sum())


def asked_at(alike: Alike, cells: int, seed: int, commuting: bool) -> list[tuple[list, np.ndarray]]:
    """Of every level two Gram matrices, for some kinds of nodes the one, for others the other."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(cells, cells)))[0]
    found = []
    for copies in alike.copies:
        different = []
        for _ in range(1 + (len(copies) > 1)):
            rows = rng.normal(size=(rng.integers(1, cells + 1), cells))
            diagonal = (basis * rng.uniform(0, 1, cells)) @ basis.T
            different.append(diagonal if commuting else rows.T @ rows)
        found.append((different, rng.integers(0, len(different), len(copies))))
    return found


@pytest.mark.parametrize("largest", [512, 2])
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("seed", seeds(4))
def test_norms_of_levels_are_never_above_those_of_matrices(
    seed: int, name: str, largest: int
) -> None:
    tree, cells, rng = tree_of(name), 4, np.random.default_rng(seed)
    alike = Alike.of(tree)
    leaves = rng.uniform(0.2, 1.0, len(alike.copies[-1]))
    leaves /= leaves @ alike.copies[-1]
    weights = rng.dirichlet(np.ones(cells))
    asked = asked_at(alike, cells, seed, commuting=False)
    with mock.patch.object(tree_bound, "LARGEST", largest):
        found = norm_of_levels(TreeNorm(alike, leaves), asked, weights)
    truth = nuclear(tree, alike, asked, leaves, weights)
    assert 0.4 * truth <= found <= truth * (1 + 1e-12)


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("seed", seeds(4))
def test_norms_of_levels_that_commute_are_those_of_matrices(seed: int, name: str) -> None:
    """But for coefficients rounded down to one in a hundred."""
    tree, cells = tree_of(name), 4
    alike = Alike.of(tree)
    leaves = 1.0 / alike.copies[-1] / len(alike.copies[-1])
    weights = np.full(cells, 0.25)  # others would not commute with them
    asked = asked_at(alike, cells, seed, commuting=True)
    found = norm_of_levels(TreeNorm(alike, leaves), asked, weights)
    truth = nuclear(tree, alike, asked, leaves, weights)
    assert truth * 0.99 <= found <= truth * (1 + 1e-12)


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("seed", seeds(4))
def test_norms_together_are_those_of_matrices(seed: int, name: str) -> None:
    """Nothing is cut off, for weights of leaves × cells that are no product; two pieces."""
    tree, cells, rng = tree_of(name), 3, np.random.default_rng(seed)
    alike = Alike.of(tree)
    weights = rng.dirichlet(np.ones(len(alike.copies[-1]) * cells)).reshape(-1, cells)
    pieces = [asked_at(alike, cells, seed + 10 * p, commuting=False) for p in range(2)]
    together = Together(alike, pieces, np.array([1.0, 2.5]))
    diagonal = together.diagonal(weights)
    each = (weights / alike.copies[-1][:, None])[alike.kind[-1]]
    expected = np.zeros_like(each)
    for often, asked in zip(together.often, pieces, strict=True):
        gram = np.zeros((each.size,) * 2)
        for level, (different, kind) in enumerate(asked):
            at = tree.node_of_value(level)[np.unique(tree.of_value, return_index=True)[1]]
            for node in range(tree.sizes[level]):
                mine = (at == node).astype(float)
                own = different[kind[alike.kind[level][node]]]
                gram += np.kron(np.outer(mine, mine), own)
        half = np.sqrt(each.ravel())
        values, vectors = np.linalg.eigh(gram * half * half[:, None])
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        expected += often * np.diagonal(root).reshape(each.shape)
    for kind in range(len(alike.copies[-1])):
        mine = alike.kind[-1] == kind
        # A root of what should be zero is larger than the rounding in it.
        np.testing.assert_allclose(diagonal[kind], expected[mine].sum(axis=0), rtol=1e-6)
    best = together.best_norm(weights)
    assert best >= diagonal.sum() * (1 - 1e-8)


@pytest.mark.parametrize("seed", seeds(4))
def test_the_best_norm_of_a_root_alone_is_the_optimum(seed: int) -> None:
    """One leaf: the bound of one Gram matrix, which `dense_optimum` reaches."""
    (gram,) = grams_of(5, 1, seed)
    alike = Alike.of(Tree.of([np.zeros(1, dtype=np.int64)]))
    together = Together(alike, [[([gram], np.zeros(1, dtype=np.int64))]], np.ones(1))
    best, known = together.best_norm(np.full((1, 5), 0.2)), dense_optimum(gram, 1e-9)
    assert best**2 == pytest.approx(known.value, rel=2e-3)
    assert best**2 <= known.value * (1 + 1e-9)
