"""Rows of integers: combinations, keys, distinct rows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from depth import examples
from noiseplan.arrays import IntArray, combination_rows, distinct_rows, row_keys, unique_rows

repeatable = examples(150)
Distinct = Callable[[NDArray[Any]], tuple[IntArray, IntArray]]


@pytest.mark.parametrize("items", range(6))
@pytest.mark.parametrize("size", range(7))
def test_combinations(items: int, size: int) -> None:
    rows = combination_rows(items, size)
    assert rows.shape == (comb(items, size), size)
    assert rows.dtype == np.int64
    assert [tuple(row) for row in rows] == list(combinations(range(items), size))


def rows_of(largest: int, widest: int = 6) -> st.SearchStrategy[IntArray]:
    shapes = st.tuples(st.integers(0, 12), st.integers(0, widest))
    return arrays(np.int64, shapes, elements=st.integers(-1, largest))


def check_unique_rows(rows: NDArray[Any], how: Distinct = unique_rows) -> None:
    first, kind = how(rows)
    seen = [tuple(row) for row in rows.tolist()]
    distinct = sorted(set(seen))
    assert [seen[i] for i in first] == distinct
    assert first.tolist() == [seen.index(row) for row in distinct]
    assert kind.tolist() == [distinct.index(row) for row in seen]
    assert first.dtype == kind.dtype == np.int64


@repeatable
@given(rows_of(2))
def test_distinct_rows(rows: IntArray) -> None:
    check_unique_rows(rows)


@repeatable
@given(rows_of(2**62, widest=4))
def test_distinct_rows_of_large_numbers(rows: IntArray) -> None:
    check_unique_rows(rows)


@repeatable
@given(st.integers(1, 40), st.integers(2, 30), st.integers(0, 10**6))
def test_distinct_rows_too_wide_for_one_number(width: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pool = rng.integers(-1, 1000, size=(5, width))
    pool[1] = pool[0]
    pool[1, -1] += 1  # differs in the last column only
    check_unique_rows(pool[rng.integers(0, 5, size=count)])


# Numbers that are next to each other, or differ in nothing but a sign, and both zeros.
FLOATS = [0.0, -0.0, 5e-324, -5e-324, 1.0, np.nextafter(1.0, 2.0), -1.0, -1e300, np.inf, -np.inf]
WHOLE = [0, 1, -1, 255, 256, -256, 2**63 - 1, -(2**63)]


@repeatable
@given(st.tuples(st.integers(0, 9), st.integers(0, 4)), st.booleans(), st.data())
def test_distinct_rows_of_any_numbers(
    shape: tuple[int, int], whole: bool, data: st.DataObject
) -> None:
    kind, numbers = (np.int64, WHOLE) if whole else (np.float64, FLOATS)
    rows = data.draw(arrays(kind, shape, elements=st.sampled_from(numbers)))
    given_rows = rows.tobytes()
    check_unique_rows(rows, distinct_rows)
    check_unique_rows(np.asfortranarray(rows), distinct_rows)
    assert rows.tobytes() == given_rows


@repeatable
@given(rows_of(8, widest=5))
def test_keys_are_ordered_as_rows_are(rows: IntArray) -> None:
    keys = row_keys(rows, base=10)
    assert keys is not None
    found = [tuple(row) for row in rows.tolist()]
    for a, key in zip(found, keys.tolist(), strict=True):
        for b, other in zip(found, keys.tolist(), strict=True):
            assert (a < b) == (key < other)
            assert (a == b) == (key == other)


def test_keys_that_would_overflow() -> None:
    assert row_keys(np.full((1, 61), 0), base=2) is not None
    assert row_keys(np.full((1, 62), 0), base=2) is None
    # The largest row of what is still accepted stays positive.
    keys = row_keys(np.full((1, 15), 14), base=16)
    assert keys is not None
    assert keys.tolist() == [16**15 - 1]
