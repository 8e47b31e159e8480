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
    check_conditions(kept)


def test_the_file_that_holds_no_others_is_left_out(folder: Path, tmp_path: Path) -> None:
    names = ["monday", "tuesday", "wednesday"]
    files = [tmp_path / f"{name}.reports" for name in names]
    for file in files:
        run("randomize", folder / "device", "--data", folder / "users.csv", "-o", file)
    kept = tmp_path / "kept"
    assert run("aggregate", folder / "plan", *files[:2], "-o", kept).exit_code == 0
    for given in ([kept, files[0]], [files[0], kept]):
        refused = run("aggregate", folder / "plan", *given, "-o", tmp_path / "twice").output
        assert f"Leave out {str(files[0])!r}, which holds no others" in refused
    other = tmp_path / "other"
    run("aggregate", folder / "plan", *files[1:], "-o", other)
    refused = run("aggregate", folder / "plan", kept, other, "-o", tmp_path / "twice").output
    assert "Each holds others too: count the files that devices wrote" in refused


@pytest.mark.few(1)
@pytest.mark.parametrize("one_user", [False, True])
def test_numbers_are_written_as_the_study_says(
    folder: Path, tmp_path: Path, one_user: bool
) -> None:
    """With an ε so large that a report tells the truth."""
    text = STUDY.format(budget="[budget]\npure_dp = 16.0").replace("8] }", '8], missing = "?" }')
    study, plan, device = tmp_path / "study.toml", tmp_path / "plan", tmp_path / "device"
    study.write_text(text + '\n[data]\ndecimal = ","\nmissing = ["NA"]\n', encoding="utf-8")
    assert run("plan", study, "-o", plan, "--device", device).exit_code == 0
    users, reports, kept = tmp_path / "users.csv", tmp_path / "reports", tmp_path / "kept"
    users.write_text("seconds;system\n1,5;mac\n1,7;mac\nNA;mac\n7;linux\n", encoding="utf-8")
    given = ["randomize", device, "--data", users, "-o", reports]
    assert run(*given).exit_code == 1
    assert run(*given, "--study", study).exit_code == 0
    if one_user:
        words = ["seconds=1,5", "system=mac", "--study", study]
        reports.write_text(run("randomize", device, *words).output, encoding="utf-8")
    assert run("aggregate", plan, reports, "-o", kept).exit_code == 0
    found = nz.local.load_aggregator(kept).answer("started by").estimate.reshape(-1, 2)
    expected = [[0, 0], [1, 0], [1, 0], [1, 0]] if one_user else [[0, 0], [2, 0], [2, 0], [2, 1]]
    assert np.allclose(found[:4], expected, atol=0.1)
    refused = run(*given, "--force", "--study", folder / "study.toml")
    assert "declares other attributes than the device has" in refused.output


@pytest.mark.parametrize("text", ["1.234", "1,234", "1 234", "1'234", "1_234", "1.234,5"])
def test_numbers_of_two_meanings_need_the_study(tmp_path: Path, text: str) -> None:
    """Read as usual 1.234 fell into the first bin, and 1,234 among the others."""
    study, plan, device = tmp_path / "study.toml", tmp_path / "plan", tmp_path / "device"
    wages = 'wage = { binned = [0, 100, 10000] }\nyear = { categorical = [1234, 5], other = "no" }'
    tables = '[[tables]]\nquery = "wage, year"\n[budget]\npure_dp = 1.0\n'
    study.write_text(f"[schema]\n{wages}\n{tables}[data]\nthousands = ','\n", encoding="utf-8")
    assert run("plan", study, "-o", plan, "--device", device).exit_code == 0
    users, reports = tmp_path / "users.csv", tmp_path / "reports"
    asked = [("wage", "year=5"), ("year", "wage=7")]
    for name, other in asked[: 1 if text.endswith(",5") else 2]:  # 1234.5 is no year
        refused = run("randomize", device, f"{name}={text}", other)
        assert refused.exit_code == 1 and "--study STUDY.toml" in refused.output
        assert f"a number of {name!r} can be read in two ways" in refused.output
        rows = [f"{name};{other.partition('=')[0]}", f"{text};{other.partition('=')[2]}"]
        users.write_text("\n".join(rows) + "\n", encoding="utf-8")
        refused = run("randomize", device, "--data", users, "-o", reports)
        assert "can be read in two ways" in refused.output and not reports.exists()
    assert run("randomize", device, "wage=1234.5", "year=1234").exit_code == 0
    assert run("randomize", device, "wage=12.5", "year=1").exit_code == 0
    assert run("randomize", device, "wage=1,234", "year=1,234", "--study", study).exit_code == 0


def check_conditions(kept: Path) -> None:
    """The same rows as a question that asks for the same, and the errors of `noiseplan answer`."""
    for where, question in (
        ("system = 'mac'", "system=mac"),
        ("seconds < 2 and system = 'linux'", "seconds=..2, system=linux"),
    ):
        (row,) = json.loads(run("answer", kept, "--where", where, "--json").output)["rows"]
        (same,) = json.loads(run("answer", kept, question, "--json").output)["rows"]
        for number in ("estimate", "std_error", "lower", "upper"):
            assert row[number] == pytest.approx(same[number], rel=1e-9)
    assert "no attribute 'systen'" in run("answer", kept, "--where", "systen = 'mac'").output
    assert "not both" in run("answer", kept, "system", "--where", "system = 'mac'").output
    assert "ask a QUESTION, or give a condition" in run("answer", kept).output


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
    near = run("randomize", device, "secs=1", "system=mac")
    assert near.exit_code == 1 and "'secs' is no attribute. Did you mean 'seconds'?" in near.output
    (tmp_path / "near.csv").write_text("id,seconds,System\n3,1,mac\n")
    near = run("randomize", device, "--data", tmp_path / "near.csv", "-o", tmp_path / "reports")
    assert "'System' is no attribute. Did you mean 'system'?" in near.output
    assert "Did you mean" not in run("randomize", device, "seconds=1", "colour=red").output
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
    (tmp_path / "broken").write_text("no report\nneither\n")
    broken = run("aggregate", folder / "plan", tmp_path / "broken", "-o", "none")
    assert "no report was counted (1 malformed)" in broken.output


def test_good_lines_stay_around_those_that_were_cut(folder: Path, tmp_path: Path) -> None:
    one = ["randomize", folder / "device", "seconds=1.5", "system=mac"]
    reports = [run(*one).output.strip() for _ in range(3)]
    lines, out = tmp_path / "lines", tmp_path / "out"
    for text in (f"{reports[0]}\nno report\n\n{reports[1]}\n", "\n".join(reports)[:-1]):
        lines.write_text(text)
        made = run("aggregate", folder / "plan", lines, "-o", out, "--force")
        assert "counted 2 reports, 1 malformed; wrote" in made.output
        assert f"Warning: of {str(lines)!r} 1 malformed left out" in made.output
        server = nz.local.load_plan(folder / "plan").aggregator()
        server.add_many(bytes.fromhex(report) for report in reports[:2])
        kept = nz.local.load_aggregator(out)
        assert (kept.tally == server.tally).all() and kept.users == 2


def test_a_file_that_was_cut_is_named(folder: Path, tmp_path: Path) -> None:
    whole, cut, out = tmp_path / "whole", tmp_path / "cut", tmp_path / "out"
    run("randomize", folder / "device", "--data", folder / "users.csv", "-o", whole)
    run("randomize", folder / "device", "--data", folder / "users.csv", "-o", cut)
    cut.write_bytes(cut.read_bytes()[:-1])
    made = run("aggregate", folder / "plan", whole, cut, "-o", out)
    assert "counted 3,000 reports, 1 malformed; wrote" in made.output
    assert f"of {str(cut)!r} 1 malformed left out; a packet that was cut" in made.output
    assert f"of {str(whole)!r}" not in made.output


EMPTY = """
[schema]
wait = {{ binned = [0, 1, 2], missing = "{missing}" }}
kind = {{ categorical = ["a", "b"], other = "more" }}
code = {{ ordinal = {{ from = 1, to = 3 }} }}

[[tables]]
query = "wait, kind, code"
"""


def test_empty_fields_are_missing_values(tmp_path: Path) -> None:
    """In any file that a spreadsheet writes, and behind NAME=; at ε = 16 reports are true."""
    study, plan, device = (tmp_path / name for name in ("study.toml", "plan", "device"))
    study.write_text(EMPTY.format(missing="none"), encoding="utf-8")
    made = run("plan", study, "-o", plan, "--device", device, "--epsilon", 16)
    assert made.exit_code == 0, made.output
    users, reports, kept = tmp_path / "users.csv", tmp_path / "reports", tmp_path / "kept"
    lines = ["0.5;a;01", ";b;2", " ;;2", "none;z;3"] * 100
    users.write_text("wait;kind;code\n" + "\n".join(lines) + "\n", encoding="utf-8-sig")
    made = run("randomize", device, "--data", users, "-o", reports)
    assert "wrote 400 reports" in made.output
    single = run("randomize", device, "wait=", "kind=", "code=2").output.strip()
    assert run("aggregate", plan, reports, single, "-o", kept).exit_code == 0
    for question, expected in (
        ("wait", [100, 0, 301]),
        ("kind", [100, 100, 201]),
        ("code", [100, 201, 100]),
    ):
        rows = json.loads(run("answer", kept, question, "--json").output)["rows"]
        np.testing.assert_allclose([row["estimate"] for row in rows], expected, atol=1.5)
    refused = run("randomize", device, "wait=1", "kind=a", "code=")
    assert refused.exit_code == 1 and "nothing was reported" in refused.output
    users.write_text("wait;kind;code\n", encoding="utf-16")
    wide = run("randomize", device, "--data", users, "-o", reports, "--force")
    assert "it is UTF-16 text" in wide.output


def test_files_of_another_kind_and_files_that_are_not_there(folder: Path, tmp_path: Path) -> None:
    device, plan, out = folder / "device", folder / "plan", tmp_path / "out"
    wrong = run("randomize", plan, "seconds=1", "system=mac").output
    assert "make one with noiseplan local plan STUDY -o PLAN --device DEVICE" in wrong
    assert "it is a device's, for noiseplan" in run("aggregate", device, "00", "-o", out).output
    for command in (
        ["randomize", folder / "devise", "seconds=1", "system=mac"],
        ["randomize", device, "--data", folder / "nobody.csv", "-o", out],
        ["aggregate", plan, folder / "raports", "-o", out],
        ["answer", folder / "nothing", "total"],
    ):
        refused = run(*command)
        assert refused.exit_code == 1 and "Errno" not in refused.output, refused.output
    (folder / "monday.reports").write_bytes(b"x")
    near = run("aggregate", plan, folder / "munday.reports", "-o", out).output
    assert f"is not there. Did you mean {str(folder / 'monday.reports')!r}?" in near


def test_statistics_of_reports_are_refused_in_words(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    report = run("randomize", folder / "device", "seconds=1.5", "system=mac").output.strip()
    assert run("aggregate", folder / "plan", report, "-o", kept).exit_code == 0
    for question in ("median(seconds), system", "share(system)"):
        refused = run("answer", kept, question)
        assert refused.exit_code == 1
        assert "answer counts, and no medians, means or shares" in refused.output
