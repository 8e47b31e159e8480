"""The samplers against the exact law, and the tests of the law against wrong samplers."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `benchmarks` is not installed

from benchmarks.noise_biased import BIASED
from benchmarks.noise_laws import Ints, Law, p_values, worst
from benchmarks.noise_rejection import gaussian_by_rejection

from noiseplan.noise import SeededSource, Source, discrete_gaussian, discrete_laplace
from noiseplan.noise.coarse_fine import CoarseFine
from noiseplan.noise.discrete import Inversion, sampler, wide_gaussian
from noiseplan.noise.energy import Energy
from noiseplan.noise.inversion import InversionTable

# A row multiplies its lowest p-value by the number of tests; a right sampler falls below this once
# in a million. The seeds are fixed; benchmarks/noise_speed.py repeats the tests on fresh bits.
RIGHT, WRONG = 1e-6, 1e-9
COUNT = 1_000_000
VARIANCES = [
    Fraction(1, 100), Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(7, 3),
    Fraction(64, 9), Fraction(36), Fraction(0.3), Fraction(2999), Fraction(10**4), Fraction(10**5),
    Fraction(10**9), Fraction(10**9 + 7, 11), Fraction(10**24), Fraction(2) ** 90,
]  # fmt: skip
SCALES = [
    Fraction(1, 20), Fraction(1, 3), Fraction(1), Fraction(7, 3), Fraction(46), Fraction(48),
    Fraction(10**4), Fraction(2) ** 45,
]  # fmt: skip


@pytest.mark.few(6)
@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_the_law_of_the_gaussian(variance: Fraction) -> None:
    sample = discrete_gaussian(variance, COUNT, source=SeededSource(1))
    name, p = worst(Law(True, variance), sample)
    assert p > RIGHT, name


@pytest.mark.parametrize("bits", [12, 120, 390])
def test_the_law_of_integers_in_limbs(bits: int) -> None:
    """Leading bits have the law of the same width, for which the cut is nothing; others are fair.

    ⌊X/2^h⌋ of σ² = 2^(90 + 2h) differs from a draw of σ² = 2⁹⁰ by the half of one of 2⁴⁵ units.
    """
    drawn = wide_gaussian(Fraction(2) ** (90 + bits), COUNT // 8, source=SeededSource(8)).python()
    name, p = worst(Law(True, Fraction(2) ** 90), (drawn >> (bits // 2)).astype(np.int64))
    assert p > RIGHT, name
    for place in range(0, bits // 2, 18):
        often = np.bincount(((drawn >> place) % 2**18).astype(np.int64), minlength=2**18)
        assert stats.chisquare(often).pvalue > RIGHT


def test_narrow_laws_in_limbs_are_the_same_draws() -> None:
    for variance in (0, Fraction(7, 3), 10**5, 2**96):
        drawn = wide_gaussian(variance, (70_000, 2), source=SeededSource(9))
        expected = discrete_gaussian(variance, (70_000, 2), source=SeededSource(9))
        np.testing.assert_array_equal(drawn.numbers(), expected)


@pytest.mark.few(4)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_the_law_of_the_laplace(scale: Fraction) -> None:
    sample = discrete_laplace(scale, COUNT, source=SeededSource(2))
    name, p = worst(Law(False, scale), sample)
    assert p > RIGHT, name


FOUND_BY = {
    "σ too large by 1 %": "mean square",
    "no draws beyond 4σ": "tail of 100",
    "acceptance rounded to 10⁻³": "χ²",
    "rounded continuous Gaussian": "Kolmogorov",
    "sign wrong once in 64": "signs",
    "one block in ten repeated": "lag 32768 of x",
    "lowest bit unset": "bits from 0",
    "acceptance left out": "mean size",
    "σ too large by 1 %, wide": "mean square",
}


@pytest.mark.parametrize("fault", BIASED)
def test_a_wrong_sampler_fails(fault: str) -> None:
    """The checks have power: every fault is found, and by the checks that are made for it."""
    variance, biased = BIASED[fault]
    found = p_values(Law(True, variance), biased(variance, COUNT, SeededSource(3)))
    assert min(found.values()) < WRONG
    assert found[FOUND_BY[fault]] < WRONG, found


def test_a_right_sampler_passes_where_the_wrong_ones_fail() -> None:
    for variance in {variance for variance, _ in BIASED.values()}:
        sample = discrete_gaussian(variance, COUNT, source=SeededSource(3))
        assert worst(Law(True, variance), sample)[1] > RIGHT


def test_dependent_draws_fail() -> None:
    """One draw in 32 takes the size of the one before it."""
    sample = discrete_gaussian(4, COUNT, source=SeededSource(3))
    again = np.flatnonzero(SeededSource(4).words(COUNT // 2, 8) < 16) * 2
    sample[again + 1] = np.abs(sample[again])
    found = p_values(Law(True, Fraction(4)), sample)
    assert found["pairs"] < WRONG


# What spec E4 says of N_Z(0, σ²).
VARIANCES_OF_DRAWS = {
    0.25: 0.21501267508813846, 0.5: 0.49897913083282047, 1.0: 0.9999997887677281,
    2.0: 1.999999999999998,
}  # fmt: skip


@pytest.mark.parametrize("variance", VARIANCES_OF_DRAWS)
def test_the_variance_of_the_draws(variance: float) -> None:
    law = Law(True, Fraction(variance))
    assert law.moment(2) == pytest.approx(VARIANCES_OF_DRAWS[variance], rel=1e-14)
    sample = discrete_gaussian(variance, 3_000_000, source=SeededSource(5)).astype(float)
    error = math.sqrt((law.moment(4) - law.moment(2) ** 2) / sample.size)
    assert abs((sample**2).mean() - law.moment(2)) < 5 * error


# ---------------------------------------------------------------------- the ways of drawing agree


def inversion(variance: Fraction, count: int, source: Source) -> Ints:
    return Inversion(InversionTable.of(Energy.gaussian(variance), folded=True)).draw(count, source)


def coarse_fine(variance: Fraction, count: int, source: Source) -> Ints:
    return CoarseFine.of(Energy.gaussian(variance)).draw(count, source)


WAYS: dict[str, Callable[[Fraction, int, Source], Ints]] = {
    "inversion": inversion,
    "coarse and fine": coarse_fine,
    "reference": gaussian_by_rejection,
}


@pytest.mark.few(5)
@pytest.mark.parametrize("variance", [Fraction(7, 3), Fraction(300), Fraction(2**18 + 1, 8)])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_has_the_law(way: str, variance: Fraction) -> None:
    count = 200_000 if way == "reference" else COUNT
    name, p = worst(Law(True, variance), WAYS[way](variance, count, SeededSource(6)))
    assert p > RIGHT, name


@pytest.mark.parametrize("scale", [Fraction(2, 3), Fraction(30)])
def test_both_ways_have_the_laplace_law(scale: Fraction) -> None:
    for way in (Inversion(InversionTable.of(Energy.laplace(scale), True)),
                CoarseFine.of(Energy.laplace(scale))):  # fmt: skip
        name, p = worst(Law(False, scale), way.draw(COUNT, SeededSource(7)))
        assert p > RIGHT, name


def test_which_way_is_taken() -> None:
    def way(energy: Energy, count: int) -> type:
        return type(sampler(energy, count))

    assert way(Energy.gaussian(Fraction(1)), 1) is Inversion
    assert way(Energy.gaussian(Fraction(10**4)), 10) is CoarseFine
    assert way(Energy.gaussian(Fraction(10**4)), 10**4) is Inversion
    assert way(Energy.gaussian(Fraction(10**6)), 10**9) is CoarseFine
    assert way(Energy.gaussian(Fraction(1, 10**300)), 1) is Inversion
    assert way(Energy.laplace(Fraction(40)), 10**4) is Inversion
    assert way(Energy.laplace(Fraction(50)), 10**9) is CoarseFine


@pytest.mark.parametrize("gaussian", [True, False])
def test_log_ratios(gaussian: bool) -> None:
    """ln P(0) − ln P(k) is k²/(2σ²) or k/scale: the shape itself, whatever the constant."""
    draw = discrete_gaussian if gaussian else discrete_laplace
    sample = draw(4, 4_000_000, source=SeededSource(8))
    counts = np.bincount(np.abs(sample)).astype(float)
    counts[1:] /= 2
    for k in range(1, 6):
        exponent = k * k / 8 if gaussian else k / 4
        error = math.sqrt(1 / counts[0] + 0.5 / counts[k])
        assert abs(math.log(counts[0] / counts[k]) - exponent) < 5 * error


def test_the_two_sums_of_a_wide_law_agree() -> None:
    """The oracle itself: term by term, and by Euler and Maclaurin."""

    class Unsummed(Law):
        summed = property(lambda self: False)  # type: ignore[assignment]

    k = np.arange(-600, 600, 7)
    summed, wide = Law(True, Fraction(9801)), Unsummed(True, Fraction(9801))  # σ = 99
    assert summed.summed
    assert wide.below(k) == pytest.approx(summed.below(k), abs=1e-10)
    assert wide.moment(4) == pytest.approx(summed.moment(4), rel=1e-12)


# ---------------------------------------------------------------------- repeatable with a seed

GOLDEN = {
    "discrete_gaussian(1, 8, source=s)": [0, 0, -2, -1, -3, -1, 0, 1],
    "discrete_gaussian(10**9, 4, source=s)": [3468, 18157, 2673, -46895],
    "discrete_gaussian(2**90, 2, source=s)": [-28357716688419, -7827365122362],
    "discrete_laplace(50, 6, source=s)": [4, 58, -7, 79, 72, 74],
}


def test_a_seed_gives_the_same_draws_in_every_run() -> None:
    lines = "; ".join(f"print({call}.tolist())" for call in GOLDEN)
    code = f"from noiseplan.noise import *; s = SeededSource(42); {lines}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(values) for values in GOLDEN.values()]


def test_draws_do_not_depend_on_what_was_drawn_before() -> None:
    """Remembered tables change the speed, never the draws."""
    first = discrete_gaussian(12345, 1000, source=SeededSource(1))
    discrete_gaussian(12346, 1000)
    again = discrete_gaussian(12345, 1000, source=SeededSource(1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, discrete_gaussian(12345, 1000, source=SeededSource(2)))


def test_opendp_has_the_same_law() -> None:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    theirs = np.array(dp.m.make_gaussian(*space, scale=1.5)([0] * 100_000))
    assert worst(Law(True, Fraction(9, 4)), theirs)[1] > RIGHT
