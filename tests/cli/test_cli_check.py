"""`noiseplan check`, and what else the commands warn of before anything is spent."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.ledger import AlreadyReleased
from noiseplan.study import read_study

STUDY = """\
title = "A small study"
[schema]
age = { ordinal = { from = 0, to = 9 } }
sex = { categorical = ["F", "M"] }
[[tables]]
up_to = 2
[budget]
zcdp = 0.5
[ledger]
file = "a.ledger"
dataset = "people"
purpose = "a test"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    (tmp_path / "people.csv").write_text("age,sex\n3,F\n4,M\n", encoding="utf-8")
    (tmp_path / "wrong.csv").write_text("age,sex\n3,F\n4,secret\n", encoding="utf-8")
    (tmp_path / "empty.csv").write_text("age,sex\n", encoding="utf-8")
    nz.Ledger(tmp_path / "a.ledger", create=True).open_dataset("people", nz.zCDP(0.7))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == code, result.output
    return result


def checked(*arguments: str, code: int = 0) -> str:
    result = run("check", "study.toml", *arguments, code=code)
    assert result.stderr == ""
    return result.stdout


def test_what_is_left_after_an_earlier_release_is_checked(folder: Path) -> None:
    """The cost is that which the release will be charged, and a refusal that which it will get."""
    one = STUDY.replace("up_to = 2", "k = 1").replace("zcdp = 0.5", "zcdp = 0.3")
    (folder / "one.toml").write_text(one, encoding="utf-8")
    run("release", "one.toml", "people.csv", "-o", "one")
    assert "left ρ = 0.4;" in checked("people.csv", code=3)  # the whole of it does not fit
    text = checked("people.csv", "--given", "one", "-o", "two")
    assert "A release would go through" in text and "before" not in text
    cost = text.partition("cost ")[2].split()[2].rstrip(",")
    released = run("release", "study.toml", "people.csv", "--given", "one", "-o", "two").stdout
    both = float(released.partition("privacy  zCDP: ρ = ")[2].split(",")[0])
    assert f"new      zCDP: ρ = {cost} of it; the rest was spent by the release in 'one'" in (
        released
    )
    assert both == pytest.approx(0.3 + float(cost), rel=1e-5)
    charged = run("ledger", "show", "a.ledger").stdout.splitlines()[-1]
    assert 0 < float(cost) < 0.4 and f"ρ = {cost}" in charged
    assert "'sex' holds values" in checked("wrong.csv", "--given", "one", "--again", code=1)
    (folder / "study.toml").write_text(STUDY.replace("zcdp = 0.5", "zcdp = 5"), encoding="utf-8")
    refused = checked("people.csv", "--given", "one", code=3)
    assert "does not fit" in refused
    advised = re.search(
        r"\[budget\] (zcdp = \S+) in the study fits, with the same --given", refused
    )
    assert advised is not None, refused
    (folder / "study.toml").write_text(STUDY.replace("zcdp = 0.5", advised[1]), encoding="utf-8")
    typed = checked("people.csv", "--given", "one")
    assert "A release would go through" in typed and "nothing: the earlier" not in typed
    again = run("check", "one.toml", "people.csv", "--given", "one", "-o", "three").stdout
    assert "nothing: the earlier release tells all of it" in again
    told = run("release", "one.toml", "people.csv", "--given", "one", "-o", "three").stdout
    assert "new      nothing: all of it was spent by the release in 'one'" in told
    words = ("release", "one.toml", "people.csv", "--given", "one", "-o", "four", "--json")
    assert json.loads(run(*words).stdout)["new_rho"] == 0
    beside = STUDY.replace('dataset = "people"', 'dataset = "others"')
    (folder / "study.toml").write_text(beside, encoding="utf-8")
    nz.Ledger(folder / "a.ledger").open_dataset("others", nz.zCDP(9))
    for command in ("check", "release"):
        refused = run(command, "study.toml", "people.csv", "--given", "one", "-o", "out", code=1)
        told = refused.stdout if command == "check" else refused.stderr
        assert "people" in told and "others" in told


@pytest.mark.filterwarnings("ignore:The 'future.infer_string'")  # of Ibis on SQLite
@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_tables_of_databases_are_checked(folder: Path, kind: str) -> None:
    rows = "(3, 'F'), (4, 'M')"
    for name, more in (("people", ""), ("wrong", ", (5, 'secret')")):
        made = f"CREATE TABLE {name} (age INTEGER, sex VARCHAR)"
        filled = f"INSERT INTO {name} VALUES {rows}{more}"
        connect = duckdb.connect if kind == "duckdb" else sqlite3.connect
        with closing(connect(str(folder / "some.db"))) as connection:
            connection.execute(made)
            connection.execute(filled)
            connection.commit()
    text = checked("some.db", "--table", "people", "-o", "out")
    assert "every value is declared" in text
    assert "'sex' holds values" in checked("some.db", "--table", "wrong", code=1)
    text = checked("some.db", "--query", "SELECT * FROM wrong WHERE age < 5")
    assert "every value is declared" in text
    assert nz.Ledger("a.ledger").balance("people").checks == 3


def test_a_check_goes_well_spends_nothing_and_leaves_nothing(folder: Path) -> None:
    before = sorted(path.name for path in folder.iterdir())
    text = checked("people.csv", "-o", "out")
    assert "A release would go through. Nothing was spent." in text
    assert "for the custodian, and not to be published" in text
    assert sorted(path.name for path in folder.iterdir()) == before
    ledger = nz.Ledger("a.ledger")
    assert ledger.balance("people").entries == 0
    assert [(kept.found, kept.details) for kept in ledger.checks()] == [("nothing at fault", False)]
    run("release", "study.toml", "people.csv", "-o", "out")


def test_a_check_reads_text_as_a_release_does(folder: Path) -> None:
    (folder / "study.toml").write_text(
        STUDY.replace("to = 9 }", 'to = 9 }, missing = "none"') + '[data]\nmissing = ["NA"]\n',
        encoding="utf-8",
    )
    (folder / "people.csv").write_text("age,sex\nNA,F\n4,M\n", encoding="utf-8")
    assert "A release would go through." in checked("people.csv")
    run("release", "study.toml", "people.csv", "-o", "out")
    assert "data checked 1 time, which costs nothing" in str(
        nz.Ledger("a.ledger").balance("people")
    )


def test_values_are_shown_to_those_who_ask(folder: Path) -> None:
    text = checked("wrong.csv", code=1)
    assert "column 'sex' holds values that the schema does not declare" in text
    assert "--details" in text
    assert "secret" not in text
    assert "secret" in checked("wrong.csv", "--details", code=1)
    assert [kept.details for kept in nz.Ledger("a.ledger").checks()] == [False, True]


def test_exit_codes_are_those_of_a_release(folder: Path) -> None:
    checked("nowhere.csv", code=1)
    (folder / "full").mkdir()
    (folder / "full" / "file").touch()
    assert "'full' is there already" in checked("people.csv", "-o", "full", code=1)
    nz.Ledger("a.ledger").spend("people", nz.zCDP(0.6))
    text = checked("people.csv", code=3)
    assert "no record was read" in text
    assert "[budget] zcdp = 0.0999999 in the study fits" in text
    content = bytearray((folder / "a.ledger").read_bytes())
    content[4096:6000] = b"\xff" * 1904
    (folder / "a.ledger").write_bytes(content)
    checked("people.csv", code=4)
    assert run("check", "study.toml", code=2).stdout == ""


def test_for_programs(folder: Path) -> None:
    found = json.loads(checked("empty.csv", "--json"))
    assert (found["ok"], found["read"]) == (True, True)
    kinds = {each["about"]: each["kind"] for each in found["findings"]}
    assert kinds["records"] == "warning"
    assert kinds["data"] == "fine"
    found = json.loads(checked("wrong.csv", "--json", code=1))
    assert [each["about"] for each in found["findings"] if each["kind"] == "problem"] == ["data"]


def test_a_code_list_that_is_the_data(folder: Path) -> None:
    listed = STUDY.replace('["F", "M"]', '{ file = "people.csv", column = "sex" }')
    (folder / "study.toml").write_text(listed, encoding="utf-8")
    assert "is the data itself" in checked("people.csv", code=1)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"a.ledger"', '"b.ledger"', "b.ledger' is not there. Check the path"),
        ('"people"', '"peple"', "peple"),
    ],
)
def test_the_ledger_is_looked_at_before_anything_is_planned(
    folder: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, said: str
) -> None:
    def plan(*_: object, **__: object) -> None:
        raise AssertionError("planned")

    monkeypatch.setattr("noiseplan.planning.planner.plan", plan)
    (folder / "study.toml").write_text(STUDY.replace(old, new), encoding="utf-8")
    text = checked("people.csv", code=1)
    assert "REFUSED: " in text and said in text
    assert "data    not read" in text and "no record was read" in text
    refused = run("release", "study.toml", "people.csv", "-o", "out", code=1)
    assert said in refused.stderr and not (folder / "out").exists()


def test_a_release_warns_before_it_reads(folder: Path) -> None:
    run("ledger", "change", "a.ledger", "people", "--zcdp", "5", "--reason", "more")
    assert run("release", "study.toml", "people.csv", "-o", "one").stderr == ""
    again = run("release", "study.toml", "people.csv", "-o", "two", "--again").stderr
    assert again.startswith("Warning: entry 4 of ")
    assert "(a test) released this very plan" in again
    (folder / "study.toml").write_text(STUDY.replace("0.5", "0.4"), encoding="utf-8")
    other = run("release", "study.toml", "people.csv", "-o", "three").stderr
    assert "and 1 before it, released another plan of the same people" in other


def test_a_plan_is_released_once_unless_it_is_asked_for_again(folder: Path) -> None:
    run("ledger", "change", "a.ledger", "people", "--zcdp", "5", "--reason", "more")
    run("release", "study.toml", "people.csv", "-o", "one")
    (folder / "people.csv").unlink()  # nothing of the data is needed to refuse
    refused = run("release", "study.toml", "people.csv", "-o", "two", code=3).stderr
    assert "(a test) was charged for this very plan" in refused
    assert "Nothing was spent. To make it all the same: --again" in refused
    assert refused.partition("Error: ")[2].strip() in checked("people.csv", code=3)
    ledger = nz.Ledger("a.ledger")
    assert len(ledger.entries("people")) == 1 and not (ledger.refusals() or ledger.checks())
    (folder / "people.csv").write_text("age,sex\n3,F\n4,M\n", encoding="utf-8")
    assert "released this very plan" in checked("people.csv", "--again")
    run("release", "study.toml", "people.csv", "-o", "two", "--again")
    assert len(ledger.entries("people")) == 2
    (folder / "study.toml").write_text(STUDY.replace("0.5", "0.4"), encoding="utf-8")
    run("release", "study.toml", "people.csv", "-o", "three")


def test_what_is_left_is_released_once(folder: Path) -> None:
    run("ledger", "change", "a.ledger", "people", "--zcdp", "5", "--reason", "more")
    (folder / "first.toml").write_text(STUDY.replace("up_to = 2", "k = 1"), encoding="utf-8")
    run("release", "first.toml", "people.csv", "-o", "one")
    rest = ("study.toml", "people.csv", "--given", "one")
    run("release", *rest, "-o", "two")
    run("check", *rest, code=3)
    run("release", *rest, "-o", "three", code=3)
    run("release", *rest, "-o", "three", "--again")


def test_a_study_is_released_again_in_python(folder: Path) -> None:
    run("ledger", "change", "a.ledger", "people", "--zcdp", "5", "--reason", "more")
    study = read_study("study.toml")
    plan = study.plan()
    study.release(plan, "people.csv")
    with pytest.raises(AlreadyReleased, match="again=True"):
        study.release(plan, "people.csv")
    assert not study.check(plan, "people.csv").ok
    assert study.check(plan, "people.csv", again=True).ok
    study.release(plan, "people.csv", again=True)


def test_a_file_without_records(folder: Path) -> None:
    said = run("release", "study.toml", "empty.csv", "-o", "out").stderr
    assert said.startswith("Warning: the data hold no records")
    assert said.count("\n") == 1
    assert [kept.found for kept in nz.Ledger("a.ledger").checks()] == ["no records"]


def test_budgets_that_promise_little(folder: Path) -> None:
    large = STUDY.replace("zcdp = 0.5", "approx_dp = { epsilon = 100, delta = 0.1 }")
    (folder / "study.toml").write_text(large, encoding="utf-8")
    warned = run("plan", "study.toml").stderr.splitlines()
    assert [line.split(" ")[1:4] for line in warned] == [["ε", "=", "100"], ["δ", "=", "0.1"]]
    opened = run("ledger", "open", "a.ledger", "others", "--approx-dp", "1", "0.1")
    assert opened.stderr.startswith("Warning: δ = 0.1")
    assert "dataset 'others'" in opened.stdout


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ("epsilon = 1", "delta is missing, and ε and δ stand together: approx_dp = { epsilon = 1, "
         "delta = 1e-09 }, or without δ, for Laplace noise: pure_dp = 1"),
        ("delta = 1e-6", "epsilon is missing, and ε and δ stand together: approx_dp = { epsilon = "
         "1.0, delta = 1e-06 }"),
        ("epsilon = 2\ndelta = 1e-6", "ε and δ stand together: approx_dp = { epsilon = 2, delta = "
         "1e-06 }"),
        ("rho = 0.5", "rho belongs to zcdp: write zcdp = 0.5"),
        ("mu = 1", "mu belongs to gdp: write gdp = 1"),
    ],
)  # fmt: skip
def test_a_parameter_alone_says_which_key_is_meant(folder: Path, budget: str, said: str) -> None:
    (folder / "study.toml").write_text(STUDY.replace("zcdp = 0.5", budget), encoding="utf-8")
    assert run("plan", "study.toml", code=1).stderr.endswith(f": {said}\n")
