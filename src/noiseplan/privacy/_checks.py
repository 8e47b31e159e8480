"""Refuse what is not a number in range, and say what would be accepted."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real

from noiseplan.errors import BudgetError


def nonnegative(name: str, value: object) -> float:
    """A number from 0 to infinity, both included."""
    return _number(name, value, lambda x: x >= 0, "a number at least 0 (infinity included)")


def positive_finite(name: str, value: object, example: str) -> float:
    """A number above 0 and below infinity."""
    allowed = f"a positive finite number, for example {example}"
    return _number(name, value, lambda x: 0 < x < math.inf, allowed)


def probability(name: str, value: object, example: str) -> float:
    """A number strictly between 0 and 1."""
    allowed = f"a number strictly between 0 and 1, for example {example}"
    return _number(name, value, lambda x: 0 < x < 1, allowed)


def _number(name: str, value: object, accepts: Callable[[float], bool], allowed: str) -> float:
    # bool is an int to Python, but a budget of True is a slip. NaN fails every comparison.
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if accepts(number):
            return number
    raise BudgetError(f"{name} must be {allowed}; got {value!r}")
