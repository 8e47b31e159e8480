"""Errors on the command line name commands and lines of a study, not calls of Python."""

from __future__ import annotations

import ast
import pickle
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import noiseplan as nz
import noiseplan.errors
from noiseplan.cli import main
from noiseplan.queries.predicates import predicate_query
from noiseplan.study import read_study
from noiseplan.words.hints import WORDS, in_command_line

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
PYTHON = re.compile(
    r"\b\w+\.\w+\(|\b(?!ε)[A-Za-z_]+\([^) ]*[=…\[]|\b[a-z_]+=(?:[…'\"(\[, ]|True)|DP\(\w"
    r"|\b(?:Binned|Ordinal|Categorical|Prefix|Ranges|Custom|Query|Workload)\("
)


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
    assert 'Write [people] person = "id" and max_rows = 3 in the study' in released(folder)
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


WRONG = {
    "clip": ("{ from = 0, to = 9 }", "[1, 5], clip = true", "clip = true }; other numbers"),
    "edges": ("ordinal = { from = 0, to = 9 }", "binned = [5, 1]", "try them in order, each once"),
    "one edge": ("ordinal = { from = 0, to = 9 }", "binned = [5]", "needs two, as in [0, 10, 20]"),
    "missing": ('"M"]', '"M"], missing = "M"', 'out of the values: missing = "not stated"'),
    "unwritable": ('"M"]', '"M\\u0000"]', "write it without, as in 'M'"),
    "prefix": ("up_to = 2", 'query = "sex=prefix"', "prefix needs an ordered attribute"),
    "missing value": ("[ledger]", '[data]\nmissing = ["F"]\n[ledger]', "out of [data] missing, or"),
    "marks": ("[ledger]", '[data]\nthousands = "."\n[ledger]', "thousands is one of"),
    "gdp": ("zcdp = 0.4", "gdp = 1e5", "leaves hardly any noise"),
    "tiny": ("zcdp = 0.4", "pure_dp = 1e200", "try [budget] pure_dp = 1.0"),
    "noise": (
        "zcdp = 0.4",
        'zcdp = 0.4\n[plan]\nnoise = "discrete Laplace"',
        "leave out [plan] noise, or",
    ),
}


@pytest.mark.parametrize("fault", WRONG)
def test_what_is_wrong_in_a_study_is_said_in_its_words(folder: Path, fault: str) -> None:
    before, after, words = WRONG[fault]
    assert before in STUDY
    (folder / "this.toml").write_text(STUDY.replace(before, after), encoding="utf-8")
    assert words in said(folder, "plan", folder / "this.toml")


ONE = STUDY[: STUDY.index("[ledger]")].replace("up_to = 2", 'query = "age"')
RECORDED_IN = STUDY[STUDY.index("[ledger]") :]
AFTER = {
    "pure": (ONE, ONE.replace("zcdp", "pure_dp"), "plan with [budget] zcdp ="),
    "after pure": (ONE.replace("zcdp", "pure_dp"), ONE, "release this plan by itself"),
    "neighbours": (ONE, ONE + '[plan]\nneighbours = "replace"', '[plan] neighbours = "add-remove"'),
    "noise": (ONE, ONE + '[plan]\nnoise = "gaussian"', 'plan all with [plan] noise = "discrete"'),
    "dawa": (ONE, ONE + '[plan]\nplanner = "dawa"', "leave out --given"),
    "beside": (ONE + RECORDED_IN, ONE.replace("0.4", "0.5"), "add [ledger] file and dataset"),
    "not charged": (ONE, ONE + RECORDED_IN, "or release the whole plan: leave out --given"),
}


@pytest.mark.parametrize("case", AFTER)
def test_what_cannot_follow_a_release_is_said_in_words_of_the_study(
    folder: Path, case: str
) -> None:
    first, second, words = AFTER[case]
    (folder / "first.toml").write_text(first, encoding="utf-8")
    (folder / "second.toml").write_text(second, encoding="utf-8")
    given = ["release", folder / "first.toml", folder / "people.csv", "-o", folder / "out"]
    assert CliRunner().invoke(main, list(map(str, given))).exit_code == 0
    given[1], given[4] = folder / "second.toml", folder / "more"
    assert words in said(folder, *given, "--given", folder / "out")


def test_questions_and_options_are_refused_in_their_words(folder: Path) -> None:
    data, out = folder / "people.csv", folder / "out"
    made = ["release", folder / "study.toml", data, "-o", out]
    assert CliRunner().invoke(main, list(map(str, made))).exit_code == 0
    asked = ["answer", out, "mean(sex)", "--value"]
    assert "--value has no number for 'M'" in said(folder, *asked, "F=1")
    assert "--value names 'X', no value" in said(
        folder, "answer", out, "mean(age)", "--value", "X=1"
    )
    assert "as in quantile(age, 0.25, 0.75)" in said(folder, "answer", out, "quantile(age, 2)")
    valid = ["valid", out, "-o", folder / "valid", "--total"]
    assert "such as --total 1200" in said(folder, *valid, -1)
    assert "--integers needs" in said(folder, *valid, 10.5, "--integers")
    local = ["local", "plan", folder / "study.toml", "-o", folder / "p", "--device", folder / "d"]
    assert "as in --epsilon 1.0" in said(folder, *local, "--epsilon", 99)
    opened = ["ledger", "open", folder / "a.ledger", "x", "--zcdp", -1]
    assert "must be a positive finite number; got" in said(folder, *opened)


def test_seeds_beside_a_ledger(folder: Path) -> None:
    study, data = folder / "study.toml", folder / "people.csv"
    text = said(folder, "release", study, data, "-o", folder / "none", "--seed", 1)
    assert "leave out --seed to publish, or [ledger] to test" in text


def test_files_of_other_kinds(folder: Path) -> None:
    (folder / "people.xlsx").write_text("no")
    assert "Convert other files" in released(folder, data="people.xlsx")


# Messages with a remedy, each by a call that raises it.


def opened(folder: Path) -> nz.Ledger:
    return nz.Ledger(folder / "a.ledger")


def sizes(**attributes: int) -> nz.Schema:
    return nz.Schema.from_sizes(attributes)


def tables(schema: nz.Schema, up_to: int = 1) -> nz.Workload:
    return nz.Workload.marginals(schema, up_to=up_to)


def ordered(values: int = 8, factor: object = None) -> nz.Workload:
    schema = nz.Schema({"age": nz.Ordinal(range(values))})
    return nz.Workload([nz.Query(schema, {"age": factor or nz.Prefix()})])


def planned(workload: nz.Workload, **how: Any) -> nz.Plan:
    return nz.plan(workload, **({"budget": nz.zCDP(0.5)} | how))


def other_unit(folder: Path) -> None:
    ledger = opened(folder)
    ledger.spend("people", nz.Guarantee(0.1, "zcdp"), max_rows=3)
    ledger.spend("people", nz.Guarantee(0.1, "zcdp"))


def spent(folder: Path, *costs: float) -> None:
    for cost in costs:
        opened(folder).spend("people", nz.Guarantee(cost, "zcdp"))


def gaussian_budget(folder: Path) -> None:
    ledger = opened(folder)
    ledger.open_dataset("gdp", nz.GDP(1.0))
    ledger.spend("gdp", nz.Guarantee(0.1, "zcdp"))


def replaced(folder: Path) -> None:
    opened(folder).open_dataset("swaps", nz.zCDP(1.0), neighbours="replace")
    opened(folder).spend("swaps", nz.Guarantee(0.1, "zcdp"))


def busy(folder: Path) -> None:
    path = folder / "a.ledger"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        nz.Ledger("a.ledger", timeout=0.01).balance("people")
    finally:
        other.close()


def failing_disk(folder: Path) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    with opened(folder)._history._storage._explaining():
        raise error


def counted(folder: Path, attribute: Any, value: str) -> None:
    schema = nz.Schema({"a": attribute})
    planned(tables(schema)).release({"a": [value]}, seed=1)


def study(folder: Path, changes: dict[str, str]) -> None:
    text = STUDY
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    (folder / "this.toml").write_text(text, encoding="utf-8")
    read_study(folder / "this.toml").plan()


def saved(folder: Path) -> None:
    workload = tables(sizes(a=2))
    release = planned(workload).release({"a": [0]}, seed=1)
    release.save(folder / "out", tables=[workload.query(1)] * 20_000)


TEXT_OF = {"sex": nz.Categorical(["F", "M"]), "age": nz.Ordinal([1, 2])}
CASES: dict[str, Callable[[Path], object]] = {
    "unknown dataset": lambda folder: opened(folder).balance("it's (1)"),
    "two units": other_unit,
    "opened twice": lambda folder: opened(folder).open_dataset("people", nz.zCDP(3.0)),
    "a GDP budget": gaussian_budget,
    "too much": lambda folder: spent(folder, 1.2, 0.4),
    "used up": lambda folder: spent(folder, 1.4, 0.4),
    "no reason": lambda folder: opened(folder).change_budget("people", nz.zCDP(3.0), reason=""),
    "no ledger": lambda folder: nz.Ledger("none.ledger").datasets(),
    "busy": busy,
    "failing disk": failing_disk,
    "unknown entry": lambda folder: opened(folder).mark_released(99),
    "no head": lambda folder: opened(folder).verify("x"),
    "other neighbours": replaced,
    "pure budget": lambda folder: opened(folder).open_dataset("pure", nz.PureDP(1.0)),
    "outside": lambda folder: study(folder, {'["F", "M"]': '{ file = "/a.csv", column = "a" }'}),
    "unknown category": lambda folder: counted(folder, nz.Categorical(["x"]), "y"),
    "unknown number": lambda folder: counted(folder, nz.Binned([0, 1]), "y"),
    "unknown value": lambda folder: counted(folder, nz.Ordinal(["x"]), "y"),
    "other declared": lambda folder: nz.Categorical(["F"], other="F"),
    "missing declared": lambda folder: nz.Categorical([None]),
    "other declared in a study": lambda folder: study(
        folder, {'["F", "M"]': '["F", "M"], other = "F"'}
    ),
    "order of a category": lambda folder: predicate_query(nz.Schema(TEXT_OF), "sex < 'M'"),
    "prefix of a category": lambda folder: nz.Query(nz.Schema(TEXT_OF), {"sex": nz.Prefix()}),
    "prefix in a study": lambda folder: study(
        folder, {"up_to = 2": 'query = "sex"\nfactors = { sex = "prefix" }'}
    ),
    "one name for two": lambda folder: nz.Workload(
        [nz.Query(nz.Schema(TEXT_OF), [name], name="x") for name in TEXT_OF]
    ),
    "two of one name": lambda folder: nz.Workload(
        [
            nz.Query(
                nz.Schema(
                    {"a": nz.Ordinal([1, 2]), "a × b": nz.Ordinal([1]), "b": nz.Ordinal([1, 2])}
                ),
                names,
            )
            for names in (["a", "b"], ["a × b"])
        ]
    )["a × b"],
    "too many files": saved,
    "tiny budget": lambda folder: planned(tables(sizes(a=4)), budget=nz.zCDP(1e-290)),
    "a GDP budget by zCDP": lambda folder: nz.GDP(1.0).zcdp_rho(),
    "huge budget of GDP": lambda folder: planned(tables(sizes(a=4)), budget=nz.GDP(1e5)),
    "unknown format": lambda folder: planned(tables(sizes(a=2))).release("a.xlsx"),
    "no example": lambda folder: nz.compare([planned(ordered(), planner="dawa")]),
    "no person": lambda folder: planned(tables(sizes(a=2)), max_rows=2).release({"a": [0]}),
    "seed and ledger": lambda folder: planned(tables(sizes(a=2))).release(
        {"a": [0]}, seed=1, ledger=folder / "a.ledger", dataset="people"
    ),
    "matrix of many cells": lambda folder: planned(
        tables(sizes(a=30, b=30, c=30), 3), budget=nz.PureDP(1.0), planner="matrix"
    ),
    "workload of fractions": lambda folder: planned(
        ordered(2, nz.Custom([[0.5, 1.0]])), budget=nz.PureDP(1.0), planner="workload"
    ),
    "Laplace noise too large": lambda folder: planned(
        tables(sizes(a=4)), budget=nz.PureDP(1e-15), planner="identity"
    ),
    "Laplace noise too large for tables": lambda folder: planned(
        tables(sizes(a=4)), budget=nz.PureDP(1e-17)
    ),
    "too many numbers": lambda folder: planned(
        tables(sizes(a=1000, b=1000, c=1000)), planner="identity"
    ),
    "too many values": lambda folder: planned(ordered(100_000), planner="wavelet"),
    "matrix of a named strategy": lambda folder: planned(
        tables(sizes(a=100, b=100), 2), planner="fourier"
    ),
    "targets of a named strategy": lambda folder: planned(
        tables(sizes(a=4)), targets=2.0, planner="identity"
    ),
    "fitted for a total": lambda folder: planned(tables(sizes(a=4)), planner="refined"),
    "optimal replaced": lambda folder: planned(
        tables(sizes(a=4)), planner="optimal", neighbours="replace", objective=nz.RelativeError()
    ),
    "refined replaced": lambda folder: planned(
        tables(sizes(a=4)), planner="refined", neighbours="replace", objective=nz.WorstVariance()
    ),
    "optimal of many cells": lambda folder: planned(
        tables(sizes(a=100, b=200, c=2), 3), planner="optimal"
    ),
    "worst of many rows": lambda folder: planned(
        ordered(3000, nz.Ranges()), planner="optimal", objective=nz.WorstVariance()
    ),
    "refined of many rows": lambda folder: planned(
        ordered(400, nz.Ranges()), planner="refined", objective=nz.WorstVariance()
    ),
    "product of the worst": lambda folder: planned(
        tables(sizes(a=4)), planner="product", objective=nz.WorstVariance()
    ),
    "product of a matrix": lambda folder: planned(
        nz.Workload([nz.Query(sizes(a=2, b=2), ["a", "b"], matrix=[[1, 0, 0, 1]])]),
        planner="product",
    ),
    "Laplace without pure DP": lambda folder: planned(tables(sizes(a=4)), noise="laplace"),
    "dawa for targets": lambda folder: planned(ordered(), targets=2.0, planner="dawa"),
    "dawa within GDP": lambda folder: planned(ordered(), budget=nz.GDP(1.0), planner="dawa"),
    "dawa for the worst": lambda folder: planned(
        ordered(), planner="dawa", objective=nz.WorstVariance()
    ),
    "dawa of three": lambda folder: planned(tables(sizes(a=2, b=2, c=2)), planner="dawa"),
    "dawa of a category": lambda folder: planned(
        nz.Workload([nz.Query(nz.Schema(TEXT_OF), ["sex"])]), planner="dawa"
    ),
    "dawa of many cells": lambda folder: planned(
        ordered(10_000_000, nz.Identity()), planner="dawa"
    ),
    "a number too small": lambda folder: planned(ordered(), planner="hierarchical-1"),
    "a percentage too large": lambda folder: planned(ordered(), planner="eigen-principal-200"),
    "a Laplace planner": lambda folder: planned(ordered(), planner="tree"),
    "a Laplace planner in a study": lambda folder: study(
        folder, {"[ledger]": '[plan]\nplanner = "tree"\n[ledger]'}
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_remedy_in_python_and_here(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the command line says names no call of Python where it has words of its own."""
    monkeypatch.chdir(folder)
    with pytest.raises(nz.NoiseplanError) as caught:
        CASES[name](folder)
    python, here = str(caught.value), in_command_line(caught.value)
    assert python and here
    if python != here:
        assert not re.search(r"\b(plan|release|ledger\.\w+|change_budget)\(", here), here


def test_remedies_survive_a_worker_process(folder: Path) -> None:
    for name in ("too much", "unknown value", "unknown dataset"):
        with pytest.raises(nz.NoiseplanError) as caught:
            CASES[name](folder)
        again = pickle.loads(pickle.dumps(caught.value))
        said = [(str(error), in_command_line(error)) for error in (again, caught.value)]
        assert said[0] == said[1]


def test_every_kind_of_remedy_has_its_words_here() -> None:
    kinds = {
        node.args[0].value
        for file in Path(noiseplan.errors.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "remedy"
        and isinstance(node.args[0], ast.Constant)
    }
    assert kinds == set(WORDS)


def test_messages_without_remedies_are_said_as_they_are() -> None:
    assert in_command_line(nz.NoiseplanError("planner='auto'")) == "planner='auto'"
    assert in_command_line(OSError(2, "No such file")) == "[Errno 2] No such file"
