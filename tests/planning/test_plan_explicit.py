"""Plans by one matrix over a small domain: every objective against a convex solver, then privacy.

Costs and variances are recomputed from what is really measured; the optimum comes from cvxpy.
"""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from noiseplan.counting import CountTensor
from noiseplan.errors import PlanError, QueryError
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.planning.planners import optimal

Array = np.ndarray
NOISES = ["gaussian", "discrete"]
BUDGET = nz.zCDP(0.5)  # cost one
SCHEMA = nz.Schema({"age": nz.Ordinal(range(3)), "sex": nz.Categorical(["F", "M"])})


def two_attributes() -> nz.Workload:
    return nz.Workload(
        [
            nz.Query(SCHEMA, {"age": nz.Prefix(), "sex": nz.Identity()}, name="by sex"),
            nz.Query(SCHEMA, {"age": nz.Ranges()}, weight=3.0, name="ranges"),
            nz.Query(SCHEMA, ["sex", "age"], matrix=[[1, 2, 0, 1, 0, 0]], name="row"),
        ]
    )


def low_rank() -> nz.Workload:
    return nz.Workload(
        [nz.Query(SCHEMA, ["age"], name="age"), nz.Query(SCHEMA, ["sex"], weight=2.0, name="sex")]
    )


WORKLOADS = {"two attributes": two_attributes(), "low rank": low_rank()}


def rows_of(workload: nz.Workload) -> Array:
    return np.vstack([query.dense() for query in workload])


def per_row(workload: nz.Workload, numbers: list[float]) -> Array:
    return np.repeat(numbers, [query.rows for query in workload])


def least(workload: nz.Workload, convex: object) -> float:
    """min over X ⪰ 0 with diag X ≤ 1 of a convex function of the row variances."""
    rows = rows_of(workload)
    x = cp.Variable((rows.shape[1],) * 2, PSD=True)
    variances = cp.hstack([cp.matrix_frac(row, x) for row in rows])
    problem = cp.Problem(cp.Minimize(convex(variances)), [cp.diag(x) <= 1])
    return float(problem.solve(solver=cp.CLARABEL, max_iter=400))


def check_sound(plan: nz.Plan) -> Array:
    """Cost and variances from the matrix that is measured; returns the variances of all rows."""
    mechanism = plan.mechanism
    assert isinstance(mechanism, DenseMechanism)
    strategy, sigma2 = mechanism.strategy, Fraction(mechanism.noise.one)
    if mechanism.noise.exact:
        assert (strategy == np.rint(strategy)).all()
        columns = (strategy.astype(np.int64).astype(object) ** 2).sum(axis=0)
        assert max(Fraction(int(c)) / sigma2 for c in columns) <= Fraction(plan.privacy.pcost)
    else:
        columns = [sum(Fraction(float(v)) ** 2 for v in column) for column in strategy.T]
        assert max(c / sigma2 for c in columns) <= Fraction(plan.privacy.pcost)
    inverse = np.linalg.pinv(strategy, rcond=1e-10)
    rows = rows_of(plan.workload)
    np.testing.assert_allclose(rows @ inverse @ strategy, rows, atol=1e-6)
    variances = mechanism.noise.one * ((rows @ inverse) ** 2).sum(axis=1)
    found = np.concatenate([plan.variance(query) for query in plan.workload])
    np.testing.assert_allclose(found, variances, rtol=1e-6)
    return variances


def square_loss(v: Array) -> float:
    return float((v**2).sum())


@pytest.mark.grid
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_objective_by_a_convex_solver(name: str, noise: str) -> None:
    workload = WORKLOADS[name]
    weights = per_row(workload, [query.weight for query in workload])
    counts = per_row(workload, [float(query.rows) for query in workload])
    lengths = (rows_of(workload) ** 2).sum(axis=1)
    starts = np.cumsum([0] + [query.rows for query in workload])
    spans = [slice(a, b) for a, b in pairwise(starts)]
    share = weights / counts

    def means(v: object, total: object) -> list[object]:
        return [total(cp.multiply(share[s], v[s]) if total is cp.sum else share[s] * v[s])
                for s in spans]  # fmt: skip

    cases = [
        (nz.TotalVariance(), lambda v: cp.sum(cp.multiply(weights, v)), lambda v: weights @ v),
        (nz.WorstVariance(), lambda v: cp.max(cp.multiply(weights, v)),
         lambda v: (weights * v).max()),
        (nz.PNormVariance(3), lambda v: cp.pnorm(cp.multiply(weights, v), 3),
         lambda v: ((weights * v) ** 3).sum() ** (1 / 3)),
        (nz.RelativeError(), lambda v: cp.sum(cp.multiply(weights / lengths, v)),
         lambda v: (weights / lengths) @ v),
        (nz.ConvexLoss(square_loss), lambda v: cp.sum_squares(cp.hstack(means(v, cp.sum))),
         lambda v: sum(m**2 for m in means(v, np.sum))),
    ]  # fmt: skip
    for objective, convex, value in cases:
        plan = nz.plan(workload, budget=BUDGET, objective=objective, planner="optimal", noise=noise)
        reached, best = value(check_sound(plan)), least(workload, convex)
        assert reached == pytest.approx(best, rel=1e-4), objective
        assert plan.privacy.pcost <= 1
        assert plan.gap is not None and 0 <= plan.gap <= 1e-4
        assert reached * (1 - plan.gap) <= best * (1 + 1e-5), "the bound is one"


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("planner", ["optimal", "refined", "auto"])
def test_targets_are_met_at_the_least_cost(planner: str, noise: str) -> None:
    workload = two_attributes()
    targets = {"by sex": 2.0, "ranges": 5.0, "row": 3.0}
    wanted = per_row(workload, list(targets.values()))
    best = least(workload, lambda v: cp.max(cp.multiply(1 / wanted, v)))
    plan = nz.plan(workload, targets=targets, planner=planner, noise=noise)
    assert plan.privacy.pcost == pytest.approx(best, rel=1e-4 if planner != "auto" else 1e-2)
    assert plan.target_scale is not None and plan.target_scale <= 1 + 1e-12
    for query in workload:
        assert plan.variance(query).max() <= targets[query.name] * (1 + 1e-12)
    if planner != "auto":
        variances = check_sound(plan)
        assert (variances <= wanted * (1 + 1e-7)).all()
        assert plan.optimal and "proved to" in str(plan)


@pytest.mark.parametrize("noise", NOISES)
def test_targets_within_a_budget_are_scaled(noise: str) -> None:
    workload, targets = two_attributes(), {"by sex": 2.0, "ranges": 5.0}
    free = nz.plan(workload, targets=targets, planner="optimal", noise=noise)
    half = nz.plan(workload, targets=targets, planner="optimal", noise=noise,
                   budget=nz.zCDP(free.privacy.rho / 2))  # fmt: skip
    assert half.privacy.rho <= free.privacy.rho / 2
    assert half.target_scale == pytest.approx(2.0, rel=1e-5)
    assert len(half.workload) == 2, "queries without a target are not planned for"
    assert half.gap == pytest.approx(free.gap, abs=1e-5)


def test_targets_so_fine_that_noise_is_less_than_a_count() -> None:
    plan = nz.plan(low_rank(), targets=1e-13, planner="optimal", noise="discrete")
    assert plan.target_scale is not None and plan.target_scale <= 1


def test_sm2_is_near_the_optimum_and_never_below_it() -> None:
    workload = two_attributes()
    best = nz.plan(workload, targets=1.0, planner="optimal")
    plan = nz.plan(workload, targets=1.0, planner="sm2")
    check_sound(plan)
    assert best.privacy.pcost * (1 - 1e-5) <= plan.privacy.pcost <= 1.1 * best.privacy.pcost
    assert plan.gap is None and not plan.optimal
    assert re.search(r"optimal to [\d.]+% \(certified\)", str(plan))


def test_auto_takes_the_matrix_where_it_is_clearly_better() -> None:
    """Ranges of one attribute by another's values ask different things of one split."""
    schema = nz.Schema({"a": nz.Ordinal(range(8)), "b": nz.Ordinal(range(4))})
    jagged = np.random.default_rng(3).integers(0, 2, size=(12, 32))
    workload = nz.Workload([nz.Query(schema, ["a", "b"], matrix=jagged, name="jagged")])
    for asked in ({"budget": BUDGET, "objective": nz.WorstVariance()}, {"targets": 1.0}):
        plain = nz.plan(workload, planner="residual", **asked)
        auto = nz.plan(workload, **asked)
        best = nz.plan(workload, planner="optimal", **asked)
        assert isinstance(auto.mechanism, DenseMechanism)
        figure = "worst_variance" if "budget" in asked else "target_scale"
        reached = getattr(auto, figure) * auto.privacy.pcost
        assert reached <= 0.99 * getattr(plain, figure) * plain.privacy.pcost
        assert reached == pytest.approx(getattr(best, figure) * best.privacy.pcost, rel=1e-5)
        assert auto.optimal


def test_many_rows_are_not_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = nz.Schema({"a": nz.Ordinal(range(12))})
    workload = nz.Workload([nz.Query(schema, {"a": nz.Ranges()})])
    written = nz.plan(workload, targets=1.0, planner="optimal")
    monkeypatch.setattr("noiseplan.planning.planners.optimal.WRITTEN_OUT", 10)
    lazy = nz.plan(workload, targets=1.0, planner="optimal")
    assert lazy.privacy.pcost == pytest.approx(written.privacy.pcost, rel=1e-5)
    with pytest.raises(PlanError, match="rows written out, at most 10 numbers"):
        nz.plan(workload, targets=1.0, planner="refined")


def test_the_gap_of_a_plan_that_is_not_sharp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimal, "SHARP", 0.3)
    schema = nz.Schema({"a": nz.Ordinal(range(16))})
    workload = nz.Workload([nz.Query(schema, {"a": nz.Prefix()})])
    for asked, word in (
        ({"targets": 1.0}, "the least cost for these targets of any linear Gaussian mechanism"),
        ({"budget": BUDGET, "objective": nz.PNormVariance(2)}, "the least 2-norm of variances of"),
    ):
        plan = nz.plan(workload, planner="optimal", **asked)
        assert plan.gap is not None and 2e-5 < plan.gap <= 0.31
        assert not plan.optimal
        known = plan.certificate
        assert known is not None and known.gap == pytest.approx(plan.gap / (1 - plan.gap))
        above = plan.certify().gap  # of a sharper bound
        assert above < 0.99 * known.gap
        (told,) = re.findall(r"([\d.]+)% (?:above the best )?\(certified\), compared", str(plan))
        assert 100 * above <= float(told) <= 100 * above + 0.1  # no less, and of the bound
        assert word in str(plan)


# ---------------------------------------------------------------------- the total beside others


def test_lower_bound_speaks_of_the_total() -> None:
    workload = two_attributes()
    total = nz.plan(workload, budget=BUDGET, planner="optimal")
    worst = nz.plan(workload, budget=BUDGET, planner="optimal", objective=nz.WorstVariance())
    assert worst.lower_bound == pytest.approx(total.total_variance, rel=1e-3)
    assert worst.lower_bound <= total.total_variance <= worst.total_variance


# ---------------------------------------------------------------------- relative error


def test_relative_error_for_expected_counts() -> None:
    """Rows that are expected to be large may have larger errors; small ones stop at the floor."""
    schema = nz.Schema.from_sizes({"a": 3})
    workload = nz.Workload([nz.Query(schema, ["a"])])
    expected = [1000.0, 100.0, 0.0]
    plan = nz.plan(workload, budget=BUDGET, objective=nz.RelativeError(expected, floor=10.0))
    assert isinstance(plan.mechanism, DenseMechanism)
    compared = np.array([1000.0, 100.0, 10.0]) ** 2
    best = least(workload, lambda v: cp.sum(cp.multiply(1 / compared, v)))
    reached = float((plan.variance("a") / compared).sum())
    assert reached == pytest.approx(best, rel=1e-5)
    assert str(plan.objective) == "relative error"
    # Without expectations a row is compared with its length.
    mixed = nz.Workload([nz.Query(schema, {"a": nz.Custom([[1, 0, 0], [10, 10, 10]])})])
    lengths = np.array([1.0, 300.0])
    found = nz.plan(mixed, budget=BUDGET, objective=nz.RelativeError())
    best = least(mixed, lambda v: cp.sum(cp.multiply(1 / lengths, v)))
    assert float((found.variance(mixed[0]) / lengths).sum()) == pytest.approx(best, rel=1e-4)


def test_what_relative_error_refuses() -> None:
    workload = two_attributes()

    def planned(objective: nz.Objective, **asked: object) -> nz.Plan:
        return nz.plan(workload, budget=BUDGET, objective=objective, **asked)

    with pytest.raises(PlanError, match="expects 2 counts, but the schema has 6 cells"):
        planned(nz.RelativeError([1, 2]))
    with pytest.raises(PlanError, match="use planner='auto' or planner='optimal'"):
        planned(nz.RelativeError(), planner="residual")
    with pytest.raises(PlanError, match="add or remove a record"):
        planned(nz.RelativeError(), neighbours="replace")
    with pytest.raises(PlanError, match="finite numbers, one per cell"):
        nz.RelativeError([np.nan])
    with pytest.raises(PlanError, match="a floor is a positive number, found 0"):
        nz.RelativeError([1.0], floor=0)
    large = nz.Workload.marginals(nz.Schema.from_sizes({"a": 5000}), k=1)
    with pytest.raises(PlanError, match=r"up to 4,096 numbers of tables.* need 5,000"):
        nz.plan(large, budget=BUDGET, objective=nz.RelativeError())


@pytest.mark.parametrize("planner", ["refined", "sm2"])
def test_planners_for_targets_say_so(planner: str) -> None:
    with pytest.raises(PlanError, match="plans targets and the worst variance"):
        nz.plan(low_rank(), budget=BUDGET, planner=planner)


# ---------------------------------------------------------------------- any matrix


def test_workloads_from_matrices() -> None:
    rows = np.array([[1.0, 0, 2, 0], [0, 1, 1, 1]])
    for matrix in (rows, rows.tolist(), sp.csr_array(rows), sp.coo_matrix(rows)):
        workload = nz.Workload.from_matrix(matrix, weight=2.0, name="mine")
        np.testing.assert_array_equal(workload["mine"].dense(), rows)
        assert workload["mine"].weight == 2.0
        assert workload.schema.shape == (4,)
    schema = nz.Schema.from_sizes({"a": 2, "b": 2})
    over = nz.Workload.from_matrix(sp.csc_array(rows), schema)
    np.testing.assert_array_equal(over["matrix"].dense(), rows)
    np.testing.assert_array_equal(nz.Query(schema, ["a", "b"], matrix=sp.csr_array(rows)).dense(),
                                  rows)  # fmt: skip


def test_matrices_that_are_refused() -> None:
    with pytest.raises(QueryError, match="has more than 50,000,000 numbers when written out"):
        nz.Workload.from_matrix(sp.csr_array((100_000, 4096)))
    with pytest.raises(QueryError, match="only zeros"):
        nz.Workload.from_matrix(sp.csr_array((2, 3)))
    with pytest.raises(QueryError, match="columns"):
        nz.Workload.from_matrix(np.ones((1, 3)), nz.Schema.from_sizes({"a": 2, "b": 2}))


# ---------------------------------------------------------------------- privacy, by chance


@examples(30)
@given(
    seed=st.integers(0, 10**6),
    planner=st.sampled_from(["optimal", "refined"]),
    noise=st.sampled_from(NOISES),
)
def test_any_small_workload_meets_its_targets(seed: int, planner: str, noise: str) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 3, size=(rng.integers(1, 6), rng.integers(1, 6))).astype(float)
    rows = rows[rows.any(axis=1)]
    if not len(rows):
        rows = np.ones((1, 2))
    queries = nz.Workload.from_matrix(rows)
    target = float(10.0 ** rng.integers(-3, 4))
    plan = nz.plan(queries, targets=target, planner=planner, noise=noise)
    variances = check_sound(plan)
    assert variances.max() <= target
    if plan.gap is not None:
        assert plan.gap >= 0


def test_losses_that_are_refused() -> None:
    for loss, word in (
        (lambda v: -float(v.sum()), "decreases when a variance grows"),
        (lambda v: float(np.sqrt(v).sum()), "is not convex"),
    ):
        with pytest.raises(PlanError, match=word):
            nz.plan(low_rank(), budget=BUDGET, objective=nz.ConvexLoss(loss), planner="optimal")


# ---------------------------------------------------------------------- on disk


def test_saved_and_loaded(tmp_path: Path) -> None:
    workload = two_attributes()
    counts = np.arange(6).reshape(3, 2)
    for number, asked in enumerate(
        ({"targets": 2.0}, {"budget": BUDGET, "objective": nz.RelativeError()})
    ):
        plan = nz.plan(workload, planner="optimal", noise="discrete", **asked)
        plan.release(CountTensor(SCHEMA, counts), seed=1).save(tmp_path / str(number))
        again = nz.load(tmp_path / str(number)).plan
        assert again.optimal
        assert str(again.objective) == str(plan.objective)
        assert again.target_scale == plan.target_scale
        np.testing.assert_array_equal(again.variance("ranges"), plan.variance("ranges"))
