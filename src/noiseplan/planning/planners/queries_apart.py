"""Parts of a workload side by side, where one plan for all with Gaussian noise is not the best.

One plan for all queries is the best there is where it can be found. Of large domains it is looked
for among some mechanisms only, and these may have less than what is done by hand: every query
planned alone, at the best shares of the budget. So are some ways to put queries into groups, which
have more in common:

| in a group are | which is for |
| --- | --- |
| matrices and conditions; all other queries | one matrix beside tables of other attributes |
| queries with the same factors on all attributes but the longest | a long attribute, crossed |
| queries on the same attributes | any |
| a query alone | any |

Nothing is tried where what is planned already is known to be near the best, nor where bounds of
single queries (`alone_bounds`) show that it cannot be clearly better.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.matrices.base import Array
from noiseplan.planning.alone_bounds import least_largest, least_sums
from noiseplan.planning.budget_shares import for_loss, for_norm
from noiseplan.planning.candidate import NOT_BETTER, UNMEASURED, Candidate, reached
from noiseplan.planning.certificates import Kept
from noiseplan.planning.limits import WORTH_IT
from noiseplan.planning.objectives import ConvexLoss, RelativeError, WorstVariance
from noiseplan.planning.planners.each_alone import (
    ALONE,
    MOST_QUERIES,
    Apart,
    Parts,
    Solve,
    parts_by,
    single_queries,
)
from noiseplan.planning.planners.long_plans import LongOptimality
from noiseplan.planning.problem import Problem
from noiseplan.planning.table_matrix import norm_power
from noiseplan.progress import progress
from noiseplan.queries import Query

# Queries of a workload that is looked at where some are matrices; in more much is in common.
MOST_ASKED: Final = 1000

Named = tuple[str, Candidate | str]


def solve(problem: Problem, best: Candidate, together: Solve) -> Named | None:
    """What the best of some ways to put queries apart comes to, by its name, or why there is none;
    None where nothing is to be gained. `together` plans the queries of a group."""
    if _is_out_of_question(problem, best):
        return None
    search = _Search(problem, best, together)
    worthwhile = search.worthwhile(_ways(problem))
    if not worthwhile or _near_its_bound(best):
        return None
    worthwhile = search.sharper().worthwhile(worthwhile)
    if not worthwhile:
        return None
    try:
        found = search.best_of(worthwhile)
        return (ALONE, NOT_BETTER) if found is None else (found.name, search.known_of(found))
    # Nothing differs between records, noise too large to be drawn, or rows that nobody lists.
    except (PlanError, UnanswerableError, np.linalg.LinAlgError):
        return ALONE, UNMEASURED


def _is_out_of_question(problem: Problem, best: Candidate) -> bool:
    """Whether nothing can be better, or nobody would look for it."""
    most = MOST_ASKED if problem.design.joints else MOST_QUERIES
    few = 1 < len(problem.workload) <= most
    if not few or isinstance(problem.goal, RelativeError) or best.optimality.proved:
        return True
    return ("optimal", NOT_BETTER) in best.considered or not reached(problem, best) > 0


def _near_its_bound(best: Candidate) -> bool:
    """Whether that is known: along a long attribute the bound takes longer than single queries."""
    gap = None if isinstance(best.optimality, LongOptimality) else best.optimality.gap
    return gap is not None and gap <= 1 - WORTH_IT


def _by_matrices(problem: Problem) -> Parts:
    """Matrices, with conditions where there are any, and all other queries."""
    if not problem.design.joints:
        return ()
    queries = problem.workload
    return parts_by([q.joint is not None or (q.rows == 1 and len(q.factors) > 0) for q in queries])


def _ways(problem: Problem) -> list[Parts]:
    """Different ways to put queries into parts, those with more in common first."""
    queries, sizes = list(problem.workload), problem.workload.schema.shape
    longest = problem.workload.schema.names[int(np.argmax(sizes))]

    def beside(query: Query) -> object:
        others = {name: factor for name, factor in query.factors.items() if name != longest}
        return query.joint is not None, tuple(others.items())

    ways = [
        _by_matrices(problem),
        parts_by([beside(query) for query in queries]),
        parts_by([query.attributes for query in queries]),
        single_queries(problem),
    ]
    if isinstance(problem.goal, ConvexLoss):  # of which nobody knows what it is of a group
        ways = ways[-1:]
    different = {frozenset(parts): parts for parts in ways}.values()
    return [parts for parts in different if 1 < len(parts) <= MOST_QUERIES]


class _Search:
    """One problem, and what is known of its parts."""

    def __init__(self, problem: Problem, best: Candidate, together: Solve) -> None:
        self.problem, self.best = problem, best
        self.apart = Apart(problem, together)
        # Discrete noise of less than one count has less variance than bounds allow.
        self.sums = least_sums(problem) * (not problem.faint)
        self.largest = np.zeros(len(self.sums))
        own = reached(problem, best)
        loss = isinstance(problem.goal, ConvexLoss)
        at_one = 1.0 if loss or problem.priorities is not None else problem.at_one
        self.limit = WORTH_IT * own * at_one

    def sharper(self) -> _Search:
        """With bounds of the largest variances that take up to a second."""
        problem = self.problem
        added = problem.neighbours == "add-remove" and not problem.faint
        if isinstance(problem.goal, WorstVariance) and added:
            self.largest = least_largest(problem)
        return self

    def worthwhile(self, ways: list[Parts]) -> list[Parts]:
        """Those that bounds leave open. Single queries that come to too much have so much in common
        that it is better planned as one, unless matrices stand in its way."""
        open_ = [parts for parts in ways if self.least(parts) < self.limit]
        if single_queries(self.problem) in open_:
            return open_
        return [parts for parts in open_ if parts == _by_matrices(self.problem)]

    def least(self, parts: Parts) -> float:
        """What these parts come to at least: those that are planned as they are."""
        problem, known = self.problem, self.apart.known
        goal, degree = problem.goal, problem.drawn.degree
        if isinstance(goal, ConvexLoss):
            means = self.sums / problem.workload.sizes / problem.at_one
            owner = np.empty(len(means), dtype=np.int64)
            for number, part in enumerate(parts):
                here = list(part)
                owner[here] = number
                means[here] = known[part].means if part in known else means[here]
            return for_loss(goal, means, owner, degree).value
        power = norm_power(goal)
        each = [known[part].value if part in known else self._least(part, power) for part in parts]
        return for_norm(np.array(each), power, degree).value

    def _least(self, part: tuple[int, ...], power: float) -> float:
        """The norm of no less than so large sums of each query, spread evenly over its rows."""
        here = list(part)
        rows = self.problem.workload.sizes[here].astype(np.float64)
        norms: Array = self.sums[here] * rows ** (1 / power - 1)
        return float(np.linalg.norm(np.maximum(norms, self.largest[here]), power))

    def best_of(self, ways: list[Parts]) -> Candidate | None:
        """The best way, if any is clearly better than the plan, and than those before."""
        chosen: Parts | None = None
        parts_of_all = {part for parts in ways for part in parts}
        with progress("Planning queries apart", len(parts_of_all)) as advance:
            for parts in ways:
                for part in sorted(parts, key=lambda part: -self.sums[list(part)].sum()):
                    if self.least(parts) >= self.limit:
                        break
                    self.apart.plan(part)
                    advance(1)
                if (value := self.least(parts)) < self.limit:
                    chosen, self.limit = parts, WORTH_IT * value
        return None if chosen is None else self.apart.candidate(chosen)

    def known_of(self, found: Candidate) -> Candidate:
        """With what the plan that was better until now tells of the workload."""
        problem, best = self.problem, self.best
        cost, before = found.privacy.pcost, best.privacy.pcost
        if not (0 < cost < np.inf and before > 0):
            return found
        scaled = problem.priorities is None and not isinstance(problem.goal, ConvexLoss)
        times = before / cost
        value = reached(problem, best) / reached(problem, found) * (times if scaled else 1.0)
        return replace(found, optimality=Kept(best.optimality, times, value))
