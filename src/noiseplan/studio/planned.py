"""The figures of a plan as the page draws them: the numbers that the command line gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Final

from noiseplan.escaping import visible
from noiseplan.mechanisms.agreement import MOST_QUERIES, agreement
from noiseplan.planning.certify import usual_certificate
from noiseplan.planning.plan import Plan, TableKind
from noiseplan.planning.threads import calm_threads
from noiseplan.progress import progress
from noiseplan.queries import Workload
from noiseplan.storage.certificate import plan_figures
from noiseplan.studio.privacy_view import privacy_view, unit_of
from noiseplan.studio.public_files import Desk
from noiseplan.studio.views import entry_workload
from noiseplan.study import Study, StudyError
from noiseplan.words.level_errors import level_errors
from noiseplan.words.plan import aim, considered_words, optimality_words, proved_sentence

# More tables than this are told by their kinds.
MOST_TABLES: Final = 2000

MOST_ENTRIES: Final = 40


def plan_view(study: Study, plan: Plan) -> dict[str, Any]:
    """Everything about a plan, for the page."""
    figures = plan_figures(plan)
    common = {
        "title": study.title,
        "privacy": privacy_view(plan.privacy, unit_of(study), plan.budget),
        "noise": plan.noise,
        "planner": plan.planner,
        "considered": considered_words(plan.considered) if plan.considered else "",
        "rows": plan.workload.rows,
        "queries": len(plan.workload),
        "left_out": len(study.workload) - len(plan.workload),
        "least": study.budget is None,
        "seconds": plan.seconds,
        "agreement": agreement_words(plan),
        "printed": str(plan),
        "figures": figures,
    }
    if figures["rmse"] is None:
        unknown = dict.fromkeys(("rmse", "largest", "total_variance", "lower_bound", "gap"))
        return common | unknown | {"data_aware": True, "optimality": [], "tables": [], "levels": []}
    certificate = None if plan.noise == "given" else usual_certificate(plan)
    worst = [row["worst_std_error"] for row in figures["tables"]]
    known = [error for error in worst if error is not None]
    return common | {
        "data_aware": False,
        "rmse": plan.rmse,
        "largest": max(known) if len(known) == len(worst) else None,
        "total_variance": plan.total_variance,
        "lower_bound": figures["lower_bound"],
        "gap": finite(certificate.gap) if certificate else plan.gap,
        "optimal": figures["optimal"],
        "optimality": [text for text in (optimality_words(plan), proved_sentence(plan)) if text],
        "aim": aim(plan),
        "objective": str(plan.objective),
        "target_scale": plan.target_scale,
        "numbers": plan.measured_numbers,
        "memory": plan.memory,
        "by_kind": len(plan.workload) > MOST_TABLES,
        "tables": table_views(study, plan),
        "levels": [each._asdict() for each in level_errors(plan)],
    }


def agreement_words(plan: Plan) -> str:
    """Say which tables add up to each other and which do not; nothing of a single table."""
    count = len(plan.workload)
    if count < 2:
        return ""
    few = count <= MOST_QUERIES
    groups = plan.mechanism.agreeing(list(plan.workload) if few else [])
    if groups is None or any(len(group) == count for group in groups):
        return "All tables agree: a number that follows from several of them is the same in each."
    if not few:
        return "Not all tables agree: of so many it is not said which do."
    named = agreement(plan.mechanism, plan.workload) or "none agrees with another"
    return visible(f"Not all tables agree, so sums of one may differ from another: {named}.")


def finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def table_views(study: Study, plan: Plan) -> list[dict[str, Any]]:
    """Every table in the order of the study; of very many, one of each kind."""
    if len(plan.workload) > MOST_TABLES:
        return [_table(study, plan, row) | {"tables": row["tables"]} for row in plan.fairness()]
    places = entry_places(study, plan.workload)
    rows = zip(plan.tables(), plan.workload, places, strict=True)
    return [
        {"section": section, "index": index, **_table(study, plan, row), "cells": query.rows}
        for row, query, (section, index) in rows
    ]


def _table(study: Study, plan: Plan, row: TableKind) -> dict[str, Any]:
    return {
        "name": row["table"],
        "rows": row["rows"],
        "std_error": row["std_error"],
        "largest": row["worst_std_error"],
        "ratio": row["std_error"] / plan.rmse if plan.rmse > 0 else 1.0,
        "weight": row["weight"],
        "target": target_error(study, row["table"]),
    }


def target_error(study: Study, name: str) -> float | None:
    """The standard error that a table may have at most, where that was said."""
    targets = study.targets
    if targets is None:
        return None
    variance = targets if isinstance(targets, int | float) else targets.get(name)
    return None if variance is None else math.sqrt(variance)


def entries(study: Study) -> list[tuple[str, int, Workload]]:
    """Every entry of the study with its tables."""
    sections = study.root.keys("")
    return [
        (section, index, entry_workload(section, node, study.schema))
        for section in ("tables", "predicates")
        if section in sections
        for index, node in enumerate(sections[section].items(""))
    ]


def entry_places(study: Study, workload: Workload) -> list[tuple[str, int]]:
    """For every table that is planned, the first entry of the study that asks for it."""
    first: dict[object, tuple[str, int]] = {}
    for section, index, asked in entries(study):
        for query in asked:
            first.setdefault(query.named or query.key, (section, index))
            first.setdefault(query.key, (section, index))
    return [first[query.named or query.key] for query in workload]


def planning_report(desk: Desk, designs: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """One page about some designs, for those who decide; all of them are planned for it."""
    from noiseplan.report import Design, planning_page

    made = []
    for design in designs:
        study = desk.study(design["text"])
        with calm_threads(study.schema):
            plan = study.plan()
        made.append(Design(design["name"], study.title, study.purpose, plan, design["text"]))
    return {"html": planning_page(made)}


# ---------------------------------------------------------------------- what entries cost


@dataclass(frozen=True)
class Rest:
    """A study without one of its entries."""

    section: str
    index: int
    name: str
    study: Study


def effects(study: Study, tell: Callable[[list[dict[str, Any]]], None]) -> list[dict[str, Any]]:
    """For every entry, how much smaller the error of all others is without it, biggest first.

    Where the study asks for the least cost of its targets, errors stay and the cost falls: then
    the gain is that of ρ (or of ε for pure DP), and None without the last entry that has targets.
    `tell` is called with what is known so far.
    """
    rests = without_each(study)[:MOST_ENTRIES]
    if not rests:
        return []
    whole = study.plan()
    whole.mechanism.require_unbiased(
        StudyError("errors of the planner dawa depend on the data: nothing can be compared")
    )
    found: list[dict[str, Any]] = []
    with progress("leaving tables out, one entry at a time", len(rests)) as advance:
        for rest in rests:
            found.append(_effect(rest, whole))
            found.sort(
                key=lambda each: -math.inf if each["gain"] is None else each["gain"], reverse=True
            )
            tell(list(found))
            advance(1)
    return found


def _effect(rest: Rest, whole: Plan) -> dict[str, Any]:
    what = "privacy" if rest.study.budget is None else "error"
    place = {"section": rest.section, "index": rest.index, "name": rest.name}
    return {**place, "gain": _gain(rest.study, whole), "what": what}


def _gain(study: Study, whole: Plan) -> float | None:
    aim = study.objective
    if study.budget is None and study.targets is None and (aim is None or aim.at_most is None):
        return None
    less = study.plan()
    if study.budget is None:
        return 1.0 - less.privacy.amount / whole.privacy.amount
    before = rmse_of(whole, less.workload)
    return 1.0 - less.rmse / before if before > 0 else 0.0


def rmse_of(plan: Plan, asked: Workload) -> float:
    """The root mean square error that a plan has over the rows of some of its tables."""
    error = {
        query.named or query.key: row["std_error"]
        for query, row in zip(plan.workload, plan.tables(), strict=True)
    }
    squares = sum(query.rows * error[query.named or query.key] ** 2 for query in asked)
    return math.sqrt(squares / asked.rows)


def without_each(study: Study) -> list[Rest]:
    """The study without each of its entries; none where that leaves nothing."""
    every = entries(study)
    if len(every) < 2:
        return []
    return [
        Rest(section, index, _called(asked), _rest(study, [*every[:at], *every[at + 1 :]]))
        for at, (section, index, asked) in enumerate(every)
    ]


def _called(asked: Workload) -> str:
    first, others = asked.query(0).name, len(asked) - 1
    return f"{first} and {others:,} more" if others else first


def _rest(study: Study, kept: list[tuple[str, int, Workload]]) -> Study:
    workload = reduce(add, (asked for _, _, asked in kept))
    if study.settings.weighting is not None:
        workload = workload.weighted(study.settings.weighting)
    targets = study.targets
    if isinstance(targets, Mapping):
        names = {query.name for query in workload}
        targets = {name: each for name, each in targets.items() if name in names} or None
    return replace(study, workload=workload, targets=targets, tables=None)
