"""`noiseplan plan`: the errors that a study will have, before any data is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from noiseplan.cli._common import (
    CONTEXT,
    json_option,
    left_out_words,
    outside_option,
    study_argument,
    warned,
    without_target,
)
from noiseplan.console import print_json, say
from noiseplan.escaping import visible_name
from noiseplan.planning.threads import calm_threads
from noiseplan.privacy.doubts import doubts
from noiseplan.progress import waiting
from noiseplan.queries import Levels, Workload
from noiseplan.study import Study, read_study

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan

FROM_LISTS: Final = "nothing was read but its code lists"


@click.command(context_settings=CONTEXT)
@study_argument
@click.option("--all", "every", is_flag=True, help="List every table, not kinds of them.")
@click.option(
    "--report",
    "page",
    metavar="FILE.html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write a page for those who decide: what is promised, and how precise it will be.",
)
@outside_option
@json_option
def command(
    study: Path, every: bool, page: Path | None, allow_outside: bool, as_json: bool
) -> None:
    """Print and draw the errors that STUDY will have. Spends nothing.

    Reads no data: only STUDY, and the code lists that it names.
    """
    read = read_study(study, allow_outside=allow_outside)
    with calm_threads(read.schema):
        with waiting("planning"):
            plan = read.plan()
        if page is not None:
            write_report(read, plan, page)
        from noiseplan.words.plan import NO_DATA
        from noiseplan.words.printed import telling

        told, left_out = telling(plan), without_target(read)
        if as_json:
            from noiseplan.storage.certificate import plan_figures

            lists = [str(path) for path in read.code_lists]
            about = {"study": str(study), "title": read.title, "code_lists": lists}
            about |= {} if page is None else {"page": str(page)}
            about |= {"left_out": [query.name for query in left_out]} if left_out else {}
            tables = told.tables(plan) if every else []
            each = {"tables": tables} if tables else {}
            print_json({**about, **plan_figures(plan), **each})
            return
        facts = told.facts(plan, FROM_LISTS if read.code_lists else NO_DATA)
    for doubt in doubts(plan.budget or plan.privacy):
        warned(doubt)
    # Only here: what draws is not needed for --json, nor for messages.
    from rich.console import Console

    from noiseplan.draw.terminal import draw_errors

    if read.title:
        say(read.title, bold=True)
    wide = told.width
    say(facts)
    if left_out:
        say(f"  {'left out':<{wide}}{left_out_words(left_out)}")
    if read.code_lists:
        names = ", ".join(shown_list(path, study.parent) for path in read.code_lists)
        say(f"  {'code lists':<{wide}}{names}: what they hold is taken to be public")
    if read.people is not None:
        rows = read.people.max_rows
        counted = "one record counts" if rows == 1 else f"at most {rows} records count"
        say(f"  {'people':<{wide}}of each, {counted}; the privacy is that of a {plan.unit}")
    for asked in levels_asked(plan.workload):
        say(f"  {'levels':<{wide}}{asked}")
    average = told.rmse(plan)
    if average is None:
        say(f"Try it on public data: noiseplan compare {study} EXAMPLE --planner dawa")
    else:
        say()
        console = Console(highlight=False)
        if every:
            draw_errors(console, plan.tables(), average, most=len(plan.workload))
        else:
            draw_errors(console, plan.fairness(), average)
    if page is not None:
        say(f"wrote {page}; open it in a browser")


def write_report(study: Study, plan: Plan, page: Path) -> None:
    """The planning report of one study."""
    from noiseplan.cli.report import replace_file
    from noiseplan.report import Design, planning_page

    document = study.root.document
    design = Design(document.name, study.title, study.purpose, plan, document.text)
    replace_file(page, planning_page([design]))


def levels_asked(workload: Workload) -> Iterator[str]:
    """What levels of an attribute ask for that a study need not write: single values, and all."""
    for attribute, number in workload.pairs():
        levels = workload.columns.distinct[number]
        if isinstance(levels, Levels) and (levels.leaves or levels.total):
            asked = ["its single values"] if levels.leaves else []
            asked += [f"groups of {each}" for each in levels.groups if isinstance(each, int)]
            asked += ["groups by name"] * any(not isinstance(each, int) for each in levels.groups)
            asked += ["all values together"] if levels.total else []
            spared = ["leaves = false"] * levels.leaves + ["total = false"] * levels.total
            name = visible_name(workload.schema.names[attribute])
            yield f"{name}: {', '.join(asked)} (fewer with {', '.join(spared)})"


def shown_list(path: Path, folder: Path) -> str:
    """A code list by its name, or by its whole path where it lies outside the study's folder."""
    inside = path.resolve().is_relative_to(folder.resolve())
    return path.name if inside else str(path)
