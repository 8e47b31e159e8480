"""`noiseplan ledger` and the skeleton it hangs on: output, exit codes, no tracebacks."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import chdir, closing
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from noiseplan import __version__
from noiseplan import cli as command_line
from noiseplan.cli import COMMANDS, main
from noiseplan.ledger import Ledger
from noiseplan.privacy import ApproxDP, Guarantee, zCDP
from noiseplan.texts import one_line

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with a budget of ρ = 1, of which a quarter is spent."""
    ledger = Ledger(tmp_path / "a.ledger", create=True)
    ledger.open_dataset("census", zCDP(1.0))
    with ledger.charge("census", Guarantee(0.5, law="zcdp"), purpose="yearly tables"):
        pass
    return ledger.path


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == code, result.output
    if code:
        assert result.stdout == ""
        assert result.stderr
        assert "Traceback" not in result.stderr
    return result


def said(*arguments: object, code: int = 0) -> str:
    result = run("ledger", *arguments, code=code)
    return result.stderr if code else result.stdout


# ---------------------------------------------------------------------- the way of a custodian


def test_from_nothing_to_a_refusal(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    assert "Next: noiseplan ledger open" in said("init", path)
    assert "no datasets yet" in said("show", path)
    assert "budget ρ = 1 (zCDP)" in said("open", path, "census", "--zcdp", 1)
    assert said("spend", path, "census", "--zcdp", 0.75) == "charged ρ = 0.75 as entry 3\n"
    refusal = said("spend", path, "census", "--zcdp", 0.5, code=3)
    assert refusal.splitlines()[1:3] == ["  asked ρ = 0.5;", "  spent ρ = 0.75;"]
    assert "\n  left ρ = 0.25; nothing was recorded;\n" in refusal
    assert "left   ρ = 0.25" in said("show", path)
    changed = said("change", path, "census", "--zcdp", 2, "--reason", "a vote")
    assert "left   ρ = 1.25" in changed
    said("spend", path, "census", "--zcdp", 0.5)
    assert "stays charged" in said("settle", path, 3, "failed", "--note", "power cut")
    assert [entry.status for entry in Ledger(path).entries()] == ["failed", "reserved"]
    assert said("verify", path).startswith("6 rows")


@pytest.mark.parametrize(
    ("options", "budget"),
    [
        (["--zcdp", "0.5"], "ρ = 0.5 (zCDP)"),
        (["--gdp", "1.5"], "μ = 1.5 (GDP)"),
        (["--approx-dp", "1", "1e-9"], "ε = 1, δ = 1e-09 (approximate DP)"),
    ],
)
def test_budgets_in_every_currency(tmp_path: Path, options: list[str], budget: str) -> None:
    Ledger(tmp_path / "a", create=True)
    text = said("open", tmp_path / "a", "d", *options, "--neighbours", "replace", "--note", "n")
    assert text.startswith(f"dataset 'd': budget {budget}, neighbours replace\n")
    assert Ledger(tmp_path / "a").balance("d").note == "n"


def test_costs_are_charged_with_the_neighbours_of_the_budget(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a", create=True)
    ledger.open_dataset("d", zCDP(1.0), neighbours="replace")
    said("spend", ledger.path, "d", "--gdp", "0.5")
    said("spend", ledger.path, "d", "--zcdp", "0.1", "--purpose", "p")
    first, second = (entry.guarantee for entry in ledger.entries())
    assert first == Guarantee(0.25, "gaussian", "replace")
    assert second == Guarantee(0.2, "zcdp", "replace")


# ---------------------------------------------------------------------- looking


def test_show(path: Path) -> None:
    text = said("show", path)
    assert "spent  ρ = 0.25, in 1 release" in text
    assert re.search(
        r"^ +3  \d{4}-\d\d-\d\d \d\d:\d\d  released  ρ = 0\.25 +yearly tables$", text, re.M
    )
    assert said("show", path, "census") == text


def test_show_prints_the_last_entries_or_all(path: Path) -> None:
    ledger = Ledger(path)
    for i in range(12):
        ledger.spend("census", Guarantee(0.01), purpose=f"number {i}")
    text = said("show", path)
    assert "… 3 earlier; --all prints them" in text
    assert "yearly" not in text
    assert text.count("number") == 10
    assert said("show", path, "--all").count("ρ = 0.005 ") == 12


def test_refusals_stand_among_the_entries(path: Path) -> None:
    Ledger(path).note_refusal("census", "records that belong to nobody", details=True)
    Ledger(path).spend("census", Guarantee(0.5, law="zcdp"), purpose="later")
    lines = said("show", path).splitlines()
    assert [line.split()[0] for line in lines[-3:]] == ["3", "5", "6"]
    assert lines[-2].endswith("no cost         records that belong to nobody · details were shown")


def test_a_bound_on_the_records_of_a_person(path: Path) -> None:
    assert "do not add up" in said("spend", path, "census", "--zcdp", 0.01, "--max-rows", 2, code=1)
    message = said("spend", path, "census", "--zcdp", 0.01, "--max-rows", 2, code=1)
    assert "noiseplan ledger change LEDGER 'census' --zcdp RHO --reason WHY --max-rows" in message
    change = ("--zcdp", 1.5, "--reason", "two visits at most", "--max-rows", 2)
    text = said("change", path, "census", *change)
    assert "one person, at most 2 records" in text
    assert "spent  ρ = 1, in 1 release" in text
    said("spend", path, "census", "--zcdp", 0.01, "--max-rows", 2)
    opened = said("open", path, "visits", "--zcdp", 1, "--max-rows", 3)
    assert "one person, at most 3 records" in opened


def test_show_for_programs(path: Path) -> None:
    content = json.loads(said("show", path, "--json"))
    assert content["head"] == str(Ledger(path).head())
    assert content["datasets"][0]["left"] == {"currency": "zCDP", "rho": 0.75}
    (entry,) = content["entries"]
    assert (entry["id"], entry["status"], entry["rho"]) == (3, "released", 0.25)


def test_every_answer_for_programs_is_json(path: Path) -> None:
    for arguments in (
        ("open", path, "panel", "--gdp", 1, "--json"),
        ("change", path, "panel", "--gdp", 2, "--reason", "r", "--json"),
        ("spend", path, "panel", "--gdp", 1, "--json"),
        ("verify", path, "--json"),
    ):
        assert isinstance(json.loads(said(*arguments)), dict)


def test_nothing_printed_can_rewrite_the_screen() -> None:
    assert one_line("a\x1b[2Jb\r\nc\u202ed", 60) == "a [2Jb c d"
    assert one_line("x" * 100, 60) == "x" * 59 + "…"


# ---------------------------------------------------------------------- verifying


def test_verify_and_heads(path: Path) -> None:
    text = said("verify", path)
    head = text.split("head ")[1].strip()
    assert head == str(Ledger(path).head())
    Ledger(path).spend("census", Guarantee(0.01))
    assert "the head that was given is among them" in said("verify", path, "--head", head)
    assert "rows" in said("verify", path, "--head", "9:" + "0" * 64, code=4)
    assert "count:hash" in said("verify", path, "--head", "9", code=1)


def test_a_damaged_ledger(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER history_is_not_deleted")
        connection.execute("DELETE FROM history WHERE position = 3")
        connection.commit()
    before = path.read_bytes()
    for arguments in (["show"], ["verify"], ["export"], ["verify", "--json"]):
        assert "damaged or was changed" in said(arguments[0], path, *arguments[1:], code=4)
    said("spend", path, "census", "--zcdp", 0.1, code=4)
    assert path.read_bytes() == before


# ---------------------------------------------------------------------- exporting


def test_export_formats(path: Path) -> None:
    ledger = Ledger(path)
    assert said("export", path) == ledger.export()
    assert said("export", path, "--format", "csv") == ledger.export("csv")
    assert said("export", path, "--format", "dp-accounting") == ledger.export("dp-accounting")
    assert len(list(csv.reader(io.StringIO(said("export", path, "--format", "csv"))))) == 5
    assert "no dataset 'x'" in said("export", path, "--dataset", "x", code=1)


def test_export_to_a_file(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert said("export", path, "-o", out) == ""
    assert out.read_text(encoding="utf-8") == Ledger(path).export()
    assert "No such file" in said("export", path, "-o", tmp_path / "none" / "out", code=1)


def test_a_failed_export_leaves_no_file(path: Path, tmp_path: Path) -> None:
    said("export", path, "--dataset", "x", "-o", tmp_path / "out.json", code=1)
    assert not (tmp_path / "out.json").exists()


# ---------------------------------------------------------------------- errors and exit codes


def test_init_leaves_alone_what_is_there(path: Path) -> None:
    before = path.read_bytes()
    assert "is there already" in said("init", path, code=1)
    assert path.read_bytes() == before


WRONG = [
    (["show", "nowhere.ledger"], 1, "noiseplan ledger init"),
    (["show", "{path}", "nobody"], 1, "no dataset 'nobody'"),
    (["open", "{path}", "d"], 2, "give one budget"),
    (["open", "{path}", "d", "--zcdp", "1", "--gdp", "1"], 2, "give one budget"),
    (["open", "{path}", "d", "--zcdp", "much"], 2, "--zcdp"),
    (["open", "{path}", "d", "--zcdp", "-1"], 1, "positive"),
    (["open", "{path}", "d", "--zcdp", "nan"], 1, "positive"),
    (["open", "{path}", "d", "--approx-dp", "1", "2"], 1, "delta"),
    (["open", "{path}", "census", "--zcdp", "2"], 1, "on record only"),
    (["open", "{path}", "d", "--zcdp", "1", "--neighbours", "x"], 2, "--neighbours"),
    (["change", "{path}", "census", "--zcdp", "2"], 2, "--reason"),
    (["change", "{path}", "census", "--zcdp", "0.1", "--reason", "r"], 1, "has spent"),
    (["spend", "{path}", "census"], 2, "give one cost"),
    (["spend", "{path}", "census", "--zcdp", "1", "--gdp", "1"], 2, "give one cost"),
    (["spend", "{path}", "census", "--gdp", "-1"], 1, "positive"),
    (["spend", "{path}", "census", "--zcdp", "inf"], 1, "positive"),
    (["spend", "{path}", "census", "--zcdp", "9"], 3, "left ρ = 0.75"),
    (["settle", "{path}", "3", "failed"], 1, "released already"),
    (["settle", "{path}", "99", "failed"], 1, "no entry 99"),
    (["settle", "{path}", "3", "refunded"], 2, "refunded"),
    (["export", "{path}", "--format", "xml"], 2, "xml"),
    (["refund", "{path}"], 2, "refund"),
    (["show"], 2, "LEDGER"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), WRONG)
def test_what_goes_wrong_is_said_in_one_message(
    path: Path, arguments: list[str], code: int, words: str
) -> None:
    before = path.read_bytes()
    assert words in said(*(each.format(path=path) for each in arguments), code=code)
    assert path.read_bytes() == before


def test_a_ledger_that_others_hold(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Ledger.__init__, "__kwdefaults__", {"create": False, "timeout": 0.05, "by": None}
    )
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert "Try again" in said("spend", path, "census", "--zcdp", 0.1, code=5)


# ---------------------------------------------------------------------- the skeleton


def test_help_loads_no_command() -> None:
    code = (
        "import sys; from noiseplan.cli import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "print([name for name in sys.modules if name.startswith(('noiseplan.cli.', 'scipy'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for name, text in COMMANDS.items():
        assert re.search(rf"{name} +{re.escape(text[:30])}", done.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_says_what_it_does(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert isinstance(command, click.Command)
    assert command.help


def test_unknown_commands_and_versions() -> None:
    assert "No such command 'plant'. Did you mean 'plan'?" in run("plant", code=2).stderr
    assert "'opne'. Did you mean 'open'?" in run("ledger", "opne", code=2).stderr
    assert "No such command 'quux'." in run("quux", code=2).stderr
    alone = run("ledger", "open", "a.ledger", "d", "--epsilon", "2", code=2).stderr
    assert "ε and δ stand together: --approx-dp 2 1e-9, or --zcdp RHO" in alone
    assert run("--version").stdout == f"noiseplan, version {__version__}\n"


def test_errors_of_the_system_are_said_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "somewhere")

    monkeypatch.setattr(Ledger, "verify", fails)
    assert "Permission denied" in said("verify", path, code=1)


def test_python_m_noiseplan_in_a_poor_terminal(path: Path) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        [sys.executable, "-m", "noiseplan", "ledger", "show", str(path)],
        capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    assert r"left   \u03c1 = 0.75" in done.stdout


def test_the_console_script_is_declared() -> None:
    assert 'noiseplan = "noiseplan_command:main"' in (ROOT / "pyproject.toml").read_text()
    assert command_line.main is main


# ---------------------------------------------------------------------- the page

CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    """Lines with `$` are run in order; numbers, hashes and times may differ."""
    page = (ROOT / "docs" / "ledger.md").read_text(encoding="utf-8")
    shown, printed = [], []
    with chdir(tmp_path):
        for block in CONSOLE.findall(page):
            for part in block.split("$ noiseplan ")[1:]:
                line, _, output = part.partition("\n")
                result = CliRunner().invoke(main, shlex.split(line))
                shown.append((line, plain(output)))
                printed.append((line, plain(result.output)))
    assert len(shown) >= 6
    assert printed == shown


def plain(text: str) -> str:
    return re.sub(r"\d+:[0-9a-f]{64}|\d[\d.e:-]*", "#", text).strip()


def test_changes_of_the_budget_and_checks_are_listed(path: Path) -> None:
    said("change", path, "census", "--zcdp", 2, "--reason", "decision of the board")
    said("change", path, "census", "--zcdp", 2, "--reason", "code book", "--max-rows", 2)
    Ledger(path).note_check("census", "nothing at fault", details=True, purpose="yearly tables")
    shown = said("show", path)
    assert "budget    changed" in shown
    assert "ρ = 1 (zCDP) → ρ = 2 (zCDP) · decision of the board" in shown
    assert "ρ = 2 (zCDP), at most 2 records of one person · code book" in shown
    assert "checked   no cost" in shown
    assert "nothing at fault · details were shown · yearly tables" in shown
    content = json.loads(said("show", path, "--json"))
    assert [each["reason"] for each in content["changes"]] == ["decision of the board", "code book"]
    assert content["changes"][0]["before"] != content["changes"][0]["after"]
    assert content["checks"][0]["found"] == "nothing at fault"


def test_a_budget_in_epsilon_and_delta_is_raised_in_its_own_currency(tmp_path: Path) -> None:
    path = tmp_path / "office.ledger"
    Ledger(path, create=True).open_dataset("people", ApproxDP(1.0, 1e-9))
    Ledger(path).spend("people", Guarantee.pure(1.0), purpose="tables")
    refused = said("spend", path, "people", "--zcdp", 0.1, code=3)
    assert "ledger change LEDGER 'people' --approx-dp EPSILON DELTA --reason WHY" in refused
    assert re.search(r"reserved  ε = 1 \(pure\) +tables$", said("show", path), re.M)
