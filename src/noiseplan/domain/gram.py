"""Gram matrices of workloads, which cells these tell apart, and the same over fewer cells.

Cells no query tells apart are one cell, and cells no query counts are none. Merging identical
columns and dropping zero columns changes neither the answers nor the least error (dissertation,
Definition 2.6 and Theorem 3.12), and the cost of every optimum grows with the cube of the number of
cells.

What counts as equal is said once, by `Matrix.column_kinds`: nothing but rounding is overlooked. A
query that comes later may differ as little from what was merged: `SAME` says by how much.

References
----------
C. Li, "Optimizing Linear Queries Under Differential Privacy", dissertation, 2013, section 2.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, immutable, joined_kinds
from noiseplan.errors import QueryError
from noiseplan.matrices import DenseMatrix
from noiseplan.matrices.base import Array, Matrix, exactly_equal_columns
from noiseplan.queries import Workload

# Up to so much, in units of the largest entry of a row, its columns of one group may differ.
SAME: Final = 1e-11


def told_apart(matrices: Iterable[Matrix], cells: int, most: int | None = None) -> IntArray:
    """The class of each cell, numbered by their first cells.

    Matrices refine the classes one after another, and the last are not looked at where all cells
    are told apart already, or more than `most` classes: then more may be told apart than stated.

    Examples
    --------
    >>> from noiseplan.matrices import DenseMatrix
    >>> one, two = np.array([[1.0, 0.0, 0.0, 1.0]]), np.array([[2.0, 0.0, 2.0, 2.0]])
    >>> told_apart([DenseMatrix(one), DenseMatrix(two)], 4).tolist()
    [0, 1, 2, 0]
    """
    enough = cells if most is None else min(cells, most + 1)
    classes = np.zeros(cells, dtype=np.int64)
    for matrix in matrices:
        classes = joined_kinds([classes, matrix.column_kinds()])
        if classes.max() + 1 >= enough:
            break
    return classes


def same_but_for_rounding(rows: Array, others: Array) -> bool:
    """Whether rows and what merging leaves of them differ in their last digits at most.

    Each row by its own size: a large one must not hide what a small one tells apart.
    """
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    return bool((np.abs(rows - others) <= SAME * largest).all())


def workload_gram(workload: Workload, priorities: Array | None = None) -> Array:
    """Σ_q w_q W_qᵀW_q over the whole (small) domain, with the workload's weights if none given."""
    weights = workload.columns.weights if priorities is None else priorities
    total = np.zeros((workload.schema.size, workload.schema.size))
    for query, weight in zip(workload, weights, strict=True):
        matrix = query.domain_matrix
        if isinstance(matrix, DenseMatrix):  # of few rows: faster than a symmetric product
            total += (weight * matrix.values.T) @ matrix.values
        else:
            total += weight * matrix.gram()
    return total


@immutable
@dataclass(frozen=True, eq=False)
class Reduction:
    """The new cell of every old one, or −1 where no query counts it.

    New cells are numbered by the first old cell in each.

    Examples
    --------
    >>> reduction = Reduction.of_columns(np.array([[1.0, 1.0, 0.0, 2.0]]))
    >>> reduction.groups.tolist(), reduction.size
    ([0, 0, -1, 1], 2)
    >>> reduction.counts(np.array([5.0, 6.0, 7.0, 8.0])).tolist()
    [11.0, 8.0]
    """

    groups: IntArray

    @staticmethod
    def of_columns(matrix: Array) -> Reduction:
        """From a workload's rows: equal columns, compared exactly, become one."""
        return Reduction(_groups(matrix, (matrix != 0).any(axis=0)))

    @staticmethod
    def of_gram(gram: Array) -> Reduction:
        """From WᵀW: where its columns i and j agree, ‖w_i − w_j‖² = 0."""
        return Reduction(_groups(gram, np.diagonal(gram) > 0))

    @property
    def size(self) -> int:
        """How many cells are left."""
        return int(self.groups.max(initial=-1)) + 1

    @cached_property
    def first(self) -> IntArray:
        """The first old cell of each new one."""
        seen = np.flatnonzero(self.groups >= 0)
        _, where = np.unique(self.groups[seen], return_index=True)
        return seen[where]

    @property
    def trivial(self) -> bool:
        """Whether every cell stays as it was."""
        return self.size == len(self.groups)

    def counts(self, x: Array) -> Array:
        """The counts of the new cells; those no query counts are left out."""
        inside = self.groups >= 0
        summed = np.bincount(self.groups[inside], weights=x[inside], minlength=self.size)
        return np.asarray(summed, dtype=np.float64)

    def columns(self, matrix: Array) -> Array:
        """A workload over the new cells."""
        return matrix[:, self.first]

    def gram(self, gram: Array) -> Array:
        """A Gram matrix over the new cells."""
        return gram[np.ix_(self.first, self.first)]

    def widened(self, matrix: Array) -> Array:
        """A strategy over the new cells as one over the old: columns repeated, or zero."""
        padded = np.concatenate([matrix, np.zeros((len(matrix), 1))], axis=1)
        return np.ascontiguousarray(padded[:, self.groups])  # −1 reads the zeros at the end


def _groups(matrix: Array, seen: NDArray[np.bool_]) -> IntArray:
    """Numbers of equal columns among those `seen`, −1 elsewhere."""
    if not seen.any():
        raise QueryError("the workload has only zeros: there is nothing to answer")
    groups = np.full(len(seen), -1, dtype=np.int64)
    groups[seen] = joined_kinds([exactly_equal_columns(matrix[:, seen])])
    return groups
