"""All tables of counts that agree with a look."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from noiseplan.choosing.cost_matrices import cost_of
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.optimize.integer_cost_matrix import root_rows
from noiseplan.release.release import Release

# How far the first point is moved away from the walls x = 0, as a share of the mean count.
INWARD = 0.5


@dataclass(frozen=True, eq=False)
class Region:
    """{x ≥ 0 : |B(x − x̂)|² ≤ z}: an ellipsoid, without end where B tells nothing, and no more
    negative counts."""

    rows: Array
    estimate: Array
    size: float
    start: Array
    shape: tuple[int, ...]  # of the table of counts

    @classmethod
    def of(cls, look: Release, level: float) -> Region:
        from scipy.optimize import nnls
        from scipy.special import chdtri

        if not 0 < level < 1:
            raise PlanError(f"the level of a region is between 0 and 1, found {level}")
        mechanism = look.plan.mechanism
        rows = root_rows(cost_of(mechanism))
        if not _tell_the_total(rows):
            raise PlanError(
                "the look does not tell the total, so the region has no end: take Posterior(), or "
                "plans that measure the total"
            )
        measured = mechanism.unit_rows(), mechanism.unit_values(look.measurements)
        estimate = np.asarray(np.linalg.lstsq(*measured, rcond=1e-10)[0], dtype=np.float64)
        best, _ = nnls(rows, rows @ estimate, maxiter=50 * rows.shape[1])
        least = float(np.sum((rows @ (best - estimate)) ** 2))
        quantile = float(chdtri(len(rows), 1.0 - level))
        # Estimates far below zero: the region is widened until it has tables of counts in it.
        wide = max(quantile, least + 0.1 * quantile)
        region = cls(rows, estimate, wide, best, mechanism.schema.shape)
        return replace(region, start=region._inside(best))

    def away(self, x: Array) -> Array:
        """B(x − x̂), for points as rows: no longer than √z inside."""
        return np.asarray((x - self.estimate) @ self.rows.T)

    def _inside(self, best: Array) -> Array:
        """A point away from all walls."""
        middle = np.full(len(best), max(float(best.mean()), 1.0))
        share = INWARD
        while np.sum(self.away((1 - share) * best + share * middle) ** 2) > self.size:
            share /= 2
        return np.asarray((1 - share) * best + share * middle)


def _tell_the_total(rows: Array) -> bool:
    ones = np.ones(rows.shape[1])
    found = np.linalg.lstsq(rows.T, ones, rcond=None)[0]
    return bool(np.abs(ones - rows.T @ found).max() <= 1e-7)
