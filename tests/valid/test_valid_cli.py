"""Valid tables as files, and by command."""

from __future__ import annotations

import csv
import json
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
    assert asked.exit_code == 1 and "'county' is a level of 'geo'" in asked.output


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
