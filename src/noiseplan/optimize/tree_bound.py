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
from noiseplan.matrices.base import Array
from noiseplan.optimize.tolerances import EIGENVALUE_ERROR
from noiseplan.optimize.tree_sharing import Alike

# Kinds of leaves under one node whose matrix is written down.
LARGEST: Final = 512


@dataclass(frozen=True, eq=False)
class TreeNorm:
    """The trace of one block's root, over the levels down to its last."""

    tree: Alike
    weights: Array  # λ of one copy of each kind of leaf of the whole tree

    def root_trace(self, coefficients: list[Array]) -> float:
        """tr M^{1/2}, for c of every node of a block's levels, the last not all zero."""
        last = len(coefficients) - 1
        leaves = self._collected(last)
        full = [np.sqrt(coefficients[last] * leaves)]  # F, and G below
        own = full[0].copy()
        for level in range(last - 1, -1, -1):
            inside, found = self._inside(level, last), []
            for number in range(len(self.tree.copies[level])):
                mine = inside[number]
                if len(mine) <= LARGEST:
                    found.append(self._together(level, last, mine, coefficients, leaves))
                else:
                    found.append(np.nan)
            together = np.array(found)
            parent, often = self.tree.shape.parents[level], self.tree.shape.often[level]
            starts = np.flatnonzero(np.diff(parent, prepend=-1))
            # Where a child was too large, so is its parent, and nothing is taken away for it.
            rest = np.add.reduceat(often * full[-1] - np.nan_to_num(own), starts)
            alone = np.add.reduceat(often * full[-1], starts)
            full.append(np.where(np.isnan(together), alone, together + rest))
            own = together
        return float(full[-1][0])

    def _collected(self, last: int) -> Array:
        """λ of one copy of each kind of node of a level: that of all leaves under it."""
        found = self.weights
        for level in range(len(self.tree.copies) - 1, last, -1):
            found = self.tree.shape.sums(level, self.tree.shape.often[level - 1] * found)
        return found

    def _ancestors(self, last: int) -> list[IntArray]:
        """The kind of node of every level that each kind of the last one lies under."""
        found = [np.arange(len(self.tree.copies[last]))]
        for level in range(last, 0, -1):
            found.append(self.tree.shape.parents[level - 1][found[-1]])
        return found[::-1]

    def _inside(self, level: int, last: int) -> list[IntArray]:
        above = self._ancestors(last)[level]
        return np.split(np.arange(len(above)), np.flatnonzero(np.diff(above)) + 1)

    def _together(
        self, level: int, last: int, mine: IntArray, coefficients: list[Array], leaves: Array
    ) -> float:
        """G(v): e_iᵀ M e_j = √(λ_iλ_j n_in_j) Σ_l c_l/n_a over the common nodes a of i and j."""
        above = [each[mine] for each in self._ancestors(last)]
        one = self.tree.copies[level][above[level][0]]
        copies = [self.tree.copies[at] / one for at in range(level, last + 1)]
        weight = np.sqrt(leaves[mine] * copies[-1][mine])
        matrix = np.zeros((len(mine), len(mine)))
        for at in range(level, last + 1):
            node = above[at]
            same = node[:, None] == node
            matrix += same * (coefficients[at] / copies[at - level])[node]
        values = np.linalg.eigvalsh(matrix * np.outer(weight, weight))
        off = EIGENVALUE_ERROR * len(values) * max(values[-1], 0.0)
        return float(np.sqrt(np.maximum(values - off, 0.0)).sum())
