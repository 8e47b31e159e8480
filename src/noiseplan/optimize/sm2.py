"""SM-II: fitness for use by a smoothed maximum, for comparison with the exact optimum.

    F(Σ) = (1/t₁) log Σ_i exp(t₁ g_i) + (1/t₂) log Σ_j exp(t₂ h_j) + λ Σ_j l_jΣl_jᵀ ,

with g_i = b_iᵀΣ⁻¹b_i and h_j = l_jΣl_jᵀ/c_j, is minimised by Newton steps whose directions come
from a few steps of conjugate gradients, with t₁ = t₂ rising; the covariance returned is Σ over its
largest h_j. With λ > 0 the total variance counts too. With S = Σ⁻¹, U = SB, p and q the weights of
the soft maxima,

    ∇F   = −U diag(p) Uᵀ + L̃ᵀ diag(q) L̃ + λLᵀL =: Ḡ + H̄ + λLᵀL ,
    H[X] = −(ḠXS + SXḠ) + t₁(−U diag(p∘a) Uᵀ − (pᵀa)Ḡ) + t₂(L̃ᵀ diag(q∘e) L̃ − (qᵀe)H̄) ,

a_i = −u_iᵀXu_i, e_j = (L̃XL̃ᵀ)_jj. (The published Hessian has a factor t₁ too many in its first term,
and writes the outer products of the other two as Kronecker products.)

References
----------
Y. Xiao, Z. Ding, Y. Wang, D. Zhang, D. Kifer, "Optimizing fitness-for-use of differentially private
linear queries", PVLDB 14 (2021), Problem 4 and Algorithms 1 to 3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import logsumexp, softmax

from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array, Matrix
from noiseplan.optimize.fitness import Fitness
from noiseplan.optimize.rows_with_targets import Demands, checked_rows

# Algorithm 2: directions are good enough when the squared residual is this small.
RESIDUAL = 1e-10
# Algorithm 3: the share of the promised descent a step must bring, and the shortest step.
DESCENT, SHORTEST = 0.01, 1e-12
# The (cells + rows)/t at which to stop, by how much t rises, and the most Newton steps.
SHARP_ENOUGH, RISE, MOST_STEPS = 1e-3, 5.0, 2000
# What may be left of a row outside the span of others, relative, if it lies in it.
SPANNED = 1e-7


@dataclass(frozen=True, eq=False)
class SmoothedMaximum:
    """F at one Σ. Rows L̃ (m × k) are over the roots of their targets, cells are B (k × d).

    `total` is λLᵀL (k × k), zero without a hybrid.
    """

    rows: Array
    cells: Array
    sigma: Array
    cost_sharpness: float = 1.0
    variance_sharpness: float = 1.0
    total: Array | float = 0.0

    @cached_property
    def inverse(self) -> Array:
        """S = Σ⁻¹; a matrix that is not positive definite is refused by `LinAlgError`."""
        inverse = np.asarray(cho_solve(cho_factor(self.sigma), np.eye(len(self.sigma))))
        return 0.5 * (inverse + inverse.T)

    @cached_property
    def lifted(self) -> Array:
        """U = SB."""
        return self.inverse @ self.cells

    @cached_property
    def costs(self) -> Array:
        """g."""
        return np.asarray(np.einsum("ki,ki->i", self.cells, self.lifted))

    @cached_property
    def variances(self) -> Array:
        """h."""
        return np.asarray(np.einsum("jk,jk->j", self.rows @ self.sigma, self.rows))

    @property
    def value(self) -> float:
        """F."""
        t1, t2 = self.cost_sharpness, self.variance_sharpness
        smooth = logsumexp(t1 * self.costs) / t1 + logsumexp(t2 * self.variances) / t2
        return float(smooth) + float((self.total * self.sigma).sum())

    def gradient(self) -> Array:
        """∇F."""
        return np.asarray(self._cost_gradient() + self._variance_gradient() + self.total)

    def _cost_gradient(self) -> Array:
        return -(self.lifted * softmax(self.cost_sharpness * self.costs)) @ self.lifted.T

    def _variance_gradient(self) -> Array:
        return (self.rows.T * softmax(self.variance_sharpness * self.variances)) @ self.rows

    def hessian_times(self, x: Array) -> Array:
        """H[X] for a symmetric X."""
        t1, t2 = self.cost_sharpness, self.variance_sharpness
        s, u, rows = self.inverse, self.lifted, self.rows
        p, q = softmax(t1 * self.costs), softmax(t2 * self.variances)
        of_costs, of_variances = self._cost_gradient(), self._variance_gradient()
        a = -np.einsum("ki,ki->i", u, x @ u)
        e = np.einsum("jk,jk->j", rows @ x, rows)
        bent = of_costs @ x @ s
        curved = -(bent + bent.T)
        curved += t1 * (-(u * (p * a)) @ u.T - (p @ a) * of_costs)
        curved += t2 * ((rows.T * (q * e)) @ rows - (q @ e) * of_variances)
        return np.asarray(0.5 * (curved + curved.T))

    def sharper(self, factor: float) -> SmoothedMaximum:
        """F closer to the maxima."""
        t1, t2 = self.cost_sharpness * factor, self.variance_sharpness * factor
        return replace(self, cost_sharpness=t1, variance_sharpness=t2)


@dataclass(frozen=True)
class Effort:
    """How exactly to search.

    `conjugate_steps`: steps of conjugate gradients per Newton direction (the published value is
    five). `newton_tolerance`: a smoothed problem is solved when the promised descent is below this.
    """

    conjugate_steps: int = 5
    newton_tolerance: float = 1e-3


USUAL = Effort()


def sm2(
    workload: Matrix | Array,
    targets: float | Array = 1.0,
    *,
    basis: Array | None = None,
    start: Array | None = None,
    total_weight: float = 0.0,
    effort: Effort = USUAL,
) -> Fitness:
    """SM-II's covariance as a strategy. Its `bound` is zero: the method has no certificate.

    Parameters
    ----------
    basis
        B, of the rank of the workload and as wide: it changes how fast the method gets where, not
        what is optimal. Independent cells if not given.
    start
        Q, rows over the cells from which every row of the workload follows: the search starts from
        the covariance that independent noise on Qx leaves. Independent noise on B if not given.
    total_weight
        λ ≥ 0: how much the total variance counts beside the largest ratio of a variance to its
        target. It is meant in the units of the smoothed problem, before all is scaled to the
        targets.
    effort
        How exactly to search.
    """
    demands = Demands.of(workload, targets, None)
    if not (np.isfinite(total_weight) and total_weight >= 0):
        raise PlanError(f"total_weight is a number of at least 0, found {total_weight!r}")
    turn = np.eye(len(demands.cells))  # from the demands' own basis to the one asked for
    if basis is not None:
        turn = demands.reduction.columns(basis) @ demands.cells.T
    point, taken = _start(demands, turn, start, total_weight), 0
    while taken < MOST_STEPS:
        taken += 1
        direction = _conjugate_gradients(point, effort.conjugate_steps)
        promised = float((direction * point.gradient()).sum())
        enough = -promised > effort.newton_tolerance
        ahead = _line_search(point, direction, promised) if enough else None
        if ahead is not None:
            point = ahead
            continue
        if sum(point.rows.shape[:1] + point.cells.shape[1:]) / point.cost_sharpness < SHARP_ENOUGH:
            break
        point = point.sharper(RISE)
    sigma = point.sigma / point.variances.max()
    root = np.linalg.solve(turn, np.linalg.cholesky(sigma))
    strategy = demands.strategy(np.asarray(root, dtype=np.float64))
    nothing = np.zeros(len(demands.targets)), np.zeros(len(demands.reduction.groups))
    return Fitness(strategy, demands.cost(strategy), 0.0, *nothing, steps=taken)


def _start(
    demands: Demands, turn: Array, start: Array | None, total_weight: float
) -> SmoothedMaximum:
    """F at Σ₀ = σ²(BQ⁺)(BQ⁺)ᵀ, or at σ²I, where the largest ratio of a variance is 0.99."""
    back, cells = np.linalg.inv(turn), turn @ demands.cells
    rows = np.asarray(demands.rows() @ back)
    root, total = np.eye(len(cells)), np.zeros((len(cells), len(cells)))
    if start is not None:
        root = demands.reduction.widened(cells) @ _checked_inverse(demands, start)
    if total_weight:  # of all rows: equal ones count each
        gram = demands.reduction.gram(demands.matrix.gram())
        total = total_weight * back.T @ (demands.cells @ gram @ demands.cells.T) @ back
    noise = rows @ root
    scale = 0.99 / np.einsum("jk,jk->j", noise, noise).max()
    return SmoothedMaximum(rows, cells, scale * (root @ root.T), total=total)


def _checked_inverse(demands: Demands, start: Array) -> Array:
    """Q⁺, refused where rows of the workload do not follow from Q."""
    rows = checked_rows(start)
    width = len(demands.reduction.groups)
    if rows.shape[1] != width:
        raise PlanError(f"the start has {rows.shape[1]:,} columns, and the workload {width:,}")
    inverse = np.linalg.pinv(rows)
    cells = demands.reduction.widened(demands.cells)
    if np.abs(cells @ inverse @ rows - cells).max() > SPANNED * np.abs(cells).max():
        raise PlanError("the start does not determine every row of the workload: add rows to it")
    return np.asarray(inverse)


def _conjugate_gradients(point: SmoothedMaximum, steps: int) -> Array:
    """Algorithm 2: some steps towards −H⁻¹∇F."""
    residual = -point.gradient()
    found, search = np.zeros_like(residual), residual
    size = float((residual * residual).sum())
    for _ in range(steps):
        curved = point.hessian_times(search)
        bend = float((search * curved).sum())
        if bend <= 0:  # rounding: the function is convex
            break
        step = size / bend
        found, residual = found + step * search, residual - step * curved
        before, size = size, float((residual * residual).sum())
        if size <= RESIDUAL:
            break
        search = residual + size / before * search
    return found


def _line_search(
    point: SmoothedMaximum, direction: Array, promised: float
) -> SmoothedMaximum | None:
    """Algorithm 3: halve the step until Σ is positive definite and F falls enough."""
    step = 1.0
    while step > SHORTEST:
        ahead = replace(point, sigma=point.sigma + step * direction)
        try:
            if ahead.value <= point.value + DESCENT * step * promised:
                return ahead
        except np.linalg.LinAlgError:  # not positive definite: too far
            pass
        step *= 0.5
    return None
