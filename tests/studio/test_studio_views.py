"""What the page is shown of a study: all that can be read, and what is wrong, with its line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from serving import Page, served

from noiseplan.data import EXAMPLES, example_study
from noiseplan.studio.public_files import Desk
from noiseplan.studio.views import MOST_LABELS, MOST_NAMES, view
from noiseplan.study import read_study

WAGES = example_study("wages").read_text(encoding="utf-8")
BROKEN = """\
title = "Half of it"
[schema]
age = { ordinal = { from = 0, to = 99 } }
sex = { categorical = ["F", "F"] }
[[tables]]
query = "age"
[[tables]]
query = "agee"
[[tables]]
k = 9
[[predicates]]
where = "age <"
[budget]
zcdp = -1
"""


def seen(text: str, folder: Path = Path(), public: tuple[str, ...] = ()) -> dict[str, Any]:
    found = view(text, Desk(folder, public=frozenset(public)))
    assert json.loads(json.dumps(found, allow_nan=False)) == found  # a page can read it
    return found


def test_the_demonstration() -> None:
    found, study = seen(WAGES), read_study(example_study("wages"))
    assert found["problems"] == []
    assert found["title"] == study.title
    assert (found["rows"], found["tables"]) == (study.workload.rows, len(study.workload))
    assert found["cells"] == study.schema.size
    assert [each["name"] for each in found["schema"]] == list(study.schema)
    assert [each["size"] for each in found["schema"]] == list(study.schema.shape)
    assert [each["count"] for each in found["entries"]] == [1, 1, 1, 1, 16]
    assert sum(each["rows"] for each in found["entries"]) == study.workload.rows
    assert found["entries"][4]["names"][:2] == ["total", "gender"]
    assert found["privacy"]["epsilons"][1] == {"delta": 1e-9, "epsilon": 1.0}
    age, earnings = found["schema"][1], found["schema"][4]
    assert (age["kind"], age["ordered"], age["labels"][0], age["more"]) == ("ordinal", True, 21, 0)
    assert earnings["labels"][0] == "[0, 5)"


def test_as_much_is_shown_as_can_be_read() -> None:
    found = seen(BROKEN)
    assert found["title"] == "Half of it" and found["design"]["budget"] == {"zcdp": -1}
    assert [each["name"] for each in found["schema"]] == ["age"]
    assert [(each["section"], each["index"]) for each in found["entries"]] == [("tables", 0)]
    told = {tuple(each["place"]): (each["line"], each["message"]) for each in found["problems"]}
    assert told[("schema", "sex", "categorical", 1)][0] == 4
    assert (
        told[("tables", 1, "query")][0] == 8
        and "Did you mean 'age'" in told[("tables", 1, "query")][1]
    )
    assert told[("tables", 2, "k")][0] == 10
    assert told[("predicates", 0, "where")][0] == 12
    assert all(each["kind"] == "wrong" for each in found["problems"])
    assert not any("study.toml" in each["message"] for each in found["problems"])


def test_what_concerns_the_whole_is_told_once_the_parts_are_right() -> None:
    text = "[schema]\nage = { ordinal = [1, 2] }\n[[tables]]\nquery = 'age'\n[budget]\nzcdp = -1\n"
    (fault,) = seen(text)["problems"]
    assert (fault["line"], fault["place"]) == (6, ["budget", "zcdp"])
    assert not seen(text.replace("zcdp = -1", "gdp = 1.0"))["problems"]
    (fault,) = seen(text.replace("-1", "1") + "[typo]\n")["problems"]
    assert fault["place"] == ["typo"] and fault["line"] == 7


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("", ["schema", "tables", "budget"]),
        ("title = 'x'\n", ["schema", "tables", "budget"]),
        ("[schema]\n", ["schema", "tables", "budget"]),
        ("tables = []\n[schema]\na = { categorical = ['x'] }\n", ["tables", "budget"]),
        ("[schema]\na = { categorical = ['x'] }\n[[tables]]\nquery = 'a'\n", ["budget"]),
        ("[plan]\nobjective = 'rmse'\nat_most = 2.0\n", ["schema", "tables"]),
    ],
)
def test_what_is_not_there_yet_is_no_fault(text: str, missing: list[str]) -> None:
    found = [each for each in seen(text)["problems"] if each["kind"] == "missing"]
    assert [each["place"] for each in found] == [[name] for name in missing]
    assert all(" yet. " in each["message"] for each in found)
    assert len(seen(text)["problems"]) == len(found)


def test_what_is_not_toml_has_a_line_and_no_design() -> None:
    found = seen('title = "x"\n\n[schema\n')
    (fault,) = found["problems"]
    assert fault["line"] == 3 and found["design"] is None
    assert found["text"].startswith("title")


@pytest.mark.parametrize(
    "text",
    [
        "schema = 1",
        "[schema]\na = 1",
        "tables = 1\n[schema]\na = { categorical = ['x'] }",
        "[[schema]]\na = 1",
        "[tables]\na = 1\n[schema]\nb = { ordinal = [1] }",
    ],
)
def test_wrong_kinds_are_faults(text: str) -> None:
    found = seen(text)["problems"]
    assert any(each["kind"] == "wrong" and each["line"] for each in found)


def test_long_attributes_and_families_are_cut() -> None:
    text = (
        "[schema]\na = { ordinal = { from = 1, to = 9000000 } }\n"
        + "".join(f"b{i} = {{ categorical = ['x', 'y'] }}\n" for i in range(12))
        + "[[tables]]\nup_to = 2\n[budget]\nzcdp = 1\n"
    )
    found = seen(text)
    first = found["schema"][0]
    assert len(first["labels"]) == MOST_LABELS and first["more"] == 9_000_000 - MOST_LABELS
    assert len(found["entries"][0]["names"]) == MOST_NAMES
    assert found["entries"][0]["count"] == 1 + 13 + 13 * 12 // 2


def test_levels_missing_and_other() -> None:
    text = (
        "[schema]\n"
        'job = { hierarchical = { codes = ["A1", "A2", "B1"], prefixes = { section = 1 } } }\n'
        'sex = { categorical = ["F", "M"], other = "else" }\n'
        'day = { ordinal = [2020-01-01, 2020-01-02], missing = "not stated" }\n'
    )
    job, sex, day = seen(text)["schema"]
    assert job["levels"] == [{"name": "code", "size": 3}, {"name": "section", "size": 2}]
    assert (sex["other"], sex["size"], sex["ordered"]) == ("else", 3, False)
    assert day["labels"][0] == {"$date": "2020-01-01"} and day["missing"] == "not stated"


LISTED = """\
[schema]
geo = { categorical = { file = "places.csv", column = "code" } }
[[tables]]
query = "geo"
[budget]
zcdp = 1.0
"""


def test_files_are_read_only_if_they_were_called_public(tmp_path: Path) -> None:
    (tmp_path / "places.csv").write_text("code\nsecret\n")
    found = seen(LISTED, tmp_path)
    (fault,) = found["problems"]
    assert fault["kind"] == "not public" and fault["line"] == 2
    assert fault["place"] == ["schema", "geo", "categorical", "file"]
    assert "secret" not in json.dumps(found)
    found = seen(LISTED, tmp_path, ("places.csv",))
    assert found["problems"] == [] and found["schema"][0]["labels"] == ["secret"]


def test_files_outside_are_not_read_whatever_they_are_called(tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    (tmp_path / "places.csv").write_text("code\nsecret\n")
    (folder / "linked.csv").symlink_to(tmp_path / "places.csv")
    for name in ("../places.csv", str(tmp_path / "places.csv"), "linked.csv"):
        text = LISTED.replace("places.csv", name)
        found = seen(text, folder, (name,))
        assert "outside the folder" in found["problems"][0]["message"]
        assert "secret" not in json.dumps(found)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_no_code_list_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "places.csv")
    (tmp_path / "folder.csv").mkdir()
    with served(tmp_path) as page:
        for name in ("places.csv", "folder.csv"):
            text = LISTED.replace("places.csv", name)
            (fault,) = page.post("/api/read", text=text, public=[name])["problems"]
            assert "no plain file" in fault["message"] and fault["line"] == 2
            job = page.post("/api/jobs", kind="plan", text=text, public=[name])["job"]
            assert "no plain file" in page.ended(job)["error"]["message"]


def test_the_study_on_the_disk_says_which_lists_are_public(tmp_path: Path) -> None:
    (tmp_path / "places.csv").write_text("code\nKent\n")
    (tmp_path / "data.csv").write_text("code\nsecret\n")
    (tmp_path / "study.toml").write_text(LISTED)
    with served(tmp_path, "study.toml") as page:
        assert page.post("/api/read", text=LISTED)["problems"] == []
        text = LISTED.replace("places.csv", "data.csv")
        assert page.post("/api/read", text=text)["problems"][0]["kind"] == "not public"
        assert page.post("/api/read", text=text, public=["data.csv"])["problems"] == []
        assert (
            page.ended(page.post("/api/jobs", kind="plan", text=text)["job"])["state"] == "failed"
        )


def test_saving_a_study_calls_no_list_public(tmp_path: Path) -> None:
    (tmp_path / "places.csv").write_text("code\nKent\n")
    (tmp_path / "data.csv").write_text("code\nsecret\n")
    (tmp_path / "study.toml").write_text(LISTED)
    text = LISTED.replace("places.csv", "data.csv")
    with served(tmp_path, "study.toml") as page:
        digest = page.json("GET", "/api/start")["file"]["digest"]
        page.post("/api/save", name="study.toml", text=text, digest=digest)
        found = page.post("/api/read", text=text)
        assert found["problems"][0]["kind"] == "not public" and "secret" not in json.dumps(found)
        assert page.post("/api/read", text=LISTED)["problems"] == []


def test_an_edit_comes_back_as_a_view(page: Page) -> None:
    design = page.post("/api/read", text=WAGES)["design"]
    design["title"] = 'Löhne "2005" <script>'
    found = page.post("/api/edit", text=WAGES, design=design)
    assert found["title"] == design["title"] and found["problems"] == []
    assert found["text"].count("\n") == WAGES.count("\n")
    status, error = page.refused("/api/edit", text=WAGES, design={"schema": {"a": None}})
    assert status == 422 and error["place"] == ["schema", "a"]


def test_what_the_page_begins_with(page: Page) -> None:
    start = page.json("GET", "/api/start")
    assert start["file"] is None and start["name"] == "study.toml"
    assert start["folder"] == str(page.studio.folder)
    names = [each["name"] for each in start["examples"]]
    assert names == ["wages", "first"] and "wages" in EXAMPLES
    for each in start["examples"]:
        assert page.post("/api/read", text=each["text"])["problems"] == []


def test_hostile_labels_come_back_as_they_are(page: Page) -> None:
    labels = ["<script>alert(1)</script>", "\u202eabc", "a\"b'c", "&amp;", "\u2028"]
    design = {"schema": {"<b>": {"categorical": labels}}, "tables": [{"query": ["<b>"]}]}
    found = page.post("/api/edit", text="", design=design)
    assert found["schema"][0]["labels"] == labels and found["schema"][0]["name"] == "<b>"
