"""Released tables as CSV and Parquet, one pair of files per query."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Hashable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import plain_columns
from noiseplan.engine import copy_to_parquet, engine
from noiseplan.errors import StorageError, remedy
from noiseplan.escaping import cell, from_cell, write_csv_rows
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.agreement import agreeing_groups
from noiseplan.progress import progress
from noiseplan.queries import Query
from noiseplan.queries.level_parts import level_parts
from noiseplan.release.answers import Answer
from noiseplan.release.release import Release

# More files than this in one folder help nobody; a saved release answers any query later.
MOST_TABLES = 1000
# The file that says, beside those of tables, why they are not for publishing: readers of CSV would
# take a line in them for a row.
MARK = "NOT-FOR-PUBLISHING.txt"
ERRORS = ("std_error", "estimated_error")
# Of the smallest standard error of a table, that its CSV file shows.
DIGITS = 6
BATCH = 1 << 16  # rows that are written at a time

if TYPE_CHECKING:
    import duckdb

Columns = Mapping[str, Sequence[Hashable] | Array]
Column = TypeVar("Column", Array, Sequence[Hashable] | Array)


def write_tables(folder: Path, release: Release, queries: Sequence[Query]) -> None:
    """One CSV and one Parquet file per query and level, and an index of them.

    Where queries were measured apart, the index names the group of tables that each agrees with.
    """
    if len(queries) > MOST_TABLES:
        raise too_many(queries)
    folder.mkdir()
    groups = agreeing_groups(release.plan.mechanism, queries)
    index: list[tuple[str, str, int, str]] = []
    stems = iter(table_stems(table_titles(queries)))
    with progress("writing tables", len(queries)) as advance, engine() as connection:
        for place, query in enumerate(queries):
            group = "" if groups is None else groups[place]
            whole = release.answer(query)
            for answer in whole.by_level() if query.levelled else [whole]:
                stem = next(stems)
                write_answer(folder / stem, answer, connection)
                index.append((stem, answer.query.name, answer.query.rows, group))
            advance(1)
    files, names, rows, agreeing = zip(*index, strict=True) if index else ((), (), (), ())
    columns = {"file": files, "query": names, "rows": rows}
    columns |= {} if groups is None else {"agreement": agreeing}
    write_csv(folder / "index.csv", columns)
    if release.provenance.warning:
        (folder / MARK).write_text(f"{release.provenance.warning}\n", encoding="utf-8")


def write_answer(stem: Path, answer: Answer, connection: duckdb.DuckDBPyConnection) -> None:
    """A table as CSV and as Parquet; labels are kept once, and written out a batch at a time."""
    axes, numbers, rows = answer.axes(), answer.numbers(), answer.query.rows
    shape, shown = [len(labels) for labels in axes.values()], with_fitting_digits(numbers)
    # As the table has them: with_suffix would take the end of a name for one.
    with Path(f"{stem}.csv").open("w", encoding="utf-8", newline="") as file:
        write_csv_rows(file, [[*axes, *numbers]])
        cells = [np.fromiter(map(cell, labels), dtype=object) for labels in axes.values()]
        for start in range(0, rows, BATCH):
            stop = min(start + BATCH, rows)
            columns = [_along(one, i, shape, start, stop) for i, one in enumerate(cells)]
            columns += [values[start:stop] for values in shown.values()]
            lines = zip(*(column.tolist() for column in columns), strict=True)
            write_csv_rows(file, lines, safe=True)
    named = enumerate(axes.items())
    whole = {name: _along(_array(labels), i, shape, 0, rows) for i, (name, labels) in named}
    write_parquet(Path(f"{stem}.parquet"), whole | numbers, connection)


def _along(
    labels: NDArray[Any], axis: int, shape: Sequence[int], start: int, stop: int
) -> NDArray[Any]:
    """The labels of an attribute in some rows of the table, the last attribute fastest."""
    inner = prod(shape[axis + 1 :])
    return labels[np.arange(start, stop) // inner % shape[axis]]


def too_many(queries: Sequence[Query]) -> StorageError:
    """The refusal of more tables than are written as files."""
    return StorageError(
        f"{len(queries):,} tables would be {2 * len(queries):,} files, above the limit of "
        f"{MOST_TABLES:,} tables. Choose some: "
        + remedy("choose tables", "save(folder, tables=[query, …]), or none: tables=[]")
        + "; a saved release answers any of them later"
    )


def table_titles(queries: Sequence[Query]) -> list[str]:
    """What the tables of some queries are called: one for each level."""
    return [
        asked.name
        for query in queries
        for asked in ([p.query for p in level_parts(query)] if query.levelled else [query])
    ]


def table_stems(titles: Sequence[str]) -> list[str]:
    """The names of the files of some tables, without their endings: numbered, so all differ."""
    digits, stems = len(str(len(titles))), []
    for number, title in enumerate(titles, 1):
        # A name that every file system takes.
        plain = unicodedata.normalize("NFKD", title.replace("×", "by")).encode("ascii", "ignore")
        name = re.sub(r"[^a-z0-9]+", "-", plain.decode().lower()).strip("-")[:60] or "table"
        stems.append(f"{number:0{digits}d}-{name}")
    return stems


def with_fitting_digits(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Released numbers as CSV has them: to the place of the sixth digit of the smallest error.

    More digits of a noisy number tell nothing; fewer would let tables add up less well. Parquet
    files have every digit that was computed.

    Examples
    --------
    >>> shown = with_fitting_digits({"estimate": np.array([1 / 3]), "std_error": np.array([25.4])})
    >>> shown["estimate"].tolist()
    [0.3333]
    """
    errors = np.asarray(next((columns[n] for n in ERRORS if n in columns), ()), dtype=float)
    told = errors[(errors > 0) & np.isfinite(errors)]
    places = max(DIGITS - 1 - int(np.floor(np.log10(told.min()))), 0) if told.size else None
    return {
        name: (values if places is None else np.round(values, places)) + 0.0  # no zero below zero
        if isinstance(values, np.ndarray)
        else values
        for name, values in columns.items()
    }


def write_csv(path: Path, columns: Columns) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        write_csv_rows(file, [columns])
        write_csv_rows(file, zip(*plain_columns(columns).values(), strict=True))


def write_parquet(path: Path, columns: Columns, connection: duckdb.DuckDBPyConnection) -> None:
    """Through DuckDB, which needs no data frame library."""
    import duckdb

    names = list(columns)
    if len({name.casefold() for name in names}) < len(names):
        names = _told_apart(names)
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


def table_files(folder: Path) -> list[dict[str, str]]:
    """The tables of a saved release that were written as files: file, query and rows of each."""
    index = folder / "tables" / "index.csv"
    if not index.is_file():
        return []
    with index.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        return [{key: from_cell(text) for key, text in row.items()} for row in rows]
