"""Eigen-designs over many cells: in the space that queries span, and by one matrix."""

from __future__ import annotations

import time

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import PlanError
from noiseplan.planning.planners import named
from noiseplan.strategies.column_norms import total_error
from noiseplan.strategies.eigen import eigen_design, principal_design, separated_design

BUDGET = nz.zCDP(0.5)
DESIGNS = {
    "eigen": lambda gram: eigen_design(gram, fill=False),
    "eigen-separated-3": lambda gram: separated_design(gram, 3, fill=False),
    "eigen-principal-25": lambda gram: principal_design(gram, 25, fill=False),
}


def weighted(workload: nz.Workload) -> np.ndarray:
    return np.concatenate([np.sqrt(query.weight) * query.dense() for query in workload])


def workloads() -> dict[str, nz.Workload]:
    """Of a rank far below the cells; eigenvalues differ, so that there is one design only."""
    random, wide = np.random.default_rng(4), nz.Schema.from_sizes({"a": 4, "b": 3, "c": 5})
    line = nz.Schema.from_sizes({"x": 60})
    some = nz.Query(line, ["x"], matrix=random.integers(0, 4, size=(9, 60)))
    steps = nz.Query(line, ["x"], matrix=np.repeat(np.tril(np.ones((6, 6))), 10, axis=1), weight=2)
    tables = [nz.Query(wide, {"a": nz.Prefix()}), nz.Query(wide, {"c": nz.Prefix()}, weight=3.0)]
    return {"rows": nz.Workload([some, steps]), "tables": nz.Workload(tables)}


@pytest.mark.grid
@pytest.mark.parametrize("planner", DESIGNS)
@pytest.mark.parametrize("name", workloads())
@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
def test_designs_in_the_row_space_are_those_over_all_cells(
    name: str, planner: str, noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = workloads()[name]
    monkeypatch.setattr(named, "EXPLICIT_CELLS", 6)
    rows = weighted(workload)
    plan = nz.plan(workload, budget=BUDGET, planner=planner, noise=noise)
    gram = rows.T @ rows
    assert plan.total_variance == pytest.approx(total_error(DESIGNS[planner](gram), gram), rel=1e-4)
    assert plan.planner == planner
    assert abs(plan.rounding_loss) < 1e-4


@pytest.mark.parametrize("planner", ["eigen", "eigen-separated-4", "eigen-principal-30"])
def test_errors_of_attributes_alike_are_their_own(
    planner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups may tear eigenspaces apart, and tables that look alike then differ in their errors."""
    monkeypatch.setattr(named, "EXPLICIT_CELLS", 16)
    schema = nz.Schema.from_sizes(dict.fromkeys("abcdef", 2))
    workload = nz.Workload.marginals(schema, k=2)
    plan = nz.plan(workload, budget=BUDGET, planner=planner)
    measured = plan.mechanism.unit_rows()
    assert len(measured) == 22  # the rank of all pairs, of 64 cells
    assert (measured**2).sum(axis=0).max() == pytest.approx(plan.privacy.pcost, rel=1e-9)
    spread = np.linalg.pinv(measured.T @ measured, rcond=1e-10)
    for query in workload:
        dense = query.dense()
        errors = np.einsum("ij,jk,ik->i", dense, spread, dense)
        np.testing.assert_allclose(plan.variance(query), errors, rtol=1e-6)


def test_pairs_over_8192_cells_take_a_second() -> None:
    """Figure 5.3's marginals: 11 % above the bound at most in groups of 16, and none by itself."""
    schema = nz.Schema.from_sizes({f"a{i}": 2 for i in range(13)})
    workload = nz.Workload.marginals(schema, k=2)
    bound = nz.plan(workload, budget=BUDGET).lower_bound
    started = time.process_time()
    grouped, alone = (
        nz.plan(workload, budget=BUDGET, planner=planner)
        for planner in ("eigen-separated-16", "eigen")
    )
    assert time.process_time() - started < 10
    assert bound <= alone.total_variance <= bound * 1.0001
    assert alone.total_variance < grouped.total_variance <= bound * 1.11**2


def test_a_rank_that_is_not_low_is_refused_beyond_one_matrix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema = nz.Schema.from_sizes({"x": 100, "y": 100})
    cells = nz.Query(schema, {"x": nz.Prefix(), "y": nz.Prefix()})
    with pytest.raises(PlanError, match=r"planner='eigen' .* up to 4,096 numbers of tables"):
        nz.plan(cells, budget=BUDGET, planner="eigen")
    monkeypatch.setattr(named, "MOST_ENTRIES", 100_000)
    pairs = nz.Workload.marginals(schema, k=1)
    with pytest.raises(PlanError, match="at most 100,000 numbers, and these are 2,000,000"):
        nz.plan(pairs, budget=BUDGET, planner="eigen")


def test_a_rank_that_is_not_low_is_planned_by_one_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = nz.Schema.from_sizes({"x": 40})
    ranges = nz.Workload([nz.Query(schema, {"x": nz.Ranges()})])
    before = nz.plan(ranges, budget=BUDGET, planner="eigen-separated-4")
    monkeypatch.setattr(named, "EXPLICIT_CELLS", 16)
    monkeypatch.setattr(named, "MOST_ENTRIES", 1)
    after = nz.plan(ranges, budget=BUDGET, planner="eigen-separated-4")
    assert after.total_variance == pytest.approx(before.total_variance, rel=1e-9)
