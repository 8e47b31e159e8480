"""Matrices of chances that users bring: their ε to the last digit, their variances."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log

import numpy as np
import pytest
from local_oracles import brute_variances, one

import noiseplan as nz
from depth import seeds
from noiseplan.errors import BudgetError, PlanError
from noiseplan.local.device.integer_chances import exp_down
from noiseplan.local.local_planner import matrix_epsilon

RESPONSE = np.array([[3, 1, 1], [1, 3, 1], [1, 1, 3]]) / 5


def random_strategy(seed: int, reports: int, types: int) -> np.ndarray:
    found = np.random.default_rng(seed).random((reports, types)) + 0.4
    return found / found.sum(axis=0)


def test_a_published_example() -> None:
    """Prefix sums over three values by randomized response at ε = ln 3: t = 2.5, 2, 2.5."""
    plan = nz.local.plan(one(3, nz.Prefix()), log(3), strategy=RESPONSE)
    assert plan.variances == pytest.approx([2.5, 2.0, 2.5], rel=1e-9)
    named = nz.local.plan(one(3, nz.Prefix()), log(3), mechanism="randomized response")
    assert plan.worst_variance == pytest.approx(named.worst_variance, rel=1e-9)
    assert "own strategy" in str(plan)


@pytest.mark.parametrize("seed", seeds(3))
def test_variances_are_those_of_the_matrix(seed: int) -> None:
    chances, query = random_strategy(seed, 9, 5), one(5, nz.Prefix()).query(0)
    plan = nz.local.plan(query, strategy=chances)
    rows = query.dense()
    inner = chances.T @ np.diag(1 / chances.sum(axis=1)) @ chances
    v = rows @ np.linalg.inv(inner) @ chances.T @ np.diag(1 / chances.sum(axis=1))
    assert v @ chances == pytest.approx(rows)
    assert plan.variances == pytest.approx((v**2 @ chances - rows**2).sum(axis=0), rel=1e-8)
    assert plan.variances == pytest.approx(brute_variances(chances, rows), rel=1e-8)


@pytest.mark.parametrize("seed", seeds(5))
def test_epsilon_is_rounded_outward(seed: int) -> None:
    chances = random_strategy(seed, 6, 4)
    found = matrix_epsilon(chances)
    exact = max(Fraction(max(row)) / Fraction(min(row)) for row in chances.tolist())
    assert exp_down(found) >= exact  # proved in rationals
    assert found == pytest.approx(log(float(exact)), rel=1e-14)
    plan = nz.local.plan(one(4, nz.Identity()), strategy=chances)
    assert plan.epsilon == found
    assert plan.epsilon_met <= found
    table = plan.randomizer().table
    assert (table.sum(axis=0) == 1 << 62).all()
    assert table / (1 << 62) == pytest.approx(chances, abs=1e-9)


def test_cells_that_no_query_tells_apart_keep_their_chances() -> None:
    schema = nz.Schema.from_sizes({"a": 3})
    first = nz.Query(schema, ["a"], matrix=[[1, 0, 0]])
    plan = nz.local.plan(first, strategy=RESPONSE)
    assert plan.types.count == 3
    assert plan.variances == pytest.approx([1.5, 1.0, 1.0])  # of the first row of the inverse


def test_what_is_no_strategy_is_refused() -> None:
    query = one(3, nz.Prefix())
    for strategy, said in [
        (RESPONSE[:, :2], "3 cells"),
        (np.ones(3), "found shape"),
        ("text", "found shape"),
        ([[np.nan] * 3], "finite"),
        (RESPONSE * 0.9, "add up to"),
        (np.eye(3), "private at no ε"),
        ([[-0.5, 0.5, 0.5], [1.5, 0.5, 0.5]], "private at no ε"),
        ([[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]], "number from"),
    ]:
        with pytest.raises((PlanError, BudgetError), match=said):
            nz.local.plan(query, strategy=strategy)
    with pytest.raises(PlanError, match="not 1-private"):
        nz.local.plan(query, 1.0, strategy=RESPONSE)
    with pytest.raises(PlanError, match="no use for"):
        nz.local.plan(query, strategy=RESPONSE, mechanism="hadamard")
    with pytest.raises(PlanError, match="no use for"):
        nz.local.plan(query, strategy=RESPONSE, size=3)
    poor = np.array([[0.6, 0.4, 0.4], [0.4, 0.6, 0.6]])
    with pytest.raises(PlanError, match="does not measure"):
        nz.local.plan(query, strategy=poor)


def test_it_runs_from_devices_to_answers() -> None:
    query = one(3, nz.Identity()).query(0)
    plan = nz.local.plan(query, 1.2, strategy=RESPONSE, prior=[0.5, 0.3, 0.2])
    assert plan.epsilon_met <= 1.2
    assert plan.epsilon_met == pytest.approx(log(3))
    counts = np.array([5000, 3000, 2000])
    answer = plan.simulate(counts, seed=1).answer(query)
    errors = np.sqrt(plan.variance(query, counts))
    assert np.abs((answer.estimate - counts) / errors).max() < 4.5
    assert exp(1.2) > 3
