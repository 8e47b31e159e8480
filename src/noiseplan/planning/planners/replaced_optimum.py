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
from noiseplan.planning.limits import SMALL_PROBLEM
from noiseplan.planning.objectives import TotalVariance, WorstVariance
from noiseplan.planning.planners import residual_family
from noiseplan.planning.problem import Problem
from noiseplan.planning.replaced_split import bound_alone, worst_affordable, worst_bound_alone
from noiseplan.planning.smaller_domain import SmallerDomain, smaller
from noiseplan.planning.workload_types import measured_alone

# Classes of cells all pairs of which are looked at, unasked too: some ten seconds.
MOST_CLASSES: Final = 1024


def refuses(problem: Problem) -> str | None:
    """Other objectives; too many classes are told when they are found."""
    if isinstance(problem.goal, TotalVariance | WorstVariance):
        return None
    return (
        setting("planner", "optimal")
        + f" plans the total or the worst variance and targets where records are replaced, found "
        f"{problem.goal}; use "
        + setting("planner", "auto")
        + ", or "
        + remedy("total", "TotalVariance()")
    )


def solve(problem: Problem) -> Candidate:
    """The optimum over classes of cells."""
    if measured_alone(problem.design):
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
    if measured_alone(problem.design):
        return "not better for tables of one attribute"
    rows = problem.workload.rows
    if isinstance(problem.goal, WorstVariance) and rows > SMALL_PROBLEM:
        return f"not tried, {rows:,} rows"
    found = _classes(problem)
    if isinstance(found, str):
        return f"not tried, {problem.size:,} cells"
    return f"not tried, {rows:,} rows" if _has_too_many_variances(problem, found) else None


def unasked(problem: Problem) -> Candidate | str:
    """The optimum, or why it is not tried."""
    reason = untried(problem)
    return solve(problem) if reason is None else reason


def _classes(problem: Problem) -> SmallerDomain | str:
    if at_least(problem.design) > MOST_CLASSES:
        return f"the schema has {problem.size:,}"
    found = smaller(problem, MOST_CLASSES)
    if isinstance(found, SmallerDomain) and not isinstance(found.cells, Classes):
        return f"its queries have {problem.workload.rows:,} rows"
    return found


def _has_too_many_variances(problem: Problem, found: SmallerDomain) -> bool:
    """Whether the least largest of them would take too long, over classes of cells."""
    single = isinstance(problem.goal, WorstVariance)
    return single and not worst_affordable(found.forward(problem).design)


def _over(problem: Problem, found: SmallerDomain) -> Candidate:
    small = found.forward(problem)
    inner = residual_family.solve(replace(small, planner="residual"))
    inner.figures.require_answers(inner.mechanism)
    return replace(found.back(inner), name=problem.name, optimality=_known(problem, small, inner))


def _known(problem: Problem, small: Problem, inner: Candidate) -> Certified:
    """How far from the optimum, by the weights of pairs that it was found with."""
    total = isinstance(small.goal, TotalVariance)
    bound = (bound_alone if total else worst_bound_alone)(small.design)
    assert bound is not None  # of one attribute
    cost = 1.0 if problem.targets is not None else inner.privacy.pcost
    value = reached(small, inner)
    gap = max(1.0 - bound / cost / value, 0.0) if value > 0 else 0.0
    return Certified(problem.workload, inner.privacy, gap, bound if total else None)


PLANNER: Final = Planner(("optimal",), solve, refuses)
