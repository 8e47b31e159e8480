"""How one attribute is measured by a table: F undoes S, and its errors are uncorrelated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseplan.matrices import Matrix
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.tables import View, by_difference, by_strategy, by_value

Array = np.ndarray[Any, Any]


def dense(matrix: Array | Matrix) -> Array:
    return matrix.dense() if isinstance(matrix, Matrix) else np.asarray(matrix)


def strategy_of(size: int, extra: int, seed: int) -> Array:
    """Rows that determine every value: a diagonal, and some others."""
    rng = np.random.default_rng(seed)
    return np.vstack([np.diag(rng.uniform(0.5, 2.0, size)), rng.normal(size=(extra, size))])


def check_view(view: View, basis: Basis) -> None:
    """FS = M and FFᵀ = diag(1/c, κI): unbiased, uncorrelated, with the variances stated."""
    f, s = dense(view.reduce), dense(view.measure)
    both = np.vstack([np.ones(basis.size), dense(basis.measure)])
    wanted = both if view.total is not None else both[1:]
    assert s.shape == (view.rows, view.size)
    np.testing.assert_allclose(f @ s, wanted, atol=1e-9)
    variances = [view.residual] * basis.rows
    if view.total is not None:
        variances = [view.total, *variances]
    np.testing.assert_allclose(f @ f.T, np.diag(variances), atol=1e-8)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_by_value(size: int) -> None:
    basis = Basis.orthogonal(size)
    view = by_value(size, basis)
    check_view(view, basis)
    assert (view.kind, view.total, view.residual) == ("values", float(size), 1.0)


def test_by_value_of_an_integer_basis_scales_with_it() -> None:
    """nI − 11ᵀ has n² times the variance along 1^⊥: F is what it is, whatever the basis."""
    view = by_value(3, Basis.integer(3))
    f = dense(view.reduce)
    np.testing.assert_allclose(f[1:] @ f[1:].T, 9 * np.eye(3) - 3, atol=1e-12)
    np.testing.assert_allclose(f[0] @ f[1:].T, 0, atol=1e-12)


def test_by_difference_leaves_the_sum_to_others() -> None:
    basis = Basis.orthogonal(2)
    view = by_difference(basis)
    check_view(view, basis)
    assert view.total is None
    assert view.residual == pytest.approx(0.5)  # U = [1, −1]/√2, up to its sign
    np.testing.assert_array_equal(dense(view.measure), [[1.0, -1.0]])


@given(st.integers(1, 6), st.integers(0, 4), st.integers(0, 10**6))
def test_by_strategy(size: int, extra: int, seed: int) -> None:
    strategy = strategy_of(size, extra, seed)
    view, basis = by_strategy(strategy, np.arange(size))
    check_view(view, basis)
    inverse = np.linalg.inv(strategy.T @ strategy)
    assert view.total == pytest.approx(inverse.sum(), rel=1e-9)  # the variance of the sum
    # All that S says is kept: V Vᵀ and the sum's part make (SᵀS)⁻¹ again.
    again = view.total * np.outer(basis.centre, basis.centre) + basis.recover @ basis.recover.T
    np.testing.assert_allclose(again, inverse, atol=1e-7 * np.abs(inverse).max())


@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 10**6))
def test_by_strategy_over_groups_of_values(count: int, extra: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.concatenate([np.arange(count), rng.integers(0, count, 3)]))
    strategy = strategy_of(count, extra, seed)
    view, basis = by_strategy(strategy, groups)
    check_view(view, basis)
    assert (view.size, basis.size) == (count + 3, count + 3)
    np.testing.assert_array_equal(dense(view.measure), strategy[:, groups])
    # Whatever does not tell values of a group apart is estimated as S over the groups would.
    rows = rng.normal(size=(2, count))
    alone = rows @ np.linalg.inv(strategy.T @ strategy) @ rows.T
    both = np.column_stack([basis.centre, basis.recover])
    split = rows[:, groups] @ both
    noise = np.diag([view.total or 0.0, *[1.0] * basis.rows])
    np.testing.assert_allclose(split @ noise @ split.T, alone, atol=1e-7 * np.abs(alone).max())


@pytest.mark.parametrize("rows", [[[1.0, 1.0]], [[1.0, 0.0]], [[1.0, 1.0], [2.0, 2.0]]])
def test_a_strategy_that_does_not_determine_the_values_is_refused(rows: list[list[float]]) -> None:
    with pytest.raises(np.linalg.LinAlgError):
        by_strategy(np.array(rows), np.arange(2))
