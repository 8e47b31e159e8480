"""What several commands share: options, saved releases, rows for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noiseplan.cli import DamagedRelease
from noiseplan.console import say
from noiseplan.errors import StorageError
from noiseplan.escaping import visible_name
from noiseplan.texts import counted, listed

if TYPE_CHECKING:
    from noiseplan.queries import Query
    from noiseplan.release.release import Release
    from noiseplan.study import Study

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
study_argument = click.argument("study", metavar="STUDY", type=click.Path(path_type=Path))
outside_option = click.option(
    "--allow-outside",
    is_flag=True,
    help="Let the study name code lists, and an output folder, outside its own folder.",
)
release_argument = click.argument("folder", metavar="RELEASE", type=click.Path(path_type=Path))
CONTEXT = {"help_option_names": ["-h", "--help"]}


def open_release(folder: Path) -> Release:
    """A saved release; damage has an exit code of its own."""
    from noiseplan.storage import load

    require_release_folder(folder)
    try:
        return load(folder)
    except StorageError as error:
        raise DamagedRelease(error.message) from None


def require_release_folder(folder: Path) -> None:
    """Refuse a folder that holds no release, with the command that would make one."""
    if not (folder / "certificate.json").is_file():
        found = "is not there" if not folder.exists() else "holds no release"
        raise StorageError(
            f"{str(folder)!r} {found}; name the folder that was written by: "
            f"noiseplan release STUDY DATA -o {folder}"
        )


def warned(text: str) -> None:
    """Something that stops nothing, and is worth a second look."""
    say(f"Warning: {text}", err=True)


def without_target(study: Study) -> list[Query]:
    """The tables of a study that no plan is made for: others have a target, and these have none."""
    if not isinstance(study.targets, Mapping):
        return []
    planned = set(map(study.workload.position, study.targets))
    return [query for place, query in enumerate(study.workload) if place not in planned]


def left_out_words(queries: Sequence[Query]) -> str:
    """What is said of tables without a target."""
    names = listed(visible_name(query.name) for query in queries)
    verb = "has no target and is" if len(queries) == 1 else "have no target and are"
    return f"{counted(len(queries), 'table')} {verb} not planned for: {names}"


def rows_of(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Columns as one object per row, for programs."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
