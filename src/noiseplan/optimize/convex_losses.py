"""Convex losses of variances: the best strategy for any of them, with its certificate.

    minimise f(v)  over X ⪰ 0 with diag X ≤ 1 ,    v_t = tr(G_t X⁻¹) ,

f convex and never decreasing, v_t the variance of a row or the mean of a query. f lies above its
tangents: with g = ∇f(u) at any u, and N(g, y) = ‖(Σ_t g_t G_t)^{1/2} Y^{1/2}‖_* as for the total
variance,

    f(v) ≥ f(u) − g·u + g·v ≥ f(u) − g·u + N(g, y)²

for every probability y on the cells. At the optimum u = v and y are the prices of the cells, and
both are equalities. So the optimum is a fixed point of u ↦ g ↦ X(g, y) ↦ v(X), y ↦ y·X_jj², which
is mixed with its own past; both sides of the gap are known at every step.

References
----------
C. Li, dissertation, 2013, section 3.4.1 (any convex function of the errors in place of their sum).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from noiseplan.domain.gram import Reduction
from noiseplan.matrices.base import Array
from noiseplan.optimize.anderson import Ascent
from noiseplan.optimize.gram_roots import root_of
from noiseplan.optimize.optimum import (
    FARTHEST,
    FULL_STEP,
    MEMORY,
    SMALLEST_WEIGHT,
    PricedSpectrum,
    filled_up,
    lacking,
)

# Slopes below this share of the largest are raised to it where X is made: all must be answered.
FAINTEST = 1e-9
# How far variances are moved to see how fast the slopes of a loss change, and how fast they may.
NUDGE, STEEPEST = 1e-3, 100.0

# A loss and its slopes, at given variances.
Loss = Callable[[Array], tuple[float, Array]]


class Terms(Protocol):
    """What a loss looks at: numbers v_t = tr(G_t Σ)."""

    def gram(self, weights: Array) -> Array:
        """Σ_t weights_t G_t, cells × cells."""

    def variances(self, sigma: Array) -> Array:
        """v_t of every term, for a covariance Σ of the cells."""


@dataclass(frozen=True, eq=False)
class LossOptimum:
    """A strategy with diag(AᵀA) ≤ 1, the loss it reaches at cost one, a lower bound."""

    strategy: Array
    value: float
    bound: float
    steps: int

    @property
    def gap(self) -> float:
        """How far the value may be above the best, in units of its size."""
        return (self.value - self.bound) / abs(self.value) if self.value else 0.0


def least_loss(
    terms: Terms, loss: Loss, count: int, tolerance: float = 1e-6, steps: int = 300
) -> LossOptimum:
    """The strategy of least loss at cost one.

    Parameters
    ----------
    loss
        A convex function of the variances, with its gradient; never decreasing.
    count
        How many terms there are.
    tolerance
        The gap at which to stop.
    """
    search = _TangentSearch(terms, loss, count)
    for step in range(1, steps + 1):
        if search.visit() <= tolerance or step == steps:
            break
        search.move()
    return LossOptimum(search.reduction.widened(search.rows), search.value, search.bound, step)


def steepness(loss: Loss, at: Array) -> float:
    """By how much slopes change, relative, when variances do: p − 1 for a p-norm."""
    rng, fastest = np.random.default_rng(0), 0.0
    slope = loss(at)[1]
    for _ in range(3):
        signs = rng.choice([-1.0, 1.0], size=len(at))
        moved = loss(at * np.exp(NUDGE * signs))[1]
        seen = (slope > 0) & (moved > 0)
        change = np.abs(np.log(moved[seen] / slope[seen])).max(initial=0.0)
        fastest = max(fastest, float(change) / NUDGE)
    return min(fastest, STEEPEST)


class _TangentSearch:
    """Where tangents are taken (u), the prices of cells (y), and the best of both sides so far."""

    def __init__(self, terms: Terms, loss: Loss, count: int) -> None:
        self.terms, self.loss = terms, loss
        self.reduction = Reduction.of_gram(terms.gram(np.ones(count)))
        cells = self.reduction.size
        self.value, self.bound = np.inf, -np.inf
        self.rows: Array = np.zeros((0, cells))
        self.ascent = Ascent(MEMORY, FARTHEST)
        first = np.maximum(self._variances(np.eye(cells)), np.finfo(float).tiny)
        self.count, self.scale = count, abs(loss(first)[0]) or 1.0
        self.point = np.concatenate([np.log(first), np.full(cells, -np.log(cells))])
        self.damping = 1.0 / (1.0 + 0.5 * steepness(loss, first))

    def _variances(self, sigma: Array) -> Array:
        """Merged cells stand in one of their members."""
        wide = np.zeros((len(self.reduction.groups),) * 2)
        wide[np.ix_(self.reduction.first, self.reduction.first)] = sigma
        return self.terms.variances(wide)

    def visit(self) -> float:
        """Both sides of the gap at this point; the gap, relative."""
        self.tangent = np.exp(self.point[: self.count])
        prices = np.exp(self.point[self.count :])
        self.prices = prices / prices.sum()
        below, slope = self.loss(self.tangent)
        # Where the loss is flat, all is as good as it can be; then the total is made small.
        raised = np.maximum(slope, FAINTEST * slope.max() if slope.any() else 1.0)
        gram = self.reduction.gram(self.terms.gram(raised))
        spectrum = PricedSpectrum.of(root_of(gram), self.prices)
        sure = spectrum.surely()
        if (raised > slope).any():  # the bound must not count what was only raised
            sure = self._surely(slope) if slope.any() else 0.0
        self.height = below - float(slope @ self.tangent) + sure**2
        self.bound = max(self.bound, self.height)
        self._realise(spectrum, slope)
        return (self.value - self.bound) / (abs(self.value) or 1.0)

    def _surely(self, slope: Array) -> float:
        """N for these slopes, rounded down."""
        gram = self.reduction.gram(self.terms.gram(slope))
        return PricedSpectrum.of(root_of(gram), self.prices).surely()

    def _realise(self, spectrum: PricedSpectrum, slope: Array) -> None:
        """A feasible matrix near X, and the variances it has."""
        total = float(spectrum.singular.sum())
        self.diagonal = np.maximum(spectrum.diagonal() / total, 1e-300)
        if len(spectrum.root) == len(self.prices):
            rows = spectrum.rows() / np.sqrt(self.diagonal * total)
            sigma = np.linalg.inv(rows.T @ rows)
        else:
            above = spectrum.rows() / np.sqrt(total * self.diagonal.max())
            values, vectors = filled_up(above, lacking(self.diagonal))
            rows, sigma = (vectors * np.sqrt(values)).T, (vectors / values) @ vectors.T
        self.reached = np.maximum(self._variances(sigma), np.finfo(float).tiny)
        value = self.loss(self.reached)[0]
        if value < self.value:
            self.value, self.rows = value, rows
        share = slope * self.reached
        self.norm = np.concatenate([share / (share.sum() or 1.0), self.prices])

    def move(self) -> None:
        """Mix the step with those before it."""
        change = np.concatenate(
            [
                self.damping * (np.log(self.reached) - np.log(self.tangent)),
                FULL_STEP * np.log(self.diagonal),
            ]
        )
        # The ascent compares heights by their ratios, and a loss may be negative.
        height = float(np.exp(np.clip(self.height / self.scale, -500.0, 500.0)))
        point = self.ascent.next(self.point, height, change, self.norm)
        prices = point[self.count :]
        point[self.count :] = np.maximum(prices - prices.max(), SMALLEST_WEIGHT)
        self.point = point
