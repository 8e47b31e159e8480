"""Every user reports on one of several tables: for large domains, and where that is better.

Which table is drawn by the device with public chances ρ, so the whole is one ε-private mechanism
with the strategies of the tables, scaled by ρ, on top of each other. A query is answered by every
table that holds its attributes, with weights α of sum one; its mean second moment is
Σ_j α_j² c_j/ρ_j with c_j that of table j alone, least at α_j ∝ ρ_j/c_j. All this is about what a
query's rows differ by between types; their means follow from the number of users, which is known.
The split then minimises

    Σ_q w_q / Σ_j (ρ_j / c_qj) ,

convex in ρ, by the multiplicative steps known from optimal design. The best of all matrices would
never be worse, but over many types it is not found; how much worse the split is at most follows
from lower bounds on each table's queries. Tables that differ in the names of their attributes alone
are planned once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod

import numpy as np
from scipy.sparse import csr_array

from noiseplan.errors import PlanError
from noiseplan.local.localplan import LocalPlan
from noiseplan.local.search.portfolio import Task, best_strategy
from noiseplan.local.search.variance_bounds import row_variance, spread_bound, structured_bound
from noiseplan.local.server.reconstruction import Part, Reconstruction, by_attribute, holders
from noiseplan.local.user_types import (
    Types,
    asked_schema,
    question,
    reduced_workload,
    require_small,
    types_of,
)
from noiseplan.matrices.base import Array
from noiseplan.progress import progress, waiting
from noiseplan.queries import Identity, Query, Workload
from noiseplan.schema import Schema

# Tables are merged up to so many cells: plain ones are planned by shifts, which is fast.
PLAIN_CELLS, OTHER_CELLS = 512, 128
# Merged tables of more shapes than this would take many minutes to plan: they are left as they are.
MOST_MERGED = 150
# A plan proved to be this close to the best is not searched for further, which may take minutes.
NEAR = 0.1
SHARE_STEPS = 2000
Names = frozenset[str]
Search = Callable[[Types], Part]


def plan_split(
    workload: Workload,
    epsilon: float,
    *,
    effort: float = 1.0,
    seed: int = 0,
    cells: int | None = None,
    backend: str = "numpy",
) -> LocalPlan:
    """Choose tables, plan each, and split the users so that the workload's error is least.

    `cells` is how large a table may grow by merging smaller ones; otherwise the better of tables as
    they are asked for, and of merged ones.
    """
    started = time.perf_counter()
    if cells is not None and (isinstance(cells, bool) or not isinstance(cells, int) or cells < 1):
        raise PlanError(f"cells is how large a table may grow, at least 1; found {cells!r}")
    workload = reduced_workload(workload, asked_schema(workload))
    task = partial(Task, effort=effort, seed=seed, backend=backend, numbered=True)

    def search(types: Types) -> Part:
        return Part(types, best_strategy(task(types, epsilon, types.uniform)).strategy)

    whole, best = structured_bound(workload, epsilon), None
    for tables in _choices(workload, cells):
        made = split_over(workload, tables, search)
        uniform = tuple(part.types.uniform for part in made.parts)
        # Over the whole domain through the queries' factors, or each table's queries on their own.
        bound = max(whole, _sum_of_bounds(workload, made, epsilon))
        took = time.perf_counter() - started
        plan = LocalPlan(workload, made, epsilon, True, uniform, bound, took)
        best = plan if best is None else min(best, plan, key=lambda plan: plan.value)
        if best.gap <= NEAR:
            break
    assert best is not None
    return replace(best, seconds=time.perf_counter() - started)


def _choices(workload: Workload, cells: int | None) -> Iterator[list[Names]]:
    """Sets of tables to try: merged up to so many cells, or the usual sizes and not at all.

    Tables of categories first merged, since shifts plan them well; others first as they are.
    """
    if cells is not None:
        yield choose_tables(workload, cells)
        return
    plain = plain_tables(workload)
    merged = choose_tables(workload, PLAIN_CELLS if plain else OTHER_CELLS)
    apart = choose_tables(workload, 1)
    if set(merged) == set(apart) or _shapes(workload.schema, merged) > MOST_MERGED:
        yield apart
    else:
        yield from (merged, apart) if plain else (apart, merged)


def _shapes(schema: Schema, tables: Sequence[Names]) -> int:
    """About how many tables have to be searched for: those of one shape are mostly equal."""
    order = schema.names
    return len({tuple(schema[name].size for name in order if name in table) for table in tables})


def plain_tables(workload: Workload) -> bool:
    """Whether tables of categories are asked for and nothing else: shifts plan these fast."""
    plain = all(isinstance(factor, Identity) for factor in workload.columns.distinct)
    return plain and not workload.columns.matrices


def split_over(workload: Workload, tables: Sequence[Names], search: Search) -> Reconstruction:
    """Plan every table for the queries it holds, equal ones once, and share out the users."""
    inside: list[list[int]] = [[] for _ in tables]
    held = by_attribute(tables)
    for q, query in enumerate(workload):
        for j in holders(held, query.attributes, len(tables)):
            inside[j].append(q)
    planned: dict[Hashable, Part] = {}
    parts = []
    with waiting("planning reports"), progress("planning tables", len(tables)) as advance:
        for positions in inside:
            asked = workload.subset(positions)
            schema = asked_schema(asked)
            alike = schema.shape, tuple((question(q, schema), q.weight) for q in asked)
            if alike not in planned:
                planned[alike] = search(types_of(asked))
            like = planned[alike]
            parts.append(replace(like, types=replace(like.types, schema=schema)))
            advance(1)
    made = Reconstruction(tuple(parts), split=True)
    shares = best_shares(*_gains(workload, made))
    shared = [replace(part, share=float(s)) for part, s in zip(parts, shares, strict=True)]
    return replace(made, parts=tuple(shared))


def _gains(workload: Workload, made: Reconstruction) -> tuple[csr_array, Array]:
    """1/c of each query (row) from each table, and weights; without queries that cost nothing."""
    rows: list[int] = []
    columns: list[int] = []
    gains: list[float] = []
    weights: list[float] = []
    for query in workload:
        costs = {j: made.parts[j].mean_moment(query) for j in made.holders(query)}
        if min(costs.values()) > 0:  # the others ask for nothing but the number of users
            rows += [len(weights)] * len(costs)
            columns += costs
            gains += [1 / cost for cost in costs.values()]
            weights.append(query.weight)
    shape = len(weights), len(made.parts)
    return csr_array((gains, (rows, columns)), shape=shape), np.array(weights)


def choose_tables(workload: Workload, limit: int) -> list[Names]:
    """Sets of attributes, each query inside at least one, merged while they stay small.

    Merging never raises the least possible error, since one report then serves more queries; so
    sets go, the largest first, to the table they share most with, as long as it fits.
    """
    schema = workload.schema
    merging = _Merging(dict(zip(schema.names, schema.shape, strict=True)), limit)
    for names in sorted(_maximal(workload), key=lambda s: (-merging.size(s), sorted(s))):
        require_small(schema, names)
        merging.add(names)
    return merging.tables


@dataclass(eq=False)
class _Merging:
    sizes: Mapping[str, int]  # of attributes
    limit: int  # cells of a table that is merged
    tables: list[Names] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)  # of each table
    holding: dict[str, set[int]] = field(default_factory=dict)  # tables by attribute

    def size(self, names: Names) -> int:
        """Cells of a table of these attributes."""
        return prod(self.sizes[name] for name in names)

    def add(self, names: Names) -> None:
        """Merge a set of attributes with a table, or make it one."""
        j = self._best_fit(names)
        if j is None:
            j = len(self.tables)
            self.tables.append(names)
            self.cells.append(0)
        self.tables[j] |= names
        self.cells[j] = self.size(self.tables[j])
        for name in names:
            self.holding.setdefault(name, set()).add(j)

    def _best_fit(self, names: Names) -> int | None:
        """The table that shares most with these, then the smallest, then the first."""
        # Those that share nothing are looked at only if even the smallest of all would fit.
        any_fits = self.size(names) * min(self.cells, default=0) <= self.limit
        sharing = set().union(*(self.holding.get(name, set()) for name in names))
        looked_at = range(len(self.tables)) if any_fits else sorted(sharing)
        merged = {j: self.cells[j] * self.size(names - self.tables[j]) for j in looked_at}
        fitting = [j for j, cells in merged.items() if cells <= self.limit]
        liking = {j: (len(self.tables[j] & names), -merged[j]) for j in fitting}
        return max(fitting, key=lambda j: liking[j], default=None)


def _maximal(workload: Workload) -> list[Names]:
    """The sets of attributes asked about that lie in no other."""
    wanted = {frozenset(query.attributes) for query in workload}
    around: dict[str, list[Names]] = {}
    for names in wanted:
        for name in names:
            around.setdefault(name, []).append(names)

    def others(names: Names) -> Iterable[Names]:
        """Those that share the attribute which the fewest have."""
        return min((around[name] for name in names), key=len, default=wanted)

    return [names for names in wanted if not any(names < other for other in others(names))]


def _sum_of_bounds(workload: Workload, made: Reconstruction, epsilon: float) -> float:
    """What each table's queries cost at least as if all users reported on it alone, added up."""
    first: dict[int, list[Query]] = {}
    for query in workload:
        first.setdefault(made.holders(query)[0], []).append(query)
    known: dict[Hashable, float] = {}
    total = 0.0
    for j, mine in first.items():
        part, types = made.parts[j], made.parts[j].types
        asked = tuple((question(query, types.schema), query.weight) for query in mine)
        alike = id(part.known), asked
        if alike not in known:
            gram = sum((q.weight * part.gram(q) for q in mine), np.zeros_like(types.gram))
            c = row_variance(len(types.kind), epsilon)
            known[alike] = max(spread_bound(gram, types.uniform, c), 0.0)
        total += known[alike]
    return total


def best_shares(gains: csr_array, weights: Array) -> Array:
    """ρ of least Σ_q w_q/Σ_j(ρ_j g_qj), g = 1/c: 0 where table j cannot answer q.

    ρ_j ← ρ_j √(slope_j), scaled to sum one: never uphill for such sums of reciprocals.
    """
    tables = gains.shape[1]
    shares = np.full(tables, 1.0 / tables)
    if not len(weights):
        return shares
    for _ in range(SHARE_STEPS):
        reached = gains @ shares
        slope = gains.T @ (weights / reached**2)
        moved = shares * np.sqrt(slope)
        moved /= moved.sum()
        if np.abs(moved - shares).max() < 1e-12:
            break
        shares = moved
    # A table that serves almost nobody would only make a device's file longer.
    kept = np.maximum(shares, 1e-9)
    return np.asarray(kept / kept.sum())
