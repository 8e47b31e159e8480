"""Kronecker products, applied one axis at a time to a batch of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from noiseplan.errors import QueryError
from noiseplan.matrices.base import Array, Matrix


def kronecker_apply(factors: Sequence[Matrix | Array], x: Array) -> Array:
    """Apply ⊗ factors to a batch of tensors.

    Parameters
    ----------
    factors
        One matrix (rows_i × n_i) per axis, structured or plain.
    x
        Shape (n_1, …, n_k, batch). The batch comes last so that every product is one matrix times a
        long row of columns, with nothing to transpose.

    Returns
    -------
    Array of shape (rows_1, …, rows_k, batch).

    Examples
    --------
    >>> from noiseplan.matrices import PrefixMatrix
    >>> table, total = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 1.0]])
    >>> kronecker_apply([PrefixMatrix(2), total], table[..., None])[..., 0].tolist()
    [[3.0], [10.0]]
    """
    widths = tuple(factor.shape[1] for factor in factors)
    if widths != x.shape[: len(widths)]:
        raise QueryError(
            f"factors of widths {widths} cannot be applied to a tensor of shape {x.shape}: "
            f"one factor per leading axis, as wide as the axis is long, then the batch"
        )
    for axis, factor in enumerate(factors):
        x = _apply_axis(factor, x, axis)
    return x


def _apply_axis(factor: Matrix | Array, x: Array, axis: int) -> Array:
    shape = x.shape
    before, after = prod(shape[:axis]), prod(shape[axis + 1 :])
    if isinstance(factor, Matrix):
        moved = factor.matmul(np.moveaxis(x, axis, 0))
        return np.moveaxis(moved, 0, axis)
    if after == 1:  # a last axis without a batch: rows times the transposed factor
        y = x.reshape(before, shape[axis]) @ factor.T
    elif after < 16 < before:  # short columns: one product over all, not `before` small ones
        y = np.tensordot(x.reshape(before, shape[axis], after), factor, axes=(1, 1)).swapaxes(1, 2)
    else:
        y = np.matmul(factor, x.reshape(before, shape[axis], after))
    return y.reshape(*shape[:axis], factor.shape[0], *shape[axis + 1 :])


def kronecker_dense(factors: Sequence[Array]) -> Array:
    """⊗ factors as numbers (small sizes only); the empty product is the number one.

    Examples
    --------
    >>> kronecker_dense([np.array([[1.0, 1.0]]), np.eye(2)]).tolist()
    [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]]
    """
    result: Array = np.ones((1, 1))
    for factor in factors:
        result = np.kron(result, factor).astype(np.float64, copy=False)
    return result
