"""TOML: values as JSON and back, values as people write them, and the text of a file in blocks.

Dates, times, infinities and large numbers keep what they are.

A page's own numbers are doubles: 1.0 comes back as 1, and whole numbers beyond 2⁵³ would change.
So numbers are compared by value, and large ones travel as text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any, Final

from noiseplan.study import StudyError
from noiseplan.study.lines import Place, Statement, statements_of

EXACT_IN_A_PAGE: Final = 2**53
_READERS: Final = {
    "$date": date.fromisoformat,
    "$datetime": datetime.fromisoformat,
    "$time": time.fromisoformat,
    "$float": float,
    "$int": int,
}

WIDTH: Final = 96
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
# Written as they are by JSON, and not allowed so in TOML.
_HIDDEN: Final = re.compile("[\x7f]")
_EXPONENT: Final = re.compile(r"e\+?(-?)0*(?=\d)")


def to_json(value: object) -> Any:
    """A value that `tomllib` reads, or a label, for a page.

    Examples
    --------
    >>> to_json({"days": [date(2020, 1, 31)], "top": float("inf")})
    {'days': [{'$date': '2020-01-31'}], 'top': {'$float': 'inf'}}
    """
    if isinstance(value, Mapping):
        return {str(key): to_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    if isinstance(value, datetime):
        return {"$datetime": value.isoformat()}
    if isinstance(value, date):
        return {"$date": value.isoformat()}
    if isinstance(value, time):
        return {"$time": value.isoformat()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if isinstance(value, int) and abs(value) > EXACT_IN_A_PAGE:
        return {"$int": str(value)}
    return value


def from_json(value: object, place: tuple[str | int, ...] = ()) -> Any:
    """What a page sends, as TOML has it; refuses what TOML cannot say."""
    if isinstance(value, dict):
        if len(value) == 1 and (kind := next(iter(value))) in _READERS:
            return _special(kind, value[kind], place)
        return {key: from_json(each, (*place, key)) for key, each in value.items()}
    if isinstance(value, list):
        return [from_json(each, (*place, number)) for number, each in enumerate(value)]
    if value is None:
        raise _refused("a value is missing (null); leave the key out instead", place)
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _refused("the text holds half of a character", place) from None
    return value


def _special(kind: str, written: object, place: tuple[str | int, ...]) -> Any:
    try:
        return _READERS[kind](str(written))  # type: ignore[operator]
    except ValueError:
        raise _refused(f"{written!r} is no {kind[1:]}", place) from None


def _refused(message: str, place: tuple[str | int, ...]) -> StudyError:
    return StudyError(message, place=place)


def same(one: object, other: object) -> bool:
    """Whether two values are one in TOML, also where a page has turned 1.0 into 1.

    The order of keys counts: it is the order of attributes and of groups.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    if numbers and not isinstance(one, bool) and not isinstance(other, bool):
        return one == other or (one != one and other != other)  # nan is nan here
    return type(one) is type(other) and one == other


def canonical(value: object) -> str:
    """A text that is equal for values that are the `same`, to find them in lists.

    Examples
    --------
    >>> canonical([1.0, True]) == canonical([1, True]) != canonical([1, 1])
    True
    """
    return json.dumps(_whole(to_json(value)))


def _whole(value: Any) -> Any:
    """Numbers without a fraction as whole ones."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


# ---------------------------------------------------------------------- as written by hand


def key_text(key: str) -> str:
    """A key, in quotes where it needs them."""
    return key if _BARE.fullmatch(key) else string_text(key)


def string_text(text: str) -> str:
    """A text in quotes."""
    written = json.dumps(text, ensure_ascii=False)
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", written)


def value_text(value: Any, before: int = 0) -> str:
    """Any value; `before` is how much of the line is taken.

    Examples
    --------
    >>> print(value_text({"ordinal": {"from": 0, "to": 99}, "missing": "not stated"}))
    { ordinal = { from = 0, to = 99 }, missing = "not stated" }
    """
    if isinstance(value, dict):
        pairs = [f"{key_text(key)} = {value_text(each, before)}" for key, each in value.items()]
        return "{ " + ", ".join(pairs) + " }" if pairs else "{}"
    if isinstance(value, list):
        return _list_text([value_text(each, before) for each in value], before)
    return scalar_text(value)


def scalar_text(value: object) -> str:
    """A text, a number, a boolean, a date or a time."""
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    return _EXPONENT.sub(r"e\1", repr(value))  # inf and nan are written as TOML has them


def _list_text(items: list[str], before: int) -> str:
    line = f"[{', '.join(items)}]"
    if before + len(line) <= WIDTH or len(items) < 2:
        return line
    return "[\n" + "".join(f"  {row}\n" for row in _rows(items)) + "]"


def _rows(items: list[str]) -> Iterator[str]:
    """As many items on a line as fit."""
    row = ""
    for item in items:
        if row and len(row) + len(item) + 2 > WIDTH:
            yield row
            row = ""
        row = f"{row} {item}," if row else f"{item},"
    yield row


def section_text(name: str, value: Any) -> str:
    """A section of a study: a table under its header, tables under theirs, or one line."""
    key = key_text(name)
    if isinstance(value, dict):
        return f"[{key}]\n{body_text(value)}"
    if is_tables(value):
        return "\n".join(f"[[{key}]]\n{body_text(each)}" for each in value)
    return line_text(name, value)


def body_text(table: dict[str, Any]) -> str:
    """The lines of a table, their signs of equality below each other."""
    wide = max((len(key_text(key)) for key in table), default=0)
    return "".join(line_text(key, each, wide) for key, each in table.items())


def line_text(key: str, value: Any, wide: int = 0) -> str:
    start = f"{key_text(key):<{wide}} = "
    return f"{start}{value_text(value, len(start))}\n"


def is_tables(value: object) -> bool:
    """Whether it is written as `[[name]]`."""
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


# ---------------------------------------------------------------------- in blocks
#
# The text of a TOML file in blocks that can be moved, changed and taken out one by one.
#
# A comment right above a header or a key, without an empty line between, belongs to it; what stands
# further above belongs to the place and stays there. All blocks together are the text again, sign
# by sign.


@dataclass
class Line:
    """A key and its value, which may go over several lines of the text."""

    path: tuple[str, ...]  # below the header that it stands under
    key: str  # up to the value, the sign of equality included
    value: str
    tail: str = "\n"  # the rest of the line, with its comment
    lead: str = ""  # the comment right above
    above: str = ""  # what stands further above

    def text(self) -> str:
        return self.above + self.lead + self.key + self.value + self.tail


@dataclass
class Section:
    """A header and the lines below it; the first has none."""

    place: Place
    header: str = ""  # the whole line
    lines: list[Line] = field(default_factory=list)
    lead: str = ""
    above: str = ""
    rest: str = ""  # behind the last line, left by one that was taken out

    def text(self) -> str:
        lines = "".join(line.text() for line in self.lines)
        return self.above + self.lead + self.header + lines + self.rest


@dataclass
class Blocks:
    """A whole text."""

    sections: list[Section]
    end: str = ""

    def text(self) -> str:
        return "".join(section.text() for section in self.sections) + self.end

    def under(self, key: str) -> list[Section]:
        """The sections of one key of the whole document."""
        return [each for each in self.sections if each.place[:1] == (key,)]


def blocks_of(text: str) -> Blocks:
    """Take a text apart; it must be TOML.

    Examples
    --------
    >>> found = blocks_of("# about it\\n[a]\\nb = 1  # one\\n")
    >>> found.sections[1].lead, found.sections[1].lines[0].tail
    ('# about it\\n', '  # one\\n')
    """
    if text and not text.endswith("\n"):
        text += "\n"
    blocks = Blocks([Section(())])
    at = 0
    for each in statements_of(text):
        above, lead, indent = _gap(text[at : each.start])
        end = text.index("\n", each.end) + 1
        _add(blocks, text, each, indent, (above, lead, text[each.end : end]))
        at = end
    blocks.end = text[at:]
    return blocks


def _add(
    blocks: Blocks, text: str, each: Statement, indent: str, around: tuple[str, str, str]
) -> None:
    above, lead, tail = around
    if each.header:
        header = indent + text[each.start : each.end] + tail
        blocks.sections.append(Section(each.place, header, [], lead, above))
        return
    section = blocks.sections[-1]
    path = tuple(str(part) for part in each.place[len(section.place) :])
    key, value = indent + text[each.start : each.value], text[each.value : each.end]
    section.lines.append(Line(path, key, value, tail, lead, above))


def _gap(text: str) -> tuple[str, str, str]:
    """What stands between two statements: further above, right above, and on the same line."""
    rows = re.findall(r"[^\n]*\n|[^\n]+", text)
    indent = rows.pop() if rows and not rows[-1].endswith("\n") else ""
    first = len(rows)
    while first and rows[first - 1].strip():
        first -= 1
    return "".join(rows[:first]), "".join(rows[first:]), indent
