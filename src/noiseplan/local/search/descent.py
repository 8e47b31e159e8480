"""Projected gradient descent over strategies Q and the lower bounds z of their rows.

With D = Diag(Qπ), A = D⁻¹Q and the information matrix X = QᵀA,

    L(Q) = tr[X⁺G] = Σ_u π_u (t_u + ‖W e_u‖²)

is the mean over types of second moments, t_u the variance one user of type u adds to all answers.
For uniform π it is 1/n of the objective of the paper, whose D holds row sums. X π = 1 always.

One step moves z a little and Q along their gradients and projects Q. The length of the first steps
is found by trial; it then falls linearly to nothing. Whenever a step makes the value jump, the best
strategy so far is taken up again with half the step.

The nearest strategy has columns that sum to one and entries between z and e·z: for one column the
nearest q to r is q = clip(r + λ, z, e·z) for the number λ that makes the sum one.
φ(λ) = Σ clip(r + λ, z, e·z) is continuous, nondecreasing and piecewise linear with as many free
entries as its slope, so Newton's method inside a shrinking bracket finds the piece in a few passes,
all columns at once; sorting breakpoints needs more time than all passes together.

References
----------
McKenna, Maity, Mazumdar, Miklau, "A workload-adaptive mechanism for linear queries under local
differential privacy", PVLDB 13(11), 2020: Theorems 3.10 and 3.11; Problem 4.1, whose Algorithm 1
has a wrong sign; Algorithm 2, here with z kept feasible, and G normalised so that one range of
steps fits every workload. The gradients are closed forms; that in z is the full one, with the
response of the projection's λ, without which optimised strategies are about a tenth worse.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, isfinite

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.optimize.array_namespace import AnyArray, namespace_of

# Entries this close to a bound, relatively, are at the bound.
AT_BOUND = 1e-12
# Passes of Newton's method over all columns.
MOST_PASSES = 100
# Numbers in a block of columns that stays in a processor's cache while it is passed over.
CACHED = 1 << 17
TRIAL_STEPS = 25
TRIALS = 3
# A value so many times the best so far: the step jumped across a pole of the objective.
JUMP = 2.0
# Rows whose upper bound fell below this share of the mean say nothing any more.
NEGLIGIBLE_BOUND = 1e-8


# ---------------------------------------------------------------------- the objective


@dataclass(frozen=True, eq=False)
class Slope:
    """The objective at a strategy and its gradient with respect to Q."""

    value: float
    gradient: AnyArray


def slope(strategy: AnyArray, gram: AnyArray, prior: AnyArray) -> Slope:
    """L(Q) and ∂L/∂Q[o, u] = −2 S[o, u] + π_u Σ_v S[o, v] A[o, v], with S = A X⁻¹GX⁻¹."""
    xp = namespace_of(strategy)
    shapes = strategy / (strategy @ prior)[:, None]  # A
    information = strategy.T @ shapes  # X
    inverse = xp.linalg.inv((information + information.T) / 2)
    value = float(xp.sum(inverse * gram))
    scores = shapes @ (inverse @ (gram @ inverse))  # S
    along = xp.sum(scores * shapes, axis=1)
    return Slope(value, along[:, None] * prior[None, :] - 2.0 * scores)


def lower_slope(gradient: AnyArray, strategy: AnyArray, lower: AnyArray, ratio: float) -> AnyArray:
    """∂L/∂z through the projection: what moving the bounds of each row would change.

    Σ_u (g[o,u] − ḡ_u)·1[at z] + e·Σ_u (g[o,u] − ḡ_u)·1[at e·z], ḡ_u the mean of g over the free
    entries of column u: the response of λ_u.
    """
    xp = namespace_of(strategy)
    slack = max(AT_BOUND, 4 * float(xp.finfo(strategy.dtype).eps))
    low = xp.astype(strategy <= (lower * (1 + slack))[:, None], strategy.dtype)
    high = xp.astype(strategy >= (lower * (ratio * (1 - slack)))[:, None], strategy.dtype)
    free = 1.0 - xp.clip(low + high, None, 1.0)
    mean = xp.sum(gradient * free, axis=0) / xp.clip(xp.sum(free, axis=0), 1.0, None)
    return xp.sum((gradient - mean) * (low + ratio * high), axis=1)


# ---------------------------------------------------------------------- the nearest strategy


def project(points: AnyArray, lower: AnyArray, ratio: float) -> AnyArray:
    """The nearest matrix with columns of sum one and lower ≤ entries ≤ ratio · lower.

    Parameters
    ----------
    points
        R, outputs × types.
    lower
        z, one number per output; Σz ≤ 1 ≤ ratio · Σz.
    ratio
        e = exp(ε).

    Examples
    --------
    >>> r, z = np.array([[0.5], [0.2], [0.9]]), np.array([0.1, 0.1, 0.2])
    >>> project(r, z, 3.0).ravel().round(12).tolist()
    [0.3, 0.1, 0.6]
    """
    _check_feasible(lower, ratio)
    if not isinstance(points, np.ndarray) or points.size <= 2 * CACHED:
        return _project(points, lower, ratio)
    projected = np.empty_like(points)
    width = max(CACHED // len(points), 1)
    for start in range(0, points.shape[1], width):
        block = slice(start, start + width)
        projected[:, block] = _project(np.ascontiguousarray(points[:, block]), lower, ratio)
    return projected


def _project(points: AnyArray, lower: AnyArray, ratio: float) -> AnyArray:
    xp = namespace_of(points)
    low = lower[:, None]
    high = ratio * low
    left, right = xp.min(low - points, axis=0), xp.max(high - points, axis=0)
    shift = xp.clip(xp.zeros_like(left), left, right)
    # As exact as a sum of so many numbers can be expected to come out.
    exact = max(4, points.shape[0] // 64) * float(xp.finfo(points.dtype).eps)
    for _ in range(MOST_PASSES):
        moved = points + shift
        excess = xp.sum(xp.clip(moved, low, high), axis=0) - 1.0
        if float(xp.max(xp.abs(excess))) <= exact:
            break
        free = xp.sum(xp.astype((moved > low) & (moved < high), points.dtype), axis=0)
        left, right = xp.where(excess < 0, shift, left), xp.where(excess > 0, shift, right)
        newton = shift - excess / xp.clip(free, 1.0, None)
        inside = (newton > left) & (newton < right) & (free > 0)
        following = xp.where(inside, newton, (left + right) / 2)
        if not bool(xp.any(following != shift)):
            break
        shift = following
    return xp.clip(points + shift, low, high)


def feasible(lower: AnyArray, ratio: float) -> AnyArray:
    """z scaled, if it must be, so that Σz ≤ 1 ≤ ratio · Σz with a hair to spare."""
    total = float(namespace_of(lower).sum(lower))
    if total > 1.0:
        return lower * ((1.0 - 1e-12) / total)
    if ratio * total < 1.0:
        return lower * ((1.0 + 1e-12) / (ratio * total))
    return lower


def _check_feasible(lower: AnyArray, ratio: float) -> None:
    total = float(namespace_of(lower).sum(lower))
    slack = 1e-6 if "32" in str(lower.dtype) else 1e-9
    if not (total <= 1 + slack and ratio * total >= 1 - slack):
        raise PlanError(
            f"no strategy has rows between z and {ratio:g}·z: Σz is {total:g}, and must lie "
            f"between {1 / ratio:g} and 1"
        )


# ---------------------------------------------------------------------- the descent


@dataclass(frozen=True, eq=False)
class Position:
    """A strategy, the lower bounds of its rows, and the objective there."""

    strategy: AnyArray
    lower: AnyArray
    slope: Slope


@dataclass(frozen=True, eq=False)
class Descent:
    """The problem: Gram matrix (normalised), prior, e."""

    gram: AnyArray
    prior: AnyArray
    ratio: float

    @classmethod
    def of(cls, gram: AnyArray, prior: AnyArray, epsilon: float) -> Descent:
        xp = namespace_of(gram)
        scale = float(xp.sum(xp.linalg.diagonal(gram) * prior))
        return cls(gram / scale, prior, exp(epsilon))

    def at(self, strategy: AnyArray, lower: AnyArray) -> Position:
        return Position(strategy, lower, slope(strategy, self.gram, self.prior))

    def step(self, here: Position, length: float) -> Position | None:
        """One step; None where the objective is not defined or jumps."""
        xp = namespace_of(here.strategy)
        gradient = here.slope.gradient
        z_gradient = lower_slope(gradient, here.strategy, here.lower, self.ratio)
        types = here.strategy.shape[1]
        moved = xp.clip(here.lower - (length / (types * self.ratio)) * z_gradient, 0.0, 1.0)
        if not bool(xp.any(moved > 0)):  # no row would be left
            return None
        lower = feasible(moved, self.ratio)
        kept = self.ratio * lower > NEGLIGIBLE_BOUND / lower.shape[0]
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
        xp = namespace_of(start.strategy)
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


def descend(problem: Descent, strategy: AnyArray, lower: AnyArray, steps: int) -> AnyArray:
    """The best strategy found in so many steps from a start (Q, z)."""
    lower = feasible(lower, problem.ratio)
    strategy = project(strategy, lower, problem.ratio)
    try:
        start = problem.at(strategy, lower)
    except (np.linalg.LinAlgError, RuntimeError):  # it does not tell all types apart
        return strategy
    best, _ = problem.run(start, steps, problem.good_length(start))
    return best.strategy


def random_start(
    outputs: int, types: int, epsilon: float, rng: np.random.Generator
) -> tuple[AnyArray, AnyArray]:
    """R uniform in [0, 1], z = (1 + e^−ε)/(2m): always feasible (McKenna et al., Section 4)."""
    lower = np.full(outputs, (1 + exp(-epsilon)) / (2 * outputs))
    return project(rng.random((outputs, types)), lower, exp(epsilon)), lower
