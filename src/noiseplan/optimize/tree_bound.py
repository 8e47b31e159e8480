"""‖W Λ^{1/2}‖_* of queries by level of a tree: no mechanism can have less variance than its square.

With weights λ of the leaves, which add up to one, the part of block A has

    M_A = Λ^{1/2} (Σ_l c_{A,l} Z_lᵀZ_l) Λ^{1/2} ,      Z_l the nodes of level l over the leaves,

and ‖W Λ^{1/2}‖_* ≥ Σ_A tr M_A^{1/2}. Children alike stand for each other: the differences between
copies of a subtree see nothing above it, so that with G(v) for the copies of each leaf moving
together within v

    F(v) = G(v) + Σ_c (m_c F(c) − G(c)) .

Where v has too many leaves for G, its own level is left out, F(v) ≥ Σ_c m_c F(c): M falls by
something positive, and the trace of its root with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.domain.tree import Shape
from noiseplan.matrices.base import Array
from noiseplan.optimize.gram_roots import EIGENVALUE_ERROR
from noiseplan.optimize.tree_sharing import Alike

# Kinds of leaves under one node whose matrix is written down.
LARGEST: Final = 512
# Numbers of such matrices that are held at once.
HELD: Final = 1 << 22


def nodes_above(shape: Shape, last: int) -> list[IntArray]:
    """The kind of node of every level that each kind of the last one lies under."""
    count = len(shape.parents[last - 1]) if last else 1
    found = [np.arange(count)]
    for level in range(last, 0, -1):
        found.append(shape.parents[level - 1][found[-1]])
    return found[::-1]


@dataclass(frozen=True, eq=False)
class TreeNorm:
    """The trace of one block's root, over the levels down to its last."""

    tree: Alike
    weights: Array  # λ of one copy of each kind of leaf of the whole tree

    def root_trace(self, coefficients: list[Array]) -> float:
        """tr M^{1/2}, for c of every node of a block's levels, the last not all zero."""
        last, shape = len(coefficients) - 1, self.tree.shape
        leaves = self._collected(last)
        full = own = np.sqrt(coefficients[last] * leaves)  # F and G
        for level in range(last - 1, -1, -1):
            together = self._together(level, coefficients, leaves)
            alone = shape.sums(level + 1, shape.often[level] * full)
            # Where a child has too many leaves, so has its parent.
            rest = alone - shape.sums(level + 1, own)
            full = np.where(np.isnan(together), alone, together + rest)
            own = together
        return float(full[0])

    def _collected(self, last: int) -> Array:
        """λ of one copy of each kind of node of a level: that of all leaves under it."""
        found = self.weights
        for level in range(len(self.tree.copies) - 1, last, -1):
            found = self.tree.shape.sums(level, self.tree.shape.often[level - 1] * found)
        return found

    def _together(self, level: int, coefficients: list[Array], leaves: Array) -> Array:
        """G of every node of a level; not a number where it has too many leaves.

        e_iᵀ M e_j = √(λ_iλ_jn_in_j) Σ_l c_l/n_a over the common nodes a of leaves i and j.
        """
        last = len(coefficients) - 1
        above, copies = nodes_above(self.tree.shape, last), self.tree.copies
        count = np.bincount(above[level])
        start = np.cumsum(count) - count
        result = np.full(len(count), np.nan)
        for size in np.unique(count[count <= LARGEST]):
            alike = np.flatnonzero(count == size)
            for nodes in np.array_split(alike, -(-len(alike) * size**2 // HELD)):
                mine = start[nodes][:, None] + np.arange(size)
                one = copies[level][nodes][:, None]
                weight = np.sqrt(leaves[mine] * copies[last][mine] / one)
                matrix = np.zeros((len(nodes), size, size))
                for at in range(level, last + 1):
                    node = above[at][mine]
                    each = coefficients[at][node] * one / copies[at][node]
                    matrix += (node[:, :, None] == node[:, None, :]) * each[:, :, None]
                values = np.linalg.eigvalsh(matrix * weight[:, :, None] * weight[:, None, :])
                off = EIGENVALUE_ERROR * size * np.maximum(values[:, -1:], 0.0)
                result[nodes] = np.sqrt(np.maximum(values - off, 0.0)).sum(axis=1)
        return result
