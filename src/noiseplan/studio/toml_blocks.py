"""The text of a TOML file in blocks that can be moved, changed and taken out one by one.

A comment right above a header or a key, without an empty line between, belongs to it; what stands
further above belongs to the place and stays there. All blocks together are the text again, sign by
sign.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from noiseplan.study.lines import Place, Statement, statements_of


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
