"""`planner="auto"`: the family that fits any domain, or one matrix where that is clearly better.

| noise | family | one matrix |
| --- | --- | --- |
| Gaussian | residual | optimal |
| Laplace | tables | matrix |

One matrix is tried over the cells of a small domain, or over the classes of cells that queries tell
apart in a larger one. Every plan says what was considered, and why it was taken or not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from noiseplan.errors import UnanswerableError
from noiseplan.planning.candidate import Candidate, Planner, reached
from noiseplan.planning.finish import require_sound
from noiseplan.planning.limits import SMALL_CELLS, SMALL_PROBLEM, WORTH_IT
from noiseplan.planning.objectives import RelativeError, TotalVariance, WorstVariance
from noiseplan.planning.planners import laplace_matrix, optimal, residual_family, table_plans
from noiseplan.planning.problem import Problem
from noiseplan.planning.smaller_domain import SmallerDomain, at_least, smaller
from noiseplan.planning.threads import one_thread

TAKEN, WORSE, NOT_BETTER = "taken", "clearly worse", "not clearly better"
# Steps towards the optimum cost little where so few rows are asked of no more cells than this.
FEW_ROWS: Final = 256
LOW_RANK_CELLS: Final = 1024
# Over smaller domains than this, rows over classes are written out in full.
WRITTEN_OUT: Final = 1024


def refuses(problem: Problem) -> str | None:
    """Relative errors, where one matrix cannot plan them."""
    return optimal.refuses(problem) if isinstance(problem.goal, RelativeError) else None


def solve(problem: Problem) -> Candidate:
    """The best that is found."""
    if isinstance(problem.goal, RelativeError):  # which one matrix alone can plan
        return replace(optimal.solve(problem), considered=(("optimal", TAKEN),))
    with one_thread(problem.design):
        plain = _laplace(problem) if problem.laplace else _gaussian(problem)
    return plain if problem.size <= SMALL_CELLS else _or_classes(problem, plain)


def _gaussian(problem: Problem) -> Candidate:
    solution = residual_family.planned(problem)
    reason, made = optimal.untried(problem), residual_family.made(problem, solution)
    if reason is None:
        value = min(solution.share.value, reached(problem, made))
        better = optimal.clearly_better(problem, value)
        if better is not None:
            return _taken(better, "optimal", "residual", WORSE)
        reason = NOT_BETTER
    return _taken(made, "residual", "optimal", reason)


def _laplace(problem: Problem) -> Candidate:
    tables = table_plans.measuring(problem, "auto")
    if problem.size > SMALL_CELLS:
        reason = f"not tried, {problem.size:,} cells"
    elif _attributes(problem) < 2:
        reason = "not tried for one attribute"
    else:
        try:
            matrix = laplace_matrix.p_identity(problem, tables)
        except UnanswerableError:  # sizes of weights that differ too much for one matrix
            reason = "not found, weights differ too much"
        else:
            if matrix.figures.total_variance < WORTH_IT * tables.figures.total_variance:
                return _taken(matrix, "matrix", "tables", WORSE)
            reason = NOT_BETTER
    return _taken(tables, "tables", "matrix", reason)


def _taken(candidate: Candidate, name: str, other: str, reason: str) -> Candidate:
    return replace(candidate, considered=((name, TAKEN), (other, reason)))


def _attributes(problem: Problem) -> int:
    """How many attributes queries name."""
    return int((problem.design.roles.of_attribute >= 0).sum())


def _or_classes(problem: Problem, plain: Candidate) -> Candidate:
    """`plain`, or what one matrix over classes of cells reaches if that is clearly better."""
    found = _classes(problem)
    if isinstance(found, str):
        return _taken(plain, plain.considered[0][0], _one_matrix(problem), found)
    if problem.laplace:
        small = found.forward(problem)
        inner = solve(small)
    else:
        small = found.forward(replace(problem, planner="optimal"))
        inner = optimal.solve(small)
    require_sound(small, inner)
    best = replace(found.back(inner), name=inner.name if problem.laplace else plain.name)
    if reached(problem, best) >= WORTH_IT * reached(problem, plain):
        return _taken(plain, plain.considered[0][0], _one_matrix(problem), NOT_BETTER)
    if problem.size <= WRITTEN_OUT:
        best = replace(found.written_out(inner), name=best.name)
    how = inner.considered[0][0] if inner.considered else "optimal"
    name = f"{how} over {found.cells.inner.size:,} classes of cells"
    return _taken(best, name, plain.considered[0][0], WORSE)


def _one_matrix(problem: Problem) -> str:
    return "matrix" if problem.laplace else "optimal"


def _classes(problem: Problem) -> SmallerDomain | str:
    """The classes over which one matrix is tried unasked, or why it is not."""
    design, rows = problem.design, problem.workload.rows
    cells = f"not tried, {problem.size:,} cells"
    single = isinstance(problem.goal, WorstVariance)
    if not (single or isinstance(problem.goal, TotalVariance)):
        return cells
    if not design.free:
        return "not tried for plain tables"
    if _attributes(problem) < 2:  # over one, the families have every strategy there is
        return "not tried for one attribute"
    if problem.neighbours != "add-remove":
        return "not tried for replaced records"
    few = not problem.laplace and rows <= FEW_ROWS
    most = LOW_RANK_CELLS if few else SMALL_CELLS
    if at_least(design) > most:
        return cells
    if single and rows > SMALL_PROBLEM:
        return f"not tried, {rows:,} rows"
    found = smaller(problem, most)
    if isinstance(found, str):
        return cells
    too_many = single and rows + found.cells.inner.size > SMALL_PROBLEM
    return f"not tried, {rows:,} rows" if too_many else found


PLANNER: Final = Planner(("auto",), solve, refuses)
