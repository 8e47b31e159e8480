"""How large noise is: its variance, sizes of few bits, how far an interval reaches.

The variances of discrete noise are a little below those of continuous noise. Sizes are numbers of
few bits, which exact samplers draw from quickly. Intervals are pointwise, or simultaneous over a
table.
"""

from __future__ import annotations

from numbers import Real
from typing import Final

import numpy as np

from noiseplan.errors import QueryError
from noiseplan.matrices.base import Array

# From here on the variance equals the parameter to double precision: the gap is below
# 8π²σ⁴e^{−2π²σ²} (Poisson summation).
LARGE = 4.0
# Below this parameter the variance is no number but zero.
LEAST = 1e-4
# Sizes keep so many bits: many where there are few of them, few where each needs its own table.
FEW_SIZES: Final = 2000
FINE_BITS, COARSE_BITS = 40, 13


def discrete_gaussian_variance(parameter: Array) -> Array:
    """Σ k² e^{−k²/(2σ²)} / Σ e^{−k²/(2σ²)} for each σ²; zero and infinity stay.

    Examples
    --------
    >>> discrete_gaussian_variance(np.array([0.25, 1.0, 100.0])).round(6).tolist()
    [0.215013, 1.0, 100.0]
    """
    result = np.array(parameter, dtype=np.float64)
    small = (result > 0) & (result < LARGE)
    if small.any():  # few of them differ, and most parameters are large
        values, which = np.unique(result[small], return_inverse=True)
        result[small] = _moment(values, 2)[which]
    return result


def discrete_gaussian_slope(parameter: Array) -> Array:
    """By how much the variance grows with σ²: (E k⁴ − (E k²)²)/(2σ⁴).

    Examples
    --------
    >>> discrete_gaussian_slope(np.array([0.05, 0.25, 100.0])).round(6).tolist()
    [0.018157, 1.400934, 1.0]
    """
    result = np.ones_like(parameter)
    small = (parameter > LEAST) & (parameter < LARGE)
    square, fourth = (_moment(parameter[small], order) for order in (2, 4))
    result[small] = (fourth - square**2) / (2.0 * parameter[small] ** 2)
    result[parameter <= LEAST] = 0.0
    return result


def discrete_gaussian_parameter(variance: Array) -> Array:
    """σ² of the discrete Gaussian with each variance, rounded up; infinity stays.

    Examples
    --------
    >>> discrete_gaussian_parameter(np.array([0.215013, 1.0, 100.0])).round(5).tolist()
    [0.25, 1.0, 100.0]
    """
    result = np.array(variance, dtype=np.float64)
    small = result < LARGE
    below, above = np.full(small.sum(), LEAST), np.full(small.sum(), LARGE)
    while (above > below * (1 + 1e-13)).any():
        middle = np.sqrt(below * above)
        less = _moment(middle, 2) < result[small]
        below, above = np.where(less, middle, below), np.where(less, above, middle)
    result[small] = above
    return result


def _moment(parameter: Array, order: int) -> Array:
    """E k^order."""
    k = np.arange(-40.0, 41.0)
    with np.errstate(over="ignore"):  # exp(−∞) is the zero it should be
        weights = np.exp(-(k**2) / (2.0 * parameter[:, None]))
    return np.asarray((weights * k**order).sum(axis=1) / weights.sum(axis=1))


def discrete_laplace_variance(scale: Array) -> Array:
    """2q/(1 − q)² with q = e^{−1/b}, about 2b² − 1/6, for each scale b; zero and infinity stay.

    As ½/sinh²(1/(2b)), which keeps its digits at any scale.

    Examples
    --------
    >>> discrete_laplace_variance(np.array([0.0, 1.0, 100.0])).round(6).tolist()
    [0.0, 1.841347, 19999.833334]
    """
    scale = np.asarray(scale, dtype=np.float64)
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(0.5 / np.sinh(0.5 / scale) ** 2)


def round_up(values: Array, bits: int = FINE_BITS) -> Array:
    """The next numbers with `bits` significant bits; zero and infinity stay."""
    mantissa, exponent = np.frexp(values)
    with np.errstate(invalid="ignore"):
        rounded = np.ldexp(np.ceil(np.ldexp(mantissa, bits)), exponent - bits)
    return np.where(np.isfinite(values) & (values > 0), rounded, values)


def size_above(value: float) -> float:
    """The size of one noise for all numbers: the next of many bits."""
    return float(round_up(np.array([value]))[0])


def sizes_above(values: Array) -> Array:
    """The sizes of noise of each type: the next of as many bits as so many types allow."""
    return round_up(values, FINE_BITS if len(values) <= FEW_SIZES else COARSE_BITS)


def half_width_factor(level: float, rows: int, laplace: bool = False) -> float:
    """How many standard errors an interval reaches to each side.

    Notes
    -----
    For one row the normal quantile of (1 + level)/2. For several rows at once each interval has the
    level level^(1/rows): by Šidák's inequality Gaussian errors, however correlated, then all lie
    inside with probability at least `level`.

    Sums of independent Laplace numbers have longer tails. At every probability α the reach of a
    single Laplace number, log(1/α)/√2 standard errors, or that of the normal law, which many of
    them come to, is enough for any mixture of scales that was tried; the larger is taken. For
    several rows at once α is shared equally among them.

    References
    ----------
    Šidák (1967), Rectangular confidence regions for the means of multivariate normal distributions.
    """
    from scipy.special import ndtri

    if isinstance(level, bool) or not (isinstance(level, (Real, np.number)) and 0 < level < 1):
        raise QueryError(f"a confidence level lies between 0 and 1, found {level!r}")
    if laplace:
        shared = (1.0 - level) / rows
        return float(max(-ndtri(shared / 2), -np.log(shared) / np.sqrt(2.0)))
    # 1 − level^(1/rows), without cancellation for many rows
    outside = -np.expm1(np.log(level) / rows)
    return float(-ndtri(outside / 2))
