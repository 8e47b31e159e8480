"""Attributes that play the same role share variables: fewer numbers, the same plan."""

from __future__ import annotations

import time

import numpy as np
import pytest

import noiseplan as nz
from depth import some
from noiseplan.planning import problem
from noiseplan.planning.workload_types import Design, prepare
from oracles import add_remove_cost, blue_covariance, cost_of, probe
from slowness import slowness
from workloads import random_tables, random_workload

ONE = nz.zCDP(0.5)


def alone(
    workload: nz.Workload, priorities: object = None, share: bool = True, own: object = None
) -> Design:
    """`prepare` with a role of its own for every attribute."""
    return prepare(workload, priorities, share=False)


def same_sizes(d: int, n: int, **how: object) -> nz.Workload:
    schema = nz.Schema.from_sizes({f"a{i}": n for i in range(d)})
    return nz.Workload.marginals(schema, **how)


def prefixes(d: int, n: int, k: int) -> nz.Workload:
    return same_sizes(d, n, k=k, factors={f"a{i}": nz.Prefix() for i in range(d)})


SHARED = [
    same_sizes(4, 3, k=2),
    same_sizes(5, 2, up_to=3),
    prefixes(3, 4, 2),
    prefixes(4, 3, 3),
    prefixes(2, 5, 1) + prefixes(2, 5, 2),
    *(random_workload(seed, several=True) for seed in range(4)),
    *(random_tables(seed) for seed in range(4)),
]
OBJECTIVES = [nz.TotalVariance(), nz.WorstVariance(), nz.PNormVariance(3)]


def norm_of_rows(plan: nz.Plan, p: float) -> float:
    rows = [query.weight * plan.variance(query) for query in plan.workload]
    return float(np.linalg.norm(np.concatenate(rows), p))


@pytest.mark.few(3)
@pytest.mark.parametrize("number", range(len(SHARED)))
def test_sharing_changes_nothing(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All attributes on their own, or roles shared: the same least variance."""

    def plans() -> list[nz.Plan]:
        return [
            nz.plan(SHARED[number], budget=ONE, objective=o, noise="gaussian") for o in OBJECTIVES
        ]

    total, worst, norm = plans()
    monkeypatch.setattr(problem, "prepare", alone)
    one_total, one_worst, one_norm = plans()
    assert all(len(role.members) == 1 for role in one_total.design.roles.roles)
    assert total.total_variance == pytest.approx(one_total.total_variance, rel=1e-6)
    assert worst.worst_variance == pytest.approx(one_worst.worst_variance, rel=2e-3)
    assert norm_of_rows(norm, 3) == pytest.approx(norm_of_rows(one_norm, 3), rel=1e-4)


@pytest.mark.parametrize("number", range(2))
def test_sharing_when_records_are_replaced(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = nz.plan(SHARED[number], budget=ONE, neighbours="replace")
    monkeypatch.setattr(problem, "prepare", alone)
    apart = nz.plan(SHARED[number], budget=ONE, neighbours="replace")
    assert shared.total_variance == pytest.approx(apart.total_variance, rel=1e-6)


def test_shared_roles_against_dense_formulas() -> None:
    """A plan of few variables, expanded to every subset, is what it says it is."""
    workload = prefixes(3, 3, 2) + same_sizes(3, 3, up_to=1)
    plan = nz.plan(workload, budget=ONE)
    assert len(plan.design.roles.roles) == 1
    assert plan.design.terms.subsets == 3
    b, sigma2 = probe(plan)
    assert add_remove_cost(cost_of(b, sigma2)) == pytest.approx(1.0, rel=1e-9)
    sums = 0.0
    for query in workload:
        w = query.dense()
        variance = np.diagonal(blue_covariance(w, w, b, sigma2))
        np.testing.assert_allclose(plan.variance(query), variance, rtol=1e-8)
        sums += variance.sum()
    assert plan.total_variance == pytest.approx(sums, rel=1e-9)


def test_attributes_of_one_size_but_different_roles_are_kept_apart() -> None:
    schema = nz.Schema.from_sizes({"a": 3, "b": 3, "c": 3})
    workload = nz.Workload(
        [
            nz.Query(schema, ["a", "b"]),
            nz.Query(schema, ["b", "c"]),
            nz.Query(schema, ["a"], weight=5.0),
        ]
    )
    assert len(nz.plan(workload, budget=ONE).design.roles.roles) == 3
    ring = nz.Workload([nz.Query(schema, list(pair)) for pair in ("ab", "bc", "ac")])
    assert len(nz.plan(ring, budget=ONE).design.roles.roles) == 1


@pytest.mark.parametrize(
    ("workload", "subsets"),
    some(
        [
            (prefixes(20, 20, 5), 6),
            (prefixes(20, 20, 7), 8),
            (same_sizes(200, 10, up_to=3), 4),
            (same_sizes(40, 5, k=3) + prefixes(40, 5, 2), 4),
        ],
        1,
    ),
    ids=repr,
)
def test_few_variables_and_little_time(workload: nz.Workload, subsets: int) -> None:
    """The variables follow the roles, not the tables: 77,520 tables of 7 attributes have 8."""
    design = prepare(workload)
    assert len(design.roles.roles) == 1
    assert design.terms.subsets == subsets
    started = time.process_time()
    plan = nz.plan(workload, budget=ONE, noise="gaussian")
    assert time.process_time() - started < 15 * slowness()
    assert 0.5 < plan.efficiency <= 1.0
