"""The best weights for given row shapes: a convex problem, solved by an interior-point method.

A row of an optimal strategy takes only the values w and e·w, so a strategy is a set of patterns p_o
in {1, e}ⁿ with weights w_o ≥ 0, and

    minimise tr[X⁻¹G],   X = Σ_o w_o p_o p_oᵀ/(p_o·π) ,   subject to Σ_o w_o p_o = 1 .

Gradient −p_oᵀMp_o/(p_o·π) with M = X⁻¹GX⁻¹, Hessian 2 (BX⁻¹Bᵀ)∘(BMBᵀ) with rows b_o = p_o/√(p_o·π);
ν are the multipliers of the column sums. A pattern would help if pᵀMp/(p·π) > ν·p. The steps are
Mehrotra's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from noiseplan.matrices.base import Array

Prices = TypeVar("Prices", Array, float)
Towards = Callable[[float, Array | float], tuple[Array, Prices, Array]]

WEIGHT_STEPS = 40
# Weights and multipliers stay so far inside their bounds.
INSIDE = 0.99
RIDGE = 1e-14


@dataclass(frozen=True, eq=False)
class Weighting:
    """Weights of patterns, and what the optimality conditions say at them."""

    weights: Array
    value: float
    curvature: Array  # M
    prices: Array  # ν


@dataclass(frozen=True, eq=False)
class Point:
    """The objective at some weights: its value, X⁻¹, M and the gradient."""

    value: float
    inverse: Array
    curvature: Array
    gradient: Array


def best_weights(
    patterns: Array, gram: Array, prior: Array, start: Array, *, gap: float
) -> Weighting:
    """The weights of least tr[X⁻¹G] up to a relative gap, from positive start weights.

    Returns the last point reached if rounding stops the iteration early.
    """
    w = start
    scaled = patterns / np.sqrt(patterns @ prior)[:, None]
    here = point_at(scaled, w, gram)
    nu, s = first_multipliers(patterns, w, here)
    for _ in range(WEIGHT_STEPS):
        missing = 1.0 - patterns.T @ w
        if w @ s <= gap * here.value and np.abs(missing).max() <= 1e-9:
            break
        try:
            towards = _newton(patterns, scaled, here, (w, nu, s), missing)
            d_w, d_nu, d_s = interior_step(w, s, towards)
            moved = point_at(scaled, w + d_w, gram)
        except np.linalg.LinAlgError:
            break
        if not np.isfinite(moved.value) or moved.value <= 0:
            break
        w, nu, s, here = w + d_w, nu + d_nu, s + d_s, moved
    return Weighting(w, here.value, here.curvature, nu)


def point_at(scaled: Array, weights: Array, gram: Array) -> Point:
    """The objective for rows b_o with these weights."""
    from scipy.linalg import cho_factor, cho_solve

    n = len(gram)
    information = scaled.T @ (weights[:, None] * scaled)
    information[np.diag_indices(n)] += RIDGE * np.trace(information) / n
    inverse = cho_solve(cho_factor(information, check_finite=False), np.eye(n), check_finite=False)
    curvature = inverse @ gram @ inverse
    gradient = -np.einsum("ij,ij->i", scaled @ curvature, scaled)
    return Point(float((inverse * gram).sum()), inverse, curvature, gradient)


def hessian(scaled: Array, here: Point) -> Array:
    """2 (BX⁻¹Bᵀ)∘(BMBᵀ)."""
    second = (scaled @ here.inverse) @ scaled.T
    second *= (scaled @ here.curvature) @ scaled.T
    second *= 2.0
    return second


def first_multipliers(patterns: Array, w: Array, here: Point) -> tuple[Array, Array]:
    """ν by least squares where weights are large, and slacks s safely positive."""
    heavy = patterns * (w * w)[:, None]
    normal = patterns.T @ heavy
    normal[np.diag_indices(len(normal))] += 1e-12 * np.trace(normal) / len(normal)
    nu = np.asarray(np.linalg.solve(normal, -heavy.T @ here.gradient), dtype=np.float64)
    s = here.gradient + patterns @ nu
    typical = float(np.abs(s).mean())
    return nu, np.maximum(s, np.maximum(0.05 * typical, 1e-4 * here.value / len(w) / w) + 1e-300)


def _newton(
    patterns: Array, scaled: Array, here: Point, at: tuple[Array, Array, Array], missing: Array
) -> Towards[Array]:
    """Newton's equations at w, ν and s, factored."""
    from scipy.linalg import cho_factor, cho_solve

    w, nu, s = at
    barred = hessian(scaled, here)
    barred[np.diag_indices(len(w))] += s / w
    barred[np.diag_indices(len(w))] *= 1 + 1e-12
    factor = cho_factor(barred, lower=True, check_finite=False, overwrite_a=True)
    through = cho_solve(factor, patterns, check_finite=False)
    schur = patterns.T @ through

    def towards(centre: float, correction: Array | float) -> tuple[Array, Array, Array]:
        wanted = (centre - correction) / w
        t = cho_solve(factor, wanted - here.gradient - patterns @ nu, check_finite=False)
        d_nu = np.asarray(np.linalg.solve(schur, patterns.T @ t - missing), dtype=np.float64)
        d_w = t - through @ d_nu
        return d_w, d_nu, wanted - s - s * d_w / w

    return towards


# ---------------------------------------------------------------------- one step inside the bounds


def interior_step(w: Array, s: Array, towards: Towards[Prices]) -> tuple[Array, Prices, Array]:
    """Mehrotra's predictor and corrector, already shortened to stay inside.

    `towards` solves Newton's equations for w∘s = centre − correction: by how much the weights w,
    the multipliers of what they must add up to, and the slacks s change.
    """
    mean = float(w @ s) / len(w)
    d_w, _, d_s = towards(0.0, 0.0)
    reached = float((w + _room(w, d_w) * d_w) @ (s + _room(s, d_s) * d_s)) / len(w)
    d_w, d_prices, d_s = towards((reached / mean) ** 3 * mean, d_w * d_s)
    length = min(_room(w, d_w), _room(s, d_s))
    return length * d_w, length * d_prices, length * d_s


def _room(values: Array, change: Array) -> float:
    """The longest step, at most one, that keeps all values positive."""
    falling = change < 0
    if not falling.any():
        return 1.0
    return min(1.0, INSIDE * float((-values[falling] / change[falling]).min()))
