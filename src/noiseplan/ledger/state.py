"""The books: where every dataset and entry stands after reading the history, row by row.

One set of rules, `Books.check`, judges what is about to be written and what is read back. Only of
new names more is asked, `Books.require_unlike`, than of those that early ledgers hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Final, Literal, final

from noiseplan.errors import BudgetError, remedy
from noiseplan.ledger import text_checks
from noiseplan.ledger.balance import Balance, spent_text, times
from noiseplan.ledger.chain import EMPTY, Head, Record, read_record
from noiseplan.ledger.errors import (
    LIST_ENTRIES,
    AlreadyFollowed,
    LedgerError,
    UnknownDataset,
    change_budget,
    nobody_after_persons,
    other_people,
    other_unit,
    persons_after_nobody,
    refusal,
)
from noiseplan.ledger.events import (
    Act,
    Changed,
    Looked,
    Opened,
    Refused,
    Reserved,
    Settled,
    Started,
    Tables,
)
from noiseplan.privacy import ApproxDP, Budget, Guarantee
from noiseplan.privacy.people import PERSON, unit_text

# Others would need an argument of their own for adding up costs.
COUNTED: Final = ("gaussian", "zcdp", "pure")
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
    factor
        By how much the cost grows for the records that one person may have in the data, where that
        is on record; see `Balance`.
    time, by
        When it was charged, in UTC, and the login name of who did.
    hash
        Of the row that charged it, which depends on all rows before.
    status
        `"reserved"` until it is `"released"` or `"failed"`; a crash leaves it reserved. It counts
        in full whatever its status.
    note
        What was said when it was settled.
    unit
        Who has the records that the cost is the price of: a person, a household.
    tables
        What it publishes, where that is on record: of each table its name and its attributes, of
        many the first.
    owned
        Whether it is on record whose records were counted.
    of_nobody
        Whether it is on record that nobody said whose they were: all of a person may have counted.

    Examples
    --------
    >>> import tempfile
    >>> from noiseplan.ledger import Ledger
    >>> from noiseplan.privacy import Guarantee, zCDP
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(f"{folder}/budget.ledger", create=True)
    ...     _ = ledger.open_dataset("census", zCDP(1.0))
    ...     with ledger.charge("census", Guarantee(0.5, law="zcdp"), purpose="yearly tables"):
    ...         noisy = 41 + 1  # noise is drawn here
    ...     (entry,) = ledger.entries()
    >>> entry.purpose, entry.status, entry.guarantee.rho
    ('yearly tables', 'released', 0.25)
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
    factor: int = 1
    unit: str = field(default=PERSON, repr=False)
    tables: Tables = field(default=(), repr=False)
    owned: bool = field(default=False, repr=False)
    of_nobody: bool = field(default=False, repr=False)

    @classmethod
    def charged(cls, record: Record, act: Reserved, factor: int = 1) -> Entry:
        """The entry that a row makes."""
        what = (act.dataset, act.guarantee, act.purpose, act.plan_hash)
        row = (record.time, record.by, record.hash)
        return cls(
            record.position,
            *what,
            *row,
            max_rows=act.records,
            follows=act.follows,
            factor=factor,
            unit=act.whose,
            tables=act.tables or (),
            owned=act.unit is not None,
            of_nobody=bool(act.of_nobody),
        )

    @property
    def stated_unit(self) -> str | None:
        """Whose records; None for a charge by hand, which does not say so. Releases always do."""
        by_hand = not self.plan_hash and not self.tables and self.unit == PERSON
        return None if by_hand else self.unit

    @property
    def cost(self) -> Guarantee:
        """What the dataset bears: the guarantee in the unit that its costs are added up in."""
        return times(self.guarantee, self.factor)

    @property
    def head(self) -> Head:
        """The head of the ledger just after the charge.

        Published with the release, it pins down the history up to here: see `Ledger.verify`.
        """
        return Head(self.id, self.hash)


@final
@dataclass(frozen=True)
class Told:
    """Data of a dataset that were read without a release, and something was told of them.

    Parameters
    ----------
    id
        Its number: the row of the history.
    kind
        `"refused"` where the data were refused for what they hold, `"checked"` where somebody
        looked whether they fit, or was warned of something.
    dataset, purpose, plan_hash
        Whose data, and for what they were read.
    found
        What kind of thing was told of them. Values and numbers are not kept.
    details
        Whether somebody asked to be shown them.
    time, by
        When, in UTC, and the login name of who asked.

    Examples
    --------
    >>> import tempfile
    >>> from noiseplan.ledger import Ledger
    >>> from noiseplan.privacy import Guarantee, zCDP
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5})
    >>> plan = nz.plan(nz.Query(schema, ["age"]), budget=zCDP(0.5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(f"{folder}/budget.ledger", create=True)
    ...     _ = ledger.open_dataset("census", zCDP(1.0))
    ...     _ = plan.check({"age": [0, 1, 1]}, ledger=ledger, dataset="census", purpose="tables")
    ...     (check,) = ledger.checks()
    >>> check.dataset, check.purpose
    ('census', 'tables')
    """

    id: int
    kind: Literal["refused", "checked"]
    dataset: str
    found: str
    details: bool
    purpose: str
    plan_hash: str
    time: str
    by: str

    @classmethod
    def noted(cls, record: Record, act: Refused | Looked) -> Told:
        """What a row notes."""
        found = act.refusal if isinstance(act, Refused) else act.found
        what = (act.dataset, found, act.details, act.purpose, act.plan_hash)
        return cls(record.position, act.kind, *what, record.time, record.by)


@final
@dataclass(frozen=True)
class Change:
    """A budget that was replaced by another, on record.

    Parameters
    ----------
    id
        Its number: the row of the history.
    dataset, before, after, reason
        Whose budget, what it was, what it became, and why.
    max_rows
        The most records of one person in the data, where that was declared with it.
    time, by
        When, in UTC, and the login name of who changed it.

    Examples
    --------
    >>> import tempfile
    >>> from noiseplan.ledger import Ledger
    >>> from noiseplan.privacy import Guarantee, zCDP
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(f"{folder}/budget.ledger", create=True)
    ...     _ = ledger.open_dataset("census", zCDP(1.0))
    ...     _ = ledger.change_budget("census", zCDP(2.0), reason="a second survey")
    ...     (change,) = ledger.changes()
    >>> change.after.rho, change.reason
    (2.0, 'a second survey')
    """

    id: int
    dataset: str
    before: Budget
    after: Budget
    reason: str
    max_rows: int | None
    time: str
    by: str


@final
@dataclass
class Books:
    """The sum of the first `head.count` rows. Changes only by reading the next row."""

    head: Head = EMPTY
    balances: dict[str, Balance] = field(default_factory=dict)
    entries: dict[int, Entry] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
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
            raise LedgerError(
                f"the ledger has no entry {number!r}; " + LIST_ENTRIES + " lists them"
            )
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
            case Refused() | Looked():
                self.balance(act.dataset)

    def with_limit(self, act: Act) -> Act:
        """Return an act with the limit that it sets, where it begins to add up within (ε, δ)."""
        limit = None
        if isinstance(act, Reserved) and act.dataset in self.balances:
            before = self.balances[act.dataset]
            after = before.placed(act.guarantee, act.records, act.limit)
            if after is not None and before.rule == "aside":
                limit = after.limit
        elif isinstance(act, Changed) and isinstance(act.budget, ApproxDP):
            limit = self._changed(act).limit
        return replace(act, limit=limit) if isinstance(act, Reserved | Changed) else act

    def require_unlike(self, dataset: str) -> None:
        """Refuse a new name that somebody could take for another's: it would be a second budget.

        Asked when a dataset is opened, and not of the history: early ledgers may hold such names.
        """
        text_checks.require_plain("dataset", dataset)
        for other in self.balances:
            if text_checks.looks(other) & text_checks.looks(dataset):
                raise self._second(dataset, other)

    @staticmethod
    def _second(dataset: str, other: str) -> LedgerError:
        return LedgerError(
            f"dataset {dataset!r} would be a second budget beside {other!r}, whose name looks the "
            f"same or differs only in case or form. Use {other!r}; other people get a name that "
            f"cannot be mistaken for it"
        )

    def require_same_people(self, act: Reserved) -> None:
        """Refuse a charge that does not add up with earlier ones, for whose records it is.

        Asked of what is about to be charged, and not of the history: early ledgers hold such sums.
        """
        balance = self.balance(act.dataset)
        if act.tables is not None and balance.units and act.whose not in balance.units:
            raise other_people(act.whose, balance)
        if act.records > 1 or balance.bound is not None:  # told by the numbers, or priced for all
            return
        for entry in self._entries_of(act.dataset):
            if entry.max_rows == 1 and act.of_nobody and entry.owned:
                raise nobody_after_persons(entry)
            if entry.max_rows == 1 and entry.of_nobody and act.unit is not None:
                raise persons_after_nobody(entry, act.unit, self.balances[act.dataset].budget)

    def _check_opening(self, act: Opened) -> None:
        known = self.balances.get(act.dataset)
        if known is not None:
            raise LedgerError(
                f"dataset {act.dataset!r} is open with the budget {known.budget}, neighbours "
                f"{known.neighbours}; asked: {act.budget}, neighbours {act.neighbours}. A budget "
                f"changes on record only: " + change_budget(act.dataset, type(known.budget))
            )
        other = self._spellings.get(text_checks.folded(act.dataset))
        if other is not None:
            raise self._second(act.dataset, other)

    def _check_change(self, act: Changed) -> None:
        before = self.balance(act.dataset)
        if act.max_rows is not None and act.max_rows < (before.bound or 0):
            raise BudgetError(
                f"dataset {act.dataset!r} was declared to hold up to {before.bound} records of one "
                f"person, and costs were added up for so many; {act.max_rows} would promise more "
                f"than was kept track of. Nothing was changed"
            )
        try:
            self._changed(act)
        except BudgetError:
            rows = act.max_rows
            whose = "" if rows in (None, before.bound) else f" for {unit_text(rows or 1)}"
            raise BudgetError(
                f"dataset {act.dataset!r} has spent {spent_text(before)} already, which is not "
                f"within {act.budget}{whose}; nothing was changed"
            ) from None

    def _check_charge(self, act: Reserved) -> None:
        balance = self.balance(act.dataset)
        if act.guarantee.law not in COUNTED:
            raise BudgetError(
                f"a ledger counts guarantees of the laws {COUNTED}; got {act.guarantee.law!r}. "
                f"State what the release implies in zCDP: Guarantee(2 * rho, law='zcdp')"
            )
        # Rows without the field are from before it was checked here.
        mixed = act.max_rows is not None and balance.max_rows not in (None, act.max_rows)
        if mixed and balance.bound is None:
            entries = self._entries_of(act.dataset)
            raise other_unit(act, balance, any(entry.of_nobody for entry in entries))
        if act.follows is not None:
            self._check_following(act, act.follows)
        if balance.placed(act.guarantee, act.records, act.limit) is None:
            raise refusal(act.guarantee, balance, act.records)

    def _check_following(self, act: Reserved, followed: int) -> None:
        """What is left of a plan after a look is its cost less the look's, but only once."""
        entry = self._own_entry(followed, act.dataset)
        if "pure" in (act.guarantee.law, entry.guarantee.law):
            raise BudgetError(
                f"entry {followed} of dataset {act.dataset!r} is completed at the price of a "
                f"difference, which is known to hold for ρ and μ² and not for pure DP: charge all "
                f"that the release costs by itself"
            )
        if act.records != entry.max_rows:
            raise BudgetError(
                f"entry {followed} of dataset {act.dataset!r} is the price of {entry.max_rows} "
                f"records of one person, and what completes it of {act.records}: charge all that "
                f"the release costs by itself"
            )
        if act.guarantee.mu2 is None and self.balance(act.dataset).rule == "curve":
            raise refusal(act.guarantee, self.balance(act.dataset), act.records)
        if followed in self._followed:
            raise AlreadyFollowed(
                f"entry {followed} of dataset {act.dataset!r} was followed already: what is "
                f"measured after it once more is charged in full"
            )

    def _check_settling(self, act: Settled) -> None:
        entry = self._own_entry(act.entry, act.dataset)
        if entry.status != "reserved":
            raise LedgerError(
                f"entry {act.entry} is {entry.status} already and cannot become {act.outcome}"
            )

    def _own_entry(self, number: int, dataset: str) -> Entry:
        entry = self.entry(number)
        if entry.dataset != dataset:
            raise LedgerError(f"entry {number} belongs to {entry.dataset!r}")
        return entry

    def _unknown(self, dataset: str) -> str:
        names = list(self.balances)
        if not names:
            known = "it has none yet"
        else:
            near = get_close_matches(dataset, names, n=3) or names[:10]
            known = f"it has {len(names)}, among them {', '.join(map(repr, near))}"
        alike = [name for name in names if text_checks.looks(name) & text_checks.looks(dataset)]
        if alike:
            return f"the ledger has no dataset {dataset!r}: did you mean {alike[0]!r}?"
        return (
            f"the ledger has no dataset {dataset!r}: {known}. People who have a budget keep it; "
            f"for others, open one first: "
            + remedy("open dataset", f"ledger.open_dataset({dataset!r}, zCDP(…))", dataset)
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
            if self.with_limit(record.act) != record.act:
                raise ValueError("it states a limit other than its budget admits")
        except (ValueError, LedgerError) as error:  # BudgetError is a ValueError
            raise ValueError(f"row {self.head.count + 1} of the history: {error}") from None
        self._enter(record)
        self.head = Head(record.position, record.hash)
        return record

    def _enter(self, record: Record) -> None:
        match record.act:
            case Opened(dataset, budget, neighbours, note, bound):
                fresh = Balance.opened(dataset, budget, neighbours, note)
                self.balances[dataset] = replace(fresh, bound=bound, max_rows=bound)
                self._spellings[text_checks.folded(dataset)] = dataset
            case Changed(dataset) as act:
                self.changes.append(self._change(record, act))
                balance = self.balances[dataset] = self._changed(act)
                for entry in self._entries_of(dataset):
                    factor = balance.factor(entry.max_rows)
                    self.entries[entry.id] = replace(entry, factor=factor)
            case Reserved(dataset, guarantee) as act:
                balance = self.balances[dataset]
                factor = balance.factor(act.records)
                entry = Entry.charged(record, act, factor)
                unit = entry.stated_unit
                self.balances[dataset] = balance.after(guarantee, act.records, unit, act.limit)
                self.entries[record.position] = entry
                if act.follows is not None:
                    self._followed.add(act.follows)
            case Settled(_, entry, outcome, note):
                self.entries[entry] = replace(self.entries[entry], status=outcome, note=note)
            case Refused(dataset) as act:
                balance = self.balances[dataset]
                self.balances[dataset] = replace(balance, refusals=balance.refusals + 1)
                self.told.append(Told.noted(record, act))
            case Looked(dataset) as act:
                balance = self.balances[dataset]
                self.balances[dataset] = replace(balance, checks=balance.checks + 1)
                self.told.append(Told.noted(record, act))

    def _change(self, record: Record, act: Changed) -> Change:
        before = self.balance(act.dataset).budget
        what = (act.dataset, before, act.budget, act.reason, act.max_rows)
        return Change(record.position, *what, record.time, record.by)

    def _changed(self, act: Changed) -> Balance:
        """The balance under another budget, its costs converted where a bound is declared."""
        before = self.balance(act.dataset)
        spent = [(e.guarantee, e.max_rows, e.stated_unit) for e in self._entries_of(act.dataset)]
        return before.again(act.budget, act.max_rows or before.bound, spent, act.limit)

    def _entries_of(self, dataset: str) -> list[Entry]:
        return [entry for entry in self.entries.values() if entry.dataset == dataset]
