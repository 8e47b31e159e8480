"""The residual mechanism: measure residuals of tables, put any table back together from them.

    measured on A:   ω_A = (⊗_{i∈A} U_i) x_A + σ_A z            z independent standard noise
    answer of Q_B:   Σ_{A⊆B} ⊗_{i∈B} (W_iV_i if i∈A else W_iτ_i) ω_A
    Cov(Q_B, Q_C):   Σ_{A⊆B∩C} σ²_A ⊗_i F_i

The answer is unbiased and the only linear one, because the measured rows are linearly independent;
so all answers agree with each other.

References
----------
ResidualPlanner+ (arXiv 2305.08175), Algorithms 1, 2, 5, 6 and Theorem 7.2, with a free τ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, unique_rows
from noiseplan.errors import PlanError
from noiseplan.matrices import Matrix, kronecker_apply, kronecker_dense
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Marginals, Measurements, Sampler
from noiseplan.mechanisms.basis import Basis
from noiseplan.mechanisms.blocks import Blocks, batches, subset_patterns
from noiseplan.mechanisms.exact_residuals import (
    batch_last,
    integer_residuals,
    require_whole,
    with_noise,
)
from noiseplan.mechanisms.residual_errors import row_covariances, row_variances
from noiseplan.mechanisms.span import require
from noiseplan.queries import Query, Workload
from noiseplan.schema import Schema

# Cells measured or reconstructed at a time: a megabyte of doubles stays in the cache.
BATCH_CELLS = 1 << 17


@dataclass(frozen=True, eq=False)
class ResidualMechanism:
    """Bases and noise variances; everything else follows from them."""

    schema: Schema
    blocks: Blocks
    integer: bool = False  # integer rows and discrete noise: counts to noisy integers, exactly

    def __post_init__(self) -> None:
        if self.integer:
            require_whole([basis.measure for basis in self.blocks.bases])

    # ------------------------------------------------------------------ privacy

    def cost_matrix(self, limit: int = 4096) -> Array:
        """BᵀΣ⁻¹B of what is measured, domain × domain, for small domains.

        A subset measured exactly (σ² = 0, the total when one record may replace another) is left
        out: it does not depend on whose record is replaced.
        """
        size = self.schema.size
        if size > limit:
            raise PlanError(
                f"the cost matrix of a domain of {size:,} cells: the limit is {limit:,}"
            )
        cost = np.zeros((size, size))
        for block in self.blocks:
            grams = [basis.gram for basis in block.bases]
            for row, sigma2 in zip(block.sets, block.sigma2, strict=True):
                if sigma2 > 0:
                    place = {int(a): g for a, g in zip(row, grams, strict=True)}
                    pieces = [
                        place.get(i, np.ones((n, n))) for i, n in enumerate(self.schema.shape)
                    ]
                    cost += kronecker_dense(pieces) / sigma2
        return cost

    @property
    def numbers(self) -> int:
        """How many noisy numbers are measured."""
        return sum(block.numbers for block in self.blocks)

    @property
    def steps(self) -> int:
        """In how many steps measuring reports its progress: one for each subset."""
        return len(self.blocks)

    @property
    def sets(self) -> list[IntArray]:
        """The sets of attributes that measuring counts by, one array for each block."""
        return [block.sets for block in self.blocks]

    def describe(self) -> str:
        subsets = "1 subset" if len(self.blocks) == 1 else f"{len(self.blocks):,} subsets"
        return f"{self.numbers:,} noisy numbers on {subsets} of attributes"

    # ------------------------------------------------------------------ measuring

    def measure(
        self,
        marginals: Marginals,
        sample: Sampler,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Measurements:
        """Count, transform and add noise, block by block in batches.

        `marginals(sets)` returns plain counts (sets, n_1, …, n_k); `sample` draws the noise.
        """
        values = []
        for block in self.blocks:
            noisy = np.empty((*block.shape, len(block)), np.int64 if self.integer else np.float64)
            rows = [basis.measure for basis in block.bases]
            cells = prod(max(basis.size, basis.rows) for basis in block.bases)
            for part in batches(len(block), cells, BATCH_CELLS):
                counts, sigma2 = marginals(block.sets[part]), block.sigma2[part]
                if self.integer:
                    exact = integer_residuals(rows, counts)
                    found = with_noise(exact, sample(exact.shape, sigma2))
                    if found.dtype != noisy.dtype:  # integers that 64 bits do not hold, rounded
                        noisy = noisy.astype(np.float64)
                    noisy[..., part] = found
                else:
                    noise = sample((*block.shape, len(counts)))
                    noise *= np.sqrt(sigma2)
                    np.add(kronecker_apply(rows, batch_last(counts)), noise, out=noisy[..., part])
                progress(len(counts))
            values.append(noisy)
        return Measurements(tuple(values))

    # ------------------------------------------------------------------ answering

    def coordinates(self, measured: Measurements, sets: IntArray) -> Array:
        """All ω_A with A inside each given set, as one tensor per set, the batch last.

        Index 0 on an axis is the sum over that attribute, 1, 2, … its residual.
        """
        bases = self._bases(sets[0])
        tensor = np.zeros((*(basis.rows + 1 for basis in bases), len(sets)))
        for pattern in subset_patterns(len(bases)):
            inner = sets[:, list(pattern)]
            number = self.blocks.block_for(inner[0])
            if number < 0:
                continue
            place = self.blocks.blocks[number].find(inner)
            part = tuple(slice(1, None) if i in pattern else 0 for i in range(len(bases)))
            source = _take_last(measured.values[number], place)
            tensor[part] = np.where(place >= 0, source, 0.0) if (place < 0).any() else source
        return tensor

    def answers(self, measured: Measurements, query: Query, sets: IntArray) -> Array:
        """Answers to one query on many attribute sets that share their bases, the batch last."""
        factors = query.matrices()
        tensor = self.coordinates(measured, sets)
        bases = self._bases(sets[0])
        steps: list[Array | Matrix] = []
        after = []
        for factor, basis in zip(factors, bases, strict=True):
            # W T as one small matrix; a factor with more rows than values is applied afterwards.
            inverse = basis.inverse
            late = isinstance(inverse, Matrix) or factor.shape[0] > factor.shape[1]
            steps.append(inverse if late else basis.split(factor))
            after.append(factor if late else None)
        result = kronecker_apply(steps, tensor)
        for axis, factor_left in enumerate(after):
            if factor_left is not None:
                result = np.moveaxis(factor_left.matmul(np.moveaxis(result, axis, 0)), 0, axis)
        return result

    def answer(self, measured: Measurements, query: Query) -> Array:
        """The unbiased estimate of every row of a query."""
        self.require(query)
        sets = self._set(query.attributes)
        if query.joint is None:
            return np.ascontiguousarray(self.answers(measured, query, sets)[..., 0]).ravel()
        cells = kronecker_apply(
            [b.inverse for b in self._bases(sets[0])], self.coordinates(measured, sets)
        )
        return query.joint @ cells.ravel()

    def batches(
        self, measured: Measurements, workload: Workload
    ) -> Iterator[tuple[IntArray, Array]]:
        """A workload's answers in batches of equal shape: positions, and estimates, batch last."""
        columns = workload.columns
        bases = np.append(self.blocks.basis_of, -1)[columns.attributes]
        _, kind = unique_rows(np.column_stack([bases, columns.factors, columns.joint]))
        order = np.argsort(kind, kind="stable")
        for group in np.split(order, np.cumsum(np.bincount(kind))[:-1]):
            query = workload.query(int(group[0]))
            for part in batches(len(group), query.rows, BATCH_CELLS):
                chosen = group[part]
                if query.joint is not None:
                    yield chosen, self.answer(measured, query)[:, None]
                else:
                    sets = columns.attributes[chosen, : len(query.attributes)]
                    yield chosen, self.answers(measured, query, sets)

    # ------------------------------------------------------------------ errors

    def variance(self, query: Query) -> Array:
        """The exact variance of every row."""
        self.require(query)
        return row_variances(self, query)

    def covariance(self, query: Query, other: Query) -> Array:
        """The exact covariance of every row of one query with every row of another."""
        self.require(query)
        self.require(other)
        return row_covariances(self, query, other)

    # ------------------------------------------------------------------ what is there

    def require(self, query: Query) -> None:
        """Raise `UnanswerableError` unless the query lies in the span of what is measured."""
        require(self, query)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that are measured."""
        names = zip(self.schema.names, self.blocks.basis_of, strict=True)
        return tuple(n for n, basis in names if basis >= 0)

    def basis(self, name: str) -> Basis:
        """The basis of a measured attribute."""
        return self.blocks.bases[int(self.blocks.basis_of[self.schema.index(name)])]

    def noise_variance(self, names: Sequence[str]) -> float:
        """Variance of the noise on these attributes, infinite if nothing is measured there."""
        return float(self.blocks.variance(self._set(names))[0])

    def measures(self, names: Sequence[str]) -> bool:
        """Whether the residual on these attributes is measured, or has no numbers at all."""
        return np.isfinite(self.noise_variance(names)) or any(
            self.basis(n).rows == 0 for n in names
        )

    def _bases(self, attributes: IntArray) -> list[Basis]:
        return [self.blocks.bases[b] for b in self.blocks.basis_of[attributes]]

    def _set(self, names: Sequence[str]) -> IntArray:
        return np.array([[self.schema.index(n) for n in names]], dtype=np.int64)


def _take_last(values: NDArray[np.number], place: IntArray) -> NDArray[np.number]:
    """values[..., place], as a view where the places follow each other."""
    if len(place) and (np.diff(place) == 1).all() and place[0] >= 0:
        return values[..., place[0] : place[0] + len(place)]
    return np.take(values, place, axis=-1)
