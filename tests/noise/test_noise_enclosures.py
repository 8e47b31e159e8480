"""Integer intervals certainly hold exp(−t); envelopes are certainly below."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from noise_scripts import PRECISION, mp

from depth import examples
from noiseplan.noise.energy import Energy, exp_minus, product

ratios = st.fractions(min_value=0, max_value=1000)
slow = examples(150)


@slow
@given(ratios, st.sampled_from([4, 63, 127, 300]))
def test_exp_is_enclosed_tightly(t: Fraction, bits: int) -> None:
    low, high = exp_minus(t, bits)
    with mpmath.workprec(PRECISION):
        truth = mpmath.exp(-mp(t)) * mpmath.mpf(2) ** bits
        assert low <= truth <= high
    assert 0 <= high - low <= 2


@pytest.mark.parametrize("t", [Fraction(10**30), Fraction(63), Fraction(64), Fraction(1, 10**400)])
def test_exp_at_the_ends(t: Fraction) -> None:
    low, high = exp_minus(t, 63)
    with mpmath.workprec(2000):
        assert low <= mpmath.exp(-mp(t)) * 2**63 <= high
    assert high - low <= 1


def test_exp_of_zero_is_one() -> None:
    assert exp_minus(Fraction(0), 80) == (2**80, 2**80)


@slow
@given(*[st.integers(0, 2**70) for _ in range(4)])
def test_products_are_rounded_outward(a: int, b: int, more_a: int, more_b: int) -> None:
    low, high = product((a, a + more_a), (b, b + more_b), 60)
    assert low <= Fraction(a * b, 2**60) < low + 1
    assert high - 1 < Fraction((a + more_a) * (b + more_b), 2**60) <= high


@slow
@given(ratios, ratios)
def test_an_envelope_is_below_and_close(square: Fraction, linear: Fraction) -> None:
    energy = Energy(square, linear)
    envelope = energy.rounded_down()
    for exact, cut in ((square, envelope.square), (linear, envelope.linear)):
        assert exact * 63 / 64 <= cut <= exact
        odd_part = cut.numerator // (cut.numerator & -cut.numerator or 1)
        assert odd_part < 128
        assert cut.denominator.bit_count() == 1


def test_energies() -> None:
    assert Energy.gaussian(Fraction(7, 3)).at(5) == Fraction(25 * 3, 14)
    assert Energy.laplace(Fraction(7, 3)).at(5) == Fraction(15, 7)
    energy = Energy(Fraction(1, 3), Fraction(2, 5))
    for k in range(6):
        assert energy.coarsened(8).at(k) == energy.at(8 * k)
