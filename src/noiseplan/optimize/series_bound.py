"""tr (Σ_k a_k G_k)^{1/2} of what is asked of ordered values, or less: what no mechanism beats.

The identity commutes with every Gram matrix, so that with any one other kind the trace is exact,
Σ_i (b + aλ_i)^{1/2}. Kinds that do not commute are put together from below: the trace of the root
is concave and goes as the root of its argument, so that for θ_k ≥ 0 with Σθ_k = 1

    tr (Σ_k A_k)^{1/2} ≥ Σ_k θ_k tr (A_k/θ_k)^{1/2} = Σ_k θ_k^{1/2} tr A_k^{1/2} ,

which is at most, and for θ_k ~ (tr A_k^{1/2})² is, (Σ_k (tr A_k^{1/2})²)^{1/2}.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noiseplan.domain.series_kinds import SeriesKind
from noiseplan.matrices.base import Array


def root_trace(kinds: Sequence[SeriesKind], weights: Array) -> float:
    """Of one set of other attributes, its kinds with their weights; zero where it asks nothing."""
    size = kinds[0].values
    single = float(sum(w for kind, w in zip(kinds, weights, strict=True) if kind.name == "values"))
    others = [
        (kind.eigenvalues, float(w))
        for kind, w in zip(kinds, weights, strict=True)
        if w > 0 and kind.name != "values"
    ]
    if not others:
        return size * float(np.sqrt(single))
    alone = np.array([float(np.sqrt(w * values).sum()) for values, w in others])
    shares = alone**2 / (alone**2).sum()
    each = [_with_single(values, w, t * single, size) for (values, w), t in zip(others, shares)]  # noqa: B905
    largest = max(_with_single(values, w, single, size) for values, w in others)
    return max(largest, float(np.sqrt(np.square(each).sum())))


def _with_single(eigenvalues: Array, weight: float, single: float, size: int) -> float:
    """tr (bI + aG)^{1/2}."""
    rest = (size - len(eigenvalues)) * np.sqrt(single)
    return float(np.sqrt(single + weight * eigenvalues).sum() + rest)
