"""Conditions beside tables of a long attribute: never worse than apart, and told in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from long_attributes import planned_as_long

BUDGET = nz.zCDP(0.5)
VALUE = nz.Identity()
SCHEMA = nz.Schema.from_sizes({"place": 6, "sex": 2})
SIGNED = nz.Custom([[1, -1, 0, 2, 1, 2]])
LOSS = nz.ConvexLoss(lambda v: float((v**2).sum()), lambda v: 2 * v)


def planned(queries: list[nz.Query], **how: Any) -> nz.Plan:
    with planned_as_long():
        return nz.plan(queries, noise="gaussian", **({"budget": BUDGET} | how))


@pytest.mark.grid
@pytest.mark.parametrize("planner", ["auto", "residual"])
@pytest.mark.parametrize("max_rows", [1, 2])
@pytest.mark.parametrize("goal", ["worst", "total"])
def test_a_heavy_condition_is_measured_by_itself(goal: str, max_rows: int, planner: str) -> None:
    """Single places tell it with Σ a² = 11, and a number of its own with max |a|² = 4: by 2.75
    times worse before, where nothing was certified of the tables."""
    table = nz.Query(SCHEMA, {"place": VALUE})
    condition = nz.Query(SCHEMA, {"place": SIGNED, "sex": VALUE}, weight=1e5)
    plan = planned([table, condition], objective=goal, planner=planner, max_rows=max_rows)
    assert plan.variance(condition).max() <= 4 * max_rows**2 * 1.02
    assert np.diag(plan.cost_matrix()).max() * max_rows**2 <= 2 * BUDGET.rho


def test_a_loss_of_which_nothing_is_known_is_printed() -> None:
    """No percentage is as large as what nobody knows."""
    queries = [
        nz.Query(SCHEMA, {"place": VALUE, "sex": VALUE}),
        nz.Query(SCHEMA, {"place": SIGNED}),
    ]
    plan = planned(queries, objective=LOSS)
    assert "no bound of any use is known" in str(plan)
    best = nz.plan(queries, budget=BUDGET, noise="gaussian", objective=LOSS, planner="optimal")
    least, told = best.certify(), plan.certify()  # who asks is told
    assert least.bound * (1 - 2e-3) <= told.bound <= least.value * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["categorical", "ordinal"])
def test_sums_in_order_of_another_attribute_are_no_levels_of_this(kind: str) -> None:
    """A categorical attribute has no prefix sums, and places in no order are not planned by any."""
    place = nz.Ordinal(range(8)) if kind == "ordinal" else nz.Categorical([*"abcdefgh"])
    schema = nz.Schema({"place": place, "day": nz.Ordinal(range(6))})
    queries = [
        nz.Query(schema, {"day": nz.Prefix(), "place": VALUE}),
        nz.Query(schema, {"day": nz.Prefix(), "place": nz.Custom([[1, 0, 0, 1, 0, 1, 0, 0]])}),
    ]
    plan = planned(queries)
    assert np.diag(plan.cost_matrix()).max() <= 2 * BUDGET.rho
    best = nz.plan(queries, budget=BUDGET, noise="gaussian", planner="optimal")
    assert plan.certify().bound <= best.total_variance * (1 + 1e-9)
    assert plan.total_variance <= 1.5 * best.total_variance


def test_a_set_that_only_rounding_asks_for_is_not_needed() -> None:
    """The centre of an attribute is orthogonal to its rows, as exactly as all of them tell."""
    schema = nz.Schema({"a": nz.Ordinal(range(12), missing="none"), "b": nz.Ordinal(range(3))})
    rows = [[1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1]]
    others = [[1, 0, 1], [0, 1, 0], [1, 0, 0], [1, 0, 0]]
    factors = {"a": nz.Custom(rows), "b": nz.Custom(others)}
    query = nz.Query(schema, factors, weight=12.14)
    for noise in ("gaussian", "discrete"):
        plan = nz.plan([query], budget=nz.zCDP(0.5), noise=noise)
        # What is below is rounding: on some machines more than a pseudo-inverse leaves out itself.
        exact = np.linalg.pinv(plan.cost_matrix(), rcond=1e-9, hermitian=True)
        expected = np.diag(query.dense() @ exact @ query.dense().T)
        np.testing.assert_allclose(plan.variance(query), expected, rtol=1e-6)
