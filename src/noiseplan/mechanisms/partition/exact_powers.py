"""Weights 2^−rd for integers d, each as a float with an exponent, with a proved error.

They stand for exp(−βd) with β = r·ln 2. No library's exponential is trusted: r = numerator/2^bits,
so the whole part of r·d is an exact exponent and the fraction is looked up in three tables of 2^−t,
t in steps of 2⁻¹⁰, 2⁻²⁰ and 2⁻³⁰, made with integers of 128 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import isqrt
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import PlanError, remedy
from noiseplan.matrices.base import Array

OR_SHARE = remedy("argument", " or share=", "")

# Just above ln 2 = 0.693147180559945309417…
LN2_UP: Final = Fraction(6931471805599453095, 10**19)
UNIT: Final = 2.0**-53  # a correctly rounded result is off by at most this part of itself
# Three entries, each off by one unit and 1024 units of 2^−127, and two products: below six units.
ERROR: Final = 6 * UNIT
_DIGITS: Final = 10  # bits of the fraction a table has
_FRACTION: Final = 3 * _DIGITS
_WORK: Final = 128
_NUMERATOR_BITS: Final = 12  # of r: it is below what is wanted by at most one part in 2048


@dataclass(frozen=True)
class Rate:
    """r = numerator/2^bits."""

    numerator: int
    bits: int

    @classmethod
    def below(cls, wanted: Fraction) -> Rate:
        """The largest rate of at most 12 bits that is not above `wanted`.

        Examples
        --------
        >>> Rate.below(Fraction(1, 3))
        Rate(numerator=2730, bits=13)
        """
        bits = _FRACTION
        while bits and wanted * 2**bits >= 2**_NUMERATOR_BITS:
            bits -= 1
        numerator = int(wanted * 2**bits)
        if not 1 <= numerator < 2**_NUMERATOR_BITS:
            raise PlanError(
                f"choosing buckets takes an ε between about 2^-29 and 2^12, and would get "
                f"{float(2 * LN2_UP * wanted):.3g}; {'raise' if numerator < 1 else 'lower'} the "
                f"budget" + OR_SHARE
            )
        return cls(numerator, bits)

    @property
    def value(self) -> Fraction:
        """r itself."""
        return Fraction(self.numerator, 2**self.bits)

    @property
    def largest(self) -> int:
        """The largest d whose product with the numerator fits 62 bits."""
        return 1 << (62 - _NUMERATOR_BITS)

    def powers(self, costs: IntArray) -> tuple[Array, IntArray]:
        """Mantissas from ½ to 1 and exponents of 2^−rd, each within `ERROR` of the truth.

        Examples
        --------
        >>> mantissa, exponent = Rate(1, 1).powers(np.array([0, 1, 2, 5]))
        >>> mantissa.round(4).tolist(), exponent.tolist()
        ([1.0, 0.7071, 1.0, 0.7071], [0, 0, -1, -2])
        """
        product = np.asarray(costs, dtype=np.int64) * self.numerator
        whole = product >> self.bits
        fraction = (product - (whole << self.bits)) << (_FRACTION - self.bits)
        tables, mask = _tables(), (1 << _DIGITS) - 1
        mantissa = tables[0][fraction >> 2 * _DIGITS]
        mantissa = mantissa * tables[1][(fraction >> _DIGITS) & mask]
        return mantissa * tables[2][fraction & mask], -whole


@cache
def _tables() -> Array:
    """2^−t for t = i/2¹⁰, i/2²⁰ and i/2³⁰, i < 1024."""
    root, rows = 1 << (_WORK - 1), []  # ½, of which square roots are taken, always rounded down
    for _ in range(3):
        for _ in range(_DIGITS):
            root = isqrt(root << _WORK)
        power, row = 1 << _WORK, []
        for _ in range(1 << _DIGITS):
            row.append(power / (1 << _WORK))
            power = power * root >> _WORK
        rows.append(row)
    return np.array(rows)
