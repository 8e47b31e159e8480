"""Column generation: reweigh the row shapes, find shapes that would help, and again.

For the worst case the prior is the least favourable one for the shapes there are, found together
with their weights; see `noiseplan.local.search.least_favourable`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, inf

import numpy as np

from noiseplan.local.device.integer_chances import settled
from noiseplan.local.search.least_favourable import saddle_point
from noiseplan.local.search.pattern_weights import Weighting, best_weights
from noiseplan.local.search.patterns import (
    SHORT_CLIMB,
    Pricing,
    all_shapes,
    levels,
    surcharge,
)
from noiseplan.local.search.variance_bounds import BOUND_ROUNDING
from noiseplan.local.strategies.shifts import Bits
from noiseplan.local.strategies.strategy import Strategy, TableStrategy
from noiseplan.matrices.base import Array
from noiseplan.planning.attribute_heads import NOISE_FLOOR

# Up to so many types all shapes are priced, and the optimum is certified.
EXHAUSTIVE = 16
# Up to so many types all shapes are there from the start.
ALL_AT_ONCE = 9
# Directions no query asks about get this share of the largest eigenvalue of G, so that X⁻¹ exists.
UNASKED = 1e-12
NEW_SHARE = 0.1
POLISHES = 10
# How much of the prior given is mixed to the least favourable one where rounding hides its bound.
EVEN_SHARE = 0.02
EPS = float(np.finfo(np.float64).eps)
# Weights below this share of the mean are left out of the strategy.
NEGLIGIBLE_WEIGHT = 1e-6


@dataclass(frozen=True)
class Effort:
    """How long to go on, and how exactly."""

    rounds: int
    most: int  # shapes kept from one round to the next
    gap: float  # of the weights while shapes still change
    final_gap: float  # of the weights at the end, and of the saddle where it is certified

    @classmethod
    def for_types(cls, types: int, scale: float = 1.0) -> Effort:
        """What some seconds of one core afford."""
        if types <= EXHAUSTIVE:
            return cls(max(round(80 * scale), 1), 500, 1e-5, 1e-8)
        rounds = next(r for n, r in ((64, 12), (128, 8), (300, 5), (4096, 3)) if types <= n)
        return cls(max(round(rounds * scale), 1), min(12 * types, 2000), 3e-3, 1e-5)


@dataclass(frozen=True, eq=False)
class Candidate:
    """Shapes with weights, the prior they were weighed for, and the variance of each type."""

    shapes: Bits
    solved: Weighting
    prior: Array
    variances: Array


@dataclass(frozen=True, eq=False)
class Found:
    """A strategy, and a lower bound on its objective where all shapes were priced."""

    strategy: Strategy
    bound: float | None = None


@dataclass(frozen=True, eq=False)
class Goal:
    """What is minimised: the largest variance over types, or the mean under the prior."""

    gram: Array
    prior: Array
    epsilon: float
    worst: bool

    def value(self, at: Candidate) -> float:
        return float(at.variances.max() if self.worst else at.prior @ at.variances)

    @property
    def ratio(self) -> float:
        return exp(self.epsilon)

    @cached_property
    def every(self) -> Bits | None:
        """All shapes, where there are few."""
        return all_shapes(len(self.gram)) if len(self.gram) <= EXHAUSTIVE else None

    @cached_property
    def _asked(self) -> Array:
        """G, with a trace of every direction that no query asks about."""
        values = np.linalg.eigvalsh(self.gram)
        if values[0] > UNASKED * values[-1]:
            return self.gram
        return np.asarray(self.gram + UNASKED * values[-1] * np.eye(len(self.gram)))

    def solve(self, shapes: Bits, weights: Array, prior: Array, gap: float) -> Candidate:
        """The best weights under the prior, or under the least favourable one, found from it."""
        patterns = levels(shapes, self.ratio)
        start = weights / (weights @ patterns).mean()
        if self.worst:
            solved, prior = saddle_point(patterns, self._asked, prior, start, gap=gap)
        else:
            solved = best_weights(patterns, self._asked, prior, start, gap=gap)
        # Σ_o w_o p_o a_oᵀMa_o with a = p/(p·π): second moments of each type.
        along = np.einsum("ij,ij->i", patterns @ solved.curvature, patterns)
        second = (solved.weights * along / (patterns @ prior) ** 2) @ patterns
        return Candidate(shapes, solved, prior, second - np.diagonal(self.gram))

    def helpful(self, at: Candidate, most: int) -> tuple[Bits, float]:
        """Shapes that would lower the value, at most so many, and what prices lack for none to."""
        pricing = Pricing(at.solved.curvature, at.solved.prices, at.prior, self.ratio)
        found, gains = pricing.climb(at.shapes, SHORT_CLIMB)
        lacking = inf
        if self.every is not None:  # climbing finds different shapes, pricing the best ones
            priced = pricing.gains(self.every)
            top = np.argpartition(-priced, min(most // 4, len(priced) - 1))[: most // 4]
            lacking = surcharge(self.every, priced, self.ratio)
            found, gains = np.vstack([self.every[top], found]), np.append(priced[top], gains)
        order = np.argsort(-gains)
        new = _without(found[order[gains[order] > 0]], at.shapes)[:most]
        return new, lacking

    def certified(self, at: Candidate, lacking: float) -> float:
        """A lower bound on Σ π_u t_u over all strategies, where prices lack so much.

        2 tr[(G^{1/2}KG^{1/2})^{1/2}] − 1ᵀν bounds the mean second moment for every K ⪰ 0 and ν with
        pᵀKp/(p·π) ≤ ν·p for all patterns. K = M.
        """
        curvature = (at.solved.curvature + at.solved.curvature.T) / 2  # as in pᵀKp
        values = np.linalg.eigvalsh(self._root @ curvature @ self._root)
        # Each eigenvalue as small as rounding allows: roots make much of an error next to zero.
        trace = float(np.sqrt(np.maximum(values - NOISE_FLOOR * values[-1], 0.0)).sum())
        paid = float(at.solved.prices.sum()) + lacking
        own = float(at.prior @ np.diagonal(self.gram))
        # pᵀKp errs in proportion to the largest entry of K, which ε makes much larger than the sum.
        largest = float(np.abs(curvature).max())
        # Where rounding left K a negative part, that may have lowered tr XK ≤ 1ᵀν; tr X ≤ n e.
        negative = max(-float(np.linalg.eigvalsh(curvature)[0]), 0.0)
        n = len(self.gram)
        rounding = BOUND_ROUNDING * (2 * trace + paid) + 8 * EPS * n**2 * largest
        return 2 * trace - paid - own - (rounding + n * self.ratio * negative)

    @cached_property
    def _root(self) -> Array:
        """G^{1/2}, without what rounding may have made up."""
        values, vectors = np.linalg.eigh(self.gram)
        kept = np.where(values > NOISE_FLOOR * values[-1], np.maximum(values, 0.0), 0.0)
        return np.asarray((vectors * np.sqrt(kept)) @ vectors.T)


def generate(goal: Goal, shapes: Bits, weights: Array, effort: Effort) -> Found:
    """Improve a strategy given by shapes and weights, which need not be feasible."""
    types, every = len(goal.gram), goal.every
    if every is not None and types <= ALL_AT_ONCE:
        shapes, weights = every, np.full(len(every), 1.0)
    else:  # with the rows of randomized response any set of shapes has feasible weights
        shapes = np.vstack([shapes, np.eye(types, dtype=bool)])
        weights = np.append(weights, np.full(types, 1e-3 * float(weights.mean())))
    found, bound = _rounds(goal, (shapes, weights, goal.prior), effort)
    exact = replace(effort, rounds=POLISHES if every is not None else 1, gap=effort.final_gap)
    start = found.shapes, found.solved.weights, found.prior
    best, proved = _rounds(goal, start, exact)
    best, bound = min(found, best, key=goal.value), max(bound, proved)
    if every is None:
        return Found(strategy_of(best, goal.epsilon))
    if goal.worst and not _closed(goal.value(best), bound, exact.gap):
        bound = max(bound, _bound_inside(goal, best, exact.gap))
    # Weigh again what will be kept: what is left out would be missed.
    kept = _counted(best.solved.weights)
    lean = best.shapes[kept], best.solved.weights[kept]
    best = min(best, goal.solve(*lean, best.prior, exact.gap), key=goal.value)
    return Found(strategy_of(best, goal.epsilon), bound)


def _rounds(
    goal: Goal, start: tuple[Bits, Array, Array], effort: Effort
) -> tuple[Candidate, float]:
    """Weigh, add shapes that would help, and again: the best found, and the largest bound."""
    shapes, weights, prior = start
    best, bound = None, -inf
    for _ in range(effort.rounds):
        here = goal.solve(shapes, weights, prior, effort.gap)
        best = here if best is None else min(best, here, key=goal.value)
        new, lacking = goal.helpful(here, effort.most // 2)
        if goal.every is not None:
            bound = max(bound, goal.certified(here, lacking))
        if _closed(goal.value(best), bound, effort.gap):
            break
        shapes, weights = _joined(here, new, effort.most)
        prior = here.prior
    assert best is not None
    return best, bound


def _closed(value: float, bound: float, gap: float) -> bool:
    """Whether a value is proved to be as small as it can be, but for what weights leave."""
    return value - bound <= 10 * gap * abs(value)


def _bound_inside(goal: Goal, best: Candidate, gap: float) -> float:
    """A bound under a prior a little inside: at the edge, for large ε, rounding hides it."""
    inside = (1 - EVEN_SHARE) * best.prior + EVEN_SHARE * goal.prior
    mean = replace(goal, worst=False)
    here = mean.solve(best.shapes, best.solved.weights, inside, gap)
    return goal.certified(here, goal.helpful(here, 1)[1])


def _joined(here: Candidate, new: Bits, most: int) -> tuple[Bits, Array]:
    """The heaviest shapes with the new ones, which start with a tenth of the weight."""
    weights = here.solved.weights
    kept = np.argsort(-weights)[:most]
    if not len(new):
        return here.shapes[kept], weights[kept]
    light = NEW_SHARE * float(weights[kept].sum()) / len(new)
    joined = np.concatenate([weights[kept], np.full(len(new), light)])
    return np.vstack([here.shapes[kept], new]), joined


def _without(shapes: Bits, known: Bits) -> Bits:
    """Shapes not among the known ones, each once, in their order."""
    seen = {row.tobytes() for row in np.packbits(known, axis=1)}
    packed = np.packbits(shapes, axis=1)
    fresh = []
    for i, row in enumerate(packed):
        key = row.tobytes()
        if key not in seen:
            seen.add(key)
            fresh.append(i)
    return shapes[fresh]


def _counted(weights: Array) -> Bits:
    """Which weights are more than what an interior point leaves everywhere."""
    return np.asarray(weights > NEGLIGIBLE_WEIGHT * weights.mean())


def strategy_of(found: Candidate, epsilon: float) -> TableStrategy:
    """The explicit strategy: negligible rows left out, columns made to sum to one."""
    weights = found.solved.weights
    kept = _counted(weights)
    low = weights[kept]
    high = low * exp(epsilon)
    chances = np.where(found.shapes[kept], high[:, None], low[:, None])
    return TableStrategy(settled(chances, low, high, 1.0), epsilon, found.prior, "optimized")
