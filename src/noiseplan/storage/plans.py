"""Plans as JSON and arrays, and the hash that names one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.planning.design import prepare
from noiseplan.planning.figures import RowFigures
from noiseplan.planning.objectives import (
    Objective,
    PNormVariance,
    Recorded,
    TotalVariance,
    WorstVariance,
)
from noiseplan.planning.optimality import Stated
from noiseplan.planning.plan import Plan
from noiseplan.privacy import Guarantee
from noiseplan.storage.files import Arrays, Json, hash_of
from noiseplan.storage.mechanisms import read_mechanism, write_mechanism
from noiseplan.storage.workloads import read_workload, write_workload


def write_plan(plan: Plan) -> tuple[Json, Arrays]:
    """What is asked, what is measured, at what cost; nothing about data."""
    workload, arrays = write_workload(plan.workload)
    mechanism, measured = write_mechanism(plan.mechanism)
    arrays = arrays | measured
    if plan.targets is not None:
        arrays["targets"] = plan.targets
    elif (kinds := _kinds(plan)) is not None:
        arrays["kinds"] = kinds
    guarantee = plan.privacy
    content = {
        "workload": workload,
        "mechanism": mechanism,
        "privacy": {
            # As text: infinity, for noise of unknown privacy, is no JSON number.
            "pcost": repr(guarantee.pcost),
            "law": guarantee.law,
            "neighbours": guarantee.neighbours,
            **_pure(guarantee),
        },
        "objective": _write_objective(plan.objective),
        "planner": plan.planner,
        "noise": plan.noise,
        "rounding_loss": plan.rounding_loss,
    }
    return content, arrays


def read_plan(content: Mapping[str, Any], arrays: Arrays, stated: Stated) -> Plan:
    """Undo `write_plan`; `stated` is what was known of its optimality when it was saved."""
    workload = read_workload(content["workload"], arrays)
    mechanism = read_mechanism(content["mechanism"], arrays, workload.schema)
    privacy = content["privacy"]
    targets = arrays.get("targets")
    design = prepare(workload, arrays.get("kinds") if targets is None else 1.0 / targets)
    return Plan(
        workload=workload,
        mechanism=mechanism,
        privacy=_read_guarantee(privacy),
        objective=_read_objective(content["objective"]),
        planner=str(content["planner"]),
        noise=str(content["noise"]),
        rounding_loss=float(content["rounding_loss"]),
        targets=targets,
        design=design,
        figures=RowFigures(design, mechanism),
        optimality=stated,
        seconds=0.0,
    )


def _pure(guarantee: Guarantee) -> Json:
    epsilon = guarantee.pure_epsilon
    return {} if epsilon is None else {"epsilon": repr(epsilon)}


def _read_guarantee(saved: Mapping[str, Any]) -> Guarantee:
    if saved["law"] == "pure":
        return Guarantee.pure(float(saved["epsilon"]), saved["neighbours"])
    return Guarantee(float(saved["pcost"]), saved["law"], saved["neighbours"])


def _kinds(plan: Plan) -> Array | None:
    """Numbers that tell queries apart which look alike and are measured differently, if any do."""
    roles = plan.design.roles
    kinds = roles.type_priority[roles.type_of_query]
    return None if np.array_equal(kinds, plan.workload.columns.weights) else kinds


def plan_hash(plan: Plan) -> str:
    """SHA-256 of everything that defines a plan: the same plan has the same hash anywhere."""
    return hash_of(*write_plan(plan))


def schema_hash(plan: Plan) -> str:
    """SHA-256 of the plan's schema."""
    return hash_of(plan.workload.schema.to_dict())


def _write_objective(objective: Objective) -> Json:
    if isinstance(objective, TotalVariance):
        return {"kind": "total"}
    if isinstance(objective, WorstVariance):
        return {"kind": "worst"}
    if isinstance(objective, PNormVariance):
        return {"kind": "p-norm", "p": objective.p}
    return {"kind": "recorded", "name": str(objective)}


def _read_objective(saved: Mapping[str, Any]) -> Objective:
    match saved:
        case {"kind": "total"}:
            return TotalVariance()
        case {"kind": "worst"}:
            return WorstVariance()
        case {"kind": "p-norm", "p": int() | float() as p}:
            return PNormVariance(p)
    return Recorded(str(saved["name"]))


def stated_by(plan: Plan) -> Json:
    """What the plan knows of its optimality, to be saved beside it."""
    bound = plan.lower_bound
    return {"lower_bound": bound if np.isfinite(bound) else None, "proved": plan.optimal}


def read_stated(saved: Mapping[str, Any]) -> Stated:
    bound = saved["lower_bound"]
    return Stated(0.0 if bound is None else float(bound), bool(saved["proved"]))
