"""Noise scales within ε: exact numbers of few bits, and what they cost, rounded up."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from noiseplan.errors import PlanError, setting
from noiseplan.matrices.base import Array
from noiseplan.noise.discrete import LARGEST_SCALE
from noiseplan.planning.integers import COARSE_BITS, FEW_TYPES, FINE_BITS, round_up
from noiseplan.privacy.rounding import fraction_up, sum_up


def scales_within(
    norms: Sequence[Fraction], counts: Sequence[int], shares: Array, epsilon: float
) -> Array:
    """The scale b of each type of table, from its share of ε; infinite where it has none.

    Tables of a type have the L1 norm q and there are N of them: b = N q/(share · ε), rounded up to
    a number of a few bits. What all of them cost is then at most ε, to the last digit.
    """
    with np.errstate(divide="ignore"):
        wanted = np.array(
            [float(n * q) for n, q in zip(counts, norms, strict=True)]
        ) / (shares * epsilon)  # fmt: skip
    digits = FINE_BITS if len(wanted) <= FEW_TYPES else COARSE_BITS
    for extra in (0.0, 1e-15, 1e-14, 1e-12, 1e-9):  # rounding of shares and quotients
        scales = round_up(wanted * (1 + extra), digits)
        if cost_of(norms, counts, scales) <= epsilon:
            return scales
    raise PlanError(f"no noise scales were found within ε = {epsilon}: this is a bug")


def cost_of(norms: Sequence[Fraction], counts: Sequence[int], scales: Array) -> float:
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
