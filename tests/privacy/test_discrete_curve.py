"""Discrete Gaussian noise has the curve of continuous noise of the variance σ²_eff: by its law.

Widths in high precision, exact laws in one to three dimensions, releases chosen by what earlier
ones showed, and the rules by which a ledger adds up; each against mistakes that must be seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from noiseplan.ledger import Balance
from noiseplan.ledger.balance import pure_epsilon_left
from noiseplan.privacy import ApproxDP, Guarantee, gaussian_delta, gaussian_pcost
from noiseplan.privacy.conversions import lattice_loss, lattice_variance, pure_mu2
from noiseplan.privacy.rounding import fraction_up

Array = np.ndarray
Variance = Callable[[Fraction], Fraction]
ROUNDING = 1e-11  # of sums of thousands of floats

# ---------------------------------------------------------------------- Theorem 1: widths


def quantile(tail: mpf) -> mpf:
    """z with 1 − Φ(z) = tail, for tails below a half: by Newton's method on its logarithm."""
    small = tail < mpf("0.1")
    z = mpmath.sqrt(-2 * mpmath.log(tail)) if small else mpf("0.5")
    for _ in range(100):
        found = mpmath.erfc(z / mpmath.sqrt(2)) / 2
        density = mpmath.exp(-z * z / 2) / mpmath.sqrt(2 * mpmath.pi)
        step = (mpmath.log(found) - mpmath.log(tail)) * found / density
        z += step
        if abs(step) < mpf(10) ** -40:
            return z
    raise AssertionError("no quantile was found")


def widths(sigma2: mpf, most: int) -> list[mpf]:
    """Φ⁻¹(P(Z ≤ t)) − Φ⁻¹(P(Z < t)) for t = 0, 1, …; those of −t are the same."""
    last = most + int(mpmath.ceil(mpmath.sqrt(250 * sigma2))) + 5
    chances = [mpmath.exp(-(mpf(t) ** 2) / (2 * sigma2)) for t in range(last + 1)]
    whole = 2 * mpmath.fsum(chances) - chances[0]
    tails = [mpmath.fsum(chances[t:]) / whole for t in range(most + 2)]
    z = [mpf(0)] + [quantile(tail) for tail in tails[1:]]
    return [2 * z[1]] + [z[t + 1] - z[t] for t in range(1, most + 1)]


def root(sigma2: mpf) -> mpf:
    """m with (Φ(3m/2) − Φ(m/2))/(2Φ(m/2) − 1) = exp(−1/2σ²), from above."""

    def above(w: mpf) -> bool:
        low, high = (mpmath.erfc(w * k / mpmath.sqrt(8)) / 2 for k in (1, 3))
        return (low - high) / (1 - 2 * low) <= mpmath.exp(-1 / (2 * sigma2))

    low, high = mpf("1e-6"), mpf(60)
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (low, middle) if above(middle) else (middle, high)
    return high


@pytest.mark.parametrize("sigma2", ["0.05", "0.2", "0.34", "0.5", "1", "2", "5", "20"])
def test_no_width_is_above_the_root_and_the_closed_form(sigma2: str) -> None:
    with mpmath.workdps(50):
        size = mpf(sigma2)
        found, m = widths(size, int(8 * math.sqrt(size) + 6 * size + 8)), root(size)
        assert max(found) <= m
        assert m <= max(found) * mpf("1.01")  # it is hardly more than is needed
        assert found[-1] ** 2 * size < mpf("1.2")  # they fall towards 1/σ
        effective = lattice_variance(Fraction(sigma2))
        if not effective:
            assert Fraction(sigma2) <= Fraction(1, 3)
            return
        assert m**2 * effective.numerator <= effective.denominator
        assert Fraction(sigma2) - Fraction(1, 6) <= effective < Fraction(sigma2) - Fraction(1, 12)
        # Neither σ² itself nor σ² − 1/12 would do, here as everywhere.
        assert max(found) ** 2 * (size - mpf(1) / 12) > 1


def test_the_closed_form_is_rounded_down() -> None:
    rng = np.random.default_rng(3)
    with mpmath.workdps(60):
        for size in [*np.exp(rng.uniform(np.log(0.33334), np.log(1e12), 300)), 1 / 3 + 1e-9]:
            exact = Fraction(float(size))
            truth = mpf(exact.numerator) / exact.denominator
            truth = (truth + mpmath.sqrt(truth**2 - truth / 3)) / 2
            found = lattice_variance(exact)
            rounded = mpf(found.numerator) / found.denominator
            assert truth * (1 - mpf(10) ** -20) <= rounded <= truth
            assert mpf(lattice_loss(float(size))) >= mpf(float(size)) / truth
    assert lattice_variance(Fraction(1, 3)) == 0
    assert lattice_loss(1 / 3) == lattice_loss(0.0) == math.inf
    assert (lattice_loss(math.inf), lattice_loss(84.0) < 1.001) == (1.0, True)


# ---------------------------------------------------------------------- exact laws


def law(sigma2: float, d: int) -> tuple[Array, Array]:
    """ln P/Q and P at every integer, P the law of noise and Q the same moved by d."""
    reach = int(13 * math.sqrt(sigma2)) + abs(d) + 20
    k = np.arange(-reach, reach + 1)
    chances = np.exp(-(k**2) / (2 * sigma2))
    return (d * d - 2 * k * d) / (2 * sigma2), chances / chances.sum()


def together(laws: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    loss, chance = np.zeros(1), np.ones(1)
    for more, p in laws:
        keep = p > 1e-20
        loss = np.add.outer(loss, more[keep]).ravel()
        chance = np.multiply.outer(chance, p[keep]).ravel()
    return loss, chance


def divergence(loss: Array, chance: Array, epsilon: Array) -> Array:
    """max over events of P − e^ε Q, for each ε: E_P (1 − e^{ε − L})₊."""
    gaps = np.minimum(np.subtract.outer(epsilon, loss), 0.0)
    return np.asarray(-np.expm1(gaps) @ chance)


def cases(dimension: int) -> list[tuple[list[float], list[int]]]:
    rng = np.random.default_rng(dimension)
    some = [0.34, 0.5, 1.0, 2.0, 7.0, 30.0] if dimension == 1 else [0.34, 0.6, 1.0, 2.5]
    grid = list(product(some, (1, 2, 5))) if dimension == 1 else []
    found = [([s], [d]) for s, d in grid]
    for _ in range({1: 20, 2: 25, 3: 6}[dimension]):
        sizes = np.exp(rng.uniform(np.log(0.3334), np.log(12 if dimension < 3 else 2), dimension))
        found.append(([float(s) for s in sizes], rng.integers(1, 4, dimension).tolist()))
    return found


def understated(variance: Variance, dimension: int) -> list[float]:
    """How many times too large δ is where a variance like this is claimed, ε by ε."""
    over = []
    for sizes, moves in cases(dimension):
        loss, chance = together([law(s, d) for s, d in zip(sizes, moves, strict=True)])
        pairs = zip(sizes, moves, strict=True)
        mu2 = fraction_up(sum((d * d / variance(Fraction(s)) for s, d in pairs), Fraction(0)))
        root = math.sqrt(mu2)
        epsilon = np.linspace(0.0, mu2 / 2 + 5 * root, 12)
        if dimension == 1:  # where the curve has its corners it is nearest to the bound
            epsilon = np.concatenate([epsilon, loss[(loss >= 0) & (chance > 1e-12)]])
        for each, delta in zip(epsilon, divergence(loss, chance, epsilon), strict=True):
            if delta > 1e-13:
                over.append(float(delta) / gaussian_delta(mu2, float(each)) - 1)
    return over


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_exact_laws_are_below_the_curve(dimension: int) -> None:
    over = understated(lattice_variance, dimension)
    assert len(over) > 50
    assert max(over) <= ROUNDING
    assert max(over) > -0.05  # and not far below it


@pytest.mark.parametrize("wrong", ["σ² itself", "σ² − 1/12"])
def test_exact_laws_are_not_below_those_of_larger_variances(wrong: str) -> None:
    lost = Fraction(1, 12) if wrong == "σ² − 1/12" else Fraction(0)
    assert max(understated(lambda sigma2: sigma2 - lost, 1)) > 1e-4


def sized(mu2: float) -> float:
    """σ² of noise whose μ² is hardly less, for a move by one."""
    low, high = 1 / mu2, 1 / mu2 + 0.2
    for _ in range(60):
        middle = (low + high) / 2
        enough = lattice_variance(Fraction(middle)) >= 1 / mu2
        low, high = (low, middle) if enough else (middle, high)
    return high


def mu2_of(sigma2: float) -> float:
    return fraction_up(1 / lattice_variance(Fraction(sigma2)))


Option = tuple[Array, Array]
STOP: Option = (np.zeros(1), np.ones(1))


def response(epsilon: float) -> Option:
    """The dearest release of pure DP: randomised response."""
    p = 1 / (1 + math.exp(-epsilon))
    return np.array([epsilon, -epsilon]), np.array([p, 1 - p])


def best_choice(first: Option, options: list[Option], epsilon: float) -> float:
    """δ of a release, and then of whichever other is worst after what it showed."""
    loss, chance = first
    each = [divergence(*option, epsilon - loss) for option in options]
    return float(chance @ np.max(each, axis=0))


def test_adaptive_choices_are_below_the_curve_of_their_sum() -> None:
    """After the first: all that is left at once, in halves, moved the other way, or nothing."""
    rng = np.random.default_rng(4)
    ratios = []
    for _ in range(40):
        whole, share = rng.uniform(0.05, 2.2), rng.uniform(0.1, 0.9)
        first, second, half = (sized(whole * s) for s in (share, 1 - share, (1 - share) / 2))
        options = [
            STOP,
            law(second, 1),
            law(second, -1),
            together([law(half, 1), law(half, 1)]),
        ]
        total = mu2_of(first) + max(mu2_of(second), 2 * mu2_of(half))
        for epsilon in rng.uniform(0, whole / 2 + 4 * math.sqrt(whole), 3):
            found = best_choice(law(first, 1), options, epsilon)
            if found > 1e-13:
                ratios.append(found / gaussian_delta(total, epsilon))
    assert len(ratios) > 80
    assert 0.9 < max(ratios) <= 1 + ROUNDING


# ---------------------------------------------------------------------- pure DP


@pytest.mark.parametrize(
    "epsilon", [1e-300, 1e-170, 1e-100, 1e-9, 0.01, 0.5, 1.0, 1.0000001, 3.0, 30.0, 300.0, 700.0]
)
def test_mu_squared_of_pure_dp(epsilon: float) -> None:
    """Φ(μ/2) ≥ e^ε/(1 + e^ε), and hardly more: with 60 digits, and without differences."""

    def holds(mu2: mpf) -> bool:
        mu = mpmath.sqrt(mu2)
        if epsilon < 1:
            return bool(mpmath.erf(mu / mpmath.sqrt(8)) >= mpmath.tanh(mpf(epsilon) / 2))
        tail = mpmath.erfc(mu / mpmath.sqrt(8)) / 2
        return bool(tail <= 1 / (1 + mpmath.exp(mpf(epsilon))))

    with mpmath.workdps(60):
        found = mpf(pure_mu2(epsilon))
        assert holds(found)
        if epsilon > 1e-150:  # else it is the smallest of all numbers
            assert not holds(found * (1 - mpf(10) ** -11))


def test_mu_squared_of_no_and_of_every_loss() -> None:
    assert (pure_mu2(0.0), pure_mu2(701.0), pure_mu2(math.inf)) == (0.0, math.inf, math.inf)
    # A release of pure DP is below the curve of its μ, at every ε.
    for own in (0.1, 1.0, 4.0):
        grid = np.linspace(0, own, 50)
        for epsilon, delta in zip(grid, divergence(*response(own), grid), strict=True):
            assert delta <= gaussian_delta(pure_mu2(own), float(epsilon)) * (1 + ROUNDING)


# ---------------------------------------------------------------------- what a ledger adds up


def discrete(sigma2: float) -> Guarantee:
    return Guarantee(fraction_up(1 / Fraction(sigma2)), "zcdp", mu2=mu2_of(sigma2))


def largest(balance: Balance) -> float:
    """The least σ² that still fits, to one part in a billion."""
    return sized(balance.room * (1 - 1e-9))


BUDGETS = [ApproxDP(1.0, 1e-6), ApproxDP(2.0, 1e-3)]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("share", [0.3, 0.6])
def test_whatever_a_ledger_admits_after_gaussian_noise_is_within_the_budget(
    budget: ApproxDP, share: float
) -> None:
    most = gaussian_pcost(budget.epsilon, budget.delta)
    first = sized(share * most)
    after = Balance.opened("d", budget).after(discrete(first))
    assert after.rule == "curve"
    own, left = pure_epsilon_left(after), largest(after)
    assert after.fits(Guarantee.pure(own)) and after.fits(discrete(left))
    options = [STOP, law(left, 1), law(left, -1), response(own)]
    reached = best_choice(law(first, 1), options, budget.epsilon) / budget.delta
    assert 0.8 < reached <= 1 + ROUNDING


def test_the_best_of_two_rules_by_what_was_shown_spends_more_than_the_budget() -> None:
    """After a Gaussian release, more noise or a pure one, whichever its outcome favours, each of
    them within (ε − E, δ) by itself: this is why the rule is never chosen again."""
    budget = ApproxDP(1.0, 1e-6)
    most = gaussian_pcost(budget.epsilon, budget.delta)
    first = sized(0.3 * most)
    low, high = 0.0, budget.epsilon
    for _ in range(50):
        middle = (low + high) / 2
        within = gaussian_pcost(budget.epsilon - middle, budget.delta) >= mu2_of(first)
        low, high = (middle, high) if within else (low, middle)
    after = Balance.opened("d", budget).after(discrete(first))
    options = [STOP, law(largest(after), 1), response(low)]
    for option in options:
        assert best_choice(law(first, 1), [option], budget.epsilon) <= budget.delta * (1 + 1e-9)
    assert best_choice(law(first, 1), options, budget.epsilon) > 1.5 * budget.delta
    assert not after.fits(Guarantee.pure(low))


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("aside", [0.2, 0.7])
def test_pure_releases_aside_and_then_anything_are_within_the_budget(
    budget: ApproxDP, aside: float
) -> None:
    """A pure release first; by what it shows all the rest as noise, or as another pure one."""
    spent = aside * budget.epsilon
    after = Balance.opened("d", budget).after(Guarantee.pure(spent))
    assert after.rule == "aside"
    left, most = after.left(), after.limit_of("curve")
    assert isinstance(left, ApproxDP) and most is not None
    noise = sized(most * (1 - 1e-9))
    assert after.fits(discrete(noise)) and after.fits(Guarantee.pure(left.epsilon))
    options = [STOP, law(noise, 1), law(noise, -1), response(left.epsilon)]
    reached = best_choice(response(spent), options, budget.epsilon) / budget.delta
    assert 0.3 < reached <= 1 + ROUNDING


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_pure_and_gaussian_releases_in_a_box_fixed_beforehand(share: float) -> None:
    """(ε + E, δ(ε)) where Σμ² ≤ M and Σε ≤ E, however they follow each other."""
    rng = np.random.default_rng(6)
    for whole, pure in rng.uniform([0.05, 0.05], [2.0, 1.5], (12, 2)):
        first, second = sized(whole * share), sized(whole * (1 - share))
        total = mu2_of(first) + mu2_of(second)
        last, asked = law(second, 1), response(pure)
        options = [STOP, last, asked, together([last, asked])]
        for epsilon in rng.uniform(0, whole / 2 + 4 * math.sqrt(whole), 2):
            found = best_choice(law(first, 1), options, epsilon + pure)
            assert found <= gaussian_delta(total, epsilon) * (1 + ROUNDING) + 1e-15
