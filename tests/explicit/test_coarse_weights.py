"""Prices of cells foretold from fewer of them: a start, never an answer."""

from __future__ import annotations

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.matrices.base import Array
from noiseplan.optimize import optimum
from noiseplan.optimize.optimum import WORTH_IT, dense_optimum, forecast

CELLS = WORTH_IT + 61


def prefix_gram(cells: int) -> Array:
    place = np.arange(cells)
    return (cells - np.maximum.outer(place, place)).astype(float)


def ranges_gram(cells: int) -> Array:
    place = np.arange(cells)
    return (np.minimum.outer(place, place) + 1.0) * (cells - np.maximum.outer(place, place))


GRAMS = {
    "prefix": prefix_gram(CELLS),
    "from the end": prefix_gram(CELLS)[::-1, ::-1].copy(),
    "ranges": ranges_gram(CELLS),
    "both": prefix_gram(CELLS) + 40.0 * np.eye(CELLS),
}


def certified(gram: Array, rows: Array, weights: Array) -> tuple[float, float]:
    """The value of a strategy and the bound of prices, from their definitions."""
    cost = rows.T @ rows
    assert np.diagonal(cost).max() <= 1 + 1e-9
    root = np.sqrt(weights / weights.sum())
    singular = np.linalg.svd(np.linalg.cholesky(gram).T * root, compute_uv=False)
    return float(np.trace(np.linalg.solve(cost, gram))), float(singular.sum()) ** 2


@pytest.mark.few(2)
@pytest.mark.parametrize("name", GRAMS)
def test_the_optimum_is_reached_in_three_steps(name: str) -> None:
    gram = GRAMS[name]
    found = dense_optimum(gram, 1e-7)
    value, bound = certified(gram, found.strategy, found.weights)
    assert found.steps <= 3
    assert value / bound - 1 <= 2e-7
    assert found.value == pytest.approx(value, rel=1e-8)
    assert found.bound <= bound * (1 + 1e-9)


def test_the_same_optimum_without_a_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    gram = GRAMS["prefix"]
    with_it = dense_optimum(gram, 1e-7)
    monkeypatch.setattr(optimum, "forecast", lambda cells, solve: None)
    without = dense_optimum(gram, 1e-7)
    assert with_it.value == pytest.approx(without.value, rel=2e-7)
    assert without.steps >= 2 * with_it.steps


def test_cells_without_an_order_are_not_foretold() -> None:
    """Shuffled, the prices of some cells say nothing of the others; the optimum is the same."""
    order = np.random.default_rng(3).permutation(CELLS)
    gram = GRAMS["prefix"][np.ix_(order, order)]
    asked: list[int] = []

    def solve(kept: np.ndarray, start: Array | None) -> Array:
        asked.append(len(kept))
        return optimum._prices(gram, kept, start)

    assert forecast(CELLS, solve) is None
    assert max(asked) <= CELLS // 2
    assert dense_optimum(gram, 1e-6).value == pytest.approx(
        dense_optimum(GRAMS["prefix"], 1e-6).value, rel=2e-6
    )


def test_short_problems_are_left_alone() -> None:
    def never(*_: object) -> Array:
        raise AssertionError

    assert forecast(WORTH_IT - 1, never) is None


@pytest.mark.few(1)
@pytest.mark.parametrize("factor", [nz.Prefix(), nz.Ranges()], ids=["prefix", "ranges"])
def test_plans_of_one_long_attribute(factor: nz.Factor) -> None:
    """The plan is the optimum but for whole numbers, says so, and prints however many rows."""
    schema = nz.Schema({"t": nz.Ordinal(range(CELLS))})
    query = nz.Query(schema, {"t": factor})
    plan = nz.plan(nz.Workload([query]), budget=nz.zCDP(0.5))
    gram = prefix_gram(CELLS) if isinstance(factor, nz.Prefix) else ranges_gram(CELLS)
    best = dense_optimum(gram, 1e-7)
    assert best.bound * (1 - 1e-6) <= plan.total_variance <= best.value * (1 + 3.1e-4)
    assert plan.lower_bound == pytest.approx(best.bound, rel=1e-6)
    assert plan.lower_bound <= best.value
    assert "certified" in str(plan)
    # The errors it states are those of its rows, from the definition.
    some = np.array([0, CELLS // 2, query.rows - 1])
    rows = query.matrices()[0].take(some)
    cost = plan.cost_matrix()
    expected = np.einsum("ri,ri->r", rows, np.linalg.solve(cost, rows.T).T)
    stated = plan.variance(query)[some]
    np.testing.assert_allclose(stated, expected, rtol=1e-6)
    assert np.diagonal(cost).max() <= 1.0
