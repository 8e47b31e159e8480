"""A release as a folder: written whole or not at all, checked when it is read.

certificate.json, certificate.txt   what was promised
plan.json, plan.npz                 what was asked and what was measured
measurements.npz                    the noisy numbers
tables/                             answers as CSV and Parquet
SHA256SUMS                          of every file
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from noiseplan.arrays import Arrays, Json
from noiseplan.counting.person_cap import ChosenRecords
from noiseplan.errors import NoiseplanError, StorageError
from noiseplan.escaping import visible
from noiseplan.mechanisms.base import Measurements
from noiseplan.paths import checked_path, to_disk
from noiseplan.planning.plan import Plan
from noiseplan.queries import Query
from noiseplan.release.provenance import ELSEWHERE
from noiseplan.release.release import Release
from noiseplan.storage.certificate import (
    DATA_AWARE,
    FORMAT,
    certificate,
    in_words,
    read_provenance,
    read_words,
)
from noiseplan.storage.files import (
    file_hash,
    read_arrays,
    read_json,
    rehearse,
    whole_folder,
    write_arrays,
    write_json,
)
from noiseplan.storage.plans import (
    GIVEN,
    defining_hash,
    read_known,
    read_plan,
    write_plan,
)
from noiseplan.storage.table_files import (
    MOST_TABLES,
    table_stems,
    table_titles,
    too_many,
    write_tables,
)

CERTIFICATE, PLAN, PLAN_ARRAYS = "certificate.json", "plan.json", "plan.npz"
MEASUREMENTS, SUMS = "measurements.npz", "SHA256SUMS"
# What a folder holds: the plan, its arrays, the measurements, the certificate twice.
Contents = tuple[Json, Arrays, Arrays, Json, str]
NEEDED = (CERTIFICATE, PLAN, PLAN_ARRAYS, MEASUREMENTS)


def save(release: Release, folder: str | os.PathLike[str], tables: Sequence[Query]) -> None:
    """Write a release into a new folder, with the answers to some queries as tables.

    Examples
    --------
    >>> import tempfile
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> plan = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5))
    >>> release = plan.release({"age": [0, 1, 1], "sex": [0, 1, 1]})
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     save(release, f"{parent}/out", [nz.Query(schema, ["sex"])])  # as release.save does
    ...     sorted(path.name for path in Path(parent, "out", "tables").iterdir())
    ['1-sex.csv', '1-sex.parquet', 'index.csv']
    """
    target = checked_path(folder, StorageError)
    _require_new(target)
    with whole_folder(target) as part:
        _write(release, part, tables)


def rehearse_saving(folder: str | os.PathLike[str], tables: Sequence[Query]) -> None:
    """Find out, before anything is spent, whether :func:`save` could write here."""
    target = checked_path(folder, StorageError)
    _require_new(target)
    if len(tables) > MOST_TABLES:
        raise too_many(tables)
    longest = max(table_stems(table_titles(tables)), key=len, default="")
    names = [f"tables/{longest}.parquet", "tables/index.csv"] if tables else []
    rehearse(target, [*NEEDED, SUMS, "certificate.txt", *names])


def _require_new(target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StorageError(
            f"{str(target)!r} is there already and not an empty folder; nothing was written. "
            f"Choose a new name: a release is never overwritten"
        )


def load(folder: str | os.PathLike[str]) -> Release:
    """A saved release, ready for any query that its plan can answer; no data is needed.

    Every file it needs is compared with its hash first. Raises `StorageError`, with the file at
    fault, for a folder that is incomplete, damaged, edited, or of a newer format.

    Examples
    --------
    >>> import tempfile
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> release = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5)).release(
    ...     {"age": [0, 1, 1], "sex": [0, 1, 1]}
    ... )
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     release.save(f"{parent}/out")
    ...     again = nz.load(f"{parent}/out")
    >>> query = nz.Query(schema, ["sex"])
    >>> bool((again.answer(query).estimate == release.answer(query).estimate).all())
    True
    """
    source = checked_path(folder, StorageError)
    if not source.is_dir():
        raise StorageError(f"{str(folder)!r} is not a folder: name one that release.save() wrote")
    try:
        _check_files(source)
        return _read(source)
    except StorageError as error:
        raise StorageError(f"saved release {str(folder)!r}: {error}") from None
    except NoiseplanError as error:
        raise StorageError(f"saved release {str(folder)!r} makes no sense: {error}") from None
    except OSError as error:
        raise StorageError(f"saved release {str(folder)!r} cannot be read: {error}") from None
    except (
        LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError
    ) as error:  # fmt: skip
        found = f"{type(error).__name__}: {error}"
        raise StorageError(f"saved release {str(folder)!r} is not well formed ({found})") from None


def plan_hash(plan: Plan) -> str:
    """SHA-256 of everything that defines a plan: the same plan has the same hash anywhere.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> plans = [nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5)) for _ in range(2)]
    >>> plan_hash(plans[0]) == plan_hash(plans[1])
    True
    """
    return _kept_by(plan).hash(plan)


def _contents(release: Release) -> Contents:
    """Plan, its arrays, measurements, and the certificate as JSON and in words."""
    plan, arrays = write_plan(release.plan)
    values = release.measurements.values
    measured = {f"block_{i}": block for i, block in enumerate(values)}
    content = certificate(release, defining_hash(plan, arrays))
    return plan, arrays, measured, content, in_words(content, release)


class Keeping(NamedTuple):
    """How plans of a kind and their releases are kept."""

    hash: Callable[[Plan], str]
    contents: Callable[[Release], Contents]
    in_words: Callable[[Json, Release], str]  # a certificate


_PLAIN: Final = Keeping(lambda plan: defining_hash(*write_plan(plan)), _contents, in_words)


def _kept_by(plan: Plan) -> Keeping:
    """How this plan is kept."""
    if not plan.mechanism.data_aware:
        return _PLAIN
    kept = _of_partitions()
    return Keeping(kept.plan_hash, kept.contents, kept.in_words)


def certificate_words(release: Release, content: Json) -> str:
    """The certificate of a saved release in words, whatever kind of release it is."""
    return _kept_by(release.plan).in_words(content, release)


def _write(release: Release, folder: Path, queries: Sequence[Query]) -> None:
    plan, arrays, measured, content, words = _kept_by(release.plan).contents(release)
    write_json(folder / PLAN, plan)
    write_arrays(folder / PLAN_ARRAYS, arrays)
    write_arrays(folder / MEASUREMENTS, measured)
    write_json(folder / CERTIFICATE, content)
    (folder / "certificate.txt").write_text(visible(words), encoding="utf-8")
    if queries:
        write_tables(folder / "tables", release, queries)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = [f"{file_hash(path)}  {path.relative_to(folder).as_posix()}\n" for path in files]
    (folder / SUMS).write_text("".join(sums), encoding="utf-8")
    for path in [*files, folder / SUMS, folder]:
        to_disk(path)


def _check_files(folder: Path) -> None:
    missing = [name for name in (*NEEDED, SUMS) if not (folder / name).is_file()]
    if missing and (folder / "changes.json").is_file() and (folder / "index.csv").is_file():
        raise StorageError(
            "these are valid tables, which are files to publish and not a release: read the CSV or "
            "Parquet files that index.csv lists, or load the release they were made of"
        )
    if missing:
        raise StorageError(
            f"{', '.join(missing)} missing: the folder is incomplete; copy it again from its source"
        )
    stated = stated_hashes(folder)
    for name in NEEDED:
        if stated.get(name) != file_hash(folder / name):
            raise StorageError(
                f"{name} is damaged or was changed: its hash is not in {SUMS}; copy the folder "
                f"again from its source"
            )


def stated_hashes(folder: Path) -> dict[str, str]:
    """What SHA256SUMS says: the hash of every file that was written."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
        return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    except ValueError:
        raise StorageError(f"{SUMS} is damaged") from None


def _read(folder: Path) -> Release:
    content = read_json(folder / CERTIFICATE)
    version = content["format"]
    if type(version) is not int or version < 1:
        raise StorageError(f"{CERTIFICATE} has the format {version!r}, which there never was")
    if version > FORMAT:
        raise StorageError(
            f"format {version!r} is newer than this noiseplan, which reads up to {FORMAT}: upgrade"
        )
    saved, arrays = read_json(folder / PLAN), read_arrays(folder / PLAN_ARRAYS)
    blocks = read_arrays(folder / MEASUREMENTS)
    if content.get("kind") == DATA_AWARE:
        release: Release = _of_partitions().read_release(content, saved, arrays, blocks)
        return release
    if defining_hash(saved, arrays) != content["plan_sha256"]:
        raise StorageError("the plan is not the one that the certificate names")
    numbers = sum(array.size for array in (*arrays.values(), *blocks.values()))
    plan = read_plan(saved, arrays, numbers, read_known(content["optimality"]))
    measured = Measurements(tuple(blocks[f"block_{i}"] for i in range(len(blocks))))
    plan.mechanism.check(measured)
    # A folder says that records were chosen, and not which.
    choice = ChosenRecords() if content.get("records_chosen") else None
    provenance = read_provenance(content)
    if plan.noise == GIVEN and provenance.noise != (ELSEWHERE,):
        # The one kind of plan whose cost nothing here can check: it says so, or is none.
        raise StorageError(
            f"the plan is of measurements made elsewhere, and the certificate has "
            f"{provenance.brand!r}"
        )
    return Release(plan, measured, provenance, choice=choice, **read_words(content))


def _of_partitions() -> Any:
    """Data-aware releases, whose module loads what draws partitions: few folders need it."""
    from noiseplan.storage import partition_folder

    return partition_folder
