"""Each query planned as if there were no other, with a share of the budget: as is done by hand.

Alone at a cost of one query q has the value c_q, the norm of power p of its variances, which go as
1/s^d at the cost s. Shares of a budget of one make the norm of all least where

    s_q ∝ c_q^e ,    e = p/(dp + 1) ,    and it is (Σ c_q^e)^(1/e) .

A query that no record changes, as the total where one record replaces another, costs nothing: its
c_q is zero, and what rounding adds to its cost is a share of `FREE` with noise near none.

Queries have nothing in common then but what several of them determine (`side_by_side`), so that
this is worth something where all together are too many to be planned as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import isinf
from typing import Final

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.side_by_side import SideBySide
from noiseplan.planning.candidate import UNMEASURED, WORSE, Candidate, reached
from noiseplan.planning.certificates import Unstated
from noiseplan.planning.objectives import ConvexLoss, TotalVariance
from noiseplan.planning.problem import Problem
from noiseplan.planning.table_matrix import norm_power
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.privacy import PureDP

Solve = Callable[[Problem], Candidate]

# Different queries that are planned one by one.
MOST_QUERIES: Final = 100
# Of the budget that is left for the rounding of sums; and the least share of the largest.
ROOM, LEAST_SHARE = 1e-9, 1e-6
# The share of all queries that no record changes, and below which of the budget a cost is rounding.
FREE, ROUNDING = 1e-7, 1e-9


def solve(problem: Problem, alone: Solve, hopeless: float) -> Candidate | str:
    """The plans that `alone` makes of each query, side by side; or why they are not, such as that
    they come to more than what is `hopeless` at a cost of one."""
    queries = list(_queries(problem))
    if len(queries) > MOST_QUERIES:
        return f"not tried, {len(queries):,} queries"
    exponent, found, values = _exponent(problem), [], np.zeros(0)
    try:
        for query in queries:
            found.append(_Alone(query, alone(query)))
            values = np.array([each.value for each in found])
            if (values**exponent).sum() ** (1 / exponent) > hopeless:
                return WORSE
        if not values.any():
            return UNMEASURED
        return _beside(problem, found, _shares(values, exponent), alone)
    except PlanError:  # nothing differs between records, or noise too large to be drawn
        return UNMEASURED


def _shares(values: Array, exponent: float) -> Array:
    """Of the budget, for queries that come to these values alone; zero is what costs nothing."""
    free = values == 0
    shares = np.maximum(values, LEAST_SHARE * values.max()) ** exponent * ~free
    shares /= shares.sum()
    paid = shares * (1 - FREE * free.any())
    return np.asarray(np.where(free, FREE / max(free.sum(), 1), paid))


def _queries(problem: Problem) -> Iterator[Problem]:
    """The problem of every different query, those with the most rows first: what they come to is
    known the sooner."""
    places: dict[object, list[int]] = {}
    for i, query in enumerate(problem.workload):
        places.setdefault(query.key, []).append(i)
    # A loss of one's own is of all queries, and shared for as the total.
    loss = isinstance(problem.goal, ConvexLoss)
    objective = TotalVariance() if loss else problem.objective
    sizes = problem.workload.sizes
    for same in sorted(places.values(), key=lambda same: -sizes[same[0]]):
        yield replace(
            problem,
            workload=problem.workload.subset(same),
            objective=objective,
            targets=None if problem.targets is None else np.asarray(problem.targets)[same],
        )


def _exponent(problem: Problem) -> float:
    power, degree = norm_power(problem.goal), problem.drawn.degree
    return 1 / degree if isinf(power) else power / (degree * power + 1)


@dataclass(frozen=True, eq=False)
class _Alone:
    """A query, and what is planned for it with all of the budget."""

    problem: Problem
    found: Candidate

    @property
    def value(self) -> float:
        """At a cost of one, as targets are compared anyway; zero where it costs nothing."""
        asked = self.problem
        if self.found.mechanism.record_cost(asked.neighbours) <= ROUNDING * asked.epsilon:
            return 0.0
        scale = asked.at_one if asked.priorities is None else 1.0
        return scale * reached(asked, self.found)

    def with_share(self, share: float, solve: Solve) -> Mechanism:
        """The same with a share of the budget: more noise, or planned once more."""
        epsilon, mechanism = self.problem.epsilon * share * (1 - ROOM), self.found.mechanism
        cost = mechanism.record_cost(self.problem.neighbours)
        scaled = mechanism.with_noise_times(cost / epsilon) if cost else mechanism
        if scaled is not None:
            return scaled
        return solve(replace(self.problem, budget=PureDP(epsilon))).mechanism


def _beside(problem: Problem, found: list[_Alone], shares: Array, solve: Solve) -> Candidate:
    each = zip(found, shares.tolist(), strict=True)
    mechanism = SideBySide(tuple(alone.with_share(share, solve) for alone, share in each))
    privacy = mechanism.cost(problem.neighbours)
    figures = RowFigures(problem.design, mechanism)
    known = Unstated(problem.workload, privacy, exact=problem.integer)
    return Candidate("each query alone", mechanism, privacy, figures, known)
