"""Privacy by brute force: every pair of neighbours, every measured integer, in exact rationals.

The cost ρ = max Σ (difference)²/(2σ²) is recomputed from the integers a mechanism really measures
and the parameters of the noise it really asks for. It must not exceed the budget or what the plan
states, in the last digit of an exact fraction; and it must not fall far below, or noise is wasted.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from depth import examples
from integer_oracles import Measured
from noiseplan.errors import PlanError
from noiseplan.matrices import Matrix
from noiseplan.mechanisms import residual_cost
from noiseplan.mechanisms.cost import require_sizes
from noiseplan.mechanisms.matrix import DenseMechanism
from oracles import cost_of, probe, replace_cost
from workloads import ANY, random_workload

RHO = 0.3  # no power of two: rounding has something to do
BUDGET = nz.zCDP(RHO)
NEIGHBOURS = ("add-remove", "replace")


def workload(sizes: dict[str, int], *queries: dict[str, nz.Factor] | list[str]) -> nz.Workload:
    schema = nz.Schema.from_sizes(sizes)
    weights = (1.0, 2.5, 0.7, 1.3)
    return nz.Workload(
        [nz.Query(schema, q, weight=w) for q, w in zip(queries, weights, strict=False)]
    )


def dense_matrix_query() -> nz.Workload:
    schema = nz.Schema.from_sizes({"a": 3, "b": 2})
    matrix = np.array([[1.0, 0, 0, 2, 0, -1], [0, 1, 1, 0, 0, 3], [1, 1, 1, 1, 1, 1]])
    dense = nz.Query(schema, ["a", "b"], matrix=matrix)
    return nz.Workload([dense, nz.Query(schema, {"a": nz.Prefix()})])


AB, ABC = {"a": 4, "b": 3}, {"a": 3, "b": 2, "c": 2}
PREFIX, RANGES, PLAIN, TOTAL = nz.Prefix(), nz.Ranges(), nz.Identity(), nz.Total()
THIRDS = nz.Custom([[1 / 3, -0.7, 2, 1], [0.1, 0.2, 0.3, 5]])
CONTRASTS = nz.Custom([[1, -1, 0, 0], [0, 1, -1, 0], [0, 0, 1, -1]])
SAME = nz.Custom([[1, 2, 2, 1], [0, 1, 1, 0]])  # values 0 and 3, 1 and 2 are never told apart
WORKLOADS = {
    "identity": workload(ABC, ["a", "b"], ["b", "c"], ["a"], []),
    "prefix": workload(AB, {"a": PREFIX, "b": PREFIX}, {"a": PREFIX}),
    "ranges": workload(AB, {"a": RANGES}, {"b": RANGES}),
    "total": workload(AB, {"a": TOTAL, "b": PLAIN}, {"a": PREFIX, "b": TOTAL}),
    "levels": workload(AB, {"a": nz.Levels(2), "b": PLAIN}, {"a": nz.Levels(2)}),
    "custom": workload(AB, {"a": THIRDS, "b": PREFIX}, {"a": THIRDS}),
    "merged values": workload(AB, {"a": SAME, "b": PREFIX}, ["b"]),
    "contrasts only": workload(AB, {"a": CONTRASTS, "b": PREFIX}),
    "dense matrix": dense_matrix_query(),
    "several factors": workload(
        AB, {"a": PREFIX, "b": PLAIN}, {"a": PLAIN, "b": PREFIX}, {"a": THIRDS}
    ),
    "one value": workload(
        {"a": 1, "b": 3, "c": 1}, {"a": PLAIN, "b": PREFIX}, {"a": PREFIX, "c": RANGES}, ["b", "c"]
    ),
    "only one value": workload({"a": 1}, ["a"]),
    "two values": workload({"a": 2, "b": 2}, {"a": PREFIX, "b": PLAIN}, {"a": RANGES}),
}
each_workload = pytest.mark.parametrize("name", WORKLOADS)
each_neighbours = pytest.mark.parametrize("neighbours", NEIGHBOURS)
OBJECTIVES = {
    "total": nz.TotalVariance(),
    "worst": nz.WorstVariance(),
    "3-norm": nz.PNormVariance(3),
    "squares": nz.ConvexLoss(lambda v: float((v**2).sum())),
}


def check(plan: nz.Plan, budget: float | None = None, tight: float = 0.999999) -> Fraction:
    """ρ of what is measured: at most the budget and the stated cost, and hardly less."""
    rho = Measured.of(plan).rho(plan.privacy.neighbours)
    stated = Fraction(plan.privacy.rho)
    assert rho <= stated
    assert rho >= Fraction(tight) * stated
    assert plan.privacy.law == "zcdp"
    if budget is not None:
        assert stated <= Fraction(budget)
        assert stated >= Fraction(budget) * (1 - Fraction(1, 10**9))
    return Fraction(rho)


# Where one record replaces another, pairs of columns of unequal length are bounded, not listed.
TIGHT = {"add-remove": 0.999999, "replace": 0.93}


def made(workload: nz.Workload, **options: Any) -> nz.Plan:
    """The discrete plan, checked."""
    plan = nz.plan(workload, noise="discrete Gaussian", **options)
    if plan.privacy.pcost == 0:
        assert Measured.of(plan).rho(plan.privacy.neighbours) == 0
        return plan
    budget = options.get("budget")
    most = budget.zcdp_rho() if isinstance(budget, nz.zCDP) else None
    if isinstance(budget, nz.ApproxDP):  # by the exact curve, of which 0.1 % is kept back
        most = budget.gaussian_pcost() / 2.002
    check(plan, most, TIGHT[plan.privacy.neighbours])
    return plan


@pytest.mark.grid
@each_neighbours
@each_workload
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective(name: str, objective: str, neighbours: str) -> None:
    free = name == "only one value" and neighbours == "replace"  # a record looks like any other
    if free and objective in ("3-norm", "squares"):
        return  # every variance is 0: these losses have no slope there to plan by
    plan = made(
        WORKLOADS[name], budget=BUDGET, objective=OBJECTIVES[objective], neighbours=neighbours
    )
    assert (plan.privacy.pcost == 0) is free


@pytest.mark.grid
@each_neighbours
@each_workload
@pytest.mark.parametrize("planner", ["residual", "residual+", "product"])
def test_every_planner(name: str, planner: str, neighbours: str) -> None:
    if planner == "product" and name == "dense matrix":
        with pytest.raises(PlanError, match="takes no dense-matrix queries"):
            nz.plan(WORKLOADS[name], budget=BUDGET, planner=planner, noise="discrete")
        return
    made(WORKLOADS[name], budget=BUDGET, planner=planner, neighbours=neighbours)


@each_workload
def test_the_explicit_optimum(name: str) -> None:
    plan = made(WORKLOADS[name], budget=BUDGET, planner="optimal")
    assert isinstance(plan.mechanism, DenseMechanism)


FEW = ("identity", "prefix", "dense matrix", "one value", "only one value")


@pytest.mark.grid
@pytest.mark.parametrize(
    ("name", "neighbours"),
    [*((name, "add-remove") for name in WORKLOADS), *((name, "replace") for name in FEW)],
)
def test_targets(name: str, neighbours: str) -> None:
    plan = made(WORKLOADS[name], targets=7.0, neighbours=neighbours)
    variances = np.concatenate([plan.variance(query) for query in plan.workload])
    assert variances.max() <= 7.0
    assert variances.max() == 0 or variances.max() >= 6.9


@pytest.mark.parametrize("name", ["identity", "several factors", "one value"])
def test_targets_within_a_budget(name: str) -> None:
    made(WORKLOADS[name], targets=0.1, budget=BUDGET)


@pytest.mark.parametrize("name", ["identity", "prefix", "dense matrix"])
@pytest.mark.parametrize(
    "budget", [nz.zCDP(1e-9), nz.zCDP(123.4), nz.ApproxDP(1.0, 1e-9), nz.ApproxDP(0.01, 1e-6)]
)
def test_budgets_of_every_size_and_currency(name: str, budget: nz.Budget) -> None:
    made(WORKLOADS[name], budget=budget)


@examples(30)
@given(
    seed=st.integers(0, 10**6),
    several=st.booleans(),
    joint=st.booleans(),
    rho=st.floats(1e-4, 1e3),
    neighbours=st.sampled_from(NEIGHBOURS),
    planner=st.sampled_from(["auto", "residual", "residual+"]),
)
def test_random_workloads(
    seed: int, several: bool, joint: bool, rho: float, neighbours: str, planner: str
) -> None:
    asked = random_workload(seed, kinds=ANY, several=several, joint=joint)
    made(asked, budget=nz.zCDP(rho), neighbours=neighbours, planner=planner)


@each_workload
def test_rounding_costs_no_privacy_that_the_continuous_plan_does_not(name: str) -> None:
    """Replacing a record: as near to the stated cost as the continuous plan is."""
    options: dict[str, Any] = {"budget": BUDGET, "neighbours": "replace"}
    continuous = nz.plan(WORKLOADS[name], noise="gaussian", **options)
    brute = replace_cost(cost_of(*probe(continuous))) / 2
    plan = nz.plan(WORKLOADS[name], noise="discrete", **options)
    assert float(Measured.of(plan).rho("replace")) >= 0.995 * brute


# ---------------------------------------------------------------------- the oracle itself


@each_neighbours
def test_brute_force_finds_an_overspent_plan(neighbours: str) -> None:
    """Noise too small by one part in 10⁹ is found."""
    plan = nz.plan(WORKLOADS["identity"], budget=BUDGET, neighbours=neighbours, noise="discrete")
    blocks = plan.mechanism.blocks
    less = tuple(
        replace(block, noise=replace(block.noise, size=block.sigma2 * (1 - 1e-9)))
        for block in blocks
    )
    thin = replace(plan, mechanism=replace(plan.mechanism, blocks=replace(blocks, blocks=less)))
    assert Measured.of(plan).rho(neighbours) <= Fraction(RHO)
    assert Measured.of(thin).rho(neighbours) > Fraction(RHO)


def test_brute_force_finds_a_number_without_noise() -> None:
    plan = nz.plan(WORKLOADS["identity"], budget=BUDGET, neighbours="replace", noise="discrete")
    exact = Measured.of(plan)
    assert 0 in exact.sigma2, "the total may be measured exactly where a record is replaced"
    assert exact.rho("add-remove") == math.inf
    bare = replace(exact, sigma2=[Fraction(0) for _ in exact.sigma2])
    assert bare.rho("replace") == math.inf


def test_noiseless_measurements_are_refused() -> None:
    privacy = np.array([[1.0, 0.0], [2.0, 0.0]])
    require_sizes(np.array([1.0, 0.0]), privacy)
    require_sizes(np.array([np.inf, 1.0]), privacy)
    with pytest.raises(PlanError, match="without noise"):
        require_sizes(np.array([1.0, 0.0]))
    for sigma2 in ([0.0, 1.0], [-1.0, 1.0], [np.nan, 1.0]):
        with pytest.raises(PlanError, match="without noise"):
            require_sizes(np.array(sigma2), privacy)


# ---------------------------------------------------------------------- at scale, by types


@pytest.mark.parametrize(
    ("sizes", "ways", "factor"),
    [
        ([10] * 30, 3, None),
        ([7] * 12, 4, nz.Prefix()),
        ([400, 300, 200, 2, 2, 90], 3, None),
        ([85, 9, 50, 16, 7, 15, 6, 5, 2, 60], 3, nz.Prefix()),
        ([3] * 9, 9, None),
    ],
)
def test_large_plans_by_exact_sums(sizes: list[int], ways: int, factor: nz.Factor | None) -> None:
    """Σ_A ∏ β_i/σ²_A over every measured set, β_i from the integer matrices themselves."""
    names = [f"x{i}" for i in range(len(sizes))]
    schema = nz.Schema.from_sizes(dict(zip(names, sizes, strict=True)))
    factors = {} if factor is None else dict.fromkeys(names[::3], factor)
    asked = nz.Workload.marginals(schema, up_to=ways, factors=factors)
    plan = nz.plan(asked, budget=BUDGET, noise="discrete", planner="residual+")
    cost = Fraction(0)
    for block in plan.mechanism.blocks:
        beta = math.prod(_largest_square(basis.measure) for basis in block.bases)
        values, times = np.unique(block.sigma2, return_counts=True)
        cost += sum(
            Fraction(beta) * int(n) / Fraction(float(s)) for s, n in zip(values, times, strict=True)
        )
    assert cost / 2 <= Fraction(plan.privacy.rho) <= Fraction(RHO)
    assert cost / 2 >= Fraction(RHO) * (1 - Fraction(1, 10**8))


def _largest_square(matrix: np.ndarray | Matrix) -> int:
    matrix = matrix.dense() if isinstance(matrix, Matrix) else matrix
    assert (matrix == np.rint(matrix)).all()
    return max(sum(int(v) ** 2 for v in column) for column in matrix.T)


def _pattern_costs(plan: nz.Plan) -> list[Fraction]:
    """ρ for every set of attributes on which two records agree, plain attributes only.

    A set A of attributes adds (∏β − ∏_{agree} β ∏_{differ} (−n))/σ²_A, β = n(n − 1) and −n the
    entries of UᵀU for U = nI − 11ᵀ.
    """
    shape = plan.workload.schema.shape
    costs = []
    for agree in product((False, True), repeat=len(shape)):
        terms = []
        for block in plan.mechanism.blocks:
            for attributes, sigma2 in zip(block.sets.tolist(), block.sigma2, strict=True):
                length = math.prod(shape[i] * (shape[i] - 1) for i in attributes)
                inner = math.prod(
                    shape[i] * (shape[i] - 1) if agree[i] else -shape[i] for i in attributes
                )
                if length != inner:
                    terms.append(Fraction(length - inner) / Fraction(float(sigma2)))
        costs.append(sum(terms, Fraction(0)))
    return costs


@pytest.mark.parametrize("sizes", [[2, 3, 10, 10, 10], [7, 7, 7, 7, 7, 7], [100, 2, 2, 5]])
def test_replaced_records_by_patterns(sizes: list[int]) -> None:
    schema = nz.Schema.from_sizes({f"x{i}": n for i, n in enumerate(sizes)})
    asked = nz.Workload.marginals(schema, up_to=3)
    plan = nz.plan(asked, budget=BUDGET, neighbours="replace", noise="discrete")
    worst = max(_pattern_costs(plan))
    assert worst <= Fraction(plan.privacy.rho) <= Fraction(RHO)
    assert worst >= Fraction(RHO) * (1 - Fraction(1, 10**8))


def test_replaced_records_by_patterns_where_only_a_bound_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More patterns than are listed: never above the stated cost, whatever the pattern."""
    monkeypatch.setattr(residual_cost, "PATTERN_LIMIT", 10)
    schema = nz.Schema.from_sizes({f"x{i}": n for i, n in enumerate([2, 3, 4, 5, 6])})
    asked = nz.Workload.marginals(schema, up_to=3)
    plan = nz.plan(asked, budget=BUDGET, neighbours="replace", noise="discrete")
    worst = max(_pattern_costs(plan))
    assert worst <= Fraction(plan.privacy.rho) <= Fraction(RHO)
    assert worst >= Fraction(RHO) / 2
