"""The pairs of values that stand for all others, against all pairs of records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseplan.mechanisms import pair_distances
from noiseplan.mechanisms.basis import Basis, MatrixBasis, WideBasis
from noiseplan.mechanisms.far_pairs import (
    LENGTHS,
    affordable,
    far_values,
    farthest_pair,
    pair_costs,
)
from noiseplan.mechanisms.pair_distances import columns_apart

Array = np.ndarray[Any, Any]


def drawn(rng: np.random.Generator, many: int) -> list[Basis]:
    """Bases of columns of very different lengths."""
    sizes = rng.integers(2, 5, many).tolist()
    rows = (rng.standard_normal((n - 1, n)) * rng.uniform(0.1, 2.0, n) for n in sizes)
    return [Basis.from_rows(u) for u in rows]


def dearest(precision: Array, bases: list[Basis]) -> float:
    """The largest cost of all pairs of records; bit i of a set: attribute i."""
    total: Any = 0.0
    for number in range(1, len(precision)):
        gram = np.ones((1, 1))
        for i, basis in enumerate(bases):
            own = np.asarray(basis.gram)
            gram = np.kron(gram, own if number >> i & 1 else np.ones_like(own))
        total = total + precision[number] * gram
    own = np.diagonal(total)
    return float((own[:, None] + own - 2 * total).max())


@given(st.integers(2, 3), st.integers(0, 10**6))
def test_the_farthest_of_all_pairs(many: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bases, precision = drawn(rng, many), rng.random(1 << many) * (rng.random(1 << many) < 0.7)
    precision[0], precision[-1] = 0.0, 1.0
    brute = dearest(precision, bases)
    assert brute <= farthest_pair(precision, bases) <= brute * (1 + 1e-9)


@given(st.integers(0, 10**6))
def test_fewer_lengths_never_cost_less(seed: int) -> None:
    """Values taken together have the longest column and the smallest product of all of them."""
    rng = np.random.default_rng(seed)
    bases = [Basis.from_rows(rng.standard_normal((11, 12)) * rng.uniform(0.3, 1, 12))] * 2
    before = 0.0
    for lengths in LENGTHS:
        far = far_values(bases[0], lengths)
        a, b, c = far.T
        pairs = np.add.outer(a, a) + np.multiply.outer(a, a)
        pairs = pairs + np.add.outer(b, b) + np.multiply.outer(b, b)
        found = float((pairs - 2 * (np.add.outer(c, c) + np.multiply.outer(c, c))).max())
        assert found >= before * (1 - 1e-12)
        before = found
    assert len(far) == 2  # agree or not


@given(st.integers(0, 10**6))
def test_rows_for_sharing_noise_are_those_of_pairs(seed: int) -> None:
    """Two attributes that may be exchanged beside one: sets of every kind."""
    rng = np.random.default_rng(seed)
    one, other = drawn(rng, 2)
    counts = np.array([[1, 0], [0, 1], [2, 0], [1, 1], [2, 1]])
    rows = pair_costs(counts, np.array([2, 1]), [one, other])
    assert rows is not None
    weights = rng.random(5)
    precision = np.zeros(8)  # bits 0 and 1: `one`; bit 2: `other`
    for number in range(1, 8):
        kind = [(number & 1) + (number >> 1 & 1), number >> 2]
        precision[number] = weights[counts.tolist().index(kind)]
    brute = dearest(precision, [one, one, other])
    assert brute <= float((rows @ weights).max()) * (1 + 1e-12)
    assert float((rows @ weights).max()) <= brute * (1 + 1e-9)


def test_wide_attributes_and_limits() -> None:
    wide = WideBasis(300, 1 / 300)
    assert len(far_values(wide, 8)) == 2
    assert affordable([wide] * 18, np.ones(18, np.int64)) == LENGTHS[0]
    rng = np.random.default_rng(0)
    long = Basis.from_rows(rng.standard_normal((39, 40)) * rng.uniform(0.3, 1, 40))
    assert affordable([long] * 17, np.ones(17, np.int64)) < LENGTHS[0]
    assert pair_costs(np.eye(40, dtype=np.int64), np.ones(40, np.int64), [long] * 40) is None


def test_values_of_one_kind_stand_for_each_other() -> None:
    """Columns that are equal are one, so that pairs of long attributes are those of their kinds."""
    rng = np.random.default_rng(3)
    few = MatrixBasis.from_rows(rng.integers(-9, 9, size=(2, 3)).astype(float))
    groups = rng.permutation(np.arange(3000) % 3)
    many = MatrixBasis.from_rows(np.asarray(few.measure), groups)
    assert many.size == 3000
    np.testing.assert_allclose(far_values(many, 16), far_values(few, 16))
    assert (many.lowest, many.farthest) == (few.lowest, few.farthest)


def test_pairs_that_are_too_many_are_bounded() -> None:
    """Of more kinds of values than numbers are measured, lengths alone are looked at."""
    row = np.random.default_rng(5).normal(size=(1, 2000))
    basis = MatrixBasis(row, np.zeros(2000), np.zeros((2000, 1)))
    assert basis.pairs is None
    assert basis.lowest <= row.min() * row.max()
    assert basis.farthest >= (row.max() - row.min()) ** 2
    (beta, *_), (first, second, product) = far_values(basis, 16).tolist()
    assert min(beta, first, second) >= (row**2).max()
    assert product <= row.min() * row.max()


@pytest.mark.parametrize("power", [1, 2])
def test_columns_apart_are_those_of_all_pairs(power: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(8).integers(-5, 6, size=(3, 9)).astype(float)
    brute = max(
        float((np.abs(rows[:, u] - rows[:, v]) ** power).sum()) for u in range(9) for v in range(u)
    )
    for held in (1, 20, 1 << 20):  # one column at a time, some, and all
        monkeypatch.setattr(pair_distances, "HELD", held)
        found = columns_apart(rows, power)
        assert brute <= found <= brute * (1 + 1e-12)
    monkeypatch.setattr(pair_distances, "DENSE_LIMIT", 80)
    monkeypatch.setattr(pair_distances, "PAIRED_NUMBERS", 0)
    assert columns_apart(rows, power) >= brute
    assert columns_apart(rows[:, :1], 2) == 0.0
