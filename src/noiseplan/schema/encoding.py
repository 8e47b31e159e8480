"""From values to codes, whole arrays at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any, Final, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.schema.labels import Label

Codes: TypeAlias = NDArray[np.int64]

# float64 tells apart all integers below this magnitude; beyond it only Python's numbers do.
_EXACT: Final = 2**53
_EPOCH: Final = datetime(1970, 1, 1)


@final
class LabelTable:
    """The codes of declared labels; any other value has the code ``missing``.

    Arrays of numbers are searched in the sorted labels, everything else is looked up by hash.
    Both follow Python's equality: ``3``, ``3.0`` and ``np.int8(3)`` are one value.
    """

    def __init__(self, labels: Iterable[Label], missing: int) -> None:
        labels = tuple(labels)
        self._lookup = _CodeLookup(labels, missing)
        numbers = sorted((key, n) for n, key in enumerate(labels) if isinstance(key, int | float))
        self._searchable = all(abs(number) < _EXACT for number, _ in numbers)
        self._numbers = np.array([number for number, _ in numbers] if self._searchable else [])
        self._codes = np.array([code for _, code in numbers], dtype=np.int64)

    def encode(self, values: NDArray[Any]) -> Codes:
        """Return the codes of a flat array."""
        kind = values.dtype.kind
        if kind in "biuf" and self._searchable:
            return self._search(values.astype(np.float64))
        if kind == "M":  # dates: few of them differ, and they are slow to turn into Python's
            moments, inverse = np.unique(values, return_inverse=True)
            if values.dtype != np.dtype("M8[D]"):
                moments = _in_microseconds(moments)
            return self._lookup.encode(moments.tolist())[inverse]
        if kind == "S":
            values = np.char.decode(values, "utf-8", "replace")
        return self._lookup.encode(values.tolist())

    def _search(self, values: NDArray[np.float64]) -> Codes:
        if not len(self._numbers):
            return np.full(values.shape, self._lookup.missing, dtype=np.int64)
        place = np.minimum(np.searchsorted(self._numbers, values), len(self._numbers) - 1)
        found = self._numbers[place] == values
        return np.where(found, self._codes[place], self._lookup.missing)


@final
class _CodeLookup(dict[object, int]):
    """A dictionary from value to code in which every other value has the code ``missing``."""

    def __init__(self, labels: Iterable[Label], missing: int) -> None:
        super().__init__((label, code) for code, label in enumerate(labels))
        self.missing = missing
        for label, code in list(self.items()):
            self.setdefault(_same_moment(label), code)

    def __missing__(self, value: object) -> int:
        # Python holds a decimal 0.1 to differ from the float; whoever declares 0.1 means both.
        return self.get(float(value), self.missing) if isinstance(value, Decimal) else self.missing

    def encode(self, values: list[object]) -> Codes:
        """Return the code of every value; `map` keeps the loop over rows out of Python."""
        try:
            return np.fromiter(map(self.__getitem__, values), dtype=np.int64, count=len(values))
        except TypeError:  # something unhashable, a list say, which is no declared value
            return np.array([self._code_or_missing(value) for value in values], dtype=np.int64)

    def _code_or_missing(self, value: object) -> int:
        try:
            return self[value]
        except TypeError:
            return self.missing


def encode_consecutive(values: NDArray[Any], labels: range) -> Codes:
    """Return the codes of an array of numbers when the labels are consecutive integers."""
    low, high = labels[0], labels[-1]
    if max(abs(low), abs(high)) >= _EXACT:
        return LabelTable(labels, -1).encode(values)
    inside = (values >= low) & (values <= high)
    if values.dtype.kind == "f":
        inside &= values == np.floor(values)
        values = np.where(inside, values, low)
    return np.where(inside, values.astype(np.int64) - low, -1)


def as_numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return a flat array as float64, NaN for all that is no number: text is never read as one."""
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    if values.dtype.kind != "O":
        return np.full(values.shape, np.nan)
    return np.fromiter(map(_as_number, values.tolist()), dtype=np.float64, count=len(values))


def as_known_numbers(values: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The same, and which of them are numbers."""
    numbers = as_numbers(values)
    return numbers, ~np.isnan(numbers)


def as_moments(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """A flat array of dates and times as microseconds since 1970, and which of them are such.

    Times with a zone are none: the same moment has another date elsewhere.
    """
    if values.dtype.kind == "M":
        return _in_microseconds(values).astype(np.int64), ~np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(values.shape, np.int64), np.zeros(values.shape, bool)
    found = [_as_moment(value) for value in values.tolist()]
    numbers = np.array([moment or 0 for moment in found], dtype=np.int64)
    return numbers, np.array([moment is not None for moment in found], dtype=bool)


def _in_microseconds(values: NDArray[Any]) -> NDArray[Any]:
    """Moments of any unit; those beyond what microseconds hold, 292 000 years, at their ends.

    NumPy lets such moments wrap around into years that are near.
    """
    moments = values.astype("M8[us]")
    if np.datetime_data(values.dtype)[0] in ("ns", "ps", "fs", "as"):
        return moments  # which hold fewer years
    beyond = ~np.isnat(values) & (moments.astype(values.dtype) != values)
    last = np.iinfo(np.int64).max
    ends = np.where(values.astype(np.int64) > 0, last, -last).astype("M8[us]")
    return np.where(beyond, ends, moments)


def _as_moment(value: object) -> int | None:
    plain = isinstance(value, date) and not is_missing(value)
    zoned = isinstance(value, datetime) and value.tzinfo is not None
    return microseconds(value) if plain and not zoned else None  # type: ignore[arg-type]


def microseconds(moment: date) -> int:
    """Microseconds from 1970 to a day's midnight, or to a time without a zone."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _as_number(value: object) -> float:
    return float(value) if isinstance(value, Real | Decimal) else math.nan


def is_missing(value: object) -> bool:
    """Tell whether a Python object stands for a missing value."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True  # pandas' markers by name: they must not make us import pandas
    try:
        return bool(value != value)  # NaN of any type, and nothing else
    except (TypeError, ValueError, ArithmeticError):
        return False


def stand_for_missing(values: NDArray[Any], name: str) -> NDArray[np.bool_]:
    """Whether each value of a flat array is missing, or is the name of the cell of missing ones."""
    kind = values.dtype.kind
    if kind == "f":
        return np.asarray(np.isnan(values))
    if kind == "M":
        return np.asarray(np.isnat(values))
    if kind in "OUS":
        spelled = name.encode() if kind == "S" else name
        found = [is_missing(v) or (isinstance(v, type(spelled)) and v == spelled) for v in values]
        return np.array(found, dtype=bool)
    return np.zeros(values.shape, dtype=bool)


def _same_moment(label: object) -> object:
    """Return the day of a midnight and the reverse: engines differ in how they give dates."""
    if isinstance(label, datetime):
        return label.date() if label.time() == time() and label.tzinfo is None else label
    return datetime.combine(label, time()) if isinstance(label, date) else label
