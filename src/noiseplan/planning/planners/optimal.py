"""Plans by one matrix over the whole (small) domain: exact optima, certified, for any objective.

| objective | strategy | certificate |
| --- | --- | --- |
| total variance, relative error | `optimize.optimum` | nuclear norm over prices of cells |
| worst variance, targets | `optimize.fitness` | factorisation norm over prices of rows and cells |
| p-norms, losses of one's own | `optimize.convex_losses` | tangents of the loss |

A row's priority is its query's weight, or one over its target; priorities multiply variances.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from noiseplan.errors import PlanError, remedy, setting
from noiseplan.matrices import DenseMatrix, StackMatrix
from noiseplan.matrices.base import Array, Matrix
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.optimize.convex_losses import Loss, Terms, least_loss
from noiseplan.optimize.cost_profiles import refined_cost
from noiseplan.optimize.fitness import FEW_ROWS, least_cost
from noiseplan.optimize.integer_rounding import with_every_cell
from noiseplan.optimize.optimum import dense_optimum
from noiseplan.optimize.sm2 import sm2
from noiseplan.planning.candidate import Candidate, Planner
from noiseplan.planning.certificates import Certified
from noiseplan.planning.limits import (
    EXPLICIT,
    EXPLICIT_CELLS,
    FITTED,
    SMALL_CELLS,
    SMALL_PROBLEM,
    WORTH_IT,
)
from noiseplan.planning.noise_within import matrix_mechanism, mechanism_at
from noiseplan.planning.objectives import (
    ConvexLoss,
    Objective,
    PNormVariance,
    RelativeError,
    TotalVariance,
    WorstVariance,
)
from noiseplan.planning.planners import row_space_plans
from noiseplan.planning.problem import Problem
from noiseplan.planning.solve import own_loss, p_norm
from noiseplan.planning.threads import one_thread
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.planning.workload_types import Design
from noiseplan.privacy import Guarantee
from noiseplan.progress import closing_gap

# Up to so many numbers rows are written out: then equal ones merge, and separate cells separate.
WRITTEN_OUT = 20_000_000

# The relative gap asked for: by name, the same where that is large, and to see if it is worth it.
SHARP, LARGE_SHARP, ROUGH = 1e-6, 1e-4, 1e-3
SHARP_CELLS, SHARP_ROWS = 2048, 5000
# Rows that single variances are planned for by one matrix: half a GiB of prices.
MOST_ROWS = 4_000_000
# Targets are met by this much more than they ask, so that no rounding can tell otherwise.
CLEARLY = 1e-9
SEARCHING: Final = "searching for the optimum"
# Steps of a loss that may have kinks, and never gets there.
ROUGH_STEPS, SHARP_STEPS = 60, 300


@dataclass(frozen=True, eq=False)
class Asked:
    """The rows of all queries, one query after the other."""

    design: Design

    @cached_property
    def queries(self) -> list[Matrix]:
        return [query.domain_matrix for query in self.design.workload]

    @cached_property
    def by_query(self) -> Array:
        """The priority of every query."""
        roles = self.design.roles
        return np.asarray(roles.type_priority[roles.type_of_query], dtype=np.float64)

    @cached_property
    def priorities(self) -> Array:
        """The priority of every row."""
        return np.repeat(self.by_query, [rows.shape[0] for rows in self.queries])

    def rows(self) -> Matrix | Array:
        """All rows: written out if they are few or numbers, else a matrix that is never stored."""
        count = len(self.priorities)
        stacked = StackMatrix(tuple(self.queries))
        few = count <= FEW_ROWS or all(isinstance(rows, DenseMatrix) for rows in self.queries)
        if few and count * self.design.workload.schema.size <= WRITTEN_OUT:
            return stacked.dense(WRITTEN_OUT)
        return stacked

    def written_out(self, what: str) -> Array:
        """All rows as numbers, for what needs them so."""
        count, cells = len(self.priorities), self.design.workload.schema.size
        if count * cells > WRITTEN_OUT:
            raise PlanError(
                what + f" works on rows written out, at most {WRITTEN_OUT:,} numbers, and the "
                f"workload has {count:,} rows × {cells:,} cells; use "
                + setting("planner", "optimal")
            )
        return StackMatrix(tuple(self.queries)).dense(WRITTEN_OUT)

    def variances(self, sigma: Array) -> Array:
        """Priority times variance of every row, for a covariance Σ of the cells."""
        forms = [rows.quadratic_rows(sigma) for rows in self.queries]
        return self.priorities * np.maximum(np.concatenate(forms), 0.0)

    def gram(self, weights: Array) -> Array:
        """Σ_j weights_j priority_j w_jᵀw_j over all rows."""
        ends = np.cumsum([rows.shape[0] for rows in self.queries])[:-1]
        total = np.zeros((self.design.workload.schema.size,) * 2)
        for rows, part in zip(self.queries, np.split(weights * self.priorities, ends), strict=True):
            total += rows.weighted_gram(part)
        return total

    def relative_weights(self, objective: RelativeError) -> Array:
        """One over the square each row's error is compared with."""
        squares = [objective.squares(rows.row_squares(), rows.matmul) for rows in self.queries]
        return 1.0 / np.concatenate(squares)


@dataclass(frozen=True, eq=False)
class AskedByQuery:
    """One number per query: priority times the mean variance of its rows."""

    asked: Asked

    @cached_property
    def _scale(self) -> Array:
        rows = np.array([rows.shape[0] for rows in self.asked.queries], dtype=np.float64)
        return self.asked.by_query / rows

    def variances(self, sigma: Array) -> Array:
        sums = [max(float((rows.gram() * sigma).sum()), 0.0) for rows in self.asked.queries]
        return np.asarray(self._scale * np.array(sums))

    def gram(self, weights: Array) -> Array:
        total = np.zeros((self.asked.design.workload.schema.size,) * 2)
        for rows, weight in zip(self.asked.queries, weights * self._scale, strict=True):
            total += weight * rows.gram()
        return total


def loss_terms(asked: Asked, objective: Objective) -> tuple[Asked | AskedByQuery, int]:
    """What a p-norm or a loss of one's own looks at, and how many numbers that is."""
    if isinstance(objective, PNormVariance):
        return asked, len(asked.priorities)
    assert isinstance(objective, ConvexLoss)
    return AskedByQuery(asked), len(asked.queries)


def refuses(problem: Problem) -> str | None:
    """What planners of one matrix cannot plan."""
    planner, goal, size = problem.planner, problem.goal, problem.size
    if isinstance(goal, RelativeError):
        if planner not in ("auto", "optimal"):
            return (
                f"RelativeError() is planned by one matrix over all cells: use planner='auto' or "
                f"planner='optimal', found {planner!r}"
            )
        goal.check(size)
    if planner in FITTED and not isinstance(goal, WorstVariance):
        return (
            setting("planner", problem.name)
            + " plans targets and the worst variance: give "
            + remedy("targets or worst", "targets=..., or objective=WorstVariance()")
            + ", or use "
            + setting("planner", "optimal")
        )
    if problem.neighbours != "add-remove":
        return _not_for_replaced(problem)
    rows = problem.workload.rows
    if isinstance(goal, WorstVariance) and rows > MOST_ROWS and size <= EXPLICIT_CELLS:
        return (
            setting("planner", problem.name)
            + f" looks at every row for targets and the worst variance, at most {MOST_ROWS:,}, and "
            f"the workload has {rows:,}; use "
            + setting("planner", "residual")
            + ", or "
            + remedy("total", "TotalVariance()")
        )
    return None


def _not_for_replaced(problem: Problem) -> str:
    if isinstance(problem.goal, RelativeError):
        return (
            "RelativeError() is planned for neighbours that add or remove a record; for "
            + setting("neighbours", "replace")
            + " use "
            + remedy("total", "TotalVariance()")
            + " and weight queries by hand, Query(..., weight=...)"
        )
    return (
        setting("planner", problem.name)
        + " plans for neighbours that add or remove a record; for "
        + setting("neighbours", "replace")
        + " use "
        + setting("planner", "optimal")
    )


def solve(problem: Problem) -> Candidate:
    """The plan by one matrix: within a budget, or at the least cost that meets the targets."""
    if problem.planner == "optimal" and row_space_plans.low_rank(problem):
        return row_space_plans.sharp(problem, SHARP)
    few = not isinstance(problem.goal, WorstVariance) or problem.workload.rows <= SHARP_ROWS
    sharp = few and problem.size <= SHARP_CELLS
    with one_thread(problem.design):
        search = _Search.of(problem)
        return search.made(search.chosen(SHARP if sharp else LARGE_SHARP))


def untried(problem: Problem) -> str | None:
    """Why a matrix over all cells is not tried unasked, if it is not.

    One split per attribute must serve all its factors; where they differ much, a matrix over the
    whole domain does better, as long as the domain is small enough to have one.
    """
    goal, size = problem.goal, problem.size
    if not problem.design.free:
        return "not tried for plain tables"
    if size > SMALL_CELLS:
        return f"not tried, {size:,} cells"
    if not isinstance(goal, TotalVariance):
        single = not isinstance(goal, ConvexLoss)
        asked = problem.workload.rows if single else len(problem.workload)
        if asked + size > SMALL_PROBLEM:
            return f"not tried, {asked:,} {'rows' if single else 'queries'} of {size:,} cells"
    return None


def clearly_better(problem: Problem, value: float) -> Candidate | None:
    """The plan if it is clearly better than one of this value at the budget, or at cost one."""
    search = _Search.of(problem)
    rough = search.chosen(ROUGH)
    if not rough.value < WORTH_IT * value * search.unit:
        return None
    return search.made(search.chosen(SHARP))


@dataclass(frozen=True, eq=False)
class Chosen:
    """A strategy of largest column norm one, what it reaches at cost one, what none is below.

    `bound` is zero where nothing is proved. For a loss of one's own, both are at the budget.
    """

    strategy: Array
    value: float
    bound: float


@dataclass(frozen=True, eq=False)
class _Search:
    """The search for one matrix."""

    problem: Problem
    asked: Asked
    goal: Objective  # what is to be small
    budget: float | None  # at which cost; none: the least

    @classmethod
    def of(cls, problem: Problem) -> _Search:
        return cls(problem, Asked(problem.design), problem.goal, problem.allowed)

    @property
    def unit(self) -> float:
        """What values at the budget times this are at cost one; losses stay as they are."""
        return 1.0 if self.budget is None or isinstance(self.goal, ConvexLoss) else self.budget

    def chosen(self, tolerance: float) -> Chosen:
        """The strategy."""
        if isinstance(self.goal, WorstVariance):
            return self._fitted(tolerance)
        if isinstance(self.goal, PNormVariance | ConvexLoss):
            terms, count = loss_terms(self.asked, self.goal)
            self._check_loss(terms)
            steps = ROUGH_STEPS if tolerance >= ROUGH else SHARP_STEPS
            found = least_loss(terms, self._loss(count), count, tolerance, steps)
            return Chosen(found.strategy, found.value, found.bound)
        with closing_gap(SEARCHING, tolerance) as watch:
            best = dense_optimum(self._gram(), tolerance, watch=watch)
        return Chosen(best.strategy, best.value, best.bound)

    def _gram(self) -> Array:
        if isinstance(self.goal, RelativeError):
            return self.asked.gram(self.asked.relative_weights(self.goal))
        return self.asked.design.gram()

    def _fitted(self, tolerance: float) -> Chosen:
        """Least cost for unit variances in units of one over the priorities."""
        targets = 1.0 / self.asked.priorities
        if self.problem.planner == "sm2":
            found = sm2(self.asked.written_out("planner='sm2'"), targets)
        elif self.problem.planner == "refined":
            found = refined_cost(self.asked.written_out(setting("planner", "refined")), targets)
        else:
            with closing_gap(SEARCHING, tolerance) as watch:
                found = least_cost(self.asked.rows(), targets, tolerance=tolerance, watch=watch)
        return Chosen(found.strategy / np.sqrt(found.cost), found.cost, found.bound)

    def _check_loss(self, terms: Terms) -> None:
        """Refuse a loss of one's own that is not convex about where the search starts."""
        if isinstance(self.goal, ConvexLoss):
            alone = terms.variances(np.eye(self.problem.size))
            self.goal.check_convex(alone / (self.budget or 1.0))

    def _loss(self, count: int) -> Loss:
        if isinstance(self.goal, PNormVariance):
            return p_norm(self.goal.p, np.ones(count))
        assert isinstance(self.goal, ConvexLoss)
        return own_loss(self.goal, self.budget or 1.0)

    def reached(self, mechanism: DenseMechanism) -> float:
        """The objective's value for what is really measured."""
        sigma = mechanism.cell_covariance()
        if isinstance(self.goal, WorstVariance):
            return float(self.asked.variances(sigma).max())
        if isinstance(self.goal, PNormVariance | ConvexLoss):
            terms, count = loss_terms(self.asked, self.goal)
            variances = terms.variances(sigma)
            if isinstance(self.goal, ConvexLoss):
                return self.goal.value(variances)
            return self._loss(count)(variances)[0]
        return float((self._gram() * sigma).sum())

    def mechanism(self, strategy: Array) -> tuple[DenseMechanism, float]:
        """All of the budget spent; or as much noise as the targets leave."""
        schema, numbers = self.asked.design.workload.schema, self.problem.numbers
        if self.budget is not None:
            return matrix_mechanism(schema, strategy, self.budget, numbers)
        strategy = numbers.strategy(strategy)
        spread = DenseMechanism(schema, strategy).cell_covariance()
        largest = float(self.asked.variances(spread).max())
        return mechanism_at(schema, strategy, 1.0 / (largest * (1.0 + CLEARLY)), numbers)

    def _answers(self, mechanism: DenseMechanism) -> bool:
        """Whether rounding left every query an answer."""
        return all(mechanism.determines(query) for query in self.asked.design.workload)

    def made(self, chosen: Chosen) -> Candidate:
        """The mechanism, its figures, and how near the best it is proved to be."""
        workload, every_cell = self.problem.workload, self.problem.numbers.determines_cells
        mechanism, cost = self.mechanism(chosen.strategy)
        if not (every_cell or self._answers(mechanism)):  # sizes of weights that differ very much
            mechanism, cost = self.mechanism(with_every_cell(chosen.strategy))
        privacy = Guarantee(cost, self.problem.drawn.accounting, "add-remove")
        value = self.reached(mechanism)
        scale = 1.0 if isinstance(self.goal, ConvexLoss) else cost
        planned, bound = chosen.value / scale, chosen.bound / scale
        gap = max((value - bound) / abs(value or 1.0), 0.0) if chosen.bound else None
        total = chosen.bound if isinstance(self.goal, TotalVariance) else 0.0
        return Candidate(
            self.problem.name,
            mechanism,
            privacy,
            RowFigures(self.asked.design, mechanism),
            Certified(workload, privacy, gap, total or None),
            (value - planned) / abs(planned or 1.0),
        )


PLANNER: Final = Planner(EXPLICIT, solve, refuses, EXPLICIT_CELLS, row_space_plans.PLANNER)
