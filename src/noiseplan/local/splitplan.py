"""A plan that splits users over tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseplan.local.planned import Planned, checked_users
from noiseplan.local.search.variance_bounds import row_variance, spread_bound, structured_bound
from noiseplan.local.server.split import Part, SplitReconstruction, centred_gram, query_gram
from noiseplan.local.user_types import weighted_rows
from noiseplan.matrices.base import Array
from noiseplan.privacy.rounding import text_up
from noiseplan.queries import Query, Workload

if TYPE_CHECKING:
    from noiseplan.local.device.split import SplitRandomizer
    from noiseplan.local.server.aggregator import Aggregator


@dataclass(frozen=True, eq=False, repr=False)
class SplitPlan(Planned):
    """What users report when the domain is too large for one matrix.

    Each device draws one of the tables, with public chances, and reports on that table only: ε is
    that of one report. Errors are of the same kind as a `LocalPlan`'s.
    """

    workload: Workload
    parts: tuple[Part, ...]
    epsilon: float
    seconds: float = field(default=0.0)

    @cached_property
    def reconstruction(self) -> SplitReconstruction:
        return SplitReconstruction(self.parts)

    @property
    def rows(self) -> float:
        """Rows of the workload, each counted with its weight."""
        return weighted_rows(self.workload)

    @cached_property
    def _added(self) -> list[Array]:
        """What a user of each type of each table adds to the variance of all rows together.

        The squared answers, which are to be subtracted once, go with the first table of a query.
        """
        scaled = [np.zeros_like(part.reconstruction.types.gram) for part in self.parts]
        own = [np.zeros(part.reconstruction.types.count) for part in self.parts]
        for query in self.workload:
            used = self.reconstruction.used(query)
            for place, (j, part, alpha) in enumerate(used):
                gram = query.weight * centred_gram(part, query)
                scaled[j] += alpha**2 / part.share * gram
                if place == 0:
                    own[j] += np.diagonal(gram)
        moments = [
            part.reconstruction.strategy.total_moments(gram) if gram.any() else np.zeros(len(gram))
            for part, gram in zip(self.parts, scaled, strict=True)
        ]
        return [m - o for m, o in zip(moments, own, strict=True)]

    @property
    def worst_variance(self) -> float:
        """At most this per user, of whatever type, for all rows together."""
        return sum(float(added.max()) for added in self._added)

    @property
    def average_variance(self) -> float:
        """The mean over all cells."""
        uniform = [part.reconstruction.types.uniform for part in self.parts]
        return sum(float(u @ added) for u, added in zip(uniform, self._added, strict=True))

    @cached_property
    def lower_bound(self) -> float:
        """No unbiased ε-private mechanism has a smaller mean variance, split or not.

        The larger of two bounds: over the whole domain through the queries' factors, and the sum of
        those of each table's queries as if all users reported on it alone.
        """
        return max(structured_bound(self.workload, self.epsilon), self._sum_of_bounds())

    def _sum_of_bounds(self) -> float:
        total = 0.0
        left = list(self.workload)
        for part in self.parts:
            mine = [q for q in left if part.holds(q)]
            left = [q for q in left if not part.holds(q)]
            if not mine:
                continue
            types = part.reconstruction.types
            gram = sum((q.weight * query_gram(part, q) for q in mine), np.zeros_like(types.gram))
            c = row_variance(len(types.kind), self.epsilon)
            total += max(spread_bound(gram, types.uniform, c), 0.0)
        return total

    @property
    def gap(self) -> float:
        """`worst_variance / lower_bound − 1`: what splitting and everything else costs at most."""
        return self.worst_variance / self.lower_bound - 1 if self.lower_bound > 0 else inf

    def variance(
        self, query: Query, records: Mapping[str, Any] | None = None, *, users: float | None = None
    ) -> Array:
        """The variance of each row: exact for users given by columns of values, or the largest
        that so many users can cause."""
        counts = None if records is None else self._counts(records)
        most = None if users is None else checked_users(users)
        return self.reconstruction.variance(query, counts, most)

    def covariance(self, query: Query, other: Query, records: Mapping[str, Any]) -> Array:
        """The exact covariance of all rows of two queries, for users given by columns of values."""
        return self.reconstruction.covariance(query, other, self._counts(records))

    def _counts(self, records: Mapping[str, Any]) -> list[Array]:
        """For each table how many of these users there are of each type."""
        made = self.randomizer()
        codes = made.codes_of(records)
        types = [(table.types_from(codes), table.types) for table in made.tables]
        return [np.bincount(kind, minlength=n).astype(np.float64) for kind, n in types]

    def randomizer(self) -> SplitRandomizer:
        """What runs on users' devices."""
        return self._randomizer

    @cached_property
    def _randomizer(self) -> SplitRandomizer:
        from noiseplan.local.device.split import make_split_randomizer

        return make_split_randomizer(self)

    def simulate(self, records: Mapping[str, Any], *, seed: int | None = None) -> Aggregator:
        """The reports of made-up users, given by a column of values for each attribute."""
        from noiseplan.local.server.simulation import simulate_records

        return simulate_records(self, records, seed)

    def __repr__(self) -> str:
        return (
            f"SplitPlan({len(self.parts)} tables, ε = {text_up(self.epsilon)}, "
            f"{self.samples():.4g} users for variance 0.01)"
        )

    def __str__(self) -> str:
        rows = self.rows
        lines = [
            "Local plan: every user randomizes, and reports on one of several tables",
            f"  asks        {self.workload.rows:,} rows over {len(self.workload.schema)} "
            f"attributes, {self.workload.schema.size:,} cells in all",
            f"  privacy     ε = {text_up(self.epsilon_met)} for one report, recomputed from the "
            f"integer tables",
            f"  variance    per user and row {self.worst_variance / rows:.4g} at worst, "
            f"{self.average_variance / rows:.4g} on average over cells",
            f"  splitting   at most {1 + self.gap:.3g} times the variance of any mechanism",
            f"  users       {self.users_needed():,} for a mean error of 10% of all users per row",
            "",
            f"  {'share of users':>14}  {'cells':>7}  table",
        ]
        for part in self.parts:
            cells = len(part.reconstruction.types.kind)
            lines.append(f"  {part.share:>14.1%}  {cells:>7,}  {' × '.join(part.names)}")
        return "\n".join(lines)
