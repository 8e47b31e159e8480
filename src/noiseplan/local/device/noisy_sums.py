"""The device's side of additive mechanisms: integers of the user's type, with discrete noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import exp, expm1, isqrt
from typing import ClassVar, Final, final

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, immutable
from noiseplan.local.device.randomizer import LARGEST_TABLE, Parts, Randomizer, Reports, Stored
from noiseplan.local.device.wire import Payloads, ReportError, bytes_for, packed, unpacked
from noiseplan.noise import discrete_gaussian, discrete_laplace
from noiseplan.noise.randomness import Source
from noiseplan.privacy.conversions import discrete_gaussian_epsilon
from noiseplan.privacy.rounding import fraction_up

# Noise beyond so many scales or deviations does not happen (e⁻⁶⁴); a report with it is refused.
REACH = 64
# Differences that are looked at for ε when a file is read, at most; and of numbers that are too
# large for sums of 64 bits, which no plan has.
MOST_DIFFERENCES, MOST_LARGE = 1 << 37, 1 << 22


class SumNoise(ABC):
    """What a law of discrete noise is to reports that are added up; scale: b, or σ² of Gaussian."""

    name: ClassVar[str]
    power: ClassVar[int]  # p of the distances ‖A_u − A_v‖_p^p that ε goes by
    sampler: ClassVar[Callable[..., IntArray]]

    @abstractmethod
    def spread(self, scale: Fraction) -> int:
        """About one deviation."""

    @abstractmethod
    def variance(self, scale: Fraction) -> float:
        """What is really drawn has this."""

    @abstractmethod
    def epsilon(self, distance: int, scale: Fraction, delta: float) -> float:
        """Of types so far apart."""

    @abstractmethod
    def possible(self, delta: float) -> bool:
        """Which δ goes with it."""

    @abstractmethod
    def jump(self, scale: Fraction) -> float:
        """Of the Poisson law whose generating function is above its."""


@final
class LaplaceSums(SumNoise):
    """e^(−|z|/b)"""

    name: ClassVar[str] = "laplace"
    power: ClassVar[int] = 1
    sampler = staticmethod(discrete_laplace)

    def spread(self, scale: Fraction) -> int:
        return int(scale)

    def variance(self, scale: Fraction) -> float:
        rate = 1 / float(scale)
        return 2 * exp(-rate) / expm1(-rate) ** 2

    def epsilon(self, distance: int, scale: Fraction, delta: float) -> float:
        return fraction_up(distance / scale)

    def possible(self, delta: float) -> bool:
        return delta == 0

    def jump(self, scale: Fraction) -> float:
        return 2 * float(scale)


@final
class GaussianSums(SumNoise):
    """e^(−z²/(2σ²))"""

    name: ClassVar[str] = "gaussian"
    power: ClassVar[int] = 2
    sampler = staticmethod(discrete_gaussian)

    def spread(self, scale: Fraction) -> int:
        return isqrt(int(scale))

    def variance(self, scale: Fraction) -> float:
        return float(scale)  # to double precision from σ² = 4 on

    def epsilon(self, distance: int, scale: Fraction, delta: float) -> float:
        return discrete_gaussian_epsilon(distance, scale, delta)

    def possible(self, delta: float) -> bool:
        return 0 < delta < 1

    def jump(self, scale: Fraction) -> float:
        return 0.0


# By the names that files of randomizers have.
LAWS: Final = {law.name: law for law in (LaplaceSums(), GaussianSums())}


@final
@immutable
@dataclass(frozen=True, eq=False, repr=False)
class SumRandomizer(Randomizer):
    """Reports are integers, one per row of the strategy; the collector adds them up."""

    kind = "sums"
    rows: IntArray
    law: str
    scale: Fraction
    delta: float

    def _check(self) -> None:
        if self.rows.ndim != 2 or not self.rows.size or self.rows.dtype != np.int64:
            raise ReportError("the numbers of each type are a matrix of integers, rows × types")
        # |−2⁶³| has no place in 64 bits.
        if int(self.rows.min()) <= -(2**61) or int(self.rows.max()) >= 2**61:
            raise ReportError("the numbers of each type lie between −2^61 and 2^61")
        if self.law not in LAWS or self.scale <= 0 or self._limit >= 2**61:
            raise ReportError("noise is 'laplace' or 'gaussian' with a positive, moderate scale")
        if not self._noise.possible(self.delta):
            raise ReportError(
                f"delta lies between 0 and 1 for Gaussian noise and is 0 for Laplace noise, found "
                f"{self.delta!r} for {self.law}"
            )

    @property
    def _noise(self) -> SumNoise:
        return LAWS[self.law]

    @property
    def types(self) -> int:
        return int(self.rows.shape[1])

    @cached_property
    def _limit(self) -> int:
        return int(np.abs(self.rows).max()) + REACH * (self._noise.spread(self.scale) + 1)

    @property
    def _width(self) -> int:
        """Bytes of one number, which travels as its distance from −limit."""
        return bytes_for(2 * self._limit + 1)

    @property
    def payload_bytes(self) -> int:
        return self._width * len(self.rows)

    @property
    def no_reports(self) -> Reports:
        return np.empty((0, len(self.rows)), dtype=np.int64)

    @cached_property
    def epsilon(self) -> float:
        """From the largest distance of two types, as the law of the noise guarantees it."""
        distance = largest_distance(self.rows, self._noise.power)
        return self._noise.epsilon(distance, self.scale, self.delta)

    def draw(self, types: IntArray, source: Source) -> Reports:
        noise = self._noise.sampler(self.scale, (len(types), len(self.rows)), source=source)
        return np.asarray(self.rows.T[types] + noise)

    def pack(self, reports: Reports) -> Payloads:
        inside = np.clip(reports, -self._limit, self._limit)  # post-processing, and never needed
        numbers = (inside + self._limit).ravel()
        return packed(numbers, self._width).reshape(len(reports), -1)

    def unpack(self, payloads: Payloads) -> tuple[Reports, NDArray[np.bool_]]:
        numbers = unpacked(payloads.reshape(-1, self._width)) - self._limit
        reports = numbers.reshape(len(payloads), -1)
        return reports, self.valid(reports)

    def valid(self, reports: Reports) -> NDArray[np.bool_]:
        # Not by |reports|: that of the least integer is negative.
        return np.asarray(((reports <= self._limit) & (reports >= -self._limit)).all(axis=1))

    def tally(self, reports: Reports) -> IntArray:
        if len(reports) * self._limit < 2**63:
            return np.asarray(reports.sum(axis=0), dtype=np.int64)
        sums = reports.astype(object).sum(axis=0)  # Python's integers, which have no largest one
        if max(map(abs, sums)) >= 2**63:
            raise ReportError("the sums of these reports do not fit 64 bits: count fewer at a time")
        return np.asarray(sums.astype(np.int64))

    def _parts(self) -> Parts:
        scale = [str(self.scale.numerator), str(self.scale.denominator)]
        return {"law": self.law, "scale": scale, "delta": self.delta}, {"rows": self.rows}

    @classmethod
    def _rebuilt(cls, stored: Stored) -> SumRandomizer:
        rows, facts = stored.arrays["rows"], stored.facts
        if rows.ndim != 2 or rows.shape[1] > LARGEST_TABLE:
            raise ReportError(f"the numbers of at most {LARGEST_TABLE:,} types are rows × types")
        law = str(facts["law"])
        if law not in LAWS:
            raise ReportError("noise is 'laplace' or 'gaussian' with a positive, moderate scale")
        large = _exceeds(rows, LAWS[law].power)
        if rows.size * rows.shape[1] > (MOST_LARGE if large else MOST_DIFFERENCES):
            raise ReportError(f"{rows.size:,} numbers of that size are too many for one report")
        scale, delta = Fraction(*map(int, facts["scale"])), float(facts["delta"])
        return cls(stored.schema, stored.cells, rows, law, scale, delta)


def largest_distance(rows: IntArray, norm: int) -> int:
    """max over types u, v of ‖A_u − A_v‖₁, or of ‖A_u − A_v‖₂² for norm 2; exact."""
    if _exceeds(rows, norm):
        rows = rows.astype(object)  # Python's integers, which have no largest one
    largest = 0
    for column in rows.T:
        apart = np.abs(rows - column[:, None])
        largest = max(largest, int((apart**norm).sum(axis=0).max()))
    return largest


def _exceeds(rows: IntArray, norm: int) -> bool:
    """Whether distances of these numbers may not fit 64 bits."""
    reach = 2 * max(int(rows.max(initial=0)), -int(rows.min(initial=0)), 1)
    return bool(len(rows) * reach**norm >= 2**63)
