"""Plans with a precision of its own for every block, where one split must serve several masters.

Where some attribute is asked by several kinds of factors, or dense matrices are, the bases planned
for all of them together give τ, and every block the rows that are best for it. Other objectives
than the total take rows planned for the total, queries with large variances weighted more, and
share the noise among the blocks for themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.optimize.kernel_rounding import in_parts
from noiseplan.planning.block_plan import BlockFigures, BlockPlan
from noiseplan.planning.block_search import STEPS, Search, moved
from noiseplan.planning.block_shares import shared_noise
from noiseplan.planning.block_types import BlockTypes, Centres
from noiseplan.planning.candidate import Candidate, reached
from noiseplan.planning.certificates import Residual
from noiseplan.planning.integers import ALLOWED_LOSS, MOST_LOSS, ROOMY
from noiseplan.planning.objectives import TotalVariance, WorstVariance
from noiseplan.planning.problem import Problem
from noiseplan.planning.solve import Aim, Solution, group_inverses

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
        worst = BlockFigures(plan).largest()
        over = float(np.max(aim.design.roles.type_priority * worst))
        if 1 - 4 * CLEARLY <= over <= 1:
            return plan
        plan = plan.scaled(plan.factor * (1 - CLEARLY) / over)
    return None
