"""`noiseplan studio`: plan in the browser, on this machine only."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from noiseplan.cli._common import CONTEXT
from noiseplan.console import say


@click.command(context_settings=CONTEXT)
@click.argument("study", metavar="[STUDY]", type=click.Path(path_type=Path), required=False)
@click.option("--port", type=click.IntRange(1, 65535), help="A port of this machine.")
@click.option("--no-browser", is_flag=True, help="Print the address only, and open no browser.")
def command(study: Path | None, port: int | None, no_browser: bool) -> None:
    """Design a study in the browser: what it costs, and what everybody gets. Reads no data.

    The page is served on this machine alone, and only to whoever has the address that is printed:
    it holds a key. Without STUDY it begins with an empty page.
    """
    from noiseplan.studio.launch import serve

    def tell(address: str) -> None:
        say(f"The planning page is at\n  {address}")
        say("It reads no data, and only this machine can see it. Stop it with Ctrl-C.")

    # Ctrl-C is how it is stopped; what was saved is saved.
    with suppress(KeyboardInterrupt):
        serve(study, port, not no_browser, tell)
    say("stopped")
