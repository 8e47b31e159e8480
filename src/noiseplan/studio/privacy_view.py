"""What a budget promises, in every currency and in sentences, before anything is planned."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from noiseplan.errors import BudgetError
from noiseplan.noise.law import NAMED, SIMULATED
from noiseplan.privacy import GDP, ApproxDP, Budget, Guarantee, Neighbours, PureDP, zCDP
from noiseplan.privacy.doubts import doubts
from noiseplan.privacy.guarantee import SHOWN_DELTA, SHOWN_DELTAS, known_mu
from noiseplan.privacy.rounding import product_up, text_of
from noiseplan.studio.toml_text import from_json
from noiseplan.study import Study
from noiseplan.words.privacy import Currency, currencies, promise, success_bound

# Where a slider begins and ends, in its own currency.
RANGES: Final = {"zcdp": (1e-4, 10.0), "gdp": (0.01, 5.0), "approx_dp": (0.05, 20.0)}
RANGES_PURE: Final = (0.05, 20.0)
STOPS: Final = 60
RECORD: Final = "record"


# What is told in other currencies where either noise may be taken.
LATER: Final = Currency("others", "once it is planned", "they depend on the noise that is taken")


def promised(budget: Budget, noise: str | None, neighbours: Neighbours) -> Guarantee:
    """The most that a plan within a budget may cost, with the noise that it will have.

    Where either noise may be taken, with Gaussian noise.
    """
    laplace = noise in NAMED and NAMED[noise].law == "laplace"
    if isinstance(budget, PureDP) or (isinstance(budget, ApproxDP) and laplace):
        return Guarantee.pure(budget.epsilon, neighbours)
    if noise in SIMULATED:
        return Guarantee(budget.gaussian_pcost(), "gaussian", neighbours)
    if isinstance(budget, zCDP):
        return Guarantee(product_up(2.0, budget.rho), "zcdp", neighbours)
    return Guarantee(budget.gaussian_pcost(), "zcdp", neighbours, mu2=budget.gaussian_pcost())


def weakest(budget: Budget, noise: str | None, neighbours: Neighbours) -> Guarantee:
    """Return the promise that finds somebody most often, of those that a plan may have."""
    guarantee = promised(budget, noise, neighbours)
    if not isinstance(budget, ApproxDP) or not either_noise(budget, noise):
        return guarantee
    return max(guarantee, Guarantee.pure(budget.epsilon, neighbours), key=success_bound)


def either_noise(budget: Budget, noise: str | None) -> bool:
    """Return whether planning decides between Gaussian and Laplace noise."""
    return isinstance(budget, ApproxDP) and noise in (None, "discrete")


def study_privacy(study: Study) -> dict[str, Any] | None:
    """What the budget of a study promises; nothing where targets or at_most decide the cost."""
    if study.budget is None:
        return None
    return budget_view(study.budget, study.settings.noise, study.neighbours, unit_of(study))


def budget_view(
    budget: Budget, noise: str | None, neighbours: Neighbours, unit: str
) -> dict[str, Any]:
    """Return what a budget promises before it is planned with, for the page."""
    view = privacy_view(promised(budget, noise, neighbours), unit, budget)
    if not either_noise(budget, noise):
        return view
    weaker = weakest(budget, noise, neighbours)
    return view | {
        "sentences": promise(weaker, unit),
        "success": of_hundred(weaker),
        "currencies": [view["currencies"][0], LATER.__dict__],
    }


def unit_of(study: Study) -> str:
    """Whom the promise is made to: a record, or who has several."""
    return RECORD if study.people is None else study.people.unit


def privacy_view(
    guarantee: Guarantee, unit: str = RECORD, budget: Budget | None = None
) -> dict[str, Any]:
    """One promise for the page; numbers rounded up."""
    return {
        "law": guarantee.law,
        "neighbours": guarantee.neighbours,
        "unit": unit,
        "rho": guarantee.rho,
        "mu": known_mu(guarantee),
        "pure_epsilon": guarantee.pure_epsilon,
        "epsilons": [
            {"delta": delta, "epsilon": guarantee.epsilon(delta)} for delta in SHOWN_DELTAS
        ],
        "sentences": promise(guarantee, unit),
        "success": of_hundred(guarantee),
        "currencies": [each.__dict__ for each in _decided_first(guarantee, budget)],
        "doubts": doubts(budget or guarantee),
    }


def _decided_first(guarantee: Guarantee, budget: Budget | None) -> list[Currency]:
    """Return the promise in every currency, the (ε, δ) that was decided before all others."""
    found = currencies(guarantee)
    if not isinstance(budget, ApproxDP) or not guarantee.within(budget):
        return found
    value = f"ε = {text_of(budget.epsilon)} at δ = {text_of(budget.delta)}"
    return [Currency("approximate DP", value, "as decided"), *found]


def of_hundred(guarantee: Guarantee) -> float:
    """In how many of 100 cases, at most, somebody is found; rounded up to a tenth."""
    return math.ceil(1000 * success_bound(guarantee) - 1e-9) / 10


def read_amount(currency: str, amount: float, delta: float | None) -> Budget:
    """A budget from a slider."""
    if currency == "approx_dp":
        return ApproxDP(amount, SHOWN_DELTA if delta is None else delta)
    kinds: dict[str, type[zCDP | GDP | PureDP]] = {"zcdp": zCDP, "gdp": GDP, "pure_dp": PureDP}
    if currency not in kinds:
        raise BudgetError(f"no currency {currency!r}; choose from zcdp, gdp, approx_dp and pure_dp")
    return kinds[currency](amount)


@lru_cache(maxsize=32)
def privacy_range(currency: str, delta: float | None = None) -> dict[str, Any]:
    """The ends of a slider, and logarithmic stops between them with what each of them means."""
    low, high = RANGES_PURE if currency == "pure_dp" else RANGES.get(currency, RANGES_PURE)
    stops = [
        _stop(currency, float(f"{amount:.3g}"), delta) for amount in np.geomspace(low, high, STOPS)
    ]
    return {"currency": currency, "delta": delta, "low": low, "high": high, "stops": stops}


def _stop(currency: str, amount: float, delta: float | None) -> dict[str, Any]:
    budget = read_amount(currency, amount, delta)
    guarantee = promised(budget, None, "add-remove")
    return {
        "value": amount,
        "rho": guarantee.rho,
        "epsilon": guarantee.epsilon(SHOWN_DELTA if delta is None else delta),
        "success": of_hundred(weakest(budget, None, "add-remove")),
    }


def asked_privacy(body: dict[str, Any]) -> dict[str, Any]:
    """What a budget would promise that stands in no study yet: as in [budget], [plan], [people]."""
    from noiseplan.study.nodes import Document, Node
    from noiseplan.study.settings import read_budget, read_people, read_settings

    document = Document("budget", "", Path())
    budget = read_budget(Node(from_json(body.get("budget")), ("budget",), document))
    plan = {key: body[key] for key in ("neighbours", "noise") if body.get(key) is not None}
    settings = read_settings(Node(plan, ("plan",), document))
    unit = RECORD
    if body.get("unit") is not None or body.get("max_rows") is not None:
        people = {key: body[key] for key in ("max_rows", "unit") if body.get(key) is not None}
        unit = read_people(Node({"person": "person", **people}, ("people",), document)).unit
    return budget_view(budget, settings.noise, settings.neighbours, unit)
