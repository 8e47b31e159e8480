"""Several tables, each reported on by a share of the users: from reports to answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.local.server.consistency import Consistent, nearest_counts
from noiseplan.local.server.reconstruction import Reconstruction
from noiseplan.local.types import cells_within, reduced_query, types_of
from noiseplan.matrices.base import Array
from noiseplan.queries import Query, Workload


@dataclass(frozen=True, eq=False)
class Part:
    """One table: what is reported about it, by which share of the users."""

    reconstruction: Reconstruction
    share: float

    @property
    def names(self) -> tuple[str, ...]:
        return self.reconstruction.types.schema.names

    def holds(self, query: Query) -> bool:
        return set(query.attributes) <= set(self.names)


def mean_moment(part: Part, query: Query) -> float:
    """c: the mean over types of the second moments of all rows; infinite if it cannot answer."""
    if not part.holds(query):
        return inf
    gram = query_gram(part, query)
    types = part.reconstruction.types
    try:
        return float(types.uniform @ part.reconstruction.strategy.total_moments(gram))
    except UnanswerableError:
        return inf


def query_gram(part: Part, query: Query) -> Array:
    """WᵀW of a query, unweighted, over the types of a table."""
    types = part.reconstruction.types
    small = types_of(Workload([reduced_query(query, types.schema)]))
    first = np.unique(types.kind, return_index=True)[1]
    cells = cells_within(types.schema.shape, [n in small.schema for n in types.schema.names])
    where = small.kind[cells[first]]
    return small.gram[np.ix_(where, where)] / query.weight


@dataclass(frozen=True, eq=False)
class SplitReconstruction:
    """Answers from reports on several tables."""

    parts: tuple[Part, ...]
    _known: dict[Query, Array] = field(default_factory=dict, repr=False)  # weights asked for before

    @property
    def tally_shape(self) -> tuple[int, ...]:
        return (sum(part.reconstruction.strategy.outputs for part in self.parts),)

    @property
    def tells_all_apart(self) -> bool:
        return all(part.reconstruction.tells_all_apart for part in self.parts)

    def tallies(self, tally: IntArray) -> list[IntArray]:
        """The counts of each table."""
        sizes = [part.reconstruction.strategy.outputs for part in self.parts]
        pieces = np.split(tally, np.cumsum(sizes)[:-1])
        shapes = [part.reconstruction.tally_shape for part in self.parts]
        return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]

    def weights(self, query: Query) -> Array:
        """α: how much each table counts for the answer."""
        if query not in self._known:
            self._known[query] = self._weights(query)
        return self._known[query]

    def _weights(self, query: Query) -> Array:
        costs = np.array([mean_moment(part, query) for part in self.parts])
        gains = np.array([part.share for part in self.parts]) / costs
        if not gains.any():
            held = [list(part.names) for part in self.parts]
            raise UnanswerableError(
                f"{query.name!r} is about {list(query.attributes)}, and no table of the plan holds "
                f"them together: the tables are {held}; add the query to the workload"
            )
        weights: Array = gains / gains.sum()
        return weights

    def used(self, query: Query) -> list[tuple[int, Part, float]]:
        chosen = zip(range(len(self.parts)), self.parts, self.weights(query).tolist(), strict=True)
        return [(j, part, a) for j, part, a in chosen if a > 0]

    def estimate(self, query: Query, tally: IntArray, users: int | None = None) -> Array:
        pieces = self.tallies(tally)
        total = np.zeros(query.rows)
        for j, part, alpha in self.used(query):
            total += alpha / part.share * part.reconstruction.estimate(query, pieces[j])
        return total

    def likely(self, tally: IntArray, users: int) -> list[Array]:
        """For each table counts that could be the truth, of all users."""
        made = []
        for part, piece in zip(self.parts, self.tallies(tally), strict=True):
            estimate = part.reconstruction.strategy.estimate(piece) / part.share
            made.append(nearest_counts(estimate, float(users)))
        return made

    def variance(
        self, query: Query, counts: Sequence[Array] | None, users: float | None = None
    ) -> Array:
        """Σ_u x_u (Σ_j α_j²/ρ_j m_j[u] − W[u]²), with m_j the second moments of table j."""
        used = self.used(query)
        total = np.zeros(query.rows)
        for j, part, alpha in used:
            rows = part.reconstruction.types.matrix(query)
            second = part.reconstruction.row_variances(query) + rows**2
            scaled = second * (alpha**2 / part.share)
            if j == used[0][0]:  # the squared answers count once
                scaled = scaled - rows**2
            if counts is not None:
                total += scaled @ counts[j]
            elif users is not None:
                total += scaled.max(axis=1) * users
            else:
                raise PlanError("a variance depends on who the users are: give users=N")
        return np.maximum(total, 0.0)

    def covariance(self, query: Query, other: Query, counts: Sequence[Array]) -> Array:
        both = [j for j, part in enumerate(self.parts) if part.holds(query) and part.holds(other)]
        if not both:
            raise UnanswerableError(
                f"{query.name!r} and {other.name!r} are in no table together, so how often their "
                f"rows coincide is not measured: add a query on both to the workload"
            )
        left, right = self.weights(query), self.weights(other)
        total = np.zeros((query.rows, other.rows))
        for j, part in enumerate(self.parts):
            if left[j] * right[j] == 0:
                continue
            made = part.reconstruction
            rows = [made.strategy.coefficients(made.types.matrix(q)) for q in (query, other)]
            moments = made.strategy.cross_moments(rows[0], rows[1], counts[j])
            total += left[j] * right[j] / part.share * moments
        types = self.parts[both[0]].reconstruction.types
        return np.asarray(total - (types.matrix(query) * counts[both[0]]) @ types.matrix(other).T)

    def consistent(self, tally: IntArray, total: float | None) -> Consistent:
        raise UnanswerableError(
            "users were split over tables, and one table of counts for all of them would be too "
            "large; use answer(query)"
        )
