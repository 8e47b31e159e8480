"""The exact convex optimum on small domains, twice: by its dual, and by a general solver.

Over all linear mechanisms with Gaussian noise at privacy cost 1 the least Σ weight · variance is

    min tr(G X⁺)  over X ⪰ 0 with diag X ≤ 1,    G = Σ_q w_q W_qᵀW_q .

For any probability λ on the cells, relaxing the constraint to Σ λ_r X_rr ≤ 1 gives the value t²
with t = tr R, R = (Λ^{1/2} G Λ^{1/2})^{1/2}, at X = Λ^{-1/2} R Λ^{-1/2}/t: a lower bound. The same
X divided by its largest diagonal m keeps the constraint, at the value m t²: an upper bound.
λ ← λ · diag X closes the gap.

Nothing here uses the package: it is what the package is judged by.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def dual_optimum(gram: Array, gap: float = 1e-5, steps: int = 5000) -> tuple[float, float]:
    """Lower and upper bounds on the optimum, `gap` apart unless the steps run out."""
    weights = np.full(len(gram), 1.0 / len(gram))
    lower, upper = 0.0, np.inf
    for _ in range(steps):
        outer = np.sqrt(weights)
        values, vectors = np.linalg.eigh(gram * np.outer(outer, outer))
        # A root turns a rounding error of 1e-16 into 1e-8; made zero, it only lowers t.
        singular = np.sqrt(np.where(values > 1e-13 * values[-1], values, 0.0))
        t = float(singular.sum())
        diagonal = np.einsum("ij,j,ij->i", vectors, singular, vectors) / t  # λ_r X_rr
        lower = max(lower, t**2)
        upper = min(upper, t**2 * float((diagonal / weights).max()))
        if upper <= lower * (1 + gap):
            break
        # The floor keeps X_rr = diagonal/λ_r readable where λ_r tends to zero.
        weights = np.maximum(diagonal, 1e-14)
        weights /= weights.sum()
    return lower, upper


def solver_optimum(gram: Array) -> float:
    """The same by cvxpy and Clarabel, for a few dozen cells."""
    cp = import_module("cvxpy")  # slow to load, and without types

    values, vectors = np.linalg.eigh(gram)
    keep = values > 1e-12 * values[-1]
    root = vectors[:, keep] * np.sqrt(values[keep])
    cost = cp.Variable(gram.shape, PSD=True)
    problem = cp.Problem(cp.Minimize(cp.matrix_frac(root, cost)), [cp.diag(cost) <= 1])
    return float(problem.solve(solver=cp.CLARABEL))
