"""A workload about the levels of a long attribute: its tree, and what is asked at each level.

The other attributes are planned as residuals are, on a schema where the long attribute has one
value; what is left are the precisions of the tree's nodes, one for every set of other attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from noiseplan.arrays import IntArray
from noiseplan.domain.tree import Tree
from noiseplan.matrices import IdentityMatrix, Matrix, StackMatrix, TotalMatrix
from noiseplan.matrices.base import Array
from noiseplan.matrices.groups import GroupMatrix
from noiseplan.optimize.tree_sharing import Alike, Goal
from noiseplan.planning import limits
from noiseplan.planning.bounds import single_heads
from noiseplan.planning.free_split import optimise_total
from noiseplan.planning.problem import Problem
from noiseplan.planning.workload_types import Design, prepare
from noiseplan.queries import Query, Workload
from noiseplan.schema import Ordinal, Schema


@dataclass(frozen=True, eq=False)
class TreeProblem:
    """The place of the long attribute, its tree, and the levels that each query asks for."""

    problem: Problem
    place: int
    tree: Tree
    levels: tuple[IntArray, ...]  # of each query, with repetition

    @cached_property
    def alike(self) -> Alike:
        return Alike.of(self.tree)

    @cached_property
    def weights(self) -> Array:
        """The weight of each query: its own, or one over its target."""
        if self.problem.priorities is not None:
            return self.problem.priorities
        return self.problem.workload.columns.weights

    @cached_property
    def _without(self) -> tuple[list[Query], IntArray]:
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
        """The other attributes, every query as often as it has nodes."""
        asked, number = self._without
        nodes = self.often @ np.array(self.tree.sizes)
        weights = np.bincount(number, self.weights * nodes)
        return prepare(Workload(asked), weights.astype(float), share=False)

    @cached_property
    def type_of_query(self) -> IntArray:
        """The type in `design` of every query."""
        return self.design.roles.type_of_query[self._without[1]]

    @cached_property
    def rows(self) -> dict[int, Array]:
        """U of every free role of the other attributes."""
        return optimise_total(self.design)

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
        """What every set counts for each query, by level: queries × sets, from types × sets."""
        of_types = each.toarray() if sp.issparse(each) else np.asarray(each)
        of_queries = of_types[self.type_of_query]
        often = self.often
        return [of_queries * often[:, level, None] for level in range(self.tree.depth + 1)]

    @cached_property
    def often(self) -> Array:
        """How often each query asks for each level."""
        return np.array([np.bincount(own, minlength=self.tree.depth + 1) for own in self.levels])


def tree_problem(problem: Problem) -> TreeProblem | None:
    """The problem as one of a tree, if one long attribute is asked by levels that are one."""
    workload = problem.workload
    found = [i for i, n in enumerate(workload.schema.shape) if n > limits.LONG_VALUES]
    found = [i for i in found if not _plain(workload, i)]
    if len(found) != 1 or len(workload.columns.matrices):
        return None
    return _on(problem, found[0])


def _plain(workload: Workload, place: int) -> bool:
    """Whether an attribute is asked by value, or not at all: residuals plan that as well."""
    columns = workload.columns
    numbers = np.unique(columns.factors[columns.attributes == place])
    attribute = workload.schema.attributes[place]
    return all(isinstance(columns.distinct[n].matrix(attribute), IdentityMatrix) for n in numbers)


def _on(problem: Problem, place: int) -> TreeProblem | None:
    attribute, columns = problem.workload.schema.attributes[place], problem.workload.columns
    asked = {-1: _groupings(TotalMatrix(attribute.size))}
    for number in np.unique(columns.factors[columns.attributes == place]):
        asked[int(number)] = _groupings(columns.distinct[int(number)].matrix(attribute))
    if any(found is None for found in asked.values()):
        return None
    tree = Tree.of([group for found in asked.values() for group in found or ()])
    if tree is None:
        return None
    level = {
        number: np.array([_level(tree, group) for group in found or ()])
        for number, found in asked.items()
    }
    own = np.where(columns.attributes == place, columns.factors, -1).max(axis=1, initial=-1)
    return TreeProblem(problem, place, tree, tuple(level[int(n)] for n in own))


def _groupings(matrix: Matrix) -> list[IntArray] | None:
    """The groups of values that a factor counts, one array for each level; None if it is none."""
    if isinstance(matrix, StackMatrix):
        parts = [_groupings(block) for block in matrix.blocks]
        return None if None in parts else [group for part in parts for group in part or ()]
    if isinstance(matrix, TotalMatrix):
        return [np.zeros(matrix.size, dtype=np.int64)]
    if isinstance(matrix, IdentityMatrix):
        return [np.arange(matrix.size)]
    return [matrix.group] if isinstance(matrix, GroupMatrix) else None


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
