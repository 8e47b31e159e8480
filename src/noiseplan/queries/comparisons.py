"""Which values of an attribute a comparison is true of.

Values are compared as they were declared: categories are equal or not, ordinal values follow the
order of their declaration, and a bin is true or false as a whole, or the comparison is refused.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from difflib import get_close_matches
from itertools import pairwise
from math import inf
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.queries.parsing import Comparison, Literal, Value, error_at, written_name
from noiseplan.schema import Attribute, Binned, Hierarchical, Ordinal
from noiseplan.schema.labels import IN_ORDER, MISSING, Label, number_text
from noiseplan.texts import alike

Mask = NDArray[np.bool_]
# Declared values among which one that was mistyped is looked for.
MOST_COMPARED: Final = 5000

# So many values are listed in a condition that is advised.
FEW_LISTED: Final = 6
_ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def values_where(comparison: Comparison, attribute: Attribute, text: str) -> Mask:
    """True for each value of the attribute of which the comparison holds.

    Of a missing value no comparison holds, not even `!=`, but `is null`, and `=` or `in` with the
    name of its cell. `text` is the predicate it stands in, for messages.

    Examples
    --------
    >>> from noiseplan.queries.parsing import parse
    >>> income = Binned([0, 10_000, 20_000, 50_000])
    >>> values_where(parse("income >= 10000"), income, "income >= 10000").tolist()
    [False, True, True]
    """
    if comparison.level and isinstance(attribute, Hierarchical):
        groups = replace(comparison, name=comparison.written or comparison.level, level="")
        chosen = values_where(groups, attribute.at(comparison.level), text)
        return np.asarray(chosen[attribute.group_of(comparison.level)], dtype=bool)
    try:
        chosen = np.zeros(attribute.size, dtype=bool)
        if comparison.sign in _ORDERS:
            chosen[: attribute.stated] = _ordered(comparison, attribute)
            return chosen
        if comparison.sign in ("is null", "is not null"):
            chosen[_null_code(comparison, attribute)] = True
        for literal in comparison.values:
            chosen[_code(comparison.name, attribute, literal)] = True
        if comparison.sign in ("!=", "not in", "is not null"):
            chosen[: attribute.stated] ^= True
            chosen[attribute.stated :] = False
        return chosen
    except _At as found:
        raise error_at(text, found.at, found.message) from None


class _At(Exception):
    """A message about a place in the predicate."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at, self.message = at, message


def _null_code(comparison: Comparison, attribute: Attribute) -> int:
    """The cell of missing values."""
    if attribute.missing is None:
        raise _At(
            comparison.at,
            f"{comparison.name!r} has no cell for missing values ({attribute.describe()}), so "
            f"nothing is null; declare one: " + MISSING,
        )
    return attribute.null_code


# ---------------------------------------------------------------------- equality


def _code(name: str, attribute: Attribute, literal: Literal) -> int:
    """The code of the value that was written."""
    consecutive = _consecutive(attribute)
    if consecutive is not None and _is_number(literal.value) and literal.value in consecutive:
        _refuse_cut("=", literal, name, attribute)
        return int(literal.value) - consecutive.start
    value = literal.value
    if isinstance(attribute, Binned) and isinstance(value, str):
        value = _bin_label(value)
    same = [i for i, label in enumerate(attribute.labels) if _is(label, value)]
    if same:
        return same[0]
    if isinstance(attribute, Binned) and not isinstance(literal.value, str):
        raise _At(
            literal.at,
            f"the bins of {name!r} cannot tell single numbers; name a bin, {written_name(name)} = "
            f"'{attribute.labels[0]}', or ask for a range between edges",
        )
    raise _At(literal.at, _unknown(name, attribute, literal.value))


def _bin_label(text: str) -> str:
    """A bin as it is called: '[20000, inf)' is '[20000, inf]', which nothing tells apart."""
    text = text.strip()
    return text[:-1] + "]" if text.endswith("inf)") else text


def _is(label: Label, value: Value) -> bool:
    """Whether a declared value is the one written: numbers by size, dates as ISO text."""
    if isinstance(value, str):
        return _as_time(value, label) == label if isinstance(label, date) else label == value
    return isinstance(label, bool) == isinstance(value, bool) and label == value


def _as_time(text: str, label: date) -> date | None:
    """A date or a time, as `label` is, from ISO text."""
    try:
        return (datetime if isinstance(label, datetime) else date).fromisoformat(text)
    except ValueError:
        return None


def _unknown(name: str, attribute: Attribute, value: Value) -> str:
    first = attribute.labels[0]
    if isinstance(first, date) and isinstance(value, str) and _as_time(value, first) is None:
        return f"{_written(value)} is no date or time, as in {_written(first)}"
    twin = _twin(attribute, value)
    meant = "" if twin is None else f"; did you mean {_written(twin)}?"
    return f"{_written(value)} is no value of {name!r}, which is {attribute.describe()}{meant}"


def _twin(attribute: Attribute, value: Value) -> Label | None:
    """The declared value that was probably meant: spelled the same, or, of texts, nearly so."""
    if attribute.size > MOST_COMPARED:
        return None
    spelled = {str(label): label for label in reversed(attribute.labels)}
    if str(value) in spelled:
        return spelled[str(value)]
    near = alike(str(value), spelled)  # a code that lost its zeros
    if isinstance(value, str):
        near = near or get_close_matches(value, list(spelled), n=1)
    return spelled[near[0]] if near else None


def _written(value: Value | Label) -> str:
    """A value as a predicate has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return number_text(float(value)) if isinstance(value, float) else str(value)
    text = value if isinstance(value, str) else value.isoformat()
    return "'" + text.replace("'", "''") + "'"


# ---------------------------------------------------------------------- order


def _ordered(comparison: Comparison, attribute: Attribute) -> Mask:
    (literal,), name = comparison.values, comparison.name
    if attribute.missing is not None and literal.value == attribute.missing:
        raise _At(
            literal.at,
            f"{_written(attribute.missing)} is the cell of missing values, which is outside the "
            f"order of {name!r}; write {written_name(name)} is null",
        )
    if not attribute.ordered:
        some = map(_written, _asked_between(comparison, attribute) or attribute.labels[:2])
        said = (
            f"{name!r} has no order ({attribute.describe()}), so none of its values is less than "
            f"another or between two; write {written_name(name)} in ({', '.join(some)})"
        )
        places = comparison.written or isinstance(attribute, Hierarchical)  # which are in levels
        raise _At(comparison.at, said if places else said + ", or declare it as " + IN_ORDER)
    if isinstance(attribute, Binned):
        return _bins_where(comparison.sign, literal, name, attribute)
    order = _ORDERS[comparison.sign]
    consecutive = _consecutive(attribute)
    if consecutive is not None and _is_number(literal.value):
        _refuse_cut(comparison.sign, literal, name, attribute)
        codes = np.arange(consecutive.start, consecutive.stop)
        return np.asarray(order(codes, literal.value), dtype=bool)
    labels = attribute.labels[: attribute.stated]
    end = _among(labels, literal.value)
    if end is not None:  # any number or date has its place among them, declared or not
        return np.array([order(label, end) for label in labels])
    code = _code(name, attribute, literal)
    return np.array([order(i, code) for i in range(attribute.stated)])


def _asked_between(comparison: Comparison, attribute: Attribute) -> Sequence[Label]:
    """The declared values that between names: those listed from one to the other, if these are
    few, else the two; none of other comparisons."""
    named = [literal.value for literal in comparison.ends]
    codes = [i for value in named for i, label in enumerate(attribute.labels) if _is(label, value)]
    if len(codes) == 2 and 0 <= codes[1] - codes[0] < FEW_LISTED:
        codes = list(range(codes[0], codes[1] + 1))
    return [attribute.labels[code] for code in dict.fromkeys(codes)]


def _among(labels: Sequence[Label], value: Value) -> Value | date | None:
    """The value as a number or a date, if the labels are such and were declared in their order."""
    end: Value | date | None = value
    if isinstance(value, str):
        end = _as_time(value, labels[0]) if isinstance(labels[0], date) else None
    elif not all(_is_number(label) for label in (*labels, value)):
        return None
    if end is None:
        return None
    try:
        places: list[Any] = [*labels, end]
        rising = all(a < b for a, b in pairwise(places[:-1]))
        sorted(places[-2:])  # can they be compared at all?
        return end if rising else None
    except TypeError:  # values of several kinds, or times with and without a zone
        return None


def _consecutive(attribute: Attribute) -> range | None:
    """The values of an attribute of consecutive integers, of which there may be very many."""
    values = attribute.values if isinstance(attribute, Ordinal) else None
    return values if isinstance(values, range) else None


def _refuse_cut(sign: str, literal: Literal, name: str, attribute: Attribute) -> None:
    """Refuse what holds of some numbers only that are counted as the last value: age = 99."""
    if not (isinstance(attribute, Ordinal) and attribute.clip):
        return
    compare: Callable[[Any, Any], bool] = _ORDERS.get(sign, operator.eq)
    last, end = attribute.values[-1], literal.value
    if compare(last, end) != compare(inf, end):
        name, label = written_name(name), attribute.labels[attribute.stated - 1]
        raise _At(
            literal.at,
            f"{name} {sign} {_written(end)} cuts through {_written(label)}, which also holds the "
            f"numbers above {last}: write {name} < {last} or {name} >= {last}, or "
            f"declare further values",
        )


def _is_number(label: Label) -> bool:
    return isinstance(label, int | float) and not isinstance(label, bool)


# ---------------------------------------------------------------------- bins


def _bins_where(sign: str, literal: Literal, name: str, attribute: Binned) -> Mask:
    """A bin is in or out as a whole; a comparison that would cut through one is refused."""
    written = literal.value
    if isinstance(written, bool) or isinstance(written, str) != attribute.dated:
        wanted = "a date, as in '2020-01-31'" if attribute.dated else "a number"
        raise _At(literal.at, f"{name!r} is {attribute.describe()}: compare it with {wanted}")
    end = attribute.place_of(written) if isinstance(written, str) else written
    if end is None:
        raise _At(literal.at, f"{_written(written)} is no date or time, as in '2020-01-31'")
    all_of, none_of = zip(
        *(_decided(sign, end, low, high, closed) for low, high, closed in _bins(attribute)),
        strict=True,
    )
    cut = [i for i, (a, b) in enumerate(zip(all_of, none_of, strict=True)) if not (a or b)]
    if cut:
        raise _At(literal.at, _cut(sign, end, name, attribute, cut[0]))
    return np.array(all_of)


def _bins(attribute: Binned) -> list[tuple[float, float, bool]]:
    """Least and largest number of each bin, and whether the largest belongs to it."""
    edges = list(attribute.places)
    if attribute.clip:  # the end bins take whatever lies beyond
        edges[0], edges[-1] = -inf, inf
    last = len(edges) - 2
    return [(low, high, i == last) for i, (low, high) in enumerate(pairwise(edges))]


def _decided(sign: str, end: float, low: float, high: float, closed: bool) -> tuple[bool, bool]:
    """Whether `number sign end` holds of all numbers of a bin, and whether of none."""
    below = high < end or (high == end and not closed)  # all numbers < end
    if sign == "<":
        return below, low >= end
    if sign == ">=":
        return low >= end, below
    up_to = high <= end  # all numbers ≤ end
    return (up_to, low > end) if sign == "<=" else (low > end, up_to)


def _cut(sign: str, end: float, name: str, attribute: Binned, bin_: int) -> str:
    """What would do instead: the other sign at this edge, or the edges next to it."""
    name = written_name(name)
    at, places = _place(end, attribute), attribute.places
    cuts = f"{name} {sign} {at} cuts through the bin {attribute.labels[bin_]}"
    if end in places[1:-1]:
        other = {"<=": "<", ">": ">="}[sign]
        return f"{cuts}, which begins with {at}: write {name} {other} {at}"
    outer = _outer(end, attribute, bin_)
    if outer:
        return f"{cuts}, {outer}"
    kept = "<" if sign in ("<", "<=") else ">="
    inner = [edge for edge in places[bin_ : bin_ + 2] if edge in places[1:-1]]
    near = " or ".join(f"{name} {kept} {_place(edge, attribute)}" for edge in inner)
    instead = f"write {near}, or declare" if near else "declare"
    return f"{cuts}: {instead} {at} as an edge"


def _outer(end: float, attribute: Binned, bin_: int) -> str:
    """Why an outer edge tells nothing apart: numbers beyond it, or on it, are in the end bin."""
    at, places = _place(end, attribute), attribute.places
    if end not in (places[0], places[-1]):
        return ""
    further = "declare a further edge to tell them apart"
    if attribute.clip:
        side = "below" if bin_ == 0 and end == places[0] else "beyond"
        held = "dates" if attribute.dated else "numbers"
        return f"which also holds the {held} {side} {at} (clip=True): {further}"
    last = "is the last one and " if end == places[-1] else ""
    return f"which {last}also holds {at} itself: {further}"


def _place(value: float, attribute: Binned) -> str:
    """A number, or a date in quotes, as a predicate has it."""
    if not attribute.dated:
        return number_text(float(value))
    moment = datetime(1970, 1, 1) + timedelta(microseconds=value)
    return _written(moment.date() if moment.time() == time() else moment)


def mask_label(attribute: Attribute, mask: Mask) -> str:
    """Some values in words: "0 … 17 + 65 … 99", the same whatever predicate chose them.

    Examples
    --------
    >>> from noiseplan.schema import Categorical
    >>> mask_label(Categorical(["north", "south", "east"]), np.array([True, False, True]))
    'north + east'
    """
    if isinstance(attribute, Hierarchical):
        return _whole_groups(attribute, mask)
    codes = np.flatnonzero(mask[: attribute.stated])
    if attribute.ordered:
        runs = np.split(codes, np.flatnonzero(np.diff(codes) > 1) + 1)
        parts = [str(attribute.span_label(int(run[0]), int(run[-1]))) for run in runs if len(run)]
    else:
        parts = [str(attribute.labels[code]) for code in codes]
    if attribute.missing is not None and mask[-1]:
        parts.append(attribute.missing)
    return _joined(parts)


def _whole_groups(attribute: Hierarchical, mask: Mask) -> str:
    """Some leaves as groups of the coarsest level of which they are all the members."""
    for level in reversed(attribute.levels[1:]):
        group = attribute.group_of(level)
        chosen = np.zeros(int(group.max()) + 1, dtype=bool)
        chosen[group[mask]] = True
        if (chosen[group] == mask).all():
            labels = attribute.level_labels(level)
            return _joined([f"{level} {labels[code]}" for code in np.flatnonzero(chosen)])
    return _joined([str(attribute.labels[code]) for code in np.flatnonzero(mask)])


def _joined(parts: list[str]) -> str:
    if len(parts) > _SHOWN:
        return " + ".join(parts[: _SHOWN - 1]) + f" + {len(parts) - _SHOWN + 1} more"
    return " + ".join(parts)


_SHOWN: Final = 6
