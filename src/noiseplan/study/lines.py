"""The line of every key and value of a TOML text.

`tomllib` reads TOML but forgets where things stood. This reader remembers only that. It is given
text that `tomllib` has accepted, so it checks nothing, and it runs only when there is something to
complain about: a study without faults never pays for it.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

# Where a value stands: keys of tables, and positions in arrays from 0.
Place = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|' r"'''.*?'{3,5}|" r'"(?:[^"\\\n]|\\.)*"|' r"'[^'\n]*'",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]+")


class Statement(NamedTuple):
    """A header, or a key with its value, and where it begins and ends in the text."""

    place: Place  # of the table or the value
    header: bool
    start: int
    value: int  # where the value begins; of a header, its start
    end: int


def statements_of(text: str) -> list[Statement]:
    """Every header and every pair outside brackets, in order; comments stand between them.

    Examples
    --------
    >>> text = "[a]  # first\\nb.c = [1]\\n"
    >>> for each in statements_of(text):
    ...     print(each.place, repr(text[each.start : each.end]))
    ('a',) '[a]'
    ('a', 'b', 'c') 'b.c = [1]'
    """
    reader = _Reader(text)
    reader.document()
    return reader.statements


def lines_of(text: str) -> dict[Place, int]:
    """The first line (from 1) that mentions each key, table and array element.

    Examples
    --------
    >>> lines_of("a.b = 1\\n[[c]]\\nd = [1,\\n 2]")[("c", 0, "d", 1)]
    4
    """
    reader = _Reader(text)
    reader.document()
    return reader.lines


@dataclass
class _Reader:
    text: str
    at: int = 0
    lines: dict[Place, int] = field(default_factory=dict)
    tables: dict[Place, int] = field(default_factory=dict)  # arrays of tables and their lengths
    starts: list[int] = field(default_factory=list)  # where each line begins
    statements: list[Statement] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.starts = [0, *(match.end() for match in re.finditer("\n", self.text))]

    def document(self) -> None:
        here: Place = ()
        self.blank()
        while self.at < len(self.text):
            start = self.at
            if self.text.startswith("[", start):
                here = self.header()
                self.statements.append(Statement(here, True, start, start, self.at))
            else:
                place, value = self.pair(here)
                end = value + len(self.text[value : self.at].rstrip(" \t\r"))
                self.statements.append(Statement(place, False, start, value, end))
            self.blank()

    def header(self) -> Place:
        """`[a.b]` or `[[a.b]]`: where the keys below it belong."""
        double = self.text.startswith("[[", self.at)
        line = self.line()
        self.at += 1 + double
        keys = self.keys()
        self.at += 1 + double  # the closing brackets
        here: Place = ()
        for number, key in enumerate(keys, 1):
            here = (*here, key)
            self.lines.setdefault(here, line)
            last = number == len(keys)
            if double and last:
                self.tables[here] = self.tables.get(here, 0) + 1
            if here in self.tables:  # a name for an array of tables means its newest table
                here = (*here, self.tables[here] - 1)
                self.lines.setdefault(here, line)
        self.lines[here] = line if double or here not in self.lines else self.lines[here]
        return here

    def pair(self, here: Place) -> tuple[Place, int]:
        """`key = value`: the place of the value, and where it begins."""
        line = self.line()
        for key in self.keys():
            here = (*here, key)
            self.lines.setdefault(here, line)
        self.at += 1  # the equals sign
        self.blank()
        start = self.at
        self.value(here)
        return here, start

    def keys(self) -> list[str]:
        """The parts of a dotted key."""
        found = []
        while True:
            self.blank()
            quoted = _STRING.match(self.text, self.at)
            part = quoted or _BARE_KEY.match(self.text, self.at)
            assert part is not None  # tomllib has read this text
            written = part.group()
            found.append(tomllib.loads(f"key = {written}")["key"] if quoted else written)
            self.at = part.end()
            self.blank()
            if not self.text.startswith(".", self.at):
                return found
            self.at += 1

    def value(self, here: Place) -> None:
        first = self.text[self.at]
        if first in "\"'":
            string = _STRING.match(self.text, self.at)
            assert string is not None
            self.at = string.end()
        elif first == "[":
            self.members(here, "]")
        elif first == "{":
            self.members(here, "}")
        else:
            scalar = _SCALAR.match(self.text, self.at)
            assert scalar is not None
            self.at = scalar.end()

    def members(self, here: Place, closing: str) -> None:
        """What stands between brackets: values, or pairs between braces."""
        self.at += 1
        count = 0
        while True:
            self.blank()
            if self.text[self.at] == closing:
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
            elif closing == "}":
                self.pair(here)
            else:
                self.lines[(*here, count)] = self.line()
                self.value((*here, count))
                count += 1

    def blank(self) -> None:
        """Skip spaces, line ends and comments."""
        self.at = _BLANK.match(self.text, self.at).end()  # type: ignore[union-attr]

    def line(self) -> int:
        return bisect_right(self.starts, self.at)
