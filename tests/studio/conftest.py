from __future__ import annotations

from collections.abc import Iterator

import pytest
from serving import Page, served


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A studio without a study, shared by the tests of a file."""
    with served(tmp_path_factory.mktemp("studio")) as found:
        yield found
