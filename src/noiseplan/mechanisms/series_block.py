"""One set of other attributes, measured along ordered values by a series, and by sums beside it.

The series A has estimates A⁻¹y and covariances S = (AᵀA)⁻¹σ² (`domain.series`). Where the total, or
the sums of groups, are measured too, both are put together (`domain.summed_series`). Values that no
query of the set tells apart are one part, and the series runs over the parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, immutable
from noiseplan.domain.series import HELD, Series
from noiseplan.domain.summed_series import JointEstimate, SummedSeries
from noiseplan.errors import UnanswerableError, remedy
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.long_block import LongBlock, largest_weights
from noiseplan.mechanisms.series_rows import (
    MOST_WEIGHTS,
    AllRanges,
    SeriesRows,
    Spans,
    Weighted,
)
from noiseplan.noise.law import Noise

# Weights differ by no more than rounding.
ROUNDING: Final = 1e-10


@immutable
@dataclass(frozen=True, eq=False)
class PartSums:
    """Sums of the parts of a block between `bounds`, and their noise."""

    bounds: IntArray
    noise: Noise

    @property
    def count(self) -> int:
        """How many sums."""
        return len(self.bounds) - 1

    def added(self, along: NDArray[np.number]) -> NDArray[np.number]:
        """The sums of numbers whose first axis is the parts."""
        return np.add.reduceat(along, self.bounds[:-1], axis=0)


@immutable
@dataclass(frozen=True, eq=False)
class SeriesBlock(LongBlock[SeriesRows]):
    """Where the parts begin and end, the series over them, and sums measured beside it."""

    others: tuple[int, ...]
    bounds: IntArray
    series: Series
    noise: Noise
    sums: tuple[PartSums, ...] = ()

    @property
    def size(self) -> int:
        """How many parts."""
        return self.series.size

    @property
    def counts(self) -> tuple[int, ...]:
        return (self.size, *(each.count for each in self.sums))

    @property
    def noises(self) -> tuple[Noise, ...]:
        """The noise of each measured array."""
        return (self.noise, *(each.noise for each in self.sums))

    @property
    def total_only(self) -> bool:
        """Whether nothing is measured beside the series but the total, if that."""
        return not self.sums or (len(self.sums) == 1 and self.sums[0].count == 1)

    def prices(self) -> Array:
        """What a record in each part costs: Σ of squares over variances."""
        of_sums = sum(1.0 / each.noise.one for each in self.sums)
        return np.asarray(self.series.column_norms() / self.noise.one + of_sums)

    def cost_along(self) -> Array:
        rows = np.repeat(self.series.rows(), np.diff(self.bounds), axis=1)
        cost = rows.T @ rows / self.noise.one
        for each in self.sums:
            own = np.repeat(np.arange(each.count), np.diff(self.bounds[each.bounds]))
            cost += (own[:, None] == own) / each.noise.one
        return np.asarray(cost)

    def prices_along(self) -> Array:
        return np.repeat(self.prices(), np.diff(self.bounds))

    def on_lattice(self, exact: int) -> SeriesBlock:
        sums = tuple(replace(each, noise=each.noise.on_lattice(exact)) for each in self.sums)
        return replace(self, noise=self.noise.on_lattice(exact), sums=sums)

    # ------------------------------------------------------------------ estimates

    @cached_property
    def _variance(self) -> float:
        """σ² of the noise that is really drawn."""
        return float(self.noise.variance[0])

    @cached_property
    def _joint(self) -> JointEstimate:
        """Of the series and the sums."""
        both = SummedSeries(self.series, tuple(each.bounds for each in self.sums))
        noise = [np.repeat(each.noise.variance, each.count) for each in self.sums]
        return JointEstimate(both, self._variance, np.concatenate(noise))

    def _told(self) -> Iterator[Array]:
        """What sums tell of every part (`JointEstimate.told`); nothing where there are none."""
        return self._joint.told() if self.sums else iter(())

    def estimates(self, measured: Sequence[NDArray[np.number]]) -> list[Array]:
        """x of every part, and their sums up to each, from none on."""
        values = self.series.values(np.asarray(measured[0], dtype=np.float64))
        if self.sums:
            beside = [np.asarray(each, dtype=np.float64) for each in measured[1:]]
            values = self._joint.moved(values, np.concatenate(beside, axis=-1))
        sums = np.zeros((*values.shape[:-1], self.size + 1))
        np.cumsum(values, axis=-1, out=sums[..., 1:])
        return [values, sums]

    def values(self, estimates: list[Array]) -> Array:
        return estimates[0]

    # ------------------------------------------------------------------ rows

    def seen(self, rows: SeriesRows) -> SeriesRows | None:
        if isinstance(rows, Weighted):
            return self._seen_weights(rows)
        if self.size == self.bounds[-1]:
            return rows
        if isinstance(rows, AllRanges):
            return None
        start, stop = (np.searchsorted(self.bounds, ends) for ends in (rows.start, rows.stop))
        told = (self.bounds[start] == rows.start).all() and (self.bounds[stop] == rows.stop).all()
        return Spans(start, stop) if told else None

    def _seen_weights(self, rows: Weighted) -> Weighted | None:
        """Over the parts of this block: all parts of one of the rows' have its weight."""
        inside = np.searchsorted(rows.bounds, self.bounds[:-1], side="right") - 1
        weights = sp.csr_array(rows.weights[:, inside])
        own = np.searchsorted(self.bounds, rows.bounds[:-1], side="right") - 1
        limits = ROUNDING * largest_weights(rows.weights) if rows.limits is None else rows.limits
        if (largest_weights(weights[:, own] - rows.weights) > limits).any():
            return None
        return Weighted(self.bounds, weights)

    def weights(self, rows: SeriesRows) -> sp.csr_array:
        if isinstance(rows, Weighted):
            return rows.weights
        spans = rows.spans() if isinstance(rows, AllRanges) else rows
        length = spans.stop - spans.start
        if int(length.sum()) > MOST_WEIGHTS:
            raise UnanswerableError(
                f"{spans.count:,} rows over {self.size:,} values are too many numbers to be "
                f"written down for this: ask for fewer rows at a time, "
                + remedy("argument", "as nz.Custom([[...]])", "as in NAME=25..34")
            )
        first = np.concatenate([[0], np.cumsum(length)])
        column = np.arange(first[-1]) - np.repeat(first[:-1] - spans.start, length)
        return sp.csr_array((np.ones(first[-1]), column, first), shape=(len(length), self.size))

    def of_weights(self, weights: sp.csr_array) -> Weighted:
        return Weighted(self.bounds, weights)

    def estimate(self, estimates: list[Array], rows: SeriesRows) -> Array:
        values, sums = estimates
        if isinstance(rows, Weighted):
            flat = rows.weights @ values.reshape(-1, self.size).T
            return np.asarray(flat).T.reshape(*values.shape[:-1], -1)
        spans = rows.spans() if isinstance(rows, AllRanges) else rows
        if (spans.stop - spans.start == 1).all():
            return np.asarray(values[..., spans.start])
        return np.asarray(sums[..., spans.stop] - sums[..., spans.start])

    # ------------------------------------------------------------------ errors

    def variance(self, rows: SeriesRows) -> Array:
        if isinstance(rows, Weighted):
            found = np.empty(rows.count)
            for some in self._some(rows.count):
                own = self.series.whitened(rows.weights[some].toarray())
                found[some] = (own**2).sum(axis=1)
        else:
            spans = rows.spans() if isinstance(rows, AllRanges) else rows
            found = self.series.span_variances(spans.start, spans.stop)
        found = found * self._variance
        for told in self._told():
            found -= (self._applied(rows, told) ** 2).sum(axis=1)
        return np.asarray(found)

    def covariance(self, rows: SeriesRows, others: SeriesRows) -> Array:
        if rows.count < others.count:
            return self.covariance(others, rows).T
        found, weights = np.empty((rows.count, others.count)), self.weights(others)
        for some in self._some(others.count):
            own = self._variance * self.series.covariances(weights[some].toarray())
            found[:, some] = self._applied(rows, own)
        for told in self._told():
            found -= self._applied(rows, told) @ self._applied(others, told).T
        return found

    def variance_sum(self, rows: SeriesRows) -> float:
        """Σ of the variances of all rows; ranges are not listed for it."""
        if not isinstance(rows, AllRanges):
            return float(self.variance(rows).sum())
        told = sum(square_sum(each, rows) for some in self._told() for each in some)
        return self._variance * self.series.range_sum - told

    def _some(self, count: int) -> list[slice]:
        """A few rows at a time."""
        step = max(HELD // self.size, 1)
        return [slice(begin, begin + step) for begin in range(0, count, step)]

    def _applied(self, rows: SeriesRows, values: Array) -> Array:
        """Rows of vectors over the parts (vectors × parts), rows × vectors."""
        sums = np.zeros((len(values), self.size + 1))
        np.cumsum(values, axis=1, out=sums[:, 1:])
        return self.estimate([values, sums], rows).T


def square_sum(values: Array, rows: SeriesRows) -> float:
    """Σ over rows of (wᵀx)²; of all ranges (n + 1) Σ X_k² − (Σ X_k)², X the prefix sums."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    if isinstance(rows, AllRanges):
        return float((len(values) + 1) * (sums @ sums) - sums.sum() ** 2)
    if isinstance(rows, Weighted):
        return float(((rows.weights @ values) ** 2).sum())
    return float(((sums[rows.stop] - sums[rows.start]) ** 2).sum())
