"""Broken study files: each message names the file, the line, what was found and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from noiseplan.study import StudyError, read_study
from noiseplan.words.hints import in_command_line

# Correct in every line; each case below breaks one thing in it.
GOOD = """\
title = "A small study"

[schema]
age    = { ordinal = { from = 0, to = 99 } }
sex    = { categorical = ["F", "M"], other = "not stated" }
level  = { ordinal = ["low", "middle", "high"] }
income = { binned = [0, 10, 20], clip = true }
county = { categorical = { file = "counties.csv", column = "code" } }

[[tables]]
up_to = 2

[[tables]]
name   = "ages by sex"
query  = "age=prefix, sex"
weight = 4.0

[[tables]]
query   = ["age", "county"]
factors = { age = { levels = [10] }, county = { levels = [{ file = "counties.csv", value = "code", group = "state" }] } }

[[tables]]
query   = "level, income"
factors = { level = { custom = [[1, 0, 0], [0, 1, 1]], labels = ["low", "not low"] } }

[budget]
zcdp = 0.5

[plan]
objective  = "total"
planner    = "auto"
neighbours = "add-remove"
noise      = "discrete"
weighting  = "tables"

[people]
person   = "id"
max_rows = 1

[ledger]
file    = "office.ledger"
dataset = "the people"
purpose = "a test"

[output]
folder = "out"
tables = ["ages by sex"]
"""  # noqa: E501

TARGETS = '[targets]\n"ages by sex" = 25.0\n'
PLAN = GOOD[GOOD.index("[plan]") : GOOD.index("[people]")]


class Broken(NamedTuple):
    """A text of the good study, what stands there instead, the line, and words of the message."""

    what: str
    old: str
    new: str
    line: int
    words: tuple[str, ...]


BROKEN = [
    # ------------------------------------------------------------------ TOML itself
    Broken("no quotes", '"discrete"', "discrete", 33, ("not TOML", "noise", "in quotes")),
    Broken("a key twice", "zcdp = 0.5", "zcdp = 0.5\nzcdp = 1.0", 28, ("not TOML", "already")),
    Broken("a list not closed", '["F", "M"]', '["F", "M"', 5, ("not TOML", "sex")),
    Broken("no equals sign", "up_to = 2", "up_to 2", 11, ("not TOML", "key = value")),
    Broken("a table twice", "[people]", "[budget]", 36, ("not TOML", "further up")),
    # ------------------------------------------------------------------ sections
    Broken("a misspelt section", "[budget]", "[buget]", 26,
           ("unknown key 'buget'", "Did you mean 'budget'?", "schema, tables, predicates, budget")),
    Broken("tables not as a list", "[[tables]]\nup_to = 2", "[tables]\nup_to = 2", 13,
           ("not TOML", "tables")),
    # ------------------------------------------------------------------ schema
    Broken("a misspelt kind", "{ ordinal = { from", "{ ordnal = { from", 4,
           ("schema.age", "'ordnal'", "Did you mean 'ordinal'?", "categorical")),
    Broken("two kinds", '"M"], other', '"M"], ordinal = [1], other', 5,
           ("schema.sex", "categorical and ordinal exclude each other")),
    Broken("no kind", "{ binned = [0, 10, 20], clip = true }", "{ clip = true }", 7,
           ("schema.income", "one of categorical, ordinal, binned")),
    Broken("a bare list", "{ binned = [0, 10, 20], clip = true }", "[0, 10, 20]", 7,
           ("schema.income", "expected a table", "a list of 3")),
    Broken("no values", '["low", "middle", "high"]', "[]", 6,
           ("schema.level.ordinal", "no values are declared", "code book")),
    Broken("a value twice", '"middle", "high"', '"middle", "low"', 6,
           ("'low' is declared twice", "number 1")),
    Broken("a value twice, lines apart", '"middle", "high"]', '"middle",\n  "low"]', 7,
           ("'low' is declared twice",)),
    Broken("other is a value too", 'other = "not stated"', 'other = "F"', 5,
           ("other='F' is also declared",)),
    Broken("other on an ordinal", "to = 99 } }", 'to = 99 }, other = "?" }', 4,
           ("schema.age.other", "does not go with ordinal", "categorical")),
    Broken("ends the wrong way round", "from = 0, to = 99", "from = 99, to = 0", 4,
           ("to = 0 is below from = 99",)),
    Broken("an end that is no whole number", "to = 99", "to = 99.5", 4,
           ("a whole number", "the number 99.5", "binned")),
    Broken("an end missing", "from = 0, to = 99", "from = 0", 4, ("to is missing",)),
    Broken("edges that fall", "[0, 10, 20]", "[0, 20, 10]", 7,
           ("schema.income.binned", "increase", "20 is followed by 10")),
    Broken("an edge that is text", "[0, 10, 20]", '[0, "10", 20]', 7,
           ("a number, the edge of a bin", "the text '10'")),
    Broken("steps that do not fit", "[0, 10, 20]", "{ from = 0, to = 20, step = 7 }", 7,
           ("steps of 7", "do not reach 20", "14")),
    Broken("missing is a value too", "clip = true", 'missing = "[0, 10)"', 7,
           ("schema.income.missing", "missing='[0, 10)' is also declared")),
    Broken("missing as a number", "clip = true", "missing = -1", 7,
           ("schema.income.missing", "a text", "the number -1")),
    Broken("clip as text", "clip = true", 'clip = "yes"', 7, ("true or false", "'yes'")),
    # ------------------------------------------------------------------ code lists
    Broken("a file that is not there", '{ file = "counties.csv", column',
           '{ file = "county.csv", column', 8, ("schema.county", "'county.csv'", "No such file")),
    Broken("a column that is not there", 'column = "code"', 'column = "cod"', 8,
           ("no column 'cod'", "Did you mean 'code'?", "'code', 'state'")),
    Broken("a misspelt key of a code list", 'column = "code"', 'colum = "code"', 8,
           ("unknown key 'colum'", "Did you mean 'column'?")),
    Broken("no column", ', column = "code"', "", 8, ("needs column", "file =")),
    # ------------------------------------------------------------------ tables
    Broken("a misspelt key", "weight = 4.0", "wieght = 4.0", 16,
           ("tables 2", "'wieght'", "Did you mean 'weight'?", "k, up_to, query")),
    Broken("neither k nor query", "up_to = 2", "weight = 2", 10,
           ("tables 1", "give one of k, up_to, query")),
    Broken("k and up_to", "up_to = 2", "up_to = 2\nk = 1", 11,
           ("k and up_to exclude each other",)),
    Broken("more attributes than there are", "up_to = 2", "up_to = 9", 11,
           ("tables of 9 attributes", "the schema has 5")),
    Broken("a number as text", "up_to = 2", 'up_to = "2"', 11, ("the text '2'",)),
    Broken("a name on many", "up_to = 2", 'up_to = 2\nname = "all"', 12,
           ("name is for a single table",)),
    Broken("an attribute misspelt in a query", '"age=prefix, sex"', '"agge=prefix, sex"', 15,
           ("no attribute 'agge'", "Did you mean 'age'?")),
    Broken("an attribute misspelt in a list", '["age", "county"]', '["age", "conty"]', 19,
           ("tables 3", "no attribute 'conty'", "Did you mean 'county'?")),
    Broken("a word misspelt in a query", "age=prefix", "age=prefx", 15,
           ("'prefx' is neither a value", "Did you mean 'prefix'?")),
    Broken("prefix without order", '"age=prefix, sex"', '"age, sex=prefix"', 15,
           ("Prefix() needs an ordered attribute", "'sex'")),
    Broken("an attribute misspelt in factors", "{ age = { levels", "{ aeg = { levels", 20,
           ("no attribute 'aeg'", "Did you mean 'age'?")),
    Broken("a factor for what is not asked", '["age", "county"]', '["county"]', 20,
           ("the query does not name 'age'",)),
    Broken("a level of nothing", "levels = [10]", "levels = [0]", 20, ("at least 1", "found 0")),
    Broken("a misspelt factor", "age = { levels = [10]", "age = { level = [10]", 20,
           ("unknown key 'level'", "Did you mean 'levels'?")),
    Broken("a matrix of another width", "[[1, 0, 0], [0, 1, 1]]", "[[1, 0], [0, 1]]", 24,
           ("2 columns", "'level' has 3 values")),
    Broken("rows of different lengths", "[0, 1, 1]]", "[0, 1]]", 24, ("2 numbers, and 3",)),
    Broken("a label too many", '"low", "not low"]', '"a", "b", "c"]', 24, ("labels", "2")),
    Broken("a weight of nothing", "weight = 4.0", "weight = 0", 16, ("above 0", "found 0")),
    Broken("two tables of one name", 'query   = "level, income"\n',
           'query   = "level, income"\nname = "ages by sex"\n', 22,
           ("both called 'ages by sex'",)),
    # ------------------------------------------------------------------ budget, targets, plan
    Broken("no budget", "[budget]\nzcdp = 0.5\n", "", 0,
           ("how much privacy to spend", "[budget]", "[targets]")),
    Broken("an empty budget", "zcdp = 0.5", "", 26, ("one of zcdp, gdp, approx_dp, pure_dp",)),
    Broken("a misspelt currency", "zcdp = 0.5", "zcpd = 0.5", 27,
           ("unknown key 'zcpd'", "zcdp, gdp, approx_dp")),
    Broken("a parameter", "zcdp = 0.5", "rho = 0.5", 27, ("write zcdp = 0.5",)),
    Broken("two budgets", "zcdp = 0.5", "zcdp = 0.5\ngdp = 1", 28, ("zcdp and gdp exclude",)),
    Broken("a negative budget", "zcdp = 0.5", "zcdp = -0.5", 27, ("above 0", "-0.5")),
    Broken("a budget as text", "zcdp = 0.5", 'zcdp = "0.5"', 27, ("the text '0.5'",)),
    Broken("no delta", "zcdp = 0.5", "approx_dp = { epsilon = 1 }", 27, ("delta is missing",)),
    Broken("a delta of one", "zcdp = 0.5", "approx_dp = { epsilon = 1, delta = 1 }", 27,
           ("a probability", "1e-9")),
    Broken("a target for no table", PLAN, TARGETS.replace("ages by sex", "age by sex"), 30,
           ("no query is called 'age by sex'", "Did you mean 'ages by sex'?")),
    Broken("a negative target", PLAN, TARGETS.replace("25.0", "-1"), 30, ("a variance", "-1")),
    Broken("targets and an objective", "[people]", TARGETS + "[people]", 30,
           ("plan.objective", "one or the other")),
    Broken("a budget and a bound", '"total"', '"total"\nat_most = 5', 31,
           ("plan.at_most", "leave out [budget]")),
    Broken("a bound of nothing", '"total"', '"total"\nat_most = 0', 31, ("at most", "found 0")),
    Broken("a misspelt objective", '"total"', '"totl"', 30,
           ("plan.objective", "'totl'", "Did you mean 'total'?", "'worst'")),
    Broken("a norm below one", '"total"', "{ p = 0.5 }", 30, ("1 ≤ p", "0.5")),
    Broken("a misspelt planner", '"auto"', '"autp"', 31, ("Did you mean 'auto'?", "'residual'")),
    Broken("unknown neighbours", '"add-remove"', '"add"', 32, ("'add-remove', 'replace'",)),
    Broken("unknown noise", '"discrete"', '"discreet"', 33,
           ("'gaussian'", "Did you mean 'discrete'?")),
    Broken("unknown weighting", '"tables"', '"table"', 34, ("Did you mean 'tables'?",)),
    Broken("simulated noise in a ledger", '"discrete"', '"gaussian"', 40,
           ("ledger", "for simulation", "discrete")),
    # ------------------------------------------------------------------ people, ledger, output
    Broken("no person", 'person   = "id"\n', "", 36, ("person is missing", "whose record")),
    Broken("no rows per person", "max_rows = 1", "max_rows = 0", 38, ("at least 1", "found 0")),
    Broken("no dataset", 'dataset = "the people"\n', "", 40, ("dataset is missing", "[ledger]")),
    Broken("an empty purpose", '"a test"', '""', 43, ("the text is empty",)),
    Broken("a folder that is a number", '"out"', "7", 46, ("a text", "the number 7")),
    Broken("a table that is not asked for", '["ages by sex"]', '["ages by sexes"]', 47,
           ("no query is called", "Did you mean 'ages by sex'?")),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "counties.csv").write_text("code,state\n01,A\n02,A\n03,B\n", encoding="utf-8")
    return tmp_path


def refused(folder: Path, text: str) -> str:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(StudyError) as caught:
        read_study(path)
    return str(caught.value)


def test_the_study_that_is_broken_below_is_good(folder: Path) -> None:
    (folder / "study.toml").write_text(GOOD, encoding="utf-8")
    study = read_study(folder / "study.toml")
    (folder / "fewer.toml").write_text(GOOD.replace("to = 99", "to = 19"), encoding="utf-8")
    assert read_study(folder / "fewer.toml").plan().privacy.rho <= 0.5  # in a tenth of the time
    assert study.folder == folder / "out"
    assert study.ledger is not None
    assert study.ledger.path == folder / "office.ledger"


def test_there_are_enough_of_them() -> None:
    assert len({case.what for case in BROKEN}) == len(BROKEN) >= 40


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.what)
def test_broken_studies_are_explained(case: Broken, folder: Path) -> None:
    assert GOOD.count(case.old) >= 1
    message = refused(folder, GOOD.replace(case.old, case.new, 1))
    start = f"study.toml:{case.line}: " if case.line else "study.toml: "
    assert message.startswith(start), message
    for word in case.words:
        assert word in message
    assert "\n" not in message
    assert len(message) < 600


# ---------------------------------------------------------------------- found while planning


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("zcdp = 0.5", "gdp = 1e5", 26, ("hardly any noise", "smaller budget")),
        (
            'tables = ["ages by sex"]',
            'tables = ["age, sex, level, county"]',
            47,
            ("measured together",),
        ),
        ('planner    = "auto"', 'planner    = "fourier"', 29, ("planner",)),
    ],
)
def test_what_planning_refuses_has_a_line_too(
    folder: Path, old: str, new: str, line: int, words: tuple[str, ...]
) -> None:
    (folder / "study.toml").write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    study = read_study(folder / "study.toml")
    with pytest.raises(StudyError) as caught:
        study.plan()
    assert str(caught.value).startswith(f"study.toml:{line}: "), caught.value
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("tables", "budget", "line", "words"),
    [
        ('"amount=prefix, minute=prefix"', "zcdp = 0.1", 2,
         ("schema.amount: 'amount' has 20,000 and 'minute' has 40,000 values",
          "Plan one of them by itself", "of 'minute', merge values: 200 bins of 200 each, say, ",
          "which are planned in seconds",
          "{ binned = [...] }")),
        ('"amount=prefix"', "pure_dp = 1.0", 2,
         ("when the budget is one of pure DP", "merge values: 200 bins of 100 each",
          "choose a budget of zCDP or (ε, δ), as in [budget] zcdp = 0.1, with records added or ")),
        ('"minute=prefix"', "zcdp = 1.0\n[plan]\nneighbours = 'replace'", 3,
         ("schema.minute: ", "records are replaced", "200 bins of 200",
          'choose [plan] neighbours = "add-remove"')),
    ],
)  # fmt: skip
def test_attributes_that_are_too_long_have_their_own_line(
    tmp_path: Path, tables: str, budget: str, line: int, words: tuple[str, ...]
) -> None:
    text = (
        "[schema]\n"
        "amount = { ordinal = { from = 1, to = 20_000 } }\n"
        "minute = { ordinal = { from = 1, to = 40_000 } }\n"
        f"[[tables]]\nquery = {tables}\n[budget]\n{budget}\n"
    )
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    with pytest.raises(StudyError) as caught:
        read_study(tmp_path / "study.toml").plan()
    assert str(caught.value).startswith(f"study.toml:{line}: "), caught.value
    for word in words:
        assert word in in_command_line(caught.value)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------------- files


def test_files_that_are_no_studies(tmp_path: Path) -> None:
    for path, words in (
        (tmp_path / "none.toml", "is not there"),
        (tmp_path, "is a folder"),
    ):
        with pytest.raises(StudyError, match=words):
            read_study(path)
    (tmp_path / "latin.toml").write_bytes('title = "größe"'.encode("latin-1"))
    with pytest.raises(StudyError, match="not UTF-8"):
        read_study(tmp_path / "latin.toml")
    (tmp_path / "deep.toml").write_text("a = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(StudyError, match="nested too deeply"):
        read_study(tmp_path / "deep.toml")
    (tmp_path / "empty.toml").write_text("")
    with pytest.raises(StudyError, match=r"section \[schema\] is missing"):
        read_study(tmp_path / "empty.toml")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "has no column 'code'"),
        ("code,state\n", "no rows"),
        ("code,state\n01,A\n,B\n", "line 3: the cell is empty"),
        ("code,state\n01,A\n01,B\n", "line 3: '01' is in group 'B', and further up in 'A'"),
        ("code,state\n01,A\n02\n", "line 3: the cell is empty"),
    ],
)
def test_broken_code_lists(folder: Path, content: str, words: str) -> None:
    (folder / "counties.csv").write_text(content, encoding="utf-8")
    assert words in refused(folder, GOOD)


def test_line_ends_and_marks_of_windows(folder: Path) -> None:
    (folder / "study.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert read_study(folder / "study.toml").title == "A small study"
    broken = GOOD.replace("up_to = 2", "upto = 2").replace("\n", "\r\n")
    (folder / "study.toml").write_bytes(broken.encode())
    with pytest.raises(StudyError, match=r"study\.toml:11: .*Did you mean 'up_to'"):
        read_study(folder / "study.toml")
