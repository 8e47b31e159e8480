"""Releases of pure DP: the law of their noise, saving and loading, ledgers, words."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import noiseplan as nz
from depth import depth
from noiseplan.errors import DataError, PlanError, StorageError
from noiseplan.mechanisms.exact_residuals import RECORDS
from noiseplan.noise import SeededSource, discrete_laplace
from noiseplan.noise.moments import half_width_factor
from noiseplan.storage import plan_hash

SCHEMA = nz.Schema.from_sizes({"age": 8, "sex": 2, "region": 3})
PREFIX = nz.Workload.marginals(SCHEMA, up_to=2, factors={"age": nz.Prefix()})
# Six attributes that look alike, and are not measured alike.
ALIKE = nz.Workload.marginals(nz.Schema.from_sizes(dict.fromkeys("uvwxyz", 3)), k=2)
COUNTS = np.random.default_rng(1).integers(0, 50, SCHEMA.shape)


PLANS: dict[str, tuple[nz.Workload, dict[str, str]]] = {
    "tables": (nz.Workload.marginals(SCHEMA, k=1), {}),
    "strategies": (PREFIX, {"planner": "p-identity"}),
    "merged": (ALIKE, {}),
    "matrix": (PREFIX, {"planner": "matrix"}),
    "floating point": (PREFIX, {"noise": "laplace"}),
}


@cache
def planned(name: str) -> nz.Plan:
    workload, how = PLANS[name]
    return nz.plan(workload, budget=nz.PureDP(0.8), **how)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=PLANS, ids=str)
def plan(request: pytest.FixtureRequest) -> nz.Plan:
    return planned(request.param)


def counts(plan: nz.Plan) -> np.ndarray:
    return COUNTS if plan.schema == SCHEMA else np.arange(729).reshape((3,) * 6) % 7


def test_errors_have_the_stated_variance(plan: nz.Plan) -> None:
    """Mean and variance of every row of two queries, over many releases.

    The fourth moment of a sum of Laplace numbers is at most 6σ⁴, so the variance of the sample
    variance is at most 5σ⁴/N: six of its standard deviations for N = 600 are 0.55σ².
    """
    draws, data = depth(600, 200), counts(plan)
    queries = [plan.workload.query(0), plan.workload.query(len(plan.workload) - 1)]
    truth = [q.dense() @ data.ravel() for q in queries]
    found = []
    for seed in range(draws):
        # What `release.answer` estimates, without the errors that are the same each time.
        measured = plan.release(data, seed=seed).measurements
        answers = [plan.mechanism.answer(measured, query) for query in queries]
        found.append([answer - t for answer, t in zip(answers, truth, strict=True)])
    for number, query in enumerate(queries):
        errors = np.array([each[number] for each in found])
        variance = plan.variance(query)
        assert np.abs(errors.mean(axis=0)).max() < 6 * np.sqrt(variance.max() / draws)
        np.testing.assert_allclose(errors.var(axis=0), variance, rtol=6 * np.sqrt(5 / draws))
        off = np.abs(np.mean(errors.var(axis=0) / variance) - 1)
        assert off < 0.35 * np.sqrt(600 / draws)


def test_saved_and_loaded(plan: nz.Plan, tmp_path: Path) -> None:
    release = plan.release(counts(plan), seed=3)
    release.save(tmp_path / "out")
    loaded = nz.load(tmp_path / "out")
    assert loaded.plan.privacy == plan.privacy
    assert plan_hash(loaded.plan) == plan_hash(plan)
    assert (loaded.plan.noise, loaded.plan.planner) == (plan.noise, plan.planner)
    for query in plan.workload:
        assert np.array_equal(loaded.answer(query).estimate, release.answer(query).estimate)
        np.testing.assert_allclose(loaded.plan.variance(query), plan.variance(query), rtol=1e-12)
    for figure in ("total_variance", "worst_variance", "rmse", "lower_bound"):
        assert getattr(loaded.plan, figure) == pytest.approx(getattr(plan, figure), rel=1e-6)
    words = (tmp_path / "out" / "certificate.txt").read_text()
    assert "pure DP: ε = 0.8" in words
    assert "Laplace noise" in words


@pytest.mark.parametrize("change", ["scales", "sets", "views"])
def test_files_that_do_not_fit_are_refused(change: str) -> None:
    from noiseplan.storage.plans import read_mechanism

    content, arrays = planned("strategies").mechanism.parts()
    if change == "scales":
        arrays["table_0_scales"] = -arrays["table_0_scales"]
    elif change == "sets":
        arrays["table_0_sets"] = arrays["table_0_sets"][:, ::-1]
    else:
        content = content | {"views": [{**v, "size": 99} for v in content["views"]]}
    with pytest.raises(StorageError):
        read_mechanism(content, arrays, SCHEMA)


def test_seeded_noise_is_discrete_laplace_on_the_tables() -> None:
    """A single table of all values: the release is the counts plus discrete Laplace draws."""
    schema = nz.Schema.from_sizes({"a": 6})
    plan = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.PureDP(0.5))
    counts = np.arange(6) * 10
    found = plan.release(counts, seed=9).answer(nz.Query(schema, ["a"])).estimate
    drawn = discrete_laplace(2.0, (6, 1), source=SeededSource(9))[:, 0]
    np.testing.assert_allclose(found, counts + drawn, atol=1e-9)


def test_ledger_is_charged_as_zcdp(tmp_path: Path) -> None:
    book = nz.Ledger(tmp_path / "ledger", create=True)
    book.open_dataset("people", nz.zCDP(1.0))
    plan = planned("tables")
    plan.release(COUNTS, ledger=book, dataset="people")
    assert book.balance("people").spent.rho == plan.privacy.rho == pytest.approx(0.32)


def test_what_is_not_built_is_refused() -> None:
    first, second = planned("tables"), planned("strategies")
    with pytest.raises(PlanError):
        nz.adaptive([first, second])
    release = first.release(COUNTS, seed=1)
    with pytest.raises(PlanError):
        nz.plan(PREFIX, budget=nz.zCDP(0.5)).given(release)
    with pytest.raises(PlanError):
        second.given(release)


def test_printed() -> None:
    long = nz.Workload([nz.Query(nz.Schema.from_sizes({"a": 64}), {"a": nz.Prefix()})])
    text = str(nz.plan(long, budget=nz.PureDP(1.0)))
    assert "ε = 1 (pure DP), ρ = 0.5 (zCDP)" in text
    assert "exact discrete Laplace on integers" in text
    assert "measures    p-identity: " in text
    assert "1 table (a by " in text
    one = nz.Schema.from_sizes({"a": 6})
    best = str(nz.plan(nz.Workload.marginals(one, k=1), budget=nz.PureDP(1.0), noise="laplace"))
    assert "no linear Laplace mechanism has a lower total variance" in best
    assert "floating-point Laplace, for simulation" in best


@pytest.mark.parametrize("outside", [0.2, 0.1, 0.05, 0.01, 1e-4, 1e-8])
def test_intervals_reach_far_enough_for_laplace_noise(outside: float) -> None:
    """P(|X| > t) of sums of Laplace numbers of scales b_i in closed form, by partial fractions:
    Σ_i e^{−t/b_i} ∏_{j≠i} b_i²/(b_i² − b_j²)."""
    rng = np.random.default_rng(0)
    reach = half_width_factor(1 - outside, 1, laplace=True)
    assert np.exp(-np.sqrt(2) * reach) <= outside * (1 + 1e-7)  # one number, exactly
    for _ in range(300):
        count = int(rng.integers(2, 5))
        shares = rng.dirichlet(np.full(count, rng.choice([0.3, 1.0, 10.0])))
        shares = np.sort(shares + np.linspace(0.05, 0.3, count))
        squares = shares / shares.sum() / 2  # b², so that the variance Σ 2b² is one
        parts = [
            np.exp(-reach / np.sqrt(b)) * np.prod([b / (b - c) for c in squares if c != b])
            for b in squares
        ]
        assert sum(parts) <= outside * (1 + 1e-6)


def test_intervals_of_releases_are_those_of_laplace_noise() -> None:
    schema = nz.Schema.from_sizes({"a": 4})
    plan = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.PureDP(0.01))
    query = nz.Query(schema, ["a"])
    answer = plan.release(np.arange(4), seed=1).answer(query, level=0.99)
    # P(|L| > t) = e^{−t/b}, b = 100: t = 100 log 100.
    np.testing.assert_allclose(answer.upper - answer.estimate, 100 * np.log(100), rtol=1e-4)
    np.testing.assert_allclose(plan.half_width(query, level=0.99), 100 * np.log(100), rtol=1e-4)
    wide = plan.half_width(query, level=0.99, simultaneous=True)
    np.testing.assert_allclose(wide, 100 * np.log(400), rtol=1e-4)


def test_too_many_records_are_refused_before_anything_is_spent() -> None:
    plan = planned("strategies")
    many = np.zeros(SCHEMA.shape, dtype=np.int64)
    many[0, 0, 0] = RECORDS
    plan.release(many, seed=1)
    many[0, 0, 0] = RECORDS + 1
    with pytest.raises(DataError, match="Nothing was spent"):
        plan.release(many, seed=1)
