"""Workloads and choices at the edge: nothing asked of a record, rows of zeros, noise below one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.counting import CountTensor
from noiseplan.errors import PlanError
from noiseplan.planning.certificates import Stated

PAIR = nz.Schema.from_sizes({"a": 2, "b": 2})
LINE = nz.Schema.from_sizes({"a": 4})
ONLY_TOTAL = nz.Workload([nz.Query(PAIR, {})])


def test_a_choice_states_the_errors_of_the_noise_that_was_drawn() -> None:
    """The parts have other rows than the plan: with these, noise is not far below its parameter."""
    schema = nz.Schema.from_sizes({"a": 3, "b": 3})
    counts = CountTensor(schema, np.full((3, 3), 5))
    total = nz.plan(nz.Workload([nz.Query(schema, {}, name="T")]), budget=nz.zCDP(10))
    table = nz.plan(nz.Workload([nz.Query(schema, ["a"])]), budget=nz.zCDP(10), planner="optimal")
    found = [
        nz.adaptive([total, table]).look(counts, seed=seed).choose(0).answer("T")
        for seed in range(150)
    ]
    drawn = np.std([answer.estimate[0] for answer in found])
    assert 0.8 * drawn <= found[0].std_error[0] <= 1.25 * drawn


def test_no_bound_where_discrete_noise_is_beyond_all_numbers() -> None:
    workload = nz.Workload([nz.Query(LINE, ["a"])])
    assert nz.bounds(workload).at(nz.PureDP(800.0)) == 0.0
    assert nz.bounds(workload).at(nz.PureDP(1.0)) > 0


def test_rows_of_zeros_are_certified() -> None:
    workload = nz.Workload([nz.Query(LINE, {"a": nz.Custom([[0, 0, 0, 0], [1, 2, 0, 0]])})])
    plan = nz.plan(workload, targets=1.0)
    assert 0 < plan.certify().bound <= plan.certify().value
    assert "optimality" in str(plan)


def test_what_no_replaced_record_changes_is_certified_or_refused() -> None:
    how = {"neighbours": "replace", "objective": nz.WorstVariance()}
    matrix = nz.Workload([nz.Query(PAIR, ["a", "b"], matrix=[[1, 1, 0, 0], [1, 1, 1, 0]])])
    assert "privacy" in str(nz.plan(matrix, budget=nz.PureDP(0.5), **how))  # type: ignore[arg-type]
    exact = nz.plan(ONLY_TOTAL, budget=nz.zCDP(0.5), planner="optimal", **how)  # type: ignore[arg-type]
    assert exact.worst_variance == 0 and exact.certify().gap == 0
    with pytest.raises(PlanError, match="nothing that is asked depends on whose record"):
        nz.plan(ONLY_TOTAL, budget=nz.PureDP(0.5), neighbours="replace", planner="matrix")


@pytest.mark.parametrize("most", [1e-200, 1e300])
def test_errors_whose_squares_are_no_numbers_are_refused(most: float) -> None:
    with pytest.raises(PlanError, match="from 1e-100 to"):
        nz.plan(nz.Workload([nz.Query(LINE, ["a"])]), objective=nz.RMSE(at_most=most))


@pytest.mark.parametrize("chances", [np.zeros((2, 4)), np.full((4, 4), 1e-320) + np.eye(4)])
def test_own_strategies_that_are_none_are_refused(chances: np.ndarray) -> None:
    with pytest.raises(PlanError, match="a chance of at least"):
        nz.local.plan(nz.Workload([nz.Query(LINE, ["a"])]), strategy=chances)


def test_a_loaded_tree_knows_its_bound(tmp_path: Path) -> None:
    schema = nz.Schema.from_sizes({"place": 600, "sex": 2})
    levels = nz.Levels(20, leaves=False)
    workload = nz.Workload(
        [nz.Query(schema, ["place", "sex"]), nz.Query(schema, {"place": levels})]
    )
    plan = nz.plan(workload, budget=nz.zCDP(0.5))
    plan.release({"place": [1, 2], "sex": [0, 1]}, seed=1).save(tmp_path / "out", tables=[])
    loaded = nz.load(tmp_path / "out").plan
    assert isinstance(loaded.optimality, Stated)
    assert loaded.lower_bound == plan.lower_bound
    with pytest.raises(PlanError, match="nodes of a tree"):
        nz.adaptive([plan, nz.plan(workload.subset([0]), budget=nz.zCDP(0.2))])


@pytest.mark.parametrize("planner", ["auto", "residual"])
@pytest.mark.parametrize("objective", ["worst", "targets"])
def test_errors_are_numbers_where_the_total_is_public(planner: str, objective: str) -> None:
    """Queries of no cost get no weight in the search; their errors and all others are known."""
    schema = nz.Schema.from_sizes({"one": 1, "a": 5})
    groups = nz.Custom([[0, 0, 0, 0, 1], [0, 1, 1, 1, 0], [1, 0, 0, 0, 0]])
    workload = nz.Workload(
        [
            nz.Query(schema, {}, name="all"),
            nz.Query(schema, ["one", "a"], matrix=[[2, 1, 2, 2, 2]], name="matrix"),
            nz.Query(schema, {"a": groups}, name="groups"),
        ]
    )
    how: dict[str, Any] = {"objective": "worst", "budget": nz.zCDP(0.5)}
    if objective == "targets":
        how = {"targets": {"all": 1.0, "matrix": 1.0, "groups": 1.0}}
    plan = nz.plan(workload, neighbours="replace", planner=planner, **how)
    each = {query.name: plan.variance(query) for query in workload}
    assert each["all"] == pytest.approx([0.0], abs=1e-12)
    assert plan.total_variance == pytest.approx(sum(v.sum() for v in each.values()), rel=1e-6)
    assert "nan" not in str(plan)


def test_a_loss_without_a_gradient_where_some_variances_are_zero() -> None:
    """Differences of the loss need a step where no query costs anything."""
    some = nz.Query(LINE, {"a": nz.Custom([[0, 0, 1, 1]])})
    workload = nz.Workload([nz.Query(LINE, {}), some, nz.Query(LINE, {}, name="again")])
    how: dict[str, Any] = {"budget": nz.zCDP(0.5), "neighbours": "replace"}
    losses = (
        nz.ConvexLoss(lambda v: float(v @ v)),
        nz.ConvexLoss(lambda v: float(v @ v), lambda v: 2 * v),
    )
    plans = [nz.plan(workload, objective=loss, **how) for loss in losses]
    assert plans[0].total_variance == pytest.approx(plans[1].total_variance, rel=1e-3)


@pytest.mark.parametrize("what", ["plan", "certify", "bounds"])
def test_linear_algebra_that_fails_is_refused_in_words(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = nz.Schema.from_sizes({"a": 6, "b": 2})
    workload = nz.Workload([nz.Query(schema, {"a": nz.Prefix()}), nz.Query(schema, ["a", "b"])])
    plan = nz.plan(workload, budget=nz.zCDP(0.5), objective="worst", planner="residual")
    calls = {
        "plan": lambda: nz.plan(workload, budget=nz.zCDP(0.5)),
        "certify": plan.certify,
        "bounds": lambda: nz.bounds(workload),
    }

    def fails(*_: object, **__: object) -> None:
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    for name in ("eigh", "eigvalsh", "svd", "inv", "cholesky", "solve"):
        monkeypatch.setattr(np.linalg, name, fails)
    with pytest.raises(PlanError, match="differ too much for double precision"):
        calls[what]()


def test_a_challenger_whose_linear_algebra_fails_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(problem: object) -> None:
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr("noiseplan.planning.planners.replaced_optimum.unasked", fails)
    workload = nz.Workload([nz.Query(PAIR, {"a": nz.Prefix()}), nz.Query(PAIR, ["a", "b"])])
    plan = nz.plan(workload, budget=nz.zCDP(0.5), neighbours="replace")
    assert dict(plan.considered)["optimal"] == "not found, weights differ too much"
