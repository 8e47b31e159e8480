"""Plans with a precision of its own for every block, where one split must serve several masters.

Where some attribute is asked by several kinds of factors, or dense matrices are, the bases planned
for all of them together give τ, and every block the rows that are best for it. Other objectives
than the total take rows planned for the total, queries with large variances weighted more, and
share the noise among the blocks for themselves.

For those the variance of every row of an answer is Σ_A σ²_A v_A, and a record costs Σ_A p_A/σ²_A:
the convex problems of `optimize.allocation`, with blocks in place of subsets and records in place
of kinds of neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import scipy.sparse as sp

from noiseplan.arrays import IntArray, subsets
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.mechanisms.residual_errors import asked_of, recovery
from noiseplan.optimize.allocation import share_for_loss, share_for_worst
from noiseplan.optimize.integer_rounding import in_parts
from noiseplan.optimize.lbfgs import Smooth
from noiseplan.planning.block_plan import BlockFigures, BlockPlan
from noiseplan.planning.block_search import STEPS, Search, moved
from noiseplan.planning.block_types import BlockTypes, Centres
from noiseplan.planning.candidate import Candidate, reached
from noiseplan.planning.certificates import Residual
from noiseplan.planning.measured_numbers import ALLOWED_LOSS, MOST_LOSS, ROOMY
from noiseplan.planning.objectives import (
    ConvexLoss,
    Objective,
    PNormVariance,
    TotalVariance,
    WorstVariance,
)
from noiseplan.planning.problem import Problem
from noiseplan.planning.solve import Aim, Solution, group_inverses, own_loss, p_norm
from noiseplan.queries import Query

# Operations of one look at all blocks: beyond, or with more blocks, none is tried.
MOST_WORK, MOST_BLOCKS = 3e10, 2000
# Operations of all looks together; and of one, up to which τ is moved too, and how often.
ALL_WORK, MOVING_WORK, LOOKS = 6e11, 3e7, 6
# The same where pairs of records pay, for which there is no other τ to begin with.
MOVING_PAIRS: Final = 4e8
# Plain attributes with more values are measured by formula, which rows of a block's own are not.
MOST_PLAIN: Final = 2048
# Bits of integer rows.
BITS: Final = (11, 12, 13, 14)
# Rounds of weighting queries for single variances.
REWEIGHTED: Final = 2
# Steps to the least noise that meets targets, and how much more than met they are.
LEAST_STEPS, CLEARLY = 12, 1e-9

# Numbers, rows × blocks, and records × blocks, that noise is shared by.
MOST_NUMBERS: Final = 2_000_000
# Steps of sharing for the worst variance: rows are not planned for it to the last digit anyway.
SHARE_STEPS: Final = 400
# Rows that differ by less, as a share of the largest, are one.
ALIKE: Final = 1e-9


def make_blocks(problem: Problem, aim: Aim, today: Solution) -> Candidate | None:
    """The plan by blocks; nothing where none is affordable.

    `today` has the bases that serve all blocks alike. Without a budget the targets must be met,
    whatever that costs.
    """
    types = _types(aim)
    if types is None:
        return None
    centres = {r: t[:, 0] for r, t in group_inverses(aim.design, today.bases).items()}
    try:
        plan = _for_objective(aim, types, centres)
        return None if plan is None else finished(problem, aim, today, plan)
    except (np.linalg.LinAlgError, PlanError):  # sizes that differ too much for double precision
        return None


def finished(problem: Problem, aim: Aim, today: Solution, plan: BlockPlan) -> Candidate | None:
    """The mechanism at the budget or for the targets, in integers where noise is of them."""
    smooth = _made(problem, aim, today, plan)
    lengths = problem.numbers.lengths(BITS)
    if smooth is None or not lengths:
        return smooth
    return _integers(problem, aim, today, map(plan.rounded, lengths), reached(problem, smooth))


def _types(aim: Aim) -> BlockTypes | None:
    """The blocks, if they are few and small enough."""
    design = aim.design
    if design.terms.subsets > MOST_BLOCKS:
        return None
    if any(role.plain and role.size > MOST_PLAIN for role in design.roles.roles):
        return None
    types = BlockTypes(design, public=aim.neighbours == "replace")
    left_out = any(b.joints and b.number not in types.whole for b in types.blocks)
    if not (design.several_kinds or types.paired):
        return None
    return None if left_out or types.work > MOST_WORK or not types.blocks else types


def _for_objective(aim: Aim, types: BlockTypes, centres: Centres) -> BlockPlan | None:
    """The best rows for the total, or noise shared for the objective among such rows.

    For single variances, queries whose largest variance is near the worst are weighted more.
    """
    if isinstance(aim.objective, TotalVariance):
        return searched(types, _moved(types, centres))
    found = [shared_noise(aim, searched(types, centres))]
    single, weighted = isinstance(aim.objective, WorstVariance), types
    for _ in range(REWEIGHTED if single and types.work <= MOVING_WORK else 0):
        if found[-1] is None:
            break
        weighted = weighted.reweighted(found[-1].loads ** 2)
        found.append(shared_noise(aim, searched(weighted, centres)))
    known = [one for one in found if one is not None]
    return min(known, key=lambda one: one.value).plan if known else None


def searched(types: BlockTypes, centres: Centres) -> BlockPlan:
    """The best rows for the total variance, with a rational τ that integer rows can have too."""
    parts = {r: in_parts(centre) for r, centre in centres.items()}
    search = Search(types, {r: t / t.sum() for r, t in parts.items()})
    if not types.enumerable:
        return BlockPlan.of(search.apart(), parts)
    steps = int(np.clip(ALL_WORK / types.work, 5, STEPS))
    return BlockPlan.of(search.together(steps)[0], parts)


def _moved(types: BlockTypes, centres: Centres) -> Centres:
    """τ a little better, where looking for it takes little time."""
    most = MOVING_PAIRS if types.paired else MOVING_WORK
    if not types.enumerable or types.work > most or types.design.joints:
        return centres
    return moved(*Search(types, centres).together(), LOOKS)[0].search.centres


def _integers(
    problem: Problem, aim: Aim, today: Solution, plans: Iterable[BlockPlan], before: float
) -> Candidate | None:
    """With integer rows that lose little of the objective `before`; more bits where they do not."""
    best: Candidate | None = None
    for rounded in plans:
        try:
            found = _made(problem, aim, today, rounded)
        except np.linalg.LinAlgError:  # too coarse: some rows fell together
            continue
        if found is None or not found.mechanism.noise.drawable:
            continue
        loss = reached(problem, found) / before - 1.0 if before > 0 else 0.0
        if best is None or loss < best.loss:
            best = replace(found, loss=loss)
        if loss <= (ALLOWED_LOSS if rounded.records >= ROOMY else MOST_LOSS):
            break
    return best


def _made(problem: Problem, aim: Aim, today: Solution, plan: BlockPlan) -> Candidate | None:
    scaled = _least(aim, plan) if problem.allowed is None else _within(aim, plan)
    if scaled is None:
        return None
    privacy = scaled.mechanism.cost(aim.neighbours)
    known = Residual(aim.design, today.share, today.total_rows, privacy, aim.planner, aim.targeted)
    return Candidate(aim.planner, scaled.mechanism, privacy, BlockFigures(scaled), known)


def _within(aim: Aim, plan: BlockPlan) -> BlockPlan | None:
    """With the noise that spends the budget."""
    plan = plan.scaled(1.0)
    cost = plan.mechanism.cost(aim.neighbours).pcost
    for over in (1e-14, 1e-12, 1e-9, 1e-6):
        scaled = plan.scaled(cost / aim.budget * (1 + over))
        if scaled.mechanism.cost(aim.neighbours).pcost <= aim.budget:
            return scaled
    return None


def _least(aim: Aim, plan: BlockPlan) -> BlockPlan | None:
    """With the most noise that meets the targets."""
    plan = plan.scaled(1.0)
    for _ in range(LEAST_STEPS):
        worst = BlockFigures(plan).type_worst
        over = float(np.max(aim.design.roles.type_priority * worst))
        if 1 - 4 * CLEARLY <= over <= 1:
            return plan
        plan = plan.scaled(plan.factor * (1 - CLEARLY) / over)
    return None


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
        share = share_for_worst(privacy, rows, aim.budget, SHARE_STEPS)
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
    for number, first in enumerate(design.roles.type_first):
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
    for pattern in subsets(range(len(at))):
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
