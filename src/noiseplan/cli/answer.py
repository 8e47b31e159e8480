"""`noiseplan answer`: any question that a release can answer, with its error."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from noiseplan.arrays import plain_columns
from noiseplan.cli._common import (
    CONTEXT,
    json_option,
    open_release,
    release_argument,
    rows_of,
)
from noiseplan.console import print_json, say
from noiseplan.escaping import write_csv_rows

if TYPE_CHECKING:
    from noiseplan.release.answers import Answer
    from noiseplan.schema import Label
    from noiseplan.statistics.statistic import Statistic


SHOWN: Final = 20
Command = TypeVar("Command", bound=Callable[..., Any])


def answer_options(function: Command) -> Command:
    """A question or a condition, how intervals are made, and how answers are printed."""
    for option in (
        json_option,
        click.option("--all", "everything", is_flag=True, help=f"All rows, not the first {SHOWN}."),
        click.option("--csv", "as_csv", is_flag=True, help="Print CSV, for spreadsheets."),
        click.option(
            "--simultaneous", is_flag=True, help="Intervals that hold for all rows at once."
        ),
        click.option(
            "--level", type=float, default=0.95, show_default=True, help="Of the intervals."
        ),
        click.option("--where", help="Instead of a question: how many satisfy this condition."),
        click.argument("question", required=False),
    ):  # the last comes first in the help
        function = option(function)
    return function


@click.command(context_settings=CONTEXT)
@release_argument
@answer_options
@click.option(
    "--value",
    "numbers",
    metavar="LABEL=NUMBER",
    multiple=True,
    help="For a mean: the number that a value stands for, as in 99+=104. May be repeated.",
)
def command(
    folder: Path,
    question: str | None,
    where: str | None,
    everything: bool,
    numbers: tuple[str, ...],
    **how: Any,
) -> None:
    """Ask RELEASE, a folder, a QUESTION. Nothing is spent, and no data is needed.

    \b
    age, sex                    a table: one row per value
    age=prefix, sex             up to each age; also ranges, levels(5, 10)
    age=25..34 | 35..44, sex    one row for each group of values
    region=North+South          the sum of two values
    earnings=20..               all bins from an edge on
    county=06037, tract         the tracts of that county, where levels are declared
    total                       everybody
    median(earnings), sex       also mean(age), quantile(age, 0.1, 0.9)
    share(sex), region          of each region; ratio(sex=F, sex=M), region

    The name of a table of the study is a question too. What is not named is summed over. A
    condition is asked as --where "age < 18 and sex = 'F'", or "since >= 2024-01-31".
    """
    from noiseplan.queries.predicates import predicate_query

    require_question(question, where)
    if numbers and where is not None:
        raise click.UsageError("--value is for means, and not for a condition")
    values = dict(map(_value, numbers)) or None
    if values and len(values) < len(numbers):
        raise click.UsageError("--value gives two numbers to one value")
    form = {name: how.pop(name) for name in ("as_csv", "as_json")}
    release = open_release(folder)
    if where is not None:
        answer: Answer | Statistic = release.answer(predicate_query(release.schema, where), **how)
    else:
        answer = release.ask(question or "", values=values, **how)  # level, kind of intervals
    show_answer(answer, everything, **form)


def _value(text: str) -> tuple[Label, float]:
    """A label and the number that it stands for."""
    label, _, number = text.rpartition("=")
    try:
        if label:
            return label.strip(), float(number)
    except ValueError:
        pass
    raise click.UsageError(f"--value is LABEL=NUMBER, as in 99+=104; found {text!r}")


def require_question(question: str | None, where: str | None) -> None:
    """Refuse both a question and a condition, and neither."""
    if question is not None and where is not None:
        raise click.UsageError("give a QUESTION or a condition, --where, not both")
    if question is None and where is None:
        raise click.UsageError('ask a QUESTION, or give a condition: --where "age < 18"')


def show_answer(answer: Answer | Statistic, everything: bool, as_csv: bool, as_json: bool) -> None:
    """Print an answer for people, spreadsheets or programs."""
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    if as_json:
        print_json(answer_json(answer))
    elif as_csv:
        say(answer_csv(answer), nl=False)
    else:
        say(f"{answer.name}\n{answer.text(None if everything else SHOWN)}")


def answer_json(answer: Answer | Statistic) -> dict[str, Any]:
    """An answer for programs: one object per row."""
    return {
        "query": answer.name,
        "level": answer.level,
        "intervals": "simultaneous" if answer.simultaneous else "pointwise",
        "covers": answer.covers,
        **({"method": answer.method} if answer.method else {}),
        **({"notes": list(answer.notes)} if answer.notes else {}),
        **({"warning": answer.brand} if answer.brand else {}),
        "rows": rows_of(_known(answer.columns())),
    }


def _known(found: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Columns; what is not known, and limits that are not there, are left empty."""
    return {
        name: [None if isinstance(v, float) and not isfinite(v) else v for v in values]
        for name, values in plain_columns(found).items()
    }


def answer_csv(answer: Answer | Statistic) -> str:
    """An answer for spreadsheets, with as many digits as its error leaves a meaning."""
    from noiseplan.storage.table_files import with_fitting_digits

    columns = _known(with_fitting_digits(answer.columns()))
    text = io.StringIO()
    write_csv_rows(text, [columns, *zip(*columns.values(), strict=True)], line_end="\n")
    return text.getvalue()
