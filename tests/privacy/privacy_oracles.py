"""The conversions again, from their definitions, in high precision: slow, plain, independent."""

from __future__ import annotations

from decimal import Decimal

import mpmath
from mpmath import mpf

DIGITS = 200


def gaussian_delta(pcost: float, epsilon: float) -> mpf:
    """Φ(√c/2 − ε/√c) − e^ε Φ(−√c/2 − ε/√c)."""
    with mpmath.workdps(DIGITS):
        mu, epsilon = mpmath.sqrt(mpf(pcost)), mpf(epsilon)
        return _phi(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * _phi(-mu / 2 - epsilon / mu)


def gaussian_complement(pcost: float, epsilon: float) -> mpf:
    """1 − δ, without its cancellation."""
    with mpmath.workdps(DIGITS):
        mu, epsilon = mpmath.sqrt(mpf(pcost)), mpf(epsilon)
        return _phi(epsilon / mu - mu / 2) + mpmath.exp(epsilon) * _phi(-mu / 2 - epsilon / mu)


def zcdp_delta(rho: float, epsilon: float) -> mpf:
    """inf over α > 1 of exp((α − 1)(αρ − ε)) / (α − 1) · (1 − 1/α)^α; the logarithm is convex."""
    with mpmath.workdps(DIGITS):
        rho, epsilon = mpf(rho), mpf(epsilon)
        low, high = mpf(-110), mpf(110)  # log(α − 1)
        for _ in range(70):
            middle = (low + high) / 2
            order = 1 + mpmath.exp(middle)
            slope = (2 * order - 1) * rho - epsilon + mpmath.log(1 - 1 / order)
            low, high = (middle, high) if slope < 0 else (low, middle)
        order = 1 + mpmath.exp(high)
        factor = mpmath.power(1 - 1 / order, order) / (order - 1)
        return mpmath.exp((order - 1) * (order * rho - epsilon)) * factor


def agrees(value: float, printed: str) -> bool:
    """Whether `value` reads `printed` when rounded to as many digits."""
    wanted = Decimal(printed)
    return Decimal(value).quantize(Decimal((0, (1,), wanted.as_tuple().exponent))) == wanted


def _phi(x: mpf) -> mpf:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2
