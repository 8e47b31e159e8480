"""Problems as other problems: of one record instead of a person, of the queries with targets, of a
smaller domain (`smaller_domain`). What is found for those is a candidate for these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Protocol

import numpy as np

from noiseplan.errors import BudgetError, PlanError
from noiseplan.noise import Noise
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.certificates import Unstated
from noiseplan.planning.problem import Problem, allowed_cost
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.privacy import Budget, Guarantee, PureDP
from noiseplan.privacy.people import person_price, record_cost
from noiseplan.privacy.rounding import product_down

# How much nearer two records must be for noise of other sizes, relative, and how far apart they
# must be: what is of the size of rounding is not taken for a distance.
WORTH_IT = 1e-3
# Of noise that is made smaller, for rounding.
HAIR = 1e-7


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
    drawn = Noise.within(budget, noise)
    record = record_cost(allowed_cost(budget, drawn.name), max_rows, drawn.power)
    if record <= 0:
        raise BudgetError(f"{budget} leaves nothing for one of {max_rows} records")
    return drawn.budget(record)


@dataclass(frozen=True)
class ReplacedRecords:
    """Pure DP for a record that is replaced: planned for half of ε, priced as what it is.

    To replace a record is to remove one and to add one, so no column of a difference has more than
    twice the L1 norm; two records that share no cell of a table have as much. Where the farthest
    two are nearer, since all records share some rows, noise of all sizes is made smaller by that.
    The total is public: plans are made for queries without it, and tell it with next to no noise.
    """

    problem: Problem

    def forward(self, problem: Problem) -> Problem:
        """The same for records that are added or removed, at half of ε."""
        half = PureDP(product_down(problem.epsilon, 0.5))
        return replace(problem, budget=half, neighbours="add-remove", public_total=True)

    def back(self, candidate: Candidate) -> Candidate:
        """The same at the price of both, or of what they are apart."""
        record = candidate.privacy.pure_epsilon
        assert record is not None  # of pure DP
        found = self._priced(candidate, Guarantee.pure(2.0 * record, "replace"))
        apart = candidate.mechanism.cost("replace").pure_epsilon or 2.0 * record
        # A hair more noise than that, for the rounding of sizes.
        less = candidate.mechanism.with_noise_times(apart / self.problem.epsilon * (1 + HAIR))
        if less is None or not WORTH_IT < 0.5 * apart / record < 1 - WORTH_IT:
            return found
        figures = RowFigures(self.problem.design, less)
        return self._priced(replace(found, mechanism=less, figures=figures), less.cost("replace"))

    def _priced(self, candidate: Candidate, privacy: Guarantee) -> Candidate:
        known = Unstated(self.problem.workload, privacy, exact=self.problem.integer)
        return replace(candidate, privacy=privacy, optimality=known)


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


@dataclass(frozen=True)
class Unweighted:
    """The same queries, every row counting the same: what `RMSE` is about."""

    def forward(self, problem: Problem) -> Problem:
        """The problem without weights."""
        asked = problem.workload
        columns = replace(asked.columns, weights=np.ones(len(asked)))
        return replace(problem, workload=asked.from_columns(asked.schema, columns))

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
