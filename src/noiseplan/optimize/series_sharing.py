"""How the sets along a series share what a record may cost, and the totals beside them.

Set A is measured along the values by a series with precision ω_A, which costs p_A N_A of it (N the
squared norm of its longest column), and, where its total counts, by the total itself with precision
τ_A, which costs p_A. By the formula of Sherman and Morrison a sum of row variances is then

    v = Σ_A V_A/ω_A − C_A τ_A/(ω_A(ω_A + s_A τ_A)) ,

V the same for the series alone, C the sum of squared covariances with the total, s the variance of
the total, for ω = 1. Variances are convex in the precisions, and fall as one over all of them: the
problem is solved in their logarithms, each point scaled to the cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.optimize.lbfgs import Smooth, minimise

STEPS, GAIN = 1000, 1e-13
# A total that would take less than this share of the cost is not measured.
FAINT: Final = 1e-6


@dataclass(frozen=True, eq=False)
class Sums:
    """V and C of every sum of variances that counts, × sets."""

    series: Array
    total: Array


@dataclass(frozen=True, eq=False)
class Precisions:
    """ω and τ of every set; τ is zero where the total is not measured."""

    series: Array
    total: Array


@dataclass(frozen=True, eq=False)
class SeriesSharing:
    """What a unit of each precision costs, s of each set, and which have a total."""

    series_price: Array
    total_price: Array
    spread: Array
    totals: Array

    def cost(self, at: Precisions) -> float:
        """Of a record."""
        return float(self.series_price @ at.series + self.total_price @ at.total)

    def variances(self, sums: Sums, at: Precisions) -> Array:
        """v of every sum."""
        return np.asarray(
            sums.series @ (1 / at.series)
            - sums.total @ (at.total / (at.series * (at.series + self.spread * at.total)))
        )

    def best(self, sums: Sums, loss: Smooth, start: Precisions) -> Precisions:
        """The least loss of the variances, at cost one."""

        def value(x: Array) -> tuple[float, Array]:
            at = self._at(x)
            cost = self.cost(at)
            v = self.variances(sums, at)
            result, slope = loss(v * cost)
            both = at.series + self.spread * at.total
            by_series, by_total = slope @ sums.series, slope @ sums.total
            of_series = (
                -by_series + by_total * at.total * (at.series + both) / both**2
            ) / at.series**2
            of_total = -by_total / both**2
            along = float(slope @ v)
            gradient = np.concatenate(
                [
                    at.series * (cost * of_series + along * self.series_price),
                    (at.total * (cost * of_total + along * self.total_price))[self.totals],
                ]
            )
            return float(result) / scale, gradient / scale

        scale = 1.0
        least = 0.01 * start.series * self.series_price / self.total_price
        x = np.log(np.concatenate([start.series, np.maximum(start.total, least)[self.totals]]))
        scale = abs(value(x)[0]) or 1.0
        return self._scaled(self._at(minimise(value, x, steps=STEPS, gain=GAIN)[1]))

    def first(self, sums: Sums, weights: Array) -> Precisions:
        """What is best where no total is measured, and a little for each that may be."""
        worth = np.sqrt(np.maximum(weights @ sums.series, 1e-300) / self.series_price)
        total = np.where(self.totals, 0.1 * worth * self.series_price / self.total_price, 0.0)
        return self._scaled(Precisions(worth, total))

    def _at(self, x: Array) -> Precisions:
        series, total = np.exp(x[: len(self.totals)]), np.zeros(len(self.totals))
        total[self.totals] = np.exp(x[len(self.totals) :])
        return Precisions(series, total)

    def _scaled(self, at: Precisions) -> Precisions:
        """At cost one."""
        cost = self.cost(at)
        return Precisions(at.series / cost, at.total / cost)

    def kept(self, at: Precisions) -> Precisions:
        """Without totals that are hardly measured, at cost one."""
        faint = at.total * self.total_price < FAINT * self.cost(at)
        return self._scaled(Precisions(at.series, np.where(faint, 0.0, at.total)))
