"""`noiseplan show`: what was promised, and what was published."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noiseplan.cli import FAILED, DamagedRelease
from noiseplan.cli._common import (
    CONTEXT,
    json_option,
    open_release,
    release_argument,
    require_release_folder,
)
from noiseplan.console import print_json, say
from noiseplan.errors import StorageError
from noiseplan.escaping import visible_name
from noiseplan.texts import counted, error_text, listed
from noiseplan.words.hints import quoted

if TYPE_CHECKING:
    from noiseplan.release.release import Release

SHOWN = 20
LEVEL = 0.95  # of the intervals that answers have, unless asked for others


@click.command(context_settings=CONTEXT)
@release_argument
@click.option("--all", "everything", is_flag=True, help=f"All tables, not the first {SHOWN}.")
@click.option(
    "--check",
    is_flag=True,
    help="Instead: check every file, recompute cost and tables, and say whether it is private.",
)
@json_option
def command(folder: Path, everything: bool, check: bool, as_json: bool) -> None:
    """Print the certificate and the tables of RELEASE, a folder. Every file it needs is checked.

    With --check the whole folder is: every file by its hash, every number of the CSV files by the
    measurements, the certificate by the plan. It exits with 0 if it is as it was written and
    private, with 4 if it is damaged, and with 1 if its noise is not private.
    """
    if check:
        checked(folder, as_json)
        return
    from noiseplan.storage.files import read_json
    from noiseplan.storage.folder import certificate_words
    from noiseplan.storage.table_files import table_files

    release = open_release(folder)
    certificate = read_json(folder / "certificate.json")
    count = len(release.plan.workload)
    shown = count if everything or as_json else min(count, SHOWN)
    tables = [described(release, position) for position in range(shown)]
    if as_json:
        print_json({"certificate": certificate, "tables": tables, "files": table_files(folder)})
        return
    lines = [certificate_words(release, certificate)]
    names = [visible_name(table["table"]) for table in tables]
    wide = max(len("table"), *map(len, names))
    error = {"standard error": "std. error", "estimated error": "est. error"}[tables[0]["error"]]
    half = f"± half the {100 * LEVEL:g} % interval"
    lines.append(f"{'table':<{wide}}  {'rows':>9}  {error:>10}  first estimate {half}")
    for name, table in zip(names, tables, strict=True):
        cell = visible_name(table["first_cell"])
        estimate, spread = table["first_estimate"], table["first_half_width"]
        first = f"{cell}: {estimate:z,.0f} ± {error_text(spread, 3)}" if cell else "–"
        numbers = f"{table['rows']:>9,}  {error_text(table['std_error']):>10}"
        lines.append(f"{name:<{wide}}  {numbers}  {first}")
    if shown < count:
        lines.append(f"… {count - shown:,} more; --all prints them")
    lines.extend(release.left_out)
    lines.append(f"Next: noiseplan answer {folder} {quoted(_answerable(release))}")
    say("\n".join(lines))


def checked(folder: Path, as_json: bool) -> None:
    """Check a folder as a whole, and say what was found."""
    from noiseplan.storage.certificate import privacy_json
    from noiseplan.storage.folder_check import check_folder
    from noiseplan.words.privacy import cost_words

    require_release_folder(folder)
    try:
        found = check_folder(folder)
    except StorageError as error:
        raise DamagedRelease(error.message) from None
    plan, cost = found.release.plan, found.cost
    if as_json:
        chosen = found.release.choice is not None or not plan.of_records
        privacy = privacy_json(cost or plan.privacy, plan.max_rows, chosen, plan.unit)
        about = {"folder": str(folder), "whole": True, "private": found.private}
        tables = {"table_numbers": found.tables.numbers, "not_compared": found.tables.unknown}
        about |= {"files": found.files, "beside": found.beside}
        print_json(about | tables | {"recomputed": privacy})
    else:
        private = "private" if found.private else "NOT PRIVATE, not for publishing"
        # To a billionth, by which computing it anew may differ: a plan that states less is damaged.
        anew = "" if cost is None else "; computed anew from what was measured: no more than that"
        say(f"{folder}: as it was written, and {private}")
        say(f"  files   {found.files:,} have the hashes that SHA256SUMS states")
        if found.tables.numbers:
            numbers = counted(found.tables.numbers, "number")
            say(f"  tables  {numbers} of CSV files computed anew from the measurements: the same")
        if found.tables.unknown:
            say(f"          not compared, of unknown questions: {listed(found.tables.unknown)}")
        say(f"  cost    {cost_words(plan.privacy)}{anew}")
        say(f"  noise   {found.release.brand}")
        say(f"  ledger  {found.release.recorded or 'not recorded in a ledger'}")
        if found.beside:
            say(f"  beside  {listed(found.beside)}: written later, and under no hash")
    if not found.private:
        raise SystemExit(FAILED)


def _answerable(release: Release) -> str:
    """A question that this release was made for: its first table that is more than the total."""
    workload = release.plan.workload
    first = list(islice(workload, SHOWN))
    return next((query for query in first if query.attributes), first[0]).name


def described(release: Release, position: int) -> dict[str, Any]:
    """One table in brief: its size, its error, and its first cell."""
    query = release.plan.workload.query(position)
    if release.plan.mechanism.unlisted(query) is not None:
        return _unlisted(release, position)
    answer = release.answer(query, level=LEVEL)
    labels = [str(values[0]) for values in answer.axes().values()]
    return {
        "table": query.name,
        "rows": query.rows,
        "error": answer.error_name,
        "std_error": answer.typical_error,
        "worst_std_error": float(answer.error.max()),
        "first_cell": ", ".join(labels) or "all",
        "first_estimate": float(answer.estimate[0]) + 0.0,
        "first_error": float(answer.error[0]),
        "first_half_width": float(answer.upper[0] - answer.lower[0]) / 2,
    }


def _unlisted(release: Release, position: int) -> dict[str, Any]:
    """The same of a table with too many rows to be written down."""
    import numpy as np  # loaded with the release by now, and not before --help

    workload = release.plan.workload
    query = workload.query(position)
    sums, _ = release.plan.mechanism.figures_alike(workload, np.array([position]))
    return {
        "table": query.name,
        "rows": query.rows,
        "error": "standard error",
        "std_error": float(np.sqrt(sums[0] / query.rows)),
        "worst_std_error": None,
        "first_cell": "",
        "first_estimate": None,
        "first_error": None,
        "first_half_width": None,
    }
