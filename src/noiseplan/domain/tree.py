"""A tree over the values of one attribute: places in tracts in counties in a nation.

Level 0 is the root, all values together; every node of a level lies in one of the level above it.
Nodes of a level are numbered so that those of one parent follow each other.

By least squares every node's estimate has a variance that follows in two passes. Node v is measured
with precision ω_v (one over the variance of its noise; zero if it is not), and is the sum of its
children c. Up the tree, from itself and its children alone,

    1/u_v = ω_v + 1/S_v ,      S_v = Σ_c u_c ,

and down, from everything,

    V_c = u_c − u_c²/S_v + (u_c/S_v)² V_v ,      V_root = u_root .

Alike children (same subtrees, same weights) may stand for each other: c then counts m_c times in S.
`gradient` is the adjoint of both passes, in the same number of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, immutable, joined_kinds
from noiseplan.matrices.base import Array


@immutable
@dataclass(frozen=True, eq=False)
class Tree:
    """The node of each value at the last level, and the parent of each node of every other level.

    Examples
    --------
    >>> tree = Tree.of([np.array([0, 1, 0, 2]), np.array([0, 1, 0, 1])])
    >>> tree.sizes, tree.parents[1].tolist()
    ((1, 2, 3), [0, 1, 1])
    >>> tree.up(np.array([1, 2, 4, 8])[:, None], 3)[1].ravel().tolist()
    [5, 10]
    """

    of_value: IntArray
    parents: tuple[IntArray, ...]  # parents[l] of the nodes of level l + 1

    @staticmethod
    def of(partitions: Sequence[IntArray]) -> Tree | None:
        """The tree whose levels are these groupings of the values; None where they cross."""
        distinct = {p.tobytes(): p for p in map(_first_come, partitions)}
        levels = sorted(distinct.values(), key=lambda p: int(p.max()))
        levels = [p for p in levels if p.max() > 0]
        parents: list[IntArray] = []
        above = np.zeros(len(partitions[0]), dtype=np.int64)
        for level in levels:
            # Numbered by the parent first: then the nodes of one parent follow each other.
            nodes, first, of_value = np.unique(
                above * (int(level.max()) + 1) + level, return_index=True, return_inverse=True
            )
            if len(nodes) != int(level.max()) + 1:
                return None
            parents.append(above[first])
            above = of_value.reshape(-1).astype(np.int64)
        return Tree(above, tuple(parents))

    @property
    def depth(self) -> int:
        """Levels below the root."""
        return len(self.parents)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Nodes of each level, the root first."""
        return (1, *(len(p) for p in self.parents))

    @cached_property
    def starts(self) -> tuple[IntArray, ...]:
        """Of every level but the last: where the children of each node begin."""
        return tuple(
            np.searchsorted(p, np.arange(n)) for p, n in zip(self.parents, self.sizes, strict=False)
        )

    def node_of_value(self, level: int) -> IntArray:
        """The node of each value at a level."""
        node = self.of_value
        for parent in reversed(self.parents[level:]):
            node = parent[node]
        return node

    def level_of(self, group: IntArray) -> tuple[int, IntArray] | None:
        """The level that groups the values so, and the node of each group; None if none does."""
        count = int(group.max()) + 1
        for level, size in enumerate(self.sizes):
            if size == count:
                node = np.full(count, -1)
                own = self.node_of_value(level)
                node[group] = own
                if (node[group] == own).all() and np.bincount(node).max() == 1:
                    return level, node
        return None

    def sums(self, level: int, values: NDArray[np.number]) -> NDArray[np.number]:
        """Numbers of a level's nodes added up by parent."""
        return np.add.reduceat(values, self.starts[level - 1], axis=0)

    def leaves(self, values: NDArray[np.number]) -> NDArray[np.number]:
        """Numbers of the values added up by node of the last level."""
        order = np.argsort(self.of_value, kind="stable")
        if len(order) == self.sizes[-1]:
            return values[order]
        begin = np.searchsorted(self.of_value[order], np.arange(self.sizes[-1]))
        return np.add.reduceat(values[order], begin, axis=0)

    def up(self, values: NDArray[np.number], levels: int) -> list[NDArray[np.number]]:
        """Numbers of the values added up by node, for the first so many levels."""
        found = [self.leaves(values)]
        for level in range(self.depth, 0, -1):
            found.append(self.sums(level, found[-1]))
        return found[::-1][:levels]

    def path_sums(self, of_nodes: Sequence[Array]) -> Array:
        """Σ over the path from the root, for every node of the last of these levels."""
        total = of_nodes[0]
        for parent, own in zip(self.parents, of_nodes[1:], strict=False):
            total = total[parent] + own
        return total


def _first_come(partition: IntArray) -> IntArray:
    return joined_kinds([np.asarray(partition, dtype=np.int64)])


@immutable
@dataclass(frozen=True, eq=False)
class Shape:
    """Parents of every level but the root's, and how often a node stands beside its like."""

    parents: tuple[IntArray, ...]
    often: tuple[Array, ...]  # of the same levels

    @property
    def levels(self) -> int:
        return len(self.parents) + 1

    @cached_property
    def _starts(self) -> list[IntArray]:
        """Where the children of each node begin."""
        return [np.flatnonzero(np.diff(parent, prepend=-1)) for parent in self.parents]

    def sums(self, level: int, values: Array) -> Array:
        """Σ over the children of each node, of numbers (…, nodes of this level)."""
        return np.asarray(np.add.reduceat(values, self._starts[level - 1], axis=-1))


@immutable
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
