"""`planner="dawa"`: buckets of ordered values, chosen from the data when they are released.

The second step is planned within its budget, for whatever partition the first step drew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import BudgetError, PlanError, remedy, setting
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.partition.bucket_tree import (
    BucketPlan,
    even_groups,
    part_of,
    storey_within,
)
from noiseplan.mechanisms.partition.buckets import LineWorkload, gram_root, line
from noiseplan.mechanisms.partition.mechanism import PartitionMechanism
from noiseplan.mechanisms.partition.partition_settings import Dawa, Spending, usual_for
from noiseplan.noise import Noise
from noiseplan.planning.candidate import ASKED, Candidate
from noiseplan.planning.objectives import Objective, TotalVariance
from noiseplan.planning.plan import Plan
from noiseplan.planning.problem import Problem
from noiseplan.planning.reductions import record_budget
from noiseplan.planning.workload_errors import UnknownFigures
from noiseplan.privacy import GDP, Budget
from noiseplan.privacy.budgets import Additive
from noiseplan.queries import Custom, Query, Workload
from noiseplan.schema import Ordinal, Schema
from noiseplan.schema.labels import IN_ORDER
from noiseplan.strategies.hierarchies import tree

MOST_CELLS: Final = 2**20
_DAWA: Final = remedy("setting", 'planner="dawa"', "planner", "dawa")

# The best plan of the top beats the greedy tree's total variance by about this factor.
TREE_TO_BEST: Final = 0.6

# `noiseplan.plan`, which is above this module: data-aware plans are among its own.
PlanTotals = Callable[..., Plan]


def solve(problem: Problem, plan: PlanTotals) -> Candidate:
    """A data-aware plan of one ordered attribute, or of two along a Hilbert curve.

    `plan` will plan the totals of the buckets, once these are drawn.
    """
    settings = _settings(problem.planner)
    budget = _checked(problem.budget, problem.targets, problem.objective)
    workload, noise = problem.workload, problem.noise
    asked = _asked(workload)
    shape = tuple(workload.schema[name].size for name in asked)
    # accounted by zCDP whatever the noise, because the first step is no Gaussian mechanism
    whole = budget.additive()
    own = usual_for(whole)
    if settings.second not in own.second:
        raise PlanError(
            f"second={settings.second!r} is for PureDP, found {budget}: with Gaussian noise the "
            "optimal strategy is measured, and no other is as good; leave second out"
        )
    usual, simulated = choices = Noise.choices(budget)
    if noise not in choices:
        raise PlanError(
            f"noise for {budget} is {usual!r} or {simulated!r} (for simulation), found {noise!r}"
        )
    # a record that is replaced is removed and another added
    steps = int(problem.max_rows) * (2 if problem.neighbours == "replace" else 1)
    record = record_budget(whole, steps, noise)
    assert record is not None  # there is a budget
    order = line(shape)
    settings = settings.resolved(len(order), len(asked), own)
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


def plan_buckets(
    plan: PlanTotals,
    line: LineWorkload,
    edges: IntArray,
    budget: Additive,
    noise: str,
    planner: str = "auto",
) -> BucketPlan:
    """What is measured of the buckets for a workload; within the budget, or an error.

    `plan` plans the totals at the top, as `noiseplan.plan` does.
    """
    groups = even_groups(len(edges) - 1)
    if not groups:
        made = BucketPlan(edges, plan_totals(plan, line.gram(edges), budget, noise, planner))
    else:
        storeys = storey_edges(edges, groups)
        diagonals = [line.diagonal(each) for each in storeys]
        needs = storey_needs(diagonals, groups, line.gram(storeys[-1]))
        power = Noise.within(budget, noise).degree + 1
        if planner == "auto" and plain_is_best(diagonals[0], needs, power):
            made = BucketPlan(edges, None, (storey_within(budget, noise),))
        else:
            parts = [part_of(budget, share) for share in storey_shares(needs, power)]
            top = plan_totals(plan, line.gram(storeys[-1]), parts[-1], noise, planner)
            below = tuple(storey_within(part, noise) for part in parts[:-1])
            made = BucketPlan(edges, top, below, tuple(groups))
    if not made.privacy.within(budget):  # fail closed
        raise PlanError(f"measuring the buckets would cost more than {budget}: this is a bug")
    return made


def plain_is_best(diagonal: Array, needs: Array, power: int) -> bool:
    """Whether groups would only take budget from the buckets, as when single cells are asked.

    The same noise on every bucket, with all of the budget, has the total variance tr Ĝ in units of
    that noise; storeys with the best shares have about (Σ_s A_s^{1/p})^p. Of few buckets one plan
    is the best there is, which may be plain noise too.
    """
    return bool(diagonal.sum() <= (needs ** (1 / power)).sum() ** power)


def storey_edges(edges: IntArray, groups: Sequence[IntArray]) -> list[IntArray]:
    """Where the totals of every storey begin and end in the line: buckets, groups, …, the top."""
    found = [edges]
    for group in groups:
        found.append(found[-1][group])
    return found


def plan_totals(plan: PlanTotals, gram: Array, budget: Additive, noise: str, planner: str) -> Plan:
    """A plan over totals in a row, for a workload with this Gram matrix."""
    schema = Schema({"bucket": Ordinal(range(len(gram)))})
    query = Query(schema, {"bucket": Custom(gram_root(gram))}, name="the workload on buckets")
    if planner == "auto":
        planner = usual_for(budget).totals[len(gram) > 1]
    return plan(Workload([query]), budget=budget, noise=noise, planner=planner)


def storey_shares(needs: Array, power: int) -> Array:
    """Shares of the budget, from the buckets to the top, that make the least total variance.

    With a share λ_s the variance is about Σ_s A_s/λ_s^{p−1}, least for λ_s ∝ A_s^{1/p}: p = 3 for
    Laplace noise and 2 for Gaussian.
    """
    weights = needs ** (1 / power)
    return np.asarray(weights / weights.sum())


def storey_needs(diagonals: Sequence[Array], groups: Sequence[IntArray], top: Array) -> Array:
    """A_s: what is asked of every storey, from the buckets to the top, by the diagonals of Ĝ.

    A storey serves what lies within its groups, beside their totals:
    A_s = Σ_g tr(Ĝ_gg) − 1ᵀĜ_gg1/|g|, where the last is |g| times what is asked of the total of the
    group.
    """
    needs = [
        float(own.sum() - (np.diff(group) * above).sum())
        for own, above, group in zip(diagonals, diagonals[1:], groups, strict=False)
    ]
    needs.append(TREE_TO_BEST * tree(top)[0])
    return np.maximum(needs, 1e-3 * max(needs))
