"""A unit that is no person: households, in the words of plan, certificate, page and ledger."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.errors import BudgetError, StorageError
from noiseplan.storage.plans import _read_unit
from noiseplan.study import StudyError, read_study

STUDY = """\
[schema]
age = { ordinal = { from = 0, to = 9 } }
[[tables]]
up_to = 1
[budget]
zcdp = 0.5
[people]
person = "home"
max_rows = 3
unit = "household"
[ledger]
file = "a.ledger"
dataset = "homes"
purpose = "a test"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    rows = "".join(f"{n // 4},{n % 10}\n" for n in range(100))
    (tmp_path / "homes.csv").write_text(f"home,age\n{rows}", encoding="utf-8")
    nz.Ledger(tmp_path / "a.ledger", create=True).open_dataset("homes", nz.zCDP(1.0))
    return tmp_path


def run(*arguments: object) -> str:
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_households_in_all_that_is_said(folder: Path) -> None:
    planned = run("plan", folder / "study.toml")
    assert "differ by all records of one household, at most 3" in planned
    assert "the privacy is that of a household" in planned and "person" not in planned
    run("release", folder / "study.toml", folder / "homes.csv", "-o", folder / "out")
    shown = run("show", folder / "out")
    assert "What is protected: one household, with at most 3 records." in shown
    assert "differ by all records of one household." in shown and "person" not in shown
    run("report", folder / "out", "-o", folder / "page.html")
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "whether one household is among the data" in page and "one person" not in page
    (entry,) = nz.Ledger(folder / "a.ledger").entries("homes")
    assert entry.purpose == "a test (the unit is a household)"
    loaded = nz.load(folder / "out").plan
    assert loaded.unit == "household" and loaded.max_rows == 3


def test_persons_are_saved_as_they_were(folder: Path) -> None:
    text = STUDY.replace('unit = "household"\n', "")
    (folder / "study.toml").write_text(text, encoding="utf-8")
    plan = read_study(folder / "study.toml").plan()
    assert plan.unit == "person"
    assert plan.hash() == plan.with_unit("person").hash() != plan.with_unit("home").hash()


@pytest.mark.parametrize("unit", ["", "7 homes", "a\nb", "<b>", 'x"', "x" * 41])
def test_what_is_no_unit(folder: Path, unit: str) -> None:
    plan = nz.plan(nz.Workload.marginals(nz.Schema.from_sizes({"a": 2}), k=1), budget=nz.zCDP(1))
    with pytest.raises(BudgetError, match="a unit is a word or two"):
        plan.with_unit(unit)
    with pytest.raises(StorageError, match="a unit is a word or two"):
        _read_unit(unit)
    text = STUDY.replace('"household"', "'" + unit.replace("\n", " 1 ") + "'")
    (folder / "study.toml").write_text(text, encoding="utf-8")
    with pytest.raises(StudyError, match=r"study.toml:10: people.unit"):
        read_study(folder / "study.toml")
