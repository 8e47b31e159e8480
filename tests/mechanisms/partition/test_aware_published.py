"""The dissertation's worked examples of chapter 6: least-cost partitions, expansion, allocation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from benchmarks.least_partition import least_cost_partition, partition_cost
from hypothesis import given
from hypothesis import strategies as st

from depth import examples
from noiseplan.matrices import PrefixMatrix, RangesMatrix
from noiseplan.mechanisms.partition.buckets import expand
from noiseplan.mechanisms.partition.interval_spread import IntervalCosts
from noiseplan.mechanisms.partition.partition_prior import Candidates
from noiseplan.strategies.hierarchies import tree

WORKED = np.array([2, 3, 8, 1, 0, 2, 0, 4, 2, 4])


def least(candidates: Candidates, x: np.ndarray, charge: float) -> tuple[float, np.ndarray]:
    start, stop, _ = candidates.intervals
    return least_cost_partition(candidates, IntervalCosts.of(x).deviation(start, stop) + charge)


@pytest.mark.parametrize(
    ("second", "published", "whole", "alone", "best", "powers"),
    [
        (1.0, 10.666667, 18.2, 10.0, 10.0, 10.0),
        (0.5, 14.666667, 19.2, 20.0, 14.666667, 16.0),
        (0.1, 46.666667, 27.2, 100.0, 27.2, 37.0),
    ],
)
def test_costs_of_the_worked_example(
    second: float, published: float, whole: float, alone: float, best: float, powers: float
) -> None:
    """T15: the costs of four partitions, and the least of all."""
    costs = IntervalCosts.of(WORKED)
    for edges, cost in [([0, 2, 3, 7, 10], published), ([0, 10], whole), (range(11), alone)]:
        found = partition_cost(costs, np.array(list(edges)), 1 / second)
        assert found == pytest.approx(cost, abs=1e-6)
    every, edges = least(Candidates.every(10, 10), WORKED, 1 / second)
    assert every == pytest.approx(best, abs=1e-6)
    assert partition_cost(costs, edges, 1 / second) == pytest.approx(every)
    found, _ = least(Candidates.powers(10, 8, grid=8), WORKED, 1 / second)
    assert found == pytest.approx(powers, abs=1e-6)


def test_numbers_of_buckets_of_the_worked_example() -> None:
    for second, every, powers in [(1.0, 10, 10), (0.5, 4, 6), (0.1, 1, 2)]:
        assert len(least(Candidates.every(10, 10), WORKED, 1 / second)[1]) - 1 == every
        found = least(Candidates.powers(10, 8, grid=8), WORKED, 1 / second)[1]
        assert len(found) - 1 == powers


def test_uniform_expansion_of_the_worked_example() -> None:
    found = expand(np.array([6.3, 7.1, 3.6, 8.4]), np.array([0, 2, 3, 7, 10]))
    assert np.allclose(found, [3.15, 3.15, 7.1, 0.9, 0.9, 0.9, 0.9, 2.8, 2.8, 2.8])


@examples(40)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=8), st.floats(0.1, 20))
def test_least_cost_is_the_least_of_all_partitions(counts: list[int], charge: float) -> None:
    x = np.array(counts)
    costs = IntervalCosts.of(x)
    every = [
        partition_cost(costs, np.array([0, *cuts, len(x)]), charge)
        for size in range(len(x))
        for cuts in itertools.combinations(range(1, len(x)), size)
    ]
    found, edges = least(Candidates.every(len(x), len(x)), x, charge)
    assert found == pytest.approx(min(every), abs=1e-9)
    assert partition_cost(costs, edges, charge) == pytest.approx(found, abs=1e-9)


def test_greedy_allocation_of_the_dissertation() -> None:
    """T17, for the tree that `second="tree"` measures: all ranges, ε₂ = 1."""
    for cells, wanted in {8: 120.0, 32: 5984.0, 64: 41238.5417, 512: 9511703.2632}.items():
        assert tree(RangesMatrix(cells).gram())[0] == pytest.approx(wanted, rel=1e-7)
    # The identity workload is measured by values alone; two buckets asked for their total by that.
    assert tree(np.eye(8))[0] == pytest.approx(8)
    assert tree(np.ones((2, 2)))[0] == pytest.approx(1.020252, abs=1e-6)
    assert tree(PrefixMatrix(1).gram())[0] == 1
