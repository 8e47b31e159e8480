"""The accounting, against exact rational sums and the budgets' own definitions."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from noiseplan.errors import BudgetError
from noiseplan.ledger import Balance
from noiseplan.ledger.balance import Limits, left_text
from noiseplan.privacy import GDP, ApproxDP, Budget, Guarantee, Law, PureDP, zCDP
from noiseplan.privacy.rounding import text_down

LAWS = st.sampled_from(["gaussian", "zcdp"])
SIZES = st.floats(1e-6, 1e3)
BUDGETS = st.one_of(
    SIZES.map(zCDP),
    SIZES.map(GDP),
    st.builds(ApproxDP, st.floats(0.01, 20), st.floats(1e-12, 1e-2)),
)
COSTS = st.one_of(st.floats(0, 2), st.floats(0, 1e-300), st.sampled_from([0.1, 0.25, 5e-324]))
GUARANTEES = st.builds(Guarantee, COSTS, LAWS)


def spend_what_fits(balance: Balance, asked: list[Guarantee]) -> tuple[Balance, list[Guarantee]]:
    charged = []
    for each in asked:
        if balance.fits(each):
            balance = balance.after(each)
            charged.append(each)
    return balance, charged


@given(BUDGETS, st.lists(GUARANTEES, max_size=12))
def test_whatever_is_charged_composes_to_a_guarantee_within_the_budget(
    budget: Budget, asked: list[Guarantee]
) -> None:
    balance, charged = spend_what_fits(Balance.opened("d", budget), asked)
    assert balance.total == sum((Fraction(each.pcost) for each in charged), Fraction(0))
    composed = Guarantee(0.0).compose(*charged)
    assert balance.spent == composed
    assert composed.within(budget)
    assert not balance.overspent


@given(BUDGETS, st.lists(GUARANTEES, max_size=8), GUARANTEES)
def test_refused_is_only_what_would_not_be_within_the_budget(
    budget: Budget, asked: list[Guarantee], last: Guarantee
) -> None:
    balance, charged = spend_what_fits(Balance.opened("d", budget), asked)
    if not balance.fits(last):
        law: Law = Guarantee(0.0).compose(*charged, last).law
        total = balance.total + Fraction(last.pcost)
        if law == "zcdp" and isinstance(budget, GDP):
            return  # nothing can be shown
        most = budget.gaussian_pcost() if law == "gaussian" else 2 * budget.zcdp_rho()
        assert total > Fraction(most)


@given(BUDGETS, st.lists(GUARANTEES, max_size=8), LAWS)
def test_what_is_left_fits_and_one_step_more_does_not(
    budget: Budget, asked: list[Guarantee], law: Law
) -> None:
    balance, _ = spend_what_fits(Balance.opened("d", budget), asked)
    room = balance.room(law)
    if room > 0:
        assert balance.fits(Guarantee(room, law))
    assert not balance.fits(Guarantee(math.nextafter(room, math.inf), law))
    left = balance.left(law)
    if left is None:
        assert room <= 5e-324  # the smallest float, of which there is no half
    else:
        assert balance.fits(Guarantee(2 * left.rho, law))


@given(st.floats(1e-3, 1e3), st.integers(1, 300))
def test_equal_parts_of_a_budget_are_all_admitted_when_they_are_exact(
    rho: float, parts: int
) -> None:
    part = rho * 2.0 ** -math.ceil(math.log2(parts))  # exact, and at most rho / parts
    assume(part * parts <= rho)
    balance = Balance.opened("d", zCDP(rho))
    for _ in range(parts):
        assert balance.fits(Guarantee(2 * part, "zcdp"))
        balance = balance.after(Guarantee(2 * part, "zcdp"))


def test_no_spend_is_too_small_to_count() -> None:
    # In floats 1.0 + 1e-17 is 1.0: a million such spends would be free.
    balance = Balance.opened("d", zCDP(0.5)).after(Guarantee(1.0))
    assert not balance.fits(Guarantee(5e-324))
    assert balance.room() == 0
    assert balance.left() is None
    assert balance.fits(Guarantee(0.0))


def test_a_tenth_ten_times_is_more_than_one() -> None:
    # The float nearest to a tenth is above it: the sum in floats would be below one.
    balance = Balance.opened("d", zCDP(0.5))
    for _ in range(9):
        balance = balance.after(Guarantee(0.1))
    assert not balance.fits(Guarantee(0.1))
    exact, room = 1 - 9 * Fraction(0.1), balance.room()
    assert Fraction(room) <= exact < Fraction(math.nextafter(room, 1))
    assert balance.fits(Guarantee(room))


def test_one_discrete_release_makes_the_whole_zcdp() -> None:
    budget = ApproxDP(1.0, 1e-9)
    gaussian, zcdp = budget.gaussian_pcost(), 2 * budget.zcdp_rho()
    assert zcdp < gaussian
    fresh = Balance.opened("d", budget)
    assert fresh.room("gaussian") == gaussian
    assert fresh.room("zcdp") == zcdp
    # After a continuous release there is room for more continuous ones than discrete ones.
    half = fresh.after(Guarantee(zcdp / 2))
    assert half.room("gaussian") > half.room("zcdp")
    mixed = half.after(Guarantee(zcdp / 4, "zcdp"))
    assert mixed.room("gaussian") == mixed.room("zcdp")
    assert mixed.spent.law == "zcdp"
    # What is spent on Gaussian noise alone may already be all that zCDP admits.
    assert fresh.after(Guarantee(gaussian)).room("zcdp") == 0


def test_gdp_admits_continuous_noise_only() -> None:
    balance = Balance.opened("d", GDP(1.5))
    assert balance.fits(Guarantee(2.25))
    assert not balance.fits(Guarantee(1e-9, "zcdp"))
    assert balance.left() == zCDP(1.125)
    assert balance.left("zcdp") is None


def test_other_neighbours_do_not_fit() -> None:
    balance = Balance.opened("d", zCDP(1.0), "replace")
    assert balance.fits(Guarantee(0.1, "zcdp", "replace"))
    assert not balance.fits(Guarantee(0.1, "zcdp", "add-remove"))


def test_no_protection_never_fits() -> None:
    assert not Balance.opened("d", zCDP(1e308)).fits(Guarantee(math.inf))


@pytest.mark.parametrize("budget", [PureDP(1.0), 1.0, "zCDP(1)", None])
def test_budgets_that_a_ledger_does_not_keep(budget: object) -> None:
    with pytest.raises(BudgetError, match="zCDP, GDP or ApproxDP"):
        Limits.of(budget)  # type: ignore[arg-type]


@pytest.mark.parametrize("budget", [zCDP(1e308), GDP(1e200), zCDP(5e-324), GDP(1e-200)])
def test_extreme_budgets_have_finite_limits(budget: Budget) -> None:
    limits = Limits.of(budget)
    assert 0 <= limits.gaussian < math.inf
    assert limits.admitted_by(budget)


def test_limits_above_the_budget_are_not_admitted() -> None:
    assert not Limits(1.1, 1.0).admitted_by(zCDP(0.5))
    assert not Limits(1.0, 1.1).admitted_by(zCDP(0.5))
    assert not Limits(1.0, None).admitted_by(zCDP(0.5))
    assert not Limits(1.0, 1.0).admitted_by(GDP(1.0))
    assert Limits(1.0, 1.0).admitted_by(zCDP(0.5))


@given(st.floats(0, 1e300), st.integers(1, 10))
def test_text_down_is_never_above(x: float, digits: int) -> None:
    shown = text_down(x, digits)
    assert float(shown) <= x
    assert Fraction(shown) >= Fraction(repr(x)) * (1 - Fraction(10) ** (1 - digits))


@given(st.floats(0.01, 5.0), st.floats(0.0, 0.999), st.sampled_from(["gaussian", "zcdp"]))
def test_a_release_of_what_is_said_to_be_left_fits(epsilon: float, share: float, law: Law) -> None:
    budget = ApproxDP(epsilon, 1e-9)
    fresh = Balance.opened("census", budget)
    balance = fresh.after(Guarantee(share * fresh.room(law), law))
    said = re.search(r"a release of ε = (\S+) at", left_text(balance, law))
    if said is not None:
        asked = ApproxDP(float(said[1]), 1e-9)
        cost = asked.gaussian_pcost() if law == "gaussian" else 2 * asked.zcdp_rho()
        assert balance.fits(Guarantee(cost, law))


BALANCES = {
    "zCDP": (zCDP(1.0), Guarantee(0.5, "zcdp"), "spent  ρ = 0.25, in 1 release", "ρ = 0.75"),
    "GDP": (GDP(2.0), Guarantee(1.0), "spent  ρ = 0.5 (μ = 1), in 1", "ρ = 1.5 (μ = 1.73205)"),
    "ApproxDP": (
        ApproxDP(2.0, 1e-9), Guarantee(0.02, "zcdp"),
        "spent  ρ = 0.01 (ε = 0.810175 at δ = 1e-9), in 1 release",
        "(a release of ε = ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BALANCES)
def test_print(name: str) -> None:
    budget, spent, says, left = BALANCES[name]
    text = str(Balance.opened("census", budget).after(spent))
    assert text.startswith(f"dataset 'census': budget {budget}, neighbours add-remove\n")
    assert says in text
    assert left in text.splitlines()[2]


def test_print_when_nothing_is_left() -> None:
    fresh = Balance.opened("census", zCDP(1.0))
    assert "left   nothing" in str(fresh.after(Guarantee(2.0)))
    nearly = fresh.after(Guarantee(math.nextafter(2.0, 0)))
    assert "left   next to nothing (ρ = 1.11022e-16)" in str(nearly)
