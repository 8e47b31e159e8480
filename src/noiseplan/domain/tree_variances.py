"""Least squares on a tree: what every node's estimate has for variance, in two passes.

Node v is measured with precision ω_v (one over the variance of its noise; zero if it is not), and
is the sum of its children c. Up the tree, from itself and its children alone,

    1/u_v = ω_v + 1/S_v ,      S_v = Σ_c u_c ,

and down, from everything,

    V_c = u_c − u_c²/S_v + (u_c/S_v)² V_v ,      V_root = u_root .

Alike children (same subtrees, same weights) may stand for each other: c then counts m_c times in S.
`gradient` is the adjoint of both passes, in the same number of steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array


@dataclass(frozen=True, eq=False)
class Shape:
    """Parents of every level but the root's, and how often a node stands beside its like."""

    parents: tuple[IntArray, ...]
    often: tuple[Array, ...]  # of the same levels

    @property
    def levels(self) -> int:
        return len(self.parents) + 1

    def sums(self, level: int, values: Array) -> Array:
        """Σ over the children of each node, of numbers (…, nodes of this level)."""
        parent = self.parents[level - 1]
        starts = np.flatnonzero(np.diff(parent, prepend=-1))
        return np.asarray(np.add.reduceat(values, starts, axis=-1))


@dataclass(frozen=True, eq=False)
class TreeVariances:
    """u, S and V of every level, for precisions ω (…, nodes) of each level."""

    shape: Shape
    upward: list[Array]
    below: list[Array]  # S, of every level but the last
    final: list[Array]

    @staticmethod
    def of(shape: Shape, omega: list[Array]) -> TreeVariances:
        """Both passes. Every node of the last level is measured."""
        last = len(omega) - 1
        upward, below = [1.0 / omega[last]], []
        for level in range(last, 0, -1):
            total = shape.sums(level, shape.often[level - 1] * upward[-1])
            below.append(total)
            upward.append(1.0 / (omega[level - 1] + 1.0 / total))
        upward.reverse()
        below.reverse()
        final = [upward[0]]
        for level in range(1, last + 1):
            parent = shape.parents[level - 1]
            gain = upward[level] / below[level - 1][..., parent]
            final.append(upward[level] * (1.0 - gain) + gain**2 * final[-1][..., parent])
        return TreeVariances(shape, upward, below, final)

    def gradient(self, of_final: list[Array]) -> list[Array]:
        """∂f/∂ω of every level, from ∂f/∂V (of a node and all its like together)."""
        last, shape = len(self.final) - 1, self.shape
        final = [g.copy() for g in of_final]
        upward = [np.zeros_like(u) for u in self.upward]
        below = [np.zeros_like(s) for s in self.below]
        for level in range(last, 0, -1):
            parent, own = shape.parents[level - 1], self.upward[level]
            total, above = self.below[level - 1][..., parent], self.final[level - 1][..., parent]
            gain = own / total
            here = final[level]
            upward[level] += here * (1.0 - 2.0 * gain + 2.0 * gain * above / total)
            below[level - 1] += shape.sums(level, here * gain**2 * (1.0 - 2.0 * above / total))
            final[level - 1] += shape.sums(level, here * gain**2)
        upward[0] += final[0]
        result = []
        for level in range(last + 1):
            of_precision = -upward[level] * self.upward[level] ** 2
            result.append(of_precision)
            if level < last:
                below[level] -= of_precision / self.below[level] ** 2
                spread = below[level][..., shape.parents[level]]
                upward[level + 1] += shape.often[level] * spread
        return result
