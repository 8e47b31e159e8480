"""Bases of products for replaced records, with columns of any length.

Two records cost Σ_A σ_A⁻² (∏ a_i + ∏ b_i − 2 ∏ c_i), products over the attributes of A, with a_i
and b_i the squared lengths of the columns of their values and c_i the inner product
(`mechanisms.far_pairs`). Columns of equal length are the best that records which come and go can
have; where records are replaced, values that are far from all others may well be longer.

The largest cost is a p-norm over pairs of records that are far apart, looked for anew as p rises.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations, product
from math import prod
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray, distinct_rows
from noiseplan.matrices.base import Array
from noiseplan.matrices.kronecker import kronecker_apply
from noiseplan.mechanisms.far_pairs import MOST_PAIRS, least_before
from noiseplan.optimize.split_coordinates import Chart, Point
from noiseplan.planning.replaced_products import Descent, p_norm
from noiseplan.planning.workload_types import Design, subset_counts

# Rising powers of the norm, pairs of records looked for anew before each, and steps of each.
POWERS: Final = (16.0, 16.0, 50.0, 50.0, 150.0, 150.0, 500.0, 500.0, 1500.0, 1500.0)
# Pairs of records whose cost is within this share of the largest, divided by the power, are looked
# at, and how many; and of how many pairs of values, in bits, they are made.
SLACK, MOST_KEPT, MOST_LISTED = 6.0, 20000, 21
MARGINS: Final = (np.inf, 0.5, 0.2, 0.1, 0.05, 0.02, 0.0)
STEPS: Final = 60


def worth_lengthening(design: Design) -> bool:
    """Whether pairs of records are few enough to be priced: half of all pairs of values may stand
    for others."""
    roles = design.roles.roles
    pairs = [design.group_count(r) ** 2 / 2 if r in design.free else 2.0 for r in range(len(roles))]
    often = zip(roles, pairs, strict=True)
    return prod(many ** len(role.members) for role, many in often) <= MOST_PAIRS


def lengthened(design: Design, rows: dict[int, Array], sigma2: Array) -> dict[int, Array]:
    """U of every free role, from a start with its σ²; what is exact there stays so."""
    chart, noisy = Chart.of(rows, unit=False), np.isfinite(sigma2) & (sigma2 > 0)
    x = np.concatenate([np.log(sigma2[noisy]), chart.pack(rows)])
    records, count = _Records(design), int(noisy.sum())
    found = np.zeros((0, 2, records.many), dtype=np.int64)
    for power in POWERS:
        grams = records.grams(chart.points(x[count:]))
        precision = np.zeros(len(noisy))
        precision[noisy] = np.exp(-x[:count])
        found = np.concatenate([found, records.far(grams, precision, SLACK / power)])
        found = found[distinct_rows(found.reshape(len(found), -1))[0]]
        x = Descent(design, chart, SomePairs(records, found), noisy, power).run(x, STEPS)
    longest = {r: p.rows for r, p in chart.points(x[count:]).items()}
    return {r: u / np.sqrt((u**2).sum(axis=0).max()) for r, u in longest.items()}


class _Records:
    """The attributes of records and the sets that are measured of them."""

    def __init__(self, design: Design) -> None:
        roles = design.roles.roles
        self.role = np.repeat(np.arange(len(roles)), [len(role.members) for role in roles])
        self.many = len(self.role)
        # Of a role that is not free, values that agree or do not.
        self.fixed = {
            r: _plain_gram(role.size if role.plain else 1) for r, role in enumerate(roles)
        }
        values = [
            design.group_count(r) if r in design.free else len(gram)
            for r, gram in self.fixed.items()
        ]
        self.sizes = [values[r] for r in self.role.tolist()]  # of each attribute's Gram matrix
        places = [np.flatnonzero(self.role == r).tolist() for r in range(len(roles))]
        self.sets: list[tuple[int, list[int]]] = [
            (number, [place for part in chosen for place in part])
            for number, counts in enumerate(subset_counts(design).tolist())
            for chosen in product(*map(combinations, places, counts))
        ]

    def grams(self, points: dict[int, Point]) -> dict[int, Array]:
        """UᵀU of every role."""
        return self.fixed | {r: point.rows.T @ point.rows for r, point in points.items()}

    def slopes(self, parts: Array, precision: Array) -> Array:
        """∂/∂a_i Σ_A σ_A⁻² ∏ a_i, and for b and c: of every attribute."""
        result, noise = np.zeros_like(parts), precision.tolist()
        for number, places in self.sets:
            for i in places if noise[number] > 0 else ():
                others = _product(parts, [j for j in places if j != i])
                result[i] += noise[number] * others
        return result

    def far(self, grams: dict[int, Array], precision: Array, slack: float) -> IntArray:
        """Pairs of records that cost almost as much as the farthest: the dearest of them."""
        of_role = self._lists(grams)
        lists = [of_role[r] for r in self.role.tolist()]
        cost = self._costs(grams, lists, precision)
        kept = np.flatnonzero(cost >= (1.0 - slack) * cost.max())
        if len(kept) > MOST_KEPT:
            kept = kept[np.argpartition(-cost.ravel()[kept], MOST_KEPT)[:MOST_KEPT]]
        at = np.unravel_index(kept, cost.shape)
        return self._once(np.stack([p[i] for p, i in zip(lists, at, strict=True)], axis=2))

    def _costs(self, grams: dict[int, Array], lists: list[IntArray], precision: Array) -> Array:
        """What all pairs of records cost that have listed pairs of values, an axis for each."""
        tensor = np.zeros((2,) * self.many)
        for number, places in self.sets:
            tensor[tuple(int(i in places) for i in range(self.many))] += precision[number]
        cost = np.zeros(())
        for (first, second), sign in (((0, 0), 1.0), ((1, 1), 1.0), ((0, 1), -2.0)):
            own = [
                grams[r][pairs[:, first], pairs[:, second]]
                for r, pairs in zip(self.role.tolist(), lists, strict=True)
            ]
            factors = [np.column_stack([np.ones(len(one)), one]) for one in own]
            cost = cost + sign * kronecker_apply(factors, tensor[..., None])[..., 0]
        return cost

    def _lists(self, grams: dict[int, Array]) -> dict[int, IntArray]:
        """Pairs of values of every role: all but those that others are farther than by far."""
        for margin in MARGINS:
            found = {r: _far_apart(gram, margin) for r, gram in grams.items()}
            if sum(np.log2(len(found[r])) for r in self.role.tolist()) <= MOST_LISTED:
                break
        return found

    def _once(self, pairs: IntArray) -> IntArray:
        """Of pairs that differ by the order of records or of attributes alike, one."""
        wide = int(pairs.max(initial=0)) + 1
        codes = np.stack([pairs[:, 0] * wide + pairs[:, 1], pairs[:, 1] * wide + pairs[:, 0]])
        for r in np.unique(self.role).tolist():
            own = self.role == r
            codes[:, :, own] = np.sort(codes[:, :, own], axis=2)
        differ = codes[0] != codes[1]
        at = differ.argmax(axis=1)[:, None]
        ahead = np.take_along_axis(codes[0] <= codes[1], at, axis=1)
        chosen = np.where(ahead, codes[0], codes[1])
        return np.stack(np.divmod(chosen[distinct_rows(chosen)[0]], wide), axis=1)


def _far_apart(gram: Array, margin: float) -> IntArray:
    """Pairs of values, but for those where longer columns have a product smaller by the margin."""
    order = np.argsort(-np.diagonal(gram), kind="stable")
    products = gram[np.ix_(order, order)]
    most = float(products[0, 0])
    near = products < least_before(products) + margin * most
    near[0, 0] = True  # values that agree
    return np.asarray(order[np.argwhere(near)])


def _plain_gram(size: int) -> Array:
    """I − 11ᵀ/n of any two values; of one, nothing is measured."""
    return np.eye(2) - 1.0 / size if size > 1 else np.zeros((1, 1))


@dataclass(frozen=True, eq=False)
class SomePairs:
    """The p-norm of the costs of some pairs of records."""

    records: _Records
    pairs: IntArray

    def cost(
        self, points: dict[int, Point], precision: Array, power: float
    ) -> tuple[float, Array, dict[int, Array]]:
        """The norm, and its slopes by 1/σ² and by every U."""
        records, grams = self.records, self.records.grams(points)
        parts = np.stack(
            [grams[r].take(at) for r, at in zip(records.role.tolist(), self._at, strict=True)]
        )
        rows = self._rows(parts, len(precision))
        norm, weights = p_norm(rows @ precision, power)
        by_part = records.slopes(parts, precision) * weights * self._signs
        by_rows = {}
        for r, point in points.items():
            slope = np.zeros_like(grams[r])
            for i in np.flatnonzero(records.role == r).tolist():
                for at, weight in zip(self._at[i], by_part[i], strict=True):
                    slope += np.bincount(at, weight, slope.size).reshape(slope.shape)
            by_rows[r] = point.rows @ (slope + slope.T)
        return norm, weights @ rows, by_rows

    @cached_property
    def _at(self) -> list[IntArray]:
        """Of each attribute (a, b, c) × pairs: where these stand in the Gram matrix of its role."""
        found = []
        for i, size in enumerate(self.records.sizes):
            x, y = self.pairs[:, 0, i], self.pairs[:, 1, i]
            found.append(np.stack([x * size + x, y * size + y, x * size + y]))
        return found

    @cached_property
    def _signs(self) -> Array:
        return np.array([1.0, 1.0, -2.0])[:, None]

    def _rows(self, parts: Array, types: int) -> Array:
        """Pairs × subset types: what each adds, times σ²."""
        rows = np.zeros((types, len(self.pairs)))
        for number, places in self.records.sets:
            first, second, both = _product(parts, places)
            rows[number] += first + second - 2.0 * both
        return np.ascontiguousarray(rows.T)


def _product(parts: Array, places: list[int]) -> Array:
    """∏ a_i, ∏ b_i and ∏ c_i over some attributes, from (attributes, (a, b, c), pairs)."""
    if not places:
        return np.ones(parts.shape[1:])
    return reduce(np.multiply, [parts[i] for i in places])
