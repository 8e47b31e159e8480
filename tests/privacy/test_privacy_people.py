"""The cost to a person with several records, against brute force over all of their records."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from noiseplan.errors import BudgetError
from noiseplan.privacy.people import person_cost, record_cost

costs = st.floats(1e-9, 1e9)


@given(costs, st.integers(1, 1000), st.sampled_from((1, 2)))
def test_rounded_outward(cost: float, rows: int, power: int) -> None:
    exact = Fraction(cost) * rows**power
    found = person_cost(cost, rows, power)
    assert exact <= Fraction(found) <= exact * (1 + Fraction(1, 2**50))
    assert person_cost(record_cost(cost, rows, power), rows, power) <= cost
    assert record_cost(cost, rows, power) >= cost / rows**power * (1 - 1e-15)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_the_worst_records_of_a_person_cost_exactly_this(rows: int) -> None:
    """dᵀCd over every choice of at most k records, by brute force on a small domain."""
    schema = nz.Schema.from_sizes({"a": 3, "b": 2, "c": 2})
    workload = nz.Workload.marginals(schema, up_to=2)
    plan = nz.plan(workload, budget=nz.zCDP(0.5))
    cost = plan.cost_matrix()
    worst = 0.0
    for size in range(1, rows + 1):
        for records in combinations_with_replacement(range(schema.size), size):
            moved = np.bincount(records, minlength=schema.size)
            worst = max(worst, float(moved @ cost @ moved))
    claimed = person_cost(plan.privacy.pcost, rows)
    assert worst <= claimed * (1 + 1e-12)
    assert worst == pytest.approx(claimed, rel=1e-9)


@pytest.mark.parametrize("rows", [0, -1, True, 1.5, "3", None])
def test_rows_are_whole_numbers(rows: Any) -> None:
    with pytest.raises(BudgetError, match="max_rows"):
        person_cost(1.0, rows)


def test_infinite_cost_stays_infinite() -> None:
    assert person_cost(float("inf"), 3) == float("inf")
    assert record_cost(float("inf"), 3) == float("inf")
