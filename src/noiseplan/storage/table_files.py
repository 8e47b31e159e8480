"""Released tables as CSV and Parquet, one pair of files per query."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseplan.arrays import plain_columns
from noiseplan.engine import copy_to_parquet, engine
from noiseplan.errors import StorageError, remedy
from noiseplan.escaping import write_csv_rows
from noiseplan.matrices.base import Array
from noiseplan.progress import progress
from noiseplan.queries import Query
from noiseplan.release.release import Release

# More files than this in one folder help nobody; a saved release answers any query later.
MOST_TABLES = 1000
# Significant digits of the smallest standard error that a file of numbers shows.
DIGITS = 6
ERRORS = ("std_error", "estimated_error")

if TYPE_CHECKING:
    import duckdb

Columns = Mapping[str, Sequence[Hashable] | Array]


def write_tables(folder: Path, release: Release, queries: Sequence[Query]) -> None:
    """One CSV and one Parquet file per query, and an index of them."""
    require_few(queries)
    folder.mkdir()
    index: list[tuple[str, str, int]] = []
    with progress("writing tables", len(queries)) as advance, engine() as connection:
        stems = table_stems([query.name for query in queries])
        for stem, query in zip(stems, queries, strict=True):
            columns = release.answer(query).columns()
            write_csv(folder / f"{stem}.csv", with_fitting_digits(columns))
            write_parquet(folder / f"{stem}.parquet", columns, connection)
            index.append((stem, query.name, query.rows))
            advance(1)
    files, names, rows = zip(*index, strict=True) if index else ((), (), ())
    write_csv(folder / "index.csv", {"file": files, "query": names, "rows": rows})


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


def with_fitting_digits(columns: Columns) -> Columns:
    """Released numbers as CSV has them: to the place of the sixth digit of the smallest error.

    Parquet files have every digit that was computed.
    """
    errors = next((columns[name] for name in ERRORS if name in columns), ())
    places = fitting_places(np.asarray(errors, dtype=float).tolist())
    if places is None:
        return columns
    return {
        name: np.round(values, places) + 0.0 if isinstance(values, np.ndarray) else values
        for name, values in columns.items()
    }


def fitting_places(errors: Iterable[float]) -> int | None:
    """Decimal places that show six digits of the smallest error; None if none is above 0.

    More digits of a noisy number tell nothing, and fewer would let tables add up less well.

    Examples
    --------
    >>> fitting_places([25.426, 9.7]), fitting_places([0.02]), fitting_places([1.5e7])
    (5, 7, 0)
    >>> fitting_places([0.0]) is None
    True
    """
    least = min((error for error in errors if 0 < error < math.inf), default=None)
    return None if least is None else max(DIGITS - 1 - math.floor(math.log10(least)), 0)


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
