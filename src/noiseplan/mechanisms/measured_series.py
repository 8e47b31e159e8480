"""Ordered values measured by a series, with residuals of the other attributes: time and money.

The values of one attribute come in order, and prefix sums or ranges are asked. For every set
A of the others

    measured along the values:   ω_A = (⊗_{i∈A} U_i) x_A (T(c_A)D_A)ᵀ + σ_A z ,

x_A the counts by A and value, T lower triangular of whole coefficients c, D whole levels
(`domain.series`); and sums of them by group, or the totals, (⊗U_i)x_AZᵀ, where these count. The
cost of a record of value j, which is in one group of each partition g, is

    Σ_A ∏_{i∈A} β_i (‖column j of T(c_A)D_A‖²/σ²_A + Σ_g 1/τ²_{A,g}) .
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from noiseplan.arrays import Arrays, IntArray, Json, immutable
from noiseplan.domain.convolutions import Toeplitz, whole_levels, whole_products
from noiseplan.domain.series import Series
from noiseplan.errors import StorageError
from noiseplan.matrices import Matrix, kronecker_apply
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Marginals, Measurements, Progress
from noiseplan.mechanisms.basis_files import read_bases, write_bases
from noiseplan.mechanisms.blocks import BATCH_CELLS, batches
from noiseplan.mechanisms.exact_residuals import (
    batch_last,
    integer_residuals,
    largest_entry,
    noisy_residuals,
    with_noise,
)
from noiseplan.mechanisms.long_answers import AskedTable
from noiseplan.mechanisms.long_attribute import LongMechanism, read_others
from noiseplan.mechanisms.series_block import PartSums, SeriesBlock
from noiseplan.mechanisms.series_rows import (
    MOST_RANGES,
    AllRanges,
    SeriesRows,
    Weighted,
    rows_of_matrix,
)
from noiseplan.noise.law import Noise, Sampler, lattice_of
from noiseplan.noise.wide_integers import joined
from noiseplan.queries import Query, Workload
from noiseplan.schema import Schema
from noiseplan.texts import counted


@immutable
@dataclass(frozen=True, eq=False)
class SeriesMechanism(LongMechanism):
    """Blocks along ordered values, each with a series of its own."""

    kind: ClassVar[str] = "series"

    blocks: tuple[SeriesBlock, ...]

    @property
    def values(self) -> int:
        """Values of the long attribute."""
        return self.schema.shape[self.place]

    @cached_property
    def noise(self) -> Noise:  # type: ignore[override]
        noises = [noise for block in self.blocks for noise in block.noises]
        return Noise("gaussian", np.concatenate([n.size for n in noises]), self.exact)

    # ------------------------------------------------------------------ privacy

    def _dearest(self) -> tuple[float, int]:
        cost = np.zeros(self.values)
        for block in self.blocks:
            each = block.prices() * self.price(block)
            cost += np.repeat(each, np.diff(block.bounds))
        terms = sum(3 + len(block.sums) + len(block.others) for block in self.blocks)
        return float(cost.max()), terms

    # ------------------------------------------------------------------ measuring

    def describe(self) -> str:
        sets = counted(len(self.blocks), "set")
        name = self.schema.names[self.place]
        return f"{counted(self.numbers, 'noisy number')} on {sets}, in series along {name}"

    def measure(
        self, marginals: Marginals, sample: Sampler, progress: Progress = lambda done: None
    ) -> Measurements:
        """Count by value and set, transform, multiply by the series, add noise."""
        values: list[NDArray[np.number]] = []
        for block, attributes in zip(self.blocks, self.sets, strict=True):
            counts = self.counts(marginals, attributes)
            if block.size < self.values:
                counts = np.add.reduceat(counts, block.bounds[:-1], axis=0)
            values.append(self._along(block, counts, sample))
            rows = [self.basis(i).measure for i in block.others]
            values.extend(
                noisy_residuals(rows, each.added(counts), each.noise, sample) for each in block.sums
            )
            progress(1)
        return Measurements(tuple(values))

    def _along(
        self, block: SeriesBlock, counts: NDArray[np.number], sample: Sampler
    ) -> NDArray[np.number]:
        """T(c)D of the residuals along the parts, and noise: one number of the others at a time."""
        rows = [self.basis(i).measure for i in block.others]
        parts = batches(len(counts), counts[0].size, BATCH_CELLS)
        series = block.series
        shape, levels = self.other_rows(block), series.levels[series.piece]
        if not self.exact:
            found = [kronecker_apply(rows, batch_last(counts[part])) for part in parts]
            flat = np.concatenate(found, axis=-1).reshape(-1, block.size)
            first = Toeplitz(series.coefficients.astype(np.float64))
            each = [
                with_noise(first.apply(levels * row), sample((block.size,), block.noise))
                for row in flat
            ]
            return np.array(each).reshape(*shape, block.size)
        whole = joined([integer_residuals(rows, counts[part]) for part in parts])
        whole = whole.reshape(prod(shape), block.size)
        people = int(np.abs(counts).sum(dtype=np.float64) * (1 + 1e-9)) + 1
        reach = largest_entry(rows) * series.largest * people
        each = []
        for number in range(prod(shape)):
            if series.alone:  # T(c) = c_0, any whole number: it takes no transforms
                row = whole_levels(levels * series.coefficients[0], whole[(number,)], reach)
            else:
                row = whole_levels(levels, whole[(number,)], reach)
                row = whole_products(series.coefficients, row, reach)
            each.append(with_noise(row, sample((block.size,), block.noise)))
        return np.array(each).reshape(*shape, block.size)

    # ------------------------------------------------------------------ answering

    def rows_of(self, matrix: Matrix) -> Iterator[SeriesRows | None]:
        return rows_of_matrix(matrix)

    def rows_of_values(self, weights: sp.csr_array, limits: Array) -> SeriesRows | None:
        size = weights.shape[1]
        bounds = np.array([0, self.values]) if size == 1 else np.arange(size + 1)
        return Weighted(bounds, weights, limits)

    def listed(self, workload: Workload) -> Iterator[Query]:
        return (query for query in workload if self.unlisted(query) is None)

    def unlisted(self, query: Query) -> str | None:
        rows = [] if query.joint is not None else AskedTable(self, query).pieces
        many = [r.count for r in rows if isinstance(r, AllRanges) and r.count > MOST_RANGES]
        if not many:
            return None
        return (
            f"{query.name!r} asks for {many[0]:,} ranges, and no more than {MOST_RANGES:,} are "
            f"written down: the plan keeps the errors of all of them small, and answers any of "
            f"them asked for by itself, as a condition ('10 <= time < 20') or nz.Custom([[...]])"
        )

    def figures_alike(self, workload: Workload, group: IntArray) -> tuple[Array, Array]:
        """Sums by formula, so that ranges are not listed; the largest of them is not known."""
        (query,) = (workload.query(int(q)) for q in group)
        table = AskedTable(self, query)
        if any(isinstance(rows, AllRanges) for rows in table.pieces):
            self.require(query)
            return np.array([table.variance_sum()]), np.array([np.nan])
        return super().figures_alike(workload, group)

    # ------------------------------------------------------------------ saving

    def parts(self) -> tuple[Json, Arrays]:
        bases, arrays = write_bases(self.bases, self.basis_of)
        series = list({id(block.series): block.series for block in self.blocks}.values())
        for i, each in enumerate(series):
            arrays[f"series_{i}_coefficients"] = each.coefficients
            arrays[f"series_{i}_starts"] = each.starts
            arrays[f"series_{i}_levels"] = each.levels
        blocks = []
        for i, block in enumerate(self.blocks):
            arrays[f"block_{i}_bounds"] = block.bounds
            if not block.total_only:
                for j, beside in enumerate(block.sums):
                    arrays[f"block_{i}_sums_{j}_bounds"] = beside.bounds
            number = next(j for j, each in enumerate(series) if each is block.series)
            blocks.append(
                {
                    "others": list(block.others),
                    "series": number,
                    "sigma2": block.noise.one,
                    **_saved_sums(block),
                }
            )
        content: Json = {
            "kind": self.kind,
            "integer": self.exact,
            "attribute": self.schema.names[self.place],
            "bases": bases,
            "series": len(series),
            "blocks": blocks,
        }
        return content, arrays

    @classmethod
    def from_parts(
        cls, content: Mapping[str, Any], arrays: Arrays, schema: Schema
    ) -> SeriesMechanism:
        bases, basis_of = read_bases(content, arrays, schema)
        place, exact = schema.index(content["attribute"]), lattice_of(content["integer"])
        series = [_read_series(arrays, i) for i in range(int(content["series"]))]
        blocks = []
        for i, saved in enumerate(content["blocks"]):
            others = read_others(saved, i, place, basis_of)
            bounds, number = whole(arrays, f"block_{i}_bounds"), int(saved["series"])
            if not 0 <= number < len(series) or len(bounds) != series[number].size + 1:
                raise StorageError(f"block {i} does not fit its series")
            ends = bounds[0] == 0 and bounds[-1] == schema.shape[place]
            if not ends or not (np.diff(bounds) > 0).all():
                raise StorageError(f"block {i} is not about parts of the values in their order")
            noise = _read_noise(saved["sigma2"], exact, i)
            sums = tuple(_read_sums(saved, arrays, i, exact))
            if any(each.bounds[-1] != series[number].size for each in sums):
                raise StorageError(f"sums of block {i} do not fit its series")
            blocks.append(SeriesBlock(others, bounds, series[number], noise, sums))
        if not blocks:
            raise StorageError("nothing is measured")
        return cls(schema, place, bases, basis_of, tuple(blocks), exact)


def _read_noise(size: object, exact: int, block: int) -> Noise:
    noise = Noise("gaussian", float(size), exact)  # type: ignore[arg-type]
    if not (np.isfinite(noise.one) and noise.one > 0):
        raise StorageError(f"block {block} has no noise")
    return noise


def _saved_sums(block: SeriesBlock) -> Json:
    """Variances of the sums; of nothing but the total as it was saved before there were others."""
    sizes = [each.noise.one for each in block.sums]
    if block.total_only:
        return {"total_sigma2": sizes[0] if sizes else None}
    return {"sums_sigma2": sizes}


def _read_sums(
    saved: Mapping[str, Any], arrays: Arrays, block: int, exact: int
) -> Iterator[PartSums]:
    """Sums beside a series: groups, or the total only."""
    if "sums_sigma2" not in saved:
        size = len(whole(arrays, f"block_{block}_bounds")) - 1
        if saved["total_sigma2"] is not None:
            yield PartSums(np.array([0, size]), _read_noise(saved["total_sigma2"], exact, block))
        return
    for j, variance in enumerate(saved["sums_sigma2"]):
        bounds = whole(arrays, f"block_{block}_sums_{j}_bounds")
        if bounds[0] != 0 or len(bounds) < 2 or not (np.diff(bounds) > 0).all():
            raise StorageError(f"sums of block {block} are not over parts in their order")
        yield PartSums(bounds, _read_noise(variance, exact, block))


def _read_series(arrays: Arrays, number: int) -> Series:
    names = ("coefficients", "starts", "levels")
    first, starts, levels = (whole(arrays, f"series_{number}_{name}") for name in names)
    pieces = starts[0] == 0 and (np.diff(starts, append=len(first)) > 0).all()
    if not pieces or len(levels) != len(starts) or not (levels > 0).all():
        raise StorageError(f"the pieces of series {number} are none of its values")
    if not first[0] > 0:
        raise StorageError(f"series {number} begins with nothing")
    return Series(first, starts, levels)


def whole(arrays: Arrays, name: str) -> IntArray:
    """A saved list of whole numbers."""
    found = np.asarray(arrays[name])
    if found.dtype.kind != "i" or found.ndim != 1 or not found.size:
        raise StorageError(f"{name} should be a list of whole numbers")
    return found.astype(np.int64)
