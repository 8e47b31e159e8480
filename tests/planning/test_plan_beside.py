"""Conditions beside tables of an attribute: planned as whole levels, against dense optima."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from depth import seeds
from long_attributes import planned_as_long
from noiseplan.mechanisms.measured_levels import LevelsMechanism
from noiseplan.mechanisms.measured_series import SeriesMechanism
from noiseplan.mechanisms.side_by_side import SideBySide
from noiseplan.planning.candidate import reached
from noiseplan.planning.planner import FAMILIES
from noiseplan.planning.problem import Problem
from noiseplan.planning.stand_ins import StandIn, stand_in

BUDGET = nz.zCDP(0.5)
VALUE = nz.Identity()
PLACES = [f"{county}{tract}{place}" for county, tract, place in product("abc", "12", "xy")]
GEO = nz.Hierarchical.from_codes(PLACES, {"county": 1, "tract": 2}, leaf="place")
SCHEMA = nz.Schema({"geo": GEO, "age": nz.Ordinal(range(4)), "sex": nz.Categorical(["F", "M"])})
TIMES = nz.Schema({"time": nz.Ordinal(range(12)), "sex": nz.Categorical(["F", "M"])})


def tables() -> nz.Workload:
    """Each level by something else, and no level alike."""
    return nz.Workload(
        [
            nz.Query(SCHEMA, {"geo": nz.Level("county"), "age": nz.Prefix(), "sex": VALUE}),
            nz.Query(SCHEMA, {"geo": nz.Level("tract"), "age": nz.Levels(2, leaves=False)}),
            nz.Query(SCHEMA, {"geo": VALUE, "sex": VALUE}),
        ]
    )


def series() -> nz.Workload:
    return nz.Workload([nz.Query(TIMES, {"time": nz.Prefix(), "sex": VALUE})])


CONDITIONS = {
    "a county": ["county = 'b' and age < 2"],
    "every county": [f"county = '{county}' and age < 2" for county in "abc"],
    "tracts": ["tract in ('a1', 'a2', 'b1') and sex = 'F'"],
    "places": ["place in ('a1x', 'c2y') and age = 3"],
    "either": ["county = 'a' or age < 2"],
    "some of each": ["county = 'c' and sex = 'M'", "place = 'b2x'", "county = 'a' or sex = 'F'"],
}
GOALS: list[Any] = [nz.TotalVariance(), nz.WorstVariance(), nz.PNormVariance(3.0)]
GOALS.append(nz.ConvexLoss(lambda v: float((v**2).sum()), lambda v: 2 * v))


def with_conditions(name: str) -> nz.Workload:
    return tables() + nz.Workload.predicates(SCHEMA, CONDITIONS[name])


@pytest.fixture
def long() -> Iterator[None]:
    """Attributes of five values are long."""
    with planned_as_long():
        yield


def of_least_squares(plan: nz.Plan, workload: nz.Workload) -> list[np.ndarray]:
    exact = np.linalg.pinv(plan.cost_matrix(), hermitian=True)
    return [np.einsum("rx,xy,ry->r", q.dense(), exact, q.dense()) for q in workload]


# ---------------------------------------------------------------------- what is planned


@pytest.mark.few(3)
@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize("name", CONDITIONS)
def test_near_the_optimum_and_never_below_its_bound(long: None, name: str, goal: Any) -> None:
    workload = with_conditions(name)
    best = nz.plan(
        workload, budget=BUDGET, noise="gaussian", objective=goal, planner="optimal"
    ).certify()
    plan = nz.plan(workload, budget=BUDGET, noise="gaussian", objective=goal)
    found = plan.certify()
    assert best.bound * (1 - 2e-3) <= found.bound <= best.value * (1 + 1e-9)
    # A loss of squares is as far above as the square of its variances.
    most = 1.3**2 if isinstance(goal, nz.ConvexLoss) else 1.3
    assert best.bound * (1 - 1e-9) <= found.value <= most * best.value
    assert np.diagonal(plan.cost_matrix()).max() <= 2 * BUDGET.rho * (1 + 1e-9)


@pytest.mark.few(2)
@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize("name", CONDITIONS)
def test_the_optimum_is_taken_or_known_where_the_rank_is_low(name: str, goal: Any) -> None:
    """After plans of long attributes too: they are within a per cent of it, and say so at once."""
    workload = with_conditions(name)
    how = {"budget": BUDGET, "noise": "gaussian", "objective": goal}
    best = nz.plan(workload, planner="optimal", **how).certify()
    with planned_as_long(optimum=True):
        plan = nz.plan(workload, **how)
    told = plan.certificate
    assert told is not None
    assert best.bound * (1 - 0.011) <= told.bound <= best.value * (1 + 1e-9)
    assert best.bound * (1 - 1e-9) <= told.value <= 1.011 * best.value
    assert np.diagonal(plan.cost_matrix()).max() <= 2 * BUDGET.rho * (1 + 1e-9)


@pytest.mark.few(1)
@pytest.mark.parametrize("budget", [None, BUDGET], ids=str)
@pytest.mark.parametrize("name", ["a county", "some of each"])
def test_targets_have_the_least_cost_or_know_how_near_it_is(name: str, budget: Any) -> None:
    workload = with_conditions(name)
    how = {"budget": budget, "noise": "gaussian", "targets": 7.0}
    best = nz.plan(workload, planner="optimal", **how)
    with planned_as_long(optimum=True):
        plan = nz.plan(workload, **how)
    cost, least = (p.privacy.pcost * p.target_scale for p in (plan, best))
    assert least * (1 - 1e-3) <= cost <= 1.011 * least
    told = plan.certificate
    assert told is not None
    # With a budget it is of the cost that brings the same scale.
    scale = 1.0 if budget is None else plan.target_scale
    assert 0.98 * least <= told.bound * scale <= least * (1 + 1e-6)


@pytest.mark.grid
@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
@pytest.mark.parametrize("name", ["a county", "every county", "tracts", "places"])
def test_errors_are_those_of_least_squares(long: None, name: str, noise: str) -> None:
    workload = with_conditions(name)
    plan = nz.plan(workload, budget=BUDGET, noise=noise)
    assert isinstance(plan.mechanism, LevelsMechanism)
    for query, expected in zip(workload, of_least_squares(plan, workload), strict=True):
        np.testing.assert_allclose(plan.variance(query), expected, rtol=1e-6)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_costs_the_tables_hardly_anything(long: None, name: str) -> None:
    """Beside some fifty rows of tables, a few more."""
    workload = with_conditions(name)
    plan, alone = (nz.plan(asked, budget=BUDGET) for asked in (workload, tables()))
    for query in tables():
        assert plan.variance(query).mean() <= 1.35 * alone.variance(query).mean()
    assert plan.total_variance <= 1.3 * alone.total_variance


@pytest.mark.parametrize("condition", ["time < 5", "time >= 3 and time < 9", "time = 7"])
def test_conditions_on_places_in_order(long: None, condition: str) -> None:
    asked = f"{condition} and sex = 'F'"
    workload = series() + nz.Workload.predicates(TIMES, [asked])
    plan = nz.plan(workload, budget=BUDGET, noise="gaussian")
    assert isinstance(plan.mechanism, SeriesMechanism)
    for query, expected in zip(workload, of_least_squares(plan, workload), strict=True):
        np.testing.assert_allclose(plan.variance(query), expected, rtol=1e-6)
    best = nz.plan(workload, budget=BUDGET, noise="gaussian", planner="optimal").certify()
    assert plan.certify().bound <= best.value * (1 + 1e-9)
    assert plan.total_variance <= 1.1 * best.value


@pytest.mark.few(1)
@pytest.mark.parametrize("budget", [None, BUDGET], ids=str)
@pytest.mark.parametrize("name", CONDITIONS)
def test_targets_of_conditions_are_met(long: None, name: str, budget: Any) -> None:
    workload = with_conditions(name)
    targets = {query.name: 4.0 + i for i, query in enumerate(workload)}
    plan = nz.plan(workload, budget=budget, targets=targets)
    ratios = [plan.variance(query).max() / targets[query.name] for query in workload]
    scale = 1.0 if budget is None else plan.target_scale
    assert scale is not None and max(ratios) <= scale * (1 + 1e-9)
    assert max(ratios) >= 0.995 * scale
    best = nz.plan(workload, noise="gaussian", targets=targets, planner="optimal")
    cost = plan.privacy.pcost * max(ratios)
    assert best.privacy.pcost * (1 - 1e-3) <= cost <= 1.25 * best.privacy.pcost
    if budget is None:  # a bound on the cost, which nothing that meets them is below
        assert plan.certify().bound <= best.certify().value * (1 + 1e-9)


def test_groups_that_cross_are_planned_beside_the_tree(long: None) -> None:
    """Every second place: no level of the geography, nor a sum of few of its nodes."""
    every_second = nz.Levels(list(range(2)) * 6, leaves=False, total=False)
    crossing = nz.Query(SCHEMA, {"geo": every_second, "age": VALUE, "sex": VALUE}, weight=20.0)
    workload = tables() + crossing
    plan = nz.plan(workload, budget=BUDGET, noise="gaussian")
    assert isinstance(plan.mechanism, SideBySide)
    best = nz.plan(workload, budget=BUDGET, noise="gaussian", planner="optimal")
    assert best.total_variance <= plan.total_variance <= 1.3 * best.total_variance
    assert plan.certify().bound <= best.total_variance


@pytest.mark.few(1)
@pytest.mark.parametrize("rho", [0.5, 50.0])
def test_rows_that_are_too_many_for_their_errors_are_passed_over(rho: float) -> None:
    """The table over its cells crossed with the condition's is above the limit of dense numbers."""
    codes = [f"{c}{t}{p}" for c, t, p in product(range(6), range(9), range(5))]
    geo = nz.Hierarchical.from_codes(codes, {"county": 1, "tract": 2}, leaf="place")
    schema = nz.Schema({"geo": geo, "age": nz.Ordinal(range(60))})
    table = nz.Query(schema, {"geo": nz.Level("tract"), "age": VALUE})
    asked = nz.Workload([table]) + nz.Workload.predicates(schema, ["age >= 30 or tract = '00'"])
    plan = nz.plan(asked, budget=nz.zCDP(rho))
    assert plan.privacy.rho <= rho
    # No more than both alone with half of the budget each.
    alone = [nz.plan(asked.subset([i]), budget=nz.zCDP(rho / 2)).total_variance for i in (0, 1)]
    assert plan.total_variance <= sum(alone) * (1 + 1e-3)


def test_two_thousand_places_take_no_matrix_over_places() -> None:
    codes = [f"{c:02d}{t:02d}{p}" for c in range(40) for t in range(10) for p in range(5)]
    geo = nz.Hierarchical.from_codes(codes, {"county": 2, "tract": 4}, leaf="place")
    schema = nz.Schema(
        {"geo": geo, "age": nz.Ordinal(range(20)), "sex": nz.Categorical(["F", "M"])}
    )
    asked = nz.Workload(
        [
            nz.Query(schema, {"geo": nz.Level("county"), "age": VALUE, "sex": VALUE}),
            nz.Query(schema, {"geo": nz.Level("tract"), "age": nz.Levels(5, leaves=False)}),
            nz.Query(schema, {"geo": VALUE, "sex": VALUE}),
        ]
    )
    conditions = ["county = '01' and age < 18", "tract in ('0103', '0700') and sex = 'F'"]
    plan = nz.plan(asked + nz.Workload.predicates(schema, conditions), budget=BUDGET)
    alone = nz.plan(asked, budget=BUDGET)
    assert isinstance(plan.mechanism, LevelsMechanism)
    assert plan.total_variance <= 1.01 * alone.total_variance
    assert plan.certify().gap <= 0.01


def test_planned_released_saved_and_answered(long: None, tmp_path: Path) -> None:
    """With next to no noise, the answers to all of it are the counts."""
    workload = with_conditions("some of each")
    rng = np.random.default_rng(3)
    data = {
        "geo": rng.choice(PLACES, 300),
        "age": rng.integers(0, 4, 300),
        "sex": rng.choice(["F", "M"], 300),
    }
    nz.plan(workload, budget=nz.zCDP(1e8)).release(data).save(tmp_path / "out", tables=[])
    release = nz.load(tmp_path / "out")
    county, young = np.char.startswith(data["geo"], "c"), data["sex"] == "F"
    first = np.char.startswith(data["geo"], "a")
    expected = [
        (county & (data["sex"] == "M")).sum(),
        (data["geo"] == "b2x").sum(),
        (first | young).sum(),
    ]
    names = [query.name for query in workload][-3:]
    found = [release.answer(name).estimate[0] for name in names]
    np.testing.assert_allclose(found, expected, atol=0.05)


# ---------------------------------------------------------------------- stand-ins


def asked_as(workload: nz.Workload, goal: Any = None, targets: Any = None) -> StandIn:
    problem = Problem(workload, BUDGET, targets=targets, objective=goal, noise="gaussian")
    found = stand_in(problem, 0)
    assert found is not None
    return found


@pytest.mark.grid
@pytest.mark.parametrize("goal", [*GOALS[:3], nz.PNormVariance(1.7)], ids=str)
@pytest.mark.parametrize("name", ["a county", "every county", "places"])
def test_whole_levels_count_for_what_they_stand_for(name: str, goal: Any) -> None:
    """In an even tree the objective is the same of both, if rows are single nodes or far apart."""
    asked = asked_as(with_conditions(name).weighted("tables"), goal)
    instead = asked.forward(asked.problem)
    with planned_as_long():
        found = FAMILIES["gaussian"].together(instead)
    back = asked.back(found)
    tolerance = 0.15 if name == "places" else 1e-6  # siblings' errors are not independent
    value = reached(asked.problem, back)
    assert value == pytest.approx(reached(instead, found), rel=tolerance)


def test_targets_of_whole_levels() -> None:
    """Two nodes of a level have half of the target each; the least counts where two are one."""
    names = ["county = 'a' and age < 2", "county in ('a', 'b') and age < 2", "age < 2"]
    workload = tables() + nz.Workload.predicates(SCHEMA, names)
    asked = asked_as(workload, targets=np.array([9.0, 8.0, 7.0, 6.0, 5.0, 4.0]))
    instead = asked.forward(asked.problem)
    assert len(instead.workload) == 5
    np.testing.assert_allclose(instead.targets, [9.0, 8.0, 7.0, 2.5, 4.0])


@pytest.mark.parametrize("seed", seeds(40))
def test_rows_are_made_of_the_largest_nodes(seed: int) -> None:
    """Against a search from the root of every row."""
    rng = np.random.default_rng(seed)
    levels = [GEO.group_of(level) for level in ("county", "tract", "place")]
    row = np.zeros(len(PLACES))
    while (row == row[0]).all():  # nothing, or the total
        for group in levels:
            row += rng.integers(0, 2, group.max() + 1)[group] * rng.integers(-1, 3)
    asked = asked_as(tables() + nz.Query(SCHEMA, {"geo": nz.Custom([row])}))
    squares, lowest = _from_the_root(row, [np.zeros(len(PLACES), dtype=int), *levels])
    whole = asked._whole(asked.problem.workload.query(3))
    assert whole is not None
    factor, nodes, share = whole
    assert nodes == pytest.approx(squares)
    assert share == pytest.approx(1 / (1, 3, 6, 12)[lowest])
    assert factor == (nz.Total(), nz.Level("county"), nz.Level("tract"), VALUE)[lowest]


def _from_the_root(row: np.ndarray, levels: list[np.ndarray], depth: int = 0) -> tuple[float, int]:
    """Σ a² of the largest nodes of equal entries, and the lowest level that has one but zero."""
    total, lowest = 0.0, 0
    for node in np.unique(levels[depth]):
        here = levels[depth] == node
        if (row[here] == row[here][0]).all():
            found = row[here][0] ** 2, depth if row[here][0] else 0
        else:
            found = _from_the_root(row[here], [level[here] for level in levels], depth + 1)
        total, lowest = total + found[0], max(lowest, found[1])
    return total, lowest


def test_steps_of_rows_in_order(long: None) -> None:
    """t in [3, 9) is the difference of two prefix sums; t = 7 too; t < 5 is one."""
    names = ["time >= 3 and time < 9", "time = 7", "time < 5"]
    asked = asked_as(series() + nz.Workload.predicates(TIMES, names))
    for number, nodes in ((1, 2.0), (2, 2.0), (3, 1.0)):
        whole = asked._whole(asked.problem.workload.query(number))
        assert whole == (nz.Prefix(), nodes, 1 / 12)


def test_equal_stand_ins_are_not_added_up(long: None) -> None:
    """For the worst variance three counties' conditions are one level, of weight one."""
    workload = with_conditions("every county").subset([0, 1, 3, 4, 5])
    plans = [
        nz.plan(asked, budget=BUDGET, noise="gaussian", objective=nz.WorstVariance())
        for asked in (workload, workload.subset([0, 1, 2]))
    ]
    assert plans[0].worst_variance == pytest.approx(plans[1].worst_variance, rel=0.01)


# ---------------------------------------------------------------------- groups written down


def test_written_groups_are_levels() -> None:
    minutes = nz.Schema({"minute": nz.Ordinal(range(720))})
    written = nz.Custom(np.kron(np.eye(12), np.ones((1, 60))))
    plans = [
        nz.plan(
            [nz.Query(minutes, {"minute": hours}), nz.Query(minutes, ["minute"])], budget=BUDGET
        )
        for hours in (written, nz.Levels(60, leaves=False, total=False))
    ]
    assert plans[0].total_variance == pytest.approx(plans[1].total_variance, rel=1e-9)
    assert type(plans[0].mechanism) is type(plans[1].mechanism)


@pytest.mark.parametrize(
    "rows", [[[1, 1, 0], [0, 1, 1]], [[1, 1, 0]], [[2, 2, 0], [0, 0, 1]], [[1, 1, 1], [0, 0, 0]]]
)
def test_other_matrices_are_not_taken_for_groups(rows: list[list[int]]) -> None:
    from noiseplan.matrices import DenseMatrix
    from noiseplan.mechanisms.tree_block import groups_of

    assert groups_of(DenseMatrix(np.array(rows, dtype=float))) is None
