"""`noiseplan release`: from a study and data to a folder, once."""

from __future__ import annotations

import secrets
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from noiseplan.cli import INTERRUPTED
from noiseplan.cli._common import (
    CONTEXT,
    json_option,
    open_release,
    outside_option,
    study_argument,
    warned,
)
from noiseplan.console import print_json, say
from noiseplan.errors import StorageError
from noiseplan.paths import checked_path
from noiseplan.planning.threads import calm_threads
from noiseplan.progress import waiting
from noiseplan.study import Study, read_study
from noiseplan.words.hints import in_command_line

if TYPE_CHECKING:
    from noiseplan.choosing.continuation import Continuation
    from noiseplan.planning.plan import Plan
    from noiseplan.privacy import Guarantee
    from noiseplan.queries import Query
    from noiseplan.release.release import Release

STOPS = (signal.SIGINT, signal.SIGTERM)
Command = TypeVar("Command", bound=Callable[..., Any])


def database_options(function: Command) -> Command:
    """Which table of a database is counted."""
    query = click.option("--query", help="DATA is a database: count what this SELECT returns.")
    table = click.option("--table", help="DATA is a database: count this table or view of it.")
    return table(query(function))  # the last comes first in the help


given_option = click.option(
    "--given",
    metavar="RELEASE",
    type=click.Path(path_type=Path),
    help="An earlier release of the same data: only what it lacks is measured, and paid for.",
)


again_option = click.option(
    "--again", is_flag=True, help="Release a plan that was released before, at its whole cost."
)


@click.command(context_settings=CONTEXT)
@study_argument
@click.argument("data")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="A new folder for the release. By default the study's own: [output] folder.",
)
@database_options
@given_option
@again_option
@click.option("--seed", type=int, help="The same noise every time: for tests, and not private.")
@outside_option
@click.option("--confirmed", hidden=True, help="The digest of the study that was confirmed.")
@click.option(
    "--details",
    is_flag=True,
    help="If DATA are refused, show private values and numbers of rows; a ledger keeps that.",
)
@json_option
def command(
    study: Path,
    data: str,
    output: Path | None,
    given: Path | None,
    allow_outside: bool,
    as_json: bool,
    **how: Any,
) -> None:  # how: table, query, again, seed and details
    """Count DATA, add noise, and write the tables of STUDY. Spends the budget once.

    DATA is a CSV or Parquet file, or a pattern of several, as in 'year=*/*.parquet'; with --table
    or --query, a DuckDB or SQLite file, or env:NAME, an environment variable that holds the address
    of another database, which Ibis opens. No address is taken here: it may hold a password.

    Where the study names a ledger, it is asked before a record is read, and the cost is recorded
    there before any noise is drawn; a release that does not fit is refused, and nothing is spent.
    """
    read = read_study(study, allow_outside=allow_outside)
    if how.pop("confirmed") not in (None, read.digest()):
        raise StorageError(f"{study.name!r} was changed since it was confirmed; nothing was done")
    folder = output or read.new_folder()
    if folder is None:
        raise click.UsageError('name a new folder: -o out, or [output] folder = "out" in the study')
    require_new(folder)
    read.require_ledger()
    with calm_threads(read.schema), waiting("planning"):
        plan = read.plan()
    tables, note = chosen_tables(read, plan)
    require_writable(folder, tables)
    with stopped_by_signals(), warnings_aloud():
        made: Release | None = None
        try:
            left = after(given, plan)
            made = counted(read, left, data, tell=warned, **how)
            made.save(folder, tables=tables)
        except KeyboardInterrupt:
            say(interrupted(read, made, folder), err=True)
            raise SystemExit(INTERRUPTED) from None
        except Exception as error:
            if made is None:
                raise
            found = in_command_line(error).rstrip(".")
            raise StorageError(f"{found}. {kept(made, folder, tables)}") from error
    if as_json:
        print_json(summary(folder, tables) | {"new_rho": left.privacy.rho})
        return
    say(str(made).rpartition("\n")[0])  # without how to ask in Python
    if given is not None:
        say(f"  new      {new_part(left.privacy, given)}")
    say(f"  ledger   {made.recorded or 'not recorded: the study names no ledger'}")
    say(f"  folder   {folder}")
    if note:
        say(note)
    say(f"Next: noiseplan show {folder}   ·   noiseplan report {folder}")


@contextmanager
def warnings_aloud() -> Iterator[None]:
    """Warnings of the library in one line each, and not as Python shows them."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = lambda message, *_, **__: warned(str(message))
        yield


def after(given: Path | None, plan: Plan) -> Plan | Continuation:
    """What is left of a plan after an earlier release, or all of it."""
    return plan if given is None else plan.given(open_release(given))


def new_part(spent: Guarantee, given: Path) -> str:
    """What was spent now, of what a release and the one that it is built on cost together."""
    if not spent.pcost:
        return f"nothing: all of it was spent by the release in {str(given)!r}"
    now = spent.describe().splitlines()[0]
    return f"{now} of it; the rest was spent by the release in {str(given)!r}"


def counted(
    study: Study,
    plan: Plan | Continuation,
    data: str,
    table: str | None,
    query: str | None,
    **how: Any,
) -> Release:
    """The release of a file, or of a table of a database; `how` is the rest of how."""
    with records_of(data, table, query) as records:
        return study.release(plan, records, **how)


@contextmanager
def records_of(data: str, table: str | None, query: str | None) -> Iterator[object]:
    """A file by its name, or a table of a database, which is open within the block."""
    if table is None and query is None:
        yield data
        return
    from noiseplan.counting.named_tables import named_table

    with named_table(data, table, query) as records:
        yield records


def require_new(folder: Path) -> None:
    """Refuse, before anything is planned, a folder that is there."""
    checked_path(folder, StorageError)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        # "." and ".." are no names that one could add to.
        other = f"{folder}-2" if folder.name.strip(".") else folder / "out"
        raise StorageError(
            f"{str(folder)!r} is there already and was left alone; nothing was spent. Choose a "
            f"new name: -o {other}"
        )


def require_writable(folder: Path, tables: Sequence[Query]) -> None:
    """Rehearse the saving, so that what would fail after the spending fails before it."""
    from noiseplan.storage.folder import rehearse_saving

    try:
        rehearse_saving(folder, tables)
    except StorageError as error:
        raise StorageError(error.message + "; nothing was spent") from None


def chosen_tables(study: Study, plan: Plan) -> tuple[Sequence[Query], str]:
    """The tables written as files: those the study names, or all unless there are too many."""
    from noiseplan.storage.table_files import MOST_TABLES

    if study.tables is not None:
        return study.tables, ""
    if len(plan.workload) <= MOST_TABLES:
        every, mechanism = list(plan.workload), plan.mechanism
        without = [query.name for query in every if mechanism.unlisted(query) is not None]
        return list(mechanism.listed(plan.workload)), _unlisted(without)
    return [], (
        f"{len(plan.workload):,} tables are too many files; none was written as a file. Ask for "
        f"any of them with noiseplan answer, or name some in the study: [output] tables = […]"
    )


def _unlisted(names: Sequence[str]) -> str:
    """What is said of tables that are too long for a file."""
    if not names:
        return ""
    return (
        f"{', '.join(map(repr, names))}: too many rows for a file; any of them is answered by "
        f"itself with noiseplan answer, as a condition"
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
    """What an interruption left behind; a release that was made is kept, without table files."""
    where = ""
    if study.ledger is not None:
        where = f" See whether it was charged: noiseplan ledger show {study.ledger.path}"
    with uninterrupted():
        left = f" {kept(made, folder, [])}" if made else where
    return f"Interrupted: {str(folder)!r} was not written.{left}"


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A moment in which nothing stops the process but force: what was paid for is being kept."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [(kind, signal.signal(kind, signal.SIG_IGN)) for kind in STOPS]
    try:
        yield
    finally:
        for kind, handler in before:
            signal.signal(kind, handler)


def kept(made: Release, folder: Path, tables: Sequence[Query]) -> str:
    """Keep a release that was paid for where it can be kept, and say where.

    Beside the folder that was asked for; among the temporary files; at home. Where its tables
    cannot be written as files, without them: it answers every one of them later.
    """
    recorded = made.recorded or "it was not recorded in a ledger"
    for place in spare_places(folder):
        for some in [tables, []] if tables else [[]]:
            with suppress(Exception):  # the next place may do, whatever is wrong with this one
                made.save(place, tables=some)
                without = "" if some or not tables else ", without its tables as files"
                return (
                    f"The release was made, its cost counts ({recorded}), and it is kept{without} "
                    f"in {str(place)!r}: move it from there"
                )
    return f"The release was made and is lost; its cost counts all the same ({recorded})"


def spare_places(folder: Path) -> Iterator[Path]:
    """Folders that are not there yet, with names of their own."""
    name = f"noiseplan-release-{secrets.token_hex(4)}"
    yield folder.absolute().parent / name
    with suppress(OSError):
        yield Path(tempfile.mkdtemp(prefix="noiseplan-kept-")) / name
    with suppress(RuntimeError):  # of a user without a home
        yield Path.home() / name


def summary(folder: Path, tables: Sequence[Query]) -> dict[str, Any]:
    """The release for programs."""
    from noiseplan.storage.files import read_json

    certificate = read_json(folder / "certificate.json")
    return {"folder": str(folder), "tables": len(tables), "certificate": certificate}
