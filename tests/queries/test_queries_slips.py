"""Slips of those who write their first conditions and matrices: each is told what to write."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import QueryError
from noiseplan.queries.predicates import predicate_query
from noiseplan.queries.questions import read_question

SCHEMA = nz.Schema(
    {
        "age": nz.Ordinal(range(100)),
        "sex": nz.Categorical(["F", "M"]),
        "income": nz.Binned([0, 20_000, 100_000]),
        "wealth": nz.Binned([0, 20_000, 100_000], clip=True),
        "debt": nz.Binned([0, 20_000, float("inf")]),
    }
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("age < income", "two attributes cannot be compared"),
        ("age => 18", "=> is written >="),
        ("age =< 18", "=< is written <="),
        ("age ≥ 18", "≥ is written >="),
        ("age ≠ 18", "≠ is written !="),
        ("sex = ‘F’", "quotes are written straight"),
        ("sex = “F”", "quotes are written straight"),
        ("age in [1, 2]", r"brackets are round: in \(1, 2\)"),
        ("income < 20,000", "without marks between their digits: 20000"),
        ("income < 20_000", "without marks between their digits: 20000"),
        ("age is null", "'age' has no cell for missing values .* declare one: missing="),
        ("age is not null", "'age' has no cell for missing values"),
        ("age is missing", "age is ⟨here⟩ missing: is is followed by null: age is null, or"),
        ("sex like 'F%'", "patterns are not supported"),
        ("sex not like 'F%'", "patterns are not supported"),
        ("sex = 'f'", "did you mean 'F'"),
        ("income >= 100000", "last one and also holds 100000 itself: declare a further edge"),
        ("income < 100000", "last one and also holds 100000 itself: declare a further edge"),
        ("wealth < 0", r"also holds the numbers below 0 \(clip=True\): declare a further edge"),
        ("wealth > 100000", r"the numbers beyond 100000 \(clip=True\): declare a further edge"),
        ("income < 30000", "declare 30000 as an edge"),
        ("income = null", "missing values are asked for by is null"),
        ("income != NULL", "missing values are asked for by is null"),
    ],
)
def test_slips_of_conditions(text: str, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        predicate_query(SCHEMA, text)


def test_no_number_is_suggested_for_another() -> None:
    with pytest.raises(QueryError, match=r"17\.5 is no value of 'age'") as caught:
        predicate_query(SCHEMA, "age = 17.5")
    assert "did you mean" not in str(caught.value)


def test_lists_of_numbers_keep_their_commas() -> None:
    query = predicate_query(SCHEMA, "age in (20,45)")
    assert query.row_labels() == {"age": ["20 + 45"]}


@pytest.mark.parametrize("label", ["[20000, inf)", "[20000, inf]"])
def test_open_ends_of_bins(label: str) -> None:
    assert predicate_query(SCHEMA, f"debt = '{label}'").dense().sum() == SCHEMA.size / 2


def test_one_row_is_called_what_the_query_is_called() -> None:
    both = "age < 18 or sex = 'F'"
    workload = nz.Workload.predicates(SCHEMA, [both])
    assert workload[0].row_labels() == {"row": [both]}
    workload = nz.Workload.predicates(SCHEMA, {"women and children": both})
    assert workload[0].row_labels() == {"row": ["women and children"]}


def test_conditions_are_no_attributes() -> None:
    with pytest.raises(QueryError, match=r"Workload.predicates\(schema, \['age < 18'\]\)"):
        nz.Query(SCHEMA, "age < 18")


def test_matrices_in_either_order() -> None:
    schema = nz.Schema.from_sizes({"a": 2, "b": 2})
    matrix = [[1, 0, 1, 1], [0, 1, 0, 2]]
    for workload in (
        nz.Workload.from_matrix(matrix, schema),
        nz.Workload.from_matrix(schema, matrix),
        nz.Workload([nz.Query(schema, matrix=matrix)]),
    ):
        assert np.array_equal(workload[0].dense(), matrix)
    assert nz.Workload.from_matrix([1, 0, 2])[0].dense().tolist() == [[1, 0, 2]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([[1, 0], [1]],), "Workload.from_matrix needs a matrix of numbers"),
        (([["a", "b"]],), "Workload.from_matrix needs a matrix of numbers"),
        (([[1, 0]], [[1, 0]]), r"takes a matrix and a Schema, found list; write"),
        (([[1, 0]], nz.Schema.from_sizes({"x": 3})), r"the matrix has 2 columns, .* has 3 values"),
    ],
)
def test_slips_of_matrices(arguments: tuple[object, ...], said: str) -> None:
    with pytest.raises(QueryError, match=said):
        nz.Workload.from_matrix(*arguments)


def test_names_that_are_nearly_right() -> None:
    workload = nz.Workload.marginals(SCHEMA, k=2)
    with pytest.raises(QueryError, match="did you mean 'age × sex'"):
        workload["age x sex"]
    with pytest.raises(QueryError, match="attributes come as a list"):
        nz.Query(SCHEMA)


@pytest.mark.parametrize(
    ("text", "first"), [("age=99..", 99), ("age=90..99+", 90), ("age=90..", 90), ("age=99+", 99)]
)
def test_the_last_cell_of_clipped_numbers(text: str, first: int) -> None:
    schema = nz.Schema({"age": nz.Ordinal(range(100), clip=True)})
    expected = (np.arange(100) >= first).astype(float)
    assert read_question(text, schema).dense().tolist() == [expected.tolist()]


def test_all_numbers_counted_together() -> None:
    schema = nz.Schema({"age": nz.Ordinal(range(1), clip=True)})
    with pytest.raises(QueryError, match=r"counted together; age=0\+ asks for them$"):
        read_question("age=5", schema)


@pytest.mark.parametrize("text", ["age=99", "age=90..99", "age=100..", "age=120"])
def test_numbers_counted_together_are_not_told_apart(text: str) -> None:
    schema = nz.Schema({"age": nz.Ordinal(range(100), clip=True)})
    with pytest.raises(QueryError, match=r"from 99 on are counted together; age=99\+ asks for"):
        read_question(text, schema)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("code = 1", r"1 is no value of 'code'.*did you mean '01'\?"),
        ("day = 2020-02-30", r"'2020-02-30' is no date or time, as in '2020-01-01'"),
        ("day = '2021-05-05'", r"which is ordinal: 2020-01-01, 2020-01-02; did"),
    ],
)
def test_codes_without_their_zeros_and_days_that_are_none(text: str, said: str) -> None:
    days = [date(2020, 1, 1), date(2020, 1, 2)]
    schema = nz.Schema({"code": nz.Categorical(["01", "02"]), "day": nz.Ordinal(days)})
    with pytest.raises(QueryError, match=said):
        predicate_query(schema, text)


# ---------------------------------------------------------------------- advice that can be typed

TRACTS = [f"{number:02d}" for number in range(1, 60)]
GEO = nz.Hierarchical(
    {
        "place": [f"p{number}" for number in range(118)],
        "tract": [tract for tract in TRACTS for _ in range(2)],
        "county": ["A"] * 60 + ["B"] * 58,
    }
)
HOME = nz.Schema({"home": GEO, "age": nz.Ordinal(range(4)), "sex": nz.Categorical(["F", "M"])})
BOTH = nz.Schema({"home": GEO, "work": GEO, "age": nz.Ordinal(range(4))})


def refusal_of(schema: nz.Schema, condition: str) -> str:
    with pytest.raises(QueryError) as refused:
        nz.Workload.predicates(schema, [condition])
    return str(refused.value)


@pytest.mark.parametrize("schema", [HOME, BOTH], ids=["one", "both"])
@pytest.mark.parametrize(
    "condition",
    ["home.tract between '01' and '04'", "not home.tract < '04'", "home.county >= 'A'",
     "home between 'p1' and 'p3'", "home.place > 'p1'"],
)  # fmt: skip
def test_what_is_advised_of_levels_in_order_works(schema: nz.Schema, condition: str) -> None:
    said = refusal_of(schema, condition)
    assert "has no order" in said and "Ordinal" not in said and ">=" not in said.split(": ", 1)[1]
    advised = said.partition("; write ")[2]
    assert nz.Workload.predicates(schema, [advised]).rows == 1
    assert "declare it as Ordinal" in refusal_of(HOME, "sex < 'M'")


@pytest.mark.parametrize("typed", ["4", "'4'", "'004'", "04"])
def test_a_code_without_its_zeros_is_found_among_many(typed: str) -> None:
    said = refusal_of(BOTH, f"home.tract = {typed}")
    assert said.endswith("did you mean '04'?") and "no value of 'home.tract'" in said
    if "'" not in typed:
        return
    for question in (f"home.tract={typed}", f"home.tract={typed.strip(chr(39))}"):
        with pytest.raises(QueryError, match=r"Did you mean '04'\?"):
            read_question(question, BOTH)


@pytest.mark.parametrize("schema", [HOME, BOTH], ids=["one", "both"])
def test_a_span_of_a_level_is_advised_by_the_name_that_it_has(schema: nz.Schema) -> None:
    level = schema.level_name("home", "tract")
    with pytest.raises(QueryError) as refused:
        read_question(f"{level}=01..04", schema)
    advised = str(refused.value).rpartition(": ")[2]
    assert advised == f"{level}=01+02"
    assert read_question(advised, schema).rows == 1


@pytest.mark.parametrize(
    ("condition", "advised"),
    [
        ("home.tract between '02' and '04'", "home.tract in ('02', '03', '04')"),
        ("home.tract between '04' and '02'", "home.tract in ('04', '02')"),
        ("home.tract between '03' and '99'", "home.tract in ('03')"),
        ("home.tract between '02' and '50'", "home.tract in ('02', '50')"),
        ("home.tract between '98' and '99'", "home.tract in ('01', '02')"),
        ("home between 'p2' and 'p3'", "home in ('p2', 'p3')"),
    ],
)
def test_places_that_are_advised_are_those_asked_for(condition: str, advised: str) -> None:
    assert refusal_of(HOME, condition).partition("; write ")[2] == advised
