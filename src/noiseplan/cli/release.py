"""`noiseplan release`: from a study and data to a folder, once."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noiseplan.cli import INTERRUPTED
from noiseplan.cli._common import CONTEXT, calm_threads, json_option, print_json, study_argument
from noiseplan.errors import StorageError
from noiseplan.study import Study, read_study

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan
    from noiseplan.queries import Query
    from noiseplan.release.release import Release


@click.command(context_settings=CONTEXT)
@study_argument
@click.argument("data")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="A new folder for the release. By default the study's own: [output] folder.",
)
@click.option("--seed", type=int, help="The same noise every time: for tests, and not private.")
@click.option(
    "--details",
    is_flag=True,
    help="If DATA are refused, show private values and numbers of rows; a ledger keeps that.",
)
@json_option
def command(
    study: Path, data: str, output: Path | None, seed: int | None, details: bool, as_json: bool
) -> None:
    """Count DATA, add noise, and write the tables of STUDY. Spends the budget once.

    DATA is a CSV or Parquet file, or a pattern of several, as in 'year=*/*.parquet'. Where the
    study names a ledger, it is asked before a record is read, and the cost is recorded there
    before any noise is drawn; a release that does not fit is refused, and nothing is spent.
    """
    read = read_study(study)
    folder = output or read.folder
    if folder is None:
        raise click.UsageError('name a new folder: -o out, or [output] folder = "out" in the study')
    require_new(folder)
    with calm_threads(read.schema):
        plan = read.plan()
    tables, note = chosen_tables(read, plan)
    with stopped_by_signals():
        made: Release | None = None
        try:
            made = read.release(plan, data, seed, details=details)
            made.save(folder, tables=tables)
        except KeyboardInterrupt:
            click.echo(interrupted(read, made, folder), err=True)
            raise SystemExit(INTERRUPTED) from None
        except StorageError as error:
            raise StorageError(f"{error}. {lost(made)}" if made else str(error)) from None
    if as_json:
        print_json(summary(folder, tables))
        return
    click.echo(str(made).rpartition("\n")[0])  # without how to ask in Python
    click.echo(f"  ledger   {made.recorded or 'not recorded: the study names no ledger'}")
    click.echo(f"  folder   {folder}")
    if note:
        click.echo(note)
    click.echo(f"Next: noiseplan show {folder}   ·   noiseplan report {folder}")


def require_new(folder: Path) -> None:
    """Refuse, before anything is spent, a folder that is there or cannot be written."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StorageError(
            f"{str(folder)!r} is there already and was left alone; nothing was spent. Choose a "
            f"new name: -o {folder}-2"
        )
    parent = folder.absolute().parent
    while not parent.exists():
        parent = parent.parent
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        raise StorageError(
            f"{str(folder)!r} cannot be written ({error.strerror}); nothing was spent"
        ) from None


def chosen_tables(study: Study, plan: Plan) -> tuple[Sequence[Query], str]:
    """The tables written as files: those the study names, or all unless there are too many."""
    from noiseplan.storage.tables import MOST_TABLES

    if study.tables is not None:
        return study.tables, ""
    if len(plan.workload) <= MOST_TABLES:
        return list(plan.workload), ""
    return [], (
        f"{len(plan.workload):,} tables are too many files; none was written as a file. Ask for "
        f"any of them with noiseplan answer, or name some in the study: [output] tables = […]"
    )


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """A termination is like Ctrl-C: what is half-written is taken away."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def interrupted(study: Study, made: Release | None, folder: Path) -> str:
    """What an interruption left behind."""
    where = ""
    if study.ledger is not None:
        where = f" See whether it was charged: noiseplan ledger show {study.ledger.path}"
    return f"Interrupted: {str(folder)!r} was not written.{' ' + lost(made) if made else where}"


def lost(made: Release) -> str:
    """What to say when noise was drawn and could not be kept."""
    recorded = made.recorded or "it was not recorded in a ledger"
    return f"The release was made and is lost; its cost counts all the same ({recorded})"


def summary(folder: Path, tables: Sequence[Query]) -> dict[str, Any]:
    """The release for programs."""
    from noiseplan.storage.files import read_json

    certificate = read_json(folder / "certificate.json")
    return {"folder": str(folder), "tables": len(tables), "certificate": certificate}
