"""Replaced records under pure DP: the default is no worse than what anyone would measure by hand,
who knows the total: values, the workload's rows, or a tree."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.mechanisms import tables
from noiseplan.mechanisms.price import probed_cost
from noiseplan.mechanisms.tables import TablesMechanism
from workloads import random_rows

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


def binary_tree(size: int) -> np.ndarray:
    """The nodes of a binary tree over consecutive values."""
    rows, ranges = [], [(0, size)]
    for start, stop in ranges:
        rows.append([float(start <= value < stop) for value in range(size)])
        middle = (start + stop) // 2
        ranges += [(start, middle), (middle, stop)] if stop - start > 1 else []
    return np.array(rows)


def farthest(rows: np.ndarray) -> float:
    """The largest L1 distance of two columns, one by one."""
    return max(float(np.abs(rows.T - column).sum(axis=1).max()) for column in rows.T)


def knowing_the_total(rows: np.ndarray, asked: np.ndarray, epsilon: float) -> float:
    """Total variance of Laplace noise of one size on all rows, where the total is known exactly.

    Counts less the total's share are O y, O a basis of vectors that sum to zero: y is estimated.
    """
    basis = np.linalg.svd(np.ones((1, rows.shape[1])))[2][1:].T
    told, wanted = rows @ basis, asked @ basis
    if np.abs(wanted - wanted @ np.linalg.pinv(told) @ told).max() > 1e-9:
        return np.inf  # these rows do not tell what is asked
    spread = wanted @ np.linalg.pinv(told.T @ told) @ wanted.T
    return float(2 * (farthest(rows) / epsilon) ** 2 * np.trace(spread))


KNOWN = WORKLOADS | {
    "eight prefix sums": [nz.Query(nz.Schema.from_sizes({"a": 8}), {"a": nz.Prefix()})],
    "ranges": [nz.Query(nz.Schema.from_sizes({"a": 20}), {"a": nz.Ranges()})],
    "pairs": list(nz.Workload.marginals(nz.Schema.from_sizes({"a": 3, "b": 2, "c": 2}), k=2)),
    "sums by group": list(
        nz.Workload.marginals(
            nz.Schema.from_sizes({"a": 6, "b": 3, "c": 2}), k=2, factors={"a": nz.Prefix()}
        )
    ),
    **{f"random {seed}": list(random_rows(seed)) for seed in range(8)},
}


@pytest.mark.parametrize("objective", [nz.TotalVariance(), nz.WorstVariance()], ids=str)
@pytest.mark.parametrize("name", KNOWN)
def test_the_default_is_no_worse_than_simple_strategies(name: str, objective: nz.Objective) -> None:
    workload = nz.Workload(KNOWN[name])
    plan = nz.plan(
        workload, budget=nz.PureDP(0.5), neighbours="replace", noise="laplace", objective=objective
    )
    rows = np.vstack([query.dense() for query in workload])
    weighted = np.vstack([query.dense() * np.sqrt(query.weight) for query in workload])
    size = rows.shape[1]
    if isinstance(objective, nz.TotalVariance):
        by_hand = {
            "values": knowing_the_total(np.eye(size), weighted, 0.5),
            "rows": knowing_the_total(rows, weighted, 0.5),
            "weighted rows": knowing_the_total(weighted, weighted, 0.5),
            "tree": knowing_the_total(binary_tree(size), weighted, 0.5),
        }
        assert plan.total_variance <= min(by_hand.values()) * (1 + 1e-4), by_hand
    else:
        each = [knowing_the_total(np.eye(size), row[None, :], 0.5) for row in weighted]
        assert plan.worst_variance <= max(each) * (1 + 1e-4)
    assert probed_cost([plan.mechanism], "replace") <= 0.5 * (1 + 1e-12)
    assert plan.privacy.pure_epsilon is not None and plan.privacy.pure_epsilon <= 0.5


def test_eight_prefix_sums_of_values_and_a_public_total() -> None:
    """Σ_j 8 j (8 − j)/8 = 84, times the discrete variance 7.835 over 8 of a value."""
    workload = nz.Workload(KNOWN["eight prefix sums"])
    plan = nz.plan(workload, budget=nz.PureDP(1.0), neighbours="replace", noise="laplace")
    assert plan.total_variance == pytest.approx(84.0, rel=1e-5)
    exact = nz.plan(workload, budget=nz.PureDP(1.0), neighbours="replace")
    ratio = np.exp(-0.5)
    assert exact.total_variance == pytest.approx(84 / 8 * 2 * ratio / (1 - ratio) ** 2, rel=1e-6)
    assert "the total is public and exact" in str(exact)
    answer = exact.release({"a": [0, 3, 3, 7]}).answer(nz.Query(workload.schema, {}))
    assert answer.estimate == pytest.approx([4.0], abs=1e-9)


def test_tables_over_too_many_cells_for_pairs_tell_the_total_for_nothing() -> None:
    """What the farthest records are apart is worked out here from all rows that are measured."""
    schema = nz.Schema.from_sizes(dict.fromkeys("abcde", 4))
    workload = nz.Workload.marginals(schema, up_to=2)
    plan = nz.plan(workload, budget=nz.PureDP(1.0), neighbours="replace")
    mechanism = plan.mechanism
    assert isinstance(mechanism, TablesMechanism)
    assert mechanism.numbers * schema.size**2 > tables.PAIRED_NUMBERS
    rows = mechanism.dense_rows()
    total = np.ptp(rows, axis=1) == 0
    assert total.sum() == 1 and rows[total].min() >= 2.0**10
    assert plan.privacy.pure_epsilon is not None
    assert farthest(rows) * (1 - 1e-12) <= plan.privacy.pure_epsilon <= 1.0
    assert plan.variance(nz.Query(schema, {}))[0] < 1e-100
    half = nz.plan(workload, budget=nz.PureDP(0.5))
    assert plan.total_variance < half.total_variance


def test_totals_beside_values_cost_nothing() -> None:
    """Six values and their sum: all records share the sum, so it is told exactly, and leaves of the
    noise on the values, Σ 2b², five sixths."""
    schema = nz.Schema.from_sizes({"a": 6})
    workload = nz.Workload([nz.Query(schema, ["a"]), nz.Query(schema, {})])
    plan = nz.plan(workload, budget=nz.PureDP(0.1), neighbours="replace", noise="laplace")
    values_alone = 6 * 2 * (2 / 0.1) ** 2
    assert plan.total_variance == pytest.approx(values_alone * 5 / 6, rel=1e-6)


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
    assert 0 <= plan.total_variance < np.inf
    assert ("workload", "cannot be measured") in plan.considered
