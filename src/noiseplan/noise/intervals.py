"""Intervals: pointwise, or simultaneous over a table."""

from __future__ import annotations

from numbers import Real

import numpy as np

from noiseplan.errors import QueryError


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
