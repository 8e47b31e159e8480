"""The discrete Gaussian and the discrete Laplace distribution, drawn exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.errors import NoiseError
from noiseplan.noise.coarse_fine import REACH, CoarseFine
from noiseplan.noise.energy import Energy
from noiseplan.noise.inversion import InversionTable
from noiseplan.noise.randomness import Source, SystemSource
from noiseplan.noise.wide_integers import WideIntegers, joined, wide

Size = int | tuple[int, ...]

# Beyond these a draw might not fit 62 bits. (σ ≤ 2⁴⁸; then |draw| ≥ 2⁶² is rarer than e^−8000.)
LARGEST_VARIANCE: Final = 2**96
LARGEST_SCALE: Final = 2**48
# Beyond this the energies of draws might not be numbers. (σ ≤ 2²⁴⁰, and all products below 2¹⁰²³.)
WIDEST_VARIANCE: Final = 2**480
_LONGEST_TABLE: Final = 2048  # entries of a law's own table
_CHEAP_TABLE: Final = 128  # entries that take no longer to build than the rest of a call
_AT_ONCE: Final = 2**15  # draws at a time: what they need stays in the processor's cache


def discrete_gaussian(
    variance: Fraction | float, size: Size, *, source: Source | None = None
) -> IntArray:
    """Independent discrete Gaussians: P(k) ∝ exp(−k²/(2σ²)) on all integers k, exactly.

    Parameters
    ----------
    variance
        σ² from 0 to 2⁹⁶: an integer, a `Fraction`, or a float, taken as the rational it is. It is
        the parameter of the law; the variance of the draws is a little below it. 0 gives zeros.
    size
        How many, or the shape of the array.
    source
        Where the bits come from; the operating system unless given.

    Returns
    -------
    Integers of 64 bits.

    Privacy
    -------
    Added to a vector of integers with L2 sensitivity Δ, one draw each, it satisfies Δ²/(2σ²)-zCDP.
    The law has no rounding in it: see *Notes*. Draws are made in bulk and know nothing of the data.

    Examples
    --------
    >>> from noiseplan.noise import SeededSource, discrete_gaussian
    >>> discrete_gaussian(25, 8, source=SeededSource(1)).tolist()
    [-8, 3, -6, 3, 5, 6, -4, -10]
    >>> discrete_gaussian(Fraction(7, 3), (2, 3)).shape
    (2, 3)

    Notes
    -----
    Narrow laws are drawn by inversion of their own table (`inversion`), wide ones from a coarse
    table and a uniform remainder by rejection (`coarse_fine`); each states why it is exact. Which
    one is taken depends on σ² and the number of draws only.

    References
    ----------
    Canonne, Kamath and Steinke, *The discrete Gaussian for differential privacy*, 2020.
    """
    value = _rational("variance", variance, LARGEST_VARIANCE, "σ² ≤ 2⁹⁶")
    return _draw(Energy.gaussian(value) if value else None, size, source)


def discrete_laplace(
    scale: Fraction | float, size: Size, *, source: Source | None = None
) -> IntArray:
    """Independent discrete Laplace numbers: P(k) ∝ exp(−|k|/scale) on all integers k, exactly.

    Parameters
    ----------
    scale
        From 0 to 2⁴⁸: an integer, a `Fraction`, or a float, taken as the rational it is. 0 gives
        zeros.
    size, source
        As for `discrete_gaussian`.

    Returns
    -------
    Integers of 64 bits.

    Privacy
    -------
    Added to a vector of integers with L1 sensitivity Δ, one draw each, it satisfies Δ/scale-DP.

    Examples
    --------
    >>> from noiseplan.noise import SeededSource, discrete_laplace
    >>> discrete_laplace(3.5, 8, source=SeededSource(1)).tolist()
    [-7, 2, -4, 2, 3, 4, -3, -10]
    """
    value = _rational("scale", scale, LARGEST_SCALE, "scale ≤ 2⁴⁸")
    return _draw(Energy.laplace(value) if value else None, size, source)


def wide_gaussian(
    variance: Fraction | float, size: Size, *, source: Source | None = None
) -> WideIntegers:
    """`discrete_gaussian` for σ² up to 2⁴⁸⁰, in limbs.

    Examples
    --------
    >>> from noiseplan.noise import SeededSource
    >>> wide_gaussian(2**200, 1, source=SeededSource(1)).python().tolist()
    [-2042780154985752273353859837039]
    """
    value = _rational("variance", variance, WIDEST_VARIANCE, "σ² ≤ 2⁴⁸⁰")
    shape = _shape(size)
    drawn = list(_drawn(Energy.gaussian(value) if value else None, math.prod(shape), source))
    parts = [WideIntegers(part) if part.ndim > 1 else part for part in drawn]
    return wide(joined(parts)).reshape(*shape)


@dataclass(frozen=True, eq=False)
class Inversion:
    """A law drawn from its own table of magnitudes, with a fair sign."""

    table: InversionTable

    def draw(self, count: int, source: Source) -> IntArray:
        """So many draws."""
        magnitudes, minus = self.table.draw(count, source)
        sign = -minus.astype(np.int64)
        return np.asarray((magnitudes ^ sign) - sign)  # in two's complement −x = ~x + 1


def sampler(energy: Energy, count: int) -> Inversion | CoarseFine:
    """The way to draw so many: a table of the law's own where it is short or soon pays for itself.

    A choice of speed only; both are exact. It looks at nothing but its arguments.
    """
    affordable = min(_LONGEST_TABLE, max(_CHEAP_TABLE, count))
    if energy.at(affordable) >= REACH:
        return Inversion(InversionTable.of(energy, folded=True))
    return CoarseFine.of(energy)


def _draw(energy: Energy | None, size: Size, source: Source | None) -> IntArray:
    shape = _shape(size)
    values, start = np.empty(math.prod(shape), dtype=np.int64), 0
    for part in _drawn(energy, values.size, source):
        values[start : start + part.size] = part
        start += part.size
    return values.reshape(shape)


def _drawn(energy: Energy | None, count: int, source: Source | None) -> Iterator[IntArray]:
    """So many draws, some at a time."""
    if source is not None and not isinstance(source, Source):
        raise NoiseError(
            f"source must be one of noiseplan.noise's sources, as in SystemSource(); got {source!r}"
        )
    if energy is None or count == 0:
        yield np.zeros(count, dtype=np.int64)
        return
    way, bits = sampler(energy, count), SystemSource() if source is None else source
    for start in range(0, count, _AT_ONCE):
        yield way.draw(min(_AT_ONCE, count - start), bits)


def _rational(name: str, value: object, largest: int, limit: str) -> Fraction:
    """The exact value of a number from 0 to `largest`."""
    exact = _exact(value)
    if exact is None or exact < 0:
        raise NoiseError(
            f"{name} must be a finite number at least 0 (an integer, a Fraction or a float), "
            f"as in Fraction(5, 2); got {_shown(value)}"
        )
    if exact > largest:
        raise NoiseError(f"{name} must keep draws within 64 bits: {limit}; got {_shown(value)}")
    return exact


def _exact(value: object) -> Fraction | None:
    """None for what is no finite rational number. bool is an int to Python, but a slip here."""
    if isinstance(value, bool):
        return None
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, float | np.float32 | np.float16) and math.isfinite(value):
        return Fraction(float(value))
    return None


def _shown(value: object) -> str:
    """`repr`, which Python refuses for integers of more than 4300 digits."""
    try:
        return repr(value)
    except ValueError:
        return f"a {type(value).__name__} of thousands of digits"


def _shape(size: object) -> tuple[int, ...]:
    shape = size if isinstance(size, tuple) else (size,)
    for length in shape:
        whole = isinstance(length, int | np.integer) and not isinstance(length, bool)
        if not whole or length < 0:
            raise NoiseError(
                "size must be an integer at least 0 or a tuple of such, as in 10 or (3, 4); "
                f"got {size!r}"
            )
    return tuple(int(length) for length in shape)
