"""Integers in limbs against Python's: sums, shifts, and numbers that do not tell their limbs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseplan.noise.wide_integers import BITS, WideIntegers, floats, joined, wide

LARGE = st.integers(-(2**250), 2**250)
EDGES = [0, -1, 2**24, -(2**24), 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**64, -(2**72)]


def in_limbs(numbers: list[int], limbs: int = 12) -> WideIntegers:
    """Each limb by Python's own shifts, the last with the sign."""
    low = [[(n >> (BITS * i)) % 2**BITS for n in numbers] for i in range(limbs - 1)]
    return WideIntegers(np.array([*low, [n >> (BITS * (limbs - 1)) for n in numbers]]))


@given(st.lists(st.tuples(LARGE, LARGE), min_size=1, max_size=4), st.integers(0, 200))
def test_sums_and_shifts(pairs: list[tuple[int, int]], by: int) -> None:
    some, others = (in_limbs(list(numbers)) for numbers in zip(*pairs, strict=True))
    assert (some + others).python().tolist() == [a + b for a, b in pairs]
    assert some.shifted(by).python().tolist() == [a << by for a, _ in pairs]


@given(st.lists(st.tuples(st.integers(-(2**37), 2**37), st.integers(0, 200)), min_size=1))
def test_parts_at_their_places(parts: list[tuple[int, int]]) -> None:
    found = WideIntegers.of([(np.array([n]), place) for n, place in parts], 245)
    assert found.python().tolist() == [sum(n << place for n, place in parts)]
    assert ((found.limbs[:-1] >= 0) & (found.limbs[:-1] < 2**BITS)).all()


@given(st.lists(LARGE | st.sampled_from(EDGES) | st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_numbers_do_not_tell_how_many_limbs_there_are(numbers: list[int]) -> None:
    """So that what is released depends on the noisy numbers alone, not on counts behind them."""
    found = [in_limbs(numbers, limbs).numbers() for limbs in (11, 12, 20)]
    fits = all(-(2**63) <= n < 2**63 for n in numbers)
    for one in found:
        assert one.dtype == (np.int64 if fits else np.float64)
        assert one.tolist() == found[0].tolist()
    if fits:
        assert found[0].tolist() == numbers
    np.testing.assert_allclose(found[0].astype(float), [float(n) for n in numbers], rtol=1e-15)


@pytest.mark.parametrize("number", EDGES)
def test_edges(number: int) -> None:
    assert in_limbs([number]).python().tolist() == [number]
    assert float(floats(in_limbs([number]).limbs)[0]) == pytest.approx(number, rel=1e-15)
    if -(2**63) <= number < 2**63:
        assert wide(np.array([number])).numbers().tolist() == [number]


def test_one_after_another() -> None:
    narrow = np.array([[1, -2], [3, 4]])
    assert joined([narrow, narrow[:, :1]]).tolist() == [[1, -2, 1], [3, 4, 3]]
    mixed = joined([narrow, in_limbs([2**90, -(2**200)]).reshape(2, 1)])
    assert isinstance(mixed, WideIntegers) and mixed.shape == (2, 3)
    assert mixed.python().tolist() == [[1, -2, 2**90], [3, 4, -(2**200)]]
    assert mixed[..., np.array([2, 0])].python().tolist() == [[2**90, 1], [-(2**200), 3]]
