"""Answers from the totals of buckets, and how large their errors may be.

The estimate of a query q is Σ_b q̄_b t̂_b, with q̄_b the mean of q over the cells of bucket b and t̂
the noisy totals. Its error has two parts:

    noise   q̄ᵀ Λ⁻¹ q̄, exactly, given the partition;
    bias    Σ_j (q_j − q̄_b) x_j, which only the data know. Estimated: if the T records of a bucket
            lay in its cells at random its variance would be T·v, with v the variance of q over the
            cells; and an unevenness of h records that the first step could well have missed adds
            (h/2)²·v. Unless measured, h = min(T, 1/β): the partition tells apart spreads by 1/β.
            What ‖x − Px‖₂², measured, has beyond the sum of these is shared out by T².
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from noiseplan.matrices.base import Array
from noiseplan.mechanisms.partition.bucket_tree import BucketPlan
from noiseplan.mechanisms.partition.buckets import (
    LineWorkload,
    axis_matrix,
    expand,
    require_asked,
    rows_in_line,
)
from noiseplan.queries import Query

# Up to so many cells of one attribute errors come from forms over the cells.
BY_FORMS: Final = 4096
# Otherwise from the rows, in blocks of so many numbers, as long as all rows hold no more than so
# many numbers; beyond, of so many rows, evenly spread, with straight lines between them.
AT_ONCE: Final = 1 << 22
EVERY_ROW: Final = 1 << 29
SAMPLED: Final = 512


@dataclass(frozen=True)
class Gauge:
    """What is known of the unevenness within buckets.

    Parameters
    ----------
    resolution
        1/β: differences of spread that the partition tells apart.
    unevenness
        The sum of the spreads of all buckets, with noise, where that was measured.
    norm, noise
        ‖x − Px‖₂ with noise, where that was measured, and the variance of that noise.
    """

    resolution: float
    unevenness: float | None = None
    norm: float | None = None
    noise: float = 0.0

    @property
    def measured(self) -> bool:
        """Whether anything was."""
        return self.unevenness is not None or self.norm is not None


@dataclass(frozen=True, eq=False)
class Estimates:
    """A partition of a line of cells, with noisy totals."""

    line: LineWorkload
    buckets: BucketPlan
    totals: Array
    gauge: Gauge

    @cached_property
    def cells(self) -> Array:
        """The estimated counts, in the order of the table."""
        counts = np.empty(len(self.line.order))
        counts[self.line.order] = expand(self.totals, self.buckets.edges)
        return counts.reshape([self.line.workload.schema[name].size for name in self.line.asked])

    def estimate(self, query: Query) -> Array:
        """The answer to every row."""
        require_asked(query, self.line.asked)
        return query.over(self.line.asked).matmul(self.cells.ravel())

    # ------------------------------------------------------------------ errors

    def errors(self, query: Query) -> tuple[Array, Array]:
        """Of every row the variance of the noise, and the estimated square of the bias."""
        if self._by_forms:
            matrix = axis_matrix(query, self.line.asked[0])
            noise = matrix.quadratic_rows(self._noise_of_cells)
            bias = matrix.quadratic_rows(self._bias_of_cells)
            return np.maximum(noise, 0.0), np.maximum(bias, 0.0)
        everywhere = np.arange(query.rows)
        rows = everywhere
        if self.approximate(query):
            rows = np.unique(np.linspace(0, query.rows - 1, SAMPLED).astype(np.int64))
        size = max(AT_ONCE // len(self.line.order), 1)
        parts = (rows[first : first + size] for first in range(0, len(rows), size))
        found = np.concatenate(
            [
                self._errors_of(rows_in_line(query, self.line.asked, self.line.order, p))
                for p in parts
            ],
            axis=1,
        )
        if len(rows) == query.rows:
            return found[0], found[1]
        return np.interp(everywhere, rows, found[0]), np.interp(everywhere, rows, found[1])

    def approximate(self, query: Query) -> bool:
        """Whether a query is so large that the errors of most rows are read between others."""
        large = query.rows * len(self.line.order) > EVERY_ROW and query.rows > SAMPLED
        return large and not self._by_forms

    @property
    def _by_forms(self) -> bool:
        return len(self.line.asked) == 1 and len(self.line.order) <= BY_FORMS

    def _errors_of(self, rows: Array) -> Array:
        """Noise and bias of some rows over the cells in line."""
        widths = np.diff(self.buckets.edges)
        mean = np.add.reduceat(rows, self.buckets.edges[:-1], axis=1) / widths
        square = np.add.reduceat(rows**2, self.buckets.edges[:-1], axis=1) / widths
        noise = np.einsum("rb,br->r", mean, self.buckets.covariance_times(mean.T))
        bias = np.maximum(square - mean**2, 0.0) @ self.hidden
        return np.stack([noise, bias])

    @property
    def hidden(self) -> Array:
        """Of every bucket what multiplies v: T + (h/2)²."""
        widths, totals = np.diff(self.buckets.edges), np.maximum(self.totals, 0.0)
        missed = np.minimum(totals, self.gauge.resolution)
        if self.gauge.unevenness is not None:
            density = totals / widths
            by_chance = (widths * np.minimum(density, np.sqrt(2 * density / np.pi))).sum()
            beyond = max(self.gauge.unevenness - float(by_chance), 0.0)
            missed = missed * beyond / max(float(missed.sum()), 1.0)
        return self._with_towers(totals + (missed / 2) ** 2, totals)

    def _with_towers(self, expected: Array, totals: Array) -> Array:
        """What the measured norm has beyond all that was expected, shared out by T²."""
        if self.gauge.norm is None:
            return expected
        within = 1 - 1 / np.diff(self.buckets.edges)  # of single cells nothing is hidden
        found = max(self.gauge.norm, 0.0) ** 2 - self.gauge.noise
        beyond = max(found - float(within @ expected), 0.0)
        share = beyond / max(float(within @ totals**2), 1.0)
        return np.asarray(expected + share * totals**2)

    @cached_property
    def _noise_of_cells(self) -> Array:
        widths = np.diff(self.buckets.edges)
        covariance = self.buckets.covariance_times(np.eye(len(widths))) / np.outer(widths, widths)
        return np.asarray(np.repeat(np.repeat(covariance, widths, axis=0), widths, axis=1))

    @cached_property
    def _bias_of_cells(self) -> Array:
        """v as a quadratic form of q: diag(1/L) − 11ᵀ/L² within every bucket, times `hidden`."""
        edges, cells = self.buckets.edges, len(self.line.order)
        form = np.zeros((cells, cells))
        for start, stop, weight in zip(edges[:-1], edges[1:], self.hidden, strict=True):
            length = stop - start
            form[start:stop, start:stop] = -weight / length**2
        widths = np.diff(edges)
        form[np.diag_indices(cells)] += np.repeat(self.hidden / widths, widths)
        return form
