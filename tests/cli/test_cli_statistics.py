"""`noiseplan answer` with statistics, and `release.ask`: one language, the same numbers."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.statistics.statistic import Statistic

SCHEMA = nz.Schema(
    {
        "age": nz.Ordinal(range(20, 30)),
        "sex": nz.Categorical(["F", "M"]),
        "income": nz.Binned([0, 10, 20, np.inf]),
        "mean(x)": nz.Categorical(["a", "b"]),
    }
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    counts = np.random.default_rng(5).integers(0, 30, SCHEMA.shape)
    named = nz.Query(SCHEMA, {"age": nz.Prefix()}, name="share(sex)")
    workload = nz.Workload.marginals(SCHEMA, up_to=2) + named
    path = tmp_path_factory.mktemp("cli") / "out"
    nz.plan(workload, budget=nz.zCDP(0.5)).release(counts, seed=2).save(path)
    return path


@pytest.fixture(scope="module")
def release(folder: Path) -> nz.Release:
    return nz.load(folder)


def said(folder: Path, *arguments: str) -> str:
    result = CliRunner().invoke(main, ["answer", str(folder), *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def same(one: Statistic, other: Statistic) -> None:
    assert one.columns().keys() == other.columns().keys()
    for name, values in one.columns().items():
        assert list(map(str, values)) == list(map(str, other.columns()[name]))


def test_statistics_are_asked_in_words(release: nz.Release) -> None:
    same(release.ask("median(income), sex"), release.median("income", by="sex"))
    same(release.ask("sex × mean(age)"), release.mean("age", by=["sex"]))
    same(
        release.ask("quantile(age, 0.1, 0.9), sex=F"),
        release.quantile("age", [0.1, 0.9], by={"sex": "F"}),
    )
    same(release.ask("share(age=..24 | 25..), sex"), release.share("age=..24 | 25..", by="sex"))
    same(release.ask("share(sex, age)"), release.share(["sex", "age"]))
    same(
        release.ask("ratio(sex=F, sex=M), age", level=0.8, simultaneous=True),
        release.ratio("sex=F", "sex=M", by="age", level=0.8, simultaneous=True),
    )


def test_counts_are_asked_in_words(release: nz.Release) -> None:
    query = nz.Query(SCHEMA, {"sex": nz.Identity(), "age": nz.Custom([[1] * 5 + [0] * 5])})
    np.testing.assert_allclose(
        release.ask("sex, age=..24").estimate, release.answer(query).estimate
    )
    # Names go first: of the workload, and of attributes.
    np.testing.assert_array_equal(
        release.ask("share(sex)").estimate, release.answer("share(sex)").estimate
    )
    assert release.ask("mean(x)").estimate.shape == (2,)
    assert release.ask("total", level=0.5).level == 0.5


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("avg(age)", "'avg' is no statistic: there are mean"),
        ("medain(age)", "Did you mean 'median'"),
        ("prefix(age)", "write age=prefix"),
        ("mean(age), median(age)", "one statistic is asked at a time"),
        ("quantile(age)", "is not asked so: write quantile"),
        ("quantile(0.5, age)", "'age' is no number"),
        ("mean(age, sex)", "is not asked so: write mean"),
        ("median()", "no attribute ''"),
        ("share()", "is not asked so: write share"),
        ("age < 25", r"is a condition, .*Workload\.predicates\(schema, \['age < 25'\]\)\[0\]"),
        (7, "a question is a line of text"),
    ],
)
def test_questions_nobody_can_answer(release: nz.Release, question: str, message: str) -> None:
    with pytest.raises(nz.NoiseplanError, match=message):
        release.ask(question)


def test_the_command_prints_what_python_has(folder: Path, release: nz.Release) -> None:
    found = release.ask("mean(age), sex")
    assert said(folder, "mean(age), sex") == f"mean(age) by sex\n{found}\n"
    printed = json.loads(said(folder, "median(income), sex", "--json", "--level", "0.9"))
    assert printed["query"] == "median(income) by sex"
    assert (
        printed["covers"] == "noise and any place inside bins" and "Woodruff" in printed["method"]
    )
    assert printed["level"] == 0.9
    expected = release.median("income", by="sex", level=0.9)
    assert [row["lower"] for row in printed["rows"]] == list(expected.lower)
    rows = list(csv.DictReader(io.StringIO(said(folder, "share(sex), age", "--csv"))))
    np.testing.assert_allclose(
        [float(row["estimate"]) for row in rows], release.share("sex", by="age").estimate
    )


def test_what_is_not_known_is_left_empty(folder: Path) -> None:
    """NaN and infinity are no JSON: a quantile in the open end bin has no number, and no end."""
    (row,) = json.loads(said(folder, "quantile(income, 0.999)", "--json"))["rows"]
    assert row == {"quantile": 0.999, "lower": 20.0, "upper": None, "interpolated": None}
    written = said(folder, "quantile(income, 0.999)", "--csv").splitlines()
    assert written == ["quantile,lower,upper,interpolated", "0.999,20.0,,"]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("median(income), sex, age", '[[tables]] query = "age, sex, income" in the study'),
        ("age < 25", '--where "age < 25"'),
    ],
)
def test_refusals_name_commands(folder: Path, question: str, message: str) -> None:
    result = CliRunner().invoke(main, ["answer", str(folder), question])
    assert result.exit_code == 1
    assert message in result.stderr


def test_values_without_a_number_of_their_own_are_given_one(folder: Path, tmp_path: Path) -> None:
    """As in Python: the last of clipped numbers, an open bin, labels."""
    schema = nz.Schema({"age": nz.Ordinal(range(4), clip=True), "sex": nz.Categorical(["F", "M"])})
    plan = nz.plan(nz.Workload.marginals(schema, k=2), budget=nz.zCDP(1000.0))
    people = {"age": [0, 1, 3, 8, 9, 2], "sex": [*"FFFMMM"]}
    plan.release(people, seed=3).save(tmp_path / "out")
    release = nz.load(tmp_path / "out")
    for question, values in (
        ("mean(age), sex", {"3+": 7.5}),
        ("mean(age)", {"3": 7.5, "0": 0.25}),
        ("mean(sex)", {"F": 1.0, "M": 0.0}),
    ):
        given = [text for pair in values.items() for text in ("--value", "{}={}".format(*pair))]
        rows = json.loads(said(tmp_path / "out", question, *given, "--json"))["rows"]
        expected = release.ask(question, values=values).estimate
        assert [row["estimate"] for row in rows] == list(expected)
    truth = (0.25 + 1 + 7.5 * 3 + 2) / 6
    assert release.ask("mean(age)", values={"3": 7.5, "0": 0.25}).estimate == pytest.approx(
        [truth], abs=0.3
    )
    last = "[20, inf]=35"
    (row,) = json.loads(said(folder, "mean(income)", "--value", last, "--json"))["rows"]
    found = nz.load(folder).mean("income", values={"[20, inf]": 35})
    assert [row["lower"], row["upper"]] == [found.lower[0], found.upper[0]]
    least, most = (
        nz.load(folder).mean("income", values=[*ends, 35]) for ends in ((0, 10), (10, 20))
    )
    assert found.lower[0] == pytest.approx(least.lower[0], abs=0.11)
    assert found.upper[0] == pytest.approx(most.upper[0], abs=0.11)
    assert "interpolated: an extra" in said(folder, "mean(income)", "--value", last)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mean(income)"], 'give the mean in each: --value "[20, inf]=NUMBER"'),
        (["mean(sex)"], '--value "F=NUMBER"'),
        (["mean(income)", "--value", "20=35"], "names '20', no value of 'income'"),
        (["mean(income)", "--value", "[0, 10)=5"], "has no number for '[20, inf]'"),
        (["mean(age)", "--value", "20=3", "--value", "20=4"], "two numbers to one value"),
        (["mean(age)", "--value", "40=35"], "names '40', no value of 'age'"),
        (["mean(age)", "--value", "20"], "--value is LABEL=NUMBER, as in 99+=104; found '20'"),
        (["mean(age)", "--value", "20=old"], "found '20=old'"),
        (["mean(age)", "--value", "20=nan"], "finite numbers"),
        (["median(age)", "--value", "20=3"], "these are of means"),
        (["age", "--value", "20=3"], "these are of means"),
        (["--where", "age < 22", "--value", "20=3"], "and not for a condition"),
    ],
)
def test_numbers_for_values_that_do_not_fit(
    folder: Path, arguments: list[str], message: str
) -> None:
    result = CliRunner().invoke(main, ["answer", str(folder), *arguments])
    assert result.exit_code in (1, 2)
    assert message in " ".join(result.stderr.split())
