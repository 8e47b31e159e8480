"""How far columns are apart: every pair written out, and never less than the truth."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depth import examples, seeds
from noiseplan.mechanisms import pair_distances as module
from noiseplan.mechanisms.pair_distances import columns_apart, farthest, pair_distances


@st.composite
def some_rows(draw: st.DrawFn) -> np.ndarray:
    """Small integers, so that the truth is known to the last digit."""
    rows, cells = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return rng.integers(-4, 5, (rows, cells)).astype(np.float64)


def written_out(rows: np.ndarray, power: int) -> float:
    """Σ|a_ru − a_rv|^p of the pair that is farthest apart."""
    pairs = combinations(rows.T.tolist(), 2)
    apart = [sum(abs(a - b) ** power for a, b in zip(u, v, strict=True)) for u, v in pairs]
    return max(apart, default=0.0)


@given(some_rows(), st.sampled_from([1, 2]))
@examples(100)
def test_the_largest_of_all_pairs(rows: np.ndarray, power: int) -> None:
    truth = written_out(rows, power)
    found = columns_apart(rows, power)
    assert truth <= found <= truth + 1e-9 * (1 + (np.abs(rows) ** power).sum())


@given(some_rows())
@examples(60)
def test_every_pair_has_its_distance(rows: np.ndarray) -> None:
    found = pair_distances(rows.T @ rows, len(rows))
    for u, left in enumerate(rows.T):
        for v, right in enumerate(rows.T):
            truth = float(((left - right) ** 2).sum())
            assert truth <= found[u, v] <= truth + 1e-10


def test_one_column_has_no_other() -> None:
    assert farthest(np.array([[7.0]]), 1) == 0.0
    assert columns_apart(np.array([[3.0], [4.0]]), 1) == 0.0


def test_long_columns_near_each_other_are_not_called_equal() -> None:
    """Inner products of 10¹⁶ leave nothing of a distance of one: rounding is counted, outward."""
    rows = np.array([[1e8, 1e8 + 1.0], [3e7, 3e7]])
    columns = [[Fraction(x) for x in column] for column in rows.T.tolist()]
    truth = sum((a - b) ** 2 for a, b in zip(*columns, strict=True))
    assert truth == 1
    assert farthest(rows.T @ rows, len(rows)) >= truth


@pytest.mark.parametrize("seed", seeds(5))
def test_too_many_pairs_have_a_bound(seed: int) -> None:
    rows = np.random.default_rng(seed).standard_normal((4, 9))
    exact = columns_apart(rows, 1)
    with mock.patch.object(module, "PAIRED_NUMBERS", 1):
        bound = columns_apart(rows, 1)
    assert exact <= bound == 2 * np.abs(rows).sum(axis=0).max()
