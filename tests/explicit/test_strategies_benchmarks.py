"""The benchmark tables of strategies and bounds that depend on arithmetic alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `benchmarks` is not installed

from benchmarks import explicit_agreement, explicit_strategies
from benchmarks.tables import Table

TABLES: dict[str, Callable[[], Table]] = {
    "4.1": lambda: explicit_strategies.table_4_1(quick=True),
    "5.1": lambda: explicit_strategies.all_ranges(quick=True),
    "plain tables": explicit_strategies.plain_tables,
    "agreement": lambda: explicit_agreement.residual_near_optimal(quick=True),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", TABLES)
def test_every_value_is_met(name: str) -> None:
    table = TABLES[name]()
    assert table.met, f"\n{table}"
