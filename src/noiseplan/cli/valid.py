"""`noiseplan valid`: tables without negative counts that agree, from a saved release."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noiseplan.cli._common import (
    CONTEXT,
    json_option,
    open_release,
    release_argument,
)
from noiseplan.console import print_json, say
from noiseplan.errors import QueryError, StorageError
from noiseplan.paths import new_path
from noiseplan.texts import listed
from noiseplan.words.hints import quoted

if TYPE_CHECKING:
    from noiseplan.release.release import Release

SHOWN = 6  # names of tables that are left out


@click.command(context_settings=CONTEXT)
@release_argument
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), help="A new folder."
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    help='Only these: --table "age, sex"; a level or the name of a query for its groups.',
)
@click.option("--total", type=float, help="The number of records, where it is public.")
@click.option("--integers", is_flag=True, help="Whole numbers.")
@json_option
def command(
    folder: Path,
    output: Path,
    tables: tuple[str, ...],
    total: float | None,
    integers: bool,
    as_json: bool,
) -> None:
    """Make the tables of RELEASE, a folder, valid: no count negative, all in agreement.

    They are biased: nearer to the truth where tables are sparse, but not in every cell or table.
    The unbiased estimates and their intervals are written beside them. Nothing is spent.
    """
    from noiseplan.valid.saved_tables import Wanted

    release = open_release(folder)
    require_unbiased(release, folder)
    require_named(tables)
    new_path(output, StorageError)  # before the work, which may take minutes
    wanted = Wanted(total, integers, tables)
    made = wanted.compute(release)
    asked = wanted.asked(made, release)
    wanted.save(made, release, output)
    if as_json:
        tables_made = len(asked) + len(made.by_level(asked))
        about = {"folder": str(output), "tables": tables_made, "left_out": made.left_out(asked)}
        warning = {"warning": made.source.warning} if made.source.warning else {}
        print_json(asdict(made.changes) | about | warning)
        return
    say(str(made))
    if left := made.left_out(asked):
        say(f"  left out    {listed(left, SHOWN)}:")
        shown = f"noiseplan report {folder} --valid"
        shown += "".join(f" --table {quoted(table)}" for table in tables)
        say(f"              {shown} shows what a table holds of them")
    say(f"  folder      {output}")


def require_named(tables: tuple[str, ...]) -> None:
    """Refuse a table of nothing."""
    for table in tables:
        if not table.strip(" ,"):
            raise QueryError(f'--table {table!r} names no attribute: --table "age, sex"')


def require_unbiased(release: Release, folder: Path) -> None:
    """Refuse a data-aware release, which is not made valid."""
    biased = (
        f"{str(folder)!r} is a data-aware release: its answers agree already, and they are not "
        f"made non-negative; noiseplan answer prints them with their estimated errors"
    )
    release.plan.mechanism.require_unbiased(QueryError(biased))
