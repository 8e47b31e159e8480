"""Rows for coupled tables: every record's cost and the total variance written out, and optima."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import cvxpy as cp
import numpy as np
import pytest

import noiseplan as nz
from coupled_oracles import WORKLOADS, Seeing
from noiseplan.matrices.base import Array
from noiseplan.optimize.level_coupling import precision
from noiseplan.planning import coupled_split
from noiseplan.planning.coupled_split import (
    Coupled,
    best_moments,
    coupled_rows,
    head_grams,
    letters_of,
    others_seen,
    rows_with_more_heads,
    seen_by,
    with_another_head,
)
from noiseplan.planning.coupled_terms import CoupledTerms
from noiseplan.planning.free_split import optimise_total
from noiseplan.planning.solve import role_bases
from noiseplan.planning.workload_types import prepare

BUDGET = nz.zCDP(0.5)  # privacy cost one
# Where tables share attributes that are asked in them together with others.
BETTER = ("three of one role", "two roles")


def searched(one: Seeing) -> Coupled:
    found = coupled_rows(one.design, one.terms, one.rows)
    assert found is not None
    return found


def written_out(one: Seeing, moments: Array) -> tuple[float, Array]:
    """Total variance, and the cost of every record, of Φ over all states.

    Tails cost what they do, and attributes without heads what their bases do.
    """
    sizes = [one.values(i) for i in range(len(one.roles))]
    records = [one.columns_of(values) for values in product(*map(range, sizes))]
    variance, costs = 0.0, np.zeros(len(records))
    for tails, states in one.sets():
        group, _ = one.group(tails)
        level = one.spread(group, group.alike.moments @ moments, states)
        asked = one.asked(tails, states)
        best = precision(level, asked)
        variance += float(np.trace(np.linalg.solve(best, asked)))
        costs += [float((one.level(tails, states, record) * best).sum()) for record in records]
    return variance, costs


CASES = [(name, heads) for name in WORKLOADS for heads in (1, 2)]


@pytest.mark.parametrize(("name", "heads"), CASES)
def test_every_record_costs_the_same(name: str, heads: int) -> None:
    """And total variance · cost is F²."""
    one = Seeing.of(WORKLOADS[name], heads)
    found = searched(one)
    there = one.with_rows(found.rows)
    value, moments = best_moments(there.terms, there.headed, found.moments)
    assert value == pytest.approx(found.value, rel=1e-9)
    variance, costs = written_out(there, moments)
    assert costs == pytest.approx(value, rel=1e-6)
    assert variance == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("name", WORKLOADS)
def test_between_the_optimum_and_what_is_not_coupled(name: str) -> None:
    found = searched(Seeing.of(WORKLOADS[name], 1)).value ** 2
    alone = nz.plan(WORKLOADS[name], budget=BUDGET, planner="residual", noise="gaussian")
    best = nz.plan(WORKLOADS[name], budget=BUDGET, planner="optimal", noise="gaussian")
    assert best.lower_bound * (1 - 1e-9) <= found <= alone.total_variance * (1 + 1e-9)
    if name in BETTER:
        assert found < alone.total_variance * (1 - 1e-4)


def test_value_of_given_rows_by_a_convex_program() -> None:
    """max Σ tr Z over moments y: [[N, Z], [Zᵀ, L(y)]] ⪰ 0 for all T, over all states."""
    one = Seeing.of(WORKLOADS["one by value"], 1)
    heads = [np.vstack([np.ones(rows.shape[1]), rows[:1]]) for rows in one.rows.values()]
    start = one.terms.product_moments([some @ some.T / some.shape[1] for some in heads])
    value, _ = best_moments(one.terms, one.headed, start)
    moments = cp.Variable(len(start))
    limits, total = [moments[0] == 1], cp.Constant(0.0)
    for tails, states in one.sets():
        group, _ = one.group(tails)
        size = len(states)
        rows = [one.spread(group, column, states).ravel() for column in group.alike.moments.T]
        level = cp.reshape(np.array(rows).T @ moments, (size, size), order="C")
        both = cp.Variable((2 * size, 2 * size), PSD=True)
        limits += [both[:size, :size] == one.asked(tails, states), both[size:, size:] == level]
        total += cp.trace(both[:size, size:])
    problem = cp.Problem(cp.Maximize(total), limits)
    problem.solve(solver=cp.CLARABEL)
    assert value == pytest.approx(float(problem.value), rel=1e-6)


@pytest.mark.parametrize("name", WORKLOADS)
def test_rounded_rows(name: str) -> None:
    """Divided by their longest column they cost no record more than F, and most of them that."""
    one = Seeing.of(WORKLOADS[name], 1)
    found = searched(one)
    coarse = {r: np.rint(64 * u) for r, u in found.rows.items()}
    longest = {r: np.sqrt((u**2).sum(axis=0).max()) for r, u in coarse.items()}
    there = one.with_rows({r: u / longest[r] for r, u in coarse.items()})
    value, moments = best_moments(there.terms, there.headed, found.moments)
    variance, costs = written_out(there, moments)
    assert variance == pytest.approx(value, rel=1e-9)
    assert costs.max() <= value * (1 + 1e-9)
    assert costs.min() >= 0.9 * value
    assert found.value * (1 - 1e-9) <= value <= 1.02 * found.value


def test_more_heads() -> None:
    """Of each role in turn, then together: no worse, and nothing is left out."""
    design = prepare(WORKLOADS["two roles"])
    rows, letters = optimise_total(design), letters_of(design, 1)
    others = others_seen(design, role_bases(design, rows), letters)
    one = CoupledTerms(design, letters, others)
    found = coupled_rows(design, one, rows)
    assert found is not None
    terms = with_another_head(design, one)
    assert terms is not None
    better = rows_with_more_heads(design, one, found, terms)
    assert better is not None
    letters = letters_of(design, 2)
    assert terms.letters == letters
    assert better.value < found.value
    seen = [
        seen_by(gram, better.rows[r], letters[r])
        for r, gram in zip(terms.heads, head_grams(design, terms.heads), strict=True)
    ]
    assert best_moments(terms, seen, better.moments)[0] == pytest.approx(better.value, rel=1e-9)


def test_no_more_heads_than_rows() -> None:
    """Of attributes of three values one row is the head and one the tail."""
    schema = nz.Schema.from_sizes({"a": 3, "b": 5, "c": 2})
    prefixes = dict.fromkeys(schema.names, nz.Prefix())
    design = prepare(nz.Workload.marginals(schema, k=2, factors=prefixes))
    of_attribute = design.roles.of_attribute.tolist()
    assert letters_of(design, 1) == {of_attribute[0]: 2, of_attribute[1]: 2}
    assert letters_of(design, 9) == {of_attribute[0]: 2, of_attribute[1]: 4}


@pytest.mark.parametrize("heads", [1, 2])
def test_slopes_of_the_search(heads: int) -> None:
    """By raw numbers, and along changes that weigh alike."""
    one = Seeing.of(WORKLOADS["two roles"], heads)
    grams, counts = head_grams(one.design, one.terms.heads), list(one.letters.values())
    rng, step = np.random.default_rng(3), 1e-5
    begun = [one.rows[r] + 0.1 * rng.normal(size=one.rows[r].shape) for r in one.terms.heads]
    search = coupled_split._Search(one.terms, counts, grams, begun)
    first = search.level(begun)
    assert first is not None
    along = coupled_split._Along(search, begun, first)
    at = 0.01 * rng.normal(size=along.size)
    for _ in range(4):
        change = rng.normal(size=along.size)
        values = [along(at + sign * step * change)[0] for sign in (1, -1)]
        slope = along(at)[1] @ change
        assert slope == pytest.approx((values[0] - values[1]) / 2 / step, rel=1e-5)
        changes = [rng.normal(size=part.shape) for part in begun]
        moved = [
            search([part + sign * step * more for part, more in zip(begun, changes, strict=True)])[
                0
            ]
            for sign in (1, -1)
        ]
        slopes = search(begun)[1]
        slope = sum(float((a * b).sum()) for a, b in zip(slopes, changes, strict=True))
        assert slope == pytest.approx((moved[0] - moved[1]) / 2 / step, rel=1e-5)


def test_nothing_level() -> None:
    """Where nothing is asked of a tail, there is nothing to find."""
    one = Seeing.of(WORKLOADS["three of one role"], 1)
    (r,) = one.letters
    empty = [np.zeros_like(gram) for gram in head_grams(one.design, [r])]
    nowhere = replace(one.design, given_grams=tuple(empty))
    assert coupled_rows(nowhere, one.terms, one.rows) is None
