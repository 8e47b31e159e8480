"""Weights and entries of very different sizes: every query has an answer, and none starves."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import noiseplan as nz
from noiseplan.errors import BudgetError, PlanError, QueryError, UnanswerableError
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.optimize.integer_rounding import integer_strategy
from noiseplan.optimize.optimum import dense_optimum
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.planning.workload_types import prepare


def uneven(ratio: float) -> nz.Workload:
    schema = nz.Schema.from_sizes({"a": 3, "b": 4})
    heavy = nz.Query(schema, {"b": nz.Ranges()}, weight=ratio, name="heavy")
    return nz.Workload(
        [nz.Query(schema, {"a": nz.Prefix(), "b": nz.Identity()}, name="light"), heavy]
    )


@pytest.mark.grid
@pytest.mark.parametrize(
    ("budget", "planner", "noise"),
    [
        (nz.PureDP(1.0), "auto", "discrete"),
        (nz.PureDP(1.0), "auto", "laplace"),
        (nz.PureDP(1.0), "weighted-hierarchical", "discrete"),
        (nz.zCDP(0.5), "auto", "discrete"),
        (nz.zCDP(0.5), "optimal", "discrete"),
        (nz.zCDP(0.5), "optimal", "gaussian"),
    ],
    ids=str,
)
@pytest.mark.parametrize("ratio", [1e6, 1e10, 1e12])
def test_light_queries_have_answers_beside_heavy_ones(
    ratio: float, budget: nz.Budget, planner: str, noise: str
) -> None:
    workload = uneven(ratio)
    plan = nz.plan(workload, budget=budget, planner=planner, noise=noise)
    assert plan.privacy.within(budget)
    mechanism = plan.mechanism
    for query in workload:
        variance = plan.variance(query)
        assert (np.isfinite(variance) & (variance > 0)).all()
        if isinstance(mechanism, DenseMechanism):
            truth = _variances(mechanism, query.dense())
            np.testing.assert_allclose(variance, truth, rtol=1e-4)


def _variances(mechanism: DenseMechanism, rows: np.ndarray) -> np.ndarray:
    """Variances by exact elimination in fractions, for a strategy of full rank."""
    exact = [[Fraction(float(x)) for x in row] for row in mechanism.strategy]
    n = len(exact[0])
    gram = [[sum(r[i] * r[j] for r in exact) for j in range(n)] for i in range(n)]
    solved = _solve(gram, [[Fraction(float(w[i])) for w in rows] for i in range(n)])
    forms = [
        sum(Fraction(float(w[i])) * solved[i][k] for i in range(n)) for k, w in enumerate(rows)
    ]
    unit = mechanism.cell_covariance()[0, 0] / float(_solve(gram, _unit(n))[0][0])
    return np.array([unit * float(form) for form in forms])


def _unit(n: int) -> list[list[Fraction]]:
    return [[Fraction(int(i == 0))] for i in range(n)]


def _solve(a: list[list[Fraction]], b: list[list[Fraction]]) -> list[list[Fraction]]:
    """A⁻¹B by Gauss and Jordan."""
    rows = [[*left, *right] for left, right in zip(a, b, strict=True)]
    n = len(rows)
    for i in range(n):
        pivot = next(k for k in range(i, n) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(n):
            if k != i and rows[k][i]:
                rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i], strict=True)]
    return [row[n:] for row in rows]


@pytest.mark.parametrize("budget", [nz.zCDP(0.5), nz.PureDP(1.0)], ids=str)
@pytest.mark.parametrize("small", [1e-5, 1e-7])
def test_a_cell_that_is_hardly_measured_is_still_measured(budget: nz.Budget, small: float) -> None:
    workload = nz.Workload([nz.Query(nz.Schema.from_sizes({"c": 3}), ["c"])])
    strategy = nz.Strategy(np.diag([1.0, 1.0, small]))
    plan = nz.plan(workload, budget=budget, planner=strategy, noise="discrete")
    assert plan.privacy.within(budget)
    # Never worse than what was asked for, but for rounding to so many bits.
    asked = nz.plan(workload, budget=budget, planner=strategy, noise=_continuous(budget))
    assert (plan.variance("c") <= 1.3 * asked.variance("c")).all()


def _continuous(budget: nz.Budget) -> str:
    return "laplace" if isinstance(budget, nz.PureDP) else "gaussian"


@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
@pytest.mark.parametrize("factor", [1.0, 10.0, 100.0])
def test_counts_do_not_starve_beside_incomes(factor: float, noise: str) -> None:
    """Cells that income hardly notices may be measured as well as those of the top incomes."""
    schema = nz.Schema.from_sizes({"band": 4, "sex": 2})
    middle = factor * np.array([[5e3, 2e4, 7e4, 2e6]])
    income = nz.Query(schema, {"band": nz.Custom(middle), "sex": nz.Identity()}, name="income")
    workload = nz.Workload([nz.Query(schema, ["band", "sex"], name="table"), income])
    plan = nz.plan(workload, budget=nz.zCDP(0.5), planner="optimal", noise=noise)
    assert plan.std_error("table").max() < 1.1
    assert plan.gap is not None
    assert plan.gap < 1e-6


def test_filling_up_is_free() -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        rows = rng.standard_normal((4, 6)) * 10.0 ** rng.integers(-4, 5, size=(4, 1))
        best = dense_optimum(rows.T @ rows)
        columns = np.einsum("ri,ri->i", best.strategy, best.strategy)
        assert columns.max() <= 1 + 1e-12
        assert columns.min() >= 1 - 1.1e-3


@pytest.mark.parametrize("norm", [nz.zCDP(0.5), nz.PureDP(1.0)], ids=str)
def test_rows_of_zeros_among_those_to_weigh(norm: nz.Budget) -> None:
    workload = nz.Workload([nz.Query(nz.Schema.from_sizes({"c": 3}), {"c": nz.Prefix()})])
    rows = np.vstack([np.eye(3), np.tri(3)])
    totals = [
        nz.plan(workload, budget=norm, planner=nz.Strategy(each, weighted=True)).total_variance
        for each in (rows, np.vstack([rows, np.zeros((3, 3))]))
    ]
    assert totals[1] == pytest.approx(totals[0], rel=1e-9)


def test_a_plan_that_lost_a_query_says_why() -> None:
    workload = uneven(1.0)
    mechanism = DenseMechanism(workload.schema, np.ones((1, 12)))
    with pytest.raises(UnanswerableError, match="sizes of weights or of entries differ too much"):
        RowFigures(prepare(workload), mechanism).require_answers(mechanism)


# ---------------------------------------------------------------------- cells that are one


def test_cells_that_nothing_tells_apart_are_measured_together() -> None:
    """One predicate over 200 cells is one number, not two hundred, in integers too."""
    schema = nz.Schema.from_sizes({"a": 10, "b": 20})
    workload = nz.Workload.predicates(schema, ["a < 3 or b < 5"])
    plan = nz.plan(workload, budget=nz.zCDP(0.5), planner="optimal", noise="discrete")
    assert plan.measured_numbers <= 2
    assert plan.total_variance == pytest.approx(1.0, rel=1e-4)
    # What nobody asked for is refused, not answered with an error of thousands.
    with pytest.raises(UnanswerableError, match="not determined by what the plan measures"):
        plan.variance(nz.Query(schema, []))


def test_integers_keep_equal_columns_equal_and_zeros_zero() -> None:
    rng = np.random.default_rng(2)
    few = rng.standard_normal((3, 4))
    wide = np.concatenate([few, few[:, :2], np.zeros((3, 2))], axis=1)
    rounded = integer_strategy(wide)
    assert np.array_equal(rounded[:, :2], rounded[:, 4:6])
    assert not rounded[:, 6:].any()
    scale = np.abs(rounded.T @ rounded).max() / np.abs(wide.T @ wide).max()
    np.testing.assert_allclose(rounded.T @ rounded / scale, wide.T @ wide, atol=1e-3)


# ---------------------------------------------------------------------- the ends of the range


@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
@pytest.mark.parametrize("planner", ["auto", "optimal", "identity", "eigen"])
def test_budgets_below_any_number(planner: str, noise: str) -> None:
    with pytest.raises(BudgetError, match="so little that variances are no numbers"):
        nz.plan(uneven(1.0), budget=nz.zCDP(1e-320), planner=planner, noise=noise)


def test_conditions_on_very_many_values() -> None:
    schema = nz.Schema({"x": nz.Ordinal(range(5_000_000))})
    with pytest.raises(QueryError, match=r"x has 5,000,000 values.*Binned"):
        nz.Workload.predicates(schema, ["x < 5"])


def test_free_queries_are_queries() -> None:
    plan = nz.plan(uneven(1.0), targets=2.0, planner="refined", noise="gaussian")
    for wrong in ("light", ["light"], 3):
        with pytest.raises(PlanError, match="a Query or a Workload, found"):
            plan.free_queries(wrong)


def test_room_that_only_rounding_leaves_is_none() -> None:
    schema = nz.Schema.from_sizes({"a": 4, "b": 3})
    prefix = nz.Workload([nz.Query(schema, {"a": nz.Prefix()})])
    for noise in ("discrete", "gaussian"):
        plan = nz.plan(prefix, budget=nz.zCDP(0.5), planner="optimal", noise=noise)
        with pytest.raises(PlanError, match="pays the full cost already"):
            plan.free_queries(nz.Query(schema, ["a"]))


@pytest.mark.parametrize("budget", [nz.zCDP, nz.PureDP], ids=str)
def test_a_plan_says_that_it_protects_nobody(budget: Callable[[float], nz.Budget]) -> None:
    assert "protects nobody" in str(nz.plan(uneven(1.0), budget=budget(5000.0)))
    assert "protects nobody" not in str(nz.plan(uneven(1.0), budget=budget(1.0)))
