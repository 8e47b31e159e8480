"""Data-aware releases on disk, in folders like those of any release."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from noiseplan.arrays import Arrays, IntArray, Json
from noiseplan.aware.plan import AwarePlan
from noiseplan.aware.release import AwareRelease
from noiseplan.errors import StorageError
from noiseplan.mechanisms.base import Measurements
from noiseplan.mechanisms.partition.bucket_tree import BucketPlan
from noiseplan.mechanisms.partition.mechanism import AwareMeasurements
from noiseplan.mechanisms.partition.settings import Dawa
from noiseplan.noise import Noise
from noiseplan.planning.plan import Plan
from noiseplan.planning.problem import Problem
from noiseplan.privacy import ApproxDP, Budget, PureDP, zCDP
from noiseplan.queries import Query
from noiseplan.release.provenance import Provenance
from noiseplan.storage.certificate import FORMAT, privacy_json, release_title
from noiseplan.storage.files import hash_of
from noiseplan.storage.folder import DATA_AWARE
from noiseplan.storage.folder import save as save_folder
from noiseplan.storage.plans import check_numbers, read_plan, write_plan
from noiseplan.storage.workloads import check_backed, read_workload, write_workload

_BUDGETS: Final[dict[str, type[PureDP] | type[zCDP] | type[ApproxDP]]] = {
    "PureDP": PureDP,
    "zCDP": zCDP,
    "ApproxDP": ApproxDP,
}
_TOP: Final = "top_"


def save(release: AwareRelease, folder: str | os.PathLike[str], tables: Sequence[Query]) -> None:
    """Write a release into a new folder."""
    save_folder(release, folder, tables, _contents)


def plan_hash(plan: AwarePlan) -> str:
    """SHA-256 of what is asked, promised and chosen beforehand."""
    return hash_of(*_plan_json(plan))


def read_release(
    content: Mapping[str, Any], saved: Mapping[str, Any], arrays: Arrays, measured: Arrays
) -> AwareRelease:
    """Undo `save`; the plan is made again from its settings, and must promise the same."""
    from noiseplan.aware.planner import MOST_CELLS, plan_aware

    check_backed(saved["workload"], arrays, MOST_CELLS)  # buckets are fewer than cells
    workload = read_workload(saved["workload"], arrays)
    kind, values = saved["budget"]
    budget: Budget = _BUDGETS[kind](*(float(value) for value in values))
    settings = Dawa(**saved["settings"])
    noise, max_rows = str(saved["noise"]), int(saved["max_rows"])
    problem = Problem(workload, budget, planner=settings, noise=noise, max_rows=max_rows)
    plan = plan_aware(problem)
    if plan_hash(plan) != content["plan_sha256"]:
        raise StorageError("the plan is not the one that the certificate names")
    brand, recorded = content["noise"], content["ledger"]
    if not isinstance(brand, str) or not isinstance(recorded, str):
        raise StorageError("certificate.json: noise and ledger should be texts")
    measurements = _read_measurements(plan, saved["buckets"], measured)
    return AwareRelease(replace(plan, loaded=True), measurements, Provenance.read(brand, recorded))


def _plan_json(plan: AwarePlan) -> tuple[Json, Arrays]:
    workload, arrays = write_workload(plan.workload)
    budget = plan.budget
    content = {
        "kind": "data-aware",
        "workload": workload,
        # As text, so that no digit is lost.
        "budget": [type(budget).__name__, [repr(float(v)) for v in asdict(budget).values()]],
        "settings": asdict(plan.settings),
        "noise": plan.mechanism.noise,
        "max_rows": plan.max_rows,
        "pcost": repr(plan.privacy.pcost),
    }
    return content, arrays


def _contents(release: AwareRelease) -> tuple[Json, Arrays, Arrays, Json, str]:
    plan, arrays = _plan_json(release.plan)
    measured, buckets = release.measurements, release.measurements.buckets
    assert isinstance(buckets.top, Plan)  # whoever measures buckets plans them
    top, top_arrays = write_plan(buckets.top)
    plan = plan | {
        "buckets": {
            "top": top,
            "storeys": [
                {"size": s.one, "laplace": s.law == "laplace", "integer": s.exact}
                for s in buckets.storeys
            ],
            "unevenness": measured.unevenness,
        }
    }
    numbers: Arrays = {"edges": buckets.edges}
    numbers |= {f"group_{i}": edges for i, edges in enumerate(buckets.groups)}
    numbers |= {f"block_{i}": block for i, block in enumerate(measured.values)}
    numbers |= {f"{_TOP}{name}": array for name, array in top_arrays.items()}
    content = _certificate(release)
    return plan, arrays, numbers, content, in_words(release, content)


def _read_measurements(
    plan: AwarePlan, saved: Mapping[str, Any], arrays: Arrays
) -> AwareMeasurements:
    storeys = tuple(
        Noise("laplace" if s["laplace"] else "gaussian", float(s["size"]), bool(s["integer"]))
        for s in saved["storeys"]
    )
    own = {name[len(_TOP) :]: array for name, array in arrays.items() if name.startswith(_TOP)}
    check_numbers(saved["top"], own, arrays)
    top = read_plan(saved["top"], own, (None, None))
    edges = _edges(arrays, "edges", len(plan.mechanism.line.order))
    groups = tuple(arrays[f"group_{i}"] for i in range(len(storeys)))
    buckets = BucketPlan(edges, top, storeys, groups)
    count = sum(name.startswith("block_") for name in arrays)
    values = tuple(arrays[f"block_{i}"] for i in range(count))
    top.mechanism.check(Measurements(values[len(storeys) :]))
    sizes = [len(edges) - 1, *(len(group) - 1 for group in groups)]
    if [len(v) for v in values[: len(storeys)]] != sizes[:-1] or sizes[-1] != buckets.top_size:
        raise StorageError("measurements.npz: there is not one number for every bucket")
    if not buckets.privacy.within(plan.mechanism.spending.second):
        raise StorageError("the buckets were measured at a higher cost than the plan states")
    uneven = saved["unevenness"]
    return AwareMeasurements(values, buckets, None if uneven is None else float(uneven))


def _edges(arrays: Arrays, name: str, cells: int) -> IntArray:
    """Where buckets begin, and where the last one ends."""
    edges = arrays[name]
    if edges.ndim != 1 or edges.dtype.kind != "i" or len(edges) < 2:
        raise StorageError(f"measurements.npz: {name} should be whole numbers, at least two")
    if edges[0] != 0 or edges[-1] != cells or (np.diff(edges) < 1).any():
        raise StorageError("measurements.npz: the buckets do not cover the cells")
    return edges


def _certificate(release: AwareRelease) -> Json:
    from noiseplan import __version__

    plan = release.plan
    return {
        "kind": DATA_AWARE,
        "format": FORMAT,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "software": {
            "noiseplan": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "privacy": privacy_json(plan.privacy, plan.max_rows),
        "noise": release.brand,
        "simulation": not release.provenance.private,
        "ledger": release.recorded,
        "schema_sha256": hash_of(plan.schema.to_dict()),
        "plan_sha256": plan_hash(plan),
        "queries": len(plan.workload),
        "rows": plan.workload.rows,
        "buckets": release.buckets,
        "measured_numbers": release.measurements.buckets.numbers,
        "errors": "estimated; answers are biased where buckets are uneven",
    }


def in_words(release: AwareRelease, content: Json) -> str:
    """The certificate for people."""
    promise = release.plan.privacy.describe().splitlines()
    if release.plan.max_rows > 1:
        promise[-1] = "Neighbouring data sets differ by all records of one person."
    return "\n".join(
        [
            release_title(release.provenance.private),
            "",
            f"Made {content['made']} with noiseplan {content['software']['noiseplan']}.",
            "",
            f"What is protected: {content['privacy']['unit']}.",
            *promise,
            f"Noise: {release.brand}; the buckets were drawn by the exponential mechanism.",
            f"Ledger: {release.recorded or 'not recorded in a ledger'}.",
            "",
            f"It answers {content['queries']:,} queries, {content['rows']:,} rows in all, from "
            f"{content['measured_numbers']:,} noisy numbers of {release.buckets:,} buckets.",
            "Buckets were chosen from the data. Answers are biased where buckets are uneven, and",
            "errors are estimates: the noise is known exactly, the bias is not.",
            "",
            f"Schema SHA-256  {content['schema_sha256']}",
            f"Plan SHA-256    {content['plan_sha256']}",
            "Hashes of all files are in SHA256SUMS: sha256sum --check SHA256SUMS",
            "",
        ]
    )
