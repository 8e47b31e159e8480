"""Bounds for Laplace noise: against convex programs, hulls, and plans that must not beat them."""

from __future__ import annotations

from math import exp, factorial

import cvxpy as cp
import numpy as np
import pytest
from benchmarks.pure import searched
from scipy.spatial import ConvexHull

import noiseplan as nz
from depth import seeds
from noiseplan.optimize.laplace_bounds import _log_shadow, disjoint_tables_bound
from noiseplan.planning.attribute_strategies import role_strategies
from noiseplan.planning.pure_bounds import SharedTables, epsilon_at, laplace_cost, volume_bound
from noiseplan.planning.table_types import find_table_types, variances
from noiseplan.planning.workload_types import prepare
from oracles import prefix, ranges
from workloads import ANY, random_workload


def marginals(sizes: list[int], k: int) -> nz.Workload:
    schema = nz.Schema.from_sizes({f"a{i}": n for i, n in enumerate(sizes)})
    return nz.Workload.marginals(schema, k=k)


# ---------------------------------------------------------------------- sharing among tables


@pytest.mark.parametrize(("sizes", "k"), [([3, 4, 5], 2), ([2, 2, 3, 2], 2), ([5] * 4, 1)])
def test_tables_bound_is_the_optimum_of_a_convex_program(sizes: list[int], k: int) -> None:
    """minimise Σ 2V/u² with u = g s, every table a variable of its own."""
    design = prepare(marginals(sizes, k), share=False)
    strategies = role_strategies(design, {}, None)
    types = find_table_types(design, strategies)
    variance, told = variances(design, strategies), types.told.toarray()
    wanted = variance > 0
    s = cp.Variable(len(types.price), nonneg=True)
    heard = np.sqrt(told[wanted]) @ s
    total = cp.sum(cp.multiply(2 * variance[wanted], cp.power(heard, -2)))
    best = cp.Problem(cp.Minimize(total), [types.price @ s <= 1]).solve(solver="CLARABEL")
    bound = SharedTables(design, strategies, 1.0, exact=False).bound
    # Differences of several attributes with more of others are in the bound's tables only.
    assert best * 0.985 <= bound <= best * (1 + 1e-6)
    alike = SharedTables(prepare(marginals(sizes, k)), *_alike(sizes, k)).bound
    assert alike == pytest.approx(bound, rel=0.01)


def _alike(sizes: list[int], k: int) -> tuple[dict, float, bool]:
    return role_strategies(prepare(marginals(sizes, k)), {}, None), 1.0, False


@pytest.mark.parametrize(("sizes", "k"), [([3, 4, 5], 2), ([2, 2, 3], 1), ([2] * 5, 2)])
def test_no_shares_of_tables_beat_the_bound(sizes: list[int], k: int) -> None:
    design = prepare(marginals(sizes, k), share=False)
    types = find_table_types(design, role_strategies(design, {}, None))
    bound = SharedTables(design, types.strategies, 1.0, exact=False).bound
    rng, variance = np.random.default_rng(0), variances(design, types.strategies)
    for _ in range(200):
        spent = rng.random(len(types.price)) ** rng.integers(1, 12)
        s = spent / spent.sum() / types.price
        assert (2 * variance / (types.told @ s**2)).sum() >= bound


@pytest.mark.grid
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize(
    ("workload", "factor"),
    [
        (marginals([5] * 12, 2), 1.3),
        (marginals([2] * 20, 1), 1.6),
        (marginals([4, 4, 4], 2), 1.1),
        (nz.Workload.marginals(nz.Schema.from_sizes({"a": 20, "b": 4}), k=2), 1.01),
    ],
    ids=["66 tables", "20 tables", "3 tables", "one table"],
)
def test_plans_come_near_the_bound_of_tables(
    workload: nz.Workload, factor: float, epsilon: float
) -> None:
    plan = nz.plan(workload, budget=nz.PureDP(epsilon))
    curved = laplace_cost(epsilon, exact=True) / laplace_cost(epsilon, exact=False)
    assert plan.tables_bound <= plan.total_variance <= plan.tables_bound * factor * curved
    assert plan.optimality.lower_bound <= plan.total_variance
    assert "tables measured so can do" in str(plan) or plan.optimal


# ---------------------------------------------------------------------- discrete noise


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 3.0, 20.0])
def test_counts_with_discrete_noise_reach_the_bound(epsilon: float) -> None:
    """Every cell once: nothing does better, and 1/(cosh ε − 1) is the variance itself."""
    workload = marginals([7], 1)
    plan = nz.plan(workload, budget=nz.PureDP(epsilon))
    assert plan.optimality.lower_bound == pytest.approx(plan.total_variance, rel=1e-6)
    assert plan.optimal


@pytest.mark.grid
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("seed", seeds(6))
def test_no_plan_is_below_its_bounds(seed: int, epsilon: float) -> None:
    workload = random_workload(seed, kinds=ANY, several=bool(seed % 2), joint=seed % 3 == 0)
    plan = nz.plan(workload, budget=nz.PureDP(epsilon))
    # Not `plan.lower_bound`, which is never above the plan whatever was worked out.
    assert plan.optimality.lower_bound <= plan.total_variance * (1 + 1e-9)
    assert (plan.tables_bound or 0.0) <= plan.total_variance * (1 + 1e-9)
    assert nz.bounds(workload).at(nz.PureDP(epsilon)) <= plan.total_variance * (1 + 1e-9)


def test_prefix_sums_with_little_noise_are_not_proved_optimal() -> None:
    """Continuous noise has a bound above this plan, which would have passed for a proof."""
    workload = nz.Workload([nz.Query(nz.Schema.from_sizes({"a": 8}), {"a": nz.Prefix()})])
    plan = nz.plan(workload, budget=nz.PureDP(5.0))
    assert plan.optimality.lower_bound < plan.total_variance
    assert not plan.optimal


@pytest.mark.parametrize("exact", [True, False])
def test_epsilon_at_a_cost_undoes_the_cost(exact: bool) -> None:
    for epsilon in (1e-4, 0.7, 12.0):
        found = epsilon_at(laplace_cost(epsilon, exact), exact)
        assert epsilon * (1 - 1e-12) <= found <= epsilon


@pytest.mark.parametrize("max_rows", [1, 3])
def test_targets_have_a_bound_on_epsilon(max_rows: int) -> None:
    """One table of counts: each alone at the least ε there is, which is proved."""
    workload = marginals([4], 1)
    plan = nz.plan(workload, targets=7.0, noise="discrete Laplace", max_rows=max_rows)
    certificate = plan.certify()
    assert certificate.value == plan.privacy.pure_epsilon
    assert certificate.bound == pytest.approx(certificate.value, rel=1e-6)
    assert certificate.bound == pytest.approx(max_rows * np.arccosh(1 + 1 / 7), rel=1e-6)


# ---------------------------------------------------------------------- volumes


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_shadows_of_cross_polytopes_have_no_more_volume(rank: int) -> None:
    rng = np.random.default_rng(rank)
    most = exp(_log_shadow(rank))
    assert most >= 2**rank / factorial(rank) * (1 - 1e-12)
    for extra in (0, 1, 2, 5, 20):
        basis = np.linalg.qr(rng.normal(size=(rank + extra, rank)))[0]
        points = np.vstack([basis, -basis])
        volume = ConvexHull(points).volume if rank > 1 else np.ptp(points)
        assert volume <= most * (1 + 1e-9)


@pytest.mark.parametrize("sizes", [[2, 2], [3, 2], [2, 2, 2], [4]])
def test_volume_of_disjoint_tables(sizes: list[int]) -> None:
    """Against the hull of all columns and their opposites, which holds a little more."""
    rng = np.random.default_rng(len(sizes))
    weights = rng.uniform(0.5, 3.0, len(sizes))
    rows = [q.dense() * np.sqrt(w) for q, w in zip(marginals(sizes, 1), weights, strict=True)]
    columns = np.vstack(rows)
    basis, singular, _ = np.linalg.svd(columns, full_matrices=False)
    points = (basis[:, singular > 1e-9].T @ columns).T
    rank = points.shape[1]
    volume = ConvexHull(np.vstack([points, -points])).volume
    hull = 2 * rank * (volume / exp(_log_shadow(rank))) ** (2 / rank)
    bound = disjoint_tables_bound(np.array(sizes, float), weights)
    assert 0.4 * hull <= bound <= hull


def test_volumes_bound_many_tables_better_than_squares() -> None:
    workload = marginals([2] * 60, 1)
    plan = nz.plan(workload, budget=nz.PureDP(1.0))
    squares = nz.plan(workload, budget=nz.zCDP(0.5)).total_variance / laplace_cost(1.0, exact=True)
    assert squares < 0.5 * volume_bound(workload, 1.0, exact=True)
    assert volume_bound(workload, 1.0, exact=True) <= plan.lower_bound < plan.total_variance


def test_squared_singular_values_are_no_bound() -> None:
    """Corollary 4.2 as it is printed, Ω(Σλ²/ε²), fails for the sum of n counts: Σλ² = n, and one
    noisy number has the variance 2/ε² whatever n is."""
    schema = nz.Schema.from_sizes({"a": 10_000})
    total = nz.Workload([nz.Query(schema, {"a": nz.Total()})])
    plan = nz.plan(total, budget=nz.PureDP(1.0), noise="laplace")
    assert plan.total_variance == pytest.approx(2.0)
    assert nz.bounds(total).at(nz.PureDP(1.0)) <= 2.0


# ---------------------------------------------------------------------- the exact ε program


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("rows", "factor", "known", "near"),
    [
        (prefix(3), nz.Prefix(), 6.0, 1.0),
        (prefix(4), nz.Prefix(), 10.0, 1.0),
        (ranges(4), nz.Ranges(), 20.0, 1.0),
        (prefix(8), nz.Prefix(), 35.399, 1.028),
        (prefix(12), nz.Prefix(), 67.053, 1.005),
    ],
    ids=["prefix 3", "prefix 4", "ranges 4", "prefix 8", "prefix 12"],
)
def test_how_near_plans_come_to_the_exact_program(
    rows: np.ndarray, factor: nz.Factor, known: float, near: float
) -> None:
    """In units of 2/ε². Program 3.4.1: a published search has 35.399, this one 35.054."""
    n = rows.shape[1]
    found = searched(rows.T @ rows, starts=40)
    assert found <= known * (1 + 1e-4)
    workload = nz.Workload([nz.Query(nz.Schema.from_sizes({"a": n}), {"a": factor})])
    continuous = nz.plan(workload, budget=nz.PureDP(2**0.5), noise="laplace")
    assert found * (1 - 1e-3) <= continuous.total_variance <= found * near * (1 + 1e-4)
    # The bound holds for what the program finds as well, and so does the one for plans of pure DP.
    assert continuous.optimality.lower_bound <= found
    assert nz.bounds(workload).at(nz.PureDP(2**0.5)) <= found
