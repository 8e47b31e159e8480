"""Errors of residual answers: every covariance against least squares of the rows measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanism_oracles import Written, every_set, least_squares

import noiseplan as nz
from depth import examples
from noiseplan.matrices import (
    DenseMatrix,
    IdentityMatrix,
    Matrix,
    PrefixMatrix,
    RangesMatrix,
    TotalMatrix,
)
from noiseplan.mechanisms.basis import Basis, MatrixBasis, WideBasis, without_rounding
from noiseplan.mechanisms.blocks import group_blocks
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.mechanisms.residual_errors import recovery
from noiseplan.noise import Noise
from noiseplan.noise.moments import discrete_gaussian_variance

Array = np.ndarray[Any, Any]
SCHEMA = nz.Schema(
    {"a": nz.Ordinal(range(3)), "b": nz.Categorical(["x", "y"]), "c": nz.Ordinal(range(2))}
)


def made(seed: int, exact: bool = False) -> ResidualMechanism:
    """All sets of three attributes, oblique splits, noise of any size."""
    rng = np.random.default_rng(seed)
    bases = tuple(
        Basis.from_rows(rng.integers(-1, 2, (n - 1, n)) + 5.0 * np.eye(n - 1, n)) for n in (3, 2, 2)
    )
    every = every_set(3)
    sets = [
        np.array([s for s in every if len(s) == w], dtype=np.int64).reshape(-1, w)
        for w in (1, 2, 3)
    ]
    sets.insert(0, np.zeros((1, 0), np.int64))
    noise = [rng.uniform(0.3, 4.0, len(rows)) for rows in sets]
    return ResidualMechanism(SCHEMA, group_blocks(sets, noise, bases, np.arange(3), exact))


def written_out(mechanism: ResidualMechanism) -> tuple[Array, Array]:
    """Rows over all cells and the variance of their noise, from the definition."""
    rows, variances = [], []
    for block in mechanism.blocks:
        for attributes, variance in zip(block.sets.tolist(), block.variance, strict=True):
            own = dict(zip(attributes, block.bases, strict=True))
            product = np.ones((1, 1))
            for i, n in enumerate(SCHEMA.shape):
                piece = np.asarray(own[i].measure) if i in own else np.ones((1, n))
                product = np.kron(product, piece)
            rows.append(product)
            variances += [float(variance)] * len(product)
    return np.vstack(rows), np.array(variances)


def queries(seed: int) -> list[nz.Query]:
    rng = np.random.default_rng(seed)
    return [
        nz.Query(SCHEMA, {}),
        nz.Query(SCHEMA, {"a": nz.Prefix()}),
        nz.Query(SCHEMA, {"a": nz.Ranges(), "c": nz.Identity()}),
        nz.Query(SCHEMA, {"b": nz.Custom(rng.normal(size=(2, 2))), "c": nz.Total()}),
        nz.Query(SCHEMA, ["a", "b", "c"]),
        nz.Query(SCHEMA, ["a", "c"], matrix=rng.normal(size=(3, 6)), name="joint"),
        nz.Query(SCHEMA, matrix=rng.normal(size=(2, 12)), name="all cells"),
    ]


@examples(12)
@given(st.integers(0, 10**6), st.booleans())
def test_covariances_are_those_of_least_squares(seed: int, exact: bool) -> None:
    mechanism = made(seed, exact)
    rows, variances = written_out(mechanism)
    asked = queries(seed)
    for query in asked:
        w = query.dense()
        own = least_squares(rows, variances, w, w)
        scale = np.abs(own).max()
        np.testing.assert_allclose(
            mechanism.variance(query), np.diagonal(own), rtol=1e-6, atol=1e-7 * scale
        )
        for other in asked:
            truth = least_squares(rows, variances, w, other.dense())
            size = max(scale, float(np.abs(truth).max()))
            np.testing.assert_allclose(mechanism.covariance(query, other), truth, atol=1e-6 * size)


def test_what_is_stated_is_what_the_noise_does() -> None:
    mechanism = made(3)
    written = Written(mechanism)
    for query in queries(3):
        found = written.covariance(query, query)
        np.testing.assert_allclose(mechanism.covariance(query, query), found, atol=1e-8)


def test_recovery_is_the_part_of_each_measured_set() -> None:
    """Σ_A R_A ω_A is the answer: for measured residuals of any counts."""
    mechanism = made(5)
    counts = np.random.default_rng(5).integers(0, 20, SCHEMA.size)
    measured, _ = Written(mechanism).measured(counts)
    residuals = {}
    for block, values in zip(mechanism.blocks, measured.values, strict=True):
        for place, row in enumerate(block.sets.tolist()):
            residuals[tuple(SCHEMA.names[i] for i in row)] = values[..., place].ravel()
    for query in queries(5):
        inside = [part for part in residuals if set(part) <= set(query.attributes)]
        total = sum(
            recovery(mechanism, query, part, mechanism.block_on(part)) @ residuals[part]
            for part in inside
        )
        np.testing.assert_allclose(total, query.dense() @ counts, atol=1e-8)


def test_answers_come_in_batches_as_one_by_one() -> None:
    mechanism = made(7)
    workload = nz.Workload(queries(7))
    counts = np.random.default_rng(7).integers(0, 20, SCHEMA.size)
    measured, _ = Written(mechanism).measured(counts, np.arange(mechanism.numbers) * 0.1)
    seen = []
    for positions, estimates in mechanism.batches(measured, workload):
        for place, position in enumerate(positions.tolist()):
            alone = mechanism.answer(measured, workload.query(position))
            np.testing.assert_allclose(estimates[..., place].ravel(), alone, atol=1e-9)
            seen.append(position)
    assert sorted(seen) == list(range(len(workload)))


def test_parameters_of_noise_that_is_stated_by_its_variance() -> None:
    """Discrete noise of a parameter has less variance; stated variances come from larger ones."""
    schema = nz.Schema.from_sizes({"a": 3})
    blocks = group_blocks(
        [np.array([[0]])], [np.array([0.2])], (Basis.integer(3),), np.array([0]), exact=True
    )
    stated = ResidualMechanism(schema, blocks)
    meant = stated.as_stated()
    assert meant.noise.size[0] > 0.2
    assert discrete_gaussian_variance(meant.noise.size)[0] == pytest.approx(0.2, rel=1e-9)
    assert meant.record_cost("add-remove") <= stated.record_cost("add-remove")


def test_floating_noise_has_the_same_sizes() -> None:
    blocks = group_blocks(
        [np.array([[0]])], [np.array([2.0])], (Basis.integer(3),), np.array([0]), exact=True
    )
    floating = ResidualMechanism(nz.Schema.from_sizes({"a": 3}), blocks).floating()
    assert not floating.noise.exact and floating.noise.size.tolist() == [2.0]


def test_an_exact_set_costs_nothing_in_the_matrix() -> None:
    """The total, where one record replaces another."""
    mechanism = made(2)
    first = mechanism.blocks.blocks[0]
    assert first.sets.shape == (1, 0)
    known = replace(first, noise=Noise("gaussian", [0.0]))
    blocks = replace(mechanism.blocks, blocks=(known, *mechanism.blocks.blocks[1:]))
    rows, variances = written_out(mechanism)
    noisy = (rows[1:] / variances[1:, None]).T @ rows[1:]
    np.testing.assert_allclose(ResidualMechanism(SCHEMA, blocks).cost_matrix(), noisy, atol=1e-9)


# ---------------------------------------------------------------------- bases


@given(st.integers(1, 6), st.floats(0.1, 10.0), st.integers(0, 10**6))
def test_by_formula_as_by_matrix(size: int, scale: float, seed: int) -> None:
    """scale · (nI − 11ᵀ): every number of the wide basis against the matrix written out."""
    wide = WideBasis(size, scale)
    u = scale * (size * np.eye(size) - 1)
    v = np.linalg.pinv(u)
    np.testing.assert_allclose(wide.measure.dense(), u, atol=1e-9)
    np.testing.assert_allclose(wide.gram, u.T @ u, atol=1e-7 * max(1, np.abs(u).max() ** 2))
    assert wide.sensitivity == pytest.approx((u**2).sum(axis=0).max(), abs=1e-9)
    if size > 1:
        assert wide.lowest == pytest.approx((u.T @ u).min(), rel=1e-9)
        np.testing.assert_allclose(wide.recover, v, atol=1e-9)
        assert wide.spread_trace == pytest.approx((v**2).sum(), rel=1e-9)
    np.testing.assert_allclose(wide.centre, np.full(size, 1 / size))
    rows = np.random.default_rng(seed).normal(size=(3, size))
    factors: list[Matrix] = [DenseMatrix(rows), PrefixMatrix(size), RangesMatrix(size)]
    for factor in [*factors, IdentityMatrix(size), TotalMatrix(size)]:
        w = factor.dense()
        forms = ((w @ v) ** 2).sum(axis=1)
        np.testing.assert_allclose(wide.residual_rows(factor), forms, atol=1e-8 * (1 + forms.max()))
        np.testing.assert_allclose(wide.split(factor)[:, 0], w.mean(axis=1), atol=1e-12)
        assert wide.spans(factor)


@given(st.integers(2, 6), st.integers(0, 10**6))
def test_forms_of_rows_by_any_matrix(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    basis = Basis.from_rows(rng.normal(size=(size - 1, size)) + 3 * np.eye(size - 1, size))
    assert isinstance(basis, MatrixBasis)
    v = basis.recover
    assert basis.lowest == pytest.approx((basis.measure.T @ basis.measure).min())
    assert basis.spread_trace == pytest.approx(np.trace(v @ v.T))
    for factor in (PrefixMatrix(size), DenseMatrix(PrefixMatrix(size).dense())):
        forms = ((factor.dense() @ v) ** 2).sum(axis=1)
        found = basis.residual_rows(factor)
        np.testing.assert_allclose(found, forms, atol=1e-9 * (1 + forms.max()))
        assert found[-1] == 0.0  # the last prefix is the sum, exactly


def test_rounding_is_nothing() -> None:
    squares = np.array([1.0, 1e-13, 1e-15, 0.0, -1e-20])
    assert without_rounding(squares, np.ones(5)).tolist() == [1.0, 1e-13, 0.0, 0.0, 0.0]
    assert without_rounding(squares, np.full(5, 1e-10)).tolist() == [1.0, 1e-13, 1e-15, 0.0, 0.0]


def test_rows_that_depend_on_the_sum_are_refused() -> None:
    for rows in ([[1.0, 1.0]], [[0.0, 0.0]], [[1.0, 2.0, 4.0], [2.0, 3.0, 5.0]]):
        with pytest.raises(np.linalg.LinAlgError):
            Basis.from_rows(np.array(rows))


@pytest.mark.parametrize("size", [2, 5, 256, 257, 300])
def test_many_values_are_centred_by_formula(size: int) -> None:
    for make in (Basis.orthogonal, Basis.integer):
        assert isinstance(make(size), WideBasis if size >= 257 else MatrixBasis)
    u = Basis.orthogonal(size).gram
    np.testing.assert_allclose(u, np.eye(size) - 1 / size, atol=1e-9)
