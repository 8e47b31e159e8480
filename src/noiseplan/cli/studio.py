"""`noiseplan studio`: plan in the browser, on this machine only."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from noiseplan.cli._common import CONTEXT
from noiseplan.console import say

FIRST = (
    "It opens one tab, once. The page reads no data, and only this machine can see it. Stop it "
    "with Ctrl-C."
)
USED = "That address was used; if not by you, stop the studio. For another tab:"


@click.command(context_settings=CONTEXT)
@click.argument("study", metavar="[STUDY]", type=click.Path(path_type=Path), required=False)
@click.option("--port", type=click.IntRange(1, 65535), help="A port of this machine.")
@click.option("--no-browser", is_flag=True, help="Print the address only, and open no browser.")
@click.option(
    "--data",
    metavar="FILE",
    multiple=True,
    help="Data that may be released from the page, with the study's ledger; without it none.",
)
def command(study: Path | None, port: int | None, no_browser: bool, data: tuple[str, ...]) -> None:
    """Design a study in the browser: what it costs, and what everybody gets. Reads no data.

    The page is served on this machine alone, and only to whoever has an address that is printed:
    each is good for one tab. Without STUDY it begins with an empty page.
    """
    from noiseplan.studio.launch import serve

    words = iter([("The planning page is at", FIRST)])

    def tell(address: str) -> None:
        before, after = next(words, (USED, ""))
        say(f"{before}\n  {address}" + f"\n{after}" * bool(after))

    # Ctrl-C is how it is stopped; what was saved is saved.
    with suppress(KeyboardInterrupt):
        serve(study, port, not no_browser, data, tell)
    say("stopped")
