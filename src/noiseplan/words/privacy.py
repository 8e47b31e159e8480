"""Privacy in words and in every currency, for people who have to decide."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from noiseplan.planning.plan import decided
from noiseplan.privacy import Guarantee, Law
from noiseplan.privacy.guarantee import (
    CONVERSION,
    SHOWN_DELTA,
    SHOWN_DELTAS,
    asked_for,
    known_mu,
)
from noiseplan.privacy.rounding import text_up

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan

FALSE_ALARMS = 0.05


def cost_words(guarantee: Guarantee) -> str:
    """What is spent, on one line: in the currency of the noise, and in those it implies."""
    if not math.isfinite(guarantee.pcost):
        return "not known here: the measurements were made elsewhere"
    return words_for(guarantee).spent(guarantee)


def decided_words(plan: Plan) -> str:
    """Return the (ε, δ) that was decided, in words; nothing where another budget was."""
    return asked_for(decided(plan))


def conversion_words(guarantee: Guarantee) -> str:
    """Return how ε follows from what is known of the noise."""
    discrete = guarantee.law == "zcdp" and guarantee.mu2 is not None
    return CONVERSION["discrete" if discrete else guarantee.law]


def accounted_words(guarantee: Guarantee) -> str:
    """Return by what discrete Gaussian noise is accounted where its exact curve is not known."""
    return ", accounted by zCDP" if guarantee.law == "zcdp" and guarantee.mu2 is None else ""


def brief_cost(guarantee: Guarantee, digits: int = 6) -> str:
    """What is spent in the currency of the noise alone."""
    words = words_for(guarantee)
    return f"{words.symbol} = {text_up(words.number(guarantee), digits)}"


@dataclass(frozen=True)
class PromiseWords:
    """How a promise is told, by what is known of the noise."""

    spent: Callable[[Guarantee], str]  # on one line
    symbol: str = "ρ"  # of the currency that it is told in where there is room for one
    number: Callable[[Guarantee], float] = lambda known: known.rho
    noise: str = "Gaussian"
    least: str = "privacy cost"  # what plans for targets make small,
    least_symbol: str = " 2ρ ="  # and its symbol behind that
    planner: bool = False  # whether its planner is told with what is measured
    currencies: Callable[[Guarantee], list[Currency]] = lambda known: []  # of its own


def _by_zcdp(known: Guarantee) -> str:
    mu = known_mu(known)
    gdp = "" if mu is None else f"μ = {text_up(mu)} (GDP), "
    epsilon = text_up(known.epsilon(SHOWN_DELTA), 4)
    return f"ρ = {text_up(known.rho)} (zCDP), {gdp}ε = {epsilon} at δ = {text_up(SHOWN_DELTA)}"


WORDS: Final[Mapping[Law, PromiseWords]] = {
    "gaussian": PromiseWords(_by_zcdp),
    "zcdp": PromiseWords(_by_zcdp),
    "pure": PromiseWords(
        lambda known: f"ε = {text_up(known.amount)} (pure DP), ρ = {text_up(known.rho)} (zCDP)",
        symbol="ε",
        number=lambda known: known.amount,
        noise="Laplace",
        least="ε",
        least_symbol="",
        planner=True,
        currencies=lambda known: [
            Currency("pure DP", f"ε = {text_up(known.amount)}, δ = 0", "adds up over publications")
        ],
    ),
}


def words_for(guarantee: Guarantee) -> PromiseWords:
    """How this promise is told."""
    return WORDS[guarantee.law]


# What is said of a total that is public, by how it is told: as it is, with noise, or not at all.
TOTAL: Final[Mapping[bool | None, str]] = {
    True: " and exact",
    False: ", though these tables tell it with noise",
    None: "",
}


def neighbours_words(plan: Plan, exact: bool | None = None) -> str:
    """What one may change without much being seen of it; `exact`: the total is told as it is."""
    most = f"at most {plan.max_rows}" if plan.max_rows > 1 else "of which one counts"
    if plan.privacy.neighbours == "replace":
        one = "replacing one record"
        if not plan.of_records:
            one = f"other values in the records of one {plan.unit}, {most}"
        return f"differ by {one}; the total is public{TOTAL[exact]}"
    if not plan.of_records:
        return f"differ by all records of one {plan.unit}, {most}"
    return "differ by adding or removing one record"


@dataclass(frozen=True)
class Currency:
    """One way to state the same promise."""

    name: str
    value: str
    meaning: str


@lru_cache(maxsize=1024)
def success_bound(guarantee: Guarantee, false_alarms: float = FALSE_ALARMS) -> float:
    """How often, at most, a test finds a record that is there.

    Notes
    -----
    Let a test say "there" with probability α when the record is not there, and β when it is. An
    (ε, δ) promise, applied to the test and to its complement, gives for every ε

        β ≤ e^ε α + δ(ε)    and    β ≤ 1 − e^(−ε) (1 − α − δ(ε)).

    Every ε of a grid gives a valid bound, and the least is taken. For Gaussian noise the exact
    trade-off β = Φ(Φ⁻¹(α) + μ) is used (Dong, Roth and Su 2022); δ is rounded up in either case.
    """
    if not math.isfinite(guarantee.pcost):
        return 1.0
    mu = known_mu(guarantee)
    if mu is not None:
        from scipy.special import ndtr, ndtri

        return min(1.0, float(ndtr(ndtri(false_alarms) + mu)))
    if guarantee.pcost == 0:
        return false_alarms
    best = 1.0
    for epsilon in np.geomspace(1e-4, max(guarantee.epsilon(1e-9), 1e-3), 200).tolist():
        delta = guarantee.delta(epsilon)
        caught = math.exp(min(epsilon, 700.0)) * false_alarms + delta
        missed = 1.0 - math.exp(-epsilon) * (1.0 - false_alarms - delta)
        best = min(best, caught, missed)
    return best


def promise(guarantee: Guarantee, unit: str = "record") -> list[str]:
    """The promise to one unit, a record or a person, in sentences; numbers rounded up."""
    if not math.isfinite(guarantee.pcost):
        return ["What these numbers promise is not known here: they were measured elsewhere."]
    if guarantee.pcost == 0:
        return [f"Nothing about any single {unit} can be learnt from these numbers."]
    bound = math.ceil(1000 * success_bound(guarantee) - 1e-9) / 10
    alarms = round(100 * FALSE_ALARMS)
    whether = (
        f"whether one {unit} is among the data"
        if guarantee.neighbours == "add-remove"
        else f"which of two {unit}s is among the data"
    )
    sentences = [
        f"Suppose that somebody knows everything about everybody else and studies this publication "
        f"to find out {whether}. A method that gives a false alarm in {alarms} of 100 cases finds "
        f"it in at most {bound:g} of 100 cases; nobody can do better, whatever else they "
        f"know and however much they compute.",
        f"(Without the publication it would be {alarms} of 100; without noise it could be 100.)",
    ]
    if bound > 50:
        sentences.append("That is a weak protection: consider a smaller budget next time.")
    return sentences


def currencies(guarantee: Guarantee) -> list[Currency]:
    """The same promise in every currency."""
    if not math.isfinite(guarantee.pcost):
        return []
    found = [
        *words_for(guarantee).currencies(guarantee),
        Currency(
            "zero-concentrated DP", f"ρ = {text_up(guarantee.rho)}", "adds up over publications"
        ),
    ]
    mu = known_mu(guarantee)
    if mu is not None:
        found.append(Currency("Gaussian DP", f"μ = {text_up(mu)}", "squares add up; exact"))
    else:
        found.append(
            Currency(
                "Gaussian DP",
                "not stated",
                f"does not follow from zCDP; continuous noise of the same ρ has "
                f"μ = {text_up(guarantee.mu)}",
            )
        )
    for delta in SHOWN_DELTAS:
        epsilon = text_up(guarantee.epsilon(delta))
        found.append(
            Currency(
                "approximate DP",
                f"ε = {epsilon} at δ = {text_up(delta)}",
                "the usual way to compare",
            )
        )
    return found


def counted_words(plan: Plan) -> str:
    """Which records of each person were counted, and that no error covers the others."""
    some = "one record" if plan.max_rows == 1 else f"at most {plan.max_rows} records"
    others = "any others are left out, which no error or interval covers"
    return f"of each {plan.unit} {some}, drawn at random; {others}"
