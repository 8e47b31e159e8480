"""The series that measures prefix sums, ranges, groups and single values together.

What is asked of ordered values has a Gram matrix that is nearly Toeplitz, with a spectrum

    g(ω) = b + Σ_i a_i/|1 − ρ_i z|² ,     z = e^{iω} ,

b the weight of single values, and a Lorentz curve for each other kind. The best precision is about
its root, AᵀA ≈ G^{1/2}, so that |c(z)|² = g^{1/2}. In y = |1 − z|² every curve is a simple pole,
(1 − ρ)² + ρy; the zeros of g lie between the poles, one each, and beyond the last, and

    c(z) = ∏_j (1 − μ_j z)^{1/2} ∏_i (1 − ρ_i z)^{−1/2} ,

poles ρ and zeros μ inside the unit circle. For prefix sums alone that is (1 − ρz)^{−1/2}. Columns
are then levelled piece by piece, so that all records cost about the same.

References
----------
Fichtenberger, Henzinger and Upadhyay, *Constant matters*, 2023: the root of the prefix sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd, log2, sqrt
from typing import Final

import numpy as np
from scipy.optimize import brentq

from noiseplan.arrays import IntArray
from noiseplan.domain.convolutions import Toeplitz
from noiseplan.domain.series import Series
from noiseplan.matrices.base import Array

# n(1 − ρ), found by trying: nearest to the bound by singular values from 1,024 to 100,000 values.
PREFIX, RANGES = 0.15, 2.7
# L(1 − ρ) of groups of L values; between 1 and 2 it hardly matters.
GROUPS: Final = 1.5
# Weights of single values below one over this of the others', and poles as near as this.
NEGLIGIBLE, SAME = 1e9, 1e-9
# Coefficients are rounded to so many bits more than half of those of n: what that adds to variances
# is below one part in a thousand (measured from 1,025 to 100,000 values, alone and mixed).
MORE_BITS: Final = 5
# The level of the longest column; no rounding of levels loses more than half of one over it.
LEVEL: Final = 1024
# Pieces in the longest half of the columns, and half as many in each half of the rest.
PIECES: Final = 16


@dataclass(frozen=True)
class Mixture:
    """Weights of what is asked: single values, prefix sums, ranges; groups with their lengths."""

    values: float = 0.0
    prefix: float = 0.0
    ranges: float = 0.0
    groups: tuple[tuple[float, float], ...] = ()  # (weight, mean length)

    def poles(self, size: int) -> list[tuple[float, float]]:
        """(a, 1 − ρ) of every curve."""
        found = []
        slow = self.prefix + (size + 1) * self.ranges
        if slow > 0:  # prefix sums and ranges have the same curve but for its width
            width = (PREFIX * self.prefix + RANGES * (size + 1) * self.ranges) / slow
            found.append((slow, width / size))
        for weight, length in self.groups:
            if weight > 0:
                width = min(GROUPS / length, 0.9)
                found.append((weight * width * (2 - width), width))
        return found


def series_for(size: int, mixture: Mixture) -> Series:
    """Whole coefficients and levels for what is asked of so many values."""
    poles = mixture.poles(size)
    if not poles or size == 1:
        return Series.identity(size)
    zeros = spectral_zeros(mixture.values, poles)
    terms = np.zeros(size)
    terms[0] = 1.0
    for root, power in [*((w, -0.5) for _, w in poles), *((w, 0.5) for w in zeros)]:
        terms = Toeplitz(binomial(1.0 - root, power, size)).apply(terms)
    bits = round(log2(size) / 2) + MORE_BITS
    return levelled(np.rint(terms * 2.0**bits).astype(np.int64))


def spectral_zeros(values: float, poles: Sequence[tuple[float, float]]) -> list[float]:
    """1 − μ of every zero of b + Σ a/((1 − ρ)² + ρy)."""
    by_place: list[list[float]] = []  # −y of each pole, and its residue
    found = []
    for place, residue in sorted((w**2 / (1 - w), a / (1 - w)) for a, w in poles):
        if by_place and place <= by_place[-1][0] * (1 + SAME):
            # A pole that is there twice has a zero with it, which takes it away again.
            by_place[-1][1] += residue
            found.append(place)
        else:
            by_place.append([place, residue])
    places, residues = np.array(by_place).T

    def numerator(t: float) -> float:
        gaps = places - t
        parts = [a * np.prod(np.delete(gaps, i)) for i, a in enumerate(residues)]
        return float(values * np.prod(gaps) + sum(parts))

    ends = places.tolist()
    if values * NEGLIGIBLE > residues.sum():  # else nothing is seen of it, at any frequency
        ends.append(ends[-1] + 2 * float(residues.sum()) / values)
    for low, high in pairwise(ends):
        found.append(brentq(numerator, low, high, xtol=1e-300, rtol=1e-14, maxiter=1000))
    # t = (1 − μ)²/μ
    return [1.0 - 1.0 / (1.0 + t / 2 + sqrt(t + t * t / 4)) for t in found]


def binomial(root: float, power: float, size: int) -> Array:
    """(1 − root·z)^power, so many terms."""
    k = np.arange(1, size)
    return np.concatenate([[1.0], np.cumprod((k - 1 - power) / k * root)])


def levelled(coefficients: IntArray) -> Series:
    """The series with levels by piece: none makes a column longer than the longest."""
    size = len(coefficients)
    longest = _lengths(size)
    norms = np.cumsum(coefficients.astype(np.float64) ** 2)
    levels = np.floor(LEVEL * np.sqrt(norms[-1] / norms[longest - 1])).astype(np.int64)
    new = np.flatnonzero(np.diff(levels, prepend=-1))
    levels, starts = levels[new], (size - longest)[new]
    return Series(coefficients, starts, levels // gcd(*levels.tolist()))


def _lengths(size: int) -> IntArray:
    """The length of the longest column of each piece: finest where columns are long."""
    found, high, count = [], size, PIECES
    while high >= 1:
        width = high - high // 2
        pieces = min(count, width)
        found += [high - width * i // pieces for i in range(pieces)]
        high, count = high // 2, max(count // 2, 1)
    return np.array(found, dtype=np.int64)
