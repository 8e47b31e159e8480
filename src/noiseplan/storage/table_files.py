"""Released tables as CSV and Parquet, one pair of files per query."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseplan.arrays import plain_columns
from noiseplan.engine import copy_to_parquet, engine
from noiseplan.errors import StorageError, remedy
from noiseplan.escaping import cell, write_csv_rows
from noiseplan.matrices.base import Array
from noiseplan.progress import progress
from noiseplan.queries import Level, Levels, Query
from noiseplan.queries.level_parts import level_parts
from noiseplan.release.answer import NUMBERS, Answer
from noiseplan.release.release import Release

# More files than this in one folder help nobody; a saved release answers any query later.
MOST_TABLES = 1000
BATCH = 1 << 16  # rows that are written at a time

if TYPE_CHECKING:
    import duckdb

Columns = Mapping[str, Sequence[Hashable] | Array]


def write_tables(folder: Path, release: Release, queries: Sequence[Query]) -> None:
    """One CSV and one Parquet file per query and level, and an index of them."""
    require_few(queries)
    folder.mkdir()
    index: list[tuple[str, str, int]] = []
    stems = iter(table_stems(table_titles(queries)))
    with progress("writing tables", len(queries)) as advance, engine() as connection:
        for query in queries:
            for answer in release.answer(query).by_level():
                stem = next(stems)
                write_answer(folder / stem, answer, connection)
                index.append((stem, answer.query.name, answer.query.rows))
            advance(1)
    with (folder / "index.csv").open("w", encoding="utf-8", newline="") as file:
        write_csv_rows(file, [("file", "query", "rows"), *index])


def write_answer(stem: Path, answer: Answer, connection: duckdb.DuckDBPyConnection) -> None:
    """A table as CSV and as Parquet; labels are kept once, and written out a batch at a time."""
    axes, numbers = answer.parts()
    rows, shape = answer.query.rows, [len(labels) for labels in axes.values()]
    inner = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    names = [f"{name} (attribute)" if name in NUMBERS else name for name in axes]
    # Added to the stem: with_suffix would take the end of a name for one.
    with Path(f"{stem}.csv").open("w", encoding="utf-8", newline="") as file:
        write_csv_rows(file, [[*names, *numbers]])
        safe = [np.array([cell(label) for label in one], dtype=object) for one in axes.values()]
        for start in range(0, rows, BATCH):
            places = np.arange(start, min(start + BATCH, rows))
            columns = [one[places // n % len(one)] for one, n in zip(safe, inner, strict=True)]
            columns += [values[places] for values in numbers.values()]
            written = zip(*(column.tolist() for column in columns), strict=True)
            write_csv_rows(file, written, safe=True)
    places = np.arange(rows)
    labels = map(_array, axes.values())
    whole = [one[places // n % len(one)] for one, n in zip(labels, inner, strict=True)]
    table = dict(zip(names, whole, strict=True)) | numbers
    write_parquet(Path(f"{stem}.parquet"), table, connection)


def table_titles(queries: Sequence[Query]) -> list[str]:
    """What the tables of some queries are called: one for each level."""
    titles: list[str] = []
    for query in queries:
        levels = any(isinstance(f, Level | Levels) for f in query.factors.values())
        parts = [part.query for part in level_parts(query)] if levels else [query]
        titles += [part.name for part in parts]
    return titles


def require_few(queries: Sequence[Query]) -> None:
    """Refuse more tables than are written as files."""
    if len(queries) > MOST_TABLES:
        raise StorageError(
            f"{len(queries):,} tables would be {2 * len(queries):,} files, above the limit of "
            f"{MOST_TABLES:,} tables. Choose some: "
            + remedy("choose tables", "save(folder, tables=[query, …]), or none: tables=[]")
            + "; a saved release answers any of them later"
        )


def table_stems(titles: Sequence[str]) -> list[str]:
    """The names of the files of some tables, without their endings: numbered, so all differ."""
    digits = len(str(len(titles)))
    return [f"{n:0{digits}d}-{file_name(title)}" for n, title in enumerate(titles, 1)]


def write_csv(path: Path, columns: Columns) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        write_csv_rows(file, [columns])
        write_csv_rows(file, zip(*plain_columns(columns).values(), strict=True))


def write_parquet(path: Path, columns: Columns, connection: duckdb.DuckDBPyConnection) -> None:
    """Through DuckDB, which needs no data frame library."""
    import duckdb

    names = _told_apart(list(columns))
    arrays = map(_array, columns.values())
    try:
        copy_to_parquet(connection, path, dict(zip(names, arrays, strict=True)))
    except duckdb.Error as error:
        raise StorageError(f"{path.name} cannot be written: {error}") from error


def _told_apart(names: Sequence[str]) -> list[str]:
    """Names that engines tell apart: they do not see capitals, and would rename a twin themselves.

    The last of several keeps its name, so that the figures of a table always have theirs.
    """
    found: dict[str, str] = {}
    for name in reversed(names):
        number = 2
        chosen = name
        while chosen.casefold() in found:
            chosen, number = f"{name} ({number})", number + 1
        found[chosen.casefold()] = chosen
    return list(found.values())[::-1]


def _array(values: Sequence[Hashable] | Array) -> Any:
    """One type per column: numbers as numbers; anything mixed, or too large for that, as text."""
    if isinstance(values, np.ndarray):
        return values
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and kinds <= {int, float, bool}:
        numbers = np.asarray(values)
        if kinds != {int} or numbers.dtype.kind == "i":  # larger integers would lose digits
            return numbers
    return np.array([str(value) for value in values], dtype=object)


def file_name(name: str) -> str:
    """A name that every file system takes."""
    plain = unicodedata.normalize("NFKD", name.replace("×", "by")).encode("ascii", "ignore")
    return re.sub(r"[^a-z0-9]+", "-", plain.decode().lower()).strip("-")[:60] or "table"
