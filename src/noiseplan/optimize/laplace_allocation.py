"""How to share ε among tables: which to measure, and with how much Laplace noise.

With s_m = 1/b_m of the tables of type m, p_m their price and H what they tell,

    minimise  loss(R v) ,   v_a = 1 / (H φ(s))_a ,   subject to   Σ_m p_m s_m = ε ,

where R v are variances that are asked for: the total, those of all rows, those of queries. The
precision of a number is φ(s) = s²/2, or cosh s − 1 for a count with discrete noise. Unlike with
Gaussian noise it grows with the square of what is spent, or faster: one table measured well beats
two measured half as well, so most s_m end at zero, and the problem is not convex. It is minimised
from several starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.optimize.lbfgs import Smooth, minimise

# Starts favour some types by this factor over the others.
FAVOUR = 1e3
# Single types that tell everything, tried as starts.
MOST_STARTS = 6
# Types with smaller shares are dropped where that costs nothing, all below a limit at once; and one
# by one below the last, if no more types than so many are left. What stays has the faintest share.
LIMITS = (1e-9, 1e-6, 1e-4, 1e-3)
LEAST_SHARE, MOST_TRIED, FAINTEST = 1e-2, 400, 1e-9
# A type that a start does not measure has this share of the largest one's.
FAINT = 1e-6
# Noise of a smaller scale than 1/s is as good as none.
LEAST_NOISE = 300.0
# Of the logarithm of a share below the largest: the fourth power of e^−this is still a number.
FARTHEST = -150.0


@dataclass(frozen=True, eq=False)
class Loss:
    """What is to be small, of variances that are sums over residuals.

    `rows` times the residuals' variances are those variances, and `value` of them is to be least.
    `smooth` leads there: functions with gradients, minimised one after another.
    """

    rows: sp.csr_array
    value: Callable[[Array], float]
    smooth: tuple[Smooth, ...]

    @classmethod
    def total(cls, variance: Array) -> Loss:
        """Σ_a V_a v_a."""
        return cls(sp.csr_array(variance[None, :]), _sum, (logarithm(_sum_with_slope),))

    @property
    def wanted(self) -> IntArray:
        """The residuals that anything asked for depends on."""
        return np.flatnonzero(np.asarray(self.rows.sum(axis=0)) > 0)

    def at(self, variances: Array) -> float:
        """The loss where residuals have these variances."""
        return self.value(self.rows @ variances)


def logarithm(loss: Smooth) -> Smooth:
    """log of a loss that grows as its variances do, and the gradient: steps are relative then."""

    def log_loss(variances: Array) -> tuple[float, Array]:
        value, slope = loss(variances)
        return float(np.log(value)), slope / value

    return log_loss


def _sum(variances: Array) -> float:
    return float(variances.sum())


def _sum_with_slope(variances: Array) -> tuple[float, Array]:
    return _sum(variances), np.ones(len(variances))


@dataclass(frozen=True, eq=False)
class Law:
    """Laplace noise of the scales 1/s at ε = Σ p s in all.

    `counts` marks types whose numbers are counts with discrete noise. Other numbers are continuous,
    or so many times larger that integers are as good as continuous.
    """

    epsilon: float
    counts: NDArray[np.bool_]

    def precision(self, s: Array) -> Array:
        """φ(s) = cosh s − 1, or s²/2: one over the variance."""
        return np.where(self.counts, 2.0 * np.sinh(_near(s) / 2) ** 2, s**2 / 2)

    def rise(self, s: Array) -> Array:
        """s φ'(s)."""
        return np.where(self.counts, s * np.sinh(_near(s)), s**2)

    def of(self, types: IntArray) -> Law:
        """The same for some types."""
        return Law(self.epsilon, self.counts[types])


def _near(s: Array) -> Array:
    return np.minimum(s, LEAST_NOISE)


@dataclass(frozen=True, eq=False)
class Spending:
    """The share of ε for each type of table, zero if not measured, and the loss they have."""

    shares: Array
    value: float


def best_spending(
    loss: Loss,
    told: sp.csr_array,
    price: Array,
    law: Law,
    starts: Sequence[Array] = (),
    others: bool = True,
) -> Spending:
    """The best shares found, from these starts and, unless told not to, from `others`."""
    wanted = loss.wanted
    if not len(wanted):  # nothing asked depends on a record
        raise PlanError("the workload asks for nothing that depends on the data")
    needed = replace(loss, rows=sp.csr_array(loss.rows[:, wanted]))
    problem = _Sharing(needed, sp.csr_array(told[wanted]), price, law)
    found = [problem.descend(start) for start in (*starts, *(problem.starts() if others else ()))]
    best = min(found, key=lambda one: one.value)
    return problem.pruned(best)


class _Sharing:
    """The loss as a function of log s, free of scale, with its gradient."""

    def __init__(self, loss: Loss, told: sp.csr_array, price: Array, law: Law) -> None:
        self.loss, self.told, self.price, self.law = loss, told, price, law
        self.columns, self.owners = sp.csr_array(told.T), sp.csr_array(loss.rows.T)

    def value(self, shares: Array) -> float:
        """The loss for shares of ε."""
        heard = self.told @ self.law.precision(shares * self.law.epsilon / self.price)
        return self.loss.at(1.0 / heard) if (heard > 0).all() else np.inf

    def smooth(self, y: Array, loss: Smooth) -> tuple[float, Array]:
        """loss(R v), v = 1/(H φ(s)), by y = log s but for a scale that makes Σ p s = ε."""
        # Nothing depends on the scale, and a line search may look far away.
        s = np.exp(np.maximum(y - y.max(), FARTHEST))
        s *= self.law.epsilon / (self.price @ s)
        heard = self.told @ self.law.precision(s)
        value, slope = loss(self.loss.rows @ (1.0 / heard))
        fall = self.law.rise(s) * (self.columns @ ((self.owners @ slope) / heard**2))
        return value, self.price * s / self.law.epsilon * fall.sum() - fall

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
            np.flatnonzero(tells == self.told.shape[0]),
            key=lambda m: self.value(_only(count, int(m))),
        )
        starts += [even + FAVOUR * _only(count, int(m)) for m in alone[:MOST_STARTS]]
        return [start / start.sum() for start in starts]

    def descend(self, start: Array) -> Spending:
        """From one start along every smooth loss, each from where the last one ended."""
        best = self._spending(start)
        y = np.log(np.maximum(start, FAINT * start.max()) / self.price)
        for loss in self.loss.smooth:
            _, y = minimise(partial(self.smooth, loss=loss), y, steps=500, gain=1e-12)
            found = self._spending(np.exp(y - y.max()) * self.price)
            best = found if found.value < best.value else best
        return best

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
        return tried if tried.value <= best.value + 1e-9 * abs(best.value) else best

    def _polished(self, found: Spending) -> Spending:
        """The best shares among the types that are left."""
        left = np.flatnonzero(found.shares > 0)
        if len(left) == len(self.price):
            return found
        told = sp.csr_array(self.told[:, left])
        inner = _Sharing(self.loss, told, self.price[left], self.law.of(left))
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
