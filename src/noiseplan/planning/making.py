"""From planned numbers to a mechanism with its exact cost, continuous or integer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.explicit.optimum import dense_optimum
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.dense import DenseMechanism
from noiseplan.mechanisms.mechanism import Mechanism
from noiseplan.noise.discrete import LARGEST_VARIANCE
from noiseplan.planning.allocation import Share, spend
from noiseplan.planning.assemble import assemble
from noiseplan.planning.bounds import workload_gram
from noiseplan.planning.design import Design
from noiseplan.planning.figures import Figures, ResidualFigures, RowFigures
from noiseplan.planning.integers import BITS, FINE_BITS, IntegerPlan, margin, round_up, to_integers
from noiseplan.planning.named import STRATEGIES, strategy_by_name, total_variance_of
from noiseplan.planning.objectives import Objective, TotalVariance
from noiseplan.planning.solve import Solution
from noiseplan.privacy import Budget, Guarantee, Law, Neighbours
from noiseplan.privacy.rounding import product_down, product_up

# Domains over which a plan may be one explicit matrix: when asked for, and when tried unasked.
EXPLICIT_CELLS = 1024
SMALL_CELLS = 256
# An explicit matrix is preferred if it has less than this share of the residual plan's variance.
WORTH_IT = 0.99
# Entries of an explicit integer matrix: rounding them changes a variance by about 2^−bits.
EXPLICIT_BITS = 18
# Planners that make one matrix over the whole domain.
EXPLICIT = ("optimal", *STRATEGIES)
# Share of the identity in an explicit integer matrix; it costs this share of the variance.
FULL_RANK = 1e-5
# How near the least cost that meets targets is found, and in how many steps at most.
LEAST_GAP, LEAST_STEPS = 1e-6, 60


@dataclass(frozen=True, eq=False)
class Made:
    """A mechanism with its cost, its figures and what is known of its optimality."""

    mechanism: Mechanism
    privacy: Guarantee
    figures: Figures
    share: Share
    loss: float = 0.0  # of the objective, for measuring integers


def allowed_cost(budget: Budget, noise: str) -> float:
    """The privacy cost a budget allows: by zCDP for discrete noise, exactly for continuous."""
    if noise == "discrete":
        return product_down(2.0, budget.zcdp_rho())
    return budget.gaussian_pcost()


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


def check_explicit(
    planner: str, objective: Objective, neighbours: Neighbours, budget: float | None, size: int
) -> None:
    """Refuse what planners of one matrix cannot plan, before any work is done."""
    if planner not in EXPLICIT:
        return
    fits = isinstance(objective, TotalVariance) and neighbours == "add-remove"
    if not fits or budget is None:
        raise PlanError(
            f"planner={planner!r} plans the total variance under a budget, for neighbours that add "
            f"or remove a record; use planner='auto' for other objectives, targets and neighbours"
        )
    if size > EXPLICIT_CELLS:
        raise PlanError(
            f"planner={planner!r} plans domains of at most {EXPLICIT_CELLS:,} cells, and the "
            f"schema has {size:,}; use planner='auto'"
        )


def make_explicit(
    design: Design, solution: Solution, objective: Objective, planner: str,
    neighbours: Neighbours, budget: float | None, noise: str,
) -> Made | None:  # fmt: skip
    """The exact optimum over a small domain: by name, or where it is clearly better.

    One split per attribute must serve all its factors; where they differ much, a matrix over the
    whole domain does better, as long as the domain is small enough to have one.
    """
    wanted, size = planner in EXPLICIT, design.workload.schema.size
    fits = isinstance(objective, TotalVariance) and neighbours == "add-remove"
    tried = planner == "auto" and fits and bool(design.free) and size <= SMALL_CELLS
    if budget is None or not (wanted or tried):
        return None
    gram = workload_gram(design)
    if planner in STRATEGIES:
        strategy = strategy_by_name(planner, design, gram)
        share = Share(np.ones(1), total_variance_of(strategy, gram) / budget, 0.0)
    else:
        best = dense_optimum(gram, tolerance=1e-6 if wanted else 1e-4)
        if not wanted and best.value / budget > WORTH_IT * solution.share.value:
            return None
        strategy = best.strategy
        share = Share(np.ones(1), best.value / budget, best.bound / budget)
    mechanism, cost = _explicit_mechanism(design, strategy, budget, noise == "discrete")
    law: Law = "zcdp" if noise == "discrete" else "gaussian"
    figures = RowFigures(design, mechanism)
    loss = float(design.type_weight @ figures.sums()) / share.value - 1.0
    return Made(mechanism, Guarantee(cost, law, neighbours), figures, share, loss)


def _explicit_mechanism(
    design: Design, strategy: Array, budget: float, integer: bool
) -> tuple[DenseMechanism, float]:
    """The mechanism and its cost: the largest squared column norm over σ², rounded up."""
    if integer:
        strategy = _integer_strategy(strategy)
    sensitivity = float(np.max(np.einsum("ri,ri->i", strategy, strategy)))
    over = margin(len(strategy))
    sigma2 = float(round_up(np.array([sensitivity / budget * (1 + 2 * over)]), FINE_BITS)[0])
    if integer and sigma2 > LARGEST_VARIANCE:
        raise PlanError(
            "the budget is so small that the noise does not fit 64-bit integers: plan for a "
            "larger budget, or use noise='gaussian' to simulate"
        )
    mechanism = DenseMechanism(design.workload.schema, strategy, sigma2, integer)
    return mechanism, product_up(sensitivity / sigma2, 1 + over)


def _integer_strategy(strategy: Array) -> Array:
    """An integer matrix for almost the same cost matrix, with a row for every cell.

    Rounding would tilt a row space that is not everything, and queries would fall out of it; so a
    little of the identity is mixed in first.
    """
    cost = strategy.T @ strategy
    cost = (1 - FULL_RANK) * cost + FULL_RANK * np.eye(len(cost)) * np.diagonal(cost).max()
    values, vectors = np.linalg.eigh(cost)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.asarray(np.rint(root / np.abs(root).max() * 2**EXPLICIT_BITS))
