"""The two steps on data: a partition is drawn, then its buckets are measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from noiseplan.arrays import Arrays, IntArray, Json, immutable
from noiseplan.errors import DependsOnData, NoiseplanError, PlanError, StorageError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Errors, Marginals, Measurements, Mechanism, Progress
from noiseplan.mechanisms.cost import of_replaced
from noiseplan.mechanisms.partition.bucket_tree import BucketPlan
from noiseplan.mechanisms.partition.buckets import LineWorkload, require_asked
from noiseplan.mechanisms.partition.estimates import Estimates, Gauge
from noiseplan.mechanisms.partition.halving import HalvingSelector, least_cost
from noiseplan.mechanisms.partition.interval_spread import hidden_norm
from noiseplan.mechanisms.partition.partition_settings import Dawa, Spending
from noiseplan.noise import SeededSource, Source, SystemSource
from noiseplan.noise.randomness import derived_seed
from noiseplan.privacy import Guarantee, Neighbours
from noiseplan.privacy.budgets import Additive
from noiseplan.privacy.people import person_price
from noiseplan.queries import Query
from noiseplan.schema import Schema


@dataclass(frozen=True, eq=False)
class PartitionMeasurements(Measurements):
    """The noisy numbers of the buckets, how the buckets were measured, and the gauge, if any.

    `compared` is the least cost of a partition, with noise, where it was looked at.
    """

    buckets: BucketPlan
    line: LineWorkload
    gauge: Gauge
    compared: float | None = None

    @property
    def partition(self) -> PartitionMeasurements:
        return self

    @cached_property
    def estimates(self) -> Estimates:
        """What answers queries."""
        totals = self.buckets.estimate(self.values)
        return Estimates(self.line, self.buckets, totals, self.gauge)


# What is measured of the buckets that were drawn: planned once they are known, within a budget.
PlanBuckets = Callable[[LineWorkload, IntArray, Additive, str, str], BucketPlan]


@immutable
@dataclass(frozen=True, eq=False)
class PartitionMechanism(Mechanism):
    """Draw a partition of the line of cells within ε₁, then measure its buckets within ε₂.

    How many numbers are measured, with what noise and what errors, follows from the partition, and
    that from the data: nobody knows before.
    """

    data_aware: ClassVar[bool] = True

    line: LineWorkload
    spending: Spending
    settings: Dawa
    drawn_by: str  # the noise as `plan` was asked for it
    plan_buckets: PlanBuckets

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        return self.line.workload.schema

    # ------------------------------------------------------------------ privacy

    def cost(self, neighbours: Neighbours, max_rows: int = 1) -> Guarantee:
        """What all steps cost together, whatever partition is drawn."""
        record = self.spending.privacy
        record = of_replaced(record) if neighbours == "replace" else record
        return person_price(record, max_rows)

    def record_cost(self, neighbours: Neighbours) -> float:
        return self.cost(neighbours).amount

    # ------------------------------------------------------------------ measuring

    @property
    def sets(self) -> list[IntArray]:
        """The one table that is counted."""
        return [np.array([[self.schema.index(name) for name in self.line.asked]])]

    @property
    def steps(self) -> int:
        """Partition, plan, measure."""
        return 3

    def measure(
        self, marginals: Marginals, sample: Any, progress: Progress = lambda done: None
    ) -> PartitionMeasurements:
        """All that is ever made of the data."""
        table = np.asarray(marginals(self.sets[0])[0])
        counts = table.ravel().astype(np.int64)[self.line.order]
        compared = self._compared(counts, sample)
        second = self.spending.second_after(compared)
        if second is self.spending.second:
            edges = self.spending.selector.draw(counts, _bits_of(sample))
            progress(1)
            buckets = self._planned(edges, second)
        else:
            progress(1)
            buckets, edges = self._of_cells, self._of_cells.edges
        if not buckets.privacy.within(second):  # whoever planned them: fail closed
            raise PlanError("measuring the buckets would cost more than was charged for them")
        progress(1)
        values = buckets.measure(counts, sample)
        gauge = self._gauged(counts, edges, sample)
        progress(1)
        return PartitionMeasurements(values, buckets, self.line, gauge, compared)

    def _compared(self, counts: IntArray, sample: Any) -> float | None:
        """The least cost of a partition, with noise. One record moves it by at most one."""
        comparison, selector = self.spending.comparison, self.spending.selector
        if comparison is None:
            return None
        assert isinstance(selector, HalvingSelector)  # others do not compare
        halves = selector.halves
        cost = np.array([least_cost(halves, halves.spreads(counts), comparison.charge)])
        return float((cost + sample(cost.shape, comparison.noise))[0])

    def _planned(self, edges: IntArray, second: Additive) -> BucketPlan:
        return self.plan_buckets(self.line, edges, second, self.drawn_by, self.settings.second)

    @cached_property
    def _of_cells(self) -> BucketPlan:
        """What is measured where no buckets pay: it looks at no data, so it is planned once."""
        assert self.spending.comparison is not None  # which said so
        return self._planned(np.arange(len(self.line.order) + 1), self.spending.comparison.cells)

    def _gauged(self, counts: IntArray, edges: IntArray, sample: Any) -> Gauge:
        """How uneven the buckets are, with noise; of single cells there is nothing to measure."""
        noise = self.spending.gauge
        if noise is None or len(edges) == len(counts) + 1:
            return self.gauge()
        found = np.array([hidden_norm(counts, edges)])
        return self.gauge(norm=float((found + sample(found.shape, noise))[0]))

    def gauge(self, unevenness: float | None = None, norm: float | None = None) -> Gauge:
        """What was measured of the unevenness, with what is known of the measuring."""
        noise = self.spending.gauge
        return Gauge(
            self.resolution, unevenness, norm, 0.0 if noise is None else float(noise.variance[0])
        )

    @property
    def resolution(self) -> float:
        """1/β: differences of spread that the partition tells apart."""
        return float(1 / (float(self.spending.selector.rate.value) * np.log(2)))

    # ------------------------------------------------------------------ answering

    def require(self, query: Query) -> None:
        require_asked(query, self.line.asked)

    def answering(self, measured: Measurements) -> Callable[[Query], Array]:
        return _own(measured).estimates.estimate

    def errors(self, measured: Measurements, query: Query) -> Errors:
        estimates = _own(measured).estimates
        noise, bias = estimates.errors(query)
        return Errors(np.sqrt(noise), np.sqrt(bias), estimates.approximate(query))

    # ------------------------------------------------------------------ what nobody knows before

    @property
    def numbers(self) -> int:
        raise DependsOnData

    @property
    def most_numbers(self) -> float:
        return np.inf

    def require_unbiased(self, otherwise: NoiseplanError) -> None:
        raise otherwise

    def describe(self) -> str:
        raise DependsOnData

    def cost_matrix(self) -> Array:
        raise DependsOnData

    def variance(self, query: Query) -> Array:
        raise DependsOnData

    def covariance(self, query: Query, other: Query) -> Array:
        raise DependsOnData

    def on_lattice(self, exact: int) -> Mechanism:
        raise DependsOnData

    def parts(self) -> tuple[Json, Arrays]:
        raise StorageError("what is chosen from the data is saved with its release")

    @classmethod
    def from_parts(cls, content: Mapping[str, Any], arrays: Arrays, schema: Schema) -> Mechanism:
        raise StorageError("what is chosen from the data is saved with its release")


def partition_of(mechanism: Mechanism) -> PartitionMechanism:
    """The mechanism of a data-aware plan."""
    assert isinstance(mechanism, PartitionMechanism)  # no other is data-aware
    return mechanism


def _own(measured: Measurements) -> PartitionMeasurements:
    assert isinstance(measured, PartitionMeasurements)  # as `measure` made them
    return measured


def _bits_of(sample: Any) -> Source:
    """Where the bits of the partition come from: the sampler's own source, if it has one.

    Floating-point samplers, for simulation, have none; theirs is made of their seed.
    """
    source = getattr(sample, "source", None)
    if isinstance(source, Source):
        return source
    return SystemSource() if sample.seed is None else SeededSource(derived_seed(sample.seed, 1))
