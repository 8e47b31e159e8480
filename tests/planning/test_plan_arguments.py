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


@pytest.mark.parametrize("wrong", [None, "marginals", 7])
def test_no_workload(wrong: object) -> None:
    found = f"Workload or a list of queries, found {type(wrong).__name__}"
    with pytest.raises(PlanError, match=found):
        nz.plan(wrong, budget=ONE)


@pytest.mark.parametrize("wrong", [0.5, "zCDP(0.5)", (1.0, 1e-9), nz.zCDP])
def test_no_budget(workload: nz.Workload, wrong: object) -> None:
    with pytest.raises(BudgetError, match=r"zCDP\(rho\), GDP\(mu\)"):
        nz.plan(workload, budget=wrong)


@pytest.mark.parametrize("wrong", [nz.WorstVariance, max, 2])
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
    with pytest.raises(PlanError, match=r"noise is 'discrete', 'discrete Gaus.*found 'cauchy'"):
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


@pytest.mark.parametrize(
    ("planner", "said"),
    [
        ("tree", r"planner='tree' is for Laplace noise, budget=PureDP\(1.0\), only"),
        ("privelet", "is for Laplace noise"),
        ("least-sensitivity", "is for Laplace noise"),
        ("optimall", r"choose from auto, .*, dawa, or with a number.*did you mean 'optimal'\?"),
        ("hierarchical4", r"did you mean 'hierarchical-4'\?"),
    ],
)
def test_planners_that_are_not_there(planner: str, said: str) -> None:
    workload = nz.Workload.marginals(nz.Schema.from_sizes({"a": 4}), k=1)
    with pytest.raises(PlanError, match=said):
        nz.plan(workload, budget=nz.zCDP(0.5), planner=planner)


def test_a_bare_matrix_is_no_planner() -> None:
    workload = nz.Workload.marginals(nz.Schema.from_sizes({"a": 4}), k=1)
    with pytest.raises(PlanError, match="Strategy"):
        nz.plan(workload, budget=nz.zCDP(0.5), planner=np.eye(4))  # type: ignore[arg-type]


def test_nobody_expects_fewer_than_none() -> None:
    with pytest.raises(PlanError, match="expected counts are 0 or more, found -2"):
        nz.RelativeError(expected=[3, -2])


def test_names_of_targets_that_are_nearly_right() -> None:
    workload = nz.Workload.marginals(nz.Schema.from_sizes({"age": 4, "sex": 2}), k=1)
    with pytest.raises(QueryError, match="did you mean 'age'"):
        nz.plan(workload, targets={"agge": 4.0})


@pytest.mark.parametrize("targets", [[1.0, 2.0], {"matrix": [1.0, 2.0]}, np.ones(2)])
def test_targets_of_single_rows_are_queries_of_their_own(targets: object) -> None:
    rows = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    with pytest.raises(PlanError, match="one variance for all of its rows, found several; to give"):
        nz.plan(nz.Workload.from_matrix(rows), targets=targets)  # type: ignore[arg-type]
    schema = nz.Schema.from_sizes({"cell": 3})
    queries = [nz.Query(schema, matrix=[row], name=f"row {i}") for i, row in enumerate(rows)]
    plan = nz.plan(nz.Workload(queries), targets={"row 0": 1.0, "row 1": 4.0})
    assert plan.variance("row 0")[0] <= 1.0 + 1e-9
    assert plan.variance("row 1")[0] <= 4.0 + 1e-9
