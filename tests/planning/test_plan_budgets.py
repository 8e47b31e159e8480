"""Budgets in every currency: never exceeded, almost used up, consistent with each other."""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
import pytest
from scipy.stats import norm

import noiseplan as nz
from noiseplan.errors import BudgetError
from oracles import add_remove_cost, cost_of, probe


@pytest.fixture(scope="module")
def workload() -> nz.Workload:
    schema = nz.Schema.from_sizes({"a": 4, "b": 3, "c": 2})
    return nz.Workload.marginals(schema, k=2, factors={"a": nz.Prefix()})


def delta(pcost: float, epsilon: float) -> float:
    """The exact curve of the Gaussian mechanism."""
    mu = sqrt(pcost)
    return float(norm.cdf(mu / 2 - epsilon / mu) - exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def brute_cost(plan: nz.Plan) -> float:
    return add_remove_cost(cost_of(*probe(plan)))


@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
@pytest.mark.parametrize("rho", [1e-6, 0.01, 0.3, 0.5, 7.0, 1e4])
def test_zcdp(workload: nz.Workload, rho: float, noise: str) -> None:
    plan = nz.plan(workload, budget=nz.zCDP(rho), noise=noise)
    assert brute_cost(plan) / 2 <= plan.privacy.rho <= rho
    assert plan.privacy.rho == pytest.approx(rho, rel=1e-9)
    # Whole numbers cost a little more as GDP, where σ² is small.
    assert plan.privacy.mu == pytest.approx(
        sqrt(2 * rho), rel=1e-9 if noise == "gaussian" else 0.01
    )
    assert plan.privacy.mu >= sqrt(brute_cost(plan))


@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 3.0])
def test_gdp(workload: nz.Workload, mu: float, noise: str) -> None:
    plan = nz.plan(workload, budget=nz.GDP(mu), noise=noise)
    assert sqrt(brute_cost(plan)) <= plan.privacy.mu <= mu
    assert plan.privacy.mu == pytest.approx(mu, rel=1e-9 if noise == "gaussian" else 1e-3)


@pytest.mark.parametrize(
    ("epsilon", "small", "pcost"),
    [(1.0, 1e-5, 0.0718514047), (1.0, 1e-6, 0.0560289638), (2.0, 1e-5, 0.2515540969),
     (0.5, 1e-9, 0.0087771597), (10.0, 1e-10, 2.1433973042)],
)  # fmt: skip
def test_approximate_dp(workload: nz.Workload, epsilon: float, small: float, pcost: float) -> None:
    """E5, backwards: from (ε, δ) to the cost that may be spent."""
    plan = nz.plan(workload, budget=nz.ApproxDP(epsilon, small), noise="gaussian")
    assert plan.privacy.pcost == pytest.approx(pcost, rel=1e-8)
    assert plan.privacy.epsilon(small) <= epsilon
    assert plan.privacy.delta(epsilon) <= small
    assert delta(brute_cost(plan), epsilon) <= small
    assert delta(brute_cost(plan), epsilon) == pytest.approx(small, rel=1e-5)


def test_equal_budgets_give_equal_plans(workload: nz.Workload) -> None:
    plans = [nz.plan(workload, budget=b, noise="gaussian") for b in (nz.zCDP(0.5), nz.GDP(1.0))]
    plans.append(
        nz.plan(
            workload, budget=nz.ApproxDP(plans[0].privacy.epsilon(1e-6), 1e-6), noise="gaussian"
        )
    )
    for plan in plans[1:]:
        assert plan.total_variance == pytest.approx(plans[0].total_variance, rel=1e-7)
        assert plan.privacy.epsilon(1e-9) == pytest.approx(plans[0].privacy.epsilon(1e-9), rel=1e-6)


def test_every_plan_stays_within_its_budget(workload: nz.Workload) -> None:
    """Odd numbers, many of them: rounding never spends more than was allowed."""
    rng = np.random.default_rng(0)
    for rho in rng.lognormal(0, 3, 40):
        budget = nz.zCDP(float(rho))
        plan = nz.plan(workload, budget=budget)
        assert plan.privacy.within(budget)
        assert np.diagonal(plan.cost_matrix()).max() <= 2 * float(rho)


def test_pure_dp_is_out_of_reach_of_gaussian_noise(workload: nz.Workload) -> None:
    with pytest.raises(BudgetError, match=r"PureDP.*Gaussian"):
        nz.plan(workload, budget=nz.PureDP(1.0), noise="gaussian")
