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
