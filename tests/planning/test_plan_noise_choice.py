"""What (ε, δ) and GDP budgets buy: Gaussian noise by its exact curve, Laplace noise, the better."""

from __future__ import annotations

import sys
from fractions import Fraction
from math import exp, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import noiseplan as nz
from integer_oracles import Measured, true_variance
from noiseplan.errors import PlanError
from noiseplan.storage.folder_check import check_folder

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `benchmarks` is not installed

from benchmarks import budget as bought

S = nz.Schema.from_sizes
NINE, SIX = nz.ApproxDP(1.0, 1e-9), nz.ApproxDP(1.0, 1e-6)
GAUSSIAN, LAPLACE = "discrete Gaussian", "discrete Laplace"
SMALL = S({"a": 4, "b": 3, "c": 2})
PREFIX = nz.Workload.marginals(SMALL, k=2, factors={"a": nz.Prefix()})
FIVES = nz.Workload.marginals(S({f"a{i}": 5 for i in range(12)}), k=1)
WORKLOADS = {
    "total": nz.Workload([nz.Query(SMALL, {})]),
    "two cells": nz.Workload([nz.Query(SMALL, ["c"])]),
    "prefix sums": PREFIX,
    "ranges": nz.Workload([nz.Query(S({"a": 64}), {"a": nz.Ranges()})]),
    "twelve tables": FIVES,
}


@pytest.mark.grid
@pytest.mark.parametrize(("epsilon", "delta", "limit", "interval"), bought.PAIRS)
@pytest.mark.parametrize("tables", [1, 20])
def test_counts_need_hardly_more_than_privacy_losses_say(
    tables: int, epsilon: float, delta: float, limit: float, interval: float
) -> None:
    """dp_accounting composes the laws themselves; the limits stand in the benchmark too."""
    ours = bought.planned_variance(tables, nz.ApproxDP(epsilon, delta))
    assert ours <= limit * bought.least_by_pld(tables, epsilon, delta, ours, interval)


@pytest.mark.parametrize("pair", [(1, 1e-9), (1, 1e-6), (0.1, 1e-9), (0.5, 1e-5), (0.01, 1e-12)])
@pytest.mark.parametrize("name", WORKLOADS)
def test_whole_numbers_come_up_to_continuous_noise(name: str, pair: tuple[float, float]) -> None:
    budget = nz.ApproxDP(*pair)
    ours, continuous = (
        nz.plan(WORKLOADS[name], budget=budget, noise=noise) for noise in (GAUSSIAN, "gaussian")
    )
    assert ours.total_variance <= 1.0025 * continuous.total_variance
    assert 0.998 <= ours.privacy.epsilon(pair[1]) / pair[0] <= 1


def test_the_demonstration_comes_up_to_continuous_noise() -> None:
    workload = bought.workloads()["the demonstration"]
    ours, continuous = (
        nz.plan(workload, budget=NINE, noise=noise) for noise in (GAUSSIAN, "gaussian")
    )
    assert ours.total_variance <= 1.002 * continuous.total_variance


# ---------------------------------------------------------------------- the promise, from outside


def width_mu2(variance: Fraction) -> float:
    """The squared GDP parameter of noise on integers that change by one: P(0) in normal quantiles.

    The widest cell of the discrete Gaussian, in quantiles of the normal law, is that of 0.
    """
    reach = int(12 * sqrt(variance)) + 2
    ratios = [exp(-k * k / (2 * float(variance))) for k in range(-reach, reach + 1)]
    return float(2 * ndtri((1 + 1 / sum(ratios)) / 2)) ** 2


def mu2_from_outside(plan: nz.Plan, neighbours: str, max_rows: int = 1) -> float:
    """Σ d² w² over the numbers that a pair of neighbours changes by d steps, of the worst pair."""
    k = max(1, plan.mechanism.noise.exact)
    found = Measured.of(plan)
    widths = {s: width_mu2(s * k * k) for s in set(found.sigma2) if s}
    weights = np.array([widths.get(s, 0.0) * k * k for s in found.sigma2])
    rows = np.array(found.rows, dtype=float)
    changes = rows.T
    if neighbours == "replace":
        changes = (rows.T[:, None] - rows.T[None]).reshape(-1, len(rows))
    return float((changes**2 @ weights).max()) * max_rows**2


@pytest.mark.parametrize(
    "how", [{}, {"neighbours": "replace"}, {"max_rows": 3}], ids=["one", "replaced", "persons"]
)
@pytest.mark.parametrize(
    "budget", [NINE, nz.ApproxDP(5.0, 1e-6), nz.GDP(0.5), nz.GDP(7.0)], ids=str
)
@pytest.mark.parametrize("workload", [PREFIX, WORKLOADS["two cells"]], ids=["prefix", "cells"])
def test_the_promise_holds_by_the_exact_law(
    workload: nz.Workload, budget: nz.privacy.Budget, how: dict[str, Any]
) -> None:
    plan = nz.plan(workload, budget=budget, noise=GAUSSIAN, **how)
    mu2 = mu2_from_outside(plan, how.get("neighbours", "add-remove"), how.get("max_rows", 1))
    assert 0.995 * plan.privacy.mu2 <= mu2 <= plan.privacy.mu2
    mu = sqrt(mu2)
    if isinstance(budget, nz.GDP):
        assert 0.99 * budget.mu <= mu <= budget.mu
    else:
        epsilon = budget.epsilon
        assert ndtr(mu / 2 - epsilon / mu) - exp(epsilon) * ndtr(-mu / 2 - epsilon / mu) <= (
            budget.delta
        )


# ---------------------------------------------------------------------- the better noise


def p_norm(plan: nz.Plan) -> float:
    return float(np.linalg.norm(np.concatenate([plan.variance(q) for q in plan.workload]), 4))


HOWS: dict[str, tuple[dict[str, Any], Any]] = {
    "total": ({}, lambda plan: plan.total_variance),
    "worst": ({"objective": nz.WorstVariance()}, lambda plan: plan.worst_variance),
    "p-norm": ({"objective": nz.PNormVariance(4)}, p_norm),
    "targets": ({"targets": 25.0}, lambda plan: plan.target_scale),
    "replaced": ({"neighbours": "replace"}, lambda plan: plan.total_variance),
    "persons": ({"max_rows": 3}, lambda plan: plan.total_variance),
}


@pytest.mark.grid
@pytest.mark.parametrize("budget", [NINE, SIX, nz.ApproxDP(5.0, 1e-6)], ids=str)
@pytest.mark.parametrize("name", ["prefix sums", "twelve tables"])
@pytest.mark.parametrize("goal", HOWS)
def test_never_worse_than_either_noise_alone(name: str, goal: str, budget: nz.ApproxDP) -> None:
    how, value = HOWS[goal]
    workload = WORKLOADS[name]
    best = nz.plan(workload, budget=budget, **how)
    gaussian = nz.plan(workload, budget=budget, noise=GAUSSIAN, **how)
    pure = nz.plan(workload, budget=nz.PureDP(budget.epsilon), **how)
    assert value(best) <= 1.01 * value(pure)
    assert value(best) <= value(gaussian) * (1 + 1e-9)
    assert best.privacy.within(budget)
    assert best.budget == budget
    better = value(pure) < 0.99 * value(gaussian)
    assert best.noise == (LAPLACE if better else "discrete")


@pytest.mark.parametrize("noise", [LAPLACE, "laplace"])
def test_forced_laplace_noise_is_that_of_pure_privacy(noise: str) -> None:
    forced = nz.plan(FIVES, budget=SIX, noise=noise)
    pure = nz.plan(FIVES, budget=nz.PureDP(1.0), noise=noise)
    assert forced.noise == noise
    assert forced.privacy == pure.privacy
    assert forced.total_variance == pure.total_variance


@pytest.mark.parametrize(
    ("budget", "noise", "words"),
    [
        (nz.zCDP(0.5), LAPLACE, r"goes with a budget of pure DP or of \(ε, δ\).*ρ = 0.5"),
        (nz.GDP(0.5), LAPLACE, r"goes with a budget of pure DP or of \(ε, δ\).*μ = 0.5"),
        (nz.PureDP(0.5), GAUSSIAN, "PureDP"),
        (nz.GDP(1e4), GAUSSIAN, "hardly any noise.*smaller budget"),
        (NINE, "Gaussian", "found 'Gaussian'"),
    ],
)
def test_what_no_noise_can_do_is_refused(budget: nz.privacy.Budget, noise: str, words: str) -> None:
    with pytest.raises(nz.NoiseplanError, match=words):
        nz.plan(PREFIX, budget=budget, noise=noise)


def test_continuing_needs_gaussian_noise_and_says_how() -> None:
    taken, other = nz.plan(PREFIX, budget=NINE), nz.plan(FIVES, budget=NINE)
    assert taken.noise == LAPLACE
    counts = np.arange(24).reshape(4, 3, 2)
    release = taken.release(counts)
    for refused in (lambda: taken.given(release), lambda: nz.adaptive([taken, other])):
        with pytest.raises(PlanError, match="noise='discrete Gaussian'"):
            refused()
    forced = [
        nz.plan(nz.Workload.marginals(SMALL, k=k), budget=NINE, noise=GAUSSIAN) for k in (1, 2)
    ]
    left = forced[1].given(forced[0].release(counts))
    assert 0 < left.privacy.pcost < forced[1].privacy.pcost
    assert left.release(counts).plan.privacy.mu2 >= left.total.pcost
    assert nz.adaptive(forced).look(counts).choose(1).plan.privacy.within(NINE)


# ---------------------------------------------------------------------- what is said


def test_the_other_noise_is_named_with_its_error() -> None:
    for workload, budget, other, name in (
        (PREFIX, NINE, GAUSSIAN, "discrete Gaussian noise"),
        (FIVES, SIX, LAPLACE, "discrete Laplace noise"),
    ):
        plan, forgone = (
            nz.plan(workload, budget=budget, noise=noise) for noise in ("discrete", other)
        )
        said = f"{name}: RMSE {forgone.rmse:.4g} instead of {plan.rmse:.4g}"
        assert said in str(plan)
        assert f"within ε = 1 at δ = {budget.delta:g}, as decided:" in str(plan)
        assert ("later  " in str(plan)) == (plan.noise == LAPLACE)
        assert "later  " not in str(forgone) or other == LAPLACE
    worst = nz.plan(PREFIX, budget=NINE, objective=nz.WorstVariance())
    assert "discrete Gaussian noise: largest weighted standard error" in str(worst)
    assert "targets relaxed by" in str(nz.plan(PREFIX, budget=NINE, targets=1.0))
    assert 'noise="discrete Gaussian", whose costs add up by squares' in str(worst)
    assert "later  " not in str(nz.plan(PREFIX, budget=nz.PureDP(1.0)))


# ---------------------------------------------------------------------- multiples of 1/k


CELLS = S({"cell": 20_000})
FINE = nz.Workload([nz.Query(CELLS, ["cell"])])


def fine_plan(workload: nz.Workload = FINE) -> nz.Plan:
    return nz.plan(workload, budget=NINE, noise=GAUSSIAN, planner="identity")


def test_the_law_of_noise_on_halves() -> None:
    plan, query = fine_plan(), FINE.query(0)
    assert plan.mechanism.noise.exact == 2
    assert "on multiples of 1/2; costs" in str(plan)
    counts = np.random.default_rng(1).integers(0, 50, 20_000)
    found = plan.release(counts, seed=5).answer(query)
    noise = 2 * (found.estimate - counts)
    np.testing.assert_array_equal(noise, np.round(noise))
    assert 0.45 < (noise % 2).mean() < 0.55  # halves as often as whole numbers
    sigma2 = Fraction(float(plan.mechanism.noise.size[0]))
    variance = true_variance(4 * sigma2) / 4
    np.testing.assert_allclose(plan.variance(query), variance, rtol=1e-9)
    draws = noise / 2
    assert abs(draws.mean()) < 5 * sqrt(variance / draws.size)
    assert abs((draws**2).mean() / variance - 1) < 5 * sqrt(2 / draws.size)
    again = plan.release(counts, seed=5).answer(query)
    np.testing.assert_array_equal(found.estimate, again.estimate)


def test_multiples_of_a_fraction_are_saved_and_read(tmp_path: Path) -> None:
    plan = fine_plan(nz.Workload([nz.Query(S({"cell": 20}), ["cell"])]))
    release = plan.release(np.arange(20))
    release.save(tmp_path / "out")
    read = nz.load(tmp_path / "out")
    query = plan.workload.query(0)
    np.testing.assert_array_equal(release.answer(query).estimate, read.answer(query).estimate)
    np.testing.assert_array_equal(plan.variance(query), read.variance(query))
    assert read.plan.mechanism.noise.exact == 2
    assert read.plan.hash() == plan.hash()
    assert read.plan.privacy == plan.privacy
    assert read.plan.privacy.mu2 == plan.privacy.mu2
    checked = check_folder(tmp_path / "out")
    assert checked.private
    assert checked.tables.numbers
    assert checked.cost is not None
    assert checked.cost.within(NINE)
