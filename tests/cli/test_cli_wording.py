"""Errors on the command line name commands and lines of a study, not calls of Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.cli.wording import in_words

STUDY = """
[schema]
age = { ordinal = { from = 0, to = 9 } }
sex = { categorical = ["F", "M"] }

[[tables]]
up_to = 2

[budget]
zcdp = 0.4

[ledger]
file    = "a.ledger"
dataset = "people"
"""
# A call, a method or a keyword argument; and the classes that stand for one.
PYTHON = re.compile(r"\b\w+\.\w+\(|\b(?!ε)[A-Za-z_]+\([^) ]*[=…\[]|\b[a-z_]+=[…'\"(\[]|zCDP\(\d")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    rows = "\n".join(f"{n % 10},{'FM'[n % 2]},{n % 7}" for n in range(50))
    (tmp_path / "people.csv").write_text(f"age,sex,id\n{rows}\n", encoding="utf-8")
    nz.Ledger(tmp_path / "a.ledger", create=True).open_dataset("people", nz.zCDP(0.7))
    return tmp_path


def said(folder: Path, *arguments: object) -> str:
    """What a command that fails says."""
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code not in (0, 2), result.output
    assert result.stderr.startswith("Error: ")
    assert not PYTHON.search(result.stderr), result.stderr
    return result.stderr


def released(folder: Path, study: str = STUDY, data: str = "people.csv") -> str:
    (folder / "this.toml").write_text(study, encoding="utf-8")
    return said(folder, "release", folder / "this.toml", folder / data, "-o", folder / "none")


def test_a_budget_that_is_used_up(folder: Path) -> None:
    study, data = folder / "study.toml", folder / "people.csv"
    done = CliRunner().invoke(main, ["release", str(study), str(data), "-o", str(folder / "out")])
    assert done.exit_code == 0
    text = released(folder)
    assert "[budget] zcdp = 0.3" in text
    assert "noiseplan ledger change LEDGER 'people' --zcdp RHO --reason WHY" in text


def test_ledgers_and_datasets_that_are_not_there(folder: Path) -> None:
    assert "noiseplan ledger open LEDGER 'nobody' --zcdp RHO" in released(
        folder, STUDY.replace('"people"', '"nobody"')
    )
    assert "noiseplan ledger init LEDGER" in released(folder, STUDY.replace("a.ledger", "b.ledger"))
    assert "noiseplan ledger show LEDGER" in said(
        folder, "ledger", "settle", folder / "a.ledger", 99, "released"
    )
    assert "noiseplan ledger verify LEDGER" in said(
        folder, "ledger", "verify", folder / "a.ledger", "--head", "x"
    )
    assert "noiseplan ledger change LEDGER 'people'" in said(
        folder, "ledger", "open", folder / "a.ledger", "people", "--zcdp", 3
    )


def test_other_people_and_neighbours(folder: Path) -> None:
    ledger = nz.Ledger(folder / "a.ledger")
    ledger.spend("people", nz.Guarantee(0.1, "zcdp"), max_rows=3)
    assert "Write [people] max_rows = 3 in the study" in released(folder)
    ledger.open_dataset("swaps", nz.zCDP(1.0), neighbours="replace")
    text = released(folder, STUDY.replace('"people"', '"swaps"'))
    assert 'Write [plan] neighbours = "replace" in the study' in text


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("age,sex\n3,X\n", '{ categorical = [...], other = "other" }'),
        ("age,sex\n33,F\n", "{ ordinal = [...] }"),
    ],
)
def test_values_that_were_not_declared(folder: Path, data: str, words: str) -> None:
    (folder / "wrong.csv").write_text(data, encoding="utf-8")
    assert words in released(folder, data="wrong.csv")


def test_numbers_beyond_all_bins(folder: Path) -> None:
    study = STUDY.replace("{ ordinal = { from = 0, to = 9 } }", "{ binned = [0, 5] }")
    assert "{ binned = [...], clip = true }" in released(folder, study)


def test_orders_that_were_not_declared(folder: Path) -> None:
    study = STUDY.replace("up_to = 2", 'query = "sex"\nfactors = { sex = "prefix" }')
    assert "declare it as { ordinal = [...] } or { binned = [...] }" in released(folder, study)


def test_seeds_beside_a_ledger(folder: Path) -> None:
    study, data = folder / "study.toml", folder / "people.csv"
    text = said(folder, "release", study, data, "-o", folder / "none", "--seed", 1)
    assert "leave out --seed to publish, or [ledger] to test" in text


def test_files_of_other_kinds(folder: Path) -> None:
    (folder / "people.xlsx").write_text("no")
    assert "Convert other files" in released(folder, data="people.xlsx")


BUDGETS = [
    lambda: nz.plan(
        nz.Workload.marginals(nz.Schema.from_sizes({"a": 4}), k=1),
        budget=nz.zCDP(1e-290), noise="discrete",
    ),
    lambda: nz.plan(
        nz.Workload.marginals(nz.Schema.from_sizes({"a": 4}), k=1), budget=nz.PureDP(1e-17)
    ),
]  # fmt: skip


@pytest.mark.parametrize("fails", BUDGETS)
def test_budgets_that_cannot_be_planned(fails: Callable[[], object]) -> None:
    with pytest.raises(nz.NoiseplanError) as caught:
        fails()
    assert not PYTHON.search(in_words(str(caught.value)))


def test_names_with_quotes() -> None:
    text = """open it: ledger.open_dataset("it's (1)", zCDP(…))"""
    assert in_words(text) == """open it: noiseplan ledger open LEDGER "it's (1)" --zcdp RHO"""
    assert in_words("nothing to reword") == "nothing to reword"
