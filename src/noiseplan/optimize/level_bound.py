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
from dataclasses import dataclass
from functools import cached_property
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
# Steps of weights that are moved, fewer where matrices are large, by the cubes of their sizes; and
# what the dearest record may cost above the mean in the end.
STEPS, FEWEST, PATIENCE = 60, 6, 5e8
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


@dataclass(frozen=True, eq=False)
class Together:
    """What is asked of all kinds of leaves × cells together, n_p times each piece p."""

    tree: Alike
    pieces: Sequence[Asked]
    often: Array

    def best_norm(self, weights: Array) -> float:
        """The largest Σ_p n_p ‖W_p Λ^{1/2}‖_* that is found over weights, from some that add up to
        one: of all leaves of a kind together.

        They are moved as in `optimize.optimum`: multiplied by what the best mechanism for them
        would cost a record, and mixed with their own past.
        """
        ascent, point, best = Ascent(MEMORY, FARTHEST), np.log(np.maximum(weights, FAINT)), 0.0
        for _ in range(self._steps):
            weights = np.exp(point)
            weights /= weights.sum()
            diagonal = self.diagonal(weights)
            total = float(diagonal.sum())
            best, paid = max(best, total), diagonal / (weights * total)
            if float(paid.max()) <= 1 + NEAR:  # the largest norm is at most as much larger
                break
            residual = FULL_STEP * np.log(np.maximum(paid, FAINT))
            point = ascent.next(point, total**2, residual, weights)
            point = (point - point.max()).clip(min=SMALLEST_WEIGHT)
        return best * (1 - 1e-9)

    @property
    def _steps(self) -> int:
        """As many as there is time for."""
        numbers = sum(float(len(gram)) ** 3 for own in self._grams for _, gram in own.values())
        return int(min(max(PATIENCE / max(numbers, 1.0), FEWEST), STEPS))

    def diagonal(self, weights: Array) -> Array:
        """The diagonals of (Λ^{1/2}W_pᵀW_pΛ^{1/2})^{1/2}, which add up to the norms: kinds × cells,
        of all leaves of a kind together."""
        each = weights / self.tree.copies[-1][:, None]
        pairs = zip(self.often, self._grams, strict=True)
        return np.asarray(sum(n * self._diagonal(own, each) for n, own in pairs))

    def _diagonal(self, grams: dict[tuple[int, int], tuple[IntArray, Array]], each: Array) -> Array:
        """By the recursion, from G of the nodes that have more than one copy."""
        shape, full = self.tree.shape, np.zeros_like(each)
        for level in range(len(self.tree.copies) - 1, -1, -1):
            own = np.zeros_like(each)
            for node in range(len(self.tree.copies[level])):
                if (level, node) in grams:
                    mine, gram = grams[level, node]
                    scale = np.sqrt(each[mine].ravel())
                    root = _root(gram * np.outer(scale, scale))
                    own[mine] = np.diagonal(root).reshape(len(mine), -1)
            often = shape.often[level - 1][self._above[level]][:, None] if level else 1.0
            full = often * (full + own) - (own if level else 0.0)
        return full

    @cached_property
    def _above(self) -> list[IntArray]:
        return nodes_above(self.tree.shape, len(self.tree.copies) - 1)

    @cached_property
    def _grams(self) -> list[dict[tuple[int, int], tuple[IntArray, Array]]]:
        """Of every piece, of the root and of nodes with copies beside them: the kinds of leaves
        under them, and Σ_u z_uz_uᵀ ⊗ F_u. Without copies, G of a node is added and taken off."""
        often = [np.full(1, 2.0), *self.tree.shape.often]
        nodes = [(level, n) for level, own in enumerate(often) for n in np.flatnonzero(own > 1)]
        leaves = {(level, int(n)): np.flatnonzero(self._above[level] == n) for level, n in nodes}
        return [
            {place: (mine, self._gram(asked, place[0], mine)) for place, mine in leaves.items()}
            for asked in self.pieces
        ]

    def _gram(self, asked: Asked, level: int, mine: IntArray) -> Array:
        copies, cells = self.tree.copies, len(asked[0][0][0])
        found = np.zeros((len(mine), cells, len(mine), cells))
        for at in range(level, len(copies)):
            different, kind = asked[at]
            below = self._above[at][mine]
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
    if not largest > 0:  # nothing is asked
        return 0.0
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
