"""Plans with a precision of its own for every block, where one split must serve several masters.

Where some attribute is asked by several kinds of factors, or dense matrices are, the bases planned
for all of them together give τ, and every block the rows that are best for it. Other objectives
than the total take rows planned for the total, queries with large variances weighted more, and
share the noise among the blocks for themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import scipy.sparse as sp

from noiseplan.matrices.base import Array
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.mechanisms.residual_errors import asked_of
from noiseplan.optimize.allocation import Share, share_for_loss, share_for_worst
from noiseplan.optimize.kernel_rounding import in_parts
from noiseplan.planning.block_plan import BlockFigures, BlockPlan
from noiseplan.planning.block_rows import BlockRows
from noiseplan.planning.block_search import Apart, Search, Together, moved, record_costs
from noiseplan.planning.block_types import BlockTypes, Centres
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.certificates import Residual
from noiseplan.planning.integers import ALLOWED_LOSS, MOST_LOSS, ROOMY
from noiseplan.planning.objectives import ConvexLoss, PNormVariance, TotalVariance, WorstVariance
from noiseplan.planning.solve import Aim, Solution, group_inverses, own_loss, p_norm
from noiseplan.planning.workload_types import Design

# Floating-point operations of one look at all blocks: beyond, or with more blocks, none is tried.
MOST_WORK, MOST_BLOCKS = 3e10, 2000
# Of all looks together, and of one such that τ is moved too.
ALL_WORK, MOVING_WORK = 6e11, 3e7
# Plain attributes with more values are measured by formula, which rows of a block's own are not.
MOST_PLAIN: Final = 2048
# Bits of integer rows.
BITS: Final = (9, 10, 11, 12, 13, 14)
# Numbers, rows × blocks, up to which noise is shared for single variances; and rounds of weighting.
MOST_NUMBERS, REWEIGHTED = 5_000_000, 3


def worth_trying(design: Design) -> bool:
    """Whether some attribute is asked by several kinds of factors, or a dense matrix is."""
    if design.joints:
        return True
    asked = [p for p in range(len(design.grams)) if p not in design.constant]
    roles = design.roles.pair_role[asked].tolist()
    return any(roles.count(r) > 1 and design.group_count(r) > 2 for r in design.free)


def make_blocks(aim: Aim, today: Solution, integer: bool, least: bool) -> Candidate | None:
    """The plan by blocks; nothing where none is affordable or rows do not fit 64 bits.

    `today` are the bases that serve all blocks alike. `least`: targets must be met, whatever that
    costs.
    """
    types = _types(aim)
    if types is None:
        return None
    centres = {r: t[:, 0] for r, t in group_inverses(aim.design, today.bases).items()}
    found = [_searched(aim, types, centres, integer)]
    if not isinstance(aim.objective, TotalVariance):
        found = list(_shared(aim, found[0]))
    plan = min(found, key=lambda one: one[1])[0] if found else None
    if plan is None:
        return None
    rounded = _integers(plan) if integer else (plan, 0.0)
    return None if rounded is None else _made(aim, today, *rounded, least)


def _types(aim: Aim) -> BlockTypes | None:
    """The blocks, if they are few and small enough."""
    design = aim.design
    if not worth_trying(design) or design.terms.subsets > MOST_BLOCKS:
        return None
    if any(role.plain and role.size > MOST_PLAIN for role in design.roles.roles):
        return None
    types = BlockTypes(design, without_total=aim.neighbours == "replace")
    left_out = any(b.joints and b.number not in types.whole for b in types.blocks)
    return None if left_out or types.work > MOST_WORK else types


def _searched(aim: Aim, types: BlockTypes, centres: Centres, integer: bool) -> BlockPlan:
    """The best rows for the total variance."""
    parts = {r: in_parts(centre) for r, centre in centres.items()} if integer else None
    if parts is not None:
        centres = {r: t / t.sum() for r, t in parts.items()}
    search = Search(types, centres)
    found: Together | Apart
    if types.enumerable:
        steps = int(np.clip(ALL_WORK / types.work, 5, STEPS))
        found, weights = search.together(steps)
    else:
        found = search.apart()
    return BlockPlan.of(found, parts, aim.neighbours == "replace")
