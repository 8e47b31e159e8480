"""`noiseplan report`: one page about a release, with pictures, that works without a network."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

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


@click.command(context_settings=CONTEXT)
@release_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page to write. By default report.html in the folder of the release.",
)
@click.option("--title", default="", help="What the release is about.")
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Of the intervals.",
)
@json_option
def command(folder: Path, output: Path | None, title: str, level: float, as_json: bool) -> None:
    """Write a page about RELEASE, a folder: what is promised, how precise it is, every table.

    The page is one file that holds everything and loads nothing. It is made from what was
    released, so it costs no privacy.
    """
    from noiseplan.report import report_page
    from noiseplan.storage.files import read_json

    release = open_release(folder)
    with calm_threads(release.plan.workload.schema):
        page = report_page(
            release, read_json(folder / "certificate.json"), title=title, level=level
        )
    target = output or folder / "report.html"
    replace_file(target, page)
    if as_json:
        print_json({"page": str(target), "bytes": len(page.encode())})
    else:
        say(f"wrote {target}, {len(page.encode()) / 1000:,.0f} kB; open it in a browser")


def replace_file(path: Path, content: str) -> None:
    """Write a file whole or not at all."""
    try:
        handle, part = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise StorageError(f"{str(path)!r} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        Path(part).chmod(0o644)  # mkstemp's files are for the owner alone
        Path(part).replace(path)
    finally:
        Path(part).unlink(missing_ok=True)
