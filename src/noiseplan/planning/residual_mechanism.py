"""From planned numbers to a mechanism with its exact cost, continuous or integer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from noiseplan.errors import BudgetError, PlanError, remedy
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.optimize.allocation import Share, spend
from noiseplan.planning.assemble import assemble
from noiseplan.planning.certificates import Optimality, Unstated
from noiseplan.planning.integers import BITS, IntegerPlan, to_integers
from noiseplan.planning.objectives import Objective
from noiseplan.planning.solve import Solution
from noiseplan.planning.workload_errors import Figures, ResidualFigures
from noiseplan.planning.workload_types import Design
from noiseplan.privacy import Budget, Guarantee, Neighbours
from noiseplan.privacy.rounding import margin, product_down, product_up
from noiseplan.queries import Workload

# How near the least cost that meets targets is found, and in how many steps at most.
LEAST_GAP, LEAST_STEPS = 1e-6, 60
# Variances go as one over the cost, and their squares must be numbers too.
LEAST_COST = 1e-120


@dataclass(frozen=True, eq=False)
class Made:
    """A mechanism with its cost, its figures and what is known of its optimality."""

    mechanism: Mechanism
    privacy: Guarantee
    figures: Figures
    share: Share
    loss: float = 0.0  # of the objective, for measuring integers
    optimality: Optimality | None = None  # None: to be worked out when asked for

    def known(self, workload: Workload) -> Optimality:
        """What is known of how good it is."""
        return self.optimality or Unstated(workload, self.privacy)


def allowed_cost(budget: Budget, noise: str) -> float:
    """The privacy cost a budget allows: by zCDP for discrete noise, exactly for continuous."""
    cost = product_down(2.0, budget.zcdp_rho()) if noise == "discrete" else budget.gaussian_pcost()
    if 0 < cost < LEAST_COST:
        least = f"{LEAST_COST:g}"
        raise BudgetError(
            f"{budget} is so little that variances are no numbers: give "
            + remedy("least budget", f"a budget of at least zCDP({least})", least)
        )
    return cost


def make_residual(
    design: Design,
    solution: Solution,
    objective: Objective,
    neighbours: Neighbours,
    budget: float,
    noise: str,
    least: bool,
    bits: tuple[int, ...] = BITS,
) -> Made:
    """A residual plan as a mechanism. `least`: targets must be met, whatever that costs.

    `bits` are the sizes of integers to try, from the smallest.
    """
    if noise == "discrete":
        return _discrete(design, solution, objective, neighbours, budget, least, bits)
    _require_noise(solution.privacy, solution.sigma2)
    over = margin(len(solution.sigma2))
    sigma2 = solution.sigma2 * (1 + 2 * over)
    cost = product_up(spend(solution.privacy, sigma2), 1 + over)
    return Made(
        assemble(design, solution.rows, sigma2),
        Guarantee(cost, "gaussian", neighbours),
        ResidualFigures(design, solution.bases, sigma2),
        solution.share,
    )


def _discrete(
    design: Design, solution: Solution, objective: Objective,
    neighbours: Neighbours, budget: float, least: bool, bits: tuple[int, ...],
) -> Made:  # fmt: skip
    plan = to_integers(design, solution, objective, neighbours, budget, bits)
    if least and solution.share.value > 0:
        plan = _least(design, solution, objective, neighbours, plan, budget)
    figures = ResidualFigures(design, plan.bases, plan.equivalent)
    _require_noise(plan.privacy, plan.sigma2)
    cost = product_up(spend(plan.privacy, plan.accounted), 1 + margin(len(plan.sigma2)))
    share = replace(solution.share, value=solution.share.value * (1 + max(plan.loss, 0.0)))
    mechanism = assemble(design, plan.rows, plan.sigma2, integer=True)
    return Made(mechanism, Guarantee(cost, "zcdp", neighbours), figures, share, plan.loss)


def _least(
    design: Design, solution: Solution, objective: Objective,
    neighbours: Neighbours, plan: IntegerPlan, budget: float,
) -> IntegerPlan:  # fmt: skip
    """The integer plan at the least cost that meets the targets.

    Rounding moves variances a little, and discrete noise of less than one count has less variance
    than its parameter. So the cost is searched for: variances fall with it, like 1/cost or faster.
    """
    enough, too_little, best, cost = np.inf, 0.0, plan, budget
    for _ in range(LEAST_STEPS):
        figures = ResidualFigures(design, plan.bases, plan.equivalent)
        reached = (
            float(np.max(design.roles.type_priority * figures.largest())) / solution.share.value
        )
        if reached <= 1:
            enough, best = cost, plan
        else:
            too_little = cost
        if reached <= 1 <= reached * (1 + LEAST_GAP) or enough <= too_little * (1 + LEAST_GAP):
            break
        cost *= max(reached, 0.5) * (1 + LEAST_GAP / 4)
        if not too_little < cost < enough:
            cost = np.sqrt(too_little * enough)
        plan = to_integers(design, solution, objective, neighbours, cost, (best.bits,))
    if enough == np.inf:
        raise PlanError("no integer plan was found that meets the targets: this is a bug")
    return best


def _require_noise(privacy: Array, sigma2: Array) -> None:
    """Only what no neighbour can change may be measured without noise: fail closed."""
    if (np.atleast_2d(privacy)[:, ~(sigma2 > 0)] > 0).any():
        raise PlanError("the plan would measure without noise what depends on a record: a bug")
