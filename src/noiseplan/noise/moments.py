"""The variances of discrete noise, which are a little below those of continuous noise."""

from __future__ import annotations

import numpy as np

from noiseplan.matrices.base import Array

# From here on the variance equals the parameter to double precision: the gap is below
# 8π²σ⁴e^{−2π²σ²} (Poisson summation).
LARGE = 4.0
# Below this parameter the variance is no number but zero.
LEAST = 1e-4


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
