"""The variance of the discrete Gaussian, which is a little below its parameter."""

from __future__ import annotations

import numpy as np

from noiseplan.matrices.base import Array

# From here on the variance equals the parameter to double precision: the gap is below
# 8π²σ⁴e^{−2π²σ²} (Poisson summation).
LARGE = 4.0


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
        result[small] = _variance(values)[which]
    return result


def _variance(parameter: Array) -> Array:
    k = np.arange(-40.0, 41.0)
    with np.errstate(over="ignore"):  # exp(−∞) is the zero it should be
        weights = np.exp(-(k**2) / (2.0 * parameter[:, None]))
    return np.asarray((weights * k**2).sum(axis=1) / weights.sum(axis=1))
