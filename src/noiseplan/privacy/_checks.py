"""Refuse what is not a number in range, and say what would be accepted.

A number may be more exact than a float: a fraction, a decimal, a long integer, NumPy's long double.
It becomes the nearest float on the safe side, so that a cost is never less than was stated, and
what is allowed never more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from numbers import Real
from typing import Any

from noiseplan.errors import BudgetError


def cost(name: str, value: object) -> float:
    """A number from 0 to infinity, both included; rounded up."""
    allowed = "a number at least 0 (infinity included)"
    return _number(name, value, lambda x: x >= 0, allowed, math.inf)


def allowance(name: str, value: object) -> float:
    """A number from 0 to infinity, both included; rounded down."""
    allowed = "a number at least 0 (infinity included)"
    return _number(name, value, lambda x: x >= 0, allowed, -math.inf)


def positive_finite(name: str, value: object, example: str) -> float:
    """A number above 0 and below infinity; rounded down."""
    allowed = f"a positive finite number, for example {example}"
    return _number(name, value, lambda x: 0 < x < math.inf, allowed, -math.inf)


def probability(name: str, value: object, example: str) -> float:
    """A number strictly between 0 and 1; rounded down."""
    allowed = f"a number strictly between 0 and 1, for example {example}"
    return _number(name, value, lambda x: 0 < x < 1, allowed, -math.inf)


def _number(
    name: str, value: object, accepts: Callable[[float], bool], allowed: str, towards: float
) -> float:
    # bool is an int to Python, but a budget of True is a slip. NaN fails every comparison.
    if isinstance(value, Real | Decimal) and not isinstance(value, bool):
        number: Any = value
        try:
            nearest = float(number)
        except OverflowError:
            nearest = math.inf if number > 0 else -math.inf
        except ValueError:  # a decimal that signals
            nearest = math.nan
        if accepts(nearest):
            return rounded(value, nearest, towards)
    raise BudgetError(f"{name} must be {allowed}; got {value!r}")


def rounded(value: Any, nearest: float, towards: float) -> float:
    """The float next to `value` on the side of `towards`, or `value` itself if it is a float.

    Python and NumPy compare their numbers with floats exactly, without rounding either.
    """
    beyond = nearest < value if towards > 0 else nearest > value
    return math.nextafter(nearest, towards) if beyond else nearest
