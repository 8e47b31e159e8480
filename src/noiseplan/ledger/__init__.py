"""The ledger: what was spent, on disk, crash-safe, and never more than the budget.

From the inside out, each module uses only those above it:

=============  =====================================================================
`balance`      what a dataset may spend, has spent and has left: the arithmetic
`errors`       what can go wrong, and the refusal «asked, spent, left, what fits»
`text_checks`  names and notes that a ledger accepts
`events`       what may happen, as JSON and back
`chain`        rows that carry the hash of the row before
`state`        rows added up: where datasets and entries stand, and what may follow
`sql`          the tables of the SQLite file, and the statements on them
`storage`      the file: locks, transactions, errors of the disk
`replay`       rows from the file into the books, and new ones to its end
`export`       for other eyes: JSON, CSV, dp-accounting's events
`ledger`       `Ledger`, which is all that users need
=============  =====================================================================
"""

from noiseplan.ledger.balance import Balance
from noiseplan.ledger.chain import Head, Record
from noiseplan.ledger.errors import (
    AlreadyFollowed,
    AlreadyReleased,
    BudgetExceeded,
    LedgerBusy,
    LedgerDamaged,
    LedgerError,
    UnknownDataset,
)
from noiseplan.ledger.ledger import Ledger
from noiseplan.ledger.state import Change, Entry, Told

__all__ = [
    "AlreadyFollowed",
    "AlreadyReleased",
    "Balance",
    "BudgetExceeded",
    "Change",
    "Entry",
    "Head",
    "Ledger",
    "LedgerBusy",
    "LedgerDamaged",
    "LedgerError",
    "Record",
    "Told",
    "UnknownDataset",
]
