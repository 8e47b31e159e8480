"""What is promised, in a box for everybody and in every currency, and what another budget buys."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from noiseplan.draw.html import Column, Markup, element, joined, table
from noiseplan.draw.svg import chart, curves
from noiseplan.privacy import Guarantee
from noiseplan.privacy.conversions import lattice_loss
from noiseplan.privacy.guarantee import SHOWN_DELTA
from noiseplan.privacy.rounding import product_up, text_up
from noiseplan.words.plan import largest_text
from noiseplan.words.printed import telling
from noiseplan.words.privacy import (
    conversion_words,
    cost_words,
    currencies,
    decided_words,
    promise,
)

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan

TIMES = (0.25, 0.5, 1.0, 2.0, 4.0)
UNIT = "one record"


def other_budgets(plan: Plan, called: str = "this release") -> Markup:
    """Variances are inversely proportional to ρ, whatever the plan: no planning is needed."""
    guarantee, average = plan.privacy, telling(plan).rmse(plan)
    if average is None:
        return Markup("")
    if not (math.isfinite(guarantee.pcost) and guarantee.pcost > 0):
        return element("p", "The cost is not known or nothing, so there is nothing to compare.")
    costs = [guarantee.rho * times for times in TIMES]
    errors = [average / math.sqrt(times) for times in TIMES]
    columns = [
        Column("budget"),
        Column("ρ", number=True),
        Column(f"ε (δ = {text_up(SHOWN_DELTA)})", number=True),
        Column("error", number=True),
        Column("largest", number=True, spare=True),
    ]
    words = (
        "Variances fall as the budget ρ grows, in proportion: twice the budget makes every "
        "standard error smaller by the factor √2 = 1.41, half of it larger by the same. (Noise of "
        "whole numbers departs from this a little where it is smaller than a few counts.)"
    )
    return joined(
        [
            element("p", words),
            _picture(costs, errors),
            table("Average error against budget", columns, _rows(plan, errors, called)),
        ]
    )


def _picture(costs: list[float], errors: list[float]) -> Markup | str:
    """Error against budget; the plan's own point stands out."""
    if min(errors) <= 0:  # which a logarithmic axis cannot show
        return ""
    points = list(zip(costs, errors, strict=True))
    words = ", ".join(f"{e:.3g} at ρ = {text_up(c, 3)}" for c, e in points)
    drawn = curves([points], ("budget ρ", "average error"), points[TIMES.index(1.0)])
    return chart("Root mean squared error against the privacy budget ρ", words, drawn)


def _rows(plan: Plan, errors: list[float], called: str) -> list[list[str]]:
    worst = float(np.sqrt(np.max(plan.type_worst)))
    rows = []
    for times, error in zip(TIMES, errors, strict=True):
        scaled = scaled_guarantee(plan, times)
        rows.append(
            [
                called if times == 1 else f"{_times(times)} ×",
                text_up(scaled.rho, 4),
                text_up(scaled.epsilon(SHOWN_DELTA), 4),
                f"{error:.4g}",
                largest_text(worst / math.sqrt(times)),
            ]
        )
    return rows


def scaled_guarantee(plan: Plan, times: float) -> Guarantee:
    """The guarantee at so many times ρ; pure privacy has ρ = ε²/2.

    The μ of whole numbers is that of noise which is so much less.
    """
    guarantee = plan.privacy
    scaled = guarantee.at(product_up(guarantee.amount, times ** (guarantee.power / 2)))
    if guarantee.law != "zcdp" or guarantee.mu2 is None:
        return scaled
    loss = lattice_loss(plan.mechanism.least_steps / times)
    return replace(scaled, mu2=product_up(scaled.pcost, loss) if math.isfinite(loss) else None)


def _times(times: float) -> str:
    return {0.25: "¼", 0.5: "½"}.get(times, f"{times:g}")


def promise_box(plan: Plan, protected: str, *more: object) -> Markup:
    """The promise in a few sentences, and its cost; `protected` as a certificate states it."""
    guarantee, pair = plan.privacy, decided_words(plan)
    first, *others = promise(guarantee, "record" if protected == UNIT else plan.unit)
    cost = element("p", element("strong", "Cost: "), cost_words(guarantee), ".", class_="small")
    said = [element("p", element("strong", f"{pair[0].upper()}{pair[1:]}."))] if pair else []
    lines = [*said, element("p", first, class_="lead"), *(element("p", words) for words in others)]
    return element("div", *lines, cost, *more, class_="box promise")


def difference(guarantee: Guarantee, protected: str) -> str:
    """What may differ between two sets of data without much being seen of it."""
    return {
        "add-remove": f"{protected}, there or not there",
        "replace": f"{protected}, replaced by another; how many there are is public",
    }[guarantee.neighbours]


def privacy_in_detail(guarantee: Guarantee, facts: dict[str, str]) -> Markup:
    """Facts as cards, and the same promise in every currency."""
    cards = element("dl", joined(card(*fact) for fact in facts.items()), class_="cards")
    rows = [(each.name, each.value, each.meaning) for each in currencies(guarantee)]
    if not rows:
        return cards
    columns = [Column("currency"), Column("cost, rounded up"), Column("note", spare=True)]
    priced = table("The same promise in every currency", columns, rows)
    how = element("p", f"ε by {conversion_words(guarantee)}.", class_="muted")
    return joined([cards, priced, how])


def card(name: str, value: object) -> Markup:
    """A fact with its name."""
    return element("div", element("dt", name), element("dd", value))
