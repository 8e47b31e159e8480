"""The ledger: what each dataset may spend and what it has spent, on disk."""

from __future__ import annotations

import getpass
import os
import secrets
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, final

from noiseplan.ledger import decisions, export, texts
from noiseplan.ledger.account import Account, Entry
from noiseplan.ledger.acts import Changed, Reserved, Started
from noiseplan.ledger.balance import Balance, Limits
from noiseplan.ledger.books import Books
from noiseplan.ledger.chain import Head, Record, parse_head
from noiseplan.ledger.errors import LedgerError
from noiseplan.ledger.history import History
from noiseplan.ledger.storage import Storage
from noiseplan.privacy import Budget, Guarantee, Law, Neighbours, zCDP


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
    ...     census = ledger.open_dataset("census", zCDP(1.0))
    ...     entry = ledger.spend("census", Guarantee(0.5, law="zcdp"), purpose="yearly tables")
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
        self.path = Path(path).absolute()  # a later change of folder does not matter
        self._how = {"timeout": timeout, "by": by}
        author = _login() if by is None else texts.note("by", by, texts.LONGEST_NAME)
        self._history = History(Storage(self.path, timeout), author)
        if create:
            self._history.create(Started(secrets.token_hex(16), _software()))
        with self._history.current():
            pass

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (str(self.path), self._how)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def __str__(self) -> str:
        with self._history.current() as books:
            parts = [f"ledger {str(self.path)!r}: {books.head.count} rows"]
            return "\n".join([*parts, *map(str, books.balances.values())])

    # ---------------------------------------------------------------------- datasets and budgets

    def open_dataset(
        self, name: str, budget: Budget, *, neighbours: Neighbours = "add-remove", note: str = ""
    ) -> Account:
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
        """
        Guarantee(0.0, neighbours=neighbours)  # refuses what is not one of the two
        note = texts.note("note", note)
        asked = Balance.opened(texts.name("dataset", name), budget, neighbours, note)
        self._history.add(lambda books: decisions.opening(books, asked))
        return Account(self, asked.dataset)

    def change_budget(self, dataset: str, budget: Budget, *, reason: str) -> Balance:
        """Raise, lower or restate a dataset's budget, on record.

        Raising a budget weakens what people were promised, so the reason stays in the history.
        What was spent must be within the new budget.
        """
        if not texts.note("reason", reason).strip():
            raise LedgerError("a budget changes for a stated reason: change_budget(…, reason=…)")
        name, reason = texts.known("dataset", dataset), texts.note("reason", reason)
        act = Changed(name, budget, Limits.of(budget), reason)
        self._history.add(lambda books: decisions.change(books, act))
        return self.balance(name)

    def account(self, dataset: str) -> Account:
        """A dataset that is open already."""
        return Account(self, self.balance(dataset).dataset)

    def datasets(self) -> tuple[str, ...]:
        """The names of all datasets, in the order they were opened."""
        with self._history.current() as books:
            return tuple(books.balances)

    # ---------------------------------------------------------------------- spending

    def spend(
        self, dataset: str, guarantee: Guarantee, *, purpose: str = "", plan_hash: str = ""
    ) -> Entry:
        """Charge a release before its noise is drawn.

        Returns
        -------
        Entry
            The charge is on disk. Draw the noise now, then `mark_released` or `mark_failed`.

        Raises
        ------
        BudgetExceeded
            When it does not fit; the message and the exception say what does.
        BudgetError
            When it cannot be charged to this budget at all: other neighbours, zCDP under GDP.

        Privacy
        -------
        Purpose and notes are kept in clear and exported: put nothing about a person into them.
        """
        act = Reserved(
            texts.known("dataset", dataset),
            decisions.a_guarantee(guarantee),
            texts.note("purpose", purpose),
            texts.note("plan_hash", plan_hash),
        )
        record = self._history.add(lambda books: decisions.spending(books, act))
        return decisions.entry_of(record, act)

    @contextmanager
    def charge(
        self, dataset: str, guarantee: Guarantee, *, purpose: str = "", plan_hash: str = ""
    ) -> Iterator[Entry]:
        """Charge a release around the block that makes it, and record how the block ended.

        An exception in the block marks the entry failed. It stays charged: noise may have been
        drawn, and seen. Only the exception's type is recorded, as its message may show data.
        """
        entry = self.spend(dataset, guarantee, purpose=purpose, plan_hash=plan_hash)
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

    def _settle(self, entry: Entry | int, outcome: decisions.Outcome, note: str) -> None:
        number = entry.id if isinstance(entry, Entry) else entry
        note = texts.note("note", note)
        self._history.add(lambda books: decisions.settling(books, number, outcome, note))

    # ---------------------------------------------------------------------- looking

    def balance(self, dataset: str) -> Balance:
        """A dataset's budget, what is spent and what is left."""
        with self._history.current() as books:
            return books.balance(texts.known("dataset", dataset))

    def spent(self, dataset: str) -> Guarantee:
        """The guarantee of everything charged to a dataset, rounded up."""
        return self.balance(dataset).spent

    def left(self, dataset: str, law: Law | None = None) -> zCDP | None:
        """What is left, as a budget to plan with; see `Balance.left`."""
        return self.balance(dataset).left(law)

    def entries(self, dataset: str | None = None) -> tuple[Entry, ...]:
        """Every release charged to a dataset, or to any, with its present status."""
        return decisions.entries_of(self.history(dataset))

    def history(self, dataset: str | None = None) -> tuple[Record, ...]:
        """Every row about a dataset, or simply every row, read and checked anew."""
        return self._replay(dataset)[1]

    def head(self) -> Head:
        """How long the history is and its last hash, for a safe place; see `verify`."""
        with self._history.current() as books:
            return books.head

    def verify(self, head: Head | str | None = None) -> Head:
        """Read and check everything; with a `head` noted earlier, also that nothing since is gone.

        Returns
        -------
        Head
            The present one, to be noted.

        Raises
        ------
        LedgerDamaged
            Saying what is wrong, and at which row.
        """
        return self._history.verify(parse_head(head))

    def export(self, format: Literal["json", "csv"] = "json", dataset: str | None = None) -> str:
        """The balances and the history as JSON, or the history as CSV."""
        if format not in ("json", "csv"):
            raise LedgerError(f"format must be 'json' or 'csv'; got {format!r}")
        books, records = self._replay(dataset)
        if format == "csv":
            return export.to_csv(records)
        chosen = books.balances.values() if dataset is None else [books.balance(dataset)]
        return export.to_json(books.head, chosen, records)

    def events(self, dataset: str) -> Any:
        """The releases of a dataset as a `ComposedDpEvent` of dp-accounting, none understated.

        Notes
        -----
        A cost already says how far neighbours are apart, whichever kind they are: compose the
        events with an accountant's default neighbouring relation.
        """
        return export.to_events(entry.guarantee for entry in self.entries(dataset))

    def _replay(self, dataset: str | None) -> tuple[Books, tuple[Record, ...]]:
        books, records = self._history.replay()
        if dataset is None:
            return books, records
        name = books.balance(texts.known("dataset", dataset)).dataset
        return books, tuple(record for record in records if _about(record, name))


def _about(record: Record, dataset: str) -> bool:
    return not isinstance(record.act, Started) and record.act.dataset == dataset


def _reopened(path: str, how: dict[str, Any]) -> Ledger:
    return Ledger(path, **how)


def _login() -> str:
    try:
        return texts.note("by", getpass.getuser(), texts.LONGEST_NAME)
    except (OSError, KeyError, ImportError, LedgerError):  # a user without a name
        return ""


def _software() -> str:
    from noiseplan import __version__

    return f"noiseplan {__version__}"
