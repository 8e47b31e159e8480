"""Privacy in words and in every currency, for people who have to decide."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from noiseplan.privacy import Guarantee
from noiseplan.privacy.guarantee import SHOWN_DELTA, SHOWN_DELTAS, known_mu
from noiseplan.privacy.people import PERSON
from noiseplan.privacy.rounding import text_up

FALSE_ALARMS = 0.05


def cost_words(guarantee: Guarantee) -> str:
    """What is spent, on one line: in the currency of the noise, and in those it implies."""
    g = guarantee
    if not math.isfinite(g.pcost):
        return "not known here: the measurements were made elsewhere"
    if g.pure_epsilon is not None:
        return f"ε = {text_up(g.pure_epsilon)} (pure DP), ρ = {text_up(g.rho)} (zCDP)"
    mu = known_mu(g)
    gdp = "" if mu is None else f"μ = {text_up(mu)} (GDP), "
    epsilon = text_up(g.epsilon(SHOWN_DELTA), 4)
    return f"ρ = {text_up(g.rho)} (zCDP), {gdp}ε = {epsilon} at δ = {text_up(SHOWN_DELTA)}"


# What is said of a total that is public, by how it is told: as it is, with noise, or not at all.
TOTAL: Final[Mapping[bool | None, str]] = {
    True: " and exact",
    False: ", though these tables tell it with noise",
    None: "",
}


def neighbours_words(
    guarantee: Guarantee, max_rows: int, exact: bool | None = None, unit: str = PERSON
) -> str:
    """What one may change without much being seen of it; `exact`: the total is told as it is."""
    several = max_rows > 1 or unit != PERSON  # of a household one may count, and others be there
    most = f"at most {max_rows}" if max_rows > 1 else "of which one counts"
    if guarantee.neighbours == "replace":
        one = "replacing one record"
        if several:
            one = f"other values in the records of one {unit}, {most}"
        return f"differ by {one}; the total is public{TOTAL[exact]}"
    if several:
        return f"differ by all records of one {unit}, {most}"
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
        Currency(
            "zero-concentrated DP", f"ρ = {text_up(guarantee.rho)}", "adds up over publications"
        )
    ]
    if guarantee.pure_epsilon is not None:
        epsilon = text_up(guarantee.pure_epsilon)
        found.insert(0, Currency("pure DP", f"ε = {epsilon}, δ = 0", "adds up over publications"))
    mu = known_mu(guarantee)
    if mu is not None:
        found.append(Currency("Gaussian DP", f"μ = {text_up(mu)}", "squares add up; exact"))
    else:
        found.append(
            Currency(
                "Gaussian DP",
                "not stated",
                f"no zCDP bound implies one; continuous noise of the same ρ has "
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
