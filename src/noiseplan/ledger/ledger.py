"""The ledger: what each dataset may spend and what it has spent, on disk."""

from __future__ import annotations

import os
import secrets
import sqlite3
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

from noiseplan.errors import BudgetError
from noiseplan.ledger import export, storage, texts
from noiseplan.ledger.account import Account, Entry, Outcome
from noiseplan.ledger.acts import Act, Changed, Opened, Reserved, Settled, Started
from noiseplan.ledger.balance import Balance, Limits
from noiseplan.ledger.books import Books
from noiseplan.ledger.chain import EMPTY, Head, Record, next_record
from noiseplan.ledger.errors import BudgetExceeded, LedgerError
from noiseplan.ledger.words import cost, refusal
from noiseplan.privacy import Budget, Guarantee, Law, Neighbours, zCDP

if TYPE_CHECKING:
    from dp_accounting import ComposedDpEvent
