from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from page_browser import Served, Visit, town, visiting
from serving import Page
from serving import served as serving

from browsers import chromium


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A studio without a study, shared by the tests of a file."""
    with serving(tmp_path_factory.mktemp("studio")) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for a file of tests."""
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A studio with the study of a town, as a user starts it."""
    with town(tmp_path_factory.mktemp("town")) as running:
        yield running


@pytest.fixture
def visit(browser: Any, served: Served) -> Iterator[Visit]:
    """That study in a tab of its own."""
    with visiting(browser, served) as page:
        yield page
