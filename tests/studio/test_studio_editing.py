"""Edits of a study's text: the design comes out as it went in, and nothing else changes."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime, time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depth import examples
from noiseplan.data import example_study
from noiseplan.studio.editing import edited, written
from noiseplan.studio.toml_text import blocks_of, from_json, same, to_json
from noiseplan.study import StudyError

WAGES = example_study("wages").read_text(encoding="utf-8")
TEXTS = {name: example_study(name).read_text(encoding="utf-8") for name in ("wages", "census")}
COMMENTED = """\
# The whole file.
title = "One"  # beside the title

# Loose, about the schema.

# Right above the schema.
[schema]
# Above all attributes.
age    = { ordinal = { from = 0, to = 99 } }  # years
# Above sex.
sex    = { categorical = ["F", "M"] }

# A loose comment between.

region = { categorical = [
  "north",  # cold
  "south",  # warm
  # the rest
  "east",
] }

# Above all tables.
[[tables]]
query = "age"  # the first

# Above the second.
[[tables]]
query  = "age, sex"
weight = 2.0  # twice
[tables.factors]
age = "prefix"  # up to

# Loose, before the third.

[[tables]]
up_to = 1

# Above the budget.
[budget]
zcdp = 0.5  # agreed

# The end.
"""


def design_of(text: str) -> dict[str, Any]:
    """As a page has it: through JSON."""
    return json.loads(json.dumps(to_json(tomllib.loads(text))))


def after(text: str, change: Callable[[dict[str, Any]], object]) -> str:
    """The text after a change of the design, which it must say."""
    design = design_of(text)
    change(design)
    made = edited(text, design)
    found = tomllib.loads(made)
    assert {key: found[key] for key in design} == from_json(design)
    assert found.keys() == design.keys()
    for key in ("schema", "targets"):
        assert list(found.get(key, {})) == list(design.get(key, {}))
    return made


def differing(one: str, other: str) -> tuple[list[str], list[str]]:
    """The lines that only the one or only the other has, but empty ones."""
    first, second = (Counter(filter(None, text.split("\n"))) for text in (one, other))
    return list((first - second).elements()), list((second - first).elements())


@pytest.mark.parametrize("text", [*TEXTS.values(), COMMENTED, "", "# only a comment\n", "a = 1"])
def test_blocks_are_the_text_again(text: str) -> None:
    assert blocks_of(text).text() == text + "\n" * bool(text and not text.endswith("\n"))
    assert edited(text, design_of(text)) == text


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], list[str], list[str]]] = {
    "title": (
        lambda d: d.update(title="Two"),
        ['title = "One"  # beside the title'],
        ['title = "Two"  # beside the title'],
    ),
    "amount": (
        lambda d: d.update(budget={"zcdp": 1}),
        ["zcdp = 0.5  # agreed"],
        ["zcdp = 1.0  # agreed"],
    ),
    "currency": (
        lambda d: d.update(budget={"pure_dp": 2}),
        ["zcdp = 0.5  # agreed"],
        ["pure_dp = 2.0  # agreed"],
    ),
    "rename": (
        lambda d: d.update(
            schema={
                ("years" if name == "age" else name): kind for name, kind in d["schema"].items()
            }
        ),
        ["age    = { ordinal = { from = 0, to = 99 } }  # years"],
        ["years  = { ordinal = { from = 0, to = 99 } }  # years"],
    ),
    "values": (
        lambda d: d["schema"]["sex"].update(categorical=["F", "M", "X"]),
        ['sex    = { categorical = ["F", "M"] }'],
        ['sex    = { categorical = ["F", "M", "X"] }'],
    ),
    "one value of a long list": (
        lambda d: d["schema"]["region"]["categorical"].__setitem__(1, "South"),
        ['  "south",  # warm'],
        ['  "South",  # warm'],
    ),
    "new attribute": (
        lambda d: d["schema"].update({"is it": {"categorical": [True, False]}}),
        [],
        ['"is it" = { categorical = [true, false] }'],
    ),
    "attribute gone": (
        lambda d: d["schema"].pop("sex"),
        ["# Above sex.", 'sex    = { categorical = ["F", "M"] }'],
        [],
    ),
    "first attribute gone": (
        lambda d: d["schema"].pop("age"),
        ["age    = { ordinal = { from = 0, to = 99 } }  # years"],
        [],
    ),
    "first table gone": (
        lambda d: d["tables"].pop(0),
        ["[[tables]]", 'query = "age"  # the first'],
        [],
    ),
    "second table gone": (
        lambda d: d["tables"].pop(1),
        [
            "# Above the second.",
            "[[tables]]",
            'query  = "age, sex"',
            "weight = 2.0  # twice",
            "[tables.factors]",
            'age = "prefix"  # up to',
        ],
        [],
    ),
    "last table gone": (
        lambda d: d["tables"].pop(),
        ["[[tables]]", "up_to = 1"],
        [],
    ),
    "new table": (
        lambda d: d["tables"].append({"query": "sex"}),
        [],
        ["[[tables]]", 'query = "sex"'],
    ),
    "new first table": (
        lambda d: d["tables"].insert(0, {"query": "sex"}),
        [],
        ["[[tables]]", 'query = "sex"'],
    ),
    "weight": (lambda d: d["tables"][0].update(weight=3), [], ["weight = 3"]),
    "no title": (lambda d: d.pop("title"), ['title = "One"  # beside the title'], []),
    "no budget": (
        lambda d: d.pop("budget"),
        ["# Above the budget.", "[budget]", "zcdp = 0.5  # agreed"],
        [],
    ),
    "settings": (
        lambda d: d.update(plan={"objective": "worst"}),
        [],
        ["[plan]", 'objective = "worst"'],
    ),
    "predicates": (
        lambda d: d.update(predicates=[{"where": "age < 18"}]),
        [],
        ["[[predicates]]", 'where = "age < 18"'],
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_edit_changes_its_lines_and_no_others(change: str) -> None:
    apply, gone, come = CHANGES[change]
    made = after(COMMENTED, apply)
    lost, found = differing(COMMENTED, made)
    assert sorted(lost) == sorted(gone)
    assert sorted(found) == sorted(come)


def test_moved_attributes_take_their_comments_along() -> None:
    def turn(design: dict[str, Any]) -> None:
        design["schema"] = dict(reversed(design["schema"].items()))

    made = after(COMMENTED, turn)
    assert differing(COMMENTED, made) == ([], [])
    assert made.index("# Above sex.\nsex ") < made.index("age ")
    assert list(tomllib.loads(made)["schema"]) == ["region", "sex", "age"]


def test_moved_tables_take_their_comments_along() -> None:
    made = after(COMMENTED, lambda design: design["tables"].reverse())
    assert differing(COMMENTED, made) == ([], [])
    assert "# Above all tables.\n[[tables]]\nup_to = 1\n" in made
    assert '# Above the second.\n[[tables]]\nquery  = "age, sex"' in made


def test_an_entry_under_two_headers_is_changed_line_by_line() -> None:
    made = after(COMMENTED, lambda design: design["tables"][1]["factors"].update(age="ranges"))
    assert differing(COMMENTED, made) == (['age = "prefix"  # up to'], ['age = "ranges"  # up to'])
    made = after(COMMENTED, lambda design: design["tables"][1].pop("factors"))
    assert differing(COMMENTED, made)[1] == []
    made = after(COMMENTED, lambda design: design["tables"][1].update(factors={"sex": "prefix"}))
    assert "# twice" in made
    made = after(COMMENTED, lambda design: design["tables"][1].update(factors=1))
    assert "# Above the second.\n[[tables]]" in made and "# the first" in made


@pytest.mark.parametrize(
    "text",
    [
        'budget.zcdp = 0.5\ntitle = "x"\n',
        'budget = { zcdp = 0.5 }\ntitle = "x"\n',
        'title = "x"\n[budget]\nzcdp = 0.5\n',
        'title = "x"\n[budget.approx_dp]  # two\nepsilon = 1.0\ndelta = 1e-9\n',
    ],
)
def test_budgets_are_changed_however_they_are_written(text: str) -> None:
    made = after(text, lambda design: design.update(budget={"zcdp": 0.25}))
    assert 'title = "x"' in made
    assert tomllib.loads(made)["budget"] == {"zcdp": 0.25}


@pytest.mark.parametrize(
    "text",
    [
        '[schema.age]  # y\nordinal = { from = 0, to = 9 }\n[schema.sex]\ncategorical = ["F"]\n',
        '[schema]\nage.ordinal = { from = 0, to = 9 }\nage.clip = true\nsex.categorical = ["F"]\n',
        'schema = { age = { ordinal = { from = 0, to = 9 } }, sex = { categorical = ["F"] } }\n',
        "[schema]\nage = { ordinal = { from = 0, to = 9 } }\n[schema.sex]\ncategorical = ['F']\n",
    ],
)
def test_schemas_are_changed_however_they_are_written(text: str) -> None:
    after(text, lambda design: design["schema"].pop("age"))
    after(text, lambda design: design["schema"]["sex"].update(categorical=["F", "M"]))
    after(text, lambda design: design["schema"].update(region={"categorical": ["N"]}))
    after(
        text, lambda d: d.update(schema={"region": d["schema"]["sex"], "age": d["schema"]["age"]})
    )


def test_tables_between_other_sections_are_followed() -> None:
    text = '[[tables]]\nquery = "a"\n[plan]\nobjective = "worst"\n[[tables]]\nquery = "b"  # b\n'
    made = after(text, lambda design: design["tables"].append({"query": "c"}))
    assert "# b" in made
    made = after(text, lambda design: design["tables"].pop(0))
    assert "# b" in made


def test_a_page_may_turn_numbers_that_are_keys_around() -> None:
    text = '[schema]\nb = { categorical = ["x"] }\n10 = { ordinal = [1] }\n2 = { ordinal = [1] }\n'
    design = design_of(text)
    design["schema"] = {
        key: design["schema"][key] for key in ("2", "10", "b")
    }  # as JavaScript has it
    assert edited(text, design) == text
    design["schema"]["c"] = {"categorical": ["y"]}
    assert list(tomllib.loads(edited(text, design))["schema"]) == ["b", "10", "2", "c"]


def test_line_ends_of_windows_and_a_missing_last_one() -> None:
    text = COMMENTED.replace("\n", "\r\n").removesuffix("\r\n")
    assert after(text, lambda d: d.update(title="Two")) == after(
        COMMENTED, lambda d: d.update(title="Two")
    )


def test_what_is_not_toml_is_not_overwritten() -> None:
    with pytest.raises(StudyError, match="not TOML"):
        edited("title = ", {"title": "x"})
    with pytest.raises(StudyError, match=r"null") as error:
        edited("", {"schema": {"age": None}})
    assert error.value.place == ("schema", "age")
    with pytest.raises(StudyError, match="half of a character"):
        edited("", {"title": "\ud800"})
    with pytest.raises(StudyError, match="no date"):
        edited("", {"a": {"$date": "2020-13-01"}})


def test_values_of_toml_travel_as_json() -> None:
    text = (
        "a = 2020-01-31\nb = 2020-01-31T10:00:00\nc = inf\nd = -inf\ne = 10:30:00\n"
        "f = 9007199254740993\ng = 2020-01-31T10:00:00Z\nh = nan\n"
    )
    values = tomllib.loads(text)
    assert same(from_json(json.loads(json.dumps(to_json(values), allow_nan=False))), values)
    assert edited(text, design_of(text)) == text
    assert values["f"] == 2**53 + 1
    assert to_json(values["a"]) == {"$date": "2020-01-31"}
    assert to_json(values["b"]) == {"$datetime": "2020-01-31T10:00:00"}


def test_what_is_the_same() -> None:
    assert same({"a": [1, 2.0]}, {"a": [1.0, 2]})
    assert not same({"a": 1}, {"a": True})
    assert not same({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert not same([1], [1, 2])
    assert not same("1", 1)


# ---------------------------------------------------------------------- any design at all

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = st.one_of(
    TEXT,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.dates(),
    st.datetimes().map(lambda moment: moment.replace(microsecond=0)),
    st.times().map(lambda moment: moment.replace(microsecond=0)),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(["title", "schema", "tables", "predicates", "budget", "plan", "x y", "ä"])
DESIGNS = st.dictionaries(
    KEYS,
    st.one_of(VALUES, st.lists(st.dictionaries(TEXT, VALUES, max_size=3), min_size=1, max_size=3)),
    max_size=5,
)


@examples(150)
@given(DESIGNS, DESIGNS)
def test_any_design_is_written_and_any_other_made_of_it(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    text = written(one)
    assert tomllib.loads(text) == one
    made = edited(text, to_json(other))
    assert tomllib.loads(made) == other


def _lines(text: str) -> list[str]:
    return [line for line in re.split("\n", text) if line.strip().startswith("#")]


@examples(100)
@given(st.data())
def test_random_edits_of_a_study_keep_its_other_lines(data: st.DataObject) -> None:
    text, design = COMMENTED, design_of(COMMENTED)
    for _ in range(data.draw(st.integers(1, 4))):
        before = copy.deepcopy(design)
        _random_edit(data, design)
        made = edited(text, design)
        assert tomllib.loads(made) == from_json(design)
        assert list(tomllib.loads(made)["schema"]) == list(design["schema"])
        for name, entry in design["schema"].items():
            if before["schema"].get(name) == entry:  # the line is still there
                own = [line for line in text.split("\n") if line.startswith(f"{name} ")]
                assert all(line in made.split("\n") for line in own)
        for loose in (
            "# Loose, about the schema.",
            "# A loose comment between.",
            "# The whole file.",
        ):
            assert loose in made
        text = made


def _random_edit(data: st.DataObject, design: dict[str, Any]) -> None:
    what = data.draw(st.sampled_from(["add", "drop", "order", "value", "table", "weight", "turn"]))
    names = list(design["schema"])
    some = data.draw(st.sampled_from(names))
    if what == "add":
        design["schema"][f"n{len(names)}"] = {"categorical": data.draw(st.lists(TEXT, max_size=3))}
    elif what == "drop" and len(names) > 1:
        del design["schema"][some]
    elif what == "order":
        order = data.draw(st.permutations(names))
        design["schema"] = {name: design["schema"][name] for name in order}
    elif what == "value":
        design["schema"][some] = {"categorical": [data.draw(TEXT), "z"]}
    elif what == "table":
        at = data.draw(st.integers(0, len(design["tables"])))
        design["tables"].insert(at, {"query": some, "weight": at + 1})
    elif what == "weight":
        data.draw(st.sampled_from(design["tables"]))["weight"] = data.draw(st.integers(1, 9))
    else:
        design["tables"].reverse()


def test_dates_and_times_are_written_as_toml() -> None:
    design = {"a": date(2020, 1, 31), "b": datetime(2020, 1, 31, 10), "c": time(10, 30)}
    assert written(design) == "a = 2020-01-31\nb = 2020-01-31T10:00:00\nc = 10:30:00\n"
