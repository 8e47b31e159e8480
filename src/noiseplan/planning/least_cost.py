"""The least privacy cost at which an objective is at most what is asked, or targets are met.

Variances go as one over the cost. So do their sum, their largest, their p-norms and errors relative
to what is expected: one plan, at any cost, tells at which cost they are what they should be. What
integers and discrete noise make of it is seen by planning once more at that cost, until the bound
holds for the noise that will be drawn. A loss of one's own may fall in any way, and is closed in on
from both sides.

References
----------
The utility-constrained problem of ResidualPlanner: least cost subject to L(variances) ≤ γ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, log, sqrt
from typing import Final

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.planning.candidate import Candidate, reached
from noiseplan.planning.objectives import RMSE
from noiseplan.planning.problem import Problem
from noiseplan.privacy import PureDP, zCDP

# How near the least cost is found, relative, and the least ε² of pure DP; and in how many plans.
NEAR, NEAR_EPSILON = 1e-6, 1e-7
MOST_PLANS: Final = 40

# A candidate of some cost, and the value it reaches.
Trial = tuple[Candidate, float]


def least_cost(
    problem: Problem, at_most: float, solve: Callable[[Problem], Candidate]
) -> Candidate:
    """The cheapest plan found that reaches the bound; it does, for what is really measured."""

    def at(cost: float) -> Trial:
        trial = replace(problem, budget=zCDP(cost / 2))
        candidate = solve(trial)
        return candidate, reached(trial, candidate)

    of_rows = isinstance(problem.goal, RMSE)
    found = _cheapest(at, problem.workload.rows * at_most**2 if of_rows else at_most, NEAR)
    if found is None:
        raise PlanError(
            f"no plan was found whose {problem.goal} is at most {at_most:g}: ask for less"
        )
    return found


def least_epsilon(problem: Problem, solve: Callable[[Problem], Candidate]) -> Candidate:
    """What meets the targets at the least ε of pure DP.

    The largest ratio of a variance to its target falls with ε, as 1/ε² and faster for discrete
    noise of less than one count.
    """
    targets = np.asarray(problem.targets)

    def at(cost: float) -> Trial:
        candidate = solve(replace(problem, budget=PureDP(sqrt(cost))))
        return candidate, candidate.figures.target_scale(targets)

    found = _cheapest(at, 1.0, NEAR_EPSILON)
    if found is None:  # fail closed
        raise PlanError("no ε was found that meets the targets: this is a bug")
    return found


def _cheapest(at: Callable[[float], Trial], bound: float, near: float) -> Candidate | None:
    """The cheapest candidate found whose value is no more than the bound."""
    search = _Search(near)
    for _ in range(MOST_PLANS):
        search = search.after(*at(search.cost), bound)
        if search.done:
            break
    return search.best


@dataclass(frozen=True, eq=False)
class _Search:
    """Costs known to be too little and to be enough, and the next to try."""

    near: float
    cost: float = 1.0
    too_little: float = 0.0
    enough: float = inf
    best: Candidate | None = None
    last: tuple[float, float] | None = None  # log of the cost and of value/bound
    done: bool = False

    def after(self, candidate: Candidate, value: float, bound: float) -> _Search:
        """What is known after one more plan."""
        met = value <= bound
        kept = replace(self, enough=self.cost, best=candidate) if met else self
        if not met:
            kept = replace(self, too_little=self.cost)
        closed = kept.enough <= kept.too_little * (1 + self.near)
        if value == 0 or closed or value <= bound <= value * (1 + self.near):
            return replace(kept, done=True)
        return kept._next(value / bound)

    def _next(self, ratio: float) -> _Search:
        """By how value/bound fell from the last cost to this, as 1/cost if there is none."""
        if not 0 < ratio < inf:
            return replace(self, cost=self._between(), last=None)
        here, slope = (log(self.cost), log(ratio)), 1.0
        if self.last is not None and here[0] != self.last[0]:
            slope = (self.last[1] - here[1]) / (here[0] - self.last[0])
        step = here[1] / slope if slope > 0.01 else inf
        cost = self.cost * 2.0 ** min(max(step / log(2), -200), 200) * (1 + self.near / 4)
        if not self.too_little < cost < self.enough:
            cost = self._between()
        return replace(self, cost=cost, last=here)

    def _between(self) -> float:
        if self.enough == inf or self.too_little == 0:
            return self.cost * (4.0 if self.enough == inf else 0.25)
        return sqrt(self.too_little * self.enough)
