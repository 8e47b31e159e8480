"""Covers, counters and tables counted beforehand, against brute force."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from depth import examples
from noiseplan.counting import (
    Countable,
    CountTensor,
    Records,
    count_tables,
    counter,
    kernel_numba,
    merged_tables,
)
from noiseplan.counting.counter import Counter
from noiseplan.counting.merged_tables import Containers, Members, cells, maximal
from noiseplan.errors import DataError
from noiseplan.schema import Schema

KERNELS = ["numpy"] + (["numba"] if kernel_numba.installed() else [])


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way of counting in turn, however little there is to count."""
    monkeypatch.setattr(kernel_numba, "enabled", request.param == "numba")
    monkeypatch.setattr(counter, "_WORTH_STARTING", 0)
    monkeypatch.setattr(counter, "_WORTH_CALLING", 0)
    return str(request.param)


def brute_force(codes: NDArray[Any], shape: Sequence[int], members: Members) -> NDArray[Any]:
    table = np.zeros([shape[member] for member in members], dtype=np.int64)
    np.add.at(table, (*codes[:, list(members)].T,), 1 if members else len(codes))
    return table


def schema_of(*sizes: int) -> Schema:
    return Schema.from_sizes({f"a{n}": size for n, size in enumerate(sizes)})


def random_codes(sizes: Sequence[int], rows: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, sizes, size=(rows, len(sizes)))


families = st.lists(
    st.frozensets(st.integers(0, 5), max_size=4).map(lambda s: tuple(sorted(s))), max_size=12
)


@given(families)
def test_maximal_sets_contain_all_others_and_none_of_each_other(sets: list[Members]) -> None:
    kept = maximal(sets, (2, 3, 4, 5, 6, 7))
    assert set(kept) <= set(sets)
    for members in sets:
        assert any(set(members) <= set(other) for other in kept)
    for one, other in combinations(kept, 2):
        assert not set(one) <= set(other)
        assert not set(other) <= set(one)


@given(families, st.frozensets(st.integers(0, 5), max_size=3))
def test_the_smallest_container_is_found(tables: list[Members], wanted: frozenset[int]) -> None:
    shape = (2, 3, 4, 5, 6, 7)
    containing = [cells(table, shape) for table in tables if wanted <= set(table)]
    found = Containers(tables, shape).find(tuple(sorted(wanted)))
    if not containing:
        assert found is None
    else:
        assert found is not None
        assert wanted <= set(found)
        assert cells(found, shape) == min(containing)


@given(families, st.integers(0, 10**6))
def test_a_cover_contains_every_table_and_stays_small(tables: list[Members], records: int) -> None:
    shape = (2, 1, 30, 5, 60, 7)
    cover = merged_tables.covering(maximal(tables, shape), shape, records)
    for table in tables:
        assert any(set(table) <= set(group) for group in cover)
    largest = max([cells(table, shape) for table in tables], default=1)
    limit = max(largest, min(merged_tables._LARGEST, records // merged_tables._RECORDS_PER_CELL))
    assert all(cells(group, shape) <= limit for group in cover)
    assert len(cover) <= len(maximal(tables, shape))


def test_a_cover_spares_passes() -> None:
    pairs = list(combinations(range(8), 2))
    assert merged_tables.covering(pairs, (4,) * 8, records=10**7) == [tuple(range(8))]
    triples = list(combinations(range(14), 3))
    adult = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
    assert len(merged_tables.covering(triples, adult, records=10**7)) < len(triples) / 2


@examples(40)
@given(
    st.lists(st.integers(1, 6), min_size=6, max_size=6),
    families,
    st.lists(st.integers(0, 60), max_size=5),
    st.sampled_from(KERNELS),
)
def test_blocks_of_any_length_are_counted(
    sizes: list[int], tables: list[Members], lengths: list[int], way: str
) -> None:
    schema = schema_of(*sizes)
    codes = random_codes(sizes, sum(lengths), seed=len(tables))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_numba, "enabled", way == "numba")
        patch.setattr(counter, "_WORTH_STARTING", 0)
        patch.setattr(counter, "_WORTH_CALLING", 0)
        patch.setattr(counter, "_GATHERED", 37)
        counted = Counter(schema, tables, records=len(codes))
        first = 0
        for length in lengths:
            counted.add(list(codes[first : first + length].T))
            first += length
        for _ in range(2):  # asking does not change what was counted
            for table, found in zip(tables, counted.tables(), strict=True):
                np.testing.assert_array_equal(found, brute_force(codes, sizes, table))


@pytest.mark.few(1)
@pytest.mark.parametrize("sizes", [(4, 5, 6), (3, 300, 7), (2, 70_000, 3)])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_type_of_code_and_several_threads(
    kernel: str, threads: int, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counter, "_WORTH_SHARING", 0)
    schema, codes = schema_of(*sizes), random_codes(sizes, 20_000)
    tables = [(0,), (1,), (0, 1), (1, 2), (0, 2), ()]
    counted = Counter(schema, tables, records=20, threads=threads)
    counted.add(Records(schema, list(codes.T)).columns)
    for table, found in zip(tables, counted.tables(), strict=True):
        np.testing.assert_array_equal(found, brute_force(codes, sizes, table))


def test_counts_beyond_32_bits(kernel: str) -> None:
    schema = schema_of(2)
    counted = Counter(schema, [(0,)])
    counted._counts[1] = counted._since = 2**32 - 2  # as if so many records had come
    counted.add([np.array([1, 1, 1, 0], dtype=np.uint8)])
    assert counted.tables()[0].tolist() == [1, 2**32 + 1]


def test_codes_outside_never_reach_the_counters(kernel: str) -> None:
    counted = Counter(schema_of(2, 3), [(0, 1)])
    with pytest.raises(DataError, match="column 'a1': codes outside 0 to 2"):
        counted.add([np.array([0]), np.array([3])])
    with pytest.raises(DataError, match="column 'a0': codes outside 0 to 1"):
        counted.add([np.array([-1]), np.array([2])])


def test_the_compiled_function_says_what_it_does() -> None:
    """The same source, run by Python."""
    sizes = np.array([3, 4], dtype=np.uint32)
    codes = random_codes((3, 4), 50)
    members, widths = np.array([[1, 0], [0, 1]]), np.array([1, 2])
    counts = np.zeros(16, dtype=np.uint32)
    columns = np.ascontiguousarray(codes.T).astype(np.uint8)
    kernel_numba.count(columns, sizes, members, widths, np.array([0, 4, 16]), counts)
    assert counts[:4].tolist() == brute_force(codes, (3, 4), (1,)).tolist()
    assert counts[4:].reshape(3, 4).tolist() == brute_force(codes, (3, 4), (0, 1)).tolist()


def test_tables_too_large_are_refused() -> None:
    schema = schema_of(100_000, 100_000)
    with pytest.raises(DataError, match=r"a0 \(100,000\) × a1 .* has 10,000,000,000 cells"):
        Records(schema, [[0], [0]]).marginals([[0, 1]])


class PassesCounted(Countable):
    """Records that remember which tables each pass was asked for."""

    def __init__(self, schema: Schema, codes: NDArray[np.int64]) -> None:
        self.schema, self.origin = schema, "polars"
        self.records, self.passes = Records(schema, list(codes.T)), list[list[Members]]()

    def count(self, tables: Sequence[Members]) -> list[NDArray[np.int64]]:
        self.passes.append(list(tables))
        return self.records.count(tables)


def all_sets(d: int, up_to: int) -> Iterator[NDArray[np.intp]]:
    for k in range(up_to + 1):
        sets = list(combinations(range(d), k))
        yield np.array(sets, dtype=np.intp).reshape(len(sets), k)


class TestTablesBeforehand:
    sizes = (3, 3, 3, 3, 3)

    def test_one_pass_counts_the_largest_tables_only(self) -> None:
        schema, codes = schema_of(*self.sizes), random_codes(self.sizes, 200)
        source = PassesCounted(schema, codes)
        counted = count_tables(source, all_sets(5, up_to=3))
        assert source.passes == [list(combinations(range(5), 3))]
        for sets in all_sets(5, up_to=3):
            for found, members in zip(counted.marginals(sets), sets.tolist(), strict=True):
                np.testing.assert_array_equal(found, brute_force(codes, self.sizes, members))
        assert len(source.passes) == 1
        assert (counted.schema, counted.origin) == (schema, "polars")
        assert repr(counted) == "Tables(a0, a1, a2, a3, a4)"

    def test_more_than_fits_takes_a_pass_for_each_stretch(self) -> None:
        codes = random_codes(self.sizes, 200)
        source = PassesCounted(schema_of(*self.sizes), codes)
        counted = count_tables(source, all_sets(5, up_to=3), held=100)
        assert len(source.passes) == 1
        for sets in all_sets(5, up_to=3):
            for part in np.array_split(sets, 3):
                for found, members in zip(counted.marginals(part), part.tolist(), strict=True):
                    np.testing.assert_array_equal(found, brute_force(codes, self.sizes, members))
        # 16 + 90 + 270 cells at 100 a stretch, in the order asked for: nothing is counted twice.
        assert 4 <= len(source.passes) <= 6
        assert sum(cells(t, self.sizes) for tables in source.passes for t in tables) <= 376
        for tables in source.passes:
            assert sum(cells(table, self.sizes) for table in tables) <= 100

    def test_what_was_not_announced_takes_a_pass_of_its_own(self) -> None:
        codes = random_codes(self.sizes, 200)
        source = PassesCounted(schema_of(*self.sizes), codes)
        counted = count_tables(source, [[[0, 1]]])
        np.testing.assert_array_equal(
            counted.marginals(np.array([[2, 3]]))[0], brute_force(codes, self.sizes, (2, 3))
        )
        assert source.passes == [[(0, 1)], [(2, 3)]]
        assert counted.marginals(np.zeros((0, 2), dtype=int)).shape == (0, 0, 0)

    def test_nothing_announced(self) -> None:
        source = PassesCounted(schema_of(2), random_codes((2,), 5))
        assert count_tables(source, []).marginals(np.zeros((1, 0), dtype=int)).tolist() == [5]

    def test_ready_made_counts_are_left_alone(self) -> None:
        tensor = CountTensor(schema_of(2), [3, 4])
        assert count_tables(tensor, [[[0]]]) is tensor

    def test_sets_are_checked(self) -> None:
        with pytest.raises(DataError, match="no attribute 7"):
            count_tables(Records(schema_of(2), [[0]]), [[[7]]])
