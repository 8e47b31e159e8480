"""Weights of design sets, filled columns, eigen-designs, realisations: against convex solvers."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from explicit_oracles import kron, l1, l2, marginals, prefix, ranges, solved
from hypothesis import given
from hypothesis import strategies as st

from depth import examples, seeds
from noiseplan.errors import PlanError
from noiseplan.matrices import HaarMatrix, TreeMatrix
from noiseplan.optimize.optimum import dense_optimum
from noiseplan.strategies.column_norms import completed, scaled, supports, total_error
from noiseplan.strategies.eigen import (
    eigen_design,
    fourier_basis,
    fourier_strategy,
    principal_design,
    separated_design,
    singular_value_strategy,
)
from noiseplan.strategies.given_rows import Strategy, least_sensitivity
from noiseplan.strategies.weighting import best_weights, independent, weighted_rows

Array = np.ndarray


def gram(workload: Array) -> Array:
    return np.asarray(workload.T @ workload)


def random_workload(seed: int) -> Array:
    rng = np.random.default_rng(seed)
    rows, cells = int(rng.integers(1, 8)), int(rng.integers(2, 7))
    workload = rng.integers(-1, 2, size=(rows, cells)).astype(float)
    workload[0, 0] = 1.0
    return workload


# ---------------------------------------------------------------------- weights


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("power", [1, 2])
def test_weights_of_independent_rows_by_a_convex_solver(seed: int, power: int) -> None:
    rng = np.random.default_rng([7, seed])
    loads, costs = rng.uniform(0, 1, size=(5, 4)), rng.uniform(0.1, 3, 5)
    u = cp.Variable(5, pos=True)
    objective = cp.sum(cp.multiply(costs, cp.power(u, -power)))
    best = solved(cp.Problem(cp.Minimize(objective), [loads.T @ u <= 1]), 1e-8)
    found = best_weights(loads, costs, power)
    assert found.value == pytest.approx(best, rel=1e-5)
    assert found.bound <= found.value <= found.bound * (1 + 1e-6)
    assert (loads.T @ found.u).max() <= 1 + 1e-12
    assert (costs / found.u**power).sum() == pytest.approx(found.value, rel=1e-12)


@pytest.mark.grid
@pytest.mark.parametrize("workload", [ranges(4), prefix(5), ranges(8)])
@pytest.mark.parametrize("branching", [2, 3])
def test_weights_of_dependent_rows_by_a_convex_solver(workload: Array, branching: int) -> None:
    """A tree says everything twice: the weights of its rows are still a convex program."""
    rows = TreeMatrix(workload.shape[1], branching).dense()
    u = cp.Variable(len(rows), pos=True)
    spread = cp.matrix_frac(workload.T, rows.T @ cp.diag(u) @ rows)
    best = solved(cp.Problem(cp.Minimize(spread), [(rows**2).T @ u <= 1]), 1e-8)
    strategy, found = weighted_rows(rows, gram(workload))
    assert found.value == pytest.approx(best, rel=1e-4)
    assert found.bound <= best * (1 + 1e-6)
    assert l2(strategy) <= 1 + 1e-9
    assert total_error(strategy, gram(workload)) == pytest.approx(found.value, rel=1e-6)


@examples(40)
@given(st.integers(0, 10**6), st.sampled_from(["L1", "L2"]))
def test_weighting_never_hurts(seed: int, norm: str) -> None:
    """On invertible rows the result is at or below the rows as they are, and is what it says."""
    workload = random_workload(seed)
    cells = workload.shape[1]
    rows = HaarMatrix(cells).dense()
    strategy, found = weighted_rows(rows, gram(workload), norm)  # type: ignore[arg-type]
    plain = total_error(rows, gram(workload), norm)  # type: ignore[arg-type]
    assert found.value <= plain * (1 + 1e-9)
    assert found.bound <= found.value * (1 + 1e-9)
    sensitivity = l1(strategy) if norm == "L1" else l2(strategy)
    assert sensitivity <= 1 + 1e-9
    assert dense_optimum(gram(workload)).bound <= found.value * (1 + 1e-6)


def test_a_design_set_that_does_not_reach_every_query_is_refused() -> None:
    with pytest.raises(PlanError, match="does not determine every query"):
        weighted_rows(np.eye(3)[:2], gram(ranges(3)))
    assert independent(np.eye(3))
    assert not independent(TreeMatrix(3).dense())
    assert not independent(np.array([[1.0, 1.0], [1.0, 1.0]]))


def test_rows_that_no_query_needs_get_no_weight() -> None:
    rows, found = weighted_rows(np.eye(3), np.diag([1.0, 4.0, 0.0]))
    assert found.u.tolist()[2] == 0
    assert len(rows) == 2


# ---------------------------------------------------------------------- columns filled up


@examples(60)
@given(st.integers(0, 10**6), st.sampled_from(["L1", "L2"]))
def test_filling_up_is_free_and_never_hurts(seed: int, norm: str) -> None:
    rng = np.random.default_rng(seed)
    strategy = rng.standard_normal((6, 4))
    workload = rng.standard_normal((5, 4))
    filled = completed(strategy, norm)  # type: ignore[arg-type]
    size = l1 if norm == "L1" else l2
    assert size(filled) == pytest.approx(size(strategy), rel=1e-9)
    columns = np.abs(filled).sum(axis=0) if norm == "L1" else (filled**2).sum(axis=0)
    np.testing.assert_allclose(columns, columns.max(), rtol=1e-4)
    before = total_error(strategy, gram(workload), norm)  # type: ignore[arg-type]
    assert total_error(filled, gram(workload), norm) <= before * (1 + 1e-5)  # type: ignore[arg-type]


def test_even_columns_stay_as_they_are() -> None:
    assert completed(np.eye(3)) is not None
    assert len(completed(np.eye(3))) == 3
    assert len(completed(HaarMatrix(4).dense(), "L1")) == 4


def test_scaling_refuses_nothing_at_all() -> None:
    assert l1(scaled(np.array([[2.0, 4.0]]), "L1")) == 1
    with pytest.raises(PlanError, match="measures nothing"):
        scaled(np.zeros((2, 2)), "L2")


def test_support() -> None:
    assert supports(prefix(4), gram(ranges(4)))
    assert supports(np.ones((1, 4)), np.ones((4, 4)))
    assert not supports(np.ones((1, 4)), np.eye(4))


# ---------------------------------------------------------------------- eigen-designs


WORKLOADS = {
    "ranges": ranges(12),
    "prefix": prefix(12),
    "marginals": marginals((2, 3, 2), 2),
    "low rank": np.array([[1.0, 2, 0, 1], [0, 1, 1, 3]]),
    "unseen cell": np.array([[1.0, 0, 1], [1.0, 0, 0]]),
    "product": kron(prefix(3), ranges(3)),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_designs_answer_and_are_ordered(name: str) -> None:
    """The optimum is below all; separation and principal vectors have fewer choices to make."""
    asked = gram(WORKLOADS[name])
    best = dense_optimum(asked, 1e-8).bound
    full = total_error(eigen_design(asked, fill=False), asked)
    for strategy in (
        eigen_design(asked),
        separated_design(asked),
        separated_design(asked, 2),
        principal_design(asked),
        principal_design(asked, 50),
        singular_value_strategy(asked),
        singular_value_strategy(asked, fill=False),
    ):
        assert supports(strategy, asked)
        assert total_error(strategy, asked) >= best * (1 - 1e-6)
    for fewer in (separated_design(asked, 3, fill=False), principal_design(asked, 25, fill=False)):
        assert total_error(fewer, asked) >= full * (1 - 1e-6)
    assert total_error(eigen_design(asked), asked) <= full * (1 + 1e-8)


def test_one_group_and_all_principal_are_the_eigen_design() -> None:
    asked = gram(ranges(10))
    full = total_error(eigen_design(asked, fill=False), asked)
    for same in (separated_design(asked, 10, fill=False), principal_design(asked, 100, fill=False)):
        assert total_error(same, asked) == pytest.approx(full, rel=1e-3)
    assert total_error(principal_design(asked, 100, fill=False), asked) == pytest.approx(
        full, rel=1e-7
    )


@pytest.mark.parametrize("w", [prefix(6), ranges(5), np.array([[1.0, 2, 0, 1], [0, 1, 1, 3]])])
@pytest.mark.parametrize("norm", ["L1", "L2"])
def test_the_eigen_design_by_a_convex_solver(w: Array, norm: str) -> None:
    values, vectors = np.linalg.eigh(gram(w))
    keep = values > 1e-10 * values[-1]
    rows, power = vectors[:, keep], 1 if norm == "L2" else 2
    u = cp.Variable(int(keep.sum()), pos=True)
    loads = rows**2 if norm == "L2" else np.abs(rows)
    cost = cp.sum(cp.multiply(values[keep], cp.power(u, -power)))
    best = solved(cp.Problem(cp.Minimize(cost), [loads @ u <= 1]), 1e-8)
    strategy = eigen_design(gram(w), norm, fill=False)  # type: ignore[arg-type]
    assert total_error(strategy, gram(w), norm) == pytest.approx(best, rel=1e-5)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- Fourier


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8])
def test_the_fourier_basis_is_orthogonal(size: int) -> None:
    rows = fourier_basis(size)
    np.testing.assert_allclose(rows @ rows.T, size * np.eye(size), atol=1e-12)
    np.testing.assert_allclose(rows[0], 1)
    if size == 2:
        np.testing.assert_allclose(rows, [[1, 1], [1, -1]])


def test_all_fourier_rows_are_the_identity_in_disguise() -> None:
    asked = gram(kron(ranges(3), prefix(4)))
    rows = fourier_strategy((3, 4), asked)
    assert len(rows) == 12
    assert total_error(rows, asked) == pytest.approx(np.trace(asked))


# ---------------------------------------------------------------------- realisations


@pytest.mark.parametrize("shared", [0.0, 0.3, 0.8, -0.5])
def test_realisations_of_two_cells_by_trying_every_rotation(shared: float) -> None:
    profile = np.array([[1.0, shared], [shared, 1.0]])
    root = np.linalg.cholesky(profile).T
    turns = np.linspace(0, np.pi, 2001)
    tried = min(
        l1(np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]]) @ root) for t in turns
    )
    found = least_sensitivity(profile, extra_rows=0)
    np.testing.assert_allclose(found.T @ found, profile, atol=1e-10)
    assert l1(found) <= tried * (1 + 2e-3)


@pytest.mark.parametrize("n", [4, 6])
def test_realisations_keep_the_profile_and_beat_its_roots(n: int) -> None:
    best = dense_optimum(gram(ranges(n)), 1e-9).strategy
    profile = gram(best)
    found = least_sensitivity(profile)
    np.testing.assert_allclose(found.T @ found, profile, atol=1e-9)
    values, vectors = np.linalg.eigh(profile)
    symmetric = (vectors * np.sqrt(values)) @ vectors.T
    assert l1(found) <= l1(symmetric) * (1 + 1e-9)
    assert l1(found) <= l1(np.linalg.cholesky(profile).T) * (1 + 1e-9)
    assert l1(found) >= l2(found) - 1e-12


def test_a_singular_profile_has_a_realisation() -> None:
    profile = np.ones((3, 3))
    found = least_sensitivity(profile)
    np.testing.assert_allclose(found.T @ found, profile, atol=1e-10)
    assert l1(found) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (-np.eye(2), "positive semidefinite"),
        (np.zeros((2, 2)), "positive semidefinite"),
        (np.ones((2, 3)), "square"),
        (np.eye(129), "at most 128 cells"),
    ],
)
def test_what_is_no_profile(profile: Array, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        least_sensitivity(profile)


# ---------------------------------------------------------------------- rows of one's own


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["a"], "matrix of numbers"),
        ([1.0, 2.0], "two dimensions"),
        (np.zeros((0, 3)), "two dimensions"),
        ([[np.nan, 1.0]], "finite"),
        ([[0.0, 0.0]], "not only zeros"),
    ],
)
def test_what_is_no_strategy(rows: object, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Strategy(rows)  # type: ignore[arg-type]


def test_a_strategy_keeps_its_own_copy() -> None:
    rows = np.eye(2)
    strategy = Strategy(rows)
    rows[0, 0] = 5.0
    assert strategy.rows[0, 0] == 1.0
    with pytest.raises(PlanError, match="2 columns, and the domain has 3 cells"):
        strategy.matrix(np.eye(3), "L2")
    assert len(Strategy(np.array([[1.0, 0.5]]), filled=True).matrix(np.ones((2, 2)), "L2")) == 2
