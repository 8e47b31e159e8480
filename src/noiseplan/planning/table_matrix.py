"""A table measured by a matrix of its own: the best found for what is asked of it alone.

Over the cells that a query tells apart, rows A with noise of one size s answer w with the variance
w(AᵀA)⁺wᵀ v(s). Beside other tables they have noise of one size among them, so that what was found
for the table stays as it is, and they count as much as the rows made of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, prod
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array, Matrix
from noiseplan.mechanisms.leastsquares import LeastSquares
from noiseplan.mechanisms.pair_distances import columns_apart
from noiseplan.planning.objectives import (
    ConvexLoss,
    Objective,
    PNormVariance,
    TotalVariance,
    WorstVariance,
)
from noiseplan.planning.planners import laplace_choice, laplace_matrix
from noiseplan.planning.problem import Problem
from noiseplan.planning.threads import one_thread
from noiseplan.privacy import PureDP
from noiseplan.queries import Custom, Query, Workload
from noiseplan.schema import Schema

# The cubes of cells told apart, of all tables together, over which matrices are searched for; and
# the numbers of a matrix that is written down over its table. A search takes as long as one over so
# many cells at least.
MOST_WORK: Final = 800**3
FEWEST_SEARCHED: Final = 100
WRITTEN_DOWN: Final = 2**22


@dataclass(frozen=True, eq=False)
class TableMatrix:
    """A query, and the rows over the cells that it tells apart which are measured instead."""

    query: Query
    groups: Groups
    rows: Array
    problem: Problem

    @classmethod
    def of(cls, query: Query, problem: Problem) -> TableMatrix | None:
        """The best found, if there is any."""
        groups = Groups(query)
        alone = replace(
            problem,
            workload=Workload([groups.asked]),
            budget=PureDP(1.0),
            targets=None,
            objective=_objective(norm_power(problem.goal)),
            noise="laplace",
            neighbours=problem.neighbours if groups.all_seen else "add-remove",
        )
        try:
            with one_thread(alone.design):
                found = laplace_matrix.rows_of(laplace_choice.solve(alone))
        # Nothing differs between records, rows that nobody writes down, or nearly dependent ones.
        except (PlanError, np.linalg.LinAlgError):
            return None
        if alone.neighbours == "replace":  # a public total is measured beside all tables
            found = found[np.ptp(found, axis=1) > 0]
        rows = problem.numbers.rows(found, laplace_matrix.BITS)
        if len(rows) * len(groups.of_cells) > WRITTEN_DOWN:
            return None
        return cls(query, groups, rows, problem)

    @property
    def numbers(self) -> int:
        """How many are measured."""
        return len(self.rows)

    @cached_property
    def norm(self) -> float:
        """Of the variances of the query's rows, at noise of size one."""
        public = self.problem.neighbours == "replace" and self.groups.all_seen
        rows = laplace_matrix.with_total(self.rows) if public else self.rows
        spread = LeastSquares(rows).spread
        return self._norm(self.groups.asked.matrix.quadratic_rows(spread))

    def _norm(self, variances: Array) -> float:
        return float(np.linalg.norm(variances, norm_power(self.problem.goal)))

    @property
    def value(self) -> float:
        """The same at a cost of one: a record's, or half of what two are apart."""
        dearest = float(np.abs(self.rows).sum(axis=0).max())
        if self.problem.neighbours == "replace":
            columns = self.rows if self.groups.all_seen else np.pad(self.rows, ((0, 0), (0, 1)))
            dearest = min(dearest, columns_apart(columns, 1) / 2)
        return dearest**2 * self.norm

    @property
    def counts(self) -> float:
        """How much a number that is measured counts, in units of a row; a loss of one's own is of
        the mean of a query's variances."""
        means = isinstance(self.problem.goal, ConvexLoss)
        return self.norm / self._norm(np.ones(self.query.rows if means else self.numbers))

    def measured(self, name: str, fitting: bool = False) -> Query:
        """What is measured; `fitting`: with the weight that it has for the objective."""
        query = self.query
        weight = query.weight * (self.counts if fitting else 1.0)
        rows = np.pad(self.rows, ((0, 0), (0, 1)))[:, self.groups.of_cells]
        return Query(query.schema, query.attributes, matrix=rows, weight=weight, name=name)


@dataclass(frozen=True, eq=False)
class Groups:
    """The cells of a query's table, as far as it tells them apart, factor by factor."""

    query: Query

    @cached_property
    def _firsts(self) -> list[IntArray]:
        """The first value of every group, of each factor."""
        return [first_of_groups(piece) for piece in self.query.pieces]

    @property
    def size(self) -> int:
        """How many cells are told apart."""
        return prod(map(len, self._firsts))

    @cached_property
    def asked(self) -> Query:
        """The query over them."""
        schema = Schema.from_sizes({f"factor {i}": len(f) for i, f in enumerate(self._firsts)})
        pairs = zip(schema.names, self.query.pieces, self._firsts, strict=True)
        return Query(schema, {name: Custom(p.take_columns(first)) for name, p, first in pairs})

    @cached_property
    def of_cells(self) -> IntArray:
        """The number of every cell's group; for those that no row looks at, how many there are."""
        found = np.zeros(1, dtype=np.int64)
        for piece, first in zip(self.query.pieces, self._firsts, strict=True):
            kinds = piece.column_kinds()
            number = np.full(int(kinds.max()) + 1, -1)
            number[kinds[first]] = np.arange(len(first))
            each, before = number[kinds], found[:, None]
            found = np.where((before < 0) | (each < 0), -1, before * len(first) + each).reshape(-1)
        return np.where(found < 0, self.size, found)

    @property
    def all_seen(self) -> bool:
        """Whether every record is in one of them."""
        return bool((self.of_cells < self.size).all())


def first_of_groups(piece: Matrix) -> IntArray:
    """The first of the values that have the same column, but of those that no row looks at."""
    kinds, first = np.unique(piece.column_kinds(), return_index=True)
    return np.asarray(first[kinds > 0])


def norm_power(goal: Objective) -> float:
    """Of the norm of the variances of a table that is small where the objective is."""
    if isinstance(goal, TotalVariance | ConvexLoss):
        return 1.0
    return goal.p if isinstance(goal, PNormVariance) else inf


def _objective(power: float) -> Objective:
    """What is small where the norm of this power of all variances is."""
    if power == 1:
        return TotalVariance()
    return WorstVariance() if power == inf else PNormVariance(power)
