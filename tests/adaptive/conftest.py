"""What all tests of adaptive releases share."""

from __future__ import annotations

import pytest
from adaptive_plans import watch

from noiseplan.planning.plan import Plan


@pytest.fixture
def measured_plans(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Every plan that is really measured, in order."""
    return watch(monkeypatch)
