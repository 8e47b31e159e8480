"""‖W Λ^{1/2}‖_* of queries at levels of a tree, each with rows of its own on the other attributes.

With weights λ of the leaves and y of the cells of the others, and F_l = Σ w WᵀW of what is asked at
level l, the Gram matrix of W Λ^{1/2} is

    M = Σ_l (Λ^{1/2} Z_lᵀZ_l Λ^{1/2}) ⊗ S_l² ,    S_l = (diag(y)^{1/2} F_l diag(y)^{1/2})^{1/2} ,

Z_l the nodes of level l over the leaves. W is the stack of Z_lΛ^{1/2} ⊗ S_l; in any orthonormal
basis e_j of the cells, the same for all S_l, keep the diagonal of each S_l alone (pinching, from
both sides):

    ‖W Λ^{1/2}‖_* ≥ Σ_j tr (Σ_l (e_jᵀS_le_j)² Λ^{1/2} Z_lᵀZ_l Λ^{1/2})^{1/2} ,

which is a norm of the tree alone for each j (`optimize.tree_bound`), with equality where the S_l
commute and e_j are their eigenvectors. Smaller numbers in the place of (e_jᵀS_le_j)² give less, so
that those which are nearly the same are taken for the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.optimize.gram_roots import EIGENVALUE_ERROR
from noiseplan.optimize.tree_bound import TreeNorm

# Coefficients are rounded down to powers of this, where there are many.
ALIKE: Final = 1.01
# Below this share of the largest of its level a coefficient counts for nothing.
FAINT: Final = 1e-9


def norm_of_levels(
    norm: TreeNorm, asked: Sequence[tuple[list[Array], IntArray]], weights: Array
) -> float:
    """The largest of these bounds on ‖W Λ^{1/2}‖_* over a few bases.

    `asked` has of every level the F that differ, and which of them each kind of node has; `weights`
    are y.
    """
    scale = np.sqrt(np.outer(weights, weights))
    roots = [[_root(gram * scale) for gram in different] for different, _ in asked]
    kinds = [kind for _, kind in asked]
    squares = [different[0] @ different[0] for different in roots]
    bases = [np.linalg.eigh(sum(squares[at:]))[1] for at in range(len(squares))]
    return max(_pinched(norm, roots, kinds, basis) for basis in bases)


def _root(gram: Array) -> Array:
    """S with S² = G, not above it by rounding."""
    values, vectors = np.linalg.eigh(gram)
    sure = values - EIGENVALUE_ERROR * len(values) * max(float(values[-1]), 0.0)
    return np.asarray((vectors * np.sqrt(np.maximum(sure, 0.0))) @ vectors.T)


def _pinched(
    norm: TreeNorm, roots: list[list[Array]], kinds: list[IntArray], basis: Array
) -> float:
    """Σ_j of the norms of the tree."""
    levels = [
        np.array([np.einsum("xj,xj->j", basis, s @ basis) ** 2 for s in different])
        for different in roots
    ]
    coefficients = np.concatenate(levels)  # those that differ, of all levels × j
    largest = coefficients.max(initial=0.0)
    with np.errstate(divide="ignore"):
        steps = np.floor(np.log(coefficients / largest) / np.log(ALIKE))
    steps = np.where(coefficients > FAINT * largest, steps, -np.inf)
    alike, often = np.unique(steps, axis=1, return_counts=True)
    ends = np.cumsum([len(different) for different in roots])[:-1]
    total = 0.0
    for column, count in zip((largest * ALIKE**alike).T, often, strict=True):
        each = [own[kind] for own, kind in zip(np.split(column, ends), kinds, strict=True)]
        while each and not each[-1].any():
            each.pop()
        total += count * norm.root_trace(each) if each else 0.0
    return total * (1 - 1e-9)
