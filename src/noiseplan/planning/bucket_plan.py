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
    made = plain_buckets(edges, budget, noise) if planner == "auto" else None
    if made is None or not plain_is_best(line, edges, groups, isinstance(budget, PureDP)):
        made = planned_buckets(plan, line, edges, budget, noise, planner)
    if not made.privacy.within(budget):  # fail closed
        raise PlanError(f"measuring the buckets would cost more than {budget}: this is a bug")
    return made


def plain_buckets(edges: IntArray, budget: PureDP | zCDP, noise: str) -> BucketPlan:
    """The same noise on every bucket, with all of the budget: a record is in one of them."""
    return BucketPlan(edges, None, (storey_within(budget, noise),))


def plain_is_best(
    line: LineWorkload, edges: IntArray, groups: Sequence[IntArray], pure: bool
) -> bool:
    """Whether groups would only take budget from the buckets, as when single cells are asked.

    Plain noise has the total variance tr Ĝ, in units of that of a number with all of the budget;
    storeys with the best shares have about (Σ_s A_s^{1/p})^p, p = 3 for Laplace noise and 2 for
    Gaussian. Few buckets are planned at their best, which may be plain noise too.
    """
    if not groups:
        return False
    power = 3 if pure else 2
    needs = storey_needs(line, storey_edges(edges, groups), groups)
    return float(line.diagonal(edges).sum()) <= float((needs ** (1 / power)).sum() ** power)


def planned_buckets(
    plan: PlanTotals,
    line: LineWorkload,
    edges: IntArray,
    budget: PureDP | zCDP,
    noise: str,
    planner: str,
) -> BucketPlan:
    """Few buckets by one plan of their own; of many, storeys of groups and a plan at the top."""
    groups = even_groups(len(edges) - 1)
    if not groups:
        return BucketPlan(edges, plan_totals(plan, line.gram(edges), budget, noise, planner))
    storeys = storey_edges(edges, groups)
    shares = storey_shares(line, storeys, groups, isinstance(budget, PureDP))
    parts = [part_of(budget, share) for share in shares]
    top = plan_totals(plan, line.gram(storeys[-1]), parts[-1], noise, planner)
    below = tuple(storey_within(part, noise) for part in parts[:-1])
    return BucketPlan(edges, top, below, tuple(groups))


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


def storey_shares(
    line: LineWorkload, storeys: Sequence[IntArray], groups: Sequence[IntArray], pure: bool
) -> Array:
    """Shares of the budget, from the buckets to the top, that make the least total variance.

    With a share λ_s the variance is about Σ_s A_s/λ_s² for Laplace and Σ_s A_s/λ_s for Gaussian
    noise, least for λ_s ∝ A_s^{1/3} and A_s^{1/2}.
    """
    weights = storey_needs(line, storeys, groups) ** (1 / 3 if pure else 1 / 2)
    return np.asarray(weights / weights.sum())


def storey_needs(
    line: LineWorkload, storeys: Sequence[IntArray], groups: Sequence[IntArray]
) -> Array:
    """A_s: what is asked of every storey, from the buckets to the top.

    A storey serves what lies within its groups, beside their totals:
    A_s = Σ_g tr(Ĝ_gg) − 1ᵀĜ_gg1/|g|, where the last is |g| times what is asked of the total of the
    group.
    """
    needs = []
    for own, above, group in zip(storeys, storeys[1:], groups, strict=False):
        whole = np.diff(group) * line.diagonal(above)
        needs.append(float(line.diagonal(own).sum() - whole.sum()))
    needs.append(TREE_TO_BEST * tree(line.gram(storeys[-1]))[0])
    return np.maximum(needs, 1e-3 * max(needs))
