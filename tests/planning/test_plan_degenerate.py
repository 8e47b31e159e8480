"""Factors of low rank, rows without noise, wild scales, questions whose answer is public."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import depth, examples
from noiseplan.errors import PlanError, QueryError
from noiseplan.mechanisms.basis import Basis
from oracles import blue_covariance, optimal_total, probe, table_counts

B = nz.zCDP(0.5)
NOISES = ["gaussian", "discrete"]
Rows = list[list[float]]


def of_sizes(**sizes: int) -> nz.Schema:
    return nz.Schema.from_sizes(sizes)


def check_sound(plan: nz.Plan) -> None:
    """Every query answered, its variance that of the best linear estimate, figures its sum."""
    total = 0.0
    for query in plan.workload:
        variance = plan.variance(query)
        assert (variance >= 0).all() and np.isfinite(variance).all()
        total += query.weight * variance.sum()
    assert plan.total_variance == pytest.approx(total, rel=1e-6)
    assert plan.lower_bound <= plan.total_variance * (1 + 1e-9)


def check_unbiased(plan: nz.Plan) -> None:
    """Without noise every answer is the truth."""
    schema = plan.workload.schema
    rng = np.random.default_rng(0)
    x = rng.integers(0, 1000, schema.shape).astype(float)
    kind = np.int64 if plan.noise == "discrete" else np.float64
    measured = plan.mechanism.measure(table_counts(x), lambda shape, *_: np.zeros(shape, kind))
    for query in plan.workload:
        truth = query.dense() @ x.ravel()
        scale = np.abs(query.dense()).sum(axis=1) * 1000
        found = plan.mechanism.answer(measured, query)
        assert (np.abs(found - truth) <= 1e-7 * scale.max()).all()


@examples(40)
@given(
    seed=st.integers(0, 2**32 - 1),
    low=st.sampled_from([0, -1, -2]),
    planner=st.sampled_from(["auto", "residual", "residual+", "product"]),
    noise=st.sampled_from(NOISES),
)
def test_factors_of_low_rank(seed: int, low: int, planner: str, noise: str) -> None:
    rng = np.random.default_rng(seed)
    schema = of_sizes(a=int(rng.integers(3, 6)), b=int(rng.integers(2, 5)))
    factors = {}
    for name, size in zip(schema.names, schema.shape, strict=True):
        rows = rng.integers(low, 3, (int(rng.integers(1, 3)), size)).astype(float)
        rows[0, 0] += 3.0
        factors[name] = nz.Custom(rows)
    workload = nz.Workload([nz.Query(schema, factors), nz.Query(schema, [])])
    plan = nz.plan(workload, budget=B, planner=planner, noise=noise)
    check_sound(plan)
    check_unbiased(plan)
    assert np.diagonal(plan.cost_matrix()).max() <= 1.0
    assert plan.rounding_loss < 1e-3
    assert (
        plan.total_variance
        <= 1.001 * nz.plan(workload, budget=B, planner=planner, noise="gaussian").total_variance
    )


LOW_RANK: list[tuple[Rows, Rows]] = [
    ([[0, 0, 0, 1], [1, 0, 1, 1]], [[0, 1, 1], [1, 0, 1]]),
    ([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]], [[0, 1, 0, 1, 0], [0, 1, 1, 0, 1]]),
    ([[-2, -2, 0, 2], [0, 0, -1, 2]], [[-1, -1, 1, 1, 1], [-2, 2, -2, 1, 2]]),
]


@pytest.mark.grid
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("number", range(len(LOW_RANK)))
def test_one_product_of_low_rank_is_planned_optimally(number: int, noise: str) -> None:
    left, right = LOW_RANK[number]
    schema = of_sizes(a=len(left[0]), b=len(right[0]))
    query = nz.Query(schema, {"a": nz.Custom(left), "b": nz.Custom(right)})
    workload = nz.Workload([query])
    plan = nz.plan(workload, budget=B, noise=noise)
    check_sound(plan)
    check_unbiased(plan)
    assert plan.total_variance <= 1.0005 * optimal_total(workload)[0]
    if noise == "gaussian":
        exact = blue_covariance(query.dense(), query.dense(), *probe(plan))
        np.testing.assert_allclose(plan.variance(query), np.diagonal(exact), rtol=1e-6)


@pytest.mark.parametrize("noise", NOISES)
def test_differences_need_no_total(noise: str) -> None:
    schema = of_sizes(a=4)
    steps = nz.Custom([[1, -1, 0, 0], [0, 1, -1, 0], [0, 0, 1, -1]])
    plan = nz.plan(nz.Workload([nz.Query(schema, {"a": steps})]), budget=B, noise=noise)
    check_sound(plan)
    check_unbiased(plan)


@pytest.mark.grid
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("planner", ["auto", "residual"])
def test_a_matrix_of_one_row(neighbours: str, planner: str) -> None:
    schema = of_sizes(a=4, b=2)
    query = nz.Query(schema, ["a", "b"], matrix=[[-1, -1, -1, 0, 1, -1, 0, 0]])
    workload = nz.Workload([nz.Query(schema, []), query])
    plan = nz.plan(workload, budget=B, neighbours=neighbours, planner=planner, noise="discrete")
    check_sound(plan)
    check_unbiased(plan)


def test_a_singular_basis_is_noticed() -> None:
    """Dependent up to rounding: an inverse is returned, and it is none."""
    first = np.array([0.1, 0.7, 1.3, 0.9])
    rows = np.vstack([first, 0.3 + 0.7 * first, [1.0, -1.0, 0.0, 0.0]])
    with pytest.raises(np.linalg.LinAlgError):
        Basis.from_rows(rows)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("scale", [1e-7, 3e5, 1e6, 1e7, 1e15])
def test_values_are_merged_only_if_no_factor_tells_them_apart(scale: float, noise: str) -> None:
    schema = of_sizes(a=5)
    coarse = nz.Custom(np.array([[1, 0, 0, 0, 0], [0, 1, 0, 1, 0]]) * scale)
    workload = nz.Workload([nz.Query(schema, {"a": coarse}), nz.Query(schema, ["a"])])
    check_sound(nz.plan(workload, budget=B, noise=noise))
    uneven = nz.Custom([[1e7, 0, 0, 0, 0], [0, 0, 1, 0, 0]])
    plan = nz.plan(nz.Workload([nz.Query(schema, {"a": uneven})]), budget=B, noise=noise)
    check_sound(plan)


@pytest.mark.parametrize("budget", [B, nz.PureDP(1.0)], ids=["gaussian", "pure"])
def test_columns_that_differ_by_rounding_are_one(budget: nz.Budget) -> None:
    schema, rng = of_sizes(a=6, b=4), np.random.default_rng(1)
    rows = np.repeat(rng.random((3, 3)), 2, axis=1)
    cells = np.kron(rng.random((4, 3)).repeat(2, axis=1), rng.random((1, 4)))
    rows, cells = (m * (1 + 2.3e-16 * rng.integers(-2, 3, m.shape)) for m in (rows, cells))
    queries = [nz.Query(schema, {"a": nz.Custom(rows)}), nz.Query(schema, matrix=cells)]
    plan = nz.plan(nz.Workload(queries), budget=budget)
    assert plan.design.group_count(0) == 3
    check_sound(plan)


@pytest.mark.parametrize("weight", [1e-6, 1e6])
@pytest.mark.parametrize("noise", NOISES)
def test_wild_weights(weight: float, noise: str) -> None:
    schema = of_sizes(a=5)
    coarse = nz.Custom([[1, 0, 0, 0, 0], [0, 1, 0, 1, 0]])
    workload = nz.Workload(
        [nz.Query(schema, {"a": coarse}, weight=weight), nz.Query(schema, ["a"], weight=1 / weight)]
    )
    check_sound(nz.plan(workload, budget=B, noise=noise))


def test_matrices_beyond_the_range_of_doubles() -> None:
    for size in (1e160, 1e-160):
        with pytest.raises(QueryError, match="sizes between 1e-30 and 1e\\+30"):
            nz.Custom([[1.0, size]])


# --------------------------------------------------------------------------- exact rows


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("planner", ["auto", "residual", "residual+", "product"])
@pytest.mark.parametrize(
    "factor", [nz.Prefix(), nz.Ranges(), nz.Levels(2), nz.Custom([[1, 0, 0, 0, 0], [3] * 5])]
)
def test_the_public_total_has_no_error(factor: nz.Factor, planner: str, noise: str) -> None:
    """When a record may be replaced, the last prefix, the longest range, … are the total."""
    schema = of_sizes(a=5, b=3)
    query = nz.Query(schema, {"a": factor})
    workload = nz.Workload([query])
    plan = nz.plan(workload, budget=B, neighbours="replace", planner=planner, noise=noise)
    errors = plan.std_error(query)
    assert errors[-1] == 0.0 and (errors[:-1] > 0).all()
    assert plan.half_width(query)[-1] == 0.0
    assert np.diagonal(plan.covariance(query, query))[-1] == pytest.approx(0.0, abs=1e-12)
    answer = plan.release({"a": [0, 1, 1, 4], "b": [0, 1, 2, 2]}, seed=3).answer(query)
    factor_of_total = 3.0 if isinstance(factor, nz.Custom) else 1.0
    assert answer.estimate[-1] == pytest.approx(4 * factor_of_total, abs=1e-9)
    assert np.isfinite(answer.lower).all() and np.isfinite(answer.upper).all()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("planner", ["auto", "residual", "product"])
def test_everything_asked_is_public(planner: str, noise: str) -> None:
    schema = of_sizes(a=3)
    workload = nz.Workload([nz.Query(schema, [])])
    plan = nz.plan(workload, budget=B, neighbours="replace", planner=planner, noise=noise)
    assert plan.privacy.pcost == 0 and plan.total_variance == 0
    assert plan.efficiency == 1 and "public and exact" in str(plan)
    assert plan.release({"a": [0, 1, 1]}, seed=1).answer(workload["total"]).estimate == [3.0]


@pytest.mark.parametrize("noise", NOISES)
def test_everything_asked_is_public_whatever_the_objective(noise: str) -> None:
    workload = nz.Workload([nz.Query(of_sizes(a=3), [])])
    loss = nz.ConvexLoss(lambda variances: float(variances.sum()))
    for objective in (nz.WorstVariance(), nz.PNormVariance(2), loss):
        plan = nz.plan(workload, budget=B, neighbours="replace", objective=objective, noise=noise)
        assert plan.total_variance == 0
    targeted = nz.plan(workload, targets={"total": 4.0}, neighbours="replace", noise=noise)
    assert targeted.privacy.pcost == 0 and targeted.total_variance == 0


def test_the_total_alone_as_a_product() -> None:
    workload = nz.Workload([nz.Query(of_sizes(a=3), [])])
    plan = nz.plan(workload, budget=B, planner="product", noise="gaussian")
    assert plan.total_variance == pytest.approx(1.0, rel=1e-9)


# --------------------------------------------------------------------------- bounds and targets


@pytest.mark.parametrize("rho", [0.5, 100.0, 1e4, 1e8])
def test_the_bound_never_exceeds_what_is_reached(rho: float) -> None:
    """Discrete noise far below one count has less variance than continuous noise could have."""
    workload = nz.Workload.marginals(of_sizes(a=3, b=4), up_to=2)
    plan = nz.plan(workload, budget=nz.zCDP(rho), noise="discrete")
    assert plan.lower_bound <= plan.total_variance
    assert 0 < plan.efficiency <= 1
    str(plan)


def test_a_bound_over_more_cells_than_a_double_can_count() -> None:
    schema = nz.Schema.from_sizes({f"a{i}": 10 for i in range(400)})
    plan = nz.plan(nz.Workload.marginals(schema, k=1), budget=B, neighbours="replace")
    assert 0 < plan.lower_bound <= plan.total_variance


@pytest.mark.parametrize("target", [0.01, 0.3, 4.0, 1e5])
def test_targets_are_met_and_no_more_is_spent(target: float) -> None:
    """With discrete noise too, whose variance is not its parameter when it is small."""
    workload = nz.Workload.marginals(of_sizes(a=4, b=3), k=1, factors={"a": nz.Prefix()})
    plan = nz.plan(workload, targets=target, noise="discrete")
    scale = plan.target_scale
    assert scale is not None and 1 - 1e-5 < scale <= 1 + 1e-12
    cheaper = nz.plan(workload, budget=nz.zCDP(plan.privacy.rho * 0.999), targets=target)
    assert cheaper.target_scale is not None


def test_a_loss_that_is_no_number() -> None:
    workload = nz.Workload.marginals(of_sizes(a=4), k=1)
    with pytest.raises(PlanError, match="returns one number"):
        nz.plan(workload, budget=B, objective=nz.ConvexLoss(lambda v: v))


def test_explicit_planner_says_what_it_cannot() -> None:
    small = nz.Workload.marginals(of_sizes(a=4), k=1)
    with pytest.raises(PlanError, match="for neighbours that add or remove a record"):
        nz.plan(small, targets=1.0, planner="refined", neighbours="replace")
    large = nz.Workload.marginals(of_sizes(a=5000), k=1)
    with pytest.raises(PlanError, match="up to 4,096 numbers of tables, and these need 5,000"):
        nz.plan(large, budget=B, planner="optimal")
    with pytest.raises(PlanError, match="at most 4,096 cells, and the schema has 5,000"):
        nz.plan(large, targets=1.0, planner="refined")


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("row", [[0.3, 0.1 + 0.2, 0.0], [1.0, 1.0 + 1e-15, 0.0]])
def test_numbers_that_differ_in_the_last_digit(row: list[float], noise: str) -> None:
    workload = nz.Workload([nz.Query(of_sizes(a=3), {"a": nz.Custom([row])})])
    for planner in ("auto", "optimal", "residual"):
        check_sound(nz.plan(workload, budget=B, noise=noise, planner=planner))


def test_many_rows_of_one_size_and_one_of_another() -> None:
    rows = np.vstack([np.tile([[1.0, 1.0, 0.0]], (13, 1)), [[1e-6, -1e-6, 0.0]]])
    workload = nz.Workload([nz.Query(of_sizes(a=3), {"a": nz.Custom(rows)})])
    check_sound(nz.plan(workload, budget=B, noise="discrete"))


def test_a_matrix_that_asks_for_the_public_total() -> None:
    schema = of_sizes(a=1, b=2)
    workload = nz.Workload([nz.Query(schema, ["a", "b"], matrix=[[1, 1]])])
    plan = nz.plan(workload, budget=B, neighbours="replace", noise="discrete")
    assert plan.total_variance == 0


@pytest.mark.parametrize("planner", ["auto", "optimal", "residual"])
def test_noise_that_64_bits_do_not_hold_is_drawn_all_the_same(planner: str) -> None:
    workload = nz.Workload.marginals(of_sizes(a=4), k=1, factors={"a": nz.Prefix()})
    plan = nz.plan(workload, budget=nz.zCDP(1e-30), noise="discrete", planner=planner)
    assert plan.mechanism.noise.wide and plan.privacy.rho <= 1e-30
    data = nz.counting.CountTensor(workload.schema, np.arange(4))
    (query,) = workload
    runs = depth(300, 100)
    seen = [plan.release(data, seed=seed).answer(query).estimate for seed in range(runs)]
    off = 0.2 * np.sqrt(300 / runs)
    assert np.mean(np.square(seen) / plan.variance(query)) == pytest.approx(1.0, abs=off)


@pytest.mark.parametrize("planner", ["auto", "residual"])
@pytest.mark.parametrize("totals", [0, 1])
def test_a_contrast_that_sums_to_nothing_asks_nothing_of_smaller_sets(
    planner: str, totals: int
) -> None:
    schema = nz.Schema.from_sizes({"a": 3, "b": 3})
    contrast = nz.Query(schema, ["a", "b"], matrix=[[1, -1, 0, -1, 1, 0, 0, 0, 0]])
    workload = nz.Workload([contrast, *[nz.Query(schema, {})] * totals])
    plan = nz.plan(workload, budget=nz.zCDP(0.5), planner=planner, noise="gaussian")
    # One number has variance 1. Two that one record may meet in full share the budget: 2 each.
    assert plan.total_variance == pytest.approx(4.0 if totals else 1.0, rel=1e-3)


@pytest.mark.parametrize("noise", NOISES)
def test_rows_that_rounding_uncentres_leave_the_plan_of_common_rows(noise: str) -> None:
    schema = of_sizes(a=5, b=4, c=5)
    fine = nz.Custom([[-0.49, 2.6, 1.71, -3.04, -0.37], [1.49, -1.1, -2.76, 0.83, -1.49]])
    faint = nz.Custom([[-1, -1, 2, -1, 2], [-1, -2, 2, 0, 2], [-1, 0, 2, 2, 2], [0, 2, 2, 0, 2]])
    queries = [
        nz.Query(schema, {"a": fine}),
        nz.Query(schema, {"a": faint}, weight=0.001),
        nz.Query(schema, {"b": nz.Prefix(), "c": nz.Custom([[0, -3, -3, -2, 2]])}),
        nz.Query(schema, {}, weight=0.3),
    ]
    how: dict[str, Any] = {"objective": nz.WorstVariance(), "planner": "residual", "noise": noise}
    check_sound(nz.plan(nz.Workload(queries), budget=B, **how))
