"""One matrix over a small domain: least squares against pseudo-inverses, nothing written out."""

from __future__ import annotations

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import QueryError, UnanswerableError
from noiseplan.matrices import DenseMatrix, RangesMatrix
from noiseplan.mechanisms import leastsquares, matrix
from noiseplan.mechanisms.base import Measurements
from noiseplan.mechanisms.leastsquares import LeastSquares
from noiseplan.mechanisms.matrix import DenseMechanism

RNG = np.random.default_rng(5)
STRATEGIES = {
    "square": RNG.normal(size=(6, 6)),
    "tall": RNG.normal(size=(9, 6)),
    "wide": RNG.normal(size=(3, 6)),
    "singular": RNG.normal(size=(8, 3)) @ RNG.normal(size=(3, 6)),
    "a cell left out": np.eye(6)[:5],
    "nearly singular": np.diag([1.0, 1, 1, 1, 1, 1e-5]) @ (np.ones((6, 6)) + np.eye(6)),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_least_squares_by_pseudo_inverses(name: str) -> None:
    strategy = STRATEGIES[name]
    fit, inverse = LeastSquares(strategy), np.linalg.pinv(strategy, rcond=1e-10)
    spread = inverse @ inverse.T
    np.testing.assert_allclose(fit.spread, spread, atol=1e-7 * np.abs(spread).max())
    measured = RNG.normal(size=len(strategy))
    np.testing.assert_allclose(
        fit.estimate(measured), inverse @ measured, atol=1e-7 * np.abs(inverse).max()
    )


@pytest.mark.parametrize("name", STRATEGIES)
def test_what_is_determined(name: str) -> None:
    strategy = STRATEGIES[name]
    fit = LeastSquares(strategy)
    assert fit.determines(DenseMatrix(RNG.normal(size=(4, len(strategy))) @ strategy))
    full = np.linalg.matrix_rank(strategy, tol=1e-8) == 6
    assert fit.determines(DenseMatrix(RNG.normal(size=(2, 6)))) == full
    # Many rows are looked at in another way.
    many = RNG.normal(size=(60, len(strategy))) @ strategy
    assert fit.determines(DenseMatrix(many))
    assert fit.determines(DenseMatrix(np.vstack([many, RNG.normal(size=(1, 6))]))) == full


def test_many_rows_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leastsquares, "AT_ONCE", 7)
    fit = LeastSquares(np.eye(6)[:5])
    assert not fit.determines(RangesMatrix(6))
    assert not fit.determines(DenseMatrix(np.eye(6)))
    assert fit.determines(DenseMatrix(np.eye(6)[:5]))
    assert fit.determines(DenseMatrix(RNG.normal(size=(60, 5)) @ np.eye(6)[:5]))


def test_ranges_are_never_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything a plan says of all ranges, by forms of the Gram matrix alone."""
    n = 40
    schema = nz.Schema({"v": nz.Ordinal(range(n))})
    query = nz.Query(schema, {"v": nz.Ranges()})
    rows = query.dense()

    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("rows were written out")

    monkeypatch.setattr(nz.Query, "dense", refuse)
    monkeypatch.setattr(RangesMatrix, "take", refuse)
    monkeypatch.setattr(RangesMatrix, "dense", refuse)
    plan = nz.plan(nz.Workload([query]), budget=nz.zCDP(0.5), planner="optimal", noise="discrete")
    assert isinstance(plan.mechanism, DenseMechanism)
    inverse = np.linalg.inv(plan.cost_matrix())
    variances = np.einsum("ri,ij,rj->r", rows, inverse, rows)
    np.testing.assert_allclose(plan.variance(query), variances, rtol=1e-8)
    assert plan.total_variance == pytest.approx(variances.sum(), rel=1e-9)
    assert plan.worst_variance == pytest.approx(variances.max(), rel=1e-8)
    total = nz.Query(schema, [])
    np.testing.assert_allclose(
        plan.covariance(query, total), rows @ inverse @ np.ones((n, 1)), atol=1e-7
    )
    np.testing.assert_allclose(plan.covariance(total, query), plan.covariance(query, total).T)
    counts = np.arange(n)
    release = plan.release(counts, seed=3)
    estimate = plan.mechanism.answer(release.measurements, query)
    cells = plan.mechanism.answer(release.measurements, nz.Query(schema, ["v"]))
    np.testing.assert_allclose(estimate, rows @ cells, atol=1e-6)
    assert "ranges(v)" in str(plan)


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = nz.Schema.from_sizes({"a": 3})
    query = nz.Query(schema, ["a"])
    mechanism = DenseMechanism(schema, np.ones((1, 3)))
    with pytest.raises(UnanswerableError, match="'a' is not determined by what the plan measures"):
        mechanism.variance(query)
    with pytest.raises(UnanswerableError, match="another schema"):
        mechanism.require(nz.Query(nz.Schema.from_sizes({"b": 3}), ["b"]))
    assert mechanism.answer(Measurements((np.array([6.0]),)), nz.Query(schema, [])) == 6.0
    monkeypatch.setattr(matrix, "DENSE_LIMIT", 8)
    with pytest.raises(QueryError, match="has 3 × 3 numbers, above the limit"):
        DenseMechanism(schema, np.eye(3)).covariance(query, query)
