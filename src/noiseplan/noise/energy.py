"""The laws drawn here, by their energy: mass ∝ exp(−E(|k|)) on the integers.

An `Interval` of integers holds exp(−t) for certain, to any number of bits: (lo, hi) at `bits`
stands for all real numbers from lo/2^bits to hi/2^bits. Lower ends are rounded down and upper ends
up in every operation, so the true value never leaves the interval; more bits only make it narrower.
Nothing here uses floating point.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Final

_SIGNIFICANT_BITS: Final = 7

Interval = tuple[int, int]

_GUARD: Final = 16  # spare bits for some 60 roundings of one unit each
_HALVINGS: Final = 8  # the series is summed at t/2^s < 2⁻⁸, where each term gains 8 bits or more


@dataclass(frozen=True)
class Energy:
    """E(k) = square·k² + linear·k for k = 0, 1, 2, …, with coefficients ≥ 0 and not both 0.

    The discrete Gaussian has square = 1/(2σ²), the discrete Laplace linear = 1/scale.

    Examples
    --------
    >>> Energy.gaussian(Fraction(2)).at(3)
    Fraction(9, 4)
    """

    square: Fraction
    linear: Fraction

    @classmethod
    def gaussian(cls, variance: Fraction) -> Energy:
        """k²/(2σ²)."""
        return cls(1 / (2 * variance), Fraction(0))

    @classmethod
    def laplace(cls, scale: Fraction) -> Energy:
        """k/scale."""
        return cls(Fraction(0), 1 / scale)

    def at(self, k: int) -> Fraction:
        """E(k)."""
        return (self.square * k + self.linear) * k

    def coarsened(self, width: int) -> Energy:
        """The energy c ↦ E(c·width)."""
        return Energy(self.square * width**2, self.linear * width)

    def rounded_down(self) -> Energy:
        """An energy that is nowhere larger, and less than 1/64 smaller: 7 bits a coefficient.

        Examples
        --------
        >>> Energy(Fraction(1, 3), Fraction(0)).rounded_down()
        Energy(square=Fraction(85, 256), linear=Fraction(0, 1))
        """
        return Energy(_leading_bits(self.square), _leading_bits(self.linear))


def _leading_bits(x: Fraction) -> Fraction:
    """The largest m·2^e ≤ x with an integer m of 7 bits."""
    if not x:
        return x
    # 2^(d−1) < x < 2^(d+1), so x·2^(7−d) has 7 or 8 bits before the point.
    difference = x.numerator.bit_length() - x.denominator.bit_length()
    unit = Fraction(2) ** (difference - _SIGNIFICANT_BITS)
    leading = x // unit
    spare = leading.bit_length() - _SIGNIFICANT_BITS
    return (leading >> spare << spare) * unit


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
