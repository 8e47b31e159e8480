"""Products with lower-triangular Toeplitz matrices: T(c)x in O(n log n), and T(c)⁻¹.

T(c) has c_{i−j} at row i and column j ≤ i, so that T(c)x are the first n terms of c·x as power
series. Products and inverses of such matrices are those of the series.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log2, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from noiseplan.arrays import IntArray, immutable
from noiseplan.errors import PlanError, setting
from noiseplan.matrices.base import Array
from noiseplan.noise.wide_integers import BITS, WideIntegers

UNIT: Final = 2.0**-53
# ‖error‖₂ ≤ FACTOR · log₂N · u · ‖result‖₂ for a transform of N numbers (Higham, *Accuracy and
# Stability of Numerical Algorithms*, theorem 24.2, has 6.7 for radix two and exact roots of unity
# rounded once). Whole numbers take transforms of a power of two, whose steps by four and eight are
# steps by two put together; that these stay below 8 is tested, and not proved for each of them.
FACTOR: Final = 8.0
# Whole numbers are told apart where errors are below this; a half would do.
CLEAR: Final = 0.25
# So few terms of a product are worked out one by one.
FEW_TERMS: Final = 16
# Sums stay below this in 64 bits, beside noise of the same size.
LARGEST: Final = 2**62


@immutable
@dataclass(frozen=True, eq=False)
class Toeplitz:
    """T(c) and its transpose, applied along the last axis.

    Examples
    --------
    >>> Toeplitz(np.array([1.0, 2.0, 4.0])).apply(np.array([1.0, 0.0, 1.0])).round(9).tolist()
    [1.0, 2.0, 5.0]
    """

    first: Array  # c, its first column
    binary: bool = False  # whether transforms are of a power of two, as the error bound has them

    @cached_property
    def _transformed(self) -> tuple[int, NDArray[np.complex128]]:
        count = 2 * len(self.first)
        power = 1 << (count - 1).bit_length()
        size = power if self.binary else int(next_fast_len(count, real=True))
        return size, rfft(self.first, size)

    def apply(self, x: Array) -> Array:
        """T(c) x."""
        size, own = self._transformed
        return np.asarray(irfft(rfft(x, size) * own, size)[..., : len(self.first)])

    def transposed(self, x: Array) -> Array:
        """T(c)ᵀ x: the same backwards."""
        return self.apply(x[..., ::-1])[..., ::-1]


def later_terms(a: Array, b: Array, begin: int) -> Array:
    """Terms `begin` to len(b) − 1 of a·b, where a has no more than `begin` terms.

    Terms from len(b) on come back at the front of a cyclic product, below `begin`.
    """
    end = len(b)
    if end - begin <= FEW_TERMS:
        return np.array([a @ b[k - len(a) + 1 : k + 1][::-1] for k in range(begin, end)])
    size = int(next_fast_len(end, real=True))
    return np.asarray(irfft(rfft(a, size) * rfft(b, size), size)[begin:end])


def series_inverse(c: Array) -> Array:
    """1/c, as many terms: g ← g(2 − cg) doubles those that are right."""
    terms = len(c)
    inverse = np.array([1.0 / c[0]])
    while len(inverse) < terms:
        count = min(2 * len(inverse), terms)
        size = int(next_fast_len(2 * count, real=True))
        known = rfft(inverse, size)
        error = irfft(known * rfft(c[:count], size), size)[:count]
        error[: len(inverse)] = 0.0  # one, and zeros
        step = irfft(known * rfft(error, size), size)[len(inverse) : count]
        inverse = np.concatenate([inverse, -step])
    return inverse


# ---------------------------------------------------------------------- whole numbers


def digit_bits(c: IntArray) -> int:
    """How many bits the digits of x may have, so that c·x by transforms is right once rounded.

    With φ = FACTOR · log₂N · u for each of the three transforms, and digits at most 2^(b−1),

        |error| ≤ φ‖x‖₂(2‖c‖₂ + ‖c‖₁) ≤ 3φ √n 2^(b−1) ‖c‖₁ ,

    by Cauchy and Schwarz for the two that go forward, and ‖c·x‖₂ ≤ ‖c‖₁‖x‖₂ for the one back.
    """
    phi = FACTOR * log2(4 * len(c)) * UNIT
    length = float(np.abs(c).sum(dtype=np.float64)) * (1 + 1e-9)
    most = CLEAR / (3 * phi * sqrt(len(c)) * length)
    bits = int(log2(most)) + 1 if most >= 1 else 0
    if bits < 2:
        raise PlanError(
            f"{len(c):,} coefficients of these sizes cannot be applied to whole numbers without "
            f"rounding: plan with fewer values, or with "
            + setting("noise", "gaussian")
            + " to simulate"
        )
    return min(bits, BITS)


def whole_products(c: IntArray, x: IntArray | WideIntegers, reach: int) -> IntArray | WideIntegers:
    """T(c)x without rounding, along the last axis; no number of it is larger than `reach`.

    x is written in digits between −2^(b−1) and 2^(b−1), and each of them is multiplied by itself.
    """
    bits, matrix = digit_bits(c), Toeplitz(c.astype(np.float64), binary=True)
    limbs = x.limbs if isinstance(x, WideIntegers) else x[None]
    products = [
        (np.rint(matrix.apply(digit.astype(np.float64))).astype(np.int64), offset)
        for number, limb in enumerate(limbs)
        for digit, offset in _digits(limb, bits, BITS * number)
    ]
    if reach < LARGEST:  # whatever leaves 64 bits on the way comes back
        return np.asarray(sum(part << offset for part, offset in products))
    return WideIntegers.of(_narrow(products), reach.bit_length() + 1)


def _digits(x: IntArray, bits: int, offset: int) -> list[tuple[IntArray, int]]:
    """Σ digit·2^offset, as many as x needs."""
    half, found = 1 << (bits - 1), list[tuple[IntArray, int]]()
    while x.any() or not found:
        digit = ((x + half) & (2 * half - 1)) - half
        found.append((digit, offset))
        x, offset = (x - digit) >> bits, offset + bits
    return found


def _narrow(parts: list[tuple[IntArray, int]]) -> list[tuple[IntArray, int]]:
    """The same with parts that `WideIntegers.of` takes, of at most 2·BITS bits each."""
    return [piece for part, offset in parts for piece in _digits(part, BITS, offset)]


def whole_levels(d: IntArray, x: IntArray | WideIntegers, reach: int) -> IntArray | WideIntegers:
    """diag(d)x without rounding, along the last axis; no number of it is larger than `reach`."""
    if not isinstance(x, WideIntegers) and reach < LARGEST:
        return np.asarray(x * d)
    wide = x if isinstance(x, WideIntegers) else WideIntegers.of([(x, 0)], 64)
    parts = ((limb * d, BITS * number) for number, limb in enumerate(wide.limbs))
    return WideIntegers.of(_narrow(list(parts)), reach.bit_length() + 1)
