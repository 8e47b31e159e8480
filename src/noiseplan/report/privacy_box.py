"""What is promised: in one box for everybody, and in every currency for those who compare."""

from __future__ import annotations

from noiseplan.draw.html import Column, Markup, element, joined, table
from noiseplan.privacy import Guarantee
from noiseplan.privacy.guarantee import CONVERSION
from noiseplan.words.privacy import cost_words, currencies, promise

UNIT = "one record"


def promise_box(guarantee: Guarantee, protected: str, unit: str, *more: object) -> Markup:
    """The promise in a few sentences, and its cost; `protected` as a certificate states it."""
    first, *others = promise(guarantee, "record" if protected == UNIT else unit)
    cost = element("p", element("strong", "Cost: "), cost_words(guarantee), ".", class_="small")
    lines = [element("p", first, class_="lead"), *(element("p", words) for words in others)]
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
    how = element("p", f"ε by {CONVERSION[guarantee.law]}.", class_="muted")
    return joined([cards, priced, how])


def card(name: str, value: object) -> Markup:
    """A fact with its name."""
    return element("div", element("dt", name), element("dd", value))
