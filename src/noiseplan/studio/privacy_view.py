"""What a budget promises, in every currency and in sentences, before anything is planned."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from noiseplan.errors import BudgetError
from noiseplan.noise.law import SIMULATED
from noiseplan.privacy import GDP, ApproxDP, Budget, Guarantee, Neighbours, PureDP, zCDP
from noiseplan.privacy.doubts import doubts
from noiseplan.privacy.guarantee import SHOWN_DELTA, SHOWN_DELTAS, known_mu
from noiseplan.privacy.rounding import product_up
from noiseplan.studio.toml_text import from_json
from noiseplan.study import Study
from noiseplan.words.privacy import currencies, promise, success_bound

# Where a slider begins and ends, in its own currency.
RANGES: Final = {"zcdp": (1e-4, 10.0), "gdp": (0.01, 5.0), "approx_dp": (0.05, 20.0)}
RANGES_PURE: Final = (0.05, 20.0)
STOPS: Final = 60
RECORD: Final = "record"


def promised(budget: Budget, noise: str | None, neighbours: Neighbours) -> Guarantee:
    """The most that a plan within a budget may cost, with the noise that it will have."""
    if isinstance(budget, PureDP):
        return Guarantee.pure(budget.epsilon, neighbours)
    if noise in SIMULATED:
        return Guarantee(budget.gaussian_pcost(), "gaussian", neighbours)
    return Guarantee(product_up(2.0, budget.zcdp_rho()), "zcdp", neighbours)


def study_privacy(study: Study) -> dict[str, Any] | None:
    """What the budget of a study promises; nothing where targets or at_most decide the cost."""
    if study.budget is None:
        return None
    guarantee = promised(study.budget, study.settings.noise, study.neighbours)
    return privacy_view(guarantee, unit_of(study), study.budget)


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
        "currencies": [each.__dict__ for each in currencies(guarantee)],
        "doubts": doubts(budget or guarantee),
    }


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
    noise = "gaussian" if isinstance(budget, GDP) else None
    guarantee = promised(budget, noise, "add-remove")
    return {
        "value": amount,
        "rho": guarantee.rho,
        "epsilon": guarantee.epsilon(SHOWN_DELTA if delta is None else delta),
        "success": of_hundred(guarantee),
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
    return privacy_view(promised(budget, settings.noise, settings.neighbours), unit, budget)
