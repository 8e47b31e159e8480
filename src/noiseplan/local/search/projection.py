"""The nearest strategy: columns that sum to one, entries between z and e·z.

For one column the nearest q to r with z ≤ q ≤ e·z and Σq = 1 is q = clip(r + λ, z, e·z) for the
number λ that makes the sum one. φ(λ) = Σ clip(r + λ, z, e·z) is continuous, nondecreasing and
piecewise linear with as many free entries as its slope, so Newton's method inside a shrinking
bracket finds the piece in a few passes, all columns at once; sorting breakpoints needs more time
than all passes together.

References
----------
McKenna, Maity, Mazumdar, Miklau, "A workload-adaptive mechanism for linear queries under local
differential privacy", PVLDB 13(11), 2020, Problem 4.1; its Algorithm 1 has a wrong sign.
"""

from __future__ import annotations

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.local.search.namespace import Tensor, namespace

MOST_PASSES = 100
# Numbers in a block of columns that stays in a processor's cache while it is passed over.
CACHED = 1 << 17


def project(points: Tensor, lower: Tensor, ratio: float) -> Tensor:
    """The nearest matrix with columns of sum one and lower ≤ entries ≤ ratio · lower.

    Parameters
    ----------
    points
        R, outputs × types.
    lower
        z, one number per output; Σz ≤ 1 ≤ ratio · Σz.
    ratio
        e = exp(ε).

    Examples
    --------
    >>> import numpy as np
    >>> r, z = np.array([[0.5], [0.2], [0.9]]), np.array([0.1, 0.1, 0.2])
    >>> project(r, z, 3.0).ravel().round(12).tolist()
    [0.3, 0.1, 0.6]
    """
    _check_feasible(lower, ratio)
    if not isinstance(points, np.ndarray) or points.size <= 2 * CACHED:
        return _project(points, lower, ratio)
    projected = np.empty_like(points)
    width = max(CACHED // len(points), 1)
    for start in range(0, points.shape[1], width):
        block = slice(start, start + width)
        projected[:, block] = _project(np.ascontiguousarray(points[:, block]), lower, ratio)
    return projected


def _project(points: Tensor, lower: Tensor, ratio: float) -> Tensor:
    xp = namespace(points)
    low = lower[:, None]
    high = ratio * low
    left, right = xp.min(low - points, axis=0), xp.max(high - points, axis=0)
    shift = xp.clip(xp.zeros_like(left), left, right)
    # As exact as a sum of so many numbers can be expected to come out.
    exact = max(4, points.shape[0] // 64) * float(xp.finfo(points.dtype).eps)
    for _ in range(MOST_PASSES):
        moved = points + shift
        excess = xp.sum(xp.clip(moved, low, high), axis=0) - 1.0
        if float(xp.max(xp.abs(excess))) <= exact:
            break
        free = xp.sum(xp.astype((moved > low) & (moved < high), points.dtype), axis=0)
        left, right = xp.where(excess < 0, shift, left), xp.where(excess > 0, shift, right)
        newton = shift - excess / xp.clip(free, 1.0, None)
        inside = (newton > left) & (newton < right) & (free > 0)
        following = xp.where(inside, newton, (left + right) / 2)
        if not bool(xp.any(following != shift)):
            break
        shift = following
    return xp.clip(points + shift, low, high)


def feasible(lower: Tensor, ratio: float) -> Tensor:
    """z scaled, if it must be, so that Σz ≤ 1 ≤ ratio · Σz with a hair to spare."""
    total = float(namespace(lower).sum(lower))
    if total > 1.0:
        return lower * ((1.0 - 1e-12) / total)
    if ratio * total < 1.0:
        return lower * ((1.0 + 1e-12) / (ratio * total))
    return lower


def _check_feasible(lower: Tensor, ratio: float) -> None:
    total = float(namespace(lower).sum(lower))
    slack = 1e-6 if "32" in str(lower.dtype) else 1e-9
    if not (total <= 1 + slack and ratio * total >= 1 - slack):
        raise PlanError(
            f"no strategy has rows between z and {ratio:g}·z: Σz is {total:g}, and must lie "
            f"between {1 / ratio:g} and 1"
        )
