"""`planner="auto"`: the family that fits any domain, or one matrix where that is clearly better.

| noise | family | one matrix |
| --- | --- | --- |
| Gaussian | residual | optimal |
| Laplace | tables | matrix |

One matrix is tried over the cells of a small domain, or over the classes of cells that queries tell
apart in a larger one; where queries are matrices over a domain it fits, it is all there is. Then
come the challengers, each against the best so far: the optimum in the row space where the rank is
low, and noise on the workload's own rows. Conditions of low rank have the optimum at once. Last
come parts of the workload side by side: with Gaussian noise after plans of long attributes too
(`queries_apart`). Every plan says what was considered, and why it was taken or not.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from noiseplan.errors import PlanError, QueryError
from noiseplan.planning.candidate import (
    NOT_BETTER,
    TAKEN,
    UNMEASURED,
    WORSE,
    Candidate,
    Considered,
    Planner,
    reached,
)
from noiseplan.planning.cell_classes import at_least
from noiseplan.planning.limits import BETTER, EXPLICIT_CELLS, SMALL_CELLS, SMALL_PROBLEM, WORTH_IT
from noiseplan.planning.objectives import (
    ConvexLoss,
    RelativeError,
    TotalVariance,
    WorstVariance,
)
from noiseplan.planning.planners import (
    beside_levels,
    each_alone,
    faint_noise,
    laplace_choice,
    laplace_matrix,
    level_plans,
    noise_on_rows,
    optimal,
    queries_apart,
    replaced_optimum,
    residual_family,
    row_space_plans,
    waited_optimum,
)
from noiseplan.planning.planners.waited_optimum import at_the_budget, at_the_optimum
from noiseplan.planning.problem import Problem
from noiseplan.planning.smaller_domain import SmallerDomain, smaller
from noiseplan.planning.some_by_cells import SomeByCells, all_searched
from noiseplan.planning.threads import one_thread
from noiseplan.queries import Custom

# Steps towards the optimum cost little where so few rows are asked of no more cells than this.
FEW_ROWS: Final = 256
LOW_RANK_CELLS: Final = 1024
# Each of so few queries is planned alone in a rough search too, which leaves out what takes long.
FEW_QUERIES: Final = 8
# From so many cells on, a matrix over one attribute is such a matrix too.
MATRIX_CELLS: Final = 1000
# Noise on single rows is left alone where it is so many times worse than what is there: what rows
# have in common seldom makes up for that. On cells of tables it does more often, up to 3 times.
FAR_WORSE, CELLS_FAR_WORSE = 1.5, 4.0
# Of rough searches, which save seconds of comparing: nothing was gained from 2 times on.
ROUGHLY_FAR_WORSE: Final = 2.0
TOO_MANY_ROWS: Final = "too many rows over long attributes"
# Noise on single rows is what a plan of pure DP is never worse than, but for rounding.
NO_WORSE: Final = 1 - 1e-6
# Over smaller domains than this, rows over classes are written out in full.
WRITTEN_OUT: Final = 1024


@dataclass(frozen=True)
class Family:
    """What is planned with a kind of noise: the family that fits any domain, and one matrix."""

    solve: Callable[[Problem], Candidate]
    matrix: str  # what one matrix over all cells is called
    over_classes: Callable[[Problem], Candidate]  # and planned by, over classes of cells
    has_optimum: bool  # whether the best of all matrices is known, so that nothing beats it
    worth: float  # a challenger must be below this share of the best so far
    own_name: bool  # whether a plan is called by what was taken, not by the family

    def called(self, family: Candidate, taken: Candidate) -> str:
        """The planner that a plan names."""
        return taken.name if self.own_name else family.name


def refuses(problem: Problem) -> str | None:
    """Relative errors, where one matrix cannot plan them."""
    if not isinstance(problem.goal, RelativeError):
        return None
    large = problem.size > EXPLICIT_CELLS
    return optimal.refuses(problem) or (row_space_plans.refuses(problem) if large else None)


def solve(problem: Problem, challengers: Challengers | None = None) -> Candidate:
    """The best that is found, by the families and all challengers, or some."""
    plain_tables = not problem.design.free  # which the families plan as well as can be
    if isinstance(problem.goal, RelativeError):  # which one matrix alone can plan
        large = problem.size > EXPLICIT_CELLS
        best: Candidate | None = row_space_plans.solve(problem) if large else optimal.solve(problem)
    else:
        best = None if plain_tables else _outright(problem)
    if best is not None:
        best = replace(best, considered=(("optimal", TAKEN),))
    else:
        with nullcontext() if plain_tables else one_thread(problem.design):
            plain = _family(problem).solve(problem)
        best = plain if problem.size <= SMALL_CELLS else _or_classes(problem, plain)
        # Where a record is replaced, rows may cost nothing, which not every family knows.
        known = problem.neighbours == "add-remove" or _family(problem).has_optimum
        challengers = challengers or (ROUGH if problem.rough else CHALLENGERS)
        for name, challenge in () if plain_tables and known else challengers:
            best = _against(problem, best, name, _tried(challenge, problem, best))
    return or_faint(problem, best) if problem.faint else best


def _tried(challenge: Challenge, problem: Problem, best: Candidate) -> Candidate | str | None:
    """What a challenger finds, or that its numbers differ too much."""
    try:
        return challenge(problem, best)
    except np.linalg.LinAlgError:
        return laplace_choice.DIFFERENT_WEIGHTS


def or_faint(problem: Problem, best: Candidate) -> Candidate:
    """The same, or rows of small integers where noise is of less than one count."""
    faint = problem.faint and reached(problem, best) > 0
    for name, challenge in faint_noise.CHALLENGERS if faint else ():
        found = challenge(problem, best)
        clearly = residual_family.CLEARLY_BETTER * reached(problem, best)
        if found is not None and reached(problem, found) < clearly:
            best = _instead(problem, best, name, found)
    return best


def or_optimum(problem: Problem, best: Candidate) -> Candidate:
    """What was planned along a long attribute, or the optimum where the rank is low all the same.

    How near the best such a plan is takes a while to know: first come what costs nothing to see.
    """
    looked_at = any(name == "optimal" for name, _ in best.considered)
    if looked_at or row_space_plans.untried(problem, far=True) is not None:
        return best
    return _against(problem, best, "optimal", _row_space(problem, best))


def or_apart(
    problem: Problem, best: Candidate, together: Callable[[Problem], Candidate]
) -> Candidate:
    """The same, or parts of the workload side by side where these are clearly better."""
    found = queries_apart.solve(problem, best, together)
    return best if found is None else _against(problem, best, *found)


def _outright(problem: Problem) -> Candidate | None:
    """The optimum, where nothing else is worth trying: the families have nothing to begin with."""
    if not _family(problem).has_optimum or problem.size <= SMALL_CELLS:
        return None
    matrices, few = _matrices(problem), problem.size <= EXPLICIT_CELLS
    if (matrices or _conditions(problem)) and row_space_plans.untried(problem) is None:
        return row_space_plans.solve(problem)
    return optimal.solve(problem) if matrices and few and not optimal.refuses(problem) else None


def _matrices(problem: Problem) -> bool:
    """Whether queries are matrices over most of a domain: a small one, or one told apart."""
    size, columns = problem.size, problem.workload.columns
    given = [m.shape[1] for m in columns.matrices]
    if size >= MATRIX_CELLS:
        factors = (f.values.shape[1] for f in columns.distinct if isinstance(f, Custom))
        given += [columns for columns in factors if columns == size]
    told = size <= EXPLICIT_CELLS or row_space_plans.told_apart(problem) > EXPLICIT_CELLS
    return told and 2 * max(given, default=0) >= size


def _conditions(problem: Problem) -> bool:
    """Whether queries are single rows that tell many cells apart."""
    return problem.workload.rows == len(problem.workload) and isinstance(_classes(problem), str)


def _gaussian(problem: Problem) -> Candidate:
    solution = residual_family.planned(problem)
    if problem.neighbours == "replace":  # for which there is another optimum, tried later
        far = replaced_optimum.untried(problem) is not None
        made = residual_family.made(problem, solution, blocks=far)
        return replace(made, considered=(("residual", TAKEN),))
    reason, made = optimal.untried(problem), residual_family.made(problem, solution)
    if reason is None:
        value = min(solution.share.value, at_the_budget(problem, made))
        better = optimal.clearly_better(problem, value)
        if better is not None:
            return _taken(better, "optimal", "residual", WORSE)
        reason = NOT_BETTER
    return _taken(made, "residual", "optimal", reason)


def _laplace(problem: Problem) -> Candidate:
    among_classes = SMALL_CELLS < problem.size <= laplace_choice.MATRIX_CELLS and not isinstance(
        _classes(problem), str
    )
    return laplace_choice.solve(problem, matrix=not among_classes)


def _taken(candidate: Candidate, name: str, other: str, reason: str) -> Candidate:
    return replace(candidate, considered=((name, TAKEN), (other, reason)))


def _or_classes(problem: Problem, plain: Candidate) -> Candidate:
    """`plain`, or what one matrix over classes of cells reaches if that is clearly better."""
    family, found = _family(problem), _classes(problem)
    if isinstance(found, str):
        said = not family.has_optimum  # why there is none over all cells either
        return plain if said else _taken(plain, plain.considered[0][0], family.matrix, found)
    small = found.forward(problem)
    inner = family.over_classes(small)
    inner.figures.require_answers(inner.mechanism)
    best = replace(found.back(inner), name=family.called(plain, inner))
    if reached(problem, best) >= BETTER * reached(problem, plain):
        return _taken(plain, plain.considered[0][0], family.matrix, NOT_BETTER)
    if problem.size <= WRITTEN_OUT:
        best = replace(found.written_out(inner), name=best.name)
    how = inner.considered[0][0] if inner.considered else "optimal"
    name = f"{how} over {found.cells.inner.size:,} classes of cells"
    return _taken(best, name, plain.considered[0][0], WORSE)


def _classes(problem: Problem) -> SmallerDomain | str:
    """The classes over which one matrix is tried unasked, or why it is not."""
    design, rows = problem.design, problem.workload.rows
    cells = f"not tried, {problem.size:,} cells"
    single = isinstance(problem.goal, WorstVariance)
    if not design.free:  # which are proved to be the best, whatever the objective
        return "not tried for plain tables"
    if not (single or isinstance(problem.goal, TotalVariance)):
        return cells
    if design.roles.attributes < 2:  # over one, the families have every strategy there is
        return "not tried for one attribute"
    optimum = _family(problem).has_optimum
    if problem.neighbours == "replace" and optimum:  # for which there is another
        return "not tried for replaced records"
    few = optimum and rows <= FEW_ROWS
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


def _levels(problem: Problem, best: Candidate) -> Candidate | None:
    """Rows of its own for each level of an attribute that is asked by several."""
    if not _family(problem).has_optimum or at_the_optimum(best):
        return None
    found = beside_levels.by_levels(problem)
    # Most attributes have no levels to speak of: these are mentioned where they are better.
    better = found is not None and reached(problem, found) < WORTH_IT * reached(problem, best)
    return found if better else None


def _row_space(problem: Problem, best: Candidate) -> Candidate | str | None:
    """The optimum where the rank is low, however many cells there are."""
    return waited_optimum.found_for(problem, best) if _family(problem).has_optimum else None


def _own_rows(problem: Problem, best: Candidate) -> Candidate | str | None:
    """Noise on the rows themselves, unless it is far worse before anything is made of it."""
    if _family(problem).has_optimum and at_the_optimum(best):
        return None
    at_one = _at_cost_one(problem, reached(problem, best))
    return noise_on_rows.untried(problem) or _on_rows(problem, FAR_WORSE * at_one)


def _each_table(problem: Problem, best: Candidate) -> Candidate | str | None:
    """The same with cells instead of rows of some tables; the residual family has these anyway."""
    return _instead_of_rows(problem, best, matrices=False)


def _matrix_of_each(problem: Problem, best: Candidate) -> Candidate | str | None:
    """The same with matrices of their own for some of several tables."""
    return _instead_of_rows(problem, best, matrices=True) if len(problem.workload) > 1 else None


def _instead_of_rows(problem: Problem, best: Candidate, matrices: bool) -> Candidate | str | None:
    if _family(problem).has_optimum or len(problem.workload) > noise_on_rows.MOST_QUERIES:
        return None
    by_cells = SomeByCells.of(problem, matrices)
    if not isinstance(by_cells, SomeByCells):
        return by_cells
    far_worse = ROUGHLY_FAR_WORSE if problem.rough else CELLS_FAR_WORSE
    at_one = _at_cost_one(problem, reached(problem, best))
    measured, alike = by_cells.forward(problem), by_cells.of_one_size
    found = _on_rows(measured, far_worse * at_one, alike)
    return by_cells.back(found) if isinstance(found, Candidate) else found


def _on_rows(
    problem: Problem, hopeless: float, of_one_size: frozenset[object] = frozenset()
) -> Candidate | str:
    """Noise on all rows, unless each by itself is worse than this at a cost of one."""
    with one_thread(problem.design):
        rows = noise_on_rows.on_rows(problem, of_one_size=of_one_size)
        try:
            return WORSE if rows.value > hopeless else rows.made()
        except PlanError:  # nothing differs between records, or noise too large to be drawn
            return UNMEASURED


def _workload_matrix(problem: Problem, best: Candidate) -> Candidate | str | None:
    """One matrix of all rows with noise of one size, which is priced by its columns' distances."""
    if problem.neighbours == "add-remove" or _family(problem).has_optimum:
        return None
    asked, rows = replace(problem, planner="workload"), problem.workload.rows
    if problem.size > SMALL_CELLS or rows > SMALL_PROBLEM:
        return f"not tried, {problem.size:,} cells and {rows:,} rows"
    if laplace_matrix.refuses(asked) is not None:
        return None
    try:
        return laplace_matrix.solve(asked)
    except PlanError:  # as above
        return UNMEASURED


def _one_matrix(problem: Problem, best: Candidate) -> Candidate | str | None:
    """One matrix over many cells, also where it was tried over classes of them, from other rows;
    over few cells it is tried with the family."""
    few = laplace_choice.MATRIX_CELLS if isinstance(_classes(problem), str) else SMALL_CELLS
    if _family(problem).has_optimum or problem.size <= few:
        return None
    return laplace_choice.larger(problem, best)


def _each_alone(problem: Problem, best: Candidate) -> Candidate | str | None:
    """The best plans of single queries side by side, where not all could be looked at together."""
    alone = _family(problem).has_optimum or len(problem.workload) == 1
    # What a public total tells of each table is not looked at together.
    replaced = problem.neighbours == "replace" and len(problem.workload) <= FEW_QUERIES
    if alone or (all_searched(problem) and not replaced):
        return None
    loss = isinstance(problem.goal, ConvexLoss)
    hopeless = np.inf if loss else _at_cost_one(problem, reached(problem, best))
    challengers = None if replaced else OF_ONE_QUERY
    return each_alone.solve(problem, lambda query: solve(query, challengers), hopeless)


def _few_alone(problem: Problem, best: Candidate) -> Candidate | str | None:
    """The same of so few queries that this takes no longer than planning for all of them."""
    return _each_alone(problem, best) if len(problem.workload) <= FEW_QUERIES else None


def _against(
    problem: Problem, best: Candidate, name: str, found: Candidate | str | None
) -> Candidate:
    """The best so far, or what a challenger found if that is clearly better."""
    if found is None:
        return best
    if isinstance(found, Candidate) and found.mechanism is best.mechanism:
        best, found = found, NOT_BETTER  # and it is known how good that is
    if isinstance(found, Candidate):
        try:
            if reached(problem, found) < _family(problem).worth * reached(problem, best):
                return _instead(problem, best, name, found)
            found = NOT_BETTER
        except np.linalg.LinAlgError:  # variances that differ too much for double precision
            found = laplace_choice.DIFFERENT_WEIGHTS
        except QueryError:  # whose errors nobody works out
            found = TOO_MANY_ROWS
    return replace(best, considered=(*_others(best, name), (name, found)))


def _instead(problem: Problem, best: Candidate, name: str, found: Candidate) -> Candidate:
    """A challenger in the place of the best so far."""
    others = _others(best, name)
    beaten = ((n, WORSE if reason == TAKEN else reason) for n, reason in others)
    called = _family(problem).called(best, found)
    return replace(found, name=called, considered=((name, TAKEN), *beaten))


def _others(best: Candidate, name: str) -> Considered:
    """What was considered but for this one."""
    return tuple((n, reason) for n, reason in best.considered if n != name)


# What comes after the families and one matrix, each against the best so far: a candidate, or why
# there is none; nothing where there is nothing to say. What a later one says of itself counts.
Challenge = Callable[[Problem, Candidate], Candidate | str | None]
Challengers = tuple[tuple[str, Challenge], ...]
OF_CELLS: Final = "rows or cells of each table"
# Of one query among several, for each of which one matrix over many cells would take a minute.
OF_ONE_QUERY: Final[Challengers] = (
    ("own rows", _own_rows),
    (OF_CELLS, _each_table),
)
# Without searches for matrices, which take seconds.
ROUGH: Final[Challengers] = (*OF_ONE_QUERY, ("each query alone", _few_alone))
CHALLENGERS: Final[Challengers] = (
    (level_plans.LevelPlan.taken, _levels),
    ("optimal", _row_space),
    *OF_ONE_QUERY,
    ("a matrix of each table", _matrix_of_each),
    ("workload", _workload_matrix),
    ("matrix", _one_matrix),
    ("each query alone", _each_alone),
)


def _at_cost_one(problem: Problem, loss: float) -> float:
    """The same at a cost of one; targets are compared at that, and a loss of one's own as it is."""
    if problem.priorities is not None or isinstance(problem.goal, ConvexLoss):
        return loss
    return loss * problem.at_one


def _optimal(problem: Problem) -> Candidate:
    return optimal.solve(replace(problem, planner="optimal"))


FAMILIES: Final = {
    "gaussian": Family(_gaussian, "optimal", _optimal, True, WORTH_IT, own_name=False),
    "laplace": Family(_laplace, "matrix", solve, False, NO_WORSE, own_name=True),
}


def _family(problem: Problem) -> Family:
    return FAMILIES[problem.drawn.law]


def _part(problem: Problem) -> Candidate:
    """The same for some of the queries. What is planned for one table by residuals is its optimum
    but for the largest variance, since that of a product is a product: it is not looked for."""
    one = len(problem.workload) == 1 and not problem.design.joints
    largest = isinstance(problem.goal, WorstVariance)
    known = one and problem.neighbours == "add-remove" and not largest
    return solve(problem, OF_ONE_QUERY if known and problem.workload.rows > FEW_ROWS else None)


PLANNER: Final = Planner(("auto",), solve, refuses)
PART: Final = Planner(("auto",), _part, refuses)
