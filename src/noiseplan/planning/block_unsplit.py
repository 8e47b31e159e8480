"""An attribute that is left whole: its sum has no block of its own.

Blocks split every attribute into its sum and the rest, with noise of their own on both. A factor
whose rows do not have 1ᵀ in their span asks for neither by itself, and pays for both. So the
attribute is given one more value, which no record has, and τ is all on it (`domain.cells`):

    u(x) = e_x of every value that records have ,    u = 0 of the spare one ,

then blocks with the attribute tell all of it, W_iτ_i = 0 in every query, and no block without it is
asked for. A query that sums over the attribute is one with the row (1, …, 1, 0).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.domain.cells import SpareValues
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.blocks import Blocks
from noiseplan.planning.block_choice import LOOKS, MOVING_WORK, finished, searched
from noiseplan.planning.block_plan import BlockPlan
from noiseplan.planning.block_search import Search, Together, moved
from noiseplan.planning.block_types import BlockTypes, Centres
from noiseplan.planning.candidate import Candidate, reached
from noiseplan.planning.cell_classes import merged_values
from noiseplan.planning.limits import WORTH_IT
from noiseplan.planning.objectives import TotalVariance
from noiseplan.planning.problem import Problem
from noiseplan.planning.smaller_domain import SmallerDomain, carried
from noiseplan.planning.solve import Aim, Solution
from noiseplan.planning.workload_types import Design, prepare

# What is left of 1ᵀ beside the rows of a factor, as a share of it: more than rounding makes.
OUTSIDE: Final = 1e-6
# Cells that queries tell apart: beyond, records are not looked at one by one in so little time.
MOST_CELLS: Final = 1024
# Kinds of queries, all of which are prepared anew for each attribute.
MOST_KINDS: Final = 100


def make_unsplit(problem: Problem, aim: Aim, today: Solution, best: Candidate) -> Candidate | None:
    """The plan with the best attribute left whole, where that is clearly better and takes little
    time; for the total variance, of adding or removing a record.

    `best` has the τ of all other attributes.
    """
    if not _possible(problem, aim):
        return None
    merged = carried(aim.design, merged_values(aim.design))  # one value of each group
    design, centres = (
        prepare(merged.workload),
        _centres(aim.design, best.mechanism.residual_blocks()),
    )
    every = [_Unsplit.of(design, centres, a) for a in _without_sum(design)]
    some = [one for one in every if one.affordable]
    try:
        found = min(some, key=lambda one: one.value, default=None)
        if found is None or found.value >= WORTH_IT * reached(problem, best) * aim.budget:
            return None
        inner = found.domain.forward(merged.forward(problem))
        made = finished(inner, aim, today, found.plan)
    except (np.linalg.LinAlgError, PlanError):  # sizes that differ too much for double precision
        return None
    if made is None:
        return None
    if merged.cells.inner.shape == aim.design.workload.schema.shape:
        return replace(found.domain, design=aim.design).back(made)
    return merged.back(found.domain.back(made))


def _possible(problem: Problem, aim: Aim) -> bool:
    total = isinstance(aim.objective, TotalVariance) and problem.allowed is not None
    roles = aim.design.roles.of_attribute.tolist()
    told_apart = prod(aim.design.group_count(r) for r in roles if r >= 0)
    few = told_apart <= MOST_CELLS and aim.design.terms.queries <= MOST_KINDS
    return total and few and aim.neighbours == "add-remove" and not aim.design.joints


def _without_sum(design: Design) -> Iterator[int]:
    """One attribute of each role that some factor asks without its sum."""
    for r in design.free:
        ones = np.ones(design.group_count(r))
        grams = [gram for p in design.pairs_of[r] if (gram := design.grams[p]) is not None]
        left = [ones - gram @ np.linalg.lstsq(gram, ones, rcond=None)[0] for gram in grams]
        if any(rest @ rest > OUTSIDE * len(ones) for rest in left):
            yield int(design.roles.roles[r].members[0])


@dataclass(frozen=True, eq=False)
class _Unsplit:
    """The domain with one more value of an attribute, its blocks, and τ to begin with."""

    domain: SmallerDomain
    types: BlockTypes
    held: int
    start: Centres

    @classmethod
    def of(cls, design: Design, centres: dict[str, Array], attribute: int) -> _Unsplit:
        """τ of the attribute is on the spare value, that of all others as given."""
        domain = carried(design, SpareValues(design.workload.schema, np.array([attribute])))
        wider, names = prepare(domain.workload), design.workload.schema.names
        first = {r: int(wider.roles.roles[r].members[0]) for r in wider.free}
        held = int(wider.roles.of_attribute[attribute])
        given = centres | {names[attribute]: np.eye(wider.workload.schema.shape[attribute])[-1]}
        start = {r: _summed(wider.groups[r], given[names[a]]) for r, a in first.items()}
        return cls(domain, BlockTypes(wider), held, start)

    @property
    def affordable(self) -> bool:
        return self.types.enumerable and self.types.work <= MOVING_WORK

    @cached_property
    def _first(self) -> tuple[Together, Array]:
        return Search(self.types, self.start).together()

    @property
    def value(self) -> float:
        """The total variance at cost one, before any τ is moved."""
        return self._first[0].value

    @property
    def plan(self) -> BlockPlan:
        best = moved(*self._first, LOOKS, frozenset([self.held]))[0]
        return searched(self.types, best.search.centres)


def _centres(design: Design, measured: Blocks) -> dict[str, Array]:
    """τ over the groups of values of every attribute that is measured."""
    roles = zip(design.workload.schema.names, design.roles.of_attribute.tolist(), strict=True)
    return {
        name: _summed(design.groups[r], measured.bases[measured.basis_of[i]].centre)
        for i, (name, r) in enumerate(roles)
        if r >= 0
    }


def _summed(groups: IntArray, values: Array) -> Array:
    return np.bincount(groups, values).astype(np.float64)
