"""Sources that say what they are told to, and exact boundaries to hold the tables against."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

import mpmath
import numpy as np

from noiseplan.noise import Source
from noiseplan.noise.energy import Energy

PRECISION = 600  # bits of the oracle


class ScriptedSource(Source):
    """Hands out prepared words one read after the other, and refuses to go on without."""

    def __init__(self, *reads: tuple[Iterable[int], int]) -> None:
        """Each read: some integers, and their bits."""
        self.reads = [
            np.array(list(words), dtype=f"<u{bits // 8}").tobytes() for words, bits in reads
        ]

    def read(self, count: int) -> bytes:
        assert self.reads, f"{count} bytes were asked for after the script had ended"
        data = self.reads.pop(0)
        assert len(data) == count, f"{count} bytes were asked for, {len(data)} were scripted"
        return data

    @property
    def brand(self) -> str:
        return "scripted, so NOT PRIVATE"

    @property
    def private(self) -> bool:
        return False


def mp(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


def exact_boundaries(energy: Energy, folded: bool, count: int) -> list[mpmath.mpf]:
    """P(value ≤ k) for k < count, with 600 bits; the value has mass ∝ exp(−E(k)) on k ≥ 0."""
    return _all_boundaries(energy, folded)[:count]


@lru_cache
def _all_boundaries(energy: Energy, folded: bool) -> list[mpmath.mpf]:
    with mpmath.workprec(PRECISION):
        terms, k = [mpmath.mpf(1)], 0
        while terms[-1] > mpmath.mpf(2) ** (-PRECISION):
            k += 1
            terms.append((2 if folded else 1) * mpmath.exp(-mp(energy.at(k))))
        total, partial, found = mpmath.fsum(terms), mpmath.mpf(0), []
        for term in terms:
            partial += term
            found.append(partial / total)
        return found


def leading_bits(x: mpmath.mpf, bits: int) -> int:
    """⌊x·2^bits⌋."""
    with mpmath.workprec(PRECISION):
        return int(mpmath.floor(x * mpmath.mpf(2) ** bits))
