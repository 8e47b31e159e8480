"""Projection, objective and gradients against slow twins; descents on other array libraries."""

from __future__ import annotations

from math import exp

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_oracles import (
    brute_variances,
    gram_of,
    sorted_projection,
    svd_bound,
    tightest_epsilon,
    workload,
)

from depth import examples, seeds
from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.local.search.descent import (
    Descent,
    descend,
    feasible,
    lower_slope,
    project,
    random_start,
    slope,
)
from noiseplan.local.search.variance_bounds import (
    lower_bound,
    row_variance,
    spread_bound,
)
from noiseplan.local.strategies.strategy import TableStrategy, check_strategy


def random_problem(
    seed: int, m: int = 14, n: int = 5, epsilon: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Q, z, G and π; z uneven, so that some entries are free and some at either bound."""
    rng = np.random.default_rng(seed)
    lower = feasible(rng.random(m) / m, exp(epsilon))
    chances = project(rng.random((m, n)) * 3 / m, lower, exp(epsilon))
    rows = rng.standard_normal((n + 1, n))
    prior = rng.random(n) + 0.2
    return chances, lower, rows.T @ rows, prior / prior.sum()


# ------------------------------------------------------------------------------ projection


@examples(150)
@given(st.integers(0, 10**9), st.floats(0.05, 5.0), st.integers(1, 9), st.floats(1e-3, 30.0))
def test_projection_is_that_of_sorted_breakpoints(
    seed: int, epsilon: float, m: int, spread: float
) -> None:
    rng = np.random.default_rng(seed)
    ratio = exp(epsilon)
    lower = rng.random(m) * (rng.random(m) < 0.8)
    lower = np.full(m, 1.0) if not lower.any() else lower
    # Anywhere between Σz = 1/e and Σz = 1, both ends included.
    share = rng.choice([0.0, 1.0, rng.random()])
    lower *= (1 / ratio) ** share / lower.sum()
    points = spread * rng.standard_normal((m, 4))
    found = project(points, lower, ratio)
    assert found.sum(axis=0) == pytest.approx(np.ones(4), abs=1e-9)
    assert (found >= lower[:, None]).all()
    assert (found <= ratio * lower[:, None]).all()
    for column in range(4):
        expected = sorted_projection(points[:, column], lower, ratio)
        assert found[:, column] == pytest.approx(expected, abs=1e-9)


def test_projection_is_the_nearest_point() -> None:
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(3)
    lower = rng.random(6)
    lower *= 0.6 / lower.sum()
    point = rng.standard_normal(6)
    q = cp.Variable(6)
    cp.Problem(
        cp.Minimize(cp.sum_squares(q - point)), [cp.sum(q) == 1, q >= lower, q <= 3 * lower]
    ).solve()
    assert project(point[:, None], lower, 3.0).ravel() == pytest.approx(q.value, abs=1e-5)


def test_wide_matrices_are_projected_in_blocks() -> None:
    rng = np.random.default_rng(0)
    lower = np.full(1000, 0.7 / 1000)
    points = rng.standard_normal((1000, 700)) / 1000
    found = project(points, lower, 3.0)
    pieces = [project(points[:, i : i + 100], lower, 3.0) for i in range(0, 700, 100)]
    assert found == pytest.approx(np.hstack(pieces), abs=1e-15)


def test_impossible_bounds_are_refused() -> None:
    with pytest.raises(PlanError, match="Σz is 2"):
        project(np.ones((2, 2)), np.ones(2), 3.0)
    with pytest.raises(PlanError, match=r"between 0\.33"):
        project(np.ones((2, 2)), np.full(2, 0.1), 3.0)
    assert feasible(np.ones(2), 3.0).sum() <= 1
    assert 3 * feasible(np.full(2, 0.1), 3.0).sum() >= 1


# ------------------------------------------------------------------------------ objective


@pytest.mark.parametrize("seed", seeds(4))
def test_value_is_the_mean_second_moment(seed: int) -> None:
    chances, _, gram, prior = random_problem(seed)
    rows = np.linalg.cholesky(gram).T
    second = brute_variances(chances, rows, prior) + np.diagonal(gram)
    assert slope(chances, gram, prior).value == pytest.approx(prior @ second)


@pytest.mark.parametrize("seed", seeds(4))
def test_gradient_by_finite_differences(seed: int) -> None:
    chances, _, gram, prior = random_problem(seed)
    found = slope(chances, gram, prior)
    assert (found.gradient * chances).sum() == pytest.approx(-found.value)  # homogeneous
    h = 1e-6
    for o, u in [(0, 0), (3, 1), (7, 4), (13, 2)]:
        up, down = chances.copy(), chances.copy()
        up[o, u] += h
        down[o, u] -= h
        numeric = (slope(up, gram, prior).value - slope(down, gram, prior).value) / (2 * h)
        assert found.gradient[o, u] == pytest.approx(numeric, rel=1e-5, abs=1e-6 * found.value)


@pytest.mark.parametrize("seed", seeds(4))
def test_gradient_in_the_bounds_by_finite_differences(seed: int) -> None:
    ratio = exp(1.0)
    rng = np.random.default_rng(seed)
    _, lower, gram, prior = random_problem(seed)
    points = rng.random((14, 5)) * 3 / 14
    chances = project(points, lower, ratio)

    def value(z: np.ndarray) -> float:
        return slope(project(points, z, ratio), gram, prior).value

    found = lower_slope(slope(chances, gram, prior).gradient, chances, lower, ratio)
    h = 1e-8
    for o in range(14):
        step = h * np.eye(14)[o]
        numeric = (value(lower + step) - value(lower - step)) / (2 * h)
        assert found[o] == pytest.approx(numeric, rel=1e-4, abs=1e-5 * np.abs(found).max())


def test_dropping_the_response_of_the_shift_gives_another_gradient() -> None:
    """The term the published code leaves out matters: the test above would notice."""
    _, lower, gram, prior = random_problem(0)
    chances = project(np.random.default_rng(0).random((14, 5)) * 3 / 14, lower, exp(1.0))
    gradient = slope(chances, gram, prior).gradient
    full = lower_slope(gradient, chances, lower, exp(1.0))
    low = chances <= lower[:, None] * (1 + 1e-12)
    high = chances >= lower[:, None] * exp(1.0) * (1 - 1e-12)
    short = (gradient * low).sum(axis=1) + exp(1.0) * (gradient * high).sum(axis=1)
    assert np.abs(short - full).max() > 0.1 * np.abs(full).max()


# ------------------------------------------------------------------------------ invariants


@examples(40)
@given(st.integers(0, 10**9), st.floats(0.2, 4.0), st.booleans())
def test_invariants_of_any_strategy(seed: int, epsilon: float, even: bool) -> None:
    rng = np.random.default_rng(seed)
    n, m = 5, 16
    lower = rng.random(m) + 0.1
    lower *= (1 + exp(-epsilon)) / 2 / lower.sum()
    chances = project(rng.random((m, n)) * 3 / m, lower, exp(epsilon))
    check_strategy(chances, epsilon)
    assert tightest_epsilon(chances) <= epsilon * (1 + 1e-9)
    prior = np.full(n, 1 / n) if even else rng.dirichlet(np.ones(n) * 3)
    strategy = TableStrategy.of(chances, epsilon, prior)
    rows = rng.standard_normal((3, n))
    gram = rows.T @ rows
    assert strategy.information @ prior == pytest.approx(np.ones(n))
    second = strategy.total_moments(gram)
    t = second - np.diagonal(gram)
    assert (t >= -1e-9 * second).all()
    own = float(prior @ np.diagonal(gram))
    mean = float(prior @ t)
    assert mean <= t.max() * (1 + 1e-12)
    if even:  # Theorem 5.1
        assert t.max() <= exp(epsilon) * (mean + own) * (1 + 1e-9)
        c = row_variance(n, epsilon)
        assert spread_bound(gram, prior, c) <= mean * (1 + 1e-9)
        assert svd_bound(gram, prior, epsilon) <= mean * (1 + 1e-9)
    assert lower_bound(gram, prior, epsilon, worst=False) <= mean * (1 + 1e-9)
    assert lower_bound(gram, prior, epsilon, worst=True) <= t.max() * (1 + 1e-9)
    # Any other reconstruction is no better: the plain pseudo-inverse.
    v = rows @ np.linalg.pinv(chances)
    other = (v**2).sum(axis=0) @ (chances @ prior)
    assert prior @ second <= other * (1 + 1e-9)


def test_splitting_and_permuting_outputs_changes_nothing() -> None:
    chances, _, gram, prior = random_problem(1)
    order = np.random.default_rng(0).permutation(14)
    split = np.vstack([chances[order], 0.3 * chances[:1]])
    split[np.flatnonzero(order == 0)] *= 0.7
    both = [TableStrategy.of(q, 1.0, prior).total_moments(gram) for q in (chances, split)]
    assert both[0] == pytest.approx(both[1])
    never = TableStrategy.of(np.vstack([chances, np.zeros(5)]), 1.0, prior)
    assert never.outputs == 14


def test_strategies_are_checked() -> None:
    chances, *_ = random_problem(0)
    with pytest.raises(PlanError, match="add up to"):
        check_strategy(chances * 1.01, 1.0)
    with pytest.raises(PlanError, match=r"not 0\.5-private"):
        check_strategy(chances, 0.5)
    with pytest.raises(PlanError, match="at least 0"):
        check_strategy(np.array([[1.1], [-0.1]]), 1.0)
    with pytest.raises(PlanError, match="matrix of chances"):
        check_strategy(np.array([np.nan]), 1.0)
    assert tightest_epsilon(np.array([[0.0, 0.5], [1.0, 0.5]])) == float("inf")


def test_what_is_not_measured_is_refused() -> None:
    blind = TableStrategy.of(np.full((2, 3), 0.5), 1.0)
    with pytest.raises(UnanswerableError, match="cannot answer"):
        blind.total_moments(np.eye(3))
    with pytest.raises(UnanswerableError, match="3 of 3 rows"):
        blind.coefficients(np.eye(3))
    assert blind.total_moments(np.ones((3, 3))) == pytest.approx([1, 1, 1])  # the total is public


# ------------------------------------------------------------------------------ descents


def test_a_descent_finds_what_the_literature_found() -> None:
    gram = gram_of(workload("prefix", 8))
    chances, lower = random_start(32, 8, 1.0, np.random.default_rng(0))
    found = descend(Descent.of(gram, np.full(8, 1 / 8), 1.0), chances, lower, 1500)
    check_strategy(found, 1.0)
    value = TableStrategy.of(found, 1.0).total_moments(gram).sum()
    assert 220.25094 * (1 - 1e-6) <= value <= 236.779 * 1.03


def test_a_descent_survives_steps_that_are_too_long() -> None:
    gram = gram_of(workload("prefix", 8))
    chances, lower = random_start(32, 8, 1.0, np.random.default_rng(0))
    problem = Descent.of(gram, np.full(8, 1 / 8), 1.0)
    start = problem.at(chances, lower)
    best, smooth = problem.run(start, 60, 1e3)
    assert not smooth
    assert best.slope.value <= start.slope.value


def test_the_core_uses_nothing_but_the_array_api() -> None:
    """The same code on a library that has exactly the standard's functions."""
    gram = gram_of(workload("prefix", 8))
    given = random_start(32, 8, 1.0, np.random.default_rng(0))
    arrays = [*given, gram, np.full(8, 1 / 8)]
    expected = descend(Descent.of(*arrays[2:], 1.0), *given, 30)
    moved = [strict.asarray(a) for a in arrays]
    found = descend(Descent.of(*moved[2:], 1.0), *moved[:2], 30)
    assert np.asarray(found) == pytest.approx(expected, rel=1e-6, abs=1e-9)
