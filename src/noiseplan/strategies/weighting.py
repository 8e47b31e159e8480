"""The best weights of given rows.

The rows q_i of a design set are measured with precisions u_i^p, so as λ_i q_i with λ_i² = u_i^p:
p = 1 for Gaussian noise, where cell j costs Σ u_i q_ij² ≤ 1, and p = 2 for Laplace noise, where it
costs Σ u_i |q_ij| ≤ 1. With loads s_ij = q_ij² or |q_ij| the program is

    minimise  tr(G (Qᵀ diag(u^p) Q)⁺)   subject to   sᵀu ≤ 1 .

*Independent rows.* The objective is Σ c_i/u_i^p with c_i = (Q⁺ᵀGQ⁺)_ii. For prices y of the cells
that sum to one, u_i ∝ (c_i/(sy)_i)^{1/(p+1)} is the best, and its value for them,
(Σ c_i^{1/(p+1)} (sy)_i^{p/(p+1)})^{p+1}, a lower bound; cells that are overdrawn become dearer.

*Dependent rows.* The same step with c_i/u_i^{2p} replaced by g_i = q_i M G M q_iᵀ, M the inverse
above, which is what it is for independent rows. For p = 1 the program is convex and
v²/max_i (g_i/(sy)_i), v the objective, is a lower bound; for p = 2 the result is a good local one.

References
----------
C. Li, dissertation, 2013, Programs 5.1.1 and 5.1.3 (the latter with |Q| instead of Q∘Q, as L1
columns need).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.optimize.anderson import Ascent
from noiseplan.strategies.column_norms import NOISE_FLOOR, SAFE_PIVOT, Norm, supports

TOLERANCE: Final = 1e-9
STEPS: Final = 3000
MEMORY, FARTHEST, LOWEST_PRICE = 6, 4.0, -80.0
# Dependent rows: an inverse for each step, so fewer steps, and an end where nothing moves any more.
DEPENDENT_TOLERANCE, DEPENDENT_STEPS, STALLED, PATIENCE = 1e-5, 400, 1e-6, 20
# Rows that cost less than this share of the dearest serve no query.
FAINT: Final = 1e-13
POWERS: Final[dict[Norm, int]] = {"L1": 2, "L2": 1}


@dataclass(frozen=True, eq=False)
class Weights:
    """u of every row with sᵀu ≤ 1, the objective it reaches, and a lower bound, 0 if unknown."""

    u: Array
    value: float
    bound: float
    power: int

    @property
    def factors(self) -> Array:
        """λ of every row: what it is multiplied by."""
        return np.asarray(self.u ** (self.power / 2))


def best_weights(
    loads: Array, costs: Array, power: int = 1, tolerance: float = TOLERANCE, steps: int = STEPS
) -> Weights:
    """Minimise Σ c_i/u_i^p subject to sᵀu ≤ 1: the weights of independent rows.

    Parameters
    ----------
    loads
        s, rows × cells: what each row costs each cell.
    costs
        c of every row; rows with none are not measured.

    Examples
    --------
    >>> found = best_weights(np.eye(2), np.array([1.0, 4.0]))
    >>> found.u.round(6).tolist(), round(found.value, 6)
    ([1.0, 1.0], 5.0)
    """
    needed = costs > FAINT * costs.max()
    asked, c = loads[needed], costs[needed]
    ascent, point = Ascent(MEMORY, FARTHEST), np.zeros(loads.shape[1])
    even = np.full(len(c), 1.0 / asked.sum(axis=0).max())  # nothing worse is ever returned
    best = Weights(even, float((c / even**power).sum()), 0.0, power)
    for _ in range(steps):
        prices = np.exp(point)
        prices /= prices.sum()
        dear = asked @ prices
        u = (c / dear) ** (1 / (power + 1))
        norm = float(u @ dear)
        drawn = asked.T @ u / norm
        fitted = u / (norm * drawn.max())
        value = float((c / fitted**power).sum())
        bound = max(best.bound, norm ** (power + 1))
        if value < best.value:
            best = Weights(fitted, value, bound, power)
        best = replace(best, bound=bound)
        if best.value <= bound * (1 + tolerance):
            break
        step = (1 + 1 / power) * np.log(np.maximum(drawn, 1e-300))
        point = ascent.next(point, norm ** (power + 1), step, prices)
        point = np.maximum(point - point.max(), LOWEST_PRICE)
    u = np.zeros(len(costs))
    u[needed] = best.u
    return Weights(u, best.value, best.bound, power)


def weighted_rows(rows: Array, gram: Array, norm: Norm = "L2") -> tuple[Array, Weights]:
    """The rows of a design set, each with the weight that serves the workload best.

    Raises `PlanError` where the rows do not determine every query.

    Examples
    --------
    >>> tree = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    >>> ranges = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> round(weighted_rows(tree, ranges)[1].value, 3)  # 2 + √3
    3.732
    """
    rows = rows[rows.any(axis=1)]  # a row of zeros costs nothing and tells nothing
    if not supports(rows, gram):
        raise PlanError("the design set does not determine every query: add rows that do")
    loads, power = (np.abs(rows) if norm == "L1" else rows**2), POWERS[norm]
    if independent(rows):
        inverse = np.linalg.pinv(rows, rcond=NOISE_FLOOR)
        costs = np.maximum(np.einsum("ir,ir->r", inverse, gram @ inverse), 0.0)
        found = best_weights(loads, costs, power)
    elif power == 1:
        found = _dependent_weights(rows, gram, loads, power, np.ones(len(rows)))
    else:  # not convex: from even weights, and from heavy ones on rows of few cells
        starts = (np.ones(len(rows)), 1.0 / np.maximum(loads.sum(axis=1), 1e-300))
        tried = [_dependent_weights(rows, gram, loads, power, start) for start in starts]
        found = min(tried, key=lambda weights: weights.value)
    kept = found.u > 0
    return np.asarray(rows[kept] * found.factors[kept, None]), found


def independent(rows: Array) -> bool:
    """Whether no row is a combination of the others."""
    if len(rows) > rows.shape[1]:
        return False
    values = np.linalg.svd(rows, compute_uv=False)
    return bool(values.min() > NOISE_FLOOR * values.max())


def _dependent_weights(rows: Array, gram: Array, loads: Array, power: int, u: Array) -> Weights:
    """The same for rows that say some things twice, from weights to start with."""
    prices = np.full(rows.shape[1], 1.0 / rows.shape[1])
    best, since, before = Weights(u, np.inf, 0.0, power), 0, np.inf
    for _ in range(DEPENDENT_STEPS):
        u = u / (loads.T @ u).max()
        spread = _inverse((rows.T * u**power) @ rows)
        value = float((gram * spread).sum())
        towards = rows @ spread
        gains = np.maximum(np.einsum("ri,ri->r", towards @ gram, towards), 0.0)
        dear = loads @ prices
        bound = value**2 / float((gains / dear).max()) if power == 1 else 0.0
        bound = max(best.bound, bound)
        if value < best.value:
            best = Weights(u, value, bound, power)
        best = replace(best, bound=bound)
        since = 0 if best.value < before * (1 - STALLED) else since + 1
        before = best.value if since == 0 else before
        if best.value <= bound * (1 + DEPENDENT_TOLERANCE) or since > PATIENCE:
            break
        u = u * (u ** (power - 1) * gains / dear) ** (1 / (power + 1))
        drawn = loads.T @ u
        prices = prices * drawn
        prices = np.maximum(prices / prices.sum(), 1e-30)
    return best


def _inverse(matrix: Array) -> Array:
    """M⁻¹, or M⁺ where M is singular or nearly so."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    try:
        factor, lower = cho_factor(matrix, lower=True)
    except LinAlgError:
        smallest = 0.0
    else:
        smallest = float(np.diagonal(factor).min()) ** 2
    if smallest > SAFE_PIVOT * float(np.diagonal(matrix).max()):
        return np.asarray(cho_solve((factor, lower), np.eye(len(matrix))), dtype=np.float64)
    inverse = np.linalg.pinv(matrix, rcond=NOISE_FLOOR**2, hermitian=True)
    return np.asarray(inverse, dtype=np.float64)
