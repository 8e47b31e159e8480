"""Slow twins for explicit matrices: convex programs, pseudo-inverses, workloads written out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import cvxpy as cp
import numpy as np

Array = np.ndarray


# --------------------------------------------------------------------------- workloads, by hand


def prefix(n: int) -> Array:
    """Row i counts the cells from 0 to i."""
    return np.array([[float(j <= i) for j in range(n)] for i in range(n)])


def ranges(n: int) -> Array:
    """Every interval."""
    rows = [[float(a <= j <= b) for j in range(n)] for a in range(n) for b in range(a, n)]
    return np.array(rows)


def kron(*factors: Array) -> Array:
    result = np.ones((1, 1))
    for factor in factors:
        result = np.kron(result, factor)
    return result


def marginal(sizes: Sequence[int], attributes: Sequence[int]) -> Array:
    kept = set(attributes)
    return kron(*(np.eye(n) if i in kept else np.ones((1, n)) for i, n in enumerate(sizes)))


def marginals(sizes: Sequence[int], k: int) -> Array:
    return np.vstack([marginal(sizes, s) for s in combinations(range(len(sizes)), k)])


def random_ranges(n: int, rows: int, seed: int) -> Array:
    """Intervals with both ends uniform, as in the fitness-for-use experiments."""
    ends = np.sort(np.random.default_rng(seed).integers(0, n, size=(rows, 2)), axis=1)
    cells = np.arange(n)
    return ((ends[:, :1] <= cells) & (cells <= ends[:, 1:])).astype(float)


STUDENTS = np.array(
    [
        [1, 1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 0, 0, 0, 0],
        [0, 1, 0, 1, 0, 0, 0, 0],
        [1, 0, 1, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, 1, -1, -1],
    ],
    dtype=float,
)


# --------------------------------------------------------------------------- errors, by definition


def l1(strategy: Array) -> float:
    return float(np.abs(strategy).sum(axis=0).max())


def l2(strategy: Array) -> float:
    return float(np.sqrt((strategy**2).sum(axis=0).max()))


def total_error(workload: Array, strategy: Array, sensitivity: float) -> float:
    """Δ²‖WA⁺‖²_F, after checking that A supports W."""
    inverse = np.linalg.pinv(strategy, rcond=1e-11)
    np.testing.assert_allclose(workload @ inverse @ strategy, workload, atol=1e-7)
    return sensitivity**2 * float(np.sum((workload @ inverse) ** 2))


# --------------------------------------------------------------------------- convex programs


def solved(problem: cp.Problem, tolerance: float = 1e-9) -> float:
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=tolerance, tol_gap_rel=tolerance, max_iter=400)
    assert problem.status in ("optimal", "optimal_inaccurate"), problem.status
    return float(problem.value)


def least_total(workload: Array) -> float:
    """min tr(W X⁻¹ Wᵀ) with diag X ≤ 1, as a semidefinite program."""
    x = cp.Variable((workload.shape[1],) * 2, PSD=True)
    return solved(cp.Problem(cp.Minimize(cp.matrix_frac(workload.T, x)), [cp.diag(x) <= 1]))


def least_worst(workload: Array, targets: Array) -> float:
    """min over X with diag X ≤ 1 of the largest variance in units of its target."""
    x = cp.Variable((workload.shape[1],) * 2, PSD=True)
    parts = [cp.matrix_frac(row, x) / c for row, c in zip(workload, targets, strict=True)]
    return solved(cp.Problem(cp.Minimize(cp.max(cp.hstack(parts))), [cp.diag(x) <= 1]), 1e-7)
