"""`noiseplan local`: users who randomize what they report, from a plan to answers."""

from __future__ import annotations

import csv
import hashlib
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from noiseplan.cli import InOrder
from noiseplan.cli._common import CONTEXT, outside_option, study_argument
from noiseplan.cli.answer import answer_options, require_question, show_answer
from noiseplan.console import say
from noiseplan.counting.text_files import read_header
from noiseplan.errors import DataError, QueryError, StorageError
from noiseplan.privacy import PureDP
from noiseplan.schema.spelling import AS_USUAL, Spelling, misread
from noiseplan.study import read_study
from noiseplan.texts import counted

if TYPE_CHECKING:
    from noiseplan.local import Aggregator
    from noiseplan.queries import Query, Workload
    from noiseplan.schema import Attribute, Schema
    from noiseplan.study import Study

file_type = click.Path(path_type=Path)
force_option = click.option("--force", is_flag=True, help="Write over files that are there.")
ZIP = b"PK\x03\x04"  # how plans and aggregates begin, and packets do not
HEXADECIMAL = re.compile(r"(?:[0-9a-fA-F]{2})+")
LONGEST = 1 << 20  # of a line of text
WHOLE = "; a packet that was cut or changed is one, however many reports it held"


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
@force_option
@outside_option
def plan(
    study: Path,
    output: Path,
    device: Path,
    epsilon: float | None,
    force: bool,
    allow_outside: bool,
) -> None:
    """Plan what users report for the tables of STUDY. Reads no data."""
    from noiseplan.local import plan as plan_reports

    require_free(force, output, device)
    read = read_study(study, allow_outside=allow_outside, priced=False)
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
@click.option(
    "--study", type=file_type, help="Numbers and missing values are written as its [data] says."
)
@force_option
@outside_option
def randomize(
    device: Path,
    values: tuple[str, ...],
    data: Path | None,
    output: Path | None,
    study: Path | None,
    **how: bool,
) -> None:
    """Draw the report of one user from DEVICE: VALUES are NAME=VALUE. Costs ε each time.

    Prints the report in hexadecimal. With --data it writes the reports of many users as one packet.
    """
    from noiseplan.local import load_randomizer

    randomizer = load_randomizer(device)
    if (data is None) == (not values) or (data is None) != (output is None):
        raise click.UsageError("give NAME=VALUE for one user, or --data USERS.csv -o REPORTS")
    spelling = AS_USUAL
    if study is not None:
        spelling = _spelling(study, randomizer.schema, how["allow_outside"])
    if data is None or output is None:
        columns = {name: [text] for name, _, text in (value.partition("=") for value in values)}
    else:
        require_free(how["force"], output)
        columns = _columns(data, randomizer.schema)
    if study is None:
        _require_one_meaning(columns, randomizer.schema)
    read = _read(columns, randomizer.schema, spelling)
    if output is None:
        say(randomizer.report({name: column[0] for name, column in read.items()}).hex())
        return
    reports = randomizer.reports(read)
    output.write_bytes(randomizer.packet(reports))
    say(f"wrote {counted(len(reports), 'report')} of {randomizer.payload_bytes} bytes to {output}")


def _spelling(study: Path, schema: Schema, outside: bool) -> Spelling:
    """How the study's `[data]` says that text is written; it must be the device's study."""
    read = read_study(study, allow_outside=outside, priced=False)
    if read.workload.schema != schema:
        raise DataError(
            f"{str(study)!r} declares other attributes than the device has: name the study that "
            f"noiseplan local plan was given"
        )
    return read.spelling


def _require_one_meaning(columns: dict[str, list[str]], schema: Schema) -> None:
    """Refuse numbers that might have marks between thousands, or decimal commas, and mean others.

    They may be anybody's, and are not shown.
    """
    for name in schema.names:
        if misread(columns.get(name, ()), schema[name]):
            raise DataError(
                f"a number of {name!r} can be read in two ways, as 1.234 and 1,234 can: say how "
                f"numbers are written, --study STUDY.toml; its [data] has decimal and thousands. "
                f"Nothing was reported"
            )


def _columns(path: Path, schema: Schema) -> dict[str, list[str]]:
    """The columns of a CSV file as text, whatever separates them."""
    header = read_header(str(path), schema.names)
    if header is None:
        raise DataError(f"cannot read {path}: no such file is there")
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file, delimiter=header.mark)
        names, users = next(rows, []), [row for row in rows if row]
    short = [row for row in users if len(row) != len(names)]
    if not names or short:
        raise DataError(f"{path.name} is no CSV file: a line of names, then one line per user")
    return {name: [row[i] for row in users] for i, name in enumerate(names)}


def _read(
    columns: dict[str, list[str]], schema: Schema, spelling: Spelling
) -> dict[str, list[Any]]:
    """Columns of text as values of the attributes; those of no attribute stay what they are."""
    return {
        name: [_value(text, schema[name], spelling) for text in column]
        if name in schema
        else column
        for name, column in columns.items()
    }


def _value(text: str, attribute: Attribute, spelling: Spelling) -> Any:
    """What a text stands for: a label as it is shown, or a number to be put into a bin.

    A text that is empty is a missing value, as in every other file.
    """
    labels = {str(label): label for label in attribute.labels}
    if text in labels:
        return labels[text]
    if not text.strip() or text.strip() in spelling.missing:
        return None
    number = spelling.as_number(text)
    return text if number is None else number


@command.command()
@click.argument("plan_file", metavar="PLAN", type=file_type)
@click.argument("reports", nargs=-1, required=True)
@click.option("-o", "--output", required=True, type=file_type, help="The aggregate, a new file.")
@click.option(
    "--repeated",
    is_flag=True,
    help="Count files that are alike all the same: they are of different users.",
)
@force_option
def aggregate(
    plan_file: Path, reports: tuple[str, ...], output: Path, repeated: bool, force: bool
) -> None:
    """Count REPORTS for PLAN: files of packets, of lines in hexadecimal, or earlier aggregates.

    A report in hexadecimal, as `randomize` prints it, may stand in the place of a file. A file that
    was counted before, here or in one of the aggregates, is refused: its users would count twice.
    """
    from noiseplan.local import load_plan

    require_free(force, output)
    made = empty = load_plan(plan_file).aggregator()
    seen: dict[str, Counted] = {}
    left_out: dict[str, Counter[str]] = {}
    for name in reports:
        some = counted_from(name, empty)
        own = Counted(name, some.users, some.sources)
        for source in sorted(own.sources):
            if source in seen and not repeated:
                raise own.twice(seen[source])
            seen[source] = own
        left_out[name] = some.rejected
        made += some
    if not made.users:
        raise DataError(
            f"no report was counted ({_kinds(made.rejected) or 'nothing'}), and nothing was "
            f"written: reports are files that devices of this plan wrote, or noiseplan local "
            f"randomize with -o"
        )
    made.save(output)
    for name, faults in left_out.items():
        if faults:
            say(f"Warning: of {name!r} {_kinds(faults)} left out{WHOLE}", err=True)
    rejected = f", {_kinds(made.rejected)}" if made.rejected else ""
    say(f"counted {counted(made.users, 'report')}{rejected}; wrote {output}")


class Counted(NamedTuple):
    """What is known of a file that was counted: its users, and the files it is made of."""

    name: str
    users: int
    sources: frozenset[str]

    def twice(self, earlier: Counted) -> DataError:
        """Two files with some of the same reports: one that holds no others can be left out."""
        less, more = (earlier, self) if self.users > earlier.users else (self, earlier)
        remedy = f"Leave out {less.name!r}, which holds no others"
        if not less.sources <= more.sources:
            remedy = "Each holds others too: count the files that devices wrote, each once"
        return DataError(
            f"{self.name!r} was counted already, as {earlier.name!r} or a part of it: its users "
            f"would count twice, and nothing was written. {remedy}; if they are different users "
            f"whose reports are alike, add --repeated"
        )


def _kinds(rejected: Counter[str]) -> str:
    """How many reports were left out, by why."""
    return ", ".join(f"{count:,} {why}" for why, count in sorted(rejected.items()))


def counted_from(name: str, empty: Aggregator) -> Aggregator:
    """What a file holds, or a single report that stands in its place, counted."""
    from noiseplan.local import load_aggregator

    path, fresh = Path(name), replace(empty, rejected=Counter())
    if HEXADECIMAL.fullmatch(name) and not path.exists():
        fresh.add(bytes.fromhex(name))
        return fresh
    with path.open("rb") as file:
        head = file.read(len(ZIP))
        digest = hashlib.file_digest(file, "sha256") if head != ZIP else None
    if digest is None:
        return load_aggregator(path)
    lines = _hexadecimal_lines(path)
    if lines is None:
        fresh.read(path)
    else:
        fresh.add_many(lines)
    # The head is told apart already; with it, two files are alike only if all of them is.
    return replace(fresh, sources=frozenset([head.hex() + digest.hexdigest()]))


def _hexadecimal_lines(path: Path) -> list[bytes] | None:
    """The reports of a text file, one to a line as `randomize` prints them; None for packets.

    A line that was cut, or is none of ours, stands for a report without bytes, which is malformed.
    """
    with path.open("rb") as file:
        if not file.readline(LONGEST).strip().isalnum():
            return None
    lines = path.read_bytes().decode("ascii", "replace").split("\n")
    found = [HEXADECIMAL.fullmatch(line.strip()) for line in lines if line.strip()]
    return [bytes.fromhex(line[0]) if line else b"" for line in found] if any(found) else None


def require_free(force: bool, *paths: Path) -> None:
    """Refuse, before anything is drawn or planned, to write over files that are there."""
    for path in paths:
        if path.exists() and not force:
            raise StorageError(
                f"{str(path)!r} is there already and was left alone; choose a new name, or write "
                f"over it with --force"
            )


@command.command()
@click.argument("aggregate_file", metavar="AGGREGATE", type=file_type)
@answer_options
def answer(
    aggregate_file: Path, question: str | None, where: str | None, everything: bool, **how: Any
) -> None:
    """Ask AGGREGATE a QUESTION about counts, as in noiseplan answer. Nothing is spent.

    A condition is asked as --where "age < 18 and sex = 'F'".
    """
    from noiseplan.local import load_aggregator
    from noiseplan.queries.predicates import predicate_query

    require_question(question, where)
    made = load_aggregator(aggregate_file)
    if made.workload is None:
        raise QueryError(
            f"{str(aggregate_file)!r} was written before aggregates kept their questions: count "
            f"again with a plan, noiseplan local aggregate PLAN {aggregate_file} -o AGGREGATE"
        )
    form = {name: how.pop(name) for name in ("as_csv", "as_json")}
    if where is not None:
        query = predicate_query(made.workload.schema, where)
    else:
        query = _asked(question or "", made.workload)
    show_answer(made.answer(query, **how), everything, **form)


def _asked(question: str, workload: Workload) -> Query:
    """The counts that a line of text asks for."""
    from noiseplan.queries.questions import ask_query, named_query, read_statistic

    named = named_query(question, workload)
    if named is None and read_statistic(question, workload.schema) is not None:
        raise QueryError(
            f"{question!r}: aggregates of local reports answer counts, and no medians, means or "
            f"shares; ask for the counts they are made of, as in NAME or NAME=prefix"
        )
    return named or ask_query(question, workload.schema, workload)
