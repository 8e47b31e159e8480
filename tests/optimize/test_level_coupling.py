"""Precisions that cost every record the same: against a convex program, and written out."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from scipy.linalg import sqrtm

from noiseplan.matrices.base import Array
from noiseplan.optimize.level_coupling import (
    Alike,
    Following,
    LevelCoupling,
    StateBlock,
    precision,
)

# Moments of two numbers h: 1, h_1, h_2, h_1², h_1h_2, h_2².
MOMENTS = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
START = np.array([1.0, 0.1, 0.0, 0.2, 0.0, 0.3])


def groups() -> list[Alike]:
    """Sets that are seen by (1, h)(1, h)ᵀ, by 1 − |h|², and by one block of each at once."""
    units = np.zeros((6, 3, 3))
    for number, (a, b) in enumerate(MOMENTS):
        units[number, a, b] = units[number, b, a] = 1.0
    whole, tail = StateBlock(1.0, units), StateBlock(3.0, np.ones((1, 1, 1)))
    two = StateBlock(2.0, np.array([units[0], np.zeros((3, 3)), *units[1:]]))
    numbers = np.vstack([np.eye(6)[:1], [[1, 0, 0, -1, 0, -1]], np.eye(6)[1:]])
    beside = StateBlock(5.0, np.array([0.0, 1, 0, 0, 0, 0, 0]).reshape(7, 1, 1))
    return [
        Alike((whole,), np.eye(6), np.array([1.0, 4.0])),
        Alike((tail,), np.array([[1.0, 0, 0, -1, 0, -1]]), np.array([2.0, 1.0, 0.5])),
        Alike((two, beside), numbers, np.array([1.5])),
    ]


def asked(seed: int) -> list[Array]:
    """N_T at random, well away from singular."""
    rng = np.random.default_rng(seed)

    def numbers() -> Array:
        root = rng.normal(size=(3, 5))
        matrix = root @ root.T + 0.1 * np.eye(3)
        return np.array([matrix[pair] for pair in MOMENTS])

    both = numbers()
    third = np.array([np.concatenate([both[:1], rng.uniform(1, 2, 1), both[1:]])])
    return [np.array([numbers(), numbers()]), rng.uniform(0.5, 3, (3, 1)), third]


def each_block(
    made: list[Alike], numbers: list[Array]
) -> list[tuple[float, StateBlock, int, Array]]:
    """Of every set and block: how often, the block, its group and N."""
    return [
        (weight * block.often, block, g, block.of(own))
        for g, (group, rows) in enumerate(zip(made, numbers, strict=True))
        for weight, own in zip(group.weights, rows, strict=True)
        for block in group.blocks
    ]


def by_program(made: list[Alike], numbers: list[Array]) -> float:
    """max F: tr (L^{1/2}NL^{1/2})^{1/2} is the largest tr Z of [[N, Z], [Zᵀ, L]] ⪰ 0."""
    moments = cp.Variable(made[0].moments.shape[1])
    limits, total = [moments[0] == 1], cp.Constant(0.0)
    for often, block, g, matrix in each_block(made, numbers):
        flat = block.sums.reshape(len(block.sums), -1).T @ made[g].moments
        level = cp.reshape(flat @ moments, matrix.shape, order="C")
        both = cp.Variable((2 * block.size, 2 * block.size), PSD=True)
        limits += [both[: block.size, : block.size] == matrix]
        limits += [both[block.size :, block.size :] == level]
        total += often * cp.trace(both[: block.size, block.size :])
    problem = cp.Problem(cp.Maximize(total), limits)
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


@pytest.mark.parametrize("seed", range(4))
def test_largest_value_by_a_convex_program(seed: int) -> None:
    value, _ = LevelCoupling(groups(), asked(seed)).solve(START)
    assert value == pytest.approx(by_program(groups(), asked(seed)), rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_every_record_costs_the_same(seed: int) -> None:
    """And what is paid for that variance is F, at any moments whatever."""
    made, problem = groups(), LevelCoupling(groups(), asked(seed))
    value, moments = problem.solve(START)
    moments = problem.levelled(moments)
    variance, costs = 0.0, np.zeros(20)
    others = np.random.default_rng(seed).normal(size=(20, 6))
    others[:, 0] = 1.0
    for often, block, g, matrix in each_block(made, asked(seed)):
        best = precision(block.of(made[g].moments @ moments), matrix)
        variance += often * np.trace(np.linalg.solve(best, matrix))
        costs += often * np.einsum("xij,ji->x", block.of(others @ made[g].moments.T), best)
    assert variance == pytest.approx(value, rel=1e-9)
    assert costs == pytest.approx(value, rel=1e-8)


def test_precision_of_one_block() -> None:
    """Φ with ΦLΦ = N, as L^{-1/2}(L^{1/2}NL^{1/2})^{1/2}L^{-1/2} is."""
    rng = np.random.default_rng(1)
    level, matrix = (root @ root.T for root in rng.normal(size=(2, 4, 6)))
    half = sqrtm(level)
    direct = np.linalg.solve(half, np.linalg.solve(half, sqrtm(half @ matrix @ half)).T)
    assert precision(level, matrix) == pytest.approx(np.real(direct), rel=1e-9)


def test_problems_that_follow_each_other_lead_to_the_same() -> None:
    """One hardly different, others, and the first once more, by curvatures of those before."""
    far = [2.0 ** np.arange(len(n))[:, None] * n for n in asked(5)]
    near = [1.01 * numbers for numbers in asked(0)]
    following = Following(START)
    for numbers in (asked(0), near, far, asked(3), asked(0)):
        best, moments = LevelCoupling(groups(), numbers).solve(START)
        value, found = following.solve(LevelCoupling(groups(), numbers))
        assert value == pytest.approx(best, rel=1e-9)
        assert found == pytest.approx(moments, abs=1e-3)
    value, _ = LevelCoupling(groups(), asked(0)).solve(START)
    assert LevelCoupling(groups(), near).solve(START)[0] == pytest.approx(value * 1.01**0.5)


def test_nearby_moments_by_any_curvature() -> None:
    """The best is found by a curvature of another problem; not from moments of no records."""
    problem = LevelCoupling(groups(), asked(0))
    best, moments = problem.solve(START)
    other = LevelCoupling(groups(), asked(5)).near(START)
    assert other is not None
    for curvature in (None, other[2]):
        found = problem.near(moments, curvature)
        assert found is not None and found[0] == pytest.approx(best, rel=1e-9)
    assert problem.near(-moments) is None


def test_slopes_by_differences() -> None:
    numbers, step = asked(2), 1e-5
    problem = LevelCoupling(groups(), numbers)
    slopes, _ = problem.slopes(problem.solve(START)[1])
    for g, rows in enumerate(numbers):
        for place in np.ndindex(rows.shape):
            values = []
            for change in (step, -step):
                moved = [row.copy() for row in numbers]
                moved[g][place] += change
                values.append(LevelCoupling(groups(), moved).solve(START)[0])
            assert slopes[g][place] == pytest.approx(
                np.diff(values)[0] / -2 / step, rel=1e-5, abs=1e-7
            )


def test_slope_and_curvature_of_the_search() -> None:
    """With a barrier, at moments that are not the best."""
    problem, step = LevelCoupling(groups(), asked(3)), 1e-6
    seen = problem._at(START)
    assert seen is not None
    slope, curvature = problem._slope(seen, 0.3), problem._curvature(seen, 0.3)
    for j in range(5):
        values, slopes = [], []
        for change in (step, -step):
            moved = problem._at(START + change * np.eye(6)[j + 1])
            assert moved is not None
            values.append(problem._value(moved, 0.3))
            slopes.append(problem._slope(moved, 0.3))
        assert slope[j] == pytest.approx((values[0] - values[1]) / 2 / step, rel=1e-6)
        assert -curvature[j] == pytest.approx(
            (slopes[0] - slopes[1]) / 2 / step, rel=1e-5, abs=1e-5
        )


def test_what_is_refused() -> None:
    numbers = asked(0)
    numbers[1] = np.zeros_like(numbers[1])
    with pytest.raises(np.linalg.LinAlgError, match="not asked for"):
        LevelCoupling(groups(), numbers)
    nowhere = np.array([1.0, 2.0, 0, 1, 0, 1])  # a mean beyond the mean square
    problem = LevelCoupling(groups(), asked(0))
    with pytest.raises(np.linalg.LinAlgError, match="no records"):
        problem.solve(nowhere)
    with pytest.raises(np.linalg.LinAlgError, match="no records"):
        problem.levelled(nowhere)
