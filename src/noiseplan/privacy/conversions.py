"""Exact and tight conversions between privacy currencies, each rounded to the safe side.

The currency inside noiseplan is the privacy cost of a linear Gaussian mechanism Bx + N(0, Σ),

    pcost = largest diagonal entry of BᵀΣ⁻¹B = 2ρ = μ²,

which is μ-GDP exactly and ρ-zCDP. Two laws turn it into (ε, δ), and two more numbers into μ:

* `gaussian_*`: the exact curve of the continuous Gaussian (for a vector release too);
* `zcdp_*`: the tightest known curve implied by ρ-zCDP alone, which covers discrete Gaussian noise;
* `lattice_loss`: by how much pcost grows where the noise is discrete Gaussian noise on integers,
  which then has the curve of the continuous Gaussian too;
* `pure_mu2`: pure differential privacy as μ-GDP.

Rounding. `*_delta` and `*_epsilon` never return less than the truth, `gaussian_pcost` and
`zcdp_rho` never more. Only `*_delta` needs an error analysis (below): the others search for
a float at which the rounded up δ meets the wanted one, and return one that was *seen* to do so.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.privacy.rounding import checked_allowance, checked_cost, fraction_up, up

EPS: Final = sys.float_info.epsilon
TINY: Final = math.ulp(0.0)  # the smallest positive float
SMALLEST_NORMAL: Final = sys.float_info.min  # more than all that underflow can take away
MARGIN: Final = 32.0  # in multiples of EPS; the largest error found by search is 9 of them

# Gauss–Legendre rule with 8 points on [0, 1].
NODES: Final = np.array(
    [
        0.019855071751231884,
        0.10166676129318664,
        0.2372337950418355,
        0.4082826787521751,
        0.591717321247825,
        0.7627662049581645,
        0.8983332387068134,
        0.9801449282487681,
    ]
)
WEIGHTS: Final = np.array(
    [
        0.05061426814518813,
        0.11119051722668724,
        0.15685332293894363,
        0.181341891689181,
        0.181341891689181,
        0.15685332293894363,
        0.11119051722668724,
        0.05061426814518813,
    ]
)


def gaussian_delta(pcost: float, epsilon: float) -> float:
    """The δ at which a Gaussian mechanism is (ε, δ)-differentially private, rounded up.

    Parameters
    ----------
    pcost
        Privacy cost of the mechanism, 2ρ = μ², at least 0.
    epsilon
        At least 0.

    Returns
    -------
    float
        At least the exact δ and, for δ ≥ 10⁻³⁰⁰, at most 2·10⁻¹¹ of it more.

    Notes
    -----
    δ(ε) = Φ(√c/2 − ε/√c) − e^ε Φ(−√c/2 − ε/√c) with c = pcost; no smaller δ holds.

    References
    ----------
    Balle and Wang, *Improving the Gaussian mechanism for differential privacy* (2018), Theorem 8.
    Dong, Roth and Su, *Gaussian differential privacy* (2022), Corollary 1.

    Examples
    --------
    >>> round(gaussian_delta(1.0, 1.0), 7)
    0.1269367
    """
    return _delta(gaussian_curve, "pcost", pcost, epsilon)


def gaussian_epsilon(pcost: float, delta: float) -> float:
    """The least ε ≥ 0 at which a Gaussian mechanism is (ε, δ)-differentially private, rounded up.

    Parameters
    ----------
    pcost
        Privacy cost of the mechanism, 2ρ = μ², at least 0.
    delta
        At least 0. With 0 the answer is infinity (unless pcost is 0), with 1 or more it is 0.

    Notes
    -----
    The inverse of `gaussian_delta` in ε, found by bisection from ε ≤ ρ + 2√(ρ log 1/δ).

    Examples
    --------
    >>> round(gaussian_epsilon(1.0, 1e-10), 6)
    6.547924
    """
    return _epsilon(gaussian_curve, "pcost", pcost, delta, rho_per_cost=0.5)


def gaussian_pcost(epsilon: float, delta: float) -> float:
    """The largest pcost at which a Gaussian mechanism is (ε, δ)-DP, rounded down.

    Parameters
    ----------
    epsilon, delta
        At least 0. The answer is 0 when δ = 0, and infinity when δ ≥ 1 or ε is infinite.

    Notes
    -----
    The inverse of `gaussian_delta` in pcost, in which it strictly increases.

    Examples
    --------
    >>> round(gaussian_pcost(1.0, 1e-5), 10)
    0.0718514047
    >>> gaussian_delta(gaussian_pcost(1.0, 1e-5), 1.0) <= 1e-5
    True
    """
    return _cost(gaussian_curve, epsilon, delta)


def zcdp_delta(rho: float, epsilon: float) -> float:
    """The least δ for which ρ-zCDP is known to imply (ε, δ)-differential privacy, rounded up.

    Parameters
    ----------
    rho
        Parameter of zero-concentrated differential privacy, at least 0.
    epsilon
        At least 0.

    Returns
    -------
    float
        At least the infimum below and, for δ ≥ 10⁻³⁰⁰, at most 2·10⁻¹¹ of it more.

    Notes
    -----
    δ = inf over α > 1 of exp((α − 1)(αρ − ε)) / (α − 1) · (1 − 1/α)^α.

    References
    ----------
    Canonne, Kamath and Steinke, *The discrete Gaussian for differential privacy* (2020),
    Section 2.3.

    Examples
    --------
    >>> round(zcdp_delta(0.5, 5.0), 10)
    2.8961e-06
    """
    return _delta(zcdp_curve, "rho", rho, epsilon)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The least ε ≥ 0 for which ρ-zCDP is known to imply (ε, δ)-differential privacy, rounded up.

    Parameters
    ----------
    rho
        Parameter of zero-concentrated differential privacy, at least 0.
    delta
        At least 0. With 0 the answer is infinity (unless rho is 0), with 1 or more it is 0.

    Notes
    -----
    The inverse of `zcdp_delta` in ε.

    Examples
    --------
    >>> round(zcdp_epsilon(0.5, 1e-10), 6)
    6.839329
    """
    return _epsilon(zcdp_curve, "rho", rho, delta, rho_per_cost=1.0)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest ρ for which ρ-zCDP is known to imply (ε, δ)-differential privacy, rounded down.

    Parameters
    ----------
    epsilon, delta
        At least 0. The answer is 0 when δ = 0, and infinity when δ ≥ 1 or ε is infinite.

    Notes
    -----
    The inverse of `zcdp_delta` in ρ.

    Examples
    --------
    >>> zcdp_rho(1.0, 1e-5) < gaussian_pcost(1.0, 1e-5) / 2
    True
    """
    return _cost(zcdp_curve, epsilon, delta)


def discrete_gaussian_epsilon(distance: int, variance: Fraction, delta: float) -> float:
    """The least ε known to hold at δ for integers with discrete Gaussian noise, rounded up.

    Parameters
    ----------
    distance
        The largest ‖a − b‖² of two vectors of integers that must not be told apart.
    variance
        σ² of the noise on every number, drawn with chances in proportion to exp(−x²/2σ²).

    Notes
    -----
    The better of two proofs: noise on the integers is μ-GDP with μ² = ‖a − b‖²/σ²_eff
    (`lattice_loss`), and ρ-zCDP with ρ = ‖a − b‖²/2σ² (Canonne, Kamath and Steinke 2020).

    Examples
    --------
    >>> round(discrete_gaussian_epsilon(10**6, Fraction(10**6), 1e-10), 6), 6.547924
    (6.547924, 6.547924)
    """
    implied = zcdp_epsilon(fraction_up(distance / (2 * variance)), delta)
    effective = lattice_variance(variance)
    if not effective:
        return implied
    pcost = fraction_up(distance / effective)
    return min(implied, _epsilon(plain_gaussian_curve, "pcost", pcost, delta, rho_per_cost=0.5))


def discrete_gaussian_variance(distance: int, epsilon: float, delta: float) -> Fraction:
    """σ² at which `discrete_gaussian_epsilon` is at most ε, hardly more than needed."""
    pcost = _cost(plain_gaussian_curve, epsilon * (1 - SPARE), delta)
    return max(Fraction(fraction_up(distance / Fraction(pcost) + MOST_LOST)), JUST_PROVED)


# ---------------------------------------------------------------------- as Gaussian DP


def lattice_variance(variance: Fraction) -> Fraction:
    """Return σ²_eff ≤ (σ² + √(σ⁴ − σ²/3))/2, rounded down; 0 up to σ² = 1/3.

    Discrete Gaussian noise of parameter σ² on an integer that changes by d is (d/σ_eff)-GDP, as
    continuous noise of the variance σ²_eff is: see "Discrete noise has the exact curve" in
    docs/how-it-works.md. Between σ² − 1/6 and σ² − 1/12.

    Examples
    --------
    >>> float(lattice_variance(Fraction(1))), lattice_variance(Fraction(1, 3))
    (0.908248290463863, Fraction(0, 1))
    """
    square = variance * variance - variance / 3
    if square <= 0:
        return Fraction(0)
    bits = max(0, 80 - (square.numerator.bit_length() - square.denominator.bit_length()) // 2)
    root = math.isqrt((square.numerator << (2 * bits)) // square.denominator)
    return (variance + Fraction(root, 1 << bits)) / 2


def lattice_loss(variance: float) -> float:
    """Return σ²/σ²_eff, rounded up: μ² of discrete noise is at most so many times 2ρ.

    It falls as σ² grows, so the least σ² of a mechanism gives a factor for all of its numbers.
    Infinite up to σ² = 1/3, where nothing is proved by this formula.

    Examples
    --------
    >>> lattice_loss(84.0) < 1.001, lattice_loss(1.0), lattice_loss(0.3)
    (True, 1.101020514433644, inf)
    """
    if variance == math.inf:
        return 1.0
    effective = lattice_variance(Fraction(variance))
    return fraction_up(Fraction(variance) / effective) if effective else math.inf


def pure_mu2(epsilon: float) -> float:
    """Return μ², rounded up, for which ε-differential privacy implies μ-GDP.

    Notes
    -----
    μ = 2Φ⁻¹(e^ε/(1 + e^ε)): the trade-off function of ε-DP touches that of μ-GDP at the corner
    1/(1 + e^ε). It is found as the smallest μ² at which Φ(−μ/2) ≤ 1/(1 + e^ε), rounded outward.

    References
    ----------
    Dong, Roth and Su, *Gaussian differential privacy* (2022).

    Examples
    --------
    >>> round(pure_mu2(1.0), 6), pure_mu2(0.0)
    (1.517911, 0.0)
    """
    epsilon = checked_cost("epsilon", epsilon)
    if epsilon == 0 or epsilon > 700:
        return 0.0 if epsilon == 0 else math.inf
    corner = 1 / (1 + math.exp(epsilon))

    def holds(mu2: float) -> bool:
        root = math.sqrt(mu2)
        # ½ − Φ(−μ/2) = erf(μ/√8)/2, without the difference of numbers near ½.
        if epsilon < 1:
            least = math.tanh(epsilon / 2) / 2 * (1 + MARGIN * EPS)
            return math.erf(root / math.sqrt(8)) / 2 * (1 - MARGIN * EPS) >= least
        tail = math.erfc(root / math.sqrt(8)) / 2 * (1 + MARGIN * EPS * (1 + mu2))
        return tail <= corner * (1 - MARGIN * EPS * (1 + epsilon))

    return _smallest(holds, max(1.6 * epsilon * epsilon, TINY))


Curve = Callable[[float, float], float]  # (cost, ε) ↦ δ rounded up; rises in cost, falls in ε
LARGEST: Final = sys.float_info.max
# σ² − σ²_eff is at most this; and what rounding may cost of ε, at most.
MOST_LOST: Final = Fraction(1, 6)
JUST_PROVED: Final = Fraction(1, 3) + Fraction(1, 2**20)
SPARE: Final = 1e-10


def _delta(curve: Curve, name: str, cost: float, epsilon: float) -> float:
    cost, epsilon = checked_cost(name, cost), checked_allowance("epsilon", epsilon)
    if cost == 0 or epsilon == math.inf:  # nothing is learnt; or everything is (∞, 0)-private
        return 0.0
    return 1.0 if cost == math.inf else curve(cost, epsilon)


def _epsilon(curve: Curve, name: str, cost: float, delta: float, rho_per_cost: float) -> float:
    cost, delta = checked_cost(name, cost), checked_allowance("delta", delta)
    if cost == 0 or delta >= 1:
        return 0.0
    if cost == math.inf or delta == 0:
        return math.inf
    rho = rho_per_cost * cost
    guess = min(rho + 2 * math.sqrt(rho) * math.sqrt(-math.log(delta)), LARGEST)
    return _smallest(lambda epsilon: curve(cost, epsilon) <= delta, guess)


def _cost(curve: Curve, epsilon: float, delta: float) -> float:
    epsilon, delta = checked_allowance("epsilon", epsilon), checked_allowance("delta", delta)
    if epsilon == math.inf or delta >= 1:
        return math.inf
    if delta == 0:
        return 0.0
    # Start at ρ + 2√(ρ log 1/δ) = ε, or at √(2ρ) = δ where δ matters more than ε.
    root = math.sqrt(-math.log(delta))
    guess = max((epsilon / (root + math.sqrt(root * root + epsilon))) ** 2, delta * delta / 2)
    return _largest(lambda cost: curve(cost, epsilon) <= delta, guess)


def _smallest(holds: Callable[[float], bool], guess: float) -> float:
    """The smallest float found where `holds` is true, for a condition that stays true upwards."""
    if holds(0.0):
        return 0.0
    high = guess
    while not holds(high):
        high = 2 * high
        if high == math.inf:
            return high
    low = high / 2
    while holds(low):
        low, high = low / 2, low
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _largest(holds: Callable[[float], bool], guess: float) -> float:
    """The largest float found where `holds` is true, for a condition that stays true downwards."""
    low = guess
    while low > 0 and not holds(low):
        low = low / 2
    if low == 0:  # no positive float is known to do
        return 0.0
    high = 2 * low
    while high < math.inf and holds(high):
        low, high = high, 2 * high
    high = min(high, LARGEST)
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


# ---------------------------------------------------------------------- the curves δ(ε)


def gaussian_curve(pcost: float, epsilon: float) -> float:
    """An upper bound of the exact δ(ε) of a Gaussian mechanism, for finite pcost > 0 and ε ≥ 0.

    Notes
    -----
    With μ = √pcost, u = ε/μ − μ/2 and v = ε/μ + μ/2 we have v − u = μ and v² − u² = 2ε, so the two
    terms of δ = Φ(−u) − e^ε Φ(−v) share a factor:

        δ = φ(u) (R(u) − R(v)),    R(t) = Φ(−t)/φ(t) = √(π/2) erfcx(t/√2),

    R the Mills ratio, decreasing. No e^ε appears, nothing overflows, and what is left to watch is
    the difference of Mills ratios, in three cases:

    * μ < ½: R(u) − R(v) = ∫ (1 − tR(t)) dt over [u, v], by Gauss–Legendre. The integrand has
      derivatives of order 16 below 3·10⁷, so the rule errs by less than 10⁻²⁰ of the integral.
    * μ ≥ ½ and u ≥ 0: the difference, which is at least a fraction 1/(4 + 2u) of R(u).
    * μ ≥ ½ and u < 0: the complement 1 − δ = φ(u) (R(−u) + R(v)), a sum of positive terms.

    Error. u = (ε − pcost/2)/μ is good to a relative 2 EPS, which moves φ(u) by 2u² EPS; erfcx is
    good to a few EPS; taking R(v) from R(u), or tR(t) from 1, where 1 − tR(t) ≥ 1/(2 + t)², loses
    a factor of at most (3 + |u|)². All in all the relative error of δ, or of 1 − δ in the third
    case, is below MARGIN·EPS·(1 + |u|)².
    """
    mu = math.sqrt(pcost)
    u = (epsilon - pcost / 2) / mu
    v = epsilon / mu + mu / 2
    if u > 40:  # δ ≤ Φ(−40) < 10⁻³⁴⁹
        return TINY
    slack = MARGIN * EPS * (1 + abs(u)) * (1 + abs(u))
    if mu >= 0.5 and u < 0:
        complement = _normal_density(u) * (_mills(-u) + _mills(v))
        return min(1.0, up(1 - complement * max(0.0, 1 - slack)))  # δ = 1 − γ ≤ 1 − γ̂(1 − slack)
    gap = _mills(u) - _mills(v) if mu >= 0.5 else _mills_gap(u, mu)
    # φ(u) in two halves: neither underflows for u ≤ 40, so only the last product can be subnormal.
    half = math.exp(-u * u / 4)
    delta = half * (gap * (1 + slack) / math.sqrt(2 * math.pi)) * half  # δ ≤ δ̂(1 + slack)
    return min(1.0, up(delta, 4))


def plain_gaussian_curve(pcost: float, epsilon: float) -> float:
    """An upper bound of the same curve by `math.erfc` alone, for devices without SciPy.

    Notes
    -----
    δ = Φ(−u) − e^ε Φ(−v), where e^ε Φ(−v) ≤ Φ(−u). Arguments are good to a few EPS, which moves
    each term by a few v² EPS of it, ε ≤ v²/2 included; all of that is added. What it costs grows
    with Φ(−u)/δ only: less than 10⁻⁹ of δ for ε from 0.001 and δ from 10⁻¹². Dropping the second
    term, where e^ε is out of range, only raises the bound.
    """
    mu = math.sqrt(pcost)
    u = (epsilon - pcost / 2) / mu
    v = epsilon / mu + mu / 2
    first = math.erfc(u / math.sqrt(2)) / 2
    second = math.exp(epsilon) * math.erfc(v / math.sqrt(2)) / 2 if epsilon < 600 else 0.0
    slack = MARGIN * EPS * (1 + v) * (1 + v) * (first + second)
    return min(1.0, up(first - second + slack) + SMALLEST_NORMAL)


def zcdp_curve(rho: float, epsilon: float) -> float:
    """An upper bound of the δ(ε) that ρ-zCDP implies, for finite ρ > 0 and ε ≥ 0.

    Notes
    -----
    With α = 1 + t and d = ε − ρ, the bound is δ = exp(inf f(t)) over t > 0, where

        f(t) = t(ρt − d) − t log(1 + 1/t) − log(1 + t),    f′(t) = 2ρt − d − log(1 + 1/t).

    f′ increases, so bisection finds the minimum. Every t gives a valid bound: an inexact minimum
    costs accuracy (and that to second order only), never safety. What must be covered is the
    rounding in f itself, which is a few EPS of the sum of the magnitudes of its terms.
    """
    d = epsilon - rho
    if d > 0 and d * (d / (4 * rho)) > 1000:  # at 1 + t = (ε + ρ)/2ρ: δ ≤ exp(−d²/4ρ) < 10⁻⁴³⁴
        return TINY
    t = _best_order(rho, d)
    terms = (rho * t * t, -t * d, -t * math.log1p(1 / t), -math.log1p(t))
    slack = MARGIN * EPS * (1 + math.fsum(map(abs, terms)))
    exponent = math.fsum(terms) + slack
    return 1.0 if exponent >= 0 else min(1.0, up(math.exp(exponent)))


def _best_order(rho: float, d: float) -> float:
    """A point t = α − 1 close to the minimum of f: the zero of f′ in log t, by bisection."""
    low, high = -700.0, 350.0
    for _ in range(45):  # to 1050/2⁴⁵ < 10⁻¹⁰ in log t, hence to about 10⁻¹⁷ in f
        middle = (low + high) / 2
        t = math.exp(middle)
        if 2 * rho * t - d - math.log1p(1 / t) < 0:
            low = middle
        else:
            high = middle
    return math.exp(high)


def _normal_density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _mills(t: float) -> float:
    return float(math.sqrt(math.pi / 2) * _erfcx(t / math.sqrt(2)))


def _mills_gap(u: float, mu: float) -> float:
    """R(u) − R(u + μ) for small μ, as the integral of −R′(t) = 1 − tR(t)."""
    t = u + mu * NODES
    slope = 1 - t * math.sqrt(math.pi / 2) * _erfcx(t / math.sqrt(2))
    return mu * float(WEIGHTS @ slope)


def _erfcx(t: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """exp(t²) erfc(t). SciPy is loaded on first use: it takes longer than all of noiseplan."""
    from scipy.special import erfcx

    return np.asarray(erfcx(t))
