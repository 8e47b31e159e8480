"""What no plan has less of where the values of a long attribute are grouped in ways that cross.

Levels that lie within each other make a tree, which has a bound of its own (`optimize.tree_bound`);
school districts beside counties do not. With every stated value alike, λ = 1/n,

    ‖W Λ^{1/2}‖_* ≥ Σ_A tr M_A^{1/2} ,     M_A = (c_A I + Σ_k c_{A,k} Z_kᵀZ_k) / n ,

Z_k the groups of way k over the n values, and c what a set A of the other attributes counts for at
least, as along trees. Beside c_A the eigenvalues are those of groups × groups,

    B[g, h] = (c_{A,k(g)} c_{A,k(h)})^{1/2} |g ∩ h| ,

however many values there are. A way that has too many groups is left out: M_A falls by something
positive, and the trace of its root with it. Queries that ask for other sums of values count what
each would have alone; nothing that is planned for all has less for some of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.domain.tree import Tree
from noiseplan.matrices.base import Array
from noiseplan.matrices.composed import stacked_parts
from noiseplan.mechanisms.tree_block import groups_of
from noiseplan.optimize.gram_roots import EIGENVALUE_ERROR
from noiseplan.planning import limits
from noiseplan.planning.alone_bounds import least_sums
from noiseplan.planning.long_problem import LongProblem, asked_by_value
from noiseplan.planning.problem import Problem
from noiseplan.queries import Query, Total

# Groups whose matrix is written down, and numbers that all of these may have to the third power:
# some seconds. With few groups it is seen which way to look at the others is the best.
MOST_GROUPS, MOST_WORK, FEW_GROUPS = 1500, 2e10, 128
# Queries and ways to group values that are looked at one by one.
MOST_QUERIES, MOST_WAYS = 5000, 40


def least_total(problem: Problem) -> float | None:
    """No plan of the workload has a smaller weighted sum of variances at a cost of one; None where
    nothing crosses along a long attribute, or another bound is to be had."""
    if problem.neighbours == "replace" or len(problem.workload) > MOST_QUERIES:
        return None
    workload, sizes = problem.workload, problem.workload.schema.shape
    place = int(np.argmax(sizes)) if sizes else 0
    others = [i for i, n in enumerate(sizes) if n > limits.LONG_VALUES and i != place]
    if not sizes or sizes[place] <= limits.LONG_VALUES:
        return None
    if not all(asked_by_value(workload, i) for i in others):
        return None
    return least_along(replace(problem, targets=None), place)


def least_along(problem: Problem, place: int) -> float | None:
    """The same along an attribute of any length."""
    ways = [_ways(query, place) for query in problem.workload]
    read = np.array([own is not None for own in ways])
    whole = Groupings.of(problem, place, read, [own for own in ways if own is not None])
    if whole is None or len(whole.groups) > MOST_WAYS or Tree.of(list(whole.groups)) is not None:
        return None
    return whole.bound() + float(least_sums(problem)[~read].sum())


def _ways(query: Query, place: int) -> list[IntArray] | None:
    """The groups of stated values that a query counts, part by part; None if it counts others."""
    if query.joint is not None:
        return None
    attribute = query.schema.attributes[place]
    factor = query.factors.get(query.schema.names[place], Total())
    found = []
    for part in stacked_parts(factor.matrix(attribute)):
        group = groups_of(part)
        if group is None:
            return None
        found.append(np.unique(group[: attribute.stated], return_inverse=True)[1])
    return found


@dataclass(frozen=True, eq=False)
class Groupings(LongProblem):
    """Ways to group the stated values, and those that each query asks for."""

    groups: tuple[IntArray, ...]
    of_query: tuple[IntArray, ...]  # of each query, with repetition

    @staticmethod
    def of(
        problem: Problem, place: int, read: NDArray[np.bool_], ways: list[list[IntArray]]
    ) -> Groupings | None:
        """Of the queries that are read; None where none is."""
        if not ways:
            return None
        known: dict[bytes, int] = {}
        groups: list[IntArray] = []
        for group in (group for own in ways for group in own):
            if known.setdefault(group.tobytes(), len(groups)) == len(groups):
                groups.append(group)
        of_query = tuple(np.array([known[group.tobytes()] for group in own]) for own in ways)
        some = replace(problem, workload=problem.workload.subset(read), targets=None)
        return Groupings(some, place, tuple(groups), of_query)

    @cached_property
    def often(self) -> Array:
        return np.array([np.bincount(own, minlength=len(self.groups)) for own in self.of_query])

    @cached_property
    def sizes(self) -> Array:
        return np.array([float(group.max() + 1) for group in self.groups])

    @property
    def values(self) -> int:
        return len(self.groups[0])

    def bound(self) -> float:
        """(Σ_A tr M_A^{1/2})², the best of all ways to look at the other attributes."""
        every = [self.asked(each) for each in self.least()]
        counted = [np.array([self.weights @ kind for kind in asked]) for asked in every]
        sets = max(int(each.any(axis=0).sum()) for each in counted)
        most = min(MOST_GROUPS, int((MOST_WORK / max(sets, 1)) ** (1 / 3)))
        rough = [self._norm(each, FEW_GROUPS) for each in counted]
        best = self._norm(counted[int(np.argmax(rough))], most)
        return float(max(best, *rough) ** 2 * (1 - 1e-9))

    def _norm(self, counted: Array, most: int) -> float:
        """Σ_A tr M_A^{1/2} by the ways that have few groups together; `counted`: ways × sets."""
        single = self.sizes == self.values
        order = [way for way in np.argsort(self.sizes, kind="stable") if not single[way]]
        kept = [
            w for w, all_ in zip(order, np.cumsum(self.sizes[order]), strict=True) if all_ <= most
        ]
        overlaps, way_of = self._overlaps(kept)
        total = 0.0
        for of_set in counted.T[counted.any(axis=0)]:
            alone = float(of_set[single].sum())
            root = np.sqrt(of_set[way_of])
            here = np.flatnonzero(root)
            matrix = overlaps[np.ix_(here, here)] * np.outer(root[here], root[here])
            # Beyond the number of values nothing but zeros is left.
            found = np.linalg.eigvalsh(matrix)[-self.values :] if len(here) else np.zeros(0)
            off = EIGENVALUE_ERROR * len(here) * max(float(found.max(initial=0.0)), 0.0)
            inside = np.sqrt(np.maximum(found - off, 0.0) + alone).sum()
            total += float(inside + (self.values - len(found)) * np.sqrt(alone))
        return total / float(np.sqrt(self.values))

    def _overlaps(self, ways: list[int]) -> tuple[Array, IntArray]:
        """|g ∩ h| of all groups of some ways, and the way of each."""
        sizes = [int(self.sizes[way]) for way in ways]
        blocks = [
            [
                np.bincount(self.groups[one] * n + self.groups[other], minlength=m * n).reshape(
                    m, n
                )
                for other, n in zip(ways, sizes, strict=True)
            ]
            for one, m in zip(ways, sizes, strict=True)
        ]
        matrix = np.block(blocks).astype(np.float64) if ways else np.zeros((0, 0))
        return matrix, np.repeat(np.array(ways, dtype=np.int64), sizes)
