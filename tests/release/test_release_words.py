"""What plans and releases say of themselves: the budget asked for, examples that can be asked."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import noiseplan as nz
from noiseplan.cli import main
from noiseplan.cli.answer import answer_csv
from noiseplan.errors import QueryError
from noiseplan.planning import certificates, certify
from noiseplan.planning.pure_bounds import BY_LAW
from noiseplan.storage.certificate import plan_figures

SCHEMA = nz.Schema.from_sizes({"a": 4, "b": 3})
COUNTS = np.arange(12).reshape(4, 3)
NEGATIVE_ZERO = re.compile(r"(?<![\w.])[-−]0(\.0*)?(?![\d.])")


def test_a_budget_is_shown_in_its_own_currency() -> None:
    plan = nz.plan(
        nz.Workload.marginals(SCHEMA, k=1),
        budget=nz.ApproxDP(1.0, 1e-6),
        noise="discrete Gaussian",
    )
    assert plan.budget == nz.ApproxDP(1.0, 1e-6)
    assert "  privacy     within ε = 1 at δ = 1e-06, as decided:\n              ρ = 0.02" in str(
        plan
    )
    release = str(plan.release(COUNTS, seed=1))
    assert "  privacy  within ε = 1 at δ = 1e-06, as decided (zCDP: ρ = 0.02" in release
    assert "), spent once\n" in release
    pure = str(nz.plan(nz.Workload.marginals(SCHEMA, k=1), budget=nz.ApproxDP(1.0, 1e-9)))
    assert "within ε = 1 at δ = 1e-09, as decided:\n              ε = 1 (pure DP)" in pure


@pytest.mark.parametrize("budget", [nz.zCDP(0.5), nz.PureDP(1.0)])
def test_a_budget_that_is_shown_anyway_is_shown_once(budget: nz.zCDP | nz.PureDP) -> None:
    plan = nz.plan(nz.Workload.marginals(SCHEMA, k=1), budget=budget)
    assert plan.budget == budget
    assert "as decided" not in str(plan)


def test_a_person_has_the_budget() -> None:
    workload = nz.Workload.marginals(SCHEMA, k=1)
    assert nz.plan(workload, budget=nz.zCDP(0.5), max_rows=2).budget == nz.zCDP(0.5)
    assert nz.plan(workload, targets=4.0).budget is None


def test_examples_name_what_there_is() -> None:
    budget = nz.zCDP(0.5)
    tables = nz.plan(nz.Workload.marginals(SCHEMA, up_to=2), budget=budget).release(COUNTS, seed=1)
    assert "ask      .table('a', 'b'), .answer(query)" in str(tables)
    ones = nz.plan(nz.Workload.marginals(SCHEMA, up_to=1), budget=budget).release(COUNTS, seed=1)
    assert "ask      .table('a'), .answer(query)" in str(ones)
    condition = nz.Workload.predicates(SCHEMA, ["a < 2 or b = 1"])
    release = nz.plan(condition, budget=budget).release(COUNTS, seed=1)
    assert "Release of 1 query, 1 row\n" in str(release)
    assert "ask      .answer('a < 2 or b = 1'), " in str(release)
    assert "a < 2 or b = 1" in str(release.answer("a < 2 or b = 1"))
    assert repr(release).startswith("Release(1 query; ")


def test_several_queries_are_asked_one_by_one() -> None:
    workload = nz.Workload.marginals(SCHEMA, k=1)
    release = nz.plan(workload, budget=nz.zCDP(0.5)).release(COUNTS, seed=1)
    for several in (workload, ["a", "b"]):
        with pytest.raises(QueryError, match="asked one by one"):
            release.answer(several)  # type: ignore[arg-type]


def test_near_and_far_from_the_best_are_said_apart() -> None:
    from noiseplan.words.plan import _within

    assert _within(0.0108) == "optimal to 1.1% (certified)"
    assert _within(0.5) == "at most 50.0% above the best (certified)"


def test_a_plan_says_where_conditions_count_as_tables() -> None:
    """Weights times rows are equal then, and that is said of conditions only, not of the total."""
    tables = nz.Workload.marginals(SCHEMA, up_to=2)
    conditions = nz.Workload.predicates(SCHEMA, ["a < 2 and b = 1", "a < 1 or b = 0"])
    total = nz.TotalVariance()

    def said(asked: nz.Workload, objective: nz.Objective = total) -> str:
        plan = nz.plan(asked, budget=nz.zCDP(0.5), objective=objective)
        return str(plan).splitlines()[1].partition(";")[0].split("objective ")[1].strip()

    alike = (tables + conditions).weighted("tables")
    shares = alike.columns.weights * alike.sizes
    np.testing.assert_allclose(shares, 1.0)
    both = "least weighted total variance, each of 2 conditions counting as a table"
    assert said(alike) == both
    one = (tables + conditions.subset([0])).weighted("tables")
    assert said(one) == "least weighted total variance, 1 condition counting as a table"
    assert said(tables + conditions) == "least total variance"
    assert said(tables.weighted("tables")) == "least weighted total variance"
    assert said((tables + conditions).weighted("sqrt")) == "least weighted total variance"
    assert said(conditions.weighted("tables")) == "least total variance"
    less = nz.Workload.predicates(SCHEMA, ["a < 2 and b = 1", "a < 1 or b = 0"], weight=1 / 2)
    assert said((tables + less).weighted("tables")) == "least weighted total variance"
    assert said(alike, nz.WorstVariance()) == "least weighted worst variance"


def near_zero(variance: float) -> nz.Release:
    """Zeros below zero, and one that rounding would make."""
    table = nz.NoisyTable(["age"], [-0.04, -0.0, 7.0], variance)
    return nz.from_noisy_tables(nz.Schema.from_sizes({"age": 3}), [table])


@pytest.mark.parametrize("command", ["show", "show --json", "answer", "answer --csv"])
def test_no_zero_below_zero_is_printed(command: str, tmp_path: Path) -> None:
    near_zero(4.0).save(tmp_path / "out")
    verb, *form = command.split()
    question = ["age"] if verb == "answer" else []
    told = CliRunner().invoke(main, [verb, str(tmp_path / "out"), *question, *form])
    assert told.exit_code == 0 and "7" in told.output
    assert not NEGATIVE_ZERO.search(told.output), told.output


def test_no_zero_below_zero_is_written(tmp_path: Path) -> None:
    near_zero(4.0).save(tmp_path / "out")
    assert CliRunner().invoke(main, ["report", str(tmp_path / "out")]).exit_code == 0
    page = (tmp_path / "out" / "report.html").read_text("utf-8").partition("<body")[2]
    (table,) = (tmp_path / "out" / "tables").glob("1-*.csv")
    for text in (page, table.read_text("utf-8")):
        assert "7" in text and not NEGATIVE_ZERO.search(text), text


def test_no_zero_is_below_zero_without_an_error() -> None:
    """Where nothing says how many digits fit."""
    answer = near_zero(1.0).answer("age")
    exact = replace(answer, noise_error=np.zeros(3), estimate=np.array([-0.0, 0.0, 7.0]))
    assert not NEGATIVE_ZERO.search(answer_csv(exact)), answer_csv(exact)
    assert not NEGATIVE_ZERO.search(str(exact)), str(exact)


def test_a_bound_that_takes_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said how to have it, and printed once somebody has asked for it."""
    workload = nz.Workload([nz.Query(SCHEMA, {"a": nz.Prefix()}), nz.Query(SCHEMA, ["b"])])
    plan = nz.plan(workload, budget=nz.PureDP(1.0))
    with monkeypatch.context() as few:
        few.setitem(BY_LAW, "pure", replace(BY_LAW["pure"], prompt=3))
        said = str(plan)
        assert plan.optimality.known is None
        assert f"total variance {plan.total_variance:.6g}\n" in said
        assert "a lower bound may take a minute: plan.lower_bound, and print again" in said
        assert plan.lower_bound > 0
        assert "may take a minute" not in str(plan)
    gaussian = nz.plan(workload, budget=nz.zCDP(0.5))
    for each in (plan, nz.plan(workload, budget=nz.PureDP(1.0)), gaussian):
        assert "may take a minute" not in str(each)


def test_given_rows_over_many_places_are_printed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search for a bound takes minutes there: it is asked for, and levels tell one in no time."""
    tract = np.arange(320) // 8
    geo = nz.Hierarchical({"place": range(320), "tract": tract, "county": tract // 10 + 1000})
    schema = nz.Schema({"geo": geo, "age": nz.Ordinal(range(6)), "sex": nz.Ordinal(range(2))})
    asked = [["county", "age", "sex"], ["tract", "age"], ["geo", "sex"]]
    workload = nz.Workload([nz.Query(schema, names) for names in asked]).weighted("tables")
    plan = nz.plan(workload, budget=nz.zCDP(0.5), planner="identity")
    with monkeypatch.context() as never:
        for module in (certificates, certify):
            never.setattr(module, "optimise_total", None)  # would be called in a search
        assert "a lower bound may take a minute: plan.certify(), and print again" in str(plan)
        figures = plan_figures(plan)
        assert figures["lower_bound"] is None and figures["optimal"] is False
        found = plan.certify()
        assert f"lower bound {found.bound:.6g}" in str(plan)
        assert plan.lower_bound == plan_figures(plan)["lower_bound"] == found.bound
    best = nz.plan(workload, budget=nz.zCDP(0.5))
    assert 0.9 * best.total_variance < found.bound <= best.total_variance
    searched = certificates._bound_for(workload, plan.privacy)
    assert searched == pytest.approx(found.bound, rel=0.1)


def test_noise_that_is_always_zero_is_told_as_none() -> None:
    """Its variance is stated as 1e-200, which is more than it has; what can be seen is shown."""
    workload = nz.Workload([nz.Query(SCHEMA, ["a"], name="a"), nz.Query(SCHEMA, [], name="all")])
    plan = nz.plan(workload, targets=1e-199)
    assert 0 < plan.std_error("all")[0] < 1e-30
    *_, a, every = str(plan).splitlines()
    assert a.split()[-2:] == every.split()[-2:] == ["0", "0"]
    assert "RMSE 0 over all rows; largest standard error 0" in str(plan)
    seen = nz.plan(workload, budget=nz.zCDP(50.0))
    assert str(seen).splitlines()[-1].split()[-1] == f"{seen.std_error('a').max():.4g}"
