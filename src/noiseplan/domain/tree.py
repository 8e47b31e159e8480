"""A tree over the values of one attribute: places in tracts in counties in a nation.

Level 0 is the root, all values together; every node of a level lies in one of the level above it.
Nodes of a level are numbered so that those of one parent follow each other.
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
