"""One noisy number over another: standard errors, and intervals within what is possible.

Of R̂ = n/d with Var(n) = v, Var(d) = w and Cov(n, d) = c,

    standard error (delta method)   √(v − 2R̂c + R̂²w) / |d|
    T(r)                            (n − rd)² / (v − 2rc + r²w)
    interval                        all possible r with T(r) ≤ z² + min T over possible r

At the true ratio n − rd has mean zero and exactly that variance, so that T ≤ z² there with the
probability `level` wherever the noise is normal, also where d is small: this is Fieller's interval.
The minimum is 0 where R̂ is possible. Where noise made it impossible (a share of 1.1), Fieller's
interval may hold nothing possible, or a sliver that pretends to be exact. What is added there is
that of the test of likelihood ratios among possible r, so that the interval never is empty and
never has less than its level. T has no other minimum than R̂, so that over other r the smallest is
at an end.

The interval is bounded if d is more than √(z² + min T) standard errors from zero; otherwise
everything possible is in it.

References
----------
Fieller (1954), Some problems in interval estimation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from noiseplan.matrices.base import Array

Range: TypeAlias = tuple[float, float]
ANYTHING: Final[Range] = (-np.inf, np.inf)
# A share that is 1 by definition may come out as a little more.
ROUNDING: Final = 1e-9


def inside(ratio: Array, possible: Range) -> NDArray[np.bool_]:
    """Whether ratios are possible, but for rounding."""
    beyond = np.abs(ratio - np.clip(ratio, *possible))
    return np.asarray(beyond <= ROUNDING * np.maximum(np.abs(ratio), 1.0))


@dataclass(frozen=True, eq=False)
class Quotient:
    """Numerators and denominators, the variances v and w of each, and their covariances c.

    Examples
    --------
    >>> n, d, v, c, w = (np.array([x]) for x in (50.0, 100.0, 4.0, 0.0, 0.0))
    >>> known = Quotient(n, d, v, c, w)  # the denominator is known
    >>> [end.item() for end in known.interval(2.0)]
    [0.46, 0.54]
    >>> [end.item() for end in known.interval(2.0, (0.5, 1.0))]
    [0.5, 0.54]
    """

    n: Array
    d: Array
    v: Array
    c: Array
    w: Array

    def delta(self) -> tuple[Array, Array]:
        """n/d and its standard error √(v − 2R̂c + R̂²w) / |d|."""
        with np.errstate(all="ignore"):
            r = self.n / self.d
            return r, np.sqrt(self._variance(r)) / np.abs(self.d)

    def interval(self, z: float, possible: Range = ANYTHING) -> tuple[Array, Array]:
        """The ends of {r possible: T(r) ≤ z² + min T}."""
        reach = z**2 + self._least(possible)
        bounded = self.d**2 > reach * self.w
        ends = self._roots(reach)
        return (
            np.where(bounded, np.clip(ends[0], *possible), possible[0]),
            np.where(bounded, np.clip(ends[1], *possible), possible[1]),
        )

    def _variance(self, r: Array | float) -> Array:
        """That of n − rd."""
        return np.maximum(self.v - 2 * r * self.c + r**2 * self.w, 0.0)

    def _least(self, possible: Range) -> Array:
        """The smallest T among possible ratios: 0 where R̂ is one, else that of an end."""
        with np.errstate(all="ignore"):
            r = self.n / self.d
            nearest = np.minimum(*(self._test(end) for end in possible))
        # Without noise nothing impossible is found, but for the rounding of the last digit.
        return np.where(inside(r, possible) | ~np.isfinite(nearest), 0.0, nearest)

    def _test(self, r: float) -> Array:
        """T(r); at ±∞ its limit d²/w."""
        if not np.isfinite(r):
            return np.asarray(self.d**2 / self.w)
        return np.asarray((self.n - r * self.d) ** 2 / self._variance(r))

    def _roots(self, reach: Array) -> tuple[Array, Array]:
        """Where T(r) = z², for d² > z²w.

        They are (b ∓ √(b² − ag))/a with a = d² − z²w, b = nd − z²c, g = n² − z²v. Large numbers
        cancel in the root, which is why it is written out: z²(d²v − 2ndc + n²w) − z⁴(vw − c²).
        """
        n, d, v, c, w = self.n, self.d, self.v, self.c, self.w
        a, b = d**2 - reach * w, n * d - reach * c
        root = reach * (d**2 * v - 2 * n * d * c + n**2 * w) - reach**2 * (v * w - c**2)
        half = np.sqrt(np.maximum(root, 0.0))
        with np.errstate(all="ignore"):
            return (b - half) / a, (b + half) / a
