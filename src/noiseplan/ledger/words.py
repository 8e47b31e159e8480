"""Balances and refusals in words: costs rounded up, what is left rounded down."""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING

from noiseplan.errors import BudgetError
from noiseplan.ledger.errors import BudgetExceeded
from noiseplan.privacy import GDP, ApproxDP, Budget, Guarantee, Law
from noiseplan.privacy.rounding import text_up

if TYPE_CHECKING:
    from noiseplan.ledger.balance import Balance


def describe(balance: Balance) -> str:
    """Three lines: the budget, what is spent, what is left."""
    releases = f"{balance.entries} release{'s' * (balance.entries != 1)}"
    lines = [
        f"dataset {balance.dataset!r}: budget {balance.budget}, neighbours {balance.neighbours}",
        f"  spent  {cost(balance.spent, balance.budget)}, in {releases}",
        f"  left   {remainder(balance)}",
    ]
    return "\n".join(lines)


def cost(guarantee: Guarantee, budget: Budget) -> str:
    """A cost in ρ and in the budget's currency, rounded up."""
    rho = f"ρ = {text_up(guarantee.rho)}"
    if guarantee.pcost == math.inf:
        return "no protection at all (ρ = ∞)"
    if isinstance(budget, GDP) and guarantee.law == "gaussian":
        return f"{rho} (μ = {text_up(guarantee.mu)})"
    if isinstance(budget, ApproxDP):
        epsilon = text_up(guarantee.epsilon(budget.delta))
        return f"{rho} (ε = {epsilon} at δ = {text_up(budget.delta)})"
    return rho


def remainder(balance: Balance, law: Law | None = None) -> str:
    """What is left for a release of this law, in ρ and in the budget's currency, rounded down."""
    fits = balance.left(law)
    if fits is None:
        return "nothing"
    rho = f"ρ = {text_down(fits.rho)}"
    if isinstance(balance.budget, GDP):
        return f"{rho} (μ = {text_down(math.sqrt(2 * fits.rho))})"
    if isinstance(balance.budget, ApproxDP):
        alone = Guarantee(2 * fits.rho, law or "zcdp", balance.neighbours)
        epsilon = text_down(alone.epsilon(balance.budget.delta))
        return f"{rho} (a release of ε = {epsilon} at δ = {text_up(balance.budget.delta)})"
    return rho


def refusal(asked: Guarantee, balance: Balance) -> BudgetError:
    """Why a release is not charged: asked, spent, left, and what would fit."""
    where = f"dataset {balance.dataset!r}"
    if asked.neighbours != balance.neighbours:
        return BudgetError(
            f"{where} has a budget for neighbours {balance.neighbours!r}; the release guarantees "
            f"{asked.neighbours!r}. Plan it with neighbours={balance.neighbours!r}"
        )
    if asked.law == "zcdp" and balance.limits.zcdp is None:
        return BudgetError(
            f"{where} has the budget {balance.budget}, which noise whose guarantee is zCDP "
            f"(discrete Gaussian) cannot be shown to meet: no zCDP bound implies a GDP bound. "
            f'Plan the release with noise="gaussian", or change the budget to zCDP: '
            f"ledger.change_budget({balance.dataset!r}, zCDP(…), reason=…)"
        )
    parts = [
        f"{where}: this release does not fit in what is left of the budget {balance.budget}",
        f"asked {cost(asked, balance.budget)}",
        f"spent {cost(balance.spent, balance.budget)}",
        f"left {remainder(balance, asked.law)}",
        "nothing was recorded",
        _advice(asked, balance),
    ]
    return BudgetExceeded("; ".join(parts), asked, balance)


def refused_budget(changed: Balance) -> BudgetError:
    """Why a budget cannot be changed to this one."""
    return BudgetError(
        f"dataset {changed.dataset!r} has spent {cost(changed.spent, changed.budget)} already, "
        f"which is not within {changed.budget}; nothing was changed"
    )


def _advice(asked: Guarantee, balance: Balance) -> str:
    fits = balance.left(asked.law)
    change = f"ledger.change_budget({balance.dataset!r}, …, reason=…) raises the budget, on record"
    if fits is None:
        return change
    # Down to as many digits as tell it from what was asked: a plan with this budget fits.
    near = asked.rho < fits.rho * (1 + 1e-5)
    rho = repr(fits.rho) if near else text_down(fits.rho)
    return f"a plan with budget=zCDP({rho}) fits; {change}"


def text_down(x: float, digits: int = 6) -> str:
    """`x` for reading: at most `digits` significant digits, rounded down.

    Examples
    --------
    >>> text_down(0.123456789), text_down(0.5), text_down(1e-12)
    ('0.123456', '0.5', '1e-12')
    """
    if not math.isfinite(x):
        return "∞"
    shown = Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(repr(float(x))).normalize()
    if shown == 0 or Decimal("1e-4") <= abs(shown) < Decimal("1e9"):
        return format(shown, "f")
    return format(shown, "e")
