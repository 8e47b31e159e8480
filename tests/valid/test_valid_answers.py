"""Clipping, non-negative least squares and the hybrid, against another solver."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import depth, examples
from noiseplan.counting import CountTensor
from noiseplan.errors import DataError, PlanError
from noiseplan.matrices.base import Array
from noiseplan.valid import clipped_answer, valid_answers
from oracles import ranges, weighted_rows

COUNTS = np.array([0.0, 0, 40, 0, 0, 3, 0, 0, 0, 11, 0, 0])


def one_way(factor: nz.Factor, seed: int, counts: Array = COUNTS, rho: float = 0.02) -> nz.Release:
    schema = nz.Schema.from_sizes({"a": len(counts)})
    plan = nz.plan(nz.Workload([nz.Query(schema, {"a": factor})]), budget=nz.zCDP(rho))
    return plan.release(counts, seed=seed)


def nearest(point: Array, gram: Array, total: float | None) -> Array:
    """min (x − x̃)ᵀ G (x − x̃) over x ≥ 0 by a conic solver."""
    values, vectors = np.linalg.eigh(gram)
    root = (vectors * np.sqrt(np.maximum(values, 0))).T
    x = cp.Variable(len(point), nonneg=True)
    limits = [] if total is None else [cp.sum(x) == total]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(root @ (x - point))), limits)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11)
    assert problem.status == "optimal"
    return np.asarray(x.value)


@pytest.mark.grid
@pytest.mark.parametrize("factor", [nz.Identity(), nz.Prefix(), nz.Ranges()], ids=str)
@pytest.mark.parametrize("total", [None, 54.0])
@pytest.mark.parametrize("method", ["hybrid", "nnls"])
def test_nearest_by_a_conic_solver(factor: nz.Factor, total: float | None, method: str) -> None:
    release = one_way(factor, 3)
    unbiased = release.answer(nz.Query(release.schema, ["a"])).estimate
    rows = weighted_rows(release.plan.workload)
    gram = rows.T @ rows if method == "hybrid" else release.plan.cost_matrix()
    found = valid_answers(release, method, total=total)
    expected = nearest(unbiased, gram, total)
    np.testing.assert_allclose(found.counts, expected, atol=1e-3)
    query = nz.Query(release.schema, {"a": nz.Ranges()})
    np.testing.assert_allclose(found.answer(query), ranges(12) @ found.counts)


def test_weighted_by_the_exact_covariance() -> None:
    """With a strategy that determines all counts, C is the inverse of their covariance."""
    release = one_way(nz.Prefix(), 1)
    query = nz.Query(release.schema, ["a"])
    cost = release.plan.cost_matrix()
    np.testing.assert_allclose(cost @ release.covariance(query, query), np.eye(12), atol=1e-6)


def test_of_the_identity_least_squares_is_clipping() -> None:
    schema = nz.Schema.from_sizes({"a": 6})
    noisy = np.array([4.0, -3.0, 0.5, -0.1, 9.0, 2.0])
    release = nz.from_noisy_tables(schema, [nz.NoisyTable(["a"], noisy, 2.0)])
    clipped = valid_answers(release, "clip").counts
    np.testing.assert_allclose(clipped, np.maximum(noisy, 0))
    np.testing.assert_allclose(valid_answers(release, "nnls").counts, clipped, atol=1e-9)


def test_counts_that_are_not_determined() -> None:
    schema = nz.Schema.from_sizes({"a": 3, "b": 2})
    workload = nz.Workload([nz.Query(schema, ["a"]), nz.Query(schema, ["b"])])
    counts = np.array([[9.0, 0], [0, 0], [0, 0]])
    plan = nz.plan(workload, budget=nz.zCDP(0.02))
    release = plan.release(CountTensor(schema, counts), seed=4)
    found = valid_answers(release)
    assert found.counts.shape == (3, 2)
    assert (found.counts >= 0).all()
    rows = weighted_rows(workload)
    unbiased = np.concatenate([release.answer(q).estimate for q in workload])
    x = cp.Variable(6, nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(rows @ x - unbiased)))
    problem.solve(solver=cp.CLARABEL)
    reached = ((rows @ found.counts.ravel() - unbiased) ** 2).sum()
    assert reached == pytest.approx(problem.value, rel=1e-5, abs=1e-6)


@examples(25)
@given(
    seed=st.integers(0, 2**31),
    counts=st.lists(st.integers(0, 60), min_size=2, max_size=12),
    total=st.booleans(),
)
def test_the_hybrid_never_has_a_larger_error(seed: int, counts: list[int], total: bool) -> None:
    truth = np.array(counts, dtype=float)
    release = one_way(nz.Ranges(), seed, truth)
    found = valid_answers(release, total=truth.sum() if total else None)
    assert (found.counts >= 0).all()
    if total:
        assert found.counts.sum() == pytest.approx(truth.sum(), abs=1e-6)
    rows = ranges(len(truth))
    query = nz.Query(release.schema, {"a": nz.Ranges()})
    before = ((release.answer(query).estimate - rows @ truth) ** 2).sum()
    after = ((found.answer(query) - rows @ truth) ** 2).sum()
    assert after <= before * (1 + 1e-6) + 1e-6


def test_ratios_like_the_dissertation() -> None:
    """Sparse counts, all ranges, counts measured one by one: clipping is far off, the hybrid not.

    Measured there on 512 cells: non-negative least squares 27 to 34 times the squared error of
    least squares with the identity, the hybrid 0.45 to 0.84 of it.
    """
    size = 128
    schema = nz.Schema.from_sizes({"a": size})
    truth = np.zeros(size)
    truth[::20] = 300.0
    rows = ranges(size)
    workload = nz.Workload([nz.Query(schema, {"a": nz.Ranges()})])
    errors = {"clip": 0.0, "hybrid": 0.0, "unbiased": 0.0}
    rng = np.random.default_rng(5)
    for _ in range(10):
        noisy = truth + rng.laplace(0, 10, size)
        made = nz.from_noisy_tables(schema, [nz.NoisyTable(["a"], noisy, 200.0)])
        # Measured cell by cell, asked for ranges.
        release = replace(made, plan=replace(made.plan, workload=workload))
        counts = {
            "unbiased": noisy,
            "clip": valid_answers(release, "clip").counts,
            "hybrid": valid_answers(release, "hybrid").counts,
        }
        for name, x in counts.items():
            errors[name] += ((rows @ (x - truth)) ** 2).sum()
    assert errors["clip"] > 4 * errors["unbiased"]
    assert errors["hybrid"] < 0.9 * errors["unbiased"]


def test_single_answers_are_clipped_with_their_intervals() -> None:
    release = one_way(nz.Identity(), 2)
    matrix = np.array([[1.0] * 12, [-1.0] + [0.0] * 11, [1.0, -1.0] + [0.0] * 10])
    query = nz.Query(release.schema, {"a": nz.Custom(matrix)})
    found = clipped_answer(release, query)
    assert found.least.tolist() == [0.0, -np.inf, -np.inf]
    assert found.most.tolist() == [np.inf, 0.0, np.inf]
    assert found.valid[1] <= 0
    assert (found.lower <= found.valid).all()
    assert (found.valid <= found.upper).all()
    assert found.valid[2] == found.unbiased.estimate[2]


def test_clipped_intervals_cover_together() -> None:
    """Simultaneous intervals of level 0.9 still hold the truth, all at once, after clipping."""
    schema = nz.Schema.from_sizes({"a": 12})
    plan = nz.plan(nz.Workload([nz.Query(schema, ["a"])]), budget=nz.zCDP(0.02))
    held, runs = 0, depth(300, 100)
    for seed in range(runs):
        found = clipped_answer(plan.release(COUNTS, seed=seed), nz.Query(schema, ["a"]), level=0.9)
        held += bool(((found.lower <= COUNTS) & (found.upper >= COUNTS)).all())
    # Of 300 at least 270 on average; fewer than 240 has a chance below 1e-7.
    assert held >= 0.9 * runs - 30 * np.sqrt(runs / 300)


def test_columns_and_refusals() -> None:
    release = one_way(nz.Prefix(), 1)
    query = nz.Query(release.schema, {"a": nz.Prefix()})
    columns = valid_answers(release).columns(query)
    assert list(columns) == ["a", "valid", "estimate", "std_error", "lower", "upper"]
    np.testing.assert_allclose(columns["estimate"], release.answer(query).estimate)
    with pytest.raises(PlanError, match="hybrid"):
        valid_answers(release, "best")
    with pytest.raises(PlanError, match="keeps no total"):
        valid_answers(release, "clip", total=3)
    with pytest.raises(DataError, match="number of records"):
        valid_answers(release, total=-3)
    schema = nz.Schema.from_sizes({"a": 100, "b": 100})
    large = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(1.0))
    wide = large.release({"a": np.array([1]), "b": np.array([2])}, seed=1)
    with pytest.raises(PlanError, match=r"release\.valid"):
        valid_answers(wide)
