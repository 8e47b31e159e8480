"""The share of the budget for the largest variance, against a convex solver and by its own gap."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from depth import seeds
from noiseplan.matrices.base import Array
from noiseplan.optimize.allocation import WORST_GAP, share_for_worst, spend
from noiseplan.optimize.saddle import approached


def problem(seed: int, kinds: int, rows: int, types: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    privacy = rng.random((kinds, types)) * (rng.random((kinds, types)) < 0.7)
    variance = rng.random((rows, types)) ** 3 * (rng.random((rows, types)) < 0.6)
    return privacy, variance


def by_solver(privacy: Array, rows: Array) -> float:
    """Minimise t with rows·(1/p) ≤ t, privacy·p ≤ 1, as a conic program."""
    needed = rows.any(axis=0) & privacy.any(axis=0)
    precision = cp.Variable(int(needed.sum()), pos=True)
    largest = cp.max(rows[:, needed] @ cp.inv_pos(precision))
    program = cp.Problem(cp.Minimize(largest), [privacy[:, needed] @ precision <= 1])
    return float(program.solve(solver=cp.CLARABEL))


@pytest.mark.parametrize("shape", [(1, 6, 4), (5, 1, 4), (7, 5, 6), (40, 12, 8), (3, 60, 20)])
@pytest.mark.parametrize("seed", seeds(3))
def test_the_optimum_is_that_of_a_solver(shape: tuple[int, int, int], seed: int) -> None:
    privacy, rows = problem(seed, *shape)
    share = share_for_worst(privacy, sp.csr_array(rows), 1.0)
    best = by_solver(privacy, rows)
    assert share.value == pytest.approx(best, rel=2e-6)
    assert share.bound <= best * (1 + 2e-6)


@given(
    st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 12), st.integers(1, 8),
    st.floats(1e-6, 1e6), st.integers(0, 4),
)  # fmt: skip
def test_what_is_claimed_holds(
    seed: int, kinds: int, rows: int, types: int, budget: float, spread: int
) -> None:
    privacy, variance = problem(seed, kinds, rows, types)
    variance *= 10.0 ** np.random.default_rng(seed).integers(-spread, spread + 1, types)
    share = share_for_worst(privacy, sp.csr_array(variance), budget)
    assert np.max(variance @ share.sigma2, initial=0.0) == pytest.approx(share.value, rel=1e-12)
    assert spend(privacy, share.sigma2) <= budget * (1 + 1e-12)
    assert share.bound <= share.value * (1 + 1e-12)
    assert share.value <= share.bound * (1 + 1e-6)


def test_hardly_a_step_is_left_after_the_interior_point() -> None:
    for seed in seeds(20):
        privacy, rows = problem(seed, 10, 5, 8)
        share = share_for_worst(privacy, sp.csr_array(rows), 1.0, steps=5)
        assert share.value <= share.bound * (1 + 10 * WORST_GAP)


def test_the_weights_are_weights() -> None:
    for weights, shares in approached(*reversed(problem(4, 10, 5, 8))):
        assert weights.sum() == pytest.approx(1) and shares.sum() == pytest.approx(1)
        assert weights.min() >= 0 and shares.min() >= 0


def test_nothing_asked_for_is_approached_by_nothing() -> None:
    assert not list(approached(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])))


def test_sizes_that_differ_by_many_digits() -> None:
    """What is not measured has no size that overflows, and what is not a number is no plan."""
    privacy = np.array([[1.422, 0.3089], [241.0, 0.0], [1.259, 8.912e8]])
    share = share_for_worst(privacy, sp.csr_array([[0.0, 1.082]]), 1e6)
    assert share.value == pytest.approx(8.912e2 * 1.082, rel=1e-8)
    assert share.sigma2[1] == pytest.approx(8.912e2, rel=1e-8)
    for seed in seeds(60):
        rng = np.random.default_rng(seed)
        scales = 10.0 ** rng.integers(-9, 10, (2, 4, 4))
        privacy, rows = rng.random((2, 4, 4)) * (rng.random((2, 4, 4)) < 0.7) * scales
        share = share_for_worst(privacy, sp.csr_array(rows), 1.0)
        assert share.bound <= share.value * (1 + 1e-9) <= share.bound * (1 + 1e-6)
