"""Variances of whole workloads at once: those of every query by itself, in any batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import PlanError
from noiseplan.mechanisms import residual_errors, row_variances
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.mechanisms.residual_errors import noise_inside, variances_on_sets
from noiseplan.mechanisms.row_variances import sums_and_largest, variance_batches

SCHEMA = nz.Schema.from_sizes({"a": 3, "b": 3, "c": 2, "d": 4})
ZCDP, PURE = {"budget": nz.zCDP(0.3)}, {"budget": nz.PureDP(1.0)}


def mixed() -> nz.Workload:
    pairs = [("a", "b"), ("a", "c"), ("b", "c"), ("c", "d"), ("a", "d")]
    queries = [nz.Query(SCHEMA, list(pair), weight=1.0 + i) for i, pair in enumerate(pairs)]
    queries += [nz.Query(SCHEMA, {"a": nz.Prefix()}), nz.Query(SCHEMA, {"b": nz.Prefix()})]
    queries += [nz.Query(SCHEMA, ["a", "b"], matrix=np.eye(9)[[0, 4]] + 1, name="joint")]
    queries += [nz.Query(SCHEMA, {})]
    return nz.Workload(queries)


PLANS: dict[str, Any] = {
    "residual": ZCDP,
    "residual, float": {**ZCDP, "noise": "gaussian"},
    "replaced": {**ZCDP, "neighbours": "replace"},
    "worst": {**ZCDP, "objective": nz.WorstVariance()},
    "tables": PURE,
    "one matrix": {**ZCDP, "planner": "identity"},
}


@pytest.fixture(params=PLANS, scope="module")
def plan(request: pytest.FixtureRequest) -> nz.Plan:
    return nz.plan(mixed(), **PLANS[request.param])


@pytest.mark.parametrize("cells", [1, 10, 1 << 17])
def test_every_query_once_with_its_own_variances(
    plan: nz.Plan, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_variances, "BATCH_CELLS", cells)
    seen: list[int] = []
    for positions, variances in variance_batches(plan.mechanism, plan.workload):
        assert variances.shape[1] == len(positions)
        assert len(positions) == 1 or variances.size <= cells
        for place, position in enumerate(positions.tolist()):
            query = plan.workload.query(position)
            alone = plan.mechanism.variance(query)
            np.testing.assert_allclose(variances[:, place], alone, rtol=1e-9)
            seen.append(position)
    assert sorted(seen) == list(range(len(plan.workload)))


def test_sums_and_largest_of_every_query(plan: nz.Plan) -> None:
    sums, largest = sums_and_largest(plan.mechanism, plan.workload)
    assert sums.shape == largest.shape == (len(plan.workload),)
    for position, query in enumerate(plan.workload):
        alone = plan.mechanism.variance(query)
        assert sums[position] == pytest.approx(alone.sum(), rel=1e-9)
        assert largest[position] == pytest.approx(alone.max(), rel=1e-9)


def test_queries_with_the_same_noise_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All pairs of ten equal attributes: one example stands for all 45."""
    schema = nz.Schema.from_sizes({f"x{i}": 3 for i in range(10)})
    plan = nz.plan(nz.Workload.marginals(schema, k=2), **ZCDP)
    asked: list[int] = []
    plain = ResidualMechanism.variances_alike

    def watched(self: Any, workload: nz.Workload, group: Any) -> Any:
        asked.append(len(group))
        return plain(self, workload, group)

    monkeypatch.setattr(ResidualMechanism, "variances_alike", watched)
    sums, _ = sums_and_largest(plan.mechanism, plan.workload)
    assert asked == [1]
    assert np.ptp(sums) == 0


def test_sets_asked_together_are_sets_asked_alone() -> None:
    plan = nz.plan(nz.Workload.marginals(SCHEMA, up_to=2), **ZCDP)
    mechanism = plan.mechanism
    assert isinstance(mechanism, ResidualMechanism)
    sets = np.array([[0, 1]])
    query = nz.Query(SCHEMA, ["a", "b"])
    found = variances_on_sets(mechanism, query, sets)
    np.testing.assert_allclose(found[:, 0], mechanism.variance(query), rtol=1e-12)
    inside = noise_inside(mechanism, sets)
    names = ([], ["b"], ["a"], ["a", "b"])  # the last attribute fastest
    assert inside[:, 0].tolist() == [mechanism.noise_variance(part) for part in names]


def test_what_is_not_measured_has_infinite_noise() -> None:
    plan = nz.plan(nz.Workload.marginals(SCHEMA, k=1), **ZCDP)
    assert isinstance(plan.mechanism, ResidualMechanism)
    inside = noise_inside(plan.mechanism, np.array([[0, 1]]))
    assert np.isfinite(inside[:3]).all() and np.isinf(inside[3])


def test_covariances_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = nz.plan(mixed(), **ZCDP)
    one, other = nz.Query(SCHEMA, ["a", "b"]), nz.Query(SCHEMA, ["a"])
    monkeypatch.setattr(residual_errors, "COVARIANCE_LIMIT", 26)
    with pytest.raises(PlanError, match="9 × 3 rows"):
        plan.covariance(one, other)
    monkeypatch.setattr(residual_errors, "COVARIANCE_LIMIT", 27)
    assert plan.covariance(one, other).shape == (9, 3)
