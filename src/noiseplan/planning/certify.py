"""How good a plan is proved to be: its own objective, beside a bound that nothing can beat.

| objective | bound |
| --- | --- |
| total variance | of the sum of variances (`bounds`) |
| worst variance, p-norm | of a weighted sum, the weights found in a few rounds |
| loss of one's own | of its tangent at the plan: f(v') ≥ f(v) + ∇f(v)ᵀ(v' − v) |
| targets | on the cost: at cost c the largest variance in units of its target is at least b/c; |
| | for pure DP on the ε that has this cost |

Weights on single rows turn a bound on sums of variances into one on other norms of them. For
weights w ≥ 0 on the rows, ‖v‖_p ≥ Σ w v / ‖w‖_q with 1/p + 1/q = 1; the largest variance is p = ∞,
q = 1. At the optimum of a p-norm the weights w = v^{p−1} make this an equality. They are taken as
products over the attributes of a table, ω of each factor times one number for each type of table:
then the weighted sum is the total variance of a workload of the same structure,

    Σ w v = Σ_t W_t tr ⊗(W_iᵀ diag(ω_i) W_i) Σ .
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from math import inf, isfinite
from typing import TYPE_CHECKING

import numpy as np

from noiseplan.arrays import first_of
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
from noiseplan.planning.certificates import PROVED, Sharper, Unstated
from noiseplan.planning.free_split import SEARCH_STEPS, optimise_total
from noiseplan.planning.objectives import ConvexLoss, PNormVariance, TotalVariance, WorstVariance
from noiseplan.planning.planners import tree_plans
from noiseplan.planning.planners.row_space_plans import least_of_any
from noiseplan.planning.problem import Problem
from noiseplan.planning.pure_bounds import lower_bounds
from noiseplan.planning.replaced_split import norm_bound_alone
from noiseplan.planning.row_terms import (
    grid_variances,
    plain_rows,
    plain_types,
    row_points,
    row_types,
)
from noiseplan.planning.threads import one_thread
from noiseplan.planning.workload_types import Design, prepare
from noiseplan.privacy import zCDP
from noiseplan.progress import progress

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan

# A plan that is known to be so near the best is not looked at any more.
CLOSE = 1e-3
# Rows of one table that are looked at one by one.
MOST_ROWS = 1 << 20
# No weight is lost for good: a row may come back.
FAINT, TINY = 1e-12, 1e-300

# Rounds in which weights on rows move, and how far: by this power of the variances.
ROUNDS, LONG_STEPS, LONG_STEP = 8, 4, 1.5
# Up to so many values of all free roles, and types of subsets, such rounds take about a second.
QUICK_VALUES, QUICK_SUBSETS = 60, 200


@dataclass(frozen=True, eq=False)
class RowWeights:
    """w of a row: that of its type, times ω of its row in each factor (which add up to one)."""

    design: Design
    types: Array
    factors: dict[int, Array]

    @staticmethod
    def even(design: Design) -> RowWeights:
        """All rows alike, but none of dense matrices."""
        types = np.where(design.roles.type_joint < 0, 1.0, 0.0)
        factors = {
            pair: np.ones(design.roles.pair_matrix(pair).shape[0])
            for pair, gram in enumerate(design.grams)
            if gram is not None
        }
        return RowWeights(design, types, factors).scaled()

    def scaled(self) -> RowWeights:
        """The same with ω that add up to one."""
        types, factors = self.types.copy(), {}
        for pair, each in self.factors.items():
            times = (self.design.roles.types == pair).sum(axis=1)
            types *= each.sum() ** times
            factors[pair] = each / each.sum()
        return replace(self, types=types, factors=factors)

    def to_the(self, power: float) -> RowWeights:
        """Powers of the weights."""
        factors = {pair: each**power for pair, each in self.factors.items()}
        types = np.where(self.types > 0, self.types, 1.0) ** power * (self.types > 0)
        return replace(self, types=types, factors=factors).scaled()

    def norm(self, q: float) -> float:
        """‖w‖_q over all rows of all queries."""
        with np.errstate(divide="ignore"):
            logs = q * np.log(self.types) + np.log(self.design.roles.type_count)
        for pair, role in enumerate(self.design.roles.pair_role):
            times = (self.design.roles.types == pair).sum(axis=1)
            each = self.factors.get(pair, np.ones(self.design.roles.roles[role].size))
            logs += times * np.log((each**q).sum())
        return float(np.exp(logs).sum() ** (1 / q))

    def weighted(self) -> Design:
        """The design whose total variance is Σ w · priority · variance."""
        design = self.design
        grams = list(design.grams)
        for pair, each in self.factors.items():
            first = first_of(design.groups[int(design.roles.pair_role[pair])])
            rows = design.roles.pair_matrix(pair).dense()[:, first]
            grams[pair] = (rows.T * each) @ rows
        roles = replace(design.roles, type_priority=design.roles.type_priority * self.types)
        return replace(design, given_grams=tuple(grams), roles=roles)

    def moved(self, inverses: dict[int, Array], sigma2: Array, power: float) -> RowWeights:
        """Every ω and every type by the mean of variance^power of their rows, under w."""
        design, priority = self.design, self.design.roles.type_priority
        points, types, plain = row_points(design, inverses), self.types.copy(), plain_types(design)
        types[plain] *= (priority[plain] * (plain_rows(design, inverses) @ sigma2)) ** power
        sums = {pair: np.zeros((2, len(each))) for pair, each in self.factors.items()}
        for row in row_types(design):
            if row.joint >= 0 or np.prod([len(points[p]) for p in row.pairs]) > MOST_ROWS:
                continue
            own = np.where(row.subsets >= 0, sigma2[row.subsets], 0.0)
            grid = priority[row.number] * grid_variances([points[p] for p in row.pairs], own)
            each = [self.factors.get(p, np.ones(len(points[p]))) for p in row.pairs]
            weight = reduce(np.multiply.outer, each)
            scaled = weight * grid**power
            count = self.types[row.number] * design.roles.type_count[row.number]
            for axis, pair in enumerate(row.pairs):
                if pair in sums:
                    others = tuple(i for i in range(grid.ndim) if i != axis)
                    sums[pair][0] += count * scaled.sum(axis=others)
                    sums[pair][1] += count * weight.sum(axis=others)
            types[row.number] *= scaled.sum() / weight.sum()
        factors = {p: each * _ratio(*sums[p]) for p, each in self.factors.items()}
        return RowWeights(design, types / types.max(), factors).scaled()


def _ratio(above: Array, below: Array) -> Array:
    """Means by row, in units of the mean of all: how large a table's are is its type's matter."""
    if not above.sum() > 0:
        return np.ones(len(above))
    mean = above.sum() / below.sum()
    return np.asarray(np.maximum(above / np.maximum(below, TINY) / mean, FAINT))


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
    return _searched(plan)


def _searched(plan: Plan) -> Certificate | None:
    """What a search for a better plan found out, as far as it went."""
    gap = plan.optimality.searched if isinstance(plan.optimality, Sharper) else None
    return None if gap is None else Certificate.of(value := reached(plan), value * (1.0 - gap))


def search_takes_long(plan: Plan) -> bool:
    """Whether a bound on the total variance has to be searched for, for longer than some seconds.

    With Gaussian noise, that of a plan that was searched for itself follows from its rows.
    """
    bounds = lower_bounds(plan.privacy.law)
    searched = not bounds.of_rows or isinstance(plan.optimality, Unstated)
    if plan.optimality.known is not None or not searched:
        return False
    longest = max((plan.design.group_count(role) for role in plan.design.free), default=0)
    return bounds.prompt < longest <= bounds.searched


def bound_takes_long(plan: Plan) -> bool:
    """Whether nobody has asked yet for a bound that takes far longer than all that is printed."""
    total = _of_total(plan) and plan.gap is None and "certified" not in plan.__dict__
    return total and search_takes_long(plan)


def usual_certificate(plan: Plan) -> Certificate | None:
    """What is known, or takes no more than about a second."""
    known = known_certificate(plan)
    if known is not None and known != _searched(plan):
        return known
    if not isfinite(plan.privacy.pcost) or bound_takes_long(plan):
        return known
    if _of_total(plan):
        return Certificate.of(plan.total_variance, plan.lower_bound)
    values = sum(plan.design.group_count(r) for r in plan.design.free)
    quick = values <= QUICK_VALUES and plan.design.terms.subsets <= QUICK_SUBSETS
    return plan.certify() if quick else known


def certify(plan: Plan) -> Certificate:
    """The best bound there is for a plan's own objective."""
    if not isfinite(plan.privacy.pcost):
        raise PlanError("what these measurements cost is not known, so nothing bounds their errors")
    known = known_certificate(plan)
    if plan.optimality.proved or plan.optimality.gap is not None:
        assert known is not None
        bound = max(known.bound, plan.optimality.lower_bound) if _of_total(plan) else known.bound
        found = Certificate.of(known.value, bound)
        # What a plan was made with may be loose: the optimum tells, where it can be had.
        sharper = found.gap > CLOSE and not plan.optimality.proved
        return Certificate.of(known.value, max(bound, _optimum(plan))) if sharper else found
    found = Certificate.of(reached(plan), _bound(plan))
    return found if known is None or found.bound > known.bound else known


def _of_total(plan: Plan) -> bool:
    return isinstance(plan.objective, TotalVariance) and plan.targets is None


def reached(plan: Plan) -> float:
    """The plan's own objective; for targets, its cost or ε of pure DP."""
    if plan.targets is not None:
        return plan.privacy.amount
    if isinstance(plan.objective, WorstVariance):
        return plan.worst_variance
    if isinstance(plan.objective, PNormVariance):
        power, roles = plan.objective.p, plan.design.roles
        first = roles.type_first
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
    found = _optimum(plan)
    if found > 0 or _nothing_to_pay(plan):
        return found
    goal, neighbours = plan.objective, plan.privacy.neighbours
    if plan.targets is None and isinstance(goal, ConvexLoss):
        return _tangent_bound(plan, goal)
    design = prepare(plan.workload, None if plan.targets is None else 1.0 / plan.targets)
    with one_thread(design):
        if plan.targets is not None or isinstance(goal, WorstVariance):
            return _at_the_privacy(plan, norm_bound(design, inf, 1.0, neighbours))
        if isinstance(goal, PNormVariance) and goal.p > 1:
            return _at_the_privacy(plan, norm_bound(design, goal.p, 1.0, neighbours))
        if isinstance(goal, TotalVariance | PNormVariance):
            return _at_the_privacy(plan, _along_attribute(plan) or _least_total(design, neighbours))
    return 0.0


def _nothing_to_pay(plan: Plan) -> bool:
    """Whether nothing that is asked depends on a record."""
    return plan.targets is None and _cost(plan) == 0


def _at_the_privacy(plan: Plan, least: float) -> float:
    """What is `least` of the objective at a cost of one, at the plan's; for targets, the cost or ε
    at which they may be met."""
    if plan.targets is None:
        return least / _cost(plan)
    scale = plan.target_scale or 1.0
    # What is met a hair better than asked is no bound on what was asked.
    least /= max(scale, 1.0) if plan.budget is None else scale
    amount = lower_bounds(plan.privacy.law).amount(least, _exact(plan))
    return float(plan.max_rows) ** plan.privacy.power * amount


def _optimum(plan: Plan) -> float:
    """The bound by the optimum in the row space, where that is found within a minute; else 0."""
    goal = None if plan.targets is not None else plan.objective
    # Relative errors have no such bound, and of a loss that was read from a file nothing is known.
    known = isinstance(goal, TotalVariance | WorstVariance | PNormVariance | ConvexLoss | None)
    if plan.privacy.neighbours == "replace" or not known or _nothing_to_pay(plan):
        return 0.0
    cost = _cost(plan)
    if isinstance(goal, ConvexLoss):  # which does not go as one over the cost
        problem = Problem(plan.workload, zCDP(cost / 2), objective=goal, noise="gaussian")
        return least_of_any(problem, reached(plan))
    problem = Problem(plan.workload, targets=plan.targets, objective=goal, noise="gaussian")
    value = reached(plan) if plan.targets is None else plan.target_scale or 1.0
    with one_thread(problem.design):
        return _at_the_privacy(plan, least_of_any(problem, cost * value))


def _least_total(design: Design, neighbours: str) -> float:
    """Of the total variance at a cost of one, by splits of the attributes."""
    with progress("Certifying", SEARCH_STEPS) as advance:
        rows = optimise_total(design, advance=advance)
    return total_variance_bound(design, rows, 1.0, neighbours, THOROUGH)


def _along_attribute(plan: Plan) -> float:
    """The same of a long attribute asked by groups of values, which takes seconds at any length;
    else 0.

    A bound is about the workload, whatever a plan measures.
    """
    if plan.privacy.neighbours == "replace":
        return 0.0
    problem = Problem(plan.workload, budget=zCDP(0.5), noise="gaussian")
    found = tree_plans.solve(problem)
    if found is None:
        return 0.0
    return found.optimality.lower_bound * found.privacy.pcost * (1 - 1e-9)


def _cost(plan: Plan) -> float:
    """Of Gaussian noise of the same variances, at most, to one record: a person may have the same
    one so many times, which costs the square of that."""
    found = lower_bounds(plan.privacy.law).cost(plan.privacy.amount, _exact(plan))
    return found / float(plan.max_rows) ** 2


def _exact(plan: Plan) -> bool:
    return plan.noise not in SIMULATED


def _tangent_bound(plan: Plan, loss: ConvexLoss) -> float:
    means, cost = _mean_variances(plan), _cost(plan)
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
    if neighbours == "replace" and (b := norm_bound_alone(design, power)) is not None:
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
    moments = design.moments(inverses, design.products(inverses))
    terms = design.terms
    each = terms.coefficients(moments.residual, moments.mean, moments.joint)
    variance = terms.by_subset(each * design.type_weight[terms.query])
    privacy = design.privacy_weights(design.sensitivities(dict.fromkeys(rows, 1.0)))
    sigma2 = share_for_sum(privacy, variance, 1.0)
    return inverses, np.where(np.isfinite(sigma2), sigma2, 0.0)
