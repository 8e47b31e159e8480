"""Where one record replaces another: optima, bounds and plans against a conic solver; costs against
all pairs of records."""

from __future__ import annotations

from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import noiseplan as nz
from depth import depth, seeds
from noiseplan.errors import PlanError
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.price import probed_cost
from noiseplan.mechanisms.reduced import ReducedMechanism
from noiseplan.optimize.record_pairs import replaced_norm, replaced_optimum
from noiseplan.optimize.split_coordinates import Chart
from noiseplan.planning.free_split import optimise_total, optimise_upright
from noiseplan.planning.objectives import TotalVariance
from noiseplan.planning.planners.replaced_optimum import untried
from noiseplan.planning.problem import Problem
from noiseplan.planning.replaced_products import Descent, _Patterns, descended
from noiseplan.planning.replaced_split import bound_alone, norm_bound_alone
from noiseplan.planning.solve import Aim, share_given_bases
from noiseplan.planning.workload_types import prepare
from oracles import (
    cost_of,
    least_replaced_sdp,
    probe,
    replace_cost,
    weighted_rows,
)
from workloads import random_rows, random_workload

Array = np.ndarray
ONE = nz.zCDP(0.5)
PREFIX_8 = 17.46766  # least total variance of prefix sums over eight values, by a conic solver


def on(sizes: dict[str, int], k: int, factor: nz.Factor) -> nz.Workload:
    schema = nz.Schema.from_sizes(sizes)
    return nz.Workload.marginals(schema, k=k, factors=dict.fromkeys(sizes, factor))


def apart(rows: Array) -> float:
    """The largest squared distance of two columns, one by one."""
    pairs = [(u, v) for u in range(rows.shape[1]) for v in range(u)]
    return max((float(((rows[:, u] - rows[:, v]) ** 2).sum()) for u, v in pairs), default=0.0)


def spread(rows: Array) -> Array:
    """The covariance of all cells from these rows and an exact total."""
    centre = np.eye(rows.shape[1]) - 1.0 / rows.shape[1]
    return np.linalg.pinv(centre @ rows.T @ rows @ centre, rcond=1e-9, hermitian=True)


# ---------------------------------------------------------------------- the program


@pytest.mark.parametrize("seed", seeds(12))
def test_the_optimum_is_that_of_a_conic_solver(seed: int) -> None:
    workload = random_rows(seed)
    w = weighted_rows(workload)
    found = replaced_optimum(w.T @ w, 1e-6)
    best = least_replaced_sdp(workload)
    assert found.bound <= best * (1 + 1e-5) + 1e-9
    assert best * (1 - 1e-5) - 1e-9 <= found.value <= found.bound * (1 + 1e-6) + 1e-12
    assert apart(found.rows) <= 1 + 1e-9
    assert np.trace(w @ spread(found.rows) @ w.T) == pytest.approx(found.value, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seed", seeds(6))
def test_the_least_worst_variance_is_that_of_a_conic_solver(seed: int) -> None:
    workload = random_rows(seed)
    w = weighted_rows(workload)
    found = replaced_norm(w, np.inf, 1e-5)
    best = least_replaced_sdp(workload, worst=True)
    assert found.bound <= best * (1 + 1e-5) + 1e-9
    assert best * (1 - 1e-5) - 1e-9 <= found.value <= found.bound * (1 + 1e-3) + 1e-12
    assert apart(found.rows) <= 1 + 1e-9
    reached = np.diagonal(w @ spread(found.rows) @ w.T).max()
    assert reached == pytest.approx(found.value, rel=1e-5, abs=1e-9)


# ---------------------------------------------------------------------- attributes by themselves


@pytest.mark.parametrize(
    ("values", "factor"), [(8, nz.Prefix()), (8, nz.Ranges()), (40, nz.Prefix())]
)
def test_one_ordered_attribute_is_optimal(values: int, factor: nz.Factor) -> None:
    workload = on({"a": values}, 1, factor)
    plan = nz.plan(workload, budget=ONE, neighbours="replace", noise="gaussian")
    assert plan.optimal and plan.efficiency > 1 - 1e-5
    if values == 8:
        best = least_replaced_sdp(workload)
        assert plan.lower_bound <= best * (1 + 1e-6)
        assert plan.total_variance == pytest.approx(best, rel=1e-5)
    exact = nz.plan(workload, budget=ONE, neighbours="replace")
    assert exact.total_variance <= plan.total_variance * 1.001
    b, sigma2 = probe(exact)
    assert replace_cost(cost_of(b, sigma2)) <= exact.privacy.pcost <= 1.0


def test_eight_prefix_sums() -> None:
    workload = on({"a": 8}, 1, nz.Prefix())
    assert least_replaced_sdp(workload) == pytest.approx(PREFIX_8, rel=1e-6)
    plan = nz.plan(workload, budget=ONE, neighbours="replace")
    assert plan.total_variance == pytest.approx(PREFIX_8, rel=1e-3)


def test_two_hundred_values_are_near() -> None:
    plan = nz.plan(on({"a": 200}, 1, nz.Prefix()), budget=ONE, neighbours="replace")
    assert plan.total_variance <= plan.lower_bound * 1.002
    assert plan.mechanism.cost("replace").pcost <= plan.privacy.pcost * (1 + 1e-9)


@pytest.mark.parametrize("worst", [False, True])
def test_tables_of_one_attribute_each_are_optimal(worst: bool) -> None:
    """No mechanism over all twelve cells is better than attributes planned by themselves."""
    schema = nz.Schema.from_sizes({"a": 4, "b": 3})
    workload = nz.Workload(
        [
            nz.Query(schema, {"a": nz.Prefix()}, weight=2.0),
            nz.Query(schema, {"a": nz.Custom([[1.0, -1.0, 0.0, 0.0]])}),
            nz.Query(schema, ["b"]),
            nz.Query(schema, []),
        ]
    )
    best = least_replaced_sdp(workload, worst)
    design = prepare(workload)
    bound = norm_bound_alone(design, np.inf) if worst else bound_alone(design)
    assert bound is not None and bound <= best * (1 + 1e-5)
    assert bound == pytest.approx(best, rel=3e-4)
    goal = nz.WorstVariance() if worst else nz.TotalVariance()
    plan = nz.plan(workload, budget=ONE, neighbours="replace", objective=goal, noise="gaussian")
    reached = plan.worst_variance if worst else plan.total_variance
    assert best * (1 - 1e-5) <= reached <= best * (1 + 3e-4)
    assert plan.certify().gap <= 5e-4


@pytest.mark.parametrize("targets", [False, True])
def test_bounds_of_the_worst_variance_and_of_targets(targets: bool) -> None:
    workload = on({"a": 5}, 1, nz.Ranges())
    best = least_replaced_sdp(workload, worst=True)
    if targets:
        plan = nz.plan(workload, targets=2.0, neighbours="replace")
        assert plan.certify().bound <= best / 2.0 * (1 + 1e-5) <= plan.privacy.pcost * (1 + 1e-4)
    else:
        plan = nz.plan(workload, budget=ONE, objective=nz.WorstVariance(), neighbours="replace")
        assert plan.certify().bound <= best * (1 + 1e-5) <= plan.worst_variance * (1 + 1e-4)
    assert plan.certify().gap <= 2e-3


# ---------------------------------------------------------------------- norms and losses


def asked(name: str) -> nz.Workload:
    cells, twins = nz.Schema.from_sizes({"a": 5, "b": 3}), nz.Schema.from_sizes({"a": 4, "b": 4})
    sums, others = {"a": nz.Prefix()}, {"b": nz.Prefix()}
    return {
        "one attribute": on({"a": 8}, 1, nz.Prefix()),
        "crossed": nz.Workload(
            [nz.Query(cells, sums, weight=2.0), nz.Query(cells, ["a", "b"]), nz.Query(cells, ["b"])]
        ),
        "each alone": nz.Workload(
            [
                *2 * [nz.Query(cells, sums, weight=2.0)],
                nz.Query(cells, ["a"]),
                nz.Query(cells, ["b"]),
            ]
        ),
        "exchangeable": nz.Workload([nz.Query(twins, sums), nz.Query(twins, others)]),
    }[name]


NAMES = ("one attribute", "crossed", "each alone", "exchangeable")


@pytest.mark.parametrize("power", [1.0, 1.5, 3.0, 8.0])
@pytest.mark.parametrize("name", NAMES)
def test_norms_are_least(name: str, power: float) -> None:
    workload = asked(name)

    def conic(rows: list[list[cp.Expression]]) -> cp.Expression:
        return cp.norm(cp.hstack([row for each in rows for row in each]), power)

    best = least_replaced_sdp(workload, loss=conic)
    for planner, above in (("optimal", 3e-4), ("auto", 0.0102)):
        plan = nz.plan(
            workload, budget=ONE, neighbours="replace", planner=planner, noise="gaussian",
            objective=nz.PNormVariance(power),
        )  # fmt: skip
        each = np.concatenate([query.weight * plan.variance(query) for query in workload])
        reached = float(np.linalg.norm(each, power))
        assert best * (1 - 1e-5) <= reached <= best * (1 + above)
        assert plan.certify().bound <= best * (1 + 1e-5)
        b, sigma2 = probe(plan)
        assert replace_cost(cost_of(b, sigma2)) <= plan.privacy.pcost * (1 + 1e-9) <= 1 + 1e-9
    if name in ("each alone", "exchangeable"):
        bound = norm_bound_alone(prepare(workload), power)
        assert bound == pytest.approx(best, rel=2e-4) and bound <= best * (1 + 1e-5)


def squares_and_largest(means: Array) -> float:
    return float((means**2).sum() + 3.0 * means.max())


@pytest.mark.parametrize("name", NAMES)
def test_losses_of_ones_own_are_least(name: str) -> None:
    """Also where all pairs of cells are too many and tables of one attribute are planned alone."""
    workload = asked(name)

    def conic(rows: list[list[cp.Expression]]) -> cp.Expression:
        means = cp.hstack([sum(each) / len(each) for each in rows])
        return cp.sum_squares(means) + 3.0 * cp.max(means)

    best = least_replaced_sdp(workload, loss=conic)
    alone = () if name == "crossed" else (("residual", 3e-4),)
    for planner, above in (("optimal", 3e-4), ("auto", 0.0102), *alone):
        plan = nz.plan(
            workload, budget=ONE, neighbours="replace", planner=planner, noise="gaussian",
            objective=nz.ConvexLoss(squares_and_largest),
        )  # fmt: skip
        means = [query.weight * plan.variance(query).mean() for query in workload]
        assert best * (1 - 1e-5) <= squares_and_largest(np.array(means)) <= best * (1 + above)
        assert plan.certify().bound <= best * (1 + 1e-5)
        if planner == "optimal":
            assert plan.certify().gap <= 1e-3
        b, sigma2 = probe(plan)
        assert replace_cost(cost_of(b, sigma2)) <= plan.privacy.pcost * (1 + 1e-9) <= 1 + 1e-9


def test_a_loss_that_no_variance_moves_is_planned_as_the_total() -> None:
    """Its tangents weigh nothing, which was refused as a workload of zeros."""
    workload = asked("crossed") + nz.Workload([nz.Query(asked("crossed").schema, [])])
    plan, total = (
        nz.plan(workload, budget=ONE, neighbours="replace", objective=goal, noise="gaussian")
        for goal in (nz.ConvexLoss(lambda means: 1.0), nz.TotalVariance())
    )
    assert plan.total_variance <= total.total_variance * 1.1


def test_what_is_no_optimum_of_a_loss_says_so() -> None:
    schema = nz.Schema.from_sizes({"a": 40, "b": 40})
    workload = nz.Workload(
        [nz.Query(schema, {"a": nz.Prefix(), "b": nz.Prefix()}), nz.Query(schema, ["a"])]
    )
    loss = nz.ConvexLoss(lambda means: float((means**2).sum()), lambda means: 2.0 * means)
    plan = nz.plan(workload, budget=ONE, neighbours="replace", objective=loss)
    assert ("optimal", "not tried, 1,600 cells") in plan.considered
    with pytest.raises(PlanError, match=r"each variance of 400 rows .* takes too long"):
        nz.plan(
            on({"a": 400}, 1, nz.Prefix()), budget=ONE, neighbours="replace", planner="optimal",
            objective=nz.PNormVariance(3),
        )  # fmt: skip


# ---------------------------------------------------------------------- products


def test_slopes_of_the_descent() -> None:
    """Every gradient against differences of the value."""
    workload = on({"a": 4, "b": 4, "c": 3}, 2, nz.Prefix()) + on(
        {"a": 4, "b": 4, "c": 3}, 1, nz.Identity()
    )
    design = prepare(workload)
    rows = optimise_total(design)
    start = share_given_bases(Aim(design, TotalVariance(), 1.0, "replace"), rows)
    noisy, chart = np.isfinite(start.sigma2) & (start.sigma2 > 0), Chart.of(rows)
    problem = Descent(design, chart, _Patterns(design), noisy, 16.0)
    x = np.concatenate([np.log(start.sigma2[noisy]), chart.pack(rows)])
    slope, rng = problem.value(x)[1], np.random.default_rng(0)
    for _ in range(4):
        step = 1e-6 * rng.normal(size=len(x))
        change = problem.value(x + step)[0] - problem.value(x - step)[0]
        assert change == pytest.approx(2 * float(slope @ step), rel=1e-4)


@pytest.mark.parametrize(("sizes", "k"), [({"a": 4, "b": 4, "c": 4}, 2), ({"a": 6, "b": 5}, 2)])
def test_products_are_better_than_both_starts(sizes: dict[str, int], k: int) -> None:
    design = prepare(on(sizes, k, nz.Prefix()))
    aim = Aim(design, TotalVariance(), 1.0, "replace")
    rows = optimise_total(design)
    start = share_given_bases(aim, rows)
    found = share_given_bases(aim, descended(design, rows, start.sigma2)).share.value
    assert found < start.share.value * 0.995
    assert found < share_given_bases(aim, optimise_upright(design)).share.value * 0.95
    gram = design.gram()
    assert found < replaced_optimum(gram, 1e-3).value * 1.08


# ---------------------------------------------------------------------- one matrix


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("planner", ["optimal", "auto"])
def test_plans_over_all_cells(seed: int, planner: str) -> None:
    workload = random_workload(seed, several=True)
    plan = nz.plan(workload, budget=ONE, neighbours="replace", planner=planner)
    b, sigma2 = probe(plan)
    assert replace_cost(cost_of(b, sigma2)) <= plan.privacy.pcost <= 1.0
    found = replaced_optimum(weighted_rows(workload).T @ weighted_rows(workload), 1e-4)
    assert plan.lower_bound <= found.value * (1 + 1e-9)
    # discrete noise of less than one count may fall below
    assert plan.total_variance <= found.value * (1.011 if planner == "auto" else 1.001)


def test_the_optimum_by_name_says_how_near_it_is() -> None:
    workload = on({"a": 4, "b": 3}, 2, nz.Prefix())
    best = least_replaced_sdp(workload)
    plan = nz.plan(workload, budget=ONE, neighbours="replace", planner="optimal")
    assert plan.gap is not None and plan.gap <= 1e-3
    assert plan.total_variance == pytest.approx(best, rel=1e-3)
    assert plan.variance(nz.Query(workload.schema, [])).tolist() == [0.0]
    worst = nz.plan(
        workload, budget=ONE, neighbours="replace", planner="optimal", objective=nz.WorstVariance()
    )
    assert worst.worst_variance == pytest.approx(least_replaced_sdp(workload, worst=True), rel=1e-3)
    assert worst.certify().gap <= 1e-3


@pytest.mark.grid
@pytest.mark.parametrize(
    "planner", ["workload", "eigen", "hierarchical-4", "wavelet", "identity", "fourier"]
)
@pytest.mark.parametrize("size", [4, 40])
def test_rows_by_name_cost_what_pairs_of_columns_are_apart(planner: str, size: int) -> None:
    schema = nz.Schema.from_sizes({"a": size, "b": 3})
    workload = nz.Workload.marginals(schema, up_to=2, factors={"a": nz.Prefix()})
    plan = nz.plan(workload, budget=ONE, neighbours="replace", planner=planner)
    assert plan.privacy.neighbours == "replace"
    assert isinstance(plan.mechanism, DenseMechanism)
    rows = plan.mechanism.strategy
    brute = apart(rows) / plan.mechanism.noise.one
    assert brute <= plan.privacy.pcost <= 1.0
    assert brute == pytest.approx(1.0, rel=1e-6)
    assert plan.lower_bound <= plan.total_variance


@pytest.mark.parametrize("planner", ["hierarchical-4", "wavelet", "identity"])
def test_products_by_name_over_many_cells(planner: str) -> None:
    """As transforms: never below the distances of columns, written out."""
    schema = nz.Schema.from_sizes({"a": 40, "b": 40})
    workload = nz.Workload([nz.Query(schema, {"a": nz.Prefix(), "b": nz.Prefix()})])
    plan = nz.plan(workload, budget=ONE, neighbours="replace", planner=planner)
    factors = [factor.dense() for factor in plan.mechanism.factors]  # type: ignore[attr-defined]
    grams = [factor.T @ factor for factor in factors]
    whole = np.kron(*grams)
    own = np.diagonal(whole)
    brute = float((own[:, None] + own - 2 * whole).max()) / plan.mechanism.noise.one
    assert brute <= plan.privacy.pcost <= 1.0
    assert brute >= 0.5


PURE = ("auto", "identity", "p-identity", "tree", "matrix", "workload", "hierarchical-4", "eigen")


@pytest.mark.parametrize("planner", PURE)
def test_pure_plans_cost_what_pairs_are_apart(planner: str) -> None:
    schema = nz.Schema.from_sizes({"a": 4, "b": 3})
    workload = nz.Workload.marginals(schema, up_to=2, factors={"a": nz.Prefix()})
    plan = nz.plan(workload, budget=nz.PureDP(1.0), neighbours="replace", planner=planner)
    assert plan.privacy.neighbours == "replace"
    brute = probed_cost([plan.mechanism], "replace")
    assert plan.privacy.pure_epsilon is not None
    assert brute * (1 - 1e-12) <= plan.privacy.pure_epsilon <= 1.0
    half = nz.plan(workload, budget=nz.PureDP(0.5), planner=planner)  # removed, and added
    assert plan.total_variance <= half.total_variance * (1 + 1e-9)
    if planner in ("workload", "hierarchical-4", "eigen"):  # rows that records have in common
        assert plan.total_variance < 0.7 * half.total_variance


@pytest.mark.grid
@pytest.mark.parametrize("objective", [nz.TotalVariance(), nz.WorstVariance()])
@pytest.mark.parametrize("noise", ["discrete", "laplace"])
def test_one_matrix_is_priced_by_pairs_and_not_as_two_records(
    noise: str, objective: nz.Objective
) -> None:
    """Prefix sums of two attributes: replacing a record changes less than removing and adding."""
    schema = nz.Schema.from_sizes({"a": 6, "b": 5})
    workload = nz.Workload([nz.Query(schema, {"a": nz.Prefix(), "b": nz.Prefix()})])
    auto, matrix = (
        nz.plan(
            workload, budget=nz.PureDP(1.0), neighbours="replace", planner=planner,
            objective=objective, noise=noise,
        )
        for planner in ("auto", "matrix")
    )  # fmt: skip
    for plan in (auto, matrix):
        assert 0.999 <= probed_cost([plan.mechanism], "replace") <= 1.0 + 1e-12
    assert auto.total_variance <= matrix.total_variance * (1 + 1e-6)
    assert auto.worst_variance <= matrix.worst_variance * (1 + 1e-6)


def test_one_matrix_over_classes_of_cells_is_priced_by_pairs() -> None:
    bands = np.kron(np.eye(6), np.ones(8))
    banded = nz.Custom(np.tril(np.ones((6, 6))) @ bands)
    schema = nz.Schema.from_sizes({"a": 48, "b": 48})
    workload = nz.Workload([nz.Query(schema, {"a": banded, "b": banded})])
    plan = nz.plan(workload, budget=nz.PureDP(1.0), neighbours="replace", planner="matrix")
    assert isinstance(plan.mechanism, ReducedMechanism)
    apart = probed_cost([plan.mechanism.small], "replace")
    assert plan.privacy.pure_epsilon is not None
    assert 0.999 <= apart <= plan.privacy.pure_epsilon * (1 + 1e-12) <= 1.0 + 1e-12
    same = nz.plan(
        nz.Workload.prefix(nz.Schema.from_sizes({"a": 6, "b": 6})),
        budget=nz.PureDP(1.0), neighbours="replace",
    )  # fmt: skip
    half = nz.plan(workload, budget=nz.PureDP(0.5))
    assert plan.total_variance <= same.total_variance * 1.05
    assert plan.total_variance <= half.total_variance * (1 + 1e-9)


def test_tables_with_rows_that_records_share_are_priced_by_pairs() -> None:
    """A hierarchy of eight values for its worst sum: what all records have in common is free."""
    workload = nz.Workload.prefix(nz.Schema.from_sizes({"a": 8}))
    replaced, half = (
        nz.plan(workload, budget=budget, neighbours=neighbours, objective=nz.WorstVariance())
        for budget, neighbours in ((nz.PureDP(1.0), "replace"), (nz.PureDP(0.5), "add-remove"))
    )
    assert 0.999 <= probed_cost([replaced.mechanism], "replace") <= 1.0 + 1e-12
    assert replaced.worst_variance < 0.6 * half.worst_variance


def test_data_aware_plans_spend_half_and_a_quarter(tmp_path: Path) -> None:
    workload = on({"a": 64}, 1, nz.Prefix())
    for budget, times in ((nz.PureDP(1.0), 2), (nz.zCDP(0.5), 4)):
        plan = nz.plan(workload, budget=budget, planner="dawa", neighbours="replace", max_rows=3)
        record = plan.mechanism.spending.privacy  # type: ignore[attr-defined]
        assert record.neighbours == "add-remove" and plan.privacy.neighbours == "replace"
        assert plan.privacy.within(budget)
        if times == 2:
            assert plan.privacy.pure_epsilon == pytest.approx(6 * record.pure_epsilon)
        else:
            assert plan.privacy.pcost == pytest.approx(36 * record.pcost)
        one = nz.plan(workload, budget=budget, planner="dawa", neighbours="replace")
        one.release({"a": [1, 2, 2, 60]}).save(tmp_path / str(times))
        assert nz.load(tmp_path / str(times)).plan.privacy == one.privacy


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"planner": "optimal", "objective": nz.RelativeError()}, "TotalVariance()"),
        ({"planner": "sm2", "objective": nz.WorstVariance()}, "planner='optimal'"),
        ({"objective": nz.RelativeError(np.ones(12))}, "TotalVariance()"),
    ],
)
def test_refusals_name_what_works(options: dict[str, object], advice: str) -> None:
    workload = on({"a": 4, "b": 3}, 2, nz.Prefix())
    given: dict[str, object] = {"budget": ONE, "neighbours": "replace"} | options
    with pytest.raises(PlanError) as refusal:
        nz.plan(workload, **given)  # type: ignore[arg-type]
    assert advice in str(refusal.value).replace('"', "'")
    name, _, value = advice.partition("=")
    works = given | ({name: value.strip("'")} if value else {"objective": nz.TotalVariance()})
    nz.plan(workload, **works)  # type: ignore[arg-type]


def test_too_many_cells_for_pairs() -> None:
    with pytest.raises(PlanError, match=r"at most 1,024 cells.*planner='auto'"):
        nz.plan(
            on({"a": 40, "b": 40}, 2, nz.Prefix()),
            budget=ONE,
            neighbours="replace",
            planner="optimal",
        )


@pytest.mark.few(2)
@pytest.mark.parametrize("planner", ["auto", "optimal", "eigen"])
def test_what_is_released_has_the_errors_that_are_stated(planner: str, tmp_path: Path) -> None:
    """Measured many times; and a plan that is read back is priced the same."""
    schema = nz.Schema.from_sizes({"a": 4, "b": 3})
    workload = nz.Workload.marginals(schema, up_to=2, factors={"a": nz.Prefix()})
    plan = nz.plan(workload, budget=ONE, neighbours="replace", planner=planner)
    data = {"a": [0, 1, 1, 3, 2] * 8, "b": [0, 1, 2, 2, 1] * 8}
    query = nz.Query(schema, ["a", "b"])
    runs = depth(250, 100)
    drawn = np.array([plan.release(data, seed=i).answer(query).estimate for i in range(runs)])
    cells = np.array(data["a"]) * 3 + np.array(data["b"])
    counts = np.bincount(cells, minlength=schema.size)
    each = plan.variance(query)
    assert (np.abs(drawn.mean(axis=0) - counts) <= 4.5 * np.sqrt(each / len(drawn))).all()
    off = 0.1 * np.sqrt(250 / runs)
    assert drawn.var(axis=0).mean() == pytest.approx(each.mean(), rel=off)
    plan.release(data).save(tmp_path / "out")
    again = nz.load(tmp_path / "out")
    assert again.plan.privacy == plan.privacy
    assert again.plan.total_variance == pytest.approx(plan.total_variance, rel=1e-12)


@pytest.mark.parametrize(("values", "reason"), [(32, None), (33, "not tried, 1,056 cells")])
def test_the_optimum_is_tried_unasked_up_to_1024_cells(values: int, reason: str | None) -> None:
    workload = on({"a": 32, "b": values}, 2, nz.Prefix())
    assert untried(Problem(workload, ONE, neighbours="replace")) == reason


def test_the_worst_of_many_rows_is_not_the_optimum_of_pairs() -> None:
    """Where each variance would take too long, it is said, and auto plans by the family."""
    schema = nz.Schema.from_sizes({"x": 8, "y": 8, "p": 3, "q": 3})
    prefix, cells = nz.Prefix(), nz.Identity()
    pairs = [("x", "y"), ("x", "p"), ("y", "p"), ("x", "q"), ("y", "q"), ("p", "q")]
    tables = [{n: prefix if n in "xy" else cells for n in pair} for pair in pairs]
    workload = nz.Workload([nz.Query(schema, t) for t in [*tables, {"x": cells, "y": cells}]])
    asked = {"budget": nz.zCDP(0.5), "neighbours": "replace", "objective": nz.WorstVariance()}
    plan = nz.plan(workload, **asked, noise="gaussian")
    assert plan.privacy.rho <= 0.5
    assert ("optimal", f"not tried, {workload.rows:,} rows") in plan.considered
    with pytest.raises(PlanError, match=r"each variance of \d+ rows .* takes too long"):
        nz.plan(workload, **asked, planner="optimal")
