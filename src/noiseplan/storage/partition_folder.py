"""Data-aware releases on disk, in folders like those of any release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Final

import numpy as np

from noiseplan.arrays import Arrays, IntArray, Json
from noiseplan.counting.person_cap import ChosenRecords
from noiseplan.errors import StorageError
from noiseplan.mechanisms.base import Measurements
from noiseplan.mechanisms.partition.bucket_tree import BucketPlan
from noiseplan.mechanisms.partition.mechanism import (
    PartitionMeasurements,
    PartitionMechanism,
    partition_of,
)
from noiseplan.mechanisms.partition.partition_settings import Dawa
from noiseplan.noise import Noise
from noiseplan.planning.plan import Plan
from noiseplan.planning.planner import plan as make_plan
from noiseplan.planning.planners.dawa import MOST_CELLS
from noiseplan.privacy import ApproxDP, Budget, PureDP, zCDP
from noiseplan.privacy.people import PERSON
from noiseplan.queries.workload_files import read_workload, write_workload
from noiseplan.release.release import Release
from noiseplan.storage.certificate import DATA_AWARE, facts, framed, read_provenance, read_words
from noiseplan.storage.files import hash_of
from noiseplan.storage.plans import read_plan, with_saved_unit, write_plan
from noiseplan.texts import counted

_BUDGETS: Final[dict[str, type[PureDP] | type[zCDP] | type[ApproxDP]]] = {
    "PureDP": PureDP,
    "zCDP": zCDP,
    "ApproxDP": ApproxDP,
}
_TOP: Final = "top_"
# Of plans saved before there was such a setting.
_BEFORE: Final = {"compare_share": 0.0}


def read_release(
    content: Mapping[str, Any], saved: Mapping[str, Any], arrays: Arrays, measured: Arrays
) -> Release:
    """Undo `contents`; the plan is made again from its settings, and must promise the same."""
    workload = read_workload(saved["workload"], arrays, MOST_CELLS)  # buckets are fewer than cells
    kind, values = saved["budget"]
    budget: Budget = _BUDGETS[kind](*(float(value) for value in values))
    plan = make_plan(
        workload,
        budget=budget,
        planner=Dawa(**(_BEFORE | saved["settings"])),
        neighbours=saved.get("neighbours", "add-remove"),
        noise=str(saved["noise"]),
        max_rows=int(saved["max_rows"]),
    )
    if "unit" in saved:
        plan = with_saved_unit(plan, saved["unit"])
    if plan.hash() != content["plan_sha256"]:
        raise StorageError("the plan is not the one that the certificate names")
    measurements = _read_measurements(partition_of(plan.mechanism), saved["buckets"], measured)
    choice = ChosenRecords() if content.get("records_chosen") else None
    made = replace(plan, loaded=True)
    words = read_words(content)
    return Release(made, measurements, read_provenance(content), choice=choice, **words)


def defining_parts(plan: Plan) -> tuple[Json, Arrays]:
    """What is asked, promised and chosen beforehand."""
    workload, arrays = write_workload(plan.workload)
    budget, mechanism = plan.budget, partition_of(plan.mechanism)
    assert budget is not None  # such plans are made within one
    content = {
        "kind": "data-aware",
        "workload": workload,
        # As text, so that no digit is lost.
        "budget": [type(budget).__name__, [repr(float(v)) for v in asdict(budget).values()]],
        "settings": {
            name: value
            for name, value in asdict(mechanism.settings).items()
            if name not in _BEFORE or value != _BEFORE[name]
        },
        "noise": mechanism.drawn_by,
        "max_rows": plan.max_rows,
        "pcost": repr(plan.privacy.pcost),
    }
    if plan.unit != PERSON or (plan.owned and plan.max_rows == 1):
        content["unit"] = plan.unit
    if plan.privacy.neighbours != "add-remove":
        content["neighbours"] = plan.privacy.neighbours
    return content, arrays


def plan_hash(plan: Plan) -> str:
    """The hash of that."""
    return hash_of(*defining_parts(plan))


def contents(release: Release) -> tuple[Json, Arrays, Arrays, Json, str]:
    """Plan, its arrays, measurements, and the certificate as JSON and in words."""
    plan, arrays = defining_parts(release.plan)
    defined = hash_of(plan, arrays)
    measured = release.measurements
    assert isinstance(measured, PartitionMeasurements)  # as its mechanism made them
    buckets = measured.buckets
    top, top_arrays = _written_top(buckets)
    plan = plan | {
        "buckets": {
            "top": top,
            "storeys": [storey.brief() for storey in buckets.storeys],
            "unevenness": measured.gauge.unevenness,
        }
    }
    seen = {"norm": measured.gauge.norm, "compared": measured.compared}
    plan["buckets"] |= {name: value for name, value in seen.items() if value is not None}
    numbers: Arrays = {"edges": buckets.edges}
    numbers |= {f"group_{i}": edges for i, edges in enumerate(buckets.groups)}
    numbers |= {f"block_{i}": block for i, block in enumerate(measured.values)}
    numbers |= {f"{_TOP}{name}": array for name, array in top_arrays.items()}
    content = facts(release, DATA_AWARE, defined) | {
        "buckets": buckets.buckets,
        "measured_numbers": buckets.numbers,
        "errors": "estimated; answers are biased where buckets are uneven",
    }
    return plan, arrays, numbers, content, in_words(content, release)


def _read_measurements(
    mechanism: PartitionMechanism, saved: Mapping[str, Any], arrays: Arrays
) -> PartitionMeasurements:
    storeys = tuple(Noise.from_brief(storey) for storey in saved["storeys"])
    top = _read_top(saved["top"], arrays)
    edges = _edges(arrays, "edges", len(mechanism.line.order))
    groups = tuple(arrays[f"group_{i}"] for i in range(0 if top is None else len(storeys)))
    buckets = BucketPlan(edges, top, storeys, groups)
    count = sum(name.startswith("block_") for name in arrays)
    values = tuple(arrays[f"block_{i}"] for i in range(count))
    sizes = [len(edges) - 1, *(len(group) - 1 for group in groups)]
    below = sizes if top is None else sizes[:-1]  # plain noise is on the buckets alone
    if [len(v) for v in values[: len(storeys)]] != below or sizes[-1] != buckets.top_size:
        raise StorageError("measurements.npz: there is not one number for every bucket")
    if top is not None:
        top.mechanism.check(Measurements(values[len(storeys) :]))
    for value, storey in zip(values, storeys, strict=False):
        if not np.isfinite(value).all() or value.dtype.kind != np.dtype(storey.dtype).kind:
            raise StorageError("measurements.npz: the totals of buckets are not as they were drawn")
    compared = _number(saved.get("compared"))
    second = mechanism.spending.second_after(compared)
    if not buckets.privacy.within(second):
        raise StorageError("the buckets were measured at a higher cost than the plan states")
    gauge = mechanism.gauge(_number(saved["unevenness"]), _number(saved.get("norm")))
    return PartitionMeasurements(values, buckets, mechanism.line, gauge, compared)


def _written_top(buckets: BucketPlan) -> tuple[Json | None, Arrays]:
    """The plan at the top; plain noise has none."""
    if buckets.top is None:
        return None, {}
    assert isinstance(buckets.top, Plan)  # whoever measures buckets plans them
    return write_plan(buckets.top)


def _read_top(saved: Mapping[str, Any] | None, arrays: Arrays) -> Plan | None:
    if saved is None:
        return None
    own = {name[len(_TOP) :]: array for name, array in arrays.items() if name.startswith(_TOP)}
    return read_plan(saved, own, sum(array.size for array in (*own.values(), *arrays.values())))


def _number(saved: Any) -> float | None:
    return None if saved is None else float(saved)


def _edges(arrays: Arrays, name: str, cells: int) -> IntArray:
    """Where buckets begin, and where the last one ends."""
    edges = arrays[name]
    if edges.ndim != 1 or edges.dtype.kind != "i" or len(edges) < 2:
        raise StorageError(f"measurements.npz: {name} should be whole numbers, at least two")
    if edges[0] != 0 or edges[-1] != cells or (np.diff(edges) < 1).any():
        raise StorageError("measurements.npz: the buckets do not cover the cells")
    return edges


def in_words(content: Json, release: Release) -> str:
    """The certificate for people."""
    return framed(
        content,
        release,
        f"{counted(content['measured_numbers'], 'noisy number')} of "
        f"{counted(content['buckets'], 'bucket')}.",
        "Buckets were chosen from the data. Answers are biased where buckets are uneven, and",
        "errors are estimates: the noise is known exactly, the bias is not.",
        drawn="; the buckets were drawn by the exponential mechanism",
    )
