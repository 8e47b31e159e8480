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

Where kinds of leaves are few nothing is cut off: the recursion of `optimize.tree_bound` holds for
matrices over the cells as for numbers, and for any weights of leaves × cells, with

    G(v) = tr (Λ^{1/2} (Σ_u z_uz_uᵀ ⊗ F_u) Λ^{1/2})^{1/2}

over the kinds of leaves k under v, u the kinds of nodes from v on, and z_u the roots of how many
leaves of each kind lie under one u.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.optimize.anderson import Ascent
from noiseplan.optimize.gram_roots import EIGENVALUE_ERROR
from noiseplan.optimize.optimum import FARTHEST, FULL_STEP, MEMORY, SMALLEST_WEIGHT
from noiseplan.optimize.tree_bound import TreeNorm, nodes_above
from noiseplan.optimize.tree_sharing import Alike

# Coefficients are rounded down to powers of this, where there are many.
ALIKE: Final = 1.01
# Steps of weights that are moved, and what the dearest record may cost above the mean in the end.
STEPS: Final = 60
NEAR: Final = 1e-3
# Kinds of leaves × cells whose matrix is written down.
LARGEST: Final = 1024
# Of every level the F that differ, and which of them each kind of node has.
Asked = Sequence[tuple[list[Array], IntArray]]
# Below this share of the largest of its level a coefficient counts for nothing.
FAINT: Final = 1e-9


def norm_of_levels(norm: TreeNorm, asked: Asked, weights: Array) -> float:
    """The largest of these bounds on ‖W Λ^{1/2}‖_* over a few bases.

    `weights` are y.
    """
    scale = np.sqrt(np.outer(weights, weights))
    roots = [[_root(gram * scale) for gram in different] for different, _ in asked]
    kinds = [kind for _, kind in asked]
    squares = [different[0] @ different[0] for different in roots]
    bases = [np.linalg.eigh(sum(squares[at:]))[1] for at in range(len(squares))]
    return max(_pinched(norm, roots, kinds, basis) for basis in bases)


def best_norm_together(tree: Alike, pieces: Sequence[Asked], often: Array, weights: Array) -> float:
    """The largest Σ_p n_p ‖W_p Λ^{1/2}‖_* that is found over weights of kinds of leaves × cells, from
    some that add up to one: of all leaves of a kind together.

    They are moved as in `optimize.optimum`: multiplied by what the best mechanism for them would
    cost a record, and mixed with their own past.
    """
    ascent, point, best = Ascent(MEMORY, FARTHEST), np.log(np.maximum(weights, FAINT)), 0.0
    for _ in range(STEPS):
        weights = np.exp(point)
        weights /= weights.sum()
        each = weights / tree.copies[-1][:, None]
        roots = sum(
            n * diagonal_together(tree, p, each) for n, p in zip(often, pieces, strict=True)
        )
        total = float(np.sum(roots))
        best = max(best, total)
        paid = roots / (weights * total)
        if float(paid.max()) <= 1 + NEAR:
            break
        residual = FULL_STEP * np.log(np.maximum(paid, FAINT))
        point = ascent.next(point, total**2, residual, weights)
        point = (point - point.max()).clip(min=SMALLEST_WEIGHT)
    return best * (1 - 1e-9)


def diagonal_together(tree: Alike, asked: Asked, weights: Array) -> Array:
    """The diagonal of (Λ^{1/2}WᵀWΛ^{1/2})^{1/2}, which adds up to ‖W Λ^{1/2}‖_*: of all leaves of
    every kind together × cells. `weights` are those of one leaf of each."""
    shape, last = tree.shape, len(tree.copies) - 1
    above, copies = nodes_above(shape, last), tree.copies
    full = own = np.zeros_like(weights)
    for level in range(last, -1, -1):
        together = np.zeros_like(weights)
        for node in range(len(copies[level])):
            mine = np.flatnonzero(above[level] == node)
            gram = _gram_together(tree, asked, above, level, mine)
            scale = np.sqrt(weights[mine].ravel())
            root = _root(gram * np.outer(scale, scale))
            together[mine] = np.diagonal(root).reshape(len(mine), -1)
        often = shape.often[level][above[level + 1]][:, None] if level < last else 1.0
        full, own = together + often * full - own, together
    return full


def _gram_together(
    tree: Alike, asked: Asked, above: list[IntArray], level: int, mine: IntArray
) -> Array:
    """Σ_u z_uz_uᵀ ⊗ F_u over the nodes from one at this level on, for the leaves under it."""
    copies, cells = tree.copies, len(asked[0][0][0])
    found = np.zeros((len(mine), cells, len(mine), cells))
    for at in range(level, len(copies)):
        different, kind = asked[at]
        below = above[at][mine]
        for node in np.unique(below).tolist():
            z = np.where(below == node, np.sqrt(copies[-1][mine] / copies[at][node]), 0.0)
            found += np.einsum("i,j,xy->ixjy", z, z, different[kind[node]])
    return found.reshape(len(mine) * cells, -1)


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
