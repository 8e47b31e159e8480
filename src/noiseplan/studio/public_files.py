"""Declarations proposed from a file that the user calls public: its header and different values."""

from __future__ import annotations

import csv
import io
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice
from math import ceil, floor, inf, isfinite, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from noiseplan.errors import DataError
from noiseplan.studio.toml_text import to_json

if TYPE_CHECKING:
    from noiseplan.study import Study
    from noiseplan.study.nodes import Node

MOST_VALUES: Final = 1000
# Whole numbers that fill at least this share of their range are one after the other.
DENSE: Final = 0.5
BINS: Final = 10
MOST_DIGITS: Final = 20  # of 64 bits; thousands of longer numbers may have one hash

SEPARATORS: Final = (",", ";", "\t", "|")
MOST_ROWS: Final = 2_000_000


def proposals(name: str, content: str, confirmed: bool) -> dict[str, Any]:
    """Every column with its values, and what could be declared of it. Nothing of it is kept."""
    if confirmed is not True:
        raise DataError(
            f"{name!r} is read only when you confirm that every line of it is public: its values "
            f"become labels, which are published"
        )
    table = read_csv(name, content)
    columns = [_column(each, values) for each, values in table.columns.items()]
    return {"name": name, "rows": table.rows, "columns": columns}


def _column(name: str, texts: Sequence[str]) -> dict[str, Any]:
    """One column; empty cells call for a cell of missing values."""
    stated = list(dict.fromkeys(text for text in texts if text))
    missing = any(not text for text in texts)
    found: dict[str, Any] = {"name": name, "distinct": len(stated), "missing": missing}
    values, kind = _typed(stated)
    if len(values) <= MOST_VALUES:
        found["values"] = to_json(values)
    elif kind == "text":
        found |= {"values": to_json(values[:MOST_VALUES]), "declaration": None}
        return found | {"note": f"more than {MOST_VALUES:,} different texts: a name or an address?"}
    if kind in ("integer", "number") and values:
        found["range"] = [min(values), max(values)]
    declaration = _declared(values, kind)
    if declaration is not None and missing:
        declaration["missing"] = "not stated"
    note = "" if declaration else "no values"
    return found | {"declaration": to_json(declaration) if declaration else None, "note": note}


def _typed(texts: Sequence[str]) -> tuple[list[Any], str]:
    """The values as whole numbers, numbers or days where all of them are, else as text; sorted."""
    if texts and all(_plain_integer(text) for text in texts):
        return _integers(texts), "integer"
    numbers = [number_of(text) for text in texts]
    if texts and all(number is not None for number in numbers) and not any(map(_code, texts)):
        return sorted({number for number in numbers if number is not None}), "number"
    try:
        return sorted({date.fromisoformat(text) for text in texts}), "date" if texts else "text"
    except ValueError:
        return list(texts), "text"


def _integers(texts: Sequence[str]) -> list[int]:
    digits = max(len(text.removeprefix("-")) for text in texts)
    if digits > MOST_DIGITS:
        raise DataError(
            f"a whole number of {digits:,} digits is too long for a label, which has 64 bits; "
            f"leave its column out of the file"
        )
    return sorted({int(text) for text in texts})


def _plain_integer(text: str) -> bool:
    return text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() and not _code(text)


def _code(text: str) -> bool:
    """Whether digits are a code, as 007 is: a number would lose its zeros."""
    digits = text.removeprefix("-")
    return len(digits) > 1 and digits[0] == "0" and digits[1] != "."


def _declared(values: list[Any], kind: str) -> dict[str, Any] | None:
    """An entry of [schema], as somebody would write it."""
    if not values:
        return None
    if kind == "integer":
        low, high = values[0], values[-1]
        if len(values) > 2 and high - low < 10_000 and len(values) >= DENSE * (high - low + 1):
            return {"ordinal": {"from": low, "to": high}}
        return {"ordinal": values} if len(values) <= MOST_VALUES else {"binned": bins(low, high)}
    if kind == "number":
        return {"binned": bins(values[0], values[-1])}
    if kind == "date":
        whole = len(values) == (values[-1] - values[0]).days + 1 and len(values) > 2
        return {"ordinal": {"from": values[0], "to": values[-1]} if whole else values}
    return {"categorical": values}


def bins(low: float, high: float) -> list[float]:
    """About ten bins of a round width over all numbers.

    Examples
    --------
    >>> bins(0.4, 93.0)
    [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    """
    try:
        edges = _edges(float(low), float(high))
    except (ArithmeticError, ValueError, StopIteration):  # beyond what a double holds
        edges = [inf]
    if not all(map(isfinite, edges)):
        raise DataError(
            "numbers that are as large, or as close to 0, as a computer can tell have no bins of "
            "a round width; write their edges yourself"
        )
    return [int(edge) if edge.is_integer() else edge for edge in edges]


def _edges(low: float, high: float) -> list[float]:
    span = (high - low) or max(abs(high), 1.0)
    raw = span / BINS
    power = 10.0 ** floor(log10(raw))
    width = next(step * power for step in (1, 2, 5, 10) if step * power >= raw * (1 - 1e-9))
    first, last = floor(low / width + 1e-9), ceil(high / width - 1e-9)
    last = max(last, first + 1)
    return [float(f"{number * width:.10g}") for number in range(first, last + 1)]


# ---------------------------------------------------------------------- tables sent as text


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


# ---------------------------------------------------------------------- where a study lies


@dataclass(frozen=True)
class Desk:
    """The folder of a study, its name there, and the names of public files."""

    folder: Path
    name: str = "study.toml"
    public: frozenset[str] = frozenset()

    def root(self, text: str) -> Node:
        """A text as the study of that name in that folder; refuses what is not TOML."""
        from noiseplan.study.nodes import Document, document_root

        files = frozenset(path.resolve() for path in self._files())
        text = text.replace("\r\n", "\n")
        return document_root(Document(self.name, text, self.folder, public=files))

    def study(self, text: str) -> Study:
        """The whole study, or its first fault."""
        from noiseplan.study.study import study_of

        return study_of(self.root(text))

    def key(self) -> Hashable:
        """What a plan of one text depends on besides: which public files hold what."""
        return self.name, tuple(_stamp(path) for path in self._files())

    def order(self) -> dict[str, Any]:
        """The same for another process."""
        return {"folder": str(self.folder), "name": self.name, "public": sorted(self.public)}

    def _files(self) -> Iterator[Path]:
        return (self.folder / name for name in sorted(self.public) if "\0" not in name)


def _stamp(path: Path) -> Hashable:
    try:
        found = path.stat()
    except OSError:
        return str(path), None
    return str(path), found.st_mtime_ns, found.st_size


def files_named(design: Mapping[str, object]) -> Iterator[str]:
    """The files that a study names as code lists of its attributes and tables."""
    for section in ("schema", "tables"):
        yield from _files_in(design.get(section))


def _files_in(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("file"), str):
            yield value["file"]
        for each in value.values():
            yield from _files_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _files_in(each)
