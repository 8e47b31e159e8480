"""Tables of counts that agree with a look, drawn evenly from all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noiseplan.choosing.integer_cost_matrix import cost_of
from noiseplan.choosing.loewner import positive_part
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.release.release import Release

# How far the first point is moved away from the walls x = 0, as a share of the mean count.
INWARD = 0.5


@dataclass(frozen=True, eq=False)
class Region:
    """{x ≥ 0 : xᵀCx − 2bᵀx ≤ level}: an ellipsoid, unbounded where C is singular, and no more
    negative counts."""

    cost: Array
    linear: Array
    level: float
    start: Array

    @classmethod
    def of(cls, look: Release, level: float) -> Region:
        from scipy.optimize import nnls
        from scipy.special import chdtri

        if not 0 < level < 1:
            raise PlanError(f"the level of a region is between 0 and 1, found {level}")
        mechanism = look.plan.mechanism
        cost = cost_of(mechanism)
        rows, values = mechanism.unit_rows(), mechanism.unit_values(look.measurements)
        _, basis = positive_part(cost)
        ones = np.ones(len(cost))
        if np.abs(ones - basis @ (basis.T @ ones)).max() > 1e-7:
            raise PlanError(
                "the look does not tell the total, so the region has no end: take Posterior(), or "
                "plans that measure the total"
            )
        linear = rows.T @ values
        # q(x) = (x̂ − x)ᵀC(x̂ − x), with x̂ the least-squares estimate: what is left of it is noise.
        estimate = basis @ (basis.T @ np.linalg.lstsq(rows, values, rcond=1e-10)[0])
        offset = float(linear @ estimate)
        best, _ = nnls(rows, values, maxiter=50 * len(cost))
        least = float(best @ cost @ best - 2 * linear @ best + offset)
        quantile = float(chdtri(basis.shape[1], 1.0 - level))
        # Estimates far below zero: the region is widened until it has tables of counts in it.
        wide = max(quantile, least + 0.1 * quantile)
        region = cls(cost, linear, wide - offset, best)
        return cls(cost, linear, wide - offset, region._inside(best))

    def excess(self, x: Array) -> Array:
        """q(x) − level, for points as rows: not positive inside."""
        form = np.einsum("...i,...i->...", x @ self.cost - 2 * self.linear, x)
        return np.asarray(form - self.level)

    def _inside(self, best: Array) -> Array:
        """A point away from all walls."""
        middle = np.full(len(best), max(float(best.mean()), 1.0))
        share = INWARD
        while self.excess((1 - share) * best + share * middle) > 0:
            share /= 2
        return np.asarray((1 - share) * best + share * middle)

    def draws(self, count: int, steps: int, generator: np.random.Generator) -> Array:
        """So many points, each the end of a walk of its own, count × cells.

        Notes
        -----
        Hit-and-run along the axes and along differences of two axes: a direction is drawn, and a
        point evenly from the part of that line inside. Evenly distributed points stay so; every
        point can be reached, since the axes span the space.
        """
        cells = len(self.cost)
        x = np.tile(self.start, (count, 1))
        slope = x @ self.cost - self.linear  # half the gradient
        excess = self.excess(x)
        walkers = np.arange(count)
        for _ in range(steps):
            i = generator.integers(cells, size=count)
            j = generator.integers(cells, size=count)
            pair = (generator.random(count) < 0.5) & (i != j)
            # Along e_i or e_i − e_j: q changes by 2 t (slope·d) + t² dᵀCd.
            line = self.cost[i] - np.where(pair[:, None], self.cost[j], 0.0)
            curve = line[walkers, i] - np.where(pair, line[walkers, j], 0.0)
            lean = slope[walkers, i] - np.where(pair, slope[walkers, j], 0.0)
            low = -x[walkers, i]
            high = np.where(pair, x[walkers, j], np.inf)
            root = np.sqrt(np.maximum(lean**2 - curve * np.minimum(excess, 0.0), 0.0))
            with np.errstate(divide="ignore", invalid="ignore"):
                curved = curve > 1e-14 * np.abs(self.cost).max()
                low = np.where(curved, np.maximum(low, (-lean - root) / curve), low)
                high = np.where(curved, np.minimum(high, (-lean + root) / curve), high)
            step = np.where(high > low, low + (high - low) * generator.random(count), 0.0)
            x[walkers, i] += step
            x[walkers, j] -= np.where(pair, step, 0.0)
            np.maximum(x, 0.0, out=x)
            excess = excess + 2 * step * lean + step**2 * curve
            slope += step[:, None] * line
        return x
