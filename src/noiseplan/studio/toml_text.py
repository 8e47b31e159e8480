"""Values as TOML is written by hand: tables in braces, long lists over several lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Any, Final

WIDTH: Final = 96
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
# Written as they are by JSON, and not allowed so in TOML.
_HIDDEN: Final = re.compile("[\x7f]")
_EXPONENT: Final = re.compile(r"e\+?(-?)0*(?=\d)")


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
