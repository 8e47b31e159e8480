"""Rows over the values of a long attribute as rows over the nodes of its tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy.sparse as sp

from noiseplan.arrays import IntArray, first_of, immutable
from noiseplan.domain.tree import Tree
from noiseplan.errors import QueryError
from noiseplan.matrices import (
    DenseMatrix,
    GroupMatrix,
    IdentityMatrix,
    Matrix,
    PaddedMatrix,
    PrefixMatrix,
    TotalMatrix,
)
from noiseplan.matrices.base import Array
from noiseplan.matrices.composed import stacked_parts
from noiseplan.mechanisms.long_answers import ROUNDING
from noiseplan.mechanisms.long_block import largest_weights

# Rows of other matrices over the long attribute are written down up to so many numbers.
MOST_WEIGHTS: Final = 1 << 24


@immutable
@dataclass(frozen=True, eq=False)
class NodeRows:
    """Rows over the nodes of one level: single nodes, any weights on them, or sums of all nodes up
    to some.

    Weights of a row that differ by no more than its limit are the same: by rounding of the largest,
    unless rows were computed from larger ones.
    """

    level: int
    nodes: IntArray | None = None
    weights: sp.csr_array | None = None
    up_to: IntArray | None = None
    limits: Array | None = None

    @property
    def count(self) -> int:
        """How many rows."""
        if self.nodes is not None:
            return len(self.nodes)
        if self.up_to is not None:
            return len(self.up_to)
        assert self.weights is not None
        return int(self.weights.shape[0])

    def sparse(self, size: int) -> sp.csr_array:
        """The rows over all nodes of the level."""
        if self.up_to is not None:
            raise QueryError(
                f"{len(self.up_to):,} prefix sums of {size:,} values are too many numbers to be "
                f"written down for this: ask for fewer of them"
            )
        if self.nodes is None:
            assert self.weights is not None
            return self.weights
        count = len(self.nodes)
        entries = np.ones(count), (np.arange(count), self.nodes)
        return sp.csr_array(entries, shape=(count, size))

    def over(self, tree: Tree, level: int) -> NodeRows | None:
        """The same over a level above, where rows give all children of a node the same weight."""
        if level >= self.level:
            return self
        if self.weights is None:
            return None
        weights, limits = self.weights, self.limits
        limits = ROUNDING * largest_weights(weights) if limits is None else limits
        for at in range(self.level, level, -1):
            first = sp.csr_array(weights[:, tree.starts[at - 1]])
            if (largest_weights(first[:, tree.parents[at - 1]] - weights) > limits).any():
                return None
            weights = first
        return NodeRows(level, weights=weights, limits=limits)


def node_rows(matrix: Matrix, tree: Tree) -> Iterator[NodeRows | None]:
    """What rows over the values ask of the tree, piece by piece; None where it cannot tell."""
    for part in stacked_parts(matrix):
        yield _rows_of_part(part, tree)


def _rows_of_part(matrix: Matrix, tree: Tree) -> NodeRows | None:
    group = groups_of(matrix)
    found = None if group is None else tree.level_of(group)
    if found is not None:
        return NodeRows(found[0], nodes=found[1][: matrix.shape[0]])
    if matrix.shape[0] * matrix.shape[1] > MOST_WEIGHTS and group is None:
        return _up_to(matrix, tree)
    rows = sp.csr_array(matrix.dense()) if group is None else _of_groups(group, matrix.shape[0])
    return _by_node(rows, tree, ROUNDING * largest_weights(rows))


def _up_to(matrix: Matrix, tree: Tree) -> NodeRows | None:
    """Prefix sums of values that are the last nodes, in this order; None for all else."""
    inner = matrix.inner if isinstance(matrix, PaddedMatrix) else matrix
    values = np.arange(inner.shape[1])
    told = isinstance(inner, PrefixMatrix) and np.array_equal(tree.of_value[: len(values)], values)
    return NodeRows(tree.depth, up_to=values) if told else None


def groups_of(matrix: Matrix) -> IntArray | None:
    """The group of every value, where rows count groups that hold all of them; None for others.

    Values that are never counted, missing ones, are groups of their own, behind the others.
    """
    if isinstance(matrix, PaddedMatrix):
        inner = groups_of(matrix.inner)
        more = np.arange(matrix.columns - matrix.inner.shape[1])
        return None if inner is None else np.append(inner, matrix.inner.shape[0] + more)
    if isinstance(matrix, TotalMatrix):
        return np.zeros(matrix.size, dtype=np.int64)
    if isinstance(matrix, IdentityMatrix):
        return np.arange(matrix.size)
    if isinstance(matrix, DenseMatrix):
        return _written_groups(matrix.values)
    return matrix.group if isinstance(matrix, GroupMatrix) else None


def _written_groups(rows: Array) -> IntArray | None:
    """The same of a matrix that is written down: every value is in one row, and each has some."""
    ones = rows == 1
    apart = (ones.sum(axis=0) == 1).all() and ones.any(axis=1).all()
    return ones.argmax(axis=0) if apart and np.count_nonzero(rows) == rows.shape[1] else None


def _of_groups(group: IntArray, count: int) -> sp.csr_array:
    """A row for each of the first groups, over the values."""
    entries = np.ones(len(group)), (group, np.arange(len(group)))
    return sp.csr_array(entries, shape=(int(group.max()) + 1, len(group)))[:count]


def _by_node(rows: sp.csr_array, tree: Tree, limits: Array) -> NodeRows | None:
    """Rows over the values as rows over the last nodes; None where one tells more apart than its
    limit."""
    weights = sp.csr_array(rows[:, first_of(tree.of_value)])
    told = (largest_weights(weights[:, tree.of_value] - rows) <= limits).all()
    return NodeRows(tree.depth, weights=weights, limits=limits) if told else None
