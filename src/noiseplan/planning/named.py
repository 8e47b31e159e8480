"""Explicit strategies by name, for Gaussian noise over small domains.

A strategy A (rows × cells) is measured with noise in proportion to its largest column; its total
variance at cost one is tr(G (AᵀA)⁺) · max diag(AᵀA), G the workload's Gram matrix.

References
----------
C. Li, dissertation, 2013: chapter 2 for the classical strategies, section 4 for the eigen-design
(the eigenvectors of G as a design set, weighted by the convex program 4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.matrices import kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.planning.allocation import share_for_total
from noiseplan.planning.design import Design
from noiseplan.planning.pure.hierarchies import haar

# Eigenvalues below this fraction of the largest are directions that nobody asks about.
NOISE_FLOOR: Final = 1e-11


def strategy_by_name(name: str, design: Design, gram: Array) -> Array:
    """A with largest column norm one; refuses one that cannot answer the workload."""
    strategy = STRATEGIES[name](design, gram)
    strategy = np.asarray(strategy / np.sqrt(np.einsum("ri,ri->i", strategy, strategy).max()))
    kept = np.linalg.pinv(strategy, rcond=1e-9) @ strategy
    if not np.abs(gram - kept.T @ gram @ kept).max() <= 1e-7 * np.abs(gram).max():
        raise PlanError(f"the {name} strategy does not determine every query of the workload")
    return strategy


def total_variance_of(strategy: Array, gram: Array) -> float:
    """tr(G (AᵀA)⁺), for a strategy with largest column norm one."""
    inverse = np.linalg.pinv(strategy, rcond=1e-9)
    return float(np.einsum("ij,ij->", gram @ inverse, inverse))


def weighted(rows: Array, gram: Array) -> Array:
    """The rows of an orthonormal design set, each with the weight that is best for the workload.

    With precisions u on orthonormal rows q the total variance is Σ (qGqᵀ)/u, and cell j costs
    Σ u q_j²: the same program as sharing a budget among measurements with one price for each cell.
    """
    asked = np.einsum("ri,ij,rj->r", rows, gram, rows)
    asked = np.where(asked > NOISE_FLOOR * asked.max(), asked, 0.0)
    share = share_for_total((rows**2).T, asked, 1.0)
    return np.asarray(rows * np.sqrt(1.0 / share.sigma2)[:, None])[asked > 0]


def _identity(design: Design, gram: Array) -> Array:
    return np.eye(len(gram))


def _workload(design: Design, gram: Array) -> Array:
    """Any A with AᵀA = G measures what the workload's own rows would."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)


def _eigen(design: Design, gram: Array) -> Array:
    return weighted(np.linalg.eigh(gram)[1].T, gram)


def _hierarchical(design: Design, gram: Array) -> Array:
    """Binary trees over ordered attributes, values and the total over the others, as a product."""
    return kronecker_dense([_tree(a.size, a.ordered) for a in design.workload.schema.attributes])


def _tree(size: int, ordered: bool) -> Array:
    levels, width = [np.eye(size)], 2
    while ordered and width < size:
        groups = np.arange(size) // width
        levels.append((np.arange(groups[-1] + 1)[:, None] == groups).astype(np.float64))
        width *= 2
    return np.vstack([*levels, np.ones((1, size))] if size > 1 else levels)


def _wavelet(design: Design, gram: Array) -> Array:
    """The Haar wavelets of every attribute, as a product."""
    return kronecker_dense([haar(size) for size in design.workload.schema.shape])


STRATEGIES: Final[dict[str, Callable[[Design, Array], Array]]] = {
    "identity": _identity,
    "workload": _workload,
    "hierarchical": _hierarchical,
    "wavelet": _wavelet,
    "eigen": _eigen,
}
