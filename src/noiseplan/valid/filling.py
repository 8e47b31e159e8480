"""Tables of which not every cell was told apart: the rest is filled in as valid tables have it.

Such a table counts by its distance in what was asked of it. With P_S t the part of a table in the
span of the rows of queries about its attributes,

    minimise   Σ_S w_S ‖y_S − ŷ_S − f_S‖²   over valid tables y and all f with P_S f_S = 0 .

By turns: the valid tables nearest to ŷ + f, then f_S = (1 − P_S)(y_S − ŷ_S), and a little beyond
it, by Nesterov's momentum. An f that stayed zero would hold the answers to guesses: cells that
nobody asked for are often negative in ŷ where all that was asked for is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from noiseplan.domain.stacked_rows import StackedRows
from noiseplan.matrices import kronecker_apply
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.row_space import RowSpace
from noiseplan.mechanisms.workload_rows import MOST_ROWS
from noiseplan.queries import Query
from noiseplan.valid.family import Set, margin, spread
from noiseplan.valid.unbiased_tables import Unbiased

MOST_TURNS: Final = 40
# A turn that changes what is filled in by less than this share of the noise is the last.
SETTLED: Final = 1e-2


@dataclass(frozen=True, eq=False)
class AskedRows:
    """The rows W of the workload's queries about attributes of one table."""

    source: Unbiased
    one: Set
    queries: tuple[tuple[Set, Query], ...]

    @classmethod
    def of(cls, source: Unbiased, one: Set) -> AskedRows:
        inside = [s for s in source.queries if set(s) <= set(one)]
        return cls(source, one, tuple((s, q) for s in inside for q in source.queries[s]))

    @property
    def own(self) -> list[Query]:
        """The queries about all attributes of the table."""
        return [query for s, query in self.queries if s == self.one]

    @property
    def few(self) -> bool:
        """Whether the rows can be compared with each other."""
        return sum(query.rows for _, query in self.queries) <= MOST_ROWS

    @cached_property
    def _space(self) -> RowSpace:
        return RowSpace(StackedRows.of(self.source.schema, [query for _, query in self.queries]))

    @property
    def variance(self) -> float:
        """About tr P Cov P: that of a row of unit length, as often as there are such rows."""
        if not self.own or not self.few:
            return float(self.source.variance(self.one).sum())
        noise = sum(
            float(self.source.made.variance(self.source.of_values(query)).sum())
            for query in self.own
        )
        squares = sum(float(query.matrix.row_squares().sum()) for query in self.own)
        return noise / squares * len(self._space.basis)

    def told(self, table: Array) -> Array:
        """P t = Wᵀ(WWᵀ)⁻¹W t; all of it where rows are too many to be compared."""
        if not self.queries or not self.few:
            return table if self.queries else np.zeros_like(table)
        rows = [query.apply(margin(table, self.one, s)) for s, query in self.queries]
        # Products of rows are means over the cells.
        weights = self._space.solved(np.concatenate(rows)) / table.size
        found, start = np.zeros_like(table), 0
        for s, query in self.queries:
            own = weights[start : start + query.rows]
            found += spread(_turned(query, own, margin(table, self.one, s).shape), s, self.one)
            start += query.rows
        return found


def _turned(query: Query, rows: Array, shape: tuple[int, ...]) -> Array:
    """Wᵀ of numbers of the rows of one query, a table of its attributes."""
    pieces = [piece.dense().T for piece in query.pieces]
    cube = rows.reshape(*(piece.shape[1] for piece in pieces), 1)
    return kronecker_apply(pieces, cube).reshape(shape)


class Solved(NamedTuple):
    """Valid tables, the share of evenness in them, and whether they are the nearest ones."""

    tables: dict[Set, Array]
    evened: float
    done: bool


def filled_in(
    estimates: Mapping[Set, Array],
    asked: Mapping[Set, AskedRows],
    variances: Mapping[Set, float],
    nearest: Callable[[Mapping[Set, Array]], Solved],
) -> Solved:
    """The valid tables nearest to the estimates; to some in what was `asked` of them alone."""
    solved, pace = nearest(estimates), 1.0
    filling = {s: np.zeros_like(estimates[s]) for s in asked}
    for _ in range(MOST_TURNS):
        gaps = {s: solved.tables[s] - estimates[s] for s in asked}
        following = {s: gap - asked[s].told(gap) for s, gap in gaps.items()}
        changed = {s: f - filling[s] for s, f in following.items()}
        filling = following
        if all(float((c**2).sum()) <= SETTLED**2 * variances[s] for s, c in changed.items()):
            return solved
        faster = (1.0 + np.sqrt(1.0 + 4.0 * pace**2)) / 2.0
        ahead, pace = (pace - 1.0) / faster, faster
        start = {s: estimates[s] + filling[s] + ahead * changed[s] for s in asked}
        solved = nearest({**estimates, **start})
    return solved._replace(done=False)
