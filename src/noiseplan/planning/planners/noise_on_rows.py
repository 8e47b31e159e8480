"""Noise on the workload's own rows, shared among them as is best: what would be done by hand.

It is independent noise on each table, with three things better: every query has the noise that
serves the objective most; the budget is spent by the record that meets most of the rows, not by one
that would meet all of them; and what queries have in common is estimated from all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import numpy as np
import scipy.sparse as sp

from noiseplan.arrays import IntArray, all_whole
from noiseplan.domain.record_costs import RecordCosts
from noiseplan.errors import QueryError, setting
from noiseplan.matrices import IdentityMatrix
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.workload_rows import WorkloadRowsMechanism
from noiseplan.noise import Noise
from noiseplan.noise.moments import discrete_gaussian_slope, discrete_gaussian_variance, sizes_above
from noiseplan.optimize.allocation import (
    PAYS_MORE,
    share_among_records,
    share_for_loss,
    shared_for_total,
)
from noiseplan.optimize.lbfgs import Smooth
from noiseplan.planning.candidate import Candidate, Planner, reached
from noiseplan.planning.certificates import Unstated
from noiseplan.planning.noise_within import require_change
from noiseplan.planning.objectives import (
    ConvexLoss,
    PNormVariance,
    RelativeError,
    TotalVariance,
    WorstVariance,
)
from noiseplan.planning.problem import Problem
from noiseplan.planning.solve import own_loss, p_norm
from noiseplan.planning.threads import one_thread
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.queries import Query, Workload

# Classes of rows that get noise of their own; beyond, all rows of a query share it.
MOST_CLASSES: Final = 512
# Queries and rows for which noise on the rows is planned.
MOST_QUERIES, MOST_ROWS = 4000, 200_000
# Numbers of all differences of two records that are looked at in each of many rounds.
PAIRED_NUMBERS: Final = 2**25
# What rounding of sizes and prices may take of the budget, or add to a variance.
ROOM: Final = 1e-11


def refuses(problem: Problem) -> str | None:
    """Fractions, where integers are measured; losses that noise is not shared for; what is too
    large."""
    if isinstance(problem.goal, ConvexLoss) and problem.drawn.power == 1:
        return (
            setting("planner", "workload")
            + " shares Laplace noise for norms of variances, not for a loss of your own; use "
            + setting("planner", "auto")
        )
    reason = untried(problem)
    return reason and (
        setting("planner", "workload")
        + f" measures the rows of the queries themselves, and was {reason}; use "
        + setting("planner", "auto")
    )


def untried(problem: Problem) -> str | None:
    """Why noise on the rows themselves is not planned, if it is not."""
    workload = problem.workload
    if isinstance(problem.goal, RelativeError):
        return "not tried for relative errors"
    if len(workload) > MOST_QUERIES or workload.rows > MOST_ROWS:
        return f"not tried, {len(workload):,} queries of {workload.rows:,} rows"
    try:
        whole = _whole(workload)
    except QueryError:
        return "not tried, rows of long attributes"
    taken = problem.drawn.takes(lambda: whole)
    return None if taken else "not tried, rows that are not whole numbers"


def _whole(workload: Workload) -> bool:
    """Whether all rows are of integers, so that discrete noise can be added to them."""
    factors = (workload.matrix(a, f) for a, f in workload.pairs())
    values = [f.dense() for f in factors if not isinstance(f, IdentityMatrix)]
    return all(map(all_whole, (*values, *workload.columns.matrices)))


def solve(problem: Problem) -> Candidate:
    """Within the budget, or at the least cost that meets the targets.

    Where noise is of less than one count, shares for its own variances are tried too. They leave
    out what queries have in common, as all shares do, and may be worse for that.
    """
    faint = problem.faint and isinstance(problem.goal, TotalVariance)
    with one_thread(problem.design):
        found = [on_rows(problem, way).made() for way in ((False, True) if faint else (False,))]
    return min(found, key=lambda candidate: reached(problem, candidate))


@dataclass(frozen=True, eq=False)
class NoiseOnRows:
    """The rows to measure and the noise of each, at a cost of one until it is made.

    `faint`: shared for the variances that discrete noise of the budget has. `of_one_size`: the keys
    of queries of which all rows have the same noise.
    """

    unchanged: ClassVar[float] = 1.0  # the size of noise on rows that no record changes

    problem: Problem
    faint: bool = False
    of_one_size: frozenset[object] = frozenset()

    @cached_property
    def _merged(self) -> tuple[Workload, IntArray]:
        """Different queries, once each and without a name, and which of them every query is."""
        plain = [Query(q.schema, q.factors, matrix=q.joint) for q in self.problem.workload]
        number: dict[object, int] = {}
        kind = np.array([number.setdefault(query.key, len(number)) for query in plain])
        return Workload(plain), kind

    @property
    def workload(self) -> Workload:
        """What is measured."""
        return self._merged[0]

    @cached_property
    def costs(self) -> RecordCosts:
        """What records meet of its rows."""
        return RecordCosts(self.workload, self.problem.drawn.power)

    # ------------------------------------------------------------------ classes of rows

    @cached_property
    def classes(self) -> IntArray:
        """Rows of one query of the same length have noise of one size; or all rows of a query."""
        query = np.repeat(np.arange(len(self.workload)), self.workload.sizes)
        lengths = self.costs.by_row(lambda factor: factor.sum(axis=1))
        if self.of_one_size:
            alike = np.array([each.key in self.of_one_size for each in self.workload])
            lengths = np.where(alike[query], 0.0, lengths)
        pairs = np.column_stack([query.astype(np.float64), lengths])
        found = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
        return found if found.max() < MOST_CLASSES else query

    @cached_property
    def _rows(self) -> Array:
        """How many rows each class has."""
        return np.bincount(self.classes).astype(np.float64)

    @cached_property
    def _query(self) -> IntArray:
        """The query of each class."""
        query = np.repeat(np.arange(len(self.workload)), self.workload.sizes)
        return query[np.unique(self.classes, return_index=True)[1]]

    def _priorities(self, ufunc: np.ufunc) -> Array:
        """The weight of a row of each class: of all who ask for it, or the largest of them."""
        found = np.zeros(len(self.workload))
        ufunc.at(found, self._merged[1], self.problem.design.priorities)
        return found[self._query]

    # ------------------------------------------------------------------ noise

    @cached_property
    def sizes(self) -> Array:
        """The noise of each class at a cost of one, or a little more."""
        self._require_change()
        floor = np.where(self._changed > 0, self._changed, self.unchanged)
        return share_among_records(self._dearest, self._shared, floor)

    def _require_change(self) -> None:
        """Refuse what no record changes, if that cannot be told without noise."""

    @cached_property
    def _changed(self) -> Array:
        """What a record changes in any row of each class at most."""
        found = np.zeros(len(self._rows))
        np.maximum.at(found, self.classes, self._most_changed)
        return found

    @property
    def _most_changed(self) -> Array:
        """What a record changes in every row at most."""
        return self.costs.by_row(lambda factor: factor.max(axis=1))

    def _dearest(self, sizes: Array) -> Array:
        """What a record meets that pays more than one; or, if none is found at once, the most."""
        prices = 1.0 / sizes[self.classes]
        most, cell = self.costs.large(prices)
        if most <= 1 + PAYS_MORE:
            most, cell = self.costs.largest(prices)
        met = np.bincount(self.classes, self.costs.at(cell), minlength=len(sizes))
        return met.astype(np.float64)

    def _shared(self, met: Array) -> Array:
        """The best sizes if there were no records but these, zero for what none of them meets."""
        degree = self.problem.drawn.degree
        if isinstance(self.problem.goal, WorstVariance):  # less noise than the most helps none
            each = self._priorities(np.maximum) ** (1 / degree)
            sizes, paid = np.zeros(met.shape[1]), self._changed > 0
            sizes[paid] = (met @ each).max() / each[paid]
            return sizes
        seen = np.flatnonzero(met.any(axis=0))
        sizes, met = np.zeros(met.shape[1]), met[:, seen]
        sizes[seen] = self._for_loss(met, seen, degree)
        return sizes

    def _for_loss(self, met: Array, seen: IntArray, degree: int) -> Array:
        """The same for a loss of all variances, which are the sizes themselves."""
        start = self._for_total(met, seen, degree)
        if isinstance(self.problem.goal, TotalVariance) and not self.faint:
            return start
        rows, loss = self._loss
        return share_for_loss(met, sp.csr_array(rows[:, seen]), 1.0, loss, start).sigma2

    def _for_total(self, met: Array, seen: IntArray, degree: int) -> Array:
        weight = (self._priorities(np.add) * self._rows)[seen]
        return shared_for_total(met, weight, degree)

    @cached_property
    def _loss(self) -> tuple[sp.csr_array, Smooth]:
        """What variances the loss is of, as sums over classes, and the loss at a cost of one."""
        goal, cost = self.problem.goal, self.problem.at_one
        if isinstance(goal, TotalVariance):
            return sp.eye_array(len(self._rows)).tocsr(), self._discrete_total(cost)
        if isinstance(goal, PNormVariance):
            return sp.diags_array(self._priorities(np.maximum)).tocsr(), p_norm(goal.p, self._rows)
        assert isinstance(goal, ConvexLoss)
        own, asked = own_loss(goal), self.problem.workload
        share = self._rows / self.workload.sizes[self._query]
        mine = (self._merged[1][:, None] == self._query) * share
        rows = sp.csr_array(mine * asked.columns.weights[:, None])

        def loss(variances: Array) -> tuple[float, Array]:
            value, slope = own(variances / cost)
            return value, slope / cost

        return rows, loss

    def _discrete_total(self, cost: float) -> Smooth:
        """Σ V_a v(σ²_a), with the variances v that discrete noise really has at this cost."""
        weight = self._priorities(np.add) * self._rows

        def loss(sizes: Array) -> tuple[float, Array]:
            each = sizes / cost
            total = float(weight @ discrete_gaussian_variance(each))
            return total, weight * discrete_gaussian_slope(each) / cost

        return loss

    # ------------------------------------------------------------------ made

    @property
    def value(self) -> float:
        """What the objective is at a cost of one, each row by itself: at most a little above the
        best that is made by hand, and what the queries have in common makes it better."""
        goal, noise = self.problem.goal, self.problem.drawn.of_size(self.sizes)
        each = self._variances(noise)
        if isinstance(goal, WorstVariance):
            return float((self._priorities(np.maximum) * each).max())
        if isinstance(goal, TotalVariance):
            return float((self._priorities(np.add) * self._rows) @ each)
        rows, loss = self._loss
        return loss(rows @ each)[0]

    def _variances(self, noise: Noise) -> Array:
        return noise.nominal

    def made(self) -> Candidate:
        """The mechanism; without a budget, with as much noise as the targets leave."""
        problem = self.problem
        allowed = problem.price
        mechanism = self._mechanism(self.sizes)
        if allowed is None:
            assert problem.priorities is not None  # there are targets
            figures = RowFigures(problem.design, mechanism.floating())
            scale = figures.target_scale(1.0 / problem.priorities)
            mechanism = self._mechanism(self.sizes / scale * (1 - ROOM))
        else:
            paid = mechanism.record_cost(problem.neighbours) / allowed
            mechanism = self._mechanism(self.sizes * paid * (1 + ROOM))
        mechanism.noise.require_drawable()
        privacy = mechanism.cost(problem.neighbours)
        figures = RowFigures(problem.design, mechanism)
        known = Unstated(problem.workload, privacy, exact=problem.integer)
        return Candidate("workload", mechanism, privacy, figures, known)

    def _mechanism(self, sizes: Array) -> WorkloadRowsMechanism:
        noise = self.problem.drawn.of_size(sizes_above(sizes)[self.classes])
        return WorkloadRowsMechanism(self.workload.schema, self.workload, None, noise)


@dataclass(frozen=True, eq=False)
class LaplaceOnRows(NoiseOnRows):
    """Where variances are squares of sizes: norms of them are sums of powers, which have a closed
    form, and other losses are shared for as the total.

    Where records are replaced and few enough to be compared, the total is measured too: it is
    public, and has hardly any noise.
    """

    unchanged: ClassVar[float] = 2.0**-10

    @cached_property
    def workload(self) -> Workload:
        """The different queries, and the total if pairs of records show that it costs nothing."""
        return super().workload if self._columns is None else self._with_total

    @cached_property
    def _with_total(self) -> Workload:
        workload, total = super().workload, Query(self.problem.workload.schema, {})
        return workload if total.key in {q.key for q in workload} else Workload([*workload, total])

    @cached_property
    def _columns(self) -> Array | None:
        """What different records change, where one is replaced and pairs of them are few."""
        if self.problem.neighbours != "replace":
            return None
        rows = self._with_total
        noise = self.problem.drawn.of_size(np.ones(rows.rows))
        measured = WorkloadRowsMechanism(rows.schema, rows, None, noise)
        return measured.compared_columns(PAIRED_NUMBERS)

    def _require_change(self) -> None:
        require_change(float(self._changed.max()))

    @property
    def _most_changed(self) -> Array:
        columns = self._columns
        return super()._most_changed if columns is None else np.ptp(columns, axis=1)

    def _dearest(self, sizes: Array) -> Array:
        """The same of the farthest two records."""
        if self._columns is None:
            return super()._dearest(sizes)
        from scipy.spatial.distance import cdist  # other plans start without it

        columns = self._columns.T
        scaled = columns / sizes[self.classes]
        pair = np.unravel_index(cdist(scaled, scaled, "cityblock").argmax(), 2 * (len(columns),))
        apart = np.abs(np.diff(columns[list(pair)], axis=0)[0])
        return np.bincount(self.classes, apart, minlength=len(sizes)).astype(np.float64)

    def _for_loss(self, met: Array, seen: IntArray, degree: int) -> Array:
        goal = self.problem.goal
        if not isinstance(goal, PNormVariance):
            return self._for_total(met, seen, degree)
        each = self._priorities(np.maximum) ** goal.p
        return shared_for_total(met, (each * self._rows)[seen], degree * goal.p)

    def _variances(self, noise: Noise) -> Array:
        """Discrete noise of less than one count has less than continuous noise."""
        epsilon = self.problem.epsilon
        return np.asarray(noise.of_size(self.sizes / epsilon).variance * epsilon**2)


# By the power of entries that noise is scaled to.
ON_ROWS: Final = {1: LaplaceOnRows, 2: NoiseOnRows}


def on_rows(
    problem: Problem, faint: bool = False, of_one_size: frozenset[object] = frozenset()
) -> NoiseOnRows:
    """Noise on the rows of a problem, of the kind that it is planned with."""
    return ON_ROWS[problem.drawn.power](problem, faint, of_one_size)


PLANNER: Final = Planner(("workload",), solve, refuses)
