"""What may happen to a ledger, and how each act is written as JSON and read back, strictly."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeVar, cast, final

from noiseplan.ledger.balance import Limits
from noiseplan.privacy import GDP, ApproxDP, Budget, Guarantee, Law, Neighbours, zCDP

FORMAT: Final = 1
Outcome = Literal["released", "failed"]
Json = dict[str, Any]
Value = TypeVar("Value", str, bool, int, float, Json)

CURRENCIES: Final[dict[str, type[zCDP] | type[GDP] | type[ApproxDP]]] = {
    "zCDP": zCDP,
    "GDP": GDP,
    "ApproxDP": ApproxDP,
}


@final
@dataclass(frozen=True)
class Started:
    """The ledger was made. Its random identity makes every ledger's hashes its own."""

    identity: str
    software: str

    def json(self) -> Json:
        return {"kind": "ledger", "format": FORMAT, **asdict(self)}


@final
@dataclass(frozen=True)
class Opened:
    """A dataset was given its budget.

    `max_rows` is the most records that one person has in the data, where that was declared.
    """

    dataset: str
    budget: Budget
    limits: Limits
    neighbours: Neighbours
    note: str
    max_rows: int | None = None

    def json(self) -> Json:
        own = {"kind": "dataset", **asdict(self), "budget": budget_json(self.budget)}
        return _without_nothing(own, "max_rows")


@final
@dataclass(frozen=True)
class Changed:
    """A dataset's budget was replaced, or the records of a person bounded, for a stated reason."""

    dataset: str
    budget: Budget
    limits: Limits
    reason: str
    max_rows: int | None = None

    def json(self) -> Json:
        own = {"kind": "budget", **asdict(self), "budget": budget_json(self.budget)}
        return _without_nothing(own, "max_rows")


@final
@dataclass(frozen=True)
class Reserved:
    """A release was charged, before its noise was drawn. Its row number is the entry's id.

    `max_rows` is the number of records of one person that the cost is the price of. The first
    ledgers had no field for it, and said it at the end of the purpose: there it is None. `follows`
    is the entry that this one completes at the price of the difference, if it does.
    """

    dataset: str
    guarantee: Guarantee
    purpose: str
    plan_hash: str
    max_rows: int | None = 1
    follows: int | None = None

    @property
    def unit(self) -> int:
        """How many records of one person the cost is the price of."""
        if self.max_rows is not None:
            return self.max_rows
        said = re.search(r"\(one person, at most ([0-9]{1,18}) records\)$", self.purpose)
        return int(said[1]) if said else 1

    def json(self) -> Json:
        own = {
            "kind": "reserved",
            "dataset": self.dataset,
            "pcost": self.guarantee.pcost,
            "law": self.guarantee.law,
            "neighbours": self.guarantee.neighbours,
            "purpose": self.purpose,
            "plan_hash": self.plan_hash,
            "max_rows": self.max_rows,
            "follows": self.follows,
        }
        return _without_nothing(own, "max_rows", "follows")


@final
@dataclass(frozen=True)
class Settled:
    """An entry ended: released, or failed (and stays charged: its noise may have been seen)."""

    dataset: str
    entry: int
    outcome: Outcome
    note: str

    def json(self) -> Json:
        own = {"dataset": self.dataset, "entry": self.entry, "note": self.note}
        return {"kind": self.outcome, **own}


@final
@dataclass(frozen=True)
class Refused:
    """Data were refused for what they hold: nothing was spent, and something was told of them.

    `refusal` is the kind of thing, never the thing itself; `details` whether somebody was shown
    that, too.
    """

    dataset: str
    refusal: str
    details: bool
    purpose: str
    plan_hash: str

    def json(self) -> Json:
        return {"kind": "refused", **asdict(self)}


Act = Started | Opened | Changed | Reserved | Settled | Refused


def _without_nothing(content: Json, *names: str) -> Json:
    """Fields that came later are left out where they say nothing, as in rows from before them."""
    return {k: v for k, v in content.items() if k not in names or v is not None}


def budget_json(budget: Budget) -> Json:
    """A budget as plain JSON."""
    return {"currency": type(budget).__name__, **asdict(budget)}


def read_act(content: Json) -> Act:
    """The act that `content` describes.

    Raises
    ------
    ValueError
        For an unknown kind, a field too many or too few, a wrong type, a number out of range.
    """
    fields = Fields(content)
    kind = fields.text("kind")
    if kind not in READERS:
        raise ValueError(f"unknown kind {kind!r}")
    act = READERS[kind](fields)
    fields.end()
    return act


@final
class Fields:
    """The fields of one JSON object, each to be taken once and as the right type."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._left = dict(content)

    def text(self, name: str) -> str:
        return self._take(name, str)

    def integer(self, name: str) -> int:
        return self._take(name, int)

    def flag(self, name: str) -> bool:
        return self._take(name, bool)

    def whole_if_there(self, name: str) -> int | None:
        """A whole number from 1 upwards, or None where the field is not there."""
        if name not in self._left:
            return None
        value = self.integer(name)
        if value < 1:
            raise ValueError(f"{name} is {value!r}, not a number from 1 upwards")
        return value

    def number(self, name: str) -> float:
        value = self._take(name, float)
        if not 0 <= value <= sys.float_info.max:
            raise ValueError(f"{name} is {value!r}, not a number from 0 upwards")
        return value

    def number_or_null(self, name: str) -> float | None:
        if name in self._left and self._left[name] is None:
            del self._left[name]
            return None
        return self.number(name)

    def numbers(self) -> dict[str, float]:
        """All that is left, as numbers."""
        return {name: self.number(name) for name in list(self._left)}

    def inner(self, name: str) -> Fields:
        return Fields(self._take(name, dict))

    def end(self) -> None:
        if self._left:
            raise ValueError(f"unexpected fields {', '.join(map(repr, self._left))}")

    def _take(self, name: str, kind: type[Value]) -> Value:
        value = self._left.pop(name, None)
        if type(value) is not kind:  # exactly: True is no integer here and 1 no float
            raise ValueError(f"{name} is {value!r}, not a {kind.__name__}")
        return value


def _started(fields: Fields) -> Started:
    version = fields.integer("format")
    if version != FORMAT:
        raise ValueError(f"format {version}, not {FORMAT}")
    return Started(fields.text("identity"), fields.text("software"))


def _opened(fields: Fields) -> Opened:
    dataset, budget, limits = fields.text("dataset"), _budget(fields), _limits(fields)
    neighbours = cast(Neighbours, fields.text("neighbours"))
    Guarantee(0.0, neighbours=neighbours)  # refuses what is not one of the two
    note, most = fields.text("note"), fields.whole_if_there("max_rows")
    return Opened(dataset, budget, limits, neighbours, note, most)


def _changed(fields: Fields) -> Changed:
    dataset, budget, limits = fields.text("dataset"), _budget(fields), _limits(fields)
    return Changed(
        dataset, budget, limits, fields.text("reason"), fields.whole_if_there("max_rows")
    )


def _reserved(fields: Fields) -> Reserved:
    law = cast(Law, fields.text("law"))
    neighbours = cast(Neighbours, fields.text("neighbours"))
    guarantee = Guarantee(fields.number("pcost"), law, neighbours)
    dataset, purpose, plan_hash = map(fields.text, ("dataset", "purpose", "plan_hash"))
    most, follows = map(fields.whole_if_there, ("max_rows", "follows"))
    return Reserved(dataset, guarantee, purpose, plan_hash, most, follows)


def _settled(outcome: Outcome) -> Callable[[Fields], Settled]:
    def read(fields: Fields) -> Settled:
        return Settled(
            fields.text("dataset"), fields.integer("entry"), outcome, fields.text("note")
        )

    return read


def _refused(fields: Fields) -> Refused:
    dataset, refusal = fields.text("dataset"), fields.text("refusal")
    details, purpose = fields.flag("details"), fields.text("purpose")
    return Refused(dataset, refusal, details, purpose, fields.text("plan_hash"))


def _budget(fields: Fields) -> Budget:
    inner = fields.inner("budget")
    currency = inner.text("currency")
    if currency not in CURRENCIES:
        raise ValueError(f"unknown currency {currency!r}")
    try:
        return CURRENCIES[currency](**inner.numbers())
    except TypeError as error:  # a parameter too many or too few
        raise ValueError(f"not a budget: {error}") from None


def _limits(fields: Fields) -> Limits:
    inner = fields.inner("limits")
    limits = Limits(inner.number("gaussian"), inner.number_or_null("zcdp"))
    inner.end()
    return limits


READERS: Final[dict[str, Callable[[Fields], Act]]] = {
    "ledger": _started,
    "dataset": _opened,
    "budget": _changed,
    "reserved": _reserved,
    "released": _settled("released"),
    "failed": _settled("failed"),
    "refused": _refused,
}
