"""SM-II: fitness for use by a smoothed maximum, for comparison with the exact optimum.

    F(Σ) = (1/t₁) log Σ_i exp(t₁ g_i) + (1/t₂) log Σ_j exp(t₂ h_j) + λ Σ_j h_j ,

with g_i = b_iᵀΣ⁻¹b_i and h_j = l_jΣl_jᵀ/c_j, is minimised by Newton steps whose directions come
from a few steps of conjugate gradients, with t₁ = t₂ rising; the covariance returned is Σ over its
largest h_j. With S = Σ⁻¹, U = SB, p and q the soft maxima's weights,

    ∇F   = −U diag(p) Uᵀ + L̃ᵀ diag(q) L̃ =: Ḡ + H̄ ,
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

from noiseplan.matrices.base import Array, Matrix
from noiseplan.optimize.fitness_result import Fitness
from noiseplan.optimize.rows_with_targets import Demands

# Algorithm 2: directions are good enough when the squared residual is this small.
RESIDUAL = 1e-10
# Algorithm 3: the share of the promised descent a step must bring, and the shortest step.
DESCENT, SHORTEST = 0.01, 1e-12
# The (cells + rows)/t at which to stop, by how much t rises, and the most Newton steps.
SHARP_ENOUGH, RISE, MOST_STEPS = 1e-3, 5.0, 2000


@dataclass(frozen=True, eq=False)
class SmoothedMaximum:
    """F at one Σ. Rows L̃ (m × k) are over the roots of their targets, cells are B (k × d)."""

    rows: Array
    cells: Array
    sigma: Array
    cost_sharpness: float = 1.0
    variance_sharpness: float = 1.0
    total_weight: float = 0.0

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
        return float(smooth) + self.total_weight * float(self.variances.sum())

    def gradient(self) -> Array:
        """∇F."""
        soft = self._cost_gradient() + self._variance_gradient()
        return soft + self.total_weight * self.rows.T @ self.rows

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


def sm2(
    workload: Matrix | Array,
    targets: float | Array = 1.0,
    *,
    basis: Array | None = None,
    conjugate_steps: int = 5,
    newton_tolerance: float = 1e-3,
) -> Fitness:
    """SM-II's covariance as a strategy. Its `bound` is zero: the method has no certificate.

    Parameters
    ----------
    basis
        B, of the rank of the workload and as wide: it changes how fast the method gets where, not
        what is optimal. Independent cells if not given.
    conjugate_steps
        Steps of conjugate gradients per Newton direction (the published value is five).
    newton_tolerance
        A smoothed problem is solved when the promised descent is below this.
    """
    demands = Demands.of(workload, targets, None)
    rows, cells = demands.rows(), demands.cells
    turn = np.eye(len(cells))  # from the demands' own basis to the one asked for
    if basis is not None:
        turn = demands.reduction.columns(basis) @ cells.T
        rows, cells = np.asarray(np.linalg.solve(turn.T, rows.T).T), turn @ cells
    lengths = np.einsum("jk,jk->j", rows, rows)
    point = SmoothedMaximum(rows, cells, 0.99 / lengths.max() * np.eye(len(cells)))
    taken = 0
    while taken < MOST_STEPS:
        taken += 1
        direction = _conjugate_gradients(point, conjugate_steps)
        promised = float((direction * point.gradient()).sum())
        ahead = _line_search(point, direction, promised) if -promised > newton_tolerance else None
        if ahead is not None:
            point = ahead
            continue
        if (len(rows) + cells.shape[1]) / point.cost_sharpness < SHARP_ENOUGH:
            break
        point = point.sharper(RISE)
    sigma = point.sigma / point.variances.max()
    root = np.linalg.solve(turn, np.linalg.cholesky(sigma))
    strategy = demands.strategy(np.asarray(root, dtype=np.float64))
    nothing = np.zeros(len(demands.targets)), np.zeros(len(demands.reduction.groups))
    return Fitness(strategy, demands.cost(strategy), 0.0, *nothing, steps=taken)


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
