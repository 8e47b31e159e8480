"""Planners by name: ResidualPlanner+ and product strategies, never better than the default."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

import noiseplan as nz
from depth import seeds
from noiseplan.errors import PlanError
from oracles import add_remove_cost, blue_covariance, cost_of, optimal_total, probe
from workloads import ANY, random_tables, random_workload

ONE = nz.zCDP(0.5)


def make(seed: int) -> nz.Workload:
    if seed % 4 == 0:
        return random_tables(seed)
    return random_workload(seed, kinds=ANY if seed % 4 == 3 else ANY[:4], several=seed % 4 == 2)


@pytest.mark.parametrize("seed", seeds(28, 400))
def test_the_default_is_never_worse(seed: int) -> None:
    workload = make(seed)
    best = nz.plan(workload, budget=ONE, noise="gaussian")
    for planner in ("residual", "residual+", "product"):
        plan = nz.plan(workload, budget=ONE, planner=planner, noise="gaussian")
        assert best.total_variance <= plan.total_variance * (1 + 1e-5), planner
        b, sigma2 = probe(plan)
        assert add_remove_cost(cost_of(b, sigma2)) <= plan.privacy.pcost <= 1.0
        for query in workload:
            w = query.dense()
            variance = np.diagonal(blue_covariance(w, w, b, sigma2))
            np.testing.assert_allclose(plan.variance(query), variance, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("seed", seeds(12, 500))
def test_the_default_is_never_worse_for_the_worst_variance(seed: int) -> None:
    workload = make(seed)
    best = nz.plan(workload, budget=ONE, objective=nz.WorstVariance())
    upright = nz.plan(workload, budget=ONE, objective=nz.WorstVariance(), planner="residual+")
    assert best.worst_variance <= upright.worst_variance * (1 + 1e-4)


@pytest.mark.parametrize("seed", seeds(12, 600))
def test_the_default_is_never_worse_when_records_are_replaced(seed: int) -> None:
    workload = make(seed)
    best = nz.plan(workload, budget=ONE, neighbours="replace", noise="gaussian")
    for planner in ("residual+", "product"):
        plan = nz.plan(
            workload, budget=ONE, planner=planner, neighbours="replace", noise="gaussian"
        )
        assert best.total_variance <= plan.total_variance * (1 + 1e-5), planner


@pytest.mark.parametrize("seed", seeds(6, 700))
def test_an_upright_split_has_uniform_means(seed: int) -> None:
    """ResidualPlanner+: U1 = 0, τ = 1/n, for every attribute it measures whole."""
    workload = random_workload(seed)
    plan = nz.plan(workload, budget=ONE, planner="residual+", noise="gaussian")
    for basis in plan.mechanism.blocks.bases:
        np.testing.assert_allclose(basis.measure.sum(axis=1), 0.0, atol=1e-9)
        np.testing.assert_allclose(basis.centre, 1 / basis.size, rtol=1e-9)


# --------------------------------------------------------------------------- product strategies


def all_attributes(n: int, d: int, factor: nz.Factor) -> nz.Workload:
    schema = nz.Schema.from_sizes({f"a{i}": n for i in range(d)})
    return nz.Workload([nz.Query(schema, dict.fromkeys(schema.names, factor))])


def best_single(n: int, factor: nz.Factor) -> float:
    """The least total variance on one attribute over all mechanisms."""
    low, high = optimal_total(all_attributes(n, 1, factor), gap=1e-8)
    assert high <= low * (1 + 1e-6)
    return low


@pytest.mark.parametrize("factor", [nz.Prefix(), nz.Ranges(), nz.Identity(), nz.Levels(2)])
@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_one_attribute(n: int, factor: nz.Factor) -> None:
    """Any strategy on one attribute is a product, so the product planner finds the optimum."""
    best = best_single(n, factor)
    for planner in ("product", "auto"):
        plan = nz.plan(all_attributes(n, 1, factor), budget=ONE, planner=planner, noise="gaussian")
        assert plan.total_variance == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize(("n", "d"), [(2, 2), (3, 2), (2, 3), (4, 3), (8, 5), (16, 4)])
@pytest.mark.parametrize("factor", [nz.Prefix(), nz.Ranges()])
def test_one_full_table(n: int, d: int, factor: nz.Factor) -> None:
    """For one d-fold product the optimum is the product of the optima."""
    best = best_single(n, factor) ** d
    for planner in ("product", "auto"):
        plan = nz.plan(all_attributes(n, d, factor), budget=ONE, planner=planner, noise="gaussian")
        assert plan.total_variance == pytest.approx(best, rel=2e-5 * d)


# RMSE of HDMM and of ResidualPlanner+'s best strategies for d = 3, 4, 5
RANGES = {
    2: ((1.39, 1.3875), (1.55, 1.5476), (1.73, 1.7261)),
    4: ((2.11, 2.1893), (2.70, 2.8427), (3.47, 3.6911)),
    8: ((3.34, 3.5491), (5.00, 5.4136), (7.47, 8.2577)),
    16: ((5.29, 5.6868), (9.23, 10.1505), (16.08, 18.1179)),
}
PREFIXES = {
    2: ((1.50, 1.4977), (1.71, 1.7135), (1.96, 1.9605)),
    4: ((2.25, 2.4298), (2.95, 3.2667), (3.87, 4.3917)),
    8: ((3.34, 3.7302), (4.99, 5.7850), (7.45, 8.9718)),
    16: ((4.82, 5.4808), (8.15, 9.6632), (13.76, 17.0374)),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("n", RANGES)
@pytest.mark.parametrize(("factor", "table"), [(nz.Ranges(), RANGES), (nz.Prefix(), PREFIXES)])
def test_tables_10_and_11(n: int, factor: nz.Factor, table: dict[int, tuple]) -> None:
    for d, (hdmm, upright) in zip((3, 4, 5), table[n], strict=True):
        workload = all_attributes(n, d, factor)
        rmse = {
            p: nz.plan(workload, budget=ONE, planner=p, noise="gaussian").rmse
            for p in ("product", "residual+", "auto")
        }
        assert rmse["product"] == pytest.approx(hdmm, abs=0.0051)
        assert rmse["residual+"] == pytest.approx(upright, rel=3e-5)
        assert rmse["auto"] <= rmse["product"] * (1 + 1e-5)


def test_a_product_strategy_for_plain_tables() -> None:
    """One plain table: measure its cells, with variance 1 each."""
    full = all_attributes(4, 2, nz.Identity())
    assert nz.plan(full, budget=ONE, planner="product").rmse == pytest.approx(1.0, rel=1e-6)
    single = nz.Workload([nz.Query(nz.Schema.from_sizes({"a": 5}), ["a"])])
    assert nz.plan(single, budget=ONE, planner="product").total_variance == pytest.approx(
        5.0, rel=1e-6
    )


def test_what_a_product_strategy_cannot_do() -> None:
    schema = nz.Schema.from_sizes({"a": 3, "b": 2})
    workload = nz.Workload.marginals(schema, k=1)
    with pytest.raises(PlanError, match=r'planner="product".*planner="auto"'):
        nz.plan(workload, budget=ONE, planner="product", objective=nz.WorstVariance())
    joint = nz.Workload([nz.Query(schema, ["a", "b"], matrix=np.eye(2, 6))])
    with pytest.raises(PlanError, match=r'planner="product".*planner="auto"'):
        nz.plan(joint, budget=ONE, planner="product")


def test_the_true_optimum_of_three_small_prefix_tables() -> None:
    """Section 4 of the design: the best possible is 2.221 for 2-way tables, the plan has 2.225."""
    schema = nz.Schema.from_sizes({"a": 4, "b": 4, "c": 4})
    for k, oblique, optimum in ((1, 1.789, 1.789), (2, 2.225, 2.221), (3, 2.253, 2.253)):
        workload = nz.Workload.marginals(schema, k=k, factors=dict.fromkeys("abc", nz.Prefix()))
        plan = nz.plan(workload, budget=ONE, noise="gaussian")
        assert optimum - 6e-4 <= plan.rmse <= oblique + 6e-4
        assert sqrt(plan.lower_bound / workload.rows) == pytest.approx(optimum, abs=6e-4)
