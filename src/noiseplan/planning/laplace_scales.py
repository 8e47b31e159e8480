"""Laplace noise within ε: rows of integers, their L1 norms, scales of few bits, the exact cost."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from noiseplan.errors import PlanError, setting
from noiseplan.matrices.base import Array
from noiseplan.noise.discrete import LARGEST_SCALE
from noiseplan.noise.sizes import sizes_above
from noiseplan.privacy.rounding import fraction_up, sum_up


def scales_within(
    norms: Sequence[Fraction], counts: Sequence[int], shares: Array, epsilon: float
) -> Array:
    """The scale b of each type of table, from its share of ε; infinite where it has none.

    Tables of a type have the L1 norm q and there are N of them: b = N q/(share · ε), rounded up to
    a number of a few bits. What all of them cost is then at most ε, to the last digit.
    """
    with np.errstate(divide="ignore"):
        prices = np.array([float(n * q) for n, q in zip(counts, norms, strict=True)])
        wanted = prices / (shares * epsilon)
    for extra in (0.0, 1e-15, 1e-14, 1e-12, 1e-9):  # rounding of shares and quotients
        scales = sizes_above(wanted * (1 + extra))
        if epsilon_of(norms, counts, scales) <= epsilon:
            return scales
    raise PlanError(f"no noise scales were found within ε = {epsilon}: this is a bug")


def epsilon_of(norms: Sequence[Fraction], counts: Sequence[int], scales: Array) -> float:
    """ε = Σ N q/b, every quotient and the sum rounded up.

    One record is in one cell of every table; the column of ⊗S_i for its cell has the L1 norm
    ∏ ‖column of S_i‖₁, which is largest for a record that has the dearest value of every attribute,
    for all tables at once. So the sum of the tables' norms over their scales is the exact ε.
    """
    return sum_up(
        fraction_up(Fraction(n) * q / Fraction(float(b)))
        for n, q, b in zip(counts, norms, scales, strict=True)
        if np.isfinite(b)
    )


def require_drawable(scales: Array) -> None:
    """Refuse noise that might not fit 64-bit integers."""
    largest = float(scales[np.isfinite(scales)].max(initial=0.0))
    if largest > LARGEST_SCALE:
        raise PlanError(
            f"the plan needs Laplace noise of scale {largest:.3g}, and at most 2^48 can be drawn: "
            f"plan fewer tables or a larger budget, or use "
            + setting("noise", "laplace")
            + " to simulate"
        )


def integer_rows(matrix: Array, bits: int) -> Array:
    """An integer multiple of about the same strategy, entries of at most `bits` bits.

    A strategy that is of zeros and ones up to scale stays what it is, and no row of one value
    becomes zero: a faint one may be all that tells this value from others.
    """
    largest = np.abs(matrix).max()
    if np.isin(np.abs(matrix), (0.0, largest)).all():
        return np.asarray(np.rint(matrix / largest))
    rounded = np.rint(matrix / largest * 2.0**bits)
    lost = ~rounded.any(axis=1) & (np.count_nonzero(matrix, axis=1) == 1)
    rounded[lost] = np.sign(matrix[lost])
    return _levelled(rounded[rounded.any(axis=1)], np.abs(matrix).sum(axis=0) / largest * 2.0**bits)


def _levelled(rounded: Array, norms: Array) -> Array:
    """The same with the L1 norm of each column as it should be, by its largest entry.

    Rounding makes some columns longer, and the longest one is paid for by all.
    """
    columns = np.arange(rounded.shape[1])
    at = np.abs(rounded).argmax(axis=0)
    largest = rounded[at, columns]
    changed = np.abs(largest) + np.floor(norms) - np.abs(rounded).sum(axis=0)
    result = rounded.copy()
    result[at, columns] = np.sign(largest) * np.maximum(changed, 1.0)
    return result


def largest_norm(matrix: Array) -> Fraction:
    """max_j Σ_r |A_rj|: exact for integers, rounded up otherwise."""
    size = np.abs(matrix)
    if (size == np.rint(size)).all() and size.max() * len(size) < 2**53:
        return Fraction(int(size.sum(axis=0).max()))
    near = size.sum(axis=0)
    close = np.flatnonzero(near >= near.max() * (1 - 1e-9))  # one of these has the largest
    return Fraction(max(sum_up(size[:, j].tolist()) for j in close))
