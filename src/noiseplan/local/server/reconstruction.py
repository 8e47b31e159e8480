"""From reports to answers: estimates, variances and covariances of any query the types carry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import PlanError
from noiseplan.local.server.consistency import Consistent, fit_counts, nearest_counts
from noiseplan.local.strategies.base import Strategy
from noiseplan.local.user_types import Types
from noiseplan.matrices.base import Array
from noiseplan.queries import Query

# A variance below this share of the second moment is rounding: of the total, say, which is public.
ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The unbiased linear answers of a strategy over types."""

    types: Types
    strategy: Strategy

    @property
    def tally_shape(self) -> tuple[int, ...]:
        """Shape of the array in which reports are counted."""
        return self.strategy.tally_shape

    @property
    def tells_all_apart(self) -> bool:
        """Whether reports tell how many users there are of every type."""
        return self.strategy.tells_all_apart

    def likely(self, tally: IntArray, users: int) -> Array:
        """Counts of types that could be the truth: the nearest to the estimate that could."""
        return nearest_counts(self.strategy.estimate(tally), float(users))

    def consistent(self, tally: IntArray, total: float | None) -> Consistent:
        """One table of non-negative counts whose answers are nearest to the unbiased ones."""
        counts = fit_counts(self.strategy.estimate(tally), self.types.gram, total)
        return Consistent(self.types, counts)

    def estimate(self, query: Query, tally: IntArray, users: int | None = None) -> Array:
        """W X⁺ Σ a_o over the reports counted.

        Where reports are counted, rows that ask for a multiple of the number of users have no
        error; if `users` is given not even of rounding, so that intervals of no width hold.
        """
        rows = self.types.matrix(query)
        estimates: Array = self.strategy.coefficients(rows) @ self.strategy.evidence(tally)
        if users is None or not self.strategy.counts_users:
            return estimates
        return np.where(np.ptp(rows, axis=1) == 0, rows[:, 0] * users, estimates)

    def row_variances(self, query: Query) -> Array:
        """What one user of each type adds to the variance of each row: rows × types."""
        rows = self.types.matrix(query)
        coefficients = self.strategy.coefficients(rows)
        second = self.strategy.moments(coefficients, coefficients)
        added = second - rows**2
        return np.where(added > ROUNDING * second, added, 0.0)

    def variance(self, query: Query, counts: Array | None, users: float | None = None) -> Array:
        """Of each row: Σ_u x_u τ_u for counts x of types, or the largest for so many users."""
        added = self.row_variances(query)
        if counts is not None:
            return np.asarray(added @ counts)
        if users is None:
            raise PlanError(
                "a variance depends on who the users are: give counts=..., the number of users in "
                "each cell, or users=N for the largest variance that N users can cause"
            )
        return np.asarray(added.max(axis=1) * users)

    def covariance(self, query: Query, other: Query, counts: Array) -> Array:
        """Σ_u x_u (Σ_o Q[o, u] (c_i·a_o)(c_j·a_o) − W[i, u] W[j, u])."""
        left, right = self.types.matrix(query), self.types.matrix(other)
        ours, theirs = self.strategy.coefficients(left), self.strategy.coefficients(right)
        moments = self.strategy.cross_moments(ours, theirs, counts)
        return np.asarray(moments - (left * counts) @ right.T)
