"""Which tables to measure together: greedy merging, where no symmetry says so.

If every residual is heard from one table alone, the best shares of ε give the total variance

    2 (Σ_T (q_T² w_T ∏_{i∈T} 1/c_i)^{1/3})³ ,     w_T = Σ over its residuals of V_a ∏_{i∈a} c_i .

So a table may be grown by an attribute and swallow all tables inside it; that pays where the cube
roots of those add up to more than that of the larger table. Attributes that are alike need not be
treated alike: thirty triples can tell what a hundred pairs do.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.planning.attribute_strategies import RoleStrategy
from noiseplan.planning.workload_types import Design

# So many tables and attributes at most; larger tables have no more cells than this.
MOST_TABLES: Final = 1500
MOST_ATTRIBUTES: Final = 62
MOST_CELLS: Final = 1 << 14
# Comparisons of tables in one go, and in all tries together; how different tries are.
AT_ONCE: Final = 1 << 24
COMPARISONS: Final = 1 << 25
MOST_TRIES: Final = 100
DISORDER: Final = 0.1


def merged_tables(
    design: Design, strategies: dict[int, RoleStrategy], variance: Array
) -> tuple[list[tuple[int, ...]], Array]:
    """Sets of roles to measure, and the share of ε of each. Every role has one attribute."""
    if len(design.roles.roles) > MOST_ATTRIBUTES:
        return [], np.zeros(0)
    sets, weights = _outermost(design, strategies, variance)
    if not 1 < len(sets) <= MOST_TABLES:
        return [], np.zeros(0)
    merger, rng = _Merger(design, strategies), np.random.default_rng(0)
    tries = max(1, min(MOST_TRIES, COMPARISONS // (len(sets) ** 2 * len(merger.bits))))
    found = [merger.merge(sets, weights, rng) for _ in range(tries)]
    best, roots = min(found, key=lambda one: float(one[1].sum()))
    keys = [tuple(r for r in range(len(merger.bits)) if mask >> r & 1) for mask in best.tolist()]
    return keys, roots / roots.sum()


def _outermost(
    design: Design, strategies: dict[int, RoleStrategy], variance: Array
) -> tuple[IntArray, Array]:
    """Needed sets that no other contains, as bit masks, and w of each: of the first that has it."""
    log_total = _log_totals(strategies)
    rows = design.terms.subset_roles[variance > 0]
    inside = rows >= 0
    masks = np.where(inside, np.int64(1) << np.maximum(rows, 0), 0).sum(axis=1)
    weights = variance[variance > 0] * np.exp(-np.where(inside, log_total[rows], 0.0).sum(axis=1))
    order = np.argsort(-inside.sum(axis=1), kind="stable")
    masks, weights = masks[order], weights[order]
    tables: list[int] = []
    total: list[float] = []
    for mask, weight in zip(masks.tolist(), weights.tolist(), strict=True):
        home = next((k for k, table in enumerate(tables) if mask & ~table == 0), None)
        if home is None:
            tables.append(mask)
            total.append(weight)
        else:
            total[home] += weight
    return np.array(tables, dtype=np.int64), np.array(total)


def _log_totals(strategies: dict[int, RoleStrategy]) -> Array:
    return np.log([float(strategies[r].view.total or 1.0) for r in range(len(strategies))])


class _Merger:
    """Sets of roles as bit masks, with what they cost."""

    def __init__(self, design: Design, strategies: dict[int, RoleStrategy]) -> None:
        count = len(design.roles.roles)
        norms = np.log([float(strategies[r].norm) for r in range(count)])
        self.per_role = _log_totals(strategies) + 2 * norms  # of q² ∏ 1/c
        self.cells = np.log([float(strategies[r].view.rows) for r in range(count)])
        self.bits = np.int64(1) << np.arange(count)

    def merge(
        self, sets: IntArray, weights: Array, rng: np.random.Generator
    ) -> tuple[IntArray, Array]:
        """Grow tables until that gains nothing; the tables, and the cube root of each's cost.

        Which of several good steps comes first matters later, and chance decides: how much a step's
        own cost counts against its gain, and a little for each step.
        """
        caution = float(rng.uniform(0.0, 1.0))
        while True:
            grown = self.grow(sets, weights, caution, rng)
            if grown is None:
                return sets, np.cbrt(np.exp(self.log_size(sets)) * weights)
            sets, weights = grown

    def log_size(self, sets: IntArray) -> Array:
        """log(q_T² ∏_{i∈T} 1/c_i)."""
        return np.asarray(self._members(sets) @ self.per_role)

    def _members(self, sets: IntArray) -> Array:
        return np.asarray((sets[:, None] & self.bits) != 0, dtype=float)

    def grow(
        self, sets: IntArray, weights: Array, caution: float, rng: np.random.Generator
    ) -> tuple[IntArray, Array] | None:
        """Grow tables by one attribute each, the most gainful first; None where none gains."""
        roots = np.cbrt(np.exp(self.log_size(sets)) * weights)
        larger = np.unique((sets[:, None] | self.bits).ravel())
        larger = larger[~np.isin(larger, sets)]
        larger = larger[self._members(larger) @ self.cells <= np.log(MOST_CELLS)]
        if not len(larger):
            return None
        swallowed = self._inside(sets, larger)
        merged = np.cbrt(np.exp(self.log_size(larger)) * (swallowed @ weights))
        gain: Array = swallowed @ roots - merged
        order = np.argsort(-gain / merged**caution * np.exp(DISORDER * rng.normal(size=len(gain))))
        free, chosen = np.ones(len(sets), dtype=bool), []
        for k in order[gain[order] > 1e-9 * roots.sum()]:
            mine = swallowed[k]
            if free[mine].all():
                free &= ~mine
                chosen.append(k)
        if not chosen:
            return None
        picked = np.array(chosen)
        return (
            np.concatenate([sets[free], larger[picked]]),
            np.concatenate([weights[free], swallowed[picked] @ weights]),
        )

    def _inside(self, sets: IntArray, larger: IntArray) -> NDArray[np.bool_]:
        """Which sets lie inside which larger ones, larger × sets."""
        step = max(AT_ONCE // len(sets), 1)
        return np.concatenate(
            [
                (sets & ~larger[start : start + step, None]) == 0
                for start in range(0, len(larger), step)
            ]
        )
