"""Correlated Gaussian noise on a basis: the mechanism of fitness for use, in its own words.

W = LB with B of full row rank; what is released is L(Bx + z), z ~ N(0, Σ). The basis is a choice of
computation only: L Σ Lᵀ and BᵀΣ⁻¹B are the same in every basis. A = CB with CᵀC = Σ⁻¹ is the same
mechanism as a strategy with independent unit noise.

References
----------
Y. Xiao, Z. Ding, Y. Wang, D. Zhang, D. Kifer, "Optimizing fitness-for-use of differentially private
linear queries", PVLDB 14 (2021), Definition 3, Theorems 1 to 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.privacy import gaussian_delta, gaussian_epsilon


@dataclass(frozen=True, eq=False)
class CorrelatedGaussian:
    """Basis B (k × cells, of full row rank) with noise covariance Σ (k × k, positive definite).

    Examples
    --------
    >>> plain = CorrelatedGaussian(np.array([[1.0, 1.0], [0.0, 1.0]]), 4.0 * np.eye(2))
    >>> plain.cost  # the largest squared column norm over σ²
    0.5
    """

    basis: Array
    sigma: Array

    def __post_init__(self) -> None:
        k = len(self.basis)
        if self.sigma.shape != (k, k):
            raise PlanError(
                f"Σ is {self.sigma.shape}, but the basis has {k} rows: it must be {k} × {k}"
            )
        if np.linalg.matrix_rank(self.basis) < k:
            raise PlanError("the rows of the basis must be linearly independent")
        if np.linalg.eigvalsh(self.sigma)[0] <= 0:
            raise PlanError("Σ must be positive definite")

    def strategy(self) -> Array:
        """A with AᵀA = BᵀΣ⁻¹B: measured with independent unit noise it is the same mechanism."""
        return np.linalg.solve(np.linalg.cholesky(self.sigma), self.basis)

    @property
    def profile(self) -> Array:
        """b_iᵀΣ⁻¹b_i of every cell."""
        strategy = self.strategy()
        return np.asarray(np.einsum("ri,ri->i", strategy, strategy))

    @property
    def cost(self) -> float:
        """Δ², the largest entry of the profile."""
        return float(self.profile.max())

    def personal_epsilon(self, delta: float) -> Array:
        """ε of the records in every cell, at δ."""
        return np.array([gaussian_epsilon(float(cost), delta) for cost in self.profile])

    def personal_delta(self, epsilon: float) -> Array:
        """δ of the records in every cell, at ε."""
        return np.array([gaussian_delta(float(cost), epsilon) for cost in self.profile])

    def covariance(self, rows: Array) -> Array:
        """L Σ Lᵀ of the answers to these rows, W = LB."""
        weights = rows @ np.linalg.pinv(self.basis)
        if np.abs(weights @ self.basis - rows).max() > 1e-9 * np.abs(rows).max():
            raise PlanError("some rows are no combinations of the basis")
        return weights @ self.sigma @ weights.T

    def in_basis(self, basis: Array) -> CorrelatedGaussian:
        """The same mechanism in another basis of the same span: Σ' = (B'B⁺) Σ (B'B⁺)ᵀ."""
        turn = basis @ np.linalg.pinv(self.basis)
        return CorrelatedGaussian(basis, turn @ self.sigma @ turn.T)
