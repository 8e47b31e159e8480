"""Public code lists in files: columns of text out of CSV, of whatever they hold out of Parquet."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from noiseplan.engine import engine
from noiseplan.errors import SchemaError
from noiseplan.paths import checked_path

_PARQUET: Final = (".parquet", ".pq")


def csv_rows(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Every line of a CSV file that is not empty, with its number; the first is the header.

    Everything stays text: a code "01" keeps its zero.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator)
        for row in reader:
            if row:
                yield reader.line_num, row


def code_file(path: str | os.PathLike[str]) -> Path:
    """The file of a code list, if it is there."""
    file = checked_path(path, SchemaError)
    if not file.is_file():
        raise SchemaError(f"the code list {str(path)!r} is not there; name a CSV or Parquet file.")
    return file


def read_code_columns(
    path: str | os.PathLike[str], columns: Sequence[str], separator: str
) -> list[list[object]]:
    """Some columns of a code list, CSV with a header line or Parquet, in the order of its rows."""
    file = code_file(path)
    if file.suffix.lower() in _PARQUET:
        return _from_parquet(file, columns)
    if len(separator) != 1:
        raise SchemaError(f"a separator is one character, as in ';', found {separator!r}.")
    try:
        return _from_csv(file, columns, separator)
    except (UnicodeDecodeError, csv.Error) as error:
        raise SchemaError(f"the code list {file.name!r} is no CSV file in UTF-8: {error}") from None


def _from_csv(file: Path, columns: Sequence[str], separator: str) -> list[list[object]]:
    rows = csv_rows(file, separator)
    _, header = next(rows, (0, []))
    places = _places(columns, [name.strip() for name in header], file)
    found: list[list[object]] = [[] for _ in columns]
    for line, row in rows:
        if len(row) <= max(places):
            raise SchemaError(f"{file.name!r}, line {line}: {len(row)} cells, and a header of more")
        for column, place in zip(found, places, strict=True):
            column.append(row[place].strip())
    return found


def _from_parquet(file: Path, columns: Sequence[str]) -> list[list[object]]:
    import duckdb

    try:
        with engine() as connection:
            relation = connection.read_parquet(str(file))
            places = _places(columns, relation.columns, file)
            wanted = ['"' + relation.columns[place].replace('"', '""') + '"' for place in places]
            # As Python's objects: an array of whole numbers with nulls would be one of floats.
            rows = relation.project(", ".join(wanted)).fetchall()
    except duckdb.Error as error:
        raise SchemaError(f"the code list {file.name!r} cannot be read: {error}") from None
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in columns]


def _places(columns: Sequence[str], header: Sequence[str], file: Path) -> list[int]:
    for name in columns:
        if name not in header:
            close = get_close_matches(str(name), header, n=1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            known = ", ".join(map(repr, header)) or "no header"
            raise SchemaError(f"{file.name!r} has no column {name!r}; it has {known}{meant}")
    return [list(header).index(name) for name in columns]
