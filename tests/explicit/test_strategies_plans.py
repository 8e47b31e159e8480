"""Strategies by name as plans: cost by brute force, errors by dense formulas, either noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import noiseplan as nz
from depth import depth
from noiseplan.counting.tensor import CountTensor
from noiseplan.errors import PlanError, StorageError, UnanswerableError
from noiseplan.matrices import HaarMatrix, IdentityMatrix, TreeMatrix
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.product import ProductMechanism
from noiseplan.noise import Noise
from noiseplan.noise.moments import discrete_laplace_variance
from noiseplan.planning.planners import named
from noiseplan.storage.plans import read_mechanism
from noiseplan.strategies.catalogue import PURE_STRATEGIES, STRATEGIES, asked_by

Array = np.ndarray
NUMBERED = ("hierarchical-4", "weighted-hierarchical-3", "eigen-separated-2", "eigen-principal-40")
GAUSSIAN = (*STRATEGIES, *NUMBERED)
LAPLACE = (*PURE_STRATEGIES, *NUMBERED)


def two_attributes() -> nz.Workload:
    schema = nz.Schema({"age": nz.Ordinal(range(6)), "sex": nz.Categorical(["F", "M"])})
    return nz.Workload.marginals(schema, up_to=2, factors={"age": nz.Prefix()})


def alike() -> nz.Workload:
    """Two attributes that look alike; strategies need not treat them so."""
    schema = nz.Schema({"a": nz.Ordinal(range(4)), "b": nz.Categorical(list("wxyz"))})
    weighted = nz.Query(schema, ["a", "b"], weight=2.0)
    return nz.Workload.marginals(schema, k=1) + weighted


def low_rank() -> nz.Workload:
    schema = nz.Schema.from_sizes({"a": 3, "b": 3, "c": 2})
    return nz.Workload.marginals(schema, k=1)


WORKLOADS = {"two attributes": two_attributes, "alike": alike, "low rank": low_rank}


def measured_rows(mechanism: Mechanism) -> Array:
    """Every measured number as a row over the domain, by measuring one record at a time."""
    shape, size = mechanism.schema.shape, mechanism.schema.size
    columns = []
    for cell in range(size):
        counts = np.bincount([cell], minlength=size).reshape(1, *shape)
        silent = mechanism.measure(lambda sets, c=counts: c, lambda *shape: np.zeros(shape[0], int))
        columns.append(silent.values[0])
    return np.array(columns).T.astype(float)


def dense(workload: nz.Workload) -> Array:
    return np.vstack([np.sqrt(q.weight) * q.dense() for q in workload])


@pytest.mark.grid
@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
@pytest.mark.parametrize("planner", GAUSSIAN)
@pytest.mark.parametrize("name", WORKLOADS)
def test_gaussian_plans_cost_and_err_as_they_say(name: str, planner: str, noise: str) -> None:
    workload = WORKLOADS[name]()
    plan = nz.plan(workload, budget=nz.zCDP(0.3), planner=planner, noise=noise)
    assert plan.planner == planner
    mechanism = plan.mechanism
    assert isinstance(mechanism, DenseMechanism)
    rows = measured_rows(mechanism)
    cost = rows.T @ rows / mechanism.noise.one
    assert np.diagonal(cost).max() <= plan.privacy.pcost * (1 + 1e-12)
    assert plan.privacy.pcost <= 0.6
    assert plan.privacy.pcost == pytest.approx(0.6, rel=1e-6)
    each = sum(q.weight * plan.variance(q).sum() for q in workload)
    assert plan.total_variance == pytest.approx(each, rel=1e-9)
    wanted = dense(workload)
    # Integer matrices have every direction, some of them all but unmeasured.
    truth = np.trace(wanted @ np.linalg.pinv(cost, rcond=1e-11) @ wanted.T)
    assert plan.total_variance == pytest.approx(truth, rel=1e-4)
    assert plan.lower_bound <= plan.total_variance * (1 + 1e-12)


@pytest.mark.grid
@pytest.mark.parametrize("noise", ["laplace", "discrete"])
@pytest.mark.parametrize("planner", LAPLACE)
@pytest.mark.parametrize("name", WORKLOADS)
def test_laplace_plans_cost_and_err_as_they_say(name: str, planner: str, noise: str) -> None:
    workload = WORKLOADS[name]()
    plan = nz.plan(workload, budget=nz.PureDP(0.5), planner=planner, noise=noise)
    assert plan.planner == planner
    mechanism = plan.mechanism
    assert isinstance(mechanism, DenseMechanism)
    assert mechanism.noise.law == "laplace"
    rows = measured_rows(mechanism)
    spent = np.abs(rows).sum(axis=0).max() / mechanism.noise.one
    assert plan.privacy.pure_epsilon is not None
    assert spent <= plan.privacy.pure_epsilon * (1 + 1e-12)
    assert plan.privacy.pure_epsilon <= 0.5
    assert plan.privacy.pure_epsilon == pytest.approx(0.5, rel=1e-6)
    each = sum(q.weight * plan.variance(q).sum() for q in workload)
    assert plan.total_variance == pytest.approx(each, rel=1e-9)
    spread = 2 * mechanism.noise.one**2
    if noise == "discrete":
        spread = float(discrete_laplace_variance(np.array([mechanism.noise.one]))[0])
    wanted = dense(workload)
    truth = spread * np.sum((wanted @ np.linalg.pinv(rows, rcond=1e-11)) ** 2)
    assert plan.total_variance == pytest.approx(truth, rel=2e-3)


@pytest.mark.parametrize("planner", LAPLACE)
def test_laplace_plans_are_unbiased(planner: str) -> None:
    """The mean of many releases is the truth, within five standard errors of the mean."""
    workload = two_attributes()
    counts = np.arange(12).reshape(6, 2) * 3
    plan = nz.plan(workload, budget=nz.PureDP(1.0), planner=planner, noise="laplace")
    query, runs = workload.query(2), depth(200, 60)
    answers = [
        plan.release(CountTensor(workload.schema, counts), seed=s).answer(query).estimate
        for s in range(runs)
    ]
    off = np.mean(answers, axis=0) - query.dense() @ counts.ravel()
    assert (np.abs(off) <= 5.5 * plan.std_error(query) / np.sqrt(runs)).all()


def test_optimal_is_at_or_below_every_strategy() -> None:
    for make in WORKLOADS.values():
        workload = make()
        best = nz.plan(workload, budget=nz.zCDP(0.5), planner="optimal", noise="gaussian")
        for name in GAUSSIAN:
            plan = nz.plan(workload, budget=nz.zCDP(0.5), planner=name, noise="gaussian")
            assert best.total_variance <= plan.total_variance * (1 + 2e-6)


# ---------------------------------------------------------------------- names


def test_names_are_taken_apart() -> None:
    found = asked_by("eigen-principal-12.5")
    assert found is not None
    assert (found.base, found.number) == ("eigen-principal", 12.5)
    assert asked_by("wavelet-2") is None
    assert asked_by(None) is None
    assert asked_by("privelet") is None
    assert asked_by("privelet", PURE_STRATEGIES) is not None


@pytest.mark.parametrize(
    ("planner", "message"),
    [
        ("hierarchical-1", "at least 2, as in hierarchical-4"),
        ("hierarchical-2.5", "an integer of at least 2"),
        ("eigen-separated-0", "at least 1"),
        ("eigen-principal-0", "percentage"),
        ("eigen-principal-101", "percentage"),
        ("wavelet-2", "unknown planner 'wavelet-2'"),
        ("hierarchical-", "unknown planner"),
    ],
)
def test_names_that_mean_nothing(planner: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        nz.plan(two_attributes(), budget=nz.zCDP(0.5), planner=planner)


@pytest.mark.parametrize("planner", ["eigen", "hierarchical-4", "identity"])
def test_what_strategies_cannot_plan(planner: str) -> None:
    workload, message = two_attributes(), f"planner='{planner}' plans the total variance"
    with pytest.raises(PlanError, match=message):
        nz.plan(workload, targets=5.0, planner=planner)
    with pytest.raises(PlanError, match=message):
        nz.plan(workload, budget=nz.zCDP(0.5), planner=planner, objective=nz.WorstVariance())


def test_the_report_names_the_strategy_and_how_far_it_is_from_the_best() -> None:
    plan = nz.plan(two_attributes(), budget=nz.zCDP(0.5), planner="eigen-separated-2")
    text = str(plan)
    assert "measures    eigen-separated-2: " in text
    assert "at most 8.8% above the best (certified)" in text


def test_a_branching_is_what_it_says() -> None:
    schema = nz.Schema({"a": nz.Ordinal(range(9))})
    workload = nz.Workload([nz.Query(schema, {"a": nz.Ranges()})])
    plan = nz.plan(workload, budget=nz.zCDP(0.5), planner="hierarchical-3", noise="gaussian")
    tree = np.vstack([np.ones(9), np.kron(np.eye(3), np.ones((1, 3))), np.eye(9)])
    wanted = workload.query(0).dense()
    truth = 3 * np.trace(wanted @ np.linalg.inv(tree.T @ tree) @ wanted.T)
    assert plan.total_variance == pytest.approx(truth, rel=1e-9)


# ---------------------------------------------------------------------- rows of one's own


def test_a_strategy_of_ones_own() -> None:
    workload = two_attributes()
    rows = np.vstack([np.eye(12), np.ones((1, 12))])
    truth = np.trace(dense(workload) @ np.linalg.inv(rows.T @ rows) @ dense(workload).T)
    given = nz.Strategy(rows, name="cells and their sum")
    plan = nz.plan(workload, budget=nz.zCDP(0.5), planner=given, noise="gaussian")
    assert plan.total_variance == pytest.approx(2 * truth, rel=1e-9)
    assert plan.planner == "cells and their sum"
    better = nz.plan(
        workload, budget=nz.zCDP(0.5), planner=nz.Strategy(rows, weighted=True), noise="gaussian"
    )
    assert better.total_variance < plan.total_variance
    laplace = nz.plan(workload, budget=nz.PureDP(2**0.5), planner=given, noise="laplace")
    assert laplace.total_variance == pytest.approx(4 * truth, rel=1e-9)


def test_a_profile_of_ones_own() -> None:
    workload = two_attributes()
    strategy = nz.Strategy.of_profile(np.eye(12) + 0.2)
    plan = nz.plan(workload, budget=nz.PureDP(1.0), planner=strategy, noise="laplace")
    cost = plan.cost_matrix()
    np.testing.assert_allclose(cost / cost[0, 0], (np.eye(12) + 0.2) / 1.2, atol=1e-9)


def test_strategies_that_do_not_fit_are_refused() -> None:
    workload = two_attributes()
    with pytest.raises(PlanError, match="3 columns, and the domain has 12 cells"):
        nz.plan(workload, budget=nz.zCDP(0.5), planner=nz.Strategy(np.eye(3)))
    with pytest.raises(PlanError, match="given strategy does not determine every query"):
        nz.plan(workload, budget=nz.zCDP(0.5), planner=nz.Strategy(np.ones((1, 12))))
    with pytest.raises(PlanError, match="given strategy does not determine every query"):
        nz.plan(workload, budget=nz.PureDP(0.5), planner=nz.Strategy(np.ones((1, 12))))


# ---------------------------------------------------------------------- products by transforms


def product(integer: bool, scale: float | None = None) -> ProductMechanism:
    schema = nz.Schema.from_sizes({"a": 5, "b": 3, "c": 6})
    factors = (HaarMatrix(5), IdentityMatrix(3), TreeMatrix(6, 4))
    noise = Noise("gaussian", 7.5, integer)
    if scale is not None:
        noise = Noise("laplace", scale, integer)
    return ProductMechanism(schema, factors, noise)


def twin(mechanism: ProductMechanism) -> DenseMechanism:
    rows = np.ones((1, 1))
    for factor in mechanism.factors:
        rows = np.kron(rows, factor.dense())
    return DenseMechanism(mechanism.schema, rows, mechanism.noise)


def queries(schema: nz.Schema) -> list[nz.Query]:
    rng = np.random.default_rng(3)
    return [
        nz.Query(schema, []),
        nz.Query(schema, {"a": nz.Ranges(), "c": nz.Prefix()}),
        nz.Query(schema, ["b"]),
        nz.Query(schema, {"a": nz.Identity(), "b": nz.Prefix(), "c": nz.Ranges()}),
        nz.Query(schema, ["a", "c"], matrix=rng.standard_normal((4, 30))),
    ]


@pytest.mark.parametrize(
    ("integer", "scale"), [(False, None), (True, None), (True, 0.7), (False, 3.0)]
)
def test_products_do_what_their_dense_twins_do(integer: bool, scale: float | None) -> None:
    mechanism = product(integer, scale)
    other, rng = twin(mechanism), np.random.default_rng(1)
    assert (mechanism.numbers, mechanism.describe()) == (other.numbers, other.describe())
    np.testing.assert_allclose(mechanism.cost_matrix(), other.cost_matrix(), atol=1e-12)
    counts = rng.integers(0, 50, size=(1, 5, 3, 6))

    def sample(shape: tuple[int, ...], *_: Array) -> Array:
        return np.random.default_rng(8).integers(-5, 6, size=shape)

    measured = mechanism.measure(lambda sets: counts, sample)
    same = other.measure(lambda sets: counts, sample)
    np.testing.assert_allclose(measured.values[0], same.values[0], atol=1e-9)
    assert measured.values[0].dtype == same.values[0].dtype
    asked = queries(mechanism.schema)
    for query in asked:
        np.testing.assert_allclose(
            mechanism.answer(measured, query), other.answer(same, query), atol=1e-8
        )
        np.testing.assert_allclose(mechanism.variance(query), other.variance(query), rtol=1e-8)
        for second in asked:
            np.testing.assert_allclose(
                mechanism.covariance(query, second), other.covariance(query, second), atol=1e-8
            )
    workload = nz.Workload(asked)
    for (at, one), (_, two) in zip(
        mechanism.batches(measured, workload), other.batches(same, workload), strict=True
    ):
        np.testing.assert_allclose(one, two, atol=1e-8, err_msg=str(at))
    with pytest.raises(UnanswerableError, match="another schema"):
        mechanism.require(nz.Query(nz.Schema.from_sizes({"z": 2}), ["z"]))


def test_products_count_exactly_beyond_double_precision() -> None:
    mechanism = product(integer=True)
    counts = np.zeros((1, 5, 3, 6), dtype=np.int64)
    counts[0, 2, 1, 3], counts[0, 4, 2, 5] = 2**60 + 1, 3
    measured = mechanism.measure(lambda sets: counts, lambda *shape: np.zeros(shape[0], np.int64))
    exact = twin(mechanism).strategy.astype(np.int64).astype(object) @ counts.astype(object).ravel()
    assert measured.values[0].tolist() == exact.tolist()


@pytest.mark.parametrize(("integer", "scale"), [(True, None), (False, 3.0)])
def test_products_are_kept_on_disk(integer: bool, scale: float | None) -> None:
    mechanism = product(integer, scale)
    content, arrays = mechanism.parts()
    again = read_mechanism(content, arrays, mechanism.schema)
    assert isinstance(again, ProductMechanism)
    assert again.factors == mechanism.factors
    for one in ("law", "size", "exact"):
        assert getattr(again.noise, one) == getattr(mechanism.noise, one)
    for broken in (
        {**content, "sigma2": -1.0},
        {**content, "factors": content["factors"][:2]},
        {**content, "factors": [{"kind": "comb", "size": 5}, *content["factors"][1:]]},
        {**content, "scale": 12.0},
    ):
        with pytest.raises(StorageError):
            read_mechanism(broken, arrays, mechanism.schema)


@pytest.mark.few(2)
@pytest.mark.parametrize("planner", ["identity", "wavelet", "hierarchical", "hierarchical-8"])
def test_large_domains_go_by_transforms(planner: str, tmp_path: Path) -> None:
    """64 × 64 × 5 cells: no matrix over them is ever written."""
    schema = nz.Schema(
        {"x": nz.Ordinal(range(64)), "y": nz.Ordinal(range(64)), "z": nz.Categorical(list("abcde"))}
    )
    workload = nz.Workload(
        [
            nz.Query(schema, {"x": nz.Ranges(), "y": nz.Prefix()}, name="rectangles"),
            nz.Query(schema, ["z"]),
            nz.Query(schema, ["x", "z"]),
        ]
    )
    plan = nz.plan(workload, budget=nz.zCDP(0.5), planner=planner, noise="discrete")
    mechanism = plan.mechanism
    assert isinstance(mechanism, ProductMechanism)
    touched = np.prod([f.gram().diagonal().max() for f in mechanism.factors])
    assert touched / mechanism.noise.one <= plan.privacy.pcost <= 1.0
    ones = [f.matrix(a) for f, a in ((nz.Ranges(), schema["x"]), (nz.Prefix(), schema["y"]))]
    inverses = [np.linalg.inv(f.gram()) for f in mechanism.factors]
    parts = [m.quadratic_rows(i) for m, i in zip(ones, inverses, strict=False)]
    truth = mechanism.noise.one * np.outer(*parts).ravel() * inverses[2].sum()
    np.testing.assert_allclose(plan.variance("rectangles"), truth, rtol=1e-6)
    counts = np.random.default_rng(0).poisson(3.0, size=schema.shape)
    release = plan.release(CountTensor(schema, counts), seed=5)
    answer = release.answer("rectangles")
    exact = nz.Query(schema, {"x": nz.Ranges(), "y": nz.Prefix()}).matrices()
    table = exact[1].matmul(exact[0].matmul(counts.sum(axis=2).astype(float)).T).T.ravel()
    off = (answer.estimate - table) / np.sqrt(truth)
    assert np.abs(off).max() < 6.5  # 133,120 normal numbers
    release.save(tmp_path / "out")
    again = nz.load(tmp_path / "out")
    np.testing.assert_allclose(again.answer("rectangles").estimate, answer.estimate)
    assert again.plan.total_variance == pytest.approx(plan.total_variance)


def test_large_domains_under_laplace() -> None:
    schema = nz.Schema({"x": nz.Ordinal(range(1100))})
    workload = nz.Workload([nz.Query(schema, {"x": nz.Prefix()})])
    for planner, touched in (("privelet", 12), ("hierarchical", 12), ("hierarchical-16", 4)):
        plan = nz.plan(workload, budget=nz.PureDP(1.0), planner=planner, noise="discrete")
        mechanism = plan.mechanism
        assert isinstance(mechanism, ProductMechanism)
        assert mechanism.noise.one == pytest.approx(touched, rel=1e-9)
        assert touched / mechanism.noise.one <= plan.privacy.pure_epsilon <= 1.0
        profile = np.linalg.inv(mechanism.factors[0].gram())
        forms = workload.query(0).matrices()[0].quadratic_rows(profile)
        spread = float(discrete_laplace_variance(np.array([mechanism.noise.one]))[0])
        assert plan.total_variance == pytest.approx(spread * forms.sum(), rel=1e-6)


def test_what_is_too_large_is_refused() -> None:
    many = nz.Schema.from_sizes(dict.fromkeys("abcdefgh", 10))
    workload = nz.Workload.marginals(many, k=1)
    with pytest.raises(PlanError, match="would measure 100,000,000 numbers"):
        nz.plan(workload, budget=nz.zCDP(0.5), planner="identity")
    wide = nz.Workload.marginals(nz.Schema.from_sizes({"a": 10_000}), k=1)
    with pytest.raises(PlanError, match="at most 8,192 values, and one has 10,000"):
        nz.plan(wide, budget=nz.zCDP(0.5), planner="wavelet")
    with pytest.raises(PlanError, match="at most 8,192 values"):
        nz.plan(wide, budget=nz.PureDP(0.5), planner="privelet")
    big = nz.Strategy(np.ones((1, 10_000)))
    with pytest.raises(PlanError, match="and the schema has 10,000"):
        nz.plan(wide, budget=nz.zCDP(0.5), planner=big)
    assert nz.plan(wide, budget=nz.zCDP(0.5), planner="identity").total_variance > 0


def test_noise_too_large_for_64_bits_is_drawn() -> None:
    workload = two_attributes()
    plan = nz.plan(workload, budget=nz.zCDP(1e-30), planner="wavelet", noise="discrete")
    assert plan.mechanism.noise.wide
    data = CountTensor(workload.schema, np.zeros(workload.schema.shape, dtype=int))
    runs = depth(200, 60)
    releases = [plan.release(data, seed=seed) for seed in range(runs)]
    seen = [r.answer(q).estimate / np.sqrt(plan.variance(q)) for r in releases for q in workload]
    off = 0.2 * np.sqrt(200 / runs)
    assert np.mean(np.concatenate(seen) ** 2) == pytest.approx(1.0, abs=off)


def test_saved_plans_keep_what_looks_alike_apart(tmp_path: Path) -> None:
    """Ordered and unordered values of one size are measured differently by a tree."""
    workload = alike()
    plan = nz.plan(workload, budget=nz.zCDP(0.5), planner="hierarchical", noise="discrete")
    each = [plan.variance(q).sum() for q in workload]
    assert each[0] != pytest.approx(each[1], rel=1e-3)
    counts = CountTensor(workload.schema, np.ones((4, 4), dtype=int))
    plan.release(counts, seed=1).save(tmp_path / "out")
    again = nz.load(tmp_path / "out").plan
    assert again.total_variance == pytest.approx(plan.total_variance, rel=1e-12)


def test_limits_are_where_they_are_said_to_be() -> None:
    assert named.WRITTEN_OUT == 1024
    schema = nz.Schema.from_sizes({"a": 1024})
    small = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5), planner="identity")
    assert isinstance(small.mechanism, DenseMechanism)
    many = nz.Schema.from_sizes(dict.fromkeys("abcdefghij", 2))
    workload = nz.Workload.marginals(many, k=2)
    plan = nz.plan(workload, budget=nz.zCDP(0.5), planner="hierarchical", noise="gaussian")
    assert isinstance(plan.mechanism, ProductMechanism)
    assert plan.measured_numbers == 3**10
    # Two values and their sum, each record in two of three numbers: 2 · 2/3 for either.
    assert plan.total_variance == pytest.approx(45 * 4 * (4 / 3) ** 10)
    other = nz.plan(workload, budget=nz.zCDP(0.5), planner="optimal", noise="gaussian")
    with pytest.raises(PlanError, match="neither a matrix nor of the residual family"):
        nz.adaptive([plan, other])


def test_eigenvectors_that_are_not_the_only_ones_are_said() -> None:
    """The same tables, with the cells in another order: by more than a thousandth."""
    base = nz.Schema.from_sizes({"a": 3, "b": 3, "c": 3})
    rows = np.concatenate([query.dense() for query in nz.Workload.marginals(base, up_to=2)])
    schema, rmse = nz.Schema.from_sizes({"x": 27}), []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(27)
        query = nz.Query(schema, ["x"], matrix=rows[:, order])
        plan = nz.plan(nz.Workload([query]), budget=nz.zCDP(0.5), planner="eigen-separated")
        assert "repeated eigenvalues: errors may depend on the order of the cells" in str(plan)
        rmse.append(plan.rmse)
    assert max(rmse) > 1.001 * min(rmse)
    ranges = nz.Workload([nz.Query(schema, {"x": nz.Ranges()})])
    assert "repeated" not in str(nz.plan(ranges, budget=nz.zCDP(0.5), planner="eigen-separated"))
