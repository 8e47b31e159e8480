"""Long tables are written a batch at a time, and read back as they would be in one piece."""

from __future__ import annotations

import csv
from pathlib import Path

import duckdb
import numpy as np
import pytest

import noiseplan as nz
from noiseplan.storage import table_files

GEO = nz.Hierarchical(
    {"tract": ["=1", "b", "c", "d", "é"], "county": ["-x", "-x", "y", "y", "3"], "state": [7] * 5}
)
SCHEMA = nz.Schema(
    {"geo": GEO, "estimate": nz.Ordinal(range(3)), "sex": nz.Categorical(["F", "M", True])}
)


def release() -> nz.Release:
    workload = nz.Workload(
        [
            nz.Query(SCHEMA, ["geo", "estimate", "sex"]),
            nz.Query(SCHEMA, {"geo": nz.Level("state", "county"), "sex": nz.Identity()}),
            nz.Query(SCHEMA, {"geo": nz.Levels(["p", "p", "q", "q", "q"])}, name="other groups"),
            nz.Query(SCHEMA, ["estimate", "sex"], matrix=np.eye(9)[:4]),
            nz.Query(SCHEMA, {}),
        ]
    )
    counts = np.random.default_rng(1).integers(0, 50, SCHEMA.shape)
    return nz.plan(workload, budget=nz.zCDP(0.5)).release(counts, seed=2)


@pytest.mark.parametrize("batch", [1, 7, 1 << 16])
def test_files_hold_the_answers(
    batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "BATCH", batch)
    made = release()
    made.save(tmp_path / "out")
    tables = tmp_path / "out" / "tables"
    with (tables / "index.csv").open(newline="") as file:
        index = list(csv.DictReader(file))
    answers = [part for q in made.plan.workload for part in made.answer(q).by_level()]
    assert [row["query"] for row in index] == [answer.query.name for answer in answers]
    assert [row["query"] for row in index[1:6]] == [
        "state × sex",
        "county × sex",
        "other groups: values",
        "other groups: level 1",
        "other groups: total",
    ]
    for row, answer in zip(index, answers, strict=True):
        columns = answer.columns()
        shown = table_files.with_fitting_digits(columns)
        with (tables / f"{row['file']}.csv").open(newline="", encoding="utf-8") as file:
            header, *lines = csv.reader(file)
        assert header == list(columns)
        assert len(lines) == answer.query.rows == int(row["rows"])
        for name, found in zip(header, zip(*lines, strict=True), strict=True):
            values = shown[name]
            if isinstance(values, np.ndarray):
                assert np.array_equal(np.array(found, dtype=float), values)
            else:
                assert [text.removeprefix("'") for text in found] == [str(v) for v in values]
        parquet = duckdb.read_parquet(str(tables / f"{row['file']}.parquet"))
        assert parquet.columns == header
        for name, found in parquet.fetchnumpy().items():
            assert [str(v) for v in found.tolist()] == [str(v) for v in list(columns[name])]
    assert "'=1" in (tables / f"{index[0]['file']}.csv").read_text(encoding="utf-8")
