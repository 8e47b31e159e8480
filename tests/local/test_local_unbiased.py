"""No bias whatever the prior, no bound above its value, own queries answered."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from local_oracles import brute_variances, one

import noiseplan as nz
from depth import examples
from noiseplan.errors import DataError, PlanError, UnanswerableError
from noiseplan.local.device.integer_chances import settled
from noiseplan.local.search.variance_bounds import row_variance
from noiseplan.local.strategies.additive import AdditiveStrategy
from noiseplan.local.strategies.strategy import TableStrategy
from noiseplan.local.user_types import types_of


def bias(plan: nz.local.LocalPlan) -> float:
    """max|CX − W| over the workload, from the coefficients that answers are computed with."""
    made = plan.strategy
    if not isinstance(made, TableStrategy):
        return 0.0
    worst = 0.0
    for query in plan.workload:
        rows = plan.types.matrix(query)
        reached = (made.coefficients(rows) @ made.shapes.T) @ made.chances
        worst = max(worst, float(np.abs(reached - rows).max() / np.abs(rows).max()))
    return worst


ROWS = [[1, 1, 1, 0, 1, 0], [0, 1, 1, 1, 0, 0], [0, 1, 0, 0, 0, 0]]
OTHER = [[0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1], [0, 1, 1, 1, 0, 1]]


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize(
    ("rows", "prior"), [(ROWS, [1, 1, 0, 1, 1, 1]), (OTHER, [1, 0, 0, 0, 1, 1])]
)
def test_types_that_are_not_expected_are_answered_without_bias(
    rows: list[list[int]], prior: list[int], epsilon: float
) -> None:
    schema = nz.Schema.from_sizes({"v": 6})
    query = nz.Query(schema, ["v"], matrix=np.array(rows, float))
    plan = nz.local.plan(query, epsilon, prior=prior)
    assert bias(plan) <= 1e-7
    # The explicit matrix says the same of the variances, and so does a crowd of the unexpected.
    dense, made = plan.types.matrix(query), plan.strategy
    assert isinstance(made, TableStrategy)
    exact = brute_variances(made.chances, dense, made.prior)
    assert plan.variances == pytest.approx(exact, rel=1e-5)
    x = np.zeros(6)
    x[prior.index(0)] = 100_000
    answer = plan.simulate(x, seed=1).answer(query, errors="worst")
    assert (np.abs(answer.estimate - np.array(rows) @ x) <= 6 * answer.std_error).all()


@examples(30)
@given(
    arrays(np.int64, st.tuples(st.integers(1, 4), st.integers(2, 6)), elements=st.integers(-2, 2)),
    st.sampled_from([0.001, 0.01, 0.1, 1.0, 4.0]),
    st.one_of(st.none(), st.lists(st.integers(0, 1), min_size=6, max_size=6)),
)
def test_any_plan_is_unbiased_and_above_its_bound(
    rows: np.ndarray, epsilon: float, expected: list[int] | None
) -> None:
    prior = None if expected is None else expected[: rows.shape[1]]
    if not rows.any(axis=1).all() or (prior is not None and not any(prior)):
        return
    schema = nz.Schema.from_sizes({"v": rows.shape[1]})
    query = nz.Query(schema, ["v"], matrix=rows.astype(float))
    plan = nz.local.plan(query, epsilon, prior=prior, effort=0.2)
    assert bias(plan) <= 1e-6
    scale = float(np.diagonal(plan.types.gram).max())
    assert plan.lower_bound <= plan.value * (1 + 1e-8) + 1e-9 * scale
    answer = plan.simulate(np.full(rows.shape[1], 5), seed=0).answer(query)
    assert np.isfinite(answer.estimate).all()


def test_small_epsilon_keeps_its_bounds() -> None:
    rows = np.array([[1, 0, 1, 1, 0, 1], [0, 0, 1, 1, 1, 0]], float)
    plan = nz.local.plan(nz.Query(nz.Schema.from_sizes({"v": 6}), ["v"], matrix=rows), 0.001)
    assert plan.value / plan.lower_bound - 1 >= -1e-9
    half = Fraction(np.expm1(0.001)) / (2 + Fraction(np.expm1(0.001)))  # tanh(ε/2)
    assert row_variance(4, 0.001) == pytest.approx(float(half**2), rel=1e-12)


# ------------------------------------------------------------------------------ own queries


def test_light_queries_are_told_apart_and_answered() -> None:
    schema = nz.Schema.from_sizes({"v": 4})
    workload = nz.Workload(
        [nz.Query(schema, {"v": nz.Prefix()}), nz.Query(schema, ["v"], weight=1e13)]
    )
    plan = nz.local.plan(workload, 1.0)
    assert plan.types.count == 4
    answer = plan.simulate([5, 6, 7, 8], seed=0).answer(nz.Query(schema, {"v": nz.Prefix()}))
    assert answer.estimate[-1] == 26.0
    heavy = nz.Query(schema, ["v"], matrix=[[1, 1, 0, 0]], weight=1e13)
    told = types_of(nz.Workload([heavy, nz.Query(schema, ["v"], matrix=[[1, 0, 0, 0]])]))
    assert told.kind.tolist() == [0, 1, 2, 2]


def test_what_cannot_be_answered_is_not_planned() -> None:
    schema = nz.Schema.from_sizes({"a": 3, "b": 3})
    apart = nz.Workload([nz.Query(schema, ["a"], weight=1e13), nz.Query(schema, ["b"])])
    assert types_of(apart).count == 9
    with pytest.raises(PlanError, match="cannot answer 'b' of the workload itself"):
        nz.local.plan(apart, 1.0)


@pytest.mark.parametrize("small", [1e-8, 1e-12])
def test_rows_of_different_sizes_are_answered(small: float) -> None:
    """Cells that only a tiny row tells apart are types of their own, and it is answered too."""
    query = nz.Query(nz.Schema.from_sizes({"v": 3}), ["v"], matrix=[[1, 1, 0], [small, 0, 0]])
    plan = nz.local.plan(query, 1.0)
    assert plan.types.count == 3
    expected = plan.strategy.chances @ np.array([5.0, 6.0, 7.0])
    found = plan.reconstruction.estimate(query, expected, 18)
    assert found == pytest.approx([11.0, 5 * small], rel=1e-6, abs=0)


def test_cells_of_several_queries_are_merged_as_their_rows_say() -> None:
    schema = nz.Schema.from_sizes({"a": 3, "b": 4})
    halves = nz.Query(schema, ["b"], matrix=[[1, 1, 0, 0]])
    corner = nz.Query(schema, ["a", "b"], matrix=[[1, *[0] * 11]])
    told = types_of(nz.Workload([halves, corner, nz.Query(schema, [])]))
    assert told.kind.tolist() == [0, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2]
    dense = np.vstack([q.dense() for q in (halves, corner, nz.Query(schema, []))])
    columns = {tuple(column) for column in dense.T}
    assert told.count == len(columns)


# ------------------------------------------------------------------------------ by name


@pytest.mark.parametrize("mechanism", ["hierarchical", "hadamard", "weighted fourier"])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_mechanisms_by_name_answer_best_for_the_prior(mechanism: str, epsilon: float) -> None:
    prior = np.array([0.65, 0.2, 0.1, 0.01, 0.01, 0.01, 0.01, 0.01])
    plan = nz.local.plan(one(8, nz.Prefix()), epsilon, mechanism=mechanism, prior=prior)
    made = plan.strategy
    assert isinstance(made, TableStrategy)
    exact = brute_variances(made.chances, np.tril(np.ones((8, 8))), prior)
    assert plan.average_variance == pytest.approx(float(prior @ exact), rel=1e-7)


def test_covariances_that_cannot_be_estimated_are_refused() -> None:
    schema = nz.Schema.from_sizes({"a": 2, "b": 2, "c": 2})
    workload = nz.Workload([nz.Query(schema, [name]) for name in "abc"])
    plan = nz.local.plan(workload, 1.0, mechanism="fourier", order=1)
    assert not plan.reconstruction.tells_all_apart
    query = nz.Query(schema, ["a"])
    x = np.array([3000, 0, 0, 0, 0, 0, 0, 10.0])
    aggregator = plan.simulate(x, seed=3)
    with pytest.raises(UnanswerableError, match=r"plan\.covariance"):
        aggregator.covariance(query, query)
    exact = np.diagonal(plan.covariance(query, query, x))
    assert exact == pytest.approx(plan.variance(query, x))
    assert (aggregator.variance(query) >= exact * (1 - 1e-9)).all()


# ------------------------------------------------------------------------------ numbers


def test_the_variance_of_wide_laplace_noise_has_its_digits() -> None:
    for scale in (10, 10**6, 10**12):
        made = AdditiveStrategy(np.eye(2, dtype=int), Fraction(scale), "laplace", 1.0, 0.0, "x")
        # 1/(2 sinh²(1/2s)) = 2s² − 1/6 + O(s⁻²)
        assert made.noise_variance == pytest.approx(2 * scale**2 - 1 / 6, rel=1e-5 / scale + 1e-14)


def test_sums_that_do_not_fit_are_not_added() -> None:
    plan = nz.local.plan(one(3, nz.Prefix()), 0.001, mechanism="matrix l1")
    randomizer = plan.randomizer()
    largest = int(randomizer._limit)  # type: ignore[attr-defined]
    aggregator = plan.aggregator()
    report = np.full((1, *aggregator.tally.shape), largest)
    assert aggregator.add_many(report) == 1
    aggregator.tally = np.full(aggregator.tally.shape, 2**63 - 1 - largest)
    before = aggregator.tally.copy()
    assert aggregator.add_many(report) == 1
    assert (aggregator.tally == before + largest).all()
    with pytest.raises(DataError, match="64 bits"):
        aggregator.add_many(report)
    with pytest.raises(DataError, match="64 bits"):
        aggregator.merge(aggregator)
    assert aggregator.users == 2


def test_the_last_move_counts() -> None:
    table = settled(np.array([[1], [1]]), np.array([1, 1]), np.array([3, 3]), np.int64(6))
    assert table.tolist() == [[3], [3]]
    with pytest.raises(PlanError, match="add up to one"):
        settled(np.array([[1], [1]]), np.array([1, 1]), np.array([3, 3]), np.int64(7))


@pytest.mark.parametrize("mechanism", ["auto", "hadamard", "randomized response"])
@pytest.mark.parametrize("large", [1e8, 1e9, 1e12, 1e15])
def test_differences_lost_beside_a_large_constant_row_are_refused(
    large: float, mechanism: str
) -> None:
    """Figures come from the Gram matrix: where it has lost all that is asked, they are false."""
    schema = nz.Schema.from_sizes({"v": 6})
    rows = nz.Custom([[large] * 6, [1, 2, 3, 4, 5, 6]])
    with pytest.raises(PlanError, match="differ too much in size"):
        nz.local.plan(nz.Query(schema, {"v": rows}), 1.0, mechanism=mechanism)


def test_a_constant_row_of_moderate_size_changes_no_figure() -> None:
    schema = nz.Schema.from_sizes({"v": 6})
    made = [
        nz.local.plan(nz.Query(schema, {"v": nz.Custom(rows)}), 1.0, mechanism="hadamard")
        for rows in ([[1e4] * 6, [1, 2, 3, 4, 5, 6]], [[1, 2, 3, 4, 5, 6]])
    ]
    assert made[0].worst_variance == pytest.approx(made[1].worst_variance, rel=1e-6)
    assert nz.local.plan(nz.Query(schema, []), 1.0).worst_variance == 0.0  # only how many users


def test_a_large_row_does_not_hide_what_a_small_one_tells_apart() -> None:
    schema = nz.Schema.from_sizes({"v": 6})
    halves = nz.Query(schema, {"v": nz.Custom([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]])})
    reports = nz.local.plan(halves, 3.0).simulate([1000] * 6, seed=1)
    for large in (1.0, 1e6, 1e12):
        later = nz.Query(schema, {"v": nz.Custom([[large] * 6, [1, 2, 3, 4, 5, 6]])})
        with pytest.raises(UnanswerableError, match="tells values apart"):
            reports.answer(later)
