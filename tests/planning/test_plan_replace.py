"""Neighbours that replace one record: every pair of records, one by one."""

from __future__ import annotations

from collections.abc import Callable

import cvxpy as cp
import numpy as np
import pytest

import noiseplan as nz
from depth import seeds
from noiseplan.mechanisms import residual_cost
from oracles import (
    Marginals,
    blue_covariance,
    cost_of,
    least_replaced_sdp,
    probe,
    replace_cost,
)
from workloads import random_tables, random_workload

ONE = nz.zCDP(0.5)
OBJECTIVES = {
    "total": nz.TotalVariance(),
    "worst": nz.WorstVariance(),
    "2-norm": nz.PNormVariance(2),
    "squares": nz.ConvexLoss(lambda v: float((v**2).sum())),
}


def problem_of(workload: nz.Workload) -> tuple[Marginals, np.ndarray]:
    schema = workload.schema
    tables = [tuple(schema.index(n) for n in query.attributes) for query in workload]
    return Marginals(schema.shape, tables), np.array([query.weight for query in workload])


def losses(problem: Marginals, weights: np.ndarray) -> dict[str, Callable[..., object]]:
    return {
        "total": lambda v: (weights * problem.cells) @ v,
        "worst": lambda v: cp.max(cp.multiply(weights, v)),
        "2-norm": lambda v: cp.pnorm(cp.multiply(weights * np.sqrt(problem.cells), v), 2),
        "squares": lambda v: cp.sum_squares(cp.multiply(weights, v)),
    }


def reached(plan: nz.Plan, name: str) -> float:
    rows = np.concatenate([q.weight * plan.variance(q) for q in plan.workload])
    means = np.array([q.weight * plan.variance(q).mean() for q in plan.workload])
    return {
        "total": rows.sum(),
        "worst": rows.max(),
        "2-norm": float(np.linalg.norm(rows)),
        "squares": float((means**2).sum()),
    }[name]


@pytest.mark.parametrize("seed", seeds(12))
def test_the_cost_of_marginals_is_exact(seed: int) -> None:
    workload = random_tables(seed)
    plan = nz.plan(workload, budget=ONE, neighbours="replace")
    b, sigma2 = probe(plan)
    brute = replace_cost(cost_of(b, sigma2))
    assert brute <= plan.privacy.pcost <= 1.0
    assert brute == pytest.approx(1.0, rel=1e-8)
    assert plan.privacy.neighbours == "replace"


@pytest.mark.parametrize("seed", seeds(12))
def test_the_total_is_exact(seed: int) -> None:
    """The number of records does not change, so telling it costs nothing."""
    workload = random_tables(seed)
    plan = nz.plan(workload, budget=ONE, neighbours="replace", noise="gaussian")
    total = nz.Query(workload.schema, [])
    assert plan.variance(total).tolist() == [0.0]
    b, sigma2 = probe(plan)
    silent = b[sigma2 == 0]
    np.testing.assert_allclose(silent, np.ones((1, workload.schema.size)))
    for query in workload:
        w = query.dense()
        expected = blue_covariance(w, w, b, sigma2)
        np.testing.assert_allclose(plan.covariance(query, query), expected, rtol=1e-8, atol=1e-10)
    counts = np.arange(workload.schema.size).reshape(workload.schema.shape) % 7
    released = plan.release(nz_counts(workload.schema, counts), seed=seed)
    np.testing.assert_allclose(released.answer(total).estimate, [counts.sum()], rtol=1e-12)
    for query in workload:  # so every table adds up to it
        assert released.answer(query).estimate.sum() == pytest.approx(counts.sum(), rel=1e-9)


def nz_counts(schema: nz.Schema, counts: np.ndarray) -> object:
    from noiseplan.counting.tensor import CountTensor

    return CountTensor(schema, counts)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("seed", seeds(6))
def test_the_optimum_of_marginals(seed: int, name: str) -> None:
    workload = random_tables(seed)
    problem, weights = problem_of(workload)
    plan = nz.plan(workload, budget=ONE, objective=OBJECTIVES[name], neighbours="replace")
    b, sigma2 = probe(plan)
    assert replace_cost(cost_of(b, sigma2)) <= plan.privacy.pcost <= 1.0
    best, _ = problem.solve(losses(problem, weights)[name], neighbours="replace")
    assert reached(plan, name) == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_binary_attributes(name: str) -> None:
    """Two records that differ in both of two binary attributes look alike in their interaction."""
    schema = nz.Schema.from_sizes({"a": 2, "b": 2})
    workload = nz.Workload.marginals(schema, up_to=2)
    problem, weights = problem_of(workload)
    plan = nz.plan(workload, budget=ONE, objective=OBJECTIVES[name], neighbours="replace")
    best, _ = problem.solve(losses(problem, weights)[name], neighbours="replace")
    assert reached(plan, name) == pytest.approx(best, rel=1e-5)
    b, sigma2 = probe(plan)
    assert replace_cost(cost_of(b, sigma2)) == pytest.approx(1.0, rel=1e-8)


@pytest.mark.parametrize("seed", seeds(16))
@pytest.mark.parametrize("objective", ["total", "worst"])
def test_the_cost_of_other_workloads_is_bounded(seed: int, objective: str) -> None:
    """Where columns of U differ in length, the claim is an upper bound, and not a wild one."""
    workload = random_workload(seed, several=bool(seed % 2))
    plan = nz.plan(
        workload,
        budget=ONE,
        objective=OBJECTIVES[objective],
        neighbours="replace",
        noise="gaussian",
    )
    b, sigma2 = probe(plan)
    brute = replace_cost(cost_of(b, sigma2))
    assert brute <= plan.privacy.pcost <= 1.0
    if brute > 0:  # else nothing but the total is asked
        assert brute >= 0.8
    for query in workload:
        w = query.dense()
        expected = np.diagonal(blue_covariance(w, w, b, sigma2))
        np.testing.assert_allclose(plan.variance(query), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("seed", seeds(8))
def test_the_cost_when_there_are_too_many_patterns(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residual_cost, "PATTERN_LIMIT", 0)
    workload = random_workload(seed, several=bool(seed % 2)) if seed % 3 else random_tables(seed)
    plan = nz.plan(workload, budget=ONE, neighbours="replace")
    b, sigma2 = probe(plan)
    brute = replace_cost(cost_of(b, sigma2))
    assert brute <= plan.privacy.pcost <= 1.0
    assert plan.variance(nz.Query(workload.schema, [])).tolist() == [0.0]


def test_attributes_that_nobody_asks_about() -> None:
    """Records that differ only there are not told apart at all."""
    schema = nz.Schema.from_sizes({"a": 3, "hidden": 4, "b": 2})
    workload = nz.Workload([nz.Query(schema, ["a", "b"]), nz.Query(schema, ["b"])])
    plan = nz.plan(workload, budget=ONE, neighbours="replace")
    b, sigma2 = probe(plan)
    assert replace_cost(cost_of(b, sigma2)) == pytest.approx(1.0, rel=1e-8)


@pytest.mark.parametrize(
    "factors",
    [
        [{"a": nz.Identity(), "b": nz.Identity()}, {"a": nz.Identity()}],
        [{"a": nz.Prefix()}],
        [{"a": nz.Prefix(), "b": nz.Identity()}, {"b": nz.Identity()}],
        [{"a": nz.Ranges()}, {"a": nz.Identity(), "b": nz.Identity()}],
    ],
)
def test_the_bound_and_the_plan_against_a_conic_solver(factors: list[dict[str, nz.Factor]]) -> None:
    schema = nz.Schema.from_sizes({"a": 4, "b": 2})
    workload = nz.Workload([nz.Query(schema, f) for f in factors])
    best = least_replaced_sdp(workload)
    plan = nz.plan(workload, budget=ONE, neighbours="replace")
    assert plan.lower_bound <= best * (1 + 1e-6)
    assert best * (1 - 1e-6) <= plan.total_variance
    assert plan.total_variance <= best * 1.002


@pytest.mark.parametrize("planner", ["residual+", "product"])
def test_other_planners(planner: str) -> None:
    for seed in range(6):
        workload = random_workload(seed)
        plan = nz.plan(workload, budget=ONE, planner=planner, neighbours="replace")
        b, sigma2 = probe(plan)
        assert replace_cost(cost_of(b, sigma2)) <= plan.privacy.pcost <= 1.0


def test_replacing_costs_at_most_four_times_adding() -> None:
    """A replacement is a removal and an addition: μ at most doubles, and the plan does not lose."""
    workload = random_tables(1)
    added = nz.plan(workload, budget=ONE)
    quarter = nz.plan(workload, budget=nz.zCDP(0.125))
    replaced = nz.plan(workload, budget=ONE, neighbours="replace")
    assert replaced.total_variance <= quarter.total_variance
    b, sigma2 = probe(added)
    assert replace_cost(cost_of(b, sigma2)) <= 4.0


def test_one_cell_tells_nothing_by_a_strategy() -> None:
    """No record of a domain of one cell differs from another: there is nothing to divide by."""
    schema = nz.Schema.from_sizes({"a": 1})
    asked, how = nz.Workload([nz.Query(schema, {})]), {"neighbours": "replace"}
    with pytest.raises(nz.NoiseplanError, match="planner='auto'"):
        nz.plan(asked, budget=nz.zCDP(0.5), planner="workload", **how)
    assert nz.plan(asked, budget=nz.zCDP(0.5), **how).privacy.pcost == 0.0


PREFIX, IDENTITY, RANGES = nz.Prefix(), nz.Identity(), nz.Ranges()
# Tables, and how far above the optimum over all pairs of cells one precision of each block is.
PRODUCTS = {
    "prefix sums of two": ((8, 8), [(PREFIX, PREFIX)], 0.015),
    "prefix sums and cells": ((8, 8), [(PREFIX, PREFIX), (IDENTITY, IDENTITY)], 0.015),
    "prefix sums of plain": ((8, 5, 2), [(PREFIX, IDENTITY, IDENTITY), (PREFIX,)], 0.01),
    "pairs of three": (
        (5, 5, 5),
        [(PREFIX, PREFIX), (PREFIX, None, PREFIX), (None, PREFIX, PREFIX)],
        0.02,
    ),
    "mixed": (
        (5, 5, 5),
        [(RANGES, IDENTITY), (IDENTITY, None, PREFIX), (None, PREFIX, RANGES), (PREFIX,)],
        0.035,
    ),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", PRODUCTS)
def test_blocks_for_pairs_are_near_the_optimum(name: str) -> None:
    sizes, tables, most = PRODUCTS[name]
    schema = nz.Schema.from_sizes({f"a{i}": n for i, n in enumerate(sizes)})
    asked = [{f"a{i}": f for i, f in enumerate(table) if f is not None} for table in tables]
    workload = nz.Workload([nz.Query(schema, factors) for factors in asked])
    found, best = (
        nz.plan(workload, budget=ONE, planner=name, neighbours="replace", noise="gaussian")
        for name in ("residual", "optimal")
    )
    assert 1 - 1e-5 <= found.total_variance / best.total_variance <= 1 + most
    b, sigma2 = probe(found)
    assert 0.999 <= replace_cost(cost_of(b, sigma2)) <= found.privacy.pcost <= 1.0
    for query in workload:
        w = query.dense()
        expected = np.diagonal(blue_covariance(w, w, b, sigma2))
        np.testing.assert_allclose(found.variance(query), expected, rtol=1e-6, atol=1e-8)
