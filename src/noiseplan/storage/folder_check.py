"""A saved release checked as a whole: every file, what it cost, and whether it is private."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from noiseplan.errors import StorageError
from noiseplan.paths import checked_path
from noiseplan.planning.plan import Plan
from noiseplan.privacy import Guarantee
from noiseplan.release.release import Release
from noiseplan.storage.certificate import UNIT, privacy_json
from noiseplan.storage.files import file_hash, read_json
from noiseplan.storage.folder import CERTIFICATE, SUMS, load, stated_hashes
from noiseplan.storage.plans import COMBINED, GIVEN
from noiseplan.storage.table_check import ComparedTables, compare_tables
from noiseplan.texts import listed

# Conversions end in other last digits on other machines.
ROUNDING: Final = 1e-6


@dataclass(frozen=True)
class CheckedFolder:
    """A release that is whole: how many files have their hashes, which are beside them, its cost.

    `cost` is recomputed from what was measured; None where it was measured elsewhere. `tables` are
    the numbers of CSV files, each compared with what the measurements give.
    """

    release: Release
    files: int
    beside: tuple[str, ...]
    cost: Guarantee | None
    tables: ComparedTables

    @property
    def private(self) -> bool:
        """Whether the noise protects what it was added to, as far as is known here."""
        return self.release.provenance.private


def check_folder(folder: str | os.PathLike[str]) -> CheckedFolder:
    """Check every file of a saved release against its hash, and its promise against its plan.

    Every number of its CSV files is computed anew from the measurements. Raises `StorageError`,
    with the files at fault, for a folder that is incomplete, damaged or edited, for a table that
    the measurements do not give, and for a certificate that promises something else than its plan.

    Examples
    --------
    >>> import tempfile
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5})
    >>> plan = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5))
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     plan.release({"age": [0, 1, 1]}).save(f"{parent}/out")
    ...     checked = check_folder(f"{parent}/out")
    >>> checked.files, checked.private, checked.cost.rho <= 0.5
    (8, True, True)
    """
    source = checked_path(folder, StorageError)
    release = load(source)  # refuses a plan that promises more than its mechanism costs
    stated = stated_hashes(source)
    damaged = [name for name, digest in stated.items() if _hash(source, name) != digest]
    if damaged:
        raise StorageError(
            f"saved release {str(folder)!r}: {listed(damaged)} damaged, changed or missing, by the "
            f"hashes in {SUMS}; copy the folder again from its source"
        )
    _require_stated(release, read_json(source / CERTIFICATE), str(folder))
    found = (path for path in sorted(source.rglob("*")) if path.is_file())
    names = [path.relative_to(source).as_posix() for path in found]
    beside = tuple(name for name in names if name not in stated and name != SUMS)
    tables = compare_tables(source, release)
    return CheckedFolder(release, len(stated), beside, _recomputed(release.plan), tables)


def _hash(folder: Path, name: str) -> str:
    """The hash of a file that lies inside the folder; none of any other."""
    path = folder / name
    inside = path.resolve().is_relative_to(folder.resolve())
    return file_hash(path) if inside and path.is_file() else ""


def _recomputed(plan: Plan) -> Guarantee | None:
    """What was measured costs this, by the mechanism alone, whatever was stated."""
    if plan.noise == GIVEN:
        return None
    combined = plan.noise == COMBINED and plan.privacy.law == "zcdp"
    mechanism = plan.mechanism.as_stated() if combined else plan.mechanism
    return mechanism.cost(plan.privacy.neighbours, plan.max_rows)


PROMISED: Final = ("unit", "neighbours", "known", "rho", "mu", "pure_epsilon", "epsilon")


def _require_stated(release: Release, content: Mapping[str, Any], folder: str) -> None:
    """Refuse a certificate whose promise is not that of the plan."""
    plan = release.plan
    expected = privacy_json(plan.privacy, plan.max_rows, release.choice is not None, plan.unit)
    stated = content["privacy"]
    if plan.max_rows == 1 and release.choice is None and stated.get("unit") == UNIT:
        expected["unit"] = UNIT  # as earlier versions said of counts, and less than is promised
    # Also what the plan does not promise: a figure that was added is a promise, too.
    added = [name for name in stated if name not in expected]
    for name in (*PROMISED, *added):
        if not _same(stated.get(name), expected.get(name)):
            raise StorageError(
                f"saved release {folder!r}: {CERTIFICATE} states {name} = {stated.get(name)!r}, "
                f"and its plan has {expected.get(name)!r}; copy the folder again from its source"
            )


def _same(stated: object, expected: object) -> bool:
    """Whether two figures, or lists of them, are the same but for the rounding."""
    if isinstance(stated, list) and isinstance(expected, list):
        pairs = zip(stated, expected, strict=False)
        return len(stated) == len(expected) and all(_same(a, b) for a, b in pairs)
    if isinstance(stated, float) and isinstance(expected, float):
        return math.isclose(stated, expected, rel_tol=ROUNDING)
    return stated == expected
