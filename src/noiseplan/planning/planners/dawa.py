"""`planner="dawa"`: buckets of ordered values, chosen from the data when they are released."""

from __future__ import annotations

from functools import partial
from typing import Final

from noiseplan.errors import BudgetError, PlanError, remedy, setting
from noiseplan.mechanisms.partition.buckets import LineWorkload
from noiseplan.mechanisms.partition.hilbert import line
from noiseplan.mechanisms.partition.mechanism import PartitionMechanism
from noiseplan.mechanisms.partition.partition_settings import Dawa, Spending
from noiseplan.noise import Noise
from noiseplan.planning.bucket_plan import PlanTotals, plan_buckets
from noiseplan.planning.candidate import ASKED, Candidate
from noiseplan.planning.objectives import Objective, TotalVariance
from noiseplan.planning.problem import Problem
from noiseplan.planning.reductions import record_budget
from noiseplan.planning.workload_errors import UnknownFigures
from noiseplan.privacy import GDP, Budget, PureDP, zCDP
from noiseplan.queries import Workload
from noiseplan.schema.labels import IN_ORDER

MOST_CELLS: Final = 2**20
_DAWA: Final = remedy("setting", 'planner="dawa"', "planner", "dawa")


def solve(problem: Problem, plan: PlanTotals) -> Candidate:
    """A data-aware plan of one ordered attribute, or of two along a Hilbert curve.

    `plan` will plan the totals of the buckets, once these are drawn.
    """
    settings = _settings(problem.planner)
    budget = _checked(problem.budget, problem.targets, problem.objective)
    workload, noise = problem.workload, problem.noise
    asked = _asked(workload)
    shape = tuple(workload.schema[name].size for name in asked)
    pure = isinstance(budget, PureDP)
    if settings.second != "auto" and not pure:
        raise PlanError(
            f"second={settings.second!r} is for PureDP, found {budget}: with Gaussian noise the "
            "optimal strategy is measured, and no other is as good; leave second out"
        )
    usual, simulated = choices = Noise.choices(budget)
    if noise not in choices:
        raise PlanError(
            f"noise for {budget} is {usual!r} or {simulated!r} (for simulation), found {noise!r}"
        )
    # accounted by zCDP whatever the noise, because the first step is no Gaussian mechanism
    whole = budget if isinstance(budget, PureDP) else zCDP(budget.zcdp_rho())
    # a record that is replaced is removed and another added
    steps = int(problem.max_rows) * (2 if problem.neighbours == "replace" else 1)
    record = record_budget(whole, steps, noise)
    assert record is not None  # there is a budget
    order = line(shape)
    settings = settings.resolved(len(order), len(asked), pure)
    spending = Spending.of(settings, record, len(order), len(asked), noise)
    mechanism = PartitionMechanism(
        LineWorkload(workload, asked, order), spending, settings, noise, partial(plan_buckets, plan)
    )
    privacy = mechanism.cost(problem.neighbours, int(problem.max_rows))
    considered = (("dawa", ASKED),)
    unknown = UnknownFigures(workload)
    return Candidate("dawa", mechanism, privacy, unknown, unknown, considered=considered)


def _settings(planner: object) -> Dawa:
    if isinstance(planner, Dawa):
        return planner
    if planner == "dawa":
        return Dawa()
    raise PlanError(f'a planner is a name, or Dawa(share=0.1) for "dawa"; found {planner!r}')


def _checked(budget: Budget | None, targets: object, objective: Objective | None) -> Budget:
    if targets is not None:
        raise PlanError(
            _DAWA + " takes a budget, not targets: its error depends on the data and is not known "
            "beforehand; meet targets with " + setting("planner", "auto")
        )
    if not isinstance(budget, Budget) or isinstance(budget, GDP):
        raise BudgetError(
            _DAWA + " works within PureDP(epsilon), zCDP(rho) or ApproxDP(epsilon, delta); "
            f"found {budget!r}. Its first step is no Gaussian mechanism"
        )
    if objective is not None and not isinstance(objective, TotalVariance):
        raise PlanError(
            _DAWA + f" aims at the total squared error, found the objective {objective}; "
            "leave it out, and give queries that matter more a larger weight"
        )
    return budget


def _asked(workload: Workload) -> tuple[str, ...]:
    """The attributes that queries name: one or two, all ordered."""
    schema = workload.schema
    named = {name for query in workload for name in query.attributes}
    asked = tuple(name for name in schema.names if name in named)
    if not 1 <= len(asked) <= 2:
        raise PlanError(
            _DAWA + f" takes queries over one ordered attribute, or two; these name "
            f"{len(asked)}: {', '.join(asked) or 'none'}. Use "
            + setting("planner", "auto")
            + ", or plan the tables apart"
        )
    for name in asked:
        if not schema[name].ordered:
            raise PlanError(
                _DAWA + f" groups neighbouring values, and {name!r} is categorical: "
                f"declare it as "
                + IN_ORDER
                + " if its order means something, or use "
                + setting("planner", "auto")
            )
        if schema[name].missing is not None:
            raise PlanError(
                _DAWA + f" groups neighbouring values, and {name!r} has a cell for missing ones, "
                f"which is nobody's neighbour: use " + setting("planner", "auto")
            )
    cells = 1
    for name in asked:
        cells *= schema[name].size
    if cells > MOST_CELLS:
        raise PlanError(
            _DAWA + f" takes up to {MOST_CELLS:,} cells, found {cells:,}; use wider bins"
        )
    return asked
