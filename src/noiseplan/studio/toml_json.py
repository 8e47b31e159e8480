"""TOML values as JSON and back: dates, times, infinities and large numbers keep what they are.

A page's own numbers are doubles: 1.0 comes back as 1, and whole numbers beyond 2⁵³ would change.
So numbers are compared by value, and large ones travel as text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any, Final

from noiseplan.study import StudyError

EXACT_IN_A_PAGE: Final = 2**53
_READERS: Final = {
    "$date": date.fromisoformat,
    "$datetime": datetime.fromisoformat,
    "$time": time.fromisoformat,
    "$float": float,
    "$int": int,
}


def to_json(value: object) -> Any:
    """A value that `tomllib` reads, or a label, for a page.

    Examples
    --------
    >>> to_json({"days": [date(2020, 1, 31)], "top": float("inf")})
    {'days': [{'$date': '2020-01-31'}], 'top': {'$float': 'inf'}}
    """
    if isinstance(value, Mapping):
        return {str(key): to_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    if isinstance(value, datetime):
        return {"$datetime": value.isoformat()}
    if isinstance(value, date):
        return {"$date": value.isoformat()}
    if isinstance(value, time):
        return {"$time": value.isoformat()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if isinstance(value, int) and abs(value) > EXACT_IN_A_PAGE:
        return {"$int": str(value)}
    return value


def from_json(value: object, place: tuple[str | int, ...] = ()) -> Any:
    """What a page sends, as TOML has it; refuses what TOML cannot say."""
    if isinstance(value, dict):
        if len(value) == 1 and (kind := next(iter(value))) in _READERS:
            return _special(kind, value[kind], place)
        return {key: from_json(each, (*place, key)) for key, each in value.items()}
    if isinstance(value, list):
        return [from_json(each, (*place, number)) for number, each in enumerate(value)]
    if value is None:
        raise _refused("a value is missing (null); leave the key out instead", place)
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _refused("the text holds half of a character", place) from None
    return value


def _special(kind: str, written: object, place: tuple[str | int, ...]) -> Any:
    try:
        return _READERS[kind](str(written))  # type: ignore[operator]
    except ValueError:
        raise _refused(f"{written!r} is no {kind[1:]}", place) from None


def _refused(message: str, place: tuple[str | int, ...]) -> StudyError:
    return StudyError(message, place=place)


def same(one: object, other: object) -> bool:
    """Whether two values are one in TOML, also where a page has turned 1.0 into 1.

    The order of keys counts: it is the order of attributes and of groups.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    if numbers and not isinstance(one, bool) and not isinstance(other, bool):
        return one == other or (one != one and other != other)  # nan is nan here
    return type(one) is type(other) and one == other


def canonical(value: object) -> str:
    """A text that is equal for values that are the `same`, to find them in lists.

    Examples
    --------
    >>> canonical([1.0, True]) == canonical([1, True]) != canonical([1, 1])
    True
    """
    return json.dumps(_whole(to_json(value)))


def _whole(value: Any) -> Any:
    """Numbers without a fraction as whole ones."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
