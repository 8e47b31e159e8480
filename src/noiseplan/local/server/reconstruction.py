"""From counted reports to unbiased answers, with their exact variances and covariances.

Reports are on one table, or users are split: each device draws one of several tables with public
chances ρ. A query is then answered by every table that holds its attributes, with weights α of sum
one. How many users there are is known, so that reports need only say what types differ by: the
rows W of a query are W − m1ᵀ then, m the mean of each row over all cells, and m N is added.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from math import inf
from typing import NamedTuple

import numpy as np

from noiseplan.arrays import IntArray, first_of
from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.local.device.counting_randomizers import SplitRandomizer
from noiseplan.local.device.integer_chances import rounded_shares
from noiseplan.local.device.randomizer import Randomizer
from noiseplan.local.server.consistency import Consistent, fit_counts, nearest_counts
from noiseplan.local.server.tails import bernstein
from noiseplan.local.strategies.strategy import Strategy
from noiseplan.local.user_types import Types, question, reduced_query, types_of
from noiseplan.matrices.base import Array
from noiseplan.queries import Query, Workload
from noiseplan.schema import Schema

# A variance below this share of the second moment is rounding: of the total, say, which is public.
VARIANCE_ROUNDING = 1e-13
# Tables that a message names.
SHOWN_TABLES = 8
# Moments of rows that a table keeps for the next query like it.
FEW_MOMENTS = 1 << 16
# What is left of a table of constants, as a share of it, is rounding.
CONSTANT_ROUNDING = 1e-12


# How many users of each type there are, by the numbers of tables: of all, or of those in use.
Counts = Sequence[Array] | Mapping[int, Array]


class Second(NamedTuple):
    """By type: second moments of answers to what types differ by, infinite where there are none,
    and the squares of what is answered."""

    moments: Array
    squares: Array


@dataclass(frozen=True, eq=False)
class Part:
    """One table: what is reported about it, by which share of the users."""

    types: Types
    strategy: Strategy
    share: float = 1.0
    known: dict[Hashable, Second] = field(default_factory=dict, repr=False)
    """Moments asked for before; tables that differ in names alone share them."""
    known_rows: dict[Hashable, Array] = field(default_factory=dict, repr=False)
    """The same, row by row, where they are few."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.types.schema.names

    def randomizer(self) -> Randomizer:
        """What devices draw reports on this table from, at most at the strategy's ε."""
        cells = self.types.kind if self.types.merged else None
        made = self.strategy.randomizer(self.types.schema, cells)
        if not made.epsilon <= self.strategy.epsilon:
            raise PlanError(
                f"the integer table has ε = {made.epsilon!r}, above {self.strategy.epsilon!r}: a "
                f"defect; nothing may be drawn from it"
            )
        return made

    def holds(self, query: Query) -> bool:
        return set(query.attributes) <= set(self.names)

    def mean_moment(self, query: Query) -> float:
        """c: the mean over types of second moments of all rows; infinite if it cannot answer."""
        return float(self.types.uniform @ self.second(query).moments) if self.holds(query) else inf

    def tells(self, query: Query) -> bool:
        """Whether reports on this table answer a query."""
        return self.mean_moment(query) < inf

    def second(self, query: Query) -> Second:
        """What one user of each type adds to the second moments of all rows together."""
        key = question(query, self.types.schema)
        if key not in self.known:
            gram = self.centred_gram(query)
            try:
                moments = self.strategy.total_moments(gram)
            except UnanswerableError:
                moments = np.full(len(gram), inf)
            self.known[key] = Second(moments, np.diagonal(gram))
        return self.known[key]

    def row_moments(self, query: Query, rows: Array) -> Array:
        """Second moments of the answers to a query (rows × types), whose rows these are."""
        key = question(query, self.types.schema)
        if key in self.known_rows:
            return self.known_rows[key]
        found = self.strategy.moments(self.strategy.coefficients(rows))
        if found.size <= FEW_MOMENTS:
            self.known_rows[key] = found
        return found

    def centred_gram(self, query: Query) -> Array:
        """(W − Wπ1ᵀ)ᵀ(W − Wπ1ᵀ) of a query, π uniform over cells: 0 if only the total is asked."""
        gram, uniform = self.gram(query), self.types.uniform
        along = gram @ uniform
        centred: Array = gram - along - along[:, None] + float(uniform @ along)
        if np.abs(centred).max() <= CONSTANT_ROUNDING * np.abs(gram).max():
            return np.zeros_like(gram)
        return centred

    def gram(self, query: Query) -> Array:
        """WᵀW of a query, unweighted, over the types of the table."""
        types = self.types
        small = types_of(Workload([reduced_query(query, types.schema)]))
        axes = np.unravel_index(first_of(types.kind), types.schema.shape)
        kept = [axis for axis, name in zip(axes, self.names, strict=True) if name in small.schema]
        where = small.kind[np.ravel_multi_index(kept, small.schema.shape)]
        return small.gram[np.ix_(where, where)] / query.weight


def by_attribute(tables: Sequence[Iterable[str]]) -> dict[str, set[int]]:
    """The tables that hold each attribute, by their numbers."""
    held: dict[str, set[int]] = {}
    for j, names in enumerate(tables):
        for name in names:
            held.setdefault(name, set()).add(j)
    return held


def holders(held: Mapping[str, set[int]], names: Sequence[str], tables: int) -> list[int]:
    """Of so many tables those that hold all these attributes."""
    if not names:
        return list(range(tables))
    return sorted(set.intersection(*(held.get(name, set()) for name in names)))


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The unbiased linear answers from reports on one table or, if users are split, on several."""

    parts: tuple[Part, ...]
    split: bool  # whether devices draw the table they report on, be it among one

    def randomizer(self, schema: Schema) -> Randomizer:
        """What devices draw from: the table, or all tables with their shares as integers."""
        if not self.split:
            return self.parts[0].randomizer()
        made: dict[int, Randomizer] = {}  # of each strategy, which equal tables share
        for part in self.parts:
            if id(part.strategy) not in made:
                made[id(part.strategy)] = part.randomizer()
        tables = tuple(
            replace(made[id(part.strategy)], schema=part.types.schema) for part in self.parts
        )
        shares = rounded_shares(np.array([part.share for part in self.parts]))
        return SplitRandomizer(schema, None, tables, shares)  # type: ignore[arg-type]

    @cached_property
    def tells_all_apart(self) -> bool:
        """Whether reports tell how many users there are of every type of each table."""
        return all(part.strategy.tells_all_apart for part in self.parts)

    @cached_property
    def _ends(self) -> list[int]:
        """Where the counts of each table end, those of all together."""
        return list(accumulate(part.strategy.outputs for part in self.parts))

    def _counted(self, tally: IntArray, j: int) -> IntArray:
        """The counts of a table: one of thousands, of which a query needs few."""
        return tally[self._ends[j] - self.parts[j].strategy.outputs : self._ends[j]]

    @cached_property
    def _held(self) -> dict[str, set[int]]:
        return by_attribute([part.names for part in self.parts])

    def holders(self, query: Query) -> list[int]:
        """The tables that hold all attributes of a query."""
        return holders(self._held, query.attributes, len(self.parts))

    def weights(self, query: Query) -> dict[int, float]:
        """α of each table that counts for the answer: ∝ ρ/c."""
        if not self.split:
            return {0: 1.0}
        costs = {j: self.parts[j].mean_moment(query) for j in self.holders(query)}
        free = [j for j, cost in costs.items() if cost == 0]
        if free:  # nothing but the number of users is asked, which is known
            return {free[0]: 1.0}
        gains = {j: self.parts[j].share / cost for j, cost in costs.items() if cost < inf}
        if not gains:
            held = [list(part.names) for part in self.parts[:SHOWN_TABLES]]
            more = " …" if len(self.parts) > SHOWN_TABLES else ""
            lack = "holds them together" if not costs else "was planned to tell all of it"
            raise UnanswerableError(
                f"{query.name!r} is about {list(query.attributes)}, and no table of the plan "
                f"{lack}: the tables are {held}{more}; add the query to the workload"
            )
        total = sum(gains.values())
        return {j: gain / total for j, gain in gains.items()}

    def told(self, schema: Schema, workload: Workload | None) -> list[tuple[str, ...]]:
        """Attributes whose cells reports tell: those of a table or, where it was planned for less
        than its cells, those of the queries that it answers."""
        whole = {part.names for part in self.parts if part.tells(Query(schema, part.names))}
        asked = {query.attributes: self.holders(query) for query in workload or ()}
        return sorted(whole) + [
            names
            for names, tables in asked.items()
            if not any(self.parts[j].names in whole for j in tables)
            and any(self.parts[j].tells(Query(schema, names)) for j in tables)
        ]

    def _used(self, query: Query) -> list[tuple[int, Part, float]]:
        return [(j, self.parts[j], alpha) for j, alpha in self.weights(query).items()]

    def _asked(self, part: Part, query: Query) -> tuple[Array, Array]:
        """The rows that reports on a table answer, and m, which is left out of them."""
        rows = part.types.matrix(query)
        if not self.split:
            return rows, np.zeros(len(rows))
        same = np.ptp(rows, axis=1) == 0
        mean = np.where(same, rows[:, 0], rows @ part.types.uniform)
        return np.where(same[:, None], 0.0, rows - mean[:, None]), mean

    def estimate(self, query: Query, tally: IntArray, users: int) -> Array:
        """m N + Σ_j α_j/ρ_j W X⁺ Σ a_o over the reports counted on table j.

        Where reports are counted, rows that ask for a multiple of the number of users have no
        error, not even of rounding, so that intervals of no width hold.
        """
        used = self._used(query)
        total: Array = self._asked(used[0][1], query)[1] * float(users)
        for j, part, alpha in used:
            rows, strategy = self._asked(part, query)[0], part.strategy
            found: Array = strategy.coefficients(rows) @ strategy.evidence(self._counted(tally, j))
            if strategy.counts_users:
                found = np.where(np.ptp(rows, axis=1) == 0, rows[:, 0] * users, found)
            total = total + alpha / part.share * found
        return total

    def likely(self, query: Query, tally: IntArray, users: int) -> dict[int, Array]:
        """For each table about a query, counts of types that could be the truth: the nearest to the
        estimate."""
        found = {}
        for j in self.holders(query) if self.split else [0]:
            part = self.parts[j]
            estimate = part.strategy.estimate(self._counted(tally, j)) / part.share
            found[j] = nearest_counts(estimate, float(users))
        return found

    def consistent(
        self, tally: IntArray, total: float | None, workload: Workload | None
    ) -> Consistent:
        """One table of non-negative counts whose answers are nearest to the unbiased ones."""
        types, strategy = self.parts[0].types, self.parts[0].strategy
        counts = fit_counts(strategy.estimate(tally), types.gram, total)
        return Consistent(types, counts, workload)

    def row_variances(self, query: Query) -> dict[int, Array]:
        """What one user of each type adds to the variance of each row (rows × types), by table.

        α_j²/ρ_j m_j − W², with m_j the second moments of table j; W² is taken off the first alone.
        """
        used = self._used(query)
        added: dict[int, Array] = {}
        for j, part, alpha in used:
            rows = self._asked(part, query)[0]
            second = alpha**2 / part.share * part.row_moments(query, rows)
            added[j] = second - rows**2 if not added else second
            if len(used) == 1:
                added[j] = np.where(added[j] > VARIANCE_ROUNDING * second, added[j], 0.0)
        return added

    def variance(self, query: Query, counts: Counts | None, users: float | None = None) -> Array:
        """Of each row: Σ_u x_u τ_u for counts x of each table's types, or the largest for so many
        users."""
        added = self.row_variances(query)
        total = np.zeros(query.rows)
        for j, by_type in added.items():
            if counts is not None:
                total += by_type @ counts[j]
            elif users is not None:
                total += by_type.max(axis=1) * users
            else:
                raise PlanError(
                    "a variance depends on who the users are: "
                    + (
                        "give records=..., a column of values for each attribute, or users=N for "
                        "the largest that N users can cause"
                        if self.split
                        else "give counts=..., the number of users in each cell, or users=N for "
                        "the largest variance that N users can cause"
                    )
                )
        return np.maximum(total, 0.0)

    def jumps(self, query: Query) -> tuple[Array, Array]:
        """Of each row how far a user's score may lie above and below its mean, whoever it is."""
        low, high = np.full(query.rows, inf), np.full(query.rows, -inf)
        least, most = np.zeros(query.rows), np.zeros(query.rows)
        used = self._used(query)
        for _, part, alpha in used:
            asked = self._asked(part, query)[0]
            ends = part.strategy.score_ends(part.strategy.coefficients(asked))
            low = np.minimum(low, alpha / part.share * ends[0])
            high = np.maximum(high, alpha / part.share * ends[1])
            if part.strategy.counts_users:  # otherwise ends are those of the noise alone
                least, most = asked.min(axis=1), asked.max(axis=1)
        if self.split:  # who reports on another table has the score 0
            low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        return high - least, most - low

    def variance_above(self, query: Query, tally: IntArray, users: int, outside: float) -> Array:
        """Of each row a variance that is exceeded with chance `outside` at most; see `tails`."""
        added = self.row_variances(query)
        total = np.zeros(query.rows)
        for j, by_type in added.items():
            part, strategy = self.parts[j], self.parts[j].strategy
            rows = strategy.coefficients(by_type)
            found = rows @ strategy.evidence(self._counted(tally, j)) / part.share
            spread = np.maximum(strategy.moments(rows) / part.share - by_type**2, 0.0)
            below = np.minimum(strategy.score_ends(rows)[0] / part.share, 0.0)
            jump = by_type.max(axis=1) - below
            above = bernstein(spread.max(axis=1) * users, jump, outside / len(added))
            total += np.minimum(by_type.max(axis=1) * users, found + above)
        return np.maximum(total, self.variance(query, self.likely(query, tally, users)))

    def covariance(self, query: Query, other: Query, counts: Counts) -> Array:
        """Σ_u x_u (Σ_j α_jβ_j/ρ_j m_j[u] − W[u]V[u]) of two queries W and V, α and β their weights,
        m_j[u] = Σ_o Q[o, u] (c·a_o)(d·a_o)."""
        both = [j for j in self.holders(query) if self.parts[j].holds(other)]
        if self.split and not both:
            raise UnanswerableError(
                f"{query.name!r} and {other.name!r} are in no table together, so how often their "
                f"rows coincide is not measured: add a query on both to the workload"
            )
        left, right = self.weights(query), self.weights(other)
        total = np.zeros((query.rows, other.rows))
        for j in sorted(left.keys() & right.keys()):
            part = self.parts[j]
            ours, theirs = (
                part.strategy.coefficients(self._asked(part, q)[0]) for q in (query, other)
            )
            moments = part.strategy.cross_moments(ours, theirs, counts[j])
            total += left[j] * right[j] / part.share * moments
        part, x = self.parts[both[0]], counts[both[0]]
        rows = self._asked(part, query)[0], self._asked(part, other)[0]
        return np.asarray(total - (rows[0] * x) @ rows[1].T)

    def added(self, workload: Workload) -> list[Array]:
        """What a user of each type of each table adds to the variance of all rows together.

        The squared answers, which are to be subtracted once, go with the first table of a query.
        """
        if not self.split:
            gram = self.parts[0].types.gram
            moments = self.parts[0].strategy.total_moments(gram)
            return [np.maximum(moments - np.diagonal(gram), 0.0)]  # negative by rounding alone
        added = [np.zeros(part.types.count) for part in self.parts]
        for query in workload:
            for place, (j, part, alpha) in enumerate(self._used(query)):
                second = part.second(query)
                own = second.squares if place == 0 else 0.0
                added[j] += query.weight * (alpha**2 / part.share * second.moments - own)
        return added
