"""Convex losses of variances against a convex solver, and their certificates against chance."""

from __future__ import annotations

from collections.abc import Callable

import cvxpy as cp
import numpy as np
import pytest
from explicit_oracles import marginals, prefix, ranges, solved
from hypothesis import given
from hypothesis import strategies as st

from depth import examples
from noiseplan.optimize.cell_columns import TableColumns, columns_of
from noiseplan.optimize.convex_losses import Loss, least_loss
from noiseplan.optimize.priced_rows import WrittenRows
from noiseplan.optimize.row_space_losses import Means, least_mean_loss
from noiseplan.optimize.row_space_optimum import RowBasis

Array = np.ndarray


class Rows:
    """Every row by itself."""

    def __init__(self, rows: Array) -> None:
        self.rows = rows

    def gram(self, weights: Array) -> Array:
        return (self.rows.T * weights) @ self.rows

    def variances(self, sigma: Array) -> Array:
        return np.einsum("ri,ij,rj->r", self.rows, sigma, self.rows)


def norm(p: float) -> Loss:
    def loss(v: Array) -> tuple[float, Array]:
        value = float((v**p).sum() ** (1 / p))
        return value, (v / value) ** (p - 1)

    return loss


def exponential(v: Array) -> tuple[float, Array]:
    return float(np.exp(v / 4).sum()), np.exp(v / 4) / 4


def first_two(v: Array) -> tuple[float, Array]:
    """Rows beyond the second do not matter, but must be answered."""
    return float(v[:2].sum()), (np.arange(len(v)) < 2).astype(float)


WORKLOADS = {
    "prefix": prefix(5),
    "ranges": ranges(4),
    "marginals": marginals((2, 3), 1),
    "few rows": np.array([[1.0, 2, 0, 1], [0, 1, 1, 3]]),
    "a cell nobody counts": np.array([[1.0, 1, 0, 2], [1, 1, 0, 0], [0, 0, 0, 1]]),
}
LOSSES: dict[str, tuple[Loss, Callable[[cp.Expression], cp.Expression]]] = {
    "total": (norm(1.0), cp.sum),
    "2-norm": (norm(2.0), lambda v: cp.norm(v, 2)),
    "4-norm": (norm(4.0), lambda v: cp.pnorm(v, 4)),
    "exponential": (exponential, lambda v: cp.sum(cp.exp(v / 4))),
    "first two": (first_two, lambda v: cp.sum(v[:2])),
}


@pytest.mark.grid
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_by_a_convex_solver(workload: str, loss: str) -> None:
    rows, (smooth, convex) = WORKLOADS[workload], LOSSES[loss]
    found = least_loss(Rows(rows), smooth, len(rows), tolerance=1e-5)
    x = cp.Variable((rows.shape[1],) * 2, PSD=True)
    variances = cp.hstack([cp.matrix_frac(row, x) for row in rows])
    truth = solved(cp.Problem(cp.Minimize(convex(variances)), [cp.diag(x) <= 1]), 1e-7)
    assert found.bound <= truth * (1 + 1e-5)
    assert found.value == pytest.approx(truth, rel=2e-4)
    assert 0 <= found.gap <= 2e-4
    assert (found.strategy**2).sum(axis=0).max() <= 1 + 1e-9
    inverse = np.linalg.pinv(found.strategy, rcond=1e-10)
    np.testing.assert_allclose(rows @ inverse @ found.strategy, rows, atol=1e-6)
    reached = smooth(((rows @ inverse) ** 2).sum(axis=1))[0]
    assert reached == pytest.approx(found.value, rel=1e-5)


@examples(40)
@given(seed=st.integers(0, 10**6), p=st.sampled_from([1.0, 1.5, 3.0]))
def test_no_strategy_is_below_the_bound(seed: int, p: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(5, 4))
    found = least_loss(Rows(rows), norm(p), len(rows), tolerance=1e-3, steps=20)
    for _ in range(20):
        strategy = rng.normal(size=(6, 4))
        strategy /= np.linalg.norm(strategy, axis=0)
        variances = ((rows @ np.linalg.pinv(strategy)) ** 2).sum(axis=1)
        assert norm(p)(variances)[0] >= found.bound * (1 - 1e-9)
    assert found.bound <= found.value * (1 + 1e-9)


def test_a_loss_with_kinks_is_certified_as_far_as_it_gets() -> None:
    def kinked(v: Array) -> tuple[float, Array]:
        return float(v.max()), np.eye(len(v))[v.argmax()]

    found = least_loss(Rows(prefix(4)), kinked, 4, steps=30)
    best = 1.7586013  # the least worst variance of four prefix sums
    assert found.bound <= best * (1 + 1e-6)
    assert found.value >= best * (1 - 1e-6)
    assert found.gap == pytest.approx((found.value - found.bound) / found.value)


def test_a_loss_that_is_content() -> None:
    """Flat below some variance: anything there is optimal, and said to be."""

    def hinge(v: Array) -> tuple[float, Array]:
        return float(np.maximum(v - 50.0, 0).sum()), (v > 50.0).astype(float)

    found = least_loss(Rows(prefix(4)), hinge, 4)
    assert (found.value, found.bound, found.gap) == (0.0, 0.0, 0.0)
    assert found.strategy.any()


def test_in_the_row_space_too() -> None:
    """A loss that is content is refused nowhere: anything is optimal, and said to be."""

    def hinge(v: Array) -> tuple[float, Array]:
        return float(np.maximum(v - 50.0, 0).sum()), (v > 50.0).astype(float)

    columns = columns_of([TableColumns.of(np.eye(4), np.arange(4))])
    basis = RowBasis.of(prefix(4), columns)
    means = Means(WrittenRows(prefix(4) @ basis.back), np.arange(4))
    found = least_mean_loss(basis, means, hinge, 1e-6)
    assert (found.value, found.bound) == (0.0, 0.0)
    assert np.linalg.matrix_rank(found.rows) == 4
