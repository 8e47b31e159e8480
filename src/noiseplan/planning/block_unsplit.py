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
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from noiseplan.domain.cells import SpareValues
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.planning.block_choice import LOOKS, MOVING_WORK, finished, searched
from noiseplan.planning.block_plan import BlockPlan
from noiseplan.planning.block_search import Search, Together, moved
from noiseplan.planning.block_types import BlockTypes, Centres
from noiseplan.planning.candidate import Candidate, reached
from noiseplan.planning.limits import WORTH_IT
from noiseplan.planning.objectives import TotalVariance
from noiseplan.planning.problem import Problem
from noiseplan.planning.smaller_domain import SmallerDomain, carried
from noiseplan.planning.solve import Aim, Solution
from noiseplan.planning.workload_types import Design, prepare

# What is left of 1ᵀ beside the rows of a factor, as a share of it: more than rounding makes.
OUTSIDE: Final = 1e-6
# Cells up to which such plans are compared with others and continued by matrices.
MOST_CELLS: Final = 1024
# Kinds of queries, all of which are prepared anew for each attribute.
MOST_KINDS: Final = 100


def make_unsplit(problem: Problem, aim: Aim, today: Solution, best: Candidate) -> Candidate | None:
    """The plan with the best attribute left whole, where that is clearly better and takes little
    time; for the total variance, of adding or removing a record.

    `best` has the τ of all other attributes.
    """
    if not (_possible(problem, aim) and isinstance(best.mechanism, ResidualMechanism)):
        return None
    every = [_Unsplit.of(aim.design, best.mechanism, a) for a in _without_sum(aim.design)]
    found = min((one for one in every if one.affordable), key=lambda one: one.value, default=None)
    if found is None or found.value >= WORTH_IT * reached(problem, best) * aim.budget:
        return None
    try:
        made = finished(found.domain.forward(problem), aim, today, found.plan)
    except (np.linalg.LinAlgError, PlanError):  # sizes that differ too much for double precision
        return None
    return None if made is None else found.domain.back(made)


def _possible(problem: Problem, aim: Aim) -> bool:
    total = isinstance(aim.objective, TotalVariance) and problem.allowed is not None
    few = problem.size <= MOST_CELLS and aim.design.terms.queries <= MOST_KINDS
    return total and few and aim.neighbours == "add-remove" and not aim.design.joints


def _without_sum(design: Design) -> Iterator[int]:
    """One attribute of each role that some factor asks without its sum."""
    for r in design.free:
        ones = np.ones(design.group_count(r))
        grams = [gram for p in design.pairs_of(r) if (gram := design.grams[p]) is not None]
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
    def of(cls, design: Design, mechanism: ResidualMechanism, attribute: int) -> _Unsplit:
        """τ of all other attributes is that of the mechanism."""
        domain = carried(design, SpareValues(design.workload.schema, np.array([attribute])))
        wider = prepare(domain.workload)
        held = int(wider.roles.of_attribute[attribute])
        return cls(domain, BlockTypes(wider), held, _centres(wider, mechanism, held))

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


def _centres(design: Design, mechanism: ResidualMechanism, held: int) -> Centres:
    """τ of all attributes as they were, and that of the held one on its last value."""
    centres = {}
    for r in design.free:
        name = design.workload.schema.names[design.roles.roles[r].members[0]]
        groups = design.groups[r]
        if r == held:
            centres[r] = np.eye(design.group_count(r))[groups[-1]]
        else:
            centres[r] = np.bincount(groups, mechanism.basis(name).centre)
    return centres
