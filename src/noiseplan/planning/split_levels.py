"""Nodes of a tree that conditions name, split from their siblings.

To plan `county = '01' and age < 18` as what is asked of every county (`stand_ins`) costs a record
hardly more than the condition alone, but records of all counties pay for it. Where a condition
counts for much, its county is split from the others at a level of its own:

    nation ──► county 01 | all others ──► counties ──► tracts …

What tells a county from all others together has rows of its own there, as every level has, and the
parts of both (`mechanisms.measured_levels`) say who pays: with a small part of the nation for
county 01, its own records do. Above and below the tree is as it was, so that all answers agree.

A row Σ_v a_v x_v over nodes v counts as Σ_v a_v² of the variances of its nodes, as if errors at
different nodes were independent. It is at one node mostly, where that is exact. Rows of a query at
the same node count as one: in a p-norm with (Σ a^{2p})^{1/p} of the variance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, joined_kinds
from noiseplan.domain.tree import Tree
from noiseplan.matrices.base import Array
from noiseplan.planning.long_problem import TreeProblem, tree_along
from noiseplan.planning.objectives import ConvexLoss, TotalVariance
from noiseplan.planning.problem import Problem
from noiseplan.planning.stand_ins import MOST_NUMBERS, StandIn
from noiseplan.planning.table_matrix import norm_power

# Levels that are put between those of tables, and rows of a condition that are looked at.
MOST_SPLITS: Final = 8
MOST_ROWS: Final = 256

Values = NDArray[np.bool_]


def split_off(asked: StandIn) -> SplitOff | None:
    """The tree with nodes of their own for conditions; None where tables make none, or where
    conditions name too many."""
    tables = tree_along(asked.tables, asked.place)
    rows = None if tables is None else _rows(asked)
    if tables is None or not rows:
        return None
    levels = [tables.tree.node_of_value(level) for level in range(tables.tree.depth + 1)]
    split = _split(levels, [group for own in rows.values() for group, _ in _groups(own)])
    if len(split) > len(levels) + MOST_SPLITS:
        return None
    tree = Tree.of(split)
    assert tree is not None  # every grouping lies in the one before it
    return SplitOff(asked, tables, tree, rows)


def _rows(asked: StandIn) -> dict[int, Array] | None:
    """Rows over the values of all conditions that are products; None where these are too many."""
    found = {}
    for number in asked.parts[1]:
        matrix = asked.rows_along(number)
        if matrix is not None:
            if matrix.shape[0] > MOST_ROWS or prod(matrix.shape) > MOST_NUMBERS:
                return None
            found[number] = matrix.dense()
    return found


def _groups(rows: Array) -> Iterator[tuple[Values, float]]:
    """The values of equal weight of each row, and the weight."""
    for row in rows:
        for weight in np.unique(row[row != 0]).tolist():
            yield row == weight, weight


def _covered(group: Values, levels: list[IntArray]) -> IntArray:
    """The first level at which all of a value's node is in the group: one more than there are where
    none is, −1 outside of it."""
    found = np.where(group, len(levels), -1)
    for level in range(len(levels) - 1, -1, -1):
        node = levels[level]
        whole = np.bincount(node, weights=group) == np.bincount(node)
        found[group & whole[node]] = level
    return found


def _split(levels: list[IntArray], groups: list[Values]) -> list[IntArray]:
    """The levels, and between them those that tell groups from their siblings.

    Groups that have no values in common share one; larger ones come first, so that smaller ones lie
    in them.
    """
    apart: list[list[IntArray]] = [[] for _ in range(len(levels) + 1)]
    for group in sorted(groups, key=np.count_nonzero, reverse=True):
        covered = _covered(group, levels)
        for level in np.unique(covered[covered > 0]).tolist():
            _put(apart[level], covered == level)
    found: list[IntArray] = []
    for level, labels in enumerate(apart):
        for number in range(1, len(labels) + 1):
            found.append(joined_kinds([found[-1], labels[number - 1]]))
        found += levels[level : level + 1]
    return found


def _put(labels: list[IntArray], piece: Values) -> None:
    """A new label where none of its values has one yet."""
    for own in labels:
        if not own[piece].any():
            own[piece] = own.max() + 1
            return
    labels.append(piece.astype(np.int64))


@dataclass(frozen=True, eq=False)
class SplitOff:
    """Tables and conditions over one tree; conditions by their rows over the values."""

    asked: StandIn
    tables: TreeProblem
    tree: Tree
    rows: dict[int, Array]

    def along(self, problem: Problem) -> TreeProblem:
        """What is to be planned, of a problem with these queries: all that are products."""
        if len(self._kept) < len(problem.workload):
            lost = isinstance(problem.goal, ConvexLoss)  # which is of all queries
            targets = problem.targets
            problem = replace(
                problem,
                workload=problem.workload.subset(self._kept),
                targets=None if targets is None else np.asarray(targets)[self._kept],
                objective=TotalVariance() if lost else problem.objective,
            )
        levels, of_nodes = self._levels_and_nodes(norm_power(problem.goal))
        return TreeProblem(problem, self.asked.place, self.tree, levels, of_nodes)

    @cached_property
    def is_what_was_asked(self) -> bool:
        """Whether the plan is for what was asked: no query is left out, and every row of a
        condition is at one node."""
        nodes = [len(own) for rows in self.rows.values() for own in map(self._nodes, rows)]
        return len(self._kept) == len(self.asked.problem.workload) and set(nodes) == {1}

    @cached_property
    def _kept(self) -> list[int]:
        return sorted([*self.asked.parts[0], *self.rows])

    @cached_property
    def _node_of_value(self) -> list[IntArray]:
        return [self.tree.node_of_value(level) for level in range(self.tree.depth + 1)]

    def _levels_and_nodes(
        self, power: float
    ) -> tuple[tuple[IntArray, ...], dict[tuple[int, int], Array]]:
        """Of every query the levels that it asks for, and how much of which nodes."""
        levels: list[IntArray] = []
        of_nodes: dict[tuple[int, int], Array] = {}
        number = {place: i for i, place in enumerate(self.asked.parts[0])}
        for query, place in enumerate(self._kept):
            if place in number:
                own, nodes = self._of_table(number[place])
            else:
                nodes = self._of_condition(place, power)
                own = np.array(sorted(nodes))
            levels.append(own)
            of_nodes |= {(query, level): weights for level, weights in nodes.items()}
        return tuple(levels), of_nodes

    def _of_table(self, number: int) -> tuple[IntArray, dict[int, Array]]:
        """The levels of a table, found again, and its weights on nodes where it has some."""
        own, nodes = self.tables.levels[number], {}
        again = {at: self._level(self.tables.tree.node_of_value(at)) for at in set(own.tolist())}
        for at, level in again.items():
            weights = self.tables.of_nodes.get((number, at))
            if weights is not None:
                nodes[level] = np.zeros(self.tree.sizes[level])
                nodes[level][self._node_of_value[level]] = weights[
                    self.tables.tree.node_of_value(at)
                ]
        return np.array([again[at] for at in own.tolist()]), nodes

    def _level(self, group: IntArray) -> int:
        found = self.tree.level_of(group)
        assert found is not None  # levels were put between those of tables
        return found[0]

    def _of_condition(self, place: int, power: float) -> dict[int, Array]:
        """The p-norm of a² over the rows of a condition, of every node at each level."""
        squares: dict[tuple[int, int], list[float]] = {}
        for row in self.rows[place]:
            for level, node, weight in self._nodes(row):
                squares.setdefault((level, node), []).append(weight**2)
        found: dict[int, Array] = {}
        for (level, node), own in squares.items():
            of_level = found.setdefault(level, np.zeros(self.tree.sizes[level]))
            of_level[node] = np.linalg.norm(own, power)
        return found

    def _nodes(self, row: Array) -> list[tuple[int, int, float]]:
        """The nodes that a row is made of, by level, and the weight of each."""
        found = []
        for group, weight in _groups(row[None, :]):
            covered = _covered(group, self._node_of_value)
            for level in np.unique(covered[group]).tolist():
                nodes = np.unique(self._node_of_value[level][covered == level])
                found += [(level, node, weight) for node in nodes.tolist()]
        return found
