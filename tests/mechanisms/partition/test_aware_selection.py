"""The private partition: its law by enumeration, its privacy over all small neighbours."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depth import examples
from noiseplan.errors import DataError, PlanError
from noiseplan.mechanisms.partition.exact_powers import ERROR, LN2_UP, Rate
from noiseplan.mechanisms.partition.partition_prior import Candidates, Prior, default_longest
from noiseplan.mechanisms.partition.selection import (
    Filtered,
    Selector,
    _choose_exactly,
    choose,
    draw_backwards,
    slack,
)
from noiseplan.noise import SeededSource
from noiseplan.noise.randomness import Source

Edges = tuple[int, ...]


def drawn_law(filtered: Filtered) -> dict[Edges, Fraction]:
    """The law of `draw_backwards`, exactly: its choices are in proportion to these floats."""

    @cache
    def law_from(place: int, regime: int) -> dict[Edges, Fraction]:
        lengths, weights, exponents = filtered.last_buckets(place, regime)
        sizes = [Fraction(w) * Fraction(2) ** e for w, e in zip(weights, exponents, strict=True)]
        found: dict[Edges, Fraction] = {}
        for length, size in zip(lengths, sizes, strict=True):
            start, chance = place - length, size / sum(sizes)
            for before, given_start in law_at(start, regime).items():
                edges = (*before, place)
                found[edges] = found.get(edges, Fraction(0)) + chance * given_start
        return found

    def law_at(place: int, regime: int) -> dict[Edges, Fraction]:
        if place == 0:
            return {(0,): Fraction(1)}
        return mixed(place, filtered.regimes_before(place, regime))

    def mixed(place: int, weights: list[float]) -> dict[Edges, Fraction]:
        found: dict[Edges, Fraction] = {}
        total = sum(Fraction(w) for w in weights)
        for regime, weight in enumerate(weights):
            for edges, chance in law_from(place, regime).items():
                found[edges] = found.get(edges, Fraction(0)) + chance * Fraction(weight) / total
        return found

    cells = filtered.candidates.cells
    return mixed(cells, [float(w) for w in filtered.ended[cells]])


def defined_law(selector: Selector, x: np.ndarray) -> dict[Edges, float]:
    """prior · exp(−β Σ spread), summed over the regimes, from the definitions alone."""
    candidates, prior = selector.candidates, selector.prior
    beta = float(selector.rate.value) * math.log(2)
    found = {}
    for cuts in itertools.product([False, True], repeat=len(x) - 1):
        edges = (0, *(i + 1 for i, cut in enumerate(cuts) if cut), len(x))
        weight = prior.first
        for place, (i, j) in enumerate(itertools.pairwise(edges)):
            numbers = np.flatnonzero(candidates.lengths == j - i)
            if not len(numbers) or i % candidates.steps[numbers[0]]:
                break
            part = x[i:j]
            likely = math.exp(-beta * np.abs(part - np.median(part)).sum())
            weight = (weight if place == 0 else weight @ prior.moves) * likely
            weight = weight * prior.weights[:, numbers[0]]
        else:
            found[edges] = float(weight.sum())
    return {edges: weight / sum(found.values()) for edges, weight in found.items()}


@pytest.mark.parametrize("kind", ["powers", "every"])
def test_the_law_is_the_one_defined(kind: str) -> None:
    rng = np.random.default_rng(3)
    for cells in (1, 2, 5, 6):
        candidates = getattr(Candidates, kind)(cells, cells)
        selector = Selector.within(1.3, candidates)
        for _ in range(4):
            x = rng.integers(0, 8, cells)
            found, wanted = drawn_law(selector.filtered(x)), defined_law(selector, x)
            assert found.keys() == wanted.keys()
            assert all(abs(float(found[e]) - wanted[e]) < 1e-11 for e in wanted)
            assert sum(found.values()) == 1


@pytest.mark.parametrize(
    ("candidates", "largest", "epsilon"),
    [
        (Candidates.every(3, 3), 3, 4.0),
        (Candidates.every(3, 3), 4, 1.0),
        (Candidates.every(4, 4), 2, 1.0),
        (Candidates.powers(4, 4), 2, 4.0),
        (Candidates.powers(5, 4), 1, 1.0),
        (Candidates.powers(6, 2), 1, 2.0),
    ],
)
def test_privacy_over_all_small_neighbours(
    candidates: Candidates, largest: int, epsilon: float
) -> None:
    """Every pair of histograms that differ by a record: ratios, and their range, are within ε."""
    selector = Selector.within(epsilon, candidates)
    assert 0.99 * epsilon < selector.epsilon <= epsilon

    @cache
    def law(x: tuple[int, ...]) -> dict[Edges, Fraction]:
        return drawn_law(selector.filtered(np.array(x)))

    worst = 0.0
    for x in itertools.product(range(largest + 1), repeat=candidates.cells):
        for cell in range(candidates.cells):
            more = (*x[:cell], x[cell] + 1, *x[cell + 1 :])
            one, other = law(x), law(more)
            losses = [math.log(one[e] / other[e]) for e in one]
            assert max(map(abs, losses)) <= selector.epsilon
            assert max(losses) - min(losses) <= selector.epsilon
            worst = max(worst, *map(abs, losses))
    # The claim is no idle one: half of it would be wrong.
    assert worst > 0.5 * selector.epsilon


@examples(25)
@given(
    st.lists(st.integers(0, 40), min_size=3, max_size=4),
    st.integers(0, 4),
    st.floats(0.01, 8.0),
)
def test_privacy_of_any_neighbours(counts: list[int], cell: int, epsilon: float) -> None:
    x = np.array(counts)
    more = x + (np.arange(len(x)) == cell % len(x))
    selector = Selector.within(epsilon, Candidates.every(len(x), len(x)))
    one, other = drawn_law(selector.filtered(x)), drawn_law(selector.filtered(more))
    assert all(abs(math.log(one[e] / other[e])) <= selector.epsilon for e in one)


def test_draws_follow_the_law() -> None:
    """Frequencies of 6,000 draws within six standard deviations of the exact law."""
    x = np.array([0, 1, 7, 6, 0])
    selector = Selector.within(0.9, Candidates.every(5, 5))
    law = drawn_law(selector.filtered(x))
    filtered, source = selector.filtered(x), SeededSource(11)
    draws = 6_000
    seen = Counter(tuple(draw_backwards(filtered, source).tolist()) for _ in range(draws))
    assert set(seen) <= set(law)
    for edges, chance in law.items():
        p = float(chance)
        assert abs(seen[edges] - draws * p) <= 6 * math.sqrt(draws * p * (1 - p)) + 6


@examples(60)
@given(st.integers(2, 12), st.integers(4, 40), st.integers(0, 2**32))
def test_edges_run_from_the_first_cell_to_the_last(longest: int, cells: int, seed: int) -> None:
    longest = min(longest, cells)
    x = np.random.default_rng(seed).poisson(3, cells)
    for candidates in (Candidates.powers(cells, longest), Candidates.every(cells, longest)):
        edges = Selector.within(0.5, candidates).draw(x, SeededSource(seed))
        assert edges[0] == 0
        assert edges[-1] == cells
        assert set(np.diff(edges)) <= set(candidates.lengths)


def test_long_even_stretches_are_few_buckets_and_busy_cells_are_alone() -> None:
    x = np.zeros(4096, dtype=np.int64)
    x[1000:1016] = 10**5 * np.arange(1, 17)
    edges = Selector.within(0.5, Candidates.named("powers", 4096)).draw(x, SeededSource(2))
    assert set(range(1000, 1017)) <= set(edges.tolist())
    assert len(edges) < 400


def test_compiled_and_interpreted_passes_agree(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from noiseplan.mechanisms.partition import selection

    pytest.importorskip("numba")
    x = np.random.default_rng(0).poisson(4, 200)
    selector = Selector.within(0.3, Candidates.named("powers", 200))
    slow = selector.filtered(x)
    monkeypatch.setattr(selection, "MANY", 0)
    fast = selector.filtered(x)
    assert (slow.scale == fast.scale).all()
    assert np.allclose(slow.ended, fast.ended, rtol=1e-12, atol=0)
    assert np.allclose(slow.opened, fast.opened, rtol=1e-12, atol=0)


def test_huge_costs_neither_vanish_nor_overflow() -> None:
    """Weights of 2^−10⁹ keep a chance above zero: nothing is cut off."""
    x = np.array([0, 10**9, 0, 10**9])
    filtered = Selector.within(2.0, Candidates.every(4, 4)).filtered(x)
    assert np.isfinite(filtered.ended).all()
    assert (filtered.ended[1:] > 0).all()
    assert filtered.scale.min() > -(2**40)


# ---------------------------------------------------------------------- choosing, and powers of two


class Fixed(Source):
    """Bits given beforehand."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def read(self, count: int) -> bytes:
        return self.left.pop(0).to_bytes(count, "little")

    @property
    def brand(self) -> str:
        return "fixed"

    @property
    def private(self) -> bool:
        return False


def test_choices_at_an_edge_ask_for_more_bits() -> None:
    weights, half = [1.0, 1.0], 1 << 63
    assert choose(weights, None, Fixed(0)) == 0
    assert choose(weights, None, Fixed(half - (1 << 40))) == 0
    assert choose(weights, None, Fixed(half - 1)) == 0  # decided by exact sums
    assert choose(weights, None, Fixed(half)) == 1
    # One third is between two words: only further bits tell.
    third = (1 << 64) // 3
    assert choose([1.0, 2.0], None, Fixed(third, 0)) == 0
    assert choose([1.0, 2.0], None, Fixed(third, (1 << 64) - 1)) == 1


def test_a_choice_of_tiny_chance_is_possible() -> None:
    weights, exponents = [1.0, 1.0], [0, -200]
    words = [(1 << 64) - 1] * 3 + [(1 << 64) - 1]
    assert choose(weights, exponents, Fixed(*words)) == 1
    assert choose(weights, exponents, Fixed((1 << 64) - 1, 0)) == 0


@examples(60)
@given(
    st.lists(st.tuples(st.floats(0.01, 1.0), st.integers(-80, 0)), min_size=2, max_size=6),
    st.integers(0, 2**64 - 1),
)
def test_quick_and_exact_choices_agree(drawn: list[tuple[float, int]], word: int) -> None:
    weights, exponents = [w for w, _ in drawn], [e for _, e in drawn]
    more = [0x5555_5555_5555_5555] * 4
    quick = choose(weights, exponents, Fixed(word, *more))
    assert quick == _choose_exactly(weights, exponents, word, Fixed(*more))


@examples(40)
@given(st.integers(1, 4095), st.integers(0, 30), st.integers(0, 2**40))
def test_powers_are_within_their_error(numerator: int, bits: int, cost: int) -> None:
    from mpmath import mp, mpf

    rate = Rate(numerator, bits)
    mantissa, exponent = rate.powers(np.array([cost]))
    assert 0.5 <= mantissa[0] <= 1
    with mp.workprec(200):
        wanted = mpf(2) ** (-mpf(numerator) * cost / 2**bits - int(exponent[0]))
        assert abs(mpf(float(mantissa[0])) / wanted - 1) <= mpf(ERROR)


@examples(60)
@given(st.fractions(Fraction(1, 10**6), 1000))
def test_rates_are_below_what_is_wanted_and_close(wanted: Fraction) -> None:
    found = Rate.below(wanted)
    assert found.value <= wanted < found.value + Fraction(1, 2**found.bits)
    assert found.bits == 30 or found.value > wanted * (1 - Fraction(1, 2**11)) or found.bits == 0


def test_constants_are_rounded_outward() -> None:
    from mpmath import mp, mpf

    with mp.workprec(200):
        assert mpf(LN2_UP.numerator) / LN2_UP.denominator > mp.log(2)
    candidates = Candidates.named("powers", 2**20)
    assert 0 < slack(candidates, Prior.of(candidates)) < Fraction(1, 10**6)


def test_refusals_say_what_is_wrong() -> None:
    candidates = Candidates.named("powers", 64)
    with pytest.raises(PlanError, match="below what rounding costs"):
        Selector.within(1e-14, candidates)
    with pytest.raises(PlanError, match="raise the budget"):
        Selector.within(1e-9, candidates)
    with pytest.raises(PlanError, match="longest"):
        Candidates.named("powers", 64, 65)
    with pytest.raises(PlanError, match="'powers'"):
        Candidates.named("odd", 64)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="too many"):
        Selector.within(1.0, candidates).filtered(np.full(64, 2**50))


def test_priors_are_positive_and_do_not_underflow() -> None:
    for cells in (1, 7, 64, 4096, 2**20):
        prior = Prior.of(Candidates.named("powers", cells))
        assert (prior.weights > 2.0**-200).all()
        assert (prior.moves > 0).all()
        assert np.allclose(prior.moves.sum(axis=1), 1)
        assert 1 <= default_longest(cells) <= cells
