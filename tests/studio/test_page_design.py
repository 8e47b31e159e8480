"""A whole design from an empty page, by clicks and typing, against the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from page_browser import HALF, Visit, studio


def add_attribute(visit: Visit, name: str, kind: str, **fields: str) -> None:
    visit.click("Add an attribute")
    dialog = visit.dialog()
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_label(kind).check()
    for label, value in fields.items():
        dialog.get_by_label(label, exact=True).fill(value)
    visit.click("Add", dialog)
    dialog.wait_for(state="detached")


def add_table(visit: Visit, asks: dict[str, str]) -> None:
    area = visit.area("Tables")
    for name in asks:
        visit.click(name, area)
    for name, way in asks.items():
        area.get_by_label(name, exact=True).select_option(label=way)
    visit.click("Add the table", area)
    area.get_by_label(next(iter(asks)), exact=True).wait_for(state="detached")


def command_line(folder: Path, name: str) -> dict[str, Any]:
    """What `noiseplan plan --json` says of a file."""
    order = [sys.executable, "-m", "noiseplan", "plan", "--all", "--json", name]
    ran = subprocess.run(order, cwd=folder, capture_output=True, text=True, check=True)
    return dict(json.loads(ran.stdout))


def test_a_study_designed_on_the_page_is_planned_alike_by_the_command_line(
    browser: Any, tmp_path: Path
) -> None:
    with studio(tmp_path) as served:
        context = browser.new_context(viewport={"width": 1300, "height": 900})
        visit = Visit(context, served)
        page = visit.page
        design(visit)
        visit.planned()
        shown, rmse = visit.errors_shown(), page.locator("#rmse").inner_text()
        largest = page.locator("#largest").inner_text()
        save_as(visit, "people")
        found = command_line(tmp_path, "people.toml")
        expected = {row["table"]: row for row in found["tables"]}
        assert set(shown) == set(expected) and len(shown) == 9
        for name, (error, worst) in shown.items():
            assert error == pytest.approx(HALF * expected[name]["std_error"], rel=1e-3), name
            assert worst == pytest.approx(HALF * expected[name]["worst_std_error"], rel=1e-3), name
        assert float(rmse.strip("± ")) == pytest.approx(HALF * found["rmse"], rel=1e-3)
        worst = max(row["worst_std_error"] for row in found["tables"])
        assert float(largest.strip("± ")) == pytest.approx(HALF * worst, rel=1e-3)
        check_file(tmp_path / "people.toml", found)
        assert {url.split("/")[2] for url in visit.asked} == {f"127.0.0.1:{served.port}"}
        visit.close()
        context.close()


def design(visit: Visit) -> None:
    """Four attributes, a table, a family and a condition, at a budget in ρ."""
    page = visit.page
    page.get_by_label("Title of the study").fill("People by region")
    add_attribute(visit, "sex", "Categories", Values="F\nM")
    add_attribute(visit, "years", "Ordered values", **{"from": "0", "to": "19"})
    add_attribute(visit, "income", "Numbers in bins", Edges="0, 10, 50, inf")
    add_attribute(visit, "place", "Categories", Values="north, south, east")
    add_table(visit, {"years": "up to each value", "sex": "each value"})
    visit.click("Whole families…")
    visit.dialog().get_by_label("Every table of").select_option("exactly")
    assert visit.dialog().get_by_text("6 tables").is_visible()
    visit.click("Add", visit.dialog())
    visit.click("A condition…")
    condition = visit.dialog()
    condition.get_by_label("Attribute").select_option("years")
    condition.get_by_label("Comparison").select_option("is below")
    condition.get_by_label("Value").select_option("18")
    visit.click("Put in", condition)
    condition.get_by_label("Condition").press("End")
    condition.get_by_label("Condition").press_sequentially(" and sex = 'F'")
    condition.get_by_label("Name").fill("girls")
    visit.click("Add", condition)
    condition.wait_for(state="detached")
    visit.click("The total", visit.area("Tables"))
    page.get_by_label("Weight of girls").fill("3")
    page.get_by_label("Chosen by").select_option("zcdp")
    page.get_by_label("ρ", exact=True).fill("0.25")
    page.get_by_label("ρ", exact=True).press("Enter")
    page.get_by_text("every table of 2 attributes").first.wait_for()


def save_as(visit: Visit, name: str) -> None:
    visit.click("Save")
    visit.dialog().get_by_label("Name of the file").fill(name)
    visit.click("Save", visit.dialog())
    visit.page.locator("#saved", has_text=f"{name}.toml, saved").wait_for()


def check_file(path: Path, found: dict[str, Any]) -> None:
    """What was typed is what is written."""
    written = tomllib.loads(path.read_text(encoding="utf-8"))
    assert written["title"] == found["title"] == "People by region"
    assert list(written["schema"]) == ["sex", "years", "income", "place"]
    assert written["schema"]["income"] == {"binned": [0, 10, 50, float("inf")]}
    assert {"query": "years=prefix, sex"} in written["tables"]
    assert {"k": 2} in written["tables"]
    assert written["predicates"] == [
        {"where": "years < 18 and sex = 'F'", "name": "girls", "weight": 3}
    ]
    assert written["budget"] == {"zcdp": 0.25}
