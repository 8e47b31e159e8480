"""A workload about the levels of a long attribute: its tree, and what is asked at each level."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.domain.tree import Tree
from noiseplan.matrices import Matrix, PaddedMatrix, TotalMatrix
from noiseplan.matrices.base import Array
from noiseplan.matrices.composed import stacked_parts
from noiseplan.mechanisms.tree_rows import groups_of
from noiseplan.optimize.tree_sharing import Alike, Goal
from noiseplan.planning import limits
from noiseplan.planning.long_problem import LongProblem, factor_of_query, long_attribute
from noiseplan.planning.problem import Problem


@dataclass(frozen=True, eq=False)
class TreeProblem(LongProblem):
    """The tree of the long attribute, and the levels that each query asks for."""

    tree: Tree
    levels: tuple[IntArray, ...]  # of each query, with repetition
    uncounted: NDArray[np.bool_]  # queries × levels: asked without the cell of missing values

    @cached_property
    def asked_kinds(self) -> list[Array]:
        """Of each level, queries × kinds of nodes: one, but zero where the query does not ask.

        The cell of missing values is a node of its own at every level, and nobody pays for it but
        its own records; what is asked of the others hardly depends on it.
        """
        found = []
        for level, kinds in enumerate(self.alike.copies):
            asked = np.ones((len(self.levels), len(kinds)))
            last = self.alike.kind[level][self.tree.node_of_value(level)[-1]]
            asked[self.uncounted[:, level], last] = 0.0
            found.append(asked)
        return found

    @cached_property
    def alike(self) -> Alike:
        return Alike.of(self.tree)

    @cached_property
    def often(self) -> Array:
        return np.array([np.bincount(own, minlength=self.tree.depth + 1) for own in self.levels])

    @cached_property
    def sizes(self) -> Array:
        return np.array(self.tree.sizes, dtype=np.float64)


def tree_problem(problem: Problem) -> TreeProblem | None:
    """The problem as one of a tree, if one long attribute is asked by levels that are one."""
    place = long_attribute(problem.workload, limits.LONG_VALUES)
    return None if place is None else _on(problem, place)


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
    own = factor_of_query(problem.workload, place)
    levels = tuple(level[int(n)] for n in own)
    uncounted = np.zeros((len(own), tree.depth + 1), dtype=bool)
    for query, number in enumerate(own):
        if number >= 0:
            matrix = columns.distinct[int(number)].matrix(attribute)
            uncounted[query, levels[query]] = isinstance(matrix, PaddedMatrix)
    return TreeProblem(problem, place, tree, levels, uncounted)


def _groupings(matrix: Matrix) -> list[IntArray] | None:
    """The groups of values that a factor counts, one array for each level; None if it is none."""
    parts = [groups_of(part) for part in stacked_parts(matrix)]
    known = [part for part in parts if part is not None]
    return known if len(known) == len(parts) else None


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
