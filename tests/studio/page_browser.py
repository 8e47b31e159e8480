"""A studio that runs, and visits to it in a browser, for the tests of the page."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from statistics import NormalDist
from typing import Any


class Served:
    """`noiseplan studio` in a folder, as a user starts it."""

    def __init__(
        self, folder: Path, study: str | None = None, port: int | None = None, *options: str
    ) -> None:
        self.folder = folder
        order = [sys.executable, "-m", "noiseplan", "studio", "--no-browser", *options]
        order += [] if port is None else ["--port", str(port)]
        order += [] if study is None else [study]
        self.process = subprocess.Popen(
            order, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.addresses: SimpleQueue[str] = SimpleQueue()
        self.listening = threading.Thread(target=self._listen)
        self.listening.start()
        first = self.address()
        self.addresses.put(first)
        self.port = int(first.split(":")[2].partition("/")[0])

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as printed:
            for line in printed:
                for address in re.findall(r"http://127\.0\.0\.1:\d+/#token=\S+", line):
                    self.addresses.put(address)

    def address(self) -> str:
        """The address that was printed last: each is good once, and the next is printed then."""
        return self.addresses.get(timeout=60)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.listening.join()


@contextmanager
def studio(
    folder: Path, study: str | None = None, port: int | None = None, *options: str
) -> Iterator[Served]:
    served = Served(folder, study, port, *options)
    try:
        yield served
    finally:
        served.stop()


# Half of the interval at 95 %, of which ± is, in standard errors of Gaussian noise.
HALF = NormalDist().inv_cdf(0.975)
# What the page says to those who listen to it, in order: the next words take the place of the last,
# and whoever looks now and then could miss them.
LISTENING = """document.addEventListener("DOMContentLoaded", () => {
  window.announced = [];
  const region = document.getElementById("status");
  new MutationObserver(() => window.announced.push(region.textContent))
    .observe(region, { childList: true });
})"""
PATIENCE = 60_000  # milliseconds, on machines that do other things too


class Visit:
    """A page of a studio in a tab of its own; whom it asks, and what went wrong, is kept."""

    def __init__(self, context: Any, served: Served) -> None:
        self.asked: list[str] = []
        self.errors: list[str] = []
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.add_init_script(LISTENING)
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._listen)
        self.page.goto(served.address())
        self.page.locator("#attributes h2").wait_for()

    def _listen(self, message: Any) -> None:
        refused = "Failed to load resource" in message.text  # the page handles what is refused
        if message.type == "error" and not refused:
            self.errors.append(message.text)

    def area(self, name: str) -> Any:
        return self.page.get_by_role("region", name=name, exact=True)

    def dialog(self) -> Any:
        return self.page.get_by_role("dialog")

    def click(self, name: str, where: Any = None) -> None:
        (where or self.page).get_by_role("button", name=name, exact=True).click()

    @contextmanager
    def hears(self, *words: str) -> Iterator[None]:
        """Wait until the page has said that, each of it after what is done within."""
        before = self.page.evaluate("window.announced.length")
        yield
        said = "([from, words]) => words.every("
        said += "(one) => window.announced.slice(from).some((each) => each.includes(one)))"
        self.page.wait_for_function(said, arg=[before, list(words)])

    def planned(self) -> None:
        """Wait until the plan is that of the design that is open."""
        from playwright.sync_api import expect

        expect(self.page.locator("body.pending")).to_have_count(0, timeout=PATIENCE)
        expect(self.page.locator(".progress, .stale")).to_have_count(0, timeout=PATIENCE)
        self.page.locator("#errors").wait_for()

    def errors_shown(self) -> dict[str, tuple[float, float]]:
        """Every table with its ± and its largest, as the page writes them."""
        rows = self.page.locator("#errors tbody tr").all()
        number = lambda row, kind: float(row.locator(f".{kind}").inner_text().replace(",", ""))  # noqa: E731
        return {
            str(row.get_attribute("data-table")): (number(row, "std"), number(row, "largest"))
            for row in rows
        }

    def close(self) -> None:
        assert self.errors == []
        self.page.close()


TOWN = """\
# What a town may publish. This comment stays.
title = "A town"

[schema]
sex  = { categorical = ["F", "M"] }       # as in the register
age  = { ordinal = { from = 0, to = 9 } }
area = { categorical = ["north", "south", "east"] }

[[tables]]
name  = "ages"
query = "sex, age=prefix"  # the pyramid

[[tables]]
k = 2

[[predicates]]
name  = "small"
where = "age < 3 and area = 'north'"

[budget]
zcdp = 0.5  # decided in March
"""


@contextmanager
def town(folder: Path, port: int | None = None) -> Iterator[Served]:
    """A studio with a small study that is planned in no time."""
    (folder / "town.toml").write_text(TOWN, encoding="utf-8")
    with studio(folder, "town.toml", port) as served:
        yield served


@contextmanager
def visiting(browser: Any, served: Served, width: int = 1300, **how: Any) -> Iterator[Visit]:
    """A page in a browser that has not seen it before; what went wrong there fails the test."""
    context = browser.new_context(viewport={"width": width, "height": 900}, **how)
    visit = Visit(context, served)
    yield visit
    visit.close()
    context.close()


def study_text(visit: Visit) -> str:
    """The study as the page holds it."""
    from playwright.sync_api import expect

    expect(visit.page.locator("body.pending")).to_have_count(0, timeout=PATIENCE)
    return str(visit.page.locator("#study-text").input_value())
