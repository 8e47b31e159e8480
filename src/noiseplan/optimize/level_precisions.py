"""Precisions of several levels that the same records pay for: the least sum of variances.

    minimise Σ_c tr(H_c Y_c⁺)   subject to   Σ_c a_pc (Y_c)_jj ≤ 1  for every path p and cell j .

*Dual.* With H_c = R_cᵀR_c, (Σ_c ‖R_c diag(Σ_p a_pc y_p)^{1/2}‖_*)² is a lower bound for any y ≥ 0
on paths × cells that adds up to one, and the largest one is the optimum: Theorem 1 of
docs/how-it-works.md for the Gram matrix that has the blocks H_c. All blocks have the same y, which
is moved as in `optimize.optimum`: multiplied by what records pay, and mixed with its own past.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    """Y_c = A_cᵀA_c of every level, by its rows; what they reach, a lower bound, y of paths × cells
    (of cells, where prices are those of one path)."""

    rows: list[Array]
    value: float
    bound: float
    weights: Array


def best_precisions(grams: list[Array], prices: Array, tolerance: float) -> Precisions:
    """The best Y_c for H_c and a_c, or a_pc of some paths, to a relative gap.

    Examples
    --------
    >>> one = best_precisions([np.array([[2.0, 1.0], [1.0, 1.0]])], np.ones(1), 1e-9)
    >>> round(one.value, 6)  # two prefix sums: (3 + √5)/2
    2.618034
    """
    paths = np.atleast_2d(prices)
    roots = [root_of(gram) for gram in grams]
    ascent, point = Ascent(MEMORY, FARTHEST), np.zeros((len(paths), len(grams[0])))
    best = Precisions([], np.inf, 0.0, np.exp(point))
    for _ in range(STEPS):
        weights = np.exp(point)
        weights /= weights.sum()
        pairs = zip(roots, paths.T @ weights, strict=True)
        spectra = [PricedSpectrum.of(root, each) for root, each in pairs]
        total = sum(float(part.singular.sum()) for part in spectra)
        diagonal = paths @ np.array([part.diagonal() for part in spectra]) / total
        bound = max(sum(part.surely() for part in spectra) ** 2, best.bound)
        value = total**2 * float(diagonal.max())
        if value < best.value:
            scale = np.sqrt(total * float(diagonal.max()))
            best = Precisions([part.rows() / scale for part in spectra], value, bound, weights)
        best = replace(best, bound=bound)
        spread = float((weights * (diagonal - 1.0) ** 2).sum())
        if best.value <= best.bound * (1.0 + tolerance) or spread <= SETTLED:
            break
        residual = FULL_STEP * np.log(diagonal.clip(min=1e-300))
        point = ascent.next(point, total**2, residual, weights)
        point = (point - point.max()).clip(min=SMALLEST_WEIGHT)
    return best if prices.ndim > 1 else replace(best, weights=best.weights[0])
