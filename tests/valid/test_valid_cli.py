"""Valid tables as files, and by command."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.counting import CountTensor
from noiseplan.errors import StorageError


@pytest.fixture
def out(tmp_path: Path) -> Path:
    schema = nz.Schema.from_sizes({"age": 6, "sex": 2})
    counts = np.zeros((6, 2))
    counts[1] = 30, 20
    plan = nz.plan(nz.Workload.marginals(schema, up_to=2), budget=nz.zCDP(0.02))
    plan.release(CountTensor(schema, counts), seed=1).save(tmp_path / "out")
    return tmp_path / "out"


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_command_writes_what_python_makes(out: Path) -> None:
    target = out.parent / "valid"
    done = CliRunner().invoke(main, ["valid", str(out), "-o", str(target), "--total", "50"])
    assert done.exit_code == 0, done.output
    assert "cells were negative" in done.output
    expected = nz.load(out).valid(total=50)
    index = read(target / "index.csv")
    assert [row["table"] for row in index] == ["total", "age", "sex", "age × sex"]
    rows = read(target / f"{index[3]['file']}.csv")
    assert list(rows[0]) == ["age", "sex", "valid", "estimate", "std_error", "lower", "upper"]
    np.testing.assert_allclose(
        [float(row["valid"]) for row in rows], expected.values("age", "sex").ravel(), atol=1e-6
    )
    import polars as pl

    parquet = pl.read_parquet(target / f"{index[3]['file']}.parquet")
    assert parquet["valid"].min() >= 0
    told = json.loads((target / "changes.json").read_text(encoding="utf-8"))
    assert told["negative"] == expected.changes.negative


@pytest.mark.parametrize("seed", [1, None])
def test_what_is_made_of_a_simulation_says_so(seed: int | None, tmp_path: Path) -> None:
    schema = nz.Schema.from_sizes({"age": 3})
    plan = nz.plan(nz.Query(schema, ["age"]), budget=nz.zCDP(0.5))
    release = plan.release(CountTensor(schema, [9, 0, 4]), seed=seed)
    release.save(tmp_path / "out")
    told = "" if seed is None else release.provenance.warning
    assert ("NOT PRIVATE" in told) == (seed is not None)
    for target, form in (("one", []), ("two", ["--json"])):
        command = ["valid", str(tmp_path / "out"), "-o", str(tmp_path / target), *form]
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 0, done.output
        assert ("not for publishing" in done.output) == bool(told) and told in done.output
        written = json.loads((tmp_path / target / "changes.json").read_text(encoding="utf-8"))
        assert written.get("warning", "") == told
    shown = str(release.valid())
    assert ("not for publishing" in shown) == bool(told) and told in shown
    for chart in (release.plot("age"), release.valid().plot("age")):
        assert [line for line in chart.notes if "publishing" in line] == ([told] if told else [])


def test_chosen_tables_in_whole_numbers(out: Path) -> None:
    target = out.parent / "valid"
    command = ["valid", str(out), "-o", str(target), "--table", "sex, age", "--integers", "--json"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["tables"] == 1
    (file,) = target.glob("1-*.csv")
    rows = read(file)
    assert list(rows[0])[:2] == ["sex", "age"]
    assert all(row["valid"].isdigit() for row in rows)


@pytest.mark.parametrize("integers", [[], ["--integers"]], ids=["numbers", "whole numbers"])
def test_levels_are_among_the_files(tmp_path: Path, integers: list[str]) -> None:
    """Every level that was asked for, as the sums of the table it is a level of."""
    county = {"block": ["a1", "a2", "a3", "b1", "b2"], "county": ["a", "a", "a", "b", "b"]}
    schema = nz.Schema({"geo": nz.Hierarchical(county), "age": nz.Ordinal(range(4))})
    both = nz.Query(schema, {"geo": nz.Level("county", "block"), "age": nz.Identity()}, name="all")
    prefix = nz.Query(schema, {"age": nz.Prefix()}, name="up to")
    workload = nz.Workload([nz.Query(schema, ["county"]), both, prefix])
    counts = np.random.default_rng(0).poisson(3.0, schema.shape).astype(float)
    release = nz.plan(workload, budget=nz.zCDP(0.05)).release(CountTensor(schema, counts), seed=2)
    release.save(tmp_path / "out")
    command = ["valid", str(tmp_path / "out"), "-o", str(tmp_path / "valid"), "--json", *integers]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["left_out"] == ["up to"]
    files = {row["table"]: row["file"] for row in read(tmp_path / "valid" / "index.csv")}
    assert json.loads(done.stdout)["tables"] == len(files)
    assert {"county", "all: county", "geo × age"} < set(files) and "all: block" not in files
    tables = {title: read(tmp_path / "valid" / f"{file}.csv") for title, file in files.items()}
    cells = [float(row["valid"]) for row in tables["geo × age"]]
    blocks = np.array(cells).reshape(5, 4)
    sums = np.array([blocks[:3].sum(axis=0), blocks[3:].sum(axis=0)])
    found = {title: [float(row["valid"]) for row in rows] for title, rows in tables.items()}
    np.testing.assert_allclose(found["all: county"], sums.ravel(), atol=1e-6)
    np.testing.assert_allclose(found["county"], sums.sum(axis=1), atol=1e-6)
    assert [row["county"] for row in tables["county"]] == ["a", "b"]
    unbiased = [float(row["estimate"]) for row in tables["county"]]
    np.testing.assert_allclose(unbiased, release.answer("county").estimate)
    assert all(row["valid"].isdigit() for row in tables["county"]) == bool(integers)
    asked = CliRunner().invoke(
        main, [*command[:3], str(tmp_path / "one"), "--table", "county, age"]
    )
    assert asked.exit_code == 0, asked.output
    (file,) = (tmp_path / "one").glob("1-*.csv")
    assert list(read(file)[0])[:2] == ["county", "age"] and len(read(file)) == 2 * 4


def test_nothing_is_overwritten(out: Path) -> None:
    done = CliRunner().invoke(main, ["valid", str(out), "-o", str(out)])
    assert done.exit_code == 1
    assert "left alone" in done.stderr
    valid = nz.load(out).valid()
    with pytest.raises(StorageError, match="too many files"):
        valid.save(out.parent / "many", tables=[("age",)] * 1001)
    assert not (out.parent / "many").exists()


def test_a_table_names_attributes(out: Path) -> None:
    done = CliRunner().invoke(main, ["valid", str(out), "-o", str(out / "v"), "--table", ","])
    assert done.exit_code != 0
    assert "names no attribute" in done.output
    assert not (out / "v").exists()


def report(out: Path, *how: str) -> str:
    """What `noiseplan report --valid` says."""
    done = CliRunner().invoke(main, ["report", str(out), "--valid", *how])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.grid
@pytest.mark.parametrize("how", [[], ["--total", "50"], ["--integers"]])
@pytest.mark.parametrize("inside", [True, False])
def test_a_page_takes_the_tables_that_were_written(
    out: Path, how: list[str], inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the folder of the release or beside it, and it is the page that is made without."""
    assert "valid tables computed anew; noiseplan valid" in report(out, *how)
    page = (out / "valid.html").read_text(encoding="utf-8")
    target = (out if inside else out.parent) / "tables of it"
    assert CliRunner().invoke(main, ["valid", str(out), "-o", str(target), *how]).exit_code == 0
    with monkeypatch.context() as never:
        never.setattr(nz.Release, "valid", None)
        assert f"valid tables taken from {str(target)!r}" in report(out, *how)
    again = (out / "valid.html").read_text(encoding="utf-8")
    assert again == page and "These are valid tables" in again


def test_a_page_takes_no_other_tables(out: Path) -> None:
    """Not those of another release, of other options, of some tables only, or changed ones."""
    target = out.parent / "valid"
    write = ["valid", str(out), "-o", str(target)]
    other = nz.load(out).plan
    seen = CountTensor(other.workload.schema, np.full((6, 2), 9.0))
    nz.plan(other.workload, budget=nz.zCDP(0.02)).release(seen, seed=1).save(out.parent / "other")
    CliRunner().invoke(main, ["valid", str(out.parent / "other"), "-o", str(out.parent / "v")])
    assert "valid tables computed anew; noiseplan valid" in report(out)
    some = CliRunner().invoke(main, [*write, "--table", "age"])
    assert some.exit_code == 0 and not (target / "made_of.json").exists()
    assert "valid tables computed anew; noiseplan valid" in report(out)
    shutil.rmtree(target)
    CliRunner().invoke(main, write)
    assert "valid tables taken from" in report(out)
    assert "anew: those in" in report(out, "--integers")
    assert "have another total, or other numbers" in report(out, "--total", "50")
    said = (target / "changes.json").read_text(encoding="utf-8")
    changed = json.dumps(json.loads(said) | {"largest_sum": 99.0, "mean_move": "x"})
    (target / "changes.json").write_text(changed, encoding="utf-8")
    assert f"anew: those in {str(target)!r} were changed" in report(out)
    (target / "changes.json").write_text(said, encoding="utf-8")
    assert "valid tables taken from" in report(out)
    (file,) = target.glob("*age-by-sex.csv")
    rows = read(file)
    text = file.read_text(encoding="utf-8").replace(rows[2]["valid"], "7.0")
    file.write_text(text, encoding="utf-8")
    assert f"anew: those in {str(target)!r} were changed" in report(out)
    told = json.loads((target / "made_of.json").read_text(encoding="utf-8"))
    told["files"] = {"../out/tables/1-total": ["salary"]}
    (target / "made_of.json").write_text(json.dumps(told), encoding="utf-8")
    assert "were changed" in report(out)
    (target / "made_of.json").write_text("no JSON", encoding="utf-8")
    assert "valid tables computed anew; noiseplan valid" in report(out)


def test_a_total_that_the_release_contradicts_is_refused(out: Path) -> None:
    workload = nz.load(out).plan.workload
    exact = nz.plan(workload, budget=nz.zCDP(0.02), neighbours="replace")
    seen = CountTensor(workload.schema, np.full((6, 2), 9.0))
    exact.release(seen, seed=1).save(out.parent / "exact")
    write = ["valid", str(out.parent / "exact"), "-o", str(out.parent / "v"), "--total"]
    result = CliRunner().invoke(main, [*write, "5"])
    assert result.exit_code == 1
    assert "the release itself tells the total, 108, and not 5" in result.output
    assert CliRunner().invoke(main, [*write, "108"]).exit_code == 0


def test_a_folder_that_is_there_is_refused_before_the_work(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nz.Release, "valid", lambda *_, **how: pytest.fail("it was computed"))
    result = CliRunner().invoke(main, ["valid", str(out), "-o", str(out)])
    assert result.exit_code == 1 and "there already" in result.output


def test_the_page_says_which_whole_numbers_agree(out: Path) -> None:
    report(out, "--integers")
    page = (out / "valid.html").read_text(encoding="utf-8")
    assert "they agree: on every common margin" in page
