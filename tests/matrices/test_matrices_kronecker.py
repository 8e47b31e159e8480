"""Kronecker products: applied axis by axis, the same as multiplied out."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from depth import examples
from noiseplan.errors import QueryError
from noiseplan.matrices import (
    DenseMatrix,
    IdentityMatrix,
    Matrix,
    PrefixMatrix,
    RangesMatrix,
    StackMatrix,
    TotalMatrix,
    kronecker_apply,
    kronecker_dense,
)

repeatable = examples(150)

Factor = Matrix | NDArray[np.float64]


def plain(rows: int, columns: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=(rows, columns))


def as_array(factor: Factor) -> NDArray[np.float64]:
    return factor.dense() if isinstance(factor, Matrix) else factor


def multiplied_out(factors: list[Factor], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The definition: one number at a time from the entries of the factors."""
    arrays = [as_array(factor) for factor in factors]
    result = np.zeros((*(len(a) for a in arrays), x.shape[-1]))
    for rows in product(*(range(len(a)) for a in arrays)):
        for columns in product(*(range(a.shape[1]) for a in arrays)):
            entry = prod(a[r, c] for a, r, c in zip(arrays, rows, columns, strict=True))
            result[rows] += entry * x[columns]
    return result


@st.composite
def factors_of_any_kind(draw: st.DrawFn) -> Factor:
    n = draw(st.integers(1, 5))
    rows = draw(st.integers(1, 4))
    choices: list[Factor] = [
        plain(rows, n, seed=draw(st.integers(0, 9))),
        np.asfortranarray(plain(rows, n, seed=n)),
        IdentityMatrix(n),
        TotalMatrix(n),
        PrefixMatrix(n),
        RangesMatrix(n),
        DenseMatrix(plain(rows, n)),
        StackMatrix((TotalMatrix(n), DenseMatrix(plain(rows, n)))),
    ]
    # Plain factors have three ways through the code, so they come up more often.
    often: list[Factor] = [choices[0]] * 4
    return draw(st.sampled_from(often + choices))


@repeatable
@given(
    factors=st.lists(factors_of_any_kind(), min_size=0, max_size=4),
    batch=st.sampled_from([1, 2, 15, 16, 40]),
)
def test_applied_as_multiplied_out(factors: list[Factor], batch: int) -> None:
    shape = [factor.shape[1] for factor in factors]
    x = np.random.default_rng(batch).normal(size=(*shape, batch))
    before = x.copy()
    result = kronecker_apply(factors, x)
    dense = kronecker_dense([as_array(factor) for factor in factors])
    assert result.shape == (*(factor.shape[0] for factor in factors), batch)
    np.testing.assert_allclose(
        result.reshape(-1, batch), dense @ x.reshape(-1, batch), rtol=1e-10, atol=1e-10
    )
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("order", list(range(6)))
@pytest.mark.parametrize("batch", [1, 3, 40])
def test_every_order_of_axes(order: int, batch: int) -> None:
    """Sizes chosen so that plain factors see few and many columns before and after their axis."""
    factors: list[Factor] = [plain(2, 3), PrefixMatrix(4), plain(6, 5, seed=1)]
    permutation = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)][order]
    chosen = [factors[i] for i in permutation]
    x = np.random.default_rng(3).normal(size=(*(f.shape[1] for f in chosen), batch))
    np.testing.assert_allclose(kronecker_apply(chosen, x), multiplied_out(chosen, x), atol=1e-12)


@pytest.mark.parametrize(
    ("before", "batch"),
    [
        (5, 1),  # the last axis without a batch
        (17, 1),
        (17, 15),  # many short columns: one product
        (16, 15),  # few: small products
        (17, 16),  # long columns
        (1, 40),
        (17, 0),  # an empty batch
    ],
)
def test_plain_factor_on_the_last_axis(before: int, batch: int) -> None:
    factor = plain(4, 3)
    x = np.random.default_rng(4).normal(size=(before, 3, batch))
    expected = np.einsum("rn,bnk->brk", factor, x)
    np.testing.assert_allclose(
        kronecker_apply([IdentityMatrix(before), factor], x), expected, atol=1e-12
    )
    backwards = np.asfortranarray(x)
    np.testing.assert_allclose(
        kronecker_apply([IdentityMatrix(before), factor], backwards), expected, atol=1e-12
    )


def test_structured_and_plain_factors_agree() -> None:
    structured: list[Factor] = [PrefixMatrix(3), RangesMatrix(4), TotalMatrix(2)]
    x = np.random.default_rng(5).normal(size=(3, 4, 2, 7))
    np.testing.assert_allclose(
        kronecker_apply(structured, x),
        kronecker_apply([as_array(factor) for factor in structured], x),
        atol=1e-12,
    )


def test_dense_product_entry_by_entry() -> None:
    a, b, c = plain(2, 3), plain(3, 2, seed=1), plain(1, 4, seed=2)
    dense = kronecker_dense([a, b, c])
    assert dense.shape == (6, 24)
    for i, j, k in product(range(2), range(3), range(1)):
        for p, q, r in product(range(3), range(2), range(4)):
            entry = dense[(i * 3 + j) * 1 + k, (p * 2 + q) * 4 + r]
            assert entry == pytest.approx(a[i, p] * b[j, q] * c[k, r], rel=1e-14)


def test_the_empty_product_is_one() -> None:
    assert kronecker_dense([]).tolist() == [[1.0]]
    assert kronecker_apply([], np.array([2.0, 3.0])).tolist() == [2.0, 3.0]


def test_examples_of_the_paper() -> None:
    """Spec E6, example 1, and two rows of Table 18 (spec E1)."""
    record = kronecker_dense([np.array([[0.0, 1.0]]), np.array([[0.0, 1.0, 0.0]])])
    assert record.tolist() == [[0, 0, 0, 0, 1, 0]]
    ones, split = np.array([[1.0, 1.0]]), np.array([[1.0, -1.0]])
    first = kronecker_dense([ones, split, np.array([[1.0, -1.0, 0.0]])])
    assert first.tolist() == [[1, -1, 0, -1, 1, 0, 1, -1, 0, -1, 1, 0]]
    second = kronecker_dense([split, ones, np.array([[1.0, 0.0, -1.0]])])
    assert second.tolist() == [[1, 0, -1, 1, 0, -1, -1, 0, 1, -1, 0, 1]]


@pytest.mark.parametrize("factor", [IdentityMatrix(3), TotalMatrix(3), plain(2, 3)])
def test_widths_must_fit(factor: Factor) -> None:
    with pytest.raises(QueryError, match=r"widths \(3,\) .* shape \(4, 2\)"):
        kronecker_apply([factor], np.ones((4, 2)))
    with pytest.raises(QueryError, match=r"widths \(3, 3\) .* shape \(3,\)"):
        kronecker_apply([factor, factor], np.ones(3))
