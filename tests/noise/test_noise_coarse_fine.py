"""Coarse and fine: envelopes below, floats within their bound, and ties settled by more bits."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from noise_scripts import PRECISION, ScriptedSource, leading_bits, mp

from depth import examples
from noiseplan.arrays import IntArray
from noiseplan.noise import SeededSource, Source
from noiseplan.noise.coarse_fine import CoarseFine, is_accepted, rejection_probability
from noiseplan.noise.discrete import LARGEST_SCALE, LARGEST_VARIANCE, WIDEST_VARIANCE
from noiseplan.noise.energy import Energy
from noiseplan.noise.inversion import LARGEST
from noiseplan.noise.wide_integers import BITS, WideIntegers, floats

ONES = 2**64 - 1
ENERGIES = {
    "σ² = 300": Energy.gaussian(Fraction(300)),
    "σ² = 10⁶ + 1/3": Energy.gaussian(Fraction(10**6) + Fraction(1, 3)),
    "σ² = 10⁹": Energy.gaussian(Fraction(10**9)),
    "σ² = 2⁹⁰": Energy.gaussian(Fraction(2) ** 90),
    "largest σ²": Energy.gaussian(Fraction(LARGEST_VARIANCE)),
    "σ² = 2¹⁰⁵ − 1/3": Energy.gaussian(Fraction(2) ** 105 - Fraction(1, 3)),
    "σ² = 3·2²⁰⁰": Energy.gaussian(3 * Fraction(2) ** 200),
    "widest σ²": Energy.gaussian(Fraction(WIDEST_VARIANCE)),
    "scale 7/3": Energy.laplace(Fraction(7, 3)),
    "scale 1000": Energy.laplace(Fraction(1000)),
    "largest scale": Energy.laplace(Fraction(LARGEST_SCALE)),
}
each_energy = pytest.mark.parametrize("energy", ENERGIES.values(), ids=ENERGIES)


def in_limbs(sampler: CoarseFine, remainders: list[int]) -> IntArray:
    """Remainders as the sampler has them: a number each, or limbs where that is too short."""
    if not sampler.wide:
        return np.array([remainders])
    places = range(0, sampler.shift, BITS)
    return np.array([[(r >> place) % 2**BITS for r in remainders] for place in places])


def exact_g(t: Fraction) -> mpmath.mpf:
    with mpmath.workprec(PRECISION):
        return 1 - mpmath.exp(-mp(t))


def test_the_series_is_within_its_bound() -> None:
    t = np.concatenate([np.linspace(0, 0.5, 4001), 2.0 ** -np.arange(2.0, 80)])
    for x, g in zip(t, rejection_probability(t), strict=True):
        assert abs(mpmath.mpf(float(g)) - exact_g(Fraction(float(x)))) <= 2.0**-48


@each_energy
def test_exponents_in_floats_are_within_their_bound(energy: Energy) -> None:
    sampler = CoarseFine.of(energy)
    random = np.random.default_rng(0)
    cells = random.integers(0, 2 * sampler.table.lower.size, 300)
    remainders = [int.from_bytes(random.bytes(32), "big") % (1 << sampler.shift) for _ in cells]
    cells[0], remainders[0] = LARGEST - 1, (1 << sampler.shift) - 1
    found = sampler._exponents(cells, floats(in_limbs(sampler, remainders)))
    for c, r, t in zip(cells.tolist(), remainders, found.tolist(), strict=True):
        exact = energy.at((c << sampler.shift) + r) - sampler.table.energy.at(c)
        assert abs(Fraction(t) - exact) <= exact * Fraction(1, 2**49)


@each_energy
def test_the_envelope_is_below(energy: Energy) -> None:
    """E₀(c) ≤ E(cB) for every c follows from the coefficients; nothing overflows.

    Draws fit 62 bits wherever they are not in limbs, and floats hold the energies of all of them.
    """
    sampler = CoarseFine.of(energy)
    coarse, table = energy.coarsened(1 << sampler.shift), sampler.table.energy
    assert coarse.square >= table.square
    assert coarse.linear >= table.linear
    assert sampler.wide or LARGEST << sampler.shift <= 2**62
    assert (LARGEST << (sampler.shift + 1)) ** 2 < 2**1023
    assert sampler.table.lower.size < 1100


@each_energy
def test_sure_words_accept_whatever_the_remainder(energy: Energy) -> None:
    sampler = CoarseFine.of(energy)
    largest = (1 << sampler.shift) - 1
    for cell, sure in enumerate(sampler.sure[:-1].tolist()):
        assert sure == 2**16 or Fraction(sure, 2**16) >= sampler._exponent(cell, largest)
    assert sampler.sure[-1] == 2**16, "beyond the table nothing is sure"


@examples(60)
@given(st.fractions(min_value=0, max_value=3))
def test_acceptance_by_eight_bits_exhausted(t: Fraction) -> None:
    """All 2⁸ words: accepted ≤ exp(−t) ≤ accepted or open, and at most three are open."""
    accepted, unsure = 0, 0
    for word in range(256):
        try:
            accepted += is_accepted(t, word, 8, ScriptedSource())
        except AssertionError:  # the script has ended: more bits were asked for
            unsure += 1
    with mpmath.workprec(PRECISION):
        assert accepted <= 256 * mpmath.exp(-mp(t)) <= accepted + unsure
    assert unsure <= 3


@dataclass(frozen=True)
class OneCell:
    """Stands for the coarse table: always the same cell."""

    energy: Energy
    cell: int

    def draw(self, count: int, _: Source) -> tuple[IntArray, np.ndarray]:
        return np.full(count, self.cell), np.zeros(count, dtype=bool)


def words_of(sampler: CoarseFine, looks: np.ndarray, remainder: int) -> list[bytes]:
    """The bytes of each read that give these first looks at V, and always this remainder."""
    if sampler.wide:  # the leading bits of one word for each limb, the last of fewer bits
        limbs = in_limbs(sampler, [remainder]).ravel() << (32 - BITS)
        limbs[-1] <<= BITS * len(limbs) - sampler.shift
        words = np.repeat(limbs, looks.size)
        return [words.astype("<u4").tobytes(), looks.astype("<u2").tobytes()]
    bits = 32 if sampler.shift <= 16 else 64
    words = (looks << (bits - 16)) | np.uint64(remainder)
    return [words.astype(f"<u{bits // 8}").tobytes()]


@pytest.mark.grid
@pytest.mark.parametrize(
    ("cell", "place"), [*((c, p) for c in (0, 1, 40, 200) for p in (0, 1, 2)), (1500, 1)]
)
@each_energy
def test_acceptance_of_a_cell_exhausted(energy: Energy, cell: int, place: int) -> None:
    """All first looks for one (c, r): accepted in the share exp(−t), to within one word.

    Where t is large each look takes an exact comparison: then those next to g, and some others.
    """
    sampler = CoarseFine.of(energy)
    remainder = place * ((1 << sampler.shift) - 1) // 2
    threshold = float(2**16 * exact_g(sampler._exponent(cell, remainder)))
    looks = np.arange(2**16, dtype=np.uint64)
    if threshold > 2**14:
        looks = looks[(np.abs(looks - threshold) < 300) | (looks % 97 == 0)]
    first = words_of(sampler, looks, remainder)

    class First(SeededSource):
        def read(self, count: int) -> bytes:
            if not first:
                return super().read(count)
            assert count == len(first[0])
            return first.pop(0)

    stub = OneCell(sampler.table.energy, cell)
    scripted = CoarseFine(energy, sampler.shift, stub, sampler.sure)  # type: ignore[arg-type]
    values = scripted._tries(looks.size, First(1))
    numbers = WideIntegers(values).python() if sampler.wide else values
    assert set(numbers.tolist()) in (set(), {(cell << sampler.shift) + remainder})
    surely, perhaps = (looks >= threshold).sum(), (looks + 1 > threshold).sum()
    assert surely <= numbers.size <= perhaps <= surely + 1


def quick(word: int) -> np.ndarray:
    """The first 16 of 80 bits of V."""
    return np.array([word >> 64], dtype=np.uint32)


@each_energy
def test_ties_in_the_acceptance_are_resolved_by_further_bits(energy: Energy) -> None:
    """80 bits of V equal to those of g: floats cannot tell, and further bits decide."""
    sampler = CoarseFine.of(energy)
    cell, remainder = 30, (1 << sampler.shift) // 3
    t = sampler._exponent(cell, remainder)
    word = leading_bits(exact_g(t), 80)
    next_word = leading_bits(exact_g(t), 144) & ONES
    arrays = np.array([cell]), in_limbs(sampler, [remainder]), quick(word)
    for further, accepted in ((next_word - 2, False), (next_word + 2, True)):
        source = ScriptedSource(([word & ONES], 64), ([further], 64))
        assert sampler._decide(*arrays, source).tolist() == [accepted]
        assert not source.reads


def test_near_ties_go_to_the_exact_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within 2⁻⁴⁰ of g the floats say nothing; outside they decide alone."""
    sampler = CoarseFine.of(ENERGIES["σ² = 10⁹"])
    cell, remainder = 30, (1 << sampler.shift) // 3
    g = leading_bits(exact_g(sampler._exponent(cell, remainder)), 80)
    asked: list[int] = []
    monkeypatch.setattr(
        "noiseplan.noise.coarse_fine.is_accepted",
        lambda t, word, bits, source: asked.append(word) or word > g,
    )
    for offset, exact in ((2**38, True), (-(2**38), True), (2**42, False), (-(2**42), False)):
        word = g + offset
        arrays = np.array([cell]), in_limbs(sampler, [remainder]), quick(word)
        source = ScriptedSource(([word & ONES], 64))
        assert sampler._decide(*arrays, source).tolist() == [offset > 0]
        assert bool(asked) is exact
        asked.clear()


def test_a_large_exponent_goes_to_the_exact_comparison() -> None:
    """Beyond the reach of the series: c far outside the table."""
    energy = Energy.gaussian(Fraction(10**9))
    sampler = CoarseFine.of(energy)
    arrays = np.array([20_000]), in_limbs(sampler, [5]), quick(2**80 - 1)
    assert sampler._exponent(20_000, 5) > 80
    source = ScriptedSource(([ONES], 64), ([0], 64))  # V = 1 − 2⁻⁸⁰ is below g = 1 − exp(−t)
    assert sampler._decide(*arrays, source).tolist() == [False]
    assert not source.reads


def test_minus_zero_is_refused_in_limbs() -> None:
    sampler = CoarseFine.of(ENERGIES["σ² = 3·2²⁰⁰"])
    limbs = -(-sampler.shift // BITS)
    words = [0] * 2 * limbs
    words[2 * limbs - 1] = 2**31  # the remainder of the second is not zero
    source = ScriptedSource(([1, 1], 16), (words, 32), ([2**16 - 1] * 2, 16))
    assert WideIntegers(sampler._tries(2, source)).python().tolist() == [
        -(2 ** (sampler.shift - 1))
    ]


def test_minus_zero_is_refused() -> None:
    sampler = CoarseFine.of(ENERGIES["σ² = 300"])
    assert sampler.shift == 0
    # Leading bits 0 are cell 0; the last bit is the sign; top words accept.
    source = ScriptedSource(([0, 1, 0, 1], 16), ([2**32 - 1] * 4, 32))
    assert sampler._tries(4, source).tolist() == [0, 0]


def test_envelopes_are_shared() -> None:
    one = CoarseFine.of(Energy.gaussian(Fraction(10**9)))
    other = CoarseFine.of(Energy.gaussian(Fraction(10**9 + 1)))
    assert one is CoarseFine.of(Energy.gaussian(Fraction(10**9)))
    assert one.table is other.table
    far = CoarseFine.of(Energy.gaussian(Fraction(10**9 * 4**20)))
    assert far.table is one.table
