"""Noise on the workload's own rows: the best shares, and never worse than noise made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import noiseplan as nz
from depth import seeds
from noiseplan.errors import PlanError
from noiseplan.mechanisms.workload_rows import WorkloadRowsMechanism
from noiseplan.optimize.allocation import share_among_records, shared_for_total
from noiseplan.planning.planners import noise_on_rows
from noiseplan.planning.problem import Problem

BANDS = nz.Levels(10, leaves=False, total=False)
I = nz.Identity()  # noqa: E741
HALF, PURE = nz.zCDP(0.5), nz.PureDP(1.0)


def two_resolutions(which: int) -> nz.Workload:
    if which == 0:
        schema = nz.Schema.from_sizes({"age": 100, "sex": 2, "region": 50})
        wide = {"age": BANDS, "sex": I, "region": I}
        tables = [["age", "sex"], wide, ["region"]]
    elif which == 1:
        schema = nz.Schema.from_sizes({"a": 40, "b": 40})
        tables = [["a"], {"a": nz.Levels(5, leaves=False, total=False), "b": I}]
    else:
        schema = nz.Schema.from_sizes({"c": 200, "a": 10, "s": 2})
        tables = [["c"], {"c": BANDS, "a": I, "s": I}]
    return nz.Workload([nz.Query(schema, table) for table in tables])  # type: ignore[arg-type]


def by_hand(workload: nz.Workload, power: int) -> float:
    """Independent noise on each table, shared as is best where every record is once in each:
    (Σ √r)² at a cost of one, or 2(Σ r^{1/3})³ at ε = 1."""
    rows = workload.sizes * workload.columns.weights
    return float((rows**0.5).sum() ** 2 if power == 2 else 2 * np.cbrt(rows).sum() ** 3)


@pytest.mark.few(1)
@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("budget", [HALF, PURE])
def test_two_resolutions_are_no_worse_than_noise_on_each_table(
    which: int, budget: nz.Budget
) -> None:
    workload = two_resolutions(which)
    plan = nz.plan(workload, budget=budget)
    assert plan.total_variance < 0.999 * by_hand(workload, 1 if budget is PURE else 2)
    continuous = "laplace" if budget is PURE else "discrete"
    planned = noise_on_rows.on_rows(Problem(workload, budget, noise=continuous))
    np.testing.assert_allclose(planned.value, by_hand(workload, planned.costs.power), rtol=2e-3)


def conjunctions(count: int) -> nz.Workload:
    schema = nz.Schema.from_sizes({"a": 10, "b": 12, "c": 8, "d": 6, "e": 10, "f": 10})
    rng, made = np.random.default_rng(0), []
    for number in range(count):
        factors = {}
        for i in rng.choice(6, 3, replace=False):
            values = np.zeros((1, schema.shape[i]))
            chosen = rng.choice(schema.shape[i], rng.integers(1, schema.shape[i]), replace=False)
            values[0, chosen] = 1
            factors[schema.names[i]] = nz.Custom(values)
        made.append(nz.Query(schema, factors, name=f"condition {number}"))
    return nz.Workload(made)


def test_conjunctions_are_better_than_noise_on_every_one() -> None:
    """√20 = 4.47 where a record pays as if it met all twenty."""
    plan = nz.plan(conjunctions(20), budget=HALF)
    assert plan.rmse < 2.7
    assert nz.plan(conjunctions(20), budget=PURE).rmse < 0.5 * 20 * 2**0.5
    assert plan.privacy.rho <= 0.5


def test_matrices_of_one_row() -> None:
    schema, rng = nz.Schema.from_sizes({"a": 6, "b": 7, "c": 5, "d": 4}), np.random.default_rng(1)
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("a", "c")]
    queries = [
        nz.Query(
            schema,
            list(on),
            matrix=rng.random((1, schema[on[0]].size * schema[on[1]].size)) < 0.4,
            name=f"{on} {i}",
        )
        for on in pairs
        for i in range(2)
    ]
    plan = nz.plan(nz.Workload(queries), budget=HALF)
    assert plan.rmse < 10**0.5


def test_conditions_on_long_attributes() -> None:
    schema = nz.Schema.from_sizes({"age": 300, "income": 400, "zip": 500})
    words = ["age < 30 or income > 20", "zip < 100 or age > 7", "income < 40 or zip > 9"]
    plan = nz.plan(nz.Workload.predicates(schema, words), budget=HALF)
    assert plan.rmse <= 3**0.5 * (1 + 1e-6)


# ---------------------------------------------------------------------- shares


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("seed", seeds(3))
def test_shares_among_records_are_those_of_a_solver(power: int, seed: int) -> None:
    """Against sequential quadratic programming over the logarithms of all sizes."""
    rng = np.random.default_rng(seed)
    met, weight = (rng.random((7, 5)) < 0.5) + 0.0, rng.uniform(0.5, 3, 5)
    met[0, met.sum(axis=0) == 0] = 1.0
    found = shared_for_total(met, weight, power)
    best = minimize(
        lambda y: weight @ np.exp(power * y),
        np.log(found * 1.3),
        constraints={"type": "ineq", "fun": lambda y: 1 - met @ np.exp(-y)},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert (met @ (1 / found)).max() <= 1 + 1e-12
    assert best.fun * (1 - 1e-6) <= weight @ found**power <= best.fun * (1 + 2e-3)


def test_records_are_found_until_none_pays_more() -> None:
    rng = np.random.default_rng(4)
    met, weight = (rng.random((200, 12)) < 0.3) + 0.0, np.ones(12)
    met = met[met.any(axis=1)]

    def dearest(sizes: np.ndarray) -> np.ndarray:
        return np.asarray(met[np.argmax(met @ (1 / sizes))])

    sizes = share_among_records(dearest, lambda some: _spread(some, weight), np.ones(12))
    assert (met @ (1 / sizes)).max() <= 1 + 1e-12
    assert weight @ sizes <= 1.003 * (weight @ shared_for_total(met, weight, 1))


def _spread(met: np.ndarray, weight: np.ndarray) -> np.ndarray:
    sizes, seen = np.zeros(len(weight)), met.any(axis=0)
    sizes[seen] = shared_for_total(met[:, seen], weight[seen], 1)
    return sizes


# ---------------------------------------------------------------------- objectives and neighbours

SMALL = nz.Schema.from_sizes({"a": 6, "b": 5, "c": 3})
MIXED = nz.Workload(
    [
        nz.Query(SMALL, ["a"], weight=3.0, name="first"),
        nz.Query(SMALL, {"a": nz.Levels([0, 0, 1, 1, 1, 2], leaves=False, total=False), "b": I}),
        nz.Query(SMALL, {"b": nz.Prefix(), "c": I}, name="sums"),
        nz.Query(SMALL, ["a"], name="again"),
    ]
)


def value_of(mechanism: WorkloadRowsMechanism, goal: nz.Objective, workload: nz.Workload) -> float:
    each = [q.weight * mechanism.variance(q) for q in workload]
    if isinstance(goal, nz.ConvexLoss):
        return goal.value(np.array([rows.mean() for rows in each]))
    rows = np.concatenate(each)
    if isinstance(goal, nz.WorstVariance):
        return float(rows.max())
    p = goal.p if isinstance(goal, nz.PNormVariance) else 1.0
    return float((rows**p).sum() ** (1 / p))


GOALS = [
    nz.TotalVariance(),
    nz.WorstVariance(),
    nz.PNormVariance(3),
    nz.ConvexLoss(lambda v: float((v**2).sum())),
]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_every_objective_has_its_own_shares(goal: nz.Objective, neighbours: Any) -> None:
    """Never worse than noise of one size on all rows, and within the budget."""
    problem = Problem(MIXED, HALF, objective=goal, neighbours=neighbours, noise="gaussian")
    found = noise_on_rows.solve(problem)
    mechanism = found.mechanism
    assert isinstance(mechanism, WorkloadRowsMechanism)
    assert mechanism.workload.rows == MIXED.rows - 6  # equal queries once
    assert 1 - 1e-6 < mechanism.cost(neighbours).pcost <= 1
    even = WorkloadRowsMechanism(SMALL, mechanism.workload, None, nz.noise.Noise("gaussian", 1.0))
    cost = even.record_cost(neighbours)
    even = WorkloadRowsMechanism(SMALL, mechanism.workload, None, nz.noise.Noise("gaussian", cost))
    assert value_of(mechanism, goal, MIXED) <= value_of(even, goal, MIXED) * (1 + 1e-9)


@pytest.mark.parametrize("budget", [None, HALF])
def test_targets_are_met_at_the_least_cost(budget: nz.Budget | None) -> None:
    targets = np.array([2.0, 40.0, 9.0, 2.0])
    found = noise_on_rows.solve(Problem(MIXED, budget, targets))
    scale = max(
        (found.mechanism.variance(q) / t).max() for q, t in zip(MIXED, targets, strict=True)
    )
    if budget is None:
        assert 0.999 < scale <= 1
    alone = {"a": 2.0, "bands": 40.0, "sums": 9.0}
    by_hand = 1 / alone["a"] + 1 / alone["bands"] + 5 / alone["sums"]  # the first value of b
    assert found.privacy.pcost * scale <= by_hand * (1 + 1e-6)


@pytest.mark.grid
@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_auto_is_never_worse_than_own_rows(goal: nz.Objective, neighbours: Any) -> None:
    how = {"objective": goal, "neighbours": neighbours, "noise": "gaussian"}
    schema = nz.Schema.from_sizes({"a": 40, "b": 30})
    bands = {"a": nz.Levels(10, leaves=False, total=False), "b": I}
    workload = nz.Workload([nz.Query(schema, ["a"]), nz.Query(schema, bands)])
    plan = nz.plan(workload, budget=HALF, **how)  # type: ignore[arg-type]
    alone = noise_on_rows.solve(Problem(workload, HALF, **how))  # type: ignore[arg-type]
    mechanism = alone.mechanism
    assert value_of(plan.mechanism, goal, workload) <= value_of(mechanism, goal, workload) / 0.99  # type: ignore[arg-type]


# ---------------------------------------------------------------------- by name, and refusals


@pytest.mark.parametrize("budget", [HALF, PURE])
def test_the_workload_by_name_over_any_domain(budget: nz.Budget) -> None:
    schema = nz.Schema.from_sizes({f"x{i}": 30 for i in range(12)})
    prefix = nz.Query(schema, {"x0": nz.Prefix(), "x1": nz.Levels(10)}, name="sums")
    workload = nz.Workload([prefix, nz.Query(schema, ["x2", "x3"])])
    plan = nz.plan(workload, budget=budget, planner="workload")
    assert plan.planner == "workload"
    data = {name: [3, 4, 4] for name in schema.names}
    release = plan.release(data, seed=3)
    assert len(release.answer("sums").estimate.ravel()) == 1020
    with pytest.raises(PlanError, match="measures the rows of the queries themselves"):
        fraction = nz.Query(schema, {"x0": nz.Custom(np.full((1, 30), 0.5))}, name="half")
        nz.plan(nz.Workload([fraction]), budget=budget, planner="workload")


def test_fractions_are_said_not_to_be_tried() -> None:
    schema = nz.Schema.from_sizes({"a": 40, "b": 6})
    share = nz.Custom(np.full((1, 40), 0.3) * (np.arange(40) < 9))
    queries = [{"a": share, "b": I}, {"a": BANDS, "b": nz.Prefix()}, {"a": I}]
    workload = nz.Workload([nz.Query(schema, factors) for factors in queries])
    plan = nz.plan(workload, budget=PURE)
    assert ("own rows", "not tried, rows that are not whole numbers") in plan.considered


def test_matrices_over_a_domain_are_planned_by_one() -> None:
    schema, rng = nz.Schema.from_sizes({"a": 20, "b": 15}), np.random.default_rng(2)
    rows = (rng.random((12, 300)) < 0.3).astype(float)
    workload = nz.Workload([nz.Query(schema, ["a", "b"], matrix=rows)])
    plan, best = (nz.plan(workload, budget=HALF, planner=p) for p in ("auto", "optimal"))
    assert plan.considered == (("optimal", "taken"),)
    np.testing.assert_allclose(plan.total_variance, best.total_variance, rtol=1e-3)


def test_plans_of_own_rows_are_chosen_among_where_domains_are_small() -> None:
    """And refused in words where they are not, but for the same queries."""
    schema = nz.Schema.from_sizes({"a": 40, "b": 20})
    bands = {"a": nz.Levels(10, leaves=False, total=False), "b": I}
    first = nz.Workload([nz.Query(schema, ["a"]), nz.Query(schema, bands)])
    second = nz.Workload([nz.Query(schema, ["b"]), nz.Query(schema, bands)])
    plans = [nz.plan(w, budget=HALF) for w in (first, second)]
    assert nz.adaptive(plans).common.privacy.rho <= 0.5
    wide = two_resolutions(0)
    asked = (wide, wide, wide.subset([0]))
    large = [nz.plan(workload, budget=HALF, planner="workload") for workload in asked]
    assert nz.adaptive(large[:2]).common.privacy.rho == pytest.approx(0.5)
    with pytest.raises(PlanError, match="measures the rows of its queries; explicit"):
        nz.adaptive(large[1:])


def test_other_objectives_and_targets_over_small_domains_are_planned_by_name() -> None:
    """Noise on two separate tables: the worst variance is that of sizes shared by hand."""
    schema = nz.Schema.from_sizes({"a": 10, "b": 20})
    workload = nz.Workload([nz.Query(schema, ["a"]), nz.Query(schema, ["b"], weight=4.0)])
    plan = nz.plan(workload, budget=nz.zCDP(0.5), planner="workload", objective=nz.WorstVariance())
    # Each record meets one row of each table: σ₁⁻² + σ₂⁻² = 1 and σ₁² = 4σ₂² = 5, or better, as
    # the totals of both tables are the same.
    assert plan.worst_variance <= 5.0
    assert plan.privacy.rho <= 0.5
    aimed = nz.plan(workload, targets=3.0, planner="workload")
    assert max(aimed.variance(query).max() for query in workload) <= 3.0
