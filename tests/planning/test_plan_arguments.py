"""Arguments of `nz.plan` that make no sense are refused, with the call that would work."""

from __future__ import annotations

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import BudgetError, NoiseplanError, PlanError, QueryError

ONE = nz.zCDP(0.5)


@pytest.fixture
def workload() -> nz.Workload:
    return nz.Workload.marginals(nz.Schema.from_sizes({"a": 4, "b": 3}), k=1)


def test_neither_budget_nor_targets(workload: nz.Workload) -> None:
    with pytest.raises(PlanError, match=r"budget=zCDP\(0.5\).*targets"):
        nz.plan(workload)


@pytest.mark.parametrize("wrong", [None, "marginals", [1, 2]])
def test_no_workload(wrong: object) -> None:
    with pytest.raises(PlanError, match=f"Workload, found {type(wrong).__name__}"):
        nz.plan(wrong, budget=ONE)


def test_a_query_is_no_workload(workload: nz.Workload) -> None:
    with pytest.raises(PlanError, match="Workload, found Query"):
        nz.plan(workload[0], budget=ONE)


@pytest.mark.parametrize("wrong", [0.5, "zCDP(0.5)", (1.0, 1e-9), nz.zCDP])
def test_no_budget(workload: nz.Workload, wrong: object) -> None:
    with pytest.raises(BudgetError, match=r"zCDP\(rho\), GDP\(mu\)"):
        nz.plan(workload, budget=wrong)


@pytest.mark.parametrize("wrong", ["worst", nz.WorstVariance, max, 2])
def test_no_objective(workload: nz.Workload, wrong: object) -> None:
    with pytest.raises(PlanError, match=r"TotalVariance\(\), WorstVariance\(\)"):
        nz.plan(workload, budget=ONE, objective=wrong)


def test_unknown_planner(workload: nz.Workload) -> None:
    with pytest.raises(PlanError, match=r"unknown planner 'hdmm'; choose from auto, residual"):
        nz.plan(workload, budget=ONE, planner="hdmm")


def test_unknown_neighbours(workload: nz.Workload) -> None:
    with pytest.raises(PlanError, match=r"'add-remove' or 'replace', found 'bounded'"):
        nz.plan(workload, budget=ONE, neighbours="bounded")


def test_unknown_noise(workload: nz.Workload) -> None:
    with pytest.raises(PlanError, match=r"noise is 'discrete' or 'gaussian'.*found 'cauchy'"):
        nz.plan(workload, budget=ONE, noise="cauchy")


def test_everything_after_the_workload_has_a_name(workload: nz.Workload) -> None:
    with pytest.raises(TypeError):
        nz.plan(workload, ONE)


def test_an_empty_workload() -> None:
    with pytest.raises(QueryError, match="at least one query"):
        nz.plan(nz.Workload([]), budget=ONE)


def test_every_refusal_is_ours_and_a_value_error(workload: nz.Workload) -> None:
    for wrong in ({"planner": "x"}, {"neighbours": "x"}, {"noise": "x"}, {"objective": 1}):
        with pytest.raises(NoiseplanError) as caught:
            nz.plan(workload, budget=ONE, **wrong)
        assert isinstance(caught.value, ValueError)


def test_a_cost_matrix_needs_a_small_domain() -> None:
    schema = nz.Schema.from_sizes({f"a{i}": 10 for i in range(6)})
    plan = nz.plan(nz.Workload.marginals(schema, k=1), budget=ONE)
    with pytest.raises(PlanError, match=r"1,000,000 cells.*limit"):
        plan.cost_matrix()


def test_a_covariance_of_too_many_rows() -> None:
    schema = nz.Schema.from_sizes({"a": 100, "b": 100})
    plan = nz.plan(nz.Workload.marginals(schema, k=2), budget=ONE)
    query = nz.Query(schema, ["a", "b"])
    with pytest.raises(PlanError, match=r"10,000 × 10,000 rows.*Custom"):
        plan.covariance(query, query)
    one = nz.Query(schema, {"a": nz.Custom(np.eye(1, 100))})
    assert plan.covariance(one, query).shape == (1, 10_000)
