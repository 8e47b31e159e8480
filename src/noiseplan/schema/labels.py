"""What a user declares, values and edges: checked, printed, and written to JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise
from numbers import Real
from typing import Final, TypeAlias, TypeVar

import numpy as np

from noiseplan.errors import SchemaError, remedy
from noiseplan.escaping import unwritable

Label: TypeAlias = str | int | float | bool | date | datetime

_SHOWN: Final = 6
# Longer ones may all have one hash, as multiples of 2⁶¹ − 1 do: dictionaries take squared time.
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1
# Of more days or times at equal distances only the first is written down; and no more are read.
_FEW, _MOST = 1000, 10_000_000


# What else a column may be declared as, for messages.
IN_ORDER = remedy("declare ordinal", "Ordinal([...])")
IN_BINS = remedy("declare binned", "Binned([...])")
CLIPPED = remedy("declare clip", "Binned([...], clip=True)")
MISSING = remedy("declare missing", "missing='not stated'", '"not stated"')
ANY_OTHER_LEAF = remedy("declare other leaf", "Hierarchical(..., other='other')")
ANYTHING_ELSE = remedy("declare other", "Categorical([...], other='other')", '"other"')


def checked_labels(values: Iterable[object], call: str) -> tuple[Label, ...]:
    """Return the declared values as plain Python objects, or say what is wrong with them.

    Parameters
    ----------
    values
        What the user declared.
    call
        The class being made, for messages: ``"Categorical"``.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        found = f"{values!r} ({type(values).__name__})"
        call_that_works = (
            f"{call}(range({values}))"
            if isinstance(values, int) and not isinstance(values, bool) and values > 0
            else f"{call}(['low', 'high'])"
        )
        raise SchemaError(f"{call}: values must be a list, got {found}; try {call_that_works}.")
    labels = tuple(checked_label(value, call) for value in values)
    if not labels:
        raise SchemaError(f"{call}: no values declared; at least one is needed, as in {call}([0]).")
    if len(set(labels)) < len(labels):
        raise _declared_twice(labels, call)
    return labels


def checked_label(value: object, call: str) -> Label:
    """Return one declared value as a plain Python object, or say what is wrong with it."""
    if isinstance(value, np.datetime64):
        # Nanoseconds have no Python counterpart: `item` would return an integer.
        day = value.dtype == np.dtype("M8[D]")
        value = value.astype("M8[D]" if day else "M8[us]").item()
    elif isinstance(value, np.generic):
        value = value.item()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise SchemaError(
            f"{call}: {value!r} stands for a missing value and cannot be declared; "
            f"declare a cell for missing values: " + MISSING + "."
        )
    if not isinstance(value, str | int | float | date):
        raise SchemaError(
            f"{call}: {value!r} is a {type(value).__name__}; a value must be a str, int, float, "
            f"bool, date or datetime, as in {call}([{str(value)!r}])."
        )
    check_writable(value, call)
    return value


def checked_missing(name: object, labels: Sequence[Label], call: str) -> str:
    """The name of the cell of missing values: a text that is no value, or what is wrong with it."""
    example = remedy("declare missing", f"{call}([...], missing='not stated')", '"not stated"')
    if not isinstance(name, str) or not name.strip():
        raise SchemaError(
            f"{call}: missing= names the cell of missing values, and is a text, as in "
            + example
            + f"; found {name!r}."
        )
    check_writable(name, call)
    if name in labels:
        raise SchemaError(
            f"{call}: "
            + remedy("argument", f"missing={name!r}", f"missing = {name!r}")
            + " is also declared as a value; choose another name, or leave it out of the values: "
            + example
            + "."
        )
    return name


def check_writable(value: Label, call: str) -> None:
    """Refuse a value that could be counted, but never saved."""
    if isinstance(value, str) and (found := unwritable(value)):
        raise SchemaError(
            f"{call}: the value {value!r} holds {found}, which no file of text can; write it "
            f"without, as in "
            + remedy("argument", f"{call}([{_without(value)!r}])", repr(_without(value)))
            + "."
        )
    if isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
        raise SchemaError(
            f"{call}: a value is a whole number that 64 bits do not hold; −2⁶³ to 2⁶⁴ − 1 are "
            f"allowed. Declare numbers so large as text, or by bins."
        )


def _without(text: str) -> str:
    return "".join(c for c in text if not unwritable(c)) or "low"


def _declared_twice(labels: Sequence[Label], call: str) -> SchemaError:
    first: dict[Label, int] = {}
    code = next(n for n, label in enumerate(labels) if first.setdefault(label, n) != n)
    return SchemaError(
        f"{call}: {labels[code]!r} is declared twice, at positions {first[labels[code]]} and "
        f"{code}; every value may occur once: {call}(list(dict.fromkeys(values)))."
    )


def checked_edges(edges: Iterable[float | date]) -> tuple[float, ...] | tuple[date, ...]:
    """Return the edges of bins as floats, or as dates, or say what is wrong with them."""
    example = "Binned([0, 10, 20])"
    if isinstance(edges, str | bytes) or not isinstance(edges, Iterable):
        raise SchemaError(f"Binned: edges must be a list of numbers, got {edges!r}; try {example}.")
    listed = list(edges)
    moments = [checked_label(e, "Binned") for e in listed if isinstance(e, date | np.datetime64)]
    if moments and len(moments) == len(listed):
        return _rising(_of_one_kind(moments))
    for edge in listed:
        if moments and not isinstance(edge, date | np.datetime64):
            raise SchemaError(f"Binned: edge {edge!r} is not a date, as other edges are.")
        if not moments and (not isinstance(edge, Real) or math.isnan(edge)):
            raise SchemaError(f"Binned: edge {edge!r} is not a number; try {example}.")
    return _rising(tuple(float(edge) for edge in listed if not isinstance(edge, date)))


def _of_one_kind(moments: Sequence[Label]) -> tuple[date, ...]:
    """Dates as they are; times where any is one, a day being its midnight."""
    for moment in moments:
        if isinstance(moment, datetime) and moment.tzinfo is not None:
            raise SchemaError(
                f"Binned: the edge {moment} has a time zone, and the same moment has another date "
                f"elsewhere; write it without one, and turn the data into that zone's time."
            )
    if not any(isinstance(moment, datetime) for moment in moments):
        return tuple(m for m in moments if isinstance(m, date))
    return tuple(
        m if isinstance(m, datetime) else datetime(m.year, m.month, m.day)
        for m in moments
        if isinstance(m, date)
    )


Edge = TypeVar("Edge", float, date)


def _rising(found: tuple[Edge, ...]) -> tuple[Edge, ...]:
    example = remedy("argument", "Binned([0, 10, 20])", "[0, 10, 20]")
    if len(found) < 2:
        few = f"Binned: got {len(found)} edge(s), a bin needs two, as in "
        raise SchemaError(few + example + ".")
    for low, high in pairwise(found):
        if not low < high:
            raise SchemaError(
                f"Binned: edges must increase strictly, but {edge_text(low)} is followed by "
                f"{edge_text(high)}; try "
                + remedy("argument", "Binned(sorted(set(edges)))", "them in order, each once")
                + "."
            )
    return found


def edge_text(edge: float | date) -> str:
    """Write an edge: dates as ISO text."""
    return str(edge) if isinstance(edge, date) else number_text(edge)


def number_text(value: float) -> str:
    """Write an edge: whole numbers without a decimal point."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def said(label: object) -> str:
    """A label as messages have it: dates as they are written in files."""
    return label.isoformat() if isinstance(label, date) else repr(label)


def shortened(labels: Sequence[Label], write: Callable[[object], str] = repr) -> str:
    """Write a list of labels, the middle left out where it is long.

    Examples
    --------
    >>> shortened(["F", "M"])
    "'F', 'M'"
    >>> shortened(range(100))
    '0, 1, 2, …, 99'
    """
    if len(labels) <= _SHOWN:
        return ", ".join(map(write, labels))
    return ", ".join([*map(write, labels[: _SHOWN // 2]), "…", write(labels[-1])])


def label_to_json(label: Label) -> object:
    """Write a label as JSON; dates, which JSON lacks, become ``{"date": "2020-01-01"}``."""
    if isinstance(label, datetime):
        return {"datetime": label.isoformat()}
    if isinstance(label, date):
        return {"date": label.isoformat()}
    if isinstance(label, float) and math.isinf(label):
        return {"float": str(label)}
    return label


def label_from_json(value: object) -> object:
    """Undo :func:`label_to_json`; what is no label is left for the attribute to refuse."""
    match value:
        case {"datetime": str(text)}:
            return datetime.fromisoformat(text)
        case {"date": str(text)}:
            return date.fromisoformat(text)
        case {"float": str(text)}:
            return float(text)
    return value


def evenly_to_json(labels: Sequence[Label]) -> dict[str, object] | None:
    """Many days, or times without a zone, at equal distances: the first, the step in microseconds
    and how many; None for all other labels."""
    first = labels[0]
    if len(labels) <= _FEW or type(first) not in (date, datetime):
        return None
    if any(type(label) is not type(first) or getattr(label, "tzinfo", None) for label in labels):
        return None
    steps = np.diff(np.array(labels, dtype="M8[us]").astype(np.int64))
    if steps[0] <= 0 or (steps != steps[0]).any():
        return None
    return {"first": label_to_json(first), "step": int(steps[0]), "count": len(labels)}


def evenly_from_json(saved: Mapping[str, object]) -> list[Label]:
    """Undo :func:`evenly_to_json`."""
    first, step, count = (saved.get(key) for key in ("first", "step", "count"))
    start = label_from_json(first)
    if type(step) is not int or type(count) is not int or not isinstance(start, date):
        raise SchemaError(f"{dict(saved)!r} are no days or times at equal distances.")
    if not (step > 0 and 0 < count <= _MOST):
        raise SchemaError(f"{count} days or times at a distance of {step} µs cannot be read.")
    try:
        return [start + timedelta(microseconds=step * i) for i in range(count)]
    except OverflowError:
        raise SchemaError(f"{count} steps from {start} go beyond the calendar.") from None
