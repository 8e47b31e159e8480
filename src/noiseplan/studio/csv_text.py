"""Tables that a page sends as text: CSV with a header, separated as its first line is."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from noiseplan.errors import DataError

SEPARATORS: Final = (",", ";", "\t", "|")
MOST_ROWS: Final = 2_000_000


@dataclass(frozen=True)
class TextTable:
    """Columns of text by their names."""

    columns: dict[str, list[str]]
    rows: int


def read_csv(name: str, content: str) -> TextTable:
    """The columns of a CSV file; refuses what has no header, or rows of another length.

    Examples
    --------
    >>> read_csv("a.csv", "age;n\\n1;20\\n2;30\\n").columns
    {'age': ['1', '2'], 'n': ['20', '30']}
    """
    content = content.removeprefix("\ufeff")
    if "\0" in content:
        raise DataError(f"{name}: no text; save it as CSV in UTF-8")
    rows = csv.reader(io.StringIO(content, newline=""), delimiter=_separator(name, content))
    try:
        header = [cell.strip() for cell in next(rows, [])]
        _require_header(name, header)
        table = [row for row in islice(rows, MOST_ROWS + 1) if row]
    except csv.Error as error:
        raise DataError(f"{name}, line {rows.line_num}: not CSV: {error}") from None
    if len(table) > MOST_ROWS:
        raise DataError(f"{name}: more than {MOST_ROWS:,} rows; take a summary of it")
    for line, row in enumerate(table, 2):
        if len(row) != len(header):
            raise DataError(
                f"{name}, row {line}: {len(row)} cells, and the header has {len(header)}"
            )
    columns = {each: [row[at].strip() for row in table] for at, each in enumerate(header)}
    return TextTable(columns, len(table))


def _separator(name: str, content: str) -> str:
    """The mark that parts the first line into the most cells."""
    first = content.split("\n", 1)[0]
    try:
        cells = {mark: len(next(csv.reader([first], delimiter=mark), [])) for mark in SEPARATORS}
    except csv.Error as error:
        raise DataError(f"{name}, line 1: not CSV: {error}") from None
    return max(SEPARATORS, key=cells.__getitem__)


def _require_header(name: str, header: Sequence[str]) -> None:
    if not header or not all(header):
        raise DataError(f"{name}: the first line must name every column")
    twice = [each for at, each in enumerate(header) if each in header[:at]]
    if twice:
        raise DataError(f"{name}: two columns are called {twice[0]!r}")


def number_of(text: str) -> float | None:
    """A finite number, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None
