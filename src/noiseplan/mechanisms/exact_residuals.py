"""From counts to residuals: fast in floating point, exact in integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from math import ceil, prod
from operator import add
from typing import Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, all_whole
from noiseplan.errors import DataError, PlanError
from noiseplan.matrices import (
    CentringMatrix,
    IdentityMatrix,
    Matrix,
    Transform,
    kronecker_apply,
)
from noiseplan.matrices.base import Array
from noiseplan.matrices.kronecker import apply_along
from noiseplan.noise.law import Drawn, Noise, Sampler
from noiseplan.noise.wide_integers import BITS, WideIntegers, wide
from noiseplan.privacy.rounding import sum_up

# Integers up to here are exact in double precision, and so are sums and products that stay below.
EXACT: Final = 2**53
# Residuals stay below this, and so does the noise: their sum fits 64 bits. Beyond, there are limbs.
LARGEST: Final = 2**62
# Entries of a row that limbs are multiplied by, in all: products stay below 2⁵².
LONGEST_ROW: Final = 2**28
# One part in so many is kept free of it, against rounding.
ROOM: Final = 10**9
# The most records that are released: one number for all plans, so that no refusal for too many
# records depends on what was planned.
RECORDS: Final = 5 * 10**11
NOT_WHOLE: Final = (
    "a mechanism of integers measures rows of whole numbers, and these are not: privacy "
    "is not promised for fractions; use continuous noise to simulate"
)


def noisy_residuals(
    rows: Sequence[Array | Matrix], counts: NDArray[np.number], noise: Noise, sample: Sampler
) -> NDArray[np.number]:
    """(⊗U_i) x + z, the batch last: in integers where the noise is exact."""
    found = residuals(rows, counts, noise)
    return with_noise(found, sample(found.shape, noise))


def residuals(
    rows: Sequence[Array | Matrix], counts: NDArray[np.number], noise: Noise
) -> NDArray[np.number] | WideIntegers:
    """(⊗U_i) x, the batch last, as the noise is added to it: in integers where that is exact."""
    exact = noise.exact
    return integer_residuals(rows, counts) if exact else kronecker_apply(rows, batch_last(counts))


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


def require_fit(noise: Noise, rows: Iterable[Array | Matrix]) -> None:
    """Refuse rows of fractions under noise that is drawn in integers."""
    if not noise.takes(lambda: all(map(_whole, rows))):
        raise PlanError(NOT_WHOLE)


def _whole(u: Array | Matrix) -> bool:
    if isinstance(u, CentringMatrix):
        return u.scale == 1
    if isinstance(u, Matrix):
        return isinstance(u, (IdentityMatrix, Transform))
    return bool(np.isfinite(u).all()) and all_whole(u)


def integer_residuals(
    rows: Sequence[Array | Matrix], counts: NDArray[np.number]
) -> NDArray[np.int64] | WideIntegers:
    """(⊗U_i) x for integer U_i and counts, without rounding, the batch last.

    Every partial sum is at most (∏ max |U_i|) · Σ|x| in size. Below 2⁵³ floating-point products are
    therefore exact; beyond, those of limbs of 24 bits are. From 2⁶² on the numbers stay in limbs.
    """
    # Fail closed, where privacy counts on integers: cutting off the fractions of Ax makes it jump
    # by one where x changes it by far less, and a record would no longer cost what its column says.
    if not all(map(_whole, rows)):
        raise PlanError(NOT_WHOLE)
    require_whole(counts)
    tensor, entry = batch_last(counts), largest_entry(rows)
    people = np.abs(tensor).reshape(-1, len(counts)).sum(axis=0).max(initial=0.0)
    people = people * (1 + 1 / ROOM)  # above the truth: the sum is right to 10⁻¹⁰ and better
    if not people < LARGEST:  # also where a count is not a number
        raise DataError("counts of so many records do not fit 64 bits; release parts of the data")
    if entry * people < EXACT:
        return kronecker_apply(rows, tensor).astype(np.int64)
    exact = _in_limbs(rows, np.moveaxis(counts.astype(np.int64), 0, -1), ceil(people))
    return exact if entry * people >= LARGEST else exact.numbers().astype(np.int64, copy=False)


def mixed(rows: Array, numbers: Drawn) -> Drawn:
    """Σ_b M_ab x_b along the last axis: without rounding where the numbers are integers.

    Entries of M may be as large as they like, if they are whole: limbs are multiplied one by one.
    """
    if rows.shape == (1, 1) and rows[0, 0] == 1:
        return numbers
    if isinstance(numbers, np.ndarray) and numbers.dtype.kind == "f":
        return np.asarray(numbers @ rows.T)
    if not _whole(rows):
        raise PlanError(NOT_WHOLE)
    reach = int(max(map(sum_up, np.abs(rows).tolist()))) * _reach(numbers)
    if isinstance(numbers, np.ndarray) and reach < EXACT:
        return np.asarray((numbers.astype(np.float64) @ rows.T).astype(np.int64))
    exact, last = wide(numbers), len(numbers.shape) - 1
    products = [_times(u, exact, last, reach).shifted(offset) for u, offset in _parts(rows)]
    found = reduce(add, products)
    return found if reach >= LARGEST else found.numbers().astype(np.int64, copy=False)


def _reach(numbers: Drawn) -> int:
    """What none of these integers is larger than, without their signs."""
    if isinstance(numbers, WideIntegers):
        return int(2 ** (BITS * len(numbers.limbs)))
    return max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)), 1)


def require_whole(counts: NDArray[np.number]) -> None:
    """Refuse counts of fractions."""
    counts = np.asarray(counts)  # others may compare their numbers in ways of their own
    if not np.issubdtype(counts.dtype, np.integer) and not all_whole(counts):
        raise DataError(
            "the source's counts are not whole numbers of records; privacy is promised per record, "
            "so a source must count records, as a file or a frame does"
        )


def counts_for(noise: Noise, counts: NDArray[np.number]) -> NDArray[np.number]:
    """Counts as the numbers that noise is added to; refused where these are integers and they are
    none, or more than are ever released."""
    if not noise.takes(lambda: _few_enough(counts)):
        raise DataError(f"a release is of at most {RECORDS:,} records; release parts of the data")
    return counts.astype(noise.dtype)


def _few_enough(counts: NDArray[np.number]) -> bool:
    require_whole(counts)
    return float(np.abs(counts).sum()) <= RECORDS  # not so where a count is not a number


def _in_limbs(rows: Sequence[Array | Matrix], counts: IntArray, people: int) -> WideIntegers:
    """(⊗U_i) x, axis by axis, with no more limbs than so many people can need."""
    exact, reach = WideIntegers.of([(counts, 0)], people.bit_length()), people
    for axis, u in enumerate(rows):
        if not isinstance(u, IdentityMatrix):
            reach *= max(_largest(u), 1)
            products = [
                _times(part, exact, axis, reach).shifted(offset) for part, offset in _parts(u)
            ]
            exact = reduce(add, products)
    return exact


def _times(u: Array | Matrix, exact: WideIntegers, axis: int, reach: int) -> WideIntegers:
    """U x along an axis: limbs are below 2²⁴, rows of U at most 2²⁸ in all, so doubles will do."""
    limbs = apply_along(u, exact.limbs.astype(np.float64), axis + 1).astype(np.int64)
    return WideIntegers.of(((limb, BITS * i) for i, limb in enumerate(limbs)), reach.bit_length())


def _parts(u: Array | Matrix) -> list[tuple[Array | Matrix, int]]:
    """U = Σ part·2^offset, the entries of every row of a part at most 2²⁸ in all."""
    if isinstance(u, Matrix) or np.abs(u).sum(axis=1).max(initial=0.0) <= LONGEST_ROW:
        return [(u, 0)]
    parts: list[tuple[Array | Matrix, int]] = []
    bits, left = (LONGEST_ROW // u.shape[1]).bit_length() - 1, u
    while left.any():
        high = np.trunc(left * 2.0**-bits)
        parts.append((left - high * 2.0**bits, bits * len(parts)))
        left = high
    return parts


def with_noise(exact: Drawn, noise: Drawn) -> NDArray[np.number]:
    """The exact sum of residuals and noise; rounded only afterwards, if 64 bits do not hold it.

    Arrays of integers are below 2⁶² both, so their sum fits. Whether another sum is rounded depends
    on noisy numbers alone, so it tells nothing that they do not. What only notes the numbers it is
    added to is no plain array; it is given Python's integers.
    """
    if isinstance(noise, WideIntegers):
        return (wide(exact) + noise).numbers()
    if not isinstance(exact, WideIntegers):
        return np.asarray(exact + noise)
    if type(noise) is np.ndarray:
        return (exact + wide(noise)).numbers()
    return np.asarray(exact.python() + noise, dtype=np.float64)
