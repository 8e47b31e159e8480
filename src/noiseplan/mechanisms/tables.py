"""Tables measured as they are, with Laplace noise, and put together by their precisions.

    measured on B:      y_B = (⊗_{i∈B} S_i) x_B + z ,   z independent, variance v_B
    residual on A ⊆ B:  (⊗_{i∈A} residual of F_i ⊗_{i∈B∖A} sum of F_i) y_B ,   variance
                        v_B ∏_{i∈A} κ_i ∏_{i∈B∖A} 1/c_i ,   uncorrelated for different A

Every table tells the residuals inside it, and tables are independent; so each residual is the mean
of what all tables say, weighted by precision, and the whole is a residual mechanism. These are the
best linear unbiased estimates, because all tables split an attribute in the same way (`views`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from noiseplan.arrays import IntArray, unique_rows
from noiseplan.matrices import Matrix, kronecker_apply, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.attribute_views import View
from noiseplan.mechanisms.base import Marginals, Measurements, Sampler
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import batches, group_blocks, subset_patterns
from noiseplan.mechanisms.exact_residuals import (
    batch_last,
    integer_residuals,
    require_whole,
    with_noise,
)
from noiseplan.mechanisms.residual import BATCH_CELLS, ResidualMechanism
from noiseplan.noise.moments import discrete_laplace_variance
from noiseplan.queries import Query, Workload
from noiseplan.schema import Schema

# Discrete noise of a scale far below one has a variance too small for a number; this is above it.
LEAST_VARIANCE = 1e-200


def noise_variance(scales: Array, integer: bool) -> Array:
    """The variance of Laplace noise of these scales, discrete or continuous."""
    if integer:
        return np.maximum(discrete_laplace_variance(scales), LEAST_VARIANCE)
    return np.asarray(2.0 * scales**2)


@dataclass(frozen=True, eq=False)
class TableBlock:
    """Tables whose attributes are measured in the same way; `scales` is the b of each."""

    sets: IntArray
    scales: Array
    views: tuple[View, ...]
    integer: bool

    def __len__(self) -> int:
        return len(self.sets)

    @property
    def variance(self) -> Array:
        """The variance of the noise on a number of each table."""
        return noise_variance(self.scales, self.integer)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(view.rows for view in self.views)

    @property
    def numbers(self) -> int:
        return len(self) * prod(self.shape)

    @cached_property
    def parts(self) -> list[tuple[tuple[int, ...], Array]]:
        """The residuals a table tells, by the axes inside A, with the precision of each table's."""
        told = []
        for pattern in subset_patterns(len(self.views)):
            outside = [v.total for i, v in enumerate(self.views) if i not in pattern]
            if None not in outside:
                unit = prod(self.views[i].residual for i in pattern)
                unit *= prod(total for total in outside if total is not None)
                told.append((pattern, 1.0 / (self.variance * unit)))
        return told

    def part(self, tensor: Array, pattern: tuple[int, ...]) -> Array:
        """The residual on some axes out of all that F makes of a table."""
        return tensor[
            tuple(
                0 if i not in pattern else slice(0 if view.total is None else 1, None)
                for i, view in enumerate(self.views)
            )
        ]


@dataclass(frozen=True, eq=False)
class TablesMechanism:
    """Tables with Laplace noise; `basis_of[i]` is the place of attribute i's basis, or −1."""

    schema: Schema
    tables: tuple[TableBlock, ...]
    bases: tuple[Basis, ...]
    basis_of: IntArray
    integer: bool

    def __post_init__(self) -> None:
        if self.integer:
            for view in {view for block in self.tables for view in block.views}:
                require_whole([view.measure])

    @cached_property
    def residuals(self) -> ResidualMechanism:
        """The residual mechanism that the tables amount to; all answers and errors are its."""
        by_width: dict[int, list[tuple[IntArray, Array]]] = {}
        for block in self.tables:
            for pattern, precision in block.parts:
                inner = block.sets[:, list(pattern)]
                by_width.setdefault(len(pattern), []).append((inner, precision))
        sets, noise = [], []
        for pieces in by_width.values():
            rows = np.concatenate([inner for inner, _ in pieces])
            first, kind = unique_rows(rows)
            sets.append(rows[first])
            noise.append(1.0 / np.bincount(kind, np.concatenate([p for _, p in pieces])))
        return ResidualMechanism(self.schema, group_blocks(sets, noise, self.bases, self.basis_of))

    # ------------------------------------------------------------------ measuring

    @property
    def numbers(self) -> int:
        return sum(block.numbers for block in self.tables)

    @property
    def steps(self) -> int:
        return sum(map(len, self.tables))

    @property
    def sets(self) -> list[IntArray]:
        return [block.sets for block in self.tables]

    def describe(self) -> str:
        tables = "1 table" if self.steps == 1 else f"{self.steps:,} tables"
        by_name = {
            self.schema.names[int(block.sets[0, i])]: view
            for block in self.tables
            for i, view in enumerate(block.views)
            if view.kind == "strategy" and np.count_nonzero(np.asarray(view.measure)) > view.size
        }
        parts = [f"{name} by {view.rows} weighted sums" for name, view in by_name.items()]
        how = f" ({', '.join(parts[:3])}{', …' * (len(parts) > 3)})" if parts else ""
        return f"{self.numbers:,} noisy numbers in {tables}{how}"

    def cost_matrix(self) -> Array:
        """BᵀΣ⁻¹B of what is measured, Σ the variances of the Laplace noise."""
        return self.residuals.cost_matrix()

    def dense_rows(self) -> Array:
        """Every measured row over the whole domain, divided by the scale of its noise."""
        rows = []
        for block in self.tables:
            for attributes, scale in zip(block.sets.tolist(), block.scales, strict=True):
                pieces = [np.ones((1, n)) for n in self.schema.shape]
                for attribute, view in zip(attributes, block.views, strict=True):
                    measure = view.measure
                    dense = measure.dense() if isinstance(measure, Matrix) else measure
                    pieces[attribute] = dense
                rows.append(kronecker_dense(pieces) / scale)
        return np.vstack(rows)

    def measure(
        self,
        marginals: Marginals,
        sample: Sampler,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Measurements:
        """Count, measure, add noise, and average what the tables say of each residual.

        The averages are computed from the noisy numbers alone. For integer mechanisms `sample`
        takes a shape and scales, else a shape, and draws Laplace noise of scale one.
        """
        blocks = self.residuals.blocks
        sums = [np.zeros((*block.shape, len(block))) for block in blocks]
        for table in self.tables:
            rows = [view.measure for view in table.views]
            cells = prod(max(view.size, view.rows) for view in table.views)
            for chosen in batches(len(table), cells, BATCH_CELLS):
                sets, scales = table.sets[chosen], table.scales[chosen]
                counts = marginals(sets)
                if self.integer:
                    exact = integer_residuals(rows, counts)
                    noisy = with_noise(exact, sample(exact.shape, scales)).astype(np.float64)
                else:
                    noise = sample((*table.shape, len(sets))) * scales
                    noisy = np.asarray(kronecker_apply(rows, batch_last(counts)) + noise)
                tensor = kronecker_apply([view.reduce for view in table.views], noisy)
                for pattern, precision in table.parts:
                    inner = sets[:, list(pattern)]
                    number = blocks.block_for(inner[0])
                    place = blocks.blocks[number].find(inner)
                    told = table.part(tensor, pattern) * precision[chosen]
                    _add_last(sums[number], place, told)
                progress(len(sets))
        pairs = zip(sums, blocks, strict=True)
        return Measurements(tuple(total * block.variance for total, block in pairs))

    # ------------------------------------------------------------------ answering

    def require(self, query: Query) -> None:
        self.residuals.require(query)

    def answer(self, measured: Measurements, query: Query) -> Array:
        return self.residuals.answer(measured, query)

    def batches(
        self, measured: Measurements, workload: Workload
    ) -> Iterator[tuple[IntArray, Array]]:
        return self.residuals.batches(measured, workload)

    def variance(self, query: Query) -> Array:
        return self.residuals.variance(query)

    def covariance(self, query: Query, other: Query) -> Array:
        return self.residuals.covariance(query, other)


def _add_last(sums: Array, place: IntArray, values: Array) -> None:
    """sums[..., place] += values, where places may repeat."""
    order = np.argsort(place, kind="stable")
    sorted_places = place[order]
    first = np.flatnonzero(np.diff(sorted_places, prepend=-1))
    if len(first) < len(place):
        values = np.add.reduceat(values[..., order], first, axis=-1)
        place = sorted_places[first]
    sums[..., place] += values
