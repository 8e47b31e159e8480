"""Levels of long attributes: trees against written-out matrices, convex programs and optima."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Literal
from unittest import mock

import cvxpy as cp
import numpy as np
import pytest

import noiseplan as nz
from depth import seeds
from long_attributes import planned_as_long
from noiseplan.domain.tree import Shape, Tree, TreeVariances
from noiseplan.errors import PlanError, StorageError, UnanswerableError
from noiseplan.mechanisms.measured_tree import TreeMechanism
from noiseplan.mechanisms.reduced import ReducedMechanism
from noiseplan.optimize import tree_bound
from noiseplan.optimize.tree_bound import TreeNorm
from noiseplan.optimize.tree_sharing import Alike, Sharing
from noiseplan.planning import limits, smaller_domain
from noiseplan.planning.long_problem import of_rows, of_sums
from noiseplan.storage.plans import read_mechanism

BUDGET = nz.zCDP(0.5)
TRACT = np.array([0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4])
COUNTY = np.array([0] * 5 + [1] * 7)
TREE = Tree.of([np.arange(12), TRACT, COUNTY])
assert TREE is not None
NODES = [
    np.array([TREE.node_of_value(level) == node for node in range(size)], dtype=float)
    for level, size in enumerate(TREE.sizes)
]


def groups(of_value: np.ndarray) -> nz.Levels:
    return nz.Levels(of_value.tolist(), leaves=False, total=False)


@pytest.fixture
def short_trees() -> Iterator[None]:
    """Trees for attributes of a few values, whose optimum is known."""
    with planned_as_long(series=limits.SERIES_VALUES):
        yield


def places(seed: int, leaves: int = 12, even: bool = False) -> nz.Workload:
    """Tables by place, tract and county, crossed with two other attributes."""
    rng = np.random.default_rng(seed)
    schema = nz.Schema.from_sizes({"sex": 2, "geo": leaves, "age": int(rng.integers(2, 5))})
    tract = np.arange(leaves) // 3 if even else np.sort(rng.integers(0, leaves // 3, leaves))
    county = np.arange(leaves) // 6 if even else tract // 2
    value = nz.Identity()
    return nz.Workload(
        [
            nz.Query(schema, {"geo": value, "sex": value}, weight=float(rng.uniform(0.5, 2))),
            nz.Query(schema, {"geo": groups(tract), "age": value}),
            nz.Query(schema, {"geo": groups(county), "age": value, "sex": value}, weight=3.0),
            nz.Query(schema, ["age"]),
        ]
    )


# ---------------------------------------------------------------------- trees


def test_levels_that_cross_are_no_tree() -> None:
    assert Tree.of([TRACT, np.arange(12) % 2]) is None


def test_a_tree_from_levels_in_any_order() -> None:
    assert TREE.sizes == (1, 2, 5, 12)
    for level, group in ((1, COUNTY), (2, TRACT), (3, np.arange(12)), (0, 0 * COUNTY)):
        found = TREE.level_of(group)
        assert found is not None and found[0] == level
        assert np.array_equal(found[1][group], TREE.node_of_value(level))
    assert TREE.level_of(np.arange(12) % 5) is None
    values = np.random.default_rng(0).integers(0, 9, (12, 2))
    for nodes, sums in zip(NODES, TREE.up(values, 4), strict=True):
        assert np.array_equal(nodes @ values, sums)


def test_variances_and_slopes_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(1)
    omega = [rng.uniform(0.1, 1.0, n) for n in TREE.sizes]
    shape = Shape(TREE.parents, tuple(np.ones(len(p)) for p in TREE.parents))
    found = TreeVariances.of(shape, omega)
    covariance = np.linalg.inv(sum(z.T * w @ z for z, w in zip(NODES, omega, strict=True)))
    for z, final in zip(NODES, found.final, strict=True):
        np.testing.assert_allclose(final, np.diag(z @ covariance @ z.T))
    slopes = [rng.normal(size=n) for n in TREE.sizes]
    gradient = found.gradient(slopes)

    def value(at: list[np.ndarray]) -> float:
        final = TreeVariances.of(shape, at).final
        return float(sum(s @ v for s, v in zip(slopes, final, strict=True)))

    for level, node in ((0, 0), (1, 1), (2, 3), (3, 7)):
        up, down = ([w.copy() for w in omega] for _ in range(2))
        up[level][node] += 1e-6
        down[level][node] -= 1e-6
        difference = (value(up) - value(down)) / 2e-6
        assert gradient[level][node] == pytest.approx(difference, rel=1e-5)


# ---------------------------------------------------------------------- sharing

ASKED = [
    np.array([[1.0, 2.0]]),
    np.array([[1.0, 1.0]]),
    np.array([[1.0, 1.0]]),
    np.array([[1.0, 0]]),
]
PRICE, DEPTH = np.array([1.0, 3.0]), np.array([3, 2])


def start() -> list[list[np.ndarray]]:
    copies = Alike.of(TREE).copies
    return [[np.ones(len(copies[level])) for level in range(d + 1)] for d in DEPTH]


def written_out(worst: bool) -> float:
    """The same convex program for every node by itself."""
    omega = [[cp.Variable(n, nonneg=True) for n in TREE.sizes[: d + 1]] for d in DEPTH]
    parts = []
    for block, depth in enumerate(DEPTH):
        last = np.unique(TREE.node_of_value(depth), return_index=True)[1]
        rows = [z[:, last] for z in NODES[: depth + 1]]
        precision = sum(r.T @ cp.diag(w) @ r for r, w in zip(rows, omega[block], strict=True))
        parts.append(
            [
                [ASKED[level][0, block] * cp.matrix_frac(row, precision) for row in rows[level]]
                for level in range(depth + 1)
            ]
        )
    cost = [
        sum(
            PRICE[block] * omega[block][level][TREE.node_of_value(level)[value]]
            for block in range(2)
            for level in range(DEPTH[block] + 1)
        )
        for value in range(12)
    ]
    if worst:
        each = [
            sum(parts[b][level][node] for b in range(2) if level <= DEPTH[b])
            for level, size in enumerate(TREE.sizes)
            for node in range(size)
        ]
        goal = cp.max(cp.hstack(each))
    else:
        goal = sum(sum(sum(level) for level in block) for block in parts)
    problem = cp.Problem(cp.Minimize(goal), [c <= 1 for c in cost])
    return float(problem.solve(solver="CLARABEL"))


def test_shares_are_the_best_there_are() -> None:
    alike = Alike.of(TREE)
    sharing = Sharing(alike, PRICE, DEPTH)
    goal = of_sums(ASKED, alike, lambda sums: (float(sums.sum()), np.ones(1)))
    omega = sharing.best(goal, start())
    reached, _ = goal([TreeVariances.of(alike.shape, w).final for w in omega])
    assert reached == pytest.approx(written_out(worst=False), rel=1e-6)
    spent = np.zeros(12)
    for block, levels in enumerate(omega):
        for level, each in enumerate(alike.spread(levels)):
            spent += PRICE[block] * each[TREE.node_of_value(level)]
    np.testing.assert_allclose(spent, 1.0, rtol=1e-12)  # every path is used up


def test_the_largest_variance_too() -> None:
    alike = Alike.of(TREE)
    sharing, omega = Sharing(alike, PRICE, DEPTH), start()
    for power in (4.0, 32.0, 256.0):
        goal = of_rows(ASKED, [np.ones(1)] * 4, alike, power)
        omega = sharing.best(goal, omega)
    final = [TreeVariances.of(alike.shape, w).final for w in omega]
    each = [
        sum(ASKED[level][0, b] * final[b][level] for b in range(2) if level <= DEPTH[b])
        for level in range(4)
    ]
    largest = max(float(e.max()) for e in each)
    assert largest == pytest.approx(written_out(worst=True), rel=5e-3)


@pytest.mark.parametrize("largest", [512, 2, 1])
def test_the_norm_of_a_tree_is_that_of_its_matrix(largest: int) -> None:
    """Exactly, or from below where too many leaves lie under a node."""
    alike, rng = Alike.of(TREE), np.random.default_rng(3)
    weights = rng.uniform(0.5, 1.0, len(alike.copies[-1]))
    leaves = weights[alike.kind[-1]]
    for depth in (1, 2, 3):
        each = [rng.uniform(0.1, 1.0, len(c)) for c in alike.copies[: depth + 1]]
        matrix = sum(z.T * c[kind] @ z for z, c, kind in zip(NODES, each, alike.kind, strict=False))
        values = np.linalg.eigvalsh(matrix * np.sqrt(np.outer(leaves, leaves)))
        truth = np.sqrt(np.maximum(values, 0.0)).sum()
        with mock.patch.object(tree_bound, "LARGEST", largest):
            found = TreeNorm(alike, weights).root_trace(each)
        if largest == 512:
            assert found == pytest.approx(truth, rel=1e-6)
        assert found <= truth * (1 + 1e-9)
        assert found >= 0.5 * truth


# ---------------------------------------------------------------------- plans


@pytest.mark.usefixtures("short_trees")
@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("seed", seeds(4))
def test_near_the_optimum_and_never_below_its_own_bound(seed: int, even: bool) -> None:
    workload = places(seed, even=even)
    plan = nz.plan(workload, budget=BUDGET, noise="gaussian")
    assert isinstance(plan.mechanism, TreeMechanism)
    best = nz.plan(workload, budget=BUDGET, noise="gaussian", planner="optimal")
    assert best.total_variance * (1 - 1e-4) <= plan.total_variance
    assert plan.total_variance <= best.total_variance * (1.01 if even else 1.02)
    assert plan.certify().bound <= best.total_variance
    assert plan.certify().gap <= 0.02
    assert plan.lower_bound == pytest.approx(plan.certify().bound, rel=1e-6)


@pytest.mark.few(1)
@pytest.mark.usefixtures("short_trees")
@pytest.mark.parametrize(
    "goal",
    [
        nz.WorstVariance(),
        nz.PNormVariance(3.0),
        nz.ConvexLoss(lambda v: float((v**2).sum()), lambda v: 2 * v),
    ],
    ids=str,
)
def test_other_objectives(goal: nz.Objective) -> None:
    workload = places(1)
    plan, best = (
        nz.plan(workload, budget=BUDGET, noise="gaussian", objective=goal, planner=planner)
        for planner in ("auto", "optimal")
    )
    assert isinstance(plan.mechanism, TreeMechanism)
    assert plan.certify().value <= best.certify().value * 1.04
    assert plan.certify().bound <= best.certify().value * (1 + 1e-9)
    assert plan.certify().gap <= 0.12


@pytest.mark.few(1)
@pytest.mark.usefixtures("short_trees")
@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
def test_targets_are_met_for_about_the_least(noise: str) -> None:
    workload = places(2)
    targets = {name: 4.0 + i for i, name in enumerate(query.name for query in workload)}
    plan = nz.plan(workload, targets=targets, noise=noise)
    best = nz.plan(workload, targets=targets, noise="gaussian", planner="optimal")
    for name, target in targets.items():
        assert plan.variance(workload[name]).max() <= target
    assert best.privacy.pcost * (1 - 1e-6) <= plan.privacy.pcost <= 1.05 * best.privacy.pcost


@pytest.mark.usefixtures("short_trees")
def test_budgets_are_used_and_kept() -> None:
    for noise in ("gaussian", "discrete"):
        plan = nz.plan(places(3), budget=BUDGET, noise=noise)
        assert 1 - 1e-9 <= plan.privacy.pcost <= 1.0
    several = nz.plan(places(3), budget=BUDGET, max_rows=3, noise="gaussian")
    one = nz.plan(places(3), budget=BUDGET, noise="gaussian")
    assert several.total_variance == pytest.approx(9 * one.total_variance, rel=1e-6)


def test_a_long_attribute_is_planned_and_agrees_with_itself(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    leaves = 3000
    tract = np.sort(rng.integers(0, 150, leaves))
    county = tract // 12
    schema = nz.Schema.from_sizes({"geo": leaves, "sex": 2})
    workload = nz.Workload(
        [
            nz.Query(schema, ["geo", "sex"], name="places"),
            nz.Query(schema, {"geo": groups(tract), "sex": nz.Identity()}, name="tracts"),
            nz.Query(schema, {"geo": groups(county)}, name="counties"),
        ]
    )
    plan = nz.plan(workload, budget=BUDGET)
    assert plan.certify().gap < 0.01
    assert "tree of levels (taken)" in str(plan)
    data = {"geo": rng.integers(0, leaves, 50_000), "sex": rng.integers(0, 2, 50_000)}
    release = plan.release(data, seed=3)
    release.save(tmp_path / "out", tables=[])
    release = nz.load(tmp_path / "out")
    each = {
        name: release.answer(workload[name]).estimate for name in ("places", "tracts", "counties")
    }
    by_tract = np.zeros((tract.max() + 1, 2))
    np.add.at(by_tract, tract, each["places"].reshape(-1, 2))
    np.testing.assert_allclose(by_tract.ravel(), each["tracts"], atol=1e-6)
    truth = np.bincount(county[data["geo"]])
    errors = each["counties"] - truth
    spread = plan.variance(workload["counties"])
    assert 0.3 < (errors**2 / spread).mean() < 3.0
    some = nz.Query(schema, {"geo": nz.Custom([[1] * 30 + [0] * (leaves - 30)])})
    each_of = nz.Query(schema, {"geo": nz.Custom(np.eye(leaves)[:30])})
    exact = plan.covariance(each_of, each_of).sum()
    assert plan.variance(some)[0] == pytest.approx(exact, rel=1e-9)


def test_what_is_too_long_for_its_queries_is_refused() -> None:
    schema = nz.Schema.from_sizes({"time": 20_000})
    sevenths = [i % 7 for i in range(20_000)]
    mixed = nz.Levels(sevenths, leaves=False)
    crossing = nz.Workload([nz.Query(schema, {"time": f}) for f in (mixed, nz.Levels(10))])
    beside = nz.plan(crossing, budget=BUDGET)  # each of the two is a tree
    assert len(beside.mechanism.shapes) > 1 and beside.privacy.within(BUDGET)
    both = nz.Workload([nz.Query(schema, {"time": nz.Levels(sevenths, 10)})])
    with pytest.raises(PlanError, match=r"'time' has 20,000 values.*by these queries"):
        nz.plan(both, budget=BUDGET)
    levels = nz.Workload([nz.Query(schema, {"time": nz.Levels(10)})])
    with pytest.raises(PlanError, match="the budget is one of pure DP"):
        nz.plan(levels, budget=nz.PureDP(1.0))
    with pytest.raises(PlanError, match="planner='optimal'"):
        nz.plan(levels, budget=BUDGET, planner="optimal")
    with pytest.raises(PlanError, match="records are replaced"):
        nz.plan(levels, budget=BUDGET, neighbours="replace")
    with pytest.raises(PlanError, match="certify"):
        nz.bounds(levels)
    assert limits.GRAM_VALUES < 20_000


def coarse_levels(leaves: int) -> nz.Workload:
    """Counties by sex, and tracts; the blocks themselves are not asked for."""
    blocks = range(leaves)
    columns = {
        "block": [f"b{i}" for i in blocks],
        "tract": [f"t{i // 40}" for i in blocks],
        "county": [f"c{i // 400}" for i in blocks],
    }
    schema = nz.Schema({"geo": nz.Hierarchical(columns), "sex": nz.Categorical(["f", "m"])})
    return nz.Workload([nz.Query(schema, ["county", "sex"]), nz.Query(schema, ["tract"])])


COARSE: list[tuple[nz.PureDP | nz.zCDP, Literal["add-remove", "replace"]]] = [
    (nz.PureDP(1.0), "add-remove"),
    (nz.zCDP(0.5), "replace"),
    (nz.PureDP(1.0), "replace"),
]


@pytest.mark.few(1)
@pytest.mark.parametrize(("budget", "neighbours"), COARSE)
def test_coarse_levels_of_a_long_attribute_are_planned_over_their_groups(
    budget: nz.PureDP | nz.zCDP, neighbours: Literal["add-remove", "replace"]
) -> None:
    leaves = 10_000
    workload = coarse_levels(leaves)
    plan = nz.plan(workload, budget=budget, neighbours=neighbours)
    assert plan.mechanism.schema.shape == (leaves, 2)
    # One record on each block: 200 a county by sex, 40 a tract.
    data = {"geo": [f"b{i}" for i in range(leaves)], "sex": ["f", "m"] * (leaves // 2)}
    release = plan.release(data, seed=3)
    for query, truth in zip(workload, (200.0, 40.0), strict=True):
        errors = release.answer(query).estimate - truth
        assert 0.3 < (errors**2 / plan.variance(query)).mean() < 3.0
    with pytest.raises(UnanswerableError):
        plan.variance(nz.Query(workload.schema, ["geo"]))


@pytest.mark.grid
@pytest.mark.parametrize(("budget", "neighbours"), COARSE)
@pytest.mark.parametrize("queries", [1, 2])
def test_plans_over_groups_are_those_over_values(
    budget: nz.PureDP | nz.zCDP,
    neighbours: Literal["add-remove", "replace"],
    queries: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workload = nz.Workload(list(coarse_levels(800))[:queries])
    over_values = nz.plan(workload, budget=budget, neighbours=neighbours)
    monkeypatch.setattr(smaller_domain, "GRAM_VALUES", 300)
    over_groups = nz.plan(workload, budget=budget, neighbours=neighbours)
    assert isinstance(over_groups.mechanism, ReducedMechanism)
    assert over_groups.privacy.pcost == pytest.approx(over_values.privacy.pcost, rel=1e-6)
    for query in workload:
        expected = over_values.variance(query)
        np.testing.assert_allclose(over_groups.variance(query), expected, rtol=1e-6)


@pytest.mark.usefixtures("short_trees")
def test_what_was_not_measured_at_a_level_is_refused() -> None:
    workload = places(0)
    plan = nz.plan(workload, budget=BUDGET)
    schema = workload.schema
    with pytest.raises(UnanswerableError, match="geo × age measured together at this level"):
        plan.variance(nz.Query(schema, ["geo", "age"]))


@pytest.mark.usefixtures("short_trees")
def test_saved_trees_that_make_no_sense_are_refused() -> None:
    plan = nz.plan(places(0), budget=BUDGET)
    content, arrays = plan.mechanism.parts()

    def refused(match: str, **changed: object) -> None:
        with pytest.raises(StorageError, match=match):
            read_mechanism({**content, **{k: v for k, v in changed.items() if k in content}},
                           {**arrays, **{k: v for k, v in changed.items() if k in arrays}},
                           plan.schema)  # fmt: skip

    read_mechanism(content, arrays, plan.schema)
    refused("over its attribute", tree_values=arrays["tree_values"][::-1][:5])
    refused("over its attribute", tree_values=0 * arrays["tree_values"])
    refused("numbered by their parents", tree_1_parents=arrays["tree_1_parents"][::-1].copy())
    refused("has no noise", block_0_0_sigma2=0 * arrays["block_0_0_sigma2"])
    refused("does not fit its tree", block_0_1_sigma2=np.ones(3))
    refused("about attributes", blocks=[{"others": [1], "levels": 1}])
    refused("levels that the tree", blocks=[{"others": [], "levels": 9}])
    refused("nothing is measured", blocks=[])


def test_alike_children_stand_for_each_other() -> None:
    leaves = 4000
    even = Tree.of([np.arange(leaves), np.arange(leaves) // 10, np.arange(leaves) // 200])
    assert even is not None
    alike = Alike.of(even)
    assert [len(c) for c in alike.copies] == [1, 1, 1, 1]
    for copies, size in zip(alike.copies, even.sizes, strict=True):
        assert copies.sum() == size
    for (above, below), often in zip(pairwise(alike.copies), alike.shape.often, strict=True):
        assert below[0] == above[0] * often[0]


def uneven_places(count: int = 3000) -> nz.Workload:
    """So many places of so many kinds that sizes of noise are rounded to few bits."""
    rng = np.random.default_rng(8)
    schema = nz.Schema.from_sizes({"geo": count, "age": 3, "sex": 2})
    tract = np.sort(rng.integers(0, count // 20, count))
    value = nz.Identity()
    return nz.Workload(
        [
            nz.Query(schema, ["geo", "sex"], name="places"),
            nz.Query(schema, {"geo": groups(tract), "age": value, "sex": value}, name="tracts"),
            nz.Query(schema, {"geo": groups(tract // 12), "age": value}, name="counties"),
            nz.Query(schema, ["age", "sex"], name="nation"),
        ]
    )


@pytest.mark.parametrize("budget", [nz.zCDP(0.5), nz.zCDP(0.0137)])
def test_sizes_of_few_bits_spend_all_of_the_budget(budget: nz.zCDP) -> None:
    """Rounding changes how it is shared, not how much of it; and leaves few sizes to draw."""
    plan = nz.plan(uneven_places(), budget=budget)
    mechanism = plan.mechanism
    assert isinstance(mechanism, TreeMechanism)
    spent = mechanism.record_cost("add-remove")
    assert 2 * budget.rho * (1 - 1e-9) <= spent <= 2 * budget.rho
    for block in mechanism.blocks:
        for noise in block.noise:
            octaves = np.log2(noise.size.max() / noise.size.min()) + 1
            assert len(np.unique(noise.size)) <= 128 * octaves + 1
    # The dearest record by definition: its nodes, and all numbers it changes.
    of_leaf = np.zeros(mechanism.tree.sizes[-1])
    for block in mechanism.blocks:
        price = np.prod([mechanism.basis(i).sensitivity for i in block.others])
        for level, noise in enumerate(block.noise):
            of_leaf[mechanism.tree.of_value] += (
                price / noise.size[mechanism.tree.node_of_value(level)]
            )
    assert of_leaf.max() == pytest.approx(spent, rel=1e-9)


def test_valid_tables_of_geography_are_named() -> None:
    """What is not determined is refused with a call that works."""
    plan = nz.plan(uneven_places(600), budget=BUDGET)
    rng = np.random.default_rng(2)
    release = plan.release(rng.poisson(1.0, plan.workload.schema.shape), seed=3)
    with pytest.raises(UnanswerableError) as refused:
        release.valid()
    call = str(refused.value).split("Name tables that are: ")[1].split(";")[0]
    assert call == "valid(tables=[['geo', 'sex'], ['age', 'sex']])"
    found = eval("release." + call, {"release": release})
    assert all((table >= 0).all() for table in found.tables.values())


@pytest.mark.usefixtures("short_trees")
def test_targets_without_a_budget_do_not_speak_of_one() -> None:
    """Noise far below one count leaves less variance than is allowed."""
    plan = nz.plan(places(0), targets=0.001)
    assert plan.budget is None and plan.target_scale < 0.9
    assert "of the variance allowed; planned in" in str(plan)
    kept = nz.plan(places(0), targets=100.0, budget=BUDGET)
    assert "of the variance allowed, for the budget; planned in" in str(kept)


@pytest.mark.usefixtures("short_trees")
def test_the_bound_on_what_targets_cost_is_no_more_than_that() -> None:
    """Variance v of every value costs 1/v and no less; a plan that does a little better than its
    targets proves nothing about what a little worse would cost."""
    schema = nz.Schema.from_sizes({"geo": 12})
    queries = [
        nz.Query(schema, {"geo": nz.Identity()}, name="values"),
        nz.Query(schema, {"geo": groups(np.arange(12) // 3)}, name="tracts"),
    ]
    targets = {"values": 2.5, "tracts": 1e6}
    plan = nz.plan(nz.Workload(queries), targets=targets, noise="gaussian")
    assert isinstance(plan.mechanism, TreeMechanism)
    found = plan.certify()
    assert found.bound <= 1 / 2.5 <= found.value * (1 + 1e-9)


@pytest.mark.few(1)
@pytest.mark.usefixtures("short_trees")
@pytest.mark.parametrize(
    "function",
    [
        lambda v: 1.0,
        lambda v: float(np.maximum(v - 1e6, 0.0).sum()),
        lambda v: float(v.sum()) - 1e9,
    ],
    ids=["constant", "zero", "negative"],
)
def test_a_loss_that_prefers_no_plan_is_refused_with_a_remedy(
    function: Callable[[np.ndarray], float],
) -> None:
    workload = places(0)
    with pytest.raises(PlanError, match=r"loss\(v\) \+ 0.001 \* v.sum\(\)"):
        nz.plan(workload, budget=BUDGET, objective=nz.ConvexLoss(function))
    if function(np.ones(len(workload))) >= 0:  # as it says
        mended = nz.ConvexLoss(lambda v: function(v) + 0.001 * float(v.sum()))
        plan = nz.plan(workload, budget=BUDGET, objective=mended)
        least = nz.plan(workload, budget=BUDGET)
        assert plan.privacy.rho == pytest.approx(least.privacy.rho)
