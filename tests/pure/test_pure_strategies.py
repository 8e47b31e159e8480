"""Strategies for Laplace noise: gradients, published values, convex optima."""

from __future__ import annotations

import re
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import check_grad

import noiseplan as nz
from noiseplan.optimize import p_identity
from noiseplan.optimize.integer_rounding import integer_rows
from noiseplan.planning.noise_within import largest_norm
from noiseplan.planning.pure_bounds import BY_LAW
from noiseplan.strategies.hierarchies import haar, tree, weigh
from oracles import prefix, ranges


def error(gram: np.ndarray, strategy: np.ndarray) -> float:
    """‖A‖₁² tr(G (AᵀA)⁻¹)."""
    norm = np.abs(strategy).sum(axis=0).max()
    return float(norm**2 * np.trace(gram @ np.linalg.inv(strategy.T @ strategy)))


def all_ranges(n: int) -> np.ndarray:
    """The Gram matrix of all ranges: a pair of values is in (first + 1)(n − last) of them."""
    i = np.arange(n)
    return np.minimum.outer(i + 1.0, i + 1.0) * (n - np.maximum.outer(i, i))


def test_gram_of_all_ranges() -> None:
    np.testing.assert_array_equal(all_ranges(7), gram_of(ranges(7)))


def gram_of(rows: np.ndarray) -> np.ndarray:
    return rows.T @ rows


@pytest.mark.parametrize("p", [1, 3, 8])
def test_error_and_gradient_of_p_identity(p: int) -> None:
    rng = np.random.default_rng(p)
    gram, theta = gram_of(rng.normal(size=(9, 7))), rng.random((p, 7))
    value, _ = p_identity._error(gram, theta)
    strategy = p_identity.strategy(theta)
    np.testing.assert_allclose(np.abs(strategy).sum(axis=0), 1.0)
    assert value == pytest.approx(error(gram, strategy), rel=1e-10)

    def at(x: np.ndarray, part: int) -> float | np.ndarray:
        return p_identity._error(gram, x.reshape(p, 7))[part]

    assert check_grad(at, lambda x, part: at(x, 1), theta.ravel(), 0) < 1e-4 * value


@pytest.mark.parametrize(
    ("gram", "published"),
    [
        (gram_of(prefix(64)), 916.88),
        (all_ranges(64), 32299.68),
        (gram_of(prefix(256)), 6918.30),
        (all_ranges(256), 1.07531e6),
    ],
    ids=["prefix 64", "ranges 64", "prefix 256", "ranges 256"],
)
def test_p_identity_is_below_the_published_errors(gram: np.ndarray, published: float) -> None:
    """HDMM's OPT_0 with p = n/16, ε = √2."""
    value, theta = p_identity.best_p_identity(gram)
    assert value == pytest.approx(error(gram, p_identity.strategy(theta)), rel=1e-8)
    assert value < published


def test_two_descents_are_no_worse_than_either_start() -> None:
    ranges = np.array(
        [[float(i <= k <= j) for k in range(40)] for i in range(40) for j in range(i, 40)]
    )
    gram, steps = ranges.T @ ranges, []
    rows = p_identity.tree_of_blocks(40, 8)
    value, theta = p_identity.best_of_many(gram, rows, told=steps.append)
    assert value == pytest.approx(error(gram, p_identity.strategy(theta)), rel=1e-8)
    assert (theta >= 0).all() and len(steps) > 2 * p_identity.GIVEN_UP[0][0]
    by_tree = p_identity.improve(gram, next(p_identity.starts(40)))[0]
    assert value <= by_tree * (1 + 1e-9)
    assert value < error(gram, p_identity.strategy(rows))


def test_descents_that_lead_nowhere_are_given_up() -> None:
    gram, steps = np.eye(40), []
    value, _ = p_identity.best_of_many(gram, p_identity.tree_of_blocks(40, 8), 1.0, steps.append)
    assert value >= 40.0 - 1e-6  # the identity, far above what is known
    assert len(steps) <= 2 * p_identity.GIVEN_UP[0][0]


def test_steps_are_as_many_as_half_a_minute_has_room_for() -> None:
    assert p_identity.affordable_steps(1000, 60) == p_identity.STEPS
    few, fewer = p_identity.affordable_steps(1500, 700), p_identity.affordable_steps(2048, 700)
    assert fewer < few < p_identity.STEPS


def test_p_identity_finds_the_identity_where_it_is_best() -> None:
    value, theta = p_identity.best_p_identity(np.eye(20))
    assert value == pytest.approx(20.0, rel=1e-5)
    assert error(np.eye(20), p_identity.strategy(theta)) >= 20.0 - 1e-9


@pytest.mark.parametrize(
    ("n", "published"),
    [(4, 20.0), (16, 816.0), (32, 5984.0), (64, 41238.5417), (256, 1599541.0949)],
)
def test_greedy_tree_on_all_ranges(n: int, published: float) -> None:
    """The budgets of Program 6.4.1 with decay, on a grid of hundredths."""
    gram = all_ranges(n)
    value, strategy = tree(gram)
    assert value == pytest.approx(published, abs=1e-4)
    assert value == pytest.approx(error(gram, strategy), rel=1e-9)
    assert np.abs(strategy).sum(axis=0).max() <= 1 + 1e-12


@pytest.mark.parametrize(
    ("n", "plain", "weighted"),
    [(16, 2570.3125, 2376.12), (64, 106336.89, 99430.0), (256, 3.63718e6, 3.44286e6)],
)
def test_weighted_wavelet_on_all_ranges(n: int, plain: float, weighted: float) -> None:
    gram = all_ranges(n)
    assert error(gram, haar(n)) == pytest.approx(plain, rel=1e-5)
    value, strategy = weigh(haar(n), gram)
    assert value == pytest.approx(weighted, rel=1e-5)
    assert value == pytest.approx(error(gram, strategy), rel=1e-7)


@pytest.mark.parametrize("n", [5, 8, 11])
def test_weights_of_a_basis_are_the_convex_optimum(n: int) -> None:
    rng = np.random.default_rng(n)
    gram = gram_of(rng.normal(size=(n + 2, n)))
    basis = haar(n)
    assert np.linalg.matrix_rank(basis) == n
    inverse = np.linalg.inv(basis)
    costs = np.diagonal(inverse.T @ gram @ inverse)
    u = cp.Variable(n)
    best = cp.Problem(
        cp.Minimize(costs @ cp.power(u, -2)), [np.abs(basis).T @ u <= 1, u >= 1e-9]
    ).solve(solver="CLARABEL")
    assert weigh(basis, gram)[0] == pytest.approx(best, rel=1e-5)


def test_integers_keep_zeros_ones_and_every_row() -> None:
    assert np.array_equal(integer_rows(0.25 * np.eye(3), 14), np.eye(3))
    rng = np.random.default_rng(0)
    strategy = np.vstack([np.diag([1e-9, 0.5, 0.5]), rng.random((2, 3)), [[0.5, 1e-9, 0.5]]])
    rounded = integer_rows(strategy, 10)
    assert np.array_equal(rounded, np.rint(rounded))
    assert rounded[0].tolist() == [1, 0, 0]  # the only row that tells the first value
    assert rounded[-1, 1] == 0  # nothing is lost with a faint entry
    norms = np.abs(strategy).sum(axis=0) / np.abs(strategy).max() * 2**10
    assert np.array_equal(
        np.abs(rounded).sum(axis=0), np.floor(norms)
    )  # no column pays for another
    assert np.abs(rounded * np.abs(strategy).max() / 2**10 - strategy).max() < 4e-3


def test_norms_are_never_below_the_truth() -> None:
    from fractions import Fraction

    rng = np.random.default_rng(3)
    for _ in range(20):
        matrix = rng.normal(size=(30, 6)) * 10.0 ** rng.integers(-3, 3)
        exact = max(sum(Fraction(abs(float(v))) for v in column) for column in matrix.T)
        found = largest_norm(matrix)
        assert exact <= found <= exact * (1 + Fraction(1, 2**51))
    assert largest_norm(np.array([[3.0, -5.0], [4.0, 1.0]])) == 7


@pytest.mark.few(1)
@pytest.mark.parametrize("size", [40, 300])  # numbers written out, and had by formula
def test_noise_on_every_value_is_not_searched_for(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Its errors against the inverse of what is measured, over all cells."""

    def searched(*_: object) -> None:
        raise AssertionError("the strategy is given")

    monkeypatch.setattr("noiseplan.planning.attribute_strategies.by_strategy", searched)
    schema = nz.Schema({"a": nz.Ordinal(range(size)), "s": nz.Categorical(["x", "y", "z"])})
    asked: list[dict[str, nz.Factor]] = [
        {"a": nz.Prefix()},
        {"a": nz.Levels(7), "s": nz.Identity()},
        {"s": nz.Identity()},
    ]
    workload = nz.Workload([nz.Query(schema, each) for each in asked])
    for objective in (nz.TotalVariance(), nz.WorstVariance()):
        plan = nz.plan(workload, budget=nz.PureDP(1.0), planner="identity", objective=objective)
        covariance = np.linalg.inv(plan.cost_matrix())
        exact = [np.einsum("ij,jk,ik->i", w, covariance, w) for w in (q.dense() for q in workload)]
        for query, variances in zip(workload, exact, strict=True):
            np.testing.assert_allclose(plan.variance(query), variances, rtol=1e-8)
        assert plan.total_variance == pytest.approx(sum(v.sum() for v in exact))
        assert plan.worst_variance == pytest.approx(max(v.max() for v in exact))


def test_no_bound_is_searched_for_values_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BY_LAW, "pure", replace(BY_LAW["pure"], searched=20))
    query = nz.Query(nz.Schema.from_sizes({"a": 30}), {"a": nz.Prefix()})
    plan = nz.plan(nz.Workload([query]), budget=nz.PureDP(1.0), planner="identity")
    assert plan.lower_bound == 0.0
    assert "no bound of any use is known" in str(plan)


@pytest.mark.parametrize("name", ["singular-value", "eigen", "eigen-principal", "privelet"])
def test_a_strategy_that_is_worse_than_single_cells_says_so(name: str) -> None:
    """All ranges of 64: the page says nine to twelve times for eigenvectors."""
    schema = nz.Schema.from_sizes({"x": 64})
    ranges = nz.Workload([nz.Query(schema, {"x": nz.Ranges()})])
    plan = nz.plan(ranges, budget=nz.PureDP(1.0), planner=name)
    cells = nz.plan(ranges, budget=nz.PureDP(1.0), planner="identity")
    found = re.search(r"identity: total variance about ([\d.]+) times smaller", str(plan))
    assert found is not None
    assert float(found[1]) == pytest.approx(plan.total_variance / cells.total_variance, rel=0.1)
    assert "smaller" not in str(
        nz.plan(ranges, budget=nz.PureDP(1.0), planner="weighted-hierarchical")
    )
    if name != "privelet":
        assert plan.total_variance > 9 * cells.total_variance
        gaussian = nz.plan(ranges, budget=nz.zCDP(0.5), planner=name)
        assert "times smaller" not in str(gaussian)
