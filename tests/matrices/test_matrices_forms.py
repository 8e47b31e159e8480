"""Quadratic forms of Kronecker rows and weighted Gram matrices, against rows written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import noiseplan as nz
from noiseplan.errors import QueryError
from noiseplan.matrices import (
    DenseMatrix,
    IdentityMatrix,
    Matrix,
    PermutedMatrix,
    PrefixMatrix,
    RangesMatrix,
    StackMatrix,
    TotalMatrix,
    forms,
    kronecker_dense,
)
from noiseplan.matrices.forms import kronecker_forms, kronecker_gram
from noiseplan.mechanisms.query_matrix import QueryMatrix


def kinds(n: int) -> list[Matrix]:
    dense = np.random.default_rng(n).integers(-3, 4, size=(n + 2, n)).astype(float)
    return [
        IdentityMatrix(n),
        TotalMatrix(n),
        PrefixMatrix(n),
        RangesMatrix(n),
        DenseMatrix(dense),
        StackMatrix((PrefixMatrix(n), TotalMatrix(n), DenseMatrix(dense))),
        PermutedMatrix(RangesMatrix(n), tuple(np.random.default_rng(n).permutation(n).tolist())),
    ]


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    which=st.lists(st.integers(0, 6), min_size=3, max_size=3),
    at_once=st.sampled_from([1, 20, 2**24]),
)
def test_forms_and_grams_of_products(sizes: list[int], which: list[int], at_once: int) -> None:
    factors = [kinds(n)[k] for n, k in zip(sizes, which, strict=False)]
    rows = kronecker_dense([factor.dense() for factor in factors])
    rng = np.random.default_rng(sum(sizes))
    root = rng.integers(-4, 5, size=(rows.shape[1],) * 2).astype(float)
    s, u = root + root.T, rng.integers(-5, 6, size=len(rows)).astype(float)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forms, "AT_ONCE", at_once)
        found, gram = kronecker_forms(factors, s), kronecker_gram(factors, u)
    # Whole numbers below 2⁵³: sums are exact in any order.
    np.testing.assert_array_equal(found.ravel(), np.einsum("ri,ij,rj->r", rows, s, rows))
    assert found.shape == tuple(factor.shape[0] for factor in factors)
    np.testing.assert_array_equal(gram, (rows.T * u) @ rows)


def queries() -> list[nz.Query]:
    schema = nz.Schema({"age": nz.Ordinal(range(4)), "sex": nz.Categorical(["F", "M"]),
                        "size": nz.Ordinal(range(3))})  # fmt: skip
    matrix = np.arange(24.0).reshape(2, 12) % 5 - 1
    return [
        nz.Query(schema, {"age": nz.Prefix(), "size": nz.Ranges()}),
        nz.Query(schema, []),
        nz.Query(schema, ["age", "sex", "size"]),
        nz.Query(schema, ["size", "age"], matrix=matrix),
        nz.Query(schema, ["sex"], matrix=[[1, -1]]),
    ]


@pytest.mark.parametrize("query", queries(), ids=lambda query: query.name)
def test_the_rows_of_a_query(query: nz.Query) -> None:
    rows, dense = QueryMatrix(query), query.dense()
    rng = np.random.default_rng(0)
    root = rng.integers(-4, 5, size=(24, 24)).astype(float)
    s, x, u = root + root.T, rng.integers(0, 9, size=(24, 5)) * 1.0, np.arange(len(dense)) - 1.0
    assert rows.shape == dense.shape
    np.testing.assert_array_equal(rows.dense(), dense)
    np.testing.assert_array_equal(rows.take(np.array([-1])), dense[-1:])
    np.testing.assert_array_equal(rows.matmul(x), dense @ x)
    np.testing.assert_array_equal(rows.matmul(x[:, 0]), dense @ x[:, 0])
    np.testing.assert_array_equal(rows.gram(), dense.T @ dense)
    np.testing.assert_array_equal(rows.weighted_gram(u), (dense.T * u) @ dense)
    np.testing.assert_array_equal(rows.quadratic_rows(s), np.diagonal(dense @ s @ dense.T))
    np.testing.assert_array_equal(rows.row_squares(), (dense**2).sum(axis=1))


def test_a_matrix_over_other_cells_is_refused() -> None:
    with pytest.raises(QueryError, match="need a matrix over 6 cells"):
        kronecker_forms([PrefixMatrix(3), TotalMatrix(2)], np.eye(5))
