"""Intervals: pointwise, or simultaneous over a table."""

from __future__ import annotations

from numbers import Real

import numpy as np

from noiseplan.errors import QueryError


def half_width_factor(level: float, rows: int) -> float:
    """How many standard errors an interval reaches to each side.

    Notes
    -----
    For one row the normal quantile of (1 + level)/2. For several rows at once each interval has the
    level level^(1/rows): by Šidák's inequality Gaussian errors, however correlated, then all lie
    inside with probability at least `level`.

    References
    ----------
    Šidák (1967), Rectangular confidence regions for the means of multivariate normal distributions.
    """
    from scipy.special import ndtri

    if isinstance(level, bool) or not (isinstance(level, (Real, np.number)) and 0 < level < 1):
        raise QueryError(f"a confidence level lies between 0 and 1, found {level!r}")
    # 1 − level^(1/rows), without cancellation for many rows
    outside = -np.expm1(np.log(level) / rows)
    return float(-ndtri(outside / 2))
