"""Arithmetic rounded outward: a float that is never below (`up`) or above (`down`) the truth.

Sums, products, quotients and square roots are rounded *correctly* in the stated direction: the
exact result is compared with the nearest float, and one step is taken only where it is needed.
So 0.25 + 0.25 stays 0.5, and spending a budget in exact halves never overshoots it by an ulp.

Numbers that users give are refused if they are not in range, and may be more exact than a float: a
fraction, a decimal, a long integer, NumPy's long double. They become the nearest float on the safe
side, so that a cost is never less than was stated, and what is allowed never more.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from numbers import Real
from typing import Any

from noiseplan.errors import BudgetError, remedy


def up(x: float, ulps: int = 1) -> float:
    """The float `ulps` steps above `x`.

    Examples
    --------
    >>> up(1.0)
    1.0000000000000002
    """
    for _ in range(ulps):
        x = math.nextafter(x, math.inf)
    return x


def down(x: float, ulps: int = 1) -> float:
    """The float `ulps` steps below `x`.

    Examples
    --------
    >>> down(1.0)
    0.9999999999999999
    """
    for _ in range(ulps):
        x = math.nextafter(x, -math.inf)
    return x


def fraction_up(exact: Fraction) -> float:
    """The smallest float that is at least `exact`; infinity when there is none.

    Examples
    --------
    >>> fraction_up(Fraction(1, 2)), fraction_up(Fraction(1, 3)) > Fraction(1, 3)
    (0.5, True)
    """
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -sys.float_info.max
    return nearest if Fraction(nearest) >= exact else up(nearest)


def fraction_down(exact: Fraction) -> float:
    """The largest float that is at most `exact`; minus infinity when there is none.

    Examples
    --------
    >>> fraction_down(Fraction(1, 2)), fraction_down(Fraction(1, 10)) < Fraction(1, 10)
    (0.5, True)
    """
    return -fraction_up(-exact)


def sum_up(values: Iterable[float]) -> float:
    """The smallest float that is at least the exact sum of `values`.

    Examples
    --------
    >>> sum_up([0.25, 0.25]), sum_up([0.1] * 10)
    (0.5, 1.0000000000000002)

    Notes
    -----
    `math.fsum` rounds the exact sum to the nearest float s. The exact remainder Σ values − s,
    rounded to the nearest float by a second `fsum`, has the right sign; only when it is positive
    is s below the sum, and then the next float is above it.
    """
    terms = list(values)
    try:
        nearest = math.fsum(terms)
    except OverflowError:  # a partial sum left the range of floats: infinity bounds it
        return math.inf
    if not math.isfinite(nearest):
        return nearest
    return up(nearest) if math.fsum([*terms, -nearest]) > 0 else nearest


def product_up(*factors: float) -> float:
    """The smallest float that is at least the exact product of `factors`.

    Examples
    --------
    >>> product_up(0.5, 0.5), Fraction(product_up(0.1, 0.1)) >= Fraction(0.1) ** 2
    (0.25, True)
    """
    if not all(map(math.isfinite, factors)):
        return math.prod(factors)
    return fraction_up(math.prod(map(Fraction, factors), start=Fraction(1)))


def product_down(*factors: float) -> float:
    """The largest float that is at most the exact product of `factors`.

    Examples
    --------
    >>> product_down(0.5, 0.5), Fraction(product_down(0.1, 0.1)) <= Fraction(0.1) ** 2
    (0.25, True)
    """
    if not all(map(math.isfinite, factors)):
        return math.prod(factors)
    return fraction_down(math.prod(map(Fraction, factors), start=Fraction(1)))


def quotient_up(numerator: float, denominator: float) -> float:
    """The smallest float that is at least the exact quotient of two finite floats.

    Examples
    --------
    >>> quotient_up(1.0, 4.0), Fraction(quotient_up(1.0, 3.0)) >= Fraction(1, 3)
    (0.25, True)
    """
    return fraction_up(Fraction(numerator) / Fraction(denominator))


def sqrt_up(x: float) -> float:
    """The smallest float whose exact square is at least `x`.

    Examples
    --------
    >>> sqrt_up(2.25), Fraction(sqrt_up(2.0)) ** 2 >= 2
    (1.5, True)
    """
    nearest = math.sqrt(x)
    if math.isinf(nearest) or Fraction(nearest) ** 2 >= Fraction(x):
        return nearest
    return up(nearest)


def margin(count: int) -> float:
    """A relative error that a sum of `count` products of a few rounded numbers cannot exceed."""
    return 1e-12 + 4 * sys.float_info.epsilon * count


def sqrt_down(x: float) -> float:
    """The largest float whose exact square is at most `x`.

    Examples
    --------
    >>> sqrt_down(2.25), Fraction(sqrt_down(3.0)) ** 2 <= 3
    (1.5, True)
    """
    nearest = math.sqrt(x)
    if math.isinf(nearest) or Fraction(nearest) ** 2 <= Fraction(x):
        return nearest
    return down(nearest)


def text_up(x: float, digits: int = 6) -> str:
    """A cost for reading: at most `digits` significant digits, never below `x`.

    A float is taken for the shortest decimal that reads back as it, so that 0.1 reads 0.1. Only for
    print: what is compared or stored is the float itself.

    Examples
    --------
    >>> text_up(6.5479240001), text_up(0.1 + 0.2), text_up(1e-9), text_up(120000.0)
    ('6.54793', '0.300001', '1e-9', '120000')
    """
    return _text(x, digits, ROUND_CEILING)


def text_down(x: float, digits: int = 6) -> str:
    """What is left or allowed, for reading: at most `digits` significant digits, never above `x`.

    Examples
    --------
    >>> text_down(0.123456789), text_down(0.5), text_down(1e-12)
    ('0.123456', '0.5', '1e-12')
    """
    return _text(x, digits, ROUND_FLOOR)


def text_of(x: float) -> str:
    """A number that was given, as it was given: all its digits.

    Examples
    --------
    >>> text_of(1.0), text_of(0.1), text_of(1e-09)
    ('1', '0.1', '1e-09')
    """
    return repr(float(x)).removesuffix(".0")


def _text(x: float, digits: int, rounding: str) -> str:
    if not math.isfinite(x):
        return "∞" if x > 0 else str(x)
    shown = Context(prec=digits, rounding=rounding).create_decimal(repr(float(x))).normalize()
    if shown == 0 or Decimal("1e-4") <= abs(shown) < Decimal("1e9"):
        return format(shown, "f")
    return format(shown, "e")


def checked_cost(name: str, value: object) -> float:
    """A number from 0 to infinity, both included; rounded up."""
    allowed = "a number at least 0 (infinity included)"
    return _number(name, value, lambda x: x >= 0, allowed, math.inf)


def checked_allowance(name: str, value: object) -> float:
    """A number from 0 to infinity, both included; rounded down."""
    allowed = "a number at least 0 (infinity included)"
    return _number(name, value, lambda x: x >= 0, allowed, -math.inf)


def positive_finite(name: str, value: object, example: str) -> float:
    """A number above 0 and below infinity; rounded down."""
    allowed = "a positive finite number"
    return _number(name, value, lambda x: 0 < x < math.inf, allowed, -math.inf, example)


def probability(name: str, value: object, example: str) -> float:
    """A number strictly between 0 and 1; rounded down."""
    allowed = "a number strictly between 0 and 1"
    return _number(name, value, lambda x: 0 < x < 1, allowed, -math.inf, example)


def _number(
    name: str,
    value: object,
    accepts: Callable[[float], bool],
    allowed: str,
    towards: float,
    example: str = "",
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
    call = remedy("argument", f", for example {example}", "") if example else ""
    raise BudgetError(f"{name} must be {allowed}" + call + f"; got {value!r}")


def rounded(value: Any, nearest: float, towards: float) -> float:
    """The float next to `value` on the side of `towards`, or `value` itself if it is a float.

    Python and NumPy compare their numbers with floats exactly, without rounding either.
    """
    beyond = nearest < value if towards > 0 else nearest > value
    return math.nextafter(nearest, towards) if beyond else nearest
