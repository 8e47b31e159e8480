"""The weights at which the best shares are proved best, by an interior point.

With the precisions p = e^y of the subset types, R the rows' variances and P the neighbours' costs,

    minimise  s   subject to   log Σ_a R_ja e^{−y_a} ≤ s ,   log Σ_a P_ka e^{y_a} ≤ 0

is the problem of the largest variance in logarithms: a geometric program, convex in (y, s). Its
multipliers are the weights λ of the rows and θ of the neighbours at which bound and plan meet.

References
----------
S. Boyd, L. Vandenberghe, Convex Optimization, sections 4.5 and 11.7; S. Mehrotra (1992) for the
step that foretells the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from noiseplan.matrices.base import Array

# Above this many numbers to multiply in a step, plain steps are as fast.
LARGEST = 20_000_000
_STEPS = 60
_FAR = 5.0  # the most that a logarithm moves in one step


def approached(rows: Array, privacy: Array) -> Iterator[tuple[Array, Array]]:
    """λ and θ, each summing to one, on the way to the largest T(λ, θ) of
    :func:`~noiseplan.optimize.allocation.share_for_worst`.

    Rounding ends the approach some 10⁻⁹ before the end, and leads away from it afterwards: whoever
    asks knows from bound and value when to stop. There is nothing to come near to where no row
    asks for anything that costs something.
    """
    used = (rows.max(axis=0) > 0) & (privacy.max(axis=0) > 0)
    asked, paid = rows[:, used].any(axis=1), privacy[:, used].any(axis=1)
    if not asked.any():
        return
    weights, shares = np.zeros(len(rows)), np.zeros(len(privacy))
    for prices in _multipliers(rows[np.ix_(asked, used)], privacy[np.ix_(paid, used)]):
        weights[asked], shares[paid] = prices[: asked.sum()], prices[asked.sum() :]
        yield weights / weights.sum(), shares / shares.sum()


@dataclass(frozen=True, eq=False)
class _Point:
    """(y, s), what each constraint has left, and what it is worth."""

    place: Array
    slack: Array
    price: Array

    def moved(self, step: _Point, longest: float) -> _Point:
        """As far along a step as slacks and prices stay positive."""
        far = min(longest, _room(self.slack, step.slack), _room(self.price, step.price))
        return _Point(
            self.place + far * step.place,
            self.slack + far * step.slack,
            self.price + far * step.price,
        )

    @property
    def gap(self) -> float:
        """The mean of slack times price."""
        return float(self.slack @ self.price) / len(self.slack)


def _room(at: Array, step: Array) -> float:
    falling = step < 0
    return min(1.0, 0.99 * float(np.min(-at[falling] / step[falling]))) if falling.any() else 1.0


def _multipliers(rows: Array, privacy: Array) -> Iterator[Array]:
    """The prices of all constraints, of the rows first, for the variances and costs themselves."""
    terms = np.concatenate([rows, privacy])
    sign = np.where(np.arange(len(terms)) < len(rows), -1.0, 1.0)[:, None]
    point = _begin(rows, privacy)
    for _ in range(_STEPS):
        parts = terms * np.exp(sign * point.place[:-1])
        sums = parts.sum(axis=1)
        # The constraints are about logarithms: a price for the sum itself is divided by the sum.
        yield point.price / sums
        slopes = np.concatenate([sign * parts / sums[:, None], np.minimum(sign, 0.0)], axis=1)
        excess = np.log(sums) - np.where(sign[:, 0] < 0, point.place[-1], 0.0) + point.slack
        try:
            point = _ahead(point, slopes, excess)
        except np.linalg.LinAlgError:
            return
        if not (np.isfinite(point.place).all() and np.isfinite(point.price).all()):
            return


def _begin(rows: Array, privacy: Array) -> _Point:
    place = 0.5 * np.log(rows.mean(axis=0) / privacy.mean(axis=0))
    place -= np.log((privacy @ np.exp(place)).max())
    level = np.log((rows @ np.exp(-place)).max())
    price = np.repeat([1.0 / len(rows), 1.0 / len(privacy)], [len(rows), len(privacy)])
    return _Point(np.append(place, level), np.ones(len(price)), price)


@np.errstate(all="ignore")  # what is not finite ends the approach
def _ahead(point: _Point, slopes: Array, excess: Array) -> _Point:
    """One step of Newton's method towards slack · price = a part of what it is now.

    The part is foretold by a step towards zero, whose own product is then taken off: the farther
    that step can go, the smaller the part.
    """
    towards = _newton(point, slopes, excess)
    straight = towards(point.slack * point.price)
    reached = point.moved(straight, 1.0)
    part = max((reached.gap / point.gap) ** 3, 1e-3)
    bent: Array | float = straight.slack * straight.price
    if reached.gap > 0.7 * point.gap:  # it came to nothing: stay clear of the walls instead
        part, bent = max(part, 0.3), 0.0
    step = towards(point.slack * point.price + bent - part * point.gap)
    return point.moved(step, _FAR / max(float(np.abs(step.place).max()), 1e-300))


def _newton(point: _Point, slopes: Array, excess: Array) -> Callable[[Array], _Point]:
    """The step that changes slack · price by minus a given amount, and mends all else."""
    own = slopes[:, :-1]
    curved = slopes.T @ ((point.price / point.slack)[:, None] * slopes)
    curved[:-1, :-1] += np.diag(point.price @ np.abs(own)) - own.T @ (point.price[:, None] * own)
    scale = 1.0 / np.sqrt(np.diag(curved) + 1e-300)
    inverse = np.linalg.inv(curved * scale * scale[:, None] + 1e-15 * np.eye(len(curved)))
    lost = slopes.T @ point.price
    lost[-1] += 1.0

    def solved(right: Array) -> Array:
        first = scale * (inverse @ (scale * right))
        return first + scale * (inverse @ (scale * (right - curved @ first)))

    def towards(product: Array) -> _Point:
        place = -solved(lost + slopes.T @ ((point.price * excess - product) / point.slack))
        slack = -excess - slopes @ place
        return _Point(place, slack, (-product - point.price * slack) / point.slack)

    return towards
