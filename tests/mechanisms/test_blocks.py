"""Subsets in blocks: found where they are, grouped by what measures them, nothing lost."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseplan.arrays import subsets
from noiseplan.errors import PlanError
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import (
    Block,
    Blocks,
    SetIndex,
    batches,
    group_blocks,
)
from noiseplan.noise import Noise

TWO, THREE, NONE = Basis.orthogonal(2), Basis.orthogonal(3), Basis.orthogonal(1)


@st.composite
def some_sets(draw: st.DrawFn) -> dict[tuple[int, ...], float]:
    """Some sets of six attributes with the size of their noise, infinite for some."""
    every = [c for width in range(4) for c in combinations(range(6), width)]
    chosen = draw(st.lists(st.sampled_from(every), min_size=1, max_size=20, unique=True))
    sizes = st.sampled_from([0.5, 1.0, 2.0, np.inf])
    return {each: draw(sizes) for each in draw(st.permutations(chosen))}


def grouped(noise: dict[tuple[int, ...], float], exact: bool = False) -> Blocks:
    """By attributes whose bases alternate: two, three, two, …"""
    sets, sizes = [], []
    for width in {len(each) for each in noise}:
        mine = [each for each in noise if len(each) == width]
        sets.append(np.array(mine, dtype=np.int64).reshape(len(mine), width))
        sizes.append(np.array([noise[each] for each in mine]))
    return group_blocks(sets, sizes, (TWO, THREE), np.arange(6) % 2, exact)


@given(some_sets())
def test_every_set_is_in_one_block_with_its_noise_and_bases(
    noise: dict[tuple[int, ...], float],
) -> None:
    blocks = grouped(noise)
    found: dict[tuple[int, ...], float] = {}
    for block in blocks:
        for row, size in zip(block.sets.tolist(), block.sigma2, strict=True):
            assert tuple(row) not in found
            found[tuple(row)] = float(size)
            assert block.bases == tuple((TWO, THREE)[a % 2] for a in row)
        assert block.sets.tolist() == sorted(block.sets.tolist())
        shape = tuple(basis.rows for basis in block.bases)
        assert (block.shape, block.numbers) == (shape, len(block) * int(np.prod(shape)))
    assert found == {each: size for each, size in noise.items() if np.isfinite(size)}
    assert len(blocks) == len(found)
    np.testing.assert_array_equal(
        blocks.noise.size, [found[tuple(row)] for block in blocks for row in block.sets.tolist()]
    )


@given(some_sets())
def test_variances_are_found_and_infinite_elsewhere(noise: dict[tuple[int, ...], float]) -> None:
    blocks = grouped(noise)
    for width in range(4):
        for attributes in combinations(range(6), width):
            asked = np.array([attributes], dtype=np.int64).reshape(1, width)
            assert blocks.variance(asked)[0] == noise.get(attributes, np.inf)


@given(some_sets())
def test_many_sets_are_found_at_once(noise: dict[tuple[int, ...], float]) -> None:
    for block in grouped(noise):
        width = block.sets.shape[1]
        wanted = list(combinations(range(8), width))
        every = np.array(wanted, dtype=np.int64).reshape(len(wanted), width)
        known = {tuple(row): place for place, row in enumerate(block.sets.tolist())}
        expected = [known.get(tuple(row), -1) for row in every.tolist()]
        assert SetIndex.of(block.sets).find(every).tolist() == expected


def test_sets_too_wide_for_keys_are_found_too() -> None:
    """Rows of many large numbers fit no 64 bits as one key."""
    wide = np.arange(40)[None, :] * 1000 + np.array([[0], [3], [5]])
    index = SetIndex.of(wide)
    assert index.keys is None
    assert index.find(wide[[2, 0]]).tolist() == [2, 0]
    assert index.find(wide + 1).tolist() == [-1, -1, -1]


def test_single_sets_are_found_among_few_and_among_many() -> None:
    many = np.array(list(combinations(range(100), 2)))
    few, all_of_them = SetIndex.of(many[:30]), SetIndex.of(many)
    assert few.places is not None and all_of_them.places is None
    for place in (0, 7, 29):
        assert few.find(many[[place]]).tolist() == all_of_them.find(many[[place]]).tolist()
        assert few.find(many[[place]]).tolist() == [place]
    assert few.find(many[[30]]).tolist() == [-1] and all_of_them.find(many[[30]]).tolist() == [30]
    outside = np.array([[3, 100]])
    assert few.find(outside).tolist() == all_of_them.find(outside).tolist() == [-1]


def test_noise_is_exact_in_all_blocks_or_in_none() -> None:
    one = Block(np.zeros((1, 0), np.int64), Noise("gaussian", 1.0, exact=True), ())
    other = Block(np.zeros((1, 1), np.int64), Noise("gaussian", 1.0), (TWO,))
    Blocks((one,), (TWO,), np.zeros(1, np.int64), exact=True)
    for blocks, exact in (((one, other), True), ((one,), False), ((other,), True)):
        with pytest.raises(PlanError, match="do not go together"):
            Blocks(blocks, (TWO,), np.zeros(1, np.int64), exact=exact)


def test_discrete_noise_has_the_variance_of_what_is_drawn() -> None:
    blocks = grouped({(0,): 0.25, (1,): 0.5}, exact=True)
    values = np.arange(-30, 31)
    for block in blocks:
        weights = np.exp(-(values**2) / (2 * block.sigma2[0]))
        expected = (values**2 * weights).sum() / weights.sum()
        assert block.variance[0] == pytest.approx(expected, rel=1e-12)
        assert block.variance[0] < block.sigma2[0]


def test_other_noise_on_the_same_sets() -> None:
    blocks = grouped({(): 1.0, (0,): 2.0, (1, 2): 3.0})
    doubled = blocks.with_noise(lambda n: replace(n, size=2 * n.size, exact=True))
    assert doubled.exact and all(block.noise.exact for block in doubled)
    assert [b.sets.tolist() for b in doubled] == [b.sets.tolist() for b in blocks]
    np.testing.assert_array_equal(doubled.noise.size, 2 * blocks.noise.size)


def test_a_basis_without_rows_measures_nothing() -> None:
    sets = [np.array([[0]]), np.array([[0, 1]])]
    blocks = group_blocks(sets, [np.ones(1), np.ones(1)], (NONE, TWO), np.array([0, 1]))
    assert [block.numbers for block in blocks] == [0, 0]


@pytest.mark.parametrize("width", range(6))
def test_patterns_are_all_subsets_the_empty_one_first(width: int) -> None:
    found = list(subsets(range(width)))
    assert found[0] == () and len(found) == len(set(found)) == 2**width
    assert [len(pattern) for pattern in found] == sorted(len(pattern) for pattern in found)
    assert all(list(pattern) == sorted(set(pattern)) for pattern in found)


@given(st.integers(0, 50), st.integers(0, 40), st.integers(1, 100))
def test_batches_cover_everything_once_within_the_limit(count: int, cells: int, limit: int) -> None:
    parts = [range(count)[part] for part in batches(count, cells, limit)]
    assert [i for part in parts for i in part] == list(range(count))
    assert all(len(part) == 1 or len(part) * max(1, cells) <= limit for part in parts)
    assert all(len(part) for part in parts)
    # Full batches: none could have taken one more, but the last.
    assert all((len(part) + 1) * max(1, cells) > limit for part in parts[:-1])
