"""The page in a real browser: it renders, nothing overflows, nothing is asked of anybody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import noiseplan as nz
from browsers import chromium
from noiseplan.data import cpssw8_path, example_study
from noiseplan.report import Design, planning_page, report_page
from noiseplan.storage.certificate import certificate
from noiseplan.study import read_study

WIDTHS = (360, 768, 1280)
# The elements that reach beyond the window, other than those inside a box that scrolls by itself.
OVERFLOWING = """() => [...document.querySelectorAll("body *")]
  .filter((e) => !e.closest(".scroll") || e.matches(".scroll"))
  .filter((e) => { const r = e.getBoundingClientRect();
                   return r.width > 0 && (r.right > innerWidth + 0.5 || r.left < -0.5); })
  .filter((e) => !e.matches(".skip"))
  .map((e) => e.tagName + "." + e.className)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


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
        page = report_page(release, certificate(release, release.plan.hash()), title=title)
        written[name].write_text(page, encoding="utf-8")
    text = example_study("wages").read_text(encoding="utf-8")
    designs = [
        Design(name, release.title or "T" * 90, "P" * 90, release.plan, text)
        for name, release in zip(("as it is", "n" * 80), releases.values(), strict=True)
    ]
    written["plans"] = folder / "plans.html"
    written["plans"].write_text(planning_page(designs), encoding="utf-8")
    return written


class Visit:
    """A page that is open, and what it did."""

    def __init__(
        self, browser: Any, path: Path, width: int, scheme: str = "light", *, scripts: bool = True
    ) -> None:
        size = {"width": width, "height": 800}
        self.page = browser.new_page(
            viewport=size, color_scheme=scheme, java_script_enabled=scripts
        )
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


@pytest.mark.grid
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["wages", "long"])
def test_it_renders_and_nothing_overflows(
    browser: Any, pages: dict[str, Path], name: str, width: int
) -> None:
    with Visit(browser, pages[name], width) as visit:
        visit.page.click("button")  # all tables open
        closed = "document.querySelectorAll('details.released:not([open])').length"
        assert visit.page.evaluate(closed) == 0
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


def visible_rows(visit: Visit) -> int:
    """Rows of the released tables that take room on the screen or on paper."""
    return int(
        visit.page.evaluate(
            """() => [...document.querySelectorAll("#released tbody tr")]
                 .filter((row) => row.checkVisibility({contentVisibilityAuto: true})).length"""
        )
    )


def every_row(visit: Visit) -> int:
    return int(visit.page.evaluate("document.querySelectorAll('#released tbody tr').length"))


@pytest.mark.parametrize("scripts", [True, False])
def test_print_shows_every_table(browser: Any, pages: dict[str, Path], scripts: bool) -> None:
    with Visit(browser, pages["wages"], 800, scripts=scripts) as visit:
        every = every_row(visit)
        assert visible_rows(visit) < every / 2
        visit.page.emulate_media(media="print")
        visit.page.screenshot()  # which has the page laid out anew before it is looked at
        assert visible_rows(visit) == every
        cut = visit.page.evaluate(
            """() => [...document.querySelectorAll("#released .scroll")]
                 .filter((box) => box.scrollHeight > box.clientHeight + 1).length"""
        )
        assert cut == 0
        visit.page.emulate_media(media="screen")
        visit.page.screenshot()
        assert visible_rows(visit) < every / 2


def test_printing_opens_all_and_closes_them_again(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["wages"], 800) as visit:
        before = visit.page.evaluate("document.querySelectorAll('details[open]').length")
        visit.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert visit.page.evaluate("document.querySelectorAll('details:not([open])').length") == 0
        visit.page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert visit.page.evaluate("document.querySelectorAll('details[open]').length") == before


def test_a_third_attribute_is_chosen_by_keyboard(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["wages"], 800) as visit:
        block = visit.page.locator("details[data-name='gender × education × earnings']")
        block.locator("summary").first.focus()
        visit.page.keyboard.press("Enter")
        choice = block.get_by_role("combobox", name="gender")
        assert choice.locator("option").all_inner_texts() == ["female", "male"]
        tables = block.locator("table")
        assert [tables.nth(i).is_visible() for i in range(2)] == [True, False]
        visit.page.keyboard.press("Tab")
        visit.page.keyboard.press("ArrowDown")
        assert [tables.nth(i).is_visible() for i in range(2)] == [False, True]


def test_without_scripts_every_table_can_be_opened(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["wages"], 800, scripts=False) as visit:
        assert not visit.page.locator(".tools").is_visible()
        block = visit.page.locator("details[data-name='gender × education × earnings']")
        block.locator("summary").first.click()
        tables = block.locator("table")
        assert [tables.nth(i).is_visible() for i in range(2)] == [True, False]
        block.get_by_text("gender: male", exact=True).click()
        assert tables.nth(1).is_visible()


def test_heads_of_long_tables_stay(browser: Any, pages: dict[str, Path]) -> None:
    with Visit(browser, pages["wages"], 800) as visit:
        visit.page.click("button")
        box = visit.page.locator("details[data-name='gender × age'] .scroll")
        head, last = box.locator("thead th").nth(1), box.locator("tbody tr").last
        box.scroll_into_view_if_needed()
        assert last.bounding_box()["y"] > box.bounding_box()["y"] + box.bounding_box()["height"]
        box.evaluate("(box) => { box.scrollTop = box.scrollHeight; }")
        frame = box.bounding_box()
        assert last.bounding_box()["y"] < frame["y"] + frame["height"]
        assert frame["y"] - 1 <= head.bounding_box()["y"] <= frame["y"] + 1


@pytest.mark.parametrize("width", WIDTHS)
def test_the_planning_report_renders(browser: Any, pages: dict[str, Path], width: int) -> None:
    with Visit(browser, pages["plans"], width) as visit:
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.page.evaluate(OVERFLOWING) == []
        assert visit.requests == [visit.url]
        assert visit.complaints == []


def luminance(colour: str) -> float:
    channels = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# Every pair of colours in which the page has words: ink, and the nearest background that is one.
COLOURS = """() => {
  const paper = (e) => { const c = getComputedStyle(e).backgroundColor;
    return c === "rgba(0, 0, 0, 0)" && e.parentElement ? paper(e.parentElement) : c; };
  const found = new Map();
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || e.closest("script, svg")) continue;
    const pair = [getComputedStyle(e).color, paper(e)];
    found.set(pair.join(" "), [...pair, e.tagName + "." + e.className]);
  }
  return [...found.values()]; }"""


@pytest.mark.grid
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["wages", "plans"])
def test_words_stand_out_in_light_and_dark(
    browser: Any, pages: dict[str, Path], name: str, scheme: str
) -> None:
    """Contrast of at least 4.5 to 1, as WCAG 2 asks for at level AA."""
    with Visit(browser, pages[name], 800, scheme) as visit:
        body = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (luminance(body) > 0.5) == (scheme == "light")
        pairs = visit.page.evaluate(COLOURS)
        assert len(pairs) > 4
        for ink, paper, where in pairs:
            high, low = sorted([luminance(ink), luminance(paper)], reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, where


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
