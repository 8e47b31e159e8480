"""The published tables of fitness for use, in small: figures, not times."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `benchmarks` is not installed

from benchmarks import explicit_fitness, explicit_group
from benchmarks.__main__ import GROUPS, Tables


def test_tables_of_figures_are_met() -> None:
    for table in (
        explicit_fitness.prefix_costs(quick=True),
        explicit_fitness.marginal_costs(quick=True),
    ):
        assert table.met, f"\n{table}"


@pytest.mark.parametrize("name", ["random_ranges", "random_signs", "related"])
def test_random_workloads_are_certified(name: str) -> None:
    make = getattr(explicit_fitness, name)
    table = explicit_fitness.drawn("t", "s", make, None, {16: (1.0, 1.0, 1.0, 1.0)}, quick=True)
    assert table.met, f"\n{table}"


def test_the_others_are_judged_at_the_same_cost() -> None:
    """Two prefix sums: input perturbation has variances 1 and 2 at cost one, the optimum 4/3."""
    own = explicit_fitness.judged(np.array([[1.0, 0], [1, 1]]))
    assert own.cost == pytest.approx(4 / 3, rel=1e-5)
    assert own.ratios[0] == pytest.approx(2 / (4 / 3), rel=1e-5)
    # The least total is (3 + √5)/2, fitness for use has 2 · 4/3.
    assert own.squares == pytest.approx(2 * (4 / 3) / ((3 + 5**0.5) / 2), rel=1e-5)


def test_the_group_is_registered() -> None:
    assert GROUPS["explicit"].tables == Tables("explicit_group")
    assert callable(explicit_group.tables)
