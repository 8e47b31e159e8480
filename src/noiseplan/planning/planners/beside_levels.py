"""Conditions beside tables of a long attribute: planned as if they were asked of all its places.

Levels make a tree, and prefix sums a series; `county = '01' and age < 18` is neither. But to
measure the children of one county costs a record what it costs to measure those of every county,
since no record is in two of them, and where nodes of a level are alike so are their variances. So
a row Σ_v a_v x_v over nodes v of the tree, each the largest there is, is planned as all nodes of
the lowest level among them, with the weight that makes both the same:

| objective | weight of each of the level's n nodes, for r rows of weight w, k = Σ a_v² |
| --- | --- |
| total variance | w k r/n |
| p-norm | w k (r/n)^(1/p) |
| worst variance, loss of one's own | w k |
| targets t | t/k |

Along a series a row is the difference of prefix sums, with its steps for a_v. Matrices over several
attributes have no such place: they are left out, answered from what the others measure, or planned
beside it.

What is reached is worked out for the queries as they were asked. Neither tables nor conditions have
less beside each other than alone, which bounds the sum and any norm of both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.domain.tree import Tree
from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.matrices import Matrix
from noiseplan.matrices.base import Array
from noiseplan.matrices.composed import stacked_parts
from noiseplan.mechanisms.tree_block import groups_of
from noiseplan.planning import limits
from noiseplan.planning.alone_bounds import least_sums
from noiseplan.planning.candidate import NOT_BETTER, TAKEN, WORSE, Candidate, reached
from noiseplan.planning.cell_classes import merged_values
from noiseplan.planning.certificates import PROVED, Stated
from noiseplan.planning.long_problem import (
    ALONG,
    asked_by_value,
    kind_of,
    series_problem,
    tree_along,
    tree_problem,
)
from noiseplan.planning.objectives import ConvexLoss, TotalVariance
from noiseplan.planning.planners import level_plans
from noiseplan.planning.planners.each_alone import GROUPS, Apart, Parts, Solve, parts_by
from noiseplan.planning.planners.long_plans import LEAST_GAP, LEAST_STEPS, tried
from noiseplan.planning.problem import Problem
from noiseplan.planning.smaller_domain import carried
from noiseplan.planning.table_matrix import norm_power
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.queries import Factor, Identity, Level, Levels, Prefix, Query, Total, Workload
from noiseplan.queries.columns import QueryColumns, columns_of
from noiseplan.schema import Attribute, Hierarchical

# Numbers of a factor's matrix that are written down to be read.
MOST_NUMBERS: Final = 1 << 24
# Rows of an attribute that are conditions on it, and no table of its own.
FEW_ROWS: Final = 8
# Queries that are looked at one by one.
MOST_QUERIES: Final = 5000


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
    found = "not asked by levels" if whole is None else level_plans.solve(whole)
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
    other = [place for place in long if not _that_go_together(workload, place).all()]
    if design.joints:  # which none of the long ones has for a level
        other = sorted(long, key=lambda place: -workload.schema.shape[place])[:1]
    return other[0] if other else None


def stand_in(problem: Problem, place: int) -> StandIn | None:
    """The problem with whole levels of an attribute instead of conditions on it; None where there
    are no conditions, or nothing else."""
    read = _that_go_together(problem.workload, place)
    return None if read.all() or not read.any() else StandIn(problem, place, read)


def _that_go_together(workload: Workload, place: int) -> NDArray[np.bool_]:
    """Queries whose groups of values lie within each other; where sums of many values in order are
    asked for, whose groups are in order."""
    schema, asked = workload.schema, [_asked(query, place) for query in workload]
    parts = {each: _parts(each, schema.attributes[place]) for each in asked if each is not None}
    kinds = {each: [kind_of(part) for part in own] for each, own in parts.items()}
    along = any(kind is not None and kind.name in ALONG for own in kinds.values() for kind in own)
    if along and schema.shape[place] > limits.SERIES_VALUES:
        fits = {each: None not in own for each, own in kinds.items()}
    else:
        levels, fits = [np.zeros(schema.shape[place], dtype=np.int64)], {}
        for each, own in parts.items():
            groups = [group for part in own if (group := groups_of(part)) is not None]
            fits[each] = len(groups) == len(own) and Tree.of([*levels, *groups]) is not None
            levels += groups if fits[each] else []
    return np.array([each is not None and fits[each] for each in asked])


def _asked(query: Query, place: int) -> Factor | None:
    """What a query asks of an attribute; None of matrices over several."""
    if query.joint is not None:
        return None
    return query.factors.get(query.schema.names[place], Total())


def _level(group: IntArray) -> Factor:
    """Groups of values alone."""
    return Levels(group.tolist(), leaves=False, total=False)


def _parts(factor: Factor, attribute: Attribute) -> list[Matrix]:
    return list(stacked_parts(factor.matrix(attribute)))


@dataclass(frozen=True, eq=False)
class StandIn:
    """The problem of tables and whole levels (`reductions.Reduction`): `read` are the tables."""

    problem: Problem
    place: int
    read: NDArray[np.bool_]

    @property
    def parts(self) -> Parts:
        """Tables, and conditions."""
        tables, conditions = np.flatnonzero(self.read), np.flatnonzero(~self.read)
        return tuple(tables.tolist()), tuple(conditions.tolist())

    @cached_property
    def tables(self) -> Problem:
        """Without the conditions."""
        return replace(self.problem, workload=self.problem.workload.subset(self.read), targets=None)

    @property
    def few(self) -> bool:
        """Whether conditions are single rows of the attribute, or some."""
        asked = [_asked(self.problem.workload.query(i), self.place) for i in self.parts[1]]
        attribute = self.problem.workload.schema.attributes[self.place]
        return all(each is None or each.matrix(attribute).shape[0] <= FEW_ROWS for each in asked)

    @property
    def goes_along(self) -> bool:
        """Whether tables go along the attribute, or have its values for themselves."""
        by_value = asked_by_value(self.tables.workload, self.place)
        return by_value or self._ordered or tree_problem(self.tables) is not None

    @cached_property
    def _ordered(self) -> bool:
        """Whether tables ask for sums in order of this attribute, and not of another long one."""
        found = series_problem(self.tables)
        return found is not None and found.place == self.place

    @cached_property
    def _levels(self) -> list[tuple[Factor, IntArray]]:
        """All levels that rows may be nodes of, from the root to the values, each with the node of
        every value: those of tables, and of a hierarchy where these lie within each other."""
        attribute = self.problem.workload.schema.attributes[self.place]
        asked = {_asked(query, self.place): None for query in self.tables.workload}
        known: list[tuple[Factor, IntArray]] = [(Total(), np.zeros(attribute.size, dtype=np.int64))]
        for part in (part for factor in asked if factor for part in _parts(factor, attribute)):
            group = groups_of(part)
            if group is not None and group.max() + 1 < attribute.size:
                known.append((_level(group[: attribute.stated]), group))
        if isinstance(attribute, Hierarchical):
            known += [(Level(name), attribute.group_of(name)) for name in attribute.levels[1:]]
        known.append((Identity(), np.arange(attribute.size)))
        found: dict[int, tuple[Factor, IntArray]] = {}
        for factor, group in known:
            if Tree.of([group, *(own for _, own in found.values())]) is not None:
                found[int(group.max())] = factor, group  # a level by its name, if it has one
        return [found[size] for size in sorted(found)]

    # ------------------------------------------------------------------ there and back

    def forward(self, problem: Problem) -> Problem:
        """Whole levels instead of conditions, in the same order; without matrices over several
        attributes, and then with the total for a loss that is of all queries."""
        power, schema = norm_power(problem.goal), problem.workload.schema
        means = isinstance(problem.goal, ConvexLoss)  # which is of means, not of sums
        queries: list[Query] = []
        targets: list[float] = []
        for number, query in enumerate(problem.workload):
            target = 1.0 if problem.targets is None else float(np.asarray(problem.targets)[number])
            if self.read[number]:
                queries.append(query)
                targets.append(target)
            elif (whole := self._whole(query)) is not None:
                factor, nodes, share = whole
                weight = query.weight * nodes * (1.0 if means else share ** (1 / power))
                factors = dict(query.factors) | {schema.names[self.place]: factor}
                queries.append(Query(schema, factors, weight=weight))
                targets.append(target / nodes)
        lost = means and len(queries) < len(problem.workload)
        # Conditions of one level may have the same stand-in: no weights are to be added up then.
        columns, needed = columns_of(schema, queries), np.array(targets)
        if not means:
            columns, needed = _each_once(columns, [query.key for query in queries], needed, power)
        return replace(
            problem,
            workload=Workload.from_columns(schema, columns),
            targets=None if problem.targets is None else needed,
            objective=TotalVariance() if lost else problem.objective,
        )

    def _whole(self, query: Query) -> tuple[Factor, float, float] | None:
        """The level of a query's rows, the mean of Σ a² of its nodes, and rows for each node of the
        level; None of what has no place along the attribute, and where nothing is asked."""
        factor, attribute = _asked(query, self.place), query.schema.attributes[self.place]
        matrix = None if factor is None else factor.matrix(attribute)
        if matrix is None or prod(matrix.shape) > MOST_NUMBERS:
            return None
        rows = matrix.dense()
        if self._ordered:
            steps = np.diff(rows[:, : attribute.stated], append=0.0)
            level: Factor = Prefix()
            nodes, count = float((steps**2).sum(axis=1).mean()), attribute.stated
        else:
            level, nodes, count = self._nodes(rows)
        return (level, nodes, len(rows) / count) if nodes > 0 else None

    def _nodes(self, rows: Array) -> tuple[Factor, float, int]:
        """The lowest level of the largest nodes that rows are made of, the mean of Σ a² and the
        nodes of that level."""
        left, squares, lowest = np.ones(rows.shape, dtype=bool), 0.0, 0
        for number, (_, group) in enumerate(self._levels):
            order = np.argsort(group, kind="stable")
            begin = np.searchsorted(group[order], np.arange(int(group.max()) + 1))
            sorted_rows = rows[:, order]
            least = np.minimum.reduceat(sorted_rows, begin, axis=1)
            most = np.maximum.reduceat(sorted_rows, begin, axis=1)
            new = np.maximum.reduceat(left[:, order], begin, axis=1) & (least == most)
            if (new & (most != 0)).any():
                squares, lowest = squares + float((most**2)[new].sum()), number
            left &= ~new[:, group]
        factor, group = self._levels[lowest]
        return factor, squares / len(rows), int(group.max()) + 1

    def back(self, candidate: Candidate) -> Candidate:
        """What is measured, for the queries as they were asked; refused where it does not tell."""
        figures = RowFigures(self.problem.design, candidate.mechanism)
        figures.require_answers(candidate.mechanism)
        # What is no better for whole levels may be better for what was asked.
        considered = tuple(each for each in candidate.considered if each[1] != NOT_BETTER)
        return replace(candidate, figures=figures, considered=considered)


def _each_once(
    columns: QueryColumns, keys: list[object], targets: Array, power: float
) -> tuple[QueryColumns, Array]:
    """Equal queries as one, whose norm and target are those of all."""
    same = parts_by(keys)
    first = np.array([places[0] for places in same])
    weights = [np.linalg.norm(columns.weights[list(places)], power) for places in same]
    least = [targets[list(places)].min() for places in same]
    return replace(columns.taken(first), weights=np.array(weights)), np.array(least)


class _Search:
    """One plan for all queries, or one for tables and one for conditions."""

    def __init__(self, asked: StandIn, together: Solve) -> None:
        self.asked, self.problem, self.together = asked, asked.problem, together
        self.apart = Apart(self.problem, self._part)

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
        if one is not None and self._near_tables(one):
            return one
        try:
            two = self._known(self.apart.candidate(self.asked.parts))
        except (PlanError, UnanswerableError):
            if one is None:
                raise
            return one
        if one is None:
            return replace(two, considered=((GROUPS, TAKEN),))
        one = self._known(one)
        if reached(self.problem, two) >= limits.WORTH_IT * reached(self.problem, one):
            return replace(one, considered=(*one.considered, (GROUPS, NOT_BETTER)))
        beaten = ((name, WORSE if why == TAKEN else why) for name, why in one.considered)
        return replace(two, considered=((GROUPS, TAKEN), *beaten))

    def _near_tables(self, one: Candidate) -> bool:
        """Whether tables beside conditions, with a part of the budget, cannot have clearly less."""
        tables = self.apart.plan(self.asked.parts[0])
        loss = isinstance(self.problem.goal, ConvexLoss)  # of which tables are planned for the sum
        least = self._at_cost_one(tables.problem, tables.found)
        return not loss and least >= limits.WORTH_IT * self._at_cost_one(self.problem, one)

    def _at_cost_one(self, problem: Problem, found: Candidate) -> float:
        """What is reached, as targets are compared anyway."""
        value = reached(problem, found)
        return value if problem.priorities is not None else value * found.privacy.pcost

    def one(self) -> Candidate | None:
        """One plan for all; None where it does not tell what is asked."""
        try:
            return self._known(
                self._met() if self.problem.price is None else self._at(self.problem)
            )
        except UnanswerableError:  # matrices over several attributes tell more than tables do
            return None

    def _at(self, problem: Problem) -> Candidate:
        return self.asked.back(self.together(self.asked.forward(problem)))

    def _met(self) -> Candidate:
        """The least cost that is found to meet the targets of what was asked."""
        assert self.problem.priorities is not None  # without a budget there are targets
        targets, problem, best = 1.0 / self.problem.priorities, self.problem, None
        for _ in range(LEAST_STEPS):
            found = self._at(problem)
            scale = found.figures.target_scale(targets)
            if scale <= 1 and (best is None or found.privacy.pcost < best.privacy.pcost):
                best = found
            if 1 - LEAST_GAP <= scale <= 1:
                break
            cost = found.privacy.pcost * scale * (1 + LEAST_GAP / 4)
            problem = replace(problem, budget=problem.drawn.budget(cost))
        if best is None:
            raise PlanError("no plan was found that meets the targets: this is a bug")
        return best

    def _known(self, found: Candidate) -> Candidate:
        """With what is known of tables and of conditions: neither has less beside the other, so
        that sums and norms of both have no less than those of the two bounds."""
        goal, cost = self.problem.goal, found.privacy.pcost
        each = [self._least(number) / cost for number in (0, 1)]
        total = sum(self._least_sum(number) for number in (0, 1)) / cost
        bound = float(np.linalg.norm(each, norm_power(goal)))
        value = reached(self.problem, found) / (cost if self.problem.priorities is not None else 1)
        # A loss of one's own is of all queries. Discrete noise of less than one count falls below.
        gap = 1.0 if isinstance(goal, ConvexLoss) or value <= 0 else max(1.0 - bound / value, 0.0)
        return replace(found, optimality=Stated(total * (1 - 1e-9), gap=gap))

    def _least(self, number: int) -> float:
        """What tables, or conditions, have at least at a cost of one, of what is to be small."""
        targeted = self.problem.priorities is not None
        if isinstance(self.problem.goal, TotalVariance) and not targeted:
            return self._least_sum(number)
        part = self.asked.parts[number]
        known = self.apart.plan(part) if number == 0 else self.apart.known.get(part)
        if known is None:
            return 0.0
        optimality = known.found.optimality
        gap = PROVED if optimality.proved else optimality.gap
        return 0.0 if gap is None else (1.0 - gap) * self._at_cost_one(known.problem, known.found)

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
