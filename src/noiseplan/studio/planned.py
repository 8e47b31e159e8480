"""The figures of a plan as the page draws them: the numbers that the command line gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from noiseplan.planning.certify import usual_certificate
from noiseplan.planning.plan import Plan, TableKind
from noiseplan.planning.threads import calm_threads
from noiseplan.queries import Workload
from noiseplan.storage.certificate import plan_figures
from noiseplan.studio.desk import Desk
from noiseplan.studio.privacy_view import privacy_view, unit_of
from noiseplan.studio.views import entry_workload
from noiseplan.study import Study
from noiseplan.words.level_errors import level_errors
from noiseplan.words.plan import aim, considered_words, optimality_words, proved_sentence

# More tables than this are told by their kinds.
MOST_TABLES: Final = 2000


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
        "optimal": plan.optimal,
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
