"""Plans as JSON and arrays, and the hash that names one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

# Every kind of mechanism that is saved, by its name in the registry.
import noiseplan.mechanisms.crossed
import noiseplan.mechanisms.matrix
import noiseplan.mechanisms.measured_levels
import noiseplan.mechanisms.measured_series
import noiseplan.mechanisms.measured_tree
import noiseplan.mechanisms.product
import noiseplan.mechanisms.reduced
import noiseplan.mechanisms.residual
import noiseplan.mechanisms.side_by_side
import noiseplan.mechanisms.tables
import noiseplan.mechanisms.workload_rows  # noqa: F401
from noiseplan.arrays import Arrays, Json
from noiseplan.errors import BudgetError, PlanError, StorageError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism, floats, saved_kind
from noiseplan.mechanisms.price import require_price
from noiseplan.noise.law import SIMULATED
from noiseplan.planning.certificates import Optimality, Stated, Unstated
from noiseplan.planning.objectives import (
    RMSE,
    Objective,
    PNormVariance,
    Recorded,
    TotalVariance,
    WorstVariance,
)
from noiseplan.planning.plan import Plan, decided
from noiseplan.planning.workload_errors import LoadedFigures
from noiseplan.planning.workload_types import prepare
from noiseplan.privacy import ApproxDP, Guarantee
from noiseplan.privacy.people import PERSON, record_price
from noiseplan.queries import Workload
from noiseplan.queries.workload_files import read_workload, write_workload
from noiseplan.schema import Schema
from noiseplan.storage.files import hash_of

# Noise of measurements made elsewhere: only its variances are known, and its cost is hearsay.
GIVEN = "given"
# Noise of several releases together: variances are known, and they are below the parameters.
COMBINED = "combined"
# Objectives that are no more than their kind; others are saved with more, or by name.
OBJECTIVES: Final = {"total": TotalVariance, "rmse": RMSE, "worst": WorstVariance}


def write_plan(plan: Plan) -> tuple[Json, Arrays]:
    """What is asked, what is measured, at what cost; nothing about data."""
    workload, arrays = write_workload(plan.workload)
    mechanism, measured = plan.mechanism.parts()
    arrays = arrays | measured
    if plan.targets is not None:
        arrays["targets"] = plan.targets
    elif (kinds := _kinds(plan)) is not None:
        arrays["kinds"] = kinds
    content: Json = {
        "workload": workload,
        "mechanism": mechanism,
        "privacy": plan.privacy.parts(),
        "objective": _write_objective(plan.objective),
        "planner": plan.planner,
        "noise": plan.noise,
        "rounding_loss": plan.rounding_loss,
    }
    pair = decided(plan)
    if pair is not None:
        content["decided"] = [repr(pair.epsilon), repr(pair.delta)]
    if plan.max_rows > 1:
        content["max_rows"] = plan.max_rows
    if plan.unit != PERSON or (plan.owned and plan.max_rows == 1):  # several are always somebody's
        content["unit"] = plan.unit
    return content, arrays


class Known(NamedTuple):
    """What is known of a plan's optimality: a bound, a proof, a certified gap."""

    lower_bound: float | None = None
    proved: bool | None = None
    gap: float | None = None


NOTHING_KNOWN: Final = Known()


def read_plan(
    content: Mapping[str, Any], arrays: Arrays, numbers: int, known: Known = NOTHING_KNOWN
) -> Plan:
    """Undo `write_plan`; `known` was known of its optimality when it was saved.

    A plan over more values than there are `numbers` in the folder is refused before it is read.
    """
    every = saved_kind(content["mechanism"]["kind"]).from_sizes
    workload = read_workload(content["workload"], arrays, numbers, all_measured=every)
    mechanism = read_mechanism(content["mechanism"], arrays, workload.schema)
    guarantee = Guarantee.from_parts(content["privacy"])
    max_rows = int(content.get("max_rows", 1))
    if max_rows < 1:
        raise StorageError(f"the plan is for people with {max_rows} records, at least 1 is meant")
    if content["noise"] != GIVEN:
        if content["noise"] == COMBINED and guarantee.law == "zcdp":
            # μ² adds up over the measurements that were put together, each with its own noise.
            require_price(mechanism.as_stated(), replace(guarantee, mu2=None), max_rows)
        else:
            require_price(mechanism, guarantee, max_rows)
    bound, proved, gap = known
    # Variances are those of one record's cost, whatever a person pays.
    record = guarantee if max_rows == 1 else record_price(guarantee, max_rows)
    exact = content["noise"] not in SIMULATED
    optimality: Optimality = Unstated(workload, record, proved, gap, exact)
    if bound is not None:
        optimality = Stated(bound, proved, gap)
    targets, kinds = (
        _one_for_each(arrays, name, workload) if name in arrays else None
        for name in ("targets", "kinds")
    )
    pair = content.get("decided")
    budget = None if pair is None else ApproxDP(*map(float, pair))
    if budget is not None and not guarantee.within(budget):
        raise StorageError(f"the plan is said to be within {budget}, and its cost is above that")
    plan = Plan(
        workload=workload,
        mechanism=mechanism,
        privacy=guarantee,
        objective=_read_objective(content["objective"]),
        planner=str(content["planner"]),
        noise=str(content["noise"]),
        rounding_loss=float(content["rounding_loss"]),
        targets=targets,
        figures=LoadedFigures(workload, mechanism, kinds if targets is None else 1.0 / targets),
        optimality=optimality,
        max_rows=max_rows,
        budget=budget,
        loaded=True,
        seconds=0.0,
    )
    if max_rows == 1 and "unit" not in content:
        return plan
    return with_saved_unit(plan, content.get("unit", PERSON))


def read_mechanism(content: Mapping[str, Any], arrays: Arrays, schema: Schema) -> Mechanism:
    """Undo `Mechanism.parts`: exactly what was measured, however it was planned."""
    try:
        return saved_kind(content["kind"]).from_parts(content, arrays, schema)
    except PlanError as refused:  # such as integers that are none
        raise StorageError(f"the plan's mechanism is none: {refused}") from None


def with_saved_unit(plan: Plan, unit: str) -> Plan:
    """For those that a folder says the records belong to."""
    try:
        return plan.with_unit(unit)
    except BudgetError as error:
        raise StorageError(error.message) from None


def _one_for_each(arrays: Arrays, name: str, workload: Workload) -> Array:
    """A positive number for each query."""
    found = floats(arrays, name, 1)
    if len(found) != len(workload) or not (found > 0).all():
        raise StorageError(f"{name} should be a positive number for each query")
    return found


def _kinds(plan: Plan) -> Array | None:
    """Numbers that tell queries apart which look alike and are measured differently, if any do."""
    roles = plan.figures.design.roles
    alone = all(len(role.members) == 1 for role in roles.roles)
    if alone and plan.mechanism.alike_by == "type":
        # Attributes that look alike may be measured in different tables.
        return np.asarray(roles.type_first[roles.type_of_query] + 1.0)
    if alone and plan.mechanism.alike_by == "nothing":
        # So may attributes that look alike, by a strategy over all cells.
        shared = prepare(plan.workload).roles
        if len(shared.types) < len(roles.types):
            return np.asarray(np.arange(len(plan.workload)) + 1.0)
    kinds = roles.type_priority[roles.type_of_query]
    return None if np.array_equal(kinds, plan.workload.columns.weights) else kinds


def defining_hash(content: Mapping[str, Any], arrays: Arrays) -> str:
    """The hash of what is asked, measured and promised.

    What follows from these numbers (how to put counts together again, what rounding cost) is left
    out: another processor may compute it to another last digit.
    """
    told = {key: value for key, value in content.items() if key != "rounding_loss"}
    followed = ("_centre", "_recover")
    kept = {name: array for name, array in arrays.items() if not name.endswith(followed)}
    return hash_of(told, kept)


def _write_objective(objective: Objective) -> Json:
    reach = {} if objective.at_most is None else {"at_most": objective.at_most}
    if isinstance(objective, PNormVariance):
        return {"kind": "p-norm", "p": objective.p, **reach}
    for kind, named in OBJECTIVES.items():
        if type(objective) is named:
            return {"kind": kind, **reach}
    return {"kind": "recorded", "name": str(objective), **reach}


def _read_objective(saved: Mapping[str, Any]) -> Objective:
    reach = saved.get("at_most")
    match saved:
        case {"kind": "p-norm", "p": int() | float() as p}:
            return PNormVariance(p, at_most=reach)
        case {"kind": str() as kind} if kind in OBJECTIVES:
            return OBJECTIVES[kind](at_most=reach)
    return Recorded(str(saved["name"]), at_most=reach)


def read_known(saved: Mapping[str, Any]) -> Known:
    """What was known of a plan's optimality when it was saved."""
    bound, proved, gap = saved["lower_bound"], saved["proved"], saved.get("gap")
    if gap is not None and not float(gap) >= 0:
        raise StorageError(f"a certified gap is a number from 0 on, found {gap!r}")
    return Known(
        None if bound is None else float(bound),
        None if proved is None else bool(proved),
        None if gap is None else float(gap),
    )
