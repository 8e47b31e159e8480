"""Quadratic forms of the rows of Kronecker products, and the sums they are dual to.

For W = ⊗W_i over a small domain,

    forms(S) = diag(W S Wᵀ)   and   weighted_gram(u) = Wᵀ diag(u) W

are adjoint to each other: ⟨u, forms(S)⟩ = ⟨weighted_gram(u), S⟩. Both go one axis at a time, and
none ever writes out the rows of prefix sums or ranges: all ranges over 2,048 cells are two million
rows, but their forms are four terms each of one table of sums.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noiseplan.errors import QueryError
from noiseplan.matrices.base import Array, Matrix
from noiseplan.matrices.basic import IdentityMatrix, PrefixMatrix, RangesMatrix, TotalMatrix
from noiseplan.matrices.permuted import PermutedMatrix
from noiseplan.matrices.stack import StackMatrix

# Other matrices are written out so many numbers at a time.
AT_ONCE = 2**24


def kronecker_forms(factors: Sequence[Matrix], s: Array) -> Array:
    """diag(W S Wᵀ) for W = ⊗ factors and a symmetric S over the domain.

    Returns
    -------
    Array of shape (rows_1, …, rows_k).

    Examples
    --------
    >>> kronecker_forms([PrefixMatrix(2), TotalMatrix(2)], np.eye(4)).tolist()
    [[2.0], [4.0]]
    """
    shape, k = tuple(factor.shape[1] for factor in factors), len(factors)
    _check_square(shape, s)
    tensor = s.reshape(*shape, *shape)
    # What shrinks most goes first.
    for i in sorted(range(k), key=lambda i: factors[i].shape[0] / factors[i].shape[1] ** 2):
        front = np.moveaxis(tensor, (i, k + i), (0, 1))
        found = axis_forms(factors[i], front.reshape(shape[i], shape[i], -1))
        tensor = np.moveaxis(found.reshape(-1, 1, *front.shape[2:]), (0, 1), (i, k + i))
    return tensor.reshape(tuple(factor.shape[0] for factor in factors))


def kronecker_gram(factors: Sequence[Matrix], weights: Array) -> Array:
    """Wᵀ diag(u) W for W = ⊗ factors; u has the shape (rows_1, …, rows_k).

    Examples
    --------
    >>> kronecker_gram([PrefixMatrix(2)], np.array([1.0, 10.0])).tolist()
    [[11.0, 10.0], [10.0, 10.0]]
    """
    rows, k = tuple(factor.shape[0] for factor in factors), len(factors)
    tensor = weights.reshape(*rows, *(1,) * k)
    # What grows most goes last.
    for i in sorted(range(k), key=lambda i: factors[i].shape[1] ** 2 / factors[i].shape[0]):
        n, front = factors[i].shape[1], np.moveaxis(tensor, (i, k + i), (0, 1))
        found = axis_gram(factors[i], front.reshape(rows[i], -1))
        tensor = np.moveaxis(found.reshape(n, n, *front.shape[2:]), (0, 1), (i, k + i))
    size = int(np.prod([factor.shape[1] for factor in factors]))
    return np.ascontiguousarray(tensor.reshape(size, size))


def axis_forms(matrix: Matrix, t: Array) -> Array:
    """Σ_ij w_i w_j t_ij for every row w: t of shape (n, n, batch) to (rows, batch)."""
    n = matrix.shape[1]
    if isinstance(matrix, IdentityMatrix):
        return t[np.arange(n), np.arange(n)]
    if isinstance(matrix, TotalMatrix):
        return np.asarray(t.sum(axis=(0, 1)))[None]
    if isinstance(matrix, PrefixMatrix):
        sums = _sums(t)
        return sums[np.arange(n), np.arange(n)]
    if isinstance(matrix, RangesMatrix):
        sums = np.zeros((n + 1, n + 1, t.shape[2]))
        sums[1:, 1:] = _sums(t)
        first, last = matrix.bounds()
        start, stop = first, last + 1
        found = sums[stop, stop] + sums[start, start]
        found -= sums[start, stop]
        found -= sums[stop, start]
        return found
    if isinstance(matrix, StackMatrix):
        return np.concatenate([axis_forms(block, t) for block in matrix.blocks])
    if isinstance(matrix, PermutedMatrix):
        order = np.array(matrix.order)
        return axis_forms(matrix.inner, t[np.ix_(order, order)])
    pieces = []
    for rows in _batches(matrix, t.shape[2]):
        w = matrix.take(rows)
        half = (w @ t.reshape(n, -1)).reshape(len(w), n, -1)
        pieces.append(np.einsum("ri,rib->rb", w, half))
    return np.concatenate(pieces)


def axis_gram(matrix: Matrix, u: Array) -> Array:
    """Σ_r u_r w_r w_rᵀ: u of shape (rows, batch) to (n, n, batch)."""
    n, cells = matrix.shape[1], np.arange(matrix.shape[1])
    if isinstance(matrix, IdentityMatrix):
        diagonal = np.zeros((n, n, u.shape[1]))
        diagonal[cells, cells] = u
        return diagonal
    if isinstance(matrix, TotalMatrix):
        return np.broadcast_to(u[0], (n, n, u.shape[1]))
    if isinstance(matrix, PrefixMatrix):
        # Values i and j are both counted by the rows from max(i, j) on.
        tails = np.cumsum(u[::-1], axis=0)[::-1]
        return tails[np.maximum.outer(cells, cells)]
    if isinstance(matrix, RangesMatrix):
        # Values i ≤ j are both counted by the ranges that start by i and end at j or later.
        first, last = matrix.bounds()
        by_ends = np.zeros((n, n, u.shape[1]))
        by_ends[first, last] = u
        np.cumsum(by_ends, axis=0, out=by_ends)
        sums = np.cumsum(by_ends[:, ::-1], axis=1)[:, ::-1]
        return sums[np.minimum.outer(cells, cells), np.maximum.outer(cells, cells)]
    if isinstance(matrix, StackMatrix):
        ends = np.cumsum([block.shape[0] for block in matrix.blocks])[:-1]
        parts = zip(matrix.blocks, np.split(u, ends), strict=True)
        return np.asarray(sum(axis_gram(block, part) for block, part in parts))
    if isinstance(matrix, PermutedMatrix):
        back = np.argsort(matrix.order)
        return axis_gram(matrix.inner, u)[np.ix_(back, back)]
    total = np.zeros((n, n * u.shape[1]))
    for rows in _batches(matrix, u.shape[1]):
        w = matrix.take(rows)
        total += w.T @ (w[:, :, None] * u[rows][:, None, :]).reshape(len(w), -1)
    return total.reshape(n, n, -1)


def _sums(t: Array) -> Array:
    """Sums over all values up to i and up to j."""
    sums = np.cumsum(t, axis=0)
    return np.cumsum(sums, axis=1, out=sums)


def _batches(matrix: Matrix, batch: int) -> list[np.ndarray[tuple[int], np.dtype[np.intp]]]:
    rows, n = matrix.shape
    count = -(-rows * n * max(batch, 1) // AT_ONCE)
    return np.array_split(np.arange(rows), min(max(count, 1), rows))


def _check_square(shape: tuple[int, ...], s: Array) -> None:
    size = int(np.prod(shape))
    if s.shape != (size, size):
        raise QueryError(
            f"factors of widths {shape} need a matrix over {size:,} cells, found shape {s.shape}"
        )
