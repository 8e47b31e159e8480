"""The page in a real browser: it renders, nothing overflows, nothing is asked of anybody.

Needs Chromium, found on the path or through NOISEPLAN_CHROMIUM. Where there is none the tests are
skipped, unless NOISEPLAN_REQUIRE_SERVICES=1 says that they must run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import noiseplan as nz
from noiseplan.data import cpssw8_path, example_study
from noiseplan.report import report_page
from noiseplan.storage.certificate import certificate
from noiseplan.study import read_study

REQUIRED = os.environ.get("NOISEPLAN_REQUIRE_SERVICES") == "1"
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WIDTHS = (360, 768, 1280)
# The elements that reach beyond the window, other than those inside a box that scrolls by itself.
OVERFLOWING = """() => [...document.querySelectorAll("body *")]
  .filter((e) => !e.closest(".scroll") || e.matches(".scroll"))
  .filter((e) => { const r = e.getBoundingClientRect();
                   return r.width > 0 && (r.right > innerWidth + 0.5 || r.left < -0.5); })
  .filter((e) => !e.matches(".skip"))
  .map((e) => e.tagName + "." + e.className)"""


def missing(reason: str) -> None:
    (pytest.fail if REQUIRED else pytest.skip)(reason)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed: pip install playwright")
    found = os.environ.get("NOISEPLAN_CHROMIUM") or next(
        filter(None, map(shutil.which, NAMES)), None
    )
    if found is None:
        missing(f"no Chromium: none of {', '.join(NAMES)} is installed")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield running
        running.close()


def long_names() -> nz.Release:
    """Names, values and a title that are long, odd, and cannot be broken at spaces."""
    schema = nz.Schema(
        {
            "a" * 90: nz.Categorical(["v" * 120, "w"]),
            "count": nz.Ordinal(range(10_000_000, 10_000_012)),
        }
    )
    workload = nz.Workload.marginals(schema, up_to=2) + nz.Query(schema, [], name="n" * 200)
    return nz.plan(workload, budget=nz.zCDP(1e-9), noise="discrete").release(
        {"a" * 90: ["w"] * 50, "count": [10_000_000] * 50}
    )


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The demonstration, and a release with everything that could break a layout."""
    folder = tmp_path_factory.mktemp("pages")
    study = read_study(example_study("wages"))
    releases = {"wages": study.release(study.plan(), cpssw8_path()), "long": long_names()}
    written = {}
    for name, release in releases.items():
        title = {"wages": study.title, "long": "T" * 150}[name]
        written[name] = folder / f"{name}.html"
        page = report_page(release, certificate(release), title=title)
        written[name].write_text(page, encoding="utf-8")
    return written


class Visit:
    """A page that is open, and what it did."""

    def __init__(self, browser: Any, path: Path, width: int, scheme: str = "light") -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.url = path.as_uri()
        self.page.goto(self.url)

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.page.close()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["wages", "long"])
def test_it_renders_and_nothing_overflows(
    browser: Any, pages: dict[str, Path], name: str, width: int
) -> None:
    with Visit(browser, pages[name], width) as visit:
        visit.page.click("button")  # all tables open
        closed = visit.page.evaluate("document.querySelectorAll('details:not([open])').length")
        assert closed == 0
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.page.evaluate(OVERFLOWING) == []
        height = visit.page.evaluate("document.querySelector('svg.chart').clientHeight")
        assert height > 80
        assert visit.requests == [visit.url]
        assert visit.complaints == []


def test_no_request_can_leave_the_page(browser: Any, pages: dict[str, Path]) -> None:
    """Its own policy stops what a script or an image would ask for."""
    with Visit(browser, pages["wages"], 800) as visit:
        tried = visit.page.evaluate(
            """async () => { try { await fetch("https://example.org/"); return "asked" }
                             catch (error) { return "stopped" } }"""
        )
        assert tried == "stopped"
        assert any("Content Security Policy" in words for words in visit.complaints)


def test_the_search(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["wages"], 800) as visit:
        tables = len(read_study(example_study("wages")).plan().workload)
        visit.page.fill("input[type=search]", "GENDER earn")
        shown = visit.page.eval_on_selector_all(
            "details.released:not([hidden])", "found => found.map((each) => each.dataset.name)"
        )
        assert shown
        assert all("gender" in name and "earn" in name for name in shown)
        assert visit.page.inner_text("output") == f"{len(shown)} of {tables} tables"
        visit.page.fill("input[type=search]", "")
        assert visit.page.inner_text("output") == f"{tables} of {tables} tables"


def luminance(colour: str) -> float:
    channels = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_in_light_and_dark(
    browser: Any, pages: dict[str, Path], scheme: str
) -> None:
    """Contrast of at least 4.5 to 1, as WCAG 2 asks for at level AA."""
    with Visit(browser, pages["wages"], 800, scheme) as visit:
        paper = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (luminance(paper) > 0.5) == (scheme == "light")
        for selector in ("body", ".muted", "nav a", "caption", "thead th"):
            ink = visit.page.evaluate(
                f'getComputedStyle(document.querySelector("{selector}")).color'
            )
            high, low = sorted([luminance(ink), luminance(paper)], reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, selector


def test_tables_and_pictures_have_names_for_screen_readers(
    browser: Any, pages: dict[str, Path]
) -> None:
    with Visit(browser, pages["wages"], 800) as visit:
        assert visit.page.get_by_role("img").count() >= 2
        assert visit.page.get_by_role("table", name="Average error against budget").count() == 1
        assert visit.page.get_by_role("searchbox").get_attribute("aria-controls") == "released"
        assert visit.page.evaluate(
            "document.getElementById('released') !== null && document.title.length > 0"
        )
