"""The accounting, against exact rational sums and the budgets' own definitions."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import mpmath
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from ledger_helpers import curved, discrete

from noiseplan.errors import BudgetError
from noiseplan.ledger import Balance
from noiseplan.ledger.balance import fitting, left_text, pure_epsilon_left, spent_text
from noiseplan.privacy import (
    GDP,
    ApproxDP,
    Budget,
    Guarantee,
    PureDP,
    gaussian_epsilon,
    gaussian_pcost,
    zCDP,
    zcdp_rho,
)
from noiseplan.privacy.conversions import pure_mu2
from noiseplan.privacy.rounding import text_down

SIZES = st.floats(1e-6, 1e3)
BUDGETS = st.one_of(
    SIZES.map(zCDP),
    SIZES.map(GDP),
    st.builds(ApproxDP, st.floats(0.01, 20), st.floats(1e-12, 1e-2)),
)
COSTS = st.one_of(st.floats(0, 2), st.floats(0, 1e-300), st.sampled_from([0.1, 0.25, 5e-324]))
GUARANTEES = st.one_of(
    COSTS.map(Guarantee), COSTS.map(discrete), COSTS.map(curved), COSTS.map(Guarantee.pure)
)


def spend_what_fits(balance: Balance, asked: list[Guarantee]) -> tuple[Balance, list[Guarantee]]:
    charged = []
    for each in asked:
        if balance.fits(each):
            balance = balance.after(each)
            charged.append(each)
    return balance, charged


def costing(charged: list[Guarantee]) -> list[Guarantee]:
    return [each for each in charged if each.pcost > 0]


@given(BUDGETS, st.lists(GUARANTEES, max_size=12))
def test_everything_is_added_up_once_by_one_rule(budget: Budget, asked: list[Guarantee]) -> None:
    """Exact sums by the plain words of the rules, and no more than the limits."""
    balance, charged = spend_what_fits(Balance.opened("d", budget), asked)
    paid = costing(charged)
    assert balance.sums.rho2 == sum((Fraction(each.pcost) for each in paid), Fraction(0))
    first = 0  # of the releases that are not aside
    if isinstance(budget, ApproxDP):
        while first < len(paid) and paid[first].law == "pure":
            epsilons = [Fraction(each.pure_epsilon or 0) for each in paid[: first + 1]]
            if sum(epsilons) > Fraction(budget.epsilon):
                break
            first += 1
    aside = sum((Fraction(each.pure_epsilon or 0) for each in paid[:first]), Fraction(0))
    assert balance.sums.aside == aside
    if balance.rule == "aside":
        assert first == len(paid) and balance.limit is None and balance.sums.total == 0
        return
    by_mu = balance.rule == "curve"
    costs = [each.mu2 if by_mu else each.pcost for each in paid[first:]]
    total = sum((Fraction(cost) for cost in costs if cost is not None), Fraction(0))
    assert None not in costs
    assert balance.sums.total == total
    if isinstance(budget, ApproxDP):
        left = float(text_down(float(Fraction(budget.epsilon) - aside), 17))
        most = gaussian_pcost(left, budget.delta) if by_mu else 2 * zcdp_rho(left, budget.delta)
        assert balance.limit == pytest.approx(most, rel=1e-9)
    else:
        assert by_mu == isinstance(budget, GDP)
        assert balance.limit == budget.gaussian_pcost()
    assert balance.limit is not None and total <= Fraction(balance.limit)


@given(BUDGETS, st.lists(GUARANTEES, max_size=8))
def test_what_is_left_fits_and_hardly_more(budget: Budget, asked: list[Guarantee]) -> None:
    balance, _ = spend_what_fits(Balance.opened("d", budget), asked)
    left = balance.left()
    if left is None:
        assert balance.room < 1e-150
        return
    match left:
        case ApproxDP(epsilon):
            assert balance.fits(Guarantee.pure(epsilon))
            most = left.gaussian_pcost()
            assert balance.fits(curved(most / 1.002))
            assert balance.fits(discrete(2 * left.zcdp_rho()))
            assert not balance.fits(curved(most))
        case GDP():
            most = left.gaussian_pcost()
            assert balance.fits(Guarantee(most)) and balance.fits(curved(most / 1.002))
            assert not balance.fits(Guarantee(most * 1.001 + 1e-300))
        case zCDP(rho):
            assert balance.fits(discrete(2 * rho)) and balance.fits(Guarantee(2 * rho))
            assert not balance.fits(discrete(math.nextafter(2 * rho * (1 + 1e-12), math.inf)))


@given(BUDGETS, st.lists(GUARANTEES, max_size=6))
def test_the_largest_epsilon_of_pure_dp_that_fits(budget: Budget, asked: list[Guarantee]) -> None:
    balance, _ = spend_what_fits(Balance.opened("d", budget), asked)
    epsilon = pure_epsilon_left(balance)
    assert balance.fits(Guarantee.pure(epsilon))
    more = Guarantee.pure(epsilon * (1 + 1e-9))
    if epsilon > 1e-100 and balance.fits(more):  # at a large δ the curve may admit it
        assert (balance.rule, balance.after(more).rule) == ("aside", "curve")


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


@pytest.mark.parametrize("budget", [zCDP(0.5), GDP(1.0)])
def test_no_spend_is_too_small_to_count(budget: Budget) -> None:
    # In floats 1.0 + 1e-17 is 1.0: a million such spends would be free.
    balance = Balance.opened("d", budget).after(Guarantee(1.0))
    assert not balance.fits(Guarantee(5e-324))
    assert not balance.fits(Guarantee.pure(1e-170))
    assert balance.room == 0
    assert balance.left() is None
    assert balance.fits(Guarantee(0.0))


def test_a_tenth_ten_times_is_more_than_one() -> None:
    # The float nearest to a tenth is above it: the sum in floats would be below one.
    for budget, cost in (
        (zCDP(0.5), Guarantee(0.1)), (GDP(1.0), Guarantee(0.1)),
        (ApproxDP(1.0, 1e-9), Guarantee.pure(0.1)),
    ):  # fmt: skip
        balance = Balance.opened("d", budget)
        for _ in range(9):
            balance = balance.after(cost)
        assert not balance.fits(cost) or balance.after(cost).rule != balance.rule
        exact, room = 1 - 9 * Fraction(0.1), balance.room
        assert Fraction(room) <= exact < Fraction(math.nextafter(room, 1))


# ---------------------------------------------------------------------- one rule at a time


def test_pure_releases_count_aside_until_the_first_other() -> None:
    budget = ApproxDP(1.0, 1e-6)
    after = Balance.opened("d", budget).after(Guarantee.pure(0.25)).after(Guarantee.pure(0.125))
    assert (after.rule, after.limit, after.sums.aside) == ("aside", None, Fraction(3, 8))
    assert after.left() == ApproxDP(0.625, 1e-6)
    closed = after.after(curved(0.01))
    assert (closed.rule, closed.limit) == ("curve", gaussian_pcost(0.625, 1e-6))
    # From now on pure releases add up as μ², and no longer aside.
    more = closed.after(Guarantee.pure(0.0625))
    assert more.sums.aside == Fraction(3, 8)
    assert more.sums.total == Fraction(closed.sums.total) + Fraction(pure_mu2(0.0625))
    assert not closed.fits(Guarantee.pure(0.25))
    assert after.fits(Guarantee.pure(0.25))


def test_the_first_release_known_by_zcdp_alone_keeps_a_dataset_by_zcdp() -> None:
    budget = ApproxDP(1.0, 1e-6)
    after = Balance.opened("d", budget).after(Guarantee.pure(0.5)).after(discrete(0.001))
    assert (after.rule, after.limit) == ("zcdp", 2 * zcdp_rho(0.5, 1e-6))
    more = after.after(Guarantee.pure(0.0625)).after(curved(0.001)).after(Guarantee(0.001))
    assert more.sums.total == 3 * Fraction(0.001) + Fraction(0.0625) ** 2
    assert more.sums.aside == Fraction(1, 2)
    # What the curve would admit beyond that is not given afterwards.
    assert not after.fits(curved(gaussian_pcost(0.5, 1e-6) / 1.01))


def test_gaussian_budgets_admit_whatever_has_a_mu() -> None:
    balance = Balance.opened("d", GDP(1.5))
    assert balance.fits(Guarantee(2.25)) and balance.fits(Guarantee(2.2, "zcdp", mu2=2.25))
    assert not balance.fits(Guarantee(2.2, "zcdp", mu2=math.nextafter(2.25, 3)))
    assert balance.fits(Guarantee.pure(1.2))
    assert pure_mu2(1.2) <= 2.25 < pure_mu2(1.24)
    assert not balance.fits(Guarantee.pure(1.24))
    assert not balance.fits(discrete(1e-9))
    assert balance.left() == GDP(1.5)


def test_what_costs_nothing_closes_nothing() -> None:
    fresh = Balance.opened("d", ApproxDP(1.0, 1e-6))
    for nothing in (Guarantee(0.0), discrete(0.0), Guarantee.pure(0.0)):
        after = fresh.after(nothing)
        assert (after.rule, after.limit, after.entries) == ("aside", None, 1)
        closed = fresh.after(curved(0.01))
        assert closed.after(nothing).sums == closed.sums


def test_very_little_noise_is_added_up_by_the_proof_that_admits_it() -> None:
    """Below σ² = 1/3 no μ is stated; and a large loss may be more than zCDP has."""
    budget = ApproxDP(20.0, 1e-6)
    most = 2 * budget.zcdp_rho()
    fits = Guarantee(most, "zcdp", mu2=1.5 * most)
    after = Balance.opened("d", budget).after(fits)
    assert (after.rule, after.limit) == ("zcdp", most)


def test_a_stated_limit_is_kept_and_never_above_the_budgets_own() -> None:
    """A conversion from (ε, δ) may differ in its last digit from one machine to another."""
    fresh, cost = Balance.opened("d", ApproxDP(1.0, 1e-6)), curved(0.01)
    own = fresh.after(cost).limit
    assert own is not None
    for stated in (math.nextafter(own, 0), math.nextafter(own, 1), 0.5 * own):
        assert fresh.after(cost, limit=stated).limit == stated
    for stated in (own * (1 + 1e-8), 2 * own, math.inf):
        assert fresh.after(cost, limit=stated).limit == own


def test_a_raised_budget_enlarges_what_adds_up_and_not_what_is_aside() -> None:
    before, after = ApproxDP(1.0, 1e-6), ApproxDP(2.0, 1e-6)
    charged = [Guarantee.pure(0.5), curved(0.005), Guarantee.pure(0.05)]
    balance, found = spend_what_fits(Balance.opened("d", before), charged)
    assert found == charged
    raised = balance.again(after, None, [(each, 1, None) for each in charged])
    assert raised.sums == balance.sums
    assert raised.limit == gaussian_pcost(1.5, 1e-6)
    with pytest.raises(BudgetError):
        balance.again(ApproxDP(0.4, 1e-6), None, [(each, 1, None) for each in charged])
    by_zcdp = balance.again(zCDP(1.0), None, [(each, 1, None) for each in charged])
    assert by_zcdp.sums.total == sum(Fraction(each.pcost) for each in charged)


@pytest.mark.parametrize(("bound", "records", "steps"), [(3, 1, 3), (5, 2, 3), (4, 4, 1)])
def test_costs_for_fewer_records_grow_to_those_of_a_person(
    bound: int, records: int, steps: int
) -> None:
    """ε by the number of steps, μ² and 2ρ by its square."""
    fresh = Balance.opened("d", ApproxDP(4.0, 1e-6)).again(ApproxDP(4.0, 1e-6), bound, [])
    after = fresh.after(Guarantee.pure(0.25), records).after(curved(0.001), records)
    after = after.after(Guarantee.pure(0.01), records)
    assert after.sums.aside == Fraction(0.25) * steps
    mu2 = Fraction(curved(0.001).mu2 or 0) + Fraction(pure_mu2(0.01))
    assert after.sums.total == mu2 * steps**2
    left = after.left(records)
    assert isinstance(left, GDP)
    assert after.fits(Guarantee(left.gaussian_pcost()), records)
    epsilon = pure_epsilon_left(after, records)
    assert after.fits(Guarantee.pure(epsilon), records)
    assert not after.fits(Guarantee.pure(epsilon * (1 + 1e-9)), records)
    aside = pure_epsilon_left(fresh, records)
    assert fresh.after(Guarantee.pure(aside), records).rule == "aside"
    assert aside * steps == pytest.approx(4.0)
    whole = fresh.left(records)
    assert whole is not None and fresh.fits(Guarantee(whole.gaussian_pcost() / 1.0001), records)


# ---------------------------------------------------------------------- refusals and edges


def test_other_neighbours_do_not_fit() -> None:
    balance = Balance.opened("d", zCDP(1.0), "replace")
    assert balance.fits(Guarantee(0.1, "zcdp", "replace"))
    assert not balance.fits(Guarantee(0.1, "zcdp", "add-remove"))


@pytest.mark.parametrize("budget", [zCDP(1e308), GDP(1e150), ApproxDP(1e300, 0.5)])
def test_no_protection_never_fits(budget: Budget) -> None:
    assert not Balance.opened("d", budget).fits(Guarantee(math.inf))
    assert not Balance.opened("d", budget).fits(Guarantee.pure(math.inf))


@pytest.mark.parametrize("budget", [PureDP(1.0), 1.0, "zCDP(1)", None])
def test_budgets_that_a_ledger_does_not_keep(budget: object) -> None:
    with pytest.raises(BudgetError, match="zCDP, GDP or ApproxDP"):
        Balance.opened("d", budget)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "budget", [zCDP(8e307), GDP(1e150), zCDP(5e-324), GDP(1e-200), ApproxDP(1e-300, 0.5)]
)
def test_extreme_budgets_can_be_asked(budget: Budget) -> None:
    balance = Balance.opened("d", budget)
    assert 0 <= balance.room < math.inf
    assert str(balance)


def test_pure_releases_without_any_mu_are_read_as_what_they_are() -> None:
    balance = Balance.opened("d", ApproxDP(2000.0, 1e-9)).after(Guarantee.pure(900.0))
    assert balance.spent.pure_epsilon == 900.0
    assert balance.after(curved(1.0)).spent.mu2 == math.inf


@given(st.floats(0, 1e300), st.integers(1, 10))
def test_text_down_is_never_above(x: float, digits: int) -> None:
    shown = text_down(x, digits)
    assert float(shown) <= x
    assert Fraction(shown) >= Fraction(repr(x)) * (1 - Fraction(10) ** (1 - digits))


# ---------------------------------------------------------------------- what is said


@given(st.floats(0.01, 5.0), st.floats(0.0, 0.999), st.sampled_from([curved, discrete]))
def test_a_release_of_what_is_said_to_be_left_fits(
    epsilon: float, share: float, law: object
) -> None:
    budget = ApproxDP(epsilon, 1e-9)
    assert callable(law)
    most = budget.gaussian_pcost() / 1.01 if law is curved else 2 * budget.zcdp_rho()
    balance = Balance.opened("census", budget).after(law(share * most + 1e-12))
    said = re.search(r"with Gaussian noise ε = (\S+) at", left_text(balance))
    if said is not None:
        asked = ApproxDP(float(said[1]), 1e-9)
        if law is curved:
            assert balance.fits(Guarantee(asked.gaussian_pcost()))
        else:
            assert balance.fits(discrete(2 * asked.zcdp_rho()))


@given(BUDGETS, st.lists(GUARANTEES, max_size=5), st.booleans())
def test_a_budget_that_is_said_to_fit_does(
    budget: Budget, asked: list[Guarantee], exact: bool
) -> None:
    """Its call, taken literally: whatever release is within it."""
    balance, _ = spend_what_fits(Balance.opened("d", budget), asked)
    for currency in (None, PureDP(1.0)):
        found = fitting(balance, None, currency, exact)
        if found is None:
            continue
        names = {"ApproxDP": ApproxDP, "PureDP": PureDP, "zCDP": zCDP, "GDP": GDP}
        number = re.findall(r"\((?:[a-z]+=)?([^,)]+)", found[0])[0]
        if not float(number):
            continue
        fits = eval(found[0], names)
        if isinstance(fits, PureDP):
            assert balance.fits(Guarantee.pure(fits.epsilon))
        elif isinstance(fits, zCDP):
            assert balance.fits(discrete(2 * fits.rho))
        else:
            assert balance.fits(Guarantee(fits.gaussian_pcost()))
            if isinstance(fits, ApproxDP):
                assert balance.fits(Guarantee.pure(fits.epsilon))
                assert fits.delta <= budget.delta  # type: ignore[attr-defined]


BALANCES = {
    "zCDP": (zCDP(1.0), [discrete(0.5)], "ρ = 0.25", "ρ = 0.75"),
    "GDP": (GDP(2.0), [Guarantee(1.0)], "μ = 1", "μ = 1.73205"),
    "aside": (
        ApproxDP(2.0, 1e-9), [Guarantee.pure(0.5)], "ε = 0.5 (pure DP)", "ε = 1.5 at δ = 1e-9"
    ),
    "curve": (
        ApproxDP(2.0, 1e-9), [Guarantee(0.01)],
        f"μ = 0.1 (ε = {math.ceil(gaussian_epsilon(0.01, 1e-9) * 1e6) / 1e6} at δ = 1e-9)",
        "(with Gaussian noise ε = ",
    ),
    "both": (
        ApproxDP(2.0, 1e-9), [Guarantee.pure(0.5), Guarantee(0.01)],
        f"ε = 0.5 (pure DP), then μ = 0.1 "
        f"(ε = {math.ceil((0.5 + gaussian_epsilon(0.01, 1e-9)) * 1e5) / 1e5} at δ = 1e-9)",
        "(with Gaussian noise ε = ",
    ),
    "zCDP alone": (
        ApproxDP(2.0, 1e-9), [discrete(0.02)], "ρ = 0.01 (ε = 0.810175 at δ = 1e-9)",
        "(with Gaussian noise ε = ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BALANCES)
def test_print(name: str) -> None:
    budget, charged, says, left = BALANCES[name]
    balance, found = spend_what_fits(Balance.opened("census", budget), charged)
    assert found == charged
    text = str(balance)
    assert text.startswith(f"dataset 'census': budget {budget}, neighbours add-remove\n")
    assert f"spent  {says}, in {len(charged)} release" in text
    assert left in text.splitlines()[2]


@given(st.floats(0.01, 3.0), st.floats(0.0, 0.9), st.floats(0.01, 0.9))
def test_the_sum_that_is_read_is_true_of_what_was_spent(
    epsilon: float, aside: float, share: float
) -> None:
    """(E + ε, δ): by the exact curve of what was not aside, in high precision."""
    delta = 1e-6
    balance = Balance.opened("d", ApproxDP(epsilon, delta))
    if aside:
        balance = balance.after(Guarantee.pure(aside * epsilon))
    most = balance.limit_of("curve")
    assert most is not None
    balance = balance.after(Guarantee(share * most))
    (said,) = re.findall(r"ε = (\S+) at δ", spent_text(balance))
    with mpmath.workdps(40):
        own = mpmath.mpf(said) - mpmath.mpf(aside * epsilon)
        mu = mpmath.sqrt(mpmath.mpf(share * most))
        tails = [mpmath.erfc((own / mu + sign * mu / 2) / mpmath.sqrt(2)) / 2 for sign in (-1, 1)]
        assert tails[0] - mpmath.exp(own) * tails[1] <= delta
    assert float(said) <= epsilon * (1 + 1e-5)
    assert balance.spent.epsilon(delta) >= 0.0


def test_print_when_nothing_is_left() -> None:
    fresh = Balance.opened("census", zCDP(1.0))
    assert "left   nothing" in str(fresh.after(Guarantee(2.0)))
    nearly = fresh.after(Guarantee(math.nextafter(2.0, 0)))
    assert "left   next to nothing (ρ = 1.11022e-16)" in str(nearly)
    aside = Balance.opened("census", ApproxDP(1.0, 1e-9)).after(Guarantee.pure(0.9995))
    assert not aside.used_up  # plans of pure DP keep nothing back
    assert aside.after(Guarantee.pure(0.00049999999)).used_up
    kept_back = Balance.opened("census", GDP(1.0)).after(Guarantee(0.9990))
    assert kept_back.used_up  # as a plan for all of it does
    assert not Balance.opened("census", GDP(1.0)).after(Guarantee(0.99)).used_up
