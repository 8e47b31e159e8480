"""Amounts in the currency of a budget, told behind the ρ that all ledgers count by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, final

from noiseplan.privacy import GDP, ApproxDP, Budget, Guarantee, Law, PureDP, zCDP
from noiseplan.privacy.guarantee import known_mu, largest_cost
from noiseplan.privacy.rounding import down, sqrt_down, sqrt_up, text_down, text_up


@final
@dataclass(frozen=True)
class Currency:
    """How things are told in the currency of a budget; nothing where ρ says them."""

    # A cost, rounded up.
    spent: Callable[[Any, Guarantee], str] = lambda budget, cost: ""
    # The release that fits, of noise that is known by this law, rounded down;
    left: Callable[[Any, zCDP, Law], str] = lambda budget, fits, law: ""
    # and its budget, as a call and as a line of a study.
    fitting: Callable[[Any, zCDP, Law], tuple[str, str] | None] = lambda budget, fits, law: None
    # Whether who asks in it is answered in it, whatever the budget is stated in.
    answered: bool = False


def _mu(budget: GDP, cost: Guarantee) -> str:
    mu = known_mu(cost)
    return "" if mu is None else f"μ = {text_up(mu)}"


def _approximate(budget: ApproxDP, fits: zCDP, law: Law) -> tuple[str, str] | None:
    if law != "zcdp":
        return None
    epsilon, delta = text_down(epsilon_left(fits, law, budget.delta)), f"{budget.delta:.6g}"
    line = f"approx_dp = {{ epsilon = {epsilon}, delta = {delta} }}"
    return f"ApproxDP({epsilon}, {delta})", line


def _pure(fits: zCDP) -> str:
    """ε of the pure DP that implies no more than this: a ledger counts it by ρ = ε²/2."""
    return text_down(sqrt_down(2 * fits.rho))


CURRENCIES: Final[dict[type[Budget], Currency]] = {
    zCDP: Currency(),
    GDP: Currency(
        spent=_mu,
        left=lambda budget, fits, law: f"μ = {text_down(sqrt_down(2 * fits.rho))}",
    ),
    ApproxDP: Currency(
        spent=lambda budget, cost: (
            f"ε = {text_up(cost.epsilon(budget.delta))} at δ = {text_up(budget.delta)}"
        ),
        left=lambda budget, fits, law: (
            f"a release of ε = {text_down(epsilon_left(fits, law, budget.delta))} "
            f"at δ = {text_down(budget.delta)}"
        ),
        fitting=_approximate,
        answered=True,
    ),
    PureDP: Currency(
        spent=lambda budget, cost: f"as one release of pure ε = {text_up(sqrt_up(2 * cost.rho))}",
        left=lambda budget, fits, law: f"a release of pure ε = {_pure(fits)}",
        fitting=lambda budget, fits, law: (f"PureDP({_pure(fits)})", f"pure_dp = {_pure(fits)}"),
        answered=True,
    ),
}


def epsilon_left(fits: zCDP, law: Law, delta: float) -> float:
    """The ε of a release that fits: a budget of (ε, δ) admits no more than what is left."""
    epsilon = Guarantee(2 * fits.rho, law).epsilon(delta)
    while epsilon > 0 and not largest_cost(law, ApproxDP(epsilon, delta)) <= 2 * fits.rho:
        epsilon = down(epsilon)
    return epsilon
