"""Long attributes with a cell for missing values: trees and series against matrices and optima."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from long_attributes import planned_as_long
from noiseplan.mechanisms.measured_series import SeriesMechanism
from noiseplan.mechanisms.measured_tree import TreeMechanism

BUDGET = nz.zCDP(0.5)
VALUE = nz.Identity()
SCHEMA = nz.Schema(
    {
        "sex": nz.Categorical(["F", "M"]),
        "time": nz.Ordinal(range(12), missing="not stated"),
        "age": nz.Ordinal(range(3)),
    }
)


def levels() -> nz.Workload:
    return nz.Workload(
        [
            nz.Query(SCHEMA, {"time": nz.Levels(3, 6), "sex": VALUE}),
            nz.Query(SCHEMA, {"time": nz.Levels(6, leaves=False), "age": VALUE}, weight=2.0),
            nz.Query(SCHEMA, {"time": VALUE}, weight=0.5),
            nz.Query(SCHEMA, ["sex", "age"]),
        ]
    )


def sums() -> nz.Workload:
    return nz.Workload(
        [
            nz.Query(SCHEMA, {"time": nz.Prefix(), "sex": VALUE}),
            nz.Query(SCHEMA, {"time": nz.Levels(3, leaves=False), "age": VALUE}),
            nz.Query(SCHEMA, {"time": VALUE}, weight=0.5),
            nz.Query(SCHEMA, ["sex", "age"]),
        ]
    )


def planned(workload: nz.Workload, **how: Any) -> nz.Plan:
    with planned_as_long():
        plan = nz.plan(workload, **({"budget": BUDGET} | how))
    kind = SeriesMechanism if workload[0].factors["time"] == nz.Prefix() else TreeMechanism
    assert isinstance(plan.mechanism, kind)
    return plan


@pytest.mark.grid
@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
@pytest.mark.parametrize("workload", [levels(), sums()], ids=["tree", "series"])
def test_errors_are_those_of_least_squares(workload: nz.Workload, noise: str) -> None:
    """Variances and covariances from the cost matrix, all of whose rows are estimated at best."""
    plan = planned(workload, noise=noise)
    exact = np.linalg.pinv(plan.cost_matrix(), hermitian=True)
    rng = np.random.default_rng(1)
    queries = [
        *workload,
        nz.Query(SCHEMA, {"time": nz.Custom(rng.normal(size=(2, 13)))}),
        nz.Query(SCHEMA, {"time": nz.Custom([[0] * 12 + [1]], "missing", ["missing"])}),
        nz.Query(SCHEMA, {"time": nz.Levels([0, 1] * 6, leaves=False), "sex": VALUE}),
    ]
    if workload[0].factors["time"] == nz.Prefix():
        queries.append(nz.Query(SCHEMA, {"time": nz.Ranges(), "sex": VALUE}))
    for query, other in product(queries, queries):
        expected = query.dense() @ exact @ other.dense().T
        np.testing.assert_allclose(plan.covariance(query, other), expected, rtol=1e-6, atol=1e-8)
    for query in queries:
        expected = np.diag(query.dense() @ exact @ query.dense().T)
        np.testing.assert_allclose(plan.variance(query), expected, rtol=1e-6)


GOALS: list[Any] = [nz.TotalVariance(), nz.WorstVariance(), nz.PNormVariance(3.0)]
GOALS.append(nz.ConvexLoss(lambda v: float((v**2).sum()), lambda v: 2 * v))


@pytest.mark.grid
@pytest.mark.parametrize("goal", GOALS, ids=str)
@pytest.mark.parametrize("workload", [levels(), sums()], ids=["tree", "series"])
def test_bounds_are_of_what_is_asked(workload: nz.Workload, goal: Any) -> None:
    """The cell of missing values is a row that is planned for and not asked: no bound counts it."""
    plan = planned(workload, noise="gaussian", objective=goal)
    best = nz.plan(workload, budget=BUDGET, noise="gaussian", objective=goal, planner="optimal")
    assert plan.certify().bound <= best.certify().value * (1 + 1e-9)
    tree = isinstance(plan.mechanism, TreeMechanism)
    assert plan.certify().value <= best.certify().value * (1.04 if tree else 1.35)
    assert plan.lower_bound <= plan.total_variance


@pytest.mark.parametrize("workload", [levels(), sums()], ids=["tree", "series"])
def test_without_noise_answers_are_the_truth(workload: nz.Workload, tmp_path: Path) -> None:
    plan = planned(workload, budget=nz.zCDP(1e9), planner="residual")
    rng = np.random.default_rng(2)
    times = [None if time == 12 else int(time) for time in rng.integers(0, 13, 400)]
    data = {"time": times, "sex": rng.choice(["F", "M"], 400), "age": rng.integers(0, 3, 400)}
    plan.release(data).save(tmp_path / "out", tables=[])
    release = nz.load(tmp_path / "out")
    counts = np.zeros(SCHEMA.shape)
    for sex, time, age in zip(data["sex"], times, data["age"], strict=True):
        counts["FM".index(sex), 12 if time is None else time, age] += 1
    for query in workload:
        np.testing.assert_allclose(
            release.answer(query).estimate, query.dense() @ counts.ravel(), atol=1e-2
        )
    assert release.ask("time=not stated").estimate[0] == pytest.approx(times.count(None), abs=1e-2)


@pytest.mark.parametrize("factor", [nz.Prefix(), nz.Levels(60)], ids=str)
def test_a_missing_cell_hardly_changes_a_long_plan(factor: nz.Factor) -> None:
    found = []
    for missing in (None, "not stated"):
        schema = nz.Schema({"minute": nz.Ordinal(range(1440), missing=missing)})
        found.append(nz.plan(nz.Workload([nz.Query(schema, {"minute": factor})]), budget=BUDGET))
    assert found[1].rmse == pytest.approx(found[0].rmse, rel=2e-3)
    assert type(found[0].mechanism) is type(found[1].mechanism)


def test_a_hierarchy_with_missing_values_is_a_tree() -> None:
    leaves = [f"{i:03d}" for i in range(600)]
    geo = nz.Hierarchical.from_codes(
        leaves, {"county": 2, "state": 1}, leaf="tract", other="abroad", missing="not stated"
    )
    schema = nz.Schema({"geo": geo, "sex": nz.Categorical(["F", "M"])})
    asked = nz.Query(schema, {"geo": nz.Level("state", "county", "tract"), "sex": VALUE})
    plan = nz.plan(nz.Workload([asked]), budget=nz.zCDP(1e7))
    assert isinstance(plan.mechanism, TreeMechanism)
    rng = np.random.default_rng(3)
    places = [*leaves, "Mars", None]
    data = {
        "geo": [places[i] for i in rng.integers(0, 602, 5000)],
        "sex": rng.choice(["F", "M"], 5000),
    }
    release = plan.release(data)
    count = data["geo"].count(None)
    for question in ("geo=not stated", "county=not stated", "state=not stated"):
        assert release.ask(question).estimate[0] == pytest.approx(count, abs=0.5)
    for condition in ("geo is null", "county is null", "state is null"):
        query = nz.Workload.predicates(schema, [condition])[0]
        assert release.answer(query).estimate[0] == pytest.approx(count, abs=0.5)
    stated = nz.Workload.predicates(schema, ["county is not null"])[0]
    assert release.answer(stated).estimate[0] == pytest.approx(5000 - count, abs=0.5)
    assert list(release.ask("state").columns()["state"])[-2:] == ["abroad", "not stated"]
    assert release.ask("total").estimate[0] == pytest.approx(5000, abs=0.5)


def test_values_nobody_asks_for_do_not_hold_up_the_rows_of_others() -> None:
    """From the start that suits other workloads the search ended 25 and 36 % above the bound."""
    for sizes in ((74, 100, 16), (120, 90, 150, 60)):
        every = [nz.Ordinal(range(size), missing="not stated") for size in sizes]
        schema = nz.Schema(dict(zip("abcd", every, strict=False)))
        prefixes = dict.fromkeys(schema.names, nz.Prefix())
        workload = nz.Workload.marginals(schema, k=2, factors=prefixes)
        plan = nz.plan(workload, budget=BUDGET, planner="residual", noise="gaussian")
        assert plan.total_variance <= 1.035 * plan.lower_bound
