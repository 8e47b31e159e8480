"""Records and ready-made counts against brute force."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from noiseplan.counting import CountTensor, Projectable, Records, kernel_numpy, open_source
from noiseplan.counting.refusals import showing
from noiseplan.errors import DataError
from noiseplan.schema import Schema


def brute_force(codes: NDArray[Any], shape: tuple[int, ...], members: list[int]) -> NDArray[Any]:
    """Count the rows of ``codes`` by some columns, in the plainest way."""
    table = np.zeros([shape[member] for member in members], dtype=np.int64)
    np.add.at(table, (*codes[:, members].T,), 1 if members else len(codes))
    return table


def schema_of(*sizes: int) -> Schema:
    return Schema.from_sizes({f"a{n}": size for n, size in enumerate(sizes)})


def random_codes(sizes: tuple[int, ...], rows: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, sizes, size=(rows, len(sizes)))


def sources(schema: Schema, codes: NDArray[Any]) -> list[Projectable]:
    counts = brute_force(codes, schema.shape, list(range(len(schema))))
    return [Records(schema, list(codes.T)), CountTensor(schema, counts)]


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(0, 40), st.integers(0, 9))
def test_every_table_equals_brute_force(sizes: list[int], rows: int, seed: int) -> None:
    schema = schema_of(*sizes)
    codes = random_codes(schema.shape, rows, seed)
    for source in sources(schema, codes):
        for k in range(len(sizes) + 1):
            for members in combinations(range(len(sizes)), k):
                table = source.marginals(np.array([members], dtype=int).reshape(1, k))
                np.testing.assert_array_equal(
                    table[0], brute_force(codes, schema.shape, [*members])
                )


@pytest.mark.parametrize("rows", [0, 1, 37, 5_000])
@pytest.mark.parametrize("block", [8, 1000, 1 << 16])
@pytest.mark.parametrize("shuffled", [False, True])
def test_many_sets_at_once(
    rows: int, block: int, shuffled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_numpy, "_BLOCK", block)
    schema = schema_of(*[3] * 7)
    codes = random_codes(schema.shape, rows)
    sets = np.array(list(combinations(range(7), 3)))
    if shuffled:
        np.random.default_rng(1).shuffle(sets)
    expected = [brute_force(codes, schema.shape, members) for members in sets.tolist()]
    for source in sources(schema, codes):
        found = source.marginals(sets)
        assert found.shape == (35, 3, 3, 3)
        np.testing.assert_array_equal(found, expected)


def test_sets_of_unlike_attributes_with_one_shape() -> None:
    schema = schema_of(2, 3, 2, 3, 300)
    codes = random_codes(schema.shape, 1000)
    sets = np.array([[0, 1], [0, 3], [2, 3]])
    for source in sources(schema, codes):
        for found, members in zip(source.marginals(sets), sets.tolist(), strict=True):
            np.testing.assert_array_equal(found, brute_force(codes, schema.shape, members))


def test_more_rows_than_a_block() -> None:
    schema = schema_of(4, 300, 70_000)
    codes = random_codes(schema.shape, 300_000)
    records = Records(schema, list(codes.T))
    assert [column.dtype for column in records.columns] == [np.uint8, np.uint16, np.uint32]
    for members in ([0], [1], [2], [0, 1], [0, 2]):
        table = records.marginals([members])[0]
        np.testing.assert_array_equal(table, brute_force(codes, schema.shape, members))


def test_the_total_and_no_sets() -> None:
    schema = schema_of(2, 3)
    for source in sources(schema, random_codes(schema.shape, 11)):
        assert source.marginals(np.zeros((3, 0), dtype=int)).tolist() == [11, 11, 11]
        assert source.marginals(np.zeros((0, 2), dtype=int)).shape == (0, 0, 0)
        assert source.marginals(np.zeros((0, 0), dtype=int)).shape == (0,)


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        ([0, 1], "2-D array"),
        ([[0.0, 1.0]], "must be integers"),
        ([[0, 7]], "no attribute 7"),
        ([[-1, 0]], "no attribute -1"),
        ([[1, 0]], r"try \[0, 1\]"),
        ([[1, 1]], "ascending order"),
        ([[0, 1], [1, 2]], "different shapes"),
    ],
)
def test_sets_are_checked(sets: Any, words: str) -> None:
    schema = schema_of(2, 3, 2)
    for source in sources(schema, random_codes(schema.shape, 5)):
        with pytest.raises(DataError, match=words):
            source.marginals(sets)


class TestRecords:
    def test_is_projectable(self) -> None:
        records = Records(schema_of(2), [[0, 1]], origin="pandas")
        assert isinstance(records, Projectable)
        assert records.origin == "pandas"
        assert records.rows == 2
        assert repr(records) == "Records(a0)"

    def test_columns_cannot_be_written(self) -> None:
        codes = np.array([0, 1], dtype=np.uint8)
        with pytest.raises(ValueError, match="read-only"):
            Records(schema_of(2), [codes]).columns[0][0] = 1
        codes[0] = 1  # the caller's array is still the caller's

    @pytest.mark.parametrize(
        ("columns", "words"),
        [
            ([[0]], "1 columns for 2 attributes"),
            ([[0, 1], [0]], "one length"),
            ([[0, 2], [0, 0]], "codes go from 0 to 2, but the attribute has the codes 0 to 1"),
            ([[0, -1], [0, 0]], "codes go from -1"),
            ([[0.0], [0]], "1-D array of integers"),
            ([[[0]], [0]], "1-D array of integers"),
        ],
    )
    def test_refuses(self, columns: Any, words: str) -> None:
        with showing(True), pytest.raises(DataError, match=words):
            Records(schema_of(2, 3), columns)

    def test_a_refusal_shows_no_code(self) -> None:
        with pytest.raises(DataError, match="column 'a0': some codes are outside") as error:
            Records(schema_of(2), [[0, 77]])
        assert "77" not in str(error.value)


class TestCountTensor:
    def test_is_projectable(self) -> None:
        tensor = CountTensor(schema_of(2), [3.0, 4.0])
        assert isinstance(tensor, Projectable)
        assert tensor.counts.dtype == np.int64
        assert tensor.origin == ""
        assert repr(tensor) == "CountTensor(a0)"

    def test_counts_are_a_copy(self) -> None:
        counts = np.array([3, 4])
        tensor = CountTensor(schema_of(2), counts)
        counts[0] = 9
        assert tensor.counts.tolist() == [3, 4]

    @pytest.mark.parametrize(
        ("counts", "words"),
        [
            ([1, 2, 3], r"shape \(3,\), the schema \(2,\)"),
            ([1, -2], "negative"),
            ([1.5, 2], "not whole numbers"),
            ([np.nan, 2], "not finite"),
            ([np.inf, 2], "not finite"),
            (["1", "2"], "must be numbers"),
            ([2**62, 0], "add up"),
        ],
    )
    def test_refuses(self, counts: Any, words: str) -> None:
        with pytest.raises(DataError, match=words):
            CountTensor(schema_of(2), counts)

    def test_empty_counts(self) -> None:
        source = open_source(np.zeros((2, 3, 4)), schema_of(2, 3, 4))
        assert source.marginals(np.array([[0, 2]])).sum() == 0
