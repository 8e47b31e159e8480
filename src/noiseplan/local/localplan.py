"""A plan: what users will report, and every error that answers will have. No data was read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseplan.local.planned import Planned, checked_users
from noiseplan.local.report import describe, short_number
from noiseplan.local.search.variance_bounds import LowerBound
from noiseplan.local.server.reconstruction import Reconstruction
from noiseplan.local.strategies.base import Strategy
from noiseplan.local.user_types import Types
from noiseplan.matrices.base import Array
from noiseplan.privacy.rounding import text_up
from noiseplan.queries import Query, Workload

if TYPE_CHECKING:
    from noiseplan.local.device.randomizer import Randomizer
    from noiseplan.local.server.aggregator import Aggregator


@dataclass(frozen=True, eq=False, repr=False)
class LocalPlan(Planned):
    """What users report, at what ε, and how accurate the answers will be.

    Variances are exact. They add up over users, so they are given per user: with N users of the
    least favourable type all rows of the workload together have variance `worst_variance` · N, and
    shares (answers divided by N) have `worst_variance`/N.
    """

    workload: Workload
    types: Types
    strategy: Strategy
    epsilon: float
    prior: Array
    worst: bool
    bound: LowerBound
    certified: float | None
    seconds: float = field(default=0.0)

    # ------------------------------------------------------------------ errors over the workload

    @cached_property
    def reconstruction(self) -> Reconstruction:
        """From reports to answers."""
        return Reconstruction(self.types, self.strategy)

    @property
    def rows(self) -> float:
        """Rows of the workload, each counted with its weight."""
        return self.types.rows

    @cached_property
    def variances(self) -> Array:
        """What one user of each type adds to the variance of all rows together."""
        gram = self.types.gram
        added = self.strategy.total_moments(gram) - np.diagonal(gram)
        return np.maximum(added, 0.0)  # never negative but for rounding

    @property
    def worst_variance(self) -> float:
        """The largest of `variances`."""
        return float(self.variances.max())

    @property
    def average_variance(self) -> float:
        """The mean of `variances` under the prior."""
        return float(self.prior @ self.variances)

    @property
    def value(self) -> float:
        """What was minimised: the worst or the average variance per user."""
        return self.worst_variance if self.worst else self.average_variance

    @property
    def lower_bound(self) -> float:
        """No unbiased mechanism that counts ε-private reports has a lower `value`."""
        known = self.bound.worst if self.worst else self.bound.average
        return max(known, self.certified or 0.0, 0.0)

    @property
    def gap(self) -> float:
        """`value / lower_bound − 1`: 0 means proved optimal."""
        if self.lower_bound <= 0:
            return 0.0 if self.value <= 0 else float("inf")
        return max(self.value / self.lower_bound - 1, 0.0)

    # ------------------------------------------------------------------ errors of single queries

    def variance(self, query: Query, counts: Any = None, *, users: float | None = None) -> Array:
        """The variance of each row: exact for given counts, or the largest for so many users."""
        most = None if users is None else checked_users(users)
        return self.reconstruction.variance(query, _counts(self, counts), most)

    def covariance(self, query: Query, other: Query, counts: Any) -> Array:
        """The exact covariance of all rows of two queries for given counts of cells."""
        return self.reconstruction.covariance(query, other, _counts(self, counts))

    # ------------------------------------------------------------------ using it

    def randomizer(self) -> Randomizer:
        """What runs on users' devices."""
        return self._randomizer

    @cached_property
    def _randomizer(self) -> Randomizer:
        from noiseplan.local.device.strategy_integers import make_randomizer

        return make_randomizer(self.types, self.strategy)

    def simulate(self, counts: Any, *, seed: int | None = None) -> Aggregator:
        """The reports of so many made-up users of each cell, collected: for planning studies."""
        from noiseplan.local.server.simulation import simulate

        return simulate(self, counts, seed)

    def __repr__(self) -> str:
        return (
            f"LocalPlan({self.strategy.__class__.__name__}, ε = {text_up(self.epsilon)}, "
            f"{short_number(self.strategy.outputs)} outputs, "
            f"{self.samples():.4g} users for variance 0.01)"
        )

    def __str__(self) -> str:
        return describe(self)


def _counts(plan: LocalPlan, counts: Any) -> Any:
    return None if counts is None else plan.types.users(counts)
