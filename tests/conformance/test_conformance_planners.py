"""Every planner by name: within its budget, for all of its workload, and refusing in words."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from probes import Probe, planner_names

import noiseplan as nz
from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.planning.planners import table_plans

SCHEMA = nz.Schema({"age": nz.Ordinal(range(4)), "sex": nz.Categorical(["F", "M", "X"])})
WORKLOAD = nz.Workload.marginals(SCHEMA, up_to=2, factors={"age": nz.Prefix()})
LINE = nz.Schema({"age": nz.Ordinal(range(12))})
LINE_WORKLOAD = nz.Workload([nz.Query(LINE, {"age": nz.Prefix()})])
RHO, EPSILON, TARGET = 0.2, 0.8, 6.0

# What a planner of Gaussian noise takes besides a budget for neighbours that add a record.
REPLACE, WORST, TARGETS, NOT_TOTAL = "replace", "worst", "targets", "not the total"
GAUSSIAN: dict[str, set[str]] = {
    "auto": {REPLACE, WORST, TARGETS},
    "residual": {REPLACE, WORST, TARGETS},
    "residual+": {REPLACE, WORST, TARGETS},
    "product": {REPLACE},
    "optimal": {REPLACE, WORST, TARGETS},
    "refined": {WORST, TARGETS, NOT_TOTAL},
    "sm2": {WORST, TARGETS, NOT_TOTAL},
    "identity": {REPLACE},
    "hierarchical": {REPLACE},
    "hierarchical-3": {REPLACE},
    "wavelet": {REPLACE},
    "workload": {REPLACE, WORST, TARGETS},
    "fourier": {REPLACE},
    "singular-value": {REPLACE},
    "eigen": {REPLACE},
    "eigen-separated": {REPLACE},
    "eigen-separated-2": {REPLACE},
    "eigen-principal": {REPLACE},
    "eigen-principal-50": {REPLACE},
    "weighted-hierarchical": {REPLACE},
    "weighted-hierarchical-3": {REPLACE},
    "weighted-wavelet": {REPLACE},
    "weighted-fourier": {REPLACE},
    "dawa": set(),
}
LAPLACE = (
    "auto", "identity", "p-identity", "tree", "wavelet", "matrix", "workload", "hierarchical",
    "hierarchical-3", "privelet", "fourier", "singular-value", "eigen", "eigen-separated",
    "eigen-principal", "weighted-hierarchical", "weighted-wavelet", "weighted-fourier",
    "least-sensitivity", "dawa",
)  # fmt: skip
NUMBERED = {"hierarchical-3", "eigen-separated-2", "eigen-principal-50", "weighted-hierarchical-3"}


@cache
def made(name: str, noise: str, neighbours: str = "add-remove") -> Any:
    """The plan of the common budget, or for targets where a planner does not plan the total."""
    how: dict[str, Any] = {"planner": name, "noise": noise, "neighbours": neighbours}
    if NOT_TOTAL in GAUSSIAN.get(name, ()):
        return nz.plan(WORKLOAD, targets=TARGET, **how)
    return nz.plan(LINE_WORKLOAD if name == "dawa" else WORKLOAD, budget=nz.zCDP(RHO), **how)


@cache
def made_pure(name: str, noise: str) -> Any:
    workload = LINE_WORKLOAD if name == "dawa" else WORKLOAD
    return nz.plan(workload, budget=nz.PureDP(EPSILON), planner=name, noise=noise)


def check_answers(plan: Any) -> None:
    """Every query of the workload, from its measurements: unbiased, with a finite variance."""
    probe = Probe(plan)
    data = np.random.default_rng(1).integers(0, 50, probe.shape)
    measured = probe.with_noise(data)
    total = 0.0
    for query in plan.workload:
        truth = query.dense() @ data.ravel()
        np.testing.assert_allclose(probe.answer(measured, query), truth, rtol=1e-8, atol=1e-7)
        variance = plan.variance(query)
        assert np.isfinite(variance).all() and (variance >= 0).all()
        total += query.weight * float(variance.sum())
    assert plan.total_variance == pytest.approx(total, rel=1e-9)
    assert plan.lower_bound <= plan.total_variance * (1 + 1e-9)


PLANNED = [name for name in GAUSSIAN if name != "dawa"]


@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
@pytest.mark.parametrize("name", PLANNED)
def test_gaussian_plans_are_within_the_budget(name: str, noise: str) -> None:
    plan = made(name, noise)
    check_answers(plan)
    brute = Probe(plan).brute_cost("add-remove")
    if NOT_TOTAL in GAUSSIAN[name]:
        assert brute <= plan.privacy.pcost * (1 + 1e-12)
        with pytest.raises(PlanError, match="targets"):
            nz.plan(WORKLOAD, budget=nz.zCDP(RHO), planner=name, noise=noise)
        return
    assert plan.privacy.within(nz.zCDP(RHO))
    assert 0.95 * 2 * RHO <= brute <= 2 * RHO * (1 + 1e-12)


@pytest.mark.parametrize("pair", [(1.0, 1e-6), (0.1, 1e-9)])
@pytest.mark.parametrize("name", [name for name in PLANNED if NOT_TOTAL not in GAUSSIAN[name]])
def test_whole_numbers_buy_what_continuous_noise_does(name: str, pair: tuple[float, float]) -> None:
    """(ε, δ) by the exact curve: at most a quarter of a per cent more variance, for any planner."""
    budget = nz.ApproxDP(*pair)
    ours, continuous = (
        nz.plan(WORKLOAD, budget=budget, planner=name, noise=noise)
        for noise in ("discrete Gaussian", "gaussian")
    )
    assert ours.total_variance <= 1.0025 * continuous.total_variance
    assert ours.privacy.within(budget)
    assert ours.privacy.mu2 is not None and ours.privacy.mu2 >= Probe(ours).brute_cost("add-remove")


@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
@pytest.mark.parametrize("name", PLANNED)
def test_replacing_a_record_is_within_the_budget_or_refused(name: str, noise: str) -> None:
    if REPLACE not in GAUSSIAN[name]:
        with pytest.raises(PlanError, match=r"neighbours|add|replac"):
            made(name, noise, "replace")
        return
    plan = made(name, noise, "replace")
    assert plan.privacy.neighbours == "replace"
    check_answers(plan)
    assert 0.95 * 2 * RHO <= Probe(plan).brute_cost("replace") <= 2 * RHO * (1 + 1e-12)


@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
@pytest.mark.parametrize("name", PLANNED)
def test_targets_are_met_or_refused(name: str, noise: str) -> None:
    if TARGETS not in GAUSSIAN[name]:
        with pytest.raises(PlanError, match=r"targets|total variance"):
            nz.plan(WORKLOAD, targets=TARGET, planner=name, noise=noise)
        return
    plan = nz.plan(WORKLOAD, targets=TARGET, planner=name, noise=noise)
    check_answers(plan)
    worst = max(float(plan.variance(query).max()) for query in WORKLOAD)
    assert worst <= TARGET * (1 + 1e-6)
    assert worst >= TARGET * 0.9  # and no more privacy is spent than that needs


@pytest.mark.parametrize("name", PLANNED)
def test_the_worst_variance_is_planned_or_refused(name: str) -> None:
    how: dict[str, Any] = {"budget": nz.zCDP(RHO), "noise": "gaussian", "planner": name}
    if WORST not in GAUSSIAN[name]:
        with pytest.raises(PlanError):
            nz.plan(WORKLOAD, objective=nz.WorstVariance(), **how)
        return
    plan = nz.plan(WORKLOAD, objective=nz.WorstVariance(), **how)
    check_answers(plan)
    total = made("optimal" if NOT_TOTAL in GAUSSIAN[name] else name, "gaussian")
    assert plan.worst_variance <= total.worst_variance * (1 + 1e-6)
    assert Probe(plan).brute_cost("add-remove") <= 2 * RHO * (1 + 1e-12)


def test_no_planner_beats_the_optimum() -> None:
    """And "auto" is about as good as the best of all."""
    totals = {
        name: made(name, "gaussian").total_variance
        for name in PLANNED
        if NOT_TOTAL not in GAUSSIAN[name]
    }
    assert totals["optimal"] <= min(totals.values()) * (1 + 1e-6)
    assert made("optimal", "gaussian").lower_bound <= totals["optimal"] * (1 + 1e-9)
    assert totals["auto"] <= min(totals.values()) * 1.02


@pytest.mark.parametrize("noise", ["discrete", "laplace"])
@pytest.mark.parametrize("name", [name for name in LAPLACE if name != "dawa"])
def test_laplace_plans_are_within_the_budget(name: str, noise: str) -> None:
    plan = made_pure(name, noise)
    check_answers(plan)
    assert plan.privacy.within(nz.PureDP(EPSILON))
    assert 0.95 * EPSILON <= Probe(plan).brute_cost("add-remove") <= EPSILON * (1 + 1e-12)
    swapped = nz.plan(
        WORKLOAD, budget=nz.PureDP(1.0), planner=name, noise=noise, neighbours="replace"
    )
    assert Probe(swapped).brute_cost("replace") <= swapped.privacy.pure_epsilon * (1 + 1e-12)
    assert swapped.privacy.pure_epsilon <= 1


@pytest.mark.parametrize("name", [name for name in LAPLACE if name != "dawa"])
def test_laplace_plans_take_targets_or_say_why_not(name: str) -> None:
    aim = partial(nz.plan, WORKLOAD, budget=nz.PureDP(EPSILON), planner=name, targets=2.0)
    if name not in (*table_plans.PLANNER.names, "auto", "matrix", "workload"):
        with pytest.raises(PlanError, match="under a budget"):
            aim()
    else:
        plan = aim()
        assert Probe(plan).brute_cost("add-remove") <= EPSILON * (1 + 1e-12)
        assert plan.target_scale == pytest.approx(plan.worst_variance / 2.0)


def test_auto_is_the_best_of_laplace_plans() -> None:
    totals = {n: made_pure(n, "laplace").total_variance for n in LAPLACE if n != "dawa"}
    assert totals["auto"] <= min(totals.values()) * 1.02


@pytest.mark.parametrize("noise", ["discrete", "gaussian", "laplace"])
def test_data_aware_plans_are_within_the_budget(noise: str) -> None:
    if noise != "laplace":
        assert made("dawa", noise).privacy.within(nz.zCDP(RHO))
    if noise != "gaussian":
        assert made_pure("dawa", noise).privacy.within(nz.PureDP(EPSILON))
    # One record removed and one added: half of ε is left for each, by group privacy.
    aware = partial(nz.plan, LINE_WORKLOAD, planner="dawa", noise="discrete")
    swapped = aware(budget=nz.PureDP(EPSILON), neighbours="replace")
    half = aware(budget=nz.PureDP(EPSILON / 2))
    assert swapped.privacy.neighbours == "replace"
    assert swapped.privacy.within(nz.PureDP(EPSILON))
    assert swapped.privacy.pure_epsilon >= 2 * half.privacy.pure_epsilon * (1 - 1e-12)
    for refused in ({"targets": 3.0}, {"objective": nz.WorstVariance()}):
        with pytest.raises(PlanError, match="dawa"):
            nz.plan(LINE_WORKLOAD, budget=nz.PureDP(EPSILON), planner="dawa", **refused)


def test_other_names_are_refused_with_those_there_are() -> None:
    gaussian, laplace = planner_names()
    for name in [*sorted(laplace - gaussian), "atuo", "hierarchical-x"]:
        with pytest.raises(PlanError, match=name) as told:
            nz.plan(WORKLOAD, budget=nz.zCDP(RHO), planner=name)
        assert all(known in str(told.value) for known in gaussian)
    for name in [*sorted(gaussian - laplace), "atuo"]:
        with pytest.raises(PlanError, match=name.replace("+", r"\+")) as told:
            nz.plan(WORKLOAD, budget=nz.PureDP(EPSILON), planner=name)
        assert all(known in str(told.value) for known in laplace - {"dawa"})


def test_a_plan_says_what_it_cannot_answer() -> None:
    """A query that only some plans can answer is refused by name by the others."""
    cells = nz.Query(SCHEMA, ["age", "sex"], name="every cell")
    plan = nz.plan(nz.Workload.marginals(SCHEMA, k=1), budget=nz.zCDP(RHO), planner="residual")
    with pytest.raises(UnanswerableError, match="every cell"):
        plan.variance(cells)


def test_every_planner_has_joined() -> None:
    gaussian, laplace = planner_names()
    assert gaussian == set(GAUSSIAN) - NUMBERED
    assert laplace == set(LAPLACE) - NUMBERED
