"""Projected gradient descent over strategies Q and the lower bounds z of their rows.

One step moves z a little and Q along their gradients and projects Q. The length of the first steps
is found by trial; it then falls linearly to nothing. Whenever a step makes the value jump, the best
strategy so far is taken up again with half the step.

References
----------
McKenna et al. (2020), Algorithm 2, with the full gradient in z, z kept feasible, and G normalised
so that one range of steps fits every workload.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, isfinite

import numpy as np

from noiseplan.local.search.namespace import Tensor, namespace
from noiseplan.local.search.objective import Slope, lower_slope, slope
from noiseplan.local.search.projection import feasible, project

TRIAL_STEPS = 25
TRIALS = 3
# A value so many times the best so far: the step jumped across a pole of the objective.
JUMP = 2.0
# Rows whose upper bound fell below this share of the mean say nothing any more.
NEGLIGIBLE = 1e-8


@dataclass(frozen=True, eq=False)
class Position:
    """A strategy, the lower bounds of its rows, and the objective there."""

    strategy: Tensor
    lower: Tensor
    slope: Slope


@dataclass(frozen=True, eq=False)
class Descent:
    """The problem: Gram matrix (normalised), prior, e."""

    gram: Tensor
    prior: Tensor
    ratio: float

    @classmethod
    def of(cls, gram: Tensor, prior: Tensor, epsilon: float) -> Descent:
        xp = namespace(gram)
        scale = float(xp.sum(xp.linalg.diagonal(gram) * prior))
        return cls(gram / scale, prior, exp(epsilon))

    def at(self, strategy: Tensor, lower: Tensor) -> Position:
        return Position(strategy, lower, slope(strategy, self.gram, self.prior))

    def step(self, here: Position, length: float) -> Position | None:
        """One step; None where the objective is not defined or jumps."""
        xp = namespace(here.strategy)
        gradient = here.slope.gradient
        z_gradient = lower_slope(gradient, here.strategy, here.lower, self.ratio)
        types = here.strategy.shape[1]
        moved = xp.clip(here.lower - (length / (types * self.ratio)) * z_gradient, 0.0, 1.0)
        if not bool(xp.any(moved > 0)):  # no row would be left
            return None
        lower = feasible(moved, self.ratio)
        kept = self.ratio * lower > NEGLIGIBLE / lower.shape[0]
        target = here.strategy - length * gradient
        if not bool(xp.all(kept)):
            target, lower = target[kept, :], feasible(lower[kept], self.ratio)
        try:
            found = self.at(project(target, lower, self.ratio), lower)
        except (np.linalg.LinAlgError, RuntimeError, ValueError):
            return None
        good = isfinite(found.slope.value) and 0 < found.slope.value < JUMP * here.slope.value
        return found if good else None

    def run(
        self, start: Position, steps: int, length: float, *, decay: bool = True
    ) -> tuple[Position, bool]:
        """The best position seen, and whether no step had to be taken back."""
        here = best = start
        smooth = True
        for t in range(steps):
            following = self.step(here, length * (1 - t / steps) if decay else length)
            if following is None or following.slope.value > JUMP * best.slope.value:
                here, length, smooth = best, length / 2, False
                continue
            here = following
            if here.slope.value < best.slope.value:
                best = here
        return best, smooth

    def good_length(self, start: Position) -> float:
        """The first step length: of some successive halvings, the one that gains most in a while.

        Starts where one step would move entries by about their own size.
        """
        xp = namespace(start.strategy)
        gradient = start.slope.gradient
        size = float(xp.sum(start.strategy**2)) ** 0.5
        length = size / (float(xp.sum(gradient**2)) ** 0.5)
        found: list[tuple[float, float]] = []
        for _ in range(60):
            best, smooth = self.run(start, TRIAL_STEPS, length, decay=False)
            if smooth and best.slope.value < start.slope.value:
                found.append((best.slope.value, length))
            if len(found) == TRIALS:
                break
            length /= 2
        return min(found)[1] if found else length


def descend(
    strategy: Tensor,
    lower: Tensor,
    gram: Tensor,
    prior: Tensor,
    epsilon: float,
    steps: int,
    advance: Callable[[int], None] | None = None,
) -> Tensor:
    """The best strategy found in so many steps from a start (Q, z)."""
    problem = Descent.of(gram, prior, epsilon)
    lower = feasible(lower, problem.ratio)
    strategy = project(strategy, lower, problem.ratio)
    try:
        start = problem.at(strategy, lower)
    except (np.linalg.LinAlgError, RuntimeError):  # it does not tell all types apart
        return strategy
    best, _ = problem.run(start, steps, problem.good_length(start))
    if advance is not None:
        advance(steps)
    return best.strategy


def random_start(
    outputs: int, types: int, epsilon: float, rng: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """R uniform in [0, 1], z = (1 + e^−ε)/(2m): always feasible (McKenna et al., Section 4)."""
    lower = np.full(outputs, (1 + exp(-epsilon)) / (2 * outputs))
    return project(rng.random((outputs, types)), lower, exp(epsilon)), lower
