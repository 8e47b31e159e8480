"""A ledger for other eyes: JSON that can be checked without noiseplan, CSV, and DP events."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable
from fractions import Fraction
from importlib import import_module
from typing import Any, Final

from noiseplan.ledger.acts import Json, Reserved, budget_json
from noiseplan.ledger.balance import Balance
from noiseplan.ledger.chain import Head, Record
from noiseplan.ledger.errors import LedgerError
from noiseplan.privacy import Guarantee
from noiseplan.privacy.rounding import down

COLUMNS: Final = (
    "position", "time", "by", "kind", "dataset", "entry", "rho", "pcost", "law", "neighbours",
    "budget", "purpose", "plan_hash", "note", "reason", "hash",
)  # fmt: skip


def to_json(head: Head, balances: Iterable[Balance], records: Iterable[Record]) -> str:
    """Where every dataset stands, then every row with its hash.

    A row without its `hash`, written with sorted keys, no spaces and ASCII only, has that hash as
    its SHA-256, and the hash of the row before as its `previous`.
    """
    content = {
        "format": "noiseplan ledger",
        "version": 1,
        "head": {"count": head.count, "hash": head.hash},
        "datasets": [_balance(balance) for balance in balances],
        "history": [{**record.json(), "hash": record.hash} for record in records],
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_csv(records: Iterable[Record]) -> str:
    """One line per row of the history; `entry` numbers the release that a line belongs to."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", extrasaction="ignore")
    writer.writeheader()
    for record in records:
        row = {**record.json(), "hash": record.hash}
        if isinstance(record.act, Reserved):
            row |= {"entry": record.position, "rho": record.act.guarantee.rho}
        if "budget" in row:
            row["budget"] = json.dumps(row["budget"])
        writer.writerow(row)
    return text.getvalue()


def to_events(guarantees: Iterable[Guarantee]) -> Any:
    """The releases as one `ComposedDpEvent` of dp-accounting, none of them understated."""
    try:
        accounting = import_module("dp_accounting")
    except ImportError as error:
        raise LedgerError(
            "events need the package dp-accounting: pip install dp-accounting"
        ) from error
    return accounting.ComposedDpEvent([_event(accounting, each) for each in guarantees])


def noise_multiplier(pcost: float) -> float:
    """The largest float z with 1/z² ≥ pcost: a Gaussian event of at least this cost.

    Examples
    --------
    >>> noise_multiplier(0.25), Fraction(noise_multiplier(0.3)) ** 2 * Fraction(0.3) <= 1
    (2.0, True)
    """
    guess = math.nextafter(1 / math.sqrt(pcost), math.inf)  # two roundings: at most 1 ulp off
    while Fraction(guess) ** 2 * Fraction(pcost) > 1:
        guess = down(guess)
    return guess


def _event(accounting: Any, guarantee: Guarantee) -> Any:
    if guarantee.pcost == 0:
        return accounting.NoOpDpEvent()
    if guarantee.law == "gaussian":
        return accounting.GaussianDpEvent(noise_multiplier(guarantee.pcost))
    return accounting.ZCDpEvent(guarantee.rho)


def _balance(balance: Balance) -> Json:
    fits = balance.left()
    return {
        "dataset": balance.dataset,
        "budget": budget_json(balance.budget),
        "neighbours": balance.neighbours,
        "note": balance.note,
        "entries": balance.entries,
        "spent": {"rho": balance.spent.rho, "pcost": balance.spent.pcost, "law": balance.law},
        "left": {"rho": 0.0 if fits is None else fits.rho},
    }
