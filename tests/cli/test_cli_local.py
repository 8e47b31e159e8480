"""`noiseplan local`: from a study to answers, with files alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import noiseplan as nz
from noiseplan.cli import main

STUDY = """
[schema]
seconds = {{ binned = [0, 1, 2, 4, 8] }}
system  = {{ categorical = ["mac", "linux"] }}

[[tables]]
name  = "started by"
query = "seconds=prefix, system"

{budget}
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["local", *map(str, arguments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("local")
    study = STUDY.format(budget="[budget]\npure_dp = 1.5")
    (folder / "study.toml").write_text(study, encoding="utf-8")
    made = run("plan", folder / "study.toml", "-o", folder / "plan", "--device", folder / "device")
    assert made.exit_code == 0, made.output
    assert "ε = 1.5 for one report" in made.output
    rng = np.random.default_rng(0)
    seconds, systems = rng.random(3000) * 8, rng.choice(["mac", "linux"], 3000, p=[0.8, 0.2])
    lines = [f"{a:.3f},{b},x" for a, b in zip(seconds, systems, strict=True)]
    (folder / "users.csv").write_text("seconds,system,more\n" + "\n".join(lines) + "\n")
    return folder


def test_from_a_study_to_answers(folder: Path) -> None:
    users, reports, kept = folder / "users.csv", folder / "reports", folder / "kept"
    made = run("randomize", folder / "device", "--data", users, "-o", reports)
    assert "3,000 reports" in made.output
    counted = run("aggregate", folder / "plan", reports, "-o", kept)
    assert "counted 3,000 reports; wrote" in counted.output
    twice = run("aggregate", folder / "plan", kept, reports, "-o", folder / "twice")
    assert "counted 6,000 reports" in twice.output
    answer = json.loads(run("answer", kept, "started by", "--json").output)
    expected = nz.local.load_aggregator(kept).answer("started by")
    assert [row["estimate"] for row in answer["rows"]] == expected.estimate.tolist()
    assert answer["rows"][0].keys() >= {"seconds", "system", "estimate", "lower", "upper"}
    mac = run("answer", kept, "system=mac", "--csv").output.splitlines()[1].split(",")
    error = 4.5 * float(mac[2])
    assert abs(float(mac[1]) - 2400) < error < 1500
    shown = run("answer", kept, "system", "--simultaneous", "--level", 0.9)
    assert "90% simultaneous intervals" in shown.output


def test_one_report(folder: Path) -> None:
    report = bytes.fromhex(run("randomize", folder / "device", "seconds=1.5", "system=mac").output)
    server = nz.local.load_plan(folder / "plan").aggregator()
    assert server.add(report)
    assert len(report) == server.randomizer.report_bytes


def test_what_is_missing_or_wrong_is_said(folder: Path, tmp_path: Path) -> None:
    study, out = tmp_path / "study.toml", ["-o", tmp_path / "plan", "--device", tmp_path / "device"]
    study.write_text(STUDY.format(budget="[budget]\nzcdp = 0.5"), encoding="utf-8")
    refused = run("plan", study, *out)
    assert refused.exit_code == 2
    assert "pure_dp = 1.0" in refused.output
    assert run("plan", study, *out, "--epsilon", 1.0).exit_code == 0
    device = folder / "device"
    assert run("randomize", device).exit_code == 2
    assert run("randomize", device, "--data", "users.csv").exit_code == 2
    assert "no values of ['system']" in run("randomize", device, "seconds=1").output
    wrong = run("randomize", device, "seconds=1", "system=windows")
    assert wrong.exit_code == 1
    assert "nothing was reported" in wrong.output
    (tmp_path / "odd.csv").write_text("seconds,system\n1\n")
    odd = run("randomize", device, "--data", tmp_path / "odd.csv", "-o", tmp_path / "reports")
    assert "one line per user" in odd.output
    users, reports = folder / "users.csv", tmp_path / "foreign"
    run("randomize", tmp_path / "device", "--data", users, "-o", reports)
    counted = run("aggregate", folder / "plan", reports, "-o", tmp_path / "none")
    assert counted.exit_code == 1 and not (tmp_path / "none").exists()
    assert "no report was counted (3,000 foreign)" in counted.output


def test_old_aggregates_get_their_questions_from_a_plan() -> None:
    old = Path(__file__).parents[1] / "storage" / "kinds" / "local-auto" / "server.aggregator"
    refused = run("answer", old, "v")
    assert refused.exit_code == 1
    assert "noiseplan local aggregate PLAN" in refused.output
