"""A mechanism over a smaller domain on which the same queries can be asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.domain.cells import Cells
from noiseplan.errors import PlanError
from noiseplan.matrices.base import DENSE_LIMIT, Array
from noiseplan.mechanisms.base import Marginals, Measurements, Mechanism, Sampler
from noiseplan.queries import Query, Workload
from noiseplan.schema import Schema


@dataclass(frozen=True, eq=False)
class ReducedMechanism:
    """`small` measures and answers over `cells.inner`; queries and counts are carried there."""

    cells: Cells
    small: Mechanism

    @property
    def schema(self) -> Schema:
        return self.cells.schema

    @property
    def numbers(self) -> int:
        return self.small.numbers

    @property
    def steps(self) -> int:
        return self.small.steps

    @property
    def sets(self) -> list[IntArray]:
        return [self.cells.outer_sets(sets) for sets in self.small.sets]

    def describe(self) -> str:
        size, told = self.schema.size, self.cells.inner.size
        return f"{self.small.describe()}; the queries tell {told:,} of {size:,} apart"

    def cost_matrix(self) -> Array:
        if self.schema.size**2 > DENSE_LIMIT:
            raise PlanError(
                f"the cost matrix over {self.schema.size:,} cells does not fit memory; over the "
                f"{self.cells.inner.size:,} measured it is plan.mechanism.small.cost_matrix()"
            )
        cells = self.cells.of_cells()
        return self.small.cost_matrix()[np.ix_(cells, cells)]

    def measure(
        self,
        marginals: Marginals,
        sample: Sampler,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Measurements:
        return self.small.measure(self.cells.marginals(marginals), sample, progress)

    def require(self, query: Query) -> None:
        self.small.require(self.cells.query(query))

    def answer(self, measured: Measurements, query: Query) -> Array:
        return self.small.answer(measured, self.cells.query(query))

    def batches(
        self, measured: Measurements, workload: Workload
    ) -> Iterator[tuple[IntArray, Array]]:
        for position, query in enumerate(workload):
            yield np.array([position]), self.answer(measured, query).reshape(*query.shape, 1)

    def variance(self, query: Query) -> Array:
        return self.small.variance(self.cells.query(query))

    def covariance(self, query: Query, other: Query) -> Array:
        return self.small.covariance(self.cells.query(query), self.cells.query(other))
