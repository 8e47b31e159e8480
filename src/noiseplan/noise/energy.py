"""The laws drawn here, by their energy: mass ∝ exp(−E(|k|)) on the integers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

_SIGNIFICANT_BITS: Final = 7


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

    def __sub__(self, other: Energy) -> Energy:
        return Energy(self.square - other.square, self.linear - other.linear)


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
