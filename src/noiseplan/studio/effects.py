"""What each entry of a study costs the others: by how much they gain if it is left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Final

from noiseplan.planning.plan import Plan
from noiseplan.progress import progress
from noiseplan.queries import Workload
from noiseplan.studio.planned import entries
from noiseplan.study import Study, StudyError

MOST_ENTRIES: Final = 40


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
