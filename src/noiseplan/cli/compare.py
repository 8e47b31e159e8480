"""`noiseplan compare`: the errors of several planners for one study, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noiseplan.cli._common import (
    CONTEXT,
    json_option,
    outside_option,
    rows_of,
    study_argument,
)
from noiseplan.console import print_json, say
from noiseplan.errors import PlanError
from noiseplan.planning.threads import calm_threads
from noiseplan.study import Study, read_study
from noiseplan.words.hints import in_command_line

if TYPE_CHECKING:
    from noiseplan.comparing import Comparison
    from noiseplan.planning.plan import Plan


# What is compared unless it is said: the best that is known, and what is measured without a plan.
USUAL = ("auto", "identity")


@click.command(context_settings=CONTEXT)
@study_argument
@click.argument("example", required=False)
@click.option(
    "--planner",
    "planners",
    multiple=True,
    show_default=", ".join(USUAL),
    help="A planner to compare, as in [plan] planner. Repeat it.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=2),
    default=100,
    show_default=True,
    help="Simulated releases for errors that depend on the data.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="The same figures every time.")
@click.option("--chart", type=click.Path(path_type=Path), help="Draw them: .svg or .html.")
@outside_option
@json_option
def command(
    study: Path, chart: Path | None, allow_outside: bool, as_json: bool, **how: Any
) -> None:
    """Compare the errors of several planners for STUDY. Spends nothing.

    EXAMPLE is a CSV or Parquet file of PUBLIC data: it is read without any protection, and figures
    of it are printed. Only planners whose errors depend on the data, such as dawa, need it; never
    give the confidential data.
    """
    read = read_study(study, allow_outside=allow_outside)
    with calm_threads(read.schema):
        found, left_out = compared(read, **how)
        text = str(found)
    drawn = None if chart is None else found.plot(chart)
    if as_json:
        figures = {"study": str(study), "runs": how["runs"], "plans": plain_rows(found)}
        print_json(figures | ({"left_out": left_out} if left_out else {}))
        return
    say(text)
    for name, reason in left_out.items():
        say(f"  {name} is left out: {reason}")
    if drawn is not None:
        say(f"wrote {drawn}")


def compared(
    study: Study, example: str | None, planners: tuple[str, ...], runs: int, seed: int
) -> tuple[Comparison, dict[str, str]]:
    """Plan with each planner, and compare; and why planners that nobody asked for are left out."""
    from noiseplan.comparing import compare

    plans: dict[str, Plan] = {}
    left_out: dict[str, str] = {}
    for name in dict.fromkeys(planners or USUAL):
        try:
            plans[name] = _planned(study, name)
        except PlanError as error:
            if planners or name == USUAL[0]:
                raise
            left_out[name] = in_command_line(error).partition(". ")[0].partition(": ")[2]
    person = study.people.person if study.people is not None and example is not None else None
    data = study.as_declared(example)
    return compare(plans, data, runs=runs, seed=seed, person=person), left_out


def _planned(study: Study, planner: str) -> Plan:
    """What a planner that is named in the command makes of a study."""
    try:
        return study.plan(planner)
    except PlanError as error:
        raise PlanError(f"--planner {planner}: " + error.message) from None


def plain_rows(found: Comparison) -> list[dict[str, Any]]:
    """One row per plan; what is not there is null."""
    return [
        {
            name: None if value != value or value == float("inf") else value
            for name, value in row.items()
        }
        for row in rows_of(found.columns())
    ]
