"""Sums over parts of ordered values, measured beside a series: what they tell each other.

Let S = (AᵀA)⁻¹ be the covariance of the values by a series with noise of variance one, and let Z
add values up by the parts between `bounds`, the finest that all partitions together make. Then

    N = Z S Zᵀ ,     h = Z S w

are the covariances of the parts with each other, and with a row w over the values. Everything that
sums of parts bring to a row goes through h: its variance falls by hᵀKh for some K over the parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from noiseplan.arrays import IntArray, immutable
from noiseplan.domain.series import HELD, Series
from noiseplan.matrices.base import Array

# Covariances of sums with all values are kept where they are no more numbers than this.
KEPT: Final = 1 << 24


@immutable
@dataclass(frozen=True, eq=False)
class SummedSeries:
    """A series, and partitions of its values: where each begins and ends, from 0 to their number.

    Examples
    --------
    >>> both = SummedSeries(Series.identity(4), (np.array([0, 4]), np.array([0, 1, 4])))
    >>> both.bounds.tolist(), np.abs(both.covariance).round(9).tolist()
    ([0, 1, 4], [[1.0, 0.0], [0.0, 3.0]])
    >>> both.rows.tolist()
    [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """

    series: Series
    partitions: tuple[IntArray, ...]

    @cached_property
    def bounds(self) -> IntArray:
        """Where the parts begin and end that all partitions together make."""
        return np.unique(np.concatenate(self.partitions))

    @property
    def parts(self) -> int:
        """How many of them."""
        return len(self.bounds) - 1

    @cached_property
    def owners(self) -> tuple[IntArray, ...]:
        """The sum of each partition that each part belongs to."""
        inside = self.bounds[:-1]
        return tuple(np.searchsorted(p, inside, side="right") - 1 for p in self.partitions)

    @cached_property
    def rows(self) -> Array:
        """The sums of all partitions, over the parts."""
        pairs = zip(self.partitions, self.owners, strict=True)
        each = [np.arange(len(p) - 1)[:, None] == own for p, own in pairs]
        return np.concatenate(each).astype(np.float64)

    def add_up(self, values: Array) -> Array:
        """The sums of all partitions of values along the last axis."""
        each = [np.add.reduceat(values, p[:-1], axis=-1) for p in self.partitions]
        return np.concatenate(each, axis=-1)

    def spread(self, of_parts: Array) -> Array:
        """Numbers of the parts, for every value of theirs."""
        return np.repeat(of_parts, np.diff(self.bounds), axis=-1)

    def with_values(self, of_parts: Array) -> Iterator[Array]:
        """SZᵀb of rows b over the parts, a few rows at a time: their covariance with each value."""
        step = max(HELD // self.series.size, 1)
        for begin in range(0, len(of_parts), step):
            yield self.series.covariances(self.spread(of_parts[begin : begin + step]))

    @cached_property
    def covariance(self) -> Array:
        """N."""
        found = np.diff(self.up_to(self.bounds), axis=0)
        return np.asarray((found + found.T) / 2)

    @cached_property
    def information(self) -> Array:
        """N⁻¹: what a series of precision one tells of the parts."""
        found = np.linalg.inv(self.covariance)
        return np.asarray((found + found.T) / 2)

    def up_to(self, ends: IntArray) -> Array:
        """h of the sums over the values before each end, ends × parts."""
        if self.parts * self.series.size <= KEPT:
            return np.asarray(self._up_to_every[:, ends].T)
        each = [_cumulated(c)[:, ends] for c in self.with_values(np.eye(self.parts))]
        return np.concatenate(each).T

    @cached_property
    def _up_to_every(self) -> Array:
        """h of all prefix sums, from none on, parts × ends."""
        each = [_cumulated(c) for c in self.with_values(np.eye(self.parts))]
        return np.concatenate(each)


def _cumulated(values: Array) -> Array:
    """Sums along the last axis, from none on."""
    found = np.zeros((*values.shape[:-1], values.shape[-1] + 1))
    np.cumsum(values, axis=-1, out=found[..., 1:])
    return found


@immutable
@dataclass(frozen=True, eq=False)
class JointEstimate:
    """A series with noise of some variance, and a variance for each sum: put together at best.

    With F the sums over the parts and R their noise, C = R + σ²FNFᵀ is the covariance of what is
    seen of the sums beside what the series says of them. By Woodbury's formula

        x = x₀ + σ²SZᵀFᵀ C⁻¹ (t − FZx₀) ,      σ²S − σ²SZᵀFᵀ C⁻¹ FZS σ² .
    """

    both: SummedSeries
    variance: float
    of_sums: Array

    @cached_property
    def _root(self) -> Array:
        """L with LLᵀ = C."""
        rows = self.both.rows
        seen = self.variance * (rows @ self.both.covariance @ rows.T)
        return np.asarray(np.linalg.cholesky(seen + np.diag(self.of_sums)), dtype=np.float64)

    def moved(self, values: Array, sums: Array) -> Array:
        """x of x₀ and t, along the last axis."""
        from scipy.linalg import cho_solve

        if len(self.of_sums) == 1:  # the total, whose covariances with all values are known
            along = self.variance * self.both.series.with_total
            gain = along / (float(along.sum()) + float(self.of_sums[0]))
            return np.asarray(values + (sums - values.sum(axis=-1, keepdims=True)) * gain)
        missing = sums - self.both.add_up(values)
        flat = missing.reshape(-1, missing.shape[-1])
        pulls = cho_solve((self._root, True), flat.T).T @ self.both.rows
        step = np.concatenate(list(self.both.with_values(pulls)))
        return np.asarray(values + self.variance * step.reshape(values.shape))

    def told(self) -> Iterator[Array]:
        """Rows c over the values whose squares Σ(cᵀw)² are what the variance of w falls by."""
        yield from self._kept if self._few else self._told()

    @property
    def _few(self) -> bool:
        return len(self.of_sums) * self.both.series.size <= KEPT

    @cached_property
    def _kept(self) -> list[Array]:
        return list(self._told())

    def _told(self) -> Iterator[Array]:
        from scipy.linalg import solve_triangular

        of_parts = solve_triangular(self._root, self.both.rows, lower=True)
        for each in self.both.with_values(of_parts):
            yield self.variance * each
