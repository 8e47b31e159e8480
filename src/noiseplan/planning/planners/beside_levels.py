"""Conditions beside tables of a long attribute: one plan for all, or one for each.

| plan | where conditions are | is the better |
| --- | --- | --- |
| whole levels | at all nodes of a level (`stand_ins`) | where they count for little |
| nodes of their own | split from their siblings (`split_levels`) | where they count for much |
| groups of queries | beside the tables, with a share of the budget | where no level tells them |

Matrices over several attributes have no place along a tree: they are answered from what the others
measure, or planned beside it. What is reached is worked out for the queries as they were asked.
Neither tables nor conditions have less beside each other than alone, which bounds the sum and any
norm of both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np

from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.matrices.base import Array
from noiseplan.planning import limits
from noiseplan.planning.alone_bounds import least_largest, least_sums
from noiseplan.planning.candidate import NOT_BETTER, TAKEN, WORSE, Candidate, reached
from noiseplan.planning.cell_classes import merged_values
from noiseplan.planning.certificates import PROVED, Stated
from noiseplan.planning.long_problem import TreeProblem, tree_along
from noiseplan.planning.objectives import ConvexLoss, TotalVariance
from noiseplan.planning.planners import level_plans
from noiseplan.planning.planners.each_alone import GROUPS, Apart, Solve
from noiseplan.planning.planners.long_plans import least_meeting, tried
from noiseplan.planning.problem import Problem
from noiseplan.planning.smaller_domain import carried
from noiseplan.planning.split_levels import split_off
from noiseplan.planning.stand_ins import StandIn, stand_in, that_go_together
from noiseplan.planning.table_matrix import norm_power

# Queries that are looked at one by one.
MOST_QUERIES: Final = 5000
OWN_NODES: Final = "conditions at nodes of their own"


def solve(problem: Problem, together: Solve) -> Candidate | None:
    """The better of one plan for all queries and of tables beside conditions; None where there are
    no such two along a long attribute. `together` plans some queries."""
    place = _long_place(problem) if tried(problem) else None
    found = None if place is None else stand_in(problem, place)
    return None if found is None or not found.goes_along else _Search(found, together).best()


def by_levels(problem: Problem) -> Candidate | None:
    """Rows of their own for levels of the attribute that has most, however few values, and
    conditions beside them; None where there are no levels, or nobody waits for them."""
    if not (tried(problem) and level_plans.fits(problem)):
        return None
    found: list[tuple[int, int, int]] = []
    asked = [stand_in(problem, place) for place in range(len(problem.workload.schema))]
    for place, each in enumerate(asked):
        if each is not None and not each.few:
            continue
        whole = tree_along(problem if each is None else each.forward(problem), place)
        if whole is not None:
            found.append((whole.tree.depth, whole.tree.sizes[-1], place))
    if not found:
        return None
    place = max(found, key=lambda each: each[:2])[2]
    beside = asked[place]
    try:
        if beside is None:
            return _of_levels(problem, place)
        return _Search(beside, lambda some: _of_levels(some, place)).one()
    except PlanError:
        return None


def _of_levels(problem: Problem, place: int) -> Candidate:
    whole = tree_along(problem, place)
    if whole is None:
        raise PlanError("not asked by levels")
    return _levels(whole)


def _levels(whole: TreeProblem) -> Candidate:
    found = level_plans.solve(whole)
    if isinstance(found, str):
        raise PlanError(found)
    return found


def _long_place(problem: Problem) -> int | None:
    """A long attribute of which something else is asked than levels or sums in order (the next one
    is looked at in what is planned instead); the longest, where that are matrices over several."""
    workload, design = problem.workload, problem.design
    if len(workload) > MOST_QUERIES:
        return None
    long = [
        place
        for place, role in enumerate(design.roles.of_attribute.tolist())
        if role >= 0
        and workload.schema.shape[place] > limits.LONG_VALUES
        and design.group_count(role) > limits.LONG_VALUES
    ]
    other = [place for place in long if not that_go_together(workload, place).all()]
    if design.joints:  # which none of the long ones has for a level
        other = sorted(long, key=lambda place: -workload.schema.shape[place])[:1]
    return other[0] if other else None


class _Search:
    """One plan for all queries, or one for tables and one for conditions."""

    def __init__(self, asked: StandIn, together: Solve) -> None:
        self.asked, self.problem, self.together = asked, asked.problem, together
        self.apart = Apart(self.problem, self._part)
        # What is known to be the least of the objective and of the total variance at a cost of one.
        self.least = self.least_sum = 0.0

    def _part(self, problem: Problem) -> Candidate:
        """Tables as they are; conditions over the groups of values that they tell apart."""
        design, sizes = problem.design, problem.workload.schema.shape
        roles = enumerate(design.roles.of_attribute.tolist())
        few = (
            role >= 0 and design.group_count(role) <= limits.LONG_VALUES < sizes[place]
            for place, role in roles
        )
        if not any(few):
            return self.together(problem)
        groups = carried(design, merged_values(design))
        return groups.back(self.together(groups.forward(problem)))

    def best(self) -> Candidate:
        """One plan where it has hardly more than tables have alone, else the better."""
        one = self.one()
        if one is not None and self._near_least(one):
            return one
        try:
            two = self._known(self.apart.candidate(self.asked.parts))
        except (PlanError, UnanswerableError):
            if one is None:
                raise
            return one
        if one is None:
            return replace(two, considered=((GROUPS, TAKEN),))
        one = self._known(one)  # now that conditions were planned alone
        if reached(self.problem, two) >= limits.WORTH_IT * reached(self.problem, one):
            return replace(one, considered=(*one.considered, (GROUPS, NOT_BETTER)))
        beaten = ((name, WORSE if why == TAKEN else why) for name, why in one.considered)
        return replace(two, considered=((GROUPS, TAKEN), *beaten))

    def one(self) -> Candidate | None:
        """One plan for all; None where it does not tell what is asked."""
        whole = self._made(self._by_whole_levels)
        if whole is not None and self._near_least(whole):
            return self._known(whole)
        nodes = self._at_own_nodes()
        if whole is None or nodes is None:
            found = whole or nodes
            return None if found is None else self._known(found)
        if reached(self.problem, nodes) >= limits.WORTH_IT * reached(self.problem, whole):
            considered = (*whole.considered, (OWN_NODES, NOT_BETTER))
            return replace(self._known(whole), considered=considered)
        beaten = ((name, WORSE if why == TAKEN else why) for name, why in whole.considered)
        return replace(self._known(nodes), considered=((OWN_NODES, TAKEN), *beaten))

    def _near_least(self, one: Candidate) -> bool:
        """Whether nothing has clearly less: not than tables have alone, nor than a single query."""
        if isinstance(self.problem.goal, ConvexLoss):  # of which tables are planned for the sum
            return False
        tables = self.apart.plan(self.asked.parts[0])
        least = self._at_cost_one(tables.problem, tables.found)
        if not self._of_total:
            least = max(least, float(self._least_largest.max()))
        return least >= limits.WORTH_IT * self._at_cost_one(self.problem, one)

    def _at_cost_one(self, problem: Problem, found: Candidate) -> float:
        """What is reached, as targets are compared anyway; a loss of one's own as it is."""
        value = reached(problem, found)
        given = problem.priorities is not None or isinstance(problem.goal, ConvexLoss)
        return value if given else value * found.privacy.pcost

    def _at_own_nodes(self) -> Candidate | None:
        """With conditions at nodes of their own, where these can be planned."""
        split = split_off(self.asked)
        if split is None:
            return None
        try:
            found = self._made(lambda problem: _levels(split.along(problem)))
        except PlanError:
            return None
        if found is not None and split.is_what_was_asked:
            self._learn(found)
        return found

    def _by_whole_levels(self, problem: Problem) -> Candidate:
        return self.together(self.asked.forward(problem))

    def _made(self, plan: Callable[[Problem], Candidate]) -> Candidate | None:
        """What `plan` makes of the problem; None where it does not tell what is asked, as matrices
        over several attributes may be."""

        def at(problem: Problem) -> Candidate:
            return self.asked.back(plan(problem))

        try:
            return at(self.problem) if self.problem.price is not None else self._met(at)
        except UnanswerableError:
            return None

    def _met(self, at: Callable[[Problem], Candidate]) -> Candidate:
        """The least cost that is found to meet the targets of what was asked."""
        assert self.problem.priorities is not None  # without a budget there are targets

        def at_cost(cost: float) -> Candidate:
            return at(replace(self.problem, budget=self.problem.drawn.budget(cost)))

        return least_meeting(1.0 / self.problem.priorities, at(self.problem), at_cost)

    def _learn(self, found: Candidate) -> None:
        """Remember the bounds of a plan that was made for what was asked."""
        if found.optimality.gap is not None:
            self.least = (1.0 - found.optimality.gap) * self._at_cost_one(self.problem, found)
        self.least_sum = found.optimality.lower_bound * found.privacy.pcost

    def _known(self, found: Candidate) -> Candidate:
        """With what is known of the least: of tables and conditions neither has less beside the
        other, so that sums and norms of both have no less than those of the two bounds."""
        goal, cost = self.problem.goal, found.privacy.pcost
        total = max(sum(self._least_sum(number) for number in (0, 1)), self.least_sum) / cost
        least, value = self.least, self._at_cost_one(self.problem, found)
        if not isinstance(goal, ConvexLoss):  # which is of all queries
            each = [self._least(number) for number in (0, 1)]
            least = max(least, float(np.linalg.norm(each, norm_power(goal))))
        if self.problem.price is None:  # targets that are met a hair better than asked
            value = max(value, cost)
        # Discrete noise of less than one count falls below.
        gap = 1.0 if value <= 0 else max(1.0 - least / value, 0.0)
        return replace(found, optimality=Stated(total * (1 - 1e-9), gap=gap))

    def _least(self, number: int) -> float:
        """What tables, or conditions, have at least at a cost of one, of what is to be small."""
        if self._of_total:
            return self._least_sum(number)
        part = self.asked.parts[number]
        known = self.apart.plan(part) if number == 0 else self.apart.known.get(part)
        alone = float(self._least_largest[list(part)].max())
        if known is None:
            return alone
        optimality = known.found.optimality
        gap = PROVED if optimality.proved else optimality.gap
        gap = 1.0 if gap is None else gap
        return max(alone, (1.0 - gap) * self._at_cost_one(known.problem, known.found))

    @cached_property
    def _least_largest(self) -> Array:
        """The largest variance that every query has at least: no more than any norm of it.
        Discrete noise of less than one count falls below."""
        return least_largest(self.problem) * (not self.problem.faint)

    @property
    def _of_total(self) -> bool:
        """Whether the total variance is to be small, and not a norm or a share of targets."""
        return isinstance(self.problem.goal, TotalVariance) and self.problem.priorities is None

    def _least_sum(self, number: int) -> float:
        """The same of the total variance; of conditions no less than each has alone."""
        part = self.asked.parts[number]
        known = self.apart.plan(part) if number == 0 else self.apart.known.get(part)
        least = 0.0
        if known is not None:
            least = known.found.optimality.lower_bound * known.found.privacy.pcost
        if number == 0 or self.problem.faint:
            return least
        weights = self.problem.workload.columns.weights / self.problem.design.priorities
        return max(least, float((least_sums(self.problem) * weights)[list(part)].sum()))
