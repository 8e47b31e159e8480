"""The documentation as a site: built without a warning, whole, and self-contained.

It is built once, in one test: a quarter of a minute of work and the notebooks, of which one is run
every day and all in full.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from browsers import chromium
from depth import some

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "docs" / "site"
sys.path.insert(0, str(SITE))

import reference  # noqa: E402  # beside the site's configuration

NOTEBOOKS = ["first-look", "custodians-year", "researchers-comparison", "telemetry"]
RUN = some(NOTEBOOKS, 1)

# Attributes by which a page loads what it does not hold; links of readers (`a`) load nothing.
LOADING = {"src", "srcset", "data", "poster", "action"}
SOURCE = re.compile(r"url\(\s*[\"']?(?:https?:)?//|@import\s+[\"']?(?:https?:)?//")


class Page(HTMLParser):
    """What a page loads, where it leads, and which places it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.places.add(value)
            if value and (name in LOADING or (name == "href" and tag == "link")):
                self.loaded.append(value)
            if value and name == "href" and tag == "a":
                self.links.append(value)


@cache
def page(path: Path) -> Page:
    return Page(path)


def pages(site: Path) -> Iterator[Path]:
    return site.rglob("*.html")


def assert_nothing_is_loaded_from_outside(site: Path) -> None:
    for path in pages(site):
        for target in page(path).loaded:
            parts = urlsplit(target)
            assert parts.scheme in {"", "data"}, f"{path.name} loads {target}"
            assert not parts.netloc, f"{path.name} loads {target}"
    for path in [*site.rglob("*.css"), *pages(site)]:
        assert not SOURCE.search(path.read_text(encoding="utf-8")), path


def assert_links_lead_somewhere(site: Path) -> None:
    checked = 0
    for path in pages(site):
        for target in page(path).links:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            linked = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert linked.is_file(), f"{path.relative_to(site)} leads to {target}"
            if parts.fragment and linked.suffix == ".html":
                places = page(linked).places | {"", "top"}
                assert unquote(parts.fragment) in places, f"{path.name} leads to {target}"
            checked += 1
    assert checked > 5_000


def assert_every_name_has_its_entry(site: Path) -> None:
    for listed in reference.pages():
        path = site / "reference" / f"{listed.file}.html"
        text = path.read_text(encoding="utf-8")
        for name, following in zip(listed.names, [*listed.names[1:], ""], strict=True):
            assert name in page(path).places, name
            own = text.partition(f'id="{name}"')[2].partition(f'id="{following}"')[0]
            assert "&gt;&gt;&gt; " in own or '<span class="gp">' in own, f"{name}: no example"


def assert_notebooks_ran(site: Path) -> None:
    found = {notebook.stem for notebook in (ROOT / "examples" / "notebooks").glob("*.ipynb")}
    assert found == set(NOTEBOOKS)
    for name in NOTEBOOKS:
        text = (site / "examples" / "notebooks" / f"{name}.html").read_text("utf-8")
        assert "Traceback" not in text
        if name in RUN:
            assert text.count("cell_output") >= 6, name
            assert '<div class="nz">' in text, name
    shown = (site / "examples" / "notebooks" / "first-look.html").read_text("utf-8")
    assert "Plan for 8 queries, 919 rows" in shown
    assert shown.count("<svg ") + shown.count('.svg"') >= 2


def assert_search_works_from_a_file(site: Path) -> None:
    with chromium() as browser:
        tab = browser.new_page()
        outside: list[str] = []
        tab.on("request", lambda r: outside.append(r.url) if r.url.startswith("http") else None)
        tab.goto((site / "index.html").as_uri())
        tab.wait_for_url("**/README.html")
        tab.goto((site / "search.html").as_uri() + "?q=Hierarchical")
        tab.wait_for_selector("#search-results li a", timeout=60_000)
        first = tab.locator("#search-results li a").first
        assert "Hierarchical" in first.inner_text()
        first.click()
        tab.wait_for_url("**/reference/declaring-data.html*")
        assert not outside


@pytest.mark.timeout(1200)  # a minute of work, on machines that do other things too
def test_the_site_is_whole(tmp_path: Path) -> None:
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, str(SITE / "build.py"), str(site), *sorted(set(NOTEBOOKS) - set(RUN))],
        cwd=tmp_path, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert_nothing_is_loaded_from_outside(site)
    assert_links_lead_somewhere(site)
    assert_every_name_has_its_entry(site)
    assert_notebooks_ran(site)
    assert_search_works_from_a_file(site)
    assert {path.name for path in tmp_path.iterdir()} == {"site"}


def test_what_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    source = tmp_path / "pages"
    source.mkdir()
    words = "# Front\n\n[nowhere](missing.md), [no heading](#not-there), {py:class}`nz.Missing`\n"
    (source / "README.md").write_text(words, encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-q", "--fail-on-warning", "-c", str(SITE)]
    done = subprocess.run(
        [*command, str(source), str(tmp_path / "out")],
        capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode != 0
    for said in ("'missing.md'", "'not-there'", "nz.Missing"):
        assert re.search(rf"README.md.*{said}.*(xref_missing|ref\.class)", done.stderr), said


def test_pages_know_nothing_of_the_site() -> None:
    """They are read on a forge too, which shows directives as code."""
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        assert "```{" not in path.read_text(encoding="utf-8"), path.name
