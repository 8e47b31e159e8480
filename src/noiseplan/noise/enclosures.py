"""Intervals of integers that certainly hold exp(−t), to any number of bits.

An `Interval` (lo, hi) at `bits` stands for all real numbers from lo/2^bits to hi/2^bits. Lower ends
are rounded down and upper ends up in every operation, so the true value never leaves the interval;
more bits only make it narrower. Nothing here uses floating point.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Final

Interval = tuple[int, int]

_GUARD: Final = 16  # spare bits for some 60 roundings of one unit each
_HALVINGS: Final = 8  # the series is summed at t/2^s < 2⁻⁸, where each term gains 8 bits or more


def product(a: Interval, b: Interval, bits: int) -> Interval:
    """The product of two intervals of numbers that are not negative.

    Examples
    --------
    >>> product((3, 3), (5, 6), bits=2)  # 3/4 times 5/4 to 6/4
    (3, 5)
    """
    return (a[0] * b[0]) >> bits, -((-a[1] * b[1]) >> bits)


def exp_minus(t: Fraction, bits: int) -> Interval:
    """An interval that holds exp(−t), t ≥ 0, a few units of 2^−bits wide.

    Examples
    --------
    >>> import math
    >>> low, high = exp_minus(Fraction(1), 30)
    >>> low, low / 2**30 < math.exp(-1) < high / 2**30, high
    (395007542, True, 395007543)
    >>> exp_minus(Fraction(0), 30) == (2**30, 2**30)
    True

    Notes
    -----
    exp(−t) = exp(−t/2^s)^(2^s). Each of the s squarings doubles the width, so the work is done with
    s more bits.
    """
    if t >= bits:  # exp(−t) ≤ e^−bits < 2^−bits
        return 0, 1
    squarings = floor(t).bit_length() + _HALVINGS
    work = bits + squarings + _GUARD
    scale = 1 << (work - squarings)
    value = _series((floor(t * scale), -floor(-t * scale)), work)
    for _ in range(squarings):
        value = product(value, value, work)
    drop = work - bits
    return value[0] >> drop, min(-(-value[1] >> drop), 1 << bits)  # exp(−t) ≤ 1


def _series(y: Interval, bits: int) -> Interval:
    """exp(−y) for 0 ≤ y < 1 by Σ (−y)ⁿ/n!.

    Terms alternate and fall, so what is left out is at most the first term left out.
    """
    low = high = 0
    term, n = (1 << bits, 1 << bits), 0
    while term[1] > 1:
        low, high = (low - term[1], high - term[0]) if n % 2 else (low + term[0], high + term[1])
        n += 1
        term = product(term, y, bits)
        term = term[0] // n, -(-term[1] // n)
    return max(low - term[1], 0), high + term[1]
