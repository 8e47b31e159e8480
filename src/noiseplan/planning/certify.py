"""How good a plan is proved to be: its own objective, beside a bound that nothing can beat.

| objective | bound |
| --- | --- |
| total variance | of the sum of variances (`bounds`) |
| worst variance, p-norm | of a weighted sum, the weights found in a few rounds (`row_weights`) |
| loss of one's own | of its tangent at the plan: f(v') ≥ f(v) + ∇f(v)ᵀ(v' − v) |
| targets | on the cost: at cost c the largest variance in units of its target is at least b/c; |
| | for pure DP on the ε that has this cost |
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.noise.law import SIMULATED
from noiseplan.optimize.allocation import share_for_sum
from noiseplan.optimize.split_coordinates import Point
from noiseplan.planning.bounds import (
    THOROUGH,
    USUAL,
    Effort,
    total_variance_bound,
    weighted_sum_bound,
)
from noiseplan.planning.certificates import PROVED, noise_cost
from noiseplan.planning.free_split import optimise_total
from noiseplan.planning.objectives import ConvexLoss, PNormVariance, TotalVariance, WorstVariance
from noiseplan.planning.planners.row_space_plans import affordable_optimum
from noiseplan.planning.problem import Problem
from noiseplan.planning.pure_bounds import epsilon_at
from noiseplan.planning.replaced_split import worst_bound_alone
from noiseplan.planning.row_weights import RowWeights
from noiseplan.planning.threads import one_thread
from noiseplan.planning.workload_types import Design, prepare
from noiseplan.progress import progress

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan

# Rounds in which weights on rows move, and how far: by this power of the variances.
ROUNDS, LONG_STEPS, LONG_STEP = 8, 4, 1.5
# Up to so many values of all free roles, and types of subsets, such rounds take about a second.
QUICK_VALUES, QUICK_SUBSETS = 60, 200


@dataclass(frozen=True)
class Certificate:
    """How far a plan is from the best, as proved.

    Attributes
    ----------
    value
        What the plan reaches: its total variance, its worst variance or whatever it was planned to
        make small; for targets, its privacy cost, or ε of pure DP.
    bound
        No linear mechanism with noise of this kind can have less at this privacy (or meet these
        targets for less). 0 where nothing is known. Rounded down.
    gap
        `value / bound − 1`: the plan is at most this much above the best. Infinite where nothing
        is known.
    confidence
        The probability that the bound holds: 1 where no chance was involved.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 8, "sex": 2})
    >>> workload = nz.Workload.marginals(schema, up_to=2, factors={"age": nz.Prefix()})
    >>> certificate = nz.plan(workload, budget=nz.zCDP(0.5)).certify()
    >>> certificate.bound <= certificate.value
    True
    """

    value: float
    bound: float
    gap: float
    confidence: float = 1.0

    @staticmethod
    def of(value: float, bound: float) -> Certificate:
        """From what is reached and what cannot be beaten.

        Discrete noise of less than one count can fall below a bound that holds for continuous
        noise; then it is its own bound.
        """
        bound = min(bound, value)
        if bound > 0:
            return Certificate(value, bound, value / bound - 1.0)
        return Certificate(value, 0.0, inf if value > 0 else 0.0)


def known_certificate(plan: Plan) -> Certificate | None:
    """What has been worked out already."""
    kept, optimality = plan.__dict__.get("certified"), plan.optimality
    if isinstance(kept, Certificate):
        return kept
    if optimality.proved or optimality.gap is not None:
        value = reached(plan)
        return Certificate.of(value, value * (1.0 - (optimality.gap or PROVED)))
    if optimality.known is not None and _of_total(plan):
        return Certificate.of(plan.total_variance, optimality.known)
    return None


def usual_certificate(plan: Plan) -> Certificate | None:
    """What is known, or takes no more than about a second."""
    known = known_certificate(plan)
    if known is not None or not isfinite(plan.privacy.pcost):
        return known
    if _of_total(plan):
        return Certificate.of(plan.total_variance, plan.lower_bound)
    values = sum(plan.design.group_count(r) for r in plan.design.free)
    quick = values <= QUICK_VALUES and plan.design.terms.subsets <= QUICK_SUBSETS
    return plan.certify() if quick else None


def certify(plan: Plan) -> Certificate:
    """The best bound there is for a plan's own objective."""
    if not isfinite(plan.privacy.pcost):
        raise PlanError("what these measurements cost is not known, so nothing bounds their errors")
    known = known_certificate(plan)
    if plan.optimality.proved or plan.optimality.gap is not None:
        assert known is not None
        bound = max(known.bound, plan.optimality.lower_bound) if _of_total(plan) else known.bound
        return Certificate.of(known.value, bound)
    found = Certificate.of(reached(plan), _bound(plan))
    return found if known is None or found.bound > known.bound else known


def _of_total(plan: Plan) -> bool:
    return isinstance(plan.objective, TotalVariance) and plan.targets is None


def reached(plan: Plan) -> float:
    """The plan's own objective; for targets, its cost or ε of pure DP."""
    if plan.targets is not None:
        return _cost(plan) if plan.privacy.pure_epsilon is None else plan.privacy.pure_epsilon
    if isinstance(plan.objective, WorstVariance):
        return plan.worst_variance
    if isinstance(plan.objective, PNormVariance):
        power, roles = plan.objective.p, plan.design.roles
        first = plan.figures.first_of_types()
        sums = [
            ((weight * plan.variance(plan.workload.query(int(number)))) ** power).sum()
            for number, weight in zip(first, roles.type_weight, strict=True)
        ]
        return float((roles.type_count @ np.array(sums)) ** (1 / power))
    if isinstance(plan.objective, ConvexLoss):
        return plan.objective.value(_mean_variances(plan))
    return plan.total_variance


def _mean_variances(plan: Plan) -> Array:
    """Weight · mean row variance of every query."""
    kind = plan.design.roles.type_of_query
    each = plan.type_variances / plan.design.type_rows
    return np.asarray(plan.workload.columns.weights * each[kind])


def _bound(plan: Plan) -> float:
    """Of the objective, at the plan's privacy."""
    goal, neighbours = plan.objective, plan.privacy.neighbours
    # A person may have the same record so many times, which costs the square of that.
    people = float(plan.max_rows) ** 2
    cost = _cost(plan) / people
    if plan.targets is not None:
        design = prepare(plan.workload, 1.0 / plan.targets)
        with one_thread(design):
            largest = _in_row_space(plan) or norm_bound(design, inf, 1.0, neighbours)
        scale = plan.target_scale or 1.0
        # What is met a hair better than asked is no bound on what was asked.
        largest /= max(scale, 1.0) if plan.budget is None else scale
        if plan.privacy.pure_epsilon is None:
            return people * largest
        return plan.max_rows * epsilon_at(largest, _exact(plan))
    if cost == 0:  # nothing that is asked depends on a record
        return 0.0
    if isinstance(goal, ConvexLoss):
        return _tangent_bound(plan, goal, cost)
    design = prepare(plan.workload)
    with one_thread(design):
        if isinstance(goal, WorstVariance):
            return _in_row_space(plan) / cost or norm_bound(design, inf, cost, neighbours)
        if isinstance(goal, PNormVariance) and goal.p > 1:
            return _in_row_space(plan) / cost or norm_bound(design, goal.p, cost, neighbours)
        if isinstance(goal, TotalVariance | PNormVariance):
            if found := _in_row_space(plan):
                return found / cost
            rows = optimise_total(design)
            return total_variance_bound(design, rows, cost, neighbours, THOROUGH)
    return 0.0


def _in_row_space(plan: Plan) -> float:
    """The bound at cost one of the optimum in the row space, where that takes seconds; else 0."""
    if plan.privacy.neighbours == "replace":
        return 0.0
    goal = None if plan.targets is not None else plan.objective
    problem = Problem(plan.workload, targets=plan.targets, objective=goal, noise="gaussian")
    found = affordable_optimum(problem)
    return 0.0 if found is None else found.bound * (1 - 1e-9)


def _cost(plan: Plan) -> float:
    """Of Gaussian noise of the same variances, at most."""
    return noise_cost(plan.privacy, _exact(plan))


def _exact(plan: Plan) -> bool:
    return plan.noise not in SIMULATED


def _tangent_bound(plan: Plan, loss: ConvexLoss, cost: float) -> float:
    means = _mean_variances(plan)
    slope = loss.slope(means)
    weights = slope * plan.workload.columns.weights / plan.workload.sizes
    if not (weights > 0).all():
        return 0.0
    design = prepare(plan.workload, weights)
    with one_thread(design):
        rows = optimise_total(design)
        least = total_variance_bound(design, rows, cost, plan.privacy.neighbours, THOROUGH)
    return loss.value(means) - float(slope @ means) + least


def norm_bound(
    design: Design, power: float, cost: float, neighbours: str, effort: Effort = USUAL
) -> float:
    """A lower bound on the p-norm of priority · variance over all rows; the largest for p = ∞."""
    if cost == 0:
        return 0.0
    if neighbours == "replace" and power == inf and (b := worst_bound_alone(design)) is not None:
        return b / cost * (1 - 1e-9)
    dual = 1.0 if power == inf else power / (power - 1.0)
    weights, best = RowWeights.even(design), 0.0
    if weights.norm(dual) == 0:  # dense matrices alone, which have no weights by row
        return 0.0
    with progress("Certifying", ROUNDS) as advance:
        for round_ in range(ROUNDS):
            weighted = weights.weighted()
            rows = optimise_total(weighted)
            found = weighted_sum_bound(weighted, rows, cost, neighbours, effort)
            best = max(best, found / weights.norm(dual))
            # w ← w^{1−θ} v^{θ(p−1)}: towards v^{p−1}, and for p = ∞ up wherever v is large.
            step = min(LONG_STEP if round_ < LONG_STEPS else 1.0, power - 1.0)
            softer = weights.to_the(1.0 - step / (power - 1.0))
            weights = softer.moved(*_best_noise(weighted, rows), step)
            advance(1)
    return best * (1 - 1e-9)


def _best_noise(design: Design, rows: dict[int, Array]) -> tuple[dict[int, Array], Array]:
    """T = [τ | V] of these bases, and the σ² that are best for the weighted sum at cost one."""
    inverses = {r: Point.at(u).inverse for r, u in rows.items()}
    moments = design.moments(inverses, dict.fromkeys(rows, 1.0), design.products(inverses))
    terms = design.terms
    each = terms.coefficients(moments.residual, moments.mean, moments.joint)
    variance = terms.by_subset(each * design.type_weight[terms.query])
    sigma2 = share_for_sum(design.privacy_weights(moments.sensitivity), variance, 1.0)
    return inverses, np.where(np.isfinite(sigma2), sigma2, 0.0)
