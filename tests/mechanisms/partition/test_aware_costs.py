"""Costs of intervals against the definitions, and how far one record moves them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from depth import examples
from noiseplan.mechanisms.partition.interval_spread import IntervalCosts

counts_of = st.lists(st.integers(0, 9), min_size=1, max_size=24)
WORKED = np.array([2, 3, 8, 1, 0, 2, 0, 4, 2, 4])  # the dissertation's example, T15


def intervals(cells: int) -> tuple[np.ndarray, np.ndarray]:
    pairs = [(i, j) for i in range(cells) for j in range(i + 1, cells + 1)]
    start, stop = np.array(pairs, dtype=np.int64).T
    return start, stop


@examples(60)
@given(counts_of)
def test_costs_are_those_of_the_definitions(counts: list[int]) -> None:
    x = np.array(counts)
    start, stop = intervals(len(x))
    costs = IntervalCosts.of(x)
    spread, deviation = costs.spread(start, stop), costs.deviation(start, stop)
    for number, (i, j) in enumerate(zip(start, stop, strict=True)):
        part = x[i:j]
        assert spread[number] == np.abs(part - np.median(part)).sum()
        assert abs(deviation[number] - np.abs(part - part.mean()).sum()) < 1e-9
        assert costs.totals(start, stop)[number] == part.sum()


@examples(60)
@given(counts_of, st.integers(0, 23))
def test_one_record_moves_the_spread_by_at_most_one(counts: list[int], cell: int) -> None:
    x = np.array(counts)
    cell %= len(x)
    more = x + (np.arange(len(x)) == cell)
    start, stop = intervals(len(x))
    moved = IntervalCosts.of(more).spread(start, stop) - IntervalCosts.of(x).spread(start, stop)
    assert np.abs(moved).max() <= 1
    assert not moved[(cell < start) | (cell >= stop)].any()


@examples(60)
@given(counts_of)
def test_spread_is_between_half_the_deviation_and_all_of_it(counts: list[int]) -> None:
    costs = IntervalCosts.of(np.array(counts))
    start, stop = intervals(len(counts))
    spread, deviation = costs.spread(start, stop), costs.deviation(start, stop)
    assert (spread <= deviation + 1e-9).all()
    assert (deviation <= 2 * spread + 1e-9).all()


def test_deviation_moves_by_two_less_two_over_the_length() -> None:
    """T16, by brute force: the largest change over small counts is 2 − 2/|b| exactly."""
    for length, largest in {1: 0, 2: 1, 3: 4 / 3, 5: 1.6, 8: 1.75}.items():
        start, stop = np.array([0]), np.array([length])
        seen = 0.0
        # A cell against all the others together is the extreme case.
        for others in range(4):
            for own in range(6):
                x = np.full(length, others)
                x[0] = own
                more = x + (np.arange(length) == 0)
                before, after = (IntervalCosts.of(y).deviation(start, stop)[0] for y in (x, more))
                seen = max(seen, abs(after - before))
        assert abs(seen - largest) < 1e-9


def test_worked_example_of_the_dissertation() -> None:
    costs = IntervalCosts.of(WORKED)
    edges = np.array([0, 2, 3, 7, 10])
    assert costs.totals(edges[:-1], edges[1:]).tolist() == [5, 8, 3, 10]
    deviations = costs.deviation(edges[:-1], edges[1:])
    assert np.allclose(deviations, [1, 0, 3, 8 / 3], rtol=0, atol=1e-12)
    assert abs(costs.deviation(np.array([0]), np.array([10]))[0] - 17.2) < 1e-12


def test_intervals_in_several_parts_and_of_large_counts() -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(0, 2**40, 300)
    start, stop = intervals(len(x))
    start, stop = np.tile(start, 2), np.tile(stop, 2)  # more than are looked up at a time
    spread = IntervalCosts.of(x).spread(start, stop)
    for number in rng.integers(0, len(start), 50):
        part = np.sort(x[start[number] : stop[number]])
        half = len(part) // 2
        assert spread[number] == part[-half:].sum() * (half > 0) - part[:half].sum()
