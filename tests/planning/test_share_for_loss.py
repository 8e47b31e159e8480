"""The share of the budget for a smooth loss, against a convex solver and by its own gap."""

from __future__ import annotations

from collections.abc import Callable

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from depth import seeds
from noiseplan.matrices.base import Array
from noiseplan.optimize import allocation
from noiseplan.optimize.allocation import LOSS_GAP, Share, share_for_loss, spend
from noiseplan.optimize.lbfgs import Smooth
from noiseplan.planning.solve import p_norm


def squares(variances: Array) -> tuple[float, Array]:
    return float(variances @ variances), 2 * variances


LOSSES: dict[str, tuple[Smooth, Callable[[cp.Expression], cp.Expression]]] = {
    "squares": (squares, cp.sum_squares),
    "3-norm": (lambda v: p_norm(3.0, np.ones(len(v)))(v), lambda v: cp.pnorm(v, 3)),
    "12-norm": (lambda v: p_norm(12.0, np.ones(len(v)))(v), lambda v: cp.pnorm(v, 12)),
}
SHAPES = [(1, 6, 4), (2, 5, 5), (5, 1, 4), (7, 5, 6), (30, 12, 8)]


def problem(seed: int, kinds: int, rows: int, types: int) -> tuple[Array, Array]:
    """Every type costs somebody something, and some row needs it."""
    rng = np.random.default_rng(seed)
    privacy = rng.random((kinds, types)) * (rng.random((kinds, types)) < 0.7)
    variance = rng.random((rows, types)) ** 3 * (rng.random((rows, types)) < 0.6)
    privacy[rng.integers(kinds, size=types), range(types)] += 0.1
    variance[rng.integers(rows, size=types), range(types)] += 0.01
    return privacy, variance


@pytest.mark.grid
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", seeds(3))
def test_the_optimum_is_that_of_a_solver(shape: tuple[int, int, int], seed: int, name: str) -> None:
    privacy, rows = problem(seed, *shape)
    loss, atom = LOSSES[name]
    share = share_for_loss(privacy, sp.csr_array(rows), 1.0, loss, np.ones(rows.shape[1]))
    precision = cp.Variable(rows.shape[1], pos=True)
    best = cp.Minimize(atom(rows @ cp.inv_pos(precision)))
    least = cp.Problem(best, [privacy @ precision <= 1]).solve(solver=cp.CLARABEL)
    assert share.value == pytest.approx(least, rel=2e-6)
    assert share.bound <= least * (1 + 2e-6)
    assert share.value - share.bound <= LOSS_GAP * share.value
    assert loss(rows @ share.sigma2)[0] == pytest.approx(share.value, rel=1e-12)
    assert spend(privacy, share.sigma2) <= 1 + 1e-12


@pytest.mark.few(2)
@pytest.mark.parametrize("name", LOSSES)
def test_few_rounds_are_needed_and_none_is_believed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights of the linear problem save rounds, and where there are none the end is the same:
    the gap says when to stop, whatever was tried."""
    rounds, one = [0], allocation._share_for_one_cost

    def counted(*given: object) -> Share:
        rounds[0] += 1
        return one(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(allocation, "_share_for_one_cost", counted)
    problems = [problem(seed, 7, 5, 6) for seed in range(6)]
    values, taken = [], []
    for _ in range(2):
        rounds[0] = 0
        shares = [
            share_for_loss(privacy, sp.csr_array(rows), 1.0, LOSSES[name][0], np.ones(6))
            for privacy, rows in problems
        ]
        values.append([share.value for share in shares])
        taken.append(rounds[0])
        monkeypatch.setattr(allocation, "_linear_shares", lambda *_: None)
    assert taken[0] < taken[1] / 2
    np.testing.assert_allclose(values[0], values[1], rtol=1e-3)
