"""Explicit mechanisms against the worked examples, a conic solver, and their own definitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depth import examples, seeds
from noiseplan.choosing.linear_gaussian import (
    LinearGaussian,
    Recreation,
    chain,
    common_mechanism,
    residual,
)
from noiseplan.choosing.loewner import intersection, least_bound
from noiseplan.errors import PlanError
from oracles import conic_least_trace, marginal_matrix

ONES = np.ones((1, 3))


def smallest(matrix: np.ndarray) -> float:
    return float(np.linalg.eigvalsh((matrix + matrix.T) / 2).min())


# ---------------------------------------------------------------------- one from another


def test_answerability_both_ways() -> None:
    a = LinearGaussian([[1, 1], [1, 0], [0, 1]], 2.0)
    b = LinearGaussian(np.eye(2), np.array([[4, -2], [-2, 4]]) / 3)
    assert np.allclose(a.cost_matrix, [[1, 0.5], [0.5, 1]])
    assert a.equivalent(b)
    assert a.privacy.rho == b.privacy.rho == pytest.approx(0.5)
    to_b, none = a.conversion(b)
    assert np.allclose(to_b, np.array([[1, 2, -1], [1, -1, 2]]) / 3)
    assert np.allclose(none, 0, atol=1e-7)
    to_a, k = b.conversion(a)
    v = np.array([1.0, -1, -1])
    assert np.allclose(to_a, [[1, 1], [1, 0], [0, 1]])
    assert np.allclose(k @ k.T, 2 / 3 * np.outer(v, v))


def test_a_noisier_total_is_answerable_and_not_the_other_way_round() -> None:
    fine, coarse = LinearGaussian(np.eye(3)), LinearGaussian(ONES, 4.0)
    assert fine.answers(coarse)
    assert not coarse.answers(fine)
    with pytest.raises(PlanError, match="tells more"):
        coarse.conversion(fine)


def test_privacy_of_each_kind_of_record() -> None:
    mechanism = LinearGaussian([[1, 0, 0], [1, 1, 0]], np.diag([1.0, 4.0]))
    assert np.allclose(mechanism.personal_costs, [1.25, 0.25, 0.0])
    assert mechanism.privacy.pcost == 1.25
    both = mechanism.together(mechanism)
    assert np.allclose(both.cost_matrix, 2 * mechanism.cost_matrix)


def test_standardising_keeps_the_cost_matrix() -> None:
    mechanism = LinearGaussian(np.array([[1, 1, 0], [0, 1, 1], [1, 2, 1.0]]), np.eye(3) + 0.3)
    plain = mechanism.standardised()
    assert plain.rows == 2  # the third row is the sum of the first two
    assert np.allclose(plain.cost_matrix, mechanism.cost_matrix)
    assert np.array_equal(plain.covariance, np.eye(2))


# ---------------------------------------------------------------------- the worked examples


def test_a_total_and_a_table_with_its_total() -> None:
    first = LinearGaussian(ONES, 1.0)
    second = LinearGaussian(np.vstack([ONES, np.eye(3)]), 2.0)
    common = common_mechanism([first, second])
    assert np.allclose(common.best_covariance(ONES), 1.5)
    assert common.privacy.pcost == pytest.approx(2 / 3)
    assert (first.privacy.pcost, second.privacy.pcost) == pytest.approx((1.0, 1.0))
    for noisier in (1.5, 2.0):
        assert common.answers(LinearGaussian(ONES, noisier))
    assert not common.answers(LinearGaussian(ONES, 1.49))
    weights, none = second.conversion(LinearGaussian(ONES, 1.5))
    assert np.allclose(weights, [[0.75, 0.25, 0.25, 0.25]])
    assert np.allclose(none, 0, atol=1e-7)
    assert np.allclose(residual(first, common).cost_matrix, np.ones((3, 3)) / 3)
    left = residual(second, common)
    assert left.rows == 2
    assert np.allclose(left.cost_matrix, 0.5 * (np.eye(3) - np.ones((3, 3)) / 3))


def test_two_marginals_of_a_square_table() -> None:
    first = LinearGaussian(marginal_matrix((3, 3), [0]))
    second = LinearGaussian(marginal_matrix((3, 3), [1]))
    common = common_mechanism([first, second])
    assert common.rows == 1
    assert np.allclose(common.best_covariance(np.ones((1, 9))), 3.0)
    # The residual may be measured by any queries with the same cost matrix: these, for example.
    n_a, n_b, n_c = first.queries
    by_hand = LinearGaussian([n_b - n_c, n_b - n_a], [[2, 1], [1, 2]])
    assert by_hand.equivalent(residual(first, common))
    again = Recreation.of(first, LinearGaussian(np.ones((1, 9)), 3.0), by_hand)
    assert np.allclose(again.from_common, np.full((3, 1), 1 / 3))
    assert np.allclose(again.from_residual, np.array([[1, -2], [1, 1], [-2, 1]]) / 3)
    assert np.allclose(again.covariance, np.eye(3))


def test_noise_down() -> None:
    fine, coarse = LinearGaussian(np.eye(1), 1.0), LinearGaussian(np.eye(1), 3.0)
    common = common_mechanism([fine, coarse])
    assert common.equivalent(coarse)
    assert residual(coarse, common).rows == 0
    left = residual(fine, common)
    assert np.allclose(left.cost_matrix, 1 / 1.5)
    again = Recreation.of(fine, LinearGaussian(np.eye(1), 3.0), LinearGaussian(np.eye(1), 1.5))
    assert np.allclose([again.from_common, again.from_residual], [[[1 / 3]], [[2 / 3]]])
    assert np.allclose(again.covariance, 1.0)


def marginals(sizes: tuple[int, ...], sets: list[tuple[int, ...]]) -> LinearGaussian:
    """Independent noise of one variance on some tables, at 2ρ = 1."""
    return LinearGaussian(np.vstack([marginal_matrix(sizes, s) for s in sets]), float(len(sets)))


BINARY = (2,) * 7
ONE_WAY = marginals(BINARY, [(i,) for i in range(7)])
TWO_WAY = marginals(BINARY, [(i, j) for i in range(7) for j in range(i)])
CELL = marginal_matrix(BINARY, [0])[:1]


def test_budget_share_of_one_way_against_two_way() -> None:
    common = common_mechanism([ONE_WAY, TWO_WAY])
    values = np.sort(np.linalg.eigvalsh(common.cost_matrix))[::-1]
    assert common.rows == 8
    assert np.allclose(values[:8], [32] + [64 / 7] * 7)
    assert common.privacy.pcost == pytest.approx(0.75, abs=1e-12)
    found = [m.best_covariance(CELL)[0, 0] for m in (ONE_WAY, TWO_WAY, common)]
    assert np.allclose(found, [4, 4.5, 4.5])
    assert ONE_WAY.covariance[0, 0] == 7


def test_budget_share_of_one_way_against_all_cells() -> None:
    cells = LinearGaussian(np.eye(128), 1.0)
    common = common_mechanism([ONE_WAY, cells])
    assert np.allclose(np.sort(np.linalg.eigvalsh(common.cost_matrix))[-8:], 1.0)
    assert common.privacy.pcost == pytest.approx(0.0625, abs=1e-12)
    assert np.allclose([m.best_covariance(CELL)[0, 0] for m in (cells, common)], 64)


def test_budget_share_of_age_and_gender() -> None:
    one, two = marginals((101, 2), [(0,), (1,)]), marginals((101, 2), [(0, 1)])
    common = common_mechanism([one, two])
    assert common.rows == 102
    assert common.privacy.pcost == pytest.approx(102 / 202, abs=1e-12)
    age, gender = marginal_matrix((101, 2), [0])[:1], marginal_matrix((101, 2), [1])[:1]
    assert np.allclose([common.best_covariance(q)[0, 0] for q in (age, gender)], [2, 101])


@pytest.mark.parametrize("attributes", [2, 3, 4, 5])
def test_shares_in_closed_form(attributes: int) -> None:
    sizes = (2,) * attributes
    one = marginals(sizes, [(i,) for i in range(attributes)])
    two = marginals(sizes, [(i, j) for i in range(attributes) for j in range(i)])
    cells = marginals(sizes, [tuple(range(attributes))])
    assert common_mechanism([one, two]).privacy.pcost == pytest.approx(0.75)
    expected = (attributes + 1) / 2**attributes
    assert common_mechanism([one, cells]).privacy.pcost == pytest.approx(expected)


@pytest.mark.parametrize(("sizes", "noise"), [((3, 5), (1.0, 1.0)), ((2, 7), (4.0, 0.3))])
def test_disjoint_marginals_share_their_total(
    sizes: tuple[int, int], noise: tuple[float, float]
) -> None:
    first, second = (LinearGaussian(marginal_matrix(sizes, [i]), noise[i]) for i in (0, 1))
    common = common_mechanism([first, second])
    total = common.best_covariance(np.ones((1, sizes[0] * sizes[1])))
    assert np.allclose(total, max(n * s for n, s in zip(sizes, noise, strict=True)))
    one, two = marginals(sizes, [(0,), (1,)]), marginals(sizes, [(0, 1)])
    share = (sum(sizes) - 1) / (sizes[0] * sizes[1])
    assert common_mechanism([one, two]).privacy.pcost == pytest.approx(share)


def test_two_independent_runs_are_the_residuals_and_the_common_part_twice() -> None:
    first, second = random_pair(5)
    common = common_mechanism([first, second])
    rest = [residual(m, common) for m in (first, second)]
    both = rest[0].together(rest[1], common, common)
    assert np.allclose(both.cost_matrix, first.together(second).cost_matrix, atol=1e-7)


P, Q = np.diag([2.0, 1.0]), np.array([[1.5, 0.5], [0.5, 1.5]])


def test_the_result_depends_on_the_basis() -> None:
    plain = least_bound([P, Q])
    assert np.allclose(plain, [[2.103553, 0.25], [0.25, 1.603553]], atol=1e-6)
    assert np.trace(plain) == pytest.approx(3.707107, abs=1e-6)
    assert np.allclose(np.diagonal(np.linalg.inv(plain)), [0.484361, 0.635388], atol=1e-6)
    basis = np.diag([1.0, 3.0])
    back = np.linalg.inv(basis)
    other = back @ least_bound([basis @ P @ basis, basis @ Q @ basis]) @ back
    assert np.allclose(other, [[2.350245, 0.421499], [0.421499, 1.507248]], atol=1e-6)
    assert np.allclose(np.linalg.eigvalsh(other - plain), [-0.167343, 0.317729], atol=1e-6)
    free = least_bound([P, Q], "free")
    assert np.allclose(free, [[2.174437, 0.310634], [0.310634, 1.553170]], atol=1e-6)
    for bound in (plain, other, free):
        assert smallest(bound - P) > -1e-12
        assert smallest(bound - Q) > -1e-12


def test_the_free_convention_is_the_same_in_every_basis() -> None:
    turn = np.array([[1.0, 0.3], [-2.0, 4.0]])
    moved = least_bound([turn @ P @ turn.T, turn @ Q @ turn.T], "free")
    assert np.allclose(moved, turn @ least_bound([P, Q], "free") @ turn.T)
    assert np.allclose(least_bound([Q, P], "free"), least_bound([P, Q], "free"))


def test_the_orthonormal_convention_is_the_same_in_every_orthonormal_basis() -> None:
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(2, 2)))[0]
    moved = least_bound([turn @ P @ turn.T, turn @ Q @ turn.T])
    assert np.allclose(moved, turn @ least_bound([P, Q]) @ turn.T)


P1 = np.array([[2.0, -2.0], [-2.0, 6.0]])


def test_separate_solutions_form_no_chain_and_the_recursion_does() -> None:
    all_three = least_bound([P1, P, Q])
    expected = [[2.600884, -1.751106], [-1.751106, 6.103095]]
    assert np.allclose(all_three, expected, atol=1e-5)
    assert smallest(all_three - least_bound([P, Q])) == pytest.approx(-0.331554, abs=1e-5)
    links = chain([LinearGaussian(np.eye(2), sigma) for sigma in (P1, P, Q)])
    assert len(links) == 3
    assert links[1].answers(links[0])
    assert links[2].answers(links[1])
    for mechanism in (P1, P, Q):
        assert LinearGaussian(np.eye(2), mechanism).answers(links[0])


AGES = {
    1: [0, 103],
    4: [0, 18, 45, 65, 103],
    9: [0, 5, 18, 25, 35, 45, 55, 65, 75, 103],
    23: [0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85,
         103],
}  # fmt: skip


def histogram(edges: list[int]) -> LinearGaussian:
    """By gender and bucket of ages, with unit noise."""
    ages = np.array([[a <= i < b for i in range(103)] for a, b in itertools.pairwise(edges)])
    return LinearGaussian(np.kron(np.eye(2), ages))


def test_nested_histograms_of_ages() -> None:
    plans = [histogram(edges) for edges in AGES.values()]
    links = chain(plans)
    expected = [[23], [4, 8, 5, 6], [1, 3, 4, 2, 2, 2, 3, 3, 3]]
    for link, plan, counts in zip(links[:3], plans[:3], expected, strict=True):
        assert link.rows == plan.rows
        assert np.allclose(link.best_covariance(plan.queries), np.diag(counts * 2), atol=1e-9)
    for coarse, fine in itertools.pairwise(links):
        assert fine.answers(coarse)
    # Here the least trace of all at once is the same.
    for first in (0, 1):
        at_once = common_mechanism(plans[first:]).cost_matrix
        assert np.allclose(at_once, links[first].cost_matrix, rtol=0, atol=1e-7)


# ---------------------------------------------------------------------- any mechanisms


def random_pair(seed: int, count: int = 2) -> list[LinearGaussian]:
    """Mechanisms over a few cells with dependent rows and a common part of their row spaces."""
    rng = np.random.default_rng(seed)
    cells = int(rng.integers(3, 8))
    shared = rng.normal(size=(int(rng.integers(1, cells)), cells))
    found = []
    for _ in range(count):
        own = rng.normal(size=(int(rng.integers(0, 3)), cells))
        rows = np.vstack([shared, own])
        mix = rng.normal(size=(len(rows) + int(rng.integers(0, 3)), len(rows)))
        noise = rng.normal(size=(len(mix), len(mix)))
        found.append(LinearGaussian(mix @ rows, noise @ noise.T + 0.5 * np.eye(len(mix))))
    return found


@given(st.integers(0, 2**32), st.sampled_from(["orthonormal", "free"]))
@examples(60)
def test_properties_of_any_pair(seed: int, convention: str) -> None:
    first, second = random_pair(seed)
    common = common_mechanism([first, second], convention)
    p, q = (m.best_covariance(common.queries) for m in (first, second))
    product = (common.covariance - p) @ (common.covariance - q)
    if convention == "orthonormal":  # the two excesses are orthogonal: nothing smaller is above
        assert np.allclose(product, 0, atol=1e-7 * np.abs(p).max() * np.abs(q).max())
    for mechanism in (first, second):
        size = np.abs(mechanism.cost_matrix).max()
        assert smallest(mechanism.cost_matrix - common.cost_matrix) >= -1e-7 * size
        left = residual(mechanism, common)
        total = common.cost_matrix + left.cost_matrix
        assert np.allclose(total, mechanism.cost_matrix, atol=1e-7 * size)
        together = common.together(left)
        assert together.privacy.pcost == pytest.approx(mechanism.privacy.pcost, rel=1e-6)
        again = Recreation.of(mechanism, common, left)
        made = again.from_common @ common.queries + again.from_residual @ left.queries
        assert np.allclose(made, mechanism.queries, atol=1e-6 * np.abs(mechanism.queries).max())
        noise = np.abs(mechanism.covariance).max()
        assert smallest(mechanism.covariance - again.covariance) >= -1e-6 * noise
        k = np.linalg.pinv(again.covariance, rcond=1e-9)
        recreated = mechanism.queries.T @ k @ mechanism.queries
        assert np.allclose(recreated, mechanism.cost_matrix, atol=1e-5 * size)


@pytest.mark.parametrize("seed", seeds(8))
def test_no_common_mechanism_tells_more(seed: int) -> None:
    """Maximal: raising C_* in any direction leaves what some mechanism tells."""
    first, second = random_pair(seed)
    common = common_mechanism([first, second])
    rng = np.random.default_rng(seed)
    for _ in range(200):
        v = common.queries.T @ rng.normal(size=common.rows)
        more = common.cost_matrix + 0.1 * np.outer(v, v)
        assert min(smallest(m.cost_matrix - more) for m in (first, second)) < -1e-9


@pytest.mark.parametrize("seed", seeds(6))
def test_several_mechanisms_against_a_conic_solver(seed: int) -> None:
    plans = random_pair(seed, count=3)
    common = common_mechanism(plans)
    expected = conic_least_trace([m.best_covariance(common.queries) for m in plans])
    assert np.trace(common.covariance) == pytest.approx(np.trace(expected), rel=1e-6)
    assert np.allclose(common.covariance, expected, atol=1e-4 * np.trace(expected))
    assert all(m.answers(common) for m in plans)


def test_nothing_in_common() -> None:
    first, second = LinearGaussian([[1.0, 0.0]]), LinearGaussian([[0.0, 1.0]])
    common = common_mechanism([first, second])
    assert common.rows == 0
    assert np.array_equal(common.cost_matrix, np.zeros((2, 2)))
    assert residual(first, common).equivalent(first)


def test_intersections_of_three_spaces() -> None:
    rng = np.random.default_rng(3)
    shared = rng.normal(size=(2, 9))
    spaces = [np.linalg.qr(np.vstack([shared, rng.normal(size=(3, 9))]).T)[0] for _ in range(3)]
    found = intersection(spaces)
    assert found.shape == (9, 2)
    assert np.allclose(found @ (found.T @ shared.T), shared.T)


def test_the_recreated_law_by_simulation() -> None:
    """3.10: mean and covariance of 40,000 recreated outputs, with and without the missing noise.

    Limits are six standard errors: a false alarm is rarer than one in 10⁷.
    """
    rng = np.random.default_rng(11)
    mechanism = LinearGaussian(np.vstack([ONES, np.eye(3)]), 2.0)  # dependent rows
    other = LinearGaussian(marginal_matrix((3,), [0])[:2], 0.7)
    common = common_mechanism([mechanism, other])
    left = residual(mechanism, common)
    again = Recreation.of(mechanism, common, left)
    x, runs = np.array([5.0, 0.0, 12.0]), 40_000
    first = (
        common.queries @ x
        + rng.standard_normal((runs, common.rows)) @ np.linalg.cholesky(common.covariance).T
    )
    second = left.queries @ x + rng.standard_normal((runs, left.rows))
    made = first @ again.from_common.T + second @ again.from_residual.T
    literal = made + rng.standard_normal((runs, mechanism.rows)) @ again.missing().T
    for values, covariance in ((made, again.covariance), (literal, mechanism.covariance)):
        error = np.sqrt(np.diagonal(covariance) / runs)
        assert (np.abs(values.mean(axis=0) - mechanism.queries @ x) <= 6 * error + 1e-9).all()
        spread = np.sqrt(np.outer(np.diagonal(covariance), np.diagonal(covariance)) * 2 / runs)
        assert (np.abs(np.cov(values.T) - covariance) <= 6 * spread + 1e-9).all()
    assert np.linalg.matrix_rank(again.covariance) == 3


# ---------------------------------------------------------------------- errors


def test_a_residual_of_what_is_not_common_is_refused() -> None:
    with pytest.raises(PlanError, match="no common mechanism"):
        residual(LinearGaussian(ONES, 2.0), LinearGaussian(ONES, 1.0))


@pytest.mark.parametrize(
    ("queries", "covariance", "message"),
    [
        ([1.0, 2.0], 1.0, "rows × cells"),
        ([[1.0, np.nan]], 1.0, "finite matrix"),
        ([[1.0, 2.0]], np.eye(2), "square matrix of that size"),
        (np.eye(2), np.array([[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (np.eye(2), np.array([[1.0, 2.0], [2.0, 1.0]]), "positive definite"),
        (np.eye(2), 0.0, "positive definite"),
    ],
)
def test_bad_mechanisms_are_refused(queries: object, covariance: object, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        LinearGaussian(queries, covariance)  # type: ignore[arg-type]


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(PlanError, match="needs mechanisms"):
        common_mechanism([])
    with pytest.raises(PlanError, match="same ones"):
        common_mechanism([LinearGaussian(np.eye(2)), LinearGaussian(np.eye(3))])
    with pytest.raises(PlanError, match="'free' is for two"):
        common_mechanism([LinearGaussian(np.eye(2))] * 3, "free")
    with pytest.raises(PlanError, match="found 'other'"):
        least_bound([P, Q], "other")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="not determined"):
        LinearGaussian(ONES).best_covariance(np.eye(3))
