"""Levels that ask different things of other attributes: against optima, trees, and each alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import noiseplan as nz
from depth import depth, seeds
from long_attributes import planned_as_long
from noiseplan.counting import CountTensor
from noiseplan.errors import QueryError, UnanswerableError
from noiseplan.mechanisms import tree_block
from noiseplan.mechanisms.measured_levels import LevelsMechanism
from noiseplan.mechanisms.measured_tree import TreeMechanism
from noiseplan.planning import level_search, limits
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.level_search import Weighting
from noiseplan.planning.long_problem import TreeProblem, tree_along
from noiseplan.planning.measured_numbers import INTEGERS
from noiseplan.planning.planners import level_plans, tree_plans
from noiseplan.planning.planners.level_plans import LevelPlan
from noiseplan.planning.problem import Problem

BUDGET, VALUE = nz.zCDP(0.5), nz.Identity()
AGES = 3
LOSS = nz.ConvexLoss(lambda v: float((v**2).sum()), lambda v: 2 * v)
# What each is above the best there is, at most: where nodes are alike, and where they are not.
GOALS: dict[str, tuple[nz.Objective, float, float]] = {
    "worst": (nz.WorstVariance(), 1.01, 1.05),
    "norm": (nz.PNormVariance(3.0), 1.001, 1.05),
    "loss": (LOSS, 1.001, 1.07),
}
# Every day the first three of them.
TRIED = [("worst", True), ("norm", True), ("loss", False)]
TRIED += [("worst", False), ("norm", False), ("loss", True)]


def groups(of_value: np.ndarray) -> nz.Levels:
    return nz.Levels(of_value.tolist(), leaves=False, total=False)


@pytest.fixture
def short_trees() -> Iterator[None]:
    """Trees for attributes of a few values, whose optimum is known."""
    with planned_as_long(3, limits.SERIES_VALUES):
        yield


def places(seed: int, even: bool, sizes: tuple[int, ...] = (3, 2, 2, 1)) -> nz.Workload:
    """Counties by sex and sums of ages, tracts by sex and some ages, places by one sum of ages."""
    rng = np.random.default_rng(seed)
    own = np.array([2, 2, 2, 2]) if even else rng.permutation(sizes)
    schema = nz.Schema.from_sizes({"sex": 2, "geo": int(own.sum()), "age": AGES})
    tract = np.repeat(np.arange(len(own)), own)
    county = tract // 2
    young, older = nz.Custom([[1, 1, 0]]), nz.Custom([[1, 1, 0], [0, 1, 1]])
    weight = rng.uniform(0.5, 2, 4)
    return nz.Workload(
        [
            nz.Query(schema, {"geo": VALUE, "age": young}, weight=weight[0], name="places"),
            nz.Query(schema, {"geo": groups(tract), "age": older, "sex": VALUE},
                     weight=weight[1], name="tracts"),
            nz.Query(schema, {"geo": groups(county), "age": nz.Prefix(), "sex": VALUE},
                     weight=weight[2], name="counties"),
            nz.Query(schema, {"age": nz.Ranges()}, weight=weight[3], name="all"),
        ]
    )  # fmt: skip


def planned(workload: nz.Workload, **how: Any) -> tuple[nz.Plan, nz.Plan, nz.Plan]:
    """By levels, by one tree, and the best."""
    how = {"noise": "gaussian", **how}
    own = nz.plan(workload, **how)
    assert isinstance(own.mechanism, LevelsMechanism)
    tree = nz.plan(workload, planner="residual", **how)
    assert isinstance(tree.mechanism, TreeMechanism)
    return own, tree, nz.plan(workload, planner="optimal", **how)


# ---------------------------------------------------------------------- how good plans are


def check(own: nz.Plan, tree: nz.Plan, best: nz.Plan, above: float) -> None:
    """Near the optimum, better than one tree, and with a bound that is below what can be had."""
    value, truth = own.certify().value, best.certify().value
    # What is called the optimum is one to its own gap.
    assert truth * (1 - 2e-3) <= value <= truth * above
    assert value < tree.certify().value
    assert own.certify().bound <= truth * (1 + 1e-9)
    assert own.lower_bound <= best.total_variance * (1 + 1e-9)


@pytest.mark.grid
@pytest.mark.usefixtures("short_trees")
@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("seed", seeds(8))
def test_near_the_optimum_and_never_below_its_own_bound(seed: int, even: bool) -> None:
    own, tree, best = planned(places(seed, even), budget=BUDGET)
    assert 1 - 1e-9 <= own.privacy.pcost <= 1.0
    check(own, tree, best, 1.001 if even else 1.05)
    assert own.certify().gap <= (1e-3 if even else 0.08)


@pytest.mark.usefixtures("short_trees")
@pytest.mark.parametrize("seed", seeds(8))
def test_nearer_where_nodes_are_almost_alike(seed: int) -> None:
    workload = places(seed, False, (3, 3, 2, 3, 3, 2))
    check(*planned(workload, budget=BUDGET), 1.03)


@pytest.mark.few(1)
@pytest.mark.usefixtures("short_trees")
@pytest.mark.parametrize(("name", "even"), TRIED[: depth(6, 3)])
def test_other_objectives(name: str, even: bool) -> None:
    goal, alike, unlike = GOALS[name]
    own, tree, best = planned(places(1, even), budget=BUDGET, objective=goal)
    check(own, tree, best, alike if even else unlike)


@pytest.mark.few(1)
@pytest.mark.usefixtures("short_trees")
@pytest.mark.parametrize(("even", "noise"), [(True, "gaussian"), (False, "discrete")])
def test_targets_are_met_for_about_the_least(even: bool, noise: Any) -> None:
    workload = places(2, even)
    targets = {query.name: 4.0 + i for i, query in enumerate(workload)}
    own = nz.plan(workload, targets=targets, noise=noise)
    assert isinstance(own.mechanism, LevelsMechanism)
    assert all(own.variance(workload[n]).max() <= target for n, target in targets.items())
    tree, best = (
        nz.plan(workload, targets=targets, noise="gaussian", planner=planner)
        for planner in ("residual", "optimal")
    )
    least = best.privacy.pcost
    assert least * (1 - 2e-3) <= own.privacy.pcost <= least * (1.02 if even else 1.12)
    assert own.privacy.pcost < tree.privacy.pcost
    assert own.certify().bound <= best.certify().value * (1 + 1e-9)


@pytest.mark.usefixtures("short_trees")
def test_targets_within_a_budget_are_missed_by_the_least() -> None:
    workload = places(2, True)
    targets = {query.name: 0.5 + 0.1 * i for i, query in enumerate(workload)}
    own, tree, best = planned(workload, targets=targets, budget=BUDGET)
    over = [
        max(float(plan.variance(workload[n]).max()) / target for n, target in targets.items())
        for plan in (own, tree, best)
    ]
    assert over[2] * (1 - 2e-3) <= over[0] <= over[2] * 1.02 and over[0] < over[1]


@pytest.mark.usefixtures("short_trees")
@pytest.mark.parametrize("even", [True, False])
def test_never_worse_than_every_query_planned_alone(even: bool) -> None:
    """Queries that share a budget as they need it: (Σ √V)² of what each has for all of it."""
    workload = places(3, even)
    plan = nz.plan(workload, budget=BUDGET, noise="gaussian")
    alone = [
        nz.plan(nz.Workload([query]), budget=BUDGET, noise="gaussian").total_variance
        for query in workload
    ]
    assert plan.total_variance < np.sqrt(alone).sum() ** 2


@pytest.mark.usefixtures("short_trees")
def test_a_cell_of_missing_values_costs_next_to_nothing() -> None:
    """It is a leaf unlike all others, and makes nobody else pay for it."""
    found = []
    for how in ({}, {"missing": "unknown"}):
        geo = nz.Ordinal(range(60), **how)
        schema = nz.Schema({"geo": geo, "age": nz.Ordinal(range(3))})
        tract = groups(np.arange(60) // 5)
        workload = nz.Workload(
            [
                nz.Query(schema, {"geo": tract, "age": nz.Prefix()}),
                nz.Query(
                    schema, {"geo": nz.Levels(60, total=False), "age": nz.Custom([[1, 1, 0]])}
                ),
            ]
        )
        plan = nz.plan(workload, budget=BUDGET, noise="gaussian")
        assert isinstance(plan.mechanism, LevelsMechanism)
        found.append(plan.total_variance)
    assert found[1] <= 1.02 * found[0]


@pytest.mark.usefixtures("short_trees")
@pytest.mark.parametrize("planner", ["auto", "residual"])
@pytest.mark.parametrize("own", [[0, 1, 2, 3], [0, 0, 1, 2]])
def test_values_that_look_like_the_cell_of_missing_ones_are_planned_for(
    own: list[int], planner: str
) -> None:
    """A group of one value is a node as that cell is, which the query leaves out."""
    schema = nz.Schema(
        {"geo": nz.Ordinal(range(4), missing="unknown"), "age": nz.Ordinal(range(3))}
    )
    workload = nz.Workload(
        [
            nz.Query(schema, {"geo": groups(np.array(own)), "age": nz.Prefix()}),
            nz.Query(schema, {"age": nz.Custom([[1, 1, 0]])}),
        ]
    )
    how: dict[str, Any] = {"budget": BUDGET, "noise": "gaussian"}
    plan = nz.plan(workload, planner=planner, **how)
    assert isinstance(plan.mechanism, LevelsMechanism if planner == "auto" else TreeMechanism)
    best = nz.plan(workload, planner="optimal", **how)
    assert best.total_variance * 0.999 <= plan.total_variance <= best.total_variance * 1.1
    # Half of the bound was lost where such values counted for nothing.
    assert best.total_variance * 0.85 <= plan.lower_bound <= best.total_variance * (1 + 1e-9)


# ---------------------------------------------------------------------- when it is tried


@pytest.mark.usefixtures("short_trees")
def test_plans_say_what_was_considered() -> None:
    workload = places(0, True)
    text = str(nz.plan(workload, budget=BUDGET))
    assert "levels with rows of their own (taken); tree of levels: clearly worse" in text
    assert "at 4 levels of geo, each by rows of its own" in text
    schema = workload.schema
    same = nz.Workload([nz.Query(schema, {"geo": nz.Levels(2, 4), "sex": VALUE})])
    assert "rows of their own: not tried where all levels ask the same" in str(
        nz.plan(same, budget=BUDGET)
    )
    nested = nz.Workload(
        [nz.Query(schema, {"geo": nz.Levels(4, leaves=False)}), nz.Query(schema, ["geo", "sex"])]
    )
    plan = nz.plan(nested, budget=BUDGET)
    assert isinstance(plan.mechanism, TreeMechanism)
    assert "tree of levels (taken); levels with rows of their own: " in str(plan)


@pytest.mark.usefixtures("short_trees")
@pytest.mark.parametrize("limit", ["MOST_CELLS", "MOST_COUNTS", "LARGEST_SUM", "PATIENCE"])
def test_what_is_too_large_is_left_to_the_tree(limit: str) -> None:
    with mock.patch.object(level_plans, limit, 1e-9 if limit == "PATIENCE" else 1):
        plan = nz.plan(places(0, True), budget=BUDGET)
    assert isinstance(plan.mechanism, TreeMechanism)
    assert "rows of their own: not tried" in str(plan)


@pytest.mark.parametrize("seed", seeds(8))
def test_parts_of_children_fit_however_many_they_are(seed: int) -> None:
    """As whole numbers near their shares, and with sums that are allowed."""
    rng, largest = np.random.default_rng(seed), 1 << 12
    parent = np.repeat(np.arange(4), [1, 7, 2, largest // 2])
    share = rng.dirichlet(np.full(len(parent), 0.05)) + 1e-12
    share[parent == 2] = 0.5
    share /= np.bincount(parent, share)[parent]
    with mock.patch.object(level_plans, "LARGEST_SUM", largest):
        parts = level_plans._parts(INTEGERS, share, parent)
    total = np.bincount(parent, parts)
    assert (parts >= 1).all() and (parts == np.rint(parts)).all() and total.max() <= largest
    assert parts[parent == 2].tolist() == [1.0, 1.0] and parts[0] == 1.0
    own = parent == 1
    np.testing.assert_allclose(parts[own] / total[1], share[own], atol=16 / largest)


@pytest.mark.grid
@pytest.mark.usefixtures("short_trees")
@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
@pytest.mark.parametrize("weights", [(1e12, 1.0, 1e-12), (1e-30, 1.0, 1.0), (1.0, 1e-8, 1e8)])
def test_weights_far_apart_are_planned_for(weights: tuple[float, ...], noise: Any) -> None:
    """By whatever still measures all of it: no query is lost."""
    asked = list(places(0, False))[:3]
    workload = nz.Workload(
        [nz.Query(q.schema, q.factors, weight=w) for q, w in zip(asked, weights, strict=True)]
    )
    plan = nz.plan(workload, budget=BUDGET, noise=noise)
    tree = nz.plan(workload, budget=BUDGET, noise=noise, planner="residual")
    assert all(np.isfinite(plan.variance(query)).all() for query in workload)
    assert plan.total_variance <= tree.total_variance * (1 + 1e-9)


# ---------------------------------------------------------------------- releases


@pytest.mark.usefixtures("short_trees")
def test_what_counts_little_for_the_worst_variance_is_not_forgotten() -> None:
    """Its weight, moved down for a small variance, was lost in that of the others by rounding."""
    schema = nz.Schema.from_sizes({"age": 3, "geo": 9})
    tract = [0, 1, 1, 1, 2, 2, 3, 4, 4]
    everything = nz.Levels(tract, leaves=True, total=True)
    parts = nz.Levels(tract, leaves=False, total=True)
    workload = nz.Workload(
        [
            nz.Query(schema, {"geo": parts, "age": VALUE}, weight=1e-3, name="ages"),
            nz.Query(schema, {"geo": everything, "age": nz.Custom([[1, -1, 0]])}, weight=10.0),
            nz.Query(schema, {"geo": nz.Levels(tract, leaves=True, total=False)}, weight=2.0),
        ]
    )
    best = nz.plan(workload, budget=BUDGET, objective="worst", planner="optimal", noise="gaussian")
    for noise in ("gaussian", "discrete"):
        assert reached_by_levels(workload, noise) <= 1.1 * best.worst_variance


def reached_by_levels(workload: nz.Workload, noise: str) -> float:
    """The worst variance of levels with rows of their own, whatever else is better."""
    with mock.patch.object(tree_plans, "WORTH_IT", np.inf):
        plan = nz.plan(workload, budget=BUDGET, objective="worst", noise=noise)
    assert isinstance(plan.mechanism, LevelsMechanism)
    return plan.worst_variance


@pytest.mark.usefixtures("short_trees")
def test_several_records_of_a_person_and_other_objectives_keep_the_budget() -> None:
    workload = places(3, False)
    one = nz.plan(workload, budget=BUDGET, noise="gaussian")
    three = nz.plan(workload, budget=BUDGET, noise="gaussian", max_rows=3)
    assert three.total_variance == pytest.approx(9 * one.total_variance, rel=1e-6)
    exact = nz.plan(workload, budget=BUDGET)
    assert 1 - 1e-9 <= exact.privacy.pcost <= 1.0
    assert exact.total_variance == pytest.approx(one.total_variance, rel=1e-3)


@pytest.mark.usefixtures("short_trees")
@pytest.mark.parametrize("rho", [1e-20, 1e-3, 20.0])
def test_any_budget_is_kept_and_drawn_for(rho: float) -> None:
    """Noise beyond 64 bits, and noise of less than one count."""
    workload = places(3, False)
    plan = nz.plan(workload, budget=nz.zCDP(rho))
    assert isinstance(plan.mechanism, LevelsMechanism) == (rho < 20)  # or trees, of even less
    assert plan.privacy.pcost <= 2 * rho
    counts = np.random.default_rng(1).integers(0, 30, workload.schema.shape)
    release = plan.release(counts, seed=2)
    for query in workload:
        errors = release.answer(query).estimate - query.dense() @ counts.ravel()
        assert (np.abs(errors) <= 6 * np.sqrt(plan.variance(query)) + 1e-9).all()


def hierarchical() -> tuple[nz.Workload, dict[str, np.ndarray]]:
    """Blocks in tracts in counties by name, in no order; ages by bands, and single years."""
    rng, blocks = np.random.default_rng(0), 1200
    tract = [f"t{i * 7 % 61:02d}" for i in range(blocks)]
    county = [f"c{int(t[1:]) % 5}" for t in tract]
    geo = nz.Hierarchical({"block": range(blocks), "tract": tract, "county": county})
    schema = nz.Schema(
        {"geo": geo, "sex": nz.Categorical(["f", "m"]), "age": nz.Ordinal(range(12))}
    )
    bands = nz.Levels(3, leaves=False, total=False)
    workload = nz.Workload(
        [
            nz.Query(schema, {"geo": nz.Level("block"), "sex": VALUE}, name="blocks"),
            nz.Query(schema, {"geo": nz.Level("tract"), "age": bands}, name="tracts"),
            nz.Query(schema, {"geo": nz.Level("county"), "age": nz.Prefix(), "sex": VALUE},
                     name="counties"),
        ]
    )  # fmt: skip
    data = {
        "geo": rng.integers(0, blocks, 40_000),
        "sex": rng.choice(["f", "m"], 40_000),
        "age": rng.integers(0, 12, 40_000),
    }
    return workload, data


def test_a_release_of_levels_by_name_from_end_to_end(tmp_path: Path) -> None:
    workload, data = hierarchical()
    plan = nz.plan(workload, budget=BUDGET)
    assert isinstance(plan.mechanism, LevelsMechanism)
    plan.release(data, seed=3).save(tmp_path / "out", tables=[])
    release = nz.load(tmp_path / "out")
    schema = workload.schema
    counts = np.zeros(schema.shape)
    np.add.at(counts, (data["geo"], (data["sex"] == "m").astype(int), data["age"]), 1)
    each = {}
    for query in workload:
        answer = release.answer(query)
        truth = counted(query, counts)
        errors = (answer.estimate - truth) / answer.std_error
        np.testing.assert_allclose(answer.std_error**2, plan.variance(query), rtol=1e-9)
        assert 0.85 < (errors**2).mean() < 1.15 or len(errors) < 300
        assert 0.5 < (errors**2).mean() < 1.8
        each[query.name] = answer.estimate
    # All levels agree: blocks and bands add up to the same counties.
    county = nz.Query(schema, {"geo": nz.Level("county")})
    by_county = release.answer(county).estimate
    np.testing.assert_allclose(
        each["counties"].reshape(-1, 2, 12)[..., -1].sum(axis=1), by_county, atol=1e-6
    )
    by_tract = release.answer(nz.Query(schema, {"geo": nz.Level("tract")})).estimate
    bands = each["tracts"].reshape(len(by_tract), -1).sum(axis=1)
    np.testing.assert_allclose(bands, by_tract, atol=1e-6)
    # Single ages of blocks were not measured.
    with pytest.raises(UnanswerableError, match="add the query to the workload"):
        release.answer(nz.Query(schema, {"geo": nz.Level("block"), "age": VALUE}))


def counted(query: nz.Query, counts: np.ndarray) -> np.ndarray:
    """W x, attribute by attribute."""
    found, names = counts, query.schema.names
    matrices = dict(zip(query.attributes, query.matrices(), strict=True))
    for axis, name in enumerate(names):
        size = counts.shape[axis]
        rows = matrices[name].dense() if name in matrices else np.ones((1, size))
        found = np.moveaxis(np.tensordot(rows, found, axes=(1, axis)), 0, axis)
    return np.asarray(found).ravel()


# ---------------------------------------------------------------------- medians


def by_size(size: int) -> nz.Release:
    """Values by band of another attribute, groups of them by each of its values."""
    schema = nz.Schema({"t": nz.Ordinal(range(size)), "g": nz.Ordinal(range(4))})
    asked = nz.Workload(
        [
            nz.Query(schema, {"t": VALUE, "g": nz.Custom([[1, 1, 0, 0], [0, 0, 1, 1]])}),
            nz.Query(schema, {"t": nz.Levels(100, leaves=False), "g": nz.Prefix()}),
        ]
    )
    counts = np.ones(schema.shape, dtype=np.int64) * [3, 1, 2, 2]
    plan = nz.plan(asked, budget=BUDGET)
    assert isinstance(plan.mechanism, LevelsMechanism)
    return plan.release(CountTensor(schema, counts), seed=5)


def test_prefix_sums_of_levels_are_those_of_rows_written_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release, size = by_size(1_030), 1_030
    schema = release.schema
    sums = nz.Query(schema, {"t": nz.Prefix(), "g": nz.Custom([[1, 1, 0, 0], [1, 1, 1, 1]])})
    others = [
        nz.Query(schema, ["g"]),
        nz.Query(schema, {"t": nz.Custom(np.eye(size)[[0, 500, size - 1]])}),
    ]
    written = release.answer(sums), [release.covariance(sums, other) for other in others]
    monkeypatch.setattr(tree_block, "MOST_WEIGHTS", 4 * size)
    answer, shared = release.answer(sums), [release.covariance(sums, other) for other in others]
    np.testing.assert_allclose(answer.estimate, written[0].estimate, atol=1e-8 * size)
    np.testing.assert_allclose(answer.std_error, written[0].std_error, rtol=1e-9)
    for found, expected in zip(shared, written[1], strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
    with pytest.raises(QueryError, match="too many numbers to be written down"):
        release.covariance(sums, sums)


def test_medians_of_long_levels() -> None:
    """More values than rows are written for: within six standard errors of the truth."""
    found = by_size(9_000).quantile("t", 0.25, by={"g": nz.Custom([[1, 1, 0, 0], [1, 1, 1, 1]])})
    assert (np.abs(found.estimate - 2_249) < 3 * (found.upper - found.lower)).all()
    assert (found.upper - found.lower < 400).all()


def test_attributes_asked_by_value_are_levels_too() -> None:
    """Values are alike, so that the optimum is one of two levels and of pieces of the others."""
    schema = nz.Schema.from_sizes({"origin": 4, "age": 12, "sex": 2, "region": 6})
    bands = nz.Levels(4, leaves=False, total=False)
    asked: list[dict[str, Any]] = [
        {"region": VALUE, "age": nz.Prefix()},
        {"age": VALUE, "origin": VALUE, "sex": VALUE},
        {"region": VALUE, "origin": VALUE, "age": bands},
        {"age": nz.Ranges()},
    ]
    workload = nz.Workload([nz.Query(schema, each) for each in asked]).weighted("tables")
    plan = nz.plan(workload, budget=BUDGET, noise="gaussian")
    best = nz.plan(workload, budget=BUDGET, noise="gaussian", planner="optimal")
    assert isinstance(plan.mechanism, LevelsMechanism)
    assert plan.mechanism.place == schema.index("region")
    assert best.certify().bound <= plan.total_variance <= 1.0005 * best.total_variance
    assert plan.lower_bound <= best.total_variance * (1 + 1e-9)
    residual = nz.plan(workload, budget=BUDGET, noise="gaussian", planner="residual")
    assert plan.total_variance < 0.99 * residual.total_variance


def test_short_attributes_of_many_cells_beside_them_are_not_looked_at() -> None:
    """Where no attribute leaves few cells of the others, none is taken apart."""
    schema = nz.Schema.from_sizes({"a": 100, "b": 100, "c": 100})
    pairs = [{"a": VALUE, "b": nz.Prefix()}, {"b": VALUE, "c": nz.Levels(10)}, {"c": nz.Prefix()}]
    workload = nz.Workload([nz.Query(schema, each) for each in pairs])
    with mock.patch.object(level_plans, "solve", side_effect=AssertionError("looked at")):
        plan = nz.plan(workload, budget=BUDGET, noise="gaussian")
    assert "levels" not in dict(plan.considered)


@pytest.mark.grid
@pytest.mark.parametrize("asked", list(product([0.0, 1.0], repeat=4))[1:])
@pytest.mark.parametrize("least", [0.0, 1e-300, 1e-12])
def test_what_is_lost_by_rounding_beside_the_rest_leaves_a_plan_and_a_bound(
    asked: tuple[float, ...], least: float
) -> None:
    """Weights of norms are powers of variances: of some queries nothing is left of them."""
    workload = places(1, False)
    with planned_as_long():
        whole = tree_along(Problem(workload, nz.zCDP(0.5)), 1)
        assert whole is not None
        plan = LevelPlan(whole)
        own = plan.even(whole.weights)
        pairs = zip(own.nodes, asked, strict=True)
        nodes = [each * (weight or least) for each, weight in pairs]
        weighting = Weighting(own.problem, nodes, own.grams)
        with np.errstate(invalid="raise", divide="raise"):
            design = weighting.best()
            bounds = [weighting.bound(design.x, together) for together in (False, True)]
            with mock.patch.object(level_search, "LARGEST", 0):
                bounds.append(weighting.bound(design.x))
    value = weighting.value(design)
    assert 0 < min(bounds) <= max(bounds) <= value * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_asked_of_one_county_alone_is_bounded_by_weights_of_its_own(seed: int) -> None:
    """As where kinds of places are too many to be looked at together."""
    workload = places(seed, False)
    with planned_as_long():
        whole = tree_along(Problem(workload, nz.zCDP(0.5)), 1)
        assert whole is not None
        own = LevelPlan(whole).even(whole.weights)
        county = next(i for i, each in enumerate(own.problem.asked) if each.level == 1)
        nodes, grams = list(own.nodes), list(own.grams)
        nodes[county] = nodes[county] * (np.arange(len(nodes[county])) == 0)
        grams[county] = np.zeros_like(grams[county])
        grams[county][0, 0] = 100.0
        total = next(i for i, each in enumerate(own.problem.asked) if each.level == 0)
        nodes[total] = np.zeros_like(nodes[total])
        weighting = Weighting(own.problem, nodes, grams)
        design = weighting.best()
        exact, product = weighting.bound(design.x), weighting._bound_of_product(design.x)
        with mock.patch.object(level_search, "LARGEST", 0):
            apart = weighting.bound(design.x)
    assert product <= apart <= exact * (1 + 1e-6) <= weighting.value(design) * (1 + 2e-6)
    assert exact - apart < 0.5 * (exact - product)


def test_the_worst_of_variances_far_apart_is_planned_for() -> None:
    """Weights of what counts for nothing are powers of 10^-70 and less, and end as zero."""
    rng = np.random.default_rng(11)
    workload = places(int(rng.integers(1000)), bool(rng.random() < 0.2))
    apart = 10 ** rng.uniform(0, float(rng.uniform(4, 9)), len(workload))
    own = [
        nz.Query(q.schema, q.factors, weight=w)
        for q, w in zip(workload, apart.tolist(), strict=True)
    ]
    with planned_as_long():
        plan = nz.plan(
            nz.Workload(own), budget=BUDGET, noise="gaussian", objective=nz.WorstVariance()
        )
    assert plan.lower_bound <= plan.total_variance * (1 + 1e-9)


def test_levels_whose_targets_lie_far_apart_are_passed_over() -> None:
    """Weights are moved until rounding loses what a target of 123 asks for beside one of 2.7. Then
    there are no such levels, and no error that a query of the workload cannot be answered."""
    schema = nz.Schema.from_sizes({"a": 3, "b": 12, "c": 3})
    rows = [
        [1, -2, -2, -1, -2, 0, -1, 0, 2, -2, -2, 0],
        [5, 2, 0, 0, -2, 1, 1, 2, -1, 2, -2, 0],
        [4, -2, 1, 2, 1, 0, -2, 2, 1, 0, 2, 1],
    ]
    some = [
        [1, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1],
        [0, 1, 1, 0, 0, 0, 1, 0, 1, 1, 1, 0],
        [1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0],
    ]
    three = [[4, -1, 2], [3, -2, 0]]
    asked: dict[str, tuple[dict[str, Any], float]] = {
        "differences": ({"b": rows, "c": VALUE}, 10.840750970338084),
        "sums": ({"a": nz.Prefix(), "c": three}, 2.743336689144829),
        "prefix sums": ({"b": nz.Prefix(), "c": VALUE}, 10.652038472220333),
        "groups": ({"a": VALUE, "b": some, "c": VALUE}, 123.04768279190097),
    }
    workload = nz.Workload([nz.Query(schema, f, name=name) for name, (f, _) in asked.items()])
    targets = {name: target for name, (_, target) in asked.items()}
    said, solve = list[Candidate | str](), level_plans.solve

    def heard(whole: TreeProblem) -> Candidate | str:
        said.append(solve(whole))
        return said[-1]

    with mock.patch.object(level_plans, "solve", heard):
        plan = nz.plan(workload, targets=targets, noise="gaussian")
    assert "not tried for weights so far apart" in said
    for query in workload:
        assert plan.variance(query).max() <= targets[query.name] * (1 + 1e-9)
