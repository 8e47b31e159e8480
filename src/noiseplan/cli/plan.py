"""`noiseplan plan`: the errors that a study will have, before any data is read."""

from __future__ import annotations

from pathlib import Path

import click

from noiseplan.cli._common import (
    CONTEXT,
    calm_threads,
    is_aware,
    json_option,
    plan_figures,
    print_json,
    study_argument,
)
from noiseplan.study import read_study


@click.command(context_settings=CONTEXT)
@study_argument
@json_option
def command(study: Path, as_json: bool) -> None:
    """Print and draw the errors that STUDY will have. Reads no data and spends nothing."""
    read = read_study(study)
    with calm_threads(read.schema):
        plan = read.plan()
        if as_json:
            print_json({"study": str(study), "title": read.title, **plan_figures(plan)})
            return
        facts = str(plan).partition("\n\n")[0]  # the tables are drawn instead
    from rich.console import Console

    from noiseplan.cli._chart import draw_errors

    if read.title:
        click.echo(click.style(read.title, bold=True))
    click.echo(facts)
    if read.people is not None:
        rows = read.people.max_rows
        counted = "one record counts" if rows == 1 else f"at most {rows} records count"
        wide = 13 if is_aware(plan) else 12
        click.echo(f"  {'people':<{wide}}of each, {counted}; the privacy is that of a person")
    if is_aware(plan):
        click.echo(f"Try it on public data: noiseplan compare {study} EXAMPLE --planner dawa")
        return
    click.echo()
    draw_errors(Console(highlight=False), plan.fairness(), plan.rmse)
