"""Released tables as CSV and Parquet, one pair of files per query."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseplan.errors import StorageError
from noiseplan.matrices.base import Array
from noiseplan.progress import progress
from noiseplan.queries import Query
from noiseplan.release.release import Release

# More files than this in one folder help nobody; a saved release answers any query later.
MOST_TABLES = 1000

if TYPE_CHECKING:
    import duckdb

Columns = Mapping[str, Sequence[Hashable] | Array]


def write_tables(folder: Path, release: Release, queries: Sequence[Query]) -> None:
    """One CSV and one Parquet file per query, and an index of them."""
    if len(queries) > MOST_TABLES:
        raise StorageError(
            f"{len(queries):,} tables would be {2 * len(queries):,} files, above the limit of "
            f"{MOST_TABLES:,} tables. Choose some: save(folder, tables=[query, …]), or none: "
            f"tables=[]; a saved release answers any of them later"
        )
    import duckdb

    folder.mkdir()
    index: list[tuple[str, str, int]] = []
    with progress("writing tables", len(queries)) as advance, duckdb.connect() as connection:
        for number, query in enumerate(queries, 1):
            stem = f"{number:0{len(str(len(queries)))}d}-{file_name(query.name)}"
            columns = release.answer(query).columns()
            write_csv(folder / f"{stem}.csv", columns)
            write_parquet(folder / f"{stem}.parquet", columns, connection)
            index.append((stem, query.name, query.rows))
            advance(1)
    files, names, rows = zip(*index, strict=True) if index else ((), (), ())
    write_csv(folder / "index.csv", {"file": files, "query": names, "rows": rows})


def write_csv(path: Path, columns: Columns) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(_plain(values) for values in columns.values()), strict=True))


def write_parquet(path: Path, columns: Columns, connection: duckdb.DuckDBPyConnection) -> None:
    """Through DuckDB, which needs no data frame library."""
    released = {name: _array(values) for name, values in columns.items()}  # noqa: F841 (read below)
    target = str(path).replace("'", "''")
    connection.execute(f"COPY (SELECT * FROM released) TO '{target}' (FORMAT parquet)")


def _plain(values: Sequence[Hashable] | Array) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _array(values: Sequence[Hashable] | Array) -> Any:
    """One type per column: numbers as numbers, anything mixed as text."""
    if isinstance(values, np.ndarray):
        return values
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and kinds <= {int, float, bool}:
        return np.asarray(values)
    return np.array([str(value) for value in values], dtype=object)


def file_name(name: str) -> str:
    """A name that every file system takes."""
    plain = unicodedata.normalize("NFKD", name.replace("×", "by")).encode("ascii", "ignore")
    return re.sub(r"[^a-z0-9]+", "-", plain.decode().lower()).strip("-")[:60] or "table"
