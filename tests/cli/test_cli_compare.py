"""`noiseplan compare`: exact errors without data, simulated ones on an example."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import noiseplan as nz
from noiseplan.cli import main

STUDY = """
[schema]
day = { ordinal = { from = 0, to = 15 } }

[[tables]]
query   = "day"
factors = { day = "ranges" }

[budget]
pure_dp = 0.5
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    rows = "\n".join(f"{n % 16},{n % 40}" for n in range(160))
    (tmp_path / "public.csv").write_text(f"day,who\n{rows}\n", encoding="utf-8")
    return tmp_path


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["compare", *(str(each) for each in arguments)])
    assert result.exit_code == code, result.output
    return result


def test_without_data(folder: Path) -> None:
    text = run(folder / "study.toml").output
    assert "Comparison of 2 plans over 1 query, 136 rows" in text
    assert "all errors are exact" in text
    rows = json.loads(run(folder / "study.toml", "--json").stdout)["plans"]
    assert [row["plan"] for row in rows] == ["auto", "identity"]
    schema = nz.Schema({"day": nz.Ordinal(range(16))})
    asked = nz.Workload([nz.Query(schema, {"day": nz.Ranges()})])
    expected = nz.plan(asked, budget=nz.PureDP(0.5), planner="identity")
    assert rows[1]["rmse"] == pytest.approx(expected.rmse)
    assert rows[1]["seconds_release"] is None


def test_a_usual_planner_that_cannot_plan_the_study_is_left_out(tmp_path: Path) -> None:
    """Nobody asked for it, and the study has no fault."""
    study = tmp_path / "study.toml"
    long = STUDY.replace("to = 15", "to = 20000").replace('"ranges"', '"prefix"')
    study.write_text(long.replace("pure_dp = 0.5", "zcdp = 0.5"), encoding="utf-8")
    reason = "'day' has 20,001 values, and at most 8,192 are planned by [plan] planner"
    text = run(study).output
    assert "Comparison of 1 plan over" in text and f"identity is left out: {reason}" in text
    found = json.loads(run(study, "--json").stdout)
    assert [row["plan"] for row in found["plans"]] == ["auto"]
    assert found["left_out"]["identity"].startswith(reason)
    asked = run(study, "--planner", "identity", code=1).output
    assert f"Error: --planner identity: {reason}" in asked


def test_data_aware_planners_on_public_data(folder: Path) -> None:
    arguments = [folder / "study.toml", folder / "public.csv", "--planner", "dawa", "--runs", 5]
    text = run(*arguments, "--planner", "auto", "--chart", folder / "picture.svg").output
    assert "160 records, taken to be public" in text
    assert "over 5 simulated runs" in text
    assert (folder / "picture.svg").read_text(encoding="utf-8").startswith("<svg")
    once, again = (json.loads(run(*arguments, "--json").stdout)["plans"] for _ in range(2))
    assert once[0]["rmse"] == again[0]["rmse"]
    assert once[0]["simulated"]


def test_what_depends_on_data_needs_an_example(folder: Path) -> None:
    text = run(folder / "study.toml", "--planner", "dawa", code=1).stderr
    assert "'dawa' is simulated, on public data: noiseplan compare STUDY EXAMPLE" in text


def test_people(folder: Path) -> None:
    study = folder / "people.toml"
    people = '[people]\nperson = "who"\nmax_rows = 2\n'
    study.write_text(STUDY.replace("pure_dp = 0.5", "zcdp = 0.5") + people, encoding="utf-8")
    text = run(study, folder / "public.csv", "--runs", 3).output
    assert "for one person, at most 2 records" in text
    assert "over 3 simulated runs" in text  # half of the records are left out: errors too
    assert "all errors are exact" in run(study).output


def test_planners_that_are_not_known(folder: Path) -> None:
    text = run(folder / "study.toml", "--planner", "x", code=1).stderr
    assert "planner 'x'" in text
    # The study says nothing of it: no line of the file is at fault.
    assert text.startswith("Error: --planner x: planner 'x' does not")
    refused = run(folder / "study.toml", "--planner", "residual", code=1).stderr
    assert refused.startswith("Error: --planner residual: ") and "study.toml" not in refused
    assert "choose from" in text
