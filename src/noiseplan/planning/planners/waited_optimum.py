"""The optimum in the row space against what was planned; it is waited for where that is far off.

Where the rank is low it is tried at once; where it takes longer, only if the plan is known to be
far above its bound. A search that ends with nothing clearly better has not been in vain: it leaves
a bound, which the plan keeps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from noiseplan.planning.candidate import NOT_BETTER, Candidate, reached
from noiseplan.planning.certificates import Sharper
from noiseplan.planning.free_split import alone
from noiseplan.planning.limits import WORTH_IT
from noiseplan.planning.objectives import TotalVariance
from noiseplan.planning.planners import replaced_optimum, row_space_plans
from noiseplan.planning.problem import Problem

# Above its bound by more than this, a plan may be far from the best, and that is waited for.
FAR: Final = 0.02


def found_for(problem: Problem, best: Candidate) -> Candidate | str | None:
    """The optimum if it is clearly better; else the best so far with the bound that the search
    left, or why there was no search; None where nothing is to be gained."""
    if at_the_optimum(best):
        return None
    if problem.neighbours == "replace":
        return replaced_optimum.unasked(problem)
    if isinstance(problem.goal, TotalVariance) and alone(problem.design):
        return "not tried for one attribute"  # since what was planned is its optimum
    reason = row_space_plans.untried(problem)
    longer = reason is not None and row_space_plans.untried(problem, far=True) is None
    if reason is not None and not (longer and _far(problem, best)):
        return reason
    found = row_space_plans.clearly_better(problem, at_the_budget(problem, best))
    return found if isinstance(found, Candidate) else known_better(problem, best, found)


def known_better(problem: Problem, best: Candidate, least: float) -> Candidate:
    """The best so far, with what nothing is below, at the budget or at cost one."""
    value, total = at_the_budget(problem, best), None
    if problem.priorities is not None and problem.allowed is None:  # met a hair better than asked
        value = max(value, best.privacy.pcost)
    elif problem.priorities is None and isinstance(problem.goal, TotalVariance):
        total = least * (problem.allowed or 1.0) / best.privacy.pcost
    gap = max(1.0 - least / value, 0.0) if least > 0 and value > 0 else None
    return replace(best, optimality=Sharper(best.optimality, gap, total))


def _far(problem: Problem, best: Candidate) -> bool:
    """Whether a plan for the total is far above its bound, which it would be printed with."""
    if problem.priorities is not None or not isinstance(problem.goal, TotalVariance):
        return False
    return reached(problem, best) > (1 + FAR) * best.optimality.lower_bound


def at_the_budget(problem: Problem, found: Candidate) -> float:
    """What is reached within the budget: targets are compared at cost one, as without a budget."""
    cost = 1.0 if problem.targets is None else problem.allowed or 1.0
    return reached(problem, found) / cost


def at_the_optimum(best: Candidate) -> bool:
    """Whether nothing with Gaussian noise is clearly better: it was looked for."""
    gap = best.optimality.gap
    return (gap is not None and gap <= 1 - WORTH_IT) or ("optimal", NOT_BETTER) in best.considered
