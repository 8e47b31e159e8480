"""What a release says of its noise, saved and loaded: nothing becomes private on the way."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import NoiseError, PlanError, StorageError
from noiseplan.mechanisms.partition.mechanism import PartitionMechanism
from noiseplan.noise import Noise, SeededSource, SystemSource
from noiseplan.planning.planners.dawa import plan_buckets
from noiseplan.storage.files import file_hash
from noiseplan.storage.folder_check import check_folder
from noiseplan.storage.plans import read_plan, write_plan

SCHEMA = nz.Schema.from_sizes({"v": 4})
WORKLOAD = nz.Workload([nz.Query(SCHEMA, ["v"])])
PLAN = nz.plan(WORKLOAD, budget=nz.zCDP(0.5))
LINE = nz.Schema({"v": nz.Ordinal(range(8))})
AWARE = nz.Workload([nz.Query(LINE, ["v"])])


class Boasting(SeededSource):
    """A seeded source that takes another's name."""

    @property
    def brand(self) -> str:
        return SystemSource().brand


def rewritten(folder: Path, **changed: object) -> None:
    """A saved folder with other words in its certificate, and the sums that go with them."""
    path = folder / "certificate.json"
    content = json.loads(path.read_text(encoding="utf-8")) | changed
    path.write_text(json.dumps(content), encoding="utf-8")
    sums = folder / "SHA256SUMS"
    lines = [
        line for line in sums.read_text().splitlines() if not line.endswith("certificate.json")
    ]
    sums.write_text("\n".join([*lines, f"{file_hash(path)}  certificate.json"]) + "\n")


def test_a_seeded_release_is_not_private_whatever_its_source_is_called(tmp_path: Path) -> None:
    release = PLAN.release(np.arange(4), randomness=Boasting(3))
    assert not release.provenance.private and "NOT PRIVATE" in release.brand
    release.save(tmp_path / "out")
    assert not nz.load(tmp_path / "out").provenance.private


def test_what_a_folder_calls_a_simulation_is_none_that_protects(tmp_path: Path) -> None:
    release = PLAN.release(np.arange(4))
    release.save(tmp_path / "out")
    assert nz.load(tmp_path / "out").provenance.private
    rewritten(tmp_path / "out", simulation=True)
    again = nz.load(tmp_path / "out")
    assert not again.provenance.private and "not for publishing" in str(again.answer("v"))


@pytest.mark.parametrize("planner", ["auto", "dawa"])
def test_texts_that_command_a_terminal_are_refused(tmp_path: Path, planner: str) -> None:
    plan = nz.plan(AWARE, budget=nz.PureDP(1.0), planner=planner)
    plan.release(np.arange(8), seed=1).save(tmp_path / "out")
    rewritten(tmp_path / "out", ledger="\x1b[2J")
    with pytest.raises(StorageError, match="on one line"):
        nz.load(tmp_path / "out")


def test_buckets_cost_no_more_than_was_charged_whoever_plans_them() -> None:
    plan = nz.plan(AWARE, budget=nz.zCDP(0.01), planner="dawa")
    assert isinstance(plan.mechanism, PartitionMechanism)

    def dear(line, edges, budget, noise, second):  # type: ignore[no-untyped-def]
        return plan_buckets(nz.plan, line, edges, nz.zCDP(1000.0), noise, second)

    cheat = replace(plan, mechanism=replace(plan.mechanism, plan_buckets=dear))
    with pytest.raises(PlanError, match="more than was charged"):
        cheat.release(np.arange(8), seed=1)
    fair = partial(plan_buckets, nz.plan)
    same = replace(plan, mechanism=replace(plan.mechanism, plan_buckets=fair))
    assert (
        same.release(np.arange(8), seed=1).counts == plan.release(np.arange(8), seed=1).counts
    ).all()


def test_noise_of_too_few_sizes_or_no_law_is_refused() -> None:
    for exact, bits in ((True, SystemSource()), (False, np.random.default_rng(0))):
        noise = Noise("gaussian", [1e6, 4e6, 9e6], exact)
        with pytest.raises(NoiseError, match="3 sizes"):
            noise.draw((5,), bits)
        assert noise.draw((2, 3), bits).shape == (2, 3)
    with pytest.raises(NoiseError, match="'gaussian' or 'laplace'"):
        Noise("cauchy", 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["kinds", "targets"])
def test_saved_numbers_for_queries_are_one_positive_number_each(tmp_path: Path, name: str) -> None:
    content, arrays = write_plan(PLAN)
    assert read_plan(content, arrays, 10).workload.rows == 4
    for wrong in (np.ones(2), np.ones((1, 1)), np.array([np.nan]), np.zeros(1), -np.ones(1)):
        with pytest.raises(StorageError, match=name):
            read_plan(content, arrays | {name: wrong}, 10)


@pytest.mark.parametrize("how", [{"seed": 1}, {"noise": "gaussian"}, {}])
def test_files_and_frames_of_simulations_are_marked(how: dict[str, object], tmp_path: Path) -> None:
    """A table that is passed on alone says that it protects nobody; CSV files stay plain tables."""
    schema = nz.Schema.from_sizes({"v": 3, "w": 2})
    asked = nz.Workload.marginals(schema, up_to=2)
    noise = {"noise": how["noise"]} if "noise" in how else {}
    plan = nz.plan(asked, budget=nz.zCDP(0.5), **noise)
    records = {"v": [0, 1, 2] * 40, "w": [0, 1] * 60}
    release = plan.release(records, seed=how.get("seed"))
    warning = release.provenance.warning
    assert bool(warning) == bool(how)
    look = nz.adaptive([plan, nz.plan(asked, budget=nz.zCDP(0.7), **noise)]).look(
        records, seed=how.get("seed")
    )
    release.save(tmp_path / "out")
    again = nz.load(tmp_path / "out")
    for made in (release, again, release.valid(), look):
        told = "" if made is not look else look.release.provenance.warning
        expected = {"warning": told or warning} if how else {}
        assert made.table("v", frame="pandas").attrs == expected
        metadata = made.table("v", frame="pyarrow").schema.metadata or {}
        assert {k.decode(): v.decode() for k, v in metadata.items()} == expected
        made.table("v", frame="polars")
    for frame in (
        release.answer("v").frame("pandas"),
        release.mean("v", values=[1, 2, 3]).frame("pandas"),
    ):
        assert frame.attrs == ({"warning": warning} if how else {})
    release.valid().save(tmp_path / "valid")
    for folder in (tmp_path / "out" / "tables", tmp_path / "valid"):
        mark = folder / "NOT-FOR-PUBLISHING.txt"
        assert mark.exists() == bool(how)
        assert not how or mark.read_text(encoding="utf-8") == f"{warning}\n"
        for path in folder.glob("*.csv"):
            assert "publishing" not in path.read_text(encoding="utf-8")
    check_folder(tmp_path / "out")
