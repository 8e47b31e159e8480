"""Independent noise on each table, on its cells where these cost less than the rows asked of it.

Noise of size s on the cells of a query's table answers the row w with the variance ‖w‖² v(s). To
plan for that is to plan for noise on the cells, which count as much as the rows made of them:

| what is small | weight of a cell, of C |
| --- | --- |
| total variance | weight · Σ_w ‖w‖² / C |
| p-norm | weight · (Σ_w ‖w‖^2p / C)^(1/p) |
| worst variance, targets | weight · max_w ‖w‖² |
| a loss of one's own | weight · mean of ‖w‖² |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, prod
from typing import Final

import numpy as np

from noiseplan.domain.record_costs import QueryCosts
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.pair_distances import columns_apart, different_columns
from noiseplan.mechanisms.workload_rows import MOST_ROWS
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.certificates import Unstated
from noiseplan.planning.objectives import ConvexLoss, PNormVariance, TotalVariance
from noiseplan.planning.problem import Problem
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.queries import Identity, Query, Workload

# Numbers of all differences of two cells of a table that are looked at.
PAIRED: Final = 2**26
# Rows that are asked for times numbers that are measured: what one tells of the other in seconds.
MOST_PAIRS: Final = 2**22


@dataclass(frozen=True, eq=False)
class SomeByCells:
    """A problem, and how much a cell counts of each table that is measured by its cells."""

    problem: Problem
    counts: dict[int, float]  # by the number of the query

    @classmethod
    def of(cls, problem: Problem) -> SomeByCells | str | None:
        """None where all rows are as good; why it is not tried, where that is too much to be put
        together."""
        tables = [_Table(query, problem) for query in problem.workload]
        # Before a row is looked at: some tables have more of them than can be written down.
        least = sum(min(t.cells, t.query.rows) for t in tables)
        if _is_too_much(least, problem.workload):
            return None if all(t.plain for t in tables) else _untried(least, problem.workload)
        counts = {i: t.cell for i, t in enumerate(tables) if not t.plain and t.better_by_cells}
        measured = sum(t.cells if i in counts else t.query.rows for i, t in enumerate(tables))
        if not counts:
            return None
        if _is_too_much(measured, problem.workload):
            return _untried(measured, problem.workload)
        return cls(problem, counts)

    def forward(self, problem: Problem) -> Problem:
        """The same about cells of tables instead of some of its queries."""
        queries = [
            Query(q.schema, q.attributes, weight=q.weight * self._weight(i), name=f"table {i}")
            if i in self.counts
            else Query(q.schema, q.factors, matrix=q.joint, weight=q.weight, name=f"query {i}")
            for i, q in enumerate(problem.workload)
        ]
        targets = problem.targets
        if targets is not None:
            each = [self.counts.get(i, 1.0) for i in range(len(queries))]
            targets = np.asarray(targets) / each
        return replace(problem, workload=Workload(queries), targets=targets)

    def _weight(self, number: int) -> float:
        return 1.0 if self.problem.targets is not None else self.counts[number]

    def back(self, candidate: Candidate) -> Candidate:
        """What the same measurements tell of the queries themselves."""
        problem, mechanism = self.problem, candidate.mechanism
        known = Unstated(problem.workload, candidate.privacy, exact=problem.integer)
        figures = RowFigures(problem.design, mechanism)
        return replace(candidate, figures=figures, optimality=known)


def _is_too_much(measured: int, asked: Workload) -> bool:
    return measured > MOST_ROWS or measured * asked.rows > MOST_PAIRS


def _untried(measured: int, asked: Workload) -> str:
    return f"not tried, {measured:,} numbers for {asked.rows:,} rows"


@dataclass(frozen=True, eq=False)
class _Table:
    """A query, as a way to measure its table."""

    query: Query
    problem: Problem

    @property
    def plain(self) -> bool:
        """Whether its rows are the cells."""
        factors = self.query.factors.values()
        return self.query.joint is None and all(isinstance(f, Identity) for f in factors)

    @property
    def cells(self) -> int:
        """How many cells the table has."""
        return prod(self.query.schema[name].size for name in self.query.attributes)

    @property
    def better_by_cells(self) -> bool:
        """Whether noise on the cells is less than noise on the rows, at the same cost."""
        drawn, rows = self.problem.drawn, self.query.rows
        if not drawn.takes(lambda: all(_whole(piece.dense()) for piece in self.query.pieces)):
            return True
        by_rows = self._dearest**drawn.degree * self._norm(np.ones(rows))
        return self._norm(self._squares) < by_rows

    @property
    def _dearest(self) -> float:
        """What a record meets of the rows at most, in units of what it meets of cells."""
        query, power = self.query, self.problem.drawn.power
        dearest = float(QueryCosts.of(query, power).table(np.ones(query.rows)).values.max())
        if self.problem.neighbours == "add-remove" or query.rows * self.cells**2 > PAIRED:
            return dearest
        columns = different_columns(query.matrix.dense())
        return min(dearest, columns_apart(columns, power) / 2)

    @cached_property
    def _squares(self) -> Array:
        """‖w‖² of every row."""
        return self.query.matrix.row_squares()

    @property
    def _power(self) -> float:
        goal = self.problem.goal
        if isinstance(goal, TotalVariance | ConvexLoss):
            return 1.0
        return goal.p if isinstance(goal, PNormVariance) else inf

    def _norm(self, variances: Array) -> float:
        return float(np.linalg.norm(variances, self._power))

    @property
    def cell(self) -> float:
        """How much a cell counts, in units of a row."""
        if isinstance(self.problem.goal, ConvexLoss):
            return float(self._squares.mean())
        return self._norm(self._squares) / self._norm(np.ones(self.cells))


def _whole(values: Array) -> bool:
    return bool((values == np.rint(values)).all())
