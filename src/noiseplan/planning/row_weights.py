"""Weights on single rows, which turn a bound on sums of variances into one on other norms of them.

For weights w ≥ 0 on the rows, ‖v‖_p ≥ Σ w v / ‖w‖_q with 1/p + 1/q = 1; the largest variance is
p = ∞, q = 1. At the optimum of a p-norm the weights w = v^{p−1} make this an equality. They are
taken as products over the attributes of a table, ω of each factor times one number for each type of
table: then the weighted sum is the total variance of a workload of the same structure,

    Σ w v = Σ_t W_t tr ⊗(W_iᵀ diag(ω_i) W_i) Σ .
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from noiseplan.arrays import first_of
from noiseplan.matrices.base import Array
from noiseplan.planning.row_terms import (
    grid_variances,
    plain_rows,
    plain_types,
    row_points,
    row_types,
)
from noiseplan.planning.workload_types import Design

# Rows of one table that are looked at one by one.
MOST_ROWS = 1 << 20
# No weight is lost for good: a row may come back.
FAINT, TINY = 1e-12, 1e-300


@dataclass(frozen=True, eq=False)
class RowWeights:
    """w of a row: that of its type, times ω of its row in each factor (which add up to one)."""

    design: Design
    types: Array
    factors: dict[int, Array]

    @staticmethod
    def even(design: Design) -> RowWeights:
        """All rows alike, but none of dense matrices."""
        types = np.where(design.roles.type_joint < 0, 1.0, 0.0)
        factors = {
            pair: np.ones(design.roles.pair_matrix(pair).shape[0])
            for pair, gram in enumerate(design.grams)
            if gram is not None
        }
        return RowWeights(design, types, factors).scaled()

    def scaled(self) -> RowWeights:
        """The same with ω that add up to one."""
        types, factors = self.types.copy(), {}
        for pair, each in self.factors.items():
            times = (self.design.roles.types == pair).sum(axis=1)
            types *= each.sum() ** times
            factors[pair] = each / each.sum()
        return replace(self, types=types, factors=factors)

    def to_the(self, power: float) -> RowWeights:
        """Powers of the weights."""
        factors = {pair: each**power for pair, each in self.factors.items()}
        types = np.where(self.types > 0, self.types, 1.0) ** power * (self.types > 0)
        return replace(self, types=types, factors=factors).scaled()

    def norm(self, q: float) -> float:
        """‖w‖_q over all rows of all queries."""
        with np.errstate(divide="ignore"):
            logs = q * np.log(self.types) + np.log(self.design.roles.type_count)
        for pair, role in enumerate(self.design.roles.pair_role):
            times = (self.design.roles.types == pair).sum(axis=1)
            each = self.factors.get(pair, np.ones(self.design.roles.roles[role].size))
            logs += times * np.log((each**q).sum())
        return float(np.exp(logs).sum() ** (1 / q))

    def weighted(self) -> Design:
        """The design whose total variance is Σ w · priority · variance."""
        design = self.design
        grams = list(design.grams)
        for pair, each in self.factors.items():
            first = first_of(design.groups[int(design.roles.pair_role[pair])])
            rows = design.roles.pair_matrix(pair).dense()[:, first]
            grams[pair] = (rows.T * each) @ rows
        roles = replace(design.roles, type_priority=design.roles.type_priority * self.types)
        return replace(design, given_grams=tuple(grams), roles=roles)

    def moved(self, inverses: dict[int, Array], sigma2: Array, power: float) -> RowWeights:
        """Every ω and every type by the mean of variance^power of their rows, under w."""
        design, priority = self.design, self.design.roles.type_priority
        points, types, plain = row_points(design, inverses), self.types.copy(), plain_types(design)
        types[plain] *= (priority[plain] * (plain_rows(design, inverses) @ sigma2)) ** power
        sums = {pair: np.zeros((2, len(each))) for pair, each in self.factors.items()}
        for row in row_types(design):
            if row.joint >= 0 or np.prod([len(points[p]) for p in row.pairs]) > MOST_ROWS:
                continue
            own = np.where(row.subsets >= 0, sigma2[row.subsets], 0.0)
            grid = priority[row.number] * grid_variances([points[p] for p in row.pairs], own)
            each = [self.factors.get(p, np.ones(len(points[p]))) for p in row.pairs]
            weight = reduce(np.multiply.outer, each)
            scaled = weight * grid**power
            count = self.types[row.number] * design.roles.type_count[row.number]
            for axis, pair in enumerate(row.pairs):
                if pair in sums:
                    others = tuple(i for i in range(grid.ndim) if i != axis)
                    sums[pair][0] += count * scaled.sum(axis=others)
                    sums[pair][1] += count * weight.sum(axis=others)
            types[row.number] *= scaled.sum() / weight.sum()
        factors = {p: each * _ratio(*sums[p]) for p, each in self.factors.items()}
        return RowWeights(design, types / types.max(), factors).scaled()


def _ratio(above: Array, below: Array) -> Array:
    """Means by row, in units of the mean of all: how large a table's are is its type's matter."""
    if not above.sum() > 0:
        return np.ones(len(above))
    mean = above.sum() / below.sum()
    return np.asarray(np.maximum(above / np.maximum(below, TINY) / mean, FAINT))
