"""`planner="coupled"`: between residuals one by one and the optimum, within budget; and when."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from depth import seeds
from noiseplan.errors import PlanError
from noiseplan.mechanisms.coupled import CoupledMechanism
from noiseplan.mechanisms.price import probed_cost
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.planning import coupled_split
from noiseplan.planning.planners import coupled_plans

BUDGET = nz.zCDP(0.5)


def prefix_tables(
    values: int, attributes: int, ways: int, missing: str | None = None
) -> nz.Workload:
    one = nz.Ordinal(range(values), missing=missing)
    names = {f"a{i}": one for i in range(attributes)}
    schema = nz.Schema(names)
    sets = combinations(schema.names, ways)
    return nz.Workload([nz.Query(schema, dict.fromkeys(some, nz.Prefix())) for some in sets])


def random_tables(seed: int) -> nz.Workload:
    """Tables over 2 to 4 attributes, each asked in one way wherever it is asked."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, rng.integers(2, 5)).tolist()
    schema = nz.Schema({f"a{i}": nz.Ordinal(range(n)) for i, n in enumerate(sizes)})
    ways = [nz.Prefix(), nz.Prefix(), nz.Ranges(), nz.Identity()]
    factors = {name: ways[int(rng.integers(4))] for name in schema.names}
    factors["a0"] = nz.Prefix()
    every = [s for n in (1, 2, 3) for s in combinations(schema.names, n)]
    chosen = rng.permutation(len(every))[: int(rng.integers(2, 6))]
    return nz.Workload(
        [
            nz.Query(schema, {n: factors[n] for n in every[i]}, weight=float(rng.integers(1, 5)))
            for i in chosen
        ]
    )


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", seeds(30))
def test_no_better_than_the_optimum_and_no_worse_than_residuals(seed: int) -> None:
    workload = random_tables(seed)
    how = {"budget": BUDGET, "noise": "gaussian"}
    try:
        plan = nz.plan(workload, planner="coupled", **how)
    except PlanError as refusal:  # attributes of two values have no heads
        assert "other than single values" in str(refusal)
        return
    cells = workload.schema.size
    assert probed_cost([plan.mechanism], "add-remove") <= plan.privacy.pcost <= 1
    assert plan.privacy.pcost == pytest.approx(1, abs=1e-6 if cells > 1024 else 1e-9)
    best = nz.plan(workload, planner="optimal", **how)
    residual = nz.plan(workload, planner="residual", **how)
    assert best.lower_bound * (1 - 1e-9) <= plan.total_variance
    assert plan.total_variance <= residual.total_variance
    assert plan.lower_bound <= best.total_variance * (1 + 1e-9)


def test_two_of_three_attributes_are_almost_at_the_optimum() -> None:
    """Residuals one by one are 0.57 % above it."""
    workload = prefix_tables(5, 3, 2)
    best = nz.plan(workload, budget=BUDGET, planner="optimal", noise="gaussian")
    for noise, most in (("gaussian", 0.0018), ("discrete", 0.0022)):
        plan = nz.plan(workload, budget=BUDGET, planner="coupled", noise=noise)
        assert plan.total_variance / best.lower_bound - 1 < most
        assert plan.rounding_loss < 3e-4


def test_by_default_prefix_tables_are_coupled_where_that_is_clearly_better() -> None:
    workload = prefix_tables(10, 5, 3)
    plan = nz.plan(workload, budget=BUDGET)
    assert isinstance(plan.mechanism, CoupledMechanism)
    assert plan.considered[0] == ("coupled", "taken")
    assert ("residual", "clearly worse") in plan.considered
    assert plan.total_variance / plan.certify().bound - 1 < 0.01
    assert plan.privacy.within(BUDGET) and plan.privacy.rho > 0.4999999
    pairs = nz.plan(prefix_tables(10, 5, 2), budget=BUDGET)  # 0.2 % would be gained
    assert isinstance(pairs.mechanism, ResidualMechanism)
    assert ("coupled", "not clearly better") in pairs.considered


@pytest.mark.few(1)
@pytest.mark.parametrize("rho", [0.05, 5.0])
def test_another_head_is_waited_for_unasked_where_the_plan_is_far_above_its_bound(
    rho: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one head it is 0.43 % above, at any budget."""
    workload = prefix_tables(8, 4, 3)

    def planned() -> tuple[int, float]:
        plan = nz.plan(workload, budget=nz.zCDP(rho), noise="gaussian")
        mechanism = plan.mechanism
        assert isinstance(mechanism, CoupledMechanism)
        return int(mechanism.heads.max()), plan.total_variance

    monkeypatch.setattr(coupled_plans, "FAR", 0.0045)
    one, near = planned()
    monkeypatch.setattr(coupled_plans, "FAR", 0.0042)
    two, better = planned()
    assert (one, two) == (1, 2) and better < near
    monkeypatch.setattr(coupled_plans, "MOST_MOMENTS", 10)  # of which two heads have more
    assert planned() == (1, near)


@pytest.mark.few(1)
@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
def test_records_that_are_hardly_asked_for_are_not_made_to_pay_without_end(noise: str) -> None:
    """Prefix sums leave missing values out: the best precisions of some parts are infinite."""
    workload = prefix_tables(5, 4, 2, missing="not stated")
    plan = nz.plan(workload, budget=BUDGET, planner="coupled", noise=noise)
    plain = nz.plan(workload, budget=BUDGET, planner="residual", noise=noise)
    assert isinstance(plan.mechanism, CoupledMechanism)
    assert plan.total_variance < 0.99 * plain.total_variance
    assert plan.lower_bound <= plan.total_variance
    assert probed_cost([plan.mechanism], "add-remove") <= plan.privacy.pcost <= 1
    assert plan.rounding_loss < 1e-3


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("rho", "rows"),
    [(0.5, [[1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1, 0, 0]]), (1e5, np.tri(8))],
    ids=["fewer rows than values", "faint noise"],
)
def test_by_name_it_is_no_worse_than_residuals_where_coupling_is(rho: float, rows: object) -> None:
    schema = nz.Schema.from_sizes(dict.fromkeys("abcd", 8))
    factors = dict.fromkeys("abcd", nz.Custom(rows))
    workload = nz.Workload.marginals(schema, k=3, factors=factors)
    plan, plain = (
        nz.plan(workload, budget=nz.zCDP(rho), planner=name) for name in ("coupled", "residual")
    )
    assert plan.considered == (("residual", "taken"), ("coupled", "clearly worse"))
    assert plan.total_variance == plain.total_variance


@pytest.mark.few(2)
@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
@pytest.mark.parametrize("seed", [11, 13, 23, 25])
def test_by_name_it_is_never_worse_than_residuals_by_rounding_either(seed: int, noise: str) -> None:
    """Where next to nothing is gained, mixing matrices may lose more in rounding: up to 4e-5."""
    workload = random_tables(seed)
    plan, plain = (
        nz.plan(workload, budget=BUDGET, noise=noise, planner=name)
        for name in ("coupled", "residual")
    )
    assert plan.total_variance <= plain.total_variance
    if isinstance(plan.mechanism, ResidualMechanism):
        assert plan.considered == (("residual", "taken"), ("coupled", "not clearly better"))
        assert plan.total_variance == plain.total_variance
    else:
        assert plan.considered == (("coupled", "asked for"),)


@pytest.mark.few(1)
@pytest.mark.parametrize("more", [{"one": 1}, {"sum": 3}])
def test_attributes_of_which_nothing_is_asked_but_the_sum_change_nothing(
    more: dict[str, int],
) -> None:
    """One value, or a row of ones beside the prefix sums of others."""
    sizes, ((name, values),) = dict.fromkeys("abc", 5), more.items()
    schema = nz.Schema.from_sizes({**sizes, name: values})
    own = {name: nz.Custom(np.ones((1, values)))}
    pairs = [{**dict.fromkeys(some, nz.Prefix()), **own} for some in combinations("abc", 2)]
    workload = nz.Workload([nz.Query(schema, factors) for factors in pairs])
    plan = nz.plan(workload, budget=BUDGET, planner="coupled")
    without = nz.plan(prefix_tables(5, 3, 2), budget=BUDGET, planner="coupled")
    assert isinstance(plan.mechanism, CoupledMechanism)
    assert plan.total_variance == pytest.approx(without.total_variance, rel=1e-9)
    assert probed_cost([plan.mechanism], "add-remove") <= plan.privacy.pcost <= 1


def test_by_name_it_is_residuals_where_the_sum_is_not_asked_for() -> None:
    """Of differences alone no record can be made to pay what others pay."""
    schema = nz.Schema.from_sizes(dict.fromkeys("abc", 4))
    steps = nz.Custom(np.eye(4)[:3] - np.eye(4)[1:])
    workload = nz.Workload.marginals(schema, k=2, factors=dict.fromkeys("abc", steps))
    plan = nz.plan(workload, budget=BUDGET, planner="coupled")
    plain = nz.plan(workload, budget=BUDGET, planner="residual")
    assert plan.considered == (("residual", "taken"), ("coupled", "cannot be measured"))
    assert plan.total_variance == plain.total_variance


def test_the_least_privacy_for_an_error_is_found_by_coupled_tables_too() -> None:
    workload = prefix_tables(6, 5, 3)
    plan, plain = (
        nz.plan(workload, objective=nz.RMSE(at_most=2.0), planner=name)
        for name in ("auto", "residual")
    )
    assert isinstance(plan.mechanism, CoupledMechanism)
    assert plan.rmse <= 2.0 and plan.rmse == pytest.approx(2.0, rel=1e-6)
    assert plan.privacy.rho < 0.995 * plain.privacy.rho


def test_rows_too_many_to_look_at_each_are_not_coupled() -> None:
    """All ranges over sets of 46 values: a table has 10¹² of them."""
    schema = nz.Schema.from_sizes(dict.fromkeys("abcde", 46))
    ranges = dict.fromkeys("abcde", nz.Ranges())
    workload = nz.Workload.marginals(schema, k=4, factors=ranges)
    plan = nz.plan(workload, budget=BUDGET)
    assert dict(plan.considered)["coupled"] == f"not tried, {workload.rows:,} rows"
    with pytest.raises(PlanError, match="not tried"):
        nz.plan(workload, budget=BUDGET, planner="coupled")


@pytest.mark.few(1)
@pytest.mark.parametrize("rho", [0.05, 0.5, 5.0])
def test_no_search_goes_on_that_cannot_gain_enough(
    rho: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs gain 0.34 %: it ends after 40 steps. What gains enough goes on, at any budget."""
    searches: list[coupled_split._Enough] = []

    class Heard(coupled_split._Enough):
        def __init__(self, *heard: Any) -> None:
            super().__init__(*heard)
            searches.append(self)

    monkeypatch.setattr(coupled_split, "_Enough", Heard)
    for workload, taken in ((prefix_tables(10, 5, 2), False), (prefix_tables(6, 5, 3), True)):
        plan = nz.plan(workload, budget=nz.zCDP(rho), noise="gaussian")
        assert (plan.considered[0] == ("coupled", "taken")) == taken
        assert (len(searches.pop().values) > 40) == taken


def test_figures_are_those_of_the_rows_that_are_measured() -> None:
    """Sums of variances of queries, and what costs each record the same beyond cell by cell."""
    plan = nz.plan(prefix_tables(6, 4, 2), budget=BUDGET, planner="coupled")
    rows = plan.mechanism.unit_rows()
    back = np.linalg.pinv(rows)
    total = sum(float(((q.dense() @ back) ** 2).sum()) for q in plan.workload)
    assert plan.total_variance == pytest.approx(total, rel=1e-6)
    costs = np.einsum("ri,ri->i", rows, rows)
    assert plan.schema.size > 1024 and costs.max() <= plan.privacy.pcost
    assert costs.min() > 0.999 * plan.privacy.pcost  # rounding alone tells records apart


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"objective": "worst"}, "plans the total variance under a budget"),
        ({"budget": None, "targets": 5.0}, "plans the total variance under a budget"),
        ({"neighbours": "replace"}, "add or remove a record"),
        ({"budget": nz.PureDP(1.0)}, "does not plan pure DP"),
    ],
)
def test_what_is_not_coupled_is_refused_by_name(how: dict[str, object], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        nz.plan(prefix_tables(4, 3, 2), **{"budget": BUDGET, "planner": "coupled", **how})


def test_workloads_that_have_no_heads_are_refused_by_name_and_left_alone_unasked() -> None:
    schema = nz.Schema({"a": nz.Ordinal(range(4)), "b": nz.Ordinal(range(4))})
    plain = nz.Workload([nz.Query(schema, ["a"]), nz.Query(schema, ["b"])])
    several = nz.Workload(
        [
            nz.Query(schema, {"a": nz.Prefix(), "b": nz.Prefix()}),
            nz.Query(schema, {"a": nz.Ranges()}),
        ]
    )
    for workload, words in ((plain, "other than single values"), (several, "in one way")):
        with pytest.raises(PlanError, match=words):
            nz.plan(workload, budget=BUDGET, planner="coupled")
        assert "coupled" not in dict(nz.plan(workload, budget=BUDGET).considered)


def test_plans_over_many_cells_are_not_compared_and_say_how_they_would_be() -> None:
    plans = [nz.plan(prefix_tables(9, 4, k), budget=BUDGET, planner="coupled") for k in (1, 2)]
    with pytest.raises(PlanError, match=r"several tables together.*planner='residual'"):
        nz.adaptive(plans)


def test_nothing_is_coupled_unasked_where_other_plans_would_go_on_from_the_release() -> None:
    """Over 2,048 cells and more, if attributes asked by prefix sums have no more than 1,024."""
    schema = nz.Schema.from_sizes({"a0": 6, "a1": 6, "a2": 6, "a3": 4, "a4": 4})
    factors = {name: nz.Prefix() for name in ("a0", "a1", "a2")}
    pairs, triples = (nz.Workload.marginals(schema, k=k, factors=factors) for k in (2, 3))
    plan = nz.plan(triples, budget=nz.zCDP(1.0))
    assert isinstance(plan.mechanism, ResidualMechanism)
    assert dict(plan.considered)["coupled"].startswith("not tried, so that other plans go on")
    earlier = nz.plan(pairs, budget=BUDGET).release(np.ones(schema.shape, dtype=int), seed=1)
    assert plan.given(earlier).saved > 0.1
    named = nz.plan(triples, budget=nz.zCDP(1.0), planner="coupled")
    assert named.total_variance < plan.total_variance
    with pytest.raises(PlanError, match="measures numbers of several tables together"):
        named.given(earlier)


def test_a_search_unasked_ends_when_curvatures_have_taken_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is found by then is kept, and is still better than residuals; by name none is left out.

    Every step takes a curvature or more, so that a limit of one ends the search after a step.
    """
    steps = list[int]()

    def noted(*args: Any, **how: Any) -> Any:
        told = how["told"]
        return kept(*args, **{**how, "told": lambda step: (steps.append(step), told(step))})

    kept = coupled_plans.coupled_rows
    monkeypatch.setattr(coupled_plans, "coupled_rows", noted)
    workload = prefix_tables(10, 5, 3)
    whole = nz.plan(workload, budget=BUDGET, noise="gaussian")
    taken = len(steps)
    monkeypatch.setattr(coupled_plans, "MOST_PRODUCTS", 1.0)
    begun = nz.plan(workload, budget=BUDGET, noise="gaussian", planner="auto")
    assert taken > 20 and len(steps) - taken <= 1
    assert begun.total_variance >= whole.total_variance
    steps.clear()
    assert nz.plan(workload, budget=BUDGET, noise="gaussian", planner="coupled")
    assert len(steps) >= taken
