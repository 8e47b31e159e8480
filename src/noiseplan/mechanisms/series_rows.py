"""Rows over ordered values: spans of them, all ranges, or any weights on parts of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import scipy.sparse as sp

from noiseplan.arrays import IntArray, immutable
from noiseplan.matrices import (
    DenseMatrix,
    GroupMatrix,
    IdentityMatrix,
    Matrix,
    PaddedMatrix,
    PrefixMatrix,
    RangesMatrix,
    TotalMatrix,
)
from noiseplan.matrices.base import Array
from noiseplan.matrices.composed import stacked_parts

# Rows that are none of these are written down up to so many numbers.
MOST_WEIGHTS: Final = 1 << 26
# All ranges are listed up to so many.
MOST_RANGES: Final = 10_000_000


@immutable
@dataclass(frozen=True, eq=False)
class Spans:
    """Sums over the values (or parts of them) from `start` up to, and without, `stop`."""

    start: IntArray
    stop: IntArray

    @property
    def count(self) -> int:
        """How many rows."""
        return len(self.start)

    def part(self, rows: slice) -> Spans:
        """Some of the rows."""
        return Spans(self.start[rows], self.stop[rows])

    @staticmethod
    def between(bounds: IntArray) -> Spans:
        """One row for each part."""
        return Spans(bounds[:-1], bounds[1:])

    @staticmethod
    def prefixes(size: int) -> Spans:
        """From the first value on."""
        return Spans(np.zeros(size, dtype=np.int64), np.arange(1, size + 1))


@immutable
@dataclass(frozen=True)
class AllRanges:
    """Every range of so many values: listed only where they are few."""

    size: int

    @property
    def count(self) -> int:
        """How many rows."""
        return self.size * (self.size + 1) // 2

    def part(self, rows: slice) -> Spans:
        """Some of the rows."""
        return self.spans().part(rows)

    def spans(self) -> Spans:
        """One by one, as `RangesMatrix` has them."""
        return self._listed

    @cached_property
    def _listed(self) -> Spans:
        first, last = RangesMatrix(self.size).bounds()
        return Spans(first.astype(np.int64), last.astype(np.int64) + 1)


@immutable
@dataclass(frozen=True, eq=False)
class Weighted:
    """Weights on the parts of the values between `bounds`, the same for all values of a part.

    Those of a row that differ by no more than its limit are the same: by rounding of its largest
    weight, unless rows were computed from larger ones.
    """

    bounds: IntArray
    weights: sp.csr_array
    limits: Array | None = None

    @property
    def count(self) -> int:
        """How many rows."""
        return int(self.weights.shape[0])

    def part(self, rows: slice) -> Weighted:
        """Some of the rows."""
        limits = None if self.limits is None else self.limits[rows]
        return Weighted(self.bounds, sp.csr_array(self.weights[rows]), limits)


SeriesRows = Spans | AllRanges | Weighted


def rows_of_matrix(matrix: Matrix) -> Iterator[SeriesRows | None]:
    """What a factor asks, piece by piece; None where that would be too many numbers."""
    for part in stacked_parts(matrix):
        yield _rows_of_part(part)


def _rows_of_part(matrix: Matrix) -> SeriesRows | None:
    size = matrix.shape[1]
    bounds = np.arange(size + 1)
    if isinstance(matrix, PaddedMatrix):
        return _over_more(_rows_of_part(matrix.inner), matrix.columns)
    if isinstance(matrix, TotalMatrix):
        return Spans.between(bounds[[0, -1]])
    if isinstance(matrix, IdentityMatrix):
        return Spans.between(bounds)
    if isinstance(matrix, PrefixMatrix):
        return Spans.prefixes(size)
    if isinstance(matrix, RangesMatrix):
        return AllRanges(size)
    if isinstance(matrix, GroupMatrix):
        if (found := group_bounds(matrix.group)) is not None:
            return Spans.between(found)
        entries = np.ones(size), (matrix.group, np.arange(size))
        return Weighted(bounds, sp.csr_array(entries, shape=matrix.shape))
    if isinstance(matrix, DenseMatrix) or matrix.shape[0] * size <= MOST_WEIGHTS:
        return Weighted(bounds, sp.csr_array(matrix.take(np.arange(matrix.shape[0]))))
    return None


def _over_more(rows: SeriesRows | None, values: int) -> SeriesRows | None:
    """The same rows where there are more values behind those that they know."""
    if isinstance(rows, AllRanges):
        return rows.spans() if rows.count <= MOST_RANGES else None
    if isinstance(rows, Weighted):
        none = sp.csr_array((rows.count, 1))
        weights = sp.csr_array(sp.hstack([rows.weights, none]))
        return Weighted(np.append(rows.bounds, values), weights)
    return rows


def group_bounds(group: IntArray) -> IntArray | None:
    """Where groups begin and end that follow each other in order; None for others."""
    steps = np.diff(group)
    if group[0] != 0 or not ((steps == 0) | (steps == 1)).all():
        return None
    return np.concatenate([[0], np.flatnonzero(steps) + 1, [len(group)]])
