"""Explicit strategies by name, against dense formulas and a convex solver."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import PlanError
from noiseplan.planning.making import EXPLICIT
from oracles import optimal_total, prefix, probe, ranges

B = nz.zCDP(0.5)
NAMED = [name for name in EXPLICIT if name != "optimal"]


def one_attribute(n: int, factor: nz.Factor) -> nz.Workload:
    return nz.Workload([nz.Query(nz.Schema.from_sizes({"a": n}), {"a": factor})])


def two_attributes() -> nz.Workload:
    schema = nz.Schema({"age": nz.Ordinal(range(6)), "sex": nz.Categorical(["F", "M"])})
    return nz.Workload.marginals(schema, up_to=2, factors={"age": nz.Prefix()})


@pytest.mark.parametrize("planner", NAMED)
@pytest.mark.parametrize("workload", [one_attribute(8, nz.Ranges()), two_attributes()])
def test_total_variance_by_the_dense_formula(planner: str, workload: nz.Workload) -> None:
    plan = nz.plan(workload, budget=B, planner=planner, noise="gaussian")
    rows, sigma2 = probe(plan)
    cost = (rows.T / sigma2) @ rows
    assert np.diagonal(cost).max() <= plan.privacy.pcost <= 1.0
    wanted = np.vstack([np.sqrt(q.weight) * q.dense() for q in workload])
    assert plan.total_variance == pytest.approx(
        np.trace(wanted @ np.linalg.pinv(cost, rcond=1e-11) @ wanted.T), rel=1e-8
    )
    best = optimal_total(workload)[1]
    assert best * (1 - 1e-5) <= plan.total_variance
    discrete = nz.plan(workload, budget=B, planner=planner, noise="discrete")
    assert discrete.total_variance == pytest.approx(plan.total_variance, rel=1e-3)


def test_strategies_as_they_are_known() -> None:
    """Unweighted strategies over four values, written out by hand."""
    workload = one_attribute(4, nz.Ranges())
    w = ranges(4)

    def total(strategy: np.ndarray) -> float:
        gram = strategy.T @ strategy
        return float(np.trace(w @ np.linalg.inv(gram) @ w.T) * np.diagonal(gram).max())

    tree = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], *np.eye(4)])
    wavelet = np.array([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]])
    for name, strategy in (
        ("identity", np.eye(4)), ("workload", w), ("hierarchical", tree), ("wavelet", wavelet)
    ):  # fmt: skip
        plan = nz.plan(workload, budget=B, planner=name, noise="gaussian")
        assert plan.total_variance == pytest.approx(total(strategy.astype(float)), rel=1e-8)


@pytest.mark.parametrize("w", [prefix(6), ranges(5), np.array([[1.0, 2, 0, 1], [0, 1, 1, 3]])])
def test_the_eigen_design_by_a_convex_solver(w: np.ndarray) -> None:
    """min Σ λ_i/u_i over u ≥ 0 with Σ u_i q_ij² ≤ 1 for every cell j."""
    values, vectors = np.linalg.eigh(w.T @ w)
    keep = values > 1e-10 * values[-1]
    u = cp.Variable(int(keep.sum()), pos=True)
    problem = cp.Problem(
        cp.Minimize(cp.sum(cp.multiply(values[keep], cp.inv_pos(u)))),
        [vectors[:, keep] ** 2 @ u <= 1],
    )
    problem.solve(solver=cp.CLARABEL)
    plan = nz.plan(one_attribute(w.shape[1], nz.Custom(w)), budget=B, planner="eigen",
                   noise="gaussian")  # fmt: skip
    assert plan.total_variance == pytest.approx(problem.value, rel=1e-5)


def test_optimal_is_at_or_below_every_strategy() -> None:
    for workload in (
        one_attribute(16, nz.Prefix()),
        one_attribute(12, nz.Ranges()),
        two_attributes(),
    ):
        best = nz.plan(workload, budget=B, planner="optimal", noise="gaussian").total_variance
        for name in NAMED:
            plan = nz.plan(workload, budget=B, planner=name, noise="gaussian")
            assert best <= plan.total_variance * (1 + 1e-6)


@pytest.mark.parametrize("planner", NAMED)
def test_what_named_planners_cannot(planner: str) -> None:
    with pytest.raises(PlanError, match=f"planner='{planner}' plans the total variance"):
        nz.plan(two_attributes(), budget=B, planner=planner, objective=nz.WorstVariance())
    with pytest.raises(PlanError, match="at most 1,024 cells"):
        nz.plan(one_attribute(2000, nz.Prefix()), budget=B, planner=planner)
