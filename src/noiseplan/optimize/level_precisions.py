"""Precisions of several levels that the same records pay for: the least sum of variances.

    minimise Σ_c tr(H_c Y_c⁺)   subject to   Σ_c a_c (Y_c)_jj ≤ 1  for every cell j .

*Dual.* For any probability y on the cells (Σ_c √a_c ‖R_c diag(y)^{1/2}‖_*)², H_c = R_cᵀR_c, is a
lower bound, and the largest one is the optimum: Theorem 1 of docs/how-it-works.md for the Gram
matrix that has the blocks a_cH_c. All blocks have the same y, which is moved as in
`optimize.optimum`: it is multiplied by what records pay, and mixed with its own past.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.optimize.anderson import Ascent
from noiseplan.optimize.gram_roots import root_of
from noiseplan.optimize.optimum import (
    FARTHEST,
    FULL_STEP,
    MEMORY,
    SETTLED,
    SMALLEST_WEIGHT,
    PricedSpectrum,
)

STEPS: Final = 200


@dataclass(frozen=True, eq=False)
class Precisions:
    """Y_c = A_cᵀA_c of every level, by its rows; what they reach, a lower bound, y of the cells."""

    rows: list[Array]
    value: float
    bound: float
    weights: Array


def best_precisions(grams: list[Array], prices: Array, tolerance: float) -> Precisions:
    """The best Y_c for H_c and a_c, to a relative gap.

    Examples
    --------
    >>> one = best_precisions([np.array([[2.0, 1.0], [1.0, 1.0]])], np.ones(1), 1e-9)
    >>> round(one.value, 6)  # two prefix sums: (3 + √5)/2
    2.618034
    """
    roots = [np.sqrt(a) * root_of(gram) for gram, a in zip(grams, prices, strict=True)]
    ascent, point = Ascent(MEMORY, FARTHEST), np.zeros(len(grams[0]))
    best = Precisions([], np.inf, 0.0, np.exp(point))
    for _ in range(STEPS):
        weights = np.exp(point)
        weights /= weights.sum()
        spectra = [PricedSpectrum.of(root, weights) for root in roots]
        total = sum(float(part.singular.sum()) for part in spectra)
        diagonal = sum(part.diagonal() for part in spectra) / total
        bound = max(sum(part.surely() for part in spectra) ** 2, best.bound)
        value = total**2 * float(diagonal.max())
        if value < best.value:
            scale = np.sqrt(total * float(diagonal.max()) * prices)
            rows = [part.rows() / each for part, each in zip(spectra, scale, strict=True)]
            best = Precisions(rows, value, bound, weights)
        best = Precisions(best.rows, best.value, bound, best.weights)
        spread = float(weights @ (diagonal - 1.0) ** 2)
        if best.value <= best.bound * (1.0 + tolerance) or spread <= SETTLED:
            break
        residual = FULL_STEP * np.log(diagonal.clip(min=1e-300))
        point = ascent.next(point, total**2, residual, weights)
        point = (point - point.max()).clip(min=SMALLEST_WEIGHT)
    return best
