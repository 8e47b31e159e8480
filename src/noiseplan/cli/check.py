"""`noiseplan check`: would a release go through? Everything is looked at, and nothing spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noiseplan.cli import exit_code
from noiseplan.cli._common import (
    CONTEXT,
    json_option,
    left_out_words,
    outside_option,
    study_argument,
    without_target,
)
from noiseplan.cli.release import (
    after,
    again_option,
    chosen_tables,
    database_options,
    given_option,
    records_of,
    require_new,
    require_writable,
)
from noiseplan.console import print_json, say
from noiseplan.errors import StorageError
from noiseplan.ledger import LedgerError
from noiseplan.planning.threads import calm_threads
from noiseplan.progress import waiting
from noiseplan.release.rehearsal import Checked, refused_by_ledger
from noiseplan.study import Study, read_study
from noiseplan.texts import counted
from noiseplan.words.hints import in_command_line

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan


@click.command(context_settings=CONTEXT)
@study_argument
@click.argument("data")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The folder that the release is to go to. By default the study's own.",
)
@database_options
@given_option
@again_option
@outside_option
@click.option(
    "--details",
    is_flag=True,
    help="Show private values and numbers of rows, for the custodian alone; a ledger keeps that.",
)
@json_option
def command(
    study: Path,
    data: str,
    output: Path | None,
    allow_outside: bool,
    as_json: bool,
    **how: Any,
) -> None:  # how: table, query, given, again and details
    """Look for all that would stop a release of DATA by STUDY. Spends nothing.

    The ledger is asked first; where it refuses, no record is read. Where it does not, DATA are read
    to their end: format, columns, values that are not declared, persons. DATA is what `release`
    takes. What is printed tells
    something of DATA, though no number or value unless you ask for --details: it is for the
    custodian, and where the study names a ledger it is on record there.
    """
    read = read_study(study, allow_outside=allow_outside)
    try:
        read.require_ledger()
    except LedgerError as missing:
        checked = refused_by_ledger(missing)
    else:
        checked = _planned_and_checked(read, data, output, how)
    if as_json:
        print_json(figures(checked))
    else:
        left_out = without_target(read)
        tables = counted(len(read.workload) - len(left_out), "table")
        rows = counted(read.workload.rows - sum(query.rows for query in left_out), "row")
        say(f"{read.title or study.name}: {tables}, {rows}")
        if left_out:
            say(left_out_words(left_out))
        for line in checked.lines(in_command_line):
            say(line)
    if not checked.ok:
        error = checked.problems[0].error
        assert error is not None
        raise SystemExit(exit_code(error))


def _planned_and_checked(
    study: Study, data: str, output: Path | None, how: dict[str, Any]
) -> Checked:
    with calm_threads(study.schema), waiting("planning"):
        plan = study.plan()
    with records_of(data, how["table"], how["query"]) as records:
        left, shown = after(how["given"], plan), how["details"]
        checked = study.check(left, records, details=shown, again=how["again"])
    return with_folder(checked, study, plan, output)


def with_folder(checked: Checked, study: Study, plan: Plan, output: Path | None) -> Checked:
    """The same, with whether the release could be written where it is to go."""
    folder = output or study.new_folder()
    if folder is None:
        return checked
    try:
        require_new(folder)
        require_writable(folder, chosen_tables(study, plan)[0])
    except StorageError as error:
        return checked.with_problem("folder", error)
    return checked


def figures(checked: Checked) -> dict[str, Any]:
    """What was found, for programs."""
    return {
        "ok": checked.ok,
        "read": checked.read,
        "recorded": checked.recorded or None,
        "findings": [
            {
                "about": each.about,
                "said": in_command_line(each.error) if each.error else each.said,
                "kind": "problem" if each.error else "warning" if each.warning else "fine",
            }
            for each in checked.findings
        ],
    }
