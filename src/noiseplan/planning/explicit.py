"""Plans by one matrix over the whole (small) domain: exact optima, certified, for any objective.

| objective | strategy | certificate |
| --- | --- | --- |
| total variance, relative error | `explicit.optimum` | nuclear norm over prices of cells |
| worst variance, targets | `explicit.fitness` | factorisation norm over prices of rows and cells |
| p-norms, losses of one's own | `explicit.losses` | tangents of the loss |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import log

import numpy as np

from noiseplan.errors import PlanError, UnanswerableError, remedy, setting
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.optimize.allocation import Share
from noiseplan.optimize.convex_losses import Loss, Terms, least_loss
from noiseplan.optimize.cost_profiles import refined_cost
from noiseplan.optimize.fitness import least_cost
from noiseplan.optimize.optimum import Watch, dense_optimum
from noiseplan.optimize.sm2 import sm2
from noiseplan.planning.certificates import Certified
from noiseplan.planning.integer_matrix import (
    CLEARLY,
    integer_strategy,
    matrix_mechanism,
    mechanism_at,
    with_every_cell,
)
from noiseplan.planning.limits import (
    EXPLICIT,
    EXPLICIT_CELLS,
    FITTED,
    SMALL_CELLS,
    SMALL_PROBLEM,
    WORTH_IT,
)
from noiseplan.planning.objectives import (
    ConvexLoss,
    Objective,
    PNormVariance,
    RelativeError,
    TotalVariance,
    WorstVariance,
)
from noiseplan.planning.residual_mechanism import Made
from noiseplan.planning.small_workload import Asked, loss_terms
from noiseplan.planning.solve import own_loss, p_norm
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.planning.workload_types import Design
from noiseplan.privacy import Guarantee, Law, Neighbours
from noiseplan.progress import progress

# The relative gap asked for: by name, the same where that is large, and to see if it is worth it.
SHARP, LARGE_SHARP, ROUGH = 1e-6, 1e-4, 1e-3
SHARP_CELLS, SHARP_ROWS = 2048, 5000
# Rows that single variances are planned for by one matrix: minutes for so many.
MOST_ROWS = 20_000
# Steps of a loss that may have kinks, and never gets there.
ROUGH_STEPS, SHARP_STEPS = 60, 300


def check_explicit(planner: str, objective: Objective, neighbours: Neighbours, size: int) -> None:
    """Refuse what planners of one matrix cannot plan, before any work is done."""
    relative = isinstance(objective, RelativeError)
    if isinstance(objective, RelativeError):
        if planner not in ("auto", "optimal"):
            raise PlanError(
                f"RelativeError() is planned by one matrix over all cells: use planner='auto' or "
                f"planner='optimal', found {planner!r}"
            )
        objective.check(size)
        if size > EXPLICIT_CELLS:
            raise PlanError(
                f"RelativeError() is planned over domains of at most {EXPLICIT_CELLS:,} cells, and "
                f"the schema has {size:,}: weight queries by hand, Query(..., weight=...)"
            )
    if planner in FITTED and not isinstance(objective, WorstVariance):
        raise PlanError(
            setting("planner", planner)
            + " plans targets and the worst variance: give "
            + remedy("targets or worst", "targets=..., or objective=WorstVariance()")
            + ", or use "
            + setting("planner", "optimal")
        )
    if (relative or planner in EXPLICIT) and neighbours != "add-remove":
        what = "RelativeError()" if relative else setting("planner", planner)
        raise PlanError(
            what
            + " plans for neighbours that add or remove a record; use "
            + setting("planner", "auto")
            + " and another objective for "
            + setting("neighbours", "replace")
        )


def by_matrix(planner: str, objective: Objective) -> bool:
    """Whether the plan is to be one matrix, whatever else there is."""
    return planner in EXPLICIT or isinstance(objective, RelativeError)


def make_explicit(
    design: Design, objective: Objective, planner: str, budget: float | None, noise: str
) -> Made:
    """The plan by one matrix: within a budget, or at the least cost that meets the targets."""
    if isinstance(objective, WorstVariance) and design.workload.rows > MOST_ROWS:
        raise PlanError(
            setting("planner", planner)
            + f" looks at every row for targets and the worst variance, at most {MOST_ROWS:,}, and "
            f"the workload has {design.workload.rows:,}; use "
            + setting("planner", "residual")
            + ", or "
            + remedy("total", "TotalVariance()")
        )
    few = not isinstance(objective, WorstVariance) or design.workload.rows <= SHARP_ROWS
    sharp = few and design.workload.schema.size <= SHARP_CELLS
    tolerance = SHARP if sharp else LARGE_SHARP
    problem = _Problem(Asked(design), objective, planner, budget)
    return problem.made(problem.chosen(tolerance), noise == "discrete")


def better_explicit(
    design: Design, objective: Objective, value: float, neighbours: Neighbours,
    budget: float | None, noise: str,
) -> Made | None:  # fmt: skip
    """The same if it is clearly better than a residual plan of this value at this budget.

    One split per attribute must serve all its factors; where they differ much, a matrix over the
    whole domain does better, as long as the domain is small enough to have one. Without a budget
    the value is that at cost one.
    """
    size = design.workload.schema.size
    if not design.free or size > SMALL_CELLS or neighbours != "add-remove":
        return None
    single = not isinstance(objective, TotalVariance | ConvexLoss)
    asked = design.workload.rows if single else len(design.workload)
    if not isinstance(objective, TotalVariance) and asked + size > SMALL_PROBLEM:
        return None
    problem = _Problem(Asked(design), objective, "auto", budget)
    rough = problem.chosen(ROUGH)
    if not rough.value < WORTH_IT * value * problem.unit:
        return None
    return problem.made(problem.chosen(SHARP), noise == "discrete")


@dataclass(frozen=True, eq=False)
class Chosen:
    """A strategy of largest column norm one, what it reaches at cost one, what none is below.

    `bound` is zero where nothing is proved. For a loss of one's own, both are at the budget.
    """

    strategy: Array
    value: float
    bound: float


@dataclass(frozen=True, eq=False)
class _Problem:
    """What is asked, what is to be small, by which planner, at which cost (none: least)."""

    asked: Asked
    objective: Objective
    planner: str
    budget: float | None

    @property
    def unit(self) -> float:
        """What values at the budget times this are at cost one; losses stay as they are."""
        return 1.0 if self.budget is None or isinstance(self.objective, ConvexLoss) else self.budget

    def chosen(self, tolerance: float) -> Chosen:
        """The strategy."""
        if isinstance(self.objective, WorstVariance):
            return self._fitted(tolerance)
        if isinstance(self.objective, PNormVariance | ConvexLoss):
            terms, count = loss_terms(self.asked, self.objective)
            self._check_loss(terms)
            steps = ROUGH_STEPS if tolerance >= ROUGH else SHARP_STEPS
            found = least_loss(terms, self._loss(count), count, tolerance, steps)
            return Chosen(found.strategy, found.value, found.bound)
        with _watched(tolerance) as watch:
            best = dense_optimum(self._gram(), tolerance, watch=watch)
        return Chosen(best.strategy, best.value, best.bound)

    def _gram(self) -> Array:
        if isinstance(self.objective, RelativeError):
            return self.asked.gram(self.asked.relative_weights(self.objective))
        return self.asked.design.gram()

    def _fitted(self, tolerance: float) -> Chosen:
        """Least cost for unit variances in units of one over the priorities."""
        targets = 1.0 / self.asked.priorities
        if self.planner == "sm2":
            found = sm2(self.asked.written_out("planner='sm2'"), targets)
        elif self.planner == "refined":
            found = refined_cost(self.asked.written_out(setting("planner", "refined")), targets)
        else:
            with _watched(tolerance) as watch:
                found = least_cost(self.asked.rows(), targets, tolerance=tolerance, watch=watch)
        return Chosen(found.strategy / np.sqrt(found.cost), found.cost, found.bound)

    def _check_loss(self, terms: Terms) -> None:
        """Refuse a loss of one's own that is not convex about where the search starts."""
        if isinstance(self.objective, ConvexLoss):
            cells = self.asked.design.workload.schema.size
            self.objective.check_convex(terms.variances(np.eye(cells)) / (self.budget or 1.0))

    def _loss(self, count: int) -> Loss:
        if isinstance(self.objective, PNormVariance):
            return p_norm(self.objective.p, np.ones(count))
        assert isinstance(self.objective, ConvexLoss)
        own, cost = own_loss(self.objective), self.budget or 1.0

        def loss(variances: Array) -> tuple[float, Array]:
            value, slope = own(variances / cost)
            return value, slope / cost

        return loss

    def reached(self, mechanism: DenseMechanism) -> float:
        """The objective's value for what is really measured."""
        sigma = mechanism.cell_covariance()
        if isinstance(self.objective, WorstVariance):
            return float(self.asked.variances(sigma).max())
        if isinstance(self.objective, PNormVariance | ConvexLoss):
            terms, count = loss_terms(self.asked, self.objective)
            variances = terms.variances(sigma)
            if isinstance(self.objective, ConvexLoss):
                return self.objective.value(variances)
            return self._loss(count)(variances)[0]
        return float((self._gram() * sigma).sum())

    def mechanism(self, strategy: Array, integer: bool) -> tuple[DenseMechanism, float]:
        """All of the budget spent; or as much noise as the targets leave."""
        schema = self.asked.design.workload.schema
        if self.budget is not None:
            return matrix_mechanism(schema, strategy, self.budget, integer)
        strategy = integer_strategy(strategy) if integer else strategy
        spread = DenseMechanism(schema, strategy).cell_covariance()
        largest = float(self.asked.variances(spread).max())
        return mechanism_at(schema, strategy, 1.0 / (largest * (1.0 + CLEARLY)), integer)

    def _answers(self, mechanism: DenseMechanism) -> bool:
        """Whether rounding left every query an answer."""
        try:
            for query in self.asked.design.workload:
                mechanism.require(query)
        except UnanswerableError:
            return False
        return True

    def made(self, chosen: Chosen, integer: bool) -> Made:
        """The mechanism, its figures, and how near the best it is proved to be."""
        design = self.asked.design
        mechanism, cost = self.mechanism(chosen.strategy, integer)
        if not integer and not self._answers(mechanism):  # sizes of weights that differ very much
            mechanism, cost = self.mechanism(with_every_cell(chosen.strategy), integer)
        law: Law = "zcdp" if integer else "gaussian"
        privacy = Guarantee(cost, law, "add-remove")
        value = self.reached(mechanism)
        scale = 1.0 if isinstance(self.objective, ConvexLoss) else cost
        planned, bound = chosen.value / scale, chosen.bound / scale
        gap = max((value - bound) / abs(value or 1.0), 0.0) if chosen.bound else None
        total = chosen.bound if isinstance(self.objective, TotalVariance) else 0.0
        return Made(
            mechanism,
            privacy,
            RowFigures(design, mechanism),
            Share(np.ones(1), value, bound),
            (value - planned) / abs(planned or 1.0),
            Certified(design.workload, privacy, gap, total or None),
        )


@contextmanager
def _watched(tolerance: float) -> Iterator[Watch]:
    """A bar that fills up as the gap closes."""
    with progress("searching for the optimum", 100) as advance:
        shown = 0

        def watch(gap: float) -> None:
            nonlocal shown
            if 0.0 < gap < 1.0:
                reached = min(int(100 * log(gap) / log(tolerance)), 100)
                advance(max(reached - shown, 0))
                shown = max(reached, shown)

        yield watch
