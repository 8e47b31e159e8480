"""The commands of the pages print what the pages show.

`python tests/cli/test_cli_pages.py` (with tests/ on the path) writes the outputs anew.
"""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import pytest

from consoles import refreshed, run_page, words

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "docs" / name for name in ("census.md", "command-line.md", "story.md", "custodian.md")
]


@pytest.mark.few(1)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_the_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    commands = 0
    with chdir(tmp_path):
        for block, printed in run_page(page.read_text(encoding="utf-8")):
            # Tables are listed by their errors: two that are close may change places.
            assert sorted(words(printed)) == sorted(words(block["text"]))
            commands += printed.count("$ noiseplan ")
    assert commands >= 6


if __name__ == "__main__":
    for chosen in PAGES:
        chosen.write_text(refreshed(chosen.read_text(encoding="utf-8")), encoding="utf-8")
