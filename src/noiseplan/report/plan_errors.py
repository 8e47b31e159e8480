"""How precise the tables of a plan are, known before any data is read, and whom that favours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noiseplan.draw.html import Column, Markup, element, joined, table
from noiseplan.draw.svg import share_bar
from noiseplan.texts import error_text
from noiseplan.words.level_errors import level_errors
from noiseplan.words.plan import aim, goal_words, kind_name, largest_text, proved_sentence
from noiseplan.words.printed import telling

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan, TableKind

MOST_KINDS = 200
DATA_AWARE = (
    "Neighbouring values are put into buckets that are chosen from the data, privately, and the "
    "total of a bucket is shared evenly among its values. Answers are therefore biased where "
    "buckets are uneven, and every error on this page is estimated: the noise is known exactly, "
    "the bias is not. Intervals are a guide, no confidence intervals."
)


def plan_errors(plan: Plan) -> Markup:
    """Sentences on what the plan is for, a picture by level, and every kind of table with bars."""
    average = telling(plan).rmse(plan)
    if average is None:
        return element("p", DATA_AWARE)
    words = [element("p", sentence) for sentence in [*_aims(plan), *favoured(plan), nearness(plan)]]
    return joined([*words, _by_level(plan), error_table(plan.fairness(), average)])


def error_table(rows: list[TableKind], average: float) -> Markup:
    """Standard error and largest error of each kind of table as numbers and as bars."""
    ends = [row["worst_std_error"] or row["std_error"] for row in rows[:MOST_KINDS]]
    longest = max(ends, default=1.0) or 1.0
    body = []
    for row, end in zip(rows, ends, strict=False):
        error = row["std_error"]
        ratio = error / average if average > 0 else 1.0
        bar = share_bar(error / longest, over=ratio > 1, reach=end / longest)
        numbers = [f"{row['rows']:,}", error_text(error), largest_text(row["worst_std_error"])]
        body.append([kind_name(row), *numbers, f"{ratio:.2f}", bar])
    columns = [
        Column("table"),
        Column("rows", number=True, spare=True),
        Column("std. error", number=True),
        Column("largest", number=True),
        Column("× average", number=True, spare=True),
        Column("standard error", hidden=True),
    ]
    caption = (
        "Expected standard error of each kind of table, and the largest of its rows; bars reach "
        "to both, and are orange above the average"
    )
    shown = table(caption, columns, body)
    if len(rows) <= MOST_KINDS:
        return shown
    more = f"… and {len(rows) - MOST_KINDS:,} kinds with smaller errors."
    return joined([shown, element("p", more)])


def _by_level(plan: Plan) -> Markup | str:
    """The errors of each level with their bars, where the levels of an attribute are asked."""
    found = level_errors(plan)
    if not found:
        return ""
    longest = max(each.largest for each in found) or 1.0
    rows = [
        [
            each.level,
            each.table,
            error_text(each.std_error),
            largest_text(each.largest),
            share_bar(each.std_error / longest, over=False, reach=each.largest / longest),
        ]
        for each in found
    ]
    columns = [
        Column("level"),
        Column("table"),
        Column("std. error", number=True),
        Column("largest", number=True, spare=True),
        Column("standard error", hidden=True),
    ]
    return table("Standard error by level, from the coarsest to the finest", columns, rows)


def _aims(plan: Plan) -> list[str]:
    """The average error, and what the plan minimised."""
    average = (
        f"The average error is {plan.rmse:.4g}: the root mean square of the standard errors of all "
        f"{plan.workload.rows:,} numbers."
    )
    if plan.noise == "given":
        return [
            average, "The measurements were made elsewhere; these are the best answers they allow."
        ]  # fmt: skip
    if plan.targets is not None:
        return [average, f"The plan is for {aim(plan)}."]
    if plan.objective.at_most is not None:
        return [average, f"The plan is for the {aim(plan)}."]
    return [average, f"The plan aims at the least {goal_words(plan)} at this cost."]


def favoured(plan: Plan) -> list[str]:
    """Who gains and who loses by the objective; nothing where all are alike."""
    rows, average = plan.fairness(), plan.rmse
    best = [row["table"] for row in reversed(rows) if row["std_error"] < average]
    others = [row["table"] for row in rows if row["std_error"] > average]
    if not (best and others):
        return []
    return [
        f"Most favoured: {_some(best)}. Least: {_some(others)}. Weights and objectives decide "
        f"this; a table that matters more than its place needs a weight or a target."
    ]


def nearness(plan: Plan) -> str:
    """How near the plan is to the best there can be, as far as that is proved."""
    if plan.noise == "given":
        return "What was measured is given, so there is nothing better to choose."
    unknown = "How near this is to the best possible is not proved for this objective."
    return proved_sentence(plan) or unknown


def _some(names: list[str], most: int = 3) -> str:
    return ", ".join(f"“{name}”" for name in names[:most])
