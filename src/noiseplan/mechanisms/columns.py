"""The columns of a query over a domain: which are equal, and some of them as numbers."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray, unique_rows
from noiseplan.matrices import (
    DenseMatrix,
    IdentityMatrix,
    Matrix,
    PrefixMatrix,
    RangesMatrix,
    kronecker_dense,
)
from noiseplan.matrices.base import Array
from noiseplan.queries import Query

# Columns are compared entry by entry up to so many numbers, beyond factor by factor.
COMPARED: Final = 262_144


def column_kinds(query: Query) -> IntArray:
    """A number for each cell of the domain; cells of equal numbers have equal columns.

    Columns of queries with many rows are compared factor by factor: ⊗c_i = ⊗d_i if c_i = d_i for
    all i, or if some c_i and some d_i are zero. For rows of zeros and ones there is no other way;
    in general a few equal columns may keep different numbers, which costs nothing but size.

    Examples
    --------
    >>> from noiseplan.schema import Schema
    >>> schema = Schema.from_sizes({"a": 2, "b": 3})
    >>> column_kinds(Query(schema, ["a", "b"], matrix=[[1, 0, 0, 0, 1, 0]])).tolist()
    [1, 0, 0, 0, 1, 0]
    """
    sizes = [query.schema[name].size for name in query.attributes]
    if query.joint is not None:
        kinds = _equal_columns(query.joint)
    elif query.rows * prod(sizes) <= COMPARED:
        kinds = _equal_columns(kronecker_dense([m.dense() for m in query.matrices()]))
    else:
        kinds = _by_factor([_kinds_of_values(matrix) for matrix in query.matrices()])
    narrow = [query.schema[n].size if n in query.factors else 1 for n in query.schema.names]
    return np.broadcast_to(kinds.reshape(narrow), query.schema.shape).ravel()


def columns_at(query: Query, cells: IntArray) -> Array:
    """The columns of some cells of the domain, rows × cells."""
    names, schema = query.attributes, query.schema
    codes = dict(zip(schema.names, np.unravel_index(cells, schema.shape), strict=True))
    if query.joint is not None:
        sizes = [schema[name].size for name in names]
        return query.joint[:, np.ravel_multi_index([codes[n] for n in names], sizes)]
    rows = np.ones((1, len(cells)))
    for name, matrix in zip(names, query.matrices(), strict=True):
        rows = (rows[:, None, :] * matrix.dense()[None, :, codes[name]]).reshape(-1, len(cells))
    return rows


def _equal_columns(matrix: Array) -> IntArray:
    """Numbers of equal columns, compared exactly, 0 for the lexicographically least."""
    ranks = [np.unique(row, return_inverse=True)[1].reshape(-1) for row in matrix]
    return unique_rows(np.column_stack(ranks))[1]


def _kinds_of_values(matrix: Matrix) -> IntArray:
    """Numbers of equal columns of a factor, 0 where the column is zero.

    Of a factor with many rows the columns of WᵀW are compared: W(e_i − e_j) = 0 exactly if they are
    equal.
    """
    rows, size = matrix.shape
    if isinstance(matrix, IdentityMatrix | PrefixMatrix | RangesMatrix):  # all different
        return np.arange(1, size + 1)
    few = isinstance(matrix, DenseMatrix) or rows <= 4 * size
    told = matrix.dense() if few else matrix.gram()
    kinds = _equal_columns(told) + 1
    kinds[~(told != 0).any(axis=0)] = 0
    return kinds


def _by_factor(kinds: list[IntArray]) -> IntArray:
    """One number for each combination of kinds; 0 where one of them is 0."""
    grids = np.meshgrid(*kinds, indexing="ij")
    cells = np.stack([grid.ravel() for grid in grids], axis=1)
    cells[(cells == 0).any(axis=1)] = 0
    return unique_rows(cells)[1]
