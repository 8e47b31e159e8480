"""What is declared can be saved, what is saved is exact, and what is CSV is no program."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import noiseplan as nz
from noiseplan.console import say
from noiseplan.errors import StorageError
from noiseplan.escaping import cell, from_cell, visible
from noiseplan.storage.folder import rehearse_saving
from noiseplan.study import StudyError, read_study

# In labels and names: what spreadsheets run, what terminals obey, what SQL and CSV quote.
FORMULAS = ["=1+1", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1", "'=1", "''@x", "＝1"]
ODD = [*FORMULAS, "", "a,b", 'a"b', "a'; --", "a\nb", "\x1b[2J", "\u202egnp", "-5", "'twas"]
SCHEMAS: dict[str, dict[str, Any]] = {
    "odd labels": {"a": nz.Categorical(ODD)},
    "odd names": {name: nz.Ordinal(range(2)) for name in ODD if name.strip()},
    "names that differ by capitals": {"a": nz.Ordinal(range(2)), "A": nz.Ordinal(range(2))},
    "names of figures": {n: nz.Ordinal(range(2)) for n in ("estimate", "Estimate", "LOWER")},
    "large numbers": {"a": nz.Categorical([1, 2**64 - 1, -(2**63)])},
    "infinity": {"a": nz.Categorical([1.5, float("inf")])},
    "truth and numbers": {"a": nz.Categorical([True, 2])},
    "times": {"a": nz.Categorical([date(1, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)])},
}
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "half a character": (lambda: nz.Categorical(["x", "\ud800"]), r"'\\ud800', which no file"),
    "half, for the rest": (lambda: nz.Categorical(["x"], other="\udfff"), "which no file"),
    "half, in order": (lambda: nz.Ordinal(["x", "\ud800"]), "which no file"),
    "NUL": (lambda: nz.Categorical(["x", "y\0z"]), r"\\x00', which no file"),
    "too many bits": (lambda: nz.Categorical([1, 10**5000]), "64 bits do not hold"),
    "one bit more": (lambda: nz.Categorical([2**64]), "64 bits do not hold"),
    "one less than the least": (lambda: nz.Ordinal([3, -(2**63) - 1]), "64 bits do not hold"),
    "too many bits, from to": (lambda: nz.Ordinal(range(10**5000, 10**5000 + 2)), "64 bits"),
    "a name, half": (lambda: nz.Schema({"a\ud800": nz.Ordinal(range(2))}), "the name .* which no"),
    "a name, NUL": (lambda: nz.Schema({"a\0b": nz.Ordinal(range(2))}), "the name .* which no"),
    "a query": (lambda: nz.Query(SEX, ["sex"], name="\ud800"), "the name .* which no file"),
    "a group": (lambda: nz.Levels({"F": "\ud800", "M": "m"}), "a group is .* which no file"),
    "a group that is missing": (lambda: nz.Levels(["x", None]), "a group is a text"),
    "a row": (lambda: nz.Custom([[1, 0]], labels=["\ud800"]), "a label is .* which no file"),
    "a factor": (lambda: nz.Custom([[1, 0]], name="\0"), "the name .* which no file"),
}
SEX = nz.Schema({"sex": nz.Categorical(["F", "M"])})


def released(schema: nz.Schema, most: int = 2) -> nz.Release:
    workload = nz.Workload.marginals(schema, up_to=min(most, len(schema)))
    data = {name: [schema[name].labels[0]] * 3 for name in schema.names}
    return nz.plan(workload, budget=nz.zCDP(0.5), noise="discrete").release(data)


def rows_of(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_that_can_be_declared_can_be_saved(name: str, tmp_path: Path) -> None:
    release = released(nz.Schema(SCHEMAS[name]))
    release.save(tmp_path / "out")
    again = nz.load(tmp_path / "out")
    assert again.schema == release.schema
    for query in release.plan.workload:
        assert (again.answer(query.name).estimate == release.answer(query).estimate).all()


@pytest.mark.parametrize("name", SCHEMAS)
def test_no_cell_of_csv_is_a_formula_and_every_one_can_be_undone(name: str, tmp_path: Path) -> None:
    release = released(nz.Schema(SCHEMAS[name]))
    release.save(tmp_path / "out")
    release.valid().save(tmp_path / "valid")
    queries = list(release.plan.workload)
    files = sorted((tmp_path / "out" / "tables").glob("[0-9]*.csv"))
    assert len(files) == len(queries)
    for path in [*files, *(tmp_path / "valid").glob("*.csv"), files[0].with_name("index.csv")]:
        for row in rows_of(path):
            for text in row:
                assert text[:1] not in "=+@\t\r\n＝" or not text or is_number(text), (path, text)
                assert text[:1] != "-" or is_number(text), (path, text)
    for path, query in zip(files, queries, strict=True):
        columns = release.answer(query).columns()
        head, *rows = rows_of(path)
        assert [from_cell(text) for text in head] == list(columns)
        for i, values in enumerate(columns.values()):
            found = [from_cell(row[i]) for row in rows]
            if isinstance(values, np.ndarray):  # with as many digits as fit the error
                near = 1e-5 * release.answer(query).std_error.min()
                np.testing.assert_allclose([float(text) for text in found], values, atol=near)
            else:
                assert found == [str(value) for value in list(values)]


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("text", [*ODD, "", "=", "'", "''", "'a", "'-5", "''-5", "+5", "-a"])
def test_a_cell_is_undone_whatever_it_held(text: str) -> None:
    assert from_cell(str(cell(text))) == text
    assert cell(-5.5) == -5.5


def test_parquet_is_exact_and_its_figures_keep_their_names(tmp_path: Path) -> None:
    schema = nz.Schema(SCHEMAS["odd labels"] | SCHEMAS["names of figures"])
    released(schema, 4).save(tmp_path / "out", tables=[nz.Query(schema, list(schema.names))])
    (path,) = (tmp_path / "out" / "tables").glob("*.parquet")
    table = pl.read_parquet(path)
    assert table["a"].unique(maintain_order=True).to_list() == ODD
    assert table.columns[-4:] == ["estimate", "std_error", "lower", "upper"]
    assert table["estimate"].dtype == pl.Float64
    assert len({name.casefold() for name in table.columns}) == len(table.columns)
    large = nz.Schema(SCHEMAS["large numbers"])
    released(large).save(tmp_path / "large", tables=[nz.Query(large, ["a"])])
    (path,) = (tmp_path / "large" / "tables").glob("*.parquet")
    assert list(map(int, pl.read_parquet(path)["a"])) == [1, 2**64 - 1, -(2**63)]


def test_made_up_records_are_read_back_from_csv(tmp_path: Path) -> None:
    schema = nz.Schema({"=a": nz.Categorical(FORMULAS), "b": nz.Ordinal(range(-2, 1))})
    data = {"=a": FORMULAS * 30, "b": [-2, -1, 0] * 90}
    plan = nz.plan(nz.Workload.marginals(schema, k=2), budget=nz.zCDP(5.0))
    made = plan.release(data).microdata(path=tmp_path / "made.csv", seed=1, frame="polars")
    assert "=a" not in rows_of(tmp_path / "made.csv")[0]
    counted = nz.plan(nz.Workload.marginals(schema, k=2), budget=nz.zCDP(1e9))
    again = counted.release(tmp_path / "made.csv", seed=1).answer("=a × b").estimate
    direct = counted.release(made.frame, seed=1).answer("=a × b").estimate
    assert again.round().tolist() == direct.round().tolist()
    assert direct.sum().round() == made.rows


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_never_be_saved_is_refused_when_it_is_declared(name: str) -> None:
    declare, words = REFUSED[name]
    with pytest.raises(nz.NoiseplanError, match=words):
        declare()


def test_groups_may_know_values_that_no_attribute_has(tmp_path: Path) -> None:
    groups = {"F": "f", "M": "m", None: "none", float("nan"): "n", ("x",): "t", "\ud800": "s"}
    query = nz.Query(SEX, {"sex": nz.Levels(groups)}, name="levels")
    release = nz.plan(nz.Workload([query]), budget=nz.zCDP(1)).release({"sex": ["F"]})
    release.save(tmp_path / "out")
    assert nz.load(tmp_path / "out").answer("levels").query.row_labels() == query.row_labels()


# ---------------------------------------------------------------------- places


NO_PATHS = {"NUL": "a\0b", "half a character": "a\ud800b", "too long": "x" * 300}


@pytest.mark.parametrize("name", NO_PATHS.values(), ids=NO_PATHS)
def test_paths_that_no_system_has_are_refused_in_words(name: str, tmp_path: Path) -> None:
    release = released(SEX)
    for call in (
        lambda: nz.load(name),
        lambda: release.save(name),
        lambda: release.save(tmp_path / name / "out"),
        lambda: release.valid().save(name),
        lambda: release.valid().draw("sex", f"{name}.svg"),
        lambda: release.microdata(path=f"{name}.csv"),
        lambda: release.plan.release(f"{name}.csv"),
        lambda: release.plan.release({"sex": ["F"]}, ledger=name, dataset="d"),
        lambda: nz.Ledger(name, create=True),
        lambda: nz.compare({"a": release.plan}).chart(f"{name}.svg"),
    ):
        with pytest.raises(nz.NoiseplanError):
            call()
    with pytest.raises(StudyError):
        read_study(name)


def test_a_place_that_a_folder_cannot_take_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = released(SEX)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(StorageError, match="is a link, which a new folder cannot replace"):
        release.save(tmp_path / "link")
    with pytest.raises(StorageError, match="is a link to nothing"):
        release.save(tmp_path / "dangling")
    with pytest.raises(StorageError, match="folders deep: name a nearer one"):
        release.save(tmp_path / "/".join("a" * 500))
    with pytest.raises(StorageError, match="not written in UTF-8"):
        release.save(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "real")
    with pytest.raises(StorageError, match="is a mounted disk"):
        release.save(tmp_path / "real")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "link", "real"]
    assert list((tmp_path / "real").iterdir()) == []


def test_a_rehearsal_leaves_everything_as_it_was(tmp_path: Path) -> None:
    tables = list(released(SEX).plan.workload)
    (tmp_path / "empty").mkdir(mode=0o750)
    for name in ("new", "deep/er/new", "empty", "x" * 255):
        rehearse_saving(tmp_path / name, tables)
    (empty,) = tmp_path.iterdir()
    assert (empty.name, list(empty.iterdir())) == ("empty", [])
    assert empty.stat().st_mode & 0o777 == 0o750


def test_a_release_is_open_to_whom_the_umask_lets_in(tmp_path: Path) -> None:
    release, before = released(SEX), os.umask(0)
    try:
        for umask, mode in ((0o077, 0o700), (0o027, 0o750), (0o022, 0o755)):
            os.umask(umask)
            release.save(tmp_path / f"{umask:o}", tables=[nz.Query(SEX, ["sex"])])
            for folder in (tmp_path / f"{umask:o}", tmp_path / f"{umask:o}" / "tables"):
                assert folder.stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)
    assert len(list(tmp_path.iterdir())) == 3


# ---------------------------------------------------------------------- words


def test_what_is_printed_shows_what_has_no_shape(capsys: pytest.CaptureFixture[str]) -> None:
    text = "a\x1b[2J\x07\x9b\u202e\u2066\r\t\x7f\ud800 é\u00a0“”\nb"
    shown = r"a\x1b[2J\x07\x9b\u202e\u2066\r\t\x7f\ud800 é" + "\u00a0“”\nb"
    assert visible(text) == shown
    say(text)
    assert capsys.readouterr().out == shown + "\n"


def test_objects_print_no_control_characters(tmp_path: Path) -> None:
    odd = "\x1b]0;pwn\x07\u202e"
    schema = nz.Schema({odd: nz.Ordinal([odd, "b"]), "sex": nz.Categorical(["F", "M"])})
    query = nz.Query(schema, [odd, "sex"], name=f"q{odd}\nline")
    plan = nz.plan(nz.Workload([query]), budget=nz.zCDP(0.5))
    release = plan.release({odd: ["b"], "sex": ["F"]})
    release.save(tmp_path / "out")
    certificate = (tmp_path / "out" / "certificate.txt").read_text(encoding="utf-8")
    printed = [schema, plan.workload, plan, release, release.answer(query), release.valid()]
    printed += [nz.compare({odd: plan}), certificate, nz.load(tmp_path / "out")]
    for thing in printed:
        assert not [c for c in str(thing) if not (c.isprintable() or c == "\n")]
    assert r"q\x1b]0;pwn\x07\u202e\nline" in str(plan.workload)
    assert r"\x1b]0;pwn\x07\u202e" in str(release.answer(query))
