"""The privacy unit of a study: one record, or all records of one person, at most so many.

A plan is priced for one record. Where a person may have up to k, it is planned with what one record
may then cost, and priced k² times that (`noiseplan.privacy.people` has the proof).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from noiseplan.errors import BudgetError, PlanError
from noiseplan.privacy import Budget, Guarantee, Neighbours, PureDP, zCDP
from noiseplan.privacy.people import person_cost, record_cost
from noiseplan.privacy.rounding import product_down

if TYPE_CHECKING:
    from noiseplan.counting import Projectable
    from noiseplan.planning.plan import Plan
    from noiseplan.schema import Schema


@dataclass(frozen=True)
class People:
    """`[people]`: the column that says whose record it is, and how many of each count."""

    person: str
    max_rows: int = 1

    def record_budget(self, budget: Budget | None, noise: str) -> Budget | None:
        """What one record may cost, so that a person is within the budget; rounded down."""
        if budget is None or self.max_rows == 1:
            return budget
        from noiseplan.planning.making import allowed_cost

        if isinstance(budget, PureDP):
            return PureDP(record_cost(budget.epsilon, self.max_rows, pure=True))
        record = record_cost(allowed_cost(budget, noise), self.max_rows)
        if record <= 0:
            raise BudgetError(f"{budget} leaves nothing for one of {self.max_rows} records")
        return zCDP(product_down(record, 0.5))  # the cost is 2ρ for both kinds of noise

    def priced(self, plan: Plan, budget: Budget | None) -> Plan:
        """The plan at the price of a person."""
        if self.max_rows == 1:
            return plan
        cost = self.price(plan.privacy)
        if budget is not None and not cost.within(budget):  # fail closed
            raise PlanError(f"a person would cost {cost.pcost}, above {budget}: this is a bug")
        return replace(plan, privacy=cost, max_rows=self.max_rows)

    def price(self, record: Guarantee) -> Guarantee:
        """What a person pays where one record costs so much; rounded up."""
        if record.pure_epsilon is not None:
            epsilon = person_cost(record.pure_epsilon, self.max_rows, pure=True)
            return Guarantee.pure(epsilon, record.neighbours)
        return Guarantee(person_cost(record.pcost, self.max_rows), record.law, record.neighbours)

    def check(self, neighbours: Neighbours) -> None:
        """Refuse what has no proof: replacing a person who has several records."""
        if self.max_rows > 1 and neighbours == "replace":
            raise PlanError(
                'max_rows above 1 goes with neighbours = "add-remove": when a person is replaced, '
                "the number of records may change, which would have to be public"
            )

    def opened(self, data: object, schema: Schema) -> Projectable:
        """The data, with at most so many records of each person, chosen at random."""
        from noiseplan.counting import open_source

        return open_source(data, schema, person=self.person, cap=self.max_rows)
