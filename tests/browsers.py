"""A real browser for the tests that look at pages.

Needs Chromium, found on the path or through NOISEPLAN_CHROMIUM. Where there is none the tests are
skipped, unless NOISEPLAN_REQUIRE_SERVICES=1 says that they must run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

REQUIRED = os.environ.get("NOISEPLAN_REQUIRE_SERVICES") == "1"
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Any]:
    """One browser, for a test or a file of them."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("playwright is not installed: pip install playwright")
    found = os.environ.get("NOISEPLAN_CHROMIUM") or next(
        filter(None, map(shutil.which, NAMES)), None
    )
    if found is None:
        _missing(f"no Chromium: none of {', '.join(NAMES)} is installed")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield running
        running.close()


def _missing(reason: str) -> None:
    (pytest.fail if REQUIRED else pytest.skip)(reason)
