"""Levels with rows of their own: what is measured of counts, however many there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from levels_oracles import OTHERS, PLACE, SCHEMA, SEX, TREE, flat, levels_of, made, written_out

from noiseplan.errors import DataError
from noiseplan.mechanisms.exact_residuals import RECORDS
from noiseplan.mechanisms.level_siblings import Siblings
from noiseplan.mechanisms.measured_levels import LARGEST_SUM, LevelsMechanism
from noiseplan.noise import Noise


def counted(counts: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Tables of sets of attributes of equally many cells."""

    def marginals(sets: np.ndarray) -> np.ndarray:
        away = [tuple(set(range(4)) - set(each)) for each in sets.tolist()]
        return np.array([counts.sum(axis=axes) for axes in away])

    return marginals


def noiseless(shape: tuple[int, ...], noise: Noise) -> np.ndarray:
    assert shape[-1] == len(noise)
    return np.zeros(shape, dtype=noise.dtype)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
@pytest.mark.parametrize("whole", [False, True])
def test_what_is_measured_is_what_costs_were_counted_for(whole: bool, kind: type) -> None:
    mechanism, rng = made(whole=whole), np.random.default_rng(0)
    counts = rng.integers(0, 50, SCHEMA.shape)
    found = mechanism.measure(counted(counts.astype(kind)), noiseless).values
    numbers = np.concatenate([np.asarray(each).ravel() for each in found])
    np.testing.assert_allclose(numbers, flat(written_out(mechanism)) @ counts.ravel(), rtol=1e-12)
    assert [each.shape for each in found] == mechanism.shapes
    assert all(np.issubdtype(each.dtype, np.integer) == whole for each in found)


def heavy() -> LevelsMechanism:
    """The largest parts that there may be, and rows of many bits."""
    levels = list(levels_of(TREE, [np.eye(6)] * 4, whole=True))
    for level in (1, 2, 3):
        parts, parent = levels[level].parts.copy(), TREE.parents[level - 1]
        for above in np.unique(parent):
            mine = np.flatnonzero(parent == above)
            parts[mine] = 1.0
            parts[mine[0]] = LARGEST_SUM - len(mine) + 1
        levels[level] = replace(levels[level], parts=parts)
    levels[3] = replace(levels[3], rows=np.vstack([(1 << 22) * np.eye(6) - 1, np.ones((1, 6))]))
    return LevelsMechanism(SCHEMA, PLACE, OTHERS, TREE, tuple(levels), True)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_as_many_records_as_are_released_do_not_overflow(kind: type) -> None:
    mechanism = heavy()
    for where in ((0, 0, 0, 0), (1, 6, 1, 2), (1, 3, 0, 1)):
        counts = np.zeros(SCHEMA.shape, dtype=kind)
        counts[where] = RECORDS - 3
        counts[1, 5, 0, 2] += 3
        found = mechanism.measure(counted(counts), noiseless).values
        numbers = [int(x) for each in found for x in np.asarray(each).ravel()]
        places = [np.ravel_multi_index(at, SCHEMA.shape) for at in (where, (1, 5, 0, 2))]
        columns = flat(written_out(mechanism))[:, places]
        expected = [int(a) * (RECORDS - 3) + int(b) * 3 for a, b in columns]
        # Beyond 64 bits they are rounded, after noise was added.
        assert all(abs(a - b) <= abs(b) * 2**-50 for a, b in zip(numbers, expected, strict=True))
        assert all(a == b for a, b in zip(numbers, expected, strict=True) if abs(b) < 2**53)
    counts[where] += 3
    with pytest.raises(DataError, match="at most 500,000,000,000 records"):
        mechanism.measure(counted(counts), noiseless)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_more_records_than_are_released_are_simulated_without_overflow(kind: type) -> None:
    mechanism = heavy().floating()
    counts = np.zeros(SCHEMA.shape, dtype=kind)
    counts[1, 3, 0, 1] = 10**15
    found = mechanism.measure(counted(counts), noiseless).values
    for each, rows in zip(found, written_out(mechanism), strict=True):
        expected = flat([rows]) @ counts.ravel()
        np.testing.assert_allclose(each.ravel(), expected, atol=1e-14 * np.abs(expected).max())


def test_counts_of_fractions_are_refused_where_privacy_is_promised() -> None:
    counts = np.full(SCHEMA.shape, 0.25)
    with pytest.raises(DataError, match="not whole numbers of records"):
        made(whole=True).measure(counted(counts), noiseless)


def test_what_a_level_measures_is_all_that_is_counted_for_it() -> None:
    """Of levels that do not tell values of an attribute apart the table is without it."""
    mechanism = made([np.eye(6), SEX, SEX, np.ones((1, 6))])
    assert [each.tolist() for each in mechanism.sets] == [[[0, 1, 3]], [[0, 1]], [[1]]]
    counts = np.random.default_rng(0).integers(0, 50, SCHEMA.shape)
    found = mechanism.measure(counted(counts), noiseless).values
    numbers = np.concatenate([each.ravel() for each in found])
    np.testing.assert_allclose(numbers, flat(written_out(mechanism)) @ counts.ravel(), rtol=1e-12)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
@pytest.mark.parametrize("fraction", [0.0, 0.5])
def test_differences_are_integers_only_where_all_parts_are(kind: type, fraction: float) -> None:
    """One part of a fraction among whole ones is not cut off, whatever the counts are."""
    parts, parent = np.arange(1.0, TREE.sizes[2] + 1), TREE.parents[1]
    kept = (np.bincount(parent) > 1)[parent]
    parts[np.flatnonzero(kept)[-1]] += fraction
    siblings = Siblings.of(TREE, 2, parts, Noise("gaussian", np.ones(kept.sum())))
    counts = np.random.default_rng(1).integers(0, 99, (len(parts), 3)).astype(kind)
    found, expected = siblings.differences(counts), []
    for node in np.flatnonzero(kept):
        family = parent == parent[node]
        expected.append(parts[family].sum() * counts[node] - parts[node] * counts[family].sum(0))
    np.testing.assert_array_equal(found, expected)
    assert np.issubdtype(found.dtype, np.integer) == (kind is np.int64 and not fraction)
