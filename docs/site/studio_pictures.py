"""The pictures of docs/studio.md: a browser goes through the story, in light.

    python docs/site/studio_pictures.py

needs Chromium, found on the path or through NOISEPLAN_CHROMIUM, and playwright.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from playwright.sync_api import Page, expect, sync_playwright

IMAGES: Final = Path(__file__).resolve().parents[1] / "images"
LARGEST: Final = 150_000
SECOND: Final = 1000
SCALE: Final = 0.8


@contextmanager
def studio(folder: Path) -> Iterator[Iterator[str]]:
    """The studio on the demonstration; its addresses, each of which is good once."""
    python = [sys.executable, "-m", "noiseplan"]
    subprocess.run([*python, "init", "--example", "wages"], cwd=folder, check=True)
    order = [*python, "studio", "--no-browser", "wages.toml"]
    with subprocess.Popen(order, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield (found[0] for line in process.stdout if (found := re.search(r"http://\S+", line)))
        finally:
            process.terminate()


@contextmanager
def window(address: str, width: int) -> Iterator[Page]:
    """The page in a browser of that width."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("NOISEPLAN_CHROMIUM") or next(filter(None, map(shutil.which, names)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        size = {"width": width, "height": 900}
        page = browser.new_page(viewport=size, color_scheme="light", device_scale_factor=SCALE)
        page.goto(address)
        planned(page)
        # Nothing over the areas that are pictured.
        page.evaluate("document.getElementById('bar').style.position = 'static'")
        yield page
        browser.close()


def planned(page: Page) -> None:
    """Wait for the plan of what is shown."""
    expect(page.locator("body.pending")).to_have_count(0, timeout=60 * SECOND)
    expect(page.locator(".progress, .stale")).to_have_count(0, timeout=300 * SECOND)
    page.locator("#errors").wait_for()
    page.wait_for_timeout(0.4 * SECOND)  # bars that still move


def keep(name: str, of: Any) -> None:
    """One picture, small enough for a page."""
    path = IMAGES / f"studio-{name}.png"
    of.screenshot(path=path)
    assert path.stat().st_size < LARGEST, f"{path.name} has {path.stat().st_size} bytes"


def compose(page: Page) -> None:
    """A table of age groups by region, clicked together."""
    area = page.locator("#tables")
    for name in ("age", "region"):
        area.get_by_role("button", name=name, exact=True).click()
    area.get_by_label("age", exact=True).select_option("groups")
    area.get_by_label("Groups of age").fill("young: ..29\nmiddle: 30..49\nolder: 50..")
    page.mouse.move(0, 0)
    keep("table", area.locator(".composer"))
    area.get_by_role("button", name="Add the table").click()
    planned(page)


def keep_variant(page: Page, name: str) -> None:
    """The design that is open, under a name."""
    page.get_by_role("button", name="Variants").click()
    page.get_by_role("button", name="Keep this design as…").click()
    page.get_by_role("dialog").get_by_label("Name").fill(name)
    page.get_by_role("dialog").get_by_role("button", name="Keep").click()


def expect_counts(page: Page) -> None:
    """Relative errors, for a guess of how many people there are."""
    page.get_by_text("Is that exact enough?").click()
    page.get_by_label("People in all", exact=True).fill("60000")
    page.get_by_label("A cell is useless above").fill("20")
    page.get_by_role("button", name="Compare with these").click()
    page.get_by_label("Sorted").select_option("relative")
    page.locator(".worst").wait_for()
    page.mouse.move(0, 0)
    keep("expected", page.locator("#errors"))


def compare(page: Page) -> None:
    """Without the pairs, beside the design with them."""
    keep_variant(page, "with all pairs")
    page.get_by_role("button", name="Remove every table of at most").click()
    planned(page)
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_label("One design").select_option("variant:with all pairs")
    page.locator(".comparison").wait_for()
    page.get_by_role("dialog").locator("h2").click()
    keep("compare", page.get_by_role("dialog"))
    page.keyboard.press("Escape")


def main() -> None:
    with TemporaryDirectory() as folder, studio(Path(folder)) as addresses:
        with window(next(addresses), 1120) as page:
            keep("first", page)
            compose(page)
            expect_counts(page)
            compare(page)
        with window(next(addresses), 390) as page:
            page.locator("#budget").scroll_into_view_if_needed()
            keep("phone", page.locator("#budget"))


if __name__ == "__main__":
    main()
