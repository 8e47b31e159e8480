"""The line of every key and value: against what tomllib reads, for texts written in every way."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depth import examples
from noiseplan.study.lines import Place, lines_of

WRITTEN = '''\
# a comment with [brackets], "quotes" and = signs
title = "a # is no comment here"
dotted.key . "with space" = 1

[schema]  # a comment
age = { ordinal = { from = 0, to = 99 } }
"odd = name" = { categorical = [
    "F",  # the first
    'M',
], other = """
two "lines"
here""" }
[schema.nested]
when = 1979-05-27 07:32:00
[[tables]]
k = 1
[[tables]]
[tables.factors]
age = "prefix"
[[tables.inner]]
x = 1
[[tables.inner]]
x = [[1, 2], [
  3]]
[last]
text = \'\'\'
[not a table]
\'\'\'
after = true
'''

PLACES = {
    ("title",): 2,
    ("dotted",): 3,
    ("dotted", "key", "with space"): 3,
    ("schema",): 5,
    ("schema", "age", "ordinal", "to"): 6,
    ("schema", "odd = name"): 7,
    ("schema", "odd = name", "categorical", 0): 8,
    ("schema", "odd = name", "categorical", 1): 9,
    ("schema", "odd = name", "other"): 10,
    ("schema", "nested", "when"): 14,
    ("tables", 0): 15,
    ("tables", 0, "k"): 16,
    ("tables", 1): 17,
    ("tables", 1, "factors"): 18,
    ("tables", 1, "factors", "age"): 19,
    ("tables", 1, "inner", 0, "x"): 21,
    ("tables", 1, "inner", 1, "x"): 23,
    ("tables", 1, "inner", 1, "x", 1, 0): 24,
    ("last", "text"): 26,
    ("last", "after"): 29,
}


@pytest.mark.parametrize(("place", "line"), PLACES.items(), ids=str)
def test_places_of_a_text_with_everything(place: Place, line: int) -> None:
    assert lines_of(WRITTEN)[place] == line


def places(value: Any, here: Place = ()) -> set[Place]:
    """Every place in what tomllib read."""
    found = {here} if here else set()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    else:
        children = ()
    for key, child in children:
        found |= places(child, (*here, key))
    return found


def test_every_place_has_a_line_and_nothing_else_has() -> None:
    assert set(lines_of(WRITTEN)) == places(tomllib.loads(WRITTEN))


# ---------------------------------------------------------------------- any text

KEYS = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,5}", fullmatch=True),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=5),
)
TRICKY = ["]", "}", "#", '"', "'", "a = b", "[x]", "\\", "\n", ",", "'''", '"""', ""]
SCALARS = st.one_of(
    st.integers(-9, 9), st.booleans(), st.sampled_from(TRICKY), st.floats(-1, 1), st.dates()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
ROOTS = st.dictionaries(KEYS, VALUES, max_size=4)


class Writer:
    """Writes a document in a way that chance decides, and notes the line of every place."""

    def __init__(self, draw: Any) -> None:
        self.draw, self.text = draw, ""
        self.noted: dict[Place, int] = {}

    def chance(self) -> bool:
        return bool(self.draw(st.booleans()))

    def note(self, place: Place) -> None:
        self.noted.setdefault(place, self.text.count("\n") + 1)

    def key(self, key: str) -> None:
        bare = key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key)
        self.text += key if bare and self.chance() else json.dumps(key, ensure_ascii=False)

    def gap(self) -> None:
        if self.chance():
            self.text += self.draw(st.sampled_from([" ", "\n", " # ] } \"'\n", "\t"]))

    def value(self, value: Any, place: Place) -> None:
        if isinstance(value, list):
            self.text += "["
            for i, item in enumerate(value):
                self.gap()
                self.note((*place, i))
                self.value(item, (*place, i))
                self.gap()
                self.text += "," if i + 1 < len(value) or self.chance() else ""
            self.gap()
            self.text += "]"
        elif isinstance(value, dict):
            self.text += "{ "
            for i, (key, item) in enumerate(value.items()):
                self.text += ", " if i else ""
                self.note((*place, key))
                self.key(key)
                self.text += " = "
                self.value(item, (*place, key))
            self.text += " }"
        elif isinstance(value, str):
            long = "\n" in value or self.chance()
            escaped = json.dumps(value, ensure_ascii=False)
            self.text += f'"""{escaped[1:-1]}"""' if long else escaped
        elif isinstance(value, bool):
            self.text += str(value).lower()
        else:
            self.text += str(value)

    def document(self, root: dict[str, Any], here: Place = ()) -> None:
        """Plain keys first, then tables and arrays of tables under headers."""
        later = {}
        for key, value in root.items():
            tables = isinstance(value, list) and value and all(isinstance(v, dict) for v in value)
            if (isinstance(value, dict) or tables) and self.chance():
                later[key] = value
                continue
            self.note((*here, key))
            self.key(key)
            self.text += " = "
            self.value(value, (*here, key))
            self.text += "\n" if self.chance() else "  # a = [\n\n"
        for key, value in later.items():
            for i, table in enumerate(value if isinstance(value, list) else [value]):
                many = isinstance(value, list)
                place = (*here, key, i) if many else (*here, key)
                self.note((*here, key))
                self.note(place)
                self.text += "[[" if many else "["
                names = [part for part in place if isinstance(part, str)]
                for j, name in enumerate(names):
                    self.text += "." if j else ""
                    self.key(name)
                self.text += "]]\n" if many else "]\n"
                self.document(table, place)


@examples(150)
@given(root=ROOTS, data=st.data())
def test_lines_of_any_text(root: dict[str, Any], data: st.DataObject) -> None:
    writer = Writer(data.draw)
    writer.document(root)
    read = tomllib.loads(writer.text)
    assert read == root  # the writer writes what it was given
    assert lines_of(writer.text) == writer.noted
