"""A ledger for other eyes: JSON that can be checked without noiseplan, CSV, and DP events."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from fractions import Fraction
from importlib import import_module
from typing import Any, Final, Literal, get_args

from noiseplan.escaping import write_csv_rows
from noiseplan.ledger.balance import Balance
from noiseplan.ledger.chain import Head, Record
from noiseplan.ledger.errors import LedgerError
from noiseplan.ledger.events import Json, Reserved, budget_json
from noiseplan.ledger.state import Books, Change, Entry, Told
from noiseplan.privacy import Guarantee
from noiseplan.privacy.guarantee import known_mu
from noiseplan.privacy.people import PERSON
from noiseplan.privacy.rounding import down

Format = Literal["json", "csv", "dp-accounting"]

COLUMNS: Final = (
    "position time by kind dataset entry rho pcost mu2 epsilon law neighbours max_rows budget "
    "limit purpose plan_hash note reason refusal details hash"
)


def to_text(format: Format, books: Books, records: Sequence[Record]) -> str:
    """Some rows of the history, with the balances or entries that they are about."""
    if format not in get_args(Format):
        known = ", ".join(map(repr, get_args(Format)))
        raise LedgerError(f"format must be one of {known}; got {format!r}")
    if format == "csv":
        return to_csv(records)
    if format == "dp-accounting":
        charged = [record.position for record in records if isinstance(record.act, Reserved)]
        return to_event_json(books.entries[position] for position in charged)
    about = {record.dataset for record in records}
    balances = [balance for name, balance in books.balances.items() if name in about]
    return to_json(books.head, balances, records)


def to_json(head: Head, balances: Iterable[Balance], records: Iterable[Record]) -> str:
    """Where every dataset stands, then every row with its hash.

    A row without its `hash`, written with sorted keys, no spaces and ASCII only, has that hash as
    its SHA-256, and the hash of the row before as its `previous`.
    """
    content = {
        "format": "noiseplan ledger",
        "version": 1,
        "head": str(head),
        "datasets": [balance_json(balance) for balance in balances],
        "history": [{**record.json(), "hash": record.hash} for record in records],
    }
    return _dumped(content)


def to_csv(records: Iterable[Record]) -> str:
    """One line per row of the history; `entry` numbers the release that a line belongs to."""
    text = io.StringIO()
    columns = COLUMNS.split()
    rows: list[list[object]] = [[*columns]]
    for record in records:
        row = {**record.json(), "hash": record.hash}
        if isinstance(record.act, Reserved):
            act = record.act
            row |= {"entry": record.position, "rho": act.guarantee.rho, "max_rows": act.records}
            row["note"] = "" if act.unit is None else f"the unit is a {act.unit}"
        if "found" in row:
            row["note"] = row["found"]
        if "budget" in row:
            row["budget"] = json.dumps(row["budget"])
        rows.append([row.get(name, "") for name in columns])
    write_csv_rows(text, rows, line_end="\n")
    return text.getvalue()


def to_event_json(entries: Iterable[Entry]) -> str:
    """The releases of each dataset as the names and arguments of dp-accounting's events.

    A release that completes a look is one event with it: `entry` is the look's, and `completed_by`
    those that follow.
    """
    datasets: dict[str, list[Json]] = {}
    for (first, *later), cost in whole_releases(entries):
        name, arguments = event_of(cost)
        event = {"event": name, **arguments, "entry": first.id}
        if later:
            event["completed_by"] = [entry.id for entry in later]
        datasets.setdefault(first.dataset, []).append(event)
    return _dumped({"format": "dp-accounting events", "version": 1, "datasets": datasets})


def whole_releases(entries: Iterable[Entry]) -> list[tuple[list[Entry], Guarantee]]:
    """Entries that are released together, a look and what completes it, and what they cost.

    What completes a look is charged the cost of both less the look's, and may cost more by itself;
    so it is no event of its own.
    """
    together: dict[int, list[Entry]] = {}
    first_of: dict[int, int] = {}
    for entry in entries:
        first = entry.id if entry.follows is None else first_of.get(entry.follows, entry.id)
        first_of[entry.id] = first
        together.setdefault(first, []).append(entry)
    return [(each, each[0].cost.compose(*(e.cost for e in each[1:]))) for each in together.values()]


def to_events(entries: Iterable[Entry]) -> Any:
    """The releases as one `ComposedDpEvent` of dp-accounting, none of them understated."""
    try:
        accounting = import_module("dp_accounting")
    except ImportError as error:
        raise LedgerError(
            "events need the package dp-accounting: pip install dp-accounting. Their names and "
            'arguments alone do not: ledger.export("dp-accounting")'
        ) from error
    named = [event_of(cost) for _, cost in whole_releases(entries)]
    return accounting.ComposedDpEvent([getattr(accounting, name)(**given) for name, given in named])


def event_of(guarantee: Guarantee) -> tuple[str, dict[str, float]]:
    """The dp-accounting event that costs at least what a release costs: its name and arguments.

    Examples
    --------
    >>> event_of(Guarantee(0.25)), event_of(Guarantee(0.25, law="zcdp"))
    (('GaussianDpEvent', {'noise_multiplier': 2.0}), ('ZCDpEvent', {'rho': 0.125}))
    """
    if guarantee.pcost == 0:
        return "NoOpDpEvent", {}
    if guarantee.mu2 is not None and known_mu(guarantee) is not None:
        return "GaussianDpEvent", {"noise_multiplier": noise_multiplier(guarantee.mu2)}
    return "ZCDpEvent", {"rho": guarantee.rho}


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


def balance_json(balance: Balance) -> Json:
    """A balance as plain JSON, costs rounded up and what is left rounded down."""
    fits = balance.left()
    return {
        "dataset": balance.dataset,
        "budget": budget_json(balance.budget),
        "neighbours": balance.neighbours,
        "max_rows": balance.max_rows,
        **({"units": list(balance.units)} if balance.units not in ((), (PERSON,)) else {}),
        "note": balance.note,
        "entries": balance.entries,
        "refusals": balance.refusals,
        **({"checks": balance.checks} if balance.checks else {}),
        "rule": balance.rule,
        "spent": cost_json(balance.spent),
        "left": None if fits is None else budget_json(fits),
    }


def cost_json(cost: Guarantee) -> Json:
    """A cost as plain JSON: 2ρ, and μ² or ε where they are known."""
    known = {} if cost.pure_epsilon is None else {"epsilon": cost.pure_epsilon}
    if cost.law == "zcdp" and cost.mu2 is not None:
        known["mu2"] = cost.mu2
    return {"rho": cost.rho, "pcost": cost.pcost, "law": cost.law, **known}


def entry_json(entry: Entry) -> Json:
    """An entry as plain JSON."""
    guarantee = entry.guarantee
    return {
        "id": entry.id,
        "dataset": entry.dataset,
        "status": entry.status,
        **cost_json(guarantee),
        "neighbours": guarantee.neighbours,
        "max_rows": entry.max_rows,
        **({"unit": entry.unit} if entry.unit != PERSON else {}),
        **({"tables": [name for name, *_ in entry.tables]} if entry.tables else {}),
        "factor": entry.factor,
        "purpose": entry.purpose,
        "plan_hash": entry.plan_hash,
        "note": entry.note,
        "time": entry.time,
        "by": entry.by,
        "hash": entry.hash,
    }


def told_json(told: Told) -> Json:
    """A refusal or a check as plain JSON."""
    named = {"found": "refusal"} if told.kind == "refused" else {}
    return {named.get(key, key): value for key, value in asdict(told).items() if key != "kind"}


def change_json(change: Change) -> Json:
    """A change of budget as plain JSON."""
    budgets = {"before": budget_json(change.before), "after": budget_json(change.after)}
    return asdict(change) | budgets


def _dumped(content: Json) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
