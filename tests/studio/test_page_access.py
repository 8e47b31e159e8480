"""The page by keyboard, for screen readers, on a phone's width, in dark and light."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from page_browser import Served, Visit, study_text, visiting

# The elements that reach beyond the window, other than those inside a box that scrolls by itself.
OVERFLOWING = """() => [...document.querySelectorAll("body *")]
  .filter((e) => !e.closest(".scroll, .editor") || e.matches(".scroll, .editor"))
  .filter((e) => { const r = e.getBoundingClientRect();
                   return r.width > 0 && (r.right > innerWidth + 0.5 || r.left < -0.5); })
  .filter((e) => !e.matches(".skip, .unseen"))
  .map((e) => e.tagName + "." + e.className)"""

# Controls that nothing names: no label, no text, no aria-label.
NAMELESS = """() => [...document.querySelectorAll("button, input, select, textarea, a")]
  .filter((e) => !((e.labels && [...e.labels].some((l) => l.textContent.trim()))
                   || e.getAttribute("aria-label") || e.textContent.trim()))
  .map((e) => e.outerHTML.slice(0, 120))"""

# Ids that occur twice, and references to ids that are not there.
BROKEN_IDS = """() => {
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  const twice = ids.filter((id, at) => ids.indexOf(id) !== at);
  const named = [...document.querySelectorAll("[for], [aria-labelledby], [aria-describedby]")]
    .flatMap((e) => ["for", "aria-labelledby", "aria-describedby"].map((a) => e.getAttribute(a)))
    .filter(Boolean).flatMap((text) => text.split(" "));
  return [...twice, ...named.filter((id) => !ids.includes(id))];
}"""

# Texts that do not stand out from what is behind them by 4.5 to 1, as WCAG 2 asks at level AA.
FAINT = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const over = (top, below) => { const a = top.length > 3 ? top[3] : 1;
    return [0, 1, 2].map((i) => a * top[i] + (1 - a) * below[i]); };
  const behind = (e) => { const layers = [];
    for (let at = e; at; at = at.parentElement)
      layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]); };
  const light = (c) => { const l = c.map((x) => x / 255)
    .map((x) => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2]; };
  return [...document.querySelectorAll("body *")]
    .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
    .filter((e) => e.getClientRects().length && !e.closest(":disabled, .unseen, .skip, option"))
    .map((e) => { const back = behind(e);
      const ink = over(parse(getComputedStyle(e).color), back);
      const [a, b] = [light(ink), light(back)];
      return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.outerHTML.slice(0, 90)]; })
    .filter(([ratio]) => ratio < 4.5)
}"""


def every_dialog(visit: Visit) -> Iterator[str]:
    """One dialog after the other, open."""
    for button in ("Edit age", "Edit ages", "From a public file…", "Whole families…"):
        visit.click(button)
        yield button
        visit.page.keyboard.press("Escape")
        visit.dialog().wait_for(state="detached")
    for button in ("A condition…", "Variants", "Compare", "Take out…"):
        visit.click(button)
        yield button
        visit.page.keyboard.press("Escape")
        visit.dialog().wait_for(state="detached")


def open_details(visit: Visit) -> None:
    visit.page.evaluate(
        "() => document.querySelectorAll('details').forEach((e) => { e.open = true; })"
    )


def test_nothing_overflows_on_a_phone(browser: Any, served: Served) -> None:
    with visiting(browser, served, width=360) as visit:
        visit.planned()
        open_details(visit)
        assert visit.page.evaluate(OVERFLOWING) == []
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 360
        for button in every_dialog(visit):
            assert visit.page.evaluate(OVERFLOWING) == [], button
        for title in ("n" * 90, "a title of many words that goes on and on and never ends " * 3):
            visit.page.get_by_label("Title of the study").fill(title)
            visit.page.get_by_label("Title of the study").press("Enter")
            assert visit.page.evaluate(OVERFLOWING) == []


@pytest.mark.few(1)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_has_a_name_and_stands_out(browser: Any, served: Served, scheme: str) -> None:
    with visiting(browser, served, color_scheme=scheme) as visit:
        visit.planned()
        open_details(visit)
        dark = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (int(dark.split("(")[1].split(",")[0]) < 100) == (scheme == "dark")
        check(visit, "page")
        for button in every_dialog(visit):
            check(visit, button)


def check(visit: Visit, place: str) -> None:
    assert visit.page.evaluate(NAMELESS) == [], place
    assert visit.page.evaluate(BROKEN_IDS) == [], place
    assert visit.page.evaluate(FAINT) == [], place


def test_areas_have_names_and_changes_are_announced(browser: Any, served: Served) -> None:
    with visiting(browser, served) as visit:
        page = visit.page
        visit.planned()
        for name in ("Attributes", "Tables", "Budget", "What you get", "The study file"):
            assert visit.area(name).count() == 1, name
        assert page.get_by_role("toolbar", name="Study").count() == 1
        assert page.get_by_role("table", name="Expected errors of every table").count() == 1
        assert "of 100 cases" in page.get_by_role("slider").get_attribute("aria-valuetext")
        pressed = page.get_by_role("button", name="sex", exact=True)
        assert pressed.get_attribute("aria-pressed") == "false"
        pressed.click()
        assert pressed.get_attribute("aria-pressed") == "true"
        with visit.hears("small removed.", "Planned: average error"):
            visit.click("Remove small")


def test_a_table_is_added_budgeted_and_saved_by_keyboard_alone(
    browser: Any, served: Served
) -> None:
    with visiting(browser, served) as visit:
        page, keys = visit.page, visit.page.keyboard
        reach(visit, "chip:age")
        keys.press("Space")
        keys.press("Tab")
        keys.press("Space")  # the attribute beside it
        reach(visit, "way:new:age")
        keys.press("ArrowDown")  # up to each value
        reach(visit, "add-table")
        keys.press("Enter")
        page.get_by_role("heading", name="prefix(age) × area").wait_for()
        visit.planned()
        assert page.evaluate("document.activeElement.dataset.key") == "chip:sex"
        reach(visit, "slider")
        keys.press("ArrowRight")
        visit.planned()
        assert page.evaluate("document.activeElement.dataset.key") == "slider"
        budget = tomllib.loads(study_text(visit))["budget"]["zcdp"]
        assert budget > 0.5
        with visit.hears("Undone: the budget."):
            keys.press("Control+z")
        assert tomllib.loads(study_text(visit))["budget"]["zcdp"] == 0.5
        keys.press("Control+s")
        page.locator("#saved", has_text="town.toml, saved").wait_for()
        saved = tomllib.loads((served.folder / "town.toml").read_text(encoding="utf-8"))
        assert saved["tables"][-1] == {"query": "age=prefix, area"}
        assert "# the pyramid" in (served.folder / "town.toml").read_text(encoding="utf-8")


def reach(visit: Visit, key: str) -> None:
    """Press Tab until the element of that key has the focus."""
    here = "document.activeElement?.dataset?.key"
    for _ in range(120):
        if visit.page.evaluate(here) == key:
            return
        visit.page.keyboard.press("Tab")
    raise AssertionError(f"no Tab leads to {key}")


def test_what_is_being_typed_outlives_a_plan_that_ends(browser: Any, served: Served) -> None:
    with visiting(browser, served) as visit:
        visit.planned()
        visit.page.get_by_label("Weight of ages").fill("2")
        visit.page.get_by_label("Weight of ages").press("Enter")
        name = visit.page.get_by_label("Title of the study")
        name.focus()
        name.press("End")
        name.press_sequentially(", half")
        visit.planned()
        assert name.input_value().endswith(", half")
        assert visit.page.evaluate("document.activeElement.dataset.key") == "title"
