"""Plans that were not planned: what mechanisms have in common, and what parts amount to together.

They answer the queries of the plans they come from, as far as they can. Queries of one kind have
the same errors only if all those plans treat them alike; so kinds are split until that is so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from noiseplan.choosing.workload_answers import answered
from noiseplan.errors import PlanError, QueryError, remedy, setting
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.cost import cost_of
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.certificates import Stated
from noiseplan.planning.finish import finish_stated
from noiseplan.planning.objectives import Recorded
from noiseplan.planning.plan import Plan
from noiseplan.planning.symmetry import find_roles
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.planning.workload_types import Design, prepare
from noiseplan.privacy import ApproxDP, Guarantee
from noiseplan.privacy.people import PERSON
from noiseplan.queries import Workload
from noiseplan.queries.columns import QueryColumns, joined, merged

# So many measured tables are listed where none of the plans' own queries can be answered.
LISTED = 1000
# Noise of which a design's kinds are known to be alike; other plans hold measurements made before.
PLANNED = ("discrete", "gaussian")
MADE = ("combined", "given")


@dataclass(frozen=True, eq=False)
class Union:
    """All queries of some plans, with kinds that every one of the plans treats alike."""

    workload: Workload
    kinds: Array  # of each query: equal only where every plan has them of one type

    @classmethod
    def of(cls, plans: Sequence[Plan]) -> Union:
        first, *others = plans
        columns = replace(first.workload.columns, weights=_types(first))
        for plan in others:
            step = float(len(columns) + 1)
            own = replace(plan.workload.columns, weights=step * _types(plan))
            columns = _merged(columns, own)
            # Sums of the two codes tell both; ranks keep them small for the next plan.
            ranks = np.unique(columns.weights, return_inverse=True)[1]
            columns = replace(columns, weights=np.asarray(ranks + 1, dtype=np.float64))
        kinds = columns.weights
        columns = replace(columns, weights=np.ones(len(columns)))
        return cls(Workload.from_columns(first.workload.schema, columns), kinds)

    @cached_property
    def design(self) -> Design:
        """Roles and types over all queries, none coarser than any plan's."""
        return prepare(self.workload, self.kinds)

    def answerable(self, mechanism: Mechanism) -> Union | None:
        """The queries that a mechanism answers; None if there are none."""
        keep = answered(mechanism, self.workload)
        if not keep.any():
            return None
        # The types found here go on telling apart what some plan does.
        return Union(self.workload.subset(keep), self._refined()[keep])

    def _refined(self) -> Array:
        """Kinds told further apart where the queries around them are of different kinds."""
        if len(np.unique(self.kinds)) == len(self.kinds):
            return self.kinds
        types = find_roles(self.workload, self.kinds).type_of_query
        return np.asarray(types + 1, dtype=np.float64)


def _types(plan: Plan) -> Array:
    """The type of each query, from 1."""
    if plan.noise in PLANNED:
        return np.asarray(plan.design.roles.type_of_query + 1, dtype=np.float64)
    return np.arange(1.0, len(plan.workload) + 1.0)


def _merged(a: QueryColumns, b: QueryColumns) -> QueryColumns:
    try:
        return merged(joined(a, b))
    except QueryError:  # one name for two queries: they go without
        return merged(joined(replace(a, names={}), replace(b, names={})))


@dataclass(frozen=True)
class Origin:
    """What a plan that was not planned comes from, as its report states it."""

    planner: str
    objective: str
    noise: str
    max_rows: int
    unit: str = PERSON
    of_records: bool = True

    @classmethod
    def like(cls, plan: Plan, planner: str, objective: str, noise: str) -> Origin:
        """For those that a plan is for."""
        return cls(planner, objective, noise, plan.max_rows, plan.unit, plan.of_records)


def described(
    asked: Union,
    mechanism: Mechanism,
    privacy: Guarantee,
    origin: Origin,
    span: Mechanism | None = None,
) -> Plan:
    """A mechanism as a plan for all that it answers of what is asked.

    `span` decides what is answered, where that is not the mechanism itself.
    """
    answered = asked.answerable(span or mechanism) or _measured(mechanism)
    figures = RowFigures(answered.design, mechanism)
    made = Candidate(origin.planner, mechanism, privacy, figures, Stated(0.0, proved=False))
    plan = finish_stated(made, Recorded(origin.objective), origin.noise, origin.max_rows)
    return plan if origin.of_records else plan.with_unit(origin.unit)


def _measured(mechanism: Mechanism) -> Union:
    """The tables that a mechanism measures, where it answers no query that was asked."""
    listed = Workload(mechanism.measured_queries(LISTED))
    keep = answered(mechanism, listed)
    if not keep.any():
        raise PlanError("the plans have nothing in common that answers a query")
    return Union(listed.subset(keep), np.arange(1.0, keep.sum() + 1.0))


def guarantee_of(mechanism: Mechanism, like: Plan) -> Guarantee:
    """What a mechanism costs, with neighbours and records of a person as in the plan `like`."""
    cost = cost_of([mechanism], like.privacy.neighbours, like.max_rows)
    return replace(cost, whose=like.privacy.whose)


def require_alike(plan: Plan, other: Plan) -> None:
    """Refuse plans that nothing can be compared of: other noise, neighbours, persons, schemas."""
    if plan.loaded:
        raise PlanError(
            "a plan that was read from a folder is there to answer queries, and never measured "
            "with: plan again, nz.plan(release.plan.workload, …)"
        )
    if plan.privacy.pure_epsilon is not None and isinstance(plan.budget, ApproxDP):
        raise PlanError(
            "the plan has Laplace noise, and only Gaussian noise can be looked at first or "
            "continued: plan both with " + setting("noise", "discrete Gaussian")
        )
    if plan.privacy.pure_epsilon is not None:
        rho = f"{plan.privacy.pure_epsilon**2 / 2:.4g}"
        raise PlanError(
            "the plan is of pure DP, and only Gaussian noise can be looked at first or continued: "
            "plan with "
            + remedy("zCDP budget", f"budget=zCDP({rho})", rho)
            + ", which pure DP at this ε implies, or choose without data "
            + remedy("argument", "by plan.rmse ", "")
            + "and release one plan"
        )
    if plan.noise not in PLANNED:
        raise PlanError(
            f"what plans have in common is found for Gaussian noise, and one has the noise "
            f"{plan.noise!r}; a plan of what was measured already is not measured again"
        )
    if plan.workload.schema != other.workload.schema:
        raise PlanError("the plans are about different schemas: plan all of them over one")
    if other.privacy.laplace:
        raise PlanError(
            "the earlier plan has Laplace noise, and only Gaussian noise can be looked at first or "
            "continued: release this plan by itself, at its own cost"
        )
    if other.noise not in (plan.noise, *MADE):
        raise PlanError(
            f"the plans have different noise, {other.noise!r} and {plan.noise!r}: plan all with "
            + setting("noise", other.noise)
        )
    if plan.privacy.neighbours != other.privacy.neighbours:
        raise PlanError(
            "the plans protect different neighbours: plan all with "
            + setting("neighbours", other.privacy.neighbours)
        )
    if plan.max_rows != other.max_rows:
        raise PlanError(
            f"the plans are priced for a {plan.unit} of {other.max_rows} and {plan.max_rows} "
            f"records: plan all for the same"
        )
    if plan.unit != other.unit:
        raise PlanError(
            f"the plans are for a {other.unit} and for a {plan.unit}, and what is promised to one "
            f"is not promised to the other: "
            + remedy("plan with unit", f"plan.with_unit({other.unit!r})", other.unit)
        )
    if plan.of_records != other.of_records:
        raise PlanError(
            "one plan is for single records, and the other counts one record of each person, which "
            "is another promise: plan all for persons, "
            + remedy("plan with unit", f"plan.with_unit({PERSON!r})", PERSON)
            + ", or none"
        )
