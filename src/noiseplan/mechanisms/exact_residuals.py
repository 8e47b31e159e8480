"""From counts to residuals: fast in floating point, exact in integers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.errors import DataError, PlanError
from noiseplan.matrices import (
    CentringMatrix,
    IdentityMatrix,
    Matrix,
    Transform,
    kronecker_apply,
)
from noiseplan.matrices.base import Array
from noiseplan.noise.law import Noise, Sampler

# Integers up to here are exact in double precision, and so are sums and products that stay below.
EXACT: Final = 2**53
# Residuals stay below this, and so does the noise: their sum fits 64 bits.
LARGEST: Final = 2**62
# One part in so many is kept free of it, against rounding.
ROOM: Final = 10**9
# The most records that are released: one number for all plans, so that no refusal for too many
# records depends on what was planned.
RECORDS: Final = 5 * 10**11


def noisy_residuals(
    rows: Sequence[Array | Matrix], counts: NDArray[np.number], noise: Noise, sample: Sampler
) -> NDArray[np.number]:
    """(⊗U_i) x + z, the batch last: in integers where the noise is exact."""
    if noise.exact:
        whole = integer_residuals(rows, counts)
        return with_noise(whole, sample(whole.shape, noise))
    plain = kronecker_apply(rows, batch_last(counts))
    return np.asarray(plain + sample(plain.shape, noise))


def batch_last(counts: NDArray[np.number]) -> Array:
    """(batch, n_1, …, n_k) to (n_1, …, n_k, batch); converted first, since that copies faster."""
    flat = counts.reshape(len(counts), -1).astype(np.float64)
    return np.ascontiguousarray(flat.T).reshape(*counts.shape[1:], len(counts))


def largest_entry(rows: Sequence[Array | Matrix]) -> int:
    """∏ max |U_i|: the most one record can change a number of (⊗U_i)x."""
    return prod(_largest(u) for u in rows)


def _largest(u: Array | Matrix) -> int:
    if isinstance(u, (IdentityMatrix, Transform)):
        return 1
    return u.shape[1] if isinstance(u, Matrix) else int(np.abs(u).max(initial=0))


def require_whole(rows: Sequence[Array | Matrix]) -> None:
    """Refuse rows that are not of integers: fail closed, where privacy counts on integers.

    Cutting off the fractions of Ax makes it jump by one where x changes it by far less, and what a
    record costs would no longer be its column.
    """
    if not all(map(_whole, rows)):
        raise PlanError(
            "a mechanism of integers measures rows of whole numbers, and these are not: privacy "
            "is not promised for fractions; use continuous noise to simulate"
        )


def _whole(u: Array | Matrix) -> bool:
    if isinstance(u, CentringMatrix):
        return u.scale == 1
    if isinstance(u, Matrix):
        return isinstance(u, (IdentityMatrix, Transform))
    return bool(np.isfinite(u).all() and (u == np.rint(u)).all())


def integer_residuals(
    rows: Sequence[Array | Matrix], counts: NDArray[np.number]
) -> NDArray[np.int64] | NDArray[np.object_]:
    """(⊗U_i) x for integer U_i and counts, without rounding, the batch last.

    Every partial sum is at most (∏ max |U_i|) · Σ|x| in size. Below 2⁵³ floating-point products are
    therefore exact; below 2⁶² those of 64-bit integers are; beyond, Python's integers of any size.
    """
    require_whole(rows)
    tensor, entry = batch_last(counts), largest_entry(rows)
    if not np.issubdtype(counts.dtype, np.integer) and not (tensor == np.rint(tensor)).all():
        raise DataError(
            "the source's counts are not whole numbers of records; privacy is promised per record, "
            "so a source must count records, as a file or a frame does"
        )
    people = np.abs(tensor).reshape(-1, len(counts)).sum(axis=0).max(initial=0.0)
    people = people * (1 + 1 / ROOM)  # above the truth: the sum is right to 10⁻¹⁰ and better
    if not people < LARGEST:  # also where a count is not a number
        raise DataError("counts of so many records do not fit 64 bits; release parts of the data")
    if entry * people < EXACT:
        return kronecker_apply(rows, tensor).astype(np.int64)
    return _in_integers(rows, counts, np.int64 if entry * people < LARGEST else np.object_)


def _in_integers(
    rows: Sequence[Array | Matrix],
    counts: NDArray[np.number],
    kind: type[np.int64] | type[np.object_],
) -> NDArray[Any]:
    """(⊗U_i) x in 64-bit integers, or in Python's."""
    exact: Any = np.moveaxis(counts.astype(np.int64).astype(kind), 0, -1)
    for axis, u in enumerate(rows):
        if isinstance(u, IdentityMatrix):
            continue
        first = np.moveaxis(exact, axis, 0)
        if isinstance(u, CentringMatrix):
            exact = np.moveaxis(u.centred(first), 0, axis)
        elif isinstance(u, Transform):
            exact = np.moveaxis(u.sums(first), 0, axis)
        else:
            exact = np.moveaxis(np.tensordot(_whole_numbers(u, kind), first, axes=1), 0, axis)
    return np.ascontiguousarray(exact)


def _whole_numbers(u: Array | Matrix, kind: type[np.int64] | type[np.object_]) -> NDArray[Any]:
    """Entries that are floats of any size as integers of a kind."""
    if kind is np.int64:
        return np.asarray(u, np.int64)
    return np.array([[int(v) for v in row] for row in np.asarray(u)], dtype=np.object_)


def with_noise(
    exact: NDArray[np.int64] | NDArray[np.object_], noise: NDArray[np.number]
) -> NDArray[np.int64] | NDArray[np.float64]:
    """The exact sum of residuals and noise; rounded only afterwards, if 64 bits do not hold it.

    Both are below 2⁶² unless residuals are Python's integers. Whether the sum is rounded depends on
    noisy numbers alone, so it tells nothing that they do not.
    """
    if exact.dtype != np.object_:
        return np.asarray(exact + noise, dtype=np.int64)
    total = exact + noise
    fits = all(-(2**63) <= number < 2**63 for number in total.flat)
    return np.asarray(total.astype(np.int64 if fits else np.float64))
