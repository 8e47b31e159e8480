"""What the commands print, all of it: names of others cannot command the reader's terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import click

from noiseplan.escaping import visible, visible_json


def say(text: object = "", *, err: bool = False, nl: bool = True, bold: bool = False) -> None:
    """Print a text with its control characters written out; only the style is our own."""
    shown = visible(str(text))
    click.echo(click.style(shown, bold=True) if bold else shown, err=err, nl=nl)


def print_json(content: object) -> None:
    """JSON with the letters as they are and control characters as JSON writes them; dates as text.

    Whoever reads it as JSON gets every name as it is.
    """
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=str)
    say_json(text)


def say_json(text: str) -> None:
    """Print what is JSON already."""
    click.echo(visible_json(text.removesuffix("\n")))


@contextmanager
def plain_complaints() -> Iterator[None]:
    """Complaints of click about a call quote what was typed: show it as everything else."""
    try:
        yield
    except click.ClickException as error:
        said = visible(error.format_message())
        error.format_message = lambda: said  # type: ignore[method-assign]
        raise
