"""Discrete noise of less than one count: plans compete by the variance that it really has."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest

import noiseplan as nz
from integer_oracles import Measured
from noiseplan.noise.moments import discrete_gaussian_slope, discrete_gaussian_variance

S = nz.Schema.from_sizes
SMALL, PAIR, LONG = S({"a": 2, "b": 3, "c": 4}), S({"a": 3, "c": 40}), S({"a": 3, "c": 2000})
PLACES = S({"place": 300, "age": 4})
COUNTIES = nz.Levels(25, leaves=False, total=False)
WORKLOADS = {
    "a table and its total": (LONG, [["a"], {}]),
    "two tables": (PAIR, [["a"], ["c"]]),
    "tables of two attributes": (SMALL, [["a", "b"], ["c"], ["b", "c"]]),
    "prefix sums": (SMALL, [{"a": nz.Prefix(), "c": nz.Prefix()}, ["b"]]),
    "levels of places": (PLACES, [{"place": COUNTIES, "age": nz.Prefix()}, ["place"], ["age"]]),
    "ranges": (SMALL, [{"c": nz.Ranges()}, ["b"], {}]),
}
RHOS = (0.01, 0.7, 1.3, 2.0, 5.0, 13.0, 50.0)


@cache
def variance(parameter: float) -> float:
    """Σ k² e^(−k²/(2σ²)) / Σ e^(−k²/(2σ²)), with 40 digits."""
    with mpmath.workdps(40):
        terms = [
            mpmath.exp(-mpmath.mpf(k * k) / (2 * mpmath.mpf(parameter))) for k in range(1, 200)
        ]
        squares = mpmath.fsum(k * k * term for k, term in enumerate(terms, 1))
        return float(2 * squares / (1 + 2 * mpmath.fsum(terms)))


def by_hand(asked: nz.Workload, shares: np.ndarray, rho: float) -> float:
    """Discrete noise on each query by itself, with shares of the budget."""
    total = 0.0
    for query, share in zip(asked, shares / shares.sum(), strict=True):
        touched = (query.dense() ** 2).sum(axis=0).max()
        total += query.weight * query.rows * variance(float(touched / (2 * rho * share)))
    return total


@pytest.mark.few(3)
@pytest.mark.parametrize("weight", [1.0, 100.0])
@pytest.mark.parametrize("name", WORKLOADS)
def test_no_worse_than_noise_on_each_table_or_each_cell(name: str, weight: float) -> None:
    """Than the shares that are best for continuous noise, than equal ones; to 0.1 %, for which no
    plan is given up that is proved to be near the optimum of continuous noise."""
    schema, asked = WORKLOADS[name]
    weights = [weight, *np.ones(len(asked) - 1)]
    workload = nz.Workload(
        [nz.Query(schema, q, weight=w) for q, w in zip(asked, weights, strict=True)]
    )
    squares = np.array([(query.dense() ** 2).sum() for query in workload])
    touched = np.array([(query.dense() ** 2).sum(axis=0).max() for query in workload])
    best_shares = np.sqrt(weights * touched * [query.rows for query in workload])
    for rho in RHOS:
        plan = nz.plan(workload, budget=nz.zCDP(rho))
        alike, shared = (by_hand(workload, s, rho) for s in (np.ones(len(asked)), best_shares))
        cells = variance(1 / (2 * rho)) * float(weights @ squares)
        assert plan.total_variance <= min(alike, shared, cells) * 1.001, rho
        assert plan.privacy.rho <= rho


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["levels of places", "ranges"])
def test_no_norm_is_worse_than_noise_on_each_cell(name: str) -> None:
    """The largest variance was 80,000 times that of plain counts at ρ = 20."""
    schema, asked = WORKLOADS[name]
    workload = nz.Workload(
        [nz.Query(schema, q, weight=w) for q, w in zip(asked, (4, 1, 2), strict=True)]
    )
    squares = [query.weight * (query.dense() ** 2).sum(axis=1) for query in workload]
    for rho in (2.0, 13.0, 50.0):
        cells = variance(1 / (2 * rho)) * np.concatenate(squares)
        worst = nz.plan(workload, budget=nz.zCDP(rho), objective=nz.WorstVariance())
        assert worst.worst_variance <= cells.max() * 1.001, rho
        normed = nz.plan(workload, budget=nz.zCDP(rho), objective=nz.PNormVariance(3))
        each = np.concatenate([q.weight * normed.variance(q) for q in workload])
        assert np.linalg.norm(each, 3) <= np.linalg.norm(cells, 3) * 1.001, rho
        assert max(worst.privacy.rho, normed.privacy.rho) <= rho


def test_powers_of_variances_below_all_numbers() -> None:
    """At ρ = 500 the sum of squares of the variances is 0: there was a division by it."""
    workload = nz.Workload([nz.Query(PLACES, {"place": COUNTIES})])
    plan = nz.plan(workload, budget=nz.zCDP(500), objective=nz.PNormVariance(2))
    assert plan.gap in (None, 0.0)
    assert plan.total_variance < 1e-100


@pytest.mark.grid
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("name", [n for n in WORKLOADS if WORKLOADS[n][0] is SMALL])
def test_what_faint_noise_costs(name: str, neighbours: str) -> None:
    """Every record, or pair of them, measured alone, in exact fractions."""
    workload = nz.Workload([nz.Query(SMALL, q) for q in WORKLOADS[name][1]])
    for rho in (2.0, 13.0):
        plan = nz.plan(workload, budget=nz.zCDP(rho), neighbours=neighbours)
        assert Measured.of(plan).rho(neighbours) <= Fraction(plan.privacy.rho) <= Fraction(rho)


def test_a_heavy_table_and_its_total() -> None:
    """Continuous noise would be 30.3; counts themselves take less than a fifth of it."""
    workload = nz.Workload([nz.Query(LONG, ["a"], weight=100.0), nz.Query(LONG, {})])
    plan = nz.plan(workload, budget=nz.zCDP(5))
    assert plan.total_variance == pytest.approx(5.2215, rel=1e-4)
    assert plan.considered[0] == ("own rows", "taken")
    continuous = nz.plan(workload, budget=nz.zCDP(5), noise="gaussian")
    assert continuous.considered[0] == ("residual", "taken")


def test_noise_of_many_counts_is_planned_as_ever() -> None:
    """Many tables share a large budget, and none of them has noise of less than one count."""
    schema = S(dict.fromkeys("abcdefgh", 3))
    plan = nz.plan(nz.Workload.marginals(schema, k=2), budget=nz.zCDP(5))
    assert [name for name, _ in plan.considered] == ["residual", "optimal"]


def test_the_slope_of_the_variance() -> None:
    sizes = np.array([1e-5, 1e-3, 0.02, 0.1, 0.3, 0.7, 1.5, 3.9, 4.1, 1e6])
    step = 1e-5 * sizes
    risen = discrete_gaussian_variance(sizes + step) - discrete_gaussian_variance(sizes - step)
    np.testing.assert_allclose(discrete_gaussian_slope(sizes), risen / (2 * step), rtol=1e-5)


@pytest.mark.parametrize("rho", [1000.0, 3000.0])
def test_rows_with_hardly_any_noise_beside_others_are_answered(rho: float) -> None:
    """Variances of 1e-200 beside others left no Cholesky factor; errors are never understated."""
    schema = nz.Schema.from_sizes({"a": 4})
    queries = [
        nz.Query(schema, {"a": nz.Prefix()}),
        nz.Query(schema, {"a": nz.Ranges()}, weight=3.0),
    ]
    how = {"budget": nz.zCDP(rho), "planner": "workload", "objective": nz.PNormVariance(4.0)}
    plan = nz.plan(nz.Workload(queries), **how)
    counts = np.array([5, 0, 2, 9])
    release = plan.release(counts, seed=1)
    drawn = plan.mechanism.noise.variance
    rows = np.concatenate([query.dense() for query in queries])
    unit = rows / np.sqrt(np.maximum(drawn, 1e-30))[:, None]  # the noise that is really drawn
    for query in queries:
        found = release.answer(query)
        np.testing.assert_allclose(found.estimate, query.dense() @ counts, atol=1.5)
        least = ((query.dense() @ np.linalg.pinv(unit)) ** 2).sum(axis=1)
        assert (plan.variance(query) >= least * (1 - 1e-6) - 1e-25).all()
