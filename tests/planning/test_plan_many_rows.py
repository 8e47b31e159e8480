"""Single variances of very many rows: bounded memory and work, or a clear refusal."""

from __future__ import annotations

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import PlanError
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
    workload = nz.Workload.all_ranges(nz.Schema.from_sizes({"x": 300}))
    budget = None if "targets" in aim else nz.zCDP(0.5)
    with pytest.raises(PlanError, match=r"at most 20,000, .* has 45,150; use planner='residual'"):
        nz.plan(workload, budget=budget, planner="optimal", **aim)
