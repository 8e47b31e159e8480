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

from abc import ABC, abstractmethod
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
    search = _OverCells(terms, loss, count)
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


class Tangents(ABC):
    """Where tangents are taken (u), the weights of cells, and the best of both sides so far."""

    reached: Array  # the variances at the best covariance for these weights and slopes
    level: Array  # what cells pay for it, in units of what they should

    def __init__(self, loss: Loss, first: Array, weights: Array) -> None:
        self.loss, self.count, self.scale = loss, len(first), abs(loss(first)[0]) or 1.0
        self.value, self.bound = np.inf, -np.inf
        self.point = np.concatenate([np.log(first), weights])
        self.damping = 1.0 / (1.0 + 0.5 * steepness(loss, first))
        self.ascent = Ascent(MEMORY, FARTHEST)

    @abstractmethod
    def _priced(self, slope: Array, raised: Array) -> float:
        """N² at these slopes, rounded down; and what is best for the raised ones, if it is the best
        so far."""

    def visit(self) -> float:
        """Both sides of the gap at this point; the gap, relative."""
        self.tangent, weights = np.exp(self.point[: self.count]), np.exp(self.point[self.count :])
        self.weights = weights / weights.sum()
        below, slope = self.loss(self.tangent)
        # All must be answered, whether the loss sees it or not. Where the loss is flat, all is as
        # good as it can be; then the total is made small.
        raised = np.maximum(slope, FAINTEST * slope.max() if slope.any() else 1.0)
        self.height = below + self._priced(slope, raised) - float(slope @ self.tangent)
        if self.height > self.bound:
            self.bound, self.proof = self.height, (slope, self.weights)
        share = slope * self.reached
        self.norm = np.concatenate([share / (share.sum() or 1.0), self.weights])
        return float((self.value - self.bound) / (abs(self.value) or 1.0))

    def move(self) -> None:
        """One step, mixed with those before it."""
        towards = self.damping * (np.log(self.reached) - np.log(self.tangent))
        change = np.concatenate([towards, FULL_STEP * np.log(self.level)])
        # The ascent compares heights by their ratios, and a loss may be negative.
        height = float(np.exp(np.clip(self.height / self.scale, -500.0, 500.0)))
        point = self.ascent.next(self.point, height, change, self.norm)
        weights = point[self.count :] - point[self.count :].max()
        self.point = np.concatenate([point[: self.count], np.maximum(weights, SMALLEST_WEIGHT)])


class _OverCells(Tangents):
    """With all cells written out."""

    def __init__(self, terms: Terms, loss: Loss, count: int) -> None:
        self.terms = terms
        self.reduction = Reduction.of_gram(terms.gram(np.ones(count)))
        cells = self.reduction.size
        self.rows: Array = np.zeros((0, cells))
        first = np.maximum(self._variances(np.eye(cells)), np.finfo(float).tiny)
        super().__init__(loss, first, np.full(cells, -np.log(cells)))

    def _variances(self, sigma: Array) -> Array:
        """Merged cells stand in one of their members."""
        wide = np.zeros((len(self.reduction.groups),) * 2)
        wide[np.ix_(self.reduction.first, self.reduction.first)] = sigma
        return self.terms.variances(wide)

    def _priced(self, slope: Array, raised: Array) -> float:
        spectrum = self._spectrum(raised)
        self._realise(spectrum)
        if (raised > slope).any():  # the bound must not count what was only raised
            return self._spectrum(slope).surely() ** 2 if slope.any() else 0.0
        return spectrum.surely() ** 2

    def _spectrum(self, slope: Array) -> PricedSpectrum:
        gram = self.reduction.gram(self.terms.gram(slope))
        return PricedSpectrum.of(root_of(gram), self.weights)

    def _realise(self, spectrum: PricedSpectrum) -> None:
        """A feasible matrix near X, and the variances it has."""
        total = float(spectrum.singular.sum())
        self.level = np.maximum(spectrum.diagonal() / total, 1e-300)
        if len(spectrum.root) == len(self.weights):
            rows = spectrum.rows() / np.sqrt(self.level * total)
            sigma = np.linalg.inv(rows.T @ rows)
        else:
            above = spectrum.rows() / np.sqrt(total * self.level.max())
            values, vectors = filled_up(above, lacking(self.level))
            rows, sigma = (vectors * np.sqrt(values)).T, (vectors / values) @ vectors.T
        self.reached = np.maximum(self._variances(sigma), np.finfo(float).tiny)
        value = self.loss(self.reached)[0]
        if value < self.value:
            self.value, self.rows = value, rows
