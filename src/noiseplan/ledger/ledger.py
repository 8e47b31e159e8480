"""The ledger: what each dataset may spend and what it has spent, on disk."""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, TypeVar, final

from noiseplan.errors import BudgetError, remedy
from noiseplan.ledger import export, text_checks
from noiseplan.ledger.balance import Balance
from noiseplan.ledger.chain import Head, Record
from noiseplan.ledger.errors import LedgerError
from noiseplan.ledger.events import (
    Act,
    Changed,
    Looked,
    Opened,
    Outcome,
    Refused,
    Reserved,
    Settled,
    Started,
)
from noiseplan.ledger.replay import History
from noiseplan.ledger.state import Books, Change, Entry, Told
from noiseplan.ledger.storage import Storage
from noiseplan.privacy import Budget, Guarantee, Neighbours

Row = TypeVar("Row", Entry, Told, Change, Record)


@final
class Ledger:
    """What datasets may spend and have spent: one file, for any number of processes.

    Parameters
    ----------
    path
        The file. Keep it on a local disk: locks on network folders are not to be trusted.
    create
        Make the file if it is missing. Not the default: a mistyped path is no fresh budget.
    timeout
        Seconds to wait while other processes write, before `LedgerBusy`.
    by
        Who is named in the history; by default the login name.

    Notes
    -----
    Opening reads and checks the whole history; a file that is damaged or was edited is refused.
    Every change is one transaction, on disk before the call returns, never partly there. A ledger
    holds no connection: there is nothing to close, and it can go to threads and processes.

    Examples
    --------
    >>> import tempfile
    >>> from noiseplan.privacy import Guarantee, zCDP
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(f"{folder}/budget.ledger", create=True)
    ...     _ = ledger.open_dataset("census", zCDP(1.0))
    ...     with ledger.charge("census", Guarantee(0.5, law="zcdp"), purpose="yearly tables"):
    ...         noisy = 41 + 1  # noise is drawn here, after the charge is on disk
    ...     print(ledger.balance("census"))
    dataset 'census': budget ρ = 1 (zCDP), neighbours add-remove
      spent  ρ = 0.25, in 1 release
      left   ρ = 0.75
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = False,
        timeout: float = 60.0,
        by: str | None = None,
    ) -> None:
        storage = Storage.at(path, timeout)
        self.path = storage.path
        self._timeout, self._by = timeout, by
        self._history = History(
            storage, text_checks.login() if by is None else text_checks.known("by", by)
        )
        if create:
            self._history.create(Started(secrets.token_hex(16), _software()))
        storage.identify()
        with self._history.current():
            pass

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Ledger, timeout=self._timeout, by=self._by), (str(self.path),)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def __str__(self) -> str:
        with self._history.current() as books:
            first = f"ledger {str(self.path)!r}: {books.head.count} rows"
            return "\n".join([first, *map(str, books.balances.values())])

    # ---------------------------------------------------------------------- datasets and budgets

    def open_dataset(
        self,
        name: str,
        budget: Budget,
        *,
        neighbours: Neighbours = "add-remove",
        note: str = "",
        max_rows: int | None = None,
    ) -> Balance:
        """Give a dataset its budget, once; opening it again with the same changes nothing.

        Parameters
        ----------
        name
            Everything about the same people belongs under one name: budgets of different
            datasets are never added up.
        budget
            `zCDP`, `GDP` or `ApproxDP`: the total over all releases, for ever.
        neighbours
            What the budget protects; every release must be planned with the same.
        note
            Anything worth keeping, for example where the data lie. Exports show it.
        max_rows
            The most records that one person has in the data, if that is known. Costs are then added
            up for a person: one for fewer records, for one record above all, is charged at what it
            is for so many. Without it, releases for different numbers of records are refused.
        """
        Guarantee(0.0, neighbours=neighbours)  # refuses what is not one of the two
        name = text_checks.name("dataset", name)
        most = None if max_rows is None else _checked_rows(max_rows)
        note = text_checks.note("note", note)
        Balance.opened(name, budget)  # refuses what is no budget of a ledger
        act = Opened(name, budget, neighbours, note, most)

        def unless_open(books: Books) -> Act | None:
            known = books.balances.get(name)
            if known is None:
                books.require_unlike(name)
                return act
            same = (known.budget, known.neighbours) == (budget, neighbours)
            return None if same and most in (None, known.bound) else act

        self._history.add(unless_open)
        return self.balance(name)

    def change_budget(
        self, dataset: str, budget: Budget, *, reason: str, max_rows: int | None = None
    ) -> Balance:
        """Raise, lower or restate a dataset's budget, on record.

        Raising a budget weakens what people were promised, so the reason stays in the history.
        What was spent must be within the new budget. `max_rows` declares, from here on and for all
        that was spent, how many records one person has in the data at most; see `open_dataset`.
        """
        reason = text_checks.note("reason", reason)
        if not reason.strip():
            raise LedgerError(
                "a budget changes for a stated reason: "
                + remedy("state reason", "change_budget(…, reason=…)")
            )
        name = text_checks.known("dataset", dataset)
        most = None if max_rows is None else _checked_rows(max_rows)
        Balance.opened(name, budget)
        self._record(Changed(name, budget, reason, most))
        return self.balance(name)

    def datasets(self) -> tuple[str, ...]:
        """The names of all datasets, in the order they were opened."""
        with self._history.current() as books:
            return tuple(books.balances)

    # ---------------------------------------------------------------------- spending

    def spend(
        self,
        dataset: str,
        guarantee: Guarantee | Budget,
        *,
        purpose: str = "",
        plan_hash: str = "",
        max_rows: int = 1,
        follows: Entry | int | None = None,
    ) -> Entry:
        """Charge a release before its noise is drawn.

        Parameters
        ----------
        dataset, guarantee
            What is charged to whom: `plan.privacy`, or what a release made by other means is known
            to have, as zCDP(0.01).
        purpose, plan_hash
            What for.
        max_rows
            How many records of one person the guarantee is the price of. All releases of a dataset
            must have the same, unless it is on record how many records one person has in the data:
            then costs for fewer are converted to so many.
        follows
            The entry that this release completes, where the guarantee is that of both together
            less that entry's. Such a price holds once: a second charge is refused with
            `AlreadyFollowed`.

        Returns
        -------
        Entry
            The charge is on disk. Draw the noise now, then `mark_released` or `mark_failed`.

        Raises
        ------
        BudgetExceeded
            When it does not fit; the message and the exception say what does.
        BudgetError
            When it cannot be charged to this budget at all: other neighbours, another number of
            records of a person, zCDP under GDP.

        Privacy
        -------
        Purpose and notes are kept in clear and exported: put nothing about a person into them.
        """
        return self._spent(reserved(dataset, guarantee, purpose, plan_hash, max_rows, follows))

    def _spent(self, act: Reserved) -> Entry:
        factors: list[int] = []

        def decide(books: Books) -> Act:
            books.require_same_people(act)  # others may have charged since it was asked
            factors.append(books.balance(act.dataset).factor(act.records))
            return act

        record = self._history.add(decide)
        assert record is not None  # an act was given
        return Entry.charged(record, act, factors[-1])

    def ask(
        self,
        dataset: str,
        guarantee: Guarantee | Budget,
        *,
        purpose: str = "",
        plan_hash: str = "",
        max_rows: int = 1,
        follows: Entry | int | None = None,
    ) -> None:
        """Refuse what `spend` would refuse now, and record nothing.

        To be asked before data are read: whoever may not release learns nothing of them.
        """
        self.admit(reserved(dataset, guarantee, purpose, plan_hash, max_rows, follows))

    def admit(self, act: Reserved) -> Balance:
        """The same of a charge that was made by `reserved`; the balance that bears it."""
        with self._history.current() as books:
            books.check(act)
            return books.balance(act.dataset)

    def require_same_people(self, act: Reserved) -> None:
        """Refuse a charge for other people than those of earlier ones; see `spend`."""
        with self._history.current() as books:
            books.require_same_people(act)

    def note_refusal(
        self,
        dataset: str,
        refusal: str,
        *,
        details: bool = False,
        purpose: str = "",
        plan_hash: str = "",
    ) -> None:
        """Record that data were refused for what they hold. It costs nothing.

        Parameters
        ----------
        dataset, purpose, plan_hash
            Whose data, and for what they were read.
        refusal
            What kind of thing was at fault, without any value or number of the data.
        details
            Whether somebody was shown values or numbers.
        """
        name = text_checks.known("dataset", dataset)
        what = text_checks.note("refusal", refusal)
        self._record(Refused(name, what, bool(details), *_what_for(purpose, plan_hash)))

    def note_check(
        self,
        dataset: str,
        found: str,
        *,
        details: bool = False,
        purpose: str = "",
        plan_hash: str = "",
    ) -> None:
        """Record that data were read without a release, and what kind of thing was told of them.

        Parameters as in `note_refusal`; `found` holds no value and no number of the data.
        """
        name = text_checks.known("dataset", dataset)
        what = text_checks.note("found", found)
        self._record(Looked(name, what, bool(details), *_what_for(purpose, plan_hash)))

    def charge(
        self,
        dataset: str,
        guarantee: Guarantee | Budget,
        *,
        purpose: str = "",
        plan_hash: str = "",
        max_rows: int = 1,
        follows: Entry | int | None = None,
    ) -> AbstractContextManager[Entry]:
        """Charge a release around the block that makes it, and record how the block ended.

        An exception in the block marks the entry failed. It stays charged: noise may have been
        drawn, and seen. Only the exception's type is recorded, as its message may show data.
        """
        act = reserved(dataset, guarantee, purpose, plan_hash, max_rows, follows)
        return self.charging(act)

    @contextmanager
    def charging(self, act: Reserved) -> Iterator[Entry]:
        """The same for a charge that was made by `reserved`."""
        entry = self._spent(act)
        try:
            yield entry
        except BaseException as error:
            try:
                self.mark_failed(entry, note=type(error).__name__)
            except LedgerError as second:  # the first error is the one to see
                error.add_note(f"entry {entry.id} stays reserved, and charged: {second}")
            raise
        try:
            self.mark_released(entry)
        except LedgerError as error:
            # The release is made and paid for: it must not be lost for want of a remark.
            message = f"entry {entry.id} is charged and stays reserved: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=3)

    def mark_released(self, entry: Entry | int, *, note: str = "") -> None:
        """Record that the release of an entry was made."""
        self._settle(entry, "released", note)

    def mark_failed(self, entry: Entry | int, *, note: str = "") -> None:
        """Record that the release of an entry came to nothing. It stays charged."""
        self._settle(entry, "failed", note)

    def _settle(self, entry: Entry | int, outcome: Outcome, note: str) -> None:
        number = entry.id if isinstance(entry, Entry) else entry
        note = text_checks.note("note", note)
        self._history.add(lambda books: Settled(books.entry(number).dataset, number, outcome, note))

    # ---------------------------------------------------------------------- looking

    def balance(self, dataset: str) -> Balance:
        """A dataset's budget, what is spent and what is left."""
        with self._history.current() as books:
            return books.balance(text_checks.known("dataset", dataset))

    def entries(self, dataset: str | None = None) -> tuple[Entry, ...]:
        """Every release charged to a dataset, or to any, with its present status."""
        with self._history.current() as books:
            return _about(dataset, books, books.entries.values())

    def refusals(self, dataset: str | None = None) -> tuple[Told, ...]:
        """Every time that data of a dataset, or of any, were refused for what they hold."""
        return self._told("refused", dataset)

    def checks(self, dataset: str | None = None) -> tuple[Told, ...]:
        """Every time that data of a dataset, or of any, were read without a release."""
        return self._told("checked", dataset)

    def _told(self, kind: str, dataset: str | None) -> tuple[Told, ...]:
        with self._history.current() as books:
            return _about(dataset, books, [each for each in books.told if each.kind == kind])

    def changes(self, dataset: str | None = None) -> tuple[Change, ...]:
        """Every time that the budget of a dataset, or of any, became another, and why."""
        with self._history.current() as books:
            return _about(dataset, books, books.changes)

    def history(self, dataset: str | None = None) -> tuple[Record, ...]:
        """Every row about a dataset, or simply every row, read and checked anew."""
        return self._replay(dataset)[1]

    def head(self) -> Head:
        """How long the history is and its last hash, for a safe place; see `verify`."""
        with self._history.current() as books:
            return books.head

    def verify(self, expected_head: Head | str | None = None) -> Head:
        """Read and check everything: pages, hashes, order, and that no row breaks a rule.

        Parameters
        ----------
        expected_head
            A head noted earlier, where those who can write the file cannot. It must still be part
            of the history, which may have grown since. Without it, a file restored from an old
            copy or written anew from end to end looks like any other.

        Returns
        -------
        Head
            The present one, to be noted.

        Raises
        ------
        LedgerDamaged
            Saying what is wrong, and at which row.
        """
        expected = None if expected_head is None else Head.parse(expected_head)
        return self._history.replay(expected)[0].head

    def export(self, format: export.Format = "json", dataset: str | None = None) -> str:
        """The ledger as text for other programs, read and checked anew.

        Parameters
        ----------
        format
            `"json"`: balances and history, with the hashes. `"csv"`: the history, a line per row.
            `"dp-accounting"`: names and arguments of that package's events, which need not be
            installed; `events` makes the objects.
        dataset
            One dataset only.
        """
        return export.to_text(format, *self._replay(dataset))

    def events(self, dataset: str) -> Any:
        """The releases of a dataset as a `ComposedDpEvent` of dp-accounting, none understated.

        Notes
        -----
        A cost already says how far neighbours are apart, whichever kind they are: compose the
        events with an accountant's default neighbouring relation.
        """
        return export.to_events(self.entries(dataset))

    # ---------------------------------------------------------------------- inside

    def _record(self, act: Act) -> Record:
        record = self._history.add(lambda _: act)
        assert record is not None  # an act was given
        return record

    def _replay(self, dataset: str | None) -> tuple[Books, tuple[Record, ...]]:
        books, records = self._history.replay()
        return books, _about(dataset, books, records)


def _about(dataset: str | None, books: Books, every: Iterable[Row]) -> tuple[Row, ...]:
    """What is about a dataset that there is, or simply everything."""
    if dataset is None:
        return tuple(every)
    name = books.balance(text_checks.known("dataset", dataset)).dataset
    return tuple(each for each in every if each.dataset == name)


def reserved(
    dataset: str,
    guarantee: Guarantee | Budget,
    purpose: str,
    plan_hash: str,
    max_rows: int,
    follows: Entry | int | None,
) -> Reserved:
    """The charge that is asked for, checked in all that needs no books."""
    return Reserved(
        text_checks.known("dataset", dataset),
        _checked_cost(guarantee),
        *_what_for(purpose, plan_hash),
        _checked_rows(max_rows),
        _checked_entry(follows),
    )


def _what_for(purpose: object, plan_hash: object) -> tuple[str, str]:
    return text_checks.note("purpose", purpose), text_checks.note("plan_hash", plan_hash)


def _checked_cost(cost: object) -> Guarantee:
    if isinstance(cost, Budget):
        return Guarantee.of_budget(cost)
    if not isinstance(cost, Guarantee):
        raise BudgetError(
            f"spend takes what a release guarantees, as plan.privacy or zCDP(0.01); got {cost!r}"
        )
    return cost


def _checked_entry(follows: object) -> int | None:
    number = follows.id if isinstance(follows, Entry) else follows
    if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
        raise LedgerError(f"follows is an entry or its number, as in entry.id; got {follows!r}")
    return number


def _checked_rows(max_rows: object) -> int:
    if isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1:
        raise BudgetError(
            f"max_rows is how many records of one person a cost is the price of, as in 3; got "
            f"{max_rows!r}"
        )
    return max_rows


def _software() -> str:
    from noiseplan import __version__

    return f"noiseplan {__version__}"
