"""Strategies of attributes given by the user, against plans found by brute force."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as choices
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

import noiseplan as nz
from depth import depth

BUDGET = nz.zCDP(0.5)  # cost 1
TREE = np.vstack([np.eye(4), [[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]]])
FIRST = np.tril(np.ones((3, 3)))


def even(strategy: np.ndarray) -> np.ndarray:
    """S − S11ᵀ/n: Algorithm 4."""
    return np.asarray(strategy - strategy.mean(axis=1, keepdims=True))


def oblique(strategy: np.ndarray) -> np.ndarray:
    """Rows whose Gram matrix is SᵀS less as much of 11ᵀ as can be."""
    cost = strategy.T @ strategy
    values, vectors = np.linalg.eigh(cost - 1 / np.linalg.inv(cost).sum())
    return np.asarray(np.sqrt(np.maximum(values, 0))[:, None] * vectors.T)


def least_total(workload: nz.Workload, residuals: list[np.ndarray]) -> float:
    """The least total variance at cost 1 over the noise of every set of attributes."""
    pieces = []
    for inside in choices([False, True], repeat=len(residuals)):
        rows = np.ones((1, 1))
        for use, u in zip(inside, residuals, strict=True):
            rows = np.kron(rows, u if use else np.ones((1, u.shape[1])))
        pieces.append(rows.T @ rows)
    dense = np.vstack([np.sqrt(q.weight) * q.dense() for q in workload])
    gram = dense.T @ dense

    def total(logs: np.ndarray) -> float:
        cost = np.tensordot(np.exp(logs), np.array(pieces), axes=1)
        scaled = cost / np.diagonal(cost).max()
        return float(np.log(np.trace(gram @ np.linalg.pinv(scaled, rcond=1e-13))))

    start = -np.log([np.diagonal(piece).max() for piece in pieces])
    options: Any = {"maxiter": 20_000, "maxfev": 40_000, "xatol": 1e-9, "fatol": 1e-12}
    found = minimize(total, start, method="Nelder-Mead", options=options)
    again = minimize(total, found.x, method="Nelder-Mead", options=options)
    return float(np.exp(again.fun))


@pytest.mark.parametrize("strategy", [TREE, np.tril(np.ones((4, 4))), np.eye(4)])
@pytest.mark.parametrize("factor", [nz.Prefix(), nz.Ranges(), nz.Identity()])
def test_one_attribute(strategy: np.ndarray, factor: nz.Factor) -> None:
    workload = nz.Workload([nz.Query(nz.Schema.from_sizes({"x": 4}), {"x": factor})])
    plan = nz.plan(workload, budget=BUDGET, strategies={"x": strategy}, noise="gaussian")
    best = min(least_total(workload, [split(strategy)]) for split in (even, oblique))
    assert plan.total_variance == pytest.approx(best, rel=1e-5)
    measured = nz.plan(workload, budget=BUDGET, planner=nz.Strategy(strategy), noise="gaussian")
    assert plan.total_variance <= measured.total_variance * (1 + 1e-9)


TWO = nz.Schema.from_sizes({"x": 4, "y": 3})
BOTH = nz.Workload(
    [
        nz.Query(TWO, {"x": nz.Prefix(), "y": nz.Prefix()}),
        nz.Query(TWO, {"x": nz.Identity()}, weight=2.0),
    ]
)


@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_two_attributes(noise: str) -> None:
    given: dict[str, object] = {"x": TREE, "y": FIRST}
    plan = nz.plan(BOTH, budget=BUDGET, strategies=given, noise=noise)
    best = min(least_total(BOTH, [split(TREE), split(FIRST)]) for split in (even, oblique))
    assert plan.total_variance == pytest.approx(best, rel=1e-5 if noise == "gaussian" else 2e-3)
    cost = plan.cost_matrix()
    assert np.diagonal(cost).max() <= plan.privacy.pcost * (1 + 1e-12) <= 1.0 + 1e-11
    for query in BOTH:
        rows = query.dense()
        expected = np.einsum("ij,jk,ik->i", rows, np.linalg.pinv(cost), rows)
        np.testing.assert_allclose(plan.variance(query), expected, rtol=1e-8)


def test_other_attributes_are_the_best_beside_it() -> None:
    both = nz.plan(BOTH, budget=BUDGET, strategies={"x": TREE, "y": FIRST}, noise="gaussian")
    one = nz.plan(BOTH, budget=BUDGET, strategies={"x": TREE}, noise="gaussian")
    free = nz.plan(BOTH, budget=BUDGET, planner="residual", noise="gaussian")
    assert free.total_variance < one.total_variance < both.total_variance


@pytest.mark.parametrize(
    ("strategy", "same"),
    [
        ("prefix", np.tril(np.ones((4, 4)))),
        ("hierarchical", TREE),
        (nz.Prefix(), np.tril(np.ones((4, 4)))),
        ("identity", 3 * np.eye(4)),
        (TREE.tolist(), TREE[::-1]),
        (sp.csr_array(TREE), TREE),
        ("ranges", nz.Ranges()),
    ],
)
def test_names_and_factors_are_their_matrices(strategy: object, same: object) -> None:
    plans = [
        nz.plan(BOTH, budget=BUDGET, strategies={"x": given}, noise="gaussian")
        for given in (strategy, same)
    ]
    assert plans[0].total_variance == pytest.approx(plans[1].total_variance, rel=1e-8)


def test_attributes_that_look_alike_may_be_measured_differently(tmp_path: Path) -> None:
    schema = nz.Schema.from_sizes({"a": 4, "b": 4, "c": 4})
    workload = nz.Workload.marginals(schema, k=2)
    plan = nz.plan(workload, budget=BUDGET, strategies={"a": "prefix"})
    small, large = plan.variance("b × c").max(), plan.variance("a × b").max()
    assert small < large  # cells out of prefix sums cost more
    loaded = _saved(plan, tmp_path)
    for query in workload:
        np.testing.assert_allclose(loaded.variance(query), plan.variance(query), rtol=1e-9)
    assert loaded.total_variance == pytest.approx(plan.total_variance, rel=1e-9)


def _saved(plan: nz.Plan, folder: Path) -> nz.Plan:
    release = plan.release(np.full(plan.schema.shape, 10), seed=1)
    release.save(folder / "out")
    return nz.load(folder / "out").plan


def test_a_strategy_of_few_rows_for_a_workload_of_few() -> None:
    schema = nz.Schema.from_sizes({"x": 6, "y": 3})
    rows = np.array([[1, 1, 1, 0, 0, 0], [0, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]])
    workload = nz.Workload([nz.Query(schema, {"x": nz.Custom(rows), "y": nz.Identity()})])
    plan = nz.plan(workload, budget=BUDGET, strategies={"x": rows})
    simple = nz.plan(workload, budget=BUDGET, planner="workload")
    assert plan.total_variance < simple.total_variance
    counts = np.random.default_rng(1).integers(0, 50, (6, 3))
    runs = depth(300, 100)
    answers = [plan.release(counts, seed=seed).answer(workload[0]).estimate for seed in range(runs)]
    exact = workload[0].apply(counts.astype(float))
    spread = np.sqrt(plan.variance(workload[0]) / runs)
    assert (np.abs(np.mean(answers, axis=0) - exact) < 4.5 * spread).all()
    np.testing.assert_allclose(
        np.var(answers, axis=0), plan.variance(workload[0]), rtol=0.4 * np.sqrt(300 / runs)
    )


def test_targets_bounds_neighbours_and_objectives() -> None:
    given = {"x": TREE}
    name = BOTH[0].name
    plan = nz.plan(BOTH, targets={name: 25.0}, strategies=given)
    assert plan.variance(name).max() == pytest.approx(25.0, rel=1e-5)
    assert plan.variance(name).max() <= 25.0
    least = nz.plan(BOTH, objective=nz.RMSE(at_most=2.0), strategies=given)
    assert least.rmse <= 2.0 == pytest.approx(least.rmse, rel=1e-5)
    total = nz.plan(BOTH, budget=BUDGET, strategies=given)
    worst = nz.plan(BOTH, budget=BUDGET, strategies=given, objective=nz.WorstVariance())
    assert worst.worst_variance < total.worst_variance
    replaced = nz.plan(BOTH, budget=BUDGET, strategies=given, neighbours="replace")
    assert replaced.privacy.neighbours == "replace" and replaced.privacy.pcost <= 1.0


def test_the_plan_says_whose_strategies_they_are() -> None:
    plan = nz.plan(BOTH, budget=BUDGET, strategies={"x": TREE})
    assert "residual with strategies given for x (asked for)" in str(plan)
    assert plan.planner == "residual" and not plan.optimal


WRONG: Any = [("x", TREE)]


@pytest.mark.parametrize(
    ("given", "message", "how"),
    [
        ({"x": TREE[:, :3]}, "3 columns, and 'x' has 4 values", {}),
        ({"x": TREE * np.nan}, "finite numbers", {}),
        ({"x": np.eye(4)[:2]}, "does not determine every query about it", {}),
        ({"x": "hierarchicl"}, "one of identity, hierarchical, wavelet, prefix, ranges", {}),
        ({"x": "eigen"}, "one of identity", {}),
        ({"z": TREE}, "no attribute 'z'", {}),
        ({"x": nz.Custom([[1, 0]])}, "2 columns", {}),
        ({}, "maps attributes", {}),
        (WRONG, "maps attributes", {}),
        ({"x": TREE}, "planned by the residual family", {"planner": "optimal"}),
        ({"x": TREE}, "for Gaussian noise", {"budget": nz.PureDP(1.0)}),
    ],
)
def test_refusals(given: Any, message: str, how: dict[str, Any]) -> None:
    with pytest.raises(nz.NoiseplanError, match=message):
        nz.plan(BOTH, **({"budget": BUDGET} | how), strategies=given)


def test_an_attribute_that_nobody_asks_about_is_refused() -> None:
    with pytest.raises(nz.NoiseplanError, match="no query asks about it"):
        nz.plan(nz.Workload([BOTH[1]]), budget=BUDGET, strategies={"y": FIRST})


@pytest.mark.parametrize("make", [lambda: np.eye(5000), lambda: "identity"])
def test_long_attributes_are_refused(make: Callable[[], object]) -> None:
    workload = nz.Workload.marginals(nz.Schema.from_sizes({"x": 5000}), k=1)
    with pytest.raises(nz.NoiseplanError, match="at most 4,096 values"):
        nz.plan(workload, budget=BUDGET, strategies={"x": make()})
