"""How to share a privacy budget among what is measured: subsets with given bases, or rows.

With P_a the privacy weight and V_a the variance weight of all subsets of type a,

    minimise  Σ_a V_a σ²_a   subject to   Σ_a P_a / σ²_a ≤ c .

Where different records meet rows differently, a record x meets classes of rows by P_xa; noise of
the sizes s_a costs it Σ_a P_xa/s_a, and has the variances s_a (Gaussian noise, s = σ², k = 1) or
2s_a² (Laplace noise, s = b, k = 2):

    minimise  Σ_a V_a s_a^k   subject to   Σ_a P_xa / s_a ≤ 1   for all records x .

Records are many and few of them bind; they are found one after another, each the one that pays most
for the noise shared among those before.

References
----------
ResidualPlanner+ (arXiv 2305.08175), Lemma 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import scipy.sparse as sp

from noiseplan.matrices.base import Array
from noiseplan.optimize.lbfgs import Smooth, minimise
from noiseplan.optimize.saddle import LARGEST, approached

# The relative gap at which to stop, and the most steps: for the worst row, and for a smooth loss.
WORST_GAP, WORST_STEPS = 1e-9, 4000
# A gap with which one does not begin once more.
ENOUGH = 1e-6
LOSS_GAP, LOSS_ROUNDS = 1e-7, 200
# Rounds of a smooth loss that begin with the weights of the linear problem at its slopes.
LINEAR_ROUNDS = 12
# σ² of what is not measured, as a number; and the least weight: none is lost for good to
# underflow, since a row may come back.
UNTOLD, FAINTEST = 1e300, 1e-250

Weights = tuple[Array, Array]

# Records looked at, and how much more than all of these the one that pays most may pay at last.
ROUNDS, PAYS_MORE = 60, 1e-3
# Steps towards the shares of some records, and the relative gap at which they are good enough.
STEPS, GAP = 300, 1e-4
# No record's weight, and no cost, is lost for good.
LEAST: Final = 1e-12

# What the record meets of every class that pays most for noise of these sizes.
Dearest = Callable[[Array], Array]
# The best sizes where records are these alone, records × classes.
Shared = Callable[[Array], Array]


def root_cost(privacy: Array, variance: Array) -> float:
    """J = Σ_a √(P_a V_a): the least Σ_a V_a σ²_a at budget c is J²/c, by Cauchy–Schwarz."""
    return float(np.sqrt(privacy * variance).sum())


def share_for_sum(privacy: Array, variance: Array, budget: float) -> Array:
    """The σ²_a that attain J²/c: σ²_a = (J/c) √(P_a/V_a); infinite where V_a = 0 (not measured)."""
    needed = variance > 0
    ratio = np.divide(privacy, variance, out=np.zeros_like(variance), where=needed)
    return np.where(needed, root_cost(privacy, variance) / budget * np.sqrt(ratio), np.inf)


def spend(privacy: Array, sigma2: Array) -> float:
    """The privacy cost: the largest Σ_a P_a/σ²_a of all kinds of neighbours.

    What costs nothing may be measured exactly (σ² = 0).
    """
    precision = np.divide(1.0, sigma2, out=np.zeros_like(sigma2), where=sigma2 > 0)
    return float(np.max(np.atleast_2d(privacy) @ precision))


@dataclass(frozen=True, eq=False)
class Share:
    """σ² of each subset type, the objective it reaches, and a lower bound for these bases."""

    sigma2: Array
    value: float
    bound: float

    def within(self, gap: float) -> bool:
        """Whether no more than a fraction of the bound is left to gain."""
        return self.value <= self.bound * (1 + gap)

    def or_better(self, other: Share) -> Share:
        """The better plan and the higher bound of the two; what is not a number is neither."""
        plan = other if other.value < self.value else self
        bound = other.bound if other.bound > self.bound else self.bound
        return Share(plan.sigma2, plan.value, bound)


NOTHING: Final = Share(np.array([]), np.inf, -np.inf)


def share_for_worst(
    privacy: Array, rows: sp.csr_array, budget: float, steps: int = WORST_STEPS
) -> Share:
    """Minimise the largest of the row variances (rows × σ²), at a cost below the budget for every
    row of `privacy` (kinds of neighbours × subset types).

    Notes
    -----
    For any weights λ on the rows and θ on the neighbours, each summing to one, the largest
    variance is at least the λ-weighted mean, and the θ-weighted cost is at most the budget; so the
    optimum is at least T(λ, θ) = (Σ_a √((privacyᵀθ)_a (rowsᵀλ)_a))²/c. Each step takes the σ² that
    attain it, scaled to the budget, and moves weight to the rows with more variance and to the
    neighbours with more cost: λ ← λ · (variance/largest)^s. The largest variance is an upper
    bound, T a lower one, and they meet. With s = 1 the bound never falls; longer steps are tried
    as long as they raise it. Problems that are not large start where an interior point ends, which
    is most often the end: thousands of such steps would leave a gap that ten of Newton's close.
    """
    problem = _Worst(np.atleast_2d(privacy), rows, budget)
    many, kinds = rows.shape[0], len(problem.privacy)
    even = np.full(many, 1.0 / many), np.full(kinds, 1.0 / kinds)
    best, near = problem.by_interior_point(even)
    best = problem.climbed(best, near, steps)
    # Where sizes differ by very many digits, the interior point may end in a corner.
    return best if near is even or best.within(ENOUGH) else problem.climbed(best, even, steps)


@dataclass(frozen=True, eq=False)
class _Worst:
    """The problem of :func:`share_for_worst`; weights are λ of the rows and θ of the neighbours."""

    privacy: Array
    rows: sp.csr_array
    budget: float

    @cached_property
    def _columns(self) -> sp.csr_array:
        return sp.csr_array(self.rows.T)

    def at(self, weights: Weights) -> tuple[Share, Array, Array]:
        """The σ² that attain T(λ, θ), scaled to the budget, and T; the variance of each row, and
        what each neighbour cost before."""
        mixed, variance = weights[1] @ self.privacy, self._columns @ weights[0]
        sigma2 = share_for_sum(mixed, variance, self.budget)
        told = np.isfinite(sigma2)
        costs = self.privacy @ np.divide(
            1.0, sigma2, out=np.zeros_like(sigma2), where=told & (sigma2 > 0)
        )
        sigma2 = np.where(told, np.where(told, sigma2, 1.0) * (costs.max() / self.budget), UNTOLD)
        each = self.rows @ sigma2
        bound = root_cost(mixed, variance) ** 2 / self.budget
        return Share(sigma2, float(each.max()), bound), each, costs

    def by_interior_point(self, even: Weights) -> tuple[Share, Weights]:
        """The best that an interior point comes to, most often the end, and its weights."""
        best, near, idle = NOTHING, even, 0
        if (self.rows.shape[0] + len(self.privacy)) * self.rows.shape[1] ** 2 > LARGEST:
            return best, near
        for weights in approached(self.rows.toarray(), self.privacy):
            before, best = best, best.or_better(self.at(weights)[0])
            idle = 0 if best.bound > before.bound else idle + 1
            near = near if idle else weights
            if best.within(WORST_GAP) or idle > 8:
                break
        return best, near

    def climbed(self, best: Share, start: Weights, steps: int) -> Share:
        """The best on the way from some weights to better ones."""
        weights = np.maximum(start[0], FAINTEST), np.maximum(start[1], FAINTEST)
        stride, last, lowest = 1.0, weights, 0.0
        for _ in range(0 if best.within(WORST_GAP) else steps):
            found, each, costs = self.at(weights)
            if found.bound < lowest and stride > 1.0:  # overshot: back, and on with the safe step
                weights, stride = last, 1.0
                continue
            best = best.or_better(found)
            if best.within(WORST_GAP):
                break
            last, lowest, stride = weights, found.bound, min(stride * 1.3, 1e4)
            weights = _moved(weights[0], each, stride), _moved(weights[1], costs, stride)
        return best


def _moved(weights: Array, size: Array, stride: float) -> Array:
    moved = weights * (size / size.max()) ** stride
    return np.asarray(np.maximum(moved / moved.sum(), FAINTEST))


def share_for_total(privacy: Array, variance: Array, budget: float) -> Share:
    """Minimise Σ_a V_a σ²_a: in closed form for one kind of neighbour, by iteration for several."""
    if np.atleast_2d(privacy).shape[0] == 1:
        sigma2 = share_for_sum(np.ravel(privacy), variance, budget)
        value = root_cost(np.ravel(privacy), variance) ** 2 / budget
        return Share(sigma2, value, value)
    share = share_for_worst(privacy, sp.csr_array(variance[None, :]), budget)
    return Share(np.where(variance > 0, share.sigma2, np.inf), share.value, share.bound)


def share_for_loss(
    privacy: Array, rows: sp.csr_array, budget: float, loss: Smooth, start: Array
) -> Share:
    """Minimise a convex, nondecreasing, smooth loss of the variances rows × σ², at a cost below the
    budget for every row of `privacy` (kinds of neighbours × subset types).

    Notes
    -----
    With weights θ on the neighbours the problem has one cost, and its optimum is a lower bound. At
    the optimum they are those of the problem that is linear, with the slopes of the loss there; so
    the weights of the linear problem here are tried, again and again, and mostly end it at once.
    After some rounds they move to the neighbours that cost more, θ ← θ · cost/largest, until no one
    costs more than the weighted mean. One kind of neighbour needs one round.
    """
    privacy = np.atleast_2d(privacy)
    shares, linear = np.full(len(privacy), 1.0 / len(privacy)), LINEAR_ROUNDS * (len(privacy) > 1)
    best, sigma2, stride, last = Share(start, np.inf, -np.inf), start, 1.0, (shares, -np.inf)
    for turn in range(LOSS_ROUNDS):
        ahead = _linear_shares(privacy, rows, loss, sigma2) if turn < linear else None
        shares = shares if ahead is None else ahead
        mixed = _share_for_one_cost(shares @ privacy, rows, budget, loss, sigma2)
        if mixed.bound < last[1] and stride > 1.0:  # overshot: back, and on with the safe step
            (shares, _), stride = last, 1.0
            continue
        costs = privacy @ (1.0 / mixed.sigma2)
        sigma2 = mixed.sigma2 * (costs.max() / budget)
        value = loss(rows @ sigma2)[0]
        best = best.or_better(Share(sigma2, value, mixed.bound))
        if len(privacy) == 1 or best.value - best.bound <= LOSS_GAP * abs(best.value):
            break
        last, stride = (shares, mixed.bound), min(stride * 1.5, 100.0) if ahead is None else 1.0
        shares = _moved(shares, costs, stride)
    return best


def _linear_shares(privacy: Array, rows: sp.csr_array, loss: Smooth, sigma2: Array) -> Array | None:
    """θ for the sum of variances that the slopes of a loss weigh; none where it takes long."""
    variance = np.maximum(rows.T @ loss(rows @ sigma2)[1], 0.0)
    even = np.ones(1), np.full(len(privacy), 1.0 / len(privacy))
    _, near = _Worst(privacy, sp.csr_array(variance[None, :]), 1.0).by_interior_point(even)
    return None if near is even else np.maximum(near[1], FAINTEST)


def _share_for_one_cost(
    privacy: Array, rows: sp.csr_array, budget: float, loss: Smooth, start: Array
) -> Share:
    """The same for a single cost Σ_a P_a/σ²_a.

    Notes
    -----
    In y = log σ², normalised to the budget, each variance Σ_a M_a e^{y_a} · Σ_a P_a e^{−y_a}/c is
    a sum of exponentials of linear functions, so the problem is convex and L-BFGS finds its
    minimum. Lower bound: with λ = ∇loss(v) and any other plan v', loss(v') ≥ loss(v) + λᵀ(v' − v),
    and λᵀv' ≥ T(λ) = (Σ_a √(P_a (rowsᵀλ)_a))²/c.
    """
    columns = sp.csr_array(rows.T)

    def value(y: Array) -> tuple[float, Array]:
        sigma2 = np.exp(y)
        cost = spend(privacy, sigma2) / budget
        each = rows @ sigma2
        result, slope = loss(each * cost)
        by_y = (columns @ slope) * sigma2 * cost
        return result / scale, (by_y - (slope @ each) * (privacy / sigma2) / budget) / scale

    scale = 1.0
    scale = abs(value(np.log(start))[0]) or 1.0
    _, best = minimise(value, np.log(start), steps=3000, gain=1e-15)
    sigma2 = np.exp(best)
    sigma2 *= spend(privacy, sigma2) / budget
    each = rows @ sigma2
    result, slope = loss(each)
    bound = result - slope @ each + root_cost(privacy, columns @ slope) ** 2 / budget
    return Share(sigma2, float(result), float(bound))


def share_among_records(dearest: Dearest, shared: Shared, floor: Array) -> Array:
    """Sizes at which no record that was found pays more than one.

    `floor` is what every class has at least: a record that meets it would pay more than one else.
    """
    met, sizes, most = [dearest(floor)], floor, 1.0
    for _ in range(ROUNDS):
        sizes = np.maximum(shared(np.array(met)), floor)
        met.append(dearest(sizes))
        most = float(met[-1] @ (1.0 / sizes))
        if most <= 1 + PAYS_MORE:
            break
    return np.asarray(sizes * most)


def shared_for_total(met: Array, variance: Array, power: float) -> Array:
    """The sizes of least Σ V s^k for some records, at a cost of one.

    Notes
    -----
    With weights θ on the records there is one cost p = θP: s_a ∝ (p_a/V_a)^{1/(k+1)}, and the least
    is (Σ_a (V_a p_a^k)^{1/(k+1)})^{k+1}, no more than the optimum. Weight moves to the records that
    pay more, θ ← θ · cost^s; long steps are taken as long as they raise that bound.
    """
    weights, stride = np.full(len(met), 1.0 / len(met)), 1.0
    last, best, least = (weights, 0.0), variance, np.inf
    for _ in range(STEPS):
        mixed = weights @ met
        mixed = np.maximum(mixed, LEAST * mixed.max())
        bound = ((variance * mixed**power) ** (1 / (power + 1))).sum() ** (power + 1)
        if bound < last[1] and stride > 1.0:  # overshot: back, and on with the safe step
            (weights, _), stride = last, 1.0
            mixed = weights @ met
        sizes = (mixed / variance) ** (1 / (power + 1))
        costs = met @ (1.0 / sizes)
        sizes = sizes * costs.max()
        value = float(variance @ sizes**power)
        if value < least:
            best, least = sizes, value
        if value <= bound * (1 + GAP):
            break
        last, stride = (weights, bound), min(stride * 1.5, 64.0)
        moved = weights * (costs / costs.max()) ** stride
        weights = np.maximum(moved / moved.sum(), LEAST)
    return best
