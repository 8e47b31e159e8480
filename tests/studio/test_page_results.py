"""What the page tells of a plan: expected counts, effects, comparisons; and what leaves it."""

from __future__ import annotations

import csv
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from page_browser import HALF, TOWN, Served, Visit, studio, study_text, town, visiting
from serving import ENDLESS

import noiseplan as nz
from noiseplan.study import read_study

STUDY = f"""{TOWN}
[ledger]
file = "town.ledger"
dataset = "town"
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """That study with a ledger, and data that may be released."""
    with charged(tmp_path_factory.mktemp("town")) as running:
        yield running


@contextmanager
def charged(folder: Path) -> Iterator[Served]:
    (folder / "town.toml").write_text(STUDY, encoding="utf-8")
    nz.Ledger(folder / "town.ledger", create=True).open_dataset("town", nz.zCDP(9.0))
    with studio(folder, "town.toml", None, "--data", last_year(folder).name) as running:
        yield running


@pytest.fixture
def visit(browser: Any, served: Served) -> Iterator[Visit]:
    with visiting(browser, served, accept_downloads=True) as page:
        page.planned()
        yield page


def last_year(folder: Path) -> Path:
    """A public table: twenty of each sex and age in the north, none anywhere else."""
    path = folder / "last-year.csv"
    rows = [(sex, age, "north", 20) for sex in "FM" for age in range(10)]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("sex", "age", "area", "people"), *rows])
    return path


def cells(visit: Visit, table: str) -> list[str]:
    row = visit.page.locator(f"#errors tr[data-table='{table}']")
    return [str(text) for text in row.locator("td").all_inner_texts()]


def test_a_guess_tells_relative_errors_and_useless_cells(visit: Visit) -> None:
    visit.page.get_by_text("Is that exact enough?").click()
    visit.page.get_by_label("People in all", exact=True).fill("60")
    visit.click("Compare with these")
    visit.page.get_by_text("spread evenly over all cells").wait_for()
    error = visit.errors_shown()["sex × age"][0] / HALF
    *_, relative, useless = cells(visit, "sex × age")
    # 60 people over 20 cells: 3 in each, all of which have the same error.
    assert float(relative.split()[0]) == pytest.approx(100 * error / 3, rel=0.02)
    assert useless == ("100 %" if error / 3 > 0.5 else "none")
    visit.page.get_by_label("A cell is useless above").fill("1000")
    visit.click("Compare with these")
    visit.page.get_by_text("No cell has a relative standard error above 1,000 %.").wait_for()


def test_a_public_table_tells_which_cells_will_be_useless(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    page.get_by_text("Is that exact enough?").click()
    page.get_by_label("A public table of an earlier year").check()
    assert page.locator("#public-file-input").is_disabled()
    page.get_by_label("The file I choose is public").check()
    page.locator("#public-file-input").set_input_files(str(last_year(tmp_path)))
    visit.click("Compare with these")
    page.locator(".worst").wait_for()
    *_, useless = cells(visit, "age × area")
    assert useless == "67 %"  # two areas of three are empty
    assert "0 · south" in page.locator(".worst").inner_text()
    *_, useless = cells(visit, "sex × age")
    assert useless == "none"


def test_the_effect_of_each_table_on_the_others(visit: Visit) -> None:
    visit.page.get_by_text("What each table costs the others").click()
    visit.click("Find out")
    visit.page.get_by_role("button", name="Find again").wait_for()
    said = visit.page.locator(".effects li").all_inner_texts()
    assert len(said) == 3
    assert any("sex × age" in each and "all others gain" in each for each in said)
    gains = [float(each.split("gain ")[1].split()[0]) for each in said if "others gain" in each]
    assert gains == sorted(gains, reverse=True) and gains[0] > 0


def test_variants_are_kept_and_compared_side_by_side(visit: Visit) -> None:
    visit.click("Variants")
    visit.click("Keep this design as…", visit.dialog())
    visit.dialog().get_by_label("Name").fill("with pairs")
    visit.click("Keep", visit.dialog())
    before = visit.errors_shown()
    visit.click("Remove every table of 2 attributes")
    visit.planned()
    after = visit.errors_shown()
    assert set(after) == {"ages", "small"}
    visit.click("Compare")
    dialog = visit.dialog()
    dialog.get_by_label("One design").select_option("variant:with pairs")
    row = dialog.get_by_role("row", name="ages")
    row.wait_for()
    old, new, change = row.locator("td").all_inner_texts()
    assert (float(old.strip("± \n")), float(new.strip("± \n"))) == (
        before["ages"][0],
        after["ages"][0],
    )
    expected = 100 * (after["ages"][0] / before["ages"][0] - 1)
    assert float(change.replace("−", "-").split()[0]) == pytest.approx(expected, abs=0.6)
    assert "not asked" in dialog.get_by_role("row", name="sex × area").inner_text()
    visit.page.keyboard.press("Escape")
    visit.click("Variants (1)")
    visit.click("Open with pairs", visit.dialog())
    visit.planned()
    assert study_text(visit) == STUDY
    assert visit.errors_shown() == before


def test_what_is_chosen_in_a_dialog_begins_as_it_closes(visit: Visit) -> None:
    visit.click("Variants")
    visit.click("Keep this design as…", visit.dialog())
    visit.dialog().get_by_label("Name").fill("with pairs")
    visit.click("Keep", visit.dialog())
    visit.click("Remove every table of 2 attributes")
    visit.planned()
    visit.click("Variants (1)")
    opening = visit.dialog().get_by_role("button", name="Open with pairs", exact=True)
    begun = opening.evaluate(
        """async (button) => {
          button.click();
          for (let turn = 0; turn < 20; turn += 1) await null;  // no event comes in between
          return [document.body.classList.contains("pending"), document.querySelector("dialog")];
        }"""
    )
    assert begun == [True, None]


def test_a_plan_under_way_is_cancelled(visit: Visit) -> None:
    page = visit.page
    page.locator("#file summary").click()
    page.locator("#study-text").fill(ENDLESS)
    visit.click("Apply")
    visit.click("Cancel")
    page.get_by_text("Not planned: cancelled.").wait_for()
    page.get_by_role("button", name="Plan", exact=True).wait_for()
    visit.click("Undo")
    visit.planned()


def test_attributes_of_a_public_file_need_a_confirmation(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "codes.csv"
    path.write_text("code,weight\nA1,3\nB2,4\nC3,5\n", encoding="utf-8")
    visit.click("From a public file…")
    dialog = visit.dialog()
    assert "Never the data that are to be protected" in dialog.inner_text()
    assert dialog.locator("#public-file-input").is_disabled()
    dialog.get_by_label("The file I choose is public").check()
    dialog.locator("#public-file-input").set_input_files(str(path))
    visit.click("Add 2 attributes", dialog)
    dialog.wait_for(state="detached")
    schema = tomllib.loads(study_text(visit))["schema"]
    assert schema["code"] == {"categorical": ["A1", "B2", "C3"]}
    assert schema["weight"] == {"ordinal": {"from": 3, "to": 5}}


def test_python_commands_and_report_leave_the_page(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    visit.click("Take out…")
    page.get_by_role("button", name="Python A program").click()
    code = str(page.locator("#code").inner_text())
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}\nprint('rmse', plan.rmse)"],
        capture_output=True,
        text=True,
        check=True,
    )
    rmse = float(ran.stdout.split("rmse")[-1])
    assert float(page.locator("#rmse").inner_text().strip("± ")) == pytest.approx(
        HALF * rmse, rel=1e-3
    )
    page.keyboard.press("Escape")
    visit.click("Take out…")
    page.get_by_role("button", name="Commands").click()
    assert "noiseplan release town.toml DATA -o out" in page.locator("#code").inner_text()
    page.keyboard.press("Escape")
    visit.click("Take out…")
    with page.expect_download() as download:
        page.get_by_role("button", name="Planning report").click()
    report = Path(download.value.path()).read_text(encoding="utf-8")
    assert "A town" in report and "ages" in report and "http://" not in report
    visit.click("Take out…")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the study").click()
    assert Path(download.value.path()).read_text(encoding="utf-8") == STUDY


def test_a_release_asks_twice_and_is_done_by_the_command_line(visit: Visit, served: Served) -> None:
    page = visit.page
    visit.click("Take out…")
    page.get_by_role("button", name="Release…").click()
    assert visit.dialog().get_by_label("Data").input_value() == "last-year.csv"
    visit.dialog().get_by_label("Into the folder").fill("released")
    visit.click("What would happen?", visit.dialog())
    page.get_by_text("once and for good").wait_for()
    go = visit.dialog().get_by_role("button", name="Release", exact=True)
    assert go.is_disabled() and not (served.folder / "released").exists()
    visit.dialog().get_by_label("Type “release” to go on").fill("release")
    go.click()
    visit.dialog().get_by_text("Released.", exact=True).wait_for()
    assert (served.folder / "released").is_dir()
    assert read_study(served.folder / "town.toml").title == "A town"


def released_into(visit: Visit, folder: str) -> None:
    """All that a user does for a release."""
    visit.click("Take out…")
    visit.page.get_by_role("button", name="Release…").click()
    assert visit.dialog().get_by_label("Data").input_value() == "last-year.csv"
    visit.dialog().get_by_label("Into the folder").fill(folder)
    visit.click("What would happen?", visit.dialog())
    visit.dialog().get_by_label("Type “release” to go on").fill("release")
    visit.dialog().get_by_role("button", name="Release", exact=True).click()


def test_a_lost_connection_says_nothing_of_the_release(browser: Any, tmp_path: Path) -> None:
    """On a ledger of its own: a plan is released once."""
    lost: list[str] = []

    def lose(route: Any) -> None:
        lost.append(route.request.url)
        route.abort() if len(lost) <= 2 else route.continue_()

    with charged(tmp_path) as served, visiting(browser, served) as visit:
        visit.planned()
        visit.page.route("**/api/jobs/*", lose)
        released_into(visit, "lost-and-found")
        visit.dialog().get_by_text("Released.", exact=True).wait_for()
        assert len(lost) > 2 and (served.folder / "lost-and-found").is_dir()


def test_a_release_that_is_forgotten_is_not_called_undone(visit: Visit, served: Served) -> None:
    answer = {"error": {"message": "no such job"}}
    visit.page.route("**/api/jobs/*", lambda route: route.fulfill(status=404, json=answer))
    released_into(visit, "forgotten")
    visit.dialog().get_by_text("It is not known whether it was released").wait_for()
    assert "Not released" not in visit.dialog().inner_text()


def test_a_release_needs_a_study_that_is_saved(visit: Visit) -> None:
    visit.page.get_by_label("Title of the study").fill("Another")
    visit.page.get_by_label("Title of the study").press("Enter")
    visit.page.locator("#saved", has_text="not saved").wait_for()
    visit.click("Take out…")
    visit.page.get_by_role("button", name="Release…").click()
    assert "Save first" in visit.dialog().inner_text()


def test_without_data_that_were_named_the_page_says_how_to_name_them(
    browser: Any, tmp_path: Path
) -> None:
    with town(tmp_path) as served, visiting(browser, served) as visit:
        visit.click("Take out…")
        visit.page.get_by_role("button", name="Release…").click()
        assert "noiseplan studio town.toml --data FILE" in visit.dialog().inner_text()
