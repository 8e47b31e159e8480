"""Pages whose commands are run: `console` blocks, and the files that the page shows.

Lines with `$ noiseplan` are run in order, in one folder; what follows is what they print. A `toml`
or `csv` block after `<!-- file: NAME -->` is written to that file first, after
`<!-- append: NAME -->` added to its end. Numbers, hashes and bars may differ.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

from click.testing import CliRunner

from noiseplan.cli import main

BLOCK = re.compile(
    r"(?:^<!-- (?P<act>file|append): (?P<name>\S+) -->\n)?"
    r"^```(?P<kind>console|toml|csv)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
PROMPT = "$ noiseplan "
CHANGING = re.compile(r"\b[0-9a-f]{64}\b|[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?|[█▏▎▍▌▋▊▉]+|ρ = \S+")


def run_page(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Run a page in the working folder; yield each console block with what it should show."""
    for block in BLOCK.finditer(text):
        if block["act"]:
            with Path(block["name"]).open("w" if block["act"] == "file" else "a") as file:
                file.write(block["text"])
        if block["kind"] == "console":
            lines = [part.partition("\n")[0] for part in block["text"].split(PROMPT)[1:]]
            yield block, "".join(f"{PROMPT}{line}\n{run_line(line)}" for line in lines)


def run_line(line: str) -> str:
    """What a command prints; nothing may fail that the page does not show to fail."""
    result = CliRunner().invoke(main, shlex.split(line))
    assert not result.exception or isinstance(result.exception, SystemExit), line
    printed = "\n".join(row.rstrip() for row in result.output.splitlines())
    return printed + "\n" if printed else ""


def words(text: str) -> list[str]:
    """Lines without what changes from run to run."""
    return [" ".join(CHANGING.sub("#", line).split()) for line in text.strip().splitlines()]


def refreshed(text: str) -> str:
    """The page with the output that its commands print now."""
    pieces, end = [], 0
    with TemporaryDirectory() as folder, chdir(folder):
        for block, shown in run_page(text):
            pieces += [text[end : block.start("text")], shown]
            end = block.end("text")
    return "".join([*pieces, text[end:]])
