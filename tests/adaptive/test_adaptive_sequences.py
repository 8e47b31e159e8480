"""Plans passed over and chosen in any order: nothing that was paid for is lost on the way."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from adaptive_plans import watch
from hypothesis import HealthCheck, given, reject
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from integer_oracles import Measured
from noiseplan.choosing.choice import Look
from noiseplan.counting import CountTensor
from noiseplan.errors import PlanError
from noiseplan.planning.plan import Plan
from oracles import add_remove_cost, cost_of, probe, replace_cost

FACTORS = (nz.Identity(), nz.Identity(), nz.Prefix(), nz.Ranges())
# What `adaptive` may say before anything is spent.
REFUSED = ("nothing in common", "explicit matrices", "costs nothing")


def table(schema: nz.Schema) -> CountTensor:
    return CountTensor(schema, np.arange(schema.size).reshape(schema.shape))


def measured_law(plans: list[Plan]) -> Measured:
    """All rows that were measured, and the parameter σ² of each, by experiment."""
    if plans[0].noise == "discrete":
        parts = [Measured.of(plan) for plan in plans]
    else:
        probed = [probe(plan) for plan in plans]
        parts = [Measured(b.tolist(), [Fraction(s) for s in sigma2]) for b, sigma2 in probed]
    return Measured([b for p in parts for b in p.rows], [s for p in parts for s in p.sigma2])


def check(release: nz.Release, target: Plan, measured: list[Plan]) -> None:
    """What was measured costs no more than was charged, that is the plan's price, and answers the
    plan's queries as precisely as the release says, and hardly less than the plan does."""
    law = measured_law(measured)
    charged = sum((Fraction(plan.privacy.pcost) for plan in measured), Fraction(0))
    assert charged <= Fraction(target.privacy.pcost)
    cost = add_remove_cost if target.privacy.neighbours == "add-remove" else replace_cost
    assert cost(cost_of(np.array(law.rows, float), np.array(law.sigma2, float))) <= float(
        charged
    ) * (1 + 1e-12)
    for query in target.workload:
        w = query.dense()
        best = np.diagonal(law.covariance(w))
        assert release.variance(query) == pytest.approx(best, rel=1e-6, abs=1e-6)
        assert (best <= target.variance(query) * (1 + 1e-4) + 1e-6).all()


@st.composite
def small_choices(draw: st.DrawFn) -> tuple[list[Plan], bool]:
    """Two to four plans over at most 27 cells, with noise so large that it hardly is discrete."""
    sizes = draw(st.lists(st.integers(2, 3), min_size=1, max_size=3))
    schema = nz.Schema.from_sizes({f"x{i}": size for i, size in enumerate(sizes)})
    noise = draw(st.sampled_from(["discrete", "gaussian"]))
    neighbours = draw(st.sampled_from(["add-remove", "add-remove", "replace"]))
    factors = FACTORS if neighbours == "add-remove" else FACTORS[:1]
    tables = st.dictionaries(st.sampled_from(schema.names), st.sampled_from(factors))
    asked = st.lists(tables, min_size=1, max_size=3)
    plans = [
        nz.plan(
            nz.Workload([nz.Query(schema, table) for table in draw(asked)]),
            budget=nz.zCDP(draw(st.sampled_from([0.001, 0.005, 0.02]))),
            noise=noise,
            neighbours=neighbours,
        )
        for _ in range(draw(st.integers(2, 4)))
    ]
    return plans, draw(st.booleans())


@examples(40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(small_choices(), st.data())
def test_any_order_goes_through(choices: tuple[list[Plan], bool], data: st.DataObject) -> None:
    plans, sequential = choices
    try:
        choice = nz.adaptive(plans, sequential=sequential)
    except PlanError as error:
        assert any(words in str(error) for words in REFUSED)
        reject()
    with pytest.MonkeyPatch.context() as patch:
        measured = watch(patch)
        look = choice.look(table(plans[0].schema), seed=1)
        while len(look.choice.plans) > 2 and data.draw(st.booleans()):
            look = passed_over(look, data)
        target = data.draw(st.sampled_from(look.choice.plans))
        check(look.choose(target), target, measured)


def passed_over(look: Look, data: st.DataObject) -> Look:
    """One plan less: any of them, or the first where plans have no rows in common."""
    if look.choice.family.nested:
        return look.without(data.draw(st.sampled_from(look.choice.plans)))
    if look.choice.sequential:
        return look.without(0)
    with pytest.raises(PlanError, match="sequential=True"):
        look.without(0)
    return look


@pytest.mark.parametrize("chosen", [2, 3])
def test_a_plan_may_be_passed_over_that_hid_nothing(
    chosen: int, measured_plans: list[Plan]
) -> None:
    """Nothing is measured when it goes, and nothing is charged: that is still to be paid."""
    schema = nz.Schema.from_sizes({"x": 2})
    ranges = nz.Query(schema, {"x": nz.Ranges()})
    cells, sums = nz.Query(schema, ["x"]), nz.Query(schema, {"x": nz.Prefix()}, weight=4)
    total = nz.Query(schema, {})
    asked = [
        ([cells, sums, ranges], 0.005, "auto"),
        ([ranges], 0.001, "optimal"),
        ([ranges], 0.001, "auto"),
        ([cells, sums, total], 0.005, "auto"),
    ]
    plans = [
        nz.plan(nz.Workload(queries), budget=nz.zCDP(rho), planner=planner)
        for queries, rho, planner in asked
    ]
    look = nz.adaptive(plans, sequential=True).look(table(schema)).without(0)
    before = len(measured_plans)
    look = look.without(0)
    assert len(measured_plans) == before
    check(look.choose(plans[chosen]), plans[chosen], measured_plans)
