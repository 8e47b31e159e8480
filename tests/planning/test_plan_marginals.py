"""Plain marginals: the closed form, the convex optimum, and the plan's own claim to be optimal."""

from __future__ import annotations

from itertools import combinations
from math import prod

import cvxpy as cp
import numpy as np
import pytest

import noiseplan as nz
from oracles import Marginals, add_remove_cost, cost_of, optimal_total, probe
from workloads import random_tables

SEEDS = range(14)


def problem_of(workload: nz.Workload) -> tuple[Marginals, np.ndarray]:
    """The problem written out, and the weights of the tables."""
    schema = workload.schema
    tables = [tuple(schema.index(n) for n in query.attributes) for query in workload]
    return Marginals(schema.shape, tables), np.array([query.weight for query in workload])


@pytest.mark.parametrize("seed", SEEDS)
def test_total_variance_is_the_closed_form(seed: int) -> None:
    """Lemma 2, and the exact optimum over all mechanisms, residual or not."""
    workload = random_tables(seed, smallest=1 + seed % 2)
    problem, weights = problem_of(workload)
    budget = 0.3 + seed / 5
    plan = nz.plan(workload, budget=nz.GDP(np.sqrt(budget)), noise="gaussian")
    total, sigma2 = problem.lemma_2(weights * problem.cells, budget)
    assert plan.total_variance == pytest.approx(total, rel=1e-9)
    found = {
        tuple(s): x
        for b in plan.mechanism.blocks
        for s, x in zip(b.sets.tolist(), b.sigma2, strict=True)
    }
    assert found == pytest.approx(dict(zip(problem.inner, sigma2, strict=True)), rel=1e-9)
    low, high = optimal_total(workload, gap=1e-9)
    assert low / budget * (1 - 1e-7) <= plan.total_variance <= high / budget * (1 + 1e-7)
    assert plan.optimal
    assert plan.lower_bound == pytest.approx(total, rel=1e-6)
    for query, variance in zip(workload, problem.m @ sigma2, strict=True):
        np.testing.assert_allclose(plan.variance(query), variance, rtol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_worst_variance_is_the_convex_optimum(seed: int) -> None:
    workload = random_tables(seed, smallest=1 + seed % 2)
    problem, weights = problem_of(workload)
    plan = nz.plan(workload, budget=nz.zCDP(0.5), objective=nz.WorstVariance(), noise="gaussian")
    best, _ = problem.solve(lambda v: cp.max(cp.multiply(weights, v)))
    assert plan.worst_variance == pytest.approx(best, rel=1e-6)
    assert plan.optimal
    variances = [plan.variance(q).max() for q in workload]
    assert plan.worst_variance == pytest.approx(np.max(weights * variances), rel=1e-9)
    b, sigma2 = probe(plan)
    assert add_remove_cost(cost_of(b, sigma2)) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("sizes", [(2, 3), (2, 2, 3), (4, 3, 2, 5), (3, 3, 3)])
@pytest.mark.parametrize("ways", [1, 2, 3])
def test_downward_closed_workloads_are_equalised(sizes: tuple[int, ...], ways: int) -> None:
    """B1: t = Σ_A ∏ (n_i − 1)/(n_i + 1)/c, the same variance t for every table."""
    schema = nz.Schema.from_sizes({f"a{i}": n for i, n in enumerate(sizes)})
    ways = min(ways, len(sizes))
    workload = nz.Workload.marginals(schema, up_to=ways)
    plan = nz.plan(workload, budget=nz.zCDP(1.0), objective=nz.WorstVariance(), noise="gaussian")
    subsets = [s for k in range(ways + 1) for s in combinations(sizes, k)]
    closed = sum(prod((n - 1) / (n + 1) for n in s) for s in subsets) / 2.0
    assert plan.worst_variance == pytest.approx(closed, rel=1e-8)
    for query in workload:
        np.testing.assert_allclose(plan.variance(query), closed, rtol=1e-5)


def test_the_bound_is_exact_for_marginals_of_any_size() -> None:
    """10^60 cells: the structured bound meets the closed form."""
    schema = nz.Schema.from_sizes({f"a{i}": 10 for i in range(60)})
    plan = nz.plan(nz.Workload.marginals(schema, k=2), budget=nz.zCDP(0.5))
    assert plan.lower_bound <= plan.total_variance
    assert plan.efficiency > 1 - 1e-8
    assert plan.optimal


def test_a_plan_beside_the_optimum_does_not_claim_it() -> None:
    """Optimal for one objective is not optimal for another, and a worse planner says so."""
    schema = nz.Schema.from_sizes({"a": 2, "b": 9})
    tables = nz.Workload.marginals(schema, up_to=1)
    worst = nz.plan(tables, budget=nz.zCDP(0.5), objective=nz.WorstVariance())
    assert worst.optimal
    assert worst.efficiency < 0.999  # of the total, which it was not planned for
    prefixes = nz.Workload.marginals(schema, k=2, factors={"b": nz.Prefix()}) + tables
    upright = nz.plan(prefixes, budget=nz.zCDP(0.5), planner="residual+")
    assert not upright.optimal
    assert upright.efficiency < nz.plan(prefixes, budget=nz.zCDP(0.5)).efficiency
    product = nz.plan(tables, budget=nz.zCDP(0.5), planner="product")
    assert not product.optimal


def test_plans_scale_with_the_budget() -> None:
    workload = random_tables(3) + nz.Query(random_tables(3).schema, {"a": nz.Prefix()})
    for objective in (nz.TotalVariance(), nz.WorstVariance(), nz.PNormVariance(3)):
        one, ten = (
            nz.plan(workload, budget=nz.zCDP(r), objective=objective, noise="gaussian")
            for r in (0.5, 5.0)
        )
        for query in workload:
            np.testing.assert_allclose(one.variance(query), 10 * ten.variance(query), rtol=1e-4)
