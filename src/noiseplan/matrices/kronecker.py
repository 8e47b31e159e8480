"""Kronecker products, applied one axis at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from noiseplan.matrices.base import Array, Matrix


def kronecker_apply(factors: Sequence[Matrix | Array], x: Array) -> Array:
    """Apply ⊗ factors to a batch of tensors.

    Parameters
    ----------
    factors
        One matrix (rows_i × n_i) per axis, structured or plain.
    x
        Shape (batch, n_1, …, n_k).

    Returns
    -------
    Array of shape (batch, rows_1, …, rows_k).

    Notes
    -----
    (F_1 ⊗ … ⊗ F_k) vec(X) multiplies each axis by its factor. The first axis is contracted and its
    rows are put last, k times over, so that the axes come back in their order.
    """
    batch = x.shape[0]
    for factor in factors:
        # (batch, n_i, rest) → (batch, rest, rows_i): one matrix product over contiguous memory.
        rest = x.reshape(batch, x.shape[1], -1)
        if isinstance(factor, Matrix):
            y = np.moveaxis(factor.matmul(np.moveaxis(rest, 1, 0)), 0, -1)
        else:
            y = np.matmul(rest.transpose(0, 2, 1), factor.T)
        x = y.reshape(batch, *x.shape[2:], y.shape[-1])
    return x


def kronecker_dense(factors: Sequence[Array]) -> Array:
    """⊗ factors as numbers (small sizes only); the empty product is the number one."""
    return reduce(np.kron, factors, np.ones((1, 1)))
