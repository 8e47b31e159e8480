"""A folder for ledgers, in memory where there is one: every charge is synced to disk otherwise."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ledger_helpers import MEMORY

from noiseplan.ledger import Ledger
from noiseplan.privacy import zCDP


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as made:
        yield Path(made)


@pytest.fixture
def ledger(folder: Path) -> Ledger:
    """A ledger with one dataset, "census", of budget ρ = 1."""
    made = Ledger(folder / "budget.ledger", create=True)
    made.open_dataset("census", zCDP(1.0))
    return made
