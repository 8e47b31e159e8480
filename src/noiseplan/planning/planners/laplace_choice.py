"""Tables or one matrix with Laplace noise, each at its own price for the neighbours asked for.

What is least for one record need not be the least for two, so where records are replaced every way
is made for one, priced as what the farthest two are apart, and compared after that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.planning.candidate import NOT_BETTER, TAKEN, UNMEASURED, WORSE, Candidate, reached
from noiseplan.planning.limits import BETTER, SMALL_CELLS
from noiseplan.planning.objectives import TotalVariance
from noiseplan.planning.planners import laplace_matrix, table_plans
from noiseplan.planning.problem import Problem
from noiseplan.planning.reductions import ReplacedRecords

# Cells over which one matrix is tried unasked, which takes some seconds; for other objectives than
# the total, rows times the square of cells are limited too.
MATRIX_CELLS, ROWS_WORK = 800, 3 * 10**8


def solve(problem: Problem, matrix: bool = True) -> Candidate:
    """The best tables, or one `matrix` over all cells where that is better."""
    one, back = _as_added(problem)
    ways = table_plans.ways(one)
    tables = min(map(back, ways), key=partial(reached, problem))
    reason = _untried(problem, tables) if matrix else "not tried, but over classes of cells"
    if reason is None:
        try:
            found = _matrix(problem, ways)
        except UnanswerableError:  # sizes of weights that differ too much for one matrix
            reason = "not found, weights differ too much"
        except PlanError:  # nothing differs between records, or noise too large to be drawn
            reason = UNMEASURED
        else:
            if reached(problem, found) < BETTER * reached(problem, tables):
                return replace(found, considered=(("matrix", TAKEN), ("tables", WORSE)))
            reason = NOT_BETTER
    return replace(tables, considered=(("tables", TAKEN), ("matrix", reason)))


def _as_added(problem: Problem) -> tuple[Problem, Callable[[Candidate], Candidate]]:
    """The problem for records that are added or removed, and the way back from it."""
    if problem.neighbours == "add-remove":
        return problem, lambda candidate: candidate
    replaced = ReplacedRecords(problem)
    return replaced.forward(problem), replaced.back


def _matrix(problem: Problem, ways: list[Candidate]) -> Candidate:
    """One matrix; over one attribute all other starts have been tried for its strategy."""
    if problem.neighbours == "replace":  # tables for half of ε are another place to start
        ways = table_plans.ways(problem)
    best = min(ways, key=partial(reached, problem))
    return laplace_matrix.p_identity(problem, best, anew=not _alone(problem))


def _untried(problem: Problem, tables: Candidate) -> str | None:
    """Why one p-identity matrix over all cells is not tried unasked, if it is not."""
    size, rows = problem.size, problem.workload.rows
    total = isinstance(problem.goal, TotalVariance)
    if size > MATRIX_CELLS:
        return f"not tried, {size:,} cells"
    if size > SMALL_CELLS and not problem.design.free:
        return "not tried for plain tables"
    if _alone(problem) and tables.name == "identity":
        return "not tried for one attribute"
    return None if total or rows * size**2 <= ROWS_WORK else f"not tried, {rows:,} rows"


def _alone(problem: Problem) -> bool:
    """Whether queries name one attribute, and strategies were chosen for the total of it."""
    named = int((problem.design.roles.of_attribute >= 0).sum())
    return named < 2 and isinstance(problem.goal, TotalVariance)
