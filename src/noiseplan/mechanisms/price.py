"""The last question before data are measured: does the price cover all that is measured?

Every way to data leads through here, whoever made the plan and however: planned, looked, chosen,
chosen again, continued. Nothing is believed of what a plan says about itself but what it is
charged; what it costs is computed from its mechanism, and over small domains found a second time by
measuring every possible record (:mod:`noiseplan.mechanisms.probing`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from noiseplan.errors import PlanError
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.cost import cost_of
from noiseplan.mechanisms.probing import can_probe, probed_cost
from noiseplan.privacy import Guarantee
from noiseplan.privacy.guarantee import may_promise
from noiseplan.privacy.people import person_cost

# Prices are rounded up where they are computed; costs computed in another order differ by less.
ROUNDING: Final = Fraction(1, 10**9)
PROMISES: Final = {
    "pure": "the pure DP of Laplace noise",
    "gaussian": "the exact curve of continuous Gaussian noise",
    "zcdp": "the zCDP of discrete Gaussian noise",
}


@dataclass(frozen=True, eq=False)
class Paid:
    """What was measured of the same records before, and what was charged for all of it.

    A measurement that completes another is charged what both cost together less what is paid: alone
    it may cost more, for other records than those that paid most for the first.
    """

    mechanisms: tuple[Mechanism, ...] = ()
    price: Fraction = Fraction(0)

    def and_for(self, mechanism: Mechanism, price: Guarantee) -> Paid:
        """After this mechanism was measured too, at this price."""
        return Paid((*self.mechanisms, mechanism), self.price + Fraction(price.amount))


NOTHING: Final = Paid()


def require_price(
    mechanism: Mechanism, stated: Guarantee, max_rows: int = 1, before: Paid = NOTHING
) -> None:
    """Refuse to measure for less than it costs: fail closed.

    Parameters
    ----------
    mechanism
        What is about to be measured.
    stated
        Its price, for a person with up to `max_rows` records.
    before
        What that price is only the rest of, if it is.
    """
    require_formula(mechanism, stated, max_rows, before)
    mechanisms = (*before.mechanisms, mechanism)
    if can_probe(mechanisms):
        cost = probed_cost(mechanisms, stated.neighbours)
        if max_rows != 1:
            cost = person_cost(cost, max_rows, stated.power)
        if Fraction(cost) > (before.price + Fraction(stated.amount)) * (1 + ROUNDING):
            raise _too_little(cost, before, stated)


def require_formula(
    mechanism: Mechanism, stated: Guarantee, max_rows: int = 1, before: Paid = NOTHING
) -> None:
    """The same by the mechanism's own formula alone: for plans, which measure nothing yet."""
    cost = cost_of((*before.mechanisms, mechanism), stated.neighbours, max_rows)
    if not may_promise(cost.law, stated.law):
        raise PlanError(f"the plan promises {PROMISES[stated.law]}, and has {PROMISES[cost.law]}")
    if Fraction(cost.amount) > (before.price + Fraction(stated.amount)) * (1 + ROUNDING):
        raise _too_little(Fraction(cost.amount), before, stated)


def _too_little(cost: float | Fraction, before: Paid, stated: Guarantee) -> PlanError:
    price = before.price + Fraction(stated.amount)
    return PlanError(
        f"the plan states a lower privacy cost than its noise has: {float(price):.6g}, and "
        f"what it measures costs {float(cost):.6g}"
    )
