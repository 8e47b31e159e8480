"""What records of each kind pay for a plan, and what more can be had at no further cost.

The profile of a plan is the diagonal of its cost matrix. Its largest entry is the cost that is
promised to everybody; records in other cells may pay less. What a cell pays less than the promise
is room for further measurements of that cell, which leave the promise as it is.

References
----------
Y. Xiao, Z. Ding, Y. Wang, D. Zhang, D. Kifer, "Optimizing fitness-for-use of differentially private
linear queries", PVLDB 14 (2021), Definitions 4 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from noiseplan.domain.gram import workload_gram
from noiseplan.errors import PlanError, setting
from noiseplan.matrices.base import Array
from noiseplan.optimize.cost_profiles import Spare, compared, profile_of
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.certificates import Unstated
from noiseplan.planning.finish import finish_stated
from noiseplan.planning.limits import EXPLICIT_CELLS
from noiseplan.planning.measured_numbers import numbers_of
from noiseplan.planning.objectives import Recorded
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.planning.workload_types import prepare
from noiseplan.privacy import Guarantee
from noiseplan.privacy.people import record_price
from noiseplan.privacy.rounding import margin
from noiseplan.queries import Query, Workload

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan

EXTENDED = "extended"
# Cells that are listed: 80 MB of costs.
LISTED_CELLS = 10_000_000
# Costs this close to each other, relative, are one when ε is computed: rounded up to it.
ALIKE = 2.0**-30
# How much of a cell's room is left empty, against rounding.
UNUSED = 1e-9
# Room below this share of the cost is left by the optimiser's tolerance, and serves nobody.
LEAST_ROOM = 1e-4


@final
@dataclass(frozen=True, eq=False, repr=False)
class Profile:
    """The privacy cost of one record in every cell, in the shape of the schema; rounded up.

    `costs` are 2ρ each. `promised` is what the plan guarantees to everybody.
    """

    costs: Array
    promised: Guarantee

    @property
    def rho(self) -> Array:
        """ρ of zCDP for the records of each cell."""
        return 0.5 * self.costs

    @property
    def mu(self) -> Array:
        """μ of Gaussian DP for the records of each cell; √cost where zCDP is all that is known."""
        times = 1.0 if self.promised.mu2 is None else self.promised.mu2 / self.promised.pcost
        return np.nextafter(np.sqrt(self.costs * times) * (1 + 1e-15), np.inf)

    @property
    def spare(self) -> Array:
        """What each cell pays less than is promised."""
        return np.maximum(self.promised.pcost - self.costs, 0.0)

    def epsilon(self, delta: float) -> Array:
        """The least ε at which records of each cell have (ε, δ)-differential privacy."""
        step = ALIKE * self.promised.pcost
        levels, place = np.unique(np.ceil(self.costs / step), return_inverse=True)
        costs = np.minimum(levels * step * (1 + 1e-15), self.promised.pcost)
        each = [self.promised.at(float(c)).epsilon(delta) for c in costs]
        return np.array(each)[place.reshape(self.costs.shape)]

    def kinder_than(self, other: Profile) -> bool:
        """Whether it is smaller in the refined order: sorted from the largest, like words."""
        return compared(self.costs.ravel(), other.costs.ravel()) < 0

    def __repr__(self) -> str:
        least, most = self.costs.min(), self.costs.max()
        return f"Profile({self.costs.size:,} cells, cost {least:.4g} to {most:.4g})"


def profile(plan: Plan) -> Profile:
    """The profile of a plan with Gaussian noise over a domain whose cells can be listed."""
    if plan.privacy.pure_epsilon is not None or plan.privacy.neighbours != "add-remove":
        raise PlanError(
            "profiles are of Gaussian noise, for neighbours that add or remove a record: plan with "
            "budget=zCDP(0.5)"
        )
    if plan.max_rows > 1:
        raise PlanError(
            f"a profile says what one record pays in its cell, and a {plan.unit} of this plan has "
            f"up to {plan.max_rows} records: plan with max_rows=1"
        )
    if plan.schema.size > LISTED_CELLS:
        raise PlanError(
            f"a profile lists what records in every cell pay, for at most {LISTED_CELLS:,} cells, "
            f"and the schema has {plan.schema.size:,}: plan.privacy is what all of them are "
            f"promised"
        )
    over = 1 + margin(plan.measured_numbers)
    costs = np.minimum(plan.mechanism.cell_costs() * over, plan.privacy.pcost)
    return Profile(costs.reshape(plan.schema.shape), plan.privacy)


def with_free_queries(plan: Plan, queries: Query | Workload) -> Plan:
    """The plan with further measurements that fit below its cost, chosen for these queries."""
    mechanism = plan.mechanism
    if plan.privacy.neighbours != "add-remove":  # two records would differ in what is added, too
        raise PlanError(
            "free queries fit below what adding or removing a record costs, and this plan is for "
            "replaced records: plan with " + setting("neighbours", "add-remove")
        )
    rows = mechanism.free_rows(EXPLICIT_CELLS)
    wanted = Workload([queries]) if isinstance(queries, Query) else queries
    if not isinstance(wanted, Workload):
        raise PlanError(
            f"free queries are a Query or a Workload, found {type(queries).__name__}: write "
            f"plan.free_queries(Query(schema, ['age']))"
        )
    spare = Spare.of(rows)
    if spare.room.max() <= LEAST_ROOM * profile_of(rows).max():
        raise PlanError(
            "every cell pays the full cost already, so nothing more is free; planner='refined' "
            "leaves as much room as the targets allow"
        )
    extra = (1 - UNUSED) * spare.measuring(workload_gram(wanted))
    extra = numbers_of(mechanism.noise).towards_zero(extra)  # no column grows
    strategy = np.concatenate([rows, extra[extra.any(axis=1)]])
    if profile_of(strategy).max() > profile_of(rows).max():  # fail closed
        raise PlanError("free queries would raise the cost: this is a bug")
    workload = plan.workload + wanted
    richer = mechanism.with_rows(strategy)
    for query in wanted:
        richer.require(query)
    figures = RowFigures(prepare(workload), richer)
    known = Unstated(workload, record_price(plan.privacy, plan.max_rows))
    objective = Recorded(f"{plan.objective}, then further queries at no further cost")
    more = Candidate(EXTENDED, richer, plan.privacy, figures, known, plan.rounding_loss)
    made = finish_stated(more, objective, plan.noise, plan.max_rows)
    made = replace(made, budget=plan.budget, loaded=plan.loaded, seconds=plan.seconds)
    return made if plan.of_records else made.with_unit(plan.unit)
