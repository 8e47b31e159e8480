"""Single variances of very many rows: bounded memory and work, or a clear refusal."""

from __future__ import annotations

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import PlanError
from noiseplan.matrices import RangesMatrix
from noiseplan.optimize.fitness import least_cost
from noiseplan.planning import largest_variance
from noiseplan.planning.largest_variance import followed_rows


def test_followed_rows_of_a_long_table() -> None:
    # 4 × 16,384 mixtures of 400,000 rows at once would be 200 GB.
    angle = np.linspace(0, np.pi / 2, 400_000)
    table = 0.5 * np.column_stack([np.cos(angle), np.sin(angle)])
    table[[7, 123_456]] *= 1.9
    chosen = followed_rows(table, 1000)
    assert len(chosen) <= 1000
    assert {7, 123_456} <= set(chosen.tolist())


def test_long_attributes_follow_fewer_rows() -> None:
    assert largest_variance._most_rows(1, 128) == largest_variance.GRID_LIMIT
    assert largest_variance._most_rows(1, 1000) * 1000**2 <= largest_variance.ROW_WORK
    assert largest_variance._most_rows(2, 16) == 128


@pytest.mark.parametrize("longest", [4, largest_variance.LONGEST])
def test_beyond_the_longest_the_plan_is_sound(
    longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(largest_variance, "LONGEST", longest)
    workload = nz.Workload.all_ranges(nz.Schema.from_sizes({"x": 12}))
    plan = nz.plan(workload, budget=nz.zCDP(0.5), objective=nz.WorstVariance(), planner="residual")
    total = nz.plan(workload, budget=nz.zCDP(0.5), planner="residual")
    assert plan.privacy.rho <= 0.5
    assert plan.worst_variance <= total.worst_variance * (1 + 1e-6)
    assert plan.worst_variance == pytest.approx(plan.variance(workload[0]).max(), rel=1e-9)


@pytest.mark.parametrize("aim", [{"targets": 16.0}, {"objective": nz.WorstVariance()}])
def test_one_matrix_refuses_too_many_rows(aim: dict[str, object]) -> None:
    workload = nz.Workload.all_ranges(nz.Schema.from_sizes({"x": 3000}))
    budget = None if "targets" in aim else nz.zCDP(0.5)
    with pytest.raises(PlanError, match=r"at most 4,000,000, .* use planner='residual'"):
        nz.plan(workload, budget=budget, planner="optimal", **aim)


def test_one_matrix_meets_targets_of_more_than_20_000_rows() -> None:
    """All rectangles of 17 × 17 cells: 23,409 rows, at the least cost, certified."""
    schema = nz.Schema.from_sizes({"x": 17, "y": 17})
    workload = nz.Workload([nz.Query(schema, {"x": nz.Ranges(), "y": nz.Ranges()}, name="all")])
    plan = nz.plan(workload, targets={"all": 9.0}, planner="optimal")
    assert plan.gap is not None
    assert plan.gap <= 2e-4
    variances = plan.variance("all")
    assert variances.max() <= 9.0
    assert variances.max() == pytest.approx(9.0, rel=1e-6)
    # Factorisation norms multiply: the optimum of a product is that of its factors.
    one = least_cost(RangesMatrix(17), tolerance=1e-7).cost
    assert plan.privacy.pcost == pytest.approx(one**2 / 9.0, rel=2e-4)
