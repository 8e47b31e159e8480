"""Declarations proposed from a file that the user calls public: its header and different values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from math import ceil, floor, inf, isfinite, log10
from typing import Any, Final

from noiseplan.errors import DataError
from noiseplan.studio.csv_text import number_of, read_csv
from noiseplan.studio.toml_json import to_json

MOST_VALUES: Final = 1000
# Whole numbers that fill at least this share of their range are one after the other.
DENSE: Final = 0.5
BINS: Final = 10


def proposals(name: str, content: str, confirmed: bool) -> dict[str, Any]:
    """Every column with its values, and what could be declared of it. Nothing of it is kept."""
    if confirmed is not True:
        raise DataError(
            f"{name!r} is read only when you confirm that every line of it is public: its values "
            f"become labels, which are published"
        )
    table = read_csv(name, content)
    columns = [_column(each, values) for each, values in table.columns.items()]
    return {"name": name, "rows": table.rows, "columns": columns}


def _column(name: str, texts: Sequence[str]) -> dict[str, Any]:
    """One column; empty cells call for a cell of missing values."""
    stated = list(dict.fromkeys(text for text in texts if text))
    missing = any(not text for text in texts)
    found: dict[str, Any] = {"name": name, "distinct": len(stated), "missing": missing}
    values, kind = _typed(stated)
    if len(values) <= MOST_VALUES:
        found["values"] = to_json(values)
    elif kind == "text":
        found |= {"values": to_json(values[:MOST_VALUES]), "declaration": None}
        return found | {"note": f"more than {MOST_VALUES:,} different texts: a name or an address?"}
    if kind in ("integer", "number") and values:
        found["range"] = [min(values), max(values)]
    declaration = _declared(values, kind)
    if declaration is not None and missing:
        declaration["missing"] = "not stated"
    note = "" if declaration else "no values"
    return found | {"declaration": to_json(declaration) if declaration else None, "note": note}


def _typed(texts: Sequence[str]) -> tuple[list[Any], str]:
    """The values as whole numbers, numbers or days where all of them are, else as text; sorted."""
    if texts and all(_plain_integer(text) for text in texts):
        return _integers(texts), "integer"
    numbers = [number_of(text) for text in texts]
    if texts and all(number is not None for number in numbers) and not any(map(_code, texts)):
        return sorted({number for number in numbers if number is not None}), "number"
    try:
        return sorted({date.fromisoformat(text) for text in texts}), "date" if texts else "text"
    except ValueError:
        return list(texts), "text"


def _integers(texts: Sequence[str]) -> list[int]:
    try:
        return sorted({int(text) for text in texts})
    except ValueError:  # Python reads some thousands of digits, and no more
        digits = max(map(len, texts))
        raise DataError(f"a whole number of {digits:,} digits is too long to be read") from None


def _plain_integer(text: str) -> bool:
    return text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() and not _code(text)


def _code(text: str) -> bool:
    """Whether digits are a code, as 007 is: a number would lose its zeros."""
    digits = text.removeprefix("-")
    return len(digits) > 1 and digits[0] == "0" and digits[1] != "."


def _declared(values: list[Any], kind: str) -> dict[str, Any] | None:
    """An entry of [schema], as somebody would write it."""
    if not values:
        return None
    if kind == "integer":
        low, high = values[0], values[-1]
        if len(values) > 2 and high - low < 10_000 and len(values) >= DENSE * (high - low + 1):
            return {"ordinal": {"from": low, "to": high}}
        return {"ordinal": values} if len(values) <= MOST_VALUES else {"binned": bins(low, high)}
    if kind == "number":
        return {"binned": bins(values[0], values[-1])}
    if kind == "date":
        whole = len(values) == (values[-1] - values[0]).days + 1 and len(values) > 2
        return {"ordinal": {"from": values[0], "to": values[-1]} if whole else values}
    return {"categorical": values}


def bins(low: float, high: float) -> list[float]:
    """About ten bins of a round width over all numbers.

    Examples
    --------
    >>> bins(0.4, 93.0)
    [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    """
    try:
        edges = _edges(float(low), float(high))
    except (ArithmeticError, ValueError, StopIteration):  # beyond what a double holds
        edges = [inf]
    if not all(map(isfinite, edges)):
        raise DataError(
            "numbers that are as large, or as close to 0, as a computer can tell have no bins of "
            "a round width; write their edges yourself"
        )
    return [int(edge) if edge.is_integer() else edge for edge in edges]


def _edges(low: float, high: float) -> list[float]:
    span = (high - low) or max(abs(high), 1.0)
    raw = span / BINS
    power = 10.0 ** floor(log10(raw))
    width = next(step * power for step in (1, 2, 5, 10) if step * power >= raw * (1 - 1e-9))
    first, last = floor(low / width + 1e-9), ceil(high / width - 1e-9)
    last = max(last, first + 1)
    return [float(f"{number * width:.10g}") for number in range(first, last + 1)]
