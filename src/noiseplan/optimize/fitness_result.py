"""A strategy that meets targets, and what proves that none does so at a lower cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noiseplan.matrices.base import Array


@dataclass(frozen=True, eq=False)
class Fitness:
    """A strategy that meets the targets at least cost, and what is known of that cost.

    Attributes
    ----------
    strategy
        A with AᵀA = X: with independent noise of variance one on every row, the best estimate of a
        row w has the variance w X⁺ wᵀ.
    cost
        Δ² = μ² = 2ρ, the largest diagonal entry of X.
    bound
        No strategy meets the targets at a cost below this.
    row_prices, cell_prices
        The dual prices, each adding up to one: what bounds the cost.
    """

    strategy: Array
    cost: float
    bound: float
    row_prices: Array
    cell_prices: Array
    steps: int

    @property
    def gap(self) -> float:
        """How far the cost may be above the best, relative."""
        return self.cost / self.bound - 1.0

    @property
    def profile(self) -> Array:
        """The privacy cost of every cell's records: the diagonal of X."""
        return np.asarray(np.einsum("ri,ri->i", self.strategy, self.strategy))
