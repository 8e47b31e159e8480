"""The exact optimum where the rank is low, however many cells there are.

What is measured are sums C·b of the numbers b of a few tables that span the workload's rows
(`base_tables`), C by `optimize.row_space_optimum`, in whole numbers where the noise is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import ceil, floor, log2, prod
from typing import Final

import numpy as np

from noiseplan.errors import PlanError, UnanswerableError, setting
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.exact_residuals import EXACT
from noiseplan.mechanisms.workload_rows import MOST_ROWS, WorkloadRowsMechanism
from noiseplan.noise.moments import size_above
from noiseplan.optimize.array_namespace import to_backend
from noiseplan.optimize.cell_columns import dense_seconds
from noiseplan.optimize.gram_roots import LARGE, is_low
from noiseplan.optimize.row_space_losses import Means, least_mean_loss
from noiseplan.optimize.row_space_optimum import (
    DIFFER_TOO_MUCH,
    SINGLE_CUBES,
    SINGLE_STEPS,
    RowBasis,
    RowSpaceOptimum,
    usual_seconds,
)
from noiseplan.planning.base_tables import BaseTables
from noiseplan.planning.candidate import (
    Candidate,
    Planner,
    inverse_squares,
    loss_of,
    p_norm_of,
    relative_of,
)
from noiseplan.planning.cell_classes import at_least
from noiseplan.planning.certificates import Certified, Unstated
from noiseplan.planning.limits import WORTH_IT
from noiseplan.planning.objectives import (
    ConvexLoss,
    Objective,
    PNormVariance,
    RelativeError,
    TotalVariance,
    WorstVariance,
)
from noiseplan.planning.problem import Problem
from noiseplan.planning.solve import own_loss
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.planning.workload_types import prepare
from noiseplan.privacy.rounding import margin
from noiseplan.progress import closing_gap
from noiseplan.queries import Workload

# Cells, after merging values that no query tells apart, all of which are looked at.
MOST_CELLS: Final = 10_000_000
# Rows whose single variances are looked at: half a GiB of prices.
MOST_SINGLE: Final = 4_000_000
# The relative gap asked for, and what rounding of sizes and prices may take of the budget.
TOLERANCE, ROOM = 5e-4, 1e-11
# Tried unasked where it takes no longer than so many seconds, to this gap; longer for single
# variances, since the families weight queries and not their rows, and are percents away, and where
# what is there is far from its bound: then it may be tens of percents away.
PATIENCE, ROUGH = 5.0, 1e-3
LONG_PATIENCE, ROUGHER = 20.0, 5e-3
# Seconds that are waited where nothing but a bound is asked for, and how near it must be.
FOR_A_BOUND, KNOWN = 60.0, 2e-5
# And so many times that for single variances, whose search takes so many times longer.
LONGER: Final = SINGLE_STEPS * SINGLE_CUBES
# The longest column of C in whole numbers: rounding then moves a variance by some 2^−bits.
MIX_BITS, SHARP_BITS, GIVEN_UP = 20, 26, 8


def refuses(problem: Problem) -> str | None:
    """Why there is no such plan, and what to do."""
    reason = _outside(problem) or _too_large(BaseTables.of(problem.design), problem)
    return reason and setting("planner", problem.name) + " " + reason


def _outside(problem: Problem) -> str | None:
    """What it does not plan whatever the workload, or because of too many cells."""
    goal = problem.goal
    if problem.neighbours != "add-remove":
        return "plans for neighbours that add or remove a record; use " + setting("planner", "auto")
    if _power(goal) > 1 and problem.workload.rows > MOST_SINGLE:
        return (
            f"looks at every row for anything but sums of variances, at most "
            f"{MOST_SINGLE:,}, and the workload has {problem.workload.rows:,}; use "
            + setting("planner", "auto")
        )
    numbers = int(max(at_least(problem.design), _most_numbers(problem)))
    if numbers > MOST_ROWS:
        return _too_many(numbers)
    cells = told_apart(problem)
    if cells > MOST_CELLS:
        return (
            f"looks at every cell that queries tell apart, at most {MOST_CELLS:,}, and there are "
            f"up to {cells:,}; use " + setting("planner", "auto")
        )
    return None


def _power(goal: Objective) -> float:
    """p of the norm of single variances that is to be small; 1 for sums.

    A loss of one's own looks at queries, whose rows have prices too.
    """
    if isinstance(goal, PNormVariance):
        return goal.p
    return np.inf if isinstance(goal, WorstVariance | ConvexLoss) else 1.0


def _most_numbers(problem: Problem) -> int:
    """Of the largest factor: no more than its rows, nor than the values that queries tell apart."""
    design = problem.design
    pairs = ((r, m) for r, role in enumerate(design.roles.roles) for m in role.matrices)
    single = [min(m.shape[0], design.group_count(r)) for r, m in pairs]
    joint = [min(len(j.tensor), prod(j.tensor.shape[1:])) for j in design.joints]
    return max([*single, *joint], default=0)


def _too_many(numbers: int) -> str:
    return (
        f"works in the space that queries span, up to {MOST_ROWS:,} numbers of tables, and these "
        f"need {numbers:,} or more; ask for smaller tables, or use " + setting("planner", "auto")
    )


def told_apart(problem: Problem) -> int:
    """Cells that are left when values that no query tells apart are one: at least as many as
    classes of cells."""
    roles = problem.design.roles.of_attribute.tolist()
    return prod(problem.design.group_count(role) for role in roles if role >= 0)


def _too_large(tables: BaseTables, problem: Problem) -> str | None:
    """What makes no tables that can be measured."""
    if tables.size > MOST_ROWS:
        return _too_many(tables.size)
    if not problem.drawn.takes(lambda: tables.whole):
        return (
            "measures whole numbers, and a query has rows of fractions: multiply them until they "
            "are whole, or use " + setting("planner", "auto")
        )
    return None


def solve(problem: Problem) -> Candidate:
    """The optimum within a budget, or the least cost that meets the targets."""
    search = Search(problem)
    return search.made(search.found(TOLERANCE))


def sharp(problem: Problem, tolerance: float) -> Candidate:
    """The same to another gap, in finer whole numbers."""
    search = Search(problem, SHARP_BITS)
    return search.made(search.found(tolerance))


def low_rank(problem: Problem) -> bool:
    """Whether queries span so few dimensions that nothing over all cells is as fast."""
    if problem.size < LARGE or _outside(problem):
        return False
    search = Search(problem)
    fits = not _too_large(search.tables, problem) and search.prompt
    return fits and is_low(search.tables.size, problem.size)


def untried(problem: Problem, far: bool = False) -> str | None:
    """Why it is not tried unasked, if it is not: it cannot be, or takes more than some seconds.

    `far`: whether there is nothing yet but what is far from its bound.
    """
    if _outside(problem) or not problem.design.free:
        return f"not tried, {problem.size:,} cells"
    search = Search(problem)
    if _too_large(search.tables, problem):
        return f"not tried, {search.tables.size:,} numbers of tables"
    if search.seconds > search.patience(far):
        return f"not tried, about {search.seconds:,.0f} seconds"
    return None


def clearly_better(problem: Problem, value: float) -> Candidate | float:
    """The plan if it is clearly better than one of this value at the budget, or at cost one; else
    what nothing is below (0: nobody knows), at the same.

    `value` is the objective of the other plan within `problem.allowed`; for targets without a
    budget, its cost times the largest ratio of a variance to its target. Call it where
    `untried(problem)` is None. The search ends as soon as nothing clearly better is left.
    """
    unit = 1.0 if isinstance(problem.goal, ConvexLoss) else problem.allowed or 1.0
    search, hopeless = Search(problem), unit * (value - (1.0 - WORTH_IT) * abs(value))
    try:
        found = search.found(ROUGH if search.prompt else ROUGHER, hopeless)
        return search.made(found) if found.value < hopeless else found.bound / unit * (1 - 1e-9)
    except PlanError:  # weights that differ too much, noise that is too large to be drawn
        return 0.0


def affordable_optimum(problem: Problem, patient: bool = False) -> RowSpaceOptimum | None:
    """The least value at cost one and what none is below, where that takes some seconds.

    It is of the total or the worst variance, or of the largest ratio of a variance to its target.
    With `patient` it may take as long as it is asked for by name.
    """
    if (refuses(problem) if patient else untried(problem)) is not None:
        return None
    try:
        return Search(problem).found(ROUGH)
    except PlanError:  # weights that differ too much
        return None


def least_of_any(problem: Problem, value: float) -> float:
    """What no plan is below, at cost one (a loss of one's own: at the budget), where that is found
    within a minute; else 0. It ends as soon as a plan of this value is known to be the best.
    """
    if _outside(problem) is not None or not problem.design.free:
        return 0.0
    search = Search(problem)
    if _too_large(search.tables, problem) or search.seconds > FOR_A_BOUND:
        return 0.0
    try:
        return search.found(ROUGH, value - KNOWN * abs(value)).bound * (1 - 1e-9)
    except PlanError:  # weights that differ too much
        return 0.0


def optimum_at_cost_one(
    workload: Workload, tolerance: float = TOLERANCE, backend: str = "numpy"
) -> RowSpaceOptimum:
    """The least total variance at a privacy cost of one, and its certificate.

    `backend` is "numpy", "torch" or "torch:cuda" (extra ``gpu``): the same text on an accelerator.

    Examples
    --------
    >>> from noiseplan import Schema
    >>> schema = Schema.from_sizes({"a": 3, "b": 4})
    >>> found = optimum_at_cost_one(Workload.marginals(schema, k=1), 1e-6)
    >>> round(found.value, 4), found.gap <= 1e-6
    (11.6859, True)
    """
    tables = BaseTables.of(prepare(workload))
    root, columns = to_backend(tables.root(), backend), tables.columns().on(backend)
    return RowBasis.of(root, columns).least_total(tolerance)


@dataclass(frozen=True, eq=False)
class Search:
    """The search for C."""

    problem: Problem
    bits: int = MIX_BITS

    @cached_property
    def tables(self) -> BaseTables:
        """What sums are made of."""
        return BaseTables.of(self.problem.design)

    @cached_property
    def basis(self) -> RowBasis:
        """Independent sums of it."""
        goal = self.problem.goal
        of_rows = partial(inverse_squares, goal) if isinstance(goal, RelativeError) else None
        return RowBasis.of(self.tables.root(of_rows), self.tables.columns())

    @property
    def seconds(self) -> float:
        """About how long it takes on one core."""
        question = self.tables.seconds(told_apart(self.problem))
        if self._single:
            question += dense_seconds(self.problem.workload.rows, self.tables.size)
        return usual_seconds(question, self.tables.size, self._single)

    @property
    def _single(self) -> bool:
        """Whether single variances are looked at, and not only their total."""
        return _power(self.problem.goal) > 1

    @property
    def prompt(self) -> bool:
        """Whether it is there in a moment."""
        return self.seconds <= PATIENCE * (LONGER if self._single else 1.0)

    def patience(self, far: bool) -> float:
        """How many seconds are waited for it unasked."""
        if self._single:
            return LONG_PATIENCE * LONGER
        return LONG_PATIENCE if far else PATIENCE

    def found(self, tolerance: float, hopeless: float = np.inf) -> RowSpaceOptimum:
        """C for real numbers, at a largest cost of one."""
        with closing_gap("searching for the optimum", tolerance) as watch:
            goal, power = self.problem.goal, _power(self.problem.goal)
            if power > 1:
                rows = self.tables.rows(self.basis.back)
                if isinstance(goal, ConvexLoss):
                    means, cost = Means(rows, self.tables.owners), self.problem.allowed or 1.0
                    goal.check_convex(means.of(rows.variances(np.eye(self.basis.rank))) / cost)
                    loss = own_loss(goal, cost)
                    return least_mean_loss(self.basis, means, loss, tolerance, watch, hopeless)
                return self.basis.least_norm(rows, power, tolerance, watch, hopeless)
            return self.basis.least_total(tolerance, watch, hopeless)

    def mechanism(self, mix: Array) -> WorkloadRowsMechanism:
        """All of the budget spent; or as much noise as the targets leave."""
        problem, workload = self.problem, self.tables.workload
        mix = problem.numbers.scaled(mix, self._unit(mix))
        unit = WorkloadRowsMechanism(workload.schema, workload, mix, problem.drawn)
        if problem.allowed is not None:
            largest = float(self.basis.columns.squares(mix.T @ mix).max())
            rounding = 2 * margin(unit.numbers + workload.rows) + ROOM
            size = largest / problem.allowed * (1 + rounding)
        else:
            figures = RowFigures(problem.design, unit.floating())
            size = (1 - ROOM) / figures.target_scale(np.asarray(problem.targets))
        noise = problem.drawn.of_size(size_above(size)).require_drawable()
        return replace(unit, noise=noise)

    def _unit(self, mix: Array) -> float:
        """Return the power of two that multiplies C before it is rounded to whole numbers.

        The larger the rows of tables are, the smaller are the entries of C. Some bits are given up
        where sums would reach 2⁵³.
        """
        largest = self.tables.largest
        bits = self.bits + ceil(log2(largest.max()))
        exact = floor(log2(EXACT / (np.abs(mix) @ largest).max())) - 1
        return float(2.0 ** min(bits, max(exact, bits - GIVEN_UP)))

    def made(self, found: RowSpaceOptimum) -> Candidate:
        """The mechanism, its figures, and how near the best it is proved to be."""
        problem, mechanism = self.problem, self.mechanism(np.asarray(found.rows))
        privacy = mechanism.cost("add-remove")
        figures = RowFigures(problem.design, mechanism)
        unit = 1.0 if isinstance(problem.goal, ConvexLoss) else privacy.pcost
        planned, bound, value = found.value / unit, found.bound / unit, self.reached(figures)
        total = found.bound if isinstance(problem.goal, TotalVariance) else None
        gap = max((value - bound) / abs(value or 1.0), 0.0)
        known = Certified(problem.workload, privacy, gap, total)
        loss = (value - planned) / abs(planned or 1.0)
        return Candidate(problem.name, mechanism, privacy, figures, known, loss)

    def unproved(self, mix: Array, planned: float) -> Candidate:
        """Sums that no search found, with the total variance they would have at a cost of one."""
        problem, mechanism = self.problem, self.mechanism(mix)
        privacy, figures = mechanism.cost("add-remove"), RowFigures(problem.design, mechanism)
        known = Unstated(problem.workload, privacy, exact=problem.integer)
        loss = self.reached(figures) * privacy.pcost / planned - 1
        return Candidate(problem.name, mechanism, privacy, figures, known, loss)

    def reached(self, figures: RowFigures) -> float:
        """What is to be small."""
        try:
            return self._reached(figures)
        except UnanswerableError:
            raise PlanError(DIFFER_TOO_MUCH) from None

    def _reached(self, figures: RowFigures) -> float:
        if self.problem.targets is not None:
            return figures.target_scale(np.asarray(self.problem.targets))
        if isinstance(self.problem.goal, WorstVariance):
            return figures.worst_variance
        if isinstance(self.problem.goal, PNormVariance):
            return p_norm_of(self.problem.goal.p, self.problem, figures.mechanism)
        if isinstance(self.problem.goal, ConvexLoss):
            return loss_of(self.problem.goal, figures)
        if isinstance(self.problem.goal, RelativeError):
            return relative_of(self.problem.goal, self.problem, figures.mechanism)
        return figures.total_variance


PLANNER: Final = Planner(("optimal",), solve, refuses)
