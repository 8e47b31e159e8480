"""Convex losses of variances in the row space of a workload: the rank matters, not the cells.

    minimise f(v) ,    v_t = the mean of the variances h_j of the rows of query t ,

by tangents as in `convex_losses`, with row prices μ_j = g_t/rows_t and N = N(λ, μ) as in
`row_space_optimum`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.optimize.array_namespace import AnyArray
from noiseplan.optimize.convex_losses import Loss, Tangents
from noiseplan.optimize.optimum import Watch
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
    search = _InRowSpace(asked, means, loss)
    for step in range(1, MOST_STEPS + 1):
        gap = search.visit()
        watch(max(gap, 0.0))
        if gap <= tolerance or search.bound >= hopeless or step == MOST_STEPS:
            break
        search.move()
    slope, weights = search.proof
    rows = search.best @ asked.basis
    return RowSpaceOptimum(rows, search.value, search.bound, means.prices(slope), weights, step)


class _InRowSpace(Tangents):
    """With cells as columns over independent rows."""

    def __init__(self, asked: RowBasis, means: Means, loss: Loss) -> None:
        self.asked, self.means = asked, means
        self.best: AnyArray = None
        cells = asked.columns.cells
        even, alike = np.full(cells, 1.0 / cells), np.ones(len(means.sizes))
        found = Priced.of(self._inner(even), means.rows, means.prices(alike))
        super().__init__(loss, means.of(found.variances) * found.total, np.zeros(cells))

    def _inner(self, weights: Array) -> AnyArray:
        """K₁."""
        basis = self.asked.basis
        return basis @ self.asked.columns.moments(weights) @ basis.T

    def _priced(self, slope: Array, raised: Array) -> float:
        inner, means = self._inner(self.weights), self.means
        found = Priced.of(inner, means.rows, means.prices(raised))
        self._keep(found)
        if (raised > slope).any():  # the bound must not count what was only raised
            return bound_at(inner, means.rows.moments(means.prices(slope)))
        return found.bound

    def _keep(self, found: Priced) -> None:
        """The costs and variances of the best covariance, and itself if it is the best so far."""
        rows = found.inverse @ self.asked.basis
        costs = self.asked.columns.squares(rows.T @ rows).clip(min=TINY)
        means, largest = self.means.of(found.variances), float(costs.max())
        self.level, self.reached = costs / found.total, means * found.total
        value = self.loss(means * largest)[0]
        if value < self.value:
            self.value, self.best = value, found.inverse / largest**0.5
