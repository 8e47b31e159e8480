"""ResidualPlanner+ with its best strategies: U with U1 = 0, so τ = 1/n.

With τ fixed, the best sum of variances depends on an attribute only through β · R, and increases
in it: minimise max diag(G) · tr(W G† Wᵀ) over G = UᵀU ⪰ 0 with G1 = 0, once per attribute. In a
basis O of 1^⊥, G = OKOᵀ; for weights λ on the values the best K is the geometric mean of (OᵀΛO)⁻¹
and OᵀWᵀWO, and λ ← λ · diag(G) converges.

References
----------
ResidualPlanner+ (arXiv 2305.08175), section 7, with the strategy optimised directly for β · R.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.mechanisms.basis import MatrixBasis

# Of what is asked most, asked everywhere: U keeps about FAINT^¼ in directions that nobody needs.
FAINT: Final = 1e-11
# No value loses all its weight, or the matrix of weights would be singular.
SMALLEST: Final = 1e-9


def best_upright(gram: Array, tolerance: float = 1e-9, steps: int = 500) -> Array:
    """U = K^{1/2}Oᵀ that minimises max diag(UᵀU) · tr(WᵀW (UᵀU)†), scaled to max diag(UᵀU) = 1."""
    n = len(gram)
    basis = MatrixBasis.orthogonal(n).measure.T  # O, n × (n−1)
    target = basis.T @ gram @ basis
    if not target.any():
        target = np.eye(n - 1)
    weights = np.full(n, 1.0 / n)
    kernel = np.eye(n - 1)
    for _ in range(steps):
        lower = np.linalg.cholesky(basis.T @ (weights[:, None] * basis))
        values, vectors = np.linalg.eigh(lower.T @ target @ lower)
        root = (vectors * np.sqrt(np.maximum(values, FAINT * values[-1]))) @ vectors.T
        half = np.linalg.solve(lower.T, root)
        kernel = np.linalg.solve(lower.T, half.T) / np.trace(root)
        diagonal = np.einsum("ij,ij->i", basis @ kernel, basis)
        # Σ λ diag(G) = 1, so the largest entry tells how far from balanced the weights are.
        if diagonal.max() <= 1.0 + tolerance:
            break
        weights = np.maximum(weights * diagonal, SMALLEST / n)
        weights /= weights.sum()
    values, vectors = np.linalg.eigh(0.5 * (kernel + kernel.T))
    rows = np.sqrt(np.maximum(values, 0.0))[:, None] * (vectors.T @ basis.T)
    return np.asarray(rows / np.sqrt(np.einsum("ri,ri->i", rows, rows).max()))
