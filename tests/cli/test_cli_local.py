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
    twice = ["aggregate", folder / "plan", kept, reports, "-o", folder / "twice"]
    refused = run(*twice)
    assert refused.exit_code == 1 and not (folder / "twice").exists()
    assert f"{str(reports)!r} was counted already, as {str(kept)!r}" in refused.output
    assert "counted 6,000 reports" in run(*twice, "--repeated").output
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
    study.write_text(STUDY.format(budget=""), encoding="utf-8")
    assert "pure_dp = 1.0" in run("plan", study, *out, "--force").output
    assert run("plan", study, *out, "--epsilon", 1.0, "--force").exit_code == 0
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


def test_nothing_is_written_over_unless_asked_for(folder: Path, tmp_path: Path) -> None:
    there, free = tmp_path / "there", tmp_path / "free"
    there.write_bytes(b"precious")
    users, reports = folder / "users.csv", tmp_path / "reports"
    run("randomize", folder / "device", "--data", users, "-o", reports)
    for command in (
        ["plan", folder / "study.toml", "-o", there, "--device", free],
        ["plan", folder / "study.toml", "-o", free, "--device", there],
        ["randomize", folder / "device", "--data", users, "-o", there],
        ["aggregate", folder / "plan", reports, "-o", there],
    ):
        refused = run(*command)
        assert refused.exit_code == 1
        assert "is there already and was left alone" in refused.output
        assert there.read_bytes() == b"precious" and not free.exists()
        assert run(*command, "--force").exit_code == 0
        assert there.read_bytes() != b"precious"
        there.write_bytes(b"precious")
        free.unlink(missing_ok=True)


def test_no_file_is_counted_twice(folder: Path, tmp_path: Path) -> None:
    """By what files hold: copies, aggregates of aggregates, and the same name again."""
    plan, users = folder / "plan", folder / "users.csv"
    for name in ("monday", "tuesday"):
        run("randomize", folder / "device", "--data", users, "-o", tmp_path / name)
    copy = tmp_path / "copy"
    copy.write_bytes((tmp_path / "monday").read_bytes())
    out = tmp_path / "out"
    for twice in (["monday", "monday"], ["monday", "tuesday", "copy"]):
        refused = run("aggregate", plan, *(tmp_path / name for name in twice), "-o", out)
        assert refused.exit_code == 1 and "would count twice" in refused.output
        assert not out.exists()
    first, both = tmp_path / "first", tmp_path / "both"
    assert run("aggregate", plan, tmp_path / "monday", "-o", first).exit_code == 0
    counted = run("aggregate", plan, first, tmp_path / "tuesday", "-o", both)
    assert "counted 6,000 reports" in counted.output
    for again in ("copy", "tuesday", "first", "both"):
        refused = run("aggregate", plan, both, tmp_path / again, "-o", out)
        assert refused.exit_code == 1 and "would count twice" in refused.output
    assert len(nz.local.load_aggregator(both).sources) == 2


def test_single_reports_in_hexadecimal(folder: Path, tmp_path: Path) -> None:
    one = ["randomize", folder / "device", "seconds=1.5", "system=mac"]
    reports = [run(*one).output.strip() for _ in range(3)]
    (tmp_path / "lines").write_text("\n".join(reports[:2]) + "\n")
    server = nz.local.load_plan(folder / "plan").aggregator()
    server.add_many(bytes.fromhex(report) for report in reports)
    out = tmp_path / "out"
    counted = run("aggregate", folder / "plan", tmp_path / "lines", reports[2], "-o", out)
    assert "counted 3 reports; wrote" in counted.output
    kept = nz.local.load_aggregator(out)
    assert (kept.tally == server.tally).all() and kept.users == 3
    again = run("aggregate", folder / "plan", out, tmp_path / "lines", "-o", tmp_path / "more")
    assert "would count twice" in again.output
    foreign = run("aggregate", folder / "plan", "00" * len(bytes.fromhex(reports[0])), "-o", "none")
    assert "no report was counted (1 foreign)" in foreign.output
    (tmp_path / "broken").write_text(reports[0] + "\nno report\n")
    broken = run("aggregate", folder / "plan", tmp_path / "broken", "-o", "none")
    assert "no report was counted (1 malformed)" in broken.output
