"""Hierarchical attributes in study files, questions and conditions, up to a report."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.data import example_study
from noiseplan.data.census import census, census_places, write_census
from noiseplan.engine import copy_to_parquet, engine
from noiseplan.errors import QueryError
from noiseplan.queries.predicates import predicate_query
from noiseplan.queries.questions import ask_query, read_question
from noiseplan.study import StudyError, read_study
from page_parsing import rows_of

PLACES = "tract,county,state\n0101,01,X\n0102,01,X\n0201,02,X\n0301,03,Y\n"
REST = """
sex = { categorical = ["F", "M"] }
[[tables]]
query = "county, sex"
[budget]
zcdp = 0.5
"""
GEO = nz.Hierarchical(
    {
        "tract": ["0101", "0102", "0201", "0301"],
        "county": ["01", "01", "02", "03"],
        "state": list("XXXY"),
    }
)
SCHEMA = nz.Schema({"geo": GEO, "sex": nz.Categorical(["F", "M"])})


COUNTIES = [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def study(tmp_path: Path, geo: str, rest: str = REST) -> Path:
    (tmp_path / "places.csv").write_text(PLACES)
    path = tmp_path / "s.toml"
    path.write_text(f"[schema]\ngeo = {{ {geo} }}{rest}")
    return path


@pytest.mark.parametrize(
    "geo",
    [
        'hierarchical = { file = "places.csv", levels = ["tract", "county", "state"] }',
        'hierarchical = { file = "places.csv", column = "tract", prefixes = { county = 2 } }',
    ],
)
def test_a_cell_for_missing_values(tmp_path: Path, geo: str) -> None:
    found = read_study(study(tmp_path, geo + ', missing = "not stated"')).schema["geo"]
    assert found.missing == "not stated"
    assert found.encode(["0201", None]).tolist() == [2, 4]
    with pytest.raises(StudyError, match=r"s.toml:2: .*missing='01' is also declared as a county"):
        read_study(study(tmp_path, geo + ', missing = "01"'))


@pytest.mark.parametrize(
    "geo",
    [
        'hierarchical = { file = "places.csv", levels = ["tract", "county", "state"] }',
        'hierarchical = { file = "places.csv", levels = { tract = "tract", county = "county", '
        'state = "state" } }',
    ],
)
def test_levels_from_a_code_list(tmp_path: Path, geo: str) -> None:
    read = read_study(study(tmp_path, geo))
    assert read.schema == SCHEMA
    assert [path.name for path in read.code_lists] == ["places.csv"]
    assert [query.name for query in read.workload] == ["county × sex"]


@pytest.mark.parametrize(
    "geo",
    [
        'hierarchical = { file = "places.csv", column = "tract", prefixes = { county = 2 }, '
        'leaf = "tract" }',
        'hierarchical = { file = "places.csv", column = "tract", prefixes = { county = 2 } }',
        'hierarchical = { codes = ["0101", "0102", "0201", "0301"], '
        "prefixes = { county = 2, tract = 4 } }",
    ],
)
def test_levels_from_prefixes(tmp_path: Path, geo: str) -> None:
    found = read_study(study(tmp_path, geo)).schema["geo"]
    columns = {"tract": GEO.labels, "county": ["01", "01", "02", "03"]}
    assert found == nz.Hierarchical(columns)


def test_levels_from_parquet_and_other(tmp_path: Path) -> None:
    columns = {name: np.array([str(v) for v in GEO.labels], dtype=object) for name in ("tract",)}
    columns["county"] = np.array(["01", "01", "02", "03"], dtype=object)
    with engine() as connection:
        copy_to_parquet(connection, tmp_path / "places.parquet", columns)
    geo = 'hierarchical = { file = "places.parquet", levels = ["tract", "county"] }, other = "?"'
    found = read_study(study(tmp_path, geo)).schema["geo"]
    assert found.null_code == 4
    assert found.describe().endswith("anything else is '?'")


@pytest.mark.parametrize(
    ("geo", "message"),
    [
        ('hierarchical = { file = "places.csv" }', "what the levels are: give one of levels, pre"),
        ('hierarchical = { levels = ["a", "b"] }', "levels are columns of a file"),
        ('hierarchical = { file = "places.csv", levels = ["tract", "countys"] }', "no column 'cou"),
        ('hierarchical = { file = "places.csv", levels = ["county", "tract"] }', "'01' is in"),
        ('hierarchical = { file = "no.csv", levels = ["county", "tract"] }', "is not there"),
        ('hierarchical = { file = "/etc/passwd", levels = ["a", "b"], separator = ":" }', "outs"),
        ('hierarchical = { file = "../p.csv", levels = ["a", "b"] }', "outside the folder"),
        ('hierarchical = { file = "places.csv", prefixes = { state = 1 } }', "need their column"),
        ("hierarchical = { prefixes = { state = 1 } }", "where the codes are"),
        ('hierarchical = { codes = ["01"], levels = ["a"] }', "codes does not go with levels"),
        ('hierarchical = { codes = ["01"], prefixes = { state = 0 } }', "how many signs"),
        ("hierarchical = { codes = [1], prefixes = { state = 1 } }", "found the number 1"),
        ('hierarchical = { file = "places.csv", levels = ["tract", "state"] }, clip = true', "cli"),
    ],
)
def test_refuses_with_the_line(tmp_path: Path, geo: str, message: str) -> None:
    with pytest.raises(StudyError, match=message) as found:
        read_study(study(tmp_path, geo))
    assert str(found.value).startswith("s.toml:2: schema.geo")


def test_a_code_list_that_is_the_data_is_refused(tmp_path: Path) -> None:
    geo = 'hierarchical = { file = "places.csv", levels = ["tract", "county"] }'
    read = read_study(study(tmp_path, geo))
    copy = tmp_path / "people.csv"
    copy.write_text(PLACES)
    with pytest.raises(StudyError, match=r"the code list .* is the data itself"):
        read.release(read.plan(), copy)


# ---------------------------------------------------------------------- questions, conditions


@pytest.mark.parametrize(
    ("question", "leaves"),
    [
        ("county", COUNTIES),
        ("geo.county", COUNTIES),
        ("geo=county", COUNTIES),
        ("county=identity", COUNTIES),
        ("county=01", [[1, 1, 0, 0]]),
        ("county=01 | 02+03", [[1, 1, 0, 0], [0, 0, 1, 1]]),
        ("geo=0201", [[0, 0, 1, 0]]),
        ("state=Y", [[0, 0, 0, 1]]),
        ("county=total", [[1, 1, 1, 1]]),
        ("geo=levels(state, county)", [[1, 1, 1, 0], [0, 0, 0, 1], *COUNTIES]),
        # Several levels: the finer within the coarser.
        ("county, state", COUNTIES),
        ("geo, county", np.eye(4).tolist()),
        ("county=01, tract", [[1, 0, 0, 0], [0, 1, 0, 0]]),
        ("tract, county=01", [[1, 0, 0, 0], [0, 1, 0, 0]]),
        ("state=X, county", [[1, 1, 0, 0], [0, 0, 1, 0]]),
        ("state=X, county=01+03", [[1, 1, 0, 0]]),
        ("state=X | Y, county=01 | 03", [[1, 1, 0, 0], [0, 0, 0, 1]]),
        ("state=X, county=02, tract", [[0, 0, 1, 0]]),
        ("state, tract=0102+0301", [[0, 1, 0, 0], [0, 0, 0, 1]]),
        ("state=X, geo=levels(county, tract)", [*COUNTIES[:2], *np.eye(4)[:3].tolist()]),
        ("county=total, state", [[1, 1, 1, 0], [0, 0, 0, 1]]),
    ],
)
def test_questions_by_level(question: str, leaves: list[list[int]]) -> None:
    query = read_question(question, SCHEMA)
    assert query.dense().tolist() == np.repeat(leaves, 2, axis=1).astype(float).tolist()


@pytest.mark.parametrize(
    ("question", "heading", "labels"),
    [
        ("county=01, tract", "tract", ["0101", "0102"]),
        ("state=X | Y, county", "geo", ["state X › 01", "state X › 02", "state Y › 03"]),
        ("state, tract=0102+0301", "state", ["X", "Y"]),
        ("state=Y, county=03", "geo", ["county 03"]),
    ],
)
def test_rows_of_several_levels_are_called_by_what_tells_them_apart(
    question: str, heading: str, labels: list[str]
) -> None:
    """A label that names no level stands under it."""
    query = read_question(f"{question}, sex", SCHEMA)
    assert list(query.row_labels()[heading])[::2] == labels
    assert query.name == f"{question}, sex"


def test_levels_within_each_other_in_a_study_and_in_answers(tmp_path: Path) -> None:
    rest = REST.replace('"county, sex"', '"state=X, county, sex"')
    geo = 'hierarchical = { file = "places.csv", levels = ["tract", "county", "state"] }'
    path = study(tmp_path, geo, rest.replace("0.5", "1e8") + '[[tables]]\nquery = "tract"\n')
    data = tmp_path / "data.csv"
    data.write_text("geo,sex\n" + "0101,F\n" * 3 + "0102,M\n" * 2 + "0201,F\n" + "0301,M\n" * 7)
    out = str(tmp_path / "out")
    made = CliRunner().invoke(main, ["release", str(path), str(data), "-o", out])
    assert made.exit_code == 0, made.output
    release = nz.load(out)
    table = release.answer(release.plan.workload[0])
    assert table.estimate.round().tolist() == [3, 2, 1, 0]
    assert release.ask("county=01, tract").estimate.round().tolist() == [3, 2]
    where = CliRunner().invoke(main, ["answer", out, "--where", "state = 'X' and tract != '0101'"])
    assert where.exit_code == 0 and "3.0" in where.output


def test_too_many_rows_of_a_level_are_not_chosen() -> None:
    geo = nz.Hierarchical.from_codes([f"{i:05d}" for i in range(20_000)], {"county": 1})
    with pytest.raises(QueryError, match="ask for the whole level, code, or for fewer groups"):
        read_question("county=0, code", nz.Schema({"geo": geo}))


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("conty, sex", "no attribute 'conty'.*levels 'tract', 'county', 'state'.*mean 'county'"),
        ("county=04", "'04' is neither a value of 'county'"),
        ("county=01..02", "a span needs an ordered attribute, and 'county' is categorical"),
        ("geo=0101..0201", "a span needs an ordered attribute, and 'geo' is hierarchical"),
        ("county=prefix", "needs an ordered attribute"),
        ("county=01, tract=0201", "county=01, tract=0201: no value lies in all of these"),
        ("county, county", "^'county' is named twice"),
        ("geo, tract", "^'tract' is named twice"),
        ("geo=levels(conty)", "no level 'conty'"),
    ],
)
def test_questions_that_are_refused(question: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        read_question(question, SCHEMA)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("county=1", "county=1: '1' is neither a value of 'county' .*Did you mean '01'"),
        ("geo.county=1", "'1' is neither a value of 'geo.county'"),
        ("geo=101", "geo=101: '101' is neither a value of 'geo' .*Did you mean '0101'"),
        ("conty = '01'", "no attribute 'conty'"),
        ("county = '01' and sex = 'F'", "is a condition, and asked as one"),
        ("sex != 'F'", "is a condition, and asked as one"),
    ],
)
def test_an_unknown_value_is_no_condition(question: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        ask_query(question, SCHEMA)


@pytest.mark.parametrize(
    ("condition", "leaves", "label"),
    [
        ("county = '01'", [1, 1, 0, 0], "county 01"),
        ("geo.county in ('02', '03')", [0, 0, 1, 1], "county 02 + county 03"),
        ("county != '03'", [1, 1, 1, 0], "state X"),
        ("state = 'X' and not county = '01'", [0, 0, 1, 0], "county 02"),
        ("geo = '0101' or county = '02'", [1, 0, 1, 0], "0101 + 0201"),
    ],
)
def test_conditions_by_level(condition: str, leaves: list[int], label: str) -> None:
    query = predicate_query(SCHEMA, condition)
    assert query.dense().tolist() == [[float(leaf) for leaf in leaves for _ in range(2)]]
    assert query.row_labels() == {"geo": [label]}
    (other,) = nz.Workload.predicates(SCHEMA, [f"{condition} and sex = 'F'"])
    assert other.dense()[0, ::2].tolist() == leaves


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("county = '04'", "'04' is no value of 'county'"),
        ("county = 01", "1 is no value of 'county'"),
        ("county < '02'", "'county' has no order"),
        ("conty = '01'", "no attribute 'conty'.*levels 'tract', 'county'.*mean 'county'"),
        ("geo.conty = '01'", "no attribute 'geo.conty'"),
    ],
)
def test_conditions_that_are_refused(condition: str, message: str) -> None:
    with pytest.raises(nz.NoiseplanError, match=message):
        predicate_query(SCHEMA, condition)


def test_levels_that_could_be_two_are_asked_by_both_names() -> None:
    schema = nz.Schema({"home": GEO, "work": GEO})
    query = predicate_query(schema, "home.county = '01' and work.county = '02'")
    assert query.row_labels() == {"home": ["county 01"], "work": ["county 02"]}
    with pytest.raises(nz.NoiseplanError, match="no attribute 'county'"):
        predicate_query(schema, "county = '01'")


# ---------------------------------------------------------------------- the whole way


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The census by commands, with a ledger and a query on two levels."""
    folder = tmp_path_factory.mktemp("census")
    write_census(folder / "census.parquet", folder / "places.csv", persons=5_000)
    text = example_study("census").read_text(encoding="utf-8")
    both = '[[tables]]\nquery = "geo=levels(state, county)"\n\n[plan]'
    ledger = '\n[ledger]\nfile = "b.ledger"\ndataset = "census"\npurpose = "tables"\n'
    (folder / "census.toml").write_text(text.replace("[plan]", both) + ledger, encoding="utf-8")
    for line in (
        ["ledger", "init", str(folder / "b.ledger")],
        ["ledger", "open", str(folder / "b.ledger"), "census", "--zcdp", "0.1"],
        ["plan", str(folder / "census.toml")],
        ["release", str(folder / "census.toml"), str(folder / "census.parquet")],
        ["report", str(folder / "census-2030")],
    ):
        result = CliRunner().invoke(main, line)
        assert result.exit_code == 0, result.output
    return folder


def test_one_file_for_each_level(released: Path) -> None:
    tables = released / "census-2030" / "tables"
    with (tables / "index.csv").open(newline="") as file:
        index = {row["query"]: row for row in csv.DictReader(file)}
    rows = {name: int(row["rows"]) for name, row in index.items()}
    assert rows == {
        "nation × age × sex": 8,
        "state × age × sex": 32,
        "county × age × sex": 240,
        "tract × age": 1280,
        "block": 2195,
        "state": 4,
        "county": 30,
    }
    release = nz.load(released / "census-2030")
    for name, row in index.items():
        with (tables / f"{row['file']}.csv").open(newline="") as file:
            found = list(csv.DictReader(file))
        answer = release.answer(read_question(name, release.schema))
        assert next(iter(found[0])) == name.split(" × ")[0]
        labels = answer.query.row_labels()
        for heading, values in labels.items():
            assert [line[heading] for line in found] == values
        shown = 1e-5 * answer.std_error.min()  # CSV has six digits of the smallest error
        parquet = duckdb.read_parquet(str(tables / f"{row['file']}.parquet"))
        for column in ("estimate", "std_error"):
            exact = getattr(answer, column)
            assert np.array([float(line[column]) for line in found]) == pytest.approx(
                exact, rel=0, abs=shown
            )
            assert parquet.fetchnumpy()[column].tolist() == exact.tolist()
        assert parquet.columns == list(found[0])
        assert [str(v) for v in parquet.fetchnumpy()[parquet.columns[0]]] == labels[
            parquet.columns[0]
        ]


def test_a_loaded_release_is_the_same_bit_for_bit(released: Path, tmp_path: Path) -> None:
    release = nz.load(released / "census-2030")
    assert release.schema["geo"] == nz.Hierarchical(census_places())
    release.save(tmp_path / "again", tables=[])
    again = nz.load(tmp_path / "again")
    for query in release.plan.workload:
        assert np.array_equal(again.answer(query).estimate, release.answer(query).estimate)
        assert np.array_equal(again.variance(query), release.variance(query))
    assert again.plan.hash() == release.plan.hash()


def test_estimates_are_near_the_truth(released: Path) -> None:
    release = nz.load(released / "census-2030")
    people = census(5_000)
    answer = release.answer(nz.Query(release.schema, ["county"]))
    counties = answer.query.row_labels()["county"]
    truth = np.array([sum(code.startswith(str(c)) for code in people["geo"]) for c in counties])
    assert (np.abs(answer.estimate - truth) < 6 * answer.std_error).all()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["state"], ["state", "01", "04"]),
        (["county=01001, sex"], ["county 01001"]),
        (["--where", "county = '01001' and sex = 'F'"], ["county 01001"]),
        (["tract × age", "--csv"], ["tract,age,estimate"]),
    ],
)
def test_answers_by_level(released: Path, arguments: list[str], expected: list[str]) -> None:
    result = CliRunner().invoke(main, ["answer", str(released / "census-2030"), *arguments])
    assert result.exit_code == 0, result.output
    for word in expected:
        assert word in result.output


def test_the_ledger_and_show(released: Path) -> None:
    shown = CliRunner().invoke(main, ["ledger", "show", str(released / "b.ledger")])
    assert "tables" in shown.output
    shown = CliRunner().invoke(main, ["show", str(released / "census-2030")])
    assert shown.exit_code == 0
    assert "county × age × sex" in shown.output


def test_the_report_has_levels(released: Path) -> None:
    page = (released / "census-2030" / "report.html").read_text(encoding="utf-8")
    levels = [row[0] for row in rows_of(page, "Standard error by level")]
    assert list(dict.fromkeys(filter(None, levels))) == [
        "nation", "state", "county", "tract", "block",
    ]  # the coarsest first  # fmt: skip
    for name in ("state", "county", "block", "tract × age"):
        assert f'data-name="{name}"' in page
    assert re.search(r"the first 200 of [\d,]+ rows are shown", page)


def test_errors_by_level_are_those_of_the_plan(released: Path) -> None:
    from noiseplan.words.level_errors import level_errors

    plan = nz.load(released / "census-2030").plan
    found = {(e.level, e.table): e for e in level_errors(plan)}
    assert next(iter(found)) == ("nation", "age × sex")
    assert list(found)[-1] == ("block", "total")
    for (level, table), error in found.items():
        names = [level, *(table.split(" × ") if table != "total" else [])]
        variance = plan.variance(nz.Query(plan.workload.schema, names))
        assert error.std_error == pytest.approx(np.sqrt(variance.mean()))
        assert (error.smallest, error.largest) == pytest.approx(
            (np.sqrt(variance.min()), np.sqrt(variance.max()))
        )
    drawn = plan.plot()._repr_svg_()
    assert drawn.index("nation: age × sex") < drawn.index("block: total")
