"""Folders made to fill the memory or the time of whoever reads them; files mutilated at random."""

from __future__ import annotations

import io
import json
import shutil
import struct
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from depth import depth
from noiseplan.errors import StorageError
from noiseplan.storage.files import read_arrays, write_arrays

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `benchmarks` is not installed

from benchmarks import attacks_files
from benchmarks.attacks_files import KINDS, Outcome, campaign, signed_again

FEW = 32 << 20  # bytes


def peak_of(work: Callable[[], Any]) -> int:
    """Bytes taken at most."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(folder: Path, match: str) -> None:
    with pytest.raises(StorageError, match=match):
        nz.load(folder)


SAVED = ("residual", "Laplace tables", "one matrix", "product", "data-aware")


@pytest.fixture(scope="module", params=SAVED)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved release of a kind, which takes half a second to plan."""
    folder = tmp_path_factory.mktemp("whole")
    KINDS[f"release folder, {request.param}"].make(folder)
    return folder / "out"


@pytest.fixture
def saved(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "out"))


def overlapping(path: Path, members: int, size: int) -> None:
    """Each member of the ZIP file holds all that follow it."""
    names = [f"m{i:05d}.npy" for i in range(members)]
    body, sums, sizes = bytes(size), [], []
    for name in reversed(names):
        sums.insert(0, zlib.crc32(body))
        sizes.insert(0, len(body))
        numbers = (0x04034B50, 20, 0, 0, 0, 0x21, sums[0], len(body), len(body), len(name), 0)
        body = struct.pack("<IHHHHHIIIHH", *numbers) + name.encode() + body
    entries = b""
    for i, name in enumerate(names):
        numbers = (0x02014B50, 20, 20, 0, 0, 0, 0x21, sums[i], sizes[i], sizes[i], len(name))
        entries += struct.pack("<IHHHHHHIIIH", *numbers) + bytes(12)
        entries += struct.pack("<I", 40 * i) + name.encode()
    assert len(names[0]) == 10
    end = (0x06054B50, 0, 0, members, members, len(entries), len(body), 0)
    path.write_bytes(body + entries + struct.pack("<IHHHHIIH", *end))


def test_members_that_overlap_are_not_read_again_and_again(saved: Path) -> None:
    overlapping(saved / "plan.npz", 60, 1 << 20)
    with zipfile.ZipFile(saved / "plan.npz") as archive:  # it is one that Python would read
        assert len(archive.read("m00000.npy")) > 1 << 20
    signed_again(saved)
    peak = peak_of(lambda: refused(saved, "promises 6.,...,... bytes and has 1,...,..."))
    assert peak < FEW


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """A quarter of a gigabyte in few bytes, which take long to make."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("strategy.npy", bytes(256 << 20))
    return packed.getvalue()


@pytest.mark.parametrize("name", ["plan.npz", "measurements.npz"])
def test_compressed_bombs_are_not_unpacked(saved: Path, bomb: bytes, name: str) -> None:
    (saved / name).write_bytes(bomb)
    signed_again(saved)
    assert peak_of(lambda: refused(saved, "compressed")) < FEW


def test_a_member_that_says_it_is_larger_is_not_believed(saved: Path) -> None:
    data = bytearray((saved / "plan.npz").read_bytes())
    entry = data.find(b"PK\x01\x02")
    data[entry + 24 : entry + 28] = struct.pack("<I", 1 << 31)
    (saved / "plan.npz").write_bytes(data)
    signed_again(saved)
    assert peak_of(lambda: refused(saved, "promises")) < FEW


def test_arrays_by_columns_and_of_no_axes_are_read(tmp_path: Path) -> None:
    wanted = {
        "rows": np.arange(6.0).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "none": np.zeros((0, 4)),
        "single": np.array(7),
        "big": np.arange(3, dtype=">i4"),
    }
    np.savez(tmp_path / "a.npz", **wanted)
    write_arrays(tmp_path / "b.npz", wanted)
    for path in (tmp_path / "a.npz", tmp_path / "b.npz"):
        found = read_arrays(path)
        assert list(found) == list(wanted)
        for name, array in wanted.items():
            assert found[name].shape == array.shape or path.name == "b.npz"
            assert found[name].dtype == array.dtype
            assert np.array_equal(found[name].ravel(), array.ravel())
            assert found[name].flags.writeable


@pytest.mark.parametrize("range_", [[0, 10**9], [-(10**12), 5], [0, 2**63], [0, 10**30]])
def test_ranges_of_billions_are_refused_at_once(saved: Path, range_: list[int]) -> None:
    plan = json.loads((saved / "plan.json").read_text())
    plan["workload"]["schema"]["attributes"][0]["range"] = range_
    (saved / "plan.json").write_text(json.dumps(plan))
    signed_again(saved)
    assert peak_of(lambda: refused(saved, "numbers to tell them apart|too large|64 bits")) < FEW


def test_attributes_nobody_asks_about_may_have_any_size(tmp_path: Path) -> None:
    schema = nz.Schema({"a": nz.Ordinal(range(3)), "huge": nz.Ordinal(range(10**12))})
    asked = nz.Workload([nz.Query(schema, ["a"]), nz.Query(schema, {"huge": nz.Total()})])
    release = nz.plan(asked, budget=nz.zCDP(0.5)).release(
        {"a": [0, 1, 1], "huge": np.array([5, 6, 7])}
    )
    release.save(tmp_path / "out")
    again = nz.load(tmp_path / "out")
    assert np.array_equal(again.answer(asked[0]).estimate, release.answer(asked[0]).estimate)


def test_contrasts_over_many_attributes_are_few_numbers(tmp_path: Path) -> None:
    """One number is measured of eight attributes with nine values each: that is no forgery."""
    schema = nz.Schema.from_sizes({f"a{i}": 9 for i in range(8)})
    contrast = nz.Custom([[1, -1, 0, 0, 0, 0, 0, 0, 0]])
    asked = nz.Workload([nz.Query(schema, dict.fromkeys(schema.names, contrast))])
    columns = {name: [0, 1, 2] for name in schema.names}
    nz.plan(asked, budget=nz.zCDP(0.5)).release(columns).save(tmp_path / "out")
    assert len(nz.load(tmp_path / "out").answer(asked[0]).estimate) == 1


def test_a_basis_named_again_and_again_is_made_once(tmp_path: Path) -> None:
    KINDS["release folder, residual"].make(tmp_path)
    saved = tmp_path / "out"
    plan = json.loads((saved / "plan.json").read_text())
    plan["mechanism"]["bases"] += [{"kind": "integer", "size": 257}] * 2000
    (saved / "plan.json").write_text(json.dumps(plan))
    signed_again(saved)
    assert peak_of(lambda: nz.load(saved)) < FEW


def test_blocks_that_are_not_there_are_not_counted_up(tmp_path: Path) -> None:
    KINDS["release folder, residual"].make(tmp_path)
    saved = tmp_path / "out"
    plan = json.loads((saved / "plan.json").read_text())
    plan["mechanism"].pop("own", None)
    plan["mechanism"]["blocks"] = 30_000_000
    (saved / "plan.json").write_text(json.dumps(plan))
    signed_again(saved)
    assert peak_of(lambda: refused(saved, "not well formed")) < FEW


def test_weights_are_one_number_for_each_query(tmp_path: Path) -> None:
    KINDS["release folder, residual"].make(tmp_path)
    saved = tmp_path / "out"
    arrays = read_arrays(saved / "plan.npz")
    arrays["query_weights"] = arrays["query_weights"][:, None]
    write_arrays(saved / "plan.npz", arrays)
    signed_again(saved)
    refused(saved, "query_weights")


def test_pairs_of_values_that_hardly_any_number_tells_apart_are_not_written_down(
    tmp_path: Path,
) -> None:
    """What it costs to replace a record looks at pairs of values: of 6,000, millions,
    for one row of so many numbers."""
    schema, size = nz.Schema.from_sizes({"a": 4}), 6000
    asked = nz.Workload([nz.Query(schema, {"a": nz.Custom([[1, 2, 3, 4]])})])
    plan = nz.plan(asked, budget=nz.zCDP(0.5), neighbours="replace", planner="residual")
    plan.release({"a": [0, 1]}).save(tmp_path / "out")
    saved = tmp_path / "out"
    content = json.loads((saved / "plan.json").read_text())
    content["workload"]["schema"] = nz.Schema.from_sizes({"a": size}).to_dict()
    content["mechanism"]["bases"] = [{"kind": "matrix", "size": size}]
    (saved / "plan.json").write_text(json.dumps(content))
    row = 2.0 * np.arange(size) - (size - 1)
    arrays = read_arrays(saved / "plan.npz") | {
        "factor_0": row[None, :],
        "basis_0_measure": row[None, :],
        "basis_0_centre": np.full(size, 1 / size),
        "basis_0_recover": row[:, None] / (row @ row),
    }
    write_arrays(saved / "plan.npz", arrays)
    signed_again(saved)
    assert peak_of(lambda: refused(saved, "privacy cost")) < FEW


@pytest.mark.parametrize("size", [5000, 100_000])
def test_pairs_of_cells_are_not_all_held(size: int, tmp_path: Path) -> None:
    """The same of one row over all cells."""
    schema = nz.Schema.from_sizes({"a": 4})
    asked = nz.Workload([nz.Query(schema, {"a": nz.Custom([[1, 2, 3, 4]])})])
    plan = nz.plan(asked, budget=nz.zCDP(0.5), neighbours="replace", planner="workload")
    plan.release({"a": [0, 1]}).save(tmp_path / "out")
    saved, row = tmp_path / "out", np.arange(float(size))[None, :]
    content = json.loads((saved / "plan.json").read_text())
    content["workload"]["schema"] = nz.Schema.from_sizes({"a": size}).to_dict()
    (saved / "plan.json").write_text(json.dumps(content))
    arrays = read_arrays(saved / "plan.npz") | {"factor_0": row, "strategy": row}
    write_arrays(saved / "plan.npz", arrays)
    signed_again(saved)
    assert peak_of(lambda: refused(saved, "saved release")) < 2 * FEW


@pytest.mark.parametrize("name", KINDS)
def test_mutilated_files_are_refused_in_words_or_read(name: str) -> None:
    cases = depth(25, 8)
    outcome = campaign(name, seed=7, cases=cases)
    assert outcome.met, outcome
    assert outcome.tried == cases
    assert outcome.refused + outcome.unchanged + outcome.otherwise == cases
    if name == "ledger":
        assert not outcome.otherwise


def test_the_campaign_sees_what_goes_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(folder: Path) -> str:
        if (folder / "packets").read_bytes() != whole:
            raise KeyError("packets")
        return "read"

    def slow(folder: Path) -> str:
        while (folder / "packets").read_bytes() != whole:
            pass
        return "read"

    def greedy(folder: Path) -> int:
        return len(bytes(attacks_files.MEMORY + 1))

    whole = b"whole"
    monkeypatch.setattr(attacks_files, "SECONDS", 0.05)
    for read, wanted in ((broken, "raw"), (slow, "hangs"), (greedy, "peak")):
        kind = attacks_files.Kind(
            lambda folder: (folder / "packets").write_bytes(whole) and None,
            lambda rng, folder: (folder / "packets").write_bytes(b"else") and None,
            read,
        )
        monkeypatch.setitem(KINDS, "made up", kind)
        outcome: Outcome = campaign("made up", 1, cases=2)
        assert not outcome.met
        assert getattr(outcome, wanted) >= 2
    table = attacks_files.attacks(1)
    assert not table.met
