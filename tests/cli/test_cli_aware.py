"""Data-aware studies on the command line: every command says that errors are estimates."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.study import read_study

STUDY = """\
title = "Incomes"
[schema]
income = { ordinal = { from = 0, to = 63 } }
sex    = { categorical = ["F", "M"] }
[[tables]]
name  = "up to"
query = "income=prefix"
[budget]
pure_dp = 0.5
[plan]
planner = "dawa"
"""
RECORDED = '[ledger]\nfile = "a.ledger"\ndataset = "incomes"\n'
PEOPLE = '[people]\nperson = "who"\nmax_rows = 2\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study, its data, and a ledger that admits it once."""
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    (tmp_path / "recorded.toml").write_text(STUDY + RECORDED, encoding="utf-8")
    (tmp_path / "people.toml").write_text(STUDY + PEOPLE, encoding="utf-8")
    rows = "\n".join(f"{n % 8},{'FM'[n % 2]},{n // 4}" for n in range(400))
    (tmp_path / "data.csv").write_text(f"income,sex,who\n{rows}\n", encoding="utf-8")
    nz.Ledger(tmp_path / "a.ledger", create=True).open_dataset("incomes", nz.zCDP(0.2))
    return tmp_path


@pytest.fixture
def out(folder: Path) -> Path:
    run("release", folder / "study.toml", folder / "data.csv", "-o", folder / "out")
    return folder / "out"


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == code, result.output
    if code:
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
    return result


def test_a_study_makes_the_plan_that_python_makes(folder: Path) -> None:
    read = read_study(folder / "study.toml")
    own = nz.plan(read.workload, budget=nz.PureDP(0.5), planner="dawa")
    assert read.plan().hash() == own.hash()


def test_people_are_priced_once(folder: Path) -> None:
    read = read_study(folder / "people.toml")
    own = nz.plan(read.workload, budget=nz.PureDP(0.5), planner="dawa", max_rows=2)
    plan = read.plan()
    assert plan.hash() == own.hash()
    assert plan.privacy.within(nz.PureDP(0.5))
    text = run("plan", folder / "people.toml").stdout
    assert "  people       of each, at most 2 records count" in text
    run(
        "release", folder / "people.toml", folder / "data.csv", "-o", folder / "theirs", "--seed", 1
    )
    shown = run("show", folder / "theirs").stdout
    assert "What is protected: one person, with at most 2 records." in shown
    # of each four records two count, and at ε = 0.25 a record the total is off by some tens
    loaded = nz.load(folder / "theirs")
    total = loaded.answer(nz.Query(read.schema, {"income": nz.Total()})).estimate[0]
    assert abs(total - 200) < 150


def test_plan_says_that_the_error_depends_on_the_data(folder: Path) -> None:
    text = run("plan", folder / "study.toml").stdout
    assert text.startswith("Incomes\nData-aware plan for 1 query, 64 rows\n")
    assert "depends on the data" in text
    assert "noiseplan compare" in text
    figures = json.loads(run("plan", folder / "study.toml", "--json").stdout)
    assert figures["planner"] == "dawa"
    assert figures["rmse"] is None
    assert "estimates" in figures["errors"]
    assert figures["privacy"]["pure_epsilon"] <= 0.5


def test_release_is_charged_and_kept(folder: Path) -> None:
    arguments = ("release", folder / "recorded.toml", folder / "data.csv")
    text = run(*arguments, "-o", folder / "one").stdout
    assert "errors   estimated: answers are biased where buckets are uneven" in text
    assert "entry" in text
    assert ".table(" not in text  # how to ask in Python
    spent = nz.Ledger(folder / "a.ledger").balance("incomes").spent.rho
    assert spent == pytest.approx(0.5**2 / 2, rel=1e-6)
    assert "does not fit" in run(*arguments, "-o", folder / "two", code=3).stderr
    assert not (folder / "two").exists()


def test_release_for_programs(folder: Path) -> None:
    arguments = ("release", folder / "study.toml", folder / "data.csv", "-o", folder / "out")
    found = json.loads(run(*arguments, "--json").stdout)
    saved = json.loads((folder / "out" / "certificate.json").read_text(encoding="utf-8"))
    assert found["certificate"] == saved
    assert "estimated" in saved["errors"]


def test_show_names_estimated_errors(out: Path) -> None:
    text = run("show", out).stdout
    assert "errors are estimates: the noise is known exactly, the bias is not." in text
    assert text.startswith((out / "certificate.txt").read_text(encoding="utf-8"))
    assert "est. error" in text
    assert "std. error" not in text
    table = json.loads(run("show", out, "--json").stdout)["tables"][0]
    answer = nz.load(out).answer("up to")
    assert table["error"] == "estimated error"
    typical = np.sqrt(np.mean(answer.estimated_error**2))  # type: ignore[attr-defined]
    assert table["std_error"] == pytest.approx(typical)


def test_answers_name_estimated_errors(out: Path) -> None:
    assert "estimated_error" in run("answer", out, "up to").stdout
    rows = list(csv.DictReader(io.StringIO(run("answer", out, "income=..7 | 8..", "--csv").stdout)))
    expected = nz.load(out).answer(
        nz.Query(
            nz.load(out).schema, {"income": nz.Custom([[1] * 8 + [0] * 56, [0] * 8 + [1] * 56])}
        )
    )
    shown = [float(row["estimate"]) for row in rows]
    fine = 1e-5 * expected.error.min()  # CSV has six digits of the smallest error
    np.testing.assert_allclose(shown, expected.estimate, rtol=0, atol=fine)
    found = json.loads(run("answer", out, "--where", "income < 8", "--json").stdout)
    assert found["covers"] == "noise, bias as estimated"
    assert found["rows"][0]["estimate"] == pytest.approx(expected.estimate[0])
    assert "'sex'" in run("answer", out, "sex", code=1).stderr


def test_reports_say_that_errors_are_estimated(out: Path) -> None:
    run("report", out, "--title", "Incomes")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "every error on this page is estimated" in page
    assert "estimated error" in page
    assert "standard error" not in page
    assert "What another budget would buy" not in page
    assert "covers the noise only" not in page
    links = re.findall(r'href="#([\w-]+)"', page)
    assert links == [
        "main",
        "the-tables",
        "how-precise-the-tables-are",
        "the-promise-in-every-currency",
        "certificate",
    ]
    assert all(f'id="{link}"' in page for link in links)


def test_valid_tables_are_refused(out: Path) -> None:
    text = run("valid", out, "-o", out.parent / "valid", code=1).stderr
    assert "data-aware release" in text
    assert "noiseplan answer" in text
    assert not (out.parent / "valid").exists()


def test_tables_to_be_written_must_be_measured(folder: Path) -> None:
    text = STUDY + '[output]\ntables = ["sex"]\n'
    (folder / "other.toml").write_text(text, encoding="utf-8")
    said = run("plan", folder / "other.toml", code=1).stderr
    assert "other.toml:" in said
    assert "only income is measured" in said


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("pure_dp = 0.5", "gdp = 0.5"), "Its first step is no Gaussian mechanism"),
        (('query = "income=prefix"', 'query = "sex"'), "'sex' is categorical"),
        (('planner = "dawa"', 'planner = "dawa"\nobjective = "worst"'), "total squared error"),
        (('planner = "dawa"', 'planner = "dwa"'), "Did you mean 'dawa'?"),
    ],
)
def test_what_cannot_be_planned_is_refused(
    folder: Path, change: tuple[str, str], says: str
) -> None:
    (folder / "wrong.toml").write_text(STUDY.replace(*change), encoding="utf-8")
    text = run("plan", folder / "wrong.toml", code=1).stderr
    assert says in text
    assert "wrong.toml:" in text
    assert "planner=" not in text  # said as a line of the study
