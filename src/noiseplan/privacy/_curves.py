"""The curves δ(ε), as upper bounds: floating point with a margin that covers its own errors."""

from __future__ import annotations

import math
import sys
from typing import Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.privacy.rounding import up

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
