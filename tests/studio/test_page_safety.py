"""Labels that mean harm, two tabs, a server that comes back, a study that cannot be read."""

from __future__ import annotations

import re
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from page_browser import PATIENCE, TOWN, Served, Visit, studio, study_text, town, visiting
from playwright.sync_api import expect

from noiseplan.studio.launch import forwarding, listening_socket

MARKUP = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\("

HOSTILE = """\
title = "<img src=x onerror=alert(1)>"
[schema]
__proto__ = { ordinal = { from = 0, to = 3 } }

[schema."<script>document.title='owned'</script>"]
categorical = ["<b>bold</b>", "\\u202Eturned", "</td>"]

[schema."javascript:alert(1)"]
categorical = ["' onclick='alert(1)", "\\"><svg onload=alert(1)>"]
missing     = "&lt;none&gt;"

[[tables]]
name  = "<iframe src=//example.org></iframe>"
query = ["<script>document.title='owned'</script>", "javascript:alert(1)"]

[[tables]]
k = 1

[budget]
zcdp = 1.0
"""


def type_text(visit: Visit, text: str) -> None:
    if not visit.page.locator("#study-text").is_visible():
        visit.page.locator("#file summary").click()
    visit.page.locator("#study-text").fill(text)
    visit.click("Apply")
    assert study_text(visit) == text


def test_hostile_labels_are_labels(browser: Any, served: Served) -> None:
    with visiting(browser, served) as visit:
        page = visit.page
        asked = []
        page.on("dialog", lambda dialog: asked.append(dialog.message) or dialog.dismiss())
        type_text(visit, HOSTILE)
        visit.planned()
        shown = page.locator("main").inner_text()
        for label in ("<script>document.title='owned'</script>", "<b>bold</b>", "__proto__"):
            assert label in shown
        assert "<iframe src=//example.org></iframe>" in visit.errors_shown()
        visit.click("Edit javascript:alert(1)")
        values = visit.dialog().get_by_label("Values", exact=True).input_value()
        assert values.split("\n")[1] == '"><svg onload=alert(1)>'
        page.keyboard.press("Escape")
        visit.click("A condition…")
        page.keyboard.press("Escape")
        # Nothing of it became an element, ran, was asked for, or got at an object's prototype.
        made = "document.querySelectorAll('main script, img, iframe, b > i, svg').length"
        assert page.evaluate(made) == 0
        assert asked == [] and "owned" not in page.title().split("–")[-1]
        assert all(f"127.0.0.1:{served.port}" in url for url in visit.asked)
        assert page.evaluate("({}).ordinal === undefined")
        visit.page.get_by_label("Weight of <iframe").fill("2")
        visit.page.get_by_label("Weight of <iframe").press("Enter")
        written = tomllib.loads(study_text(visit))
        assert written["schema"] == tomllib.loads(HOSTILE)["schema"]
        assert written["tables"][0]["weight"] == 2


def test_a_study_that_cannot_be_read_shows_its_line(browser: Any, tmp_path: Path) -> None:
    broken = TOWN.replace("age  = { ordinal", "age  = { ordnal").replace("k = 2", "k = 2 2")
    (tmp_path / "broken.toml").write_text(broken, encoding="utf-8")
    with studio(tmp_path, "broken.toml") as served, visiting(browser, served) as visit:
        line = 1 + broken[: broken.index("k = 2 2")].count("\n")
        visit.click(f"Line {line}")
        selected = visit.page.evaluate(
            "(() => { const t = document.activeElement;"
            " return t.value.slice(t.selectionStart, t.selectionEnd); })()"
        )
        assert selected == "k = 2 2"
        type_text(visit, broken.replace("k = 2 2", "k = 2"))
        # It is TOML now; what is wrong in it is told with its line, and the rest is shown.
        notice = visit.page.locator("#notices")
        assert "unknown kind or option 'ordnal'" in notice.inner_text()
        visit.page.get_by_role("heading", name="area", exact=True).wait_for()
        marked = visit.page.locator("#lines .bad").all_inner_texts()
        assert marked == ["6", "11", "18"]  # and the two that name the attribute
        visit.click("Line 6")
        type_text(visit, TOWN)
        visit.planned()


def test_two_tabs_do_not_overwrite_each_others_file(browser: Any, tmp_path: Path) -> None:
    with town(tmp_path) as served:
        context = browser.new_context()
        first, second = Visit(context, served), Visit(context, served)
        for visit, title in ((first, "Of the first"), (second, "Of the second")):
            visit.page.get_by_label("Title of the study").fill(title)
            visit.page.get_by_label("Title of the study").press("Enter")
            visit.page.locator("#saved", has_text="not saved").wait_for()
        first.click("Save")
        first.page.locator("#saved", has_text="town.toml, saved").wait_for()
        second.click("Save")
        second.page.get_by_text("Nothing was saved.").wait_for()
        assert 'title = "Of the first"' in (tmp_path / "town.toml").read_text(encoding="utf-8")
        second.click("Open that one; keep mine as a variant", second.dialog())
        title = expect(second.page.get_by_label("Title of the study"))
        title.to_have_value("Of the first", timeout=PATIENCE)
        second.click("Variants (1)")
        second.click("Open Mine, not saved", second.dialog())
        title.to_have_value("Of the second", timeout=PATIENCE)
        second.click("Save")  # knowing the file now, it may be replaced
        second.page.locator("#saved", has_text="town.toml, saved").wait_for()
        assert 'title = "Of the second"' in (tmp_path / "town.toml").read_text(encoding="utf-8")
        for visit in (first, second):
            visit.close()
        context.close()


def test_work_outlives_a_reload_and_a_closed_tab(browser: Any, served: Served) -> None:
    context = browser.new_context()
    visit = Visit(context, served)
    visit.click("Remove small")
    visit.page.get_by_role("heading", name="small").wait_for(state="detached")
    visit.click("Variants")
    visit.click("Keep this design as…", visit.dialog())
    visit.click("Keep", visit.dialog())
    changed = study_text(visit)
    visit.page.reload()
    visit.page.get_by_role("button", name="Variants (1)").wait_for()
    assert study_text(visit) == changed
    visit.close()
    wait_until_no_tab_is_open(context, served)
    other = Visit(context, served)
    assert study_text(other) == TOWN
    other.click("Take it up")
    other.page.get_by_role("heading", name="small").wait_for(state="detached")
    assert study_text(other) == changed
    other.page.get_by_role("button", name="Variants (1)").wait_for()
    other.click("Undo")
    other.page.get_by_role("heading", name="small").wait_for()
    other.close()
    context.close()


def wait_until_no_tab_is_open(context: Any, served: Served) -> None:
    """A browser gives the lock of a tab back some time after the tab is closed."""
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{served.port}/static/main.js")
    free = "async () => (await navigator.locks.query()).held.length === 0"
    while not page.evaluate(free):
        page.wait_for_timeout(20)
    page.close()


def test_an_address_opens_one_tab_and_leaves_no_key_behind(browser: Any, tmp_path: Path) -> None:
    """The browser comes by the private page, and no other port of this machine is sent anything."""
    sent: list[str | None] = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent.append(self.headers["Cookie"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with town(tmp_path) as served, HTTPServer(("127.0.0.1", 0), Other) as other:
        Thread(target=other.serve_forever).start()
        context = browser.new_context()
        page, address = context.new_page(), served.address()
        with forwarding(address) as file:
            page.goto(file.as_uri())
            page.locator("#attributes h2").wait_for()
        page.get_by_role("heading", name="area", exact=True).wait_for()
        assert page.url == f"http://127.0.0.1:{served.port}/"
        page.reload()
        page.get_by_role("heading", name="area", exact=True).wait_for()
        late = context.new_page()
        late.goto(address)
        late.get_by_text("This tab has no key").wait_for()
        late.goto(f"http://127.0.0.1:{other.server_port}/")
        assert context.cookies() == [] and set(sent) == {None}
        context.close()
        other.shutdown()


def port_of_nobody() -> int:
    """A port that no studio takes by itself: those of other tests look from PORT on."""
    with listening_socket(0) as bound:
        return int(bound.getsockname()[1])


def test_a_server_that_was_killed_and_started_again_loses_nothing(
    browser: Any, tmp_path: Path
) -> None:
    with town(tmp_path, port_of_nobody()) as first:
        context = browser.new_context()
        visit = Visit(context, first)
        visit.planned()
        first.stop()
        visit.click("Remove small")
        visit.page.get_by_text("The studio does not answer.").wait_for()
        with studio(tmp_path, "town.toml", port=first.port) as second:
            visit.page.get_by_text("This tab has no key").wait_for()
            again = Visit(context, second)  # the address that it printed, in another tab
            visit.page.evaluate("(to) => location.assign(to)", second.address())  # the next, here
            visit.page.get_by_role("heading", name="small").wait_for(state="detached")
            expect(visit.page.locator("#notices")).to_be_empty(timeout=PATIENCE)
            visit.planned()
            assert "small" not in study_text(visit) and "small" in study_text(again)
            visit.click("Save")
            visit.page.locator("#saved", has_text="town.toml, saved").wait_for()
            again.close()
        visit.close()
        context.close()
    assert "small" not in (tmp_path / "town.toml").read_text(encoding="utf-8")


def test_modules_of_the_page_use_no_html_and_no_network() -> None:
    """What could turn a label into markup, or ask anybody else, does not occur."""
    static = Path(__file__).parents[2] / "src" / "noiseplan" / "studio" / "static"
    modules = sorted(static.glob("*.js"))
    assert len(modules) > 15
    for module in modules:
        text = module.read_text(encoding="utf-8")
        assert not re.search(MARKUP, text)
        assert set(re.findall(r"https?://[^\"'`\s]+", text)) <= {"http://www.w3.org/2000/svg"}
