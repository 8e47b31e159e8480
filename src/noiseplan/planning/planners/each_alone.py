"""Parts of a workload planned as if there were no other, with shares of the budget: as is done by
hand where a part is a single query.

Shares are the best for what each part has alone (`budget_shares`). Where targets are to be met
without a budget each part meets its own, and what they cost is added. Parts have nothing in common
then but what several of them determine (`side_by_side`), so that this is worth something where all
together are too much to be planned as one.

A part that no record changes, as the total where one record replaces another, costs nothing: its
value is zero, and what rounding adds to its cost hardly is a share of the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.side_by_side import SideBySide
from noiseplan.planning.budget_shares import Shares, for_loss, for_norm
from noiseplan.planning.candidate import UNMEASURED, WORSE, Candidate, reached
from noiseplan.planning.certificates import Unstated
from noiseplan.planning.objectives import ConvexLoss, TotalVariance
from noiseplan.planning.problem import Problem
from noiseplan.planning.table_matrix import norm_power
from noiseplan.planning.workload_errors import RowFigures

Solve = Callable[[Problem], Candidate]
# Places of queries in the workload, of every part.
Parts = tuple[tuple[int, ...], ...]

ALONE: Final = "each query alone"
GROUPS: Final = "groups of queries"
# Different queries that are planned one by one.
MOST_QUERIES: Final = 100
# Of the budget that is left for the rounding of sums.
ROOM: Final = 1e-9
# Of the budget, or of targets, that is worth to be planned for once more; and for rounding then.
WORTH_IT, SLACK = 1e-3, 1e-4
# Below this share of the budget a cost is rounding.
ROUNDING: Final = 1e-9


def solve(problem: Problem, alone: Solve, hopeless: float) -> Candidate | str:
    """The plans that `alone` makes of each query, side by side; or why they are not, such as that
    they come to more than what is `hopeless` at a cost of one."""
    queries = single_queries(problem)
    if len(queries) > MOST_QUERIES:
        return f"not tried, {len(queries):,} queries"
    apart = Apart(problem, alone)
    sizes = problem.workload.sizes
    try:
        # Those with the most rows first: what they come to is known the sooner.
        for query in sorted(queries, key=lambda same: -sizes[same[0]]):
            apart.plan(query)
            so_far = tuple(each for each in queries if each in apart.known)
            loss = isinstance(problem.goal, ConvexLoss)  # which is of all queries
            if not loss and apart.shares(so_far).value > hopeless:
                return WORSE
        if not any(each.value for each in apart.known.values()):
            return UNMEASURED
        return apart.candidate(queries)
    except PlanError:  # nothing differs between records, or noise too large to be drawn
        return UNMEASURED


def single_queries(problem: Problem) -> Parts:
    """Every different query by itself."""
    return parts_by([query.key for query in problem.workload])


def parts_by(keys: Sequence[object]) -> Parts:
    """The places of equal keys."""
    places: dict[object, list[int]] = {}
    for i, key in enumerate(keys):
        places.setdefault(key, []).append(i)
    return tuple(map(tuple, places.values()))


class Apart:
    """Parts of a problem, each planned once by `alone` with all of the budget."""

    def __init__(self, problem: Problem, alone: Solve) -> None:
        self.problem, self.alone = problem, alone
        self.known: dict[tuple[int, ...], Part] = {}

    def plan(self, places: tuple[int, ...]) -> Part:
        """What is planned for some queries."""
        if places not in self.known:
            asked = self._asked(places)
            self.known[places] = Part(asked, self.alone(asked))
        return self.known[places]

    def _asked(self, places: tuple[int, ...]) -> Problem:
        """The problem of some queries. A loss of one's own is of all of them, and falls with the
        variances of each."""
        problem, here = self.problem, list(places)
        loss = isinstance(problem.goal, ConvexLoss)
        return replace(
            problem,
            workload=problem.workload.subset(here),
            objective=TotalVariance() if loss else problem.objective,
            targets=None if problem.targets is None else np.asarray(problem.targets)[here],
        )

    def shares(self, parts: Parts) -> Shares:
        """The best shares of these parts, and what is reached with them: at a cost of one, and a
        loss of one's own at the budget."""
        goal, degree = self.problem.goal, self.problem.drawn.degree
        found = [self.plan(each) for each in parts]
        if isinstance(goal, ConvexLoss):
            places, sizes = np.concatenate(parts), [len(each) for each in parts]
            order = np.argsort(places)
            means = np.concatenate([each.means for each in found])[order]
            return for_loss(goal, means, np.repeat(np.arange(len(parts)), sizes)[order], degree)
        return for_norm(np.array([each.value for each in found]), norm_power(goal), degree)

    def candidate(self, parts: Parts) -> Candidate:
        """The plans of these parts side by side."""
        found = [self.plan(each) for each in parts]
        if self.problem.price is None:
            return self._meeting_targets(parts, found)
        return self._within(self.problem.price * (1 - ROOM), parts, found)

    def _within(self, price: float, parts: Parts, found: Sequence[Part]) -> Candidate:
        """With all of the budget, also where no record is the dearest of all parts."""
        costs = price * self.shares(parts).each
        made = self._beside(parts, self._at(costs, found))
        spent = made.mechanism.record_cost(self.problem.neighbours)
        if not 0 < spent < (1 - WORTH_IT) * price:
            return made
        again = self._beside(parts, self._at(costs * (price / spent), found))
        return again if again.mechanism.record_cost(self.problem.neighbours) <= price else made

    def _meeting_targets(self, parts: Parts, found: Sequence[Part]) -> Candidate:
        """At the cost of each, or at less where parts meet targets together by more than that."""
        assert self.problem.priorities is not None  # without a budget there are targets
        targets = 1.0 / self.problem.priorities
        made = self._beside(parts, [each.found.mechanism for each in found])
        scale = made.figures.target_scale(targets) * (1 + SLACK)
        if scale >= 1 - WORTH_IT:
            return made
        costs = scale * np.array([each.cost for each in found])
        again = self._beside(parts, self._at(costs, found))
        return again if again.figures.target_scale(targets) <= 1 else made

    def _at(self, costs: Array, found: Sequence[Part]) -> list[Mechanism]:
        pairs = zip(found, costs.tolist(), strict=True)
        return [each.at(cost, self.alone) for each, cost in pairs]

    def _beside(self, parts: Parts, mechanisms: Sequence[Mechanism]) -> Candidate:
        problem, grouped = self.problem, len(parts) < len(single_queries(self.problem))
        mechanism = SideBySide(tuple(mechanisms), grouped)
        privacy = mechanism.cost(problem.neighbours)
        figures = RowFigures(problem.design, mechanism)
        known = Unstated(problem.workload, privacy, exact=problem.integer)
        return Candidate(GROUPS if grouped else ALONE, mechanism, privacy, figures, known)


@dataclass(frozen=True, eq=False)
class Part:
    """Some queries, and what is planned for them with all of the budget."""

    problem: Problem
    found: Candidate

    @cached_property
    def value(self) -> float:
        """At a cost of one, as targets are compared anyway; zero where it costs nothing."""
        asked = self.problem
        if self.cost <= ROUNDING * (asked.price or 0.0):
            return 0.0
        scale = asked.at_one if asked.priorities is None else 1.0
        return scale * reached(asked, self.found)

    @cached_property
    def means(self) -> Array:
        """Weight · mean variance of every query."""
        roles, figures = self.found.figures.design.roles, self.found.figures
        each = roles.type_priority * figures.type_variances / figures.design.type_rows
        return np.asarray(each[roles.type_of_query])

    @property
    def cost(self) -> float:
        """2ρ, or ε."""
        return self.found.mechanism.record_cost(self.problem.neighbours)

    def at(self, cost: float, solve: Solve) -> Mechanism:
        """The same at another cost: with other noise, or planned once more."""
        mechanism, own = self.found.mechanism, self.cost
        scaled = mechanism.with_noise_times(own / cost) if own else mechanism
        if scaled is not None:
            return scaled
        budget = self.problem.drawn.budget(cost)
        return solve(replace(self.problem, budget=budget)).mechanism
