"""Budgets: what they accept, what they allow, and every message."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depth import examples
from noiseplan.errors import BudgetError, NoiseplanError
from noiseplan.privacy import GDP, ApproxDP, Budget, Guarantee, PureDP, conversions, zCDP

NOT_POSITIVE = [0, -1, 0.0, math.inf, -math.inf, math.nan, True, "0.5", None, 10**400, np.ones(1)]
NOT_PROBABILITY = [0, 1, -0.1, 1.5, math.inf, math.nan, False, "1e-9", None]

repeatable = examples(200)


def test_budget_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Budget()  # type: ignore[abstract]


@pytest.mark.parametrize("budget", [zCDP(0.5), GDP(1.0), ApproxDP(1.0, 1e-9), PureDP(1.0)])
def test_budgets_are_frozen_values(budget: Budget) -> None:
    field = dataclasses.fields(budget)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(budget, field, 2.0)
    assert budget == dataclasses.replace(budget)
    assert hash(budget) == hash(dataclasses.replace(budget))
    assert budget != dataclasses.replace(budget, **{field: 2.0})  # type: ignore[arg-type]


def test_numbers_of_all_kinds_are_kept_as_floats() -> None:
    for one in (1, 1.0, np.float64(1), np.int32(1), np.float32(1), Fraction(1)):
        assert zCDP(one) == zCDP(1.0)  # type: ignore[arg-type]
        assert type(zCDP(one).rho) is float  # type: ignore[arg-type]
        assert type(ApproxDP(one, np.float64(1e-9)).delta) is float  # type: ignore[arg-type]
    assert zCDP(1.0) != GDP(1.0)


EXACT = [
    Fraction(1, 10),
    Fraction(1, 3),
    Fraction(3602879701896396, 2**55) - Fraction(1, 10**40),
    Decimal("0.1"),
    Decimal("0.7000000000000000000000000001"),
    2**53 + 1,
    10**30 + 1,
    np.longdouble("0.1"),
    np.longdouble(1) / 3,
    0.1,
    np.float32(0.1),
]


def as_fraction(number: Any) -> Fraction:
    return Fraction(*number.as_integer_ratio())


@pytest.mark.parametrize("number", EXACT, ids=str)
def test_a_budget_is_never_more_than_was_asked(number: Any) -> None:
    for made in (zCDP(number).rho, GDP(number).mu, PureDP(number).epsilon):
        assert Fraction(made) <= as_fraction(number) < Fraction(math.nextafter(made, math.inf))
    approx = ApproxDP(number, Fraction(1, 10**9))
    assert Fraction(approx.epsilon) <= as_fraction(number)
    assert Fraction(approx.delta) <= Fraction(1, 10**9)


@pytest.mark.parametrize("number", EXACT, ids=str)
def test_a_cost_is_never_less_than_was_stated(number: Any) -> None:
    for made in (Guarantee(number).pcost, Guarantee.pure(number).pure_epsilon):
        assert made is not None
        assert Fraction(made) >= as_fraction(number) > Fraction(math.nextafter(made, -math.inf))


def test_the_smallest_cost_is_some() -> None:
    assert Guarantee(Fraction(1, 10**400)).pcost == 5e-324  # type: ignore[arg-type]
    assert Guarantee(10**400).pcost == math.inf
    with pytest.raises(BudgetError):
        zCDP(Fraction(1, 10**400))  # type: ignore[arg-type]
    for bad in (Decimal("NaN"), Decimal("sNaN"), Decimal(-1), Decimal("Infinity")):
        with pytest.raises(BudgetError):
            zCDP(bad)  # type: ignore[arg-type]


def test_conversions_of_exact_numbers_round_outwards() -> None:
    """δ(ε) of a cost that is a little above a float, at an ε a little below one."""
    little = Fraction(1, 10**30)
    above, below = Fraction(1) + little, Fraction(1) - little
    delta = conversions.gaussian_delta(above, below)  # type: ignore[arg-type]
    assert delta >= conversions.gaussian_delta(math.nextafter(1, 2), math.nextafter(1, 0))
    assert conversions.zcdp_rho(below, 1e-9) <= conversions.zcdp_rho(math.nextafter(1, 0), 1e-9)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", NOT_POSITIVE)
@pytest.mark.parametrize(
    ("make", "name", "example"),
    [
        (zCDP, "zCDP: rho", "zCDP(rho=0.5)"),
        (GDP, "GDP: mu", "GDP(mu=1.0)"),
        (PureDP, "PureDP: epsilon", "PureDP(epsilon=1.0)"),
        (
            lambda bad: ApproxDP(bad, 1e-9),
            "ApproxDP: epsilon",
            "ApproxDP(epsilon=1.0, delta=1e-9)",
        ),
    ],
)
def test_refused_parameters(make, name: str, example: str, bad: object) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BudgetError) as caught:
        make(bad)
    expected = f"{name} must be a positive finite number, for example {example}; got {bad!r}"
    assert str(caught.value) == expected
    assert isinstance(caught.value, ValueError | NoiseplanError)


@pytest.mark.parametrize("bad", NOT_PROBABILITY)
def test_refused_deltas(bad: object) -> None:
    with pytest.raises(BudgetError) as caught:
        ApproxDP(1.0, bad)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "ApproxDP: delta must be a number strictly between 0 and 1, for example "
        f"ApproxDP(epsilon=1.0, delta=1e-9) (for delta = 0 use PureDP); got {bad!r}"
    )


def test_zcdp_allows_twice_rho() -> None:
    assert zCDP(0.5).gaussian_pcost() == 1.0
    assert zCDP(0.5).zcdp_rho() == 0.5
    assert zCDP(1.5e308).gaussian_pcost() < math.inf


@repeatable
@given(st.floats(1e-100, 1e100))
def test_gdp_allows_mu_squared_rounded_down(mu: float) -> None:
    pcost = Fraction(GDP(mu).gaussian_pcost())
    assert Fraction(mu) ** 2 * (1 - Fraction(1, 2**52)) <= pcost <= Fraction(mu) ** 2


def test_approximate_budgets_use_the_tight_conversions() -> None:
    budget = ApproxDP(1.0, 1e-5)
    assert budget.gaussian_pcost() == conversions.gaussian_pcost(1.0, 1e-5)
    assert budget.zcdp_rho() == conversions.zcdp_rho(1.0, 1e-5)
    assert round(budget.gaussian_pcost(), 10) == 0.0718514047


def test_gdp_is_not_implied_by_zcdp() -> None:
    with pytest.raises(BudgetError) as caught:
        GDP(1).zcdp_rho()
    assert str(caught.value) == (
        "GDP(mu=1) is not shown where zCDP is all that is known: √(2ρ)-GDP does not follow from "
        "ρ-zCDP. State the budget as zCDP, for example zCDP(rho=0.5)"
    )


@pytest.mark.parametrize("ask", [PureDP.gaussian_pcost, PureDP.zcdp_rho])
def test_pure_budgets_are_out_of_reach_of_gaussian_noise(ask) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BudgetError) as caught:
        ask(PureDP(0.5))
    assert str(caught.value) == (
        "PureDP(epsilon=0.5) cannot be met by Gaussian noise, continuous or discrete, at any size: "
        "Gaussian noise never gives pure DP. Use Laplace noise, or a budget that Gaussian noise "
        "can meet: ApproxDP(epsilon=0.5, delta=1e-9), zCDP(rho=…) or GDP(mu=…)"
    )


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (zCDP(0.5), "ρ = 0.5 (zCDP)"),
        (GDP(2), "μ = 2 (GDP)"),
        (ApproxDP(1, 1e-9), "ε = 1, δ = 1e-09 (approximate DP)"),
        (PureDP(0.1), "ε = 0.1 (pure DP)"),
    ],
)
def test_printed_form(budget: Budget, text: str) -> None:
    assert str(budget) == text


def test_repr_is_the_call() -> None:
    assert repr(zCDP(1)) == "zCDP(rho=1.0)"
    assert repr(ApproxDP(1, 1e-9)) == "ApproxDP(epsilon=1.0, delta=1e-09)"
