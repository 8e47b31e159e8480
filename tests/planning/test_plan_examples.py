"""Examples E2, E3, E7, E9 of the specification and figures of the paper, through `nz.plan`."""

from __future__ import annotations

from itertools import combinations
from math import comb, prod, sqrt

import numpy as np
import pytest

import noiseplan as nz
from oracles import add_remove_cost, cost_of, marginal_matrix, probe

ONE = nz.zCDP(0.5)  # pcost 1
SIZES = {"x": 2, "y": 2, "z": 3}
# E2, by subset: noise of the residual
SIGMA2 = {
    (): 4.80657259490851,
    (0,): 2.656932970819408,
    (1,): 3.564649640647597,
    (2,): 3.7574706416490455,
    (0, 1): 2.300971448882066,
    (1, 2): 1.8787353208245228,
}


def toy() -> tuple[nz.Schema, nz.Workload]:
    schema = nz.Schema.from_sizes(SIZES)
    return schema, nz.Workload([nz.Query(schema, s) for s in (["x"], ["x", "y"], ["y", "z"])])


def sigma2_by_set(plan: nz.Plan) -> dict[tuple[int, ...], float]:
    return {
        tuple(row): float(s)
        for block in plan.mechanism.blocks
        for row, s in zip(block.sets.tolist(), block.sigma2, strict=True)
    }


def test_total_variance_of_the_toy_workload() -> None:
    _, workload = toy()
    plan = nz.plan(workload, budget=ONE, noise="gaussian")
    assert plan.total_variance == pytest.approx(21.177878434281734, rel=1e-10)
    assert plan.rmse == pytest.approx(1.328466485409704, rel=1e-10)
    assert plan.lower_bound == pytest.approx(21.177878434281734, rel=1e-8)
    assert plan.optimal
    assert sigma2_by_set(plan) == pytest.approx(SIGMA2, rel=1e-9)
    assert plan.measured_numbers == 8
    np.testing.assert_allclose(np.diagonal(plan.cost_matrix()), 1.0, rtol=1e-10)


def test_variances_and_covariances_of_the_toy_workload() -> None:
    _, workload = toy()
    plan = nz.plan(workload, budget=ONE)
    x, xy, yz = workload
    for query, variance in (
        (x, 2.5301096341368314),
        (xy, 1.6533514758356738),
        (yz, 1.584042210444229),
    ):
        np.testing.assert_allclose(plan.variance(query), variance, rtol=1e-9)
    assert plan.covariance(x, x)[0, 1] == pytest.approx(-0.126823, abs=1e-6)
    within = plan.covariance(xy, xy).reshape(2, 2, 2, 2)
    assert within[0, 0, 0, 1] == pytest.approx(-0.388297, abs=1e-6)  # same x, other y
    assert within[0, 0, 1, 0] == pytest.approx(-0.161367, abs=1e-6)  # other x, same y
    assert within[0, 0, 1, 1] == pytest.approx(0.097956, abs=1e-6)
    within = plan.covariance(yz, yz).reshape(2, 3, 2, 3)
    assert within[0, 0, 0, 1] == pytest.approx(-0.294693, abs=1e-6)
    assert within[0, 0, 1, 0] == pytest.approx(-0.06452, abs=1e-5)
    assert within[0, 0, 1, 1] == pytest.approx(-0.06452, abs=1e-5)
    across = plan.covariance(xy, yz).reshape(2, 2, 2, 3)
    for a, b, c, d in np.ndindex(across.shape):
        expected = 0.497328 if b == c else -0.09678
        assert across[a, b, c, d] == pytest.approx(expected, abs=1e-5)


WORST = nz.WorstVariance()


def test_worst_variance_of_the_toy_workload() -> None:
    _, workload = toy()
    plan = nz.plan(workload, budget=ONE, objective=WORST, noise="gaussian")
    assert plan.worst_variance == pytest.approx(1.894212170, rel=1e-8)
    assert plan.optimal
    expected = {
        (): 3.716457, (0,): 1.930196, (1,): 4.760871,
        (0, 1): 3.302201, (2,): 4.579453, (1, 2): 2.289727,
    }  # fmt: skip
    assert sigma2_by_set(plan) == pytest.approx(expected, rel=2e-4)


@pytest.mark.parametrize(
    ("tables", "worst"),
    [
        ([[], ["x"], ["y"], ["z"], ["x", "y"], ["y", "z"]], 22 / 9),
        ([["x", "y"], ["x", "z"], ["y", "z"]], 1.825776738),
        ([["x"], ["y"]], (3 + 2 * sqrt(2)) / 4),
        ([[], ["x"], ["y"], ["x", "y"]], 16 / 9),
    ],
)
def test_worst_variance_of_other_small_workloads(tables: list[list[str]], worst: float) -> None:
    schema = nz.Schema.from_sizes(SIZES)
    workload = nz.Workload([nz.Query(schema, table) for table in tables])
    plan = nz.plan(workload, budget=ONE, objective=WORST)
    assert plan.worst_variance == pytest.approx(worst, rel=1e-8)
    assert plan.optimal


def test_worst_variance_equalises_a_downward_closed_workload() -> None:
    """B1: σ²_A = t ∏(1 + 1/n_i)."""
    schema = nz.Schema.from_sizes(SIZES)
    tables = [[], ["x"], ["y"], ["z"], ["x", "y"], ["y", "z"]]
    workload = nz.Workload([nz.Query(schema, table) for table in tables])
    plan = nz.plan(workload, budget=ONE, objective=WORST, noise="gaussian")
    for query in workload:
        np.testing.assert_allclose(plan.variance(query), 22 / 9, rtol=1e-6)
    closed = {(): 22 / 9, (0,): 11 / 3, (1,): 11 / 3, (2,): 88 / 27, (0, 1): 11 / 2, (1, 2): 44 / 9}
    assert sigma2_by_set(plan) == pytest.approx(closed, rel=1e-4)


# --------------------------------------------------------------------------- E7, E9: one attribute


def one_attribute(n: int, factor: nz.Factor) -> nz.Workload:
    return nz.Workload([nz.Query(nz.Schema.from_sizes({"a": n}), {"a": factor})])


@pytest.mark.parametrize("planner", ["auto", "residual", "residual+", "product"])
@pytest.mark.parametrize(
    ("factor", "total"), [(nz.Prefix(), ((1 + sqrt(5)) / 2) ** 2), (nz.Ranges(), 2 + sqrt(3))]
)
def test_two_values(planner: str, factor: nz.Factor, total: float) -> None:
    plan = nz.plan(one_attribute(2, factor), budget=ONE, planner=planner)
    assert plan.total_variance == pytest.approx(total, rel=1e-8)


@pytest.mark.parametrize(("factor", "total"), [(nz.Prefix(), 4.79622338761), (nz.Ranges(), 80 / 9)])
def test_three_values_with_an_upright_split(factor: nz.Factor, total: float) -> None:
    """E7: for n = 3 the identity is the best strategy with τ = 1/n."""
    plan = nz.plan(one_attribute(3, factor), budget=ONE, planner="residual+", noise="gaussian")
    assert plan.total_variance == pytest.approx(total, rel=2e-6)


@pytest.mark.parametrize(
    ("n", "factor", "product", "mean"),
    [
        (10, nz.Prefix(), 9.965944, 3.85),
        (20, nz.Prefix(), 30.411793, 7.175),
        (50, nz.Prefix(), 117.199621, 17.17),
        (10, nz.Ranges(), 71.092163, 12.1),
    ],
)
def test_best_upright_strategies(n: int, factor: nz.Factor, product: float, mean: float) -> None:
    """E9: T = (√m + √(βR))² with the least βR."""
    plan = nz.plan(one_attribute(n, factor), budget=ONE, planner="residual+", noise="gaussian")
    assert plan.total_variance == pytest.approx((sqrt(mean) + sqrt(product)) ** 2, rel=2e-7)


@pytest.mark.parametrize(("d", "rmse"), [(2, 2.5933), (6, 11.7899), (10, 24.5838), (100, 669.1055)])
def test_all_ranges_of_up_to_three_attributes(d: int, rmse: float) -> None:
    schema = nz.Schema.from_sizes({f"a{i}": 10 for i in range(d)})
    factors = dict.fromkeys(schema.names, nz.Ranges())
    workload = nz.Workload.marginals(schema, up_to=min(d, 3), factors=factors)
    upright = nz.plan(workload, budget=ONE, planner="residual+", noise="gaussian")
    assert upright.rmse == pytest.approx(rmse, rel=5e-6 if d > 2 else 2e-5)
    assert nz.plan(workload, budget=ONE, noise="gaussian").rmse < upright.rmse


# --------------------------------------------------------------------------- the paper's tables

DATA = {
    "Adult": (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2),
    "CPS": (100, 50, 7, 4, 2),
    "Loans": (101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15),
}
# section 2.1: k (None: all of at most 3), root mean squared error, worst variance
MARGINALS = {
    "Adult": [(1, 3.046823, 12.046539), (2, 6.358720, 67.802126), (3, 10.515270, 236.842808),
              (4, 14.655760, 575.213469), (5, 17.843621, 1030.948138),
              (None, 10.665008, 253.605156)],
    "CPS": [(1, 1.743945, 4.346419), (2, 2.034586, 7.897033), (3, 2.047661, 7.705844),
            (4, 1.626929, 4.140596), (5, 1.0, 1.0), (None, 2.275873, 13.215573)],
    "Loans": [(1, 2.875299, 10.639775), (2, 5.634288, 52.216937), (3, 8.701935, 156.638060),
              (4, 11.267030, 320.777754), (None, 8.875639, 180.817120)],
}  # fmt: skip


def data_schema(name: str) -> nz.Schema:
    return nz.Schema.from_sizes({f"a{i}": n for i, n in enumerate(DATA[name])})


@pytest.mark.few(1)
@pytest.mark.parametrize("name", DATA)
def test_marginals_of_the_paper(name: str) -> None:
    schema = data_schema(name)
    for k, rmse, worst in MARGINALS[name]:
        workload = nz.Workload.marginals(schema, k=k, up_to=3 if k is None else None)
        plan = nz.plan(workload, budget=ONE)
        assert plan.rmse == pytest.approx(rmse, rel=1e-6), k
        assert plan.optimal, k
        plan = nz.plan(workload, budget=ONE, objective=WORST)
        assert plan.worst_variance == pytest.approx(worst, rel=1e-6), k
        assert plan.optimal, k


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("d", "rmse", "worst"),
    [(2, 1.3791, 3.3058), (10, 9.3481, 105.0308), (200, 855.3301, 731834.714),
     (20, 26.9168, 768.9414), (100, 303.2161, 91960.9174)],
)  # fmt: skip
def test_synthetic_marginals(d: int, rmse: float, worst: float) -> None:
    """d = 200 is the worst variance that the paper could not compute; there B1's formula fails."""
    schema = nz.Schema.from_sizes({f"a{i}": 10 for i in range(d)})
    workload = nz.Workload.marginals(schema, up_to=min(d, 3))
    assert nz.plan(workload, budget=ONE).rmse == pytest.approx(rmse, abs=1e-4)
    plan = nz.plan(workload, budget=ONE, objective=WORST)
    assert plan.worst_variance == pytest.approx(worst, rel=2e-5 if d < 10 else 1e-6)
    equalised = sum(comb(d, j) * (9 / 11) ** j for j in range(min(d, 3) + 1))
    assert plan.worst_variance <= equalised * (1 + 1e-8)


def test_small_tables_of_adult() -> None:
    """Every table of at most 5,000 cells: a downward-closed workload without full symmetry."""
    schema = data_schema("Adult")
    sizes = schema.shape
    tables = [
        s for k in range(8) for s in combinations(range(14), k) if prod(sizes[i] for i in s) <= 5000
    ]
    workload = nz.Workload([nz.Query(schema, [schema.names[i] for i in s]) for s in tables])
    assert len(workload) == 379
    assert nz.plan(workload, budget=ONE).rmse == pytest.approx(9.944604, rel=1e-6)
    plan = nz.plan(workload, budget=ONE, objective=WORST)
    assert plan.worst_variance == pytest.approx(126.902412, rel=1e-6)


def prefix_workload(d: int, n: int, k: int) -> nz.Workload:
    schema = nz.Schema.from_sizes({f"a{i}": n for i in range(d)})
    return nz.Workload.marginals(schema, k=k, factors=dict.fromkeys(schema.names, nz.Prefix()))


# d, n, k: the specification's direct strategies for τ = 1/n, and the oblique figure to reach
PREFIXES = [
    (5, 10, 1, 2.8527, 2.792), (5, 10, 2, 5.4953, 5.241), (5, 10, 3, 8.2605, 7.618),
    (5, 10, 4, 10.3119, 9.080), (5, 10, 5, 11.1157, 9.125),
    (10, 10, 1, 3.7774, 3.709), (10, 10, 3, 20.4274, 19.23), (10, 10, 5, 55.1663, 49.16),
    (20, 20, 1, 6.1136, 6.035), (20, 20, 4, 257.6995, 243.6), (20, 20, 7, 3148.5869, 2818.0),
]  # fmt: skip


@pytest.mark.few(3)
@pytest.mark.parametrize(("d", "n", "k", "upright", "oblique"), PREFIXES)
def test_all_prefix_tables(d: int, n: int, k: int, upright: float, oblique: float) -> None:
    """Tables 12–14, and section 4 of the design of the residual family."""
    workload = prefix_workload(d, n, k)
    assert nz.plan(
        workload, budget=ONE, planner="residual+", noise="gaussian"
    ).rmse == pytest.approx(upright, rel=2e-5)
    plan = nz.plan(workload, budget=ONE, noise="gaussian")
    assert plan.rmse <= oblique * 1.002
    assert plan.rmse < upright


@pytest.mark.few(2)
@pytest.mark.parametrize(("k", "oblique"), [(1, 3.063), (2, 5.816), (3, 7.300), (None, 7.562)])
def test_mixed_tables_of_cps(k: int | None, oblique: float) -> None:
    schema = data_schema("CPS")
    factors = {"a0": nz.Prefix(), "a1": nz.Prefix()}
    workload = nz.Workload.marginals(schema, k=k, up_to=3 if k is None else None, factors=factors)
    assert nz.plan(workload, budget=ONE).rmse <= oblique * 1.002


# k: total T, 0-way, then min and max of the variances by ways (section 2.2)
FAIRNESS = {
    "tables": (1.15609e5, 257.667, (208.508, 255.808), (168.832, 262.703), (147.103, 329.993)),
    "rows": (2.39351e9, 22488.11, (2377.36, 15568.91), (286.751, 10905.21), (47.556, 5318.20)),
    "sqrt": (1.17395e7, 2201.145, (698.588, 1630.068), (237.866, 1210.675), (105.202, 758.951)),
}


@pytest.mark.parametrize("scheme", FAIRNESS)
def test_fairness_of_weighting_schemes(scheme: str) -> None:
    """Section 6 of the paper on Adult: which tables a weighting neglects."""
    total, zero_way, *by_ways = FAIRNESS[scheme]
    workload = nz.Workload.marginals(data_schema("Adult"), up_to=3).weighted(scheme)
    plan = nz.plan(workload, budget=ONE)
    assert plan.total_variance == pytest.approx(total, rel=1e-5)
    rows = plan.fairness()
    assert sum(row["tables"] for row in rows) == 470
    errors = np.array([row["std_error"] for row in rows])
    assert (np.diff(errors) <= 1e-9 * errors[0]).all()  # the neglected first
    ways = np.array([0 if r["table"] == "total" else 1 + r["table"].count("×") for r in rows])
    assert errors[ways == 0] ** 2 == pytest.approx([zero_way], rel=1e-5)
    for k, (low, high) in enumerate(by_ways, start=1):
        assert errors[ways == k].min() ** 2 == pytest.approx(low, rel=1e-5)
        assert errors[ways == k].max() ** 2 == pytest.approx(high, rel=1e-5)
    # the rows of a plain table are alike
    assert [r["worst_std_error"] for r in rows] == pytest.approx(errors.tolist(), rel=1e-9)


def test_a_total_alone() -> None:
    """Nothing but the total: a count with noise of variance 1/pcost."""
    schema = nz.Schema.from_sizes(SIZES)
    for workload in (nz.Workload.marginals(schema, k=0), nz.Workload([nz.Query(schema, [])])):
        plan = nz.plan(workload, budget=nz.zCDP(0.25))
        assert plan.total_variance == pytest.approx(2.0)
        assert plan.measured_numbers == 1
        b, sigma2 = probe(plan)
        np.testing.assert_allclose(b, marginal_matrix((2, 2, 3), []))
        assert add_remove_cost(cost_of(b, sigma2)) == pytest.approx(0.5)
