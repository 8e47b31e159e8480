"""A bound for values that are grouped in ways that cross each other."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from depth import seeds
from long_attributes import planned_as_long
from noiseplan.domain.gram import workload_gram
from noiseplan.optimize.groups_bound import GroupsNorm
from noiseplan.optimize.optimum import dense_optimum
from noiseplan.planning import certify, crossing_groups
from noiseplan.planning.certify import reached
from noiseplan.planning.crossing_groups import least_along, least_norm, least_total
from noiseplan.planning.problem import Problem

BUDGET = nz.zCDP(0.5)


def grouped(group: np.ndarray) -> nz.Levels:
    return nz.Levels(np.unique(group, return_inverse=True)[1].tolist(), leaves=False, total=False)


def ways(places: int, seed: int) -> list[nz.Factor]:
    """Two ways to group places that cross each other, single places and their total."""
    rng = np.random.default_rng(seed)
    along, across = np.sort(rng.integers(0, 4, places)), rng.integers(0, 3, places)
    return [grouped(along), grouped(across), nz.Identity(), nz.Total()]


def crossing(seed: int, places: int = 12) -> nz.Workload:
    """Each way with something else of the others."""
    rng = np.random.default_rng([seed, 7])
    schema = nz.Schema.from_sizes({"place": places, "age": 5, "sex": 2})
    of_others = [{"age": nz.Prefix()}, {"age": nz.Identity()}, {}, {"age": nz.Ranges()}]
    queries = [
        nz.Query(
            schema,
            {"place": way, **others, **({"sex": nz.Identity()} if rng.random() < 0.5 else {})},
            weight=float(rng.choice([0.3, 1.0, 4.0])),
        )
        for way, others in zip(ways(places, seed), of_others, strict=True)
    ]
    return nz.Workload(queries)


@cache
def optimum(workload: nz.Workload) -> float:
    """The least weighted sum of variances at a cost of one, by cells × cells."""
    return dense_optimum(workload_gram(workload), 1e-7).bound


@pytest.mark.parametrize("seed", seeds(12))
def test_of_one_attribute_it_is_the_nuclear_norm(seed: int) -> None:
    """All records alike, from rows × cells that are written down."""
    schema = nz.Schema.from_sizes({"place": 12})
    weights = np.random.default_rng(seed).uniform(0.2, 3.0, 4)
    workload = nz.Workload(
        [
            nz.Query(schema, {"place": way}, weight=w)
            for way, w in zip(ways(12, seed), weights, strict=True)
        ]
    )
    rows = np.concatenate([np.sqrt(query.weight) * query.dense() for query in workload])
    norm = np.linalg.norm(rows / np.sqrt(12), "nuc") ** 2
    assert least_along(Problem(workload, BUDGET), 0) == pytest.approx(norm, rel=1e-7)


@pytest.mark.parametrize("seed", seeds(16))
def test_nothing_is_below_it(seed: int) -> None:
    workload = crossing(seed)
    found = least_along(Problem(workload, BUDGET), 0)
    assert found is not None
    assert 0.9 * optimum(workload) < found <= optimum(workload) * (1 + 1e-9)


@pytest.mark.grid
@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("goal", [nz.WorstVariance(), nz.PNormVariance(3), "targets"])
def test_no_norm_is_below_it(goal: nz.WorstVariance | nz.PNormVariance | str, seed: int) -> None:
    """Beside the optimum over cells; for targets, on the cost that meets them."""
    workload = crossing(seed, places=9)
    how: dict[str, Any] = {"planner": "optimal", "noise": "gaussian"}
    if isinstance(goal, str):
        targets = np.random.default_rng(seed).uniform(0.5, 4.0, len(workload))
        named = dict(zip([query.name for query in workload], targets, strict=True))
        least = nz.plan(workload, targets=named, **how).privacy.pcost
        problem, power = Problem(workload, targets=targets), np.inf
    else:
        least = reached(nz.plan(workload, budget=BUDGET, objective=goal, **how))  # at cost one
        problem = Problem(workload, BUDGET, objective=goal)
        power = goal.p if isinstance(goal, nz.PNormVariance) else np.inf
    with planned_as_long(values=8):
        found = least_norm(problem, power)
    assert found is not None
    assert 0.6 * least < found <= least * (1 + 1e-9)


def test_single_places_may_be_all_that_a_set_is_asked_for() -> None:
    """No set of others is asked by groups here but the empty one."""
    along, across, single, _ = ways(9, seed=0)
    schema = nz.Schema.from_sizes({"place": 9, "age": 3})
    workload = nz.Workload(
        [
            nz.Query(schema, {"place": along}),
            nz.Query(schema, {"place": across}),
            nz.Query(schema, {"place": single, "age": nz.Prefix()}),
        ]
    )
    least = reached(nz.plan(workload, budget=BUDGET, objective="worst", planner="optimal"))
    with planned_as_long(values=8):
        plan = nz.plan(workload, budget=BUDGET, objective="worst")
        assert 0.5 * least < plan.certify().bound <= least * (1 + 1e-6)


@pytest.mark.parametrize("seed", seeds(4))
def test_the_slopes_of_the_norm(seed: int) -> None:
    """By differences, also where groups are more than values."""
    rng = np.random.default_rng(seed)
    groups = tuple(np.unique(rng.integers(0, n, 14), return_inverse=True)[1] for n in (3, 9, 12))
    norm = GroupsNorm((*groups, np.arange(14)), 100)
    counted = rng.uniform(0.1, 2.0, (4, 2))
    counted[1, 0] = counted[3, 1] = 0.0
    slopes, step = norm.slopes(counted), 1e-6
    for at in np.argwhere(counted > 0):
        moved = [counted.copy(), counted.copy()]
        for each, sign in zip(moved, (1, -1), strict=True):
            each[tuple(at)] += sign * step
        risen = (norm.root_trace(moved[0]) - norm.root_trace(moved[1])) / (2 * step)
        assert slopes[tuple(at)] == pytest.approx(risen, rel=1e-5)
    assert slopes[1, 0] == slopes[3, 1] == 0


def test_ways_of_many_groups_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left is a bound still, and no better."""
    problem = Problem(crossing(3), BUDGET)
    whole = least_along(problem, 0)
    monkeypatch.setattr(crossing_groups, "MOST_GROUPS", 3)
    monkeypatch.setattr(crossing_groups, "FEW_GROUPS", 3)
    some = least_along(problem, 0)
    assert whole is not None
    assert some is not None
    assert 0.3 * whole < some < whole


@pytest.mark.parametrize("seed", seeds(6))
def test_conditions_count_what_they_have_alone(seed: int) -> None:
    workload = crossing(seed)
    schema, rng = workload.schema, np.random.default_rng(seed)
    condition = nz.Query(
        schema,
        {"place": nz.Custom(rng.integers(0, 2, (1, 12)).tolist()), "age": nz.Prefix()},
        weight=30.0,
    )
    matrix = nz.Query(schema, ["place", "sex"], matrix=rng.integers(0, 3, (2, 24)))
    every = workload + nz.Workload([condition, matrix])
    found, tables = (least_along(Problem(asked, BUDGET), 0) for asked in (every, workload))
    assert found is not None
    assert tables is not None
    assert tables * (1 + 1e-3) < found <= optimum(every) * (1 + 1e-9)


def test_places_that_are_missing() -> None:
    """Records whose place is stated pay for what is asked of them, whoever else there is."""
    attribute = nz.Ordinal(range(12), missing="unknown")
    schema = nz.Schema({"place": attribute, "age": nz.Ordinal(range(4))})
    rng = np.random.default_rng(5)
    along, across = np.sort(rng.integers(0, 4, 12)), rng.integers(0, 3, 12)
    workload = nz.Workload(
        [
            nz.Query(schema, {"place": grouped(along), "age": nz.Prefix()}),
            nz.Query(schema, {"place": grouped(across)}),
            nz.Query(schema, ["place"]),
        ]
    )
    found = least_along(Problem(workload, BUDGET), 0)
    assert found is not None
    assert 0.8 * optimum(workload) < found <= optimum(workload) * (1 + 1e-9)


def test_trees_short_attributes_and_replaced_records_have_other_bounds() -> None:
    schema = nz.Schema.from_sizes({"place": 12, "age": 3})
    inside = [grouped(np.arange(12) // n) for n in (2, 4)]
    tree = nz.Workload([nz.Query(schema, {"place": way, "age": nz.Prefix()}) for way in inside])
    assert least_along(Problem(tree, BUDGET), 0) is None
    assert least_total(Problem(crossing(1), BUDGET)) is None
    with planned_as_long(values=8):
        assert least_total(Problem(crossing(1), BUDGET)) is not None
        assert least_total(Problem(crossing(1), BUDGET, neighbours="replace")) is None


def test_plans_of_crossing_groups_say_how_good_they_are() -> None:
    """They said that they may have twice the variance of the best."""
    workload = crossing(2, places=40)
    with planned_as_long(values=30):
        plan = nz.plan(workload, budget=BUDGET)
        certified = certify._along_attribute(plan)
    assert plan.considered[0][0] == "groups of queries"
    assert plan.lower_bound < optimum(workload) < plan.total_variance < 1.2 * plan.lower_bound
    assert certified == pytest.approx(plan.lower_bound, rel=1e-6)
