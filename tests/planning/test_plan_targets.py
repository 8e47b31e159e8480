"""Variance targets: met at the least cost, or scaled by one factor to fit a budget."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import noiseplan as nz
from depth import seeds
from noiseplan.errors import PlanError, QueryError
from oracles import Marginals, add_remove_cost, cost_of, optimal_worst_sdp, probe
from workloads import random_tables


def tables_of(workload: nz.Workload) -> list[tuple[int, ...]]:
    return [tuple(workload.schema.index(n) for n in query.attributes) for query in workload]


def random_targets(workload: nz.Workload, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    return {query.name: float(rng.uniform(0.5, 40.0)) for query in workload}


@pytest.mark.parametrize("seed", seeds(10))
def test_targets_are_met_at_the_least_cost(seed: int) -> None:
    """Weights play no part: a target is a variance, whatever the objective would count."""
    workload = random_tables(seed)
    targets = random_targets(workload, seed)
    plan = nz.plan(workload, targets=targets)
    for query in workload:
        assert plan.variance(query).max() <= targets[query.name] * (1 + 1e-8)
    problem = Marginals(workload.schema.shape, tables_of(workload))
    best = problem.least_cost(np.array(list(targets.values())))
    assert plan.privacy.pcost == pytest.approx(best, rel=1e-6)
    b, sigma2 = probe(plan)
    assert add_remove_cost(cost_of(b, sigma2)) <= plan.privacy.pcost
    assert plan.optimal


@pytest.mark.parametrize("seed", seeds(4))
def test_targets_within_a_budget_scale_together(seed: int) -> None:
    workload = random_tables(seed)
    targets = random_targets(workload, seed)
    budget = nz.zCDP(0.02 * (seed + 1))
    plan = nz.plan(workload, targets=targets, budget=budget)
    goal = np.array([targets[query.name] for query in workload])
    ratio = np.array([plan.variance(query).max() for query in workload]) / goal
    problem = Marginals(workload.schema.shape, tables_of(workload))
    best, _ = problem.solve(lambda v: cp.max(cp.multiply(1 / goal, v)), budget=2 * budget.rho)
    assert ratio.max() == pytest.approx(best, rel=1e-6)
    assert plan.privacy.pcost == pytest.approx(2 * budget.rho, rel=1e-9)
    assert plan.privacy.within(budget)


@pytest.mark.few(2)
@pytest.mark.parametrize("rho", [0.01, 0.5, 8.0])
def test_targets_within_any_budget_are_met_as_well_as_by_the_optimum(rho: float) -> None:
    """Several factors, where the optimum is clearly better: what is taken has no unit."""
    schema = nz.Schema.from_sizes({"a": 6, "b": 6})
    asked = [
        {"a": nz.Prefix(), "b": nz.Prefix()},
        {"a": nz.Ranges()},
        {"a": nz.Custom(np.eye(6)[:3] + 1.0), "b": nz.Levels(2)},
    ]
    workload = nz.Workload([nz.Query(schema, factors) for factors in asked])
    auto, optimal = (
        nz.plan(workload, targets=13.0, budget=nz.zCDP(rho), planner=planner, noise="gaussian")
        for planner in ("auto", "optimal")
    )
    assert auto.target_scale <= 1.01 * optimal.target_scale  # type: ignore[operator]


def test_one_target_for_all_queries() -> None:
    schema = nz.Schema.from_sizes({"a": 4, "b": 3})
    workload = nz.Workload.marginals(schema, up_to=1)
    plan = nz.plan(workload, targets=25.0, noise="gaussian")
    named = nz.plan(workload, targets={query.name: 25.0 for query in workload}, noise="gaussian")
    assert plan.privacy.pcost == pytest.approx(named.privacy.pcost, rel=1e-9)
    assert max(plan.variance(q).max() for q in workload) == pytest.approx(25.0, rel=1e-8)


def test_queries_without_a_target_cost_nothing() -> None:
    schema = nz.Schema.from_sizes({"a": 4, "b": 3, "c": 5})
    workload = nz.Workload.marginals(schema, k=1) + nz.Workload.marginals(schema, k=2)
    plan = nz.plan(workload, targets={"a × b": 10.0})
    alone = nz.plan(nz.Workload([nz.Query(schema, ["a", "b"])]), targets=10.0)
    assert plan.privacy.pcost == pytest.approx(alone.privacy.pcost, rel=1e-9)
    assert plan.variance(nz.Query(schema, ["a"])).shape == (4,)  # in the span, so still answered


def test_targets_for_ordered_tables() -> None:
    """Prefix sums: met, at a cost not below the optimum over all mechanisms and near it."""
    schema = nz.Schema.from_sizes({"a": 4, "b": 2})
    queries = [
        nz.Query(schema, {"a": nz.Prefix()}, name="up to"),
        nz.Query(schema, {"a": nz.Identity(), "b": nz.Identity()}, name="cells"),
    ]
    targets = {"up to": 9.0, "cells": 4.0}
    plan = nz.plan(nz.Workload(queries), targets=targets)
    for query in queries:
        assert plan.variance(query).max() <= targets[query.name] * (1 + 1e-8)
    scaled = [
        nz.Query(schema, dict(q.factors), weight=1 / targets[q.name], name=q.name) for q in queries
    ]
    best = optimal_worst_sdp(
        nz.Workload(scaled)
    )  # least max variance/target at cost 1 = least cost
    assert best * (1 - 1e-5) <= plan.privacy.pcost <= best * 1.08


def test_names_are_those_of_the_workload() -> None:
    schema = nz.Schema.from_sizes({"a": 4, "b": 3})
    workload = nz.Workload.marginals(schema, k=1)
    with pytest.raises(QueryError, match=r"no query is called 'c'; the workload has 'a', 'b'"):
        nz.plan(workload, targets={"c": 1.0})


@pytest.mark.parametrize("target", [0, -1.0, np.inf, np.nan, "25", True, None])
def test_a_target_is_a_positive_variance(target: object) -> None:
    workload = nz.Workload.marginals(nz.Schema.from_sizes({"a": 4, "b": 3}), k=1)
    with pytest.raises(PlanError, match="'a'"):
        nz.plan(workload, targets={"a": target})


@pytest.mark.parametrize("target", [0, -1.0, np.inf, "25", True])
def test_one_target_is_a_positive_variance(target: object) -> None:
    workload = nz.Workload.marginals(nz.Schema.from_sizes({"a": 4, "b": 3}), k=1)
    with pytest.raises(PlanError, match="all queries"):
        nz.plan(workload, targets=target)


def test_empty_targets_and_targets_with_an_objective_are_refused() -> None:
    workload = nz.Workload.marginals(nz.Schema.from_sizes({"a": 4, "b": 3}), k=1)
    with pytest.raises(PlanError, match="empty"):
        nz.plan(workload, targets={})
    with pytest.raises(PlanError, match="one or the other"):
        nz.plan(workload, targets=3.0, objective=nz.TotalVariance())


def test_what_a_plan_for_targets_prints() -> None:
    workload = nz.Workload.marginals(nz.Schema.from_sizes({"a": 4, "b": 3}), k=1)
    assert "variance targets at the least privacy cost, met" in str(nz.plan(workload, targets=25.0))
    scaled = nz.plan(workload, targets={"a": 1.0, "b": 2.0}, budget=nz.zCDP(0.1))
    ratio = max(scaled.variance(workload["a"]).max(), scaled.variance(workload["b"]).max() / 2)
    assert f"all relaxed {ratio:.4g}-fold to stay within the budget" in str(scaled)
    assert f"standard errors are {np.sqrt(ratio):.4g} times those asked for" in str(scaled)
