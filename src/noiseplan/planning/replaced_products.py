"""Bases of products for neighbours that replace one record by another.

With columns of unit length two records that agree on the attributes E pay (`residual_cost`)

    c_E = Σ_A σ_A⁻² · 2 (1 − ∏_{i∈A∖E} γ_i) ,    γ_i = min_{x≠y} ⟨U_ie_x, U_ie_y⟩ .

What is minimised is log Σ_A V_A σ²_A + log max_E c_E, over all U_i and all log σ²_A together. Both
kinds of largest, of c_E and of 1 − γ_i over pairs of values, are p-norms with p rising, each step
started where the last one ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import comb
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.optimize.lbfgs import minimise
from noiseplan.optimize.split_coordinates import Chart, Point
from noiseplan.planning.free_split import inverse_gradients, subset_slopes
from noiseplan.planning.workload_types import Design, subset_counts

POWERS: Final = (16.0, 100.0, 600.0, 3000.0)
STEPS: Final = 150
# Values of an attribute, and patterns of agreement × subsets × roles, up to which it is tried.
LONGEST, MOST_PATTERNS = 128, 1 << 20


def worth_descending(design: Design) -> bool:
    """Whether a step takes no more than a moment."""
    members = [len(role.members) + 1.0 for role in design.roles.roles]
    size = np.prod(members) * design.terms.subsets * len(members)
    return bool(size <= MOST_PATTERNS and max(map(design.group_count, design.free)) <= LONGEST)


def descended(design: Design, rows: dict[int, Array], sigma2: Array) -> dict[int, Array]:
    """U of every free role, from a start with its σ²; what is exact there stays so."""
    chart, patterns = Chart.of(rows), _Patterns(design)
    noisy = np.isfinite(sigma2) & (sigma2 > 0)
    x = np.concatenate([np.log(sigma2[noisy]), chart.pack(rows)])
    for power in POWERS:
        x = Descent(design, chart, patterns, noisy, power).run(x, STEPS)
    return {r: p.rows for r, p in chart.points(x[int(noisy.sum()) :]).items()}


class Costs(Protocol):
    """The largest cost of two records, as a p-norm."""

    def cost(
        self, points: dict[int, Point], precision: Array, power: float
    ) -> tuple[float, Array, dict[int, Array]]:
        """The norm, and its slopes by 1/σ² and by every U."""


@dataclass(frozen=True, eq=False)
class Descent:
    """log(total variance · largest cost), for one power of the norms, and the way down."""

    design: Design
    chart: Chart
    costs: Costs
    noisy: NDArray[np.bool_]  # which subset types are measured with noise
    power: float

    def run(self, x: Array, steps: int) -> Array:
        """Downhill from log σ² of what is noisy, and every U."""
        return minimise(self.value, x, steps=steps, gain=1e-10)[1]

    def value(self, x: Array) -> tuple[float, Array]:
        """The objective and its gradient."""
        count = int(self.noisy.sum())
        precision = np.zeros(len(self.noisy))
        precision[self.noisy] = np.exp(-x[:count])
        try:
            points = self.chart.points(x[count:])
        except np.linalg.LinAlgError:  # M singular: worse than anything, so the search turns back
            return 1e6, np.zeros_like(x)
        total, by_noise, by_inverse = self._variance(points, np.exp(x[:count]))
        cost, by_precision, by_rows = self.costs.cost(points, precision, self.power)
        by_rows = {r: slope / cost for r, slope in by_rows.items()}
        by_inverse = {r: slope / total for r, slope in by_inverse.items()}
        restraint = self.chart.restraint(points, by_inverse)
        by_log = (
            by_noise * np.exp(x[:count]) / total - (by_precision * precision)[self.noisy] / cost
        )
        gradient = self.chart.pull_back(points, by_inverse, by_rows)
        value = float(np.log(total) + np.log(cost)) + restraint
        return value, np.concatenate([by_log, gradient])

    def _variance(
        self, points: dict[int, Point], sigma2: Array
    ) -> tuple[float, Array, dict[int, Array]]:
        """Σ V_A σ²_A, V, and the gradient with respect to every T."""
        design = self.design
        inverses = {r: point.inverse for r, point in points.items()}
        products = design.products(inverses)
        moments = design.moments(inverses, products)
        every = np.zeros(len(self.noisy))
        every[self.noisy] = sigma2
        variance, *slopes = subset_slopes(design, moments, lambda _: every)
        by_inverse = inverse_gradients(design, points, products, *slopes)
        return float(variance @ every), variance[self.noisy], by_inverse


def p_norm(costs: Array, power: float) -> tuple[float, Array]:
    """‖c‖_p, and its gradient."""
    largest = float(costs.max())
    share = np.maximum(costs, 0.0) / largest
    norm = float((share**power).sum() ** (1 / power))
    return norm * largest, np.asarray((share / norm) ** (power - 1))


@dataclass(frozen=True, eq=False)
class _Farthest:
    """γ as 1 − ‖1 − g‖_p over pairs of columns, and its gradient by U."""

    low: float
    slope: Array

    @staticmethod
    def of(rows: Array, power: float) -> _Farthest:
        apart = np.maximum(1.0 - rows.T @ rows, 0.0)
        np.fill_diagonal(apart, 0.0)
        largest = max(float(apart.max()), 1e-300)
        share = apart / largest
        norm = float((0.5 * (share**power).sum()) ** (1 / power))  # every pair is there twice
        weights = (share / norm) ** (power - 1)
        return _Farthest(1.0 - largest * norm, rows @ weights)


class _Patterns:
    """2 (1 − ∏ γ) of every subset type for every pattern of agreement, and slopes by every γ."""

    def __init__(self, design: Design) -> None:
        self.counts = subset_counts(design)
        self.members = [len(role.members) for role in design.roles.roles]
        self.plain = {r: role.size for r, role in enumerate(design.roles.roles) if role.plain}

    def cost(
        self, points: dict[int, Point], precision: Array, power: float
    ) -> tuple[float, Array, dict[int, Array]]:
        """The norm, and its slopes by 1/σ² and by every U."""
        far = {r: _Farthest.of(point.rows, power) for r, point in points.items()}
        rows, by_low = self.rows({r: f.low for r, f in far.items()})
        norm, weights = p_norm(rows @ precision, power)
        slopes = {r: float(weights @ (by_low[r] @ precision)) * f.slope for r, f in far.items()}
        return norm, weights @ rows, slopes

    @cached_property
    def agreeing(self) -> IntArray:
        """Patterns × roles: how many attributes of each agree; not all of them."""
        return np.array(list(product(*(range(n + 1) for n in self.members))))[:-1]

    @cached_property
    def _ways(self) -> list[Array]:
        """Of each role, for e that agree and a in a set: ways that so many of these disagree."""
        most = self.counts.max(axis=0, initial=0).tolist()
        return [_ways(n, a) for n, a in zip(self.members, most, strict=True)]

    def rows(self, low: dict[int, float]) -> tuple[Array, dict[int, Array]]:
        """Patterns × subset types, and their derivatives by γ of the free roles."""
        parts, whole, slopes = [], np.ones(len(self.counts)), {}
        for r, ways in enumerate(self._ways):
            value, beta = self._reach(r, low)
            table, slope = _tables(ways, value, beta)
            at = self.agreeing[:, r, None], self.counts[None, :, r]
            parts.append(table[at])
            slopes[r] = slope[at]
            whole = whole * table[-1, self.counts[:, r]]
        shared = np.prod(parts, axis=0)
        by_low = {
            r: -2.0 * slopes[r] * np.prod([p for s, p in enumerate(parts) if s != r], axis=0)
            for r in low
        }
        return 2.0 * (whole - shared), by_low

    def _reach(self, r: int, low: dict[int, float]) -> tuple[float, float]:
        """γ and β: of unit columns, of a plain role, or nothing where the sum is all there is."""
        if r in low:
            return low[r], 1.0
        n = self.plain.get(r, 1)
        return -1.0 / n, (n - 1.0) / n


def _ways(members: int, most: int) -> Array:
    """C(e, a − k) C(n − e, k) for e agreeing, a in the set and k of these not agreeing."""
    ways = np.zeros((members + 1, most + 1, most + 1))
    for agree, a in product(range(members + 1), range(most + 1)):
        ways[agree, a, : a + 1] = [
            comb(agree, a - k) * comb(members - agree, k) for k in range(a + 1)
        ]
    return ways


def _tables(ways: Array, low: float, high: float) -> tuple[Array, Array]:
    """Σ_k ways · β^{a−k} γ^k, and its derivative by γ."""
    size = ways.shape[1]
    a, k = np.arange(size)[:, None], np.arange(size)
    agreeing = high ** np.maximum(a - k, 0)
    slope = k * low ** np.maximum(k - 1.0, 0.0)
    return (ways * agreeing * low**k).sum(axis=2), (ways * agreeing * slope).sum(axis=2)
