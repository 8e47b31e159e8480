"""Plans of queries measured apart, of tables measured together and of series, asked again for more:
by brute force."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mechanism_examples import (
    HALVES,
    MIXED,
    STEPS,
    SUMS,
    TWO,
    alone,
    grouped,
    own_rows,
    series,
)

import noiseplan as nz
from depth import depth
from noiseplan.choosing.continuation import joint_covariance
from noiseplan.choosing.same_rows import BySameRows, parts_of, same_rows
from noiseplan.errors import PlanError
from noiseplan.release.release import make_release
from oracles import add_remove_cost, blue_covariance, cost_of, flat, probe, replace_cost

# What is planned at a budget: between them every kind of part.
MADE = {
    "each query": lambda **how: alone(SUMS, **how)(),
    "queries with a matrix": lambda **how: alone(MIXED, **how)(),
    "tables": lambda **how: alone(TWO, **how)(),
    "a group over fewer cells": lambda **how: grouped(HALVES, (0,), (1,), **how)(),
    "groups": lambda **how: grouped(SUMS, (0, 2), (1,), (3,), **how)(),
    "a series": lambda **how: series(SUMS, **how)(),
    "rows of the workload": lambda **how: own_rows(MIXED, **how)(),
}


@cache
def planned(name: str, rho: float, noise: str = "discrete", **how: Any) -> nz.Plan:
    plan = MADE[name](budget=nz.zCDP(rho), noise=noise, **how)
    assert plan.mechanism.kind in ("side by side", "series", "workload rows")
    return plan


def counts(plan: nz.Plan) -> np.ndarray:
    return np.random.default_rng(4).poisson(9.0, plan.schema.shape)


@pytest.mark.parametrize("noise", ["discrete", "gaussian"])
@pytest.mark.parametrize("name", MADE)
def test_what_is_left_costs_the_difference(name: str, noise: str) -> None:
    """Every record measured alone, by both mechanisms: their costs add up to the plan's."""
    few, many = planned(name, 0.05, noise), planned(name, 0.2, noise)
    more = many.given(few.release(counts(few), seed=1))
    assert isinstance(more.family, BySameRows) and more.rest is not None
    first, second, whole = (cost_of(*probe(plan)) for plan in (few, more.rest, many))
    np.testing.assert_allclose(first + second, whole, atol=1e-6 * whole.max())
    assert add_remove_cost(second) <= more.privacy.pcost <= 0.3 * (1 + 1e-6)
    assert add_remove_cost(first + second) <= more.total.pcost
    assert add_remove_cost(first + second) <= add_remove_cost(whole) * (1 + 1e-12)


@pytest.mark.parametrize("name", MADE)
def test_answers_are_those_of_least_squares_of_each_part(name: str) -> None:
    """From both releases' numbers by their rows over all cells, where one part tells a query."""
    few, many = planned(name, 0.05, "gaussian"), planned(name, 0.2, "gaussian")
    earlier, data = few.release(counts(few), seed=1), counts(few)
    more = many.given(earlier)
    found = more.release(data, seed=2)
    assert more.rest is not None
    rest = make_release(more.rest, data, seed=2)
    rows, sizes = (np.concatenate(each) for each in zip(probe(few), probe(more.rest), strict=True))
    numbers = np.concatenate([flat(part.measurements) for part in (earlier, rest)])
    ends = np.cumsum([part.numbers for part in parts_of(few.mechanism)])
    owner = np.tile(np.searchsorted(ends, np.arange(ends[-1]), side="right"), 2)
    told = 0
    for query in many.workload:
        groups = found.plan.mechanism.agreeing([query])
        if groups == []:  # the mean of several, each of which is compared by other queries
            continue
        w = query.dense()
        for part in range(len(ends)):
            b, v = rows[owner == part], sizes[owner == part]
            if np.allclose(w @ np.linalg.pinv(b) @ b, w):
                told += 1
                inverse = np.linalg.pinv(b / np.sqrt(v)[:, None])
                expected = w @ inverse @ (numbers[owner == part] / np.sqrt(v))
                answer = found.answer(query)
                np.testing.assert_allclose(answer.estimate, expected, atol=1e-6)
                truth = np.diagonal(blue_covariance(w, w, b, v))
                np.testing.assert_allclose(answer.std_error**2, truth, rtol=1e-6)
    assert told >= 1
    for query in many.workload:
        np.testing.assert_allclose(found.answer(query).std_error, many.std_error(query), rtol=1e-6)


@pytest.mark.parametrize("name", MADE)
def test_a_look_at_two_budgets_is_paid_for_once(name: str) -> None:
    """What is looked at first and what is left of either plan cost what the plan does, by every
    record measured alone; and the errors are the plan's."""
    plans = [planned(name, rho) for rho in (0.05, 0.2)]
    data = counts(plans[0])
    for chosen in plans:
        choice = nz.adaptive(plans)
        assert isinstance(choice.family, BySameRows)
        look = choice.look(data, seed=1)
        found = look.choose(chosen)
        rest = choice.family.rest(chosen.mechanism, choice.common.mechanism)
        both = cost_of(*probe(choice.common))
        if rest is not None:
            both = both + cost_of(*probe(replace(chosen, mechanism=rest)))
        assert add_remove_cost(both) <= chosen.privacy.pcost
        assert add_remove_cost(both) >= chosen.privacy.pcost * (1 - 1e-3)
        for query in chosen.workload:
            np.testing.assert_allclose(
                found.answer(query).std_error, chosen.std_error(query), rtol=1e-6
            )


@pytest.mark.parametrize("name", ["each query", "a series"])
def test_less_costs_nothing_and_folders_go_on(name: str, tmp_path: Path) -> None:
    few, many = planned(name, 0.05), planned(name, 0.2)
    known = many.release(counts(many), seed=1)
    less = few.given(known)
    assert less.privacy.rho == 0
    for query in many.workload:
        np.testing.assert_allclose(
            less.release(counts(many), seed=3).answer(query).estimate, known.answer(query).estimate
        )
    known.save(tmp_path / "out")
    again = planned(name, 0.5).given(nz.load(tmp_path / "out"))
    assert again.privacy.rho == pytest.approx(0.3, rel=1e-3)
    later = again.release(counts(many), seed=2)
    later.save(tmp_path / "later")
    query = many.workload.query(0)
    both = [each.answer(query).estimate for each in (later, nz.load(tmp_path / "later"))]
    np.testing.assert_allclose(*both)


def test_noise_of_less_than_one_count_states_its_own_variances() -> None:
    """Which are not its parameters; in the spread of many releases."""
    few, many = planned("tables", 2.0), planned("tables", 6.0)
    query, tries = many.workload.query(0), depth(400, 60)
    found = []
    for seed in range(tries):
        more = many.given(few.release(counts(few), seed=seed))
        found.append(more.release(counts(few), seed=seed + tries).answer(query))
    spread = np.var([each.estimate for each in found], axis=0).mean()
    stated = (found[0].std_error ** 2).mean()
    assert abs(spread / stated - 1) < 5 * np.sqrt(2 / tries)


def test_replaced_records_go_on_at_their_own_price() -> None:
    """All pairs of records; the total is public, and told as it is both times."""
    few, many = (
        alone(STEPS, budget=nz.zCDP(rho), noise="discrete", neighbours="replace")()
        for rho in (0.05, 0.2)
    )
    assert (few.mechanism.noise.size == 0).any()
    earlier = few.release(counts(few), seed=1)
    more = many.given(earlier)
    assert more.rest is not None
    both = cost_of(*probe(few)) + cost_of(*probe(more.rest))
    assert replace_cost(both) <= more.total.pcost
    assert more.privacy.rho == pytest.approx(0.15, rel=1e-3)
    assert few.given(many.release(counts(few), seed=1)).rest is None
    found = more.release(counts(few), seed=2)
    total = found.answer(nz.Query(few.schema, []))
    assert total.estimate == pytest.approx(counts(few).sum()) and total.std_error < 1e-6
    for query in many.workload:
        np.testing.assert_allclose(found.answer(query).std_error, many.std_error(query), rtol=1e-6)


def test_other_queries_are_refused_with_what_works() -> None:
    few, other = planned("each query", 0.05), planned("groups", 0.2)
    assert same_rows([few.mechanism, other.mechanism]) is None
    earlier = few.release(counts(few), seed=1)
    with pytest.raises(PlanError) as refused:
        other.given(earlier)
    said = str(refused.value)
    assert "continued by the same queries with another budget alone" in said
    assert "plan.release(data, …)" in said


def test_covariances_with_earlier_means_are_refused() -> None:
    """Means by shares are not the best of all that was measured: a series' answers are."""
    for name in ("each query", "a series"):
        few, many = planned(name, 0.05, "gaussian"), planned(name, 0.2, "gaussian")
        earlier = few.release(counts(few), seed=1)
        later = many.given(earlier).release(counts(few), seed=2)
        query = many.workload.query(0)
        if name == "a series":
            found = joint_covariance(earlier, later, query, query)
            np.testing.assert_allclose(np.diagonal(found), later.plan.variance(query))
            continue
        with pytest.raises(PlanError, match="means of what was measured apart"):
            joint_covariance(earlier, later, query, query)
