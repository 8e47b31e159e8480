"""Budgets that promise little: what to say of them, though nobody is kept from using them."""

from __future__ import annotations

import math
from typing import Final

from noiseplan.privacy.budgets import ApproxDP, Budget
from noiseplan.privacy.guarantee import Guarantee
from noiseplan.privacy.rounding import text_down

# From this ε on, what is released is as good as exact; from the other on, not far from it.
NO_PROTECTION: Final = 100.0
LITTLE_PROTECTION: Final = 20.0
# With chance δ anything may be told of somebody.
LARGE_DELTA: Final = 1e-3


def epsilon_of(budget: Budget | Guarantee) -> float:
    """ε of a budget or a cost: its own, or that at δ = 10⁻⁹."""
    if isinstance(budget, Budget):
        return budget.own_epsilon or Guarantee.of_budget(budget).shown_epsilon
    return budget.shown_epsilon if math.isfinite(budget.pcost) else math.inf


def doubts(budget: Budget | Guarantee, records: float | None = None) -> list[str]:
    """What speaks against a budget or a cost, for whoever decides; mostly nothing.

    Parameters
    ----------
    budget
        What is promised.
    records
        About how many records there are, if that may be told: δ is to be far below one in so many.

    Examples
    --------
    >>> from noiseplan.privacy import zCDP
    >>> doubts(ApproxDP(1.0, 1e-9)), doubts(zCDP(0.5))
    ([], [])
    >>> print(doubts(ApproxDP(30.0, 1e-9))[0])
    ε = 30 protects next to nobody: a value of 10 is large already, and 1 is usual
    """
    found, epsilon = [], epsilon_of(budget)
    if epsilon >= NO_PROTECTION:
        found.append(
            f"ε = {text_down(epsilon, 3)} protects nobody: what is released is as good as exact"
        )
    elif epsilon >= LITTLE_PROTECTION:
        found.append(
            f"ε = {text_down(epsilon, 3)} protects next to nobody: a value of 10 is large "
            f"already, and 1 is usual"
        )
    if not isinstance(budget, ApproxDP):
        return found
    if budget.delta >= LARGE_DELTA:
        found.append(
            f"δ = {budget.delta:g} is a chance that anything at all is told of somebody: take "
            f"one far below one over the number of people, as in 1e-9"
        )
    elif records is not None and budget.delta * records > 1:
        found.append(
            f"δ = {budget.delta:g} is more than one over the number of records: publishing one "
            f"of them whole would be within it; take one far below, as in 1e-9"
        )
    return found
