"""Planning with shifts: which patterns, how often, so that the characters' eigenvalues suit G.

    minimise Σ_χ g_χ/λ_χ ,   λ_χ = Σ_r v_r n |p̂_r(χ)|²/σ_r² ,   Σ v = 1, v ≥ 0 ,

convex in v, with as many numbers as characters instead of matrices. New patterns are found as in
`noiseplan.local.search.generation`; every type has the same variance, so worst and average case
coincide.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp

import numpy as np

from noiseplan.local.search.generation import EXHAUSTIVE, Found
from noiseplan.local.search.pattern_weights import Towards, interior_step
from noiseplan.local.search.patterns import (
    SHORT_CLIMB,
    Pricing,
    all_shapes,
    drawn,
    levels,
    surcharge,
)
from noiseplan.local.search.variance_bounds import BOUND_ROUNDING
from noiseplan.local.strategies.classical import sylvester
from noiseplan.local.strategies.shifts import Bits, Group, ShiftStrategy
from noiseplan.matrices.base import Array

MIXTURE_GAP = 1e-9
MIXTURE_STEPS = 60
# A pattern worth no more than this share above the value is as good as those there are.
LEAST_GAIN = 1e-7
# Patterns used more rarely than this are left out.
RARE = 1e-7


@dataclass(frozen=True)
class OrbitEffort:
    """How long to go on."""

    rounds: int
    patterns: int
    climbs: int

    @classmethod
    def for_types(cls, types: int, scale: float = 1.0) -> OrbitEffort:
        rounds = 30 if types <= 64 else 20 if types <= 256 else 12
        return cls(max(round(rounds * scale), 1), min(2 * types + 30, 400), min(types, 64))


@dataclass(frozen=True, eq=False)
class Mixture:
    """Chances of patterns, the value, and what a unit of each eigenvalue is worth: g/λ²."""

    chances: Array
    value: float
    worth: Array


def plan_orbits(
    group: Group,
    gram: Array,
    epsilon: float,
    effort: OrbitEffort,
    rng: np.random.Generator,
) -> Found:
    """The best strategy of shifted patterns found for a Gram matrix that shifts leave alike."""
    search = _Search(group, group.eigenvalues(gram), exp(epsilon), effort, rng)
    shapes = search.unlike(_first_shapes(group, gram, epsilon, effort.patterns, rng))
    chances = np.full(len(shapes), 1 / len(shapes))
    for _ in range(effort.rounds):
        mixture = search.mixture(shapes, chances)
        kept = np.argsort(-mixture.chances)[: effort.patterns]
        kept = kept[mixture.chances[kept] > RARE]
        shapes, chances = shapes[kept], mixture.chances[kept] / mixture.chances[kept].sum()
        new = search.helpful(shapes, mixture)
        if not len(new):
            break
        shapes = np.vstack([shapes, new])
        chances = np.append(0.9 * chances, np.full(len(new), 0.1 / len(new)))
    shapes, chances = shapes[: effort.patterns], chances[: effort.patterns]
    mixture = search.mixture(shapes, chances / chances.sum())
    used = mixture.chances > RARE
    weights = mixture.chances[used] / mixture.chances[used].sum()
    strategy = ShiftStrategy(group, shapes[used], weights, epsilon, "optimized shifts")
    bound = search.certified(mixture) - float(gram[0, 0]) if search.every is not None else None
    return Found(strategy, bound)


@dataclass(frozen=True, eq=False)
class _Search:
    group: Group
    asked: Array  # eigenvalues of G
    ratio: float
    effort: OrbitEffort
    rng: np.random.Generator

    def mixture(self, shapes: Bits, start: Array) -> Mixture:
        return best_mixture(power(self.group, shapes, self.ratio), self.asked, start)

    def unlike(self, shapes: Bits) -> Bits:
        """One shape of each spectrum: shifts of a shape have the same."""
        spectra = np.round(power(self.group, shapes, self.ratio), 9)
        return shapes[np.sort(np.unique(spectra, axis=0, return_index=True)[1])]

    @cached_property
    def every(self) -> Bits | None:
        """All shapes, where there are few."""
        return all_shapes(self.group.size) if self.group.size <= EXHAUSTIVE else None

    def _pricing(self, mixture: Mixture) -> Pricing:
        """M with the eigenvalues g/λ², even prices, the even prior: what shapes are judged by."""
        types = self.group.size
        kernel = self.group.back(mixture.worth.astype(complex)[None, :])[0]
        even = np.full(types, 1 / types)
        curvature = kernel[self.group.differences]
        return Pricing(curvature, mixture.value * even, even, self.ratio)

    def certified(self, mixture: Mixture) -> float:
        """A lower bound on the mean second moment, as in `noiseplan.local.search.generation`."""
        assert self.every is not None
        gains = self._pricing(mixture).gains(self.every)
        return mixture.value * (1 - BOUND_ROUNDING) - surcharge(self.every, gains, self.ratio)

    def helpful(self, shapes: Bits, mixture: Mixture) -> Bits:
        """Shapes worth more than the value: n pᵀMp/σ² > L."""
        types = self.group.size
        pricing = self._pricing(mixture)
        fresh = self.rng.random((self.effort.climbs, types)) < 1 / (self.ratio + 1)
        climbed = pricing.climb(shapes, SHORT_CLIMB), pricing.climb(fresh, types)
        found = np.vstack([pair[0] for pair in climbed])
        gains = np.concatenate([pair[1] for pair in climbed])
        if self.every is not None:
            found = np.vstack([found, self.every])
            gains = np.append(gains, pricing.gains(self.every))
        return _different(found, gains / mixture.value)[: self.effort.patterns]


def _different(shapes: Bits, gains: Array) -> Bits:
    """Shapes that help, the best first, one for each gain: shifts of a shape all have the same."""
    rounded, first = np.unique(np.round(gains, 10), return_index=True)
    return shapes[first[rounded > LEAST_GAIN][::-1]]


def _first_shapes(
    group: Group, gram: Array, epsilon: float, count: int, rng: np.random.Generator
) -> Bits:
    """Shapes drawn for the workload, some without regard to it, and the characters it asks about.

    The characters make the result no worse than weighted Fourier.
    """
    types = group.size
    some = rng.random((count // 4 + 2, types)) < 1 / (exp(epsilon) + 1)
    shapes = [drawn(gram, np.full(types, 1 / types), epsilon, count, rng), some]
    if set(group.shape) == {2}:
        chosen = np.flatnonzero(group.eigenvalues(gram)[1:]) + 1
        shapes.append(sylvester(types)[chosen] > 0)
    return np.vstack(shapes)


def power(group: Group, shapes: Bits, ratio: float) -> Array:
    """n |p̂(χ)|²/σ² of each pattern and character: what it adds to the eigenvalue."""
    patterns = levels(shapes, ratio)
    spectra = group.transform(patterns / patterns.sum(axis=1, keepdims=True))
    return np.asarray(group.size * np.abs(spectra) ** 2)


def best_mixture(powers: Array, asked: Array, start: Array) -> Mixture:
    """The chances v of least Σ g/(vᵀF), by an interior-point method on the simplex."""
    counted = asked > 0
    all_powers, powers, g = powers, powers[:, counted], asked[counted]
    v = start
    slack: Array | None = None
    level = 0.0
    for _ in range(MIXTURE_STEPS):
        eigenvalues = v @ powers
        terms = g / eigenvalues
        value = float(terms.sum())
        gradient = -(powers @ (terms / eigenvalues))
        if slack is None:  # at the optimum −gradient ≤ value, with equality where v > 0
            level, slack = value, np.maximum(gradient + value, 0.1 * value)
        missing = 1.0 - float(v.sum())
        if v @ slack <= MIXTURE_GAP * value and abs(missing) < 1e-12:
            break
        hessian = 2.0 * (powers * (terms / eigenvalues**2)) @ powers.T
        try:
            towards = _newton(hessian, gradient, (v, level, slack), missing)
        except np.linalg.LinAlgError:
            break
        d_v, d_level, d_slack = interior_step(v, slack, towards)
        v, level, slack = v + d_v, level + d_level, slack + d_slack
    eigenvalues = v @ all_powers
    worth = np.zeros(len(asked))
    worth[counted] = g / eigenvalues[counted] ** 2
    return Mixture(v, float((g / eigenvalues[counted]).sum()), worth)


def _newton(
    hessian: Array, gradient: Array, at: tuple[Array, float, Array], missing: float
) -> Towards[float]:
    """Newton's equations at v, the level of its sum, and its slacks, factored."""
    from scipy.linalg import cho_factor, cho_solve

    v, level, slack = at
    hessian[np.diag_indices(len(v))] += slack / v
    factor = cho_factor(hessian, lower=True, check_finite=False, overwrite_a=True)
    through = cho_solve(factor, np.ones(len(v)), check_finite=False)

    def towards(centre: float, correction: Array | float) -> tuple[Array, float, Array]:
        wanted = (centre - correction) / v
        t = cho_solve(factor, wanted - gradient - level, check_finite=False)
        d_level = (float(t.sum()) - missing) / float(through.sum())
        d_v = t - through * d_level
        return d_v, d_level, wanted - slack - slack * d_v / v

    return towards
