"""Inversion tables: certified boundaries, and more bits exactly where they are needed."""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from noise_scripts import PRECISION, ScriptedSource, exact_boundaries, leading_bits

from depth import examples
from noiseplan.errors import NoiseError
from noiseplan.noise import SeededSource, discrete_gaussian, inversion
from noiseplan.noise.energy import Energy
from noiseplan.noise.inversion import BITS, InversionTable, boundaries

ONES = 2**64 - 1
LAWS = {
    "σ² = 1/100": (Energy.gaussian(Fraction(1, 100)), True),
    "σ² = 1/4": (Energy.gaussian(Fraction(1, 4)), True),
    "σ² = 1": (Energy.gaussian(Fraction(1)), True),
    "σ² = 7/3": (Energy.gaussian(Fraction(7, 3)), True),
    "σ² = 0.1 as a float": (Energy.gaussian(Fraction(0.1)), True),
    "σ² = 2000": (Energy.gaussian(Fraction(2000)), True),
    "half, σ² = 2000": (Energy.gaussian(Fraction(2000)), False),
    "Laplace 2/3": (Energy.laplace(Fraction(2, 3)), True),
    "Laplace 20": (Energy.laplace(Fraction(20)), True),
    "half, Laplace 20": (Energy.laplace(Fraction(20)), False),
}
each_law = pytest.mark.parametrize(("energy", "folded"), LAWS.values(), ids=LAWS)


@each_law
def test_boundaries_are_enclosed(energy: Energy, folded: bool) -> None:
    for bits in (8, 63, 127):
        lower, upper = boundaries(energy, folded, bits)
        truth = [leading_bits(b, bits) for b in exact_boundaries(energy, folded, len(lower))]
        assert all(a <= b <= c for a, b, c in zip(lower, truth, upper, strict=True))
        assert max(c - a for a, c in zip(lower, upper, strict=True)) <= 1
        assert lower[-1] >= 2**bits - 3, "less than 2^−bits is left beyond the table"
        assert lower == sorted(lower)
        assert upper == sorted(upper)


@each_law
@pytest.mark.parametrize("bits", [3, 6, 10])
def test_a_source_of_few_bits_exhausted(energy: Energy, folded: bool, bits: int) -> None:
    """All 2^bits words: what is decided never exceeds the law, and makes it up with what is not."""
    lower, upper = boundaries(energy, folded, bits)
    sure, open_words = dict.fromkeys(range(len(lower)), 0), 0
    for word in range(2**bits):
        certain = sum(u < word for u in upper)
        if certain < len(lower) and word < lower[certain]:
            sure[certain] += 1
        else:
            open_words += 1
    below = [0.0, *map(float, exact_boundaries(energy, folded, len(lower)))]
    for k, count in sure.items():
        mass = below[k + 1] - below[k] if k + 1 < len(below) else 0.0
        assert count / 2**bits <= mass + 1e-15
        assert mass <= (count + open_words) / 2**bits
    assert open_words <= len(set(upper) | set(lower)) + 1


@each_law
def test_the_guide_decides_only_what_is_decided(energy: Energy, folded: bool) -> None:
    """Every one of the 2¹⁵ leading words, against exact boundaries."""
    table = InversionTable.of(energy, folded)
    exact = exact_boundaries(energy, folded, table.lower.size)
    scaled = [leading_bits(b, BITS) for b in exact]
    for prefix, value in enumerate(table.guide.tolist()):
        first, last = prefix << 48, ((prefix + 1) << 48) - 1
        # ⌊b·2⁶³⌋ < first or > last, else the boundary is inside
        below, touched = bisect_right(scaled, first - 1), bisect_right(scaled, last)
        if value >= 0:
            assert value == below == touched
        else:
            assert below < touched or touched == table.lower.size


def _tie(energy: Energy, boundary: int, *more: tuple[int, int]) -> tuple[int, ScriptedSource]:
    """Draw with a first 63 bits equal to those of a boundary, followed by the scripted words."""
    table = InversionTable.of(energy, folded=True)
    word = int(table.lower[boundary])
    assert word == table.upper[boundary]
    source = ScriptedSource(
        ([word >> 48 << 1], 16),
        ([(word & (2**48 - 1)) << 16], 64),
        *(([w], bits) for w, bits in more),
    )
    magnitudes, minus = table.draw(1, source)
    assert not minus[0]
    return int(magnitudes[0]), source


@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(1), Fraction(7, 3), Fraction(400)])
@pytest.mark.parametrize("boundary", [0, 1, 2])
def test_ties_are_resolved_by_further_bits(variance: Fraction, boundary: int) -> None:
    energy = Energy.gaussian(variance)
    exact = exact_boundaries(energy, True, boundary + 1)[boundary]
    next_word = leading_bits(exact, BITS + 64) & ONES
    for word, value in ((next_word - 1, boundary), (next_word + 1, boundary + 1)):
        found, source = _tie(energy, boundary, (word, 64))
        assert found == value
        assert not source.reads, "the further bits were consumed, and no more"
    third = leading_bits(exact, BITS + 128) & ONES
    for word, value in ((third - 1, boundary), (third + 1, boundary + 1)):
        found, source = _tie(energy, boundary, (next_word, 64), (word, 64))
        assert found == value
        assert not source.reads


@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(1), Fraction(7, 3), Fraction(400)])
def test_draws_beyond_the_table_are_exact(variance: Fraction) -> None:
    """U = 1 − 2⁻¹²⁷ and 1 − 2⁻¹⁹¹ lie far in the tail; the value is that of exact inversion."""
    energy = Energy.gaussian(variance)
    table = InversionTable.of(energy, folded=True)
    for extra in (1, 2):
        # A word that is not all ones ends the search; what follows cannot change the value.
        scripted = [*[ONES] * (extra - 1), ONES - 12345]
        source = ScriptedSource(([0xFFFE], 16), ([ONES], 64), *(([word], 64) for word in scripted))
        magnitudes, _ = table.draw(1, source)
        with mpmath.workprec(PRECISION):
            gap = mpmath.mpf(12345 + 1) / mpmath.mpf(2) ** (BITS + 64 * extra)
            expected = bisect_right(exact_boundaries(energy, True, 1000), 1 - gap)
        assert magnitudes[0] == expected
        assert not source.reads


def test_the_tail_goes_on_beyond_the_table() -> None:
    energy = Energy.gaussian(Fraction(1))
    size = InversionTable.of(energy, folded=True).lower.size
    source = ScriptedSource(([0xFFFF], 16), ([ONES], 64), ([ONES], 64), ([ONES - 2**40], 64))
    magnitudes, minus = InversionTable.of(energy, folded=True).draw(1, source)
    assert magnitudes[0] > size
    assert minus[0]


def test_a_draw_too_large_to_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inversion, "LARGEST", 12)
    with pytest.raises(NoiseError, match="refused"):
        boundaries(Energy.gaussian(Fraction(1)), True, 200)


def test_words_next_to_a_boundary_need_no_more_bits() -> None:
    table = InversionTable.of(Energy.gaussian(Fraction(4)), folded=True)
    words = np.concatenate([table.lower[:5] - 1, table.upper[:5] + 1]).astype(np.uint64)
    source = ScriptedSource((words >> 48 << 1, 16), ((words & (2**48 - 1)) << 16, 64))
    magnitudes, _ = table.draw(10, source)
    assert magnitudes.tolist() == [*range(5), *range(1, 6)]
    assert not source.reads


def test_every_first_word_through_the_sampler() -> None:
    """Each of the 2¹⁶ first words once: counts are the law's to within the undecided words."""
    energy = Energy.gaussian(Fraction(1))
    table = InversionTable.of(energy, folded=True)
    unsure = int((table.guide < 0).sum())

    class First(SeededSource):
        def read(self, count: int) -> bytes:
            words = np.arange(2**16, dtype="<u2").tobytes()
            return words if count == len(words) else super().read(count)

    magnitudes, minus = table.draw(2**16, First(3))
    assert minus.sum() == 2**15
    below = [0.0, *map(float, exact_boundaries(energy, True, 6))]
    for k in range(6):
        count = (magnitudes == k).sum() / 2
        assert abs(count / 2**15 - (below[k + 1] - below[k])) <= (unsure + 1) / 2**15


def test_tables_are_remembered() -> None:
    energy = Energy.gaussian(Fraction(55, 7))
    assert InversionTable.of(energy, True) is InversionTable.of(energy, True)
    assert InversionTable.of.cache_info().maxsize == 256
    assert discrete_gaussian(Fraction(55, 7), 3).shape == (3,)


@examples(25)
@given(
    st.fractions(min_value=Fraction(1, 100), max_value=200, max_denominator=10**6),
    st.booleans(),
    st.booleans(),
)
def test_boundaries_of_any_rational_law(parameter: Fraction, gaussian: bool, folded: bool) -> None:
    energy = Energy.gaussian(parameter) if gaussian else Energy.laplace(min(parameter, Fraction(9)))
    lower, upper = boundaries(energy, folded, BITS)
    truth = [leading_bits(b, BITS) for b in exact_boundaries(energy, folded, len(lower))]
    assert all(a <= b <= c <= a + 1 for a, b, c in zip(lower, truth, upper, strict=True))
