"""Predicates in study files and on the command line: what the Python says, faults by line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.study import StudyError, read_study

STUDY = """\
[schema]
age    = { ordinal = { from = 0, to = 9 } }
sex    = { categorical = ["F", "M"] }
income = { binned = [0, 10, 20, 50] }

[[tables]]
k = 1

[[predicates]]
where  = "age < 3 and sex = 'F'"
name   = "girls"
weight = 2.0

[[predicates]]
where = ["income >= 20 or age > 7", "not sex = 'F'"]

[budget]
zcdp = 0.5
"""
SCHEMA = nz.Schema(
    {
        "age": nz.Ordinal(range(10)),
        "sex": nz.Categorical(["F", "M"]),
        "income": nz.Binned([0, 10, 20, 50]),
    }
)
TABLES = "[[tables]]\nk = 1\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("text", [STUDY, STUDY.replace(TABLES, "")], ids=["beside tables", "alone"])
def test_the_same_workload_as_in_python(tmp_path: Path, text: str) -> None:
    study = read_study(written(tmp_path, text))
    expected = nz.Workload.predicates(SCHEMA, {"girls": "age < 3 and sex = 'F'"}, weight=2.0)
    expected += nz.Workload.predicates(SCHEMA, ["income >= 20 or age > 7", "not sex = 'F'"])
    if TABLES in text:
        expected = nz.Workload.marginals(SCHEMA, k=1) + expected
    assert [(q.name, q.weight) for q in study.workload] == [(q.name, q.weight) for q in expected]
    for one, other in zip(study.workload, expected, strict=True):
        np.testing.assert_array_equal(one.dense(), other.dense())
    assert study.plan().variance("girls").shape == (1,)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("age < 3 and sex", "age < 3 and sx", "study.toml:10: predicates 1, where: age < 3 and "
         "⟨here⟩ sx = 'F': no attribute 'sx'; the schema has"),
        ('"income >= 20 or age > 7"', '"income > 20"', "study.toml:15: predicates 2, where 1: "),
        ("where  =", "were =", "unknown key 'were'"),
        ("where  = \"age < 3 and sex = 'F'\"\n", "", "a predicate needs a condition"),
        ("where = [", 'name = "both"\nwhere = [', "a name is for a single condition"),
        ("weight = 2.0", "weight = 0", "a weight above 0"),
        ("where = [", "where = 3 #", "expected a text"),
        ('name   = "girls"', 'name = "not sex = \'F\'"', "both called"),
    ],
)  # fmt: skip
def test_faults_name_their_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in STUDY
    with pytest.raises(StudyError, match=re.escape(message)):
        read_study(written(tmp_path, STUDY.replace(old, new)))


def test_a_study_that_asks_nothing(tmp_path: Path) -> None:
    text = STUDY[: STUDY.index("[[tables]]")] + "[budget]\nzcdp = 0.5\n"
    with pytest.raises(StudyError, match=r"\[\[tables\]\] is missing.*\[\[predicates\]\]"):
        read_study(written(tmp_path, text))
    with pytest.raises(StudyError, match="no predicates are given"):
        read_study(written(tmp_path, "predicates = []\n" + text))


def test_targets_by_the_text_of_a_predicate(tmp_path: Path) -> None:
    text = STUDY.replace("[budget]\nzcdp = 0.5", "[targets]\ngirls = 4.0\n\"not sex = 'F'\" = 9.0")
    plan = read_study(written(tmp_path, text)).plan()
    assert plan.variance("girls")[0] <= 4.0 * (1 + 1e-6)
    assert plan.variance("not sex = 'F'")[0] <= 9.0 * (1 + 1e-6)


def test_conditions_on_the_command_line(tmp_path: Path) -> None:
    schema = nz.Schema({"age": nz.Ordinal(range(10)), "sex": nz.Categorical(["F", "M"])})
    plan = nz.plan(nz.Workload.marginals(schema, k=2), budget=nz.zCDP(0.5), noise="discrete")
    release = plan.release({"age": [1, 2, 3], "sex": ["F", "M", "F"]}, seed=1)
    release.save(tmp_path / "out")
    run = CliRunner().invoke
    where = "age < 3 or sex = 'F'"
    shown = run(main, ["answer", str(tmp_path / "out"), "--where", where, "--json"])
    assert shown.exit_code == 0, shown.output
    (row,) = json.loads(shown.output)["rows"]
    expected = release.answer(nz.Workload.predicates(schema, [where])[0])
    assert row["estimate"] == pytest.approx(expected.estimate[0])
    assert row["std_error"] == pytest.approx(expected.std_error[0])
    for arguments, message in [
        ([], "ask a QUESTION"),
        (["age", "--where", where], "not both"),
        (["--where", "age <"], "a value is missing"),
    ]:
        failed = run(main, ["answer", str(tmp_path / "out"), *arguments])
        assert failed.exit_code != 0
        assert message in failed.output
