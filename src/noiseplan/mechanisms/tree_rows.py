"""Rows over the values of an attribute, as rows over the nodes of its tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import scipy.sparse as sp

from noiseplan.arrays import IntArray, first_of
from noiseplan.domain.tree import Tree
from noiseplan.matrices import (
    GroupMatrix,
    IdentityMatrix,
    Matrix,
    PaddedMatrix,
    PrefixMatrix,
    TotalMatrix,
)
from noiseplan.matrices.composed import stacked_parts
from noiseplan.mechanisms.long_answers import ROUNDING
from noiseplan.mechanisms.tree_block import NodeRows

# Rows of other matrices over the long attribute are written down up to so many numbers.
MOST_WEIGHTS: Final = 1 << 24


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
    return by_node(rows, tree, ROUNDING * abs(rows).max())


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
    return matrix.group if isinstance(matrix, GroupMatrix) else None


def _of_groups(group: IntArray, count: int) -> sp.csr_array:
    """A row for each of the first groups, over the values."""
    entries = np.ones(len(group)), (group, np.arange(len(group)))
    return sp.csr_array(entries, shape=(int(group.max()) + 1, len(group)))[:count]


def by_node(rows: sp.csr_array, tree: Tree, limit: float) -> NodeRows | None:
    """Rows over the values as rows over the last nodes; None where they tell more apart."""
    weights = sp.csr_array(rows[:, first_of(tree.of_value)])
    told = abs(weights[:, tree.of_value] - rows).max() <= limit
    return NodeRows(tree.depth, weights=weights) if told else None
