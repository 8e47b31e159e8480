"""Text of others, made safe where it is shown: on a terminal, in a spreadsheet.

Names and labels come from whoever wrote a schema, a study or a saved release. Printed as they are,
they could rewrite the reader's screen; opened in a spreadsheet, they could be run as formulas.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Iterable
from typing import Final, TextIO

# What a spreadsheet may take for the start of a formula, after apostrophes that are there already.
_FORMULA: Final = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def visible(text: str) -> str:
    """The text with every character that has no shape of its own written out, line ends apart.

    These are control characters, among them those that start a terminal's commands, and marks that
    reverse the direction of writing.

    Examples
    --------
    >>> print(visible("a\\x1b[2Jb\\u202ec"))
    a\\x1b[2Jb\\u202ec
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if _has_shape(c) else repr(c)[1:-1] for c in text)


def visible_name(text: str) -> str:
    """The same for a name or a label, which stays on its line.

    Examples
    --------
    >>> print(visible_name("a\\nb"))
    a\\nb
    """
    return visible(text).replace("\n", "\\n")


def visible_json(text: str) -> str:
    """The same for JSON, as JSON writes such characters: whoever reads it gets them back.

    Examples
    --------
    >>> print(visible_json('"\\u202e"'))
    "\\u202e"
    """
    return "".join(c if _has_shape(c) else _json_escape(c) for c in text)


def _has_shape(character: str) -> bool:
    blank = character == "\n" or unicodedata.category(character) == "Zs"
    return blank or character.isprintable()


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(rf"\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def unwritable(text: str) -> str:
    """The first sign of a text that files cannot hold, as messages show it; empty if there is none.

    Half a character (a lone surrogate) is not UTF-8, and NUL ends a text for many programs.

    Examples
    --------
    >>> unwritable("a\\ud800"), unwritable("é")
    ("'\\\\ud800'", '')
    """
    return next((repr(c) for c in text if c == "\0" or unicodedata.category(c) == "Cs"), "")


def cell(value: object) -> object:
    """A value for CSV: an apostrophe before text that a spreadsheet would take for a formula.

    Numbers stay as they are, and so does text that is one. :func:`from_cell` undoes it.

    Examples
    --------
    >>> cell("=1+1"), cell("-5"), cell("north"), cell(-5), cell("'=1")
    ("'=1+1", '-5', 'north', -5, "''=1")
    """
    if not isinstance(value, str) or not _FORMULA.match(value) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def from_cell(text: str) -> str:
    """The text that :func:`cell` was given.

    Examples
    --------
    >>> from_cell("'=1+1"), from_cell("''=1"), from_cell("'twas")
    ('=1+1', "'=1", "'twas")
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def write_csv_rows(
    file: TextIO, rows: Iterable[Iterable[object]], line_end: str = "\r\n", *, safe: bool = False
) -> None:
    """Write CSV, the only way in which this package does: no cell of it is a formula.

    `safe` rows are numbers, and labels that went through :func:`cell` once, not in every row.
    """
    lines = rows if safe else ([cell(value) for value in row] for row in rows)
    csv.writer(file, lineterminator=line_end).writerows(lines)
