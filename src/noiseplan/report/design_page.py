"""The planning report: what a publication would promise and how precise it would be.

It is for those who decide, before any data is read, and shows several designs side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from noiseplan.draw.html import Column, Markup, element, joined, table
from noiseplan.draw.svg import SERIES, keys, stacked_bars
from noiseplan.errors import PlanError
from noiseplan.mechanisms.agreement import cautions
from noiseplan.privacy.doubts import doubts
from noiseplan.privacy.guarantee import SHOWN_DELTA
from noiseplan.privacy.rounding import text_up
from noiseplan.report.budgets import difference, other_budgets, privacy_in_detail, promise_box
from noiseplan.report.offline_page import anchor, offline_page
from noiseplan.report.plan_errors import MOST_KINDS, plan_errors
from noiseplan.storage.certificate import planned_privacy
from noiseplan.texts import counted
from noiseplan.words.printed import telling
from noiseplan.words.privacy import FALSE_ALARMS, neighbours_words, success_bound

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan

NOTHING_READ: Final = "Planning report. No data was read for it, and nothing was spent."


@dataclass(frozen=True)
class Design:
    """A plan with what the study says of itself.

    Parameters
    ----------
    name
        Tells designs apart: that of the study file, say, or of a variant.
    title
        What would be published.
    purpose
        What it is for; may be empty.
    plan
        The plan made of the study.
    study_text
        The study file, shown at the end.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5})
    >>> plan = nz.plan(nz.Query(schema, ["age"]), budget=nz.zCDP(0.5))
    >>> Design("first", "Ages", "a yearly report", plan, "").plan.rmse == plan.rmse
    True
    """

    name: str
    title: str
    purpose: str
    plan: Plan
    study_text: str


def planning_page(designs: Sequence[Design]) -> str:
    """One offline HTML page about one design, or about several side by side.

    Examples
    --------
    >>> import noiseplan as nz
    >>> from noiseplan.report import Design, planning_page
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> plan = nz.plan(nz.Workload.marginals(schema, up_to=2), budget=nz.zCDP(0.5))
    >>> page = planning_page([Design("first", "Ages", "a yearly report", plan, "")])
    >>> "What is promised" in page
    True
    """
    if not designs:
        raise PlanError("a planning report needs a design: planning_page([Design(…)])")
    first = designs[0]
    title = first.title or "A planned publication"
    sections = _alone(first) if len(designs) == 1 else _together(designs)
    return offline_page(f"{title}: planning report", _heading(title, designs), sections)


def _heading(title: str, designs: Sequence[Design]) -> Markup:
    purpose = designs[0].purpose
    several = f" {counted(len(designs), 'design')} side by side." if len(designs) > 1 else ""
    return joined(
        [
            element("h1", title),
            element("p", purpose, class_="lead") if purpose else "",
            element("p", NOTHING_READ + several, class_="muted"),
        ]
    )


# ---------------------------------------------------------------------- one design


def _alone(design: Design) -> dict[str, Markup]:
    plan = design.plan
    parts = {
        "What is promised": _promised(plan),
        "What would be published": _published(plan),
        "How precise the tables would be": plan_errors(plan),
        "What another budget would buy": other_budgets(plan, "this plan"),
        "The promise in every currency": _currencies(plan),
        "The study": _study(design),
    }
    return {title: content for title, content in parts.items() if content.text}


def _promised(plan: Plan) -> Markup:
    warnings = [
        element("p", f"Warning: {doubt}.", class_="warning")
        for doubt in doubts(plan.budget or plan.privacy)
    ]
    differ = neighbours_words(plan)
    scope = element("p", f"Neighbouring sets of data {differ}.", class_="small")
    return joined([promise_box(plan, _protected(plan), scope), *warnings])


def _protected(plan: Plan) -> str:
    """As a certificate will state it."""
    return str(planned_privacy(plan)["unit"])


def _published(plan: Plan) -> Markup:
    """Every table that is asked, in the order of the study, and which agree where not all do."""
    workload = plan.workload
    shown = list(islice(workload, MOST_KINDS))
    rows = [[query.name, ", ".join(query.attributes) or "everybody", f"{query.rows:,}"]
            for query in shown]  # fmt: skip
    columns = [Column("table"), Column("about", spare=True), Column("numbers", number=True)]
    listed = table(
        f"{counted(len(workload), 'table')}, {counted(workload.rows, 'number')}", columns, rows
    )
    more, told = len(workload) - len(shown), " ".join(cautions(plan.mechanism, workload))
    rest = element("p", f"… and {more:,} more tables.") if more else ""
    return joined([listed, rest, element("p", told, class_="box") if told else ""])


def _currencies(plan: Plan) -> Markup:
    protected = difference(plan.privacy, _protected(plan))
    facts = {"What is protected": protected, "Noise": telling(plan).noise(plan)}
    return privacy_in_detail(plan.privacy, facts)


def _study(design: Design) -> Markup:
    if not design.study_text:
        return Markup("")
    words = "The file that makes this plan again: noiseplan plan FILE. It holds nothing private."
    return joined([element("p", words, class_="muted"), element("pre", design.study_text)])


# ---------------------------------------------------------------------- several designs


def _together(designs: Sequence[Design]) -> dict[str, Markup]:
    sections = {
        "Side by side": _compared(designs),
        "Every table, side by side": _tables_compared(designs),
    }
    for name, design in zip(told_apart([each.name for each in designs]), designs, strict=True):
        parts = [
            joined([element("h3", title, id=anchor(f"{name} {title}")), content])
            for title, content in _alone(design).items()
        ]
        own = element("p", design.purpose, class_="lead") if design.purpose else ""
        sections[name] = joined([own, *parts])
    return sections


def told_apart(names: Sequence[str]) -> list[str]:
    """Names of sections that all differ, also in their links.

    Examples
    --------
    >>> told_apart(["a", "b", "a!"])
    ['Design: a', 'Design: b', 'Design 3: a!']
    """
    found: dict[str, str] = {}
    for number, name in enumerate(names, 1):
        title = f"Design: {name}"
        if anchor(title) in found or anchor(title) == "design":
            title = f"Design {number}: {name}"
        found[anchor(title)] = title
    return list(found.values())


# What is compared: its name, and how a plan tells it.
FIGURES: Final[dict[str, Callable[[Plan], str]]] = {
    "tables": lambda plan: f"{len(plan.workload):,}",
    "numbers": lambda plan: f"{plan.workload.rows:,}",
    "what is protected": _protected,
    "cost ρ": lambda plan: _known_cost(plan, plan.privacy.rho),
    f"ε at δ = {text_up(SHOWN_DELTA)}": lambda plan: _known_cost(
        plan, plan.privacy.epsilon(SHOWN_DELTA)
    ),
    f"found, at most, with {FALSE_ALARMS:.0%} false alarms": lambda plan: (
        f"{math.ceil(1000 * success_bound(plan.privacy) - 1e-9) / 10:g}%"
    ),
    "average error": lambda plan: telling(plan).average(plan),
    "largest standard error": lambda plan: telling(plan).largest(plan),
    "nearness to the best": lambda plan: telling(plan).nearness(plan),
}


def _known_cost(plan: Plan, cost: float) -> str:
    return text_up(cost, 4) if math.isfinite(plan.privacy.pcost) else "not known"


def _compared(designs: Sequence[Design]) -> Markup:
    rows = [[name, *(tell(each.plan) for each in designs)] for name, tell in FIGURES.items()]
    columns = [Column("what is compared"), *(Column(each.name) for each in designs)]
    return table("What each design costs and brings", columns, rows)


def _tables_compared(designs: Sequence[Design]) -> Markup:
    """The standard error of every table under each design that has it, with a bar for each."""
    errors = [_errors_by_table(design.plan) for design in designs]
    names = list(dict.fromkeys(name for each in errors for name in each))
    if not names:
        return element("p", "The errors of these designs depend on the data.")
    longest = max(error for each in errors for error in each.values()) or 1.0
    drawn = errors[:SERIES]
    rows = [
        [
            name,
            *(f"{each[name]:.4g}" if name in each else "–" for each in errors),
            stacked_bars([each.get(name, 0.0) / longest for each in drawn]),
        ]
        for name in names[:MOST_KINDS]
    ]
    columns = [
        Column("table"),
        *(Column(each.name, number=True) for each in designs),
        Column("standard errors", hidden=True),
    ]
    legend = keys([each.name for each in designs[:SERIES]])
    shown = table("Standard error of every table; a dash where it is not asked", columns, rows)
    more = len(names) - MOST_KINDS
    note = element("p", f"… and {more:,} more tables.") if more > 0 else ""
    return joined([legend, shown, note])


def _errors_by_table(plan: Plan) -> dict[str, float]:
    return {row["table"]: row["std_error"] for row in telling(plan).tables(plan)}
