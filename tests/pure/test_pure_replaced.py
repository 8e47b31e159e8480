"""Replaced records under pure DP: the default is no worse than noise on the workload's rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import noiseplan as nz

LINE = nz.Schema.from_sizes({"a": 4})
CELLS = nz.Schema.from_sizes({"a": 3, "b": 2})
WORKLOADS = {
    "sums and the total": [nz.Query(LINE, {"a": nz.Prefix()}), nz.Query(LINE, {})],
    "values and the total": [nz.Query(LINE, ["a"]), nz.Query(LINE, {})],
    "single tables": [nz.Query(CELLS, ["a"]), nz.Query(CELLS, ["b"])],
    "crossed": [nz.Query(CELLS, ["a", "b"]), nz.Query(CELLS, {"a": nz.Prefix()})],
}


def continuous(rows: np.ndarray, epsilon: float) -> float:
    """Total variance of Laplace noise of one size on all rows, answered by least squares."""
    pairs = itertools.combinations(rows.T, 2)
    scale = max(float(np.abs(one - other).sum()) for one, other in pairs) / epsilon
    spread = rows @ np.linalg.pinv(rows)
    return float(2 * scale**2 * np.trace(spread))


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_default_is_no_worse_than_noise_on_the_rows(name: str) -> None:
    workload = nz.Workload(WORKLOADS[name])
    plan = nz.plan(workload, budget=nz.PureDP(0.1), neighbours="replace")
    rows = np.vstack([query.dense() for query in workload])
    assert plan.total_variance <= continuous(rows, 0.1) * (1 + 1e-6)
    assert plan.privacy.pure_epsilon is not None
    assert plan.privacy.pure_epsilon <= 0.1


def test_totals_beside_values_cost_nothing() -> None:
    """Six values and their sum: all records share the sum, so it is told exactly, and leaves of the
    noise on the values, Σ 2b², five sixths."""
    schema = nz.Schema.from_sizes({"a": 6})
    workload = nz.Workload([nz.Query(schema, ["a"]), nz.Query(schema, {})])
    plan = nz.plan(workload, budget=nz.PureDP(0.1), neighbours="replace", noise="laplace")
    values_alone = 6 * 2 * (2 / 0.1) ** 2
    assert plan.total_variance == pytest.approx(values_alone * 5 / 6, rel=1e-6)
    assert ("own rows", "taken") in plan.considered


@pytest.mark.parametrize(
    ("workload", "epsilon"),
    [
        (nz.Workload([nz.Query(LINE, {})]), 1.0),  # the same for all records
        (nz.Workload([nz.Query(nz.Schema.from_sizes({"a": 1}), ["a"])]), 1.0),
        (nz.Workload([nz.Query(nz.Schema.from_sizes({"a": 16}), {"a": nz.Ranges()})]), 1e-13),
    ],
    ids=["total", "one value", "much noise"],
)
def test_rows_that_cannot_be_measured_are_left_out(workload: nz.Workload, epsilon: float) -> None:
    plan = nz.plan(workload, budget=nz.PureDP(epsilon), neighbours="replace")
    assert 0 < plan.total_variance < np.inf
    assert ("workload", "cannot be measured") in plan.considered
