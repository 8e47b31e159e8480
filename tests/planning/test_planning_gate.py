"""The gate of planning: nothing above the budget or without an answer becomes a plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import noiseplan as nz
from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.finish import finish
from noiseplan.planning.planner import FAMILIES
from noiseplan.planning.problem import Problem
from noiseplan.planning.reductions import Persons, Targets

SCHEMA = nz.Schema.from_sizes({"a": 4, "b": 3})
WORKLOAD = nz.Workload.marginals(SCHEMA, k=1)
BUDGETS = [nz.zCDP(0.5), nz.PureDP(1.0)]


def solve(problem: Problem) -> Candidate:
    return FAMILIES[problem.drawn.law].solve(problem)


@pytest.mark.parametrize("budget", BUDGETS, ids=["zCDP", "pure"])
def test_a_candidate_that_costs_too_much_is_refused(budget: nz.Budget) -> None:
    problem = Problem(WORKLOAD, budget)
    candidate = solve(problem)
    assert finish(problem, candidate).privacy.within(budget)
    dear = solve(Problem(WORKLOAD, type(budget)(2.0)))
    with pytest.raises(PlanError, match="above"):
        finish(problem, dear)


@pytest.mark.parametrize("budget", BUDGETS, ids=["zCDP", "pure"])
def test_a_candidate_that_costs_more_than_it_says_is_refused(budget: nz.Budget) -> None:
    """Its price fits the budget; what it measures does not have that price."""
    problem = Problem(WORKLOAD, budget)
    dear = solve(Problem(WORKLOAD, type(budget)(2.0)))
    with pytest.raises(PlanError, match="lower privacy cost than its noise has"):
        finish(problem, replace(dear, privacy=solve(problem).privacy))


@pytest.mark.parametrize("budget", BUDGETS, ids=["zCDP", "pure"])
def test_a_candidate_that_does_not_answer_is_refused(budget: nz.Budget) -> None:
    problem = Problem(WORKLOAD, budget)
    of_one = solve(Problem(nz.Workload([nz.Query(SCHEMA, ["a"])]), budget, planner="identity"))
    partial = replace(solve(problem), mechanism=of_one.mechanism)
    if budget.__class__ is nz.zCDP:  # the identity over all cells answers everything
        finish(problem, partial)
        residual = solve(Problem(nz.Workload([nz.Query(SCHEMA, ["a"])]), budget))
        partial = replace(partial, mechanism=residual.mechanism)
    with pytest.raises(UnanswerableError, match="does not determine"):
        finish(problem, partial)


def test_persons_pay_for_all_their_records() -> None:
    """The same mechanism as for one record at a ninth of the budget, at nine times its price."""
    problem, persons = Problem(WORKLOAD, nz.zCDP(0.9), max_rows=3), Persons(3)
    record = persons.forward(problem)
    assert record.max_rows == 1 and record.budget.rho == pytest.approx(0.1)
    one = solve(record)
    person = persons.back(one)
    assert person.privacy.pcost == pytest.approx(9 * one.privacy.pcost)
    assert person.mechanism is one.mechanism
    assert finish(problem, person).privacy.rho <= 0.9


def test_targets_keep_the_queries_that_have_one() -> None:
    read = Targets().forward(Problem(WORKLOAD, targets={"b": 4.0}))
    assert [query.name for query in read.workload] == ["b"]
    assert read.targets.tolist() == [4.0]
    assert isinstance(read.goal, nz.WorstVariance)


def test_a_plan_that_is_read_is_prepared_when_it_is_asked_about(tmp_path: Path) -> None:
    plan = nz.plan(WORKLOAD, budget=nz.zCDP(0.5))
    plan.release({"a": [0, 1, 2], "b": [0, 1, 2]}, seed=1).save(tmp_path / "release")
    read = nz.load(tmp_path / "release").plan
    assert "design" not in vars(read.figures)
    assert read.total_variance == pytest.approx(plan.total_variance)
    assert "design" in vars(read.figures)
    assert read.considered == () and "considered" not in str(read)
