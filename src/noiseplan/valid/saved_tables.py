"""Valid tables that were written to a folder, read again where they are those of a release.

Beside its tables a folder has `made_of.json`: a digest of the release, what was public, and a
digest of the numbers and of `changes.json`. Only tables of a whole release are known so, made as
`noiseplan valid` does.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from io import StringIO
from pathlib import Path
from typing import Final

import numpy as np

from noiseplan.arrays import Json
from noiseplan.errors import NoiseplanError, StorageError
from noiseplan.release.release import Release
from noiseplan.storage.files import hash_of, read_json, write_json
from noiseplan.storage.folder import plan_hash
from noiseplan.valid.family import Set
from noiseplan.valid.result import Changes, ValidTables
from noiseplan.valid.unbiased_tables import Table, Unbiased

MADE_OF: Final = "made_of.json"


@dataclass(frozen=True)
class Wanted:
    """The valid tables of a release, all or those named; the total is public where it is given."""

    total: float | None
    integers: bool
    tables: tuple[str, ...] = ()

    def compute(self, release: Release) -> ValidTables:
        """Make them, which may take minutes."""
        named = self.tables or None
        return release.valid(tables=named, total=self.total, integers=self.integers)

    def asked(self, made: ValidTables, release: Release) -> list[list[str]]:
        """The attributes of each table that was named; of every table where none was."""
        _, named = Unbiased.of(release).grouped(self.tables or None)
        return list(map(list, made.names)) if named is None else named

    def save(self, made: ValidTables, release: Release, folder: Path) -> None:
        """Write them to a new folder, with what they are made of where that is all tables."""
        made.save(folder, tables=self.asked(made, release))
        if self.tables:  # a report makes them anew: it shows more than those named
            return
        stems = [row["file"] for row in _rows(folder / "index.csv")]
        files = dict(zip(stems, map(list, made.names), strict=False))  # levels come behind them
        digest = _digest(read_json(folder / "changes.json"), made.tables)
        told = {"release_sha256": digest_of(release), "tables_sha256": digest}
        asked = {"total": self.total, "integers": self.integers}
        write_json(folder / MADE_OF, {**told, **asked, "files": files})

    def read(self, release: Release, folder: Path) -> ValidTables:
        """Those that a folder of this release holds; refused where they are others, or changed."""
        told = read_json(folder / MADE_OF)
        if (told.get("total"), told.get("integers")) != (self.total, self.integers):
            raise StorageError(f"those in {str(folder)!r} have another total, or other numbers")
        try:
            return self._read(Unbiased.of(release), folder, told)
        except (NoiseplanError, OSError, LookupError, ValueError, TypeError, AttributeError):
            raise StorageError(f"those in {str(folder)!r} were changed") from None

    def _read(self, source: Unbiased, folder: Path, told: Json) -> ValidTables:
        tables: dict[Set, Table] = {}
        for stem, names in told["files"].items():
            one = source.numbers(tuple(names))
            values = [row["valid"] for row in _rows(folder / f"{Path(stem).name}.csv")]
            shape = tuple(source.schema.shape[i] for i in one)
            tables[one] = np.array(values, np.int64 if self.integers else float).reshape(shape)
        changes = read_json(folder / "changes.json")
        changed = _digest(changes, tables) != told["tables_sha256"]
        if changed or any((table < 0).any() for table in tables.values()):
            raise ValueError(folder)
        kept = {field.name: changes[field.name] for field in fields(Changes)}
        moved = Changes(**kept | {"filled": tuple(kept["filled"])})
        made = ValidTables(source, tables, {}, self.integers, moved)
        known = {source.numbers(tuple(names)): names for names in changes["public"]}
        public = {s: made.values(*names).astype(float) for s, names in known.items()}
        return replace(made, public=public)


def folders_of(release: Release, places: Iterable[Path]) -> list[Path]:
    """The folders in some places that hold the valid tables of a release."""
    found, wanted = [], digest_of(release)
    for file in (file for place in places for file in sorted(place.glob(f"*/{MADE_OF}"))):
        with suppress(StorageError, OSError):
            if read_json(file).get("release_sha256") == wanted:
                found.append(file.parent)
    return found


def digest_of(release: Release) -> str:
    """SHA-256 of the plan of a release and of its noisy numbers."""
    blocks = {f"block_{i}": block for i, block in enumerate(release.measurements.values)}
    return hash_of({"plan": plan_hash(release.plan)}, blocks)


def _digest(changes: Json, tables: Mapping[Set, Table]) -> str:
    """SHA-256 of what is said of the tables and of their numbers, as files have them: no zero is
    below zero."""
    return hash_of(changes, {str(one): np.asarray(table) + 0 for one, table in tables.items()})


def _rows(path: Path) -> csv.DictReader[str]:
    return csv.DictReader(StringIO(path.read_text(encoding="utf-8"), newline=""))
