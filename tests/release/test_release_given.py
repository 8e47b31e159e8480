"""Noisy tables made elsewhere, against generalised least squares on the whole domain."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.errors import DataError, QueryError, UnanswerableError
from oracles import marginal_matrix

SCHEMA = nz.Schema.from_sizes({"a": 3, "b": 2, "c": 4, "one": 1})


def least_squares(tables: list[tuple[list[int], np.ndarray, np.ndarray]], rows: np.ndarray):
    """Estimate and covariance of `rows` by (BᵀS⁻¹B)⁺, independent of any basis."""
    matrix = np.vstack([marginal_matrix(SCHEMA.shape, on) for on, _, _ in tables])
    values = np.concatenate([v.ravel() for _, v, _ in tables])
    precision = np.concatenate([1 / s.ravel() for _, _, s in tables])
    inverse = np.linalg.pinv(matrix.T @ (precision[:, None] * matrix), rcond=1e-11)
    return rows @ inverse @ (matrix.T @ (precision * values)), rows @ inverse @ rows.T


def random_tables(rng: np.random.Generator, even: bool) -> list[tuple[list[int], np.ndarray, ...]]:
    tables = []
    for _ in range(int(rng.integers(1, 5))):
        on = sorted(rng.choice(4, int(rng.integers(0, 4)), replace=False).tolist())
        shape = tuple(SCHEMA.shape[i] for i in on)
        variance = 10.0 ** rng.uniform(-2, 2, () if even else shape)
        tables.append((on, rng.normal(0, 50, shape), np.broadcast_to(variance, shape)))
    return tables


def noisy(tables: list[tuple[list[int], np.ndarray, np.ndarray]], even: bool) -> nz.Release:
    names = SCHEMA.names
    return nz.from_noisy_tables(
        SCHEMA,
        [
            nz.NoisyTable([names[i] for i in on], v, float(s.flat[0]) if even else s)
            for on, v, s in tables
        ],
    )


@examples(60)
@given(seed=st.integers(0, 2**32 - 1), even=st.booleans())
def test_the_best_linear_unbiased_answers(seed: int, even: bool) -> None:
    rng = np.random.default_rng(seed)
    tables = random_tables(rng, even)
    release = noisy(tables, even)
    queries = [nz.Query(SCHEMA, [SCHEMA.names[i] for i in on]) for on, _, _ in tables]
    queries.append(nz.Query(SCHEMA, []))
    rows = np.vstack([query.dense() for query in queries])
    estimate, covariance = least_squares(tables, rows)
    answers = [release.answer(query) for query in queries]
    found = np.concatenate([answer.estimate for answer in answers])
    np.testing.assert_allclose(found, estimate, rtol=1e-8, atol=1e-7)
    errors = np.concatenate([answer.std_error for answer in answers])
    np.testing.assert_allclose(errors**2, np.diagonal(covariance), rtol=1e-8)
    crossed = release.covariance(queries[0], queries[-1])
    start = covariance[: queries[0].rows, -1:]
    np.testing.assert_allclose(crossed, start, rtol=1e-7, atol=1e-9 * np.abs(covariance).max())


def test_axes_follow_the_names_given() -> None:
    values = np.arange(6.0).reshape(2, 3)
    release = nz.from_noisy_tables(SCHEMA, [nz.NoisyTable(["b", "a"], values, 1.0)])
    found = release.answer(nz.Query(SCHEMA, ["a", "b"])).estimate
    np.testing.assert_allclose(found, values.T.ravel(), atol=1e-12)
    flat = nz.from_noisy_tables(SCHEMA, [nz.NoisyTable(["b", "a"], values.ravel(), 1.0)])
    again = flat.answer(nz.Query(SCHEMA, ["a", "b"])).estimate
    np.testing.assert_allclose(again, found, atol=1e-12)


def test_tables_of_a_domain_that_no_matrix_could_hold() -> None:
    schema = nz.Schema.from_sizes({f"x{i}": 10 for i in range(60)})
    rng = np.random.default_rng(3)
    pairs = [(i, i + 1) for i in range(59)]
    tables = [nz.NoisyTable([f"x{i}", f"x{j}"], rng.normal(size=(10, 10)), 2.0) for i, j in pairs]
    release = nz.from_noisy_tables(schema, tables)
    total = release.answer(nz.Query(schema, []))
    assert total.std_error[0] ** 2 == pytest.approx(2.0 * 100 / 59)
    assert total.estimate[0] == pytest.approx(np.mean([np.sum(t.values) for t in tables]))


def test_what_no_table_tells_is_not_answered() -> None:
    release = noisy([([0], np.ones(3), np.ones(3))], even=True)
    with pytest.raises(UnanswerableError, match="'b'"):
        release.answer(nz.Query(SCHEMA, ["b"]))


def test_privacy_is_not_claimed_unless_stated() -> None:
    table = nz.NoisyTable(["b"], [1, 2], 1.0)
    unknown = nz.from_noisy_tables(SCHEMA, [table])
    assert unknown.plan.privacy.pcost == math.inf
    assert "not known here" in str(unknown) and "not known here" in str(unknown.plan)
    stated = nz.from_noisy_tables(SCHEMA, [table], privacy=nz.Guarantee(1.0, "zcdp"))
    assert stated.plan.privacy.rho == 0.5 and "ρ = 0.5" in str(stated)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (nz.NoisyTable(["a"], [1, 2], 1.0), r"shape \(2,\).*\(3,\)"),
        (nz.NoisyTable(["a", "b"], np.ones((2, 3)), 1.0), r"shape \(2, 3\).*\(3, 2\)"),
        (nz.NoisyTable(["a"], [1, 2, math.nan], 1.0), "not finite"),
        (nz.NoisyTable(["a"], ["x", "y", "z"], 1.0), "should hold numbers"),
        (nz.NoisyTable(["a"], [1, 2, 3], 0.0), "positive and finite"),
        (nz.NoisyTable(["a"], [1, 2, 3], math.inf), "positive and finite"),
        (nz.NoisyTable(["a"], [1, 2, 3], [1.0, 2.0]), "one number or one per cell"),
        ([1, 2, 3], "write NoisyTable"),
    ],
)
def test_tables_that_make_no_sense(table: nz.NoisyTable, message: str) -> None:
    with pytest.raises(DataError, match=message):
        nz.from_noisy_tables(SCHEMA, [table])


def test_no_tables_and_unknown_names() -> None:
    with pytest.raises(DataError, match="no noisy tables"):
        nz.from_noisy_tables(SCHEMA, [])
    with pytest.raises((QueryError, nz.NoiseplanError), match="'zip'"):
        nz.from_noisy_tables(SCHEMA, [nz.NoisyTable(["zip"], [1], 1.0)])


def test_uneven_variances_need_a_small_domain() -> None:
    schema = nz.Schema.from_sizes({"x": 100, "y": 100})
    with pytest.raises(DataError, match=r"at most 1,024 cells.*10,000"):
        nz.from_noisy_tables(schema, [nz.NoisyTable(["x"], np.ones(100), np.arange(1.0, 101))])
