"""tr (Σ_k a_k G_k)^{1/2} of what is asked of ordered values, or less: what no mechanism beats.

Prefix sums, ranges and single values have Gram matrices that are known by their eigenvalues; groups
add a matrix of low rank. With A for the former, B = ZᵀΩZ for the latter (Z the parts that groups
make, over the values),

    tr (A+B)^{1/2} − tr A^{1/2} = (1/2π) ∫₀^∞ s^{−1/2} g(s) ds ,   g(s) = log det(I + ΩZ(A+s)⁻¹Zᵀ) ,

since ∫ s^{−1/2} (log(λ+s) − log s) ds = 2πλ^{1/2}. g falls and is convex, so that over an interval
its value at the weighted mean of s is no more than its mean; and s·g(s) grows, so that what is left
beyond t is at least 2t^{1/2}g(t). The sum over intervals and this is a bound.

(A+s)⁻¹ is that of a second difference D: for A = aD⁻¹ + b and c = b + s it is (I − aT⁻¹)/c, with
T = a + cD, whose inverse is a product of hyperbolic functions of the smaller and the larger place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.domain.series_kinds import SeriesKind
from noiseplan.matrices.base import Array

# Intervals of s in a factor of ten, and how far beyond all eigenvalues they go.
INTERVALS, BELOW, ABOVE = 6, 0.1, 10.0
# Parts that are put together exactly; where groups make more, they count by themselves only.
MOST_PARTS: Final = 1100


def root_trace(kinds: Sequence[SeriesKind], weights: Array) -> float:
    """Of one set of other attributes, its kinds with their weights; zero where it asks nothing."""
    pairs = [(kind, float(w)) for kind, w in zip(kinds, weights, strict=True) if w > 0]
    along = [pair for pair in pairs if pair[0].name in ("prefix", "ranges")]
    single = sum(w for kind, w in pairs if kind.name == "values")
    others = [pair for pair in pairs if pair[0].name in ("total", "groups")]
    known = _concave(kinds[0].values, single, [*along, *others])
    if not along or not others:
        return known
    return max(known, _with_groups(along, single, others))


def _concave(size: int, single: float, others: Sequence[tuple[SeriesKind, float]]) -> float:
    """Kinds that do not commute, put together from below.

    The trace of the root is concave and goes as the root of its argument, so that for θ_k ≥ 0
    with Σθ_k = 1

        tr (Σ_k A_k)^{1/2} ≥ Σ_k θ_k tr (A_k/θ_k)^{1/2} = Σ_k θ_k^{1/2} tr A_k^{1/2} ,

    which is at most, and for θ_k ~ (tr A_k^{1/2})² is, (Σ_k (tr A_k^{1/2})²)^{1/2}. The identity
    commutes with every one of them.
    """
    if not others:
        return size * float(np.sqrt(single))
    eigenvalues = [w * kind.eigenvalues for kind, w in others]
    alone = np.array([float(np.sqrt(values).sum()) for values in eigenvalues])
    shares = (alone**2 / (alone**2).sum()).tolist()
    pairs = zip(eigenvalues, shares, strict=True)
    each = [_with_single(values, share * single, size) for values, share in pairs]
    largest = max(_with_single(values, single, size) for values in eigenvalues)
    return max(largest, float(np.sqrt(np.square(each).sum())))


def _with_single(eigenvalues: Array, single: float, size: int) -> float:
    """tr (bI + G)^{1/2}."""
    rest = (size - len(eigenvalues)) * np.sqrt(single)
    return float(np.sqrt(single + eigenvalues).sum() + rest)


def _with_groups(
    along: Sequence[tuple[SeriesKind, float]],
    single: float,
    groups: Sequence[tuple[SeriesKind, float]],
) -> float:
    """Prefix sums or ranges with single values and groups; zero where groups make too many parts.

    Prefix sums are ranges over n + 1, and something positive semidefinite, which is left out
    where both are asked.
    """
    bounds = np.unique(np.concatenate([kind.bounds for kind, _ in groups]))
    if len(bounds) - 1 > MOST_PARTS:
        return 0.0
    size = along[0][0].values
    held = any(kind.name == "ranges" for kind, _ in along)
    weight = sum(w * (size + 1) if kind.name == "ranges" else w for kind, w in along)
    eigenvalues = next(k.eigenvalues for k, _ in along if k.name == "ranges" or not held)
    eigenvalues = weight * eigenvalues / ((size + 1) if held else 1)
    line = _Line(bounds, weight, held)
    known = _with_single(eigenvalues, single, size)
    most = sum(w * float(kind.eigenvalues.max()) for kind, w in groups)
    reach = BELOW * (single + eigenvalues.min()), ABOVE * (single + eigenvalues.max() + most)
    return known + _gained(line, single, groups, reach)


def _gained(
    line: _Line,
    single: float,
    groups: Sequence[tuple[SeriesKind, float]],
    reach: tuple[float, float],
) -> float:
    """(1/2π) ∫ s^{−1/2} g(s) ds, from below."""
    count = int(np.log10(reach[1] / reach[0]) * INTERVALS) + 2
    ends = np.concatenate([[0.0], np.geomspace(*reach, count)])
    weight = 2 * np.diff(np.sqrt(ends))
    means = 2 / 3 * np.diff(ends**1.5) / weight
    places = np.append(means, reach[1])
    weights = np.append(weight, 2 * np.sqrt(reach[1]))
    starts = [np.searchsorted(line.bounds, kind.bounds[:-1]) for kind, _ in groups]
    total = 0.0
    for s, w in zip(places.tolist(), weights.tolist(), strict=True):
        found = line.resolvent(single + s)
        seen = np.eye(len(found))
        for (_, each), start in zip(groups, starts, strict=True):
            sums = np.add.reduceat(found, start, axis=0)
            seen += each * np.repeat(sums, np.diff(start, append=len(found)), axis=0)
        total += w * float(np.linalg.slogdet(seen)[1])
    return total / (2 * np.pi)


@dataclass(frozen=True, eq=False)
class _Line:
    """Z(aD⁻¹ + c)⁻¹Zᵀ for parts between `bounds`; D is free at the first value, or held."""

    bounds: IntArray
    weight: float  # a
    held: bool

    def resolvent(self, c: float) -> Array:
        """For one c > 0."""
        sizes = np.diff(self.bounds).astype(np.float64)
        found = -self.weight * self._inverse(c)
        found[np.diag_indices(len(sizes))] += sizes
        return np.asarray(found / c)

    def _inverse(self, c: float) -> Array:
        """Z(a + cD)⁻¹Zᵀ: φ(i)ψ(j)/(c φ(n) sinh θ) for i ≤ j, with cosh θ = 1 + a/2c.

        φ = cosh θ(i + ½), or sinh θ(i + 1) where the first value is held, and ψ = sinh θ(n − j);
        all are divided by the exponentials they grow as.
        """
        size, start, stop = int(self.bounds[-1]), self.bounds[:-1], self.bounds[1:]
        half = np.sqrt(self.weight / c) / 2  # sinh(θ/2)
        theta = 2 * np.arcsinh(half)
        place = np.arange(size)
        rising = self._rising(theta, np.append(place, size))
        falling = -np.expm1(-2 * theta * (size - place)) / 2
        scale = c * rising[-1] * np.sinh(theta)
        rising = rising[:-1]
        part = np.repeat(np.arange(len(start)), stop - start)
        before = np.bincount(part, rising * np.exp(-theta * (stop[part] - place)))
        after = np.bincount(part, falling * np.exp(-theta * (place - start[part])))
        gaps = np.maximum(start[None, :] - stop[:, None], 0)
        upper = np.triu(np.outer(before, after) * np.exp(-theta * gaps), 1)
        found = upper + upper.T
        found[np.diag_indices(len(start))] = self._within(theta, rising, falling, part)
        return np.asarray(found / scale)

    def _rising(self, theta: float, place: IntArray) -> Array:
        """φ e^{−θi}."""
        if self.held:
            return np.asarray(np.exp(theta) * -np.expm1(-2 * theta * (place + 1.0)) / 2)
        return np.asarray(np.exp(theta / 2) * (1 + np.exp(-2 * theta * (place + 0.5))) / 2)

    def _within(self, theta: float, rising: Array, falling: Array, part: IntArray) -> Array:
        """Σ over all pairs of places of each part."""
        from scipy.signal import lfilter  # half a second to load, and few plans need it

        start, ratio = self.bounds[:-1], np.exp(-theta)
        earlier = lfilter([0.0, ratio], [1.0, -ratio], rising)  # Σ_{i<j} φ(i) e^{−θ(j−i)}
        place = np.arange(len(rising))
        earlier = earlier - earlier[start][part] * np.exp(-theta * (place - start[part]))
        return np.bincount(part, falling * (2 * earlier + rising)).astype(np.float64)
