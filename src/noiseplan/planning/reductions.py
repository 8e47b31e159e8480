"""Problems as other problems: of one record instead of a person, of queries with targets, of the
smallest domain on which the same can be asked. What is found for those is a candidate for these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Protocol

import numpy as np

from noiseplan.errors import BudgetError, PlanError
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.reduced import ReducedMechanism
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.objectives import ConvexLoss
from noiseplan.planning.problem import Problem, allowed_cost
from noiseplan.planning.smaller_domain import Smaller, smaller
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.planning.workload_types import Design
from noiseplan.privacy import Budget, PureDP, zCDP
from noiseplan.privacy.people import person_price, record_cost
from noiseplan.privacy.rounding import product_down


class Reduction(Protocol):
    """A problem turned into another, and the way back."""

    def forward(self, problem: Problem) -> Problem:
        """The problem to solve instead."""

    def back(self, candidate: Candidate) -> Candidate:
        """What was found for it, for the problem as it was."""


@dataclass(frozen=True)
class Persons:
    """People who have several records: planned for one record, priced for a person.

    A plan is priced for one record. Where a person may have up to k, it is planned with what one
    record may then cost, and priced k² times that, or k times for pure DP
    (`noiseplan.privacy.people` has the proof).
    """

    max_rows: int

    def forward(self, problem: Problem) -> Problem:
        """The same for one record."""
        budget = record_budget(problem.budget, self.max_rows, problem.noise)
        return replace(problem, budget=budget, max_rows=1)

    def back(self, candidate: Candidate) -> Candidate:
        """The same at the price of a person."""
        return replace(candidate, privacy=person_price(candidate.privacy, self.max_rows))


def record_budget(budget: Budget | None, max_rows: int, noise: str) -> Budget | None:
    """What one record may cost, so that a person is within the budget; rounded down."""
    if budget is None or max_rows == 1:
        return budget
    if isinstance(budget, PureDP):
        return PureDP(record_cost(budget.epsilon, max_rows, pure=True))
    record = record_cost(allowed_cost(budget, noise), max_rows)
    if record <= 0:
        raise BudgetError(f"{budget} leaves nothing for one of {max_rows} records")
    return zCDP(product_down(record, 0.5))  # the cost is 2ρ for both kinds of noise


@dataclass(frozen=True)
class Targets:
    """The queries that have a target, and the target of each.

    Queries without one are not planned for; they may still be answered if they lie in the span.
    """

    def forward(self, problem: Problem) -> Problem:
        """The problem of those queries alone."""
        workload, targets = problem.workload, problem.targets
        if not isinstance(targets, Mapping):
            one = _checked_target("all queries", targets)
            return replace(problem, targets=np.full(len(workload), one))
        if not targets:
            raise PlanError("targets is empty: name at least one query, e.g. targets={'age': 25.0}")
        chosen = {workload.position(name): _checked_target(name, t) for name, t in targets.items()}
        positions = sorted(chosen)
        each = np.array([chosen[i] for i in positions])
        return replace(problem, workload=workload.subset(positions), targets=each)

    def back(self, candidate: Candidate) -> Candidate:
        """As it is."""
        return candidate


def _checked_target(name: str, target: object) -> float:
    if isinstance(target, Iterable) and not isinstance(target, str):
        raise PlanError(
            f"the target of {name!r} is one variance for all of its rows, found several; to give "
            f"each row its own, make it a query with a name, Query(schema, matrix=[row], "
            f"name='row 0'), and write targets={{'row 0': 4.0, …}}"
        )
    if isinstance(target, bool) or not isinstance(target, (Real, np.number)):
        raise PlanError(f"the target of {name!r} is a variance, found {target!r}")
    value = float(target)
    if not (np.isfinite(value) and value > 0):
        raise PlanError(f"the target of {name!r} is a positive finite variance, found {value}")
    return value


@dataclass(frozen=True, eq=False)
class SmallerDomain:
    """The classes of cells that queries tell apart, in the place of the cells."""

    design: Design
    found: Smaller

    @classmethod
    def of(cls, problem: Problem, most: int) -> SmallerDomain | str:
        """That of at most `most` cells, or why there is none."""
        apart = isinstance(problem.goal, ConvexLoss)  # which sees every query on its own
        found = smaller(problem.design, most, apart)
        return found if isinstance(found, str) else cls(problem.design, found)

    @property
    def size(self) -> int:
        """How many there are."""
        return self.found.cells.inner.size

    def forward(self, problem: Problem) -> Problem:
        """The same queries of classes."""
        targets = None if problem.targets is None else 1.0 / self.found.priorities
        return replace(problem, workload=self.found.workload, targets=targets)

    def back(self, candidate: Candidate) -> Candidate:
        """The mechanism that counts classes, and measures those."""
        mechanism = ReducedMechanism(self.found.cells, candidate.mechanism)
        return replace(candidate, mechanism=mechanism, figures=RowFigures(self.design, mechanism))

    def written_out(self, candidate: Candidate) -> Candidate:
        """What is found for classes as rows over all cells, which other rooms can work with."""
        small = candidate.mechanism
        if not isinstance(small, DenseMechanism):
            return self.back(candidate)
        wide = np.ascontiguousarray(small.strategy[:, self.found.cells.of_cells()])
        whole = replace(small, schema=self.design.workload.schema, strategy=wide)
        return replace(candidate, mechanism=whole, figures=RowFigures(self.design, whole))
