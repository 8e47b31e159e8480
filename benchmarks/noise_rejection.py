"""The samplers of Canonne, Kamath and Steinke in whole numbers: the reference for the others.

Nothing but uniform integers and comparisons of integers, so the law is exact by construction for
every rational parameter. Slower than the table samplers, and sharing no code with them: each way of
drawing is a check of the other.

References
----------
Canonne, Kamath and Steinke, *The discrete Gaussian for differential privacy*, 2020, algorithms 1–3.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.noise.randomness import Source

# 64-bit integers where they suffice, else Python's own in an array of objects.
Integers = NDArray[Any]
Booleans = NDArray[np.bool_]

_WIDE: Final = 2**62


def uniform_below(bound: int, count: int, source: Source) -> Integers:
    """Uniform on 0 … bound − 1: draw enough bits, and again while they are too large."""
    values = _random_bits((bound - 1).bit_length(), count, source)
    while (again := np.flatnonzero(values >= bound)).size:
        values[again] = _random_bits((bound - 1).bit_length(), again.size, source)
    return values


def bernoulli_exp(numerators: Integers, denominator: int, source: Source) -> Booleans:
    """True with probability exp(−numerator/denominator), each on its own; algorithm 1.

    Notes
    -----
    For γ ≤ 1: count k = 1, 2, … while Bernoulli(γ/k) succeeds. It first fails at an odd k with
    probability Σ_{k odd} γ^(k−1)/(k − 1)! − γ^k/k! = exp(−γ). For γ > 1: exp(−1) as often as it
    goes into γ, then the rest.
    """
    wholes = numerators // denominator
    result = _bernoulli_exp_unit(numerators - wholes * denominator, denominator, source)
    left = np.flatnonzero(result & (wholes > 0))
    while left.size:
        passed = _bernoulli_exp_unit(np.ones(left.size, dtype=np.int64), 1, source)
        result[left[~passed]] = False
        wholes[left] -= 1
        left = left[passed & (wholes[left] > 0)]
    return result


def laplace_by_rejection(scale: Fraction, count: int, source: Source) -> IntArray:
    """Mass ∝ exp(−|k|/scale), scale > 0; algorithm 2."""
    return _until(lambda n: _laplace_tries(scale, n, source), count)


def gaussian_by_rejection(variance: Fraction, count: int, source: Source) -> IntArray:
    """Mass ∝ exp(−k²/(2σ²)), σ² > 0; algorithm 3.

    Notes
    -----
    From Y with mass ∝ exp(−|y|/t), t = ⌊σ⌋ + 1, accept with exp(−(|y| − σ²/t)²/(2σ²)): the product
    is ∝ exp(−y²/(2σ²)). With σ² = p/q the exponent is (|y|qt − p)²/(2pqt²).
    """
    p, q = variance.numerator, variance.denominator
    t = isqrt(p // q) + 1

    def tries(n: int) -> IntArray:
        proposed = laplace_by_rejection(Fraction(t), n, source)
        denominator = 2 * p * q * t * t
        largest = (int(np.abs(proposed).max()) * q * t + p) ** 2
        magnitudes = _roomy(np.abs(proposed), max(largest, denominator))
        numerators = (magnitudes * (q * t) - p) ** 2
        return np.asarray(proposed[bernoulli_exp(numerators, denominator, source)])

    return _until(tries, count)


def _laplace_tries(scale: Fraction, count: int, source: Source) -> IntArray:
    """X = U + s·V has mass ∝ exp(−x/s) for scale s/t; ⌊X/t⌋ has mass ∝ exp(−yt/s)."""
    s, t = scale.numerator, scale.denominator
    remainders = uniform_below(s, count, source)
    remainders = remainders[bernoulli_exp(remainders, s, source)]
    if not remainders.size:
        return np.zeros(0, dtype=np.int64)
    wholes = _geometric(remainders.size, source)
    largest = s * (int(wholes.max()) + 1)
    magnitudes = (_roomy(wholes, max(largest, t)) * s + remainders) // t
    minus = _random_bits(1, magnitudes.size, source) == 1
    values = np.where(minus, -magnitudes, magnitudes)[~(minus & (magnitudes == 0))]
    return np.asarray(values, dtype=np.int64)  # objects that do not fit raise OverflowError


def _geometric(count: int, source: Source) -> IntArray:
    """How often Bernoulli(exp(−1)) succeeds in a row."""
    successes = np.zeros(count, dtype=np.int64)
    going = np.arange(count)
    while going.size:
        ones = np.ones(going.size, dtype=np.int64)
        going = going[_bernoulli_exp_unit(ones, 1, source)]
        successes[going] += 1
    return successes


def _bernoulli_exp_unit(numerators: Integers, denominator: int, source: Source) -> Booleans:
    """The case 0 ≤ numerator ≤ denominator, all of them in step."""
    result = np.zeros(numerators.size, dtype=np.bool_)
    going, k = np.arange(numerators.size), 1
    while going.size:
        success = uniform_below(denominator * k, going.size, source) < numerators[going]
        result[going[~success]] = k % 2 == 1
        going, k = going[success], k + 1
    return result


def _random_bits(bits: int, count: int, source: Source) -> Integers:
    """Uniform on 0 … 2^bits − 1, as 64-bit integers while they fit."""
    if 2**bits < _WIDE:
        words = source.words(count, 64)
        return (words >> (64 - bits)).astype(np.int64) if bits else np.zeros(count, dtype=np.int64)
    size = -(-bits // 8)
    data, extra = source.exactly(count * size), 8 * size - bits
    values = [
        int.from_bytes(data[i * size : (i + 1) * size], "little") >> extra for i in range(count)
    ]
    return np.array(values, dtype=object)


def _roomy(values: Integers, largest: int) -> Integers:
    """The same integers in a type that can hold `largest`."""
    return values if largest < _WIDE else values.astype(object)


def _until(tries: Callable[[int], IntArray], count: int) -> IntArray:
    """The first `count` values that are accepted."""
    parts = [np.zeros(0, dtype=np.int64)]
    missing = count
    while missing > 0:
        part = tries(2 * missing + 16)[:missing]
        parts.append(part)
        missing -= part.size
    return np.concatenate(parts)
