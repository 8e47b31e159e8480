"""`noiseplan report`: one page about a release, with pictures, that works without a network."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noiseplan.cli._common import (
    CONTEXT,
    json_option,
    open_release,
    release_argument,
)
from noiseplan.console import print_json, say
from noiseplan.errors import StorageError
from noiseplan.planning.threads import calm_threads

if TYPE_CHECKING:
    from noiseplan.release.release import Release
    from noiseplan.valid import ValidTables


@click.command(context_settings=CONTEXT)
@release_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page to write. By default report.html, or valid.html, in the folder of the release.",
)
@click.option("--title", default="", help="What the release is about, unless its study said it.")
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Of the intervals.",
)
@click.option("--valid", "as_valid", is_flag=True, help="Tables without negative counts.")
@click.option(
    "--table", "tables", multiple=True, help="With --valid: only of these, as noiseplan valid."
)
@click.option("--total", type=float, help="With --valid: the number of records, if it is public.")
@click.option("--integers", is_flag=True, help="With --valid: whole numbers.")
@json_option
def command(
    folder: Path, output: Path | None, title: str, level: float, as_json: bool, **valid: Any
) -> None:  # valid: as_valid, tables, total and integers
    """Write a page about RELEASE, a folder: what is promised, every table, how precise it is.

    The page is one file that holds everything and loads nothing. It is made from what was
    released, so it costs no privacy.
    """
    from noiseplan.report import report_page
    from noiseplan.report.offline_page import file_links
    from noiseplan.storage.files import read_json

    release = open_release(folder)
    made, told = valid_tables(release, folder, **valid)
    target = output or folder / ("report.html" if made is None else "valid.html")
    with calm_threads(release.plan.workload.schema):
        page = report_page(
            release,
            read_json(folder / "certificate.json"),
            title=title,
            level=level,
            files=file_links(folder, target) if made is None else {},
            valid=made,
        )
    replace_file(target, page)
    if as_json:
        print_json({"page": str(target), "bytes": len(page.encode())})
    else:
        if told:
            say(f"valid tables {told}")
        say(f"wrote {target}, {len(page.encode()) / 1000:,.0f} kB; open it in a browser")


def valid_tables(
    release: Release,
    folder: Path,
    as_valid: bool,
    tables: tuple[str, ...],
    total: float | None,
    integers: bool,
) -> tuple[ValidTables | None, str]:
    """The valid tables that were asked for, as `noiseplan valid` makes them, and where from.

    It may have written them already, in the folder of the release or beside it.
    """
    if not as_valid:
        if integers or tables or total is not None:
            raise click.UsageError(
                "--table, --total and --integers are of valid tables: add --valid"
            )
        return None, ""
    from noiseplan.cli.valid import require_named, require_unbiased
    from noiseplan.valid.saved_tables import Wanted, folders_of

    require_unbiased(release, folder)
    require_named(tables)
    wanted, others = Wanted(total, integers, tables), ""
    if tables:
        return wanted.compute(release), "computed for the tables named"
    for place in folders_of(release, (folder, folder.absolute().parent)):
        try:
            return wanted.read(release, place), f"taken from {str(place)!r}"
        except StorageError as error:
            others = f": {error}"
    kept = f"; noiseplan valid {folder} -o FOLDER keeps them" if not others else ""
    return wanted.compute(release), f"computed anew{others}{kept}"


def replace_file(path: Path, content: str) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        part.write_text(content, encoding="utf-8")  # for whom the umask lets read it
        part.replace(path)
    except OSError as error:
        raise StorageError(f"{str(path)!r} cannot be written: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
