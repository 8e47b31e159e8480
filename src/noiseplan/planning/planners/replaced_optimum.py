"""The exact optimum where one record may replace another, over the classes of cells told apart.

Classes of cells are the values of one attribute, whose residual has an optimum over all pairs of
them (`replaced_split`); the total costs nothing and is exact. Tables of one attribute each are
planned so where they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from noiseplan.domain.cells import Classes
from noiseplan.errors import PlanError, remedy, setting
from noiseplan.planning.candidate import Candidate, Planner, reached
from noiseplan.planning.cell_classes import at_least
from noiseplan.planning.certificates import Certified
from noiseplan.planning.finish import require_sound
from noiseplan.planning.limits import SMALL_PROBLEM
from noiseplan.planning.objectives import (
    ConvexLoss,
    PNormVariance,
    RelativeError,
    TotalVariance,
    WorstVariance,
)
from noiseplan.planning.planners import residual_family
from noiseplan.planning.problem import Problem
from noiseplan.planning.replaced_split import (
    bound_alone,
    norm_bound_alone,
    rows_affordable,
    tangent,
)
from noiseplan.planning.smaller_domain import SmallerDomain, smaller
from noiseplan.planning.table_matrix import norm_power
from noiseplan.planning.workload_types import Design, measured_alone

# Classes of cells all pairs of which are looked at, unasked too: some ten seconds.
MOST_CLASSES: Final = 1024


def refuses(problem: Problem) -> str | None:
    """Relative errors; too many classes are told when they are found."""
    if not isinstance(problem.goal, RelativeError):
        return None
    return (
        setting("planner", "optimal")
        + f" plans variances and targets where records are replaced, found {problem.goal}; use "
        + remedy("total", "TotalVariance()")
        + ", and weight queries by hand"
    )


def solve(problem: Problem) -> Candidate:
    """The optimum over classes of cells."""
    design = problem.design
    if _by_attribute(problem) and (isinstance(problem.goal, TotalVariance) or _affordable(design)):
        return residual_family.solve(problem)
    found = _classes(problem)
    if isinstance(found, str):
        raise PlanError(
            setting("planner", "optimal")
            + f" looks at all pairs of cells where records are replaced, at most {MOST_CLASSES:,} "
            f"cells, and {found}; use " + setting("planner", "auto")
        )
    if _has_too_many_variances(problem, found):
        raise PlanError(
            setting("planner", "optimal")
            + f" looks at each variance of {problem.workload.rows:,} rows for each class of cells "
            f"where records are replaced, which takes too long; use " + setting("planner", "auto")
        )
    return _over(problem, found)


def untried(problem: Problem) -> str | None:
    """Why it is not tried unasked, if it is not."""
    if refuses(problem):
        return "not tried for this objective"
    total, rows = isinstance(problem.goal, TotalVariance), problem.workload.rows
    if _by_attribute(problem) and (total or _affordable(problem.design)):
        return "not better for tables of one attribute"
    if isinstance(problem.goal, WorstVariance | PNormVariance) and rows > SMALL_PROBLEM:
        return f"not tried, {rows:,} rows"
    found = _classes(problem)
    if isinstance(found, str):
        return f"not tried, {problem.size:,} cells"
    return f"not tried, {rows:,} rows" if _has_too_many_variances(problem, found) else None


def unasked(problem: Problem) -> Candidate | str:
    """The optimum, or why it is not tried."""
    reason = untried(problem)
    return solve(problem) if reason is None else reason


def _by_attribute(problem: Problem) -> bool:
    """Whether the optimum is that of every attribute by itself: a loss sees all of them at once."""
    several = len(problem.design.roles.roles) > 1
    return measured_alone(problem.design) and not (several and isinstance(problem.goal, ConvexLoss))


def _affordable(design: Design) -> bool:
    return not design.free or rows_affordable(design)


def _classes(problem: Problem) -> SmallerDomain | str:
    if at_least(problem.design) > MOST_CLASSES:
        return f"the schema has {problem.size:,}"
    found = smaller(problem, MOST_CLASSES)
    if isinstance(found, SmallerDomain) and not isinstance(found.cells, Classes):
        return f"its queries have {problem.workload.rows:,} rows"
    return found


def _has_too_many_variances(problem: Problem, found: SmallerDomain) -> bool:
    """Whether single variances would take too long to plan for, over classes of cells."""
    total = isinstance(problem.goal, TotalVariance)
    return not (total or _affordable(found.forward(problem).design))


def _over(problem: Problem, found: SmallerDomain) -> Candidate:
    small = found.forward(problem)
    inner = residual_family.solve(replace(small, planner="residual"))
    require_sound(small, inner)
    return replace(found.back(inner), name=problem.name, optimality=_known(problem, small, inner))


def _known(problem: Problem, small: Problem, inner: Candidate) -> Certified:
    """How far from the optimum, by the weights of pairs that it was found with; for a loss, by
    those of its tangent."""
    goal, design, value = small.goal, small.design, reached(small, inner)
    cost = 1.0 if problem.targets is not None else inner.privacy.pcost
    if isinstance(goal, ConvexLoss):
        sums = inner.figures.type_variances
        weighted = tangent(design, goal, sums)
        least = bound_alone(weighted)
        assert least is not None  # of one attribute
        below = float(weighted.type_weight @ sums) - least / cost
        return Certified(problem.workload, inner.privacy, max(below, 0.0) / (abs(value) or 1.0))
    power = norm_power(goal)
    bound = bound_alone(design) if power == 1 else norm_bound_alone(design, power)
    assert bound is not None  # of one attribute
    gap = max(1.0 - bound / cost / value, 0.0) if value > 0 else 0.0
    total = bound if isinstance(goal, TotalVariance) else None
    return Certified(problem.workload, inner.privacy, gap, total)


PLANNER: Final = Planner(("optimal",), solve, refuses)
