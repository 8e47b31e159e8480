"""The least trace above several matrices, against a conic solver and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.choosing import least_trace as searching
from noiseplan.choosing.least_trace import least_trace
from noiseplan.choosing.loewner import least_bound
from noiseplan.errors import PlanError
from oracles import conic_least_trace

P, Q = np.diag([2.0, 1.0]), np.array([[1.5, 0.5], [0.5, 1.5]])


def turned(degrees: float) -> np.ndarray:
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    turn = np.array([[c, -s], [s, c]])
    return turn @ np.diag([2.0, 1.0]) @ turn.T


def covariances(seed: int, size: int, many: int, spread: float = 1.0) -> list[np.ndarray]:
    """Of estimates from random rows; with a spread, some cells are known far better than others."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(many):
        rows = rng.normal(size=(size + int(rng.integers(0, 4)), size))
        rows = rows * np.exp(spread * rng.normal(size=size))
        found.append(np.linalg.inv(rows.T @ rows + 1e-3 * np.eye(size)))
    return found


def lowest(found: np.ndarray, matrices: list[np.ndarray]) -> float:
    """The least eigenvalue of any slack, as a share of the largest."""
    slacks = np.linalg.eigvalsh(found - np.array(matrices))
    return float(slacks.min() / slacks.max())


def test_three_matrices() -> None:
    found, gap = least_trace([turned(0), turned(60), turned(120)])
    assert np.allclose(found, 2 * np.eye(2), atol=1e-7)
    assert 0 <= gap <= 1e-9


def test_two_matrices_by_the_search() -> None:
    assert np.allclose(least_trace([P, Q])[0], least_bound([P, Q]), atol=1e-7)


@pytest.mark.parametrize(
    ("size", "many", "spread"), [(2, 3, 1.0), (7, 3, 1.0), (12, 4, 0.5), (10, 6, 1.5), (16, 3, 0.1)]
)
def test_the_search_against_a_conic_solver(size: int, many: int, spread: float) -> None:
    for seed in range(3):
        matrices = covariances(seed, size, many, spread)
        found, gap = least_trace(matrices)
        expected = np.trace(conic_least_trace(matrices))
        assert np.trace(found) == pytest.approx(expected, rel=1e-6)
        # Above all of them, and the bound from below is one.
        assert lowest(found, matrices) > -1e-13
        assert 0 <= gap <= 1e-9 and np.trace(found) * (1 - gap) <= expected * (1 + 1e-7)


def test_rows_that_were_left_out_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "FAINT", 0.3)
    widened = []
    search = searching._widened
    monkeypatch.setattr(searching, "_widened", lambda s: widened.append(s) or search(s))
    for seed in range(4):
        matrices = covariances(seed, 14, 3)
        found, gap = least_trace(matrices)
        assert np.trace(found) == pytest.approx(np.trace(conic_least_trace(matrices)), rel=1e-6)
        assert gap <= 1e-9 and lowest(found, matrices) > -1e-13
    assert widened


@pytest.mark.parametrize(
    "matrices",
    [
        [np.eye(5)] * 3,
        [np.eye(4), 2 * np.eye(4), 3 * np.eye(4)],
        [np.diag([1.0, 5.0, 2.0]), np.diag([3.0, 1.0, 2.0]), np.diag([2.0, 2.0, 7.0])],
        [np.diag([1e-6, 1e6]), np.diag([1e6, 1e-6]), np.eye(2)],
    ],
)
def test_commuting_matrices_have_their_largest_eigenvalues(matrices: list[np.ndarray]) -> None:
    expected = np.max([np.diagonal(p) for p in matrices], axis=0)
    assert np.allclose(least_trace(matrices)[0], np.diag(expected), rtol=1e-8, atol=1e-8)


def test_a_hundred_directions_are_certified() -> None:
    """Random binary rows, whose covariances have eigenvalues from a tenth to some hundreds."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, size=(3, 100, 100)).astype(float)
    matrices = [np.linalg.inv(r.T @ r) for r in rows]
    found, gap = least_trace(matrices)
    assert gap <= 1e-9 and lowest(found, matrices) > -1e-13
    # It touches every one of them in some direction.
    assert all(np.linalg.matrix_rank(found - p, tol=1e-6 * np.trace(p)) < 100 for p in matrices)


def test_steps_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "STEPS", 1)
    monkeypatch.setattr(searching, "ROUNDS", 1)
    with pytest.raises(PlanError, match=r"only to .* in 1 steps; chain"):
        least_trace(covariances(0, 12, 3))


@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
def test_the_common_mechanism_is_below_every_plan(noise: str) -> None:
    """In every direction, relative to what the plan has there, also where that is little."""
    schema = nz.Schema.from_sizes({"a": 4, "b": 3})
    rng = np.random.default_rng(3)
    plans = []
    for scale in (1.0, 30.0, 1000.0):
        matrix = rng.integers(0, 2, size=(12, 12)) * scale ** rng.uniform(-1, 1, size=(12, 1))
        query = nz.Query(schema, ["a", "b"], matrix=matrix + np.eye(12))
        plans.append(nz.plan(nz.Workload([query]), budget=nz.zCDP(0.5), noise=noise))
    common = nz.adaptive(plans).common.mechanism.cost_matrix()
    for plan in plans:
        root = np.linalg.inv(np.linalg.cholesky(plan.mechanism.cost_matrix()))
        assert np.linalg.eigvalsh(root @ common @ root.T)[-1] < 1
