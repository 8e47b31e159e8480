"""Damaged, edited and foreign folders: a clear error each time."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.errors import StorageError

FILES = ("certificate.json", "plan.json", "plan.npz", "measurements.npz", "SHA256SUMS")
SCHEMA = nz.Schema({"age": nz.Ordinal(range(5)), "sex": nz.Categorical(["F", "M"])})


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    workload = nz.Workload.marginals(SCHEMA, up_to=2, factors={"age": nz.Prefix()}) + nz.Query(
        SCHEMA, {"age": nz.Custom([[1, 2, 3, 4, 5], [1, 1, 1, 1, 1]])}, name="custom"
    )
    plan = nz.plan(workload, budget=nz.zCDP(0.5), noise="discrete", planner="residual")
    folder = tmp_path_factory.mktemp("saved") / "out"
    plan.release({"age": [1, 2, 4], "sex": ["F", "F", "M"]}).save(folder, tables=[])
    return folder


def copied(saved: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "copy"
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(saved, folder))


def sign_again(folder: Path) -> None:
    """Make the hashes right for whatever the files hold now, as somebody who edits might."""
    lines = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n"
             for name in FILES[:-1]]  # fmt: skip
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_of_any_file_is_noticed(
    saved: Path, tmp_path: Path, data: st.DataObject
) -> None:
    folder = copied(saved, tmp_path)
    path = folder / data.draw(st.sampled_from(FILES))
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    how = data.draw(st.sampled_from(["flip", "cut", "insert", "repeat"]))
    if how == "flip":
        content[place] ^= 1 << data.draw(st.integers(0, 7))
    elif how == "cut":
        del content[place:]
    elif how == "insert":
        content[place:place] = data.draw(st.binary(min_size=1, max_size=20))
    else:
        content = content * 2
    changed = bytes(content) != path.read_bytes()
    path.write_bytes(bytes(content))
    if not changed:
        return
    try:
        nz.load(folder)
    except StorageError as error:
        assert str(folder) in str(error)
    else:  # lines of SHA256SUMS about files that were not written say nothing about the rest
        assert path.name == "SHA256SUMS"


@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_edited_json_with_right_hashes(saved: Path, tmp_path: Path, data: st.DataObject) -> None:
    """Values of other types, huge numbers, missing keys: an error in words, or a sound release."""
    folder = copied(saved, tmp_path)
    path = folder / data.draw(st.sampled_from(["certificate.json", "plan.json"]))
    content = json.loads(path.read_text(encoding="utf-8"))
    keys = data.draw(st.sampled_from(list(paths_in(content))))
    strange = st.sampled_from(
        [None, -1, 0, 10**30, 1e308, "", "∞", [], {}, [[]], True, "nan", -0.5, {"kind": "x"}]
    )
    edit(content, keys, data.draw(st.one_of(st.just(DELETED), strange)))
    path.write_text(json.dumps(content), encoding="utf-8")
    repair_plan_hash(folder)
    sign_again(folder)
    try:
        release = nz.load(folder)
    except StorageError as error:
        assert str(folder) in str(error)
    else:
        assert np.isfinite(release.answer(nz.Query(release.plan.workload.schema, [])).estimate)


DELETED = object()


def paths_in(content: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(content, dict):
        items = list(content.items())
    elif isinstance(content, list):
        items = list(enumerate(content))
    else:
        return []
    found = [(*prefix, key) for key, _ in items]
    for key, value in items:
        found += paths_in(value, (*prefix, key))
    return found


def edit(content: Any, keys: tuple[Any, ...], value: object) -> None:
    for key in keys[:-1]:
        content = content[key]
    if value is DELETED:
        del content[keys[-1]]
    else:
        content[keys[-1]] = value


def repair_plan_hash(folder: Path) -> None:
    from noiseplan.storage.files import read_arrays, read_json
    from noiseplan.storage.plans import defining_hash

    certificate = read_json(folder / "certificate.json")
    if "plan_sha256" in certificate:
        with suppress(StorageError):  # arrays that cannot even be read need no hash
            found = defining_hash(read_json(folder / "plan.json"), read_arrays(folder / "plan.npz"))
            certificate["plan_sha256"] = found
    (folder / "certificate.json").write_text(json.dumps(certificate), encoding="utf-8")


def rewritten(folder: Path, name: str, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    with np.load(folder / name) as found:
        arrays = {key: found[key] for key in found.files}
    change(arrays)
    np.savez(folder / name, **arrays)
    repair_plan_hash(folder)
    sign_again(folder)


def other_type(name: str, kind: str) -> Callable[[dict[str, np.ndarray]], None]:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays[name] = arrays[name].astype(kind)

    return change


def filled(name: str, value: float) -> Callable[[dict[str, np.ndarray]], None]:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays[name] = np.full_like(arrays[name], value)

    return change


def shorter(name: str) -> Callable[[dict[str, np.ndarray]], None]:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays[name] = arrays[name][:-1]

    return change


def gone(name: str) -> Callable[[dict[str, np.ndarray]], None]:
    def change(arrays: dict[str, np.ndarray]) -> None:
        del arrays[name]

    return change


EDITS = [
    ("plan.npz", other_type("query_weights", "U8"), "not numbers"),
    ("plan.npz", filled("query_weights", np.nan), "weight"),
    ("plan.npz", filled("query_weights", -1.0), "weight"),
    ("plan.npz", filled("query_attributes", 99), "outside"),
    ("plan.npz", other_type("query_attributes", "f8"), "integers"),
    ("plan.npz", shorter("query_factors"), "different lengths"),
    ("plan.npz", gone("query_factors"), "query_factors"),
    ("plan.npz", filled("block_1_sigma2", -1.0), "block 1"),
    ("plan.npz", filled("block_1_sigma2", np.inf), "block_1_sigma2"),
    ("plan.npz", filled("block_1_sets", 7), "block 1"),
    ("plan.npz", shorter("basis_of_attribute"), "schema"),
    ("plan.npz", filled("basis_of_attribute", 5), "basis that is not there"),
    ("plan.npz", shorter("basis_0_centre"), "basis"),
    ("plan.npz", filled("basis_0_recover", 0.0), "does not undo what it measures"),
    ("plan.npz", filled("basis_0_measure", 0.0), "does not undo what it measures"),
    ("plan.npz", filled("block_1_sigma2", 0.0), "measured without noise"),
    ("plan.npz", filled("block_1_sigma2", 1e-6), "lower privacy cost than its noise has"),
    ("measurements.npz", other_type("block_1", "?"), "not the kind of numbers"),
    ("measurements.npz", shorter("block_1"), "shapes"),
    ("measurements.npz", gone("block_1"), "well formed|shapes"),
    ("measurements.npz", other_type("block_0", "U8"), "not numbers"),
]


@pytest.mark.parametrize("number", range(len(EDITS)))
def test_edited_arrays_with_right_hashes(saved: Path, tmp_path: Path, number: int) -> None:
    name, change, message = EDITS[number]
    folder = copied(saved, tmp_path)
    with np.load(folder / name) as found:
        names = set(found.files)
    try:
        rewritten(folder, name, change)
    except KeyError as missing:  # the names above must be those of the format
        raise AssertionError(f"{missing} is not among {sorted(names)}") from None
    with pytest.raises(StorageError, match=message):
        nz.load(folder)


def test_objects_are_never_unpickled(saved: Path, tmp_path: Path) -> None:
    folder = copied(saved, tmp_path)
    with (folder / "measurements.npz").open("wb") as file:
        np.savez(file, block_0=np.array([print], dtype=object))
    sign_again(folder)
    with pytest.raises(StorageError, match=r"measurements\.npz is damaged"):
        nz.load(folder)


def test_compressed_files_are_refused(saved: Path, tmp_path: Path) -> None:
    """A few kilobytes could otherwise unfold into all of memory."""
    folder = copied(saved, tmp_path)
    np.savez_compressed(folder / "measurements.npz", block_0=np.zeros(10**6))
    sign_again(folder)
    with pytest.raises(StorageError, match="compressed"):
        nz.load(folder)


def test_a_header_that_promises_too_much(saved: Path, tmp_path: Path) -> None:
    folder = copied(saved, tmp_path)
    header = b"\x93NUMPY\x01\x00v\x00" + (
        b"{'descr': '<i8', 'fortran_order': False, 'shape': (1099511627776,), }".ljust(117) + b"\n"
    )
    with zipfile.ZipFile(folder / "measurements.npz", "w") as archive:
        archive.writestr("block_0.npy", header)
    sign_again(folder)
    with pytest.raises(StorageError, match=r"measurements\.npz is damaged"):
        nz.load(folder)


def test_folders_that_are_no_release(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="not a folder"):
        nz.load(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StorageError, match=r"certificate\.json, plan\.json.* missing"):
        nz.load(tmp_path / "empty")
    with pytest.raises(StorageError, match="not a folder"):
        nz.load(saved / "plan.json")


def test_a_newer_format(saved: Path, tmp_path: Path) -> None:
    folder = copied(saved, tmp_path)
    content = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    content["format"] = 99
    (folder / "certificate.json").write_text(json.dumps(content), encoding="utf-8")
    sign_again(folder)
    with pytest.raises(StorageError, match="newer than this noiseplan"):
        nz.load(folder)


def test_a_plan_of_another_release(saved: Path, tmp_path: Path) -> None:
    folder = copied(saved, tmp_path)
    content = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    content["plan_sha256"] = "0" * 64
    (folder / "certificate.json").write_text(json.dumps(content), encoding="utf-8")
    sign_again(folder)
    with pytest.raises(StorageError, match="not the one that the certificate names"):
        nz.load(folder)


@pytest.mark.parametrize("size", [12_000, 1 << 24, 1 << 40, 0, -3, True, 2.0])
def test_bases_of_absurd_sizes(saved: Path, tmp_path: Path, size: object) -> None:
    """Refused before any matrix of that size is made."""
    folder = copied(saved, tmp_path)
    content = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    content["mechanism"]["bases"].append({"kind": "integer", "size": size})
    (folder / "plan.json").write_text(json.dumps(content), encoding="utf-8")
    repair_plan_hash(folder)
    sign_again(folder)
    with pytest.raises(StorageError, match="has a size of"):
        nz.load(folder)


def test_two_arrays_of_one_name(saved: Path, tmp_path: Path) -> None:
    folder = copied(saved, tmp_path)
    with (
        zipfile.ZipFile(folder / "measurements.npz", "a") as archive,
        pytest.warns(UserWarning, match="Duplicate name"),
    ):
        archive.writestr("block_0.npy", archive.read("block_0.npy"))
    sign_again(folder)
    with pytest.raises(StorageError, match="two arrays of one name"):
        nz.load(folder)


@pytest.mark.parametrize("version", [0, -5, True, "1", None])
def test_formats_that_never_were(saved: Path, tmp_path: Path, version: object) -> None:
    folder = copied(saved, tmp_path)
    content = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    content["format"] = version
    (folder / "certificate.json").write_text(json.dumps(content), encoding="utf-8")
    sign_again(folder)
    with pytest.raises(StorageError, match="which there never was"):
        nz.load(folder)


def test_a_brand_that_would_rewrite_a_terminal(saved: Path, tmp_path: Path) -> None:
    folder = copied(saved, tmp_path)
    content = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    content["noise"] = "\x1b[2Jexact noise"
    (folder / "certificate.json").write_text(json.dumps(content), encoding="utf-8")
    sign_again(folder)
    with pytest.raises(StorageError, match="a text on one line"):
        nz.load(folder)


def test_a_loaded_plan_releases_nothing(saved: Path, tmp_path: Path) -> None:
    """A folder could claim any noise and any cost: only what was planned here is released."""
    plan = nz.load(saved).plan
    records = {"age": [1], "sex": ["F"]}
    with pytest.raises(nz.NoiseplanError, match="read from a folder"):
        plan.release(records)
    again = nz.plan(plan.workload, budget=nz.zCDP(0.5), noise="discrete", planner="residual")
    again.release(records)
