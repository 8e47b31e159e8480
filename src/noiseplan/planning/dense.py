"""The exact optimum of the total variance over a small domain.

    minimise tr(G X⁻¹)  subject to  X ⪰ 0, diag X ≤ c ,      G = Σ_q w_q W_qᵀW_q .

Its dual is max over probabilities λ on the cells of ‖G^{1/2}Λ^{1/2}‖²_*/c. For given λ the best X
is Λ^{−1/2}(Λ^{1/2}GΛ^{1/2})^{1/2}Λ^{−1/2}, scaled, and λ ← λ · diag(X) converges. The dual value is
a lower bound, X scaled to the largest diagonal entry an upper one: the gap is certified.

References
----------
Li, Miklau, Hay, McGregor, Rastogi, "The matrix mechanism", VLDB Journal 2015, for the program; the
fixed point is the multiplicative update known from optimal experimental design.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noiseplan.matrices.base import Array

# Eigenvalues below this fraction of the largest are taken for rounding.
NOISE_FLOOR = 1e-11
# No cell's weight vanishes: directions that only it can tell apart would be lost with it.
SMALLEST_WEIGHT = 1e-8


@dataclass(frozen=True, eq=False)
class DenseOptimum:
    """A strategy with diag(AᵀA) ≤ 1, the total variance it reaches at cost one, a lower bound."""

    strategy: Array
    value: float
    bound: float


def dense_optimum(gram: Array, tolerance: float = 1e-6, steps: int = 400) -> DenseOptimum:
    """The best strategy for a Gram matrix, with its certificate."""
    weights = np.full(len(gram), 1.0 / len(gram))
    best = DenseOptimum(np.zeros((0, len(gram))), np.inf, 0.0)
    stride, last = 1.0, (weights, 0.0)
    for _ in range(steps):
        root_weights = np.sqrt(weights)
        values, vectors = np.linalg.eigh(gram * np.outer(root_weights, root_weights))
        keep = values > NOISE_FLOOR * values[-1]
        singular, kept = np.sqrt(values[keep]), vectors[:, keep]
        bound = float(singular.sum()) ** 2
        if bound < last[1] and stride > 1.0:  # overshot: back, and on with the safe step
            (weights, _), stride = last, 1.0
            continue
        strategy = np.sqrt(singular / singular.sum())[:, None] * kept.T / root_weights
        diagonal = np.einsum("ri,ri->i", strategy, strategy)
        # At cost one the variances of X/max diag: tr(G X⁺) · max diag(X) = (Σ s)² · max diag(X).
        value = bound * float(diagonal.max())
        if value < best.value:
            best = DenseOptimum(strategy / np.sqrt(diagonal.max()), value, best.bound)
        best = DenseOptimum(best.strategy, best.value, max(best.bound, bound))
        if best.value <= best.bound * (1 + tolerance):
            break
        last, stride = (weights, bound), min(stride * 1.1, 8.0)
        weights = np.maximum(weights * diagonal**stride, SMALLEST_WEIGHT)
        weights = weights / weights.sum()
    return best
