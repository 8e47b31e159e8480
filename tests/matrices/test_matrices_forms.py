"""Quadratic forms of Kronecker rows and weighted Gram matrices, against rows written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import noiseplan as nz
from depth import examples
from noiseplan.errors import QueryError
from noiseplan.matrices import (
    DenseMatrix,
    IdentityMatrix,
    KroneckerMatrix,
    Matrix,
    PermutedMatrix,
    PrefixMatrix,
    RangesMatrix,
    StackMatrix,
    TotalMatrix,
    base,
    kronecker_dense,
)


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


@examples(60)
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
        patch.setattr(base, "AT_ONCE", at_once)
        product = KroneckerMatrix(tuple(factors))
        found, gram = product.quadratic_rows(s), product.weighted_gram(u)
    # Whole numbers below 2⁵³: sums are exact in any order.
    np.testing.assert_array_equal(found, np.einsum("ri,ij,rj->r", rows, s, rows))
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


def written_out(query: nz.Query) -> NDArray[np.float64]:
    """Cell by cell: a column of the query's own table for every cell of the domain."""
    names, schema = query.schema.names, query.schema
    own = [names.index(name) for name in query.attributes]
    sizes = [schema.shape[i] for i in own]
    if query.joint is None:
        table = kronecker_dense([matrix.dense() for matrix in query.matrices()])
    else:
        table = query.joint
    cells = [tuple(cell[i] for i in own) for cell in np.ndindex(*schema.shape)]
    return np.column_stack([table[:, np.ravel_multi_index(c, sizes) if c else 0] for c in cells])


@pytest.mark.parametrize("query", queries(), ids=lambda query: query.name)
def test_the_rows_of_a_query(query: nz.Query) -> None:
    rows, dense = query.domain_matrix, written_out(query)
    rng = np.random.default_rng(0)
    root = rng.integers(-4, 5, size=(24, 24)).astype(float)
    s, x, u = root + root.T, rng.integers(0, 9, size=(24, 5)) * 1.0, np.arange(len(dense)) - 1.0
    assert rows.shape == dense.shape
    np.testing.assert_array_equal(rows.dense(), dense)
    np.testing.assert_array_equal(query.dense(), dense)
    cells = x[:, 0].reshape(query.schema.shape)
    own = cells.sum(
        axis=tuple(i for i, n in enumerate(query.schema.names) if n not in query.factors)
    )
    for table in (cells, own):
        np.testing.assert_array_equal(query.apply(table), dense @ x[:, 0])
    np.testing.assert_array_equal(rows.take(np.array([-1])), dense[-1:])
    np.testing.assert_array_equal(rows.matmul(x), dense @ x)
    np.testing.assert_array_equal(rows.matmul(x[:, 0]), dense @ x[:, 0])
    np.testing.assert_array_equal(rows.gram(), dense.T @ dense)
    np.testing.assert_array_equal(rows.weighted_gram(u), (dense.T * u) @ dense)
    np.testing.assert_array_equal(rows.quadratic_rows(s), np.diagonal(dense @ s @ dense.T))
    np.testing.assert_array_equal(rows.row_squares(), (dense**2).sum(axis=1))


def test_a_matrix_over_other_cells_is_refused() -> None:
    with pytest.raises(QueryError, match="need a matrix over 6 cells"):
        KroneckerMatrix((PrefixMatrix(3), TotalMatrix(2))).quadratic_rows(np.eye(5))


def test_a_query_is_no_matrix_over_fewer_attributes_than_it_names() -> None:
    query = queries()[0]
    assert query.over(["age", "size"]).shape == query.matrix.shape == (24, 12)
    with pytest.raises(QueryError, match="not \\['age', 'sex'\\] alone"):
        query.over(["age", "sex"])
