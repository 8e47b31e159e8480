"""From counts to residuals: fast in floating point, exact in integers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.errors import DataError
from noiseplan.matrices import kronecker_apply
from noiseplan.matrices.base import Array

# Integers up to here are exact in double precision, and so are sums and products that stay below.
EXACT = 2**53


def batch_last(counts: NDArray[np.number]) -> Array:
    """(batch, n_1, …, n_k) to (n_1, …, n_k, batch); converted first, since that copies faster."""
    flat = counts.reshape(len(counts), -1).astype(np.float64)
    return np.ascontiguousarray(flat.T).reshape(*counts.shape[1:], len(counts))


def integer_residuals(rows: Sequence[Array], counts: NDArray[np.number]) -> IntArray:
    """(⊗U_i) x for integer U_i and counts, without rounding, the batch last.

    Counts are not negative, so every partial sum is at most (∏ max |U_i|) · Σx in size. Below 2⁵³
    floating-point products are therefore exact; beyond, Python's integers do the work.
    """
    largest = prod(int(np.abs(u).max(initial=0)) for u in rows)
    people = int(counts.reshape(len(counts), -1).sum(axis=1).max(initial=0))
    if largest * people < EXACT:
        return kronecker_apply(rows, batch_last(counts)).astype(np.int64)
    if largest * people >= 2**62:
        raise DataError(
            "the counts are too large for 64-bit residuals; plan with noise='gaussian', or over "
            "fewer attributes at a time"
        )
    exact = [u.astype(np.int64).astype(object) for u in rows]
    tensor = np.moveaxis(counts.astype(np.int64).astype(object), 0, -1)
    for axis, u in enumerate(exact):
        tensor = np.moveaxis(np.tensordot(u, tensor, axes=(1, axis)), 0, axis)
    return np.asarray(tensor, dtype=np.int64)
