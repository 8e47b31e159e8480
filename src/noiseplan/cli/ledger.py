"""`noiseplan ledger`: budgets on disk, what was spent, and whether the file can be trusted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from noiseplan.cli import InOrder
from noiseplan.cli._common import CONTEXT, json_option, warned
from noiseplan.console import print_json, say, say_json
from noiseplan.ledger import Balance, Change, Entry, Ledger, LedgerError, Told
from noiseplan.ledger.export import balance_json, change_json, entry_json, told_json
from noiseplan.privacy import GDP, ApproxDP, Budget, Guarantee, Neighbours, zCDP
from noiseplan.privacy.doubts import doubts
from noiseplan.privacy.people import PERSON, unit_text
from noiseplan.privacy.rounding import text_up
from noiseplan.texts import one_line

SHOWN: Final = 10
BUDGETS: Final = "budget: --zcdp RHO, --gdp MU or --approx-dp EPSILON DELTA"
Row = Entry | Told | Change
Command = TypeVar("Command", bound=Callable[..., Any])

path_argument = click.argument("path", metavar="LEDGER", type=click.Path(path_type=Path))
dataset_argument = click.argument("dataset")
bound_option = click.option(
    "--max-rows",
    type=click.IntRange(min=1),
    help="The most records that one person has in the data, if known: costs are then a person's.",
)


@click.group(cls=InOrder, context_settings=CONTEXT)
def command() -> None:
    """Keep the privacy budgets of datasets, and what was spent.

    LEDGER is a file. It is made by `init`; each dataset gets its budget by `open`; a release
    charges it before noise is drawn, and is refused when it does not fit.
    """


def budget_options(function: Command) -> Command:
    """A budget in one of three currencies."""
    approx = ("--approx-dp", "EPSILON DELTA", "(ε, δ)-DP.", 2)
    gdp = ("--gdp", "MU", "μ-Gaussian DP.", 1)
    zcdp = ("--zcdp", "RHO", "ρ-zero-concentrated DP.", 1)
    for name, metavar, text, count in (approx, gdp, zcdp):  # the last comes first in the help
        option = click.option(name, type=float, nargs=count, metavar=metavar, help=text)
        function = option(function)
    alone = click.option("--epsilon", hidden=True, expose_value=False, callback=_without_delta)
    return alone(function)


def _without_delta(_: click.Context, __: click.Parameter, epsilon: str | None) -> None:
    """ε alone is no budget of a ledger, and an option that looks like it would be guessed."""
    if epsilon is not None:
        raise click.UsageError(f"ε and δ stand together: --approx-dp {epsilon} 1e-9, or --zcdp RHO")


def the_one(asked: str, options: dict[str, Any]) -> Budget:
    """The one budget, or cost, that was given by an option."""
    given = {name: value for name, value in options.items() if value is not None}
    if len(given) != 1:
        raise click.UsageError(f"give one {asked}")
    ((name, value),) = given.items()
    if name == "approx_dp":
        return ApproxDP(*value)
    return zCDP(value) if name == "zcdp" else GDP(value)


def questioned(budget: Budget) -> Budget:
    """A budget, and aloud what speaks against it."""
    for doubt in doubts(budget):
        warned(doubt)
    return budget


@command.command()
@path_argument
def init(path: Path) -> None:
    """Make a new, empty ledger."""
    if path.exists():
        raise LedgerError(
            f"{str(path)!r} is there already and was left alone. Look at it with: "
            f"noiseplan ledger show {path}"
        )
    Ledger(path, create=True)
    say(f"made {path}. Next: noiseplan ledger open {path} DATASET --zcdp RHO")


@command.command("open")
@path_argument
@dataset_argument
@budget_options
@click.option(
    "--neighbours",
    type=click.Choice(["add-remove", "replace"]),
    default="add-remove",
    show_default=True,
    help="What one record may change: it is added or removed, or replaced by another.",
)
@click.option("--note", default="", help="Anything worth keeping. Exports show it.")
@bound_option
@json_option
def open_(
    path: Path,
    dataset: str,
    neighbours: Neighbours,
    note: str,
    max_rows: int | None,
    as_json: bool,
    **budget: Any,
) -> None:
    """Give DATASET its budget, for all releases together and for ever."""
    chosen = questioned(the_one(BUDGETS, budget))
    opened = Ledger(path).open_dataset(
        dataset, chosen, neighbours=neighbours, note=note, max_rows=max_rows
    )
    print_balance(opened, as_json)


@command.command()
@path_argument
@dataset_argument
@budget_options
@click.option("--reason", required=True, help="Why; it stays in the history.")
@bound_option
@json_option
def change(
    path: Path, dataset: str, reason: str, max_rows: int | None, as_json: bool, **budget: Any
) -> None:
    """Change the budget of DATASET, on record."""
    chosen = questioned(the_one(BUDGETS, budget))
    changed = Ledger(path).change_budget(dataset, chosen, reason=reason, max_rows=max_rows)
    print_balance(changed, as_json)


@command.command()
@path_argument
@dataset_argument
@click.option("--zcdp", type=float, metavar="RHO", help="It is ρ-zCDP.")
@click.option("--gdp", type=float, metavar="MU", help="It is μ-GDP.")
@click.option("--purpose", default="", help="What it is for. Exports show it.")
@click.option(
    "--max-rows",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Records of one person that the cost is the price of.",
)
@json_option
def spend(
    path: Path, dataset: str, purpose: str, max_rows: int, as_json: bool, **costs: Any
) -> None:
    """Charge DATASET for a release made by other means. Do it before the noise is drawn."""
    given = the_one("cost: --zcdp RHO or --gdp MU", costs)
    ledger = Ledger(path)
    cost = Guarantee.of_budget(given, ledger.balance(dataset).neighbours)
    entry = ledger.spend(dataset, cost, purpose=purpose, max_rows=max_rows)
    if as_json:
        say_json(json.dumps(entry_json(entry)))
    else:
        say(f"charged ρ = {text_up(cost.rho)} as entry {entry.id}")


@command.command()
@path_argument
@click.argument("entry", type=int)
@click.argument("outcome", type=click.Choice(["released", "failed"]))
@click.option("--note", default="", help="What happened.")
def settle(path: Path, entry: int, outcome: str, note: str) -> None:
    """Note how ENTRY ended, if a crash left it open. It stays charged either way."""
    ledger = Ledger(path)
    (ledger.mark_released if outcome == "released" else ledger.mark_failed)(entry, note=note)
    say(f"entry {entry} is {outcome}; it stays charged")


@command.command()
@path_argument
@click.argument("dataset", required=False)
@click.option("--all", "everything", is_flag=True, help=f"All entries, not the last {SHOWN}.")
@json_option
def show(path: Path, dataset: str | None, everything: bool, as_json: bool) -> None:
    """Print budgets and their changes, what is spent and left, releases, checks and refusals."""
    ledger = Ledger(path)
    names = ledger.datasets() if dataset is None else (dataset,)
    balances, entries = [ledger.balance(name) for name in names], ledger.entries(dataset)
    refusals, checks = ledger.refusals(dataset), ledger.checks(dataset)
    changes = ledger.changes(dataset)
    if as_json:
        content = {
            "head": str(ledger.head()),
            "datasets": [balance_json(balance) for balance in balances],
            "entries": [entry_json(entry) for entry in entries],
            "refusals": [told_json(refusal) for refusal in refusals],
            "checks": [told_json(check) for check in checks],
            "changes": [change_json(change) for change in changes],
        }
        print_json(content)
        return
    for balance in balances:
        say(str(balance))
        every: list[Row] = [*entries, *refusals, *checks, *changes]
        own = [each for each in every if each.dataset == balance.dataset]
        for line in entry_lines(own, len(own) if everything else SHOWN):
            say(line)
    if not balances:
        say(f"no datasets yet. Next: noiseplan ledger open {path} DATASET --zcdp RHO")


@command.command()
@path_argument
@click.option("--head", "expected", metavar="COUNT:HASH", help="A head noted earlier.")
@json_option
def verify(path: Path, expected: str | None, as_json: bool) -> None:
    """Read and check everything, and print the head to note down.

    Keep the head where those who can write LEDGER cannot. With it, `verify --head` also finds
    a file that was cut short, restored from an old copy, or written anew.
    """
    head = Ledger(path).verify(expected)
    if as_json:
        say_json(json.dumps({"head": str(head), "rows": head.count, "verified": True}))
        return
    say(
        f"{head.count} rows, every one as it was written"
        + (", and the head that was given is among them" if expected else "")
    )
    say(f"head {head}")


@command.command()
@path_argument
@click.option(
    "--format",
    "kind",
    type=click.Choice(["json", "csv", "dp-accounting"]),
    default="json",
    show_default=True,
    help="dp-accounting: names and arguments of that package's events.",
)
@click.option("--dataset", help="One dataset only.")
@click.option("-o", "--output", type=click.File("w", encoding="utf-8", lazy=True), default="-")
def export(path: Path, kind: Any, dataset: str | None, output: Any) -> None:
    """Write the ledger for other programs, to the screen or to a file."""
    text = Ledger(path).export(kind, dataset)
    if output.name == "-":
        say(text, nl=False) if kind == "csv" else say_json(text)
    else:
        output.write(text)  # the file is made here, and not before there is something to write


def print_balance(balance: Balance, as_json: bool) -> None:
    """A balance, for people or programs."""
    if as_json:
        say_json(json.dumps(balance_json(balance)))
    else:
        say(str(balance))


def entry_lines(entries: list[Row], shown: int) -> list[str]:
    """The last entries, changes, checks and refusals in their order, one to a line."""
    earlier = len(entries) - shown
    lines = [f"  … {earlier} earlier; --all prints them"] if earlier > 0 else []
    for each in sorted(entries, key=lambda entry: entry.id)[max(earlier, 0) :]:
        status, cost, what = _told(each)
        when = each.time[:16].replace("T", " ")
        lines.append(f"  {each.id:>5}  {when}  {status:<8}  {cost:<14}  {what}".rstrip())
    return lines


def _told(each: Row) -> tuple[str, str, str]:
    """What happened, what it cost, and what else is to be said."""
    if isinstance(each, Entry):
        unit = "" if each.unit == PERSON else unit_text(each.max_rows, each.unit)
        what = one_line(" · ".join(filter(None, (each.purpose, unit, each.note))), 100)
        pure = each.cost.pure_epsilon
        cost = f"ρ = {text_up(each.cost.rho)}" if pure is None else f"ε = {text_up(pure)} (pure)"
        return each.status, cost, what
    if isinstance(each, Change):
        return "budget", "changed", one_line(f"{_changed(each)} · {each.reason}", 120)
    shown = "details were shown" if each.details else ""
    said = one_line(" · ".join(filter(None, (each.found, shown, each.purpose))), 100)
    return each.kind, "no cost", said


def _changed(change: Change) -> str:
    """What became of a budget: another, or the same with a bound on the records of a person."""
    bound = "" if change.max_rows is None else f", at most {change.max_rows} records of one person"
    if change.before == change.after:
        return f"{change.after}{bound}"
    return f"{change.before} → {change.after}{bound}"
