"""The books: where every dataset and entry stands after reading the history, row by row.

One set of rules, `Books.check`, judges what is about to be written and what is read back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Final, Literal, final

from noiseplan.errors import BudgetError
from noiseplan.ledger import texts
from noiseplan.ledger.acts import Act, Changed, Opened, Reserved, Settled, Started
from noiseplan.ledger.balance import Balance, cost_text
from noiseplan.ledger.chain import EMPTY, Head, Record, read_record
from noiseplan.ledger.errors import (
    AlreadyFollowed,
    LedgerError,
    UnknownDataset,
    other_unit,
    refusal,
)
from noiseplan.privacy import Guarantee

# Others would need an argument of their own for adding up costs.
COUNTED: Final = ("gaussian", "zcdp")
Status = Literal["reserved", "released", "failed"]


@final
@dataclass(frozen=True)
class Entry:
    """One release charged to a dataset.

    Parameters
    ----------
    id
        Its number: the row of the history that charged it.
    dataset, guarantee, purpose, plan_hash
        What was charged to whom, and for what.
    max_rows
        How many records of one person the cost is the price of.
    follows
        The entry that this one completes, at the price of what was left to pay; else None.
    time, by
        When it was charged, in UTC, and the login name of who did.
    hash
        Of the row that charged it, which depends on all rows before.
    status
        `"reserved"` until it is `"released"` or `"failed"`; a crash leaves it reserved. It counts
        in full whatever its status.
    note
        What was said when it was settled.
    """

    id: int
    dataset: str
    guarantee: Guarantee
    purpose: str
    plan_hash: str
    time: str
    by: str
    hash: str
    status: Status = "reserved"
    note: str = ""
    max_rows: int = 1
    follows: int | None = None

    @classmethod
    def charged(cls, record: Record, act: Reserved) -> Entry:
        """The entry that a row makes."""
        what = (act.dataset, act.guarantee, act.purpose, act.plan_hash)
        row = (record.time, record.by, record.hash)
        return cls(record.position, *what, *row, max_rows=act.unit, follows=act.follows)

    @property
    def head(self) -> Head:
        """The head of the ledger just after the charge.

        Published with the release, it pins down the history up to here: see `Ledger.verify`.
        """
        return Head(self.id, self.hash)


@final
@dataclass
class Books:
    """The sum of the first `head.count` rows. Changes only by reading the next row."""

    head: Head = EMPTY
    balances: dict[str, Balance] = field(default_factory=dict)
    entries: dict[int, Entry] = field(default_factory=dict)
    _spellings: dict[str, str] = field(default_factory=dict)  # folded name → name
    _followed: set[int] = field(default_factory=set)  # entries that others complete

    def balance(self, dataset: str) -> Balance:
        """Where a dataset stands."""
        if dataset not in self.balances:
            raise UnknownDataset(self._unknown(dataset))
        return self.balances[dataset]

    def entry(self, number: int) -> Entry:
        """An entry as it stands."""
        if number not in self.entries:
            raise LedgerError(f"the ledger has no entry {number!r}; ledger.entries() lists them")
        return self.entries[number]

    # ---------------------------------------------------------------------- the rules

    def check(self, act: Act) -> None:
        """Refuse what may not come next, and say why.

        Raises
        ------
        LedgerError, BudgetError
        """
        if isinstance(act, Started) != (self.head == EMPTY):
            raise LedgerError("a ledger starts once, in its first row")
        match act:
            case Opened():
                self._check_opening(act)
            case Changed():
                self._check_change(act)
            case Reserved():
                self._check_charge(act)
            case Settled():
                self._check_settling(act)

    def _check_opening(self, act: Opened) -> None:
        known = self.balances.get(act.dataset)
        if known is not None:
            raise LedgerError(
                f"dataset {act.dataset!r} is open with the budget {known.budget}, neighbours "
                f"{known.neighbours}; asked: {act.budget}, neighbours {act.neighbours}. A budget "
                f"changes on record only: ledger.change_budget({act.dataset!r}, …, reason=…)"
            )
        other = self._spellings.get(texts.folded(act.dataset))
        if other is not None:
            raise LedgerError(
                f"dataset {act.dataset!r} would be a second budget beside {other!r}, whose name "
                f"differs only in case or form. Use {other!r}, or choose a name that cannot be "
                f"mistaken for it"
            )

    def _check_change(self, act: Changed) -> None:
        changed = self.balance(act.dataset).under(act.budget, act.limits)
        if changed.overspent:
            raise BudgetError(
                f"dataset {act.dataset!r} has spent {cost_text(changed.spent, act.budget)} "
                f"already, which is not within {act.budget}; nothing was changed"
            )

    def _check_charge(self, act: Reserved) -> None:
        balance = self.balance(act.dataset)
        if act.guarantee.law not in COUNTED:
            raise BudgetError(
                f"a ledger counts guarantees of the laws {COUNTED}; got {act.guarantee.law!r}. "
                f"State what the release implies in zCDP: Guarantee(2 * rho, law='zcdp')"
            )
        # Rows without the field are from before it was checked here.
        if act.max_rows is not None and balance.max_rows not in (None, act.max_rows):
            raise other_unit(act.max_rows, balance)
        if act.follows is not None:
            self._check_following(act, act.follows)
        if not balance.fits(act.guarantee):
            raise refusal(act.guarantee, balance)

    def _check_following(self, act: Reserved, followed: int) -> None:
        """What is left of a plan after a look is its cost less the look's, but only once."""
        entry = self.entry(followed)
        if entry.dataset != act.dataset:
            raise LedgerError(f"entry {followed} belongs to {entry.dataset!r}")
        if followed in self._followed:
            raise AlreadyFollowed(
                f"entry {followed} of dataset {act.dataset!r} was followed already: what is "
                f"measured after it once more is charged in full"
            )

    def _check_settling(self, act: Settled) -> None:
        entry = self.entry(act.entry)
        if entry.dataset != act.dataset:
            raise LedgerError(f"entry {act.entry} belongs to {entry.dataset!r}")
        if entry.status != "reserved":
            raise LedgerError(
                f"entry {act.entry} is {entry.status} already and cannot become {act.outcome}"
            )

    def _unknown(self, dataset: str) -> str:
        names = list(self.balances)
        if not names:
            known = "it has none yet"
        else:
            near = get_close_matches(dataset, names, n=3) or names[:10]
            known = f"it has {len(names)}, among them {', '.join(map(repr, near))}"
        return (
            f"the ledger has no dataset {dataset!r}: {known}. Open it with its budget first: "
            f"ledger.open_dataset({dataset!r}, zCDP(…))"
        )

    # ---------------------------------------------------------------------- reading

    def read(self, position: object, text: object, stored: object) -> Record:
        """Check one stored row and enter it.

        A history that could not have been written is refused even if all its hashes fit.

        Raises
        ------
        ValueError
            Saying which row is at fault and why. These books are then of no more use.
        """
        try:
            record = read_record(self.head, position, text, stored)
            self.check(record.act)
        except (ValueError, LedgerError) as error:  # BudgetError is a ValueError
            raise ValueError(f"row {self.head.count + 1} of the history: {error}") from None
        self._enter(record)
        self.head = Head(record.position, record.hash)
        return record

    def _enter(self, record: Record) -> None:
        match record.act:
            case Opened(dataset, budget, limits, neighbours, note):
                self.balances[dataset] = Balance(dataset, budget, limits, neighbours, note)
                self._spellings[texts.folded(dataset)] = dataset
            case Changed(dataset, budget, limits):
                self.balances[dataset] = self.balances[dataset].under(budget, limits)
            case Reserved(dataset, guarantee) as act:
                self.balances[dataset] = self.balances[dataset].after(guarantee, act.unit)
                self.entries[record.position] = Entry.charged(record, act)
                if act.follows is not None:
                    self._followed.add(act.follows)
            case Settled(_, entry, outcome, note):
                self.entries[entry] = replace(self.entries[entry], status=outcome, note=note)
