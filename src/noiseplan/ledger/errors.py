"""What can go wrong with a ledger. Every one of these means: nothing was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noiseplan.errors import BudgetError, NoiseplanError

if TYPE_CHECKING:
    from noiseplan.ledger.balance import Balance
    from noiseplan.privacy import Guarantee, zCDP


class LedgerError(NoiseplanError, RuntimeError):
    """The ledger cannot be used as asked: its file, its names or the order of calls."""


class LedgerDamaged(LedgerError):
    """The file is not the history that was written: edited, truncated, or broken by its disk."""


class LedgerBusy(LedgerError, TimeoutError):
    """Other processes held the ledger for longer than its timeout."""


class UnknownDataset(LedgerError, LookupError):
    """The ledger has no dataset of that name."""


class BudgetExceeded(BudgetError):
    """A release does not fit in what is left of a dataset's budget; nothing was recorded.

    Attributes
    ----------
    asked
        The guarantee of the release that was refused.
    balance
        The dataset's budget and what is spent of it.
    left_pcost
        The largest privacy cost 2ρ = μ² that still fits, for the same law as asked; rounded down.
    fits
        The same as a budget to plan with, `zCDP(left_pcost / 2)`; None if nothing is left.
    """

    def __init__(
        self, message: str, asked: Guarantee | None = None, balance: Balance | None = None
    ) -> None:
        # Defaults, so that the exception survives pickling on its way out of a worker process.
        super().__init__(message)
        self.asked = asked
        self.balance = balance

    @property
    def left_pcost(self) -> float:
        if self.balance is None or self.asked is None:
            return 0.0
        return self.balance.room(self.asked.law)

    @property
    def fits(self) -> zCDP | None:
        if self.balance is None or self.asked is None:
            return None
        return self.balance.left(self.asked.law)
