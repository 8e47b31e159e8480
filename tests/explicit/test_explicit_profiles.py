"""Profiles, the refined order, what is free, SM-II, correlated noise, cells and their sum."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from correlated_gaussian import CorrelatedGaussian
from explicit_oracles import l2, least_total, prefix, solved
from hypothesis import given
from hypothesis import strategies as st
from identity_sum import fitness_optimum, squares_optimum

from depth import examples
from noiseplan.errors import NoiseplanError
from noiseplan.optimize.cost_profiles import Spare, compared, profile_of, refined_cost
from noiseplan.optimize.fitness import least_cost
from noiseplan.optimize.optimum import dense_optimum
from noiseplan.optimize.rows_with_targets import Demands
from noiseplan.optimize.sm2 import Effort, SmoothedMaximum, _start, sm2

# ------------------------------------------------------------------ the order and its least element


def test_profiles_are_compared_like_words() -> None:
    few = CorrelatedGaussian(np.array([[1, 1, 0], [0, 1, 1.0]]), np.eye(2))
    many = CorrelatedGaussian(np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1.0]]), np.eye(3))
    assert few.profile.tolist() == pytest.approx([1, 2, 1])
    assert many.profile.tolist() == pytest.approx([2, 2, 2])
    assert few.cost == pytest.approx(many.cost)
    assert compared(few.profile, many.profile) == -1
    assert compared(many.profile, few.profile) == 1
    assert compared(np.array([1.0, 2.0]), np.array([2.0, 1.0])) == 0


def lexicographic(rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The sorted profile of the refined optimum, by one convex program per level.

    Cells are fixed one at a time: the one whose own least cost, within the caps so far, is largest.
    """
    n = rows.shape[1]
    caps: dict[int, float] = {}

    def least(cells: list[int]) -> float:
        x = cp.Variable((n, n), PSD=True)
        limits = [cp.matrix_frac(w, x) <= c for w, c in zip(rows, targets, strict=True)]
        limits += [x[i, i] <= cap * (1 + 1e-5) for i, cap in caps.items()]
        problem = cp.Problem(cp.Minimize(cp.max(cp.hstack([x[i, i] for i in cells]))), limits)
        return solved(problem, 1e-8)

    while len(caps) < n:
        left = [i for i in range(n) if i not in caps]
        level = least(left)
        # A cell must be at the level if lowering it alone, with the others capped there, fails.
        needs = []
        for i in left:
            x = cp.Variable((n, n), PSD=True)
            limits = [cp.matrix_frac(w, x) <= c for w, c in zip(rows, targets, strict=True)]
            limits += [x[k, k] <= cap * (1 + 1e-5) for k, cap in caps.items()]
            limits += [x[k, k] <= level * (1 + 1e-5) for k in left]
            needs.append(solved(cp.Problem(cp.Minimize(x[i, i]), limits), 1e-8))
        for i, need in zip(left, needs, strict=True):
            if need >= level * (1 - 2e-3) or need == max(needs):
                caps[i] = level
    return np.sort(list(caps.values()))[::-1]


@pytest.mark.parametrize(
    ("targets", "profile"),
    [([1.0, 4.0], [1.0, 0.25]), ([1.0, 4.0, 2.0, 3.0], [1.0, 0.25, 0.5, 1 / 3])],
)
def test_separate_counts_each_pay_what_they_need(
    targets: list[float], profile: list[float]
) -> None:
    found = refined_cost(np.eye(len(targets)), np.array(targets))
    np.testing.assert_allclose(found.profile, profile, rtol=1e-6)
    assert found.cost == pytest.approx(1.0, rel=1e-7)


BLOCKS = np.array([[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1.0]])
REFINED = [
    (BLOCKS, np.array([1, 1, 3, 3.0])),
    (np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 1.0]]), np.array([1, 5, 1, 9.0])),
    (np.vstack([np.eye(3), [[1, 1, 0]]]), np.array([1, 3, 8, 1.0])),
    (np.vstack([prefix(3), [[0, 0, 1]]]), np.array([4, 1, 9, 0.3])),
]


@pytest.mark.parametrize("case", range(len(REFINED)))
def test_the_refined_optimum_against_one_program_per_level(case: int) -> None:
    rows, targets = REFINED[case]
    found = refined_cost(rows, targets)
    plain = least_cost(rows, targets, tolerance=1e-8)
    assert found.cost == pytest.approx(plain.cost, rel=1e-6)
    np.testing.assert_allclose(
        np.sort(found.profile)[::-1], lexicographic(rows, targets), rtol=5e-3, atol=1e-4
    )
    inverse = np.linalg.inv(found.strategy.T @ found.strategy)
    assert (np.einsum("ij,jk,ik->i", rows, inverse, rows) <= targets * (1 + 1e-7)).all()
    assert compared(found.profile, plain.profile, 1e-5) <= 0


# ------------------------------------------------------------------ what is free


def test_room_below_the_cost_is_free() -> None:
    strategy = np.array([[1, 1, 0], [0, 1, 1.0]])
    spare = Spare.of(strategy)
    assert spare.room.tolist() == [1, 0, 1]
    wanted = np.array([[1, 0, 1.0]])
    extra = np.concatenate([strategy, spare.measuring(wanted.T @ wanted)])
    assert l2(extra) == pytest.approx(l2(strategy))
    before, after = (a.T @ a for a in (strategy, extra))
    assert np.linalg.eigvalsh(after - before)[0] >= -1e-12, "nothing was taken away"
    np.testing.assert_allclose(profile_of(extra), 2.0)
    inverse = np.linalg.pinv(extra)
    answered = np.array([1, 0, 1.0]) @ inverse
    np.testing.assert_allclose(answered @ extra, [1, 0, 1], atol=1e-9)
    assert answered @ answered <= 1.0 + 1e-6, "no worse than measuring it directly"


def test_without_room_nothing_is_added() -> None:
    strategy = np.eye(3)
    spare = Spare.of(strategy)
    assert not spare.room.any()
    assert not len(spare.measuring(np.ones((3, 3))))
    assert Spare.of(strategy, cost=4.0).room.tolist() == [3, 3, 3]
    with pytest.raises(NoiseplanError, match="above the cost"):
        Spare.of(strategy, cost=0.5)


def test_refined_profiles_leave_room_that_plain_ones_do_not() -> None:
    rows, targets = np.eye(2), np.array([1.0, 4.0])
    spare = Spare.of(refined_cost(rows, targets).strategy, cost=1.0 + 1e-9)
    assert spare.room[1] == pytest.approx(0.75, abs=1e-6)


# ------------------------------------------------------------------ SM-II


def _point(seed: int, k: int = 3) -> SmoothedMaximum:
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((k, k))
    rows, cells = rng.standard_normal((5, k)), rng.standard_normal((k, 4))
    return SmoothedMaximum(rows, cells, root @ root.T + np.eye(k), 1.7, 2.3)


def _value(point: SmoothedMaximum, sigma: np.ndarray) -> float:
    return SmoothedMaximum(point.rows, point.cells, sigma, 1.7, 2.3, point.total).value


@pytest.mark.parametrize("weight", [0.0, 0.4])
def test_gradient_and_hessian_by_differences(weight: float) -> None:
    base = _point(0)
    total = weight * base.rows.T @ base.rows
    point = SmoothedMaximum(base.rows, base.cells, base.sigma, 1.7, 2.3, total)
    rng = np.random.default_rng(1)
    for _ in range(4):
        x = rng.standard_normal((3, 3))
        x = x + x.T
        h = 1e-5
        slope = (_value(point, point.sigma + h * x) - _value(point, point.sigma - h * x)) / (2 * h)
        assert np.sum(point.gradient() * x) == pytest.approx(slope, rel=1e-7, abs=1e-7)
        ends = [
            SmoothedMaximum(point.rows, point.cells, point.sigma + s * h * x, 1.7, 2.3, total)
            for s in (1, -1)
        ]
        bend = (ends[0].gradient() - ends[1].gradient()) / (2 * h)
        np.testing.assert_allclose(point.hessian_times(x), bend, atol=1e-6)


def test_the_published_hessian_is_another() -> None:
    """With its factor t₁ on the first term the finite differences disagree."""
    point, x = _point(2), np.diag([1.0, 2.0, 0.5])
    of_costs = point._cost_gradient()
    first = -(of_costs @ x @ point.inverse + point.inverse @ x @ of_costs)
    printed = point.hessian_times(x) + 0.7 * first
    h = 1e-5
    ends = [
        SmoothedMaximum(point.rows, point.cells, point.sigma + s * h * x, 1.7, 2.3) for s in (1, -1)
    ]
    bend = (ends[0].gradient() - ends[1].gradient()) / (2 * h)
    assert np.abs(printed - bend).max() > 1e-2
    np.testing.assert_allclose(point.hessian_times(x), bend, atol=1e-6)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("conjugate_steps", "newton_tolerance", "low", "high"),
    [(5, 1e-3, 4.468, 4.482), (5, 1e-5, 4.4579, 4.4583), (50, 1e-5, 4.45786, 4.4580)],
)
def test_solver_quality(
    conjugate_steps: int, newton_tolerance: float, low: float, high: float
) -> None:
    """Prefix sums over 64 cells in their own basis; the optimum is 4.457869."""
    found = sm2(prefix(64), basis=prefix(64), effort=Effort(conjugate_steps, newton_tolerance))
    assert low <= found.cost <= high
    inverse = np.linalg.inv(found.strategy)
    assert np.sum((prefix(64) @ inverse) ** 2, axis=1).max() == pytest.approx(1.0)


def test_sm2_does_not_refine() -> None:
    """With equal sharpness it settles in the middle of what is allowed: diag(1, 2), not (1, 4)."""
    found = sm2(np.eye(2), np.array([1.0, 4.0]), effort=Effort(50, 1e-9))
    np.testing.assert_allclose(found.profile, [1.0, 0.5], rtol=1e-3)


def _variances(rows: np.ndarray, strategy: np.ndarray) -> np.ndarray:
    return np.asarray(np.einsum("ij,jk,ik->i", rows, np.linalg.pinv(strategy.T @ strategy), rows))


@pytest.mark.parametrize("weight", [0.05, 0.5, 5.0])
def test_the_hybrid_is_that_of_a_convex_solver(weight: float) -> None:
    """max g + max h + λ Σ variances over Σ, by cvxpy; equal rows count twice in the total."""
    rows = np.vstack([prefix(4), prefix(4)[3:], np.eye(4)[:1]])
    targets = np.array([1.0, 2.0, 3.0, 4.0, 4.0, 1.0])
    sigma = cp.Variable((4, 4), PSD=True)
    costs = [cp.matrix_frac(cell, sigma) for cell in np.eye(4)]
    ratios = [
        cp.trace(np.outer(row, row) @ sigma) / t for row, t in zip(rows, targets, strict=True)
    ]
    total = cp.trace(rows.T @ rows @ sigma)
    cp.Problem(
        cp.Minimize(cp.max(cp.hstack(costs)) + cp.max(cp.hstack(ratios)) + weight * total)
    ).solve(solver="CLARABEL")
    scale = max(ratio.value for ratio in ratios)
    found = sm2(rows, targets, total_weight=weight, effort=Effort(50, 1e-8))
    assert found.cost == pytest.approx(max(cost.value for cost in costs) * scale, rel=2e-3)
    variances = _variances(rows, found.strategy)
    assert (variances / targets).max() == pytest.approx(1.0)
    assert variances.sum() == pytest.approx(total.value / scale, rel=2e-3)


def test_the_hybrid_goes_from_targets_to_the_total() -> None:
    rows = prefix(8)
    plain = [sm2(rows, total_weight=weight) for weight in (0.0, 0.1, 1.0, 20.0)]
    products = [found.cost * _variances(rows, found.strategy).sum() for found in plain]
    assert products == sorted(products, reverse=True)
    assert products[-1] == pytest.approx(dense_optimum(rows.T @ rows).value, rel=1e-3)
    assert [found.cost for found in plain] == sorted(found.cost for found in plain)


def test_a_start_of_ones_own() -> None:
    rows, targets = prefix(6)[1:], np.linspace(1, 2, 5)  # two cells that no row tells apart
    tree = np.vstack([np.eye(6), np.kron(np.eye(2), np.ones((1, 3)))])
    demands = Demands.of(rows, targets, None)
    point = _start(demands, np.eye(len(demands.cells)), tree, 0.0)
    spread = point.rows @ point.sigma @ point.rows.T
    lone = rows / np.sqrt(targets)[:, None] @ np.linalg.pinv(tree)
    assert np.diagonal(spread).max() == pytest.approx(0.99)
    np.testing.assert_allclose(spread / spread[0, 0], lone @ lone.T / (lone @ lone.T)[0, 0])
    best = least_cost(rows, targets)
    found = sm2(rows, targets, start=tree, effort=Effort(50, 1e-7))
    assert found.cost == pytest.approx(best.cost, rel=1e-3)
    near = sm2(rows, targets, start=best.strategy, basis=rows)
    assert near.cost == pytest.approx(best.cost, rel=5e-3)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"start": np.eye(4)[:2]}, "does not determine every row"),
        ({"start": np.eye(3)}, "3 columns, and the workload 4"),
        ({"start": np.full((4, 4), np.nan)}, "finite"),
        ({"total_weight": -1.0}, "at least 0"),
        ({"total_weight": np.inf}, "at least 0"),
    ],
)
def test_starts_and_weights_that_make_no_sense(how: dict[str, Any], message: str) -> None:
    with pytest.raises(NoiseplanError, match=message):
        sm2(prefix(4), **how)


@examples(25)
@given(st.integers(0, 10**6))
def test_sm2_is_never_below_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.vstack([np.eye(3), rng.integers(0, 2, size=(3, 3))]) * 1.0
    targets = rng.uniform(1, 4, 6)
    assert sm2(rows, targets).cost >= least_cost(rows, targets).bound * (1 - 1e-9)


# ------------------------------------------------------------------ correlated noise


def test_the_basis_is_a_choice_of_computation_only() -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        basis, root = rng.standard_normal((3, 5)), rng.standard_normal((3, 3))
        one = CorrelatedGaussian(basis, root @ root.T + 0.1 * np.eye(3))
        other = one.in_basis(rng.standard_normal((3, 3)) @ basis)
        rows = rng.standard_normal((4, 3)) @ basis
        np.testing.assert_allclose(one.covariance(rows), other.covariance(rows), rtol=1e-6)
        for a, b in ((one, other),):
            x, y = (m.basis.T @ np.linalg.inv(m.sigma) @ m.basis for m in (a, b))
            np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-8 * np.abs(x).max())
            np.testing.assert_allclose(a.strategy().T @ a.strategy(), x, rtol=1e-8)


def test_samples_have_the_covariance_that_is_stated() -> None:
    noise = CorrelatedGaussian(prefix(2), np.array([[1.0, 0.5], [0.5, 1.0]]))
    rows = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    strategy, rng = noise.strategy(), np.random.default_rng(7)
    draws = rows @ np.linalg.pinv(strategy) @ rng.standard_normal((2, 200_000))
    # Standard errors of sample covariances are below 0.01 here; six of them.
    np.testing.assert_allclose(np.cov(draws), noise.covariance(rows), atol=0.06)


def test_personal_privacy() -> None:
    noise = CorrelatedGaussian(np.eye(2), np.diag([1.0, 25.0]))
    np.testing.assert_allclose(noise.personal_delta(1.0), [0.1269367375, 1.754633e-8], rtol=1e-6)
    np.testing.assert_allclose(noise.personal_epsilon(1e-6), [4.8865541, 0.8341175], rtol=1e-6)


def test_bad_correlated_noise_is_refused() -> None:
    with pytest.raises(NoiseplanError, match="2 × 2"):
        CorrelatedGaussian(np.eye(2), np.eye(3))
    with pytest.raises(NoiseplanError, match="independent"):
        CorrelatedGaussian(np.ones((2, 3)), np.eye(2))
    with pytest.raises(NoiseplanError, match="positive definite"):
        CorrelatedGaussian(np.eye(2), np.diag([1.0, -1.0]))
    with pytest.raises(NoiseplanError, match="combinations"):
        CorrelatedGaussian(np.eye(3)[:2], np.eye(2)).covariance(np.eye(3))


# ------------------------------------------------------------------ cells and their sum


@pytest.mark.parametrize(
    ("d", "k", "a", "b", "cost"),
    [
        (5, 1, 1.2, -0.2, 5 / 3), (8, 1, 1.125, -0.125, 16 / 9), (2, 1, 1.5, -0.5, 4 / 3),
        (8, 4, 15 / 14, -1 / 14, 16 / 15), (16, 4, 1.05, -0.05, 8 / 7), (8, 8, 1, 0, 1),
        (8, 12, 1, 0, 1),
    ],
)  # fmt: skip
def test_targets_for_cells_and_their_sum(d: int, k: float, a: float, b: float, cost: float) -> None:
    noise = fitness_optimum(d, 1.0, k)
    assert (noise.a, noise.b, noise.cost) == pytest.approx((a, b, cost))
    rows = np.vstack([np.eye(d), np.ones((1, d))])
    found = least_cost(rows, np.append(np.ones(d), k), tolerance=1e-8)
    assert found.cost == pytest.approx(cost, rel=1e-7)
    assert fitness_optimum(d, 3.0, 3.0 * k).cost == pytest.approx(cost / 3)


@pytest.mark.parametrize(
    ("d", "w2", "value"),
    [(5, 1, 8.3191836), (8, 1, 12.5), (10, 4, 11.8174916), (20, 16, 21.0125), (64, 2, 73.8408577)],
)
def test_squares_for_cells_and_their_sum(d: int, w2: float, value: float) -> None:
    noise = squares_optimum(d, 1.0, w2**0.5)
    assert noise.cost == pytest.approx(1.0)
    assert d * noise.cell_variance + noise.sum_variance / w2 == pytest.approx(value, abs=1e-7)
    rows = np.vstack([np.eye(d), np.ones((1, d)) / w2**0.5])
    assert dense_optimum(rows.T @ rows, 1e-9).value == pytest.approx(value, rel=1e-8)
    if d <= 8:
        assert least_total(rows) == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize(
    ("d", "of_sum", "of_cells"),
    [(5, 1.579796, 0.682343), (16, 2.463956, 0.604888), (64, 4.475955, 0.556131),
     (256, 8.486252, 0.529479), (1024, 16.492666, 0.515160)],
)  # fmt: skip
def test_squares_overshoot_the_sum(d: int, of_sum: float, of_cells: float) -> None:
    """Theorem 8: at the cost where every target could be met, least squares misses the sum's."""
    noise = squares_optimum(d, fitness_optimum(d).cost)
    assert noise.sum_variance == pytest.approx(of_sum, abs=1e-6)
    assert noise.cell_variance == pytest.approx(of_cells, abs=1e-6)


def test_sums_without_a_closed_form_are_refused() -> None:
    with pytest.raises(NoiseplanError, match="two cells"):
        fitness_optimum(1)
    with pytest.raises(NoiseplanError, match="dense_optimum"):
        squares_optimum(3, w=1.0)
