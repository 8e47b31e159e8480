"""σ² for given bases: how to share a privacy budget among the subsets that are measured.

With P_a the privacy weight and V_a the variance weight of the subsets of type a (times their number),

    minimise  Σ_a V_a σ²_a   subject to   Σ_a P_a / σ²_a ≤ c .

References
----------
ResidualPlanner+ (arXiv 2305.08175), Lemma 2.
"""

from __future__ import annotations

import numpy as np

from noiseplan.matrices.base import Array


def root_cost(privacy: Array, variance: Array) -> float:
    """J = Σ_a √(P_a V_a). The least weighted sum of variances at budget c is J²/c (Cauchy–Schwarz)."""
    return float(np.sqrt(privacy * variance).sum())


def share_for_sum(privacy: Array, variance: Array, budget: float) -> Array:
    """The σ²_a that attain J²/c: σ²_a = (J/c) √(P_a/V_a); infinite where V_a = 0 (not measured)."""
    with np.errstate(divide="ignore"):
        ratio = np.sqrt(privacy / variance)
    return np.asarray(root_cost(privacy, variance) / budget * ratio)


def spend(privacy: Array, sigma2: Array) -> float:
    """Σ_a P_a/σ²_a, the privacy cost."""
    return float((privacy / sigma2).sum())
