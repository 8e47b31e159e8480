"""From tables that nearly agree to tables that agree, none of them negative.

Margins are settled from the smallest to the largest. A table near its goal is brought there in two
movements: lines with too much are scaled down, so that all that is missing, d_S at margin S, is not
negative; then what is missing is added as the table D that has exactly these margins,

    D = Σ_S c_S d_S ⊗ τ_{B∖S} ,     τ_i = d_i / |d| ,   c_S = Σ_{A⊇S} (−1)^{|A∖S|} ,

A running over the margins of B. For two attributes D = d_1 ⊗ d_2 / |d| is never negative and the
goal is met exactly. For more, D may fall below zero by a product of small shares; then a share of a
population that obeys everything public is mixed into all tables, which agree as before, and lifts
what is negative. It is shaped so that the share is small.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from noiseplan.arrays import subsets
from noiseplan.matrices.base import Array
from noiseplan.valid.even_population import Anchor
from noiseplan.valid.family import Set, TableFamily, fit_margin, margin, spread

# Margins that miss each other by less than this share of all records are equal but for rounding.
EXACT = 1e-12
# Around impossible cells tables are fitted by proportions, after mixing in a share that suffices.
ROUNDS = (100, 5000)  # of large tables, of small ones
FITTED = 1e-10
SHARES = (1e-9, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 0.5, 1.0)


@dataclass(eq=False)
class Settling:
    """Tables and margins settled so far, and what part of them is still the data's own."""

    family: TableFamily
    public: Mapping[Set, Array]
    anchor: Anchor
    total: float
    settled: dict[Set, Array] = field(default_factory=dict)
    kept: float = 1.0

    def level(self, near: Mapping[Set, Array], pool: ThreadPoolExecutor) -> None:
        """Settle all tables of one width; those of smaller widths are settled."""
        names = list(near)
        open_names = [s for s in names if self.anchor.possible(s) is None]
        met = pool.map(self._meet, open_names, [near[s] for s in open_names])
        found = dict(zip(open_names, met, strict=True))
        self._mend(found, pool)
        closed = [s for s in names if s not in found]
        if closed:
            self._fit({s: near[s] for s in closed}, pool)

    def _goals(self, name: Set) -> dict[Set, Array]:
        return {facet: self.settled[facet] for facet in self.family.facets[name]}

    # ------------------------------------------------------------------ tables without gaps

    def _meet(self, name: Set, near: Array) -> Array:
        """A table with exactly the settled margins, negative here and there."""
        table = np.array(near)
        goals = self._goals(name)
        for facet, goal in goals.items():
            found = margin(table, name, facet)
            ratio = np.divide(goal, found, out=np.ones_like(goal), where=found > goal)
            table *= spread(ratio, facet, name)
        missing = {f: np.maximum(goal - margin(table, name, f), 0.0) for f, goal in goals.items()}
        if max(float(d.sum()) for d in missing.values()) > EXACT * self.total:
            table += table_with_margins(name, missing, self.anchor)
        return table

    def _mend(self, found: Mapping[Set, Array], pool: ThreadPoolExecutor) -> None:
        """Lift what is negative with as little of an even population as can be."""
        self.settled |= found
        anchor = self.anchor.shaped(_depths(found))

        def need(name: Set) -> float:
            table = found[name]
            negative = table < 0
            if not negative.any():
                return 0.0
            low, lift = -table[negative], anchor.table(name, self.total)[negative]
            return float(np.max(low / (low + lift)))

        self._mix(max(pool.map(need, found), default=0.0), anchor)
        for table in found.values():  # what is left is rounding
            np.maximum(table, 0.0, out=table)

    def _mix(self, share: float, anchor: Anchor) -> None:
        if share <= 0:
            return
        self.kept *= 1.0 - share
        for name, table in self.settled.items():
            if name and name not in self.public:
                table *= 1.0 - share
                table += share * anchor.table(name, self.total)

    # ------------------------------------------------------------------ tables with gaps

    def _fit(self, near: Mapping[Set, Array], pool: ThreadPoolExecutor) -> None:
        """Fit tables with impossible cells, with as much evenness as makes that possible."""
        own, names = dict(self.settled), list(near)
        for share in SHARES:
            self.settled = {s: np.array(t) for s, t in own.items()}
            before = self.kept
            self._mix(share, self.anchor)
            found = list(pool.map(partial(self._fit_one, share), names, near.values()))
            if all(table is not None for table in found):
                break
            self.kept = before
        self.settled |= {s: t for s, t in zip(names, found, strict=True) if t is not None}

    def _fit_one(self, share: float, name: Set, near: Array) -> Array | None:
        even = self.anchor.table(name, self.total)
        table = (1.0 - share) * near * (even > 0) + share * even
        goals = self._goals(name)
        fewest, most = ROUNDS
        for _ in range(int(np.clip(1e8 / table.size, fewest, most))):
            missed = 0.0
            for facet, goal in goals.items():
                gap = fit_margin(table, name, facet, goal)
                missed = max(missed, float(np.abs(gap).sum()))
            if missed <= FITTED * self.total:
                return table
        return even if share >= 1.0 else None


def settle(
    family: TableFamily,
    tables: Mapping[Set, Array],
    public: Mapping[Set, Array],
    anchor: Anchor,
    total: float | None,
) -> tuple[dict[Set, Array], float]:
    """Tables and margins that agree and are not negative, near those given.

    `public` holds margins that are known; `total` the number of records where it is. Returns the
    share of an even population that was mixed in, too.
    """
    starts = _mean_margins(family, tables)
    records = float(starts[()]) if total is None else total
    every = (*family.margins, *family.tables)
    if records <= 0:
        return {s: np.zeros(family.shape(s)) for s in every}, 0.0
    settling = Settling(family, public, anchor, records)
    settling.settled[()] = np.array(records)
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
        for width in range(1, max(map(len, every), default=0) + 1):
            level = [s for s in every if len(s) == width]
            settling.settled |= {s: np.array(public[s]) for s in level if s in public}
            near = {s: starts[s] if s in starts else tables[s] for s in level if s not in public}
            settling.level(near, pool)
    return settling.settled, 1.0 - settling.kept


def _mean_margins(family: TableFamily, tables: Mapping[Set, Array]) -> dict[Set, Array]:
    """Of every margin, the mean of what the tables above it say."""
    found: dict[Set, Array] = {s: np.zeros(family.shape(s)) for s in family.margins}
    for name, table in tables.items():
        known = {name: table}
        for inner in family.below(name):
            # From the smallest table already summed that holds it.
            outer = min((s for s in known if set(inner) <= set(s)), key=family.cells)
            known[inner] = margin(known[outer], outer, inner)
            found[inner] = found[inner] + known[inner]
    return {s: t / max(len(family.above[s]), 1) for s, t in found.items()}


def _depths(tables: Mapping[Set, Array]) -> dict[int, Array]:
    """Of every value, the k-th root of the deepest negative cell of a table of k attributes.

    The product of the depths along a cell's values is at least as deep as the cell.
    """
    found: dict[int, Array] = {}
    for name, table in tables.items():
        if not (table < 0).any():
            continue
        depth = np.maximum(-table, 0.0)
        for axis, i in enumerate(name):
            others = tuple(a for a in range(len(name)) if a != axis)
            deepest = depth.max(axis=others) ** (1.0 / len(name))
            found[i] = np.maximum(found[i], deepest) if i in found else deepest
    return found


def table_with_margins(name: Set, missing: Mapping[Set, Array], anchor: Anchor) -> Array:
    """D, the table whose margins are what is missing."""
    tables: dict[Set, Array] = {}
    for facet, table in missing.items():
        for inner in subsets(facet):
            if inner not in tables:
                tables[inner] = margin(table, facet, inner)
    amount = float(tables[()])
    shares = {i: tables[(i,)] / amount if (i,) in tables else anchor.table((i,), 1.0) for i in name}
    signs = {s: sum((-1) ** (len(a) - len(s)) for a in tables if set(s) <= set(a)) for s in tables}
    # All margins of one attribute or none lead to the same table, the product of all shares.
    product = amount * sum(sign for s, sign in signs.items() if len(s) <= 1)
    found = _times(np.full((1,) * len(name), product), name, shares, name)
    for inner, sign in signs.items():
        if sign and len(inner) > 1:
            piece = sign * spread(tables[inner], inner, name)
            found = found + _times(piece, [i for i in name if i not in inner], shares, name)
    return found


def _times(
    table: Array, attributes: Iterable[int], shares: Mapping[int, Array], name: Set
) -> Array:
    for i in attributes:
        table = table * spread(shares[i], (i,), name)
    return table
