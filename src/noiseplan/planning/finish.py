"""The gate: the one place where planning makes a `Plan`, and what a plan must fulfil to be one."""

from __future__ import annotations

import time
from dataclasses import replace

from noiseplan.errors import PlanError
from noiseplan.mechanisms.cost import with_mu2
from noiseplan.mechanisms.price import require_formula
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.objectives import Objective
from noiseplan.planning.plan import Plan
from noiseplan.planning.problem import Problem
from noiseplan.privacy.people import PERSON


def finish(problem: Problem, candidate: Candidate) -> Plan:
    """The plan; refused if it costs more than the budget or leaves a query without an answer.

    What it costs is worked out once more from what is measured, whatever the planner says.
    """
    candidate = replace(candidate, privacy=with_mu2(candidate.privacy, [candidate.mechanism]))
    require_sound(problem, candidate)
    require_formula(candidate.mechanism, candidate.privacy, int(problem.max_rows))
    made = finish_stated(candidate, problem.goal, problem.drawn.name, int(problem.max_rows))
    return replace(
        made,
        targets=None if problem.priorities is None else 1.0 / problem.priorities,
        budget=problem.budget,
        seconds=time.perf_counter() - problem.started,
    )


def require_sound(problem: Problem, candidate: Candidate) -> None:
    """Fail closed: never above the budget, never without an answer to what was asked."""
    if problem.budget is not None and not candidate.privacy.within(problem.budget):
        raise PlanError(
            f"the plan would cost {candidate.privacy.pcost}, above {problem.budget}: this is a bug"
        )
    candidate.figures.require_answers(candidate.mechanism)


def finish_stated(
    candidate: Candidate, objective: Objective, noise: str, max_rows: int = 1
) -> Plan:
    """A plan of what is measured, with no budget to keep: made of other plans, or elsewhere."""
    whose = None if max_rows == 1 else PERSON
    return Plan(
        workload=candidate.figures.workload,
        mechanism=candidate.mechanism,
        privacy=replace(candidate.privacy, whose=whose),
        objective=objective,
        planner=candidate.name,
        noise=noise,
        rounding_loss=candidate.loss,
        targets=None,
        figures=candidate.figures,
        optimality=candidate.optimality,
        seconds=0.0,
        max_rows=max_rows,
        considered=candidate.considered,
    )
