"""Queries planned apart with Gaussian noise: never worse than each alone, and only where better."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import noiseplan as nz
from depth import some
from noiseplan.mechanisms.side_by_side import SideBySide
from noiseplan.planning.alone_bounds import least_largest, least_sums
from noiseplan.planning.budget_shares import for_loss, for_norm
from noiseplan.planning.planners import each_alone, queries_apart
from noiseplan.planning.problem import Problem
from noiseplan.progress import listening

BUDGET = nz.zCDP(0.5)
TAKEN = ("each query alone", "groups of queries")
RNG = np.random.default_rng(5)
WIDE = nz.Schema.from_sizes({"x": 80, "y": 12, "z": 60})  # too much for the optimum of all
DENSE = nz.Query(WIDE, ["x", "y"], matrix=(RNG.random((4, 960)) < 0.3).astype(float), name="dense")
TABLE = nz.Query(WIDE, {"x": nz.Identity(), "z": nz.Prefix()}, name="table")
BESIDE = nz.Workload([DENSE, TABLE])


def bands(values: int, width: int) -> nz.Levels:
    return nz.Levels([v // width for v in range(values)], leaves=False, total=False)


LONG = nz.Schema({"t": nz.Ordinal(range(1200)), "a": nz.Ordinal(range(20))})
CROSSED = nz.Workload(
    [
        nz.Query(LONG, {"t": nz.Prefix(), "a": bands(20, 5)}, name="fine"),
        nz.Query(LONG, {"t": bands(1200, 60), "a": nz.Identity()}, name="coarse"),
    ]
).weighted("tables")
MEAN = nz.ConvexLoss(lambda v: float((v**2).sum()), lambda v: 2 * v)
GOALS: dict[str, nz.Objective] = {
    "total": nz.TotalVariance(),
    "worst": nz.WorstVariance(),
    "3-norm": nz.PNormVariance(3.0),
}
POWERS = {"total": 1.0, "worst": np.inf, "3-norm": 3.0}


def every(plan: nz.Plan) -> np.ndarray:
    """Weight · variance of every row."""
    return np.concatenate([q.weight * plan.variance(q) for q in plan.workload])


def by_hand(workload: nz.Workload, score: str, **how: Any) -> float:
    """Each query planned alone, v at all of the budget: v/s at the share s, Σ (v/s)^p the least."""
    power = POWERS[score]
    alone = [nz.plan(query, objective=GOALS[score], **how) for query in workload]
    each = np.array([np.linalg.norm(every(plan), power) for plan in alone])
    shares = each if power == np.inf else each ** (power / (power + 1))
    return float(np.linalg.norm(each / (shares / shares.sum()), power))


@pytest.mark.parametrize(
    ("score", "noise"),
    some([("total", "discrete"), ("worst", "gaussian"), ("3-norm", "gaussian")], 1),
)
def test_a_matrix_beside_tables_is_never_worse_than_each_alone(score: str, noise: str) -> None:
    """By up to ten times worse before, where tables share an attribute with the matrix."""
    how: dict[str, Any] = {"budget": BUDGET, "noise": noise}
    plan = nz.plan(BESIDE, objective=GOALS[score], **how)
    found = np.linalg.norm(every(plan), POWERS[score])
    assert found <= by_hand(BESIDE, score, **how) * 1.01
    assert plan.considered[0] == ("each query alone", "taken")
    assert "each query alone (taken)" in str(plan)
    assert plan.privacy.rho <= 0.5
    assert plan.privacy.law == ("gaussian" if noise == "gaussian" else "zcdp")


@pytest.mark.parametrize("noise", some(["discrete", "gaussian"], 1))
def test_bands_are_never_worse_than_each_alone_where_records_are_replaced(noise: str) -> None:
    """By a sixth worse before."""
    schema = nz.Schema.from_sizes({"x": 40, "y": 20, "z": 6})
    one = nz.Query(schema, {"x": nz.Prefix(), "z": nz.Identity()})
    two = nz.Query(schema, {"x": bands(40, 6), "y": nz.Identity()})
    how: dict[str, Any] = {"budget": BUDGET, "neighbours": "replace", "noise": noise}
    plan = nz.plan([one, two], **how)
    assert plan.total_variance <= by_hand(nz.Workload([one, two]), "total", **how) * 1.01
    assert plan.considered[0] == ("each query alone", "taken")
    assert plan.privacy.neighbours == "replace"
    assert plan.privacy.rho <= 0.5


@pytest.mark.grid
@pytest.mark.parametrize("score", GOALS)
@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_a_long_attribute_crossed_is_never_worse_than_each_alone(score: str, noise: str) -> None:
    how: dict[str, Any] = {"budget": BUDGET, "noise": noise}
    plan = nz.plan(CROSSED, objective=GOALS[score], **how)
    assert np.linalg.norm(every(plan), POWERS[score]) <= by_hand(CROSSED, score, **how) * 1.01
    assert plan.considered[0][0] in TAKEN


@pytest.mark.few(1)
@pytest.mark.parametrize("workload", [CROSSED, BESIDE], ids=["series", "matrix"])
@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
def test_targets_are_met_for_no_more_than_the_sum_of_each(
    workload: nz.Workload, noise: str
) -> None:
    targets = {query.name: 3.0 * (i + 1) for i, query in enumerate(workload)}
    plan = nz.plan(workload, targets=targets, noise=noise)
    for name, target in targets.items():
        assert plan.variance(name).max() <= target * (1 + 1e-9)
    alone = [
        nz.plan(workload[name], targets={name: target}, noise=noise)
        for name, target in targets.items()
    ]
    assert plan.privacy.pcost <= 1.01 * sum(each.privacy.pcost for each in alone)
    spent = nz.plan(workload, targets=targets, budget=BUDGET, noise=noise)
    assert spent.target_scale is not None
    assert spent.privacy.rho <= 0.5
    assert spent.target_scale <= 1.01 * sum(each.privacy.pcost for each in alone)


def test_a_loss_of_ones_own_is_shared_for_as_well_as_can_be() -> None:
    plan = nz.plan(BESIDE, budget=BUDGET, noise="gaussian", objective=MEAN)
    alone = [nz.plan(query, budget=BUDGET, noise="gaussian") for query in BESIDE]
    means = np.array([every(each).mean() for each in alone])
    best = min(MEAN.value(means / np.array([s, 1 - s])) for s in np.linspace(0.01, 0.99, 981))
    found = MEAN.value(np.array([plan.variance(q).mean() for q in BESIDE]))
    assert found <= 1.01 * best


def test_groups_of_queries_have_more_in_common_than_each_alone() -> None:
    """Conditions are planned together, beside a table."""
    texts = {"one": "x < 30 or y < 4", "two": "x >= 50 or y > 9", "three": "x < 60 or y > 7"}
    conditions = list(nz.Workload.predicates(WIDE, texts))
    workload = nz.Workload([*conditions, TABLE])
    plan = nz.plan(workload, budget=BUDGET, noise="gaussian", objective=nz.WorstVariance())
    assert plan.considered[0] == ("groups of queries", "taken")
    assert isinstance(plan.mechanism, SideBySide) and len(plan.mechanism.mechanisms) == 2
    assert plan.worst_variance < 0.95 * by_hand(workload, "worst", budget=BUDGET, noise="gaussian")
    assert "groups of queries (taken)" in str(plan)


@pytest.mark.parametrize("people", some([3, 1], 1))
def test_no_record_pays_more_than_is_promised(people: int) -> None:
    """Over 57,600 cells: each is asked what it pays, of all parts together."""
    for workload in (BESIDE, nz.Workload([TABLE, DENSE])):
        plan = nz.plan(workload, budget=BUDGET, max_rows=people)
        assert isinstance(plan.mechanism, SideBySide)
        costs = plan.mechanism.cell_costs()
        assert costs.max() * people**2 <= plan.privacy.pcost <= 1.0
        each = [m.record_cost("add-remove") for m in plan.mechanism.mechanisms]
        assert plan.privacy.pcost == pytest.approx(sum(each) * people**2)


@pytest.mark.few(1)
@pytest.mark.parametrize("workload", [BESIDE, CROSSED], ids=["matrix", "series"])
def test_bounds_of_the_plan_that_was_beaten_are_kept(workload: nz.Workload, tmp_path: Path) -> None:
    """A bound is about the workload, whoever worked it out."""
    plan = nz.plan(workload, budget=BUDGET, noise="gaussian")
    with mock.patch.object(queries_apart, "solve", return_value=None):
        beaten = nz.plan(workload, budget=BUDGET, noise="gaussian")
    assert plan.total_variance < 0.99 * beaten.total_variance
    assert plan.lower_bound == pytest.approx(beaten.lower_bound, rel=1e-6)
    assert 0 < plan.lower_bound < plan.total_variance
    assert plan.certify().bound >= 0.999 * plan.lower_bound
    if beaten.gap is not None:
        assert plan.gap is not None and plan.gap < beaten.gap
    shape = workload.schema.shape
    plan.release(np.ones(shape, dtype=int), seed=1).save(tmp_path / "out", tables=[])
    loaded = nz.load(tmp_path / "out").plan
    assert isinstance(loaded.mechanism, SideBySide)
    for query in workload:
        assert np.array_equal(loaded.variance(query), plan.variance(query))


def test_ordinary_plans_are_not_planned_apart() -> None:
    """Bounds of single queries tell at once that nothing is to be gained."""
    schema = nz.Schema.from_sizes({"a": 20, "b": 12, "c": 40})
    usual = [
        nz.Workload.marginals(schema, up_to=2),
        nz.Workload.marginals(schema, up_to=2, factors={"a": nz.Prefix()}),
        nz.Workload.marginals(schema, k=2, factors={"a": nz.Prefix(), "c": nz.Ranges()}),
    ]
    goals = [(w, nz.TotalVariance()) for w in usual] + [(usual[2], nz.WorstVariance())]
    with mock.patch.object(each_alone.Apart, "plan", side_effect=AssertionError):
        for workload, goal in some(goals, 2):
            plan = nz.plan(workload, budget=BUDGET, objective=goal)
            assert not {name for name, _ in plan.considered} & set(TAKEN)


def test_progress_is_told() -> None:
    heard: list[str] = []
    with listening(lambda title, share: heard.append(title)):
        nz.plan(CROSSED, budget=BUDGET)
    assert "Planning queries apart" in heard


# ---------------------------------------------------------------------- what it rests on


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("seed", range(12))
def test_no_query_alone_is_below_its_bound(seed: int, neighbours: str) -> None:
    """The exact optimum of one query over a small domain, whatever its factors are."""
    rng = np.random.default_rng(seed)
    schema = nz.Schema.from_sizes({"a": int(rng.integers(2, 6)), "b": int(rng.integers(2, 5))})
    factors = [nz.Identity(), nz.Prefix(), nz.Ranges(), bands(schema["a"].size, 2)]
    custom = nz.Custom(rng.integers(-1, 3, (3, schema["a"].size)) + np.eye(3, schema["a"].size))
    asked = {"a": [*factors, custom][rng.integers(5)]}
    if rng.random() < 0.6:
        asked["b"] = factors[rng.integers(3)]
    query = nz.Query(schema, asked, weight=float(rng.uniform(0.5, 2)))
    if seed % 4 == 0:
        rows = (rng.random((4, schema.size)) < 0.4) + np.eye(4, schema.size)
        query = nz.Query(schema, ["a", "b"], matrix=rows)
    how: dict[str, Any] = {"neighbours": neighbours, "noise": "gaussian"}
    (bound,) = least_sums(Problem(nz.Workload([query]), BUDGET, **how))
    best = nz.plan(query, budget=BUDGET, planner="optimal", **how)
    assert 0 <= bound <= best.total_variance * (1 + 1e-6)
    if neighbours == "add-remove":
        assert bound >= 0.5 * best.total_variance


@pytest.mark.parametrize("second", [nz.Identity(), nz.Prefix()], ids=str)
@pytest.mark.parametrize("first", [nz.Prefix(), nz.Ranges(), nz.Levels(2)], ids=str)
def test_the_least_largest_variance_of_a_product_is_a_product(
    first: nz.Factor, second: nz.Factor
) -> None:
    schema = nz.Schema.from_sizes({"a": 5, "b": 4})
    query = nz.Query(schema, {"a": first, "b": second}, weight=2.0)
    how: dict[str, Any] = {"objective": nz.WorstVariance(), "noise": "gaussian"}
    (bound,) = least_largest(Problem(nz.Workload([query]), BUDGET, **how))
    best = nz.plan(query, budget=BUDGET, planner="optimal", **how)
    assert 0.995 * best.worst_variance <= bound <= best.worst_variance * (1 + 1e-6)


@pytest.mark.parametrize(
    "factor", [nz.Prefix(), nz.Ranges(), bands(40, 7), nz.Levels(10), nz.Identity()], ids=str
)
def test_formulas_for_long_attributes_are_nuclear_norms(factor: nz.Factor) -> None:
    """‖W‖_*²/n, n different columns; of levels together no more than that."""
    schema = nz.Schema({"t": nz.Ordinal(range(40), missing="none"), "a": nz.Ordinal(range(3))})
    query = nz.Query(schema, {"t": factor, "a": nz.Prefix()})
    with mock.patch("noiseplan.planning.alone_bounds.MOST_ROWS", 4):
        (found,) = least_sums(Problem(nz.Workload([query]), BUDGET))
    rows = query.matrix.dense()
    rows = rows[:, rows.any(axis=0)]
    truth = np.linalg.svd(rows, compute_uv=False).sum() ** 2 / rows.shape[1]
    assert found <= truth * (1 + 1e-9)
    assert found >= (0.5 if isinstance(factor, nz.Levels) else 0.999) * truth


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("power", [1.0, 2.5, np.inf])
def test_no_other_shares_of_the_budget_are_better(power: float, degree: int) -> None:
    values = np.array([3.0, 0.2, 17.0, 1.1])
    best = for_norm(values, power, degree)
    assert best.each.sum() == pytest.approx(1)

    def value(shares: np.ndarray) -> float:
        return float(np.linalg.norm(values / (shares / shares.sum()) ** degree, power))

    assert value(best.each) == pytest.approx(best.value)
    for size, seed in product((0.01, 0.3), range(40)):
        moved = best.each * np.exp(size * np.random.default_rng(seed).normal(size=4))
        assert value(moved) >= best.value * (1 - 1e-9)


@pytest.mark.parametrize(
    "loss",
    [
        MEAN,
        nz.ConvexLoss(lambda v: float(v.sum())),
        nz.ConvexLoss(lambda v: float(v.max())),
        nz.ConvexLoss(lambda v: float(np.exp(v / 40).sum())),
    ],
    ids=["squares", "sum", "largest", "exponential"],
)
def test_shares_for_a_loss_are_the_best_there_are(loss: nz.ConvexLoss) -> None:
    """The middle query has two entries, one before and one after the others."""
    means, owner = np.array([4.0, 1.0, 9.0, 2.5]), np.array([1, 0, 2, 1])
    best = for_loss(loss, means, owner, 1)
    grid = np.linspace(0.02, 0.96, 95)
    least = min(
        loss.value(means / np.array([s, t, 1 - s - t])[owner])
        for s, t in product(grid, grid)
        if s + t < 0.99
    )
    assert best.value == pytest.approx(loss.value(means / best.each[owner]))
    assert best.value <= least * (1 + 1e-3)
