"""Plans of pure DP against brute force: exact ε, generalised least squares, unbiased answers."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pure_oracles import look

import noiseplan as nz
from depth import examples, seeds
from noiseplan.errors import BudgetError, PlanError
from noiseplan.mechanisms.tables import TablesMechanism
from noiseplan.planning.planners import table_plans
from oracles import table_counts
from workloads import ANY, random_workload

SCHEMA = nz.Schema.from_sizes({"a": 5, "b": 2, "c": 3})
PLAIN = nz.Workload.marginals(SCHEMA, up_to=2)


def with_factor(factor: nz.Factor) -> nz.Workload:
    return nz.Workload.marginals(SCHEMA, up_to=2, factors={"a": factor})


WORKLOADS = {
    "marginals": PLAIN,
    "one-way": nz.Workload.marginals(SCHEMA, k=1),
    "prefix": with_factor(nz.Prefix()),
    "ranges": with_factor(nz.Ranges()),
    "levels": with_factor(nz.Levels(2)),
    "total": with_factor(nz.Total()),
    "custom": with_factor(nz.Custom([[1, 0, -2, 0.5, 0], [0, 1, 1, 1, 3]])),
    "joint": nz.Workload(
        [
            nz.Query(SCHEMA, ["a", "b"], matrix=np.arange(20.0).reshape(2, 10) % 3 - 0.5),
            nz.Query(SCHEMA, ["c"]),
        ]
    ),
    "binary": nz.Workload.marginals(nz.Schema.from_sizes(dict.fromkeys("pqrst", 2)), k=2),
    "alike": nz.Workload.marginals(nz.Schema.from_sizes(dict.fromkeys("pqrst", 3)), k=2),
    "one attribute": nz.Workload(
        [nz.Query(nz.Schema.from_sizes({"a": 12}), {"a": nz.Prefix()}, weight=3.0)]
    ),
}


@pytest.fixture(scope="module", params=[(k, e) for k in WORKLOADS for e in (0.7, 3.0)], ids=str)
def planned(request: pytest.FixtureRequest) -> tuple[nz.Plan, object]:
    kind, epsilon = request.param
    plan = nz.plan(WORKLOADS[kind], budget=nz.PureDP(epsilon))
    return plan, look(plan)


def test_epsilon_is_exact_and_within_the_budget(planned) -> None:
    plan, seen = planned
    stated = plan.privacy.pure_epsilon
    budget = 0.7 if stated <= 0.7 else 3.0
    assert seen.epsilon <= Fraction(stated) <= Fraction(budget)
    # Nothing is wasted: what is stated is the truth, and all of the budget is used.
    assert float(seen.epsilon) == pytest.approx(stated, rel=1e-14)
    assert stated == pytest.approx(budget, rel=1e-11)
    assert plan.privacy.within(nz.PureDP(budget))
    assert not plan.privacy.within(nz.PureDP(float(seen.epsilon) * (1 - 1e-9)))


def test_variances_are_those_of_least_squares(planned) -> None:
    plan, seen = planned
    for query in plan.workload:
        rows = query.dense()
        np.testing.assert_allclose(
            plan.variance(query), np.diagonal(seen.covariance(rows, rows)), rtol=1e-6, atol=1e-9
        )
    first, last = plan.workload.query(0), plan.workload.query(len(plan.workload) - 1)
    np.testing.assert_allclose(
        plan.covariance(first, last),
        seen.covariance(first.dense(), last.dense()),
        rtol=1e-5, atol=1e-7 * float(plan.variance(first).max()),
    )  # fmt: skip


def test_totals_are_sums_of_variances(planned) -> None:
    plan, _ = planned
    every = [q.weight * plan.variance(q) for q in plan.workload]
    assert plan.total_variance == pytest.approx(sum(v.sum() for v in every), rel=1e-9)
    assert plan.worst_variance == pytest.approx(max(v.max() for v in every), rel=1e-9)
    assert plan.lower_bound <= plan.total_variance


def test_answers_are_the_least_squares_estimates(planned) -> None:
    plan, seen = planned
    rng = np.random.default_rng(5)
    x = rng.integers(0, 30, plan.workload.schema.shape)
    noise = rng.integers(-9, 10, plan.measured_numbers)
    drawn = iter(noise)

    def sampler(shape: tuple[int, ...], _: np.ndarray) -> np.ndarray:
        return np.array([next(drawn) for _ in range(int(np.prod(shape)))]).reshape(shape)

    measured = plan.mechanism.measure(table_counts(x), sampler)
    b = seen.rows.astype(float)
    precision = seen.precision
    scaled = b * np.sqrt(precision)[:, None]
    numbers = np.sqrt(precision) * (b @ x.ravel() + noise)
    for query in plan.workload:
        expected = query.dense() @ (np.linalg.pinv(scaled, rcond=1e-11) @ numbers)
        found = plan.mechanism.answer(measured, query)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_without_noise_answers_are_exact(planned) -> None:
    plan, _ = planned
    x = np.random.default_rng(6).integers(0, 30, plan.workload.schema.shape)
    silent = plan.mechanism.measure(table_counts(x), lambda shape, _: np.zeros(shape, np.int64))
    for query in plan.workload:
        np.testing.assert_allclose(
            plan.mechanism.answer(silent, query), query.dense() @ x.ravel(), rtol=1e-7, atol=1e-6
        )


@pytest.mark.few(3)
@pytest.mark.parametrize("planner", ["identity", "p-identity", "tree", "wavelet", "matrix"])
def test_planners_by_name(planner: str) -> None:
    plan = nz.plan(WORKLOADS["prefix"], budget=nz.PureDP(1.0), planner=planner)
    seen = look(plan)
    assert seen.epsilon <= Fraction(plan.privacy.pure_epsilon) <= 1
    query = plan.workload.query(3)
    rows = query.dense()
    np.testing.assert_allclose(
        plan.variance(query), np.diagonal(seen.covariance(rows, rows)), rtol=1e-6
    )
    best = nz.plan(WORKLOADS["prefix"], budget=nz.PureDP(1.0))
    assert best.total_variance <= plan.total_variance * 1.0102  # a matrix must be worth it


def test_the_workload_as_a_strategy() -> None:
    plan = nz.plan(PLAIN, budget=nz.PureDP(1.0), planner="workload")
    assert plan.privacy.pure_epsilon <= 1
    rows = np.vstack([q.dense() for q in PLAIN])
    assert np.array_equal(plan.mechanism.strategy, rows)
    # Seven tables, a record in each: scale 7, and least squares over all of them.
    assert plan.mechanism.noise.one == 7.0
    assert look(plan).epsilon == 1


@examples(40)
@given(seed=st.integers(0, 10**6), epsilon=st.floats(1e-3, 1e3))
def test_any_workload_and_budget(seed: int, epsilon: float) -> None:
    workload = random_workload(seed, kinds=ANY, several=bool(seed % 2), joint=seed % 3 == 0)
    plan = nz.plan(workload, budget=nz.PureDP(epsilon))
    assert look(plan).epsilon <= Fraction(plan.privacy.pure_epsilon) <= Fraction(epsilon)


@pytest.mark.parametrize("seed", seeds(12))
def test_random_workloads_have_exact_errors(seed: int) -> None:
    workload = random_workload(seed, kinds=ANY, several=bool(seed % 2), joint=seed % 3 == 0)
    plan = nz.plan(workload, budget=nz.PureDP(1.0))
    seen = look(plan)
    for query in workload:
        rows = query.dense()
        np.testing.assert_allclose(
            plan.variance(query),
            np.diagonal(seen.covariance(rows, rows)),
            rtol=1e-5, atol=1e-8 * float((rows**2).sum()),
        )  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["marginals", "prefix", "joint"])
def test_continuous_noise_is_a_little_larger_and_as_private(kind: str) -> None:
    discrete = nz.plan(WORKLOADS[kind], budget=nz.PureDP(0.3))
    plan = nz.plan(WORKLOADS[kind], budget=nz.PureDP(0.3), noise="laplace")
    assert plan.privacy.pure_epsilon <= 0.3
    assert plan.total_variance == pytest.approx(discrete.total_variance, rel=2e-2)
    release = plan.release(np.ones(plan.workload.schema.shape, dtype=int), seed=1)
    assert "for simulation" in release.brand


@pytest.mark.parametrize("kind", ["marginals", "one-way", "prefix", "joint", "binary"])
def test_replaced_records_cost_no_more_than_is_stated(kind: str, tmp_path: Path) -> None:
    plan = nz.plan(WORKLOADS[kind], budget=nz.PureDP(1.0), neighbours="replace")
    seen = look(plan)
    inverse = np.array([float(1 / b) for b in seen.scales])
    rows = seen.rows.astype(float)
    pairs = np.abs(rows[:, :, None] - rows[:, None, :]) * inverse[:, None, None]
    stated = plan.privacy.pure_epsilon
    assert pairs.sum(axis=0).max() <= stated * (1 + 1e-12)
    assert 1 - 1e-9 <= stated <= 1
    assert plan.privacy.neighbours == "replace"
    assert plan.optimality.lower_bound <= plan.total_variance
    release = plan.release(np.ones(plan.workload.schema.shape, dtype=int))
    release.save(tmp_path / "out")
    assert nz.load(tmp_path / "out").plan.privacy == plan.privacy


def test_refusals() -> None:
    pure = nz.PureDP(1.0)
    with pytest.raises(BudgetError, match="never gives pure DP"):
        nz.plan(PLAIN, budget=pure, noise="gaussian")
    with pytest.raises(PlanError, match=r"noise='laplace' goes with .* PureDP\(1.0\)"):
        nz.plan(PLAIN, budget=nz.zCDP(0.5), noise="laplace")
    with pytest.raises(PlanError, match=r"noise='discrete Laplace' goes with .* PureDP\(1.0\)"):
        nz.plan(PLAIN, budget=nz.zCDP(0.5), noise="discrete Laplace")
    with pytest.raises(PlanError, match="larger weight"):
        nz.plan(PLAIN, budget=pure, objective=nz.RelativeError())
    with pytest.raises(PlanError, match="p-identity"):
        nz.plan(PLAIN, budget=pure, planner="residual")
    with pytest.raises(PlanError, match="at most 2,048 cells"):
        wide = nz.Workload.marginals(nz.Schema.from_sizes({"a": 99, "b": 99}), k=1)
        nz.plan(wide, budget=pure, planner="matrix")
    with pytest.raises(PlanError, match=r"2\^48"):
        nz.plan(PLAIN, budget=nz.PureDP(1e-20))
    with pytest.raises(PlanError, match="whole numbers"):
        nz.plan(WORKLOADS["joint"], budget=pure, planner="workload")


@pytest.mark.parametrize("epsilon", [1e-300, 1e-160, 1e200])
@pytest.mark.parametrize("noise", ["discrete", "laplace"])
def test_budgets_beyond_all_numbers_are_refused(epsilon: float, noise: str) -> None:
    with pytest.raises(PlanError, match="take ε from 1e-60 to"):
        nz.plan(PLAIN, budget=nz.PureDP(epsilon), noise=noise)


def test_budgets_at_the_ends_of_the_range() -> None:
    for epsilon in (1e-60, 1e60):
        plan = nz.plan(PLAIN, budget=nz.PureDP(epsilon), noise="laplace")
        assert np.isfinite(plan.rmse)
        assert plan.privacy.pure_epsilon <= epsilon


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", seeds(12))
def test_a_plan_names_no_strategy_that_it_does_not_measure(seed: int) -> None:
    """A tree, or p-identity, that came down to single values was named all the same."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 9, 3).tolist()
    schema = nz.Schema({f"a{i}": nz.Ordinal(range(n)) for i, n in enumerate(sizes)})
    factors = [nz.Identity(), nz.Prefix(), nz.Ranges()]
    asked = [
        nz.Query(
            schema, {str(n): factors[rng.integers(3)] for n in rng.permutation(schema.names)[:2]}
        )
        for _ in range(3)
    ]
    plan = nz.plan(nz.Workload(asked), budget=nz.PureDP(1.0))
    if isinstance(plan.mechanism, TablesMechanism):
        views = [view for table in plan.mechanism.tables for view in table.views]
        rows = [np.asarray(view.measure) for view in views if view.kind == "strategy"]
        summed = any((np.count_nonzero(each, axis=1) > 1).any() for each in rows)
        assert (plan.planner not in ("identity", "tables")) == summed


def test_few_rows_that_tell_many_values_apart_are_refused_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """p-identity leaves next to nothing for single values then, and ended in a LinAlgError."""
    schema = nz.Schema.from_sizes({"a": 100, "b": 2})
    rows = np.arange(200).reshape(2, 100) % 78
    asked = nz.Workload([nz.Query(schema, {"a": nz.Custom(rows)})])
    with suppress(PlanError):  # which processors differ in
        nz.plan(asked, budget=nz.PureDP(1.0), planner="p-identity")
    for planner in ("auto", "workload"):
        assert nz.plan(asked, budget=nz.PureDP(1.0), planner=planner).rmse > 0

    def fails(*arguments: object) -> None:
        raise np.linalg.LinAlgError("linearly dependent")

    monkeypatch.setattr(table_plans, "_made", fails)
    with pytest.raises(PlanError, match=r"planner='p-identity' finds no plan here.*planner='auto'"):
        nz.plan(asked, budget=nz.PureDP(1.0), planner="p-identity")
