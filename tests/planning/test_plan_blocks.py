"""Plans with a precision of its own for every block, against dense algebra, optima and each other.

`BY_BLOCKS` left empty gives the plans without.
"""

from __future__ import annotations

import numpy as np
import pytest

import noiseplan as nz
from depth import seeds
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.planning.planners import residual_family
from oracles import add_remove_cost, blue_covariance, cost_of, optimal_total, probe, replace_cost
from workloads import ANY, random_workload

ONE = nz.zCDP(0.5)
BANDS = nz.Levels(2, leaves=False, total=False)


def mixed(seed: int) -> nz.Workload:
    """Tables over three attributes of 3 to 5 values, their factors drawn anew for each."""
    rng = np.random.default_rng(seed)
    schema = nz.Schema.from_sizes({name: int(rng.integers(3, 6)) for name in "abc"})
    factors = [nz.Identity(), nz.Prefix(), nz.Ranges(), BANDS, nz.Levels(2)]
    queries = []
    for number in range(int(rng.integers(3, 6))):
        on = sorted(rng.choice(list("abc"), size=int(rng.integers(1, 4)), replace=False))
        asked = {str(n): factors[int(rng.integers(5))] for n in on}
        queries.append(nz.Query(schema, asked, name=f"q{number}"))
    return nz.Workload(queries)


def alike() -> nz.Workload:
    """Three exchangeable attributes, each asked by value beside prefix sums of the others."""
    schema = nz.Schema.from_sizes({"a": 4, "b": 4, "c": 4, "sex": 2})
    names = "abc"
    tables: list[dict[str, nz.Factor]] = []
    for one in names:
        others = [other for other in names if other != one]
        tables += [{one: nz.Identity(), other: nz.Prefix()} for other in others]
        tables.append({one: BANDS, "sex": nz.Identity()})
    return nz.Workload([nz.Query(schema, table) for table in tables])


def two_resolutions() -> nz.Workload:
    schema = nz.Schema.from_sizes({"a": 40, "b": 40})
    bands = nz.Levels(5, leaves=False, total=False)
    return nz.Workload(
        [nz.Query(schema, ["a"]), nz.Query(schema, {"a": bands, "b": nz.Identity()})]
    )


def residual(workload: nz.Workload, **settings: object) -> nz.Plan:
    return nz.plan(workload, planner="residual", **{"noise": "gaussian", **settings})  # type: ignore[arg-type]


def has_own_rows(plan: nz.Plan) -> bool:
    assert isinstance(plan.mechanism, ResidualMechanism)
    return plan.mechanism.blocks.has_own


CASES = {
    **{f"mixed {seed}": (lambda seed=seed: mixed(seed)) for seed in range(4)},
    "alike": alike,
    **{
        f"dense matrix {seed}": (
            lambda seed=seed: random_workload(seed, kinds=ANY, several=True, joint=True)
        )
        for seed in (301, 305)
    },
}


@pytest.mark.grid
@pytest.mark.parametrize("noise", ["gaussian", "discrete"])
@pytest.mark.parametrize("case", CASES)
def test_against_dense_algebra(case: str, noise: str) -> None:
    """Cost by enumeration, and the variance of every row by weighted least squares."""
    workload = CASES[case]()
    plan = residual(workload, budget=nz.zCDP(0.01), noise=noise)
    b, sigma2 = probe(plan)
    brute = add_remove_cost(cost_of(b, sigma2))
    assert brute <= plan.privacy.pcost * (1 + 1e-12) <= 0.02 * (1 + 1e-12)
    assert brute == pytest.approx(0.02, rel=1e-6)
    total = 0.0
    for query in workload:
        dense = query.dense()
        expected = np.diagonal(blue_covariance(dense, dense, b, sigma2))
        found = plan.variance(query)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9 * expected.max())
        total += query.weight * found.sum()
    assert plan.total_variance == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("case", ["mixed 1", "mixed 2", "alike", "dense matrix 301"])
def test_the_cost_of_replacing(case: str) -> None:
    plan = residual(CASES[case](), budget=nz.zCDP(0.01), neighbours="replace")
    b, sigma2 = probe(plan)
    changes = sigma2 > 0  # the number of records is public
    brute = replace_cost(cost_of(b[changes], sigma2[changes]))
    assert brute <= plan.privacy.pcost * (1 + 1e-12) <= 0.02 * (1 + 1e-12)


OBJECTIVES: dict[str, dict[str, object]] = {
    "total": {"budget": ONE},
    "worst": {"budget": ONE, "objective": nz.WorstVariance()},
    "p-norm": {"budget": ONE, "objective": nz.PNormVariance(3.0)},
    "loss": {"budget": ONE, "objective": nz.ConvexLoss(lambda v: float((v**2).sum()))},
    "targets": {"targets": 2.0},
    "targets within a budget": {"targets": 2.0, "budget": ONE},
}


def reached(name: str, plan: nz.Plan) -> float:
    variances = [q.weight * plan.variance(q) for q in plan.workload]
    if name == "total":
        return float(sum(v.sum() for v in variances))
    if name == "p-norm":
        return float(sum((v**3).sum() for v in variances) ** (1 / 3))
    if name == "loss":
        return float(sum(v.mean() ** 2 for v in variances))
    worst = float(max(v.max() for v in variances))
    return plan.privacy.pcost if name == "targets" else worst


@pytest.mark.few(3)
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_never_worse_than_without(
    name: str, neighbours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = mixed(2)
    plan = residual(workload, neighbours=neighbours, **OBJECTIVES[name])
    monkeypatch.setattr(residual_family, "BY_BLOCKS", ())
    before = residual(workload, neighbours=neighbours, **OBJECTIVES[name])
    assert reached(name, plan) <= reached(name, before) * (1 + 1e-9)
    if name == "targets":
        assert reached("worst", plan) <= 2.0 * (1 + 1e-9)


def noise_on_each_table(workload: nz.Workload, worst: bool) -> float:
    """At cost one: Σ_q Δ_q² for the worst variance, (Σ_q √(rows · Δ_q²))² for the total."""
    rows = np.array([query.rows for query in workload])
    norms = [[(m.dense() ** 2).sum(axis=0).max() for m in query.matrices()] for query in workload]
    lengths = np.array([np.prod(norm) for norm in norms])
    return float(lengths.sum() if worst else np.sqrt(rows * lengths).sum() ** 2)


@pytest.mark.parametrize("seed", seeds(4))
def test_never_worse_than_noise_on_each_table(seed: int) -> None:
    workload = mixed(seed) if seed else two_resolutions()
    plan = residual(workload, budget=ONE)
    assert plan.total_variance <= noise_on_each_table(workload, worst=False)
    single = residual(workload, budget=ONE, objective=nz.WorstVariance())
    assert single.worst_variance <= noise_on_each_table(workload, worst=True)


def test_near_the_optimum() -> None:
    """Mean and worst gap of the total variance over random mixed tables."""
    gaps = []
    for seed in range(10):
        workload = mixed(seed)
        best = optimal_total(workload)[0]
        gaps.append(residual(workload, budget=ONE).total_variance / best - 1)
    assert np.mean(gaps) <= 0.007 and max(gaps) <= 0.025 and min(gaps) >= -1e-6


def test_figures_of_the_family() -> None:
    """Two resolutions, and blocks in tracts in counties (`block-family`)."""
    assert residual(two_resolutions(), budget=ONE).total_variance <= 568.6
    schema = nz.Schema.from_sizes({"block": 60, "age": 8, "sex": 2})
    hierarchy = nz.Workload(
        [
            nz.Query(schema, {"block": nz.Levels(5, 20), "sex": nz.Identity()}),
            nz.Query(schema, {"block": nz.Levels(20, leaves=False), "age": nz.Prefix()}),
            nz.Query(schema, {"block": nz.Identity()}),
        ]
    )
    plan = residual(hierarchy, budget=ONE)
    assert has_own_rows(plan)
    assert 799.45 <= plan.total_variance <= 801.0


@pytest.mark.parametrize("case", ["mixed 1", "mixed 3", "alike"])
def test_integer_rows(case: str) -> None:
    """Integers that see no sum, and lose less than a thousandth."""
    workload = CASES[case]()
    plan = residual(workload, budget=nz.zCDP(0.001), noise="discrete")
    smooth = residual(workload, budget=nz.zCDP(0.001))
    assert has_own_rows(plan) and has_own_rows(smooth)
    assert plan.total_variance <= smooth.total_variance * 1.001
    mechanism = plan.mechanism
    assert isinstance(mechanism, ResidualMechanism)
    for block in mechanism.blocks:
        for axis in block.axes:
            measure = np.asarray(axis.measure)
            assert (measure == np.rint(measure)).all()


def test_one_kind_of_factor_is_planned_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = nz.Schema.from_sizes({"a": 6, "b": 5, "c": 4})
    factors = {"a": nz.Prefix(), "b": nz.Ranges(), "c": nz.Identity()}
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    workload = nz.Workload([nz.Query(schema, {n: factors[n] for n in pair}) for pair in pairs])
    plan = residual(workload, budget=ONE)
    monkeypatch.setattr(residual_family, "BY_BLOCKS", ())
    before = residual(workload, budget=ONE)
    assert not has_own_rows(plan)
    assert plan.total_variance == before.total_variance


def test_blocks_apart_where_records_cannot_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight exchangeable attributes of 20 values: 20⁸ records."""
    schema = nz.Schema.from_sizes({f"x{i}": 20 for i in range(8)})
    bands = nz.Levels(5, leaves=False, total=False)
    names = schema.names
    queries = [
        nz.Query(schema, {a: nz.Identity(), b: nz.Prefix()}) for a in names for b in names if a != b
    ]
    queries += [
        nz.Query(schema, {a: bands, b: bands, c: bands})
        for i, a in enumerate(names)
        for j, b in enumerate(names[:i])
        for c in names[:j]
    ]
    workload = nz.Workload(queries)
    plan = residual(workload, budget=ONE)
    assert plan.total_variance <= noise_on_each_table(workload, worst=False)
    monkeypatch.setattr(residual_family, "BY_BLOCKS", ())
    assert plan.total_variance <= 0.6 * residual(workload, budget=ONE).total_variance
