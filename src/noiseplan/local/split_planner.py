"""Domains too large for one matrix: every user reports on one of several tables.

Which table is drawn by the device with public chances ρ, so the whole is one ε-private mechanism
with the strategies of the tables, scaled by ρ, on top of each other. A query is answered by every
table that holds its attributes, with weights α of sum one; its mean second moment is
Σ_j α_j² c_j/ρ_j with c_j that of table j alone, least at α_j ∝ ρ_j/c_j. All this is about what a
query's rows differ by between types; their means follow from the number of users, which is known.
The split then minimises

    Σ_q w_q / Σ_j (ρ_j / c_qj) ,

convex in ρ, by the multiplicative steps known from optimal design. One large matrix would never be
worse; how much worse the split is at most follows from lower bounds on each table's queries.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.local.device.randomizer import LARGEST_TABLE
from noiseplan.local.localplan import LocalPlan
from noiseplan.local.search.portfolio import Task, best_strategy
from noiseplan.local.search.variance_bounds import row_variance, spread_bound, structured_bound
from noiseplan.local.server.reconstruction import Part, Reconstruction
from noiseplan.local.user_types import asked_schema, reduced_workload, types_of
from noiseplan.matrices.base import Array
from noiseplan.progress import progress
from noiseplan.queries import Identity, Workload
from noiseplan.schema import Schema

# Tables are merged up to so many cells: plain ones are planned by shifts, which is fast.
PLAIN_CELLS, OTHER_CELLS = 512, 128
SHARE_STEPS = 2000
Names = frozenset[str]


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

    `cells` is how large a table may grow by merging smaller ones.
    """
    started = time.perf_counter()
    if cells is not None and (isinstance(cells, bool) or not isinstance(cells, int) or cells < 1):
        raise PlanError(f"cells is how large a table may grow, at least 1; found {cells!r}")
    schema = asked_schema(workload)
    workload = reduced_workload(workload, schema)
    plain = all(isinstance(factor, Identity) for factor in workload.columns.distinct)
    usual = PLAIN_CELLS if plain and not workload.columns.matrices else OTHER_CELLS
    tables = choose_tables(workload, usual if cells is None else cells)
    search = partial(Task, effort=effort, seed=seed, backend=backend, numbered=True)
    with progress("planning tables", len(tables)) as advance:
        parts = []
        for names in tables:  # each planned for the queries it can answer
            inside = [q for q, query in enumerate(workload) if set(query.attributes) <= names]
            types = types_of(workload.subset(inside))
            found = best_strategy(search(types, epsilon, types.uniform))
            parts.append(Part(types, found.strategy))
            advance(1)
    costs = np.array([[part.mean_moment(query) for part in parts] for query in workload])
    uncertain = costs.min(axis=1) > 0  # the others ask for nothing but the number of users
    shares = best_shares(costs[uncertain], workload.columns.weights[uncertain])
    parts = [replace(part, share=float(s)) for part, s in zip(parts, shares, strict=True)]
    made = Reconstruction(tuple(parts), split=True)
    uniform = tuple(part.types.uniform for part in parts)
    # Over the whole domain through the queries' factors, or each table's queries on their own.
    bound = max(structured_bound(workload, epsilon), _sum_of_bounds(workload, parts, epsilon))
    took = time.perf_counter() - started
    return LocalPlan(workload, made, epsilon, True, uniform, bound, took)


def choose_tables(workload: Workload, limit: int) -> list[Names]:
    """Sets of attributes, each query inside at least one, merged while they stay small.

    Merging never raises the least possible error, since one report then serves more queries; so
    sets go, the largest first, to the table they share most with, as long as it fits.
    """
    schema = workload.schema
    wanted = {frozenset(query.attributes) for query in workload}
    maximal = [s for s in wanted if not any(s < other for other in wanted)]
    maximal.sort(key=lambda s: (-_cells(schema, s), sorted(s)))
    tables: list[Names] = []
    for names in maximal:
        if _cells(schema, names) > LARGEST_TABLE:
            raise PlanError(
                f"the table of {sorted(names)} has {_cells(schema, names):,} cells, and a report "
                f"can be about {LARGEST_TABLE:,} at most: ask for smaller tables, or declare "
                f"coarser values (Binned with fewer edges, categories grouped)"
            )
        fitting = [t for t in tables if _cells(schema, t | names) <= limit]
        best = max(
            fitting, key=lambda t: (len(t & names), -_cells(schema, t | names)), default=None
        )
        if best is None:
            tables.append(names)
        else:
            tables[tables.index(best)] = best | names
    return tables


def _cells(schema: Schema, names: Names) -> int:
    return prod(schema[name].size for name in names)


def _sum_of_bounds(workload: Workload, parts: Sequence[Part], epsilon: float) -> float:
    """What each table's queries cost at least as if all users reported on it alone, added up."""
    total = 0.0
    left = list(workload)
    for part in parts:
        mine = [q for q in left if part.holds(q)]
        left = [q for q in left if not part.holds(q)]
        if not mine:
            continue
        types = part.types
        gram = sum((q.weight * part.gram(q) for q in mine), np.zeros_like(types.gram))
        c = row_variance(len(types.kind), epsilon)
        total += max(spread_bound(gram, types.uniform, c), 0.0)
    return total


def best_shares(costs: Array, weights: Array) -> Array:
    """ρ of least Σ_q w_q/Σ_j(ρ_j/c_qj); infinite c means that table j cannot answer q.

    ρ_j ← ρ_j √(slope_j), scaled to sum one: never uphill for such sums of reciprocals.
    """
    gains = 1.0 / costs
    shares = np.full(costs.shape[1], 1.0 / costs.shape[1])
    if not len(costs):
        return shares
    for _ in range(SHARE_STEPS):
        reached = gains @ shares
        slope = (weights / reached**2) @ gains
        moved = shares * np.sqrt(slope)
        moved /= moved.sum()
        if np.abs(moved - shares).max() < 1e-12:
            break
        shares = moved
    # A table that serves almost nobody would only make a device's file longer.
    kept = np.maximum(shares, 1e-9)
    return np.asarray(kept / kept.sum())
