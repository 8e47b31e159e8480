"""σ² for given bases: how to share a privacy budget among the subsets that are measured.

With P_a the privacy weight and V_a the variance weight of all subsets of type a,

    minimise  Σ_a V_a σ²_a   subject to   Σ_a P_a / σ²_a ≤ c .

References
----------
ResidualPlanner+ (arXiv 2305.08175), Lemma 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from noiseplan.matrices.base import Array
from noiseplan.optimize.lbfgs import Smooth, minimise
from noiseplan.optimize.saddle import LARGEST, approached

# The relative gap at which to stop, and the most steps: for the worst row, and for a smooth loss.
WORST_GAP, WORST_STEPS = 1e-9, 4000
LOSS_GAP, LOSS_ROUNDS = 1e-7, 200


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

    @property
    def closed(self) -> bool:
        """Whether nothing is left to gain."""
        return self.value <= self.bound * (1 + WORST_GAP)

    def or_better(self, sigma2: Array, value: float, bound: float) -> Share:
        """The better plan and the higher bound of this share and another."""
        best = sigma2 if value < self.value else self.sigma2
        return Share(best, min(value, self.value), max(bound, self.bound))


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
    privacy, columns = np.atleast_2d(privacy), sp.csr_array(rows.T)
    weights = np.full(rows.shape[0], 1.0 / rows.shape[0])
    shares = np.full(len(privacy), 1.0 / len(privacy))
    best, weights, shares = _start(privacy, rows, budget, (weights, shares))
    stride, last = 1.0, (weights, shares, 0.0)
    for _ in range(0 if best.closed else steps):
        mixed, variance = shares @ privacy, columns @ weights
        bound = root_cost(mixed, variance) ** 2 / budget
        if bound < last[2] and stride > 1.0:  # overshot: back, and on with the safe step
            (weights, shares, _), stride = last, 1.0
            continue
        sigma2, costs = _within(privacy, share_for_sum(mixed, variance, budget), budget)
        each = rows @ sigma2
        best = best.or_better(sigma2, float(each.max()), bound)
        if best.closed:
            break
        last, stride = (weights, shares, bound), min(stride * 1.3, 1e4)
        weights = _moved(weights, each, stride)
        shares = _moved(shares, costs, stride)
    return best


def _start(
    privacy: Array, rows: sp.csr_array, budget: float, even: tuple[Array, Array]
) -> tuple[Share, Array, Array]:
    """The best that an interior point comes to, most often the end, and its weights."""
    best, (weights, shares), idle = Share(np.array([]), np.inf, 0.0), even, 0
    if (rows.shape[0] + len(privacy)) * rows.shape[1] ** 2 > LARGEST:
        return best, weights, shares
    dense = rows.toarray()
    for at in approached(dense, privacy):
        mixed, variance = at[1] @ privacy, at[0] @ dense
        bound = root_cost(mixed, variance) ** 2 / budget
        sigma2, _ = _within(privacy, share_for_sum(mixed, variance, budget), budget)
        before, best = best, best.or_better(sigma2, float((dense @ sigma2).max()), bound)
        idle = 0 if best.bound > before.bound else idle + 1
        weights, shares = (weights, shares) if idle else at
        if best.closed or idle > 8:
            break
    return best, np.maximum(weights, 1e-250), np.maximum(shares, 1e-250)


def _within(privacy: Array, sigma2: Array, budget: float) -> tuple[Array, Array]:
    """The σ² in the same proportions that cost the budget, and what each neighbour cost before."""
    sigma2 = np.where(np.isfinite(sigma2), sigma2, 1e300)
    costs = privacy @ np.divide(1.0, sigma2, out=np.zeros_like(sigma2), where=sigma2 > 0)
    return sigma2 * (costs.max() / budget), costs


def _moved(weights: Array, size: Array, stride: float) -> Array:
    moved = weights * (size / size.max()) ** stride
    # No weight is lost for good to underflow: a row may come back.
    return np.asarray(np.maximum(moved / moved.sum(), 1e-250))


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
    With weights θ on the neighbours the problem has one cost, and its optimum is a lower bound. The
    weights move to the neighbours that cost more, θ ← θ · cost/largest, until no one costs more
    than the weighted mean. One kind of neighbour needs one round.
    """
    privacy = np.atleast_2d(privacy)
    shares = np.full(len(privacy), 1.0 / len(privacy))
    best, sigma2, stride, last = Share(start, np.inf, -np.inf), start, 1.0, (shares, -np.inf)
    for _ in range(LOSS_ROUNDS):
        mixed = _share_for_one_cost(shares @ privacy, rows, budget, loss, sigma2)
        if mixed.bound < last[1] and stride > 1.0:  # overshot: back, and on with the safe step
            (shares, _), stride = last, 1.0
            continue
        costs = privacy @ (1.0 / mixed.sigma2)
        sigma2 = mixed.sigma2 * (costs.max() / budget)
        value = loss(rows @ sigma2)[0]
        best = best.or_better(sigma2, value, mixed.bound)
        if len(privacy) == 1 or best.value - best.bound <= LOSS_GAP * abs(best.value):
            break
        last, stride = (shares, mixed.bound), min(stride * 1.5, 100.0)
        shares = _moved(shares, costs, stride)
    return best


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
