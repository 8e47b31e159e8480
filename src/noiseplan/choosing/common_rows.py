"""Plans made anew on common rows: one U for each attribute that all of them measure by.

The rows are planned for all queries together, each plan's errors relative to its own; then every
plan has its own share of noise for them, at its own privacy cost. Integer rows are rounded with as
many bits as the plan that needs most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.choosing.workload_answers import require_all
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.cost import with_mu2
from noiseplan.planning.certificates import Stated
from noiseplan.planning.free_split import optimise_total
from noiseplan.planning.measured_numbers import numbers_of, to_integers
from noiseplan.planning.objectives import (
    PNormVariance,
    TotalVariance,
    WorstVariance,
)
from noiseplan.planning.plan import Plan
from noiseplan.planning.residual_mechanism import make_residual
from noiseplan.planning.solve import Aim, Solution, share_given_bases
from noiseplan.planning.threads import one_thread
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.planning.workload_types import Design, prepare
from noiseplan.privacy.people import person_cost, record_cost
from noiseplan.queries import Workload
from noiseplan.queries.columns import joined

# Priorities of equal queries in different plans differ by this share: they stay apart.
HAIR = 1e-9


def on_common_rows(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    """The plans, planned anew on common rows at the same privacy cost each."""
    for plan in plans:
        if not isinstance(plan.objective, TotalVariance | WorstVariance | PNormVariance):
            raise PlanError(
                f"a plan of least {plan.objective} cannot be planned on common rows: only total, "
                f"worst and p-norm of variances can"
            )
    together = Together.of(plans)
    with one_thread(together.design):
        rows = optimise_total(together.design)
        solutions = [
            share_given_bases(_aim(together, k, plan), rows) for k, plan in enumerate(plans)
        ]
        numbers = numbers_of(plans[0].mechanism.noise)
        bits = numbers.bits(lambda: _bits(together, plans, solutions)) or 0
    return tuple(
        _planned(together, k, plan, solution, bits)
        for k, (plan, solution) in enumerate(zip(plans, solutions, strict=True))
    )


@dataclass(frozen=True, eq=False)
class Together:
    """All plans' queries one after the other, with roles and types that keep the plans apart."""

    design: Design
    plan_of_type: IntArray
    priority_of_type: Array
    starts: IntArray

    @classmethod
    def of(cls, plans: Sequence[Plan]) -> Together:
        columns = reduce(joined, (replace(plan.workload.columns, names={}) for plan in plans))
        workload = Workload.from_columns(plans[0].workload.schema, columns)
        own = [_priorities(plan) for plan in plans]
        scaled = [
            priority / _value(plan) * (1 + HAIR * number)
            for number, (plan, priority) in enumerate(zip(plans, own, strict=True))
        ]
        design = prepare(workload, np.concatenate(scaled))
        starts = np.cumsum([0, *(len(plan.workload) for plan in plans)])
        first = design.roles.type_first
        number = np.searchsorted(starts, first, side="right") - 1
        return cls(design, number, np.concatenate(own)[first], starts)

    def of_plan(self, k: int) -> Design:
        """The same design where only plan k's queries count."""
        priority = np.where(self.plan_of_type == k, self.priority_of_type, 0.0)
        roles = replace(self.design.roles, type_priority=priority)
        return replace(self.design, roles=roles, given_grams=self.design.grams)

    def kinds(self, k: int) -> Array:
        """Of each query of plan k, a number that tells apart what is measured differently."""
        types = self.design.roles.type_of_query[self.starts[k] : self.starts[k + 1]]
        return np.asarray(types + 1, dtype=np.float64)


def _priorities(plan: Plan) -> Array:
    return plan.workload.columns.weights if plan.targets is None else 1.0 / plan.targets


def _value(plan: Plan) -> float:
    """Σ priority · variance over all rows: what the plan's own errors add up to."""
    types = plan.design.roles.type_of_query
    return float(_priorities(plan) @ plan.type_variances[types]) or 1.0


def _aim(together: Together, k: int, plan: Plan) -> Aim:
    """What plan k shares its noise for: by what one record costs, for a person to pay its price."""
    cost = record_cost(plan.privacy.pcost, plan.max_rows)
    return Aim(together.of_plan(k), plan.objective, cost, plan.privacy.neighbours)


def _bits(together: Together, plans: Sequence[Plan], solutions: Sequence[Solution]) -> int:
    return max(
        to_integers(_aim(together, k, plan), solution).bits
        for k, (plan, solution) in enumerate(zip(plans, solutions, strict=True))
    )


def _planned(together: Together, k: int, plan: Plan, solution: Solution, bits: int) -> Plan:
    aim = _aim(together, k, plan)
    numbers = numbers_of(plan.mechanism.noise)
    made = make_residual(aim, solution, numbers, least=False, bits=(bits,))
    cost = person_cost(made.privacy.pcost, plan.max_rows)
    privacy = replace(made.privacy, pcost=cost, whose=plan.privacy.whose)
    mechanism = made.mechanism.on_lattice(plan.mechanism.noise.exact)
    asked = plan.budget if numbers.exact else None
    if asked is not None and not with_mu2(privacy, [mechanism]).within(asked):
        mechanism = mechanism.on_lattice(mechanism.noise.finer())  # other rows, too coarse for μ
    privacy = with_mu2(privacy, [mechanism])
    if privacy.pcost > plan.privacy.pcost:  # fail closed
        raise PlanError("a plan on common rows would cost more than on its own: this is a bug")
    design = prepare(plan.workload, together.kinds(k))
    require_all(mechanism, plan.workload)
    return replace(
        plan,
        mechanism=mechanism,
        privacy=privacy,
        planner="residual",
        rounding_loss=made.loss,
        figures=RowFigures(design, mechanism),
        optimality=Stated(plan.lower_bound, proved=False),
    )
