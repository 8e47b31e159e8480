"""Parts of partitions by themselves: candidates, priors, sums over chains, Gram matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.matrices import IdentityMatrix, Matrix, PrefixMatrix, RangesMatrix, TotalMatrix
from noiseplan.mechanisms.partition import buckets, partition_prior
from noiseplan.mechanisms.partition.buckets import (
    FLOOR,
    LineWorkload,
    axis_matrix,
    closed_diagonal,
    closed_gram,
    expand,
    gram_root,
    line,
    require_asked,
    rows_in_line,
)
from noiseplan.mechanisms.partition.exact_powers import ERROR, Rate
from noiseplan.mechanisms.partition.interval_spread import IntervalCosts
from noiseplan.mechanisms.partition.partition_prior import Candidates, Prior, default_longest
from noiseplan.mechanisms.partition.selection import Filtered

Array = np.ndarray[Any, Any]


# ---------------------------------------------------------------------- candidates and priors


@given(st.integers(1, 60), st.integers(1, 16), st.booleans())
def test_candidates_are_inside_and_cover_everything(cells: int, longest: int, powers: bool) -> None:
    longest = min(longest, cells)
    made = (Candidates.powers if powers else Candidates.every)(cells, longest)
    start, stop, offsets = made.intervals
    assert (start >= 0).all() and (stop <= cells).all()
    assert made.lengths[0] == 1 and made.steps[0] == 1  # any number of cells can be covered
    assert offsets[0] == 0 and offsets[-1] == len(start)
    for number, length in enumerate(made.lengths.tolist()):
        own = slice(offsets[number], offsets[number + 1])
        assert (stop[own] - start[own] == length).all()
        expected = [i for i in range(cells - length + 1) if i % made.steps[number] == 0]
        assert start[own].tolist() == expected == made.starts(number).tolist()
    assert made.lengths.max() <= longest
    if not powers:
        assert len(start) == sum(cells - length + 1 for length in range(1, longest + 1))


@given(st.integers(1, 10**6), st.sampled_from([1, 2]))
def test_the_longest_bucket_is_a_power_of_two_within_its_share(cells: int, attributes: int) -> None:
    fewest = partition_prior.FEWEST[attributes]
    longest, share = default_longest(cells, fewest), cells // fewest
    assert longest.bit_count() == 1 and longest <= cells
    assert longest <= max(share, partition_prior.SHORT)
    assert 2 * longest > min(max(share, partition_prior.SHORT), cells)  # none larger would do


def test_lengths_by_name_and_what_is_refused() -> None:
    assert Candidates.named("powers", 64).lengths.tolist() == [1, 2, 4, 8]
    assert Candidates.named("every", 9, longest=3).lengths.tolist() == [1, 2, 3]
    for longest in (0, 10, -1):
        with pytest.raises(PlanError, match="from 1 to the 9 cells"):
            Candidates.named("powers", 9, longest=longest)
    with pytest.raises(PlanError, match=r"'powers' .* or 'every': 'odd'"):
        Candidates.named("odd", 9)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=r"take longest=30, or lengths='powers'"):
        Candidates.named("every", 10**6, longest=1000)


@given(st.integers(1, 12), st.booleans())
def test_a_prior_is_a_chain_of_chances(longest: int, powers: bool) -> None:
    made = (Candidates.powers if powers else Candidates.every)(max(longest, 12), longest)
    prior = Prior.of(made)
    for chances in (prior.weights, prior.moves, prior.first[None, :]):
        assert (chances > 0).all()
        np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-12)
    # Lengths from one power of two to the next share the weight of the power.
    level = np.log2(made.lengths).astype(int)
    for regime, fade in enumerate(partition_prior.FADE):
        by_level = np.bincount(level, prior.weights[regime])
        np.testing.assert_allclose(by_level / by_level[0], fade ** np.arange(len(by_level)))


# ---------------------------------------------------------------------- sums over all chains


def chains(candidates: Candidates, stop: int) -> Iterator[list[tuple[int, int]]]:
    """All ways to cover the first cells by buckets: (start, number of the length) each."""
    if stop == 0:
        yield []
        return
    for number, (length, step) in enumerate(
        zip(candidates.lengths.tolist(), candidates.steps.tolist(), strict=True)
    ):
        start = stop - length
        if start >= 0 and start % step == 0:
            for before in chains(candidates, start):
                yield [*before, (start, number)]


def brute(candidates: Candidates, prior: Prior, weight: Any, stop: int) -> Array:
    """Σ over chains and regimes of Π p·T·w, by the regime of the last bucket."""
    total = np.zeros(len(prior.first))
    for chain in chains(candidates, stop):
        now = prior.first.copy()
        for place, (start, number) in enumerate(chain):
            if place:
                now = now @ prior.moves
            now = now * prior.weights[:, number] * weight(start, number)
        total += now
    return total


@examples(25)
@given(st.integers(1, 9), st.integers(1, 4), st.booleans(), st.integers(0, 10**6))
def test_the_forward_pass_sums_over_all_chains(
    cells: int, longest: int, powers: bool, seed: int
) -> None:
    longest = min(longest, cells)
    made = (Candidates.powers if powers else Candidates.every)(cells, longest)
    prior, rng = Prior.of(made), np.random.default_rng(seed)
    count = len(made.intervals[0])
    mantissa, exponent = rng.uniform(0.5, 1.0, count), rng.integers(-5, 1, count)
    found = Filtered.of(made, prior, mantissa, exponent)
    offsets = made.intervals[2]

    def weight(start: int, number: int) -> float:
        which = offsets[number] + start // made.steps[number]
        return float(math.ldexp(mantissa[which], int(exponent[which])))

    for stop in range(1, cells + 1):
        truth = brute(made, prior, weight, stop)
        scaled = found.ended[stop] * 2.0 ** found.scale[stop]
        np.testing.assert_allclose(scaled, truth, rtol=1e-12)
        np.testing.assert_allclose(found.opened[stop], found.ended[stop] @ prior.moves, rtol=1e-12)
        assert 0.5 <= found.ended[stop].max() <= 1.0  # kept in range, whatever the exponents
    # Backwards: the weights of the last bucket add up to what ended there.
    for regime in range(len(prior.first)):
        lengths, weights, exponents = found.last_buckets(cells, regime)
        total = sum(math.ldexp(w, e) for w, e in zip(weights, exponents, strict=True))
        whole = float(found.ended[cells, regime]) * 2.0 ** float(found.scale[cells])
        assert total == pytest.approx(whole, rel=1e-12)
        assert all((cells - length) % s == 0 for length, s in _steps(made, lengths))
        before = found.regimes_before(cells, regime)
        np.testing.assert_allclose(before, found.ended[cells] * prior.moves[:, regime], rtol=1e-15)


def _steps(candidates: Candidates, lengths: list[int]) -> list[tuple[int, int]]:
    step = dict(zip(candidates.lengths.tolist(), candidates.steps.tolist(), strict=True))
    return [(length, step[length]) for length in lengths]


def test_weights_far_apart_do_not_vanish() -> None:
    """Exponents far beyond those of floats: the sums keep their scale beside them."""
    made = Candidates.every(4, 2)
    count = len(made.intervals[0])
    found = Filtered.of(made, Prior.of(made), np.full(count, 0.75), np.full(count, -5000))
    assert (found.ended[1:].max(axis=1) >= 0.5).all()
    assert found.scale[4] < -9000  # two buckets at least


# ---------------------------------------------------------------------- powers, spreads


@given(st.fractions(Fraction(1, 2**20), 2000), st.integers(0, 10**6))
def test_rates_and_powers(wanted: Fraction, cost: int) -> None:
    rate = Rate.below(wanted)
    assert rate.value <= wanted < rate.value * Fraction(2049, 2048) + Fraction(1, 2**30)
    mantissa, exponent = rate.powers(np.array([cost]))
    assert mantissa[0] * (1 + ERROR) > 0.5 and mantissa[0] <= 1.0
    power = rate.value * cost
    assert -exponent[0] == power.numerator // power.denominator
    fraction = float(power - (power.numerator // power.denominator))
    assert mantissa[0] == pytest.approx(2.0**-fraction, rel=1e-8)


@pytest.mark.parametrize(("wanted", "advice"), [(Fraction(1, 2**40), "raise"), (5000, "lower")])
def test_rates_out_of_reach_are_refused(wanted: Any, advice: str) -> None:
    with pytest.raises(PlanError, match=f"{advice} the budget or share="):
        Rate.below(Fraction(wanted))


@given(st.lists(st.integers(0, 20), min_size=1, max_size=12))
def test_totals_and_spreads_of_all_intervals(counts: list[int]) -> None:
    made = IntervalCosts.of(np.array(counts))
    pairs = [(i, j) for i in range(len(counts)) for j in range(i + 1, len(counts) + 1)]
    start, stop = np.array(pairs).T
    parts = [np.array(counts[i:j]) for i, j in pairs]
    assert made.cells == len(counts)
    assert made.totals(start, stop).tolist() == [int(part.sum()) for part in parts]
    spread = [int(np.abs(part - np.sort(part)[len(part) // 2]).sum()) for part in parts]
    assert made.spread(start, stop).tolist() == spread
    deviation = [float(np.abs(part - part.mean()).sum()) for part in parts]
    np.testing.assert_allclose(made.deviation(start, stop), deviation, atol=1e-9)


# ---------------------------------------------------------------------- the workload on buckets

LINE = nz.Schema({"age": nz.Ordinal(range(12)), "sex": nz.Categorical(["F", "M"])})
PLANE = nz.Schema({"x": nz.Ordinal(range(4)), "y": nz.Ordinal(range(3))})
EDGES = [np.array([0, 12]), np.arange(13), np.array([0, 1, 5, 6, 12]), np.array([0, 4, 8, 12])]


def expansion(edges: Array, order: Array) -> Array:
    """S: every bucket's total shared evenly among its cells, cells in the order of the table."""
    spread = np.zeros((len(order), len(edges) - 1))
    for number, (start, stop) in enumerate(pairwise(edges)):
        spread[order[start:stop], number] = 1 / (stop - start)
    return spread


def with_floor(gram: Array) -> Array:
    return np.asarray(gram + FLOOR * np.trace(gram) / len(gram) * np.eye(len(gram)))


@pytest.mark.parametrize("edges", EDGES, ids=str)
@pytest.mark.parametrize("matrix", [IdentityMatrix, TotalMatrix, PrefixMatrix, RangesMatrix])
def test_formulas_are_those_of_the_matrices(matrix: Any, edges: Array) -> None:
    made: Matrix = matrix(12)
    seen = made.dense() @ expansion(edges, np.arange(12))
    np.testing.assert_allclose(closed_gram(made, edges), seen.T @ seen, atol=1e-9)
    np.testing.assert_allclose(closed_diagonal(made, edges), (seen**2).sum(axis=0), atol=1e-9)


def line_workload() -> LineWorkload:
    queries = [
        nz.Query(LINE, {"age": nz.Prefix()}, weight=4.0),
        nz.Query(LINE, {"age": nz.Levels(3)}),
        nz.Query(LINE, ["age"], matrix=np.random.default_rng(0).normal(size=(3, 12)), name="own"),
        nz.Query(LINE, {}),
    ]
    return LineWorkload(nz.Workload(queries), ("age",), np.arange(12))


def plane_workload() -> LineWorkload:
    rng = np.random.default_rng(1)
    queries = [
        nz.Query(PLANE, {"x": nz.Ranges(), "y": nz.Ranges()}, weight=0.5),
        nz.Query(PLANE, {"y": nz.Prefix()}),
        nz.Query(PLANE, ["x", "y"], matrix=rng.normal(size=(2, 12)), name="own"),
    ]
    return LineWorkload(nz.Workload(queries), ("x", "y"), line((4, 3)))


@pytest.mark.parametrize("edges", EDGES, ids=str)
@pytest.mark.parametrize("make", [line_workload, plane_workload])
def test_the_gram_matrix_is_that_of_all_rows(make: Any, edges: Array) -> None:
    made = make()
    spread = expansion(edges, made.order)
    largest = max(query.weight for query in made.workload)
    gram = np.zeros((len(edges) - 1,) * 2)
    for query in made.workload:
        seen = query.over(made.asked).dense() @ spread
        gram += query.weight / largest * seen.T @ seen
    np.testing.assert_allclose(made.gram(edges), with_floor(gram), atol=1e-9 * gram.max())
    np.testing.assert_allclose(made.diagonal(edges), np.diagonal(gram), rtol=1e-9)


def test_beyond_the_limit_all_ranges_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a stand-in asks of one bucket of all cells what the query asks of it."""
    made = plane_workload()
    exact = made.gram(np.array([0, 12])), made.diagonal(np.array([0, 12]))
    monkeypatch.setattr(buckets, "LIMIT", 1)
    np.testing.assert_allclose(made.gram(np.array([0, 12])), exact[0], rtol=1e-9)
    np.testing.assert_allclose(made.diagonal(np.array([0, 12])), exact[1], rtol=1e-9)
    found = made.gram(EDGES[2])
    assert np.linalg.eigvalsh(found).min() > 0


@given(st.integers(1, 6), st.integers(0, 10**6))
def test_a_root_asks_in_proportion(size: int, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(size + 1, size))
    gram = rows.T @ rows
    root = gram_root(gram)
    again = root.T @ root
    np.testing.assert_allclose(again / np.trace(again), gram / np.trace(gram), atol=1e-9)
    assert np.abs(root).max() == pytest.approx(1.0)


def test_totals_are_shared_evenly_and_nobody_is_lost() -> None:
    totals, edges = np.array([6.0, 1.0, -4.0]), np.array([0, 3, 4, 12])
    cells = expand(totals, edges)
    np.testing.assert_allclose(cells, expansion(edges, np.arange(12)) @ totals)
    np.testing.assert_allclose(np.add.reduceat(cells, edges[:-1]), totals)


def test_what_a_query_asks_along_the_line() -> None:
    query = nz.Query(PLANE, {"y": nz.Prefix()})
    np.testing.assert_array_equal(axis_matrix(query, "x").dense(), np.ones((1, 4)))
    np.testing.assert_array_equal(axis_matrix(query, "y").dense(), np.tri(3))
    order = line((4, 3))
    rows = rows_in_line(query, ("x", "y"), order, np.array([2, 0]))
    np.testing.assert_array_equal(rows, query.dense()[[2, 0]][:, order])


def test_attributes_that_are_not_measured_are_named() -> None:
    require_asked(nz.Query(LINE, ["age"]), ("age",))
    with pytest.raises(UnanswerableError, match="asks about 'sex', and only age is measured"):
        require_asked(nz.Query(LINE, ["age", "sex"]), ("age",))
