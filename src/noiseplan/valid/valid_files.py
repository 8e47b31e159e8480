"""Valid tables as files: CSV and Parquet, and what changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from noiseplan.engine import engine
from noiseplan.errors import StorageError
from noiseplan.paths import checked_path
from noiseplan.storage.files import whole_folder, write_json
from noiseplan.storage.table_files import MOST_TABLES, file_name, write_csv, write_parquet

if TYPE_CHECKING:
    from noiseplan.valid.result import ValidTables


def save_tables(
    valid: ValidTables, folder: str | PathLike[str], names: Iterable[Sequence[str] | str]
) -> None:
    """Write tables into a new folder, which appears whole or not at all."""
    target = checked_path(folder, StorageError)
    chosen = [(one,) if isinstance(one, str) else tuple(one) for one in names]
    if target.exists():
        raise StorageError(
            f"{str(folder)!r} is there already and was left alone; choose a new name"
        )
    if len(chosen) > MOST_TABLES:
        raise StorageError(
            f"{len(chosen):,} tables are too many files, above the limit of {MOST_TABLES:,}; "
            f"choose some: save(folder, tables=[('age', 'sex'), …])"
        )
    with whole_folder(target) as part:
        _write(valid, part, chosen)


def _write(valid: ValidTables, folder: Path, chosen: list[tuple[str, ...]]) -> None:
    files, titles = [], []
    with engine() as connection:
        for number, names in enumerate(chosen, 1):
            title = " × ".join(names) or "total"
            stem = f"{number:0{len(str(len(chosen)))}d}-{file_name(title)}"
            columns = valid.columns(*names)
            write_csv(folder / f"{stem}.csv", columns)
            write_parquet(folder / f"{stem}.parquet", columns, connection)
            files.append(stem)
            titles.append(title)
    write_csv(folder / "index.csv", {"file": files, "table": titles})
    told = {
        "integers": valid.integers,
        "biased": True,
        "total": valid.total,
        "public": [[valid.schema.names[i] for i in one] for one in valid.public],
    }
    write_json(folder / "changes.json", asdict(valid.changes) | told)
