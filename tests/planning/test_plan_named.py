"""Explicit strategies by name, against dense formulas."""

from __future__ import annotations

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import PlanError
from oracles import optimal_total, probe, ranges

B = nz.zCDP(0.5)
NAMED = ["identity", "workload", "hierarchical", "wavelet", "eigen"]


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


@pytest.mark.parametrize("planner", [name for name in NAMED if name != "workload"])
def test_what_named_planners_cannot(planner: str) -> None:
    with pytest.raises(PlanError, match=f"planner='{planner}' plans the total variance"):
        nz.plan(two_attributes(), budget=B, planner=planner, objective=nz.WorstVariance())
