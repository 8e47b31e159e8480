"""A workload with one long attribute, and what its queries ask of all the others.

The other attributes are planned as residuals are, on a schema where the long attribute has one
value; what is left is to be measured along it, for every set of other attributes.

Along it either levels are asked, which make a tree (`TreeProblem`), or values in order: prefix
sums, ranges, groups, single values (`SeriesProblem`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import scipy.sparse as sp

from noiseplan.arrays import IntArray, joined_kinds
from noiseplan.domain.series_kinds import Name, SeriesKind
from noiseplan.domain.tree import Tree
from noiseplan.matrices import (
    IdentityMatrix,
    Matrix,
    PaddedMatrix,
    PrefixMatrix,
    RangesMatrix,
    TotalMatrix,
)
from noiseplan.matrices.base import Array
from noiseplan.matrices.composed import stacked_parts
from noiseplan.mechanisms.series_rows import AllRanges, SeriesRows, Spans, group_bounds
from noiseplan.mechanisms.tree_block import groups_of
from noiseplan.optimize.tree_sharing import Alike, Goal
from noiseplan.planning import limits
from noiseplan.planning.bounds import single_heads
from noiseplan.planning.free_split import optimise_total
from noiseplan.planning.problem import Problem
from noiseplan.planning.workload_types import Design, prepare
from noiseplan.queries import Query, Workload
from noiseplan.schema import Ordinal, Schema

# Kinds that a tree does not have.
ALONG = ("prefix", "ranges")
# What a part of a factor is read as.
Part = TypeVar("Part")


@dataclass(frozen=True, eq=False)
class LongProblem(ABC):
    """The place of the long attribute, and the kinds of rows that are asked of it."""

    problem: Problem
    place: int

    @property
    @abstractmethod
    def often(self) -> Array:
        """How often each query asks for each kind of rows along the attribute."""

    @property
    @abstractmethod
    def sizes(self) -> Array:
        """What the rows of each kind count for together, when the others are planned."""

    @cached_property
    def weights(self) -> Array:
        """The weight of each query: its own, or one over its target."""
        if self.problem.priorities is not None:
            return self.problem.priorities
        return self.problem.workload.columns.weights

    @cached_property
    def without(self) -> tuple[list[Query], IntArray]:
        """What queries ask of the other attributes, each once; and which of them each one asks."""
        workload = self.problem.workload
        schema, name = workload.schema, workload.schema.names[self.place]
        one = Schema({n: Ordinal([0]) if n == name else schema[n] for n in schema.names})
        place: dict[object, int] = {}
        found: list[Query] = []
        number: list[int] = []
        for query in workload:
            asked = Query(one, {n: f for n, f in query.factors.items() if n != name})
            number.append(place.setdefault(asked.key, len(place)))
            if number[-1] == len(found):
                found.append(asked)
        return found, np.array(number)

    @cached_property
    def design(self) -> Design:
        """The other attributes, every query as often as its rows along the long one count."""
        asked, number = self.without
        weights = np.bincount(number, self.weights * (self.often @ self.sizes))
        return prepare(Workload(asked), weights.astype(float), share=False)

    @cached_property
    def type_of_query(self) -> IntArray:
        """The type in `design` of every query."""
        return self.design.roles.type_of_query[self.without[1]]

    @cached_property
    def rows(self) -> dict[int, Array]:
        """U of every free role of the other attributes."""
        return optimise_total(self.design)

    @property
    def width(self) -> int:
        """Values of the longest of the other attributes."""
        sizes = enumerate(self.problem.workload.schema.shape)
        return max((size for place, size in sizes if place != self.place), default=1)

    def least(self) -> list[Array]:
        """What each set counts for a query type at least, every record alike; for each κ."""
        terms, pairs = self.design.terms, len(self.design.roles.pair_role)
        found = []
        for heads in single_heads(self.design, self.rows):
            rest, mean = np.zeros(pairs), np.zeros(pairs)
            for role in heads.values():
                for pair, kept in role.kept.items():
                    rest[pair], mean[pair] = role.rest[pair], kept[0, 0]
            none = np.zeros(len(terms.joint))
            found.append(terms.matrix(terms.coefficients(rest, mean, none)).toarray())
        return found

    def asked(self, each: sp.csr_array | Array) -> list[Array]:
        """What every set counts for each query, by kind: queries × sets, from types × sets."""
        of_types = each.toarray() if sp.issparse(each) else np.asarray(each)
        of_queries = of_types[self.type_of_query]
        return [of_queries * often[:, None] for often in self.often.T]


def long_attribute(workload: Workload, values: int) -> int | None:
    """The one attribute of more values that is not only asked by value; None if there is none."""
    found = [i for i, n in enumerate(workload.schema.shape) if n > values]
    found = [i for i in found if not asked_by_value(workload, i)]
    return found[0] if len(found) == 1 and not len(workload.columns.matrices) else None


def asked_by_value(workload: Workload, place: int) -> bool:
    """Whether an attribute is asked by value, or not at all: residuals plan that as well."""
    columns = workload.columns
    numbers = np.unique(columns.factors[columns.attributes == place])
    attribute = workload.schema.attributes[place]
    return all(isinstance(columns.distinct[n].matrix(attribute), IdentityMatrix) for n in numbers)


def factor_of_query(workload: Workload, place: int) -> IntArray:
    """The number of the factor that each query has on an attribute, −1 for none."""
    columns = workload.columns
    own = np.where(columns.attributes == place, columns.factors, -1)
    return np.asarray(own.max(axis=1, initial=-1))


def _asked_parts(
    problem: Problem, place: int, read: Callable[[Matrix], Part | None]
) -> dict[int, list[Part]] | None:
    """What each factor asks of the long attribute, part by part; −1 asks its total.

    None where some part is nothing that can be read.
    """
    attribute, columns = problem.workload.schema.attributes[place], problem.workload.columns
    asked: dict[int, list[Part]] = {}
    for number in np.unique(factor_of_query(problem.workload, place)).tolist():
        matrix = columns.distinct[number].matrix(attribute) if number >= 0 else None
        for part in stacked_parts(matrix or TotalMatrix(attribute.size)):
            found = read(part)
            if found is None:
                return None
            asked.setdefault(number, []).append(found)
    return asked


@dataclass(frozen=True, eq=False)
class TreeProblem(LongProblem):
    """The tree of the long attribute, and the levels that each query asks for."""

    tree: Tree
    levels: tuple[IntArray, ...]  # of each query, with repetition
    # Of a query at a level, how much it asks of each node, where that is not one of all.
    of_nodes: Mapping[tuple[int, int], Array]

    @cached_property
    def asked_kinds(self) -> list[Array]:
        """Of each level, queries × kinds of nodes: how much a query asks of each, where it does.

        The cell of missing values is a node of its own at every level, and nobody pays for it but
        its own records; what is asked of the others hardly depends on it.
        """
        found = [np.ones((len(self.levels), len(kinds))) for kinds in self.alike.copies]
        for (query, level), weights in self.of_nodes.items():
            found[level][query, self.alike.kind[level]] = weights  # the same of all of a kind
        return found

    @cached_property
    def alike(self) -> Alike:
        """What is asked of a node is asked of its like."""
        labels: list[IntArray | None] = []
        for level in range(self.tree.depth + 1):
            asked = {id(w): w for (_, at), w in self.of_nodes.items() if at == level}
            apart = [np.unique(w, return_inverse=True)[1].reshape(-1) for w in asked.values()]
            labels.append(joined_kinds(apart) if apart else None)
        return Alike.of(self.tree, labels)

    @cached_property
    def often(self) -> Array:
        return np.array([np.bincount(own, minlength=self.tree.depth + 1) for own in self.levels])

    @cached_property
    def sizes(self) -> Array:
        return np.array(self.tree.sizes, dtype=np.float64)


def tree_problem(problem: Problem) -> TreeProblem | None:
    """The problem as one of a tree, if one long attribute is asked by levels that are one."""
    place = long_attribute(problem.workload, limits.LONG_VALUES)
    return None if place is None else tree_along(problem, place)


def tree_along(problem: Problem, place: int) -> TreeProblem | None:
    """The problem as one of a tree along an attribute, if its levels are one."""
    asked = _asked_parts(problem, place, groups_of)
    if asked is None:
        return None
    attribute, columns = problem.workload.schema.attributes[place], problem.workload.columns
    everything = np.zeros(attribute.size, dtype=np.int64)
    tree = Tree.of([everything, *(group for groups in asked.values() for group in groups)])
    if tree is None:
        return None
    level = {n: np.array([_level(tree, group) for group in groups]) for n, groups in asked.items()}
    own = factor_of_query(problem.workload, place)
    levels = tuple(level[int(n)] for n in own)
    uncounted = [np.ones(size) for size in tree.sizes]
    for at, weights in enumerate(uncounted):  # the missing value is the last one
        weights[tree.node_of_value(at)[-1]] = 0.0
    of_nodes: dict[tuple[int, int], Array] = {}
    for query, number in enumerate(own):
        matrix = columns.distinct[int(number)].matrix(attribute) if number >= 0 else None
        if isinstance(matrix, PaddedMatrix):
            of_nodes |= {(query, at): uncounted[at] for at in set(levels[query].tolist())}
    return TreeProblem(problem, place, tree, levels, of_nodes)


def _level(tree: Tree, group: IntArray) -> int:
    found = tree.level_of(group)
    assert found is not None  # the tree was made of these groups
    return found[0]


# ---------------------------------------------------------------------- goals


def sums_of(asked: list[Array], alike: Alike, final: list[list[Array]]) -> Array:
    """Σ of the row variances of each query."""
    sums = np.zeros(len(asked[0]))
    for block, levels in enumerate(final):
        for level, variance in enumerate(levels):
            sums += asked[level][:, block] * float(alike.copies[level] @ variance)
    return sums


def of_sums(asked: list[Array], alike: Alike, loss: Callable[[Array], tuple[float, Array]]) -> Goal:
    """A function of the sums of variances of each query, from `asked` of each level."""

    def goal(final: list[list[Array]]) -> tuple[float, list[list[Array]]]:
        value, slope = loss(sums_of(asked, alike, final))
        slopes = [
            [float(slope @ asked[level][:, block]) * alike.copies[level] for level in range(len(v))]
            for block, v in enumerate(final)
        ]
        return value, slopes

    return goal


def of_rows(rows: list[Array], often: list[Array], alike: Alike, power: float) -> Goal:
    """(Σ (row variance)^p)^(1/p): `rows` of each level over the sets, each at every node."""

    def goal(final: list[list[Array]]) -> tuple[float, list[list[Array]]]:
        each = []
        for level, coefficient in enumerate(rows):
            here = [
                v[level] if level < len(v) else np.zeros_like(alike.copies[level]) for v in final
            ]
            each.append(coefficient @ np.array(here))
        largest = max(float(e.max(initial=0.0)) for e in each)
        counted = [
            np.outer(n, alike.copies[level]) * (e / largest) ** power
            for level, (e, n) in enumerate(zip(each, often, strict=True))
        ]
        total = sum(float(c.sum()) for c in counted)
        value = largest * total ** (1 / power)
        # ∂/∂v = n (v/f)^{p−1}
        slopes: list[list[Array]] = [[] for _ in final]
        for level, (coefficient, e, n) in enumerate(zip(rows, each, often, strict=True)):
            weight = np.outer(n, alike.copies[level]) * (e / value) ** (power - 1)
            of_sets = coefficient.T @ weight
            for block, v in enumerate(final):
                if level < len(v):
                    slopes[block].append(of_sets[block])
        return value, slopes

    return goal


@dataclass(frozen=True, eq=False)
class SeriesProblem(LongProblem):
    """The kinds of rows that are asked, and those that each query asks for."""

    kinds: tuple[SeriesKind, ...]
    of_query: tuple[IntArray, ...]  # of each query, with repetition

    @cached_property
    def often(self) -> Array:
        return np.array([np.bincount(own, minlength=len(self.kinds)) for own in self.of_query])

    @cached_property
    def sizes(self) -> Array:
        return np.array([kind.norm for kind in self.kinds])

    @cached_property
    def bounded(self) -> tuple[SeriesKind, ...]:
        """What the kinds ask of the values in order, without the cell of missing ones behind them.

        Whatever serves all records serves those whose value is stated, so that a bound for them is
        one for all.
        """
        attribute = self.problem.workload.schema.attributes[self.place]
        if attribute.missing is None:
            return self.kinds
        ends = [np.unique(np.minimum(kind.bounds, attribute.stated)) for kind in self.kinds]
        pairs = zip(self.kinds, ends, strict=True)
        return tuple(SeriesKind(kind.name, bounds) for kind, bounds in pairs)

    @property
    def ranges(self) -> bool:
        """Whether all ranges are asked for."""
        return any(kind.name == "ranges" for kind in self.kinds)


def series_problem(problem: Problem) -> SeriesProblem | None:
    """The problem as one along ordered values, if prefix sums or ranges of many are asked for."""
    place = long_attribute(problem.workload, limits.SERIES_VALUES)
    if place is None:
        return None
    asked = _asked_parts(problem, place, kind_of)
    kinds = {_key(kind): kind for each in (asked or {}).values() for kind in each}
    if asked is None or not any(kind.name in ALONG for kind in kinds.values()):
        return None
    place_of = {key: i for i, key in enumerate(kinds)}
    numbers = {n: np.array([place_of[_key(kind)] for kind in each]) for n, each in asked.items()}
    of_query = tuple(numbers[int(n)] for n in factor_of_query(problem.workload, place))
    return SeriesProblem(problem, place, tuple(kinds.values()), of_query)


def kind_of(matrix: Matrix) -> SeriesKind | None:
    if isinstance(matrix, PaddedMatrix):
        # Planned as if rows went on to the missing values, which are one place behind the others.
        found = kind_of(matrix.inner)
        if found is None:
            return None
        name: Name = "groups" if found.name == "total" else found.name
        return SeriesKind(name, np.append(found.bounds, matrix.columns))
    bounds = np.arange(matrix.shape[1] + 1)
    if isinstance(matrix, TotalMatrix):
        return SeriesKind("total", bounds[[0, -1]])
    if isinstance(matrix, IdentityMatrix):
        return SeriesKind("values", bounds)
    if isinstance(matrix, PrefixMatrix):
        return SeriesKind("prefix", bounds)
    if isinstance(matrix, RangesMatrix):
        return SeriesKind("ranges", bounds)
    group = groups_of(matrix)
    bounds_of_groups = None if group is None else group_bounds(group)
    return None if bounds_of_groups is None else SeriesKind("groups", bounds_of_groups)


def _key(kind: SeriesKind) -> tuple[str, bytes]:
    return kind.name, kind.bounds.tobytes() if kind.name == "groups" else b""


def rows_of_kind(kind: SeriesKind) -> SeriesRows:
    """The rows that are asked, over the values."""
    if kind.name == "ranges":
        return AllRanges(kind.values)
    if kind.name == "prefix":
        return Spans.prefixes(kind.values)
    return Spans.between(kind.bounds)
