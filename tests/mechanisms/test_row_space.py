"""Least squares among the rows of a workload, against dense pseudo-inverses over all cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import noiseplan as nz
from noiseplan.domain.stacked_rows import StackedRows
from noiseplan.mechanisms.row_space import MixedEstimates, OwnEstimates, RowSpace, _least_rank

SCHEMA = nz.Schema(
    {
        "age": nz.Ordinal(range(4)),
        "sex": nz.Categorical([*"FM"]),
        "region": nz.Categorical([*"nsw"]),
    }
)
QUERIES = {
    "age": nz.Query(SCHEMA, ["age"]),
    "age × sex": nz.Query(SCHEMA, ["age", "sex"]),
    "ranges": nz.Query(SCHEMA, {"age": nz.Ranges()}),
    "prefixes by region": nz.Query(SCHEMA, {"age": nz.Prefix(), "region": nz.Identity()}),
    "total": nz.Query(SCHEMA, []),
}
# What is asked of the rows, and whether it follows from them.
WORKLOADS = (("age", "total"), ("ranges", "age × sex"), ("prefixes by region", "ranges", "age"))
ASKED = {
    "age": nz.Query(SCHEMA, ["age"]),
    "sums of ages": nz.Query(SCHEMA, {"age": nz.Ranges()}),
    "sex": nz.Query(SCHEMA, ["sex"]),
    "region": nz.Query(SCHEMA, ["region"]),
    "cells": nz.Query(SCHEMA, ["age", "sex", "region"]),
}


def dense(queries: list[nz.Query]) -> np.ndarray:
    return np.vstack([query.dense() for query in queries])


@pytest.fixture(params=WORKLOADS, ids=" and ".join)
def queries(request: pytest.FixtureRequest) -> list[nz.Query]:
    return [QUERIES[name] for name in request.param]


@pytest.fixture
def space(queries: list[nz.Query]) -> RowSpace:
    return RowSpace(StackedRows.of(SCHEMA, queries))


def inside(rows: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """The part of each asked row in the row space, by the projection W⁺W."""
    return np.asarray(asked @ np.linalg.pinv(rows) @ rows)


# ---------------------------------------------------------------------- the space


def test_a_basis_and_what_follows_from_it(space: RowSpace, queries: list[nz.Query]) -> None:
    rows = dense(queries)
    assert len(space.basis) == np.linalg.matrix_rank(rows)
    assert sorted([*space.basis, *space.others]) == list(range(len(rows)))
    np.testing.assert_allclose(space.relations @ rows[space.basis], rows[space.others], atol=1e-9)


def test_the_squares_of_rows_are_the_diagonal(space: RowSpace) -> None:
    gram = space.rows.gram(space.rows)
    assert space.rows.squares() == pytest.approx(np.diagonal(gram), rel=1e-12)


def test_the_factor_has_the_gram_matrix(space: RowSpace, queries: list[nz.Query]) -> None:
    """WWᵀ over all cells, each of which counts a share of one: L is in units of the mean."""
    gram = space.rows.gram(space.rows)
    np.testing.assert_allclose(space.lower @ space.lower.T, gram, atol=1e-12 * gram.max())
    rows = dense(queries)
    np.testing.assert_allclose(gram * SCHEMA.size, rows @ rows.T, atol=1e-9)


@pytest.mark.parametrize("asked", ASKED)
def test_queries_in_the_row_space_are_sums_of_its_rows(
    space: RowSpace, queries: list[nz.Query], asked: str
) -> None:
    rows, own = dense(queries), ASKED[asked].dense()
    told = np.allclose(inside(rows, own), own, atol=1e-9)
    found = space.coefficients(ASKED[asked])
    assert (found is not None) == told
    if found is not None:
        np.testing.assert_allclose(found @ rows, own, atol=1e-9)
        assert not found.toarray()[:, space.others].any()


@pytest.mark.parametrize("asked", ASKED)
def test_what_lies_in_the_row_space_of_others(
    space: RowSpace, queries: list[nz.Query], asked: str
) -> None:
    rows = dense(queries)
    found = space.nearest(ASKED[asked]) @ rows
    np.testing.assert_allclose(found, inside(rows, ASKED[asked].dense()), atol=1e-9)


def test_equations_of_the_basis_are_solved(space: RowSpace) -> None:
    numbers = np.random.default_rng(3).standard_normal(len(space.rows))
    found, basis = space.solved(numbers), space.basis
    gram = space.rows.gram(space.rows)[np.ix_(basis, basis)]
    np.testing.assert_allclose(gram @ found[basis], numbers[basis], atol=1e-9)
    assert not found[space.others].any()


def test_the_check_of_spans_can_fail(queries: list[nz.Query]) -> None:
    """Not all that is asked above follows from every workload, and some of it does."""
    told = {
        name: np.allclose(inside(dense(queries), q.dense()), q.dense(), atol=1e-9)
        for name, q in ASKED.items()
    }
    assert told["age"] and not told["cells"]


# ---------------------------------------------------------------------- estimates


def least_squares(rows: np.ndarray, variances: np.ndarray, mix: Any = None) -> tuple[Any, Any]:
    """What takes measured numbers to the best estimate of all rows, and its covariance."""
    measured = rows if mix is None else mix @ rows
    weighted = measured / np.sqrt(variances)[:, None]
    to_cells = np.linalg.pinv(weighted, rcond=1e-10)
    spread = rows @ to_cells
    return spread / np.sqrt(variances), spread @ spread.T


def test_rows_with_noise_of_their_own(space: RowSpace, queries: list[nz.Query]) -> None:
    rows, rng = dense(queries), np.random.default_rng(5)
    variances = rng.uniform(0.2, 3.0, len(rows))
    found = OwnEstimates(variances, space)
    takes, covariance = least_squares(rows, variances)
    measured = rng.standard_normal(len(rows))
    np.testing.assert_allclose(found.answers(measured), takes @ measured, atol=1e-8)
    one, two = (sp.csr_array(rng.standard_normal((k, len(rows)))) for k in (3, 2))
    expected = one @ covariance @ two.T
    np.testing.assert_allclose(found.covariance(one, two), expected, atol=1e-8)
    np.testing.assert_allclose(found.variance(one), np.diagonal(one @ covariance @ one.T))


def test_what_agrees_is_left_as_it_is(space: RowSpace, queries: list[nz.Query]) -> None:
    """Numbers that some table of counts has are its answers, whatever the noise."""
    rows, rng = dense(queries), np.random.default_rng(6)
    exact = rows @ rng.integers(0, 9, SCHEMA.size)
    found = OwnEstimates(rng.uniform(0.2, 3.0, len(rows)), space)
    np.testing.assert_allclose(found.answers(exact), exact, atol=1e-8)


def test_without_a_space_rows_are_what_was_measured() -> None:
    variances = np.array([1.0, 4.0])
    found = OwnEstimates(variances, None)
    measured = np.array([3.0, -1.0])
    assert found.answers(measured).tolist() == measured.tolist()
    both = sp.csr_array(np.array([[1.0, 1.0]]))
    assert found.variance(both).tolist() == [5.0]
    assert found.covariance(both, both).tolist() == [[5.0]]


@pytest.mark.parametrize("sums", [2, 20])
def test_sums_of_rows(space: RowSpace, queries: list[nz.Query], sums: int) -> None:
    """Few sums tell some rows and not others; many tell all, by least squares."""
    rows, rng = dense(queries), np.random.default_rng(sums)
    mix, variances = rng.standard_normal((sums, len(rows))), rng.uniform(0.5, 2.0, sums)
    found = MixedEstimates(variances, space, mix)
    takes, covariance = least_squares(rows, variances, mix)
    measured = mix @ rows @ rng.integers(0, 9, SCHEMA.size) + rng.standard_normal(sums)
    told = sp.csr_array(mix)
    assert found.determines(told)
    assert found.determines(sp.csr_array(np.eye(len(rows)))) == (
        sums >= np.linalg.matrix_rank(rows)
    )
    np.testing.assert_allclose(told @ found.answers(measured), mix @ takes @ measured, atol=1e-7)
    expected = mix @ covariance @ mix.T
    np.testing.assert_allclose(found.variance(told), np.diagonal(expected), rtol=1e-7)
    np.testing.assert_allclose(found.covariance(told, told), expected, atol=1e-7 * expected.max())


FACTORS: list[nz.Factor] = [
    nz.Identity(),
    nz.Prefix(),
    nz.Ranges(),
    nz.Levels(2),
    nz.Levels(2, leaves=False, total=False),
    nz.Custom([[1, 1, 0, 0], [1, 1, 0, 0]]),
]


@pytest.mark.parametrize("missing", [None, "none"])
@pytest.mark.parametrize("one", FACTORS[:5], ids=str)
@pytest.mark.parametrize("two", FACTORS[:5], ids=str)
def test_no_query_has_less_than_its_least_rank(
    one: nz.Factor, two: nz.Factor, missing: str | None
) -> None:
    """Against the rank of its matrix."""
    sizes = {"a": nz.Ordinal(range(4), missing=missing), "b": nz.Ordinal(range(4))}
    query = nz.Query(nz.Schema(sizes), {"a": one, "b": two})
    rank = np.linalg.matrix_rank(query.dense())
    assert _least_rank(query) <= rank
    if not isinstance(one, nz.Ranges) and not isinstance(two, nz.Ranges):
        assert _least_rank(query) == rank


def test_rows_of_one_kind_have_a_rank_of_one_at_least() -> None:
    schema = nz.Schema.from_sizes({"a": 4, "b": 2})
    assert _least_rank(nz.Query(schema, {"a": FACTORS[5]})) == 1
    assert _least_rank(nz.Query(schema, ["a", "b"], matrix=np.ones((3, 8)))) == 1


def test_a_query_of_higher_rank_is_outside_without_being_written_down() -> None:
    """Its rows over all attributes would be more numbers than are written down."""
    schema = nz.Schema.from_sizes({"place": 3000, "age": 60, "sex": 2})
    either = nz.Workload.predicates(schema, ["place < 10 or age < 18"])
    space = RowSpace(StackedRows.of(schema, list(either)))
    assert space.coefficients(nz.Query(schema, ["place", "age", "sex"])) is None
    again = space.coefficients(either[0])
    assert again is not None and again.toarray() == pytest.approx(1.0)
