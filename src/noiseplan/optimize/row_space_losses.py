"""Convex losses of variances in the row space of a workload: the rank matters, not the cells.

    minimise f(v) ,    v_t = the mean of the variances h_j of the rows of query t ,

f convex and never decreasing. f lies above its tangents, as in `convex_losses`: with g = ∇f(u) at
any u, row prices μ_j = g_t/rows_t and N = N(λ, μ) as in `row_space_optimum`,

    f(v) ≥ f(u) − g·u + Σ_j μ_j h_j ≥ f(u) − g·u + N² .

At the optimum u = v. So logarithms of u move towards those of v, and those of λ with the costs,
mixed with their own past; both sides of the gap are known at every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.optimize.anderson import Ascent
from noiseplan.optimize.array_namespace import AnyArray
from noiseplan.optimize.convex_losses import FAINTEST, Loss, steepness
from noiseplan.optimize.optimum import FARTHEST, FULL_STEP, MEMORY, SMALLEST_WEIGHT, Watch
from noiseplan.optimize.priced_rows import PricedRows
from noiseplan.optimize.row_space_optimum import TINY, Priced, RowBasis, RowSpaceOptimum, bound_at

# Losses with kinks never get there.
MOST_STEPS = 60


@dataclass(frozen=True, eq=False)
class Means:
    """Rows l_j, and the query of each: v_t is the mean of its rows' variances."""

    rows: PricedRows
    owner: IntArray

    @cached_property
    def sizes(self) -> Array:
        """How many rows each query has."""
        return np.bincount(self.owner).astype(np.float64)

    def prices(self, slopes: Array) -> Array:
        """μ_j = g_t/rows_t."""
        return np.asarray((slopes / self.sizes)[self.owner])

    def of(self, variances: Array) -> Array:
        """v of these variances of rows."""
        return np.maximum(np.bincount(self.owner, variances) / self.sizes, TINY)


def least_mean_loss(
    asked: RowBasis,
    means: Means,
    loss: Loss,
    tolerance: float,
    watch: Watch = lambda gap: None,
    hopeless: float = np.inf,
) -> RowSpaceOptimum:
    """The least loss at cost one; the search ends before where no loss below `hopeless` is left."""
    search = _Tangents(asked, means, loss)
    for step in range(1, MOST_STEPS + 1):
        gap = search.visit()
        watch(max(gap, 0.0))
        if gap <= tolerance or search.bound >= hopeless or step == MOST_STEPS:
            break
        search.move()
    rows = search.best @ asked.basis
    return RowSpaceOptimum(rows, search.value, search.bound, *search.prices, step)


class _Tangents:
    """Where the tangent is taken (u), the weights of cells (λ), and the best of both sides."""

    def __init__(self, asked: RowBasis, means: Means, loss: Loss) -> None:
        self.asked, self.means, self.loss = asked, means, loss
        self.value, self.bound = np.inf, -np.inf
        self.best: AnyArray = None
        cells = asked.columns.cells
        self.point = np.zeros(len(means.sizes) + cells)
        even, alike = np.full(cells, 1.0 / cells), np.ones(len(means.sizes))
        found = Priced.of(self._inner(even), means.rows, means.prices(alike))
        first = means.of(found.variances) * found.total
        self.point[: len(first)] = np.log(first)
        self.damping = 1.0 / (1.0 + 0.5 * steepness(loss, first))
        self.scale, self.ascent = abs(loss(first)[0]) or 1.0, Ascent(MEMORY, FARTHEST)
        self.prices: tuple[AnyArray, AnyArray] = (None, None)

    def _inner(self, weights: Array) -> AnyArray:
        """K₁."""
        basis = self.asked.basis
        return basis @ self.asked.columns.moments(weights) @ basis.T

    def visit(self) -> float:
        """Both sides of the gap at this point; the gap, relative."""
        count = len(self.means.sizes)
        self.tangent, weights = np.exp(self.point[:count]), np.exp(self.point[count:])
        self.weights = weights / weights.sum()
        below, slope = self.loss(self.tangent)
        if not slope.any():
            raise PlanError("a loss that no variance changes has no best plan")
        # All must be answered, whether the loss sees it or not; the bound must not count it then.
        raised, inner = np.maximum(slope, FAINTEST * slope.max()), self._inner(self.weights)
        found = Priced.of(inner, self.means.rows, self.means.prices(raised))
        least = found.bound
        if (raised > slope).any():
            least = bound_at(inner, self.means.rows.moments(self.means.prices(slope)))
        self.height = below - float(slope @ self.tangent) + least
        if self.height > self.bound:
            self.bound, self.prices = self.height, (self.means.prices(slope), self.weights)
        self._keep(found)
        share = slope * self.reached
        self.norm = np.concatenate([share / share.sum(), self.weights])
        return float((self.value - self.bound) / (abs(self.value) or 1.0))

    def _keep(self, found: Priced) -> None:
        """The costs and variances of the best covariance, and itself if it is the best so far."""
        rows = found.inverse @ self.asked.basis
        costs = self.asked.columns.squares(rows.T @ rows).clip(min=TINY)
        means, largest = self.means.of(found.variances), float(costs.max())
        self.level, self.reached = costs / found.total, means * found.total
        value = self.loss(means * largest)[0]
        if value < self.value:
            self.value, self.best = value, found.inverse / largest**0.5

    def move(self) -> None:
        """One step, mixed with those before it."""
        change = np.concatenate(
            [
                self.damping * (np.log(self.reached) - np.log(self.tangent)),
                FULL_STEP * np.log(self.level),
            ]
        )
        # The ascent compares heights by their ratios, and a loss may be negative.
        height = float(np.exp(np.clip(self.height / self.scale, -500.0, 500.0)))
        point, count = self.ascent.next(self.point, height, change, self.norm), len(self.tangent)
        weights = point[count:] - point[count:].max()
        self.point = np.concatenate([point[:count], np.maximum(weights, SMALLEST_WEIGHT)])
