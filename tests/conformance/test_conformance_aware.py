"""Data-aware plans, by experiment: their cost adds up, and given its buckets noise is as stated."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from probes import bucket_noise, limits, storey_probe

import noiseplan as nz
from noiseplan.counting import CountTensor
from noiseplan.errors import PlanError
from noiseplan.mechanisms.exact_residuals import RECORDS

LINE = nz.Schema({"age": nz.Ordinal(range(24))})
LONG = nz.Schema({"age": nz.Ordinal(range(42))})
PURE, ZCDP = nz.PureDP(0.9), nz.zCDP(0.3)


@cache
def released(schema: nz.Schema, budget: Any, noise: str, settings: nz.Dawa) -> tuple[Any, Any]:
    """A plan and a release of it: what is measured is known only then."""
    workload = nz.Workload([nz.Query(schema, {"age": nz.Prefix()}), nz.Query(schema, ["age"])])
    plan = nz.plan(workload, budget=budget, noise=noise, planner=settings)
    counts = np.repeat(np.random.default_rng(1).integers(0, 90, schema.size // 6), 6)
    with limits(direct=8):  # of more buckets, groups are measured too
        return plan, plan.release(counts, seed=2)


GAUGED = nz.Dawa(longest=8, error_share=0.2)
SINGLE = nz.Dawa(longest=1)
STOREYS = nz.Dawa(longest=1, second="p-identity")
AWARE: dict[str, Callable[[], tuple[Any, Any]]] = {
    "Laplace, discrete": partial(released, LINE, PURE, "discrete", GAUGED),
    "Laplace, float": partial(released, LINE, PURE, "laplace", nz.Dawa(longest=8, second="tree")),
    "Gaussian, discrete": partial(released, LINE, ZCDP, "discrete", GAUGED),
    "Gaussian, float": partial(released, LINE, ZCDP, "gaussian", nz.Dawa(longest=8)),
    "in storeys, discrete": partial(released, LONG, ZCDP, "discrete", SINGLE),
    "in storeys, float": partial(released, LONG, PURE, "laplace", STOREYS),
    "plain, float": partial(released, LONG, PURE, "laplace", SINGLE),
    "plain, discrete": partial(released, LONG, PURE, "discrete", SINGLE),
}


@pytest.fixture(params=AWARE)
def made(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    return AWARE[request.param]()


def test_the_steps_are_within_the_budget(made: tuple[Any, Any]) -> None:
    plan, release = made
    assert plan.privacy.within(plan.budget)
    assert release.measurements.buckets.privacy.within(plan.mechanism.spending.second)


def test_it_is_biased_and_nobody_knows_before_what_is_measured(made: tuple[Any, Any]) -> None:
    plan, release = made
    with pytest.raises(PlanError, match="as it is told"):
        plan.mechanism.require_unbiased(PlanError("as it is told"))
    assert plan.mechanism.most_numbers == np.inf
    assert release.measurements.partition is release.measurements
    assert repr(plan).startswith("Plan(2 queries, data-aware, ρ = ")


def test_noise_given_the_buckets_is_as_stated(made: tuple[Any, Any]) -> None:
    _, release = made
    queries = list(release.plan.workload)
    for query, truth in zip(queries, bucket_noise(release, queries), strict=True):
        np.testing.assert_allclose(release.answer(query).noise_error ** 2, truth, rtol=1e-8)


def test_storeys_state_their_noise_and_cost(made: tuple[Any, Any]) -> None:
    plan, release = made
    storeys = [*release.measurements.buckets.storeys, plan.mechanism.spending.gauge]
    for storey in filter(None, storeys):
        stated, by_law, counted = storey_probe(storey)
        assert stated == pytest.approx(by_law, rel=1e-12)
        assert 1.0 <= counted <= 1 + 1e-12  # a record is in one total, and counts there once


@pytest.mark.parametrize("place", [0, 23])
def test_the_most_records_are_released(made: tuple[Any, Any], place: int) -> None:
    """Refused while measuring they would be lost after the charge."""
    plan, _ = made
    counts = np.zeros(plan.schema.size, np.int64)
    counts[place] = RECORDS
    release = plan.release(CountTensor(plan.schema, counts), seed=3)
    total = release.answer(plan.workload.query(0)).estimate[-1]
    assert abs(total - RECORDS) < 1e-6 * RECORDS


def test_saved_and_loaded_it_is_the_same(made: tuple[Any, Any], tmp_path: Path) -> None:
    plan, release = made
    release.save(tmp_path / "out", tables=[])
    loaded: Any = nz.load(tmp_path / "out")
    assert loaded.plan.privacy == plan.privacy
    for query in plan.workload:
        one, other = loaded.answer(query), release.answer(query)
        assert np.array_equal(one.estimate, other.estimate)
        assert np.array_equal(one.noise_error, other.noise_error)
        assert np.array_equal(one.bias_error, other.bias_error)


def test_long_lines_are_measured_in_storeys() -> None:
    """Otherwise nothing above would be said of them."""
    for name in ("in storeys, discrete", "in storeys, float"):
        assert len(AWARE[name]()[1].measurements.buckets.storeys) > 1
    for name in ("plain, float", "plain, discrete"):
        assert AWARE[name]()[1].measurements.buckets.top is None
