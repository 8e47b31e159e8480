"""What mechanisms cost: every formula against all pairs of records, in exact fractions.

Attributes have equal sizes and equal rows, so that sets of attributes look alike, while their noise
differs or is missing altogether: no set may stand for another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noiseplan as nz
from integer_oracles import Measured
from noiseplan.errors import PlanError
from noiseplan.mechanisms import cost, far_pairs, price, residual_cost
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import group_blocks
from noiseplan.mechanisms.cost import cost_of
from noiseplan.mechanisms.matrix import DenseMechanism
from noiseplan.mechanisms.price import NOTHING, probed_cost, require_price
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.noise import Noise
from noiseplan.privacy import Guarantee

BOTH = ("add-remove", "replace")


@dataclass(frozen=True)
class Of:
    """As much of a plan as the oracle looks at."""

    mechanism: Mechanism
    workload: nz.Workload


def brute(mechanisms: list[Mechanism], neighbours: str) -> Fraction:
    """2ρ of all mechanisms together over all pairs of records."""
    workload = nz.Workload([nz.Query(mechanisms[0].schema, {})])
    parts = [Measured.of(Of(m, workload)) for m in mechanisms]  # type: ignore[arg-type]
    rows, sigma2 = [], []
    for part in parts:
        rows += part.rows
        sigma2 += part.sigma2
    return 2 * Fraction(Measured(rows, sigma2).rho(neighbours))


@st.composite
def alike(draw: st.DrawFn, plain: bool = False) -> ResidualMechanism:
    """Up to four attributes of one size, one or two kinds of rows, any sets, any noise."""
    size, many = draw(st.sampled_from([(2, 3), (2, 4), (3, 2), (3, 3)]))
    return drawn(draw, size, many, draw(st.lists(st.booleans(), min_size=many, max_size=many)))


def drawn(
    draw: st.DrawFn, size: int, many: int, uneven: list[bool], plain: bool = False
) -> ResidualMechanism:
    schema = nz.Schema.from_sizes({f"x{i}": size for i in range(many)})
    ordered = Basis.from_rows(np.tril(np.ones((size - 1, size)))[:, ::-1] * 2.0 + np.eye(1, size))
    bases = (Basis.integer(size), ordered)
    basis_of = np.array([int(u and not plain) for u in uneven])
    sets, noise = [], []
    for width in range(many + 1):
        rows = [c for c in combinations(range(many), width) if draw(st.integers(0, 3))]
        if rows:
            sets.append(np.array(rows, dtype=np.int64).reshape(len(rows), width))
            sizes = draw(
                st.lists(
                    st.sampled_from([1.0, 2.5, 7.0, 7.0, 64.0]),
                    min_size=len(rows),
                    max_size=len(rows),
                )
            )
            noise.append(np.array(sizes))
    if not sets:
        sets, noise = [np.zeros((1, 0), np.int64)], [np.ones(1)]
    return ResidualMechanism(schema, group_blocks(sets, noise, bases, basis_of, True))


@given(st.data(), st.sampled_from(BOTH))
def test_every_set_counts_for_itself(data: st.DataObject, neighbours: str) -> None:
    mechanism = data.draw(alike())
    exact, stated = brute([mechanism], neighbours), cost_of([mechanism], neighbours)
    assert exact <= Fraction(stated.pcost)
    assert stated.law == "zcdp"
    even = all(np.ptp(np.diagonal(b.gram)) == 0 for block in mechanism.blocks for b in block.bases)
    if neighbours == "add-remove" or even:
        assert Fraction(stated.pcost) <= exact * (1 + Fraction(1, 10**10))


@given(st.data(), st.sampled_from(BOTH))
def test_mechanisms_add_up_record_by_record(data: st.DataObject, neighbours: str) -> None:
    """The same rows, other rows, and a matrix: all that is measured, by whichever way."""
    size, many = data.draw(st.sampled_from([(2, 3), (3, 2)]))
    uneven = data.draw(st.lists(st.booleans(), min_size=many, max_size=many))
    one = drawn(data.draw, size, many, uneven)
    same = drawn(data.draw, size, many, uneven)
    other = drawn(data.draw, size, many, [not u for u in uneven])
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows = rng.integers(-2, 3, (3, one.schema.size)).astype(float)
    matrix = DenseMechanism(one.schema, rows, Noise("gaussian", 3.0, exact=True))
    for parts in ([one, same], [one, other], [one, matrix], [one, other, matrix, same]):
        exact = brute(parts, neighbours)
        assert exact <= Fraction(cost_of(parts, neighbours).pcost)
        assert probed_cost(parts, neighbours) == pytest.approx(float(exact), rel=1e-12)


@given(st.data())
def test_many_attributes_are_priced_by_classes(data: st.DataObject) -> None:
    """As if there were too many to look at every pattern of agreement: never below it."""
    mechanism = data.draw(alike())
    blocks = [block for block in mechanism.blocks if block.bases]
    if not blocks:
        return
    exact = residual_cost.replaced_cost(blocks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(far_pairs, "LENGTHS", (1,))  # all columns as if they were the longest
        every = residual_cost.replaced_cost(blocks)
        assert every >= exact * (1 - 1e-12)
        patch.setattr(residual_cost, "EVERY_PATTERN", 0)
        classes = residual_cost.replaced_cost(blocks)
        assert classes >= every * (1 - 1e-12)
        grams = [basis.gram for block in blocks for basis in block.bases]
        if all(gram.min() < gram.diagonal().min() for gram in grams):  # γ is that of two values
            assert classes == pytest.approx(every, rel=1e-12)
        twice = residual_cost.replaced_cost([*blocks, *blocks])
        assert twice == pytest.approx(2 * classes, rel=1e-12)
        patch.setattr(residual_cost, "PATTERN_LIMIT", 0)
        assert residual_cost.replaced_cost(blocks) >= every * (1 - 1e-12)


@pytest.mark.parametrize("missing", [0, 5, 100])
def test_classes_of_very_many_attributes(missing: int) -> None:
    """24 attributes of two kinds; some sets were measured before and are gone."""
    schema = nz.Schema.from_sizes({f"x{i}": 2 + i % 2 for i in range(24)})
    plan = nz.plan(nz.Workload.marginals(schema, k=2), budget=nz.zCDP(0.5), neighbours="replace")
    whole = cost_of([plan.mechanism], "replace").pcost
    assert whole == pytest.approx(plan.privacy.pcost, rel=1e-10)
    assert isinstance(plan.mechanism, ResidualMechanism)
    rng = np.random.default_rng(missing)
    sets = [block.sets for block in plan.mechanism.blocks]
    noise = [block.sigma2.copy() for block in plan.mechanism.blocks]
    for _ in range(missing):
        chosen = noise[int(rng.integers(len(noise)))]
        chosen[rng.integers(len(chosen))] = np.inf
    blocks = plan.mechanism.blocks
    left = ResidualMechanism(schema, group_blocks(sets, noise, blocks.bases, blocks.basis_of))
    stated = cost_of([left], "replace").pcost
    assert stated <= whole * (1 + 1e-9)
    # Records that differ in a random part of the attributes never cost more than that.
    for _ in range(200):
        agree = rng.random(24) < rng.random()
        cost = 0.0
        for block in left.blocks:
            if not block.bases:
                continue  # the number of records does not change
            low = np.array([b.lowest for b in block.bases])
            high = np.array([b.sensitivity for b in block.bases])
            same = np.where(agree[block.sets], high, low).prod(axis=1)
            cost += float((2 * (high.prod() - same) / block.sigma2).sum())
        assert cost <= stated * (1 + 1e-12)


# ---------------------------------------------------------------------- the price


@cache  # plans do not change, and many tests ask for one of them
def small_plans() -> tuple[nz.Plan, ...]:
    schema = nz.Schema.from_sizes({"a": 3, "b": 3, "c": 2})
    tables = nz.Workload.marginals(schema, up_to=2, factors={"a": nz.Prefix()})
    ordered = nz.Workload([nz.Query(nz.Schema.from_sizes({"a": 9}), {"a": nz.Prefix()})])
    exact = {"noise": "discrete"}
    plain = (
        nz.plan(tables, budget=nz.zCDP(0.5), neighbours=n, noise=noise)
        for n in BOTH
        for noise in ("discrete", "gaussian")
    )
    return (
        *plain,
        nz.plan(tables, budget=nz.zCDP(0.5), planner="optimal", **exact),
        nz.plan(tables, budget=nz.zCDP(0.5), planner="wavelet", **exact),
        nz.plan(tables, budget=nz.zCDP(0.5), max_rows=3, **exact),
        nz.plan(tables, budget=nz.PureDP(0.5), **exact),
        nz.plan(tables, budget=nz.PureDP(0.5), max_rows=2, noise="laplace"),
        nz.plan(tables, budget=nz.PureDP(0.5), planner="matrix", **exact),
        nz.plan(ordered, budget=nz.PureDP(0.5), planner="dawa", **exact),
    )


def cheaper(stated: Guarantee, share: float) -> Guarantee:
    if stated.pure_epsilon is not None:
        return Guarantee.pure(stated.pure_epsilon * share, stated.neighbours)
    return replace(stated, pcost=stated.pcost * share)


@pytest.mark.parametrize("number", range(11))
def test_nothing_is_measured_for_less_than_it_costs(number: int) -> None:
    plan = small_plans()[number]
    require_price(plan.mechanism, plan.privacy, plan.max_rows)
    for share in (1 - 1e-6, 0.5, 0.0):
        with pytest.raises(PlanError, match="lower privacy cost"):
            require_price(plan.mechanism, cheaper(plan.privacy, share), plan.max_rows)
        with pytest.raises(PlanError, match="lower privacy cost"):
            replace(plan, privacy=cheaper(plan.privacy, share)).release(
                np.ones(plan.schema.shape, dtype=int)
            )
    if plan.planner != "dawa" and plan.privacy.neighbours == "add-remove":
        with pytest.raises(PlanError, match="lower privacy cost"):
            require_price(plan.mechanism, plan.privacy, plan.max_rows + 1)


def test_the_law_is_that_of_the_noise() -> None:
    discrete, continuous, *_, laplace, _, _, _ = small_plans()
    with pytest.raises(PlanError, match="exact curve"):
        require_price(discrete.mechanism, replace(discrete.privacy, law="gaussian"))
    require_price(continuous.mechanism, replace(continuous.privacy, law="zcdp"))
    with pytest.raises(PlanError, match="pure DP"):
        require_price(discrete.mechanism, Guarantee.pure(99.0))
    with pytest.raises(PlanError, match="pure DP"):
        require_price(laplace.mechanism, Guarantee(99.0, "zcdp"))


def test_a_rest_is_paid_with_what_it_completes() -> None:
    """Two rows of one record each: together they cost the most for no record what both cost."""
    schema = nz.Schema.from_sizes({"a": 2})
    first = DenseMechanism(schema, np.array([[1.0, 0.0]]), Noise("gaussian", 1.0, exact=True))
    rest = DenseMechanism(schema, np.array([[0.0, 1.0]]), Noise("gaussian", 1.0, exact=True))
    free, one = Guarantee(0.0, "zcdp"), Guarantee(1.0, "zcdp")
    paid = NOTHING.and_for(first, one)
    require_price(rest, free, before=paid)
    with pytest.raises(PlanError, match="lower privacy cost"):
        require_price(rest, free)
    with pytest.raises(PlanError, match="lower privacy cost"):
        require_price(first, free, before=paid)
    with pytest.raises(PlanError, match="lower privacy cost"):
        require_price(rest, free, before=NOTHING.and_for(first, free))


@pytest.mark.parametrize("number", range(10))
def test_a_wrong_formula_is_found_by_measuring(number: int) -> None:
    """The second way does not believe the first: over small domains every record is measured."""
    plan = small_plans()[number]
    cheap = cheaper(plan.privacy, 0.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(price, "cost_of", lambda *_: cheaper(cheap, 0.1))
        with pytest.raises(PlanError, match="lower privacy cost"):
            require_price(plan.mechanism, cheap, plan.max_rows)


def test_noise_that_is_missing_is_not_free() -> None:
    schema = nz.Schema.from_sizes({"a": 3, "b": 2})
    plan = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5), neighbours="replace")
    assert isinstance(plan.mechanism, ResidualMechanism)
    blocks = [
        replace(b, noise=replace(b.noise, size=np.zeros_like(b.sigma2)))
        for b in plan.mechanism.blocks
    ]
    bare = replace(plan.mechanism, blocks=replace(plan.mechanism.blocks, blocks=tuple(blocks)))
    for neighbours in BOTH:
        with pytest.raises(PlanError, match="without noise"):
            cost.cost_of([bare], neighbours)
