"""From counts to residuals: no last digit is lost, whatever the sizes; and what is refused."""

from __future__ import annotations

from itertools import chain
from operator import mul
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depth import examples
from noiseplan.errors import DataError, PlanError
from noiseplan.matrices import (
    CentringMatrix,
    HaarMatrix,
    IdentityMatrix,
    Matrix,
    PrefixMatrix,
    TreeMatrix,
)
from noiseplan.mechanisms.exact_residuals import (
    EXACT,
    LARGEST,
    batch_last,
    integer_residuals,
    largest_entry,
    mixed,
    noisy_residuals,
    require_fit,
    with_noise,
)
from noiseplan.mechanisms.price import Note
from noiseplan.noise import Noise
from noiseplan.noise.wide_integers import WideIntegers, wide

Array = np.ndarray[Any, Any]
Rows = list[Array | Matrix]


def whole(u: Array | Matrix) -> list[list[int]]:
    values = u.dense() if isinstance(u, Matrix) else np.asarray(u)
    return [[int(v) for v in row] for row in values]


def by_hand(rows: Rows, counts: Array) -> Array:
    """(⊗U_i) x in Python's integers, entry by entry, the batch last."""
    exact = np.array([int(v) for v in counts.ravel()], dtype=object).reshape(counts.shape)
    for axis, u in enumerate(rows, 1):
        moved = np.moveaxis(exact, axis, 0)
        summed = [sum(v * part for v, part in zip(row, moved, strict=True)) for row in whole(u)]
        exact = np.moveaxis(np.array(summed, dtype=object).reshape(-1, *moved.shape[1:]), 0, axis)
    return np.moveaxis(exact, 0, -1)


def rows_of(kind: str, size: int, rng: np.random.Generator) -> Array | Matrix:
    if kind == "dense":
        return rng.integers(-3, 4, (rng.integers(1, 4), size)).astype(float)
    made = {"identity": IdentityMatrix, "centring": CentringMatrix, "haar": HaarMatrix}
    return TreeMatrix(size, 2) if kind == "tree" else made[kind](size)


def in_limbs(*numbers: int) -> WideIntegers:
    parts = [(np.array([(n >> 24 * i) % 2**24 for n in numbers]), 24 * i) for i in range(12)]
    return WideIntegers.of([*parts, (np.array([n >> 288 for n in numbers]), 288)], 300)


KINDS = ("dense", "identity", "centring", "haar", "tree")


@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.integers(2, 5)), max_size=3),
    st.sampled_from([10, 2**30, 2**50, 2**56]),
    st.integers(0, 10**6),
)
def test_every_digit_is_right(axes: list[tuple[str, int]], largest: int, seed: int) -> None:
    """Below 2⁵³ in doubles, beyond in limbs, which 64 bits hold below 2⁶²: the same numbers."""
    rng = np.random.default_rng(seed)
    rows: Rows = [rows_of(kind, size, rng) for kind, size in axes]
    shape = (2, *(size for _, size in axes))
    counts = rng.integers(0, largest, shape) // int(np.prod(shape[1:]))
    found = integer_residuals(rows, counts)
    expected = by_hand(rows, counts)
    assert found.shape == expected.shape
    assert wide(found).python().tolist() == expected.tolist()


@given(st.integers(1, 40), st.integers(20, 52), st.integers(0, 10**6))
def test_every_digit_of_large_rows_is_right(size: int, bits: int, seed: int) -> None:
    """Entries so large that limbs are multiplied by some of their bits at a time."""
    rng = np.random.default_rng(seed)
    rows: Rows = [rng.integers(-(2**bits), 2**bits, (3, size)).astype(float), np.array([[7.0, -8]])]
    counts = rng.integers(0, 2**40, (2, size, 2))
    found = integer_residuals(rows, counts)
    assert wide(found).python().tolist() == by_hand(rows, counts).tolist()


@pytest.mark.parametrize(
    ("people", "in_limbs"), [(100, False), (EXACT // 4, False), (LARGEST // 2, True)]
)
def test_limbs_only_where_they_are_needed(people: int, in_limbs: bool) -> None:
    counts = np.array([[people, 1, 0]])
    found = integer_residuals([np.array([[5.0, -1, 0], [2, 2, 2]])], counts)
    assert isinstance(found, WideIntegers) is in_limbs
    assert wide(found).python()[:, 0].tolist() == [5 * people - 1, 2 * people + 2]


def test_the_largest_entry_bounds_what_one_record_changes() -> None:
    rows: Rows = [np.array([[1.0, -7.0]]), CentringMatrix(4), TreeMatrix(3, 2), IdentityMatrix(5)]
    dense = [u.dense() if isinstance(u, Matrix) else u for u in rows]
    assert largest_entry(rows) >= np.prod([np.abs(u).max() for u in dense])
    assert largest_entry([np.array([[1.0, -7.0]])]) == 7
    assert largest_entry([]) == 1
    assert largest_entry([np.zeros((0, 3))]) == 0


@pytest.mark.parametrize(
    "rows",
    [
        np.array([[1.0, 0.5]]),
        np.array([[1.0, np.nan]]),
        np.array([[np.inf, 1.0]]),
        CentringMatrix(2, 0.5),
        PrefixMatrix(2),  # whole, but not known to be
    ],
)
def test_rows_that_are_not_whole_are_refused(rows: Array | Matrix) -> None:
    exact = Noise("gaussian", 1.0, exact=True)
    for refused in (
        lambda: require_fit(exact, [rows]),
        lambda: integer_residuals([rows], np.ones((1, 2))),
    ):
        with pytest.raises(PlanError, match="whole numbers"):
            refused()
    whole = [np.array([[1.0, -2.0]]), IdentityMatrix(2), HaarMatrix(2), CentringMatrix(2)]
    require_fit(exact, whole)


def test_counts_that_are_not_of_records_are_refused() -> None:
    rows: Rows = [np.eye(2)]
    assert integer_residuals(rows, np.array([[1.0, 2.0]])).tolist() == [[1], [2]]
    with pytest.raises(DataError, match="whole numbers of records"):
        integer_residuals(rows, np.array([[1.0, 2.5]]))
    for too_many in ([[2**62, 0]], [[2**61, 2**61]]):
        with pytest.raises(DataError, match="64 bits"):
            integer_residuals(rows, np.array(too_many))
    with pytest.raises(DataError):
        integer_residuals(rows, np.array([[np.nan, 1.0]]))


def test_noise_is_added_exactly_and_rounded_only_beyond_64_bits() -> None:
    exact, noise = np.array([2**60 + 1]), np.array([-3])
    assert with_noise(exact, noise).tolist() == [2**60 - 2]
    fits = with_noise(in_limbs(2**62, 5), np.array([1, -6]))
    assert fits.dtype == np.int64 and fits.tolist() == [2**62 + 1, -1]
    beyond = with_noise(in_limbs(2**63, 5), np.array([0, -6]))
    assert beyond.dtype == np.float64 and beyond.tolist() == [2.0**63, -1.0]
    edge = with_noise(in_limbs(2**63, -(2**63) - 1), np.array([-1, 1]))
    assert edge.dtype == np.int64 and edge.tolist() == [2**63 - 1, -(2**63)]
    both = with_noise(in_limbs(2**200 + 3, 1), in_limbs(-(2**200), 1))
    assert both.dtype == np.int64 and both.tolist() == [3, 2]
    assert with_noise(np.array([3]), in_limbs(2**90)).tolist() == [2.0**90]


def test_what_only_notes_numbers_is_given_all_of_their_digits() -> None:
    """As where every record is measured alone to find its cost: no limb is taken for a number."""
    noted: list[Array] = []
    note = Note.of(np.ones(2), lambda numbers, _: noted.append(numbers))
    with_noise(in_limbs(2**90 + 1, -7), note)
    assert noted[0].tolist() == [2**90 + 1, -7]


@given(st.integers(1, 4), st.integers(0, 10**6))
def test_noise_of_each_set_goes_to_its_own_numbers(sets: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows: Rows = [rng.integers(-2, 3, (2, 3)).astype(float), IdentityMatrix(2)]
    counts = rng.integers(0, 9, (sets, 3, 2))
    asked: list[tuple[tuple[int, ...], Noise]] = []

    def sample(shape: tuple[int, ...], noise: Noise) -> Array:
        asked.append((shape, noise))
        kind = np.int64 if noise.exact else np.float64
        return np.broadcast_to(1000 * np.arange(1, sets + 1), shape).astype(kind)

    for exact in (True, False):
        noise = Noise("gaussian", np.arange(1.0, sets + 1), exact)
        found = noisy_residuals(rows, counts, noise, sample)
        assert found.dtype == (np.int64 if exact else np.float64)
        expected = by_hand(rows, counts).astype(float) + 1000 * np.arange(1, sets + 1)
        np.testing.assert_allclose(found.astype(float), expected, rtol=1e-12)
        assert asked[-1] == ((2, 2, sets), noise)


# ---------------------------------------------------------------------- mixed


def mixed_by_hand(rows: Array, numbers: list[list[int]]) -> list[list[int]]:
    """Σ_b M_ab x_b of every x, in Python's integers."""
    entries = [[int(entry) for entry in row] for row in rows]
    return [[sum(map(mul, row, one)) for row in entries] for one in numbers]


def odd(bits: int, rng: np.random.Generator) -> int:
    """An odd number of either sign, a little above or below 2^bits."""
    near = 2**bits + int(rng.integers(-1000, 1000)) * 2 + 1
    return near * int(rng.choice([-1, 1]))


@examples(200)
@given(
    st.integers(1, 8),
    st.sampled_from([3, 20, 30, 34, 52]),
    st.integers(0, 60),
    st.sampled_from([10, 40, 61, 62, 90, 200]),
    st.integers(0, 10**6),
)
def test_mixed_numbers_lose_no_digit(
    states: int, bits: int, power: int, size: int, seed: int
) -> None:
    """Odd entries near 2⁵² and times powers of two, which make products of any size, and numbers
    that 64 bits hold or do not."""
    rng = np.random.default_rng(seed)
    columns = np.array([2.0 ** int(p) for p in rng.integers(0, power + 1, states)])
    columns[-1] = 2.0**power
    drawn = [[odd(bits, rng) for _ in range(states)] for _ in range(3)]
    rows = np.array(drawn, dtype=np.float64) * columns
    numbers = [[odd(size, rng) for _ in range(states)] for _ in range(4)]
    given = (
        np.array(numbers, dtype=np.int64)
        if size < 63
        else in_limbs(*chain.from_iterable(numbers)).reshape(4, states)
    )
    found = mixed(rows, given)
    assert wide(found).python().tolist() == mixed_by_hand(rows, numbers)
    folded = given.reshape(2, 2, states)
    assert wide(mixed(rows, folded)).python().reshape(4, 3).tolist() == mixed_by_hand(rows, numbers)


@pytest.mark.parametrize(
    ("entries", "numbers", "limbs"),
    [
        ([1, 1], [2**52 - 1, -(2**52) + 1], False),  # sums below 2⁵³: doubles hold them
        ([1, 1], [2**52, 2**52 + 1], False),
        ([1, 1, 1], [(2**53 + 1) // 3] * 3, False),
        ([1, 1], [2**53, 1], False),
        ([3, -1], [2**51 + 1, -(2**51)], False),
        ([2**53 - 2, 0, -1], [1, 1, 1], False),
        ([2**52, 2**52 - 1, 2], [1, 1, 1], False),
        ([2, 0], [2**61 - 1, 1], False),  # below 2⁶²: 64 bits hold them, and noise beside them
        ([2, 0], [2**61, 1], True),
        ([-2, 0], [2**61, 1], True),
        ([2**61, 2**61 - 2**9], [1, 1], False),
        ([2**61, 2**61 - 2**9], [-1, -1], False),
        ([1, 1], [2**63 - 1, 2**63 - 1], True),
        ([1, 1], [-(2**63), -(2**63)], True),
        # Of doubles the sum is 2⁶² − 512.
        ([2**62 - 2**9, 255, 255, 255], [1, 1, 1, 1], True),
    ],
)
def test_mixed_numbers_at_the_borders_of_doubles_and_of_64_bits(
    entries: list[int], numbers: list[int], limbs: bool
) -> None:
    rows = np.array([entries, [0] * len(entries)], dtype=np.float64)
    assert [int(entry) for entry in rows[0]] == entries
    found = mixed(rows, np.array([numbers], dtype=np.int64))
    assert isinstance(found, WideIntegers) is limbs
    assert limbs or (isinstance(found, np.ndarray) and found.dtype == np.int64)
    assert wide(found).python().tolist() == mixed_by_hand(rows, [numbers])


def test_numbers_that_are_mixed_with_none_stay_and_fractions_are_refused() -> None:
    numbers = np.array([[2**62 + 1]])
    assert mixed(np.ones((1, 1)), numbers) is numbers
    assert wide(mixed(np.array([[-1.0]]), numbers)).python().tolist() == [[-(2**62) - 1]]
    with pytest.raises(PlanError, match="whole numbers"):
        mixed(np.array([[0.5]]), numbers)
    assert mixed(np.array([[0.5, 2.0]]), np.array([[1.0, 0.25]])).tolist() == [[1.0]]


def test_the_batch_goes_last() -> None:
    counts = np.arange(24).reshape(2, 3, 4)
    moved = batch_last(counts)
    assert moved.shape == (3, 4, 2) and moved.flags.c_contiguous
    np.testing.assert_array_equal(moved, np.moveaxis(counts, 0, -1))
    assert batch_last(np.array([7, 8])).tolist() == [7.0, 8.0]
