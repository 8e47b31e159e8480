"""Bounds of weighted workloads, and of both kinds of neighbours, against exact optima."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

import noiseplan as nz
from depth import seeds
from oracles import least_replaced_sdp, optimal_total, optimal_worst_sdp
from workloads import random_rows

ONE = nz.zCDP(0.5)


@pytest.mark.parametrize("seed", seeds(5))
def test_bounds_of_weighted_workloads(seed: int) -> None:
    """Every bound is below the optimum, and the optimum below the plan; weights or none."""
    workload = random_rows(seed)
    even = nz.Workload([nz.Query(q.schema, q.factors) for q in workload])
    low, high = optimal_total(workload)
    plan = nz.plan(workload, budget=ONE, noise="gaussian")
    for exact in (True, False):
        found = nz.bounds(workload, exact=exact)
        assert found.lower <= high * (1 + 1e-6)
        assert found.even <= optimal_total(even)[1] * (1 + 1e-6)
        assert found.at(ONE) <= plan.total_variance * (1 + 1e-6)
        assert np.sqrt(found.even / found.rows) <= plan.rmse * (1 + 1e-6)
        if exact:
            assert found.lower >= low * (1 - 1e-5)
            unweighted = nz.plan(even, budget=ONE, noise="gaussian", planner="optimal")
            assert np.sqrt(found.even / found.rows) == pytest.approx(unweighted.rmse, rel=1e-4)
    pure = nz.plan(workload, budget=nz.PureDP(1.0), noise="laplace")
    assert found.at(nz.PureDP(1.0)) <= pure.total_variance * (1 + 1e-9)


@pytest.mark.parametrize("seed", [0, 4])
def test_bounds_of_the_worst_weighted_variance(seed: int) -> None:
    workload = random_rows(seed)
    least = optimal_worst_sdp(workload)
    plan = nz.plan(workload, budget=ONE, noise="gaussian", objective=nz.WorstVariance())
    assert plan.certify().bound <= least * (1 + 1e-4)
    assert least <= plan.worst_variance * (1 + 1e-4)


def test_a_weight_changes_no_root_mean_square() -> None:
    schema = nz.Schema.from_sizes({"a": 8})
    one, four = (
        nz.bounds(nz.Workload([nz.Query(schema, {"a": nz.Prefix()}, weight=weight)]))
        for weight in (1.0, 4.0)
    )
    assert four.lower == pytest.approx(4 * one.lower)
    assert four.accuracy(ONE) == pytest.approx(one.accuracy(ONE))
    assert "RMSE below 1.495 per row" in str(one).replace("1.494", "1.495")
    assert str(one).splitlines()[-1] == str(four).splitlines()[-1]


@pytest.mark.parametrize("weight", [1e-6, 0.01, 3.0])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_equal_weights_change_no_root_mean_square(
    weight: float, neighbours: Literal["add-remove", "replace"]
) -> None:
    """Against cvxpy's optimum without weights, above one and below."""
    schema = nz.Schema.from_sizes({"a": 3, "b": 3})
    factors = [{"a": nz.Prefix()}, {"a": nz.Identity(), "b": nz.Identity()}]
    even = nz.Workload([nz.Query(schema, factor) for factor in factors])
    weighted = nz.Workload([nz.Query(schema, factor, weight=weight) for factor in factors])
    least = least_replaced_sdp(even) if neighbours == "replace" else optimal_total(even)[1]
    found = nz.bounds(weighted, neighbours=neighbours)
    assert found.even == pytest.approx(least, rel=1e-3)
    assert found.lower == pytest.approx(weight * least, rel=1e-3)
    rmse = np.sqrt(found.even / found.rows)
    assert f"RMSE below {rmse:.4g} per row" in str(found)
    assert found.accuracy(ONE) == pytest.approx(rmse * (1 + np.sqrt(2 * np.log(20))), rel=1e-9)


@pytest.mark.parametrize("seed", seeds(6))
def test_bounds_where_records_are_replaced(seed: int) -> None:
    workload = random_rows(seed)
    best = least_replaced_sdp(workload)
    for exact in (True, False):
        found = nz.bounds(workload, exact=exact, neighbours="replace")
        assert found.lower <= best * (1 + 1e-5) + 1e-9
    assert found.lower >= best * (1 - 2e-3) - 1e-9
    assert "records replaced" in str(found)
    pure = nz.plan(workload, budget=nz.PureDP(1.0), noise="laplace", neighbours="replace")
    assert found.at(nz.PureDP(1.0)) <= pure.total_variance * (1 + 1e-9)


def test_plain_tables_have_a_tight_bound() -> None:
    schema = nz.Schema.from_sizes({"a": 3, "b": 2, "c": 2})
    workload = nz.Workload.marginals(schema, up_to=2)
    plan = nz.plan(workload, budget=ONE, neighbours="replace", noise="gaussian")
    best = least_replaced_sdp(workload)
    assert plan.optimal and plan.efficiency > 1 - 1e-5
    assert plan.lower_bound <= best * (1 + 1e-6) and plan.total_variance >= best * (1 - 1e-6)


def test_few_conditions_over_many_cells_have_their_optimum() -> None:
    rng = np.random.default_rng(5)
    schema = nz.Schema.from_sizes({"a": 17, "b": 17, "c": 17})
    queries = []
    for _ in range(5):
        chosen = rng.choice(["a", "b", "c"], 2, replace=False)
        queries.append(
            nz.Query(
                schema,
                {str(n): nz.Custom(rng.integers(0, 2, (1, 17)) + np.eye(1, 17)) for n in chosen},
            )
        )
    workload = nz.Workload(queries)
    found = nz.bounds(workload)
    assert found.optimum is not None
    plan = nz.plan(workload, budget=ONE, planner="optimal", noise="gaussian")
    assert found.lower == pytest.approx(plan.total_variance, rel=2e-3)
    other = nz.plan(workload, budget=ONE, planner="residual", noise="gaussian")
    assert other.certify().bound == pytest.approx(plan.total_variance, rel=2e-3)
