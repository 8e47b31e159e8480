"""Saved releases: what comes back is what was saved, and it needs no data."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.errors import StorageError
from noiseplan.matrices import DenseMatrix
from noiseplan.storage import plan_hash
from workloads import ANY, random_workload

SCHEMA = nz.Schema(
    {
        "age": nz.Ordinal(range(6)),
        "sex": nz.Categorical(["F", "M"]),
        "region": nz.Categorical(["north", "south", "east"]),
        "pay": nz.Binned([0, 10, 20, 50]),
    }
)
RECORDS = {
    "age": [0, 1, 5, 5, 2] * 40,
    "sex": ["F", "M", "M", "F", "F"] * 40,
    "region": ["north", "east", "south", "south", "east"] * 40,
    "pay": [1, 15, 20, 49.5, 0] * 40,
}
REGIONS = {"north": "mainland", "south": "mainland", "east": "isles"}


@dataclass(frozen=True)
class Windows(nz.Factor):
    """A factor of a user's own class, which a machine that loads the release need not have."""

    width: int
    needs_order = True

    @property
    def label(self) -> str:
        return f"windows of {self.width}"

    def matrix(self, attribute: nz.schema.Attribute) -> DenseMatrix:
        start, value = np.ogrid[: attribute.size - self.width + 1, : attribute.size]
        return DenseMatrix(((start <= value) & (value < start + self.width)).astype(float))

    def row_labels(self, attribute: nz.schema.Attribute) -> list[str]:
        return [f"from {label}" for label in attribute.labels[: 1 - self.width or None]]


def every_kind() -> nz.Workload:
    return (
        nz.Workload.marginals(SCHEMA, up_to=2, factors={"age": nz.Prefix()})
        + nz.Query(
            SCHEMA, {"pay": nz.Ranges(), "sex": nz.Identity()}, weight=3.0, name="pay ranges"
        )
        + nz.Query(SCHEMA, {"region": nz.Levels(REGIONS, leaves=False)})
        + nz.Query(SCHEMA, {"age": nz.Levels(2, [0, 0, 0, 1, 1, 1])})
        + nz.Query(SCHEMA, {"age": nz.Custom([[1, 1, 1, 0, 0, 0]], labels=["young"])})
        + nz.Query(SCHEMA, ["sex", "region"], matrix=np.arange(12.0).reshape(2, 6))
        + nz.Query(SCHEMA, {"age": Windows(3), "sex": nz.Identity()})
        + nz.Query(SCHEMA, {"pay": Windows(2)})
    )


def same_answers(one: nz.Release, other: nz.Release) -> None:
    assert len(one.plan.workload) == len(other.plan.workload)
    for query, again in zip(one.plan.workload, other.plan.workload, strict=True):
        assert (query.name, query.weight) == (again.name, again.weight)
        assert query.row_labels() == again.row_labels()
        a, b = one.answer(query), other.answer(again)
        np.testing.assert_array_equal(a.estimate, b.estimate)
        np.testing.assert_array_equal(a.std_error, b.std_error)
    assert one.plan.privacy == other.plan.privacy
    assert one.brand == other.brand


def small_release(**more: object) -> nz.Release:
    workload = nz.Workload.marginals(SCHEMA, k=1, factors={"age": nz.Prefix()})
    return nz.plan(workload, budget=nz.zCDP(0.5), noise="discrete", **more).release(RECORDS)


@pytest.mark.grid
@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
@pytest.mark.parametrize("planner", ["auto", "residual", "residual+"])
def test_everything_comes_back(tmp_path: Path, noise: str, planner: str) -> None:
    plan = nz.plan(every_kind(), budget=nz.zCDP(0.5), noise=noise, planner=planner)
    release = plan.release(RECORDS)
    release.save(tmp_path / "out")
    again = nz.load(tmp_path / "out")
    same_answers(release, again)
    assert again.plan.rmse == pytest.approx(plan.rmse, rel=1e-9)
    assert again.plan.worst_variance == pytest.approx(plan.worst_variance, rel=1e-9)
    assert again.plan.lower_bound == plan.lower_bound
    assert plan_hash(again.plan) == plan_hash(plan)
    np.testing.assert_array_equal(again.plan.cost_matrix(), plan.cost_matrix())


def test_a_loaded_release_answers_new_queries(tmp_path: Path) -> None:
    release = small_release()
    release.save(tmp_path / "out")
    query = nz.Query(SCHEMA, {"age": nz.Custom([[0, 0, 1, 1, 0, 0]])})
    other = nz.Query(SCHEMA, ["sex"])
    again = nz.load(tmp_path / "out")
    np.testing.assert_array_equal(again.answer(query).estimate, release.answer(query).estimate)
    np.testing.assert_array_equal(again.covariance(query, other), release.covariance(query, other))


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6),
    planner=st.sampled_from(["auto", "residual", "optimal"]),
    objective=st.sampled_from([nz.TotalVariance(), nz.WorstVariance(), nz.PNormVariance(3)]),
)
def test_any_workload_comes_back(
    tmp_path: Path, seed: int, planner: str, objective: nz.Objective
) -> None:
    workload = random_workload(seed, ANY, several=True, joint=True)
    if planner == "optimal":
        objective = nz.TotalVariance()
    plan = nz.plan(
        workload, budget=nz.zCDP(0.5), noise="discrete", planner=planner, objective=objective
    )
    rng = np.random.default_rng(seed)
    schema = workload.schema
    records = {
        n: rng.integers(0, a.size, 50) for n, a in zip(schema, schema.attributes, strict=True)
    }
    release = plan.release(records)
    folder = tmp_path / f"{seed}-{planner}-{objective}"
    shutil.rmtree(folder, ignore_errors=True)
    release.save(folder, tables=[])
    again = nz.load(folder)
    same_answers(release, again)
    assert str(again.plan.objective) == str(plan.objective)


def test_targets_and_losses_come_back(tmp_path: Path) -> None:
    workload = nz.Workload.marginals(SCHEMA, k=1)
    plan = nz.plan(workload, targets={"sex": 4.0, "age": 9.0}, noise="discrete")
    plan.release(RECORDS).save(tmp_path / "targets")
    again = nz.load(tmp_path / "targets").plan
    assert again.target_scale == pytest.approx(plan.target_scale, rel=1e-9)
    lost = nz.plan(workload, budget=nz.zCDP(0.5), objective=nz.ConvexLoss(np.sum))
    lost.release(RECORDS).save(tmp_path / "loss")
    assert str(nz.load(tmp_path / "loss").plan.objective) == str(lost.objective)


def test_it_loads_where_the_data_and_frames_never_were(tmp_path: Path) -> None:
    """In a process of its own, without pandas, polars or pyarrow."""
    release = small_release()
    release.save(tmp_path / "out")
    program = """
import sys
for name in ("pandas", "polars", "pyarrow", "duckdb"):
    sys.modules[name] = None
import noiseplan as nz
release = nz.load(sys.argv[1])
print(release.answer(nz.Query(release.plan.workload.schema, ["sex"])).estimate.tolist())
"""
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "out")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(run.stdout) == release.table("sex")["estimate"].to_list()


def test_tables_on_disk(tmp_path: Path) -> None:
    release = small_release()
    release.save(tmp_path / "out")
    tables = tmp_path / "out" / "tables"
    with (tables / "index.csv").open(encoding="utf-8") as file:
        index = list(csv.DictReader(file))
    assert [row["query"] for row in index] == [q.name for q in release.plan.workload]
    for row, query in zip(index, release.plan.workload, strict=True):
        answer = release.answer(query)
        parquet = str(tables / f"{row['file']}.parquet")
        found = duckdb.sql(f"SELECT * FROM '{parquet}'").fetchnumpy()
        np.testing.assert_array_equal(found["estimate"], answer.estimate)
        np.testing.assert_array_equal(found["upper"], answer.upper)
        with (tables / f"{row['file']}.csv").open(encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        shown = [float(line["estimate"]) for line in lines]  # with as many digits as fit the error
        np.testing.assert_allclose(
            shown, answer.estimate, rtol=0, atol=1e-5 * answer.std_error.min()
        )
        for name, labels in query.row_labels().items():
            assert [line[name] for line in lines] == [str(label) for label in labels]
            assert [str(label) for label in found[name]] == [str(label) for label in labels]


def test_measurements_are_the_integers_that_were_measured(tmp_path: Path) -> None:
    release = small_release()
    release.save(tmp_path / "out")
    with np.load(tmp_path / "out" / "measurements.npz") as saved:
        for i, block in enumerate(release.measurements.values):
            assert saved[f"block_{i}"].dtype == np.int64
            np.testing.assert_array_equal(saved[f"block_{i}"], block)


def test_the_certificate(tmp_path: Path) -> None:
    release = small_release()
    release.save(tmp_path / "out")
    content = json.loads((tmp_path / "out" / "certificate.json").read_text(encoding="utf-8"))
    privacy = release.plan.privacy
    assert content["privacy"]["rho"] == privacy.rho <= 0.5
    assert content["privacy"]["neighbours"] == "add-remove"
    assert content["privacy"]["mu"] == privacy.mu
    assert all(eps == privacy.epsilon(delta) for delta, eps in content["privacy"]["epsilon"])
    assert content["software"]["noiseplan"] == nz.__version__
    assert content["plan_sha256"] == plan_hash(release.plan)
    words = (tmp_path / "out" / "certificate.txt").read_text(encoding="utf-8")
    for part in ("one record", "ρ = 0.5", "exact discrete Gaussian", content["plan_sha256"]):
        assert part in words


def test_a_seeded_release_says_so_after_loading(tmp_path: Path) -> None:
    workload = nz.Workload.marginals(SCHEMA, k=1)
    release = nz.plan(workload, budget=nz.zCDP(0.5), noise="discrete").release(RECORDS, seed=7)
    release.save(tmp_path / "out")
    assert "NOT PRIVATE" in str(nz.load(tmp_path / "out"))
    assert "NOT PRIVATE" in (tmp_path / "out" / "certificate.txt").read_text(encoding="utf-8")


def test_sums_are_those_of_the_files(tmp_path: Path) -> None:
    small_release().save(tmp_path / "out")
    lines = (tmp_path / "out" / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    names = set()
    for line in lines:
        digest, name = line.split("  ", 1)
        assert hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() == digest
        names.add(name)
    files = {p.relative_to(tmp_path / "out").as_posix()
             for p in (tmp_path / "out").rglob("*") if p.is_file()}  # fmt: skip
    assert names == files - {"SHA256SUMS"}


def test_equal_plans_have_equal_hashes() -> None:
    workload = every_kind()
    plans = [nz.plan(workload, budget=nz.zCDP(0.5), noise="discrete") for _ in range(2)]
    other = nz.plan(workload, budget=nz.zCDP(0.51), noise="discrete")
    assert plan_hash(plans[0]) == plan_hash(plans[1]) != plan_hash(other)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    release = small_release()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(StorageError, match="not an empty folder; nothing was written"):
        release.save(tmp_path / "out")
    assert [p.name for p in tmp_path.rglob("*")] == ["out", "mine.txt"]
    (tmp_path / "empty").mkdir()
    release.save(tmp_path / "empty")
    nz.load(tmp_path / "empty")


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("noiseplan.storage.folder.write_tables", full)
    with pytest.raises(StorageError, match="no space left"):
        small_release().save(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_too_many_tables(tmp_path: Path) -> None:
    schema = nz.Schema.from_sizes({f"a{i}": 2 for i in range(50)})
    workload = nz.Workload.marginals(schema, k=2)
    release = nz.plan(workload, budget=nz.zCDP(0.5), noise="discrete").release(
        {f"a{i}": [0, 1] for i in range(50)}
    )
    with pytest.raises(StorageError, match=r"1,225 tables.*tables=\[query"):
        release.save(tmp_path / "out")
    release.save(tmp_path / "out", tables=[workload["a0 × a1"]])
    assert len(list((tmp_path / "out" / "tables").glob("*.csv"))) == 2
    same_answers(release, nz.load(tmp_path / "out"))


def test_noisy_tables_made_elsewhere_can_be_saved(tmp_path: Path) -> None:
    table = nz.NoisyTable(["sex"], [4.5, 6.5], 2.0)
    release = nz.from_noisy_tables(SCHEMA, [table])
    release.save(tmp_path / "out")
    same_answers(release, nz.load(tmp_path / "out"))
    assert "not known here" in (tmp_path / "out" / "certificate.txt").read_text(encoding="utf-8")
