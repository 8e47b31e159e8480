"""Whole levels of an attribute as stand-ins for conditions that name some of its places.

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
attributes have no such place, and are left out.
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
from noiseplan.matrices import Matrix
from noiseplan.matrices.base import Array
from noiseplan.matrices.composed import stacked_parts
from noiseplan.mechanisms.tree_block import groups_of
from noiseplan.planning import limits
from noiseplan.planning.candidate import NOT_BETTER, Candidate
from noiseplan.planning.long_problem import (
    ALONG,
    asked_by_value,
    kind_of,
    series_problem,
    tree_problem,
)
from noiseplan.planning.objectives import ConvexLoss, TotalVariance
from noiseplan.planning.planners.each_alone import Parts, parts_by
from noiseplan.planning.problem import Problem
from noiseplan.planning.table_matrix import norm_power
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.queries import Factor, Identity, Level, Levels, Prefix, Query, Total, Workload
from noiseplan.queries.columns import QueryColumns, columns_of
from noiseplan.schema import Attribute, Hierarchical

# Numbers of a factor's matrix that are written down to be read.
MOST_NUMBERS: Final = 1 << 24
# Rows of an attribute that are conditions on it, and no table of its own.
FEW_ROWS: Final = 8


def stand_in(problem: Problem, place: int) -> StandIn | None:
    """The problem with whole levels of an attribute instead of conditions on it; None where there
    are no conditions, or nothing else."""
    read = that_go_together(problem.workload, place)
    return None if read.all() or not read.any() else StandIn(problem, place, read)


def that_go_together(workload: Workload, place: int) -> NDArray[np.bool_]:
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
        conditions = map(self.rows_along, self.parts[1])
        return all(each is None or each.shape[0] <= FEW_ROWS for each in conditions)

    def rows_along(self, number: int) -> Matrix | None:
        """What a query asks of the attribute; None of matrices over several."""
        factor = _asked(self.problem.workload.query(number), self.place)
        attribute = self.problem.workload.schema.attributes[self.place]
        return None if factor is None else factor.matrix(attribute)

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
