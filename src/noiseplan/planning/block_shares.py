"""Noise shared among blocks for other objectives than the total: their rows stay as they are.

The variance of every row of an answer is Σ_A σ²_A v_A, and a record costs Σ_A p_A/σ²_A: the convex
problems of `optimize.allocation`, with blocks in place of subsets and records in place of kinds of
neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import scipy.sparse as sp

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.blocks import subset_patterns
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.mechanisms.residual_errors import asked_of, recovery
from noiseplan.optimize.allocation import share_for_loss, share_for_worst
from noiseplan.optimize.lbfgs import Smooth
from noiseplan.planning.block_plan import BlockFigures, BlockPlan
from noiseplan.planning.objectives import ConvexLoss, Objective, PNormVariance, WorstVariance
from noiseplan.planning.solve import Aim, own_loss, p_norm
from noiseplan.queries import Query

# Numbers, rows × blocks, and records × blocks, that noise is shared by.
MOST_NUMBERS: Final = 2_000_000
# Steps of sharing for the worst variance: rows are not planned for it to the last digit anyway.
STEPS: Final = 400
# Rows that differ by less, as a share of the largest, are one.
ALIKE: Final = 1e-9


@dataclass(frozen=True, eq=False)
class Shared:
    """A plan at the budget, the objective it reaches, and what each query type comes to."""

    plan: BlockPlan
    value: float
    loads: Array  # the largest priority · variance of each type, as a share of the worst


def shared_noise(aim: Aim, plan: BlockPlan) -> Shared | None:
    """The best noise for an objective; nothing where there are too many rows to look at."""
    privacy = np.unique(plan.record_costs.T, axis=0)
    if privacy.size > MOST_NUMBERS:
        privacy = plan.record_costs.max(axis=1)[None, :]
    found = _by_query(aim, plan) if isinstance(aim.objective, ConvexLoss) else _by_row(aim, plan)
    if found is None:
        return None
    rows, owner, often = found
    if isinstance(aim.objective, WorstVariance):
        share = share_for_worst(privacy, rows, aim.budget, STEPS)
    else:
        loss = _smooth(aim.objective, often)
        start = np.array([b.sigma2 for b in plan.rows])
        start = start * float((privacy @ (1.0 / start)).max()) / aim.budget
        share = share_for_loss(privacy, rows, aim.budget, loss, start)
    each = rows @ share.sigma2
    loads = np.zeros(aim.design.terms.queries)
    np.maximum.at(loads, owner, each / each.max())
    sized = zip(plan.rows, share.sigma2.tolist(), strict=True)
    own = tuple(replace(b, sigma2=size) for b, size in sized)
    return Shared(replace(plan, rows=own), share.value, loads)


def _smooth(objective: Objective, often: Array) -> Smooth:
    if isinstance(objective, PNormVariance):
        return p_norm(objective.p, often)
    assert isinstance(objective, ConvexLoss)
    return own_loss(objective)


def _by_query(aim: Aim, plan: BlockPlan) -> tuple[sp.csr_array, IntArray, Array]:
    """Priority times mean variance of every query, by blocks."""
    design = aim.design
    kind = design.roles.type_of_query
    scale = design.roles.type_priority / design.type_rows
    sums = scale[:, None] * plan.type_sums()
    return sp.csr_array(sums[kind]), kind, np.ones(len(kind))


def _by_row(aim: Aim, plan: BlockPlan) -> tuple[sp.csr_array, IntArray, Array] | None:
    """Priority times variance of every row of each type, by blocks; and how often it occurs."""
    design = aim.design
    if int(design.type_rows.sum()) * len(plan.rows) > MOST_NUMBERS:
        return None
    mechanism = plan.mechanism
    pieces, owners, counts = [], [], []
    for number, first in enumerate(BlockFigures(plan).first_of_types()):
        query = design.workload.query(int(first))
        rows = np.zeros((query.rows, len(plan.rows)))
        for place, variances in _inside(plan, mechanism, query):
            rows[:, place] += variances
        unit = np.maximum(rows.max(axis=0), 1e-300) * ALIKE
        _, kept, often = np.unique(
            np.rint(rows / unit), axis=0, return_index=True, return_counts=True
        )
        pieces.append(design.roles.type_priority[number] * rows[kept])
        owners.append(np.full(len(kept), number))
        counts.append(often * float(design.roles.type_count[number]))
    return sp.csr_array(np.concatenate(pieces)), np.concatenate(owners), np.concatenate(counts)


def _inside(
    plan: BlockPlan, mechanism: ResidualMechanism, query: Query
) -> Iterator[tuple[int, Array]]:
    """The blocks a query is made of, and what noise of size one on each adds to its rows."""
    design, at = plan.types.design, mechanism.set_of(query.attributes)[0]
    numbers = [b.form.block.number for b in plan.rows]
    place = {tuple(sorted(design.terms.subset_roles[n])): i for i, n in enumerate(numbers)}
    width = design.terms.subset_roles.shape[1]
    for pattern in subset_patterns(len(at)):
        inside = [query.attributes[i] for i in pattern]
        roles = design.roles.of_attribute[at[list(pattern)]].tolist()
        key = tuple(sorted([*roles, *[-1] * (width - len(roles))]))
        block = mechanism.block_on(inside)
        if block is None or key not in place:
            continue
        if query.joint is None:
            yield place[key], asked_of(mechanism, query, inside, block).row_variances()
        else:
            yield place[key], (recovery(mechanism, query, inside, block) ** 2).sum(axis=1)
