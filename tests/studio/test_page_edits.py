"""Edits on the page: what they do to the study file, to the errors shown, and to the focus."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from page_browser import TOWN, Served, Visit, study_text

import noiseplan as nz
from noiseplan.noise.moments import half_width_factor
from noiseplan.queries.questions import read_question


def focused(visit: Visit) -> str:
    return str(visit.page.evaluate("document.activeElement.dataset.key"))


def test_a_new_name_is_carried_to_tables_and_conditions_and_undone(visit: Visit) -> None:
    visit.click("Edit age")
    visit.dialog().get_by_label("Name").fill("years")
    visit.click("Apply", visit.dialog())
    visit.page.get_by_role("heading", name="years", exact=True).wait_for()
    renamed = study_text(visit)
    written = tomllib.loads(renamed)
    assert list(written["schema"]) == ["sex", "years", "area"]
    assert written["tables"][0] == {"name": "ages", "query": "sex, years=prefix"}
    assert written["predicates"][0]["where"] == "years < 3 and area = 'north'"
    for comment in ("This comment stays", "# as in the register", "# decided in March"):
        assert comment in renamed
    visit.planned()
    assert "sex × years" in visit.errors_shown()
    visit.click("Undo")
    visit.page.get_by_role("heading", name="age", exact=True).wait_for()
    assert study_text(visit) == TOWN
    visit.click("Redo")
    visit.page.get_by_role("heading", name="years", exact=True).wait_for()
    assert study_text(visit) == renamed


def test_targets_follow_a_table_that_is_called_otherwise(visit: Visit) -> None:
    text = TOWN.replace("[budget]\nzcdp = 0.5  # decided in March", '[targets]\n"sex × age" = 9.0')
    type_text(visit, text)
    visit.click("Edit age")
    visit.dialog().get_by_label("Name").fill("years")
    visit.click("Apply", visit.dialog())
    visit.page.get_by_role("heading", name="years", exact=True).wait_for()
    assert tomllib.loads(study_text(visit))["targets"] == {"sex × years": 9.0}


def type_text(visit: Visit, text: str) -> None:
    """Write the study by hand, in its own area of the page."""
    area = visit.page.locator("#study-text")
    if not area.is_visible():
        visit.page.locator("#file summary").click()
    area.fill(text)
    area.press("Control+Enter")
    assert study_text(visit) == text


def test_attributes_move_and_the_focus_stays_on_the_button(visit: Visit) -> None:
    visit.page.get_by_role("button", name="Move area up").press("Enter")
    visit.page.locator("#attributes li").nth(1).get_by_text("area").wait_for()
    assert list(tomllib.loads(study_text(visit))["schema"]) == ["sex", "area", "age"]
    assert focused(visit) == "up:area"


def test_removing_an_attribute_says_what_goes_with_it(visit: Visit) -> None:
    visit.click("Remove age")
    said = visit.dialog().inner_text()
    assert "ages" in said and "small" in said
    visit.click("Remove", visit.dialog())
    visit.page.get_by_role("heading", name="age", exact=True).wait_for(state="detached")
    written = tomllib.loads(study_text(visit))
    assert written["tables"] == [{"name": "ages", "query": "sex"}, {"k": 2}]
    assert "predicates" not in written
    assert focused(visit) == "add-attribute"
    visit.planned()


def test_values_are_ordered_binned_missing_other_and_clipped(visit: Visit) -> None:
    visit.click("Add an attribute")
    dialog = visit.dialog()
    dialog.get_by_label("Name").fill("pay")
    dialog.get_by_label("Numbers in bins").check()
    dialog.get_by_label("Values are").select_option("span")
    for label, value in {"from": "0", "to": "1", "step": "0.25"}.items():
        dialog.get_by_label(label, exact=True).fill(value)
    assert dialog.locator("#preview").inner_text() == "4 bins"
    dialog.get_by_text("Missing, other").click()
    dialog.get_by_label("Cell for missing values").fill("not stated")
    dialog.get_by_label("Values beyond the ends").check()
    visit.click("Add", dialog)
    dialog.wait_for(state="detached")
    visit.click("Edit area")
    dialog.get_by_label("Values", exact=True).fill("north\nsouth\neast\n007")
    dialog.get_by_text("Missing, other").click()
    dialog.get_by_label("Cell for other values").fill("elsewhere")
    visit.click("Apply", dialog)
    dialog.wait_for(state="detached")
    schema = tomllib.loads(study_text(visit))["schema"]
    assert schema["pay"] == {
        "binned": {"from": 0, "to": 1, "step": 0.25},
        "clip": True,
        "missing": "not stated",
    }
    assert schema["area"] == {
        "categorical": ["north", "south", "east", "007"],
        "other": "elsewhere",
    }


def test_a_wrong_value_is_refused_in_the_dialog_and_changes_nothing(visit: Visit) -> None:
    visit.click("Edit age")
    visit.dialog().get_by_label("to", exact=True).fill("-5")
    visit.click("Apply", visit.dialog())
    assert "below from = 0" in visit.dialog().get_by_role("alert").inner_text()
    visit.page.keyboard.press("Escape")
    assert study_text(visit) == TOWN
    assert focused(visit) == "edit:age"


def test_tables_of_groups_ranges_and_families_with_what_is_asked(visit: Visit) -> None:
    area = visit.area("Tables")
    visit.click("age", area)
    visit.click("area", area)
    area.get_by_label("age", exact=True).select_option("groups")
    area.get_by_label("Groups of age").fill("young: 0..4\nold: 5..")
    visit.click("Add the table", area)
    area.get_by_role("heading", name="young, old(age) × area").wait_for()
    visit.click("age", area)
    area.get_by_label("age", exact=True).select_option("groups")
    area.get_by_label("Groups of age").fill("..2\n3..")
    visit.click("Add the table", area)
    area.get_by_role("heading", name="..2 | 3..(age)").wait_for()
    visit.click("Whole families…")
    dialog = visit.dialog()
    dialog.get_by_label("Every table of").select_option("at most")
    dialog.get_by_label("so many attributes").fill("3")
    dialog.get_by_text("What is asked of each attribute").click()
    dialog.get_by_label("age", exact=True).select_option("every range")
    assert dialog.get_by_text("8 tables").is_visible()
    visit.click("Add", dialog)
    dialog.wait_for(state="detached")
    tables = tomllib.loads(study_text(visit))["tables"]
    groups = {"custom": {"young": "0..4", "old": "5.."}, "name": "young, old"}
    assert tables[2] == {"query": "age, area", "factors": {"age": groups}}
    assert tables[3] == {"query": "age=..2 | 3.."}
    assert tables[4] == {"up_to": 3, "factors": {"age": "ranges"}}
    visit.click("Edit young, old(age) × area")
    assert dialog.get_by_label("Groups of age").input_value() == "young: 0..4\nold: 5.."
    visit.page.keyboard.press("Escape")


def test_errors_scale_while_the_slider_moves_and_are_planned_when_it_rests(visit: Visit) -> None:
    visit.planned()
    page, slider = visit.page, visit.page.get_by_label("Less is safer")
    before, sentence = visit.errors_shown(), page.locator("#sentence").inner_text()
    slider.evaluate(
        "(e) => { e.value = Number(e.value) + 8; e.dispatchEvent(new Event('input')); }"
    )
    rho = float(page.get_by_label("ρ", exact=True).input_value())
    assert rho > 0.5 and study_text(visit) == TOWN
    moving = visit.errors_shown()
    for name, (error, largest) in before.items():
        assert moving[name][0] == pytest.approx(error * math.sqrt(0.5 / rho), rel=1e-3)
        assert moving[name][1] == pytest.approx(largest * math.sqrt(0.5 / rho), rel=1e-3)
    assert page.locator("#sentence").inner_text() != sentence
    slider.dispatch_event("change")
    visit.planned()
    assert f"zcdp = {rho:g}  # decided in March" in study_text(visit)
    for name, (error, _) in visit.errors_shown().items():
        assert error == pytest.approx(moving[name][0], rel=5e-3)
    slider.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    visit.planned()
    assert focused(visit) == "slider"


def target_shown(visit: Visit) -> float:
    return float(visit.page.locator("#errors tr[data-table='ages'] .target").inner_text())


def of_gauss(level: float) -> float:
    return NormalDist().inv_cdf((1 + level) / 2)


def of_laplace(level: float) -> float:
    """The reach of one Laplace number, or of the Gaussian that a sum of many is nearly."""
    return max(of_gauss(level), -math.log(1 - level) / math.sqrt(2))


@pytest.mark.parametrize(
    ("budget", "widest"), [("", of_gauss), ("[budget]\npure_dp = 0.5\n", of_laplace)]
)
def test_a_plus_or_minus_is_half_the_interval_at_the_level_chosen(
    visit: Visit, budget: str, widest: Callable[[float], float]
) -> None:
    targets = '[targets]\n"ages" = { half_width = 100, level = 0.9 }\n'
    type_text(visit, TOWN.partition("[budget]")[0] + targets + budget)
    visit.planned()
    level = visit.page.get_by_label("± at")
    assert level.input_value() == "0.9" and target_shown(visit) == 100.0
    before = visit.errors_shown()["ages"]
    level.select_option("0.99")
    wider = widest(0.99) / widest(0.9)
    assert target_shown(visit) == pytest.approx(100 * wider, rel=1e-3)
    assert visit.errors_shown()["ages"] == pytest.approx([wider * x for x in before], rel=1e-3)
    assert "half of the 99 % interval" in visit.page.locator(".figures").inner_text()
    assert visit.page.get_by_label("Target of ages: plus or minus").input_value() == "100"
    if not budget:
        largest = float(visit.page.locator("#largest").inner_text().strip("± "))
        assert largest == pytest.approx(100 * wider, rel=1e-2)  # met, at the least cost


def test_accuracy_first_finds_the_least_budget(visit: Visit) -> None:
    visit.planned()
    visit.page.get_by_label("Chosen by").select_option("targets")
    visit.planned()
    width = visit.page.get_by_label("Target of ages: plus or minus")
    width.fill("12")
    width.press("Enter")
    visit.planned()
    written = tomllib.loads(study_text(visit))
    assert "budget" not in written
    assert written["targets"]["ages"] == {"half_width": 12, "level": 0.95}
    assert visit.errors_shown()["ages"][1] <= 12.01
    assert target_shown(visit) == 12.0
    assert "ρ = " in visit.page.locator("#least").inner_text()
    visit.page.get_by_label("Chosen by").select_option("approx_dp")
    visit.planned()
    written = tomllib.loads(study_text(visit))
    assert "targets" not in written and written["budget"]["approx_dp"]["delta"] == 1e-9


def test_persons_with_several_records_and_the_total_as_public(visit: Visit) -> None:
    page = visit.page
    page.get_by_text("Who is protected, what the plan aims at").click()
    page.get_by_label("What may differ").select_option("replace")
    page.get_by_label("Column of persons").fill("patient")
    page.get_by_label("Column of persons").press("Enter")
    page.get_by_label("Records of one that count").fill("3")
    page.get_by_label("Records of one that count").press("Enter")
    page.get_by_label("Called").fill("household")
    page.get_by_label("Called").press("Enter")
    page.locator("#sentence", has_text="finds a household").wait_for()
    written = tomllib.loads(study_text(visit))
    assert written["people"] == {"person": "patient", "max_rows": 3, "unit": "household"}
    assert written["plan"] == {"neighbours": "replace"}


def test_a_code_list_is_read_once_it_is_called_public(visit: Visit, served: Served) -> None:
    places = "block,county\n001,north\n002,north\n003,south\n"
    (served.folder / "places.csv").write_text(places, encoding="utf-8")
    visit.click("Add an attribute")
    dialog = visit.dialog()
    dialog.get_by_label("Name").fill("place")
    dialog.get_by_label("Hierarchy").check()
    dialog.get_by_label("File beside the study").fill("places.csv")
    dialog.get_by_label("Columns, from the finest").fill("block\ncounty")
    visit.click("Add", dialog)
    dialog.wait_for(state="detached")
    visit.click("places.csv is public")
    assert "Never the data that are to be protected" in dialog.inner_text()
    visit.click("It is public", dialog)
    visit.page.get_by_text("block 3 › county 2").wait_for()
    area = visit.area("Tables")
    visit.click("place", area)
    visit.click("sex", area)
    area.get_by_label("place", exact=True).select_option("each county (2)")
    visit.click("Add the table", area)
    area.get_by_role("heading", name="sex × county").wait_for()
    written = tomllib.loads(study_text(visit))
    assert written["schema"]["place"] == {
        "hierarchical": {"file": "places.csv", "levels": ["block", "county"]}
    }
    assert written["tables"][-1] == {"query": "county, sex"}
    visit.planned()
    assert "sex × county" in visit.errors_shown()


def module(visit: Visit, name: str, call: str, *given: Any) -> Any:
    """What a function of a module of the page returns."""
    script = f"async (given) => (await import('/static/{name}')).{call}(...given)"
    return visit.page.evaluate(script, list(given))


def test_numbers_and_questions_of_the_page_are_those_of_the_library(visit: Visit) -> None:
    for level in (0.5, 0.9, 0.95, 0.99, 0.999999):
        for laplace in (False, True):
            expected = half_width_factor(level, 1, laplace)
            found = module(visit, "numbers.js", "widthFactor", level, laplace)
            assert found == pytest.approx(expected)
    for ways in range(5):
        exactly = module(visit, "table_drafts.js", "familySize", "k", ways, 7)
        at_most = module(visit, "table_drafts.js", "familySize", "up_to", ways, 7)
        assert exactly == math.comb(7, ways)
        assert at_most == sum(math.comb(7, k) for k in range(ways + 1))
    schema = nz.Schema.from_sizes({"age": 9, "odd, name": 3, "it's": 2})
    for question in (
        "age=prefix, 'odd, name'",
        'age=0..3 | 4.., "it\'s"',
        "total",
        "age=levels(3)",
    ):
        parts = module(visit, "questions.js", "readQuestion", question, list(schema.names))
        asks = [{"called": part["name"], "ask": part["ask"]} for part in parts]
        written = module(visit, "questions.js", "setPartsText", asks)["query"]
        wanted = read_question(question, schema).dense()
        assert np.array_equal(read_question(written, schema).dense(), wanted), written
    condition = "age < 3 and (`age` = 1 or name = 'age') and aged > 2"
    renamed = "`the age` < 3 and (`the age` = 1 or name = 'age') and aged > 2"
    assert (
        module(visit, "questions.js", "renameInCondition", condition, "age", "the age") == renamed
    )
