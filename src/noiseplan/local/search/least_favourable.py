"""The best weights for given row shapes against the least favourable prior: a saddle point.

With tr[X⁻¹G] as in `noiseplan.local.search.pattern_weights` and g the diagonal of G,

    f(w, π) = tr[X⁻¹G] − g·π ,   X = Σ_o w_o p_o p_oᵀ/(p_o·π) ,

is convex in the weights and concave in the prior: for fixed answers it is linear in π, and the best
answers are a minimum over such. Its derivative in π is t, the variance of each type, so that

    min_w max_π f ,   Σ_o w_o p_o = 1, w ≥ 0 ;   Σπ = 1, π ≥ 0 ,

is the smallest worst variance of all strategies with these rows, whatever their answers: at the
saddle the answers that are best for π are so for the worst type too. Both blocks take one Newton
step together, with barriers on both sides:

    f_ww = 2 (BX⁻¹Bᵀ)∘(BMBᵀ) ,   b = p/√(p·π) ,   T = Diag(w/(Pπ)) P ,   k = pᵀMp/(p·π)² ,
    f_wπ = Diag(k) P − f_ww T ,   f_ππ = Tᵀf_wwT − 2 PᵀDiag(k w/(Pπ)) P .
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noiseplan.local.search.pattern_weights import (
    Point,
    Towards,
    Weighting,
    first_multipliers,
    hessian,
    interior_step,
    point_at,
)
from noiseplan.matrices.base import Array

SADDLE_STEPS = 60
# Variances are not told from rounding below this share of the second moment.
LEAST_VARIANCE = 1e-3


@dataclass(frozen=True, eq=False)
class _Saddle:
    """f at some weights and prior."""

    patterns: Array
    gram: Array
    weights: Array
    prior: Array

    @cached_property
    def masses(self) -> Array:
        """p·π."""
        return np.asarray(self.patterns @ self.prior)

    @cached_property
    def scaled(self) -> Array:
        """B."""
        return np.asarray(self.patterns / np.sqrt(self.masses)[:, None])

    @cached_property
    def point(self) -> Point:
        return point_at(self.scaled, self.weights, self.gram)

    @property
    def worth(self) -> Array:
        """k."""
        return -self.point.gradient / self.masses

    @cached_property
    def variances(self) -> Array:
        """t."""
        return np.asarray((self.weights * self.worth) @ self.patterns - np.diagonal(self.gram))

    @property
    def gradient(self) -> Array:
        """Downhill for the weights, uphill for the prior."""
        return np.concatenate([self.point.gradient, -self.variances])

    def blocks(self) -> tuple[Array, Array, Array]:
        """f_ww, f_wπ and −f_ππ."""
        by_weights = hessian(self.scaled, self.point)
        along = (self.weights / self.masses)[:, None] * self.patterns
        moved = by_weights @ along
        bent = (2 * self.worth * self.weights / self.masses)[:, None] * self.patterns
        cross: Array = self.worth[:, None] * self.patterns - moved
        return by_weights, cross, self.patterns.T @ bent - along.T @ moved


def saddle_point(
    patterns: Array, gram: Array, prior: Array, start: Array, *, gap: float
) -> tuple[Weighting, Array]:
    """Weights of least worst variance and the prior they are best for, up to a relative gap.

    From positive start weights and a prior, which is kept off its bounds. Returns the last point
    reached if rounding stops the iteration early.
    """
    count, types = patterns.shape
    at = np.concatenate([start, (prior + 1 / types) / 2])
    here = _Saddle(patterns, gram, at[:count], at[count:])
    nu, s = first_multipliers(patterns, start, here.point)
    level = float(here.variances.max()) + 0.1 * here.point.value
    slack, prices = np.concatenate([s, level - here.variances]), np.append(nu, level)
    for _ in range(SADDLE_STEPS):
        missing = np.append(1 - here.weights @ patterns, 1 - here.prior.sum())
        uneven = float(here.variances.max() - here.prior @ here.variances)
        open_gap = max(float(at @ slack), uneven)
        # A share of the variance, not of the second moment, which is far larger where ε is.
        wanted = gap * max(float(here.variances.max()), LEAST_VARIANCE * here.point.value)
        if open_gap <= wanted and np.abs(missing).max() <= 1e-9:
            break
        try:
            towards = _newton(here, slack, prices, missing)
            d_at, d_prices, d_slack = interior_step(at, slack, towards)
            there = at + d_at
            moved = _Saddle(patterns, gram, there[:count], there[count:])
            usable = bool(np.isfinite(moved.point.value) and moved.point.value > 0)
        except np.linalg.LinAlgError:
            break
        if not usable:
            break
        at, prices, slack, here = there, prices + d_prices, slack + d_slack, moved
    point = here.point
    return Weighting(here.weights, point.value, point.curvature, prices[:-1]), here.prior


def _newton(here: _Saddle, slack: Array, prices: Array, missing: Array) -> Towards[Array]:
    """Newton's equations for weights and prior together, weights eliminated by their own factor."""
    from scipy.linalg import cho_factor, cho_solve

    count, types = here.patterns.shape
    at = np.concatenate([here.weights, here.prior])
    by_weights, cross, by_prior = here.blocks()
    by_weights[np.diag_indices(count)] += slack[:count] / here.weights
    by_weights[np.diag_indices(count)] *= 1 + 1e-12
    by_prior[np.diag_indices(types)] += slack[count:] / here.prior
    factor = cho_factor(by_weights, lower=True, check_finite=False, overwrite_a=True)
    both = np.hstack([cross, here.patterns])
    through = cho_solve(factor, both, check_finite=False)
    left = np.zeros((2 * types + 1, 2 * types + 1))
    left[:-1, :-1] = both.T @ through
    left[:types, :types] += by_prior
    left[:types, -1] = left[-1, :types] = 1.0
    paid = np.append(here.patterns @ prices[:-1], np.full(types, prices[-1]))

    def towards(centre: float, correction: Array | float) -> tuple[Array, Array, Array]:
        wanted = (centre - correction) / at
        rest = wanted - here.gradient - paid
        t = cho_solve(factor, rest[:count], check_finite=False)
        right = np.append(both.T @ t, missing[-1])
        right[:types] += rest[count:]
        right[types:-1] -= missing[:-1]
        solved = np.asarray(np.linalg.solve(left, right), dtype=np.float64)
        d_at = np.append(t - through @ solved[:-1], solved[:types])
        return d_at, solved[types:], wanted - slack - slack * d_at / at

    return towards
