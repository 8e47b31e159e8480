"""Rows over the values of an attribute, as rows over the nodes of its tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import scipy.sparse as sp

from noiseplan.arrays import IntArray, first_of
from noiseplan.domain.tree import Tree
from noiseplan.matrices import GroupMatrix, IdentityMatrix, Matrix, StackMatrix, TotalMatrix
from noiseplan.mechanisms.long_answers import ROUNDING
from noiseplan.mechanisms.tree_block import NodeRows

# Rows of other matrices over the long attribute are written down up to so many numbers.
MOST_WEIGHTS: Final = 1 << 24


def node_rows(matrix: Matrix, tree: Tree) -> Iterator[NodeRows | None]:
    """What rows over the values ask of the tree, piece by piece; None where it cannot tell."""
    if isinstance(matrix, StackMatrix):
        for block in matrix.blocks:
            yield from node_rows(block, tree)
        return
    count = matrix.shape[1]
    group = None
    if isinstance(matrix, TotalMatrix):
        group = np.zeros(count, dtype=np.int64)
    elif isinstance(matrix, IdentityMatrix):
        group = np.arange(count)
    elif isinstance(matrix, GroupMatrix):
        group = matrix.group
    found = None if group is None else tree.level_of(group)
    if found is not None:
        yield NodeRows(found[0], nodes=found[1])
        return
    if matrix.shape[0] * matrix.shape[1] > MOST_WEIGHTS and group is None:
        yield None
        return
    rows = sp.csr_array(matrix.dense()) if group is None else _of_groups(group)
    yield by_node(rows, tree, ROUNDING * abs(rows).max())


def _of_groups(group: IntArray) -> sp.csr_array:
    """A row for each group, over the values."""
    entries = np.ones(len(group)), (group, np.arange(len(group)))
    return sp.csr_array(entries, shape=(int(group.max()) + 1, len(group)))


def by_node(rows: sp.csr_array, tree: Tree, limit: float) -> NodeRows | None:
    """Rows over the values as rows over the last nodes; None where they tell more apart."""
    weights = sp.csr_array(rows[:, first_of(tree.of_value)])
    told = abs(weights[:, tree.of_value] - rows).max() <= limit
    return NodeRows(tree.depth, weights=weights) if told else None
