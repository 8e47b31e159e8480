"""The ledger: what was spent, on disk, crash-safe, and never more than the budget."""

from noiseplan.ledger.account import Account, Entry
from noiseplan.ledger.balance import Balance
from noiseplan.ledger.chain import Head, Record
from noiseplan.ledger.errors import (
    BudgetExceeded,
    LedgerBusy,
    LedgerDamaged,
    LedgerError,
    UnknownDataset,
)
from noiseplan.ledger.ledger import Ledger

__all__ = [
    "Account",
    "Balance",
    "BudgetExceeded",
    "Entry",
    "Head",
    "Ledger",
    "LedgerBusy",
    "LedgerDamaged",
    "LedgerError",
    "Record",
    "UnknownDataset",
]
