"""Guarantees: every currency rounded up, budgets, composition, words."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depth import examples
from noiseplan.errors import BudgetError
from noiseplan.privacy import (
    GDP,
    ApproxDP,
    Budget,
    Guarantee,
    PureDP,
    gaussian_delta,
    gaussian_epsilon,
    zCDP,
    zcdp_delta,
    zcdp_epsilon,
)

repeatable = examples(100)
costs = st.floats(-8, 4).map(lambda exponent: 10.0**exponent)


@repeatable
@given(costs)
def test_rho_and_mu_are_rounded_up(pcost: float) -> None:
    spent = Guarantee(pcost)
    assert spent.rho == pcost / 2  # halving is exact
    assert Fraction(spent.mu) ** 2 >= Fraction(pcost)
    assert spent.mu == pytest.approx(math.sqrt(pcost), rel=3e-16)


def test_halving_the_smallest_number_rounds_up() -> None:
    assert Guarantee(math.ulp(0.0)).rho == math.ulp(0.0)


def test_each_law_uses_its_conversion() -> None:
    gaussian, zcdp = Guarantee(1.0), Guarantee(1.0, law="zcdp")
    assert gaussian.epsilon(1e-9) == gaussian_epsilon(1.0, 1e-9)
    assert gaussian.delta(2.0) == gaussian_delta(1.0, 2.0)
    assert zcdp.epsilon(1e-9) == zcdp_epsilon(0.5, 1e-9)
    assert zcdp.delta(2.0) == zcdp_delta(0.5, 2.0)
    assert zcdp.mu == gaussian.mu == 1.0


@pytest.mark.parametrize(
    "law", [pytest.param("gaussian", id="gaussian"), pytest.param("zcdp", id="zcdp")]
)
def test_nothing_and_everything(law) -> None:  # type: ignore[no-untyped-def]
    nothing, everything = Guarantee(0, law), Guarantee(math.inf, law)
    assert nothing.rho == nothing.mu == nothing.epsilon(0) == nothing.delta(0) == 0
    assert everything.rho == everything.mu == everything.epsilon(0.5) == math.inf
    assert everything.delta(7) == 1
    for budget in (zCDP(1), GDP(1), ApproxDP(1, 1e-9), PureDP(1)):
        assert nothing.within(budget)
        assert not everything.within(budget)
    assert "ε = ∞ at δ = 1e-9" in everything.describe()


@repeatable
@given(costs, st.floats(-12, -2).map(lambda exponent: 10.0**exponent))
def test_a_budget_spent_in_full_is_within_it_and_a_little_more_is_not(x: float, y: float) -> None:
    for budget in (zCDP(x), GDP(x), ApproxDP(min(x, 50.0), y)):
        full = budget.gaussian_pcost()
        assert Guarantee(full).within(budget)
        assert not Guarantee(full * (1 + 1e-9)).within(budget)
    assert Guarantee(GDP(x).gaussian_pcost()).mu <= x
    # Both ways are rounded outward, so there and back may be some units in the last place more.
    assert Guarantee(ApproxDP(1.0, y).gaussian_pcost()).epsilon(y) <= 1.0 + 1e-12
    for budget in (zCDP(x), ApproxDP(min(x, 50.0), y)):
        full = 2 * budget.zcdp_rho()
        assert Guarantee(full, law="zcdp").within(budget)
        assert not Guarantee(full * (1 + 1e-9), law="zcdp").within(budget)


@pytest.mark.parametrize("budget", [GDP(100.0), PureDP(100.0)])
def test_what_cannot_be_shown_is_not_within(budget: Budget) -> None:
    assert not Guarantee(1e-6, law="zcdp").within(budget)


def test_exact_curve_fits_where_zcdp_does_not() -> None:
    budget = ApproxDP(1.0, 1e-9)
    pcost = budget.gaussian_pcost()
    assert Guarantee(pcost).within(budget)
    assert not Guarantee(pcost, law="zcdp").within(budget)


@repeatable
@given(st.lists(costs, min_size=1, max_size=8))
def test_costs_add_rounded_up(pcosts: list[float]) -> None:
    first, *others = map(Guarantee, pcosts)
    together = first.compose(*others)
    exact = sum(map(Fraction, pcosts))
    assert exact <= Fraction(together.pcost) <= exact * (1 + Fraction(1, 2**52))


def test_composition_is_exact_where_it_can_be() -> None:
    assert Guarantee(0.25).compose(Guarantee(0.25), Guarantee(0.5)) == Guarantee(1.0)
    assert Guarantee(0.3).compose() == Guarantee(0.3)
    assert Guarantee(0.5).compose(Guarantee(0.5)).within(zCDP(0.5))


def test_promises_to_persons_and_to_records_do_not_compose() -> None:
    """Of a person with the records A and B one counts: without A the release is that of B, with
    both it is of either. Noise on cells at ε = 1 costs ln(e²/2 + 1/2) > 1 then, to one record."""
    record = Guarantee.pure(1.0)
    person = Guarantee(record.pcost, "pure", pure_epsilon=1.0, whose="person")
    assert person.compose(person).whose == "person"
    for one, two in ((record, person), (person, record)):
        with pytest.raises(BudgetError, match="do not compose; plan every release for the same"):
            one.compose(two)


def test_composition_of_laws_and_neighbours() -> None:
    gaussian, zcdp = Guarantee(1.0), Guarantee(1.0, law="zcdp")
    assert gaussian.compose(gaussian).law == "gaussian"
    assert gaussian.compose(zcdp).law == zcdp.compose(gaussian).law == "zcdp"
    replace = Guarantee(1.0, neighbours="replace")
    assert replace.compose(replace).neighbours == "replace"
    with pytest.raises(BudgetError) as caught:
        gaussian.compose(replace)
    assert str(caught.value) == (
        "guarantees for different neighbours do not compose: 'add-remove' and 'replace'; "
        "plan every release with the same neighbours"
    )


@pytest.mark.parametrize("bad", [-1.0, math.nan, True, "1", None])
def test_refused_costs(bad: object) -> None:
    with pytest.raises(BudgetError) as caught:
        Guarantee(bad)  # type: ignore[arg-type]
    expected = f"Guarantee: pcost must be a number at least 0 (infinity included); got {bad!r}"
    assert str(caught.value) == expected


def test_refused_law_and_neighbours() -> None:
    with pytest.raises(BudgetError) as caught:
        Guarantee(1.0, law="laplace")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "Guarantee: law must be 'gaussian' or 'zcdp' or 'pure'; got 'laplace'"
    )
    with pytest.raises(BudgetError, match=r"Guarantee\.pure"):
        Guarantee(1.0, law="pure")
    with pytest.raises(BudgetError) as caught:
        Guarantee(1.0, neighbours="swap")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "Guarantee: neighbours must be 'add-remove' or 'replace'; got 'swap'"
    )


def test_guarantees_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Guarantee(1.0).pcost = 2.0  # type: ignore[misc]


def test_description_of_each_law() -> None:
    text = Guarantee(1.0, law="zcdp", neighbours="replace").describe()
    assert text.splitlines() == [
        "zCDP: ρ = 0.5",
        "GDP: none (Gaussian of the same ρ: μ = 1)",
        "approximate DP: "
        "ε = 5.22154 at δ = 1e-6, ε = 6.47408 at δ = 1e-9, ε = 7.51515 at δ = 1e-12",
        "ε by the tight conversion from zCDP (Canonne, Kamath and Steinke 2020).",
        "Neighbouring data sets differ by replacing one record with another.",
    ]
    assert "GDP: μ = 1\n" in Guarantee(1.0).describe()
    assert "adding or removing one record" in Guarantee(1.0).describe()


@pytest.mark.parametrize("module", ["rounding", "conversions", "budgets", "guarantee"])
def test_documented_examples_run(module: str) -> None:
    outcome = doctest.testmod(importlib.import_module(f"noiseplan.privacy.{module}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0


EVERY = (Guarantee(0.3), Guarantee(0.3, "zcdp", "replace"), Guarantee.pure(0.7))


@pytest.mark.parametrize("spent", EVERY)
def test_the_amount_is_what_adds_up(spent: Guarantee) -> None:
    twice = spent.compose(spent)
    assert twice.amount == 2 * spent.amount
    assert twice == spent.at(2 * spent.amount)
    assert (
        spent.at(spent.amount) == spent == Guarantee.of(spent.law, spent.amount, spent.neighbours)
    )


@pytest.mark.parametrize("spent", EVERY)
def test_what_is_saved_is_read_again(spent: Guarantee) -> None:
    saved = spent.parts()
    assert Guarantee.from_parts(saved) == spent
    assert ("epsilon" in saved) == (spent.law == "pure") == bool(spent.own_figures)
    unknown = dataclasses.replace(EVERY[0], pcost=math.inf)
    assert Guarantee.from_parts(unknown.parts()) == unknown


@repeatable
@given(st.floats(0.01, 4.0), st.floats(0.001, 0.999))
def test_a_draw_of_bounded_range_costs_no_less_than_its_divergences(
    range_: float, q: float
) -> None:
    """Of two outcomes, with the losses a and a − ε: P = (q e^a, (1 − q) e^(a−ε)) adds up to one."""
    a = -math.log(q + (1 - q) * math.exp(-range_))
    p, q_ = np.array([q * math.exp(a), (1 - q) * math.exp(a - range_)]), np.array([q, 1 - q])
    rho = Guarantee(1.0, "zcdp").of_range(range_).rho
    for order in (1.01, 2.0, 5.0, 30.0):
        divergence = math.log(float((p**order * q_ ** (1 - order)).sum())) / (order - 1)
        assert divergence <= order * rho * (1 + 1e-9)
    pure = Guarantee.pure(1.0).of_range(range_)
    assert pure == Guarantee.pure(range_)
    assert np.abs(np.log(p / q_)).max() <= range_ * (1 + 1e-12)


@repeatable
@given(costs)
def test_the_largest_range_within_a_budget_is_within_it(amount: float) -> None:
    for budget in (PureDP(amount), zCDP(amount)):
        cost = Guarantee.of_budget(budget).of_range(budget.range_epsilon)
        assert cost.within(budget)
        assert cost.amount >= budget.amount * (1 - 1e-14)


def test_budgets_say_what_they_are_exactly() -> None:
    assert PureDP(0.5).exactly() == ("pure", 0.5)
    assert zCDP(0.5).exactly() == ("zcdp", 1.0)
    assert GDP(2.0).exactly() == ("gaussian", 4.0)
    with pytest.raises(BudgetError, match="does not say what composes"):
        ApproxDP(1.0, 1e-6).exactly()
    for budget in (PureDP(0.5), zCDP(0.5)):
        assert budget.additive() is budget and budget.at(budget.amount) == budget
    approximate = ApproxDP(1.0, 1e-6)
    assert approximate.additive() == zCDP(approximate.zcdp_rho())
    assert [b.own_epsilon for b in (PureDP(0.5), approximate, zCDP(0.5), GDP(2.0))] == [
        0.5,
        1,
        0,
        0,
    ]
