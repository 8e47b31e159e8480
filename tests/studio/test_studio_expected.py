"""Expected counts against errors, by hand; and declarations from files called public."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from serving import Page

from noiseplan.errors import DataError
from noiseplan.schema import Binned, Categorical, Ordinal
from noiseplan.studio.expected import codes_of, expected, from_file, guessed
from noiseplan.studio.public_files import Desk, bins, proposals, read_csv

TEXT = """\
[schema]
age = { ordinal = { from = 0, to = 3 } }
sex = { categorical = ["F", "M"] }
region = { categorical = ["N", "S"] }
[[tables]]
query = "age=prefix, sex"
name = "up to"
[[tables]]
query = "sex"
[[tables]]
query = "region"
[[predicates]]
where = "age < 2 or sex = 'F'"
[budget]
zcdp = 0.5
"""
RECORDS = {(0, "F"): 10, (0, "M"): 1, (1, "F"): 5, (2, "M"): 4, (3, "F"): 0}
FILE = "age,sex,count\n" + "".join(f"{a},{s},{n}\n" for (a, s), n in RECORDS.items())


def asked(page: Page, **source: Any) -> dict[str, Any]:
    names = ("up to", "sex", "region", "age < 2 or sex = 'F'")
    plan = [{"name": name, "std_error": 2.0} for name in names]
    found = page.post("/api/expected", text=TEXT, plan=plan, **source)
    return {"notes": found["notes"], **{each["name"]: each for each in found["tables"]}}


def test_a_guess_is_spread_evenly(page: Page) -> None:
    found = asked(page, total=80, limit=0.11)
    assert "spread evenly" in found["notes"][0] and "80" in found["notes"][0]
    cells = [80 / 8 * (age + 1) for age in range(4) for _ in "FM"]
    assert found["up to"]["expected"] == pytest.approx(sum(cells) / 8)
    assert found["up to"]["relative"] == pytest.approx(median(2 / cell for cell in cells))
    assert found["up to"]["useless"] == sum(2 / cell > 0.11 for cell in cells) / 8
    assert found["up to"]["worst"][0] == {
        "label": "≤ 0 · F",
        "expected": pytest.approx(10.0),
        "relative": pytest.approx(0.2),
    }
    assert found["sex"]["expected"] == 40.0 and found["region"]["expected"] == 40.0
    assert found["age < 2 or sex = 'F'"]["expected"] == pytest.approx(80 * 6 / 8)


def test_a_public_table_is_summed_onto_every_table_it_covers(page: Page) -> None:
    file = {"name": "last.csv", "content": FILE, "confirmed": True}
    found = asked(page, file=file)
    cells = {
        (age, sex): sum(n for (a, s), n in RECORDS.items() if a <= age and s == sex)
        for age in range(4)
        for sex in "FM"
    }
    table = found["up to"]
    assert table["expected"] == pytest.approx(sum(cells.values()) / 8)
    relative = sorted((2 / n if n else math.inf for n in cells.values()), reverse=True)
    assert [each["relative"] for each in table["worst"]] == [
        None if math.isinf(each) else pytest.approx(each) for each in relative
    ]
    assert table["useless"] == sum(each > 0.5 for each in relative) / 8
    assert found["sex"]["worst"][0] == {"label": "M", "expected": 5.0, "relative": 0.4}
    assert found["region"]["relative"] is None and "'region'" in found["region"]["note"]
    either = sum(n for (age, sex), n in RECORDS.items() if age < 2 or sex == "F")
    assert found["age < 2 or sex = 'F'"]["expected"] == either
    assert "the counts in 'count'" in found["notes"][0]


def test_empty_cells_are_useless_and_told(page: Page) -> None:
    file = {"name": "a.csv", "content": "sex\nF\nF\n", "confirmed": True}
    found = asked(page, file=file)
    assert found["sex"]["worst"][0] == {"label": "M", "expected": 0.0, "relative": None}
    assert found["sex"]["useless"] == 1.0 and "1 of 2 cells" in found["sex"]["note"]
    assert "one for each of its rows" in found["notes"][0]


def test_rows_that_do_not_fit_are_left_out_and_told(page: Page) -> None:
    content = "sex;n\nF;3\nM;4\nTotal;7\n"
    found = asked(page, file={"name": "a.csv", "content": content, "confirmed": True})
    assert found["sex"]["expected"] == 3.5 and "1 row with values" in found["notes"][1]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ({"content": FILE}, "only when you say that it is public"),
        ({"content": "a,b\n1,2\n", "confirmed": True}, "no column is called as an attribute"),
        ({"content": "sex,a,b\nF,1,2\n", "confirmed": True}, "which column holds the counts"),
        ({"content": "sex,n\nF,x\n", "confirmed": True}, "'x' in 'n' is no count"),
        ({"content": "sex,n\nF,-1\n", "confirmed": True}, "is no count"),
        ({"content": "sex,n\nF\n", "confirmed": True}, "1 cells, and the header has 2"),
        ({"content": "", "confirmed": True}, "must name every column"),
        ({"content": "sex,sex\n", "confirmed": True}, "two columns are called 'sex'"),
        ({"content": "sex\0\n", "confirmed": True}, "no text"),
        ({"content": FILE, "confirmed": True, "count_column": "cont"}, "Did you mean 'count'"),
    ],
)
def test_files_that_are_no_counts(page: Page, file: dict[str, Any], said: str) -> None:
    status, error = page.refused(
        "/api/expected", text=TEXT, plan=[], file={"name": "x.csv", **file}
    )
    assert status == 422 and said in error["message"]


@pytest.mark.parametrize("total", [None, 0, -5, "many", True])
def test_guesses_that_are_no_numbers(page: Page, total: object) -> None:
    status, error = page.refused("/api/expected", text=TEXT, plan=[], total=total)
    assert status == 422 and "as in 60000" in error["message"]


def test_tables_that_are_too_large_or_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    study = Desk(Path()).study(TEXT)
    counts = guessed(study.schema, 100)
    (found,) = expected(study, [{"name": "sex", "std_error": None}], counts)
    assert found["relative"] is None and "not known" in found["note"]
    (found,) = expected(study, [{"name": "sex", "std_error": 0}], counts)
    assert found["relative"] == 0.0
    monkeypatch.setattr("noiseplan.studio.expected.MOST_CELLS", 1)
    (found,) = expected(study, [{"name": "sex", "std_error": 1.0}], counts)
    assert "too large" in found["note"]


def test_values_are_found_however_they_are_written() -> None:
    assert codes_of(Ordinal(range(5)), ["3", "3.0", " 4", "9", "x", ""]).tolist() == [
        3,
        3,
        4,
        -1,
        -1,
        -1,
    ]
    assert codes_of(Binned([0, 5, 10]), ["1", "[5, 10]", "7.5", "99"]).tolist() == [0, 1, 1, -1]
    assert codes_of(Categorical([True, False]), ["True", "false"]).tolist() == [0, 1]
    assert codes_of(Categorical(["F"], missing="none"), ["", "none"]).tolist() == [1, 1]


def test_counts_by_levels_of_missing_and_weights() -> None:
    study = Desk(Path()).study(TEXT)
    file = {"name": "a", "content": "sex,w,x\nF,2.5,1\nF,1.5,1\n", "confirmed": True}
    counts, notes = from_file(study.schema, file | {"count_column": "w"})
    assert counts.total == 4.0 and len(notes) == 1


# ---------------------------------------------------------------------- files called public


def test_a_file_is_read_only_if_it_is_called_public(page: Page) -> None:
    for confirmed in (False, None, "true", 1):
        status, error = page.refused(
            "/api/example", name="data.csv", content="id\n7\n", confirmed=confirmed
        )
        assert status == 422 and "public" in error["message"]


def test_columns_are_proposed_as_somebody_would_declare_them(page: Page) -> None:
    rows = [
        f"{i % 40},{'FM'[i % 2]},{i * 1.5},2020-01-{i % 28 + 1:02},{'' if i % 7 == 0 else 'x'}"
        f",0{i % 10},{(i * 7919) % 100_003},{'yes' if i % 2 else 'no'}"
        for i in range(2500)
    ]
    content = "age,sex,pay,day,gap,code,id,name\n" + "\n".join(rows)
    found = page.post("/api/example", name="p.csv", content=content, confirmed=True)
    columns = {each["name"]: each for each in found["columns"]}
    assert found["rows"] == 2500
    assert columns["age"]["declaration"] == {"ordinal": {"from": 0, "to": 39}}
    assert columns["sex"]["declaration"] == {"categorical": ["F", "M"]}
    assert columns["pay"]["declaration"]["binned"][:2] == [0, 500]
    assert columns["pay"]["range"] == [0.0, 3748.5] and "values" not in columns["pay"]
    assert columns["day"]["declaration"] == {
        "ordinal": {"from": {"$date": "2020-01-01"}, "to": {"$date": "2020-01-28"}}
    }
    assert columns["gap"]["declaration"] == {"categorical": ["x"], "missing": "not stated"}
    assert columns["code"]["declaration"]["categorical"][:2] == ["00", "01"]
    assert "binned" in columns["id"]["declaration"] and columns["id"]["distinct"] == 2500
    schema = {name: each["declaration"] for name, each in columns.items()}
    seen = page.post("/api/edit", text="", design={"schema": schema})
    assert [each for each in seen["problems"] if each["kind"] != "missing"] == []


def test_very_many_texts_are_not_proposed() -> None:
    content = "who\n" + "\n".join(f"name {i}" for i in range(1500))
    (column,) = proposals("a.csv", content, True)["columns"]
    assert column["declaration"] is None and "more than 1,000" in column["note"]
    assert len(column["values"]) == 1000
    (column,) = proposals("a.csv", "empty\n", True)["columns"]
    assert column["declaration"] is None and column["note"] == "no values"


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (-3.2, 7.7), (5.0, 5.0), (0.0, 0.0), (1e-6, 3e-6), (0, 9_999_999)]
)
def test_bins_cover_all_numbers(low: float, high: float) -> None:
    edges = bins(low, high)
    assert edges[0] <= low and edges[-1] >= high and 2 <= len(edges) <= 13
    assert edges == sorted(set(edges))


def test_separators_are_those_of_the_header() -> None:
    for mark in ",;\t|":
        assert read_csv("x", f"a{mark}b\n1{mark}2\n").columns == {"a": ["1"], "b": ["2"]}
    assert read_csv("x", '\ufeff"a, b";c\r\n1;2\r\n').columns == {"a, b": ["1"], "c": ["2"]}
    with pytest.raises(DataError, match="not CSV"):
        read_csv("x", "a\n" + "y" * 200_000)
