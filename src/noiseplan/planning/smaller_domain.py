"""Plans over the smallest domain on which the same queries can be asked.

One matrix over the whole domain needs a small domain, and a workload may need no more than a small
one: two hundred predicates on a domain of a million cells tell at most a few hundred classes of
cells apart. What is planned for the classes is a plan for the cells, at the same cost and with the
same least error (dissertation, Proposition 2.1 and Theorem 3.12).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Final

import numpy as np

from noiseplan.domain.cells import Cells, Classes, MergedValues
from noiseplan.domain.told_apart import told_apart
from noiseplan.errors import PlanError, setting
from noiseplan.matrices.base import DENSE_LIMIT, Array
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.reduced import ReducedMechanism
from noiseplan.planning.limits import EXPLICIT_CELLS, SMALL_CELLS, SMALL_PROBLEM, WORTH_IT
from noiseplan.planning.objectives import ConvexLoss, Objective, TotalVariance, WorstVariance
from noiseplan.planning.plan import Plan
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.planning.workload_types import Design
from noiseplan.queries import Identity, Prefix, Query, Ranges, Workload

# Cells, after merging values, among which classes are looked for.
GRID_CELLS: Final = 1 << 20
# Cells of the table that a release counts and then sums into classes (256 MB).
TABLE_CELLS: Final = 1 << 25
# Steps towards the optimum cost little where so few rows are asked of no more cells than this.
FEW_ROWS: Final = 256
LOW_RANK_CELLS: Final = 1024
# Smaller domains than this have plans of one matrix that are written out in full.
WRITTEN_OUT: Final = 1024
# Strategies that follow the order of values: classes have none worth following.
ORDERED: Final = ("hierarchical", "wavelet")

# `plan` with the budget, the objective and the noise that were asked for.
Planner = Callable[..., Plan]


@dataclass(frozen=True, eq=False)
class Smaller:
    """A smaller domain and the workload on it, of one query for each weight and priority."""

    cells: Cells
    workload: Workload
    priorities: Array


def equivalent_plan(
    design: Design, planner: str, objective: Objective, plan: Planner, targeted: bool,
    most: int = EXPLICIT_CELLS,
) -> Plan:  # fmt: skip
    """The plan over the smallest equivalent domain; refuses one of more than `most` cells."""
    apart = isinstance(objective, ConvexLoss)  # which sees every query on its own
    found = smaller(design, most, planner in ORDERED, apart)
    if isinstance(found, str):
        raise PlanError(
            setting("planner", planner)
            + f" plans domains of at most {most:,} cells, and {found}; use "
            + setting("planner", "auto")
        )
    return _widened(design, found, partial(plan, planner=planner), targeted)


def better_equivalent(design: Design, plain: Plan, plan: Planner) -> Plan | None:
    """What `plan` finds over a small equivalent domain, if it is clearly better than `plain`."""
    objective = plain.objective
    if not isinstance(objective, TotalVariance | WorstVariance) or not design.free:
        return None
    named = int((design.roles.of_attribute >= 0).sum())
    # Over one attribute the residual family has every strategy there is.
    if design.workload.schema.size <= SMALL_CELLS or named < 2:
        return None
    most = _tried_unasked(design, plain)
    if plain.privacy.neighbours != "add-remove" or at_least(design) > most:
        return None
    single = isinstance(objective, WorstVariance)
    if single and design.workload.rows > SMALL_PROBLEM:
        return None
    found = smaller(design, most)
    if isinstance(found, str):
        return None
    if single and design.workload.rows + found.cells.inner.size > SMALL_PROBLEM:
        return None
    best = _widened(design, found, plan, plain.targets is not None)
    if _loss(best) >= WORTH_IT * _loss(plain):
        return None
    best = replace(best, seconds=plain.seconds + best.seconds)
    return _written_out(best) if design.workload.schema.size <= WRITTEN_OUT else best


def _tried_unasked(design: Design, plain: Plan) -> int:
    """Up to how many classes an optimum is soon found: more where few rows are asked."""
    gaussian = plain.privacy.pure_epsilon is None
    return LOW_RANK_CELLS if gaussian and design.workload.rows <= FEW_ROWS else SMALL_CELLS


def _loss(plan: Plan) -> float:
    """What the plan minimises; for targets, what meeting them costs."""
    if plan.targets is not None:  # at a cost c they are met up to a scale that goes as 1/c
        return plan.privacy.pcost * float(plan.target_scale or 0.0)
    total = isinstance(plan.objective, TotalVariance)
    return plan.total_variance if total else plan.worst_variance


def at_least(design: Design) -> float:
    """So many classes at least: what the largest table tells apart by itself."""
    columns = design.workload.columns
    by_value = [isinstance(f, Identity | Prefix | Ranges) for f in columns.distinct]
    counts = [
        1 if r < 0 else int(design.groups[r].max()) + 1 for r in design.roles.of_attribute.tolist()
    ]
    logs = np.log(np.array([*counts, 1], dtype=np.float64))  # last: the padding −1
    asked = np.array([*by_value, False])[columns.factors] & (columns.joint < 0)[:, None]
    return float(np.exp((logs[columns.attributes] * asked).sum(axis=1).max(initial=0.0))) * 0.999


def _written_out(plan: Plan) -> Plan:
    """The same measurements as rows over the whole domain, which other rooms can work with."""
    mechanism = plan.mechanism
    assert isinstance(mechanism, ReducedMechanism)
    small = mechanism.small
    if not isinstance(small, DenseMechanism):
        return plan
    wide = small.strategy[:, mechanism.cells.of_cells()]
    whole = replace(small, schema=plan.schema, strategy=np.ascontiguousarray(wide))
    return replace(plan, mechanism=whole, figures=RowFigures(plan.design, whole))


def smaller(design: Design, most: int, ordered: bool = False, apart: bool = False) -> Smaller | str:
    """The smallest equivalent domain of at most `most` cells, or why there is none.

    `ordered` asks for one whose values keep their order, `apart` for every query on its own.
    """
    values = merged_values(design)
    schema, grid = design.workload.schema, values.inner.size
    told = f"the schema has {schema.size:,}"
    table = prod(schema.shape[i] for i in values.positions)
    if table > TABLE_CELLS:
        return (
            f"{told}; its queries name attributes whose table has {table:,} cells, more than the "
            f"{TABLE_CELLS:,} that can be counted together"
        )
    if not ordered and grid <= GRID_CELLS and at_least(design) <= most:
        small = (values.query(query).domain_matrix for query in design.workload)
        cells = Classes(values, told_apart(small, grid, most))
        if cells.inner.size <= min(most, DENSE_LIMIT // design.workload.rows):
            return _stacked(design, cells, apart)
    if grid <= most:
        return _carried(design, values)
    return f"{told}, of which its queries tell more than {most:,} apart"


def merged_values(design: Design) -> MergedValues:
    """The attributes that queries name, with the groups that planning finds anyway."""
    named = np.flatnonzero(design.roles.of_attribute >= 0)
    if not len(named):  # nothing but the total is asked: one attribute, all of its values together
        return MergedValues(
            design.workload.schema,
            np.zeros(1, dtype=np.int64),
            (np.zeros(design.workload.schema.shape[0], dtype=np.int64),),
        )
    groups = tuple(design.groups[design.roles.of_attribute[i]] for i in named)
    return MergedValues(design.workload.schema, named, groups)


def _stacked(design: Design, cells: Classes, apart: bool) -> Smaller:
    """All rows of one weight and one priority as one query: few queries, whatever was asked."""
    pairs = np.column_stack([design.workload.columns.weights, design.priorities])
    kind = np.arange(len(pairs))
    if not apart:
        pairs, kind = np.unique(pairs, axis=0, return_inverse=True)
    rows: list[list[Array]] = [[] for _ in pairs]
    for query, own in zip(design.workload, kind.reshape(-1), strict=True):
        rows[own].append(cells.values.query(query).domain_matrix.take_columns(cells.first))
    queries = [
        Query(cells.inner, ["class"], matrix=np.concatenate(some), weight=weight, name=f"kind {i}")
        for i, (some, (weight, _)) in enumerate(zip(rows, pairs.tolist(), strict=True))
    ]
    return Smaller(cells, Workload(queries), pairs[:, 1])


def _carried(design: Design, cells: MergedValues) -> Smaller:
    """Every query on its own, with the structure of its factors."""
    queries = [
        Query(q.schema, q.factors, matrix=q.joint, weight=q.weight, name=f"kind {number}")
        for number, q in enumerate(map(cells.query, design.workload))
    ]
    return Smaller(cells, Workload(queries), design.priorities)


def _widened(design: Design, found: Smaller, plan: Planner, targeted: bool) -> Plan:
    """The plan of the smaller workload as one of the workload itself."""
    names = [query.name for query in found.workload]
    wanted = dict(zip(names, (1.0 / found.priorities).tolist(), strict=True)) if targeted else None
    started = time.perf_counter()
    small = plan(found.workload, targets=wanted)
    mechanism = ReducedMechanism(found.cells, small.mechanism)
    return replace(
        small,
        workload=design.workload,
        mechanism=mechanism,
        targets=None if wanted is None else 1.0 / design.priorities,
        design=design,
        figures=RowFigures(design, mechanism),
        seconds=time.perf_counter() - started,
    )
