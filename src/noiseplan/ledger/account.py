"""One dataset of a ledger, ready to be charged."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from noiseplan.ledger.acts import Status
from noiseplan.privacy import Guarantee, Law, zCDP

if TYPE_CHECKING:
    from noiseplan.ledger.balance import Balance
    from noiseplan.ledger.ledger import Ledger


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
    time, by
        When it was charged, in UTC, and the login name of who did.
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
    status: Status = "reserved"
    note: str = ""


@final
@dataclass(frozen=True)
class Account:
    """A dataset within a ledger: what a release needs to know of it.

    Examples
    --------
    >>> import tempfile
    >>> from noiseplan.ledger import Ledger
    >>> from noiseplan.privacy import Guarantee, zCDP
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(f"{folder}/budget.ledger", create=True)
    ...     census = ledger.open_dataset("census", zCDP(1.0))
    ...     with census.charge(Guarantee(0.5, law="zcdp"), purpose="yearly tables") as entry:
    ...         noisy = 41 + 1  # noise is drawn here, after the charge is on disk
    ...     print(census.left(), census.entries()[0].status)
    ρ = 0.75 (zCDP) released
    """

    ledger: Ledger
    dataset: str

    def balance(self) -> Balance:
        """Its budget, what is spent and what is left."""
        return self.ledger.balance(self.dataset)

    def spent(self) -> Guarantee:
        """The guarantee of everything charged so far."""
        return self.ledger.spent(self.dataset)

    def left(self, law: Law | None = None) -> zCDP | None:
        """What is left, as a budget to plan with; None if nothing is."""
        return self.ledger.left(self.dataset, law)

    def entries(self) -> tuple[Entry, ...]:
        """Every release charged to it."""
        return self.ledger.entries(self.dataset)

    def spend(self, guarantee: Guarantee, *, purpose: str = "", plan_hash: str = "") -> Entry:
        """Charge a release; see `Ledger.spend`."""
        return self.ledger.spend(self.dataset, guarantee, purpose=purpose, plan_hash=plan_hash)

    def charge(
        self, guarantee: Guarantee, *, purpose: str = "", plan_hash: str = ""
    ) -> AbstractContextManager[Entry]:
        """Charge a release around the block that makes it; see `Ledger.charge`."""
        return self.ledger.charge(self.dataset, guarantee, purpose=purpose, plan_hash=plan_hash)
