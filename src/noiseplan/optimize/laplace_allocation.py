"""How to share ε among tables: which to measure, and with how much Laplace noise.

With s_m = 1/b_m of the tables of type m, p_m their price and H the precisions they tell,

    minimise  Σ_a V_a · 2 / (H s²)_a   subject to   Σ_m p_m s_m = 1 .

Unlike with Gaussian noise, precision grows with the square of what is spent: one table measured
well beats two measured half as well, so most s_m end at zero, and the problem is not convex. It
is minimised from several starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.optimize.lbfgs import minimise

# Starts favour some types by this factor over the others.
FAVOUR = 1e3
# Single types that tell everything, tried as starts.
MOST_STARTS = 6
# Types with smaller shares are dropped where that costs nothing, all below a limit at once; and one
# by one below the last, if no more types than so many are left. What stays has the faintest share.
LIMITS = (1e-9, 1e-6, 1e-4, 1e-3)
LEAST_SHARE, MOST_TRIED, FAINTEST = 1e-2, 400, 1e-9
# Of the logarithm of a share below the largest: the fourth power of e^−this is still a number.
FARTHEST = -150.0


@dataclass(frozen=True, eq=False)
class Spending:
    """The share of ε for each type of table, zero if not measured, and Σ V 2/(H s²) at ε = 1."""

    shares: Array
    value: float


def best_spending(
    variance: Array, told: sp.csr_array, price: Array, start: Array | None = None
) -> Spending:
    """The best shares found, from several starts or from one. `variance` is V of every residual."""
    wanted = np.flatnonzero(variance > 0)
    if not len(wanted):  # nothing asked depends on a record
        raise PlanError("the workload asks for nothing that depends on the data")
    problem = _Sharing(variance[wanted], sp.csr_array(told[wanted]), price)
    starts = problem.starts() if start is None else [start]
    found = [problem.descend(start) for start in starts]
    best = min(found, key=lambda one: one.value)
    return problem.pruned(best)


class _Sharing:
    """log of the value as a function of log s, free of scale, with its gradient."""

    def __init__(self, variance: Array, told: sp.csr_array, price: Array) -> None:
        self.variance, self.told, self.price = variance, told, price
        self.columns = sp.csr_array(told.T)

    def value(self, shares: Array) -> float:
        """Σ V 2/(H s²) for shares of ε = 1."""
        heard = self.told @ (shares / self.price) ** 2
        with np.errstate(divide="ignore"):
            return float(2.0 * (self.variance / heard).sum())

    def smooth(self, y: Array) -> tuple[float, Array]:
        # Nothing depends on the scale, and a line search may look far away.
        s = np.exp(np.maximum(y - y.max(), FARTHEST))
        squares = s * s
        heard = self.told @ squares
        parts = self.variance / heard
        total, spent = parts.sum(), self.price @ s
        slope = -2.0 * squares * (self.columns @ (parts / heard)) / total
        return float(np.log(total) + 2 * np.log(spent)), slope + 2.0 * self.price * s / spent

    def starts(self) -> list[Array]:
        """Everything alike; for each residual what tells it best; each of the best types alone."""
        count = len(self.price)
        even = np.full(count, 1.0 / count)
        rate = sp.csr_array(self.told.multiply(1.0 / self.price**2)).tocsr()
        favoured = np.zeros(count, dtype=bool)
        for a, b in pairwise(rate.indptr):
            favoured[rate.indices[a:b][rate.data[a:b].argmax()]] = True
        starts = [even, even * np.where(favoured, FAVOUR, 1.0)]
        tells = np.bincount(self.told.indices, minlength=count)
        alone = sorted(
            np.flatnonzero(tells == len(self.variance)),
            key=lambda m: self.value(_only(count, int(m))),
        )
        starts += [even + FAVOUR * _only(count, int(m)) for m in alone[:MOST_STARTS]]
        return [start / start.sum() for start in starts]

    def descend(self, start: Array) -> Spending:
        _, best = minimise(self.smooth, np.log(start / self.price), steps=500, gain=1e-12)
        return self._spending(np.exp(best - best.max()) * self.price)

    def _spending(self, spent: Array) -> Spending:
        shares = spent / spent.sum()
        return Spending(shares, self.value(shares))

    def pruned(self, found: Spending) -> Spending:
        """Without the types that get next to nothing: many at once, then one by one."""
        best = found
        for limit in LIMITS:
            best = self._without(best, best.shares < limit)
        for m in np.argsort(best.shares):
            if 0 < best.shares[m] < LEAST_SHARE and np.count_nonzero(best.shares) <= MOST_TRIED:
                best = self._without(best, np.arange(len(best.shares)) == m)
        best = self._polished(best)
        # What is left is needed, if only just: noise of any size must still be drawn.
        return self._spending(np.where(best.shares > 0, np.maximum(best.shares, FAINTEST), 0.0))

    def _without(self, best: Spending, drop: NDArray[np.bool_]) -> Spending:
        """The rest gets what these had, unless that is worse."""
        kept = np.where(drop, 0.0, best.shares)
        if not kept.any() or not (drop & (best.shares > 0)).any():
            return best
        tried = self._spending(kept)
        return tried if tried.value <= best.value * (1 + 1e-9) else best

    def _polished(self, found: Spending) -> Spending:
        """The best shares among the types that are left."""
        left = np.flatnonzero(found.shares > 0)
        if len(left) == len(self.price):
            return found
        inner = _Sharing(self.variance, sp.csr_array(self.told[:, left]), self.price[left])
        better = inner.descend(found.shares[left])
        if better.value >= found.value:
            return found
        shares = np.zeros(len(self.price))
        shares[left] = better.shares
        return Spending(shares, better.value)


def _only(count: int, chosen: int) -> Array:
    shares = np.zeros(count)
    shares[chosen] = 1.0
    return shares
