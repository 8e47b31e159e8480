"""The books: where every dataset and entry stands after reading the history, row by row."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import final

from noiseplan.ledger.acts import Act, Changed, Opened, Reserved, Settled, Started, Status
from noiseplan.ledger.balance import Balance
from noiseplan.ledger.chain import EMPTY, Head, Record, read_record
from noiseplan.ledger.errors import LedgerError, UnknownDataset


@final
@dataclass
class Books:
    """The sum of the first `head.count` rows. Changes only by reading the next row.

    Reading judges each row by the same rules that writing obeys, so a history that could not have
    been written is refused even if all its hashes fit.
    """

    head: Head = EMPTY
    identity: str = ""
    balances: dict[str, Balance] = field(default_factory=dict)
    entries: dict[int, tuple[str, Status]] = field(default_factory=dict)

    def read(self, position: object, text: object, stored: object) -> Record:
        """Check one stored row and enter it.

        Raises
        ------
        ValueError
            Saying which row is at fault and why. These books are then of no more use.
        """
        try:
            record = read_record(self.head, position, text, stored)
            self._started_once(record.act)
            self._enter(record.act, record.position)
        except (ValueError, LedgerError) as error:  # BudgetError is a ValueError
            raise ValueError(f"row {self.head.count + 1} of the history: {error}") from None
        self.head = Head(record.position, record.hash)
        return record

    def balance(self, dataset: str) -> Balance:
        """Where a dataset stands."""
        if dataset not in self.balances:
            raise UnknownDataset(self._unknown(dataset))
        return self.balances[dataset]

    def entry(self, number: int) -> tuple[str, Status]:
        """The dataset and the status of an entry."""
        if number not in self.entries:
            raise LedgerError(f"the ledger has no entry {number!r}; ledger.entries() lists them")
        return self.entries[number]

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

    def _started_once(self, act: Act) -> None:
        if isinstance(act, Started) != (self.head == EMPTY):
            raise ValueError("a ledger starts once, in its first row")

    def _enter(self, act: Act, position: int) -> None:
        match act:
            case Started():
                self.identity = act.identity
            case Opened():
                self._open(act)
            case Changed():
                self._change(act)
            case Reserved():
                self._charge(act, position)
            case Settled():
                self._settle(act)

    def _open(self, act: Opened) -> None:
        if act.dataset in self.balances:
            raise ValueError(f"dataset {act.dataset!r} is opened a second time")
        self.balances[act.dataset] = Balance(
            act.dataset, act.budget, act.limits, act.neighbours, act.note
        )

    def _change(self, act: Changed) -> None:
        changed = self.balance(act.dataset).under(act.budget, act.limits)
        if changed.overspent():
            raise ValueError("the new budget is below what was spent")
        self.balances[act.dataset] = changed

    def _charge(self, act: Reserved, position: int) -> None:
        balance = self.balance(act.dataset)
        if not balance.fits(act.guarantee):
            raise ValueError(f"it spends more than the budget of {act.dataset!r} admits")
        self.balances[act.dataset] = balance.after(act.guarantee)
        self.entries[position] = (act.dataset, "reserved")

    def _settle(self, act: Settled) -> None:
        if self.entry(act.entry) != (act.dataset, "reserved"):
            raise ValueError(f"entry {act.entry} is not a reserved one of {act.dataset!r}")
        self.entries[act.entry] = (act.dataset, act.status)
