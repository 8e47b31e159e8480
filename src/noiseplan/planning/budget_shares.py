"""Shares of one budget for plans that stand side by side, each with noise of its own.

At a share s of the budget variances are 1/s^d times those at all of it, d being 1 for Gaussian
noise and 2 for Laplace noise. Plans whose variances have the norms c_q of power p are best at

    s_q ∝ c_q^e ,    e = p/(dp + 1) ,    where the norm of all is (Σ c_q^e)^(1/e) ;

e = 1/d for the largest variance, p = ∞. What costs nothing has c_q = 0 and next to no share. A loss
of one's own, f(m_q/s_q^d) of mean variances m, is convex in the shares, and what is best is
searched for.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.optimize.lbfgs import minimise
from noiseplan.planning.objectives import ConvexLoss

# The least share, relative to the largest.
LEAST_SHARE: Final = 1e-6
# The share of all plans that cost nothing, for what rounding adds to that.
FREE: Final = 1e-7
# Of the search for the shares that a loss is least at.
STEPS, GAIN = 200, 1e-9


@dataclass(frozen=True, eq=False)
class Shares:
    """Of the budget, which add up to one; and what is reached with them."""

    each: Array
    value: float


def for_norm(values: Array, power: float, degree: int) -> Shares:
    """The best shares for the norm of this power, from what each plan has with all of the budget,
    and the norm of all."""
    exponent = 1 / degree if isinf(power) else power / (degree * power + 1)
    raised, free = values**exponent, values == 0
    value = float(raised.sum() ** (1 / exponent))
    if free.all():  # nothing that is asked depends on a record
        return Shares(np.full(len(values), 1 / len(values)), value)
    shares = np.maximum(values, LEAST_SHARE * values.max()) ** exponent * ~free
    shares *= (1 - FREE * free.any()) / shares.sum()
    return Shares(np.where(free, FREE / max(int(free.sum()), 1), shares), value)


def for_loss(loss: ConvexLoss, means: Array, owner: IntArray, degree: int) -> Shares:
    """The same for a loss, from weight · mean variance of every query, and whose plan has it."""
    size = np.zeros(int(owner.max()) + 1)
    np.maximum.at(size, owner, means)

    def at(free: Array) -> tuple[float, Array]:
        shares = _shares(free)
        variances = means / shares[owner] ** degree
        slope = -degree * loss.slope(variances) * variances / shares[owner]
        towards = np.bincount(owner, slope, minlength=len(shares))
        return loss.value(variances), shares * (towards - shares @ towards)

    # As the largest and as the total are shared for; a loss with kinks may be stuck anywhere else.
    logs = np.log(size + np.finfo(float).tiny)
    starts = [logs / degree, logs / (degree + 1)]
    tried = [at(start)[0] for start in starts]
    start = starts[int(np.argmin(tried))]
    value, free = minimise(at, start, steps=STEPS, gain=GAIN)
    if value >= min(tried):
        value, free = min(tried), start
    return Shares(_shares(free), value)


def _shares(free: Array) -> Array:
    raised = np.exp(free - free.max())
    raised = np.maximum(raised, LEAST_SHARE)
    return np.asarray(raised / raised.sum())
