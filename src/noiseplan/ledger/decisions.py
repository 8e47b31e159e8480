"""What may be recorded, given the books: each function returns the act, or says why not."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from noiseplan.errors import BudgetError
from noiseplan.ledger import texts
from noiseplan.ledger.account import Entry
from noiseplan.ledger.acts import Act, Changed, Opened, Reserved, Settled
from noiseplan.ledger.balance import Balance
from noiseplan.ledger.books import Books
from noiseplan.ledger.chain import Record
from noiseplan.ledger.errors import LedgerError
from noiseplan.ledger.words import refusal, refused_budget
from noiseplan.privacy import Guarantee

Outcome = Literal["released", "failed"]


def opening(books: Books, asked: Balance) -> Opened | None:
    """Open a dataset; None if it is open with the same budget."""
    known = books.balances.get(asked.dataset)
    if known is None:
        _refuse_double(books, asked.dataset)
        return Opened(asked.dataset, asked.budget, asked.limits, asked.neighbours, asked.note)
    if (known.budget, known.neighbours) == (asked.budget, asked.neighbours):
        return None
    raise LedgerError(
        f"dataset {asked.dataset!r} is open with the budget {known.budget}, neighbours "
        f"{known.neighbours}; asked: {asked.budget}, neighbours {asked.neighbours}. A budget "
        f"changes on record only: ledger.change_budget({asked.dataset!r}, …, reason=…)"
    )


def change(books: Books, act: Changed) -> Changed:
    """Change a budget to one that covers what was spent."""
    changed = books.balance(act.dataset).under(act.budget, act.limits)
    if changed.overspent():
        raise refused_budget(changed)
    return act


def spending(books: Books, act: Reserved) -> Reserved:
    """Charge a release that fits."""
    balance = books.balance(act.dataset)
    if not balance.fits(act.guarantee):
        raise refusal(act.guarantee, balance)
    return act


def settling(books: Books, number: int, outcome: Outcome, note: str) -> Act:
    """Settle an entry, once."""
    dataset, status = books.entry(number)
    if status != "reserved":
        raise LedgerError(f"entry {number} is {status} already and cannot become {outcome}")
    return Settled(dataset, number, outcome, note)


def a_guarantee(value: object) -> Guarantee:
    """Refuse what is no guarantee."""
    if not isinstance(value, Guarantee):
        raise BudgetError(f"what is spent is a Guarantee, such as plan.privacy; got {value!r}")
    return value


def entries_of(records: tuple[Record, ...]) -> tuple[Entry, ...]:
    """Every entry charged in these rows, as it stands at their end."""
    found: dict[int, Entry] = {}
    for record in records:
        act = record.act
        if isinstance(act, Reserved):
            found[record.position] = entry_of(record, act)
        elif isinstance(act, Settled):
            found[act.entry] = replace(found[act.entry], status=act.status, note=act.note)
    return tuple(found.values())


def entry_of(record: Record, act: Reserved) -> Entry:
    """The entry that a row charges."""
    what = (act.dataset, act.guarantee, act.purpose, act.plan_hash)
    return Entry(record.position, *what, record.time, record.by)


def _refuse_double(books: Books, name: str) -> None:
    for other in books.balances:
        if texts.alike(name, other):
            raise LedgerError(
                f"dataset {name!r} would be a second budget beside {other!r}, whose name differs "
                f"only in case or form. Use {other!r}, or choose a name that cannot be mistaken"
            )
