"""Tables or one matrix with Laplace noise, each at its own price for the neighbours asked for.

What is least for one record need not be the least for two, so where records are replaced every way
is made for one, priced as what the farthest two are apart, and compared after that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf

import numpy as np

from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.planning.candidate import NOT_BETTER, TAKEN, UNMEASURED, WORSE, Candidate, reached
from noiseplan.planning.limits import BETTER, LAPLACE_CELLS, SMALL_CELLS
from noiseplan.planning.objectives import TotalVariance
from noiseplan.planning.planners import laplace_matrix, table_plans
from noiseplan.planning.problem import Problem
from noiseplan.planning.reductions import ReplacedRecords
from noiseplan.planning.smaller_domain import smaller
from noiseplan.planning.threads import one_thread

# Cells over which one matrix is tried beside tables, which takes some seconds; over more it is
# tried from the best that all other ways have found. For other objectives than the total, rows
# times the square of cells are limited too.
MATRIX_CELLS, ROWS_WORK = 800, 10**9
DIFFERENT_WEIGHTS = "not found, weights differ too much"
# Numbers of rows that are written out over all cells to start from.
WRITTEN_OUT = 2**25
# What a pair of records costs of a p-identity strategy, at most and squared.
PAIR_PRICE = 4.0


def solve(problem: Problem, matrix: bool = True) -> Candidate:
    """The best tables, or one `matrix` over all cells where that is better."""
    one, back = _as_added(problem)
    ways = table_plans.ways(one)
    tables = min(map(back, ways), key=partial(reached, problem))
    reason = _untried(problem, tables, ways) if matrix else "not tried, but over classes of cells"
    if reason is None:
        try:
            found = _matrix(problem, ways)
        except UnanswerableError:  # sizes of weights that differ too much for one matrix
            reason = DIFFERENT_WEIGHTS
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
    return laplace_matrix.p_identity(
        problem, laplace_matrix.rows_of(best), anew=not _alone(problem)
    )


def larger(problem: Problem, best: Candidate) -> Candidate | str:
    """One matrix over many cells, or the classes of cells that are told apart, if it is better than
    the best so far, from the rows of which it starts; or why there is none."""
    if not problem.design.free:
        return "not tried for plain tables"
    cells = f"not tried, {problem.size:,} cells"
    if problem.size * best.mechanism.numbers > WRITTEN_OUT:
        return cells
    found = None if problem.size <= LAPLACE_CELLS else smaller(problem, LAPLACE_CELLS)
    if isinstance(found, str):
        return cells
    try:
        small, rows = problem, laplace_matrix.rows_of(best)
    except PlanError:  # rows that nobody writes down
        return cells
    if found is not None:
        small = found.forward(problem)
        rows = rows[:, np.unique(found.cells.of_cells(), return_index=True)[1]]
    if _too_many_rows(small):
        return f"not tried, {small.workload.rows:,} rows"
    try:
        with one_thread(small.design):
            inner = laplace_matrix.better_than(small, rows, _known(problem, best))
    except UnanswerableError:
        return DIFFERENT_WEIGHTS
    except PlanError:
        return UNMEASURED
    if inner is None:
        return NOT_BETTER
    return inner if found is None else found.back(inner)


def _known(problem: Problem, best: Candidate) -> float:
    """The total that one matrix must be below at the price of one record; for other objectives and
    targets it says nothing."""
    if problem.priorities is not None or not isinstance(problem.goal, TotalVariance):
        return inf
    pairs = 1.0 if problem.neighbours == "add-remove" else PAIR_PRICE
    return reached(problem, best) / pairs


def _too_many_rows(problem: Problem) -> bool:
    total, rows = isinstance(problem.goal, TotalVariance), problem.workload.rows
    return not total and rows * problem.size**2 > ROWS_WORK


def _untried(problem: Problem, tables: Candidate, ways: list[Candidate]) -> str | None:
    """Why one p-identity matrix over all cells is not tried unasked, if it is not."""
    size = problem.size
    if size > MATRIX_CELLS:
        return f"not tried, {size:,} cells"
    if size > SMALL_CELLS and not problem.design.free:
        return "not tried for plain tables"
    # Every value by itself was better than a p-identity strategy, if that was made, or became it.
    names = [way.name for way in ways]
    made = len(ways) == 1 or "p-identity" in names or names.count("identity") > 1
    # Where records are replaced, it may cost less than that by the farthest two of them.
    known = problem.neighbours == "add-remove" or size > SMALL_CELLS
    if _alone(problem) and made and known and tables.name == "identity":
        return "not tried for one attribute"
    return f"not tried, {problem.workload.rows:,} rows" if _too_many_rows(problem) else None


def _alone(problem: Problem) -> bool:
    """Whether queries name one attribute, and strategies were chosen for the total of it."""
    return problem.design.roles.attributes < 2 and isinstance(problem.goal, TotalVariance)
