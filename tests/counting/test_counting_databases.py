"""Data in databases, after earlier releases, and every table listed, on the command line."""

from __future__ import annotations

import json
import sqlite3
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.counting import open_source
from noiseplan.errors import DataError

pytestmark = [pytest.mark.filterwarnings("ignore:The 'future.infer_string'")]  # of Ibis on SQLite

STUDY = """\
[schema]
age = { ordinal = { from = 0, to = 9 }, missing = "not stated" }
sex = { categorical = ["F", "M"] }
[[tables]]
up_to = 2
[budget]
zcdp = 1e8
"""
SECRET = "hunter2"


def records() -> list[tuple[int | None, str]]:
    rng = np.random.default_rng(5)
    ages = [None if age > 9 else int(age) for age in rng.integers(0, 12, 300)]
    return list(zip(ages, rng.choice(["F", "M"], 300).tolist(), strict=True))


PEOPLE = records()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    with duckdb.connect(str(tmp_path / "people.duckdb")) as store:
        store.execute('CREATE SCHEMA office; CREATE TABLE office."the people" (age INT, sex TEXT)')
        store.executemany('INSERT INTO office."the people" VALUES (?, ?)', PEOPLE)
        store.execute('CREATE VIEW people AS FROM office."the people"')
    connection = sqlite3.connect(tmp_path / "people.db")
    with connection:
        connection.execute("CREATE TABLE people (age INTEGER, sex TEXT)")
        connection.executemany("INSERT INTO people VALUES (?, ?)", PEOPLE)
    connection.close()
    return tmp_path


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == code, result.output
    assert SECRET not in result.output
    return result.stderr if code else result.stdout


def counts(out: Path) -> list[int]:
    release = nz.load(out)
    answer = release.answer(nz.Query(release.plan.workload.schema, ["age", "sex"]))
    return answer.estimate.round().astype(int).tolist()  # type: ignore[no-any-return]


def expected(kept: list[tuple[int | None, str]]) -> list[int]:
    return [kept.count((age, sex)) for age in (*range(10), None) for sex in ("F", "M")]


@pytest.mark.parametrize(
    ("file", "how", "kept"),
    [
        ("people.duckdb", ("--table", "people"), PEOPLE),
        ("people.duckdb", ("--table", "office.the people"), PEOPLE),
        ("people.duckdb", ("--query", "SELECT * FROM people WHERE sex = 'F'"), "F"),
        ("people.db", ("--table", "people"), PEOPLE),
        ("people.db", ("--query", "SELECT age, sex FROM people WHERE sex = 'F'"), "F"),
    ],
)
def test_tables_and_queries_of_database_files(
    folder: Path, ibis: Any, file: str, how: tuple[str, str], kept: Any
) -> None:
    if kept == "F":
        kept = [record for record in PEOPLE if record[1] == "F"]
    run("release", folder / "study.toml", folder / file, *how, "-o", folder / "out")
    assert counts(folder / "out") == expected(kept)


def test_other_databases_by_the_name_of_a_variable(
    folder: Path, ibis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFICE", f"sqlite://{folder / 'people.db'}")
    run("release", folder / "study.toml", "env:OFFICE", "--table", "people", "-o", folder / "out")
    assert counts(folder / "out") == expected(PEOPLE)
    written = b"".join(path.read_bytes() for path in (folder / "out").rglob("*") if path.is_file())
    assert b"people.db" not in written and b"OFFICE" not in written


def test_a_password_is_never_shown(
    folder: Path, ibis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = folder / "a.ledger"
    nz.Ledger(ledger, create=True).open_dataset("people", nz.zCDP(1e9))
    recorded = '[ledger]\nfile = "a.ledger"\ndataset = "people"\n'
    (folder / "study.toml").write_text(STUDY + recorded, encoding="utf-8")
    address = f"postgres://me:{SECRET}@127.0.0.1:1/none"
    monkeypatch.setenv("OFFICE", address)
    release = ("release", folder / "study.toml")
    out = ("-o", folder / "out")
    said = run(*release, "env:OFFICE", "--table", "people", *out, code=1)
    assert "cannot connect to the database of OFFICE" in said
    said = run(*release, address, "--table", "people", *out, code=1)
    assert "put it into an environment variable" in said
    said = run(*release, address, *out, code=1)
    assert "'postgres://…' is an address" in said and "env:VARIABLE --table NAME" in said
    monkeypatch.setenv("OFFICE", "")
    said = run(*release, "env:OFFICE", "--table", "people", *out, code=1)
    assert "OFFICE is not set" in said
    assert SECRET.encode() not in ledger.read_bytes()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (
            ("people.duckdb", "--table", "peple"),
            "does not know the table 'peple' (CatalogException). Did you mean 'people'?",
        ),
        (("people.duckdb", "--query", "SELECT * FROM 'study.toml'"), "cannot run that query"),
        (("people.duckdb", "--table", "people", "--query", "SELECT 1"), "one of --table"),
        (
            ("people.db", "--table", "peple"),
            "does not know the table 'peple' (TableNotFound). Did you mean 'people'?",
        ),
        (("study.toml", "--table", "people"), "is no DuckDB or SQLite database"),
        (("none.duckdb", "--table", "people"), "cannot read"),
        (("env:no-name", "--table", "people"), "name of an environment variable"),
    ],
)
def test_what_is_no_table_is_refused(
    folder: Path, ibis: Any, how: tuple[str, ...], words: str
) -> None:
    data = how[0] if how[0].startswith("env:") else folder / how[0]
    said = run("release", folder / "study.toml", data, *how[1:], "-o", folder / "out", code=1)
    assert words in said
    assert not (folder / "out").exists()


@pytest.mark.parametrize("file", ["people.duckdb", "people.db"])
@pytest.mark.parametrize(
    "query",
    [
        "PIVOT people ON sex USING count(*)",
        "PIVOT people ON sex IN ('F') USING count(*)",
        "SELECT * FROM (PIVOT people ON sex USING count(*))",
        "WITH p AS (PIVOT people ON sex USING count(*)) SELECT * FROM p",
        "SUMMARIZE people",
        "DROP TABLE people",
        "SELECT * FROM people; SELECT * FROM people",
        "SELECT * FROM people) AS asked, (SELECT 1",
        "SELEC * FROM people",
        "",
    ],
)
def test_a_query_is_one_select(folder: Path, ibis: Any, file: str, query: str) -> None:
    options = (folder / "study.toml", folder / file, "--query", query)
    said = run("release", *options, "-o", folder / "out", code=1)
    assert "--query takes one SELECT that names its columns" in said
    assert "no record was read" in CliRunner().invoke(main, ["check", *map(str, options)]).stdout


NAMES = ("Alice Secret", "Bob Hidden")
# Faults that an engine finds in the values of a query, and columns that are values.
PIVOT = "SELECT * FROM (PIVOT (SELECT error(name) AS n FROM named) ON n USING count(*))"
COLUMNS = 'SELECT age AS "Alice Secret", sex AS "Bob Hidden" FROM people'
TELLING = {
    "pivot": ("people.duckdb", PIVOT),
    "fault": ("people.duckdb", "SELECT CAST(name AS INT) AS age, 'F' AS sex FROM named"),
    "columns": ("people.duckdb", COLUMNS),
    "columns of SQLite": ("people.db", COLUMNS),
}


def recorded(folder: Path, budget: float) -> nz.Ledger:
    """A study on a ledger with this budget, and a table whose values must not be shown."""
    with duckdb.connect(str(folder / "people.duckdb")) as store:
        store.execute("CREATE TABLE named AS SELECT unnest(?) AS name", [list(NAMES)])
    ledger = nz.Ledger(folder / "a.ledger", create=True)
    ledger.open_dataset("people", nz.zCDP(budget))
    study = STUDY.replace("1e8", "0.1") + '[ledger]\nfile = "a.ledger"\ndataset = "people"\n'
    (folder / "study.toml").write_text(study, encoding="utf-8")
    return ledger


@pytest.mark.parametrize("kind", TELLING)
@pytest.mark.parametrize("command", ["check", "release"])
def test_a_query_is_opened_after_the_ledger_was_asked(
    folder: Path, ibis: Any, kind: str, command: str
) -> None:
    ledger = recorded(folder, budget=1e-6)
    file, query = TELLING[kind]
    asked = [command, folder / "study.toml", folder / file, "--query", query]
    result = CliRunner().invoke(main, [*map(str, asked), "-o", str(folder / "out"), "--details"])
    assert result.exit_code == 3, result.output
    assert not any(name in result.output for name in NAMES)
    assert not (ledger.refusals() or ledger.checks())


@pytest.mark.parametrize("kind", [kind for kind in TELLING if kind != "pivot"])
@pytest.mark.parametrize("command", ["check", "release"])
@pytest.mark.parametrize("details", [False, True])
def test_what_a_query_tells_is_a_detail_and_on_record(
    folder: Path, ibis: Any, kind: str, command: str, details: bool
) -> None:
    ledger = recorded(folder, budget=5.0)
    file, query = TELLING[kind]
    asked = [command, folder / "study.toml", folder / file, "--query", query]
    asked += ["-o", folder / "out", *["--details"] * details]
    result = CliRunner().invoke(main, list(map(str, asked)))
    assert result.exit_code == 1, result.output
    assert any(name in result.output for name in NAMES) == details
    assert "no record was read" not in result.output
    (kept,) = ledger.checks() if command == "check" else ledger.refusals()
    assert kept.details == details


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "DATETIME", "TIME"])
@pytest.mark.parametrize(
    "attribute",
    [
        nz.Binned([date(2020, 1, 1), date(2020, 2, 1), date(2020, 3, 1)]),
        nz.Binned([date(2020, 1, 1), date(2020, 2, 1)], clip=True, missing="never"),
        nz.Categorical([date(2020, 1, 1), date(2020, 3, 1)], other="other"),
        nz.Ordinal([date(2020, 1, 1), date(2020, 3, 1)], missing="never"),
        nz.Categorical(["2020-01-01"], other="other"),
    ],
)
def test_dates_that_are_text_are_not_compared_as_text(
    ibis: Any, kind: str, attribute: nz.Attribute
) -> None:
    connection = ibis.sqlite.connect()
    connection.con.execute(f"CREATE TABLE people (since {kind}, sex TEXT)")
    table = connection.table("people")
    words = "column 'since' holds a .* SQLite keeps as text .* table.to_pandas()"
    for other in ({}, {"person": "sex"}):
        with pytest.raises(DataError, match=words):
            open_source(table, nz.Schema({"since": attribute}), **other)
    assert open_source(table, nz.Schema({"sex": nz.Categorical(["F"])})).schema.names == ("sex",)


def test_texts_are_no_dates_to_sqlite(ibis: Any) -> None:
    connection = ibis.sqlite.connect()
    connection.con.execute("CREATE TABLE people (since TEXT)")
    bins = nz.Schema({"since": nz.Binned([date(2020, 1, 1), date(2021, 1, 1)])})
    with pytest.raises(DataError, match=r"holds dates, which SQLite keeps as text .*to_pandas"):
        open_source(connection.table("people"), bins)


@pytest.mark.parametrize("written", ["2020-01-31T08:00:00", "2020-01-31 08:00:00"])
def test_a_frame_of_such_a_table_is_counted(ibis: Any, written: str) -> None:
    connection = ibis.sqlite.connect()
    connection.con.execute("CREATE TABLE people (since TIMESTAMP)")
    connection.con.execute("INSERT INTO people VALUES (?)", (written,))
    edges = [datetime(2020, 1, 1), datetime(2020, 1, 31, 12), datetime(2020, 3, 1)]
    source = open_source(
        connection.table("people").to_pandas(), nz.Schema({"since": nz.Binned(edges)})
    )
    assert source.marginals(np.array([[0]])).tolist() == [[1, 0]]


def test_after_an_earlier_release_only_the_rest_is_paid(folder: Path) -> None:
    """Two tables first, then a third: the ledger admits the rest, and not the whole."""
    first = STUDY.replace("up_to = 2", 'query = "age"').replace("1e8", "0.4")
    then = STUDY.replace("up_to = 2", 'query = "age"\n[[tables]]\nquery = "sex"').replace(
        "1e8", "0.8"
    )
    recorded = '[ledger]\nfile = "a.ledger"\ndataset = "people"\n'
    nz.Ledger(folder / "a.ledger", create=True).open_dataset("people", nz.zCDP(0.9))
    (folder / "first.toml").write_text(first + recorded, encoding="utf-8")
    (folder / "then.toml").write_text(then + recorded, encoding="utf-8")
    data = (folder / "people.duckdb", "--table", "people")
    run("release", folder / "first.toml", *data, "-o", folder / "one")
    run("release", folder / "then.toml", *data, "-o", folder / "alone", code=3)
    run("release", folder / "then.toml", *data, "--given", folder / "one", "-o", folder / "two")
    ledger = nz.Ledger(folder / "a.ledger")
    assert 0.4 < ledger.balance("people").spent.rho <= 0.9
    later = nz.load(folder / "two")
    schema = later.plan.workload.schema
    assert later.answer(nz.Query(schema, ["sex"])).std_error[0] < 5
    earlier = nz.load(folder / "one").answer(nz.Query(schema, ["age"])).std_error
    assert (later.answer(nz.Query(schema, ["age"])).std_error <= earlier).all()
    said = run("release", folder / "then.toml", *data, "--given", folder, "-o", "x", code=1)
    assert "holds no release" in said


def test_every_table_is_listed(folder: Path) -> None:
    names = [f"a{n}" for n in range(8)]
    columns = "\n".join(f"{name} = {{ categorical = [0, 1] }}" for name in names)
    study = folder / "many.toml"
    study.write_text(
        f"[schema]\n{columns}\n[[tables]]\nup_to = 2\n[budget]\nzcdp = 0.5\n", encoding="utf-8"
    )
    few, every = run("plan", study), run("plan", study, "--all")
    assert "a3 × a5" not in few and "alike" in few
    for name in [*names, "a3 × a5", "a6 × a7", "total"]:
        assert f"\n{name}  " in every
    listed = json.loads(run("plan", study, "--all", "--json"))["tables"]
    assert len(listed) == 37 and {row["tables"] for row in listed} == {1}
    plan = nz.plan(
        nz.Workload.marginals(nz.Schema({n: nz.Categorical([0, 1]) for n in names}), up_to=2),
        budget=nz.zCDP(0.5),
    )
    by_name = {row["table"]: row["std_error"] for row in listed}
    for name, query in (("a2", ["a2"]), ("a3 × a5", ["a3", "a5"])):
        variance = plan.variance(nz.Query(plan.workload.schema, query))
        assert by_name[name] == pytest.approx(np.sqrt(variance.mean()))


def test_postgres_by_the_name_of_a_variable(
    folder: Path, postgres: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.raw_sql("DROP TABLE IF EXISTS named; CREATE TABLE named (age INT, sex TEXT)").close()
    values = ", ".join(f"({'NULL' if a is None else a}, '{s}')" for a, s in PEOPLE)
    postgres.raw_sql(f"INSERT INTO named VALUES {values}").close()
    postgres.con.commit()
    socket = postgres.con.info.host
    monkeypatch.setenv("OFFICE", f"postgres:///postgres?host={socket}&user=postgres")
    release = ("release", folder / "study.toml", "env:OFFICE")
    run(*release, "--table", "public.named", "-o", folder / "one")
    run(*release, "--query", "SELECT * FROM named WHERE age < 5", "-o", folder / "two")
    assert counts(folder / "one") == expected(PEOPLE)
    kept = [(age, sex) for age, sex in PEOPLE if age is not None and age < 5]
    assert counts(folder / "two") == expected(kept)
