"""An explicit matrix mechanism over a small domain: measure Ax + z, answer WA⁺(Ax + z)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from noiseplan.arrays import Arrays, Json, immutable
from noiseplan.domain.cells import Cells
from noiseplan.errors import PlanError, QueryError, StorageError, UnanswerableError
from noiseplan.matrices.base import DENSE_LIMIT, Array, Matrix
from noiseplan.mechanisms.base import (
    NO_FREE_ROWS,
    Marginals,
    Measurements,
    Mechanism,
    Progress,
    floats,
    undetermined,
)
from noiseplan.mechanisms.exact_residuals import noisy_residuals, require_fit
from noiseplan.mechanisms.leastsquares import OUTSIDE, LeastSquares
from noiseplan.mechanisms.pair_distances import columns_apart
from noiseplan.noise.law import Noise, Sampler
from noiseplan.privacy import Neighbours
from noiseplan.privacy.rounding import margin, product_up
from noiseplan.queries import Query
from noiseplan.schema import Schema

STANDARD = Noise("gaussian", 1.0)


@immutable
@dataclass(frozen=True, eq=False)
class DenseMechanism(Mechanism):
    """Strategy A (rows × domain) with independent noise of one size on every row.

    The cost matrix is AᵀA/σ²; the best linear unbiased estimate of Wx is WA⁺ω with covariance
    σ² WA⁺A⁺ᵀWᵀ, for W in the row space of A. With exact noise A has integer entries.
    """

    kind: ClassVar[str] = "dense"
    alike_by: ClassVar[Literal["role", "type", "nothing"]] = "nothing"

    schema: Schema
    strategy: Array
    noise: Noise = STANDARD

    def __post_init__(self) -> None:
        # One layout in memory: a strategy read from a file answers to the last digit as it did.
        object.__setattr__(self, "strategy", np.ascontiguousarray(self.strategy))
        require_fit(self.noise, [self.strategy])

    @cached_property
    def _fit(self) -> LeastSquares:
        return LeastSquares(self.strategy)

    @property
    def numbers(self) -> int:
        return len(self.strategy)

    def on_lattice(self, exact: int) -> Mechanism:
        return replace(self, noise=self.noise.on_lattice(exact))

    def record_cost(self, neighbours: Neighbours) -> float:
        if neighbours == "replace":
            largest = columns_apart(self.strategy, self.noise.power)
        else:
            largest = float(self.noise.norms(self.strategy).max(initial=0.0))
        return product_up(largest / self.noise.one, 1 + margin(self.numbers))

    def cost_with(self, others: list[Mechanism], neighbours: Neighbours) -> float | None:
        """By the columns of all rows over σ, where the others are matrices over the cells too."""
        if not others:
            return self.record_cost(neighbours)
        every = [self, *(other for other in others if isinstance(other, DenseMechanism))]
        if len(every) <= len(others):
            return None
        for mechanism in every:
            mechanism.require_noise(neighbours)
        if neighbours == "replace":
            largest = columns_apart(np.concatenate([each.unit_rows() for each in every]), 2)
        else:
            largest = float(np.sum([each.cell_costs() for each in every], axis=0).max())
        return product_up(largest, 1 + margin(sum(each.numbers for each in every)))

    def changed(self, neighbours: Neighbours) -> int:
        """‖a‖_p^p of the dearest column, or of a difference of two: whole where entries and noise
        of one are."""
        return round(self.record_cost(neighbours))

    def cost_matrix(self) -> Array:
        return self.strategy.T @ self.strategy / self.noise.nominal

    def cell_costs(self) -> Array:
        squares = np.einsum("ri,ri->i", self.strategy, self.strategy)
        return np.asarray(squares / self.noise.nominal)

    def cell_covariance(self) -> Array:
        """The covariance of the estimates of all cells (of what is determined of them)."""
        return self.noise.variance * self._fit.spread

    def measure(
        self, marginals: Marginals, sample: Sampler, progress: Progress = lambda done: None
    ) -> Measurements:
        (every,) = self.sets
        counts = np.asarray(marginals(every)).reshape(1, -1)
        progress(1)
        return Measurements((noisy_residuals([self.strategy], counts, self.noise, sample)[:, 0],))

    def require(self, query: Query) -> None:
        self._rows(query)

    def _rows(self, query: Query) -> Matrix:
        """W, if what is measured determines it."""
        if query.schema != self.schema:
            raise UnanswerableError("the query is about another schema than the plan")
        rows = query.domain_matrix
        if not self._fit.determines(rows):
            raise undetermined(query, "what the plan measures")
        return rows

    def answering(self, measured: Measurements) -> Callable[[Query], Array]:
        cells = self._cells(measured)
        return lambda query: self._rows(query).matmul(cells)

    def _cells(self, measured: Measurements) -> Array:
        """A⁺ω: of all counts that fit best, those with the least squares."""
        return self._fit.estimate(np.asarray(measured.values[0], dtype=np.float64))

    def require_completed(self, query: Query) -> None:
        if query.schema != self.schema or not self.tells_together(query.attributes):
            self.require(query)

    def tells_together(self, names: tuple[str, ...]) -> bool:
        """Whether some row says more of these attributes than sums over one of them."""
        on = [self.schema.index(name) for name in names]
        others = tuple(i for i in range(len(self.schema)) if i not in on)
        rows = self.strategy.reshape(-1, *self.schema.shape).sum(axis=tuple(i + 1 for i in others))
        for axis in range(1, rows.ndim):
            rows = rows - rows.mean(axis=axis, keepdims=True)
        return bool(np.abs(rows).max(initial=0.0) > OUTSIDE * np.abs(self.strategy).max(initial=0))

    def completed(self, measured: Measurements, query: Query) -> Array:
        return query.domain_matrix.matmul(self._cells(measured))

    def completed_variance(self, query: Query) -> Array:
        forms = query.domain_matrix.quadratic_rows(self._fit.spread)
        return np.asarray(self.noise.variance * np.maximum(forms, 0.0))

    def variance(self, query: Query) -> Array:
        self.require(query)
        return self.completed_variance(query)

    def covariance(self, query: Query, other: Query) -> Array:
        one, two = self._rows(query), self._rows(other)
        if one.shape[0] * max(two.shape) > DENSE_LIMIT:
            raise QueryError(
                f"the covariance of {query.name!r} and {other.name!r} has {query.rows:,} × "
                f"{other.rows:,} numbers, above the limit of {DENSE_LIMIT:,}: ask for fewer rows, "
                f"or for variance(query)"
            )
        return self.noise.variance * two.matmul(one.matmul(self._fit.spread).T).T

    def unit_rows(self) -> Array:
        return np.asarray(self.strategy / np.sqrt(self.noise.nominal))

    def unit_values(self, measured: Measurements) -> Array:
        return np.asarray(measured.values[0] / np.sqrt(self.noise.nominal))

    def over_cells(self, cells: Cells) -> Mechanism:
        wide = np.ascontiguousarray(self.strategy[:, cells.of_cells()])
        return replace(self, schema=cells.schema, strategy=wide)

    def free_rows(self, most: int) -> Array:
        self.noise.require_squares(PlanError(NO_FREE_ROWS))  # room is what is left of them
        return self.strategy

    def with_rows(self, rows: Array) -> Mechanism:
        return replace(self, strategy=rows)

    def with_noise_times(self, factor: float) -> Mechanism:
        return replace(self, noise=self.noise.above(self.noise.size * factor))

    def measured_queries(self, most: int) -> list[Query]:
        rows = self.strategy / np.abs(self.strategy).max()
        return [Query(self.schema, list(self.schema.names), matrix=rows, name="what is measured")]

    def parts(self) -> tuple[Json, Arrays]:
        return {"kind": self.kind, **self.noise.parts()}, {"strategy": self.strategy}

    @classmethod
    def from_parts(
        cls, content: Mapping[str, Any], arrays: Arrays, schema: Schema
    ) -> DenseMechanism:
        strategy, noise = floats(arrays, "strategy", 2), float(content["sigma2"])
        if strategy.shape[1] != schema.size or not 0 < noise < np.inf:
            raise StorageError("the strategy does not fit the schema, or its noise is no variance")
        return cls(schema, strategy, Noise.from_parts(content, "the strategy's"))
