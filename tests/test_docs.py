"""Every example in the documentation runs, prints what the page shows, and every link resolves.

Pages are run block by block in one namespace per page. A ``text`` block right after a ``python``
block is its output: words are compared, numbers are not (they depend on the noise and the machine).

``python tests/test_docs.py`` writes the outputs anew.
"""

from __future__ import annotations

import doctest
import importlib
import io
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import noiseplan

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# Pages whose blocks take seconds.
LONG = {
    "aware.md", "census.md", "custodian.md", "geography.md", "how-to-choose.md", "local.md",
    "pure.md", "queries.md", "quickstart.md", "researcher.md",
}  # fmt: skip

# A reason is part of the mark: <!-- not run: needs a cluster -->
BLOCK = re.compile(
    r"(?P<mark><!-- not run: [^\n]+ -->\n)?```python\n(?P<code>.*?)^```\n"
    r"(?:(?P<open>```text\n)(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)\s]+)\)")
NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?")

# Which table moved farthest is as random as how far: noise of one seed falls on other rows where a
# machine computes other last digits.
FARTHEST = re.compile(r"(at most #(?: of their own)?) \([^()]*(?:\([^()]*\)[^()]*)*\)")


def run_page(text: str, name: str) -> Iterator[tuple[re.Match[str], str]]:
    """Run a page's blocks in order; yield each with what it printed."""
    namespace: dict[str, object] = {"__name__": "__page__"}
    for block in BLOCK.finditer(text):
        if block["mark"]:
            continue
        line = text.count("\n", 0, block.start("code"))
        # Empty lines in front make a traceback name the line of the page.
        code = compile("\n" * line + block["code"], name, "exec", dont_inherit=True)
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(code, namespace)
        yield block, printed.getvalue()


def words(text: str) -> list[str]:
    """Lines without their numbers and spacing."""
    lines = (" ".join(NUMBER.sub("#", line).split()) for line in text.rstrip().splitlines())
    return [FARTHEST.sub(r"\1 (#)", line) for line in lines]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.few(1)] * (page.name in LONG)) for page in PAGES],
    ids=lambda page: page.name,
)
def test_page_runs_and_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    with chdir(tmp_path):
        for block, printed in run_page(text, str(page)):
            if block["open"]:
                assert words(printed) == words(block["output"]), (
                    f"{page.name} shows another output; python tests/test_docs.py writes it anew"
                )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in LINK.findall(text):
        path, _, anchor = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), f"{page.name} links to {target}, which is not there"
        if anchor:
            assert anchor in anchors(linked), f"{page.name} links to {target}: no such heading"


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub names them in links."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


def test_pages_are_found() -> None:
    names = {page.name for page in PAGES}
    assert {"README.md", "quickstart.md", "custodian.md", "researcher.md", "index.md"} <= names
    assert names >= LONG
    assert len(EXAMPLES) == 5


@pytest.mark.few(1)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_runs(example: Path, tmp_path: Path) -> None:
    # One thread: on small matrices BLAS threads cost more than they bring.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def modules() -> list[str]:
    found = pkgutil.walk_packages(noiseplan.__path__, "noiseplan.")
    return ["noiseplan", *(module.name for module in found)]


@pytest.mark.parametrize("name", modules())
def test_docstrings(name: str) -> None:
    """As `doctest.testmod`, which looks whether any file has changed for every docstring without an
    example too."""
    runner = doctest.DocTestRunner()
    for found in doctest.DocTestFinder().find(importlib.import_module(name)):
        if found.examples:
            runner.run(found)
    assert not runner.failures


def refresh(page: Path) -> None:
    """Write what a page's blocks print into the text blocks after them."""
    text = page.read_text(encoding="utf-8")
    pieces, end = [], 0
    with TemporaryDirectory() as folder, chdir(folder):
        for block, printed in run_page(text, str(page)):
            if block["open"]:
                pieces += [text[end : block.start("output")], printed.rstrip() + "\n"]
                end = block.end("output")
    page.write_text("".join([*pieces, text[end:]]), encoding="utf-8")


def test_the_page_for_reviewers_names_tests_that_exist() -> None:
    """A promise without its test would be a wish."""
    page = (ROOT / "docs" / "threats.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(tests/[^`]+)`", page))
    assert len(named) > 25
    for name in named:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "def test_" in text or "TestCase" in text, name
    promised = [line for line in page.splitlines() if line.startswith("| ") and "guarded" in line]
    assert promised
    rows = page.split("## Every door")[1].split("## What is not promised")[0].splitlines()
    for row in rows:
        if row.startswith("| ") and "guarded by" not in row and "---" not in row:
            assert "`tests/" in row, row


FILE = re.compile(r"`([\w./-]+(?:\.(?:py|txt|toml|svg)|/))`")


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/design.md"])
def test_the_pages_for_developers_name_files_that_exist(name: str) -> None:
    named = set(FILE.findall((ROOT / name).read_text(encoding="utf-8")))
    assert len(named) > 10
    places = (ROOT, ROOT / "src", ROOT / "src" / "noiseplan")
    for path in named - {"cli/NAME.py"}:
        assert any((place / path).exists() for place in places), f"{name} names {path}"


if __name__ == "__main__":
    for chosen in PAGES:
        refresh(chosen)
