"""`noiseplan local`: users who randomize what they report, from a plan to answers."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noiseplan.cli import InOrder
from noiseplan.cli._common import CONTEXT, outside_option, study_argument
from noiseplan.cli.answer import answer_options, show_answer
from noiseplan.console import say
from noiseplan.errors import DataError, QueryError
from noiseplan.privacy import PureDP
from noiseplan.study import read_study

if TYPE_CHECKING:
    from noiseplan.schema import Attribute, Schema
    from noiseplan.study import Study

file_type = click.Path(path_type=Path)
ZIP = b"PK\x03\x04"  # how plans and aggregates begin, and packets do not


@click.group(cls=InOrder, context_settings=CONTEXT)
def command() -> None:
    """Count users who randomize their own reports, and trust nobody.

    `plan` writes two files: DEVICE for the devices, PLAN for the server. Both are public. They are
    made once and shared: reports that belong to another plan are left out.
    """


@command.command()
@study_argument
@click.option("-o", "--output", required=True, type=file_type, help="The plan, for the server.")
@click.option("--device", required=True, type=file_type, help="What devices draw from.")
@click.option("--epsilon", type=float, help="ε of one report; by default [budget] pure_dp.")
@outside_option
def plan(
    study: Path, output: Path, device: Path, epsilon: float | None, allow_outside: bool
) -> None:
    """Plan what users report for the tables of STUDY. Reads no data."""
    from noiseplan.local import plan as plan_reports

    read = read_study(study, allow_outside=allow_outside)
    made = plan_reports(read.workload, _epsilon(read, epsilon))
    say(str(made))
    say(f"wrote {made.randomizer().save(device)} for devices, {made.save(output)} for the server")


def _epsilon(study: Study, given: float | None) -> float:
    """The ε of one report, as it was given or as the study says."""
    if given is not None:
        return given
    if isinstance(study.budget, PureDP):
        return study.budget.epsilon
    raise click.UsageError(
        "say how private one report is: --epsilon 1.0, or [budget] pure_dp = 1.0 in the study"
    )


@command.command()
@click.argument("device", type=file_type)
@click.argument("values", nargs=-1)
@click.option("--data", type=file_type, help="Instead of VALUES: a CSV file, one user per line.")
@click.option("-o", "--output", type=file_type, help="With --data: where all reports go.")
def randomize(
    device: Path, values: tuple[str, ...], data: Path | None, output: Path | None
) -> None:
    """Draw the report of one user from DEVICE: VALUES are NAME=VALUE. Costs ε each time.

    Prints the report in hexadecimal. With --data it writes the reports of many users as one packet.
    """
    from noiseplan.local import load_randomizer

    randomizer = load_randomizer(device)
    if (data is None) == (not values) or (data is None) != (output is None):
        raise click.UsageError("give NAME=VALUE for one user, or --data USERS.csv -o REPORTS")
    if data is None or output is None:
        pairs = dict(value.partition("=")[::2] for value in values)
        columns = {name: [text] for name, text in pairs.items()}
        row = {name: column[0] for name, column in _read(columns, randomizer.schema).items()}
        say(randomizer.report(row).hex())
        return
    reports = randomizer.reports(_read(_columns(data), randomizer.schema))
    output.write_bytes(randomizer.packet(reports))
    say(f"wrote {len(reports):,} reports of {randomizer.payload_bytes} bytes to {output}")


def _columns(path: Path) -> dict[str, list[str]]:
    """The columns of a CSV file as text."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file)
        names, users = next(rows, []), [row for row in rows if row]
    short = [row for row in users if len(row) != len(names)]
    if not names or short:
        raise DataError(f"{path.name} is no CSV file: a line of names, then one line per user")
    return {name: [row[i] for row in users] for i, name in enumerate(names)}


def _read(columns: dict[str, list[str]], schema: Schema) -> dict[str, list[Any]]:
    """Columns of text as values of the attributes; those of no attribute are left out."""
    known = {name: column for name, column in columns.items() if name in schema}
    return {name: [_value(text, schema[name]) for text in column] for name, column in known.items()}


def _value(text: str, attribute: Attribute) -> Any:
    """What a text stands for: a label as it is shown, or a number to be put into a bin."""
    labels = {str(label): label for label in attribute.labels}
    if text in labels:
        return labels[text]
    try:
        return float(text)
    except ValueError:
        return text


@command.command()
@click.argument("plan_file", metavar="PLAN", type=file_type)
@click.argument("reports", nargs=-1, required=True, type=file_type)
@click.option("-o", "--output", required=True, type=file_type, help="The aggregate, a new file.")
def aggregate(plan_file: Path, reports: tuple[Path, ...], output: Path) -> None:
    """Count REPORTS, files of packets or earlier aggregates, for PLAN."""
    from noiseplan.local import load_aggregator, load_plan

    made = load_plan(plan_file).aggregator()
    for path in reports:
        with path.open("rb") as file:
            head = file.read(len(ZIP))
        if head == ZIP:
            made += load_aggregator(path)
        else:
            made.read(path)
    if not made.users:
        found = ", ".join(f"{n:,} {why}" for why, n in made.rejected.items()) or "nothing"
        raise DataError(
            f"no report was counted ({found}), and nothing was written: reports are files that "
            f"devices of this plan wrote, or noiseplan local randomize with -o"
        )
    made.save(output)
    rejected = "".join(f", {count:,} {why}" for why, count in sorted(made.rejected.items()))
    say(f"counted {made.users:,} reports{rejected}; wrote {output}")


@command.command()
@click.argument("aggregate_file", metavar="AGGREGATE", type=file_type)
@click.argument("question")
@answer_options
def answer(aggregate_file: Path, question: str, everything: bool, **how: Any) -> None:
    """Ask AGGREGATE a QUESTION, as in noiseplan answer. Nothing is spent."""
    from noiseplan.local import load_aggregator
    from noiseplan.queries.questions import ask_query

    made = load_aggregator(aggregate_file)
    if made.workload is None:
        raise QueryError(
            f"{str(aggregate_file)!r} was written before aggregates kept their questions: count "
            f"again with a plan, noiseplan local aggregate PLAN {aggregate_file} -o AGGREGATE"
        )
    form = {name: how.pop(name) for name in ("as_csv", "as_json")}
    query = ask_query(question, made.workload.schema, made.workload)
    show_answer(made.answer(query, **how), everything, **form)
