"""What every query has at least where it is planned alone with Gaussian noise, found at once.

Of all different records alike, the sum of variances at cost one is at least (`bounds`)

    ‖W‖_*²/n ,    or 2 (‖W‖_* − ‖W1‖/√n)² / (n − 1) where a record is replaced,

n different columns W of the query's own table; what is asked of a product is a product too. So is
the least largest variance, γ₂(W)², which is searched for one factor at a time. Plans of single
queries side by side come to no less, so that where this is too much none is looked for.

References
----------
T. Lee, A. Shraibman and R. Špalek 2008: γ₂(A ⊗ B) = γ₂(A) γ₂(B).
"""

from __future__ import annotations

from math import prod, sqrt
from typing import Final, NamedTuple

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.domain.series_kinds import SeriesKind
from noiseplan.matrices import (
    GroupMatrix,
    IdentityMatrix,
    Matrix,
    PaddedMatrix,
    PermutedMatrix,
    PrefixMatrix,
    RangesMatrix,
    StackMatrix,
)
from noiseplan.matrices.base import DENSE_LIMIT, Array
from noiseplan.optimize.fitness import least_cost
from noiseplan.planning.limits import SMALL_CELLS, SMALL_PROBLEM
from noiseplan.planning.problem import Problem
from noiseplan.queries import Query

# Singular values are worked out of matrices with no more rows or different columns than this.
MOST_ROWS: Final = 512
# The relative gap to which the least largest variance is searched for.
ROUGH: Final = 1e-3


class _Piece(NamedTuple):
    """‖W‖_*, n and ‖W1‖ of what is asked of one attribute, or of some of them together."""

    norm: float
    columns: int
    sums: float


def least_sums(problem: Problem) -> Array:
    """A lower bound on priority · sum of variances of each query at cost one."""
    replaced, known = problem.neighbours == "replace", dict[object, _Piece]()
    sums = [_least(query, replaced, known) for query in problem.workload]
    return np.asarray(problem.design.priorities * np.array(sums))


def least_largest(problem: Problem) -> Array:
    """A lower bound on priority · largest variance of each query at cost one, records added or
    removed; zero of matrices, and of factors that take long."""
    known = dict[object, float]()
    largest = [_largest(query, known) for query in problem.workload]
    return np.asarray(problem.design.priorities * np.array(largest))


def _largest(query: Query, known: dict[object, float]) -> float:
    if query.joint is not None:
        return 0.0
    found = 1.0
    for key, piece in zip(query.factors.values(), query.matrices(), strict=True):
        place = (key, piece.shape)
        if place not in known:
            known[place] = _largest_of(piece)
        found *= known[place]
    return found * (1 - 1e-9)


def _largest_of(matrix: Matrix) -> float:
    if isinstance(matrix, IdentityMatrix):
        return 1.0
    rows = matrix.shape[0]
    first = _different(matrix) if rows <= SMALL_PROBLEM else np.zeros(0, dtype=np.int64)
    if not len(first) or rows + len(first) > SMALL_PROBLEM or len(first) > SMALL_CELLS:
        return 0.0
    return float(least_cost(matrix.take_columns(first), np.ones(rows), tolerance=ROUGH).bound)


def _different(matrix: Matrix) -> IntArray:
    """One of all columns that are the same; none of zeros, of which a record costs nothing."""
    kinds, first = np.unique(matrix.column_kinds(), return_index=True)
    return np.asarray(first[kinds != 0])


def _least(query: Query, replaced: bool, known: dict[object, _Piece]) -> float:
    pieces = query.pieces
    keys = query.factors.values() if query.joint is None else [query.joint.tobytes()]
    for key, piece in zip(keys, pieces, strict=True):
        if (key, piece.shape) not in known:
            known[key, piece.shape] = _piece(piece)
    each = [known[key, piece.shape] for key, piece in zip(keys, pieces, strict=True)]
    norm, columns = prod(p.norm for p in each), prod(p.columns for p in each)
    if not replaced:
        return norm**2 / columns * (1 - 1e-9)
    left = max(norm - prod(p.sums for p in each) / sqrt(columns), 0.0)
    return 2 * left**2 / max(columns - 1, 1) * (1 - 1e-9)


def _piece(matrix: Matrix) -> _Piece:
    while isinstance(matrix, PaddedMatrix | PermutedMatrix):
        matrix = matrix.inner
    if isinstance(matrix, IdentityMatrix):
        return _Piece(float(matrix.shape[0]), matrix.shape[0], sqrt(matrix.shape[0]))
    if matrix.shape[1] > MOST_ROWS:
        long = _long_norm(matrix)
        if long is not None:
            return _Piece(long, matrix.shape[1], np.inf)
    first = _different(matrix)
    products = _products(matrix, first)
    if products is None or not len(first):
        return _Piece(0.0, 1, 0.0)
    norm = float(np.sqrt(np.maximum(np.linalg.eigvalsh(products), 0.0)).sum())
    alike = np.zeros((matrix.shape[1], 1))
    alike[first] = 1.0
    return _Piece(norm, len(first), float(np.linalg.norm(matrix.matmul(alike))))


def _products(matrix: Matrix, first: IntArray) -> Array | None:
    """WᵀW or WWᵀ of these columns, whichever is the smaller; None of large ones."""
    rows, columns = matrix.shape
    if columns <= min(rows, MOST_ROWS):
        return np.asarray(matrix.gram()[np.ix_(first, first)])
    if min(rows, len(first)) > MOST_ROWS or rows * len(first) > DENSE_LIMIT:
        return None
    written = matrix.take_columns(first)
    return np.asarray(written @ written.T if rows <= len(first) else written.T @ written)


def _long_norm(matrix: Matrix) -> float | None:
    """The nuclear norm of matrices that have a formula, or less of several of them together.

    ‖W‖_*² is at least the sum over parts of its rows: the root of a matrix is concave.
    """
    if isinstance(matrix, IdentityMatrix):
        return float(matrix.shape[0])
    if isinstance(matrix, GroupMatrix):
        return float(np.sqrt(np.bincount(matrix.group)).sum())
    if isinstance(matrix, PrefixMatrix | RangesMatrix):
        bounds = np.arange(matrix.shape[1] + 1)
        sums = isinstance(matrix, PrefixMatrix)
        kind = SeriesKind("prefix", bounds) if sums else SeriesKind("ranges", bounds)
        return float(np.sqrt(kind.eigenvalues).sum())
    if isinstance(matrix, StackMatrix):
        each = [_long_norm(block) for block in matrix.blocks]
        return sqrt(sum((norm or 0.0) ** 2 for norm in each)) or None
    return None
