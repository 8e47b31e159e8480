"""What no plan has less of where the values of a long attribute are grouped in ways that cross.

Levels that lie within each other make a tree, which has a bound of its own (`optimize.tree_bound`);
school districts beside counties do not. With every stated value alike, λ = 1/n,

    ‖W Λ^{1/2}‖_* ≥ Σ_A tr M_A^{1/2} ,     M_A = (c_A I + Σ_k c_{A,k} Z_kᵀZ_k) / n ,

which is worked out over groups × groups (`optimize.groups_bound`); c is what a set A of the other
attributes counts for at least, as along trees. Queries that ask for other sums of values count
what each would have alone; nothing that is planned for all has less for some of them.

Norms of the variances are no less than weighted sums of them, ‖v‖_p ≥ Σ y v / ‖y‖_q. Here all rows
of a query have the same y, which moves towards the power p − 1 of their mean variance: the slope of
the bound by y is what the sum of their variances would be.
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
from noiseplan.optimize.groups_bound import GroupsNorm
from noiseplan.planning import limits
from noiseplan.planning.alone_bounds import least_sums
from noiseplan.planning.long_problem import LongProblem, asked_by_value
from noiseplan.planning.problem import Problem
from noiseplan.queries import Query, Total

# Groups whose matrix is written down, and numbers that all of these may have to the third power:
# some seconds. With few groups it is seen which way to look at the others is the best.
MOST_GROUPS, MOST_WORK, FEW_GROUPS = 1500, 2e10, 128
# Queries and ways to group values that are looked at one by one, and numbers of queries × ways ×
# sets that are held.
MOST_QUERIES, MOST_WAYS, MOST_NUMBERS = 5000, 40, 1 << 22
# Rounds in which weights of queries move; none is lost for good.
ROUNDS, FAINTEST = 16, 1e-12


def least_total(problem: Problem) -> float | None:
    """No plan of the workload has a smaller weighted sum of variances at a cost of one; None where
    nothing crosses along a long attribute, or another bound is to be had."""
    place = _crossed_place(problem)
    return None if place is None else least_along(problem, place)


def least_norm(problem: Problem, power: float) -> float | None:
    """The same of the p-norm of priority · variance over all rows, the largest for p = ∞."""
    place = _crossed_place(problem)
    found = None if place is None else Groupings.of(problem, place)[0]
    return None if found is None else found.norm_bound(power)


def _crossed_place(problem: Problem) -> int | None:
    """The place of the one attribute that is long, but for those that are asked by value."""
    workload, sizes = problem.workload, problem.workload.schema.shape
    if problem.neighbours == "replace" or len(workload) > MOST_QUERIES or not sizes:
        return None
    place = int(np.argmax(sizes))
    others = (i for i, n in enumerate(sizes) if n > limits.LONG_VALUES and i != place)
    short = sizes[place] <= limits.LONG_VALUES
    return place if not short and all(asked_by_value(workload, i) for i in others) else None


def least_along(problem: Problem, place: int) -> float | None:
    """The least total along an attribute of any length."""
    found, read = Groupings.of(problem, place)
    return None if found is None else found.bound() + float(least_sums(problem)[~read].sum())


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
    priorities: Array  # of each query

    @staticmethod
    def of(problem: Problem, place: int) -> tuple[Groupings | None, NDArray[np.bool_]]:
        """Of the queries that ask for groups, and which these are; None where nothing crosses."""
        ways = [_ways(query, place) for query in problem.workload]
        read = np.array([own is not None for own in ways])
        asked = [own for own in ways if own is not None]
        known: dict[bytes, int] = {}
        groups: list[IntArray] = []
        for group in (group for own in asked for group in own):
            if known.setdefault(group.tobytes(), len(groups)) == len(groups):
                groups.append(group)
        if len(groups) > MOST_WAYS or not groups or Tree.of(groups) is not None:
            return None, read
        of_query = tuple(np.array([known[group.tobytes()] for group in own]) for own in asked)
        some = replace(problem, workload=problem.workload.subset(read), targets=None)
        priorities = np.asarray(problem.design.priorities)[read]
        found = Groupings(some, place, tuple(groups), of_query, priorities)
        numbers = found.often.size * found.design.terms.subsets
        return found if numbers <= MOST_NUMBERS else None, read

    @cached_property
    def weights(self) -> Array:
        return self.priorities

    @cached_property
    def often(self) -> Array:
        return np.array([np.bincount(own, minlength=len(self.groups)) for own in self.of_query])

    @cached_property
    def sizes(self) -> Array:
        return np.array([float(group.max() + 1) for group in self.groups])

    @cached_property
    def _seen(self) -> list[Array]:
        """What each query of priority one counts for, queries × ways × sets that are asked for; for
        each way to look at the other attributes."""
        every = [np.stack(self.asked(each), axis=1) for each in self.least()]
        return [each[:, :, each.any(axis=(0, 1))] for each in every]

    @cached_property
    def _best(self) -> tuple[GroupsNorm, Array]:
        """All groups that may be put together, and what is counted, as few of them see it best."""
        few = GroupsNorm(self.groups, FEW_GROUPS)
        rough = [few.root_trace(np.tensordot(self.weights, seen, 1)) for seen in self._seen]
        best = self._seen[int(np.argmax(rough))]
        most = min(MOST_GROUPS, int((MOST_WORK / max(best.shape[2], 1)) ** (1 / 3)))
        return GroupsNorm(self.groups, max(most, FEW_GROUPS)), best

    def bound(self) -> float:
        """(Σ_A tr M_A^{1/2})² of the weighted sum."""
        norm, seen = self._best
        return norm.root_trace(np.tensordot(self.weights, seen, 1)) ** 2 * (1 - 1e-9)

    def norm_bound(self, power: float) -> float:
        """The best that some rounds find for a norm."""
        (norm, seen), rows = self._best, self.problem.workload.sizes.astype(np.float64)
        dual = 1.0 if power == np.inf else power / (power - 1.0)
        seen = self.weights[:, None, None] * seen
        each, best = np.ones(len(rows)), 0.0
        for _ in range(ROUNDS):
            counted = np.tensordot(each, seen, 1)
            root = norm.root_trace(counted)
            size = float((rows * each**dual).sum() ** (1 / dual))
            best = max(best, root**2 / size)
            sums = 2 * root * np.tensordot(seen, norm.slopes(counted), 2)
            means = np.maximum(sums / rows, FAINTEST * float(sums.max(initial=0.0)))
            step = min(1.0, power - 1.0)
            each = each ** (1.0 - step / (power - 1.0)) * means**step
            each /= each.max()
        return best * (1 - 1e-9)
