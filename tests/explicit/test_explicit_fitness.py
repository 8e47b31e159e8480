"""Fitness for use: least cost for targets, certified; against published values and cvxpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from explicit_oracles import l2, least_worst, marginals, prefix, random_ranges, ranges
from hypothesis import given
from hypothesis import strategies as st

from depth import examples, seeds
from noiseplan.errors import NoiseplanError
from noiseplan.matrices import PrefixMatrix, RangesMatrix
from noiseplan.optimize.fitness import Fitness, least_cost


def pl94() -> np.ndarray:
    """Voting age × ethnicity × race: three one-way tables and the cells."""
    sizes = (2, 2, 63)
    return np.vstack([marginals(sizes, 1), np.eye(252)])


def pyramids(adults: bool) -> np.ndarray:
    """Ages up to every x for males, females and both, and the adults if asked for."""
    ages = np.vstack([prefix(116), (np.arange(116) >= 18).astype(float)[None]])
    ages = ages if adults else ages[:-1]
    return np.kron(np.array([[1.0, 0], [0, 1], [1, 1]]), ages)


def least_scaling(found: Fitness, budget: float) -> tuple[Fitness, float]:
    """The smallest common factor κ of the targets that a cost allows is α/budget (Theorem 5)."""
    scaling = found.cost / budget
    strategy, bound = found.strategy / np.sqrt(scaling), found.bound / scaling
    return replace(found, strategy=strategy, cost=budget, bound=bound), scaling


def check(rows: np.ndarray, targets: float | np.ndarray, found: Fitness, gap: float) -> None:
    """Targets are met, the cost is what it says, the bound can be recomputed from the prices."""
    inverse = np.linalg.pinv(found.strategy, rcond=1e-10)
    np.testing.assert_allclose(rows @ inverse @ found.strategy, rows, atol=1e-7)
    ratios = np.sum((rows @ inverse) ** 2, axis=1) / targets
    assert ratios.max() <= 1 + 1e-8
    assert ratios.max() == pytest.approx(1.0, rel=1e-6), "no target is overfulfilled"
    assert l2(found.strategy) ** 2 == pytest.approx(found.cost, rel=1e-12)
    assert found.row_prices.sum() == pytest.approx(1.0)
    assert found.cell_prices.sum() == pytest.approx(1.0)
    weights = np.sqrt(found.row_prices / targets)[:, None]
    dual = weights * rows * np.sqrt(found.cell_prices)
    nuclear = np.linalg.svd(dual, compute_uv=False).sum() ** 2
    assert found.bound == pytest.approx(nuclear, rel=1e-9)
    assert found.bound <= nuclear
    assert -1e-12 <= found.gap <= gap


# Certified squared costs of prefix sums with unit targets.
PREFIX = {
    2: 4 / 3, 3: 1.5705034, 4: 1.7586013, 8: 2.2815606, 16: 2.9052529, 32: 3.6307234, 64: 4.4578692,
    128: 5.3860865, 256: 6.4146510,
}  # fmt: skip


@pytest.mark.parametrize("n", PREFIX)
def test_prefix(n: int) -> None:
    found = least_cost(PrefixMatrix(n), tolerance=1e-8)
    assert found.cost == pytest.approx(PREFIX[n], abs=6e-8)
    check(np.tril(np.ones((n, n))), 1.0, found, 1e-8)


def test_two_prefix_sums_in_closed_form() -> None:
    found = least_cost(prefix(2), tolerance=1e-10)
    sigma = prefix(2) @ np.linalg.inv(found.strategy.T @ found.strategy) @ prefix(2).T
    np.testing.assert_allclose(sigma, [[1, 0.5], [0.5, 1]], atol=1e-5)
    np.testing.assert_allclose(found.profile, [4 / 3, 4 / 3], rtol=1e-6)


def test_the_paper_s_first_example() -> None:
    rows = np.array([[0, 1, 0, 1], [0, 0, 1, 1], [1, 1, 1, 1.0]])
    found = least_cost(rows, tolerance=1e-10)
    assert found.cost == pytest.approx(5 / 3, rel=1e-9)
    np.testing.assert_allclose(found.profile, np.full(4, 5 / 3), rtol=1e-6)
    inverse = np.linalg.pinv(found.strategy)
    sigma = rows @ inverse @ inverse.T @ rows.T
    np.testing.assert_allclose(sigma, [[1, 0.25, 0.5], [0.25, 1, 0.5], [0.5, 0.5, 1]], atol=1e-5)
    # Theorem 10: every optimum is bounded away from singular.
    gram = np.linalg.eigvalsh(rows @ rows.T)[0]
    chi = gram / 4 / (rows**2).sum(axis=0).max()
    assert (gram, chi) == (pytest.approx(0.62772, abs=1e-5), pytest.approx(0.05231, abs=1e-5))
    assert np.linalg.eigvalsh(sigma)[0] == pytest.approx(0.40693, abs=1e-4)
    within, scaling = least_scaling(found, budget=1.0)
    assert scaling == pytest.approx(5 / 3, rel=1e-9)
    check(rows, scaling, within, 1e-9)


def test_pl94() -> None:
    rows = pl94()
    found = least_cost(rows, tolerance=1e-7)
    check(rows, 1.0, found, 1e-7)
    assert found.cost == pytest.approx(3.01343215, rel=2e-7)
    shares = np.split(found.row_prices, [2, 4, 67])
    np.testing.assert_allclose(
        [part.sum() for part in shares], [0.24169, 0.24169, 0.30867, 0.20794], atol=2e-5
    )


# Three attributes of size t, all one- and two-way tables: exact by symmetry.
MARGINALS = {2: 2.182453, 4: 3.471896, 6: 4.119431, 8: 4.504425}


@pytest.mark.parametrize("t", MARGINALS)
def test_marginals(t: int) -> None:
    rows = np.vstack([marginals((t,) * 3, 1), marginals((t,) * 3, 2)])
    found = least_cost(rows, tolerance=1e-7)
    assert found.cost == pytest.approx(MARGINALS[t], abs=1e-6)
    check(rows, 1.0, found, 1e-7)


@pytest.mark.parametrize(("adults", "cost"), [(True, 7.1154058), (False, 6.9975090)])
def test_age_pyramids(adults: bool, cost: float) -> None:
    rows = pyramids(adults)
    found = least_cost(rows, tolerance=1e-6)
    assert found.cost == pytest.approx(cost, rel=1.1e-6)
    check(rows, 1.0, found, 1e-6)


def test_random_ranges_with_targets() -> None:
    rows = random_ranges(64, 128, seed=0)
    targets = np.random.default_rng(1).uniform(1, 10, 128)
    check(rows, targets, least_cost(rows, targets, tolerance=1e-7), 1e-7)


def _case(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 2, size=(int(rng.integers(1, 8)), int(rng.integers(1, 6)))) * 1.0
    rows[0, 0] = 1.0
    return rows, rng.uniform(0.5, 4.0, len(rows))


@pytest.mark.parametrize("seed", seeds(14))
def test_against_a_semidefinite_solver(seed: int) -> None:
    rows, targets = _case(seed)
    found = least_cost(rows, targets, tolerance=1e-6)
    check(rows, targets, found, 1e-6)
    asked = rows.any(axis=1)
    assert found.cost == pytest.approx(least_worst(rows[asked], targets[asked]), rel=2e-5)


@examples(50)
@given(st.integers(0, 10**6))
def test_properties(seed: int) -> None:
    rows, targets = _case(seed)
    found = least_cost(rows, targets)
    check(rows, targets, found, 1e-6)
    # Targets k times as large cost a k-th; a budget divides what is left.
    assert least_cost(rows, 5 * targets).cost == pytest.approx(found.cost / 5, rel=3e-6)
    within, scaling = least_scaling(found, budget=0.25)
    check(rows, scaling * targets, within, 1e-6)
    assert within.cost == pytest.approx(l2(within.strategy) ** 2, rel=1e-12)
    # Any strategy and any prices stay on their sides.
    rng = np.random.default_rng(seed)
    mu, lam = rng.dirichlet(np.ones(len(rows))), rng.dirichlet(np.ones(rows.shape[1]))
    dual = np.sqrt(mu / targets)[:, None] * rows * np.sqrt(lam)
    assert np.linalg.svd(dual, compute_uv=False).sum() ** 2 <= found.cost * (1 + 1e-9)
    square = rng.standard_normal((rows.shape[1],) * 2)
    cost = square.T @ square
    ratio = np.einsum("ij,jk,ik->i", rows, np.linalg.pinv(cost), rows) / targets
    assert np.diagonal(cost).max() * ratio.max() >= found.bound * (1 - 1e-9)


def test_rows_and_matrices_say_the_same() -> None:
    for matrix, rows in ((PrefixMatrix(9), prefix(9)), (RangesMatrix(7), ranges(7))):
        one, other = least_cost(matrix, tolerance=1e-8), least_cost(rows, tolerance=1e-8)
        assert one.cost == pytest.approx(other.cost, rel=2e-8)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("targets", ["one", "each"])
def test_very_many_rows_have_the_same_optimum(
    dense: bool, targets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the fixed point of prices what Newton's method finds, with a certificate of its own."""
    rows = RangesMatrix(24)
    wanted = 1.0 if targets == "one" else np.random.default_rng(0).uniform(1, 5, rows.shape[0])
    whole = least_cost(rows, wanted, tolerance=1e-7)
    monkeypatch.setattr("noiseplan.optimize.fitness.FEW_ROWS", 100)
    found = least_cost(rows.dense() if dense else rows, wanted, tolerance=1e-5)
    assert found.cost == pytest.approx(whole.cost, rel=1.1e-5)
    check(rows.dense(), wanted, found, 1e-5)


def test_very_many_rows_of_low_rank_and_personal_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    rows = rng.integers(-2, 3, size=(300, 4)) @ rng.integers(0, 3, size=(4, 30)).astype(float)
    limits = rng.uniform(0.5, 2.0, size=30)
    whole = least_cost(rows, limits=limits, tolerance=1e-7)
    monkeypatch.setattr("noiseplan.optimize.fitness.FEW_ROWS", 50)
    found = least_cost(rows, limits=limits, tolerance=1e-5)
    assert found.cost == pytest.approx(whole.cost, rel=1.1e-5)
    variances = np.einsum(
        "ij,jk,ik->i", rows, np.linalg.pinv(found.strategy.T @ found.strategy), rows
    )
    assert variances.max() <= 1 + 1e-9
    assert (found.profile / limits).max() == pytest.approx(found.cost)


def test_repeated_rows_and_cells_change_nothing() -> None:
    rows, targets = prefix(4), np.array([1.0, 2.0, 1.0, 3.0])
    found = least_cost(rows, targets, tolerance=1e-8)
    again = np.vstack([rows, -2.0 * rows[2:3], np.zeros((1, 4))])
    again = np.hstack([again, again[:, :1], np.zeros((6, 1))])
    wider = np.concatenate([targets, [4.0 * 9.0, 1.0]])  # the copy asks for less
    repeated = least_cost(again, wider, tolerance=1e-8)
    assert repeated.cost == pytest.approx(found.cost, rel=3e-8)
    check(again, wider, repeated, 1e-8)
    demanding = least_cost(again, np.concatenate([targets, [2.0, 1.0]]), tolerance=1e-8)
    assert demanding.cost > found.cost * 1.01


def test_personal_limits() -> None:
    """Cells may cost different multiples of α: the same problem with scaled columns."""
    rows, limits = prefix(4), np.array([1.0, 2.0, 0.5, 4.0])
    found = least_cost(rows, limits=limits, tolerance=1e-8)
    assert (found.profile <= limits * found.cost * (1 + 1e-12)).all()
    assert (found.profile / limits).max() == pytest.approx(found.cost)
    plain = least_cost(rows / np.sqrt(limits), tolerance=1e-8)
    assert found.cost == pytest.approx(plain.cost, rel=2e-8)
    inverse = np.linalg.inv(found.strategy.T @ found.strategy)
    assert np.einsum("ij,jk,ik->i", rows, inverse, rows).max() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("rows", "targets", "words"),
    [
        (np.ones(3), 1.0, "matrix"),
        (np.array([[np.inf, 1.0]]), 1.0, "finite"),
        (np.zeros((2, 2)), 1.0, "only zeros"),
        (np.eye(2), np.ones(3), "one target per row"),
        (np.eye(2), 0.0, "positive"),
        (np.eye(2), np.array([1.0, np.nan]), "positive"),
    ],
)
def test_what_cannot_be_met_is_refused(rows: object, targets: object, words: str) -> None:
    with pytest.raises(NoiseplanError, match=words):
        least_cost(rows, targets)


def test_bad_limits_are_refused() -> None:
    with pytest.raises(NoiseplanError, match="one limit per cell"):
        least_cost(np.eye(2), limits=np.ones(3))
    with pytest.raises(NoiseplanError, match="positive finite"):
        least_cost(np.eye(2), limits=np.array([1.0, 0.0]))
