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
from noiseplan.local.user_types import cells_within, reduced_query, types_of
from noiseplan.matrices.base import Array
from noiseplan.queries import Query, Workload

# What is left of a table of constants, as a share of it, is rounding.
ROUNDING = 1e-12


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

    def between_types(self, query: Query) -> tuple[Array, Array]:
        """W − m1ᵀ over types, and m, the mean of each row over all cells.

        How many users there are is known: m of them need no report, only what types differ by.
        """
        types = self.reconstruction.types
        rows = types.matrix(query)
        same = np.ptp(rows, axis=1) == 0
        mean = np.where(same, rows[:, 0], rows @ types.uniform)
        return np.where(same[:, None], 0.0, rows - mean[:, None]), mean


def mean_moment(part: Part, query: Query) -> float:
    """c: the mean over types of the second moments of all rows; infinite if it cannot answer."""
    if not part.holds(query):
        return inf
    gram = centred_gram(part, query)
    types = part.reconstruction.types
    try:
        return float(types.uniform @ part.reconstruction.strategy.total_moments(gram))
    except UnanswerableError:
        return inf


def centred_gram(part: Part, query: Query) -> Array:
    """(W − Wπ1ᵀ)ᵀ(W − Wπ1ᵀ) of a query, π uniform over cells: 0 if only the total is asked."""
    gram, uniform = query_gram(part, query), part.reconstruction.types.uniform
    along = gram @ uniform
    centred: Array = gram - along - along[:, None] + float(uniform @ along)
    if np.abs(centred).max() <= ROUNDING * np.abs(gram).max():
        return np.zeros_like(gram)
    return centred


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
        if not costs.all():  # nothing but the number of users is asked, which is known
            return np.asarray(np.arange(len(costs)) == int(np.argmin(costs)), dtype=np.float64)
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
        """m N + Σ_j α_j/ρ_j times what the reports on table j say of W − m1ᵀ."""
        pieces, used = self.tallies(tally), self.used(query)
        total: Array = used[0][1].between_types(query)[1] * float(tally.sum())
        for j, part, alpha in used:
            strategy = part.reconstruction.strategy
            coefficients = strategy.coefficients(part.between_types(query)[0])
            total = total + alpha / part.share * (coefficients @ strategy.evidence(pieces[j]))
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
        """Σ_u x_u (Σ_j α_j²/ρ_j m_j[u] − W[u]²), with m_j the second moments of table j.

        W is meant between types, without the mean of its rows.
        """
        used = self.used(query)
        total = np.zeros(query.rows)
        for j, part, alpha in used:
            rows, strategy = part.between_types(query)[0], part.reconstruction.strategy
            coefficients = strategy.coefficients(rows)
            scaled = strategy.moments(coefficients, coefficients) * (alpha**2 / part.share)
            if j == used[0][0]:  # the squared answers count once
                scaled = scaled - rows**2
            if counts is not None:
                total += scaled @ counts[j]
            elif users is not None:
                total += scaled.max(axis=1) * users
            else:
                raise PlanError(
                    "a variance depends on who the users are: give records=..., a column of values "
                    "for each attribute, or users=N for the largest that N users can cause"
                )
        return np.maximum(total, 0.0)

    def covariance(self, query: Query, other: Query, counts: Sequence[Array]) -> Array:
        """Σ_u x_u (Σ_j α_jβ_j/ρ_j m_j[u] − W[u]V[u]), as `variance` for two queries W and V."""
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
            strategy = part.reconstruction.strategy
            rows = [strategy.coefficients(part.between_types(q)[0]) for q in (query, other)]
            moments = strategy.cross_moments(rows[0], rows[1], counts[j])
            total += left[j] * right[j] / part.share * moments
        part, x = self.parts[both[0]], counts[both[0]]
        ours, theirs = part.between_types(query)[0], part.between_types(other)[0]
        return np.asarray(total - (ours * x) @ theirs.T)

    def consistent(self, tally: IntArray, total: float | None) -> Consistent:
        raise UnanswerableError(
            "users were split over tables, and no table of counts over all attributes is made from "
            "their reports; use answer(query)"
        )
