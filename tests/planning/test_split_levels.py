"""Conditions at nodes of their own, split from their siblings: the levels, and what is planned."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import test_plan_missing as with_missing
from hypothesis import given
from hypothesis import strategies as st
from test_plan_beside import BUDGET, SCHEMA, TIMES, of_least_squares, series, tables

import noiseplan as nz
from depth import examples, seeds
from long_attributes import planned_as_long
from noiseplan.domain.tree import Tree
from noiseplan.mechanisms.measured_levels import LevelsMechanism
from noiseplan.planning import split_levels
from noiseplan.planning.candidate import reached
from noiseplan.planning.long_problem import tree_along
from noiseplan.planning.planners import beside_levels
from noiseplan.planning.planners.beside_levels import OWN_NODES
from noiseplan.planning.problem import Problem
from noiseplan.planning.split_levels import SplitOff, split_off
from noiseplan.planning.stand_ins import stand_in

COUNTY, PLACE = "county = 'b' and age < 2", "place = 'b2x' and sex = 'M'"
CONDITIONS = {
    "a county": [COUNTY],
    "a county and a place": [COUNTY, PLACE],
    "a tract in it": [COUNTY, "tract = 'b1' and sex = 'F'"],
    "tracts of two counties": ["tract in ('a1', 'b2') and sex = 'F'"],
    "places that overlap": [
        "place in ('a1x', 'a1y', 'a2x') and age = 3",
        "tract = 'a2' and age = 1",
    ],
    "with or": [COUNTY, "county = 'a' or sex = 'F'"],
}
TRACT = next(iter(tables()))  # by county
GOALS: list[Any] = [nz.TotalVariance(), nz.WorstVariance(), nz.PNormVariance(3.0)]
GOALS.append(nz.ConvexLoss(lambda v: float((v**2).sum()), lambda v: 2 * v))


@pytest.fixture
def long() -> Iterator[None]:
    """Attributes of five values are long."""
    with planned_as_long():
        yield


def weighty(name: str) -> nz.Workload:
    """Every condition counts as much as a table."""
    return (tables() + nz.Workload.predicates(SCHEMA, CONDITIONS[name])).weighted("tables")


def without_own_nodes() -> Any:
    return mock.patch.object(beside_levels, "split_off", lambda asked: None)


def split_of(workload: nz.Workload) -> SplitOff:
    asked = stand_in(Problem(workload, BUDGET), 0)
    assert asked is not None
    found = split_off(asked)
    assert found is not None
    return found


# ---------------------------------------------------------------------- the levels


@st.composite
def levels_and_groups(draw: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Levels of a random tree over some values, and groups of these."""
    count = draw(st.integers(2, 9))
    levels = [np.zeros(count, dtype=np.int64)]
    for _ in range(draw(st.integers(0, 3))):
        finer = np.array(draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)))
        levels.append(np.unique(levels[-1] * 3 + finer, return_inverse=True)[1].reshape(-1))
    groups = draw(
        st.lists(st.lists(st.booleans(), min_size=count, max_size=count).map(np.array), max_size=4)
    )
    return levels, [group for group in groups if group.any()]


@examples(200)
@given(levels_and_groups())
def test_groups_are_nodes_of_levels_within_each_other(made: Any) -> None:
    """Every level lies in the one above, those of tables are there, and every group is made of
    whole nodes, no two of which have the same parent in it."""
    levels, groups = made
    split = split_levels._split(levels, groups)
    for upper, lower in pairwise(split):
        assert len(np.unique(np.stack([upper, lower]), axis=1).T) == lower.max() + 1
    tree = Tree.of(split)
    assert tree is not None
    assert all(tree.level_of(level) is not None for level in levels)
    nodes = [tree.node_of_value(level) for level in range(tree.depth + 1)]
    for group in groups:
        covered = split_levels._covered(group, nodes)
        assert ((covered >= 0) == group).all()
        assert covered.max() < len(nodes)
        for level in np.unique(covered[group]).tolist():
            own = np.unique(nodes[level][covered == level])
            assert all(group[nodes[level] == node].all() for node in own)
    if len(groups) == 1:  # apart from its siblings it is one node of each parent
        (group,) = groups
        above = split_levels._covered(group, levels)
        pieces = sum(
            len(np.unique(levels[at - 1][above == at])) if at else 1 for at in set(above[group])
        )
        covered = split_levels._covered(group, nodes)
        assert pieces == len({(at, nodes[at][i]) for i, at in enumerate(covered) if at >= 0})


def test_a_county_is_one_of_two_nodes_under_the_nation() -> None:
    split = split_of(weighty("a county"))
    assert split.tree.sizes == (1, 2, 3, 6, 12)
    assert split.is_what_was_asked
    whole = split.along(split.asked.problem)
    assert whole.levels[-1].tolist() == [1]
    inside = np.array([code.startswith("b") for code in SCHEMA["geo"].labels])
    node = split.tree.node_of_value(1)
    np.testing.assert_array_equal(whole.of_nodes[3, 1][node], inside.astype(float))
    # Its tracts are like each other, and like no others.
    kinds = whole.alike.kind[3][split.tree.node_of_value(3)]
    assert len(set(kinds[inside])) == 1
    assert not set(kinds[inside]) & set(kinds[~inside])


def test_what_is_within_another_condition_lies_below_it() -> None:
    split = split_of(weighty("a tract in it"))
    assert split.tree.sizes == (1, 2, 3, 4, 6, 12)
    assert split.is_what_was_asked


def test_rows_of_several_nodes_and_matrices_are_not_what_is_planned() -> None:
    assert not split_of(weighty("tracts of two counties")).is_what_was_asked
    assert not split_of(weighty("with or")).is_what_was_asked
    either = nz.Workload.predicates(SCHEMA, ["county = 'a' or sex = 'F'"])
    asked = stand_in(Problem(tables() + either, BUDGET), 0)
    assert asked is not None
    assert split_off(asked) is None  # with nothing that has nodes
    ordered = stand_in(
        Problem(series() + nz.Workload.predicates(TIMES, ["time in (1, 5)"]), BUDGET), 0
    )
    assert ordered is None or split_off(ordered) is None


def test_too_many_nodes_are_not_split(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = stand_in(Problem(weighty("a tract in it"), BUDGET), 0)
    assert asked is not None
    monkeypatch.setattr(split_levels, "MOST_SPLITS", 1)
    assert split_off(asked) is None
    monkeypatch.setattr(split_levels, "MOST_ROWS", 0)
    assert split_off(asked) is None


def test_missing_values_are_left_out_below_split_levels_too() -> None:
    workload = with_missing.levels()
    schema = workload.schema
    workload += nz.Workload.predicates(schema, ["time in (0, 1) and sex = 'F'"])
    asked = stand_in(Problem(workload, BUDGET), schema.names.index("time"))
    assert asked is not None
    split, own = split_off(asked), tree_along(asked.tables, asked.place)
    assert split is not None and own is not None
    whole = split.along(asked.problem)
    for (query, level), weights in own.of_nodes.items():
        there = split.tree.level_of(own.tree.node_of_value(level))
        assert there is not None
        node, before = split.tree.node_of_value(there[0]), own.tree.node_of_value(level)
        np.testing.assert_array_equal(whole.of_nodes[query, there[0]][node], weights[before])
    assert own.of_nodes


# ---------------------------------------------------------------------- what is planned


@pytest.mark.few(3)
@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize("name", CONDITIONS)
def test_never_worse_than_whole_levels_or_groups(long: None, name: str, goal: Any) -> None:
    """And nearer to the optimum where conditions count: a bound is below it."""
    workload, how = weighty(name), {"budget": BUDGET, "noise": "gaussian", "objective": goal}
    plan, least = nz.plan(workload, **how), nz.plan(workload, planner="optimal", **how).certify()
    with without_own_nodes():
        before = nz.plan(workload, **how)
    found, then = plan.certify(), before.certify()
    assert found.value <= then.value * (1 + 1e-9)
    assert least.bound * (1 - 1e-9) <= found.value
    # Bounds are those at what a plan spends, which may be a hair less.
    spent = plan.privacy.pcost / (2 * BUDGET.rho)
    degree = 2 if isinstance(goal, nz.ConvexLoss) else 1
    assert found.bound * spent**degree <= least.value * (1 + 1e-6)
    assert np.diagonal(plan.cost_matrix()).max() <= 2 * BUDGET.rho * (1 + 1e-9)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "most"), [("a county", 0.03), ("a county and a place", 0.07), ("a tract in it", 0.05)]
)
def test_near_the_optimum_where_conditions_count_as_tables(
    long: None, name: str, most: float
) -> None:
    """Whole levels and groups are 4 to 15 % above it, and the bound is the optimum itself."""
    workload = weighty(name)
    plan = nz.plan(workload, budget=BUDGET, noise="gaussian")
    best = nz.plan(workload, budget=BUDGET, noise="gaussian", planner="optimal").certify()
    assert dict(plan.considered)[OWN_NODES] == "taken"
    told = plan.certificate
    assert told is not None
    assert told.value <= (1 + most) * best.value
    assert best.value * (1 - 2e-3) <= told.bound <= best.value * (1 + 1e-6)
    with without_own_nodes():
        before = nz.plan(workload, budget=BUDGET, noise="gaussian").certify()
    assert before.value > 1.04 * best.value


@pytest.mark.grid
@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
@pytest.mark.parametrize("name", CONDITIONS)
def test_errors_and_answers_are_those_of_least_squares(long: None, name: str, noise: str) -> None:
    workload = weighty(name)
    plan = nz.plan(workload, budget=BUDGET, noise=noise)
    if not isinstance(plan.mechanism, LevelsMechanism):
        pytest.skip("groups of queries are tested by themselves")
    for query, expected in zip(workload, of_least_squares(plan, workload), strict=True):
        np.testing.assert_allclose(plan.variance(query), expected, rtol=1e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize("budget", [None, BUDGET], ids=str)
@pytest.mark.parametrize("name", ["a county", "with or"])
def test_targets_are_met_for_no_more_than_before(long: None, name: str, budget: Any) -> None:
    """Of conditions smaller ones than of tables."""
    workload = tables() + nz.Workload.predicates(SCHEMA, CONDITIONS[name])
    sizes = [20.0] * 3 + [1.5] * len(CONDITIONS[name])
    targets = {query.name: size for query, size in zip(workload, sizes, strict=True)}
    how: dict[str, Any] = {"budget": budget, "noise": "gaussian", "targets": targets}
    plan = nz.plan(workload, **how)
    with without_own_nodes():
        before = nz.plan(workload, **how)
    least = nz.plan(workload, planner="optimal", **how)
    cost, then, best = (p.privacy.pcost * p.target_scale for p in (plan, before, least))
    assert best * (1 - 1e-3) <= cost <= then * (1 + 1e-6)
    told = plan.certificate
    assert told is not None
    scale = 1.0 if budget is None else plan.target_scale
    assert told.bound * scale <= best * (1 + 1e-6)
    if budget is None:
        for query in workload:
            assert plan.variance(query).max() <= targets[query.name] * (1 + 1e-9)


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", seeds(8))
def test_random_conditions_and_weights(long: None, seed: int) -> None:
    """Costs by single records, bounds below the optimum, and no plan worse than without."""
    rng = np.random.default_rng(seed)
    places = [str(place) for place in rng.choice(SCHEMA["geo"].labels, 2, replace=False)]
    texts = [f"place in {tuple(places)} and age < {rng.integers(1, 4)}"]
    texts += [f"county = '{rng.choice(list('abc'))}' and sex = 'F'"] * int(rng.integers(2))
    conditions = nz.Workload.predicates(SCHEMA, texts)
    weights = 10.0 ** rng.uniform(-1, 2.5, len(conditions))
    conditions = nz.Workload(
        [nz.Query(SCHEMA, q.factors, weight=w) for q, w in zip(conditions, weights, strict=True)]
    )
    workload = tables() + conditions
    plan = nz.plan(workload, budget=BUDGET, noise="gaussian")
    best = nz.plan(workload, budget=BUDGET, noise="gaussian", planner="optimal").certify()
    with without_own_nodes():
        before = nz.plan(workload, budget=BUDGET, noise="gaussian")
    told = plan.certificate
    assert told is not None
    assert best.bound * (1 - 1e-9) <= told.value <= before.certify().value * (1 + 1e-9)
    assert told.bound <= best.value * (1 + 1e-6)
    assert np.diagonal(plan.cost_matrix()).max() <= 2 * BUDGET.rho * (1 + 1e-9)


@pytest.mark.few(1)
@pytest.mark.parametrize("goal", [nz.WorstVariance(), nz.PNormVariance(3.0), "targets"], ids=str)
@pytest.mark.parametrize("rows", [[0.25], [3.0], [1.0, 1.0], [1.0, 2.0]], ids=str)
def test_rows_of_any_weight_at_a_node(long: None, rows: list[float], goal: Any) -> None:
    """What is planned for them is what was asked: the bound is not above the optimum, and no more
    than some per cent below it."""
    county = (SCHEMA["geo"].group_of("county") == 1).astype(float)
    asked = nz.Custom(np.outer(rows, county))
    most = max(rows) ** 2
    query = nz.Query(SCHEMA, {"geo": asked, "age": nz.Prefix()}, weight=4.0 / most, name="rows")
    workload = tables() + nz.Workload([query])
    how: dict[str, Any] = {"budget": BUDGET, "noise": "gaussian"}
    if goal == "targets":
        how["targets"] = {q.name: most if q.name == "rows" else 4.0 for q in workload}
    else:
        how["objective"] = goal
    plan, best = nz.plan(workload, **how), nz.plan(workload, planner="optimal", **how).certify()
    told = plan.certificate
    assert told is not None
    assert 0.95 * best.value <= told.bound <= best.value * (1 + 1e-6)
    assert best.bound * (1 - 1e-6) <= told.value <= 1.1 * best.value


def test_saved_and_loaded_and_released(long: None, tmp_path: Path) -> None:
    workload = weighty("a county and a place")
    plan = nz.plan(workload, budget=BUDGET)
    assert dict(plan.considered)[OWN_NODES] == "taken"
    rng = np.random.default_rng(4)
    people = {n: rng.choice(SCHEMA[n].labels, 300).tolist() for n in SCHEMA.names}
    release = plan.release(people, seed=3)
    release.save(tmp_path / "release")
    again = nz.load(tmp_path / "release")
    for query in workload:
        np.testing.assert_array_equal(again.plan.variance(query), plan.variance(query))
        np.testing.assert_array_equal(again.answer(query).estimate, release.answer(query).estimate)
    county = release.answer(nz.Query(SCHEMA, {"geo": nz.Level("county"), "age": nz.Identity()}))
    condition = release.answer(workload.query(3))
    assert condition.estimate[0] == pytest.approx(county.estimate.reshape(3, 4)[1, :2].sum())
    counted = sum(c[0] == "b" and a < 2 for c, a in zip(people["geo"], people["age"], strict=True))
    assert abs(condition.estimate[0] - counted) < 6 * condition.std_error[0]


def test_what_plans_say_is_what_is_reached(long: None) -> None:
    workload = weighty("a county")
    problem = Problem(workload, BUDGET, noise="gaussian")
    plan = nz.plan(workload, budget=BUDGET, noise="gaussian")
    told = plan.certificate
    assert told is not None
    asked = stand_in(problem, 0)
    assert asked is not None
    split = split_off(asked)
    assert split is not None
    found = beside_levels._levels(split.along(problem))
    assert reached(problem, found) == pytest.approx(told.value, rel=1e-6)
    assert "conditions at nodes of their own (taken)" in str(plan)
