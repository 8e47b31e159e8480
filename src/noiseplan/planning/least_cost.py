"""The least privacy cost at which an objective is at most what is asked.

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

from noiseplan.errors import PlanError
from noiseplan.planning.candidate import Candidate, reached
from noiseplan.planning.objectives import RMSE
from noiseplan.planning.problem import Problem
from noiseplan.privacy import zCDP

# How near the least cost is found, relative, and in how many plans at most.
NEAR: Final = 1e-6
MOST_PLANS: Final = 40


def least_cost(
    problem: Problem, at_most: float, solve: Callable[[Problem], Candidate]
) -> Candidate:
    """The cheapest plan found that reaches the bound; it does, for what is really measured."""
    bound = at_most
    if isinstance(problem.goal, RMSE):
        bound = problem.workload.rows * at_most**2
    search = _Search()
    for _ in range(MOST_PLANS):
        trial = replace(problem, budget=zCDP(search.cost / 2))
        candidate = solve(trial)
        search = search.after(candidate, reached(trial, candidate), bound)
        if search.done:
            break
    if search.best is None:
        raise PlanError(
            f"no plan was found whose {problem.goal} is at most {at_most:g}: ask for less"
        )
    return search.best


@dataclass(frozen=True, eq=False)
class _Search:
    """Costs known to be too little and to be enough, and the next to try."""

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
        closed = kept.enough <= kept.too_little * (1 + NEAR)
        if value == 0 or closed or value <= bound <= value * (1 + NEAR):
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
        cost = self.cost * 2.0 ** min(max(step / log(2), -200), 200) * (1 + NEAR / 4)
        if not self.too_little < cost < self.enough:
            cost = self._between()
        return replace(self, cost=cost, last=here)

    def _between(self) -> float:
        if self.enough == inf or self.too_little == 0:
            return self.cost * (4.0 if self.enough == inf else 0.25)
        return sqrt(self.too_little * self.enough)
