"""One attribute's split: the identities it rests on, published constants, groups of values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from depth import examples
from noiseplan.matrices import (
    DenseMatrix,
    IdentityMatrix,
    Matrix,
    PrefixMatrix,
    RangesMatrix,
    StackMatrix,
    TotalMatrix,
)
from noiseplan.mechanisms.basis import Basis

repeatable = examples(60)

Array = NDArray[np.float64]


def well_conditioned(n: int, seed: int) -> Array:
    """Rows U such that [1ᵀ; U] is far from singular, and U1 ≠ 0: an oblique split."""
    rng = np.random.default_rng(seed)
    turned = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, n - 1))]))[0][:, 1:].T
    stretch = np.exp(rng.uniform(-1, 1, size=(n - 1, 1)))
    return np.asarray(stretch * turned + 0.3 * rng.normal(size=(n - 1, 1)))


def check_identities(basis: Basis, atol: float = 1e-12) -> None:
    """1ᵀτ = 1, Uτ = 0, 1ᵀV = 0, UV = I: true of every basis, grouped or not."""
    n, rows = basis.size, basis.rows
    u, tau, v = basis.measure, basis.centre, basis.recover
    assert (u.shape, tau.shape, v.shape) == ((rows, n), (n,), (n, rows))
    assert tau.sum() == pytest.approx(1.0, abs=atol)
    np.testing.assert_allclose(u @ tau, np.zeros(rows), atol=atol)
    np.testing.assert_allclose(v.sum(axis=0), np.zeros(rows), atol=atol)
    np.testing.assert_allclose(u @ v, np.eye(rows), atol=atol)
    np.testing.assert_array_equal(basis.forward, np.vstack([np.ones(n), u]))
    np.testing.assert_array_equal(basis.inverse, np.column_stack([tau, v]))
    np.testing.assert_allclose(basis.gram, u.T @ u, atol=atol)
    np.testing.assert_allclose(basis.spread, v @ v.T, atol=atol)
    largest = max((float(u[:, i] @ u[:, i]) for i in range(n)), default=0.0) if rows else 0.0
    assert basis.sensitivity == pytest.approx(largest, abs=atol)


def rebuilt(basis: Basis) -> Array:
    """τ1ᵀ + VU."""
    return np.outer(basis.centre, np.ones(basis.size)) + basis.recover @ basis.measure


@pytest.mark.parametrize("n", [1, 2, 3, 10, 100])
def test_orthogonal(n: int) -> None:
    """ResidualPlanner: UUᵀ = I, UᵀU = I − 11ᵀ/n, τ = 1/n, so R = n − 1, m = 1/n, β = (n−1)/n."""
    basis = Basis.orthogonal(n)
    check_identities(basis)
    assert (basis.rows, basis.size) == (n - 1, n)
    np.testing.assert_allclose(rebuilt(basis), np.eye(n), atol=1e-12)
    u = basis.measure
    np.testing.assert_allclose(u @ u.T, np.eye(n - 1), atol=1e-12)
    np.testing.assert_allclose(u.T @ u, np.eye(n) - np.ones((n, n)) / n, atol=1e-12)
    np.testing.assert_allclose(basis.centre, np.full(n, 1 / n), rtol=1e-15)
    np.testing.assert_allclose(basis.recover, u.T, atol=1e-15)
    assert basis.sensitivity == pytest.approx((n - 1) / n, abs=1e-13)
    assert np.square(basis.recover).sum() == pytest.approx(n - 1, abs=1e-10)


@repeatable
@given(st.integers(1, 8), st.integers(0, 10**6))
def test_any_rows(n: int, seed: int) -> None:
    basis = Basis.from_rows(well_conditioned(n, seed))
    check_identities(basis, atol=1e-10)
    np.testing.assert_allclose(rebuilt(basis), np.eye(n), atol=1e-10)
    assert basis.rows == n - 1


@repeatable
@given(st.integers(2, 7), st.integers(0, 10**6))
def test_every_factor_splits(n: int, seed: int) -> None:
    """W = (Wτ)1ᵀ + (WV)U."""
    basis = Basis.from_rows(well_conditioned(n, seed))
    any_rows = DenseMatrix(np.random.default_rng(seed).normal(size=(3, n)))
    factors: list[Matrix] = [IdentityMatrix(n), TotalMatrix(n), PrefixMatrix(n), RangesMatrix(n)]
    for factor in [*factors, any_rows]:
        w = factor.dense()
        again = np.outer(w @ basis.centre, np.ones(n)) + (w @ basis.recover) @ basis.measure
        np.testing.assert_allclose(again, w, atol=1e-9)
        assert basis.spans(factor)


def test_constants_of_the_paper() -> None:
    """Spec E7, n = 3: prefix sums measured by themselves, and through the identity."""
    root = np.sqrt(5)
    sub = np.array([[root / 3, -1 / (3 * root), -4 / (3 * root)], [0, 1 / root, -1 / root]])
    basis = Basis.from_rows(sub)
    check_identities(basis)
    g = np.array([[5, -1, -4], [-1, 2, -1], [-4, -1, 5]]) / 9
    np.testing.assert_allclose(basis.gram, g, atol=1e-14)
    assert basis.sensitivity == pytest.approx(5 / 9)
    prefix, ranges = PrefixMatrix(3), RangesMatrix(3)
    np.testing.assert_allclose(prefix.quadratic_rows(basis.spread), [1, 1, 0], atol=1e-14)
    assert ranges.quadratic_rows(basis.spread).sum() == pytest.approx(6)
    assert np.square(prefix.matmul(basis.centre)).sum() == pytest.approx(14 / 9)
    plain = Basis.orthogonal(3)
    np.testing.assert_allclose(
        prefix.quadratic_rows(plain.spread), [2 / 3, 2 / 3, 0], rtol=1e-14, atol=1e-15
    )
    assert np.square(ranges.matmul(plain.centre)).sum() == pytest.approx(20 / 9)
    assert plain.sensitivity * ranges.quadratic_rows(plain.spread).sum() == pytest.approx(20 / 9)


def test_subtraction_rows_of_the_paper() -> None:
    """Spec E1, E6: Sub_3 and its inverse; τ = 1/n since Sub 1 = 0."""
    basis = Basis.from_rows(np.array([[1.0, -1, 0], [1, 0, -1]]))
    np.testing.assert_allclose(basis.recover, np.array([[1, 1], [-2, 1], [1, -2]]) / 3, atol=1e-15)
    np.testing.assert_allclose(basis.centre, np.full(3, 1 / 3), rtol=1e-15)


# ---------------------------------------------------------------- groups of values


@st.composite
def groupings(draw: st.DrawFn, largest: int = 9) -> NDArray[np.int64]:
    """The group of each value: 0, 1, … each at least once, in any order."""
    count = draw(st.integers(1, 5))
    more = draw(st.lists(st.integers(0, count - 1), max_size=largest - count))
    return np.array(draw(st.permutations([*range(count), *more])), dtype=np.int64)


def grouped_rows(groups: NDArray[np.int64], rows: int, seed: int) -> Array:
    """Rows that do not tell values of one group apart."""
    per_group = np.random.default_rng(seed).normal(size=(rows, int(groups.max()) + 1))
    return np.asarray(per_group[:, groups])


@repeatable
@given(groupings(), st.integers(0, 10**6))
def test_groups(groups: NDArray[np.int64], seed: int) -> None:
    count, n = int(groups.max()) + 1, len(groups)
    over_groups = well_conditioned(count, seed)
    basis = Basis.from_rows(over_groups, groups)
    check_identities(basis, atol=1e-10)
    assert (basis.rows, basis.size) == (count - 1, n)
    np.testing.assert_array_equal(basis.measure, over_groups[:, groups])
    w = grouped_rows(groups, 4, seed)
    again = np.outer(w @ basis.centre, np.ones(n)) + (w @ basis.recover) @ basis.measure
    np.testing.assert_allclose(again, w, atol=1e-9)
    # The moments over groups are those over values.
    alone = Basis.from_rows(over_groups)
    first = [int(np.flatnonzero(groups == g)[0]) for g in range(count)]
    np.testing.assert_allclose(w @ basis.inverse, w[:, first] @ alone.inverse, atol=1e-9)


@repeatable
@given(groupings(), st.integers(0, 10**6))
def test_spans_what_does_not_tell_values_of_a_group_apart(
    groups: NDArray[np.int64], seed: int
) -> None:
    basis = Basis.from_rows(well_conditioned(int(groups.max()) + 1, seed), groups)
    rows = grouped_rows(groups, 3, seed)
    assert basis.spans(TotalMatrix(len(groups)))
    assert basis.spans(DenseMatrix(rows))
    assert basis.spans(DenseMatrix(1e6 * rows))
    members = (groups == np.arange(groups.max() + 1)[:, None]).astype(float)
    assert basis.spans(StackMatrix((DenseMatrix(members), TotalMatrix(len(groups)))))


@repeatable
@given(groupings(), st.integers(0, 10**6))
def test_does_not_span_what_does(groups: NDArray[np.int64], seed: int) -> None:
    n = len(groups)
    basis = Basis.from_rows(well_conditioned(int(groups.max()) + 1, seed), groups)
    alone = basis.rows == n - 1  # every value is its own group
    for factor in (IdentityMatrix(n), PrefixMatrix(n), RangesMatrix(n)):
        assert basis.spans(factor) == alone
    if not alone:
        rows = grouped_rows(groups, 3, seed)
        again = np.flatnonzero(groups == groups[np.bincount(groups)[groups] > 1][0])
        rows[1, again[0]] += 0.01  # one row in three tells two values of a group apart
        assert not basis.spans(DenseMatrix(rows))


@pytest.mark.parametrize("scale", [1e-12, 1e-9, 1e-4, 1.0, 1e9])
def test_spans_does_not_depend_on_the_unit(scale: float) -> None:
    groups = np.array([0, 0, 1])
    basis = Basis.from_rows(well_conditioned(2, 0), groups)
    assert basis.spans(DenseMatrix(scale * np.array([[1.0, 1.0, 0.0]])))
    assert not basis.spans(DenseMatrix(scale * np.array([[1.0, 0.0, 0.0]])))


def test_spans_many_values_in_few_groups() -> None:
    groups = np.arange(50) % 3
    for seed in range(10):
        basis = Basis.from_rows(well_conditioned(3, seed), groups)
        assert basis.spans(DenseMatrix(grouped_rows(groups, 3, seed)))


@pytest.mark.parametrize("n", [30, 100, 300])
def test_spans_large_hierarchies(n: int) -> None:
    """Rounding over many values must not hide that a hierarchy is spanned by its finest level."""
    groups = np.arange(n) // 3
    count = int(groups.max()) + 1
    basis = Basis.from_rows(well_conditioned(count, 1), groups)
    members = (groups == np.arange(count)[:, None]).astype(float)
    coarse = (np.arange(n) // 15 == np.arange(n // 15)[:, None]).astype(float)
    blocks = (DenseMatrix(members), DenseMatrix(coarse), TotalMatrix(n))
    assert basis.spans(StackMatrix(blocks))


def test_only_the_sum() -> None:
    """One group: nothing is measured but the sum."""
    basis = Basis.from_rows(np.zeros((0, 1)), np.zeros(4, dtype=np.int64))
    check_identities(basis)
    assert basis.rows == 0
    assert basis.sensitivity == 0.0
    np.testing.assert_allclose(basis.centre, np.full(4, 0.25))
    assert basis.spans(TotalMatrix(4))
    assert not basis.spans(IdentityMatrix(4))
