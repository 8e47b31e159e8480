"""The reference samplers in whole numbers: each step by itself, and their paths exactly."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `benchmarks` is not installed

from benchmarks import noise_rejection as rejection
from benchmarks.noise_laws import Law, binomial, chi_square, worst
from benchmarks.noise_rejection import (
    bernoulli_exp,
    gaussian_by_rejection,
    laplace_by_rejection,
    uniform_below,
)

from noiseplan.noise import SeededSource

RIGHT = 1e-6
HUGE = 2**70 + 3


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 16, 100])
def test_uniform_integers(bound: int) -> None:
    values = uniform_below(bound, 200_000, SeededSource(bound))
    counts = np.bincount(values, minlength=bound).astype(float)
    assert counts.size == bound
    assert chi_square(counts, np.full(bound, 200_000 / bound)) > RIGHT


@pytest.mark.parametrize("bound", [2**61, 2**62, 2**62 + 1, 2**63, 2**64, HUGE, 3**100])
def test_uniform_integers_of_any_size(bound: int) -> None:
    values = uniform_below(bound, 4000, SeededSource(1))
    assert all(0 <= v < bound for v in values.tolist())
    tenths = np.bincount([10 * v // bound for v in values.tolist()], minlength=10).astype(float)
    assert chi_square(tenths, np.full(10, 400.0)) > RIGHT


CHANCES = [
    (0, 1), (1, 1), (1, 2), (1, 3), (9, 10), (5, 2), (3, 1), (7, 1), (1, 10**6),
    (HUGE, 2 * HUGE + 1),
]  # fmt: skip


@pytest.mark.parametrize(("numerator", "denominator"), CHANCES)
def test_bernoulli_exp_at_fixed_points(numerator: int, denominator: int) -> None:
    count = 20_000 if denominator > 2**60 else 400_000
    kind = object if denominator > 2**60 else np.int64
    numerators = np.full(count, numerator, dtype=kind)
    found = int(bernoulli_exp(numerators, denominator, SeededSource(numerator % 1000)).sum())
    assert binomial(found, count, math.exp(-numerator / denominator)) > RIGHT


def test_bernoulli_exp_at_the_ends() -> None:
    assert bernoulli_exp(np.zeros(1000, dtype=np.int64), 5, SeededSource(1)).all()
    assert not bernoulli_exp(np.full(1000, 200), 1, SeededSource(1)).any()


def test_bernoulli_exp_falls_as_the_exponent_grows() -> None:
    shares = [bernoulli_exp(np.full(50_000, n), 4, SeededSource(n)).mean() for n in range(0, 20, 2)]
    assert shares == sorted(shares, reverse=True)


def test_bernoulli_exp_factorises() -> None:
    """exp(−a − b) = exp(−a)·exp(−b)."""
    count = 400_000
    both = bernoulli_exp(np.full(count, 3), 5, SeededSource(1))
    both &= bernoulli_exp(np.full(count, 8), 5, SeededSource(2))
    assert binomial(int(both.sum()), count, math.exp(-11 / 5)) > RIGHT


@pytest.mark.parametrize("gamma", [Fraction(1, 3), Fraction(1), Fraction(4, 7)])
def test_every_path_of_bernoulli_exp(monkeypatch: pytest.MonkeyPatch, gamma: Fraction) -> None:
    """Follow each path of k successes with its exact probability: True adds up to exp(−γ)."""
    total = Fraction(0)
    for successes in range(gamma == 1, 25):  # at γ = 1 the first try cannot fail
        reached = gamma**successes / math.factorial(successes)
        _script(monkeypatch, [True] * successes + [False])
        numerators = np.array([gamma.numerator])
        result = rejection._bernoulli_exp_unit(numerators, gamma.denominator, SeededSource(1))
        total += reached * (1 - gamma / (successes + 1)) if result[0] else 0
    assert float(total) == pytest.approx(math.exp(-gamma), abs=1e-15)


def _script(monkeypatch: pytest.MonkeyPatch, answers: list[bool]) -> None:
    """`uniform_below` says the smallest number for a success and the largest for a failure."""
    script = iter(answers)
    monkeypatch.setattr(
        rejection,
        "uniform_below",
        lambda bound, count, source: np.array([0 if next(script) else bound - 1] * count),
    )


def test_geometric_numbers() -> None:
    values = rejection._geometric(300_000, SeededSource(4))
    k = np.arange(values.max() + 1.0)
    expected = values.size * np.exp(-k) * (1 - math.exp(-1))
    assert chi_square(np.bincount(values).astype(float), expected) > RIGHT


DRAWS: dict[bool, Callable[..., np.ndarray]] = {
    True: gaussian_by_rejection,
    False: laplace_by_rejection,
}
CASES = [
    (True, Fraction(1, 4)), (True, Fraction(1)), (True, Fraction(7, 3)), (True, Fraction(0.3)),
    (True, Fraction(10**4)), (False, Fraction(1, 3)), (False, Fraction(1)), (False, Fraction(0.7)),
    (False, Fraction(25, 2)), (False, Fraction(10**6)),
]  # fmt: skip


@pytest.mark.parametrize(("gaussian", "parameter"), CASES)
def test_the_reference_has_the_law(gaussian: bool, parameter: Fraction) -> None:
    count = 60_000 if parameter.denominator > 10**6 else 250_000
    sample = DRAWS[gaussian](parameter, count, SeededSource(11))
    name, p = worst(Law(gaussian, parameter), sample)
    assert p > RIGHT, name


@pytest.mark.parametrize("parameter", [Fraction(1, HUGE), Fraction(HUGE, HUGE - 1), Fraction(HUGE)])
def test_the_reference_takes_any_rational(parameter: Fraction) -> None:
    for gaussian, draw in DRAWS.items():
        if not gaussian and parameter > 2**60:
            continue  # refused: see below
        values = draw(parameter, 300, SeededSource(2))
        assert values.dtype == np.int64
        assert values.shape == (300,)
        if parameter < 1:
            assert not values.any()


def test_draws_that_do_not_fit_are_detected() -> None:
    with pytest.raises(OverflowError):
        laplace_by_rejection(Fraction(2) ** 70, 100, SeededSource(1))


def test_moments_of_geometric_numbers() -> None:
    """Successes of exp(−1) in a row: mean q/(1 − q), variance q/(1 − q)²."""
    values = rejection._geometric(400_000, SeededSource(5)).astype(float)
    q = math.exp(-1)
    mean, variance = q / (1 - q), q / (1 - q) ** 2
    assert abs(values.mean() - mean) < 5 * math.sqrt(variance / values.size)
    assert values.var() == pytest.approx(variance, rel=0.02)
