"""The least privacy cost that reaches a bound: known optima, and the noise really drawn."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

import noiseplan as nz

LINE = nz.Schema.from_sizes({"x": 8})
CELLS = nz.Workload.marginals(LINE, k=1)
MIXED_SCHEMA = nz.Schema.from_sizes({"age": 4, "sex": 2, "region": 3})
MIXED = nz.Workload.marginals(MIXED_SCHEMA, k=2, factors={"age": nz.Prefix()}) + nz.Query(
    MIXED_SCHEMA, {"age": nz.Ranges()}, weight=3.0
)


def squares(v: np.ndarray) -> float:
    return float((v**2 + v).sum())


def inside(value: float, bound: float) -> None:
    """Met, and by no more than the search leaves."""
    assert value <= bound and value == pytest.approx(bound, rel=2e-6)


@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
@pytest.mark.parametrize(
    ("objective", "cost"),
    [
        (nz.TotalVariance(at_most=400.0), 8 / 400),  # every cell has 1/cost
        (nz.RMSE(at_most=5.0), 1 / 25),
        (nz.WorstVariance(at_most=50.0), 1 / 50),
        (nz.PNormVariance(2, at_most=30.0), sqrt(8) / 30),
        (nz.ConvexLoss(squares, at_most=12.0), 1 / 3),  # v² + v = 12 at v = 3
        (nz.RelativeError(at_most=16.0), 8 / 16),
    ],
)
def test_single_cells_by_hand(objective: nz.Objective, cost: float, noise: str) -> None:
    plan = nz.plan(CELLS, objective=objective, noise=noise)
    assert plan.privacy.pcost == pytest.approx(cost, rel=2e-6)
    assert plan.privacy.pcost >= cost * (1 - 1e-12)
    assert plan.objective == objective and plan.budget is None


@pytest.mark.parametrize(("d", "cost"), [(5, 5 / 3), (8, 16 / 9)])
def test_the_published_identity_and_sum(d: int, cost: float) -> None:
    """Xiao et al., Theorem 7: cells and their sum with variance 1 at Δ² = 2d/(1 + d)."""
    workload = nz.Workload.marginals(nz.Schema.from_sizes({"x": d}), up_to=1)
    plan = nz.plan(workload, objective=nz.WorstVariance(at_most=1.0), noise="gaussian")
    assert plan.privacy.pcost == pytest.approx(cost, rel=2e-6)
    assert plan.worst_variance <= 1.0


def test_tables_by_the_closed_form() -> None:
    """ResidualPlanner, Lemma 2: total · cost = (Σ_A √(v_A p_A))², written out for two tables."""
    schema = nz.Schema.from_sizes({"a": 3, "b": 4})
    workload = nz.Workload.marginals(schema, k=1)
    product = (sqrt(1 / 3 + 1 / 4) + (3 - 1) / sqrt(3) + (4 - 1) / sqrt(4)) ** 2
    plan = nz.plan(workload, objective=nz.TotalVariance(at_most=100.0), noise="gaussian")
    assert plan.privacy.pcost == pytest.approx(product / 100, rel=2e-6)
    assert plan.optimal


OBJECTIVES = [
    nz.TotalVariance(at_most=700.0),
    nz.RMSE(at_most=3.0),
    nz.WorstVariance(at_most=12.0),
    nz.PNormVariance(4, at_most=40.0),
    nz.ConvexLoss(squares, at_most=90.0),
]


def reached(plan: nz.Plan, objective: nz.Objective) -> float:
    """The objective from the variance of every row, one query after the other."""
    found = [(q.weight, plan.variance(q)) for q in plan.workload]
    rows = np.concatenate([weight * variances for weight, variances in found])
    if isinstance(objective, nz.RMSE):
        return float(np.sqrt(np.concatenate([v for _, v in found]).mean()))
    if isinstance(objective, nz.WorstVariance):
        return float(rows.max())
    if isinstance(objective, nz.PNormVariance):
        return float((rows**objective.p).sum() ** (1 / objective.p))
    if isinstance(objective, nz.ConvexLoss):
        return squares(np.array([weight * v.mean() for weight, v in found]))
    return float(rows.sum())


@pytest.mark.grid
@pytest.mark.parametrize("planner", ["auto", "residual+"])
@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_bounds_are_met_by_every_row_at_the_least_cost(
    objective: nz.Objective, planner: str
) -> None:
    plan = nz.plan(MIXED, objective=objective, planner=planner)
    bound = objective.at_most
    assert bound is not None
    inside(reached(plan, objective), bound)
    # At the cost that was found nothing better is planned, and a little less is not enough.
    less = nz.zCDP(plan.privacy.rho * (1 - 1e-4))
    plain = _without_bound(objective)
    assert reached(nz.plan(MIXED, budget=less, objective=plain, planner=planner), plain) > bound


def _without_bound(objective: nz.Objective) -> nz.Objective:
    if isinstance(objective, nz.PNormVariance):
        return nz.PNormVariance(objective.p)
    if isinstance(objective, nz.ConvexLoss):
        return nz.ConvexLoss(squares)
    return type(objective)()


@pytest.mark.parametrize("planner", ["product", "optimal", "eigen", "wavelet", "workload"])
def test_whatever_the_planner(planner: str) -> None:
    objective = nz.TotalVariance(at_most=700.0)
    plan = nz.plan(MIXED, objective=objective, planner=planner)
    inside(reached(plan, objective), 700.0)


def test_replaced_records_and_people_with_several() -> None:
    objective = nz.RMSE(at_most=2.0)
    inside(nz.plan(MIXED, objective=objective, neighbours="replace").rmse, 2.0)
    one = nz.plan(MIXED, objective=objective)
    three = nz.plan(MIXED, objective=objective, max_rows=3)
    inside(three.rmse, 2.0)
    assert three.privacy.pcost == pytest.approx(9 * one.privacy.pcost, rel=1e-4)


def test_the_bound_is_that_of_the_noise_really_drawn() -> None:
    """Discrete noise of less than one count has less variance than its parameter."""

    def variance(parameter: float) -> float:
        k = np.arange(-60, 61)
        law = np.exp(-(k**2) / (2 * parameter))
        return float((k**2 * law).sum() / law.sum())

    plan = nz.plan(CELLS, objective=nz.RMSE(at_most=0.1), planner="identity")
    parameter = brentq(lambda s: variance(s) - 0.01, 0.05, 1.0)
    assert plan.privacy.pcost == pytest.approx(1 / parameter, rel=1e-5)
    assert plan.privacy.pcost < 0.2 / 0.01  # far from what continuous noise would cost
    release = plan.release(np.full(8, 100), seed=3)
    assert release.answer(CELLS[0]).std_error == pytest.approx(0.1, rel=1e-5)


def test_weights_have_no_say_in_the_mean_error() -> None:
    heavy = nz.plan(MIXED, objective=nz.RMSE(at_most=2.0), noise="gaussian")
    light = nz.Workload([nz.Query(q.schema, q.factors) for q in MIXED])
    plain = nz.plan(light, objective=nz.RMSE(at_most=2.0), noise="gaussian")
    assert heavy.privacy.pcost == pytest.approx(plain.privacy.pcost, rel=1e-6)
    assert nz.plan(MIXED, objective=nz.RMSE(), budget=nz.zCDP(0.5)).rmse == pytest.approx(
        nz.plan(light, budget=nz.zCDP(0.5)).rmse, rel=1e-6
    )


def test_figures_of_the_mean_error_are_called_what_they_are() -> None:
    workload = nz.Workload.marginals(MIXED_SCHEMA, k=2, factors={"age": nz.Prefix()})
    plan = nz.plan(workload, objective=nz.RMSE(at_most=2.0), planner="residual+")
    assert f"total variance {plan.total_variance:.6g}, lower bound" in str(plan)


def test_what_is_public_costs_nothing() -> None:
    total = nz.Workload([nz.Query(LINE, [])])
    plan = nz.plan(total, objective=nz.RMSE(at_most=1.0), neighbours="replace")
    assert plan.privacy.pcost == 0 and plan.rmse == 0


def test_the_plan_says_what_it_is(tmp_path: Path) -> None:
    for objective, words in (
        (nz.RMSE(at_most=2.0), "at which the root mean square error is at most 2"),
        (nz.ConvexLoss(squares, at_most=12.5), "at which the squares is at most 12.5"),
    ):
        plan = nz.plan(CELLS, objective=objective)
        assert f"objective   least privacy cost {words}; planned in" in str(plan)
        folder = tmp_path / str(objective)
        plan.release(np.full(8, 100), seed=1).save(folder)
        loaded = nz.load(folder).plan
        assert loaded.objective.at_most == objective.at_most
        assert words in str(loaded)


@pytest.mark.parametrize(
    "objective",
    [
        nz.TotalVariance(at_most=0.0),
        nz.RMSE(at_most=-1.0),
        nz.PNormVariance(4, at_most=float("nan")),
        nz.WorstVariance(at_most=float("inf")),
        nz.RelativeError(at_most=0.0),
        nz.TotalVariance(at_most=True),
        nz.ConvexLoss(lambda v: float(v.sum()) + 3, at_most=3.0),
    ],
)
def test_bounds_that_no_plan_meets(objective: nz.Objective) -> None:
    with pytest.raises(nz.NoiseplanError, match=r"at_most is a number above [03]"):
        nz.plan(CELLS, objective=objective)


WORD: Any = "smallest"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nz.plan(CELLS), r"RMSE\(at_most=2.0\)"),
        (
            lambda: nz.plan(CELLS, objective=nz.RMSE(at_most=1.0), budget=nz.zCDP(1.0)),
            "leave out the budget",
        ),
        (lambda: nz.plan(CELLS, objective=nz.RMSE(at_most=1.0), targets=4.0), "one or the other"),
        (
            lambda: nz.plan(CELLS, objective=nz.ConvexLoss(squares, at_most=0.0)),
            "above 0, which the squares would be",
        ),
        (
            lambda: nz.plan(CELLS, objective=nz.RMSE(at_most=1.0), planner="dawa"),
            "works within PureDP",
        ),
        (lambda: nz.plan(CELLS, objective=WORD, budget=nz.zCDP(1.0)), "an objective is"),
    ],
)
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(nz.NoiseplanError, match=message):
        make()
