"""Planning the second step within its budget, for whatever partition the first step drew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.partition.bucket_tree import (
    BucketPlan,
    even_groups,
    part_of,
    storey_within,
)
from noiseplan.mechanisms.partition.buckets import LineWorkload, gram_root
from noiseplan.planning.plan import Plan
from noiseplan.privacy import Budget, PureDP, zCDP
from noiseplan.queries import Custom, Query, Workload
from noiseplan.schema import Ordinal, Schema
from noiseplan.strategies.hierarchies import tree

# The best plan of the top beats the greedy tree's total variance by about this factor.
TREE_TO_BEST: Final = 0.6

# `noiseplan.plan`, which is above this module: data-aware plans are among its own.
PlanTotals = Callable[..., Plan]


def plan_buckets(
    plan: PlanTotals,
    line: LineWorkload,
    edges: IntArray,
    budget: PureDP | zCDP,
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
        power = 3 if isinstance(budget, PureDP) else 2
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


def plan_totals(
    plan: PlanTotals, gram: Array, budget: Budget, noise: str, planner: str = "auto"
) -> Plan:
    """A plan over totals in a row, for a workload with this Gram matrix."""
    schema = Schema({"bucket": Ordinal(range(len(gram)))})
    query = Query(schema, {"bucket": Custom(gram_root(gram))}, name="the workload on buckets")
    if not isinstance(budget, PureDP):
        planner = "optimal"
    elif planner == "auto":
        planner = "p-identity" if len(gram) > 1 else "identity"
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
