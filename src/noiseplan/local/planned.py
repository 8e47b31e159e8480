"""What every local plan says about its accuracy, and what can be made from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import ceil, inf
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from noiseplan.errors import PlanError

if TYPE_CHECKING:
    from noiseplan.local.device.randomizer import Randomizer
    from noiseplan.local.server.aggregator import Aggregator
    from noiseplan.local.server.reconstruction import Reconstruction
    from noiseplan.local.server.split import SplitReconstruction


class Planned(ABC):
    """What users report, at what ε, and how accurate the answers will be.

    Variances add up over users, so they are given per user: with N users of the least favourable
    type all rows of the workload together have variance `worst_variance` · N, and shares (answers
    divided by N) have `worst_variance`/N.
    """

    @property
    @abstractmethod
    def reconstruction(self) -> Reconstruction | SplitReconstruction:
        """From reports to answers."""

    @property
    @abstractmethod
    def rows(self) -> float:
        """Rows of the workload, each counted with its weight."""

    @property
    @abstractmethod
    def worst_variance(self) -> float:
        """What one user adds at most to the variance of all rows together."""

    @property
    @abstractmethod
    def average_variance(self) -> float:
        """The mean over users of what one adds."""

    @property
    @abstractmethod
    def lower_bound(self) -> float:
        """What no unbiased mechanism that counts ε-private reports can beat."""

    @abstractmethod
    def randomizer(self) -> Randomizer:
        """What runs on users' devices."""

    @property
    def epsilon_met(self) -> float:
        """ε of the integer tables devices draw from, exactly recomputed and rounded up."""
        return self.randomizer().epsilon

    def aggregator(self) -> Aggregator:
        """An empty collection of reports."""
        from noiseplan.local.server.aggregator import Aggregator

        return Aggregator.empty(self)

    def samples(self, variance: float = 0.01, *, case: str = "worst") -> float:
        """How many users make the mean variance of the rows, as shares, this small.

        A real number; `users_needed` rounds it up. `case` is "worst", "average" or "bound".
        """
        per_user = {
            "worst": self.worst_variance,
            "average": self.average_variance,
            "bound": self.lower_bound,
        }
        if case not in per_user:
            raise PlanError(f"case is one of {list(per_user)}, found {case!r}")
        if not (isinstance(variance, (Real, np.number)) and 0 < variance < inf):
            raise PlanError(f"a target variance is positive and finite, found {variance!r}")
        return per_user[case] / (self.rows * variance)

    def users_needed(self, variance: float = 0.01) -> int:
        """Users needed, of whatever types, for this mean variance of the rows as shares."""
        return ceil(self.samples(variance) * (1 - 1e-12))


def checked_users(users: object) -> float:
    """A number of users to state a variance for."""
    number = isinstance(users, (Real, np.number)) and not isinstance(users, bool)
    if not number or not 0 <= float(users) < inf:  # type: ignore[arg-type]
        raise PlanError(f"users is a number of users, at least 0 and finite; found {users!r}")
    return float(users)  # type: ignore[arg-type]
