"""What may happen to a ledger, and how each act is written as JSON and read back, strictly."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Final, Literal, TypeVar, cast, final, get_args, get_type_hints

from noiseplan.privacy import GDP, ApproxDP, Budget, Guarantee, Law, Neighbours, zCDP
from noiseplan.privacy.people import PERSON, checked_unit

FORMAT: Final = 1
Outcome = Literal["released", "failed"]
Json = dict[str, Any]
Tables = tuple[tuple[str, ...], ...]
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

    kind: ClassVar = "ledger"
    identity: str
    software: str


@final
@dataclass(frozen=True)
class Opened:
    """A dataset was given its budget.

    `max_rows` is the most records that one person has in the data, where that was declared.
    """

    kind: ClassVar = "dataset"
    dataset: str
    budget: Budget
    neighbours: Neighbours
    note: str
    max_rows: int | None = None


@final
@dataclass(frozen=True)
class Changed:
    """A dataset's budget was replaced, or the records of a person bounded, for a stated reason."""

    kind: ClassVar = "budget"
    dataset: str
    budget: Budget
    reason: str
    max_rows: int | None = None
    limit: float | None = None


@final
@dataclass(frozen=True)
class Reserved:
    """A release was charged, before its noise was drawn. Its row number is the entry's id.

    `max_rows` is the number of records of one person that the cost is the price of. The first
    ledgers had no field for it, and said it at the end of the purpose: there it is None. `follows`
    is the entry that this one completes at the price of the difference, if it does. `unit` is who
    has those records where that is no person, or one record of each counts, and `tables` what the
    release publishes: of each table its name and its attributes, of many the first. `of_nobody` is
    true where it was not said whose records were counted, so that all of a person may have been.
    `limit` is the largest total from here on, where this entry
    is the first that is not of pure DP within a budget of (ε, δ) (`noiseplan.ledger.balance`).
    """

    kind: ClassVar = "reserved"
    dataset: str
    guarantee: Guarantee
    purpose: str
    plan_hash: str
    max_rows: int | None = 1
    follows: int | None = None
    unit: str | None = field(default=None, repr=False)
    tables: Tables | None = field(default=None, repr=False)
    of_nobody: bool | None = field(default=None, repr=False)
    limit: float | None = field(default=None, repr=False)

    @property
    def records(self) -> int:
        """How many records of one person the cost is the price of."""
        if self.max_rows is not None:
            return self.max_rows
        said = re.search(r"\(one person, at most ([0-9]{1,18}) records\)$", self.purpose)
        return int(said[1]) if said else 1

    @property
    def whose(self) -> str:
        """Who has those records; before there were fields for it and for tables, the purpose said
        so. In the purpose of a later release it is anybody's words."""
        if self.unit is not None or self.tables is not None:
            return self.unit or PERSON
        said = re.search(r"\(the unit is a ([^()]{1,40})\)$", self.purpose)
        return said[1] if said else PERSON


@final
@dataclass(frozen=True)
class Settled:
    """An entry ended: released, or failed (and stays charged: its noise may have been seen)."""

    dataset: str
    entry: int
    outcome: Outcome
    note: str


@final
@dataclass(frozen=True)
class Refused:
    """Data were refused for what they hold: nothing was spent, and something was told of them.

    `refusal` is the kind of thing, never the thing itself; `details` whether somebody was shown
    that, too.
    """

    kind: ClassVar[Literal["refused"]] = "refused"
    dataset: str
    refusal: str
    details: bool
    purpose: str
    plan_hash: str


@final
@dataclass(frozen=True)
class Looked:
    """Data were read without spending, and something was told of them: a check, or a warning.

    `found` is the kind of thing that was told, never a value or a number of the data; `details`
    whether somebody was shown those, too.
    """

    kind: ClassVar[Literal["checked"]] = "checked"
    dataset: str
    found: str
    details: bool
    purpose: str
    plan_hash: str


Act = Started | Opened | Changed | Reserved | Settled | Refused | Looked


def act_json(act: Act) -> Json:
    """An act as plain JSON: its kind, and its fields in their order.

    Fields that came later are left out where they say nothing, as in rows from before them.
    """
    content: Json = {"kind": act.outcome if isinstance(act, Settled) else act.kind}
    if isinstance(act, Started):
        content["format"] = FORMAT
    for name in FIELDS[type(act)]:
        value = getattr(act, name)
        if isinstance(value, Guarantee):
            content |= {name: getattr(value, name) for name in ("pcost", "law", "neighbours")}
            if value.pure_epsilon is not None:
                content["epsilon"] = value.pure_epsilon
            elif value.law == "zcdp" and value.mu2 is not None:
                content["mu2"] = value.mu2
        elif isinstance(value, Budget):
            content[name] = budget_json(value)
        elif value is not None:
            content[name] = value
    return content


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
    kind = fields.take("kind", str)
    if kind not in ACTS:
        raise ValueError(f"unknown kind {kind!r}")
    if kind == "ledger" and (version := fields.take("format", int)) != FORMAT:
        raise ValueError(f"format {version}, not {FORMAT}")
    make = ACTS[kind]
    found = {name: READERS[hint](fields, name) for name, hint in FIELDS[make].items()}
    act: Act = make(**found, **({"outcome": kind} if make is Settled else {}))
    fields.end()
    return act


@final
class Fields:
    """The fields of one JSON object, each to be taken once and as the right type."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._left = dict(content)

    def take(self, name: str, kind: type[Value]) -> Value:
        value = self._left.pop(name, None)
        if type(value) is not kind:  # exactly: True is no integer here and 1 no float
            raise ValueError(f"{name} is {value!r}, not a {kind.__name__}")
        return value

    def whole_if_there(self, name: str) -> int | None:
        """A whole number from 1 upwards, or None where the field is not there."""
        if name not in self._left:
            return None
        value = self.take(name, int)
        if value < 1:
            raise ValueError(f"{name} is {value!r}, not a number from 1 upwards")
        return value

    def unit_if_there(self, name: str) -> str | None:
        """Who has the records, or None where the field is not there."""
        return checked_unit(self.take(name, str)) if name in self._left else None

    def true_if_there(self, name: str) -> bool | None:
        """That something is so, or None where the field is not there."""
        if name not in self._left:
            return None
        if not self.take(name, bool):
            raise ValueError(f"{name} is False, which a row says by leaving it out")
        return True

    def tables_if_there(self, name: str) -> Tables | None:
        """Lists of texts, or None where the field is not there."""
        if name not in self._left:
            return None
        found = self._left.pop(name)
        for table in found if isinstance(found, list) else [found]:
            if not (isinstance(table, list) and table and all(type(t) is str for t in table)):
                raise ValueError(f"{name} holds {table!r}, not a name and attributes")
        return tuple(map(tuple, found))

    def number(self, name: str) -> float:
        value = self.take(name, float)
        if not 0 <= value <= sys.float_info.max:
            raise ValueError(f"{name} is {value!r}, not a number from 0 upwards")
        return value

    def number_if_there(self, name: str) -> float | None:
        """A number, or None where the field is not there."""
        return self.number(name) if name in self._left else None

    def numbers(self) -> dict[str, float]:
        """All that is left, as numbers."""
        return {name: self.number(name) for name in list(self._left)}

    def neighbours(self, name: str) -> Neighbours:
        neighbours = cast(Neighbours, self.take(name, str))
        Guarantee(0.0, neighbours=neighbours)  # refuses what is not one of the two
        return neighbours

    def guarantee(self, _: str) -> Guarantee:
        """A cost, whose parts are fields of their own."""
        law, neighbours = self.take("law", str), self.take("neighbours", str)
        cost, mu2 = self.number("pcost"), self.number_if_there("mu2")
        epsilon = self.number_if_there("epsilon")
        kind, of = cast(Law, law), cast(Neighbours, neighbours)
        if (mu2 is not None and law != "zcdp") or (epsilon is None) == (law == "pure"):
            raise ValueError(f"a cost of the law {law!r} with mu2 = {mu2} and epsilon = {epsilon}")
        known = Guarantee(cost, kind, of, epsilon, mu2=mu2)
        if epsilon is not None and known != Guarantee.pure(epsilon, of):
            raise ValueError(f"pure DP at epsilon = {epsilon} has another pcost than {cost}")
        return known

    def budget(self, name: str) -> Budget:
        inner = Fields(self.take(name, dict))
        currency = inner.take("currency", str)
        if currency not in CURRENCIES:
            raise ValueError(f"unknown currency {currency!r}")
        try:
            return CURRENCIES[currency](**inner.numbers())
        except TypeError as error:  # a parameter too many or too few
            raise ValueError(f"not a budget: {error}") from None

    def end(self) -> None:
        if self._left:
            raise ValueError(f"unexpected fields {', '.join(map(repr, self._left))}")


# What is read and written of each act; an outcome is the kind of its row, and no field.
FIELDS: Final[dict[type[Any], dict[str, Any]]] = {
    act: {k: t for k, t in get_type_hints(act).items() if k not in ("kind", "outcome")}
    for act in get_args(Act)
}
# Kind of a row → what happened, and type of a field → how it is read.
ACTS: Final[dict[str, type[Any]]] = {
    **{act.kind: act for act in (Started, Opened, Changed, Reserved, Refused, Looked)},
    **dict.fromkeys(get_args(Outcome), Settled),
}
READERS: Final[dict[Any, Callable[[Fields, str], Any]]] = {
    str: lambda fields, name: fields.take(name, str),
    int: lambda fields, name: fields.take(name, int),
    bool: lambda fields, name: fields.take(name, bool),
    int | None: Fields.whole_if_there,
    str | None: Fields.unit_if_there,
    bool | None: Fields.true_if_there,
    Tables | None: Fields.tables_if_there,
    Neighbours: Fields.neighbours,
    Guarantee: Fields.guarantee,
    Budget: Fields.budget,
    float | None: Fields.number_if_there,
}
