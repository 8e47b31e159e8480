"""How a tree's nodes share what a record may cost, for the least variance.

A record pays for the nodes on the way from the root to its leaf. Block A of the other attributes
costs p_A for a unit of precision, so that for every leaf

    Σ_A p_A Σ_{v on the path} ω_{A,v} ≤ 1 .

Every node hands what it does not use to its children, all of it to each, and leaves use the rest:
then all paths are spent, and ω is given by shares π_v of what comes down to v,

    b_root = 1 ,    ω_{A,v} = b_v π_{A,v}/p_A ,    b_c = b_v π_{rest,v} ,

which are free but for adding up to one. The problem is convex in ω, so the one place where no share
gains is the best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray, joined_kinds
from noiseplan.domain.tree import Shape, Tree, TreeVariances
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.optimize.lbfgs import minimise

STEPS, GAIN = 400, 1e-10
# No share starts below this, since it could not be found again.
LEAST_SHARE: Final = 1e-4
# What is to be small and its slopes, of variances by block and level: ∂/∂V of a node and its like.
Goal = Callable[[list[list[Array]]], tuple[float, list[list[Array]]]]


@dataclass(frozen=True, eq=False)
class Alike:
    """A tree in which children with equal subtrees stand for each other.

    `kind[l]` is the node here of every node of level l, and `copies[l]` how many it stands for.
    """

    shape: Shape
    kind: list[IntArray]
    copies: list[Array]

    @staticmethod
    def of(tree: Tree, labels: Sequence[IntArray | None] | None = None) -> Alike:
        """Siblings with equal subtrees are one, but for nodes with labels: these are like others of
        the same label alone. Labels are given level by level, where a level has any."""
        subtree = _subtrees(tree, labels or [None] * (tree.depth + 1))
        kind, copies = [np.zeros(1, dtype=np.int64)], [np.ones(1)]
        parents, often = [], []
        for level, parent in enumerate(tree.parents, 1):
            most = int(subtree[level].max()) + 1
            keys, of_node, count = np.unique(
                kind[-1][parent] * most + subtree[level], return_inverse=True, return_counts=True
            )
            parents.append(keys // most)
            often.append(count / copies[-1][parents[-1]])
            kind.append(of_node.reshape(-1))
            copies.append(count.astype(float))
        return Alike(Shape(tuple(parents), tuple(often)), kind, copies)

    def spread(self, of_kinds: list[Array]) -> list[Array]:
        """Numbers of the nodes here, for every node of the tree."""
        return [each[kind] for each, kind in zip(of_kinds, self.kind, strict=False)]


def _subtrees(tree: Tree, labels: Sequence[IntArray | None]) -> list[IntArray]:
    """Of every level, a number for each node that is the same for equal subtrees."""
    found = [_labelled(np.zeros(tree.sizes[-1], dtype=np.int64), labels[-1])]
    for level in range(tree.depth, 0, -1):
        parent = tree.parents[level - 1]
        numbers: dict[bytes, int] = {}
        order = np.lexsort((found[-1], parent))
        runs = np.split(found[-1][order], tree.starts[level - 1][1:])
        own = [numbers.setdefault(run.tobytes(), len(numbers)) for run in runs]
        found.append(_labelled(np.array(own, dtype=np.int64), labels[level - 1]))
    return found[::-1]


def _labelled(kinds: IntArray, labels: IntArray | None) -> IntArray:
    return kinds if labels is None else joined_kinds([kinds, labels])


@dataclass(frozen=True, eq=False)
class Sharing:
    """Blocks with their prices and the last level each is measured at, on a tree of kinds."""

    tree: Alike
    price: Array
    depth: IntArray

    def best(self, goal: Goal, start: list[list[Array]]) -> list[list[Array]]:
        """ω by block and level, from a start in any units."""
        _, x = minimise(lambda x: self._value(goal, x), self._packed(start), steps=STEPS, gain=GAIN)
        return self.precisions(x)

    @property
    def _last(self) -> int:
        return int(self.depth.max())

    def _rows(self, level: int) -> IntArray:
        """The blocks that are measured at a level."""
        return np.flatnonzero(self.depth >= level)

    def _packed(self, start: list[list[Array]]) -> Array:
        """log π of every level: what a node uses of what it and the dearest way below it use."""
        parts: list[Array] = []
        below = np.zeros(0)
        for level in range(self._last, -1, -1):
            used = np.array([self.price[b] * start[b][level] for b in self._rows(level)])
            if level < self._last:
                parent = self.tree.shape.parents[level]
                begin = np.flatnonzero(np.diff(parent, prepend=-1))
                used = np.vstack([used, np.maximum.reduceat(below, begin)])
            below = used.sum(axis=0)
            parts.append(np.log(np.maximum(used / below, LEAST_SHARE)).ravel())
        return np.concatenate(parts[::-1])

    def _shares(self, x: Array) -> list[Array]:
        """π of every level: blocks measured there, and the rest last, × nodes."""
        found, begin = [], 0
        for level in range(self._last + 1):
            rows = len(self._rows(level)) + (level < self._last)
            nodes = len(self.tree.copies[level])
            z = x[begin : begin + rows * nodes].reshape(rows, nodes)
            begin += rows * nodes
            each = np.exp(z - z.max(axis=0))
            found.append(each / each.sum(axis=0))
        return found

    def _left(self, shares: list[Array]) -> list[Array]:
        """b of every level."""
        found = [np.ones(1)]
        for level in range(self._last):
            found.append((found[-1] * shares[level][-1])[self.tree.shape.parents[level]])
        return found

    def precisions(self, x: Array) -> list[list[Array]]:
        """ω of every block, level by level as deep as it goes."""
        shares = self._shares(x)
        left = self._left(shares)
        result: list[list[Array]] = [[] for _ in self.price]
        for level in range(self._last + 1):
            for place, block in enumerate(self._rows(level)):
                result[block].append(left[level] * shares[level][place] / self.price[block])
        return result

    def _value(self, goal: Goal, x: Array) -> tuple[float, Array]:
        shares = self._shares(x)
        left = self._left(shares)
        trees = [TreeVariances.of(self.tree.shape, omega) for omega in self.precisions(x)]
        value, slopes = goal([tree.final for tree in trees])
        if not value > 0 or not any(np.any(each) for slope in slopes for each in slope):
            raise PlanError(
                f"the loss is {value:.4g} at variances that can be reached, or changes with none "
                f"of them, and does not say which plan is the best: along a long attribute a loss "
                f"is positive and grows with the variances; add some of their sum, as in "
                f"loss(v) + 0.001 * v.sum()"
            )
        of_omega = [tree.gradient(slope) for tree, slope in zip(trees, slopes, strict=True)]
        parts: list[Array] = []
        below = np.zeros(0)
        for level in range(self._last, -1, -1):
            rows, nodes = self._rows(level), len(self.tree.copies[level])
            worth = np.array([of_omega[b][level] / self.price[b] for b in rows])
            if level < self._last:
                handed = self.tree.shape.sums(level + 1, below)
                worth = np.vstack([worth.reshape(-1, nodes), handed])
            of_left = (shares[level] * worth).sum(axis=0)
            parts.append((shares[level] * left[level] * (worth - of_left)).ravel())
            below = of_left
        return float(np.log(value)), np.concatenate(parts[::-1]) / value


def record_weights(price: Array, of_omega: list[list[Array]], depth: IntArray) -> Array:
    """λ of the leaves: what a cheaper record there would gain, each kind with all its like."""
    last = int(depth.max())
    deepest = [-of_omega[b][last] / price[b] for b in np.flatnonzero(depth == last)]
    return np.asarray(np.max(deepest, axis=0))
