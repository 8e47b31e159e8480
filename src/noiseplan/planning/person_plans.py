"""Plans for people who have several records: planned for one record, priced for a person.

A plan is priced for one record. Where a person may have up to k, it is planned with what one record
may then cost, and priced k² times that, or k times for pure DP (`noiseplan.privacy.people` has the
proof).
"""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

import numpy as np

from noiseplan.errors import BudgetError, PlanError, remedy
from noiseplan.planning.plan import Plan
from noiseplan.planning.residual_mechanism import allowed_cost
from noiseplan.privacy import Budget, Guarantee, Neighbours, PureDP, zCDP
from noiseplan.privacy.people import person_cost, record_cost
from noiseplan.privacy.rounding import product_down, quotient_up


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


def person_plan(plan: Plan, max_rows: int, budget: Budget | None) -> Plan:
    """The plan at the price of a person with up to `max_rows` records."""
    if max_rows == 1:
        return plan
    cost = person_price(plan.privacy, max_rows)
    if budget is not None and not cost.within(budget):  # fail closed
        raise PlanError(f"a person would cost {cost.pcost}, above {budget}: this is a bug")
    return replace(plan, privacy=cost, max_rows=max_rows)


def person_price(record: Guarantee, max_rows: int) -> Guarantee:
    """What a person pays where one record costs so much; rounded up."""
    if record.pure_epsilon is not None:
        epsilon = person_cost(record.pure_epsilon, max_rows, pure=True)
        return Guarantee.pure(epsilon, record.neighbours)
    return Guarantee(person_cost(record.pcost, max_rows), record.law, record.neighbours)


def record_price(person: Guarantee, max_rows: int) -> Guarantee:
    """What one record costs at most where a person with so many pays this; rounded up."""
    if max_rows == 1 or not isfinite(person.pcost):
        return person
    if person.pure_epsilon is not None:
        return Guarantee.pure(quotient_up(person.pure_epsilon, max_rows), person.neighbours)
    cost = quotient_up(person.pcost, max_rows**2)
    return Guarantee(cost, person.law, person.neighbours)


def check_people(max_rows: object, neighbours: Neighbours) -> None:
    """Refuse what makes no sense, and what has no proof: replacing several records."""
    if isinstance(max_rows, bool) or not isinstance(max_rows, int | np.integer) or max_rows < 1:
        raise PlanError(
            f"max_rows is how many records one person may have, as in 3; found {max_rows!r}"
        )
    if max_rows > 1 and neighbours == "replace":
        raise PlanError(
            "max_rows above 1 goes with "
            + remedy("setting", 'neighbours="add-remove"', "neighbours", "add-remove")
            + ": when a person is replaced, the number of records may change, which would "
            "have to be public"
        )
