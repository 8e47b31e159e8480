"""The two steps on data: a partition is drawn, then its buckets are measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.mechanisms.base import Marginals, Measurements, Measuring
from noiseplan.mechanisms.cost import of_person
from noiseplan.mechanisms.partition.bucket_tree import BucketPlan
from noiseplan.mechanisms.partition.buckets import LineWorkload, require_asked
from noiseplan.mechanisms.partition.interval_spread import IntervalCosts
from noiseplan.mechanisms.partition.settings import Spending
from noiseplan.noise import SeededSource, Source, SystemSource
from noiseplan.noise.seeds import derived_seed
from noiseplan.privacy import Guarantee, Neighbours, PureDP, zCDP
from noiseplan.queries import Query


@dataclass(frozen=True, eq=False)
class AwareMeasurements(Measurements):
    """The noisy numbers of the buckets, how the buckets were measured, and the gauge, if any."""

    buckets: BucketPlan
    unevenness: float | None = None


# What is measured of the buckets that were drawn: planned once they are known, within a budget.
PlanBuckets = Callable[[LineWorkload, IntArray, PureDP | zCDP, str, str], BucketPlan]


@dataclass(frozen=True, eq=False)
class AwareMechanism(Measuring):
    """Draw a partition of the line of cells within ε₁, then measure its buckets within ε₂."""

    probed: ClassVar[bool] = False

    line: LineWorkload
    spending: Spending
    noise: str
    second: str
    plan_buckets: PlanBuckets

    @property
    def privacy(self) -> Guarantee:
        """What all steps cost one record together, whatever partition is drawn."""
        return self.spending.privacy

    def cost(self, neighbours: Neighbours, max_rows: int = 1) -> Guarantee:
        return of_person(self.privacy, neighbours, max_rows)

    @property
    def sets(self) -> list[IntArray]:
        """The one table that is counted."""
        schema = self.line.workload.schema
        return [np.array([[schema.index(name) for name in self.line.asked]])]

    def require(self, query: Query) -> None:
        """Refuse a query that a release will not answer."""
        require_asked(query, self.line.asked)

    @property
    def steps(self) -> int:
        """Partition, plan, measure."""
        return 3

    def measure(
        self, marginals: Marginals, sample: Any, progress: Callable[[int], None] = lambda _: None
    ) -> AwareMeasurements:
        """All that is ever made of the data."""
        table = np.asarray(marginals(self.sets[0])[0])
        counts = table.ravel().astype(np.int64)[self.line.order]
        edges = self.spending.selector.draw(counts, _bits_of(sample))
        progress(1)
        buckets = self.plan_buckets(self.line, edges, self.spending.second, self.noise, self.second)
        progress(1)
        values = buckets.measure(counts, sample)
        unevenness = None
        if self.spending.gauge is not None:
            # One record changes one bucket, and its spread by at most one.
            spread = IntervalCosts.of(counts).spread(edges[:-1], edges[1:]).sum(keepdims=True)
            unevenness = float((spread + sample(spread.shape, self.spending.gauge))[0])
        progress(1)
        return AwareMeasurements(values, buckets, unevenness)


def _bits_of(sample: Any) -> Source:
    """Where the bits of the partition come from: the sampler's own source, if it has one.

    Floating-point samplers, for simulation, have none; theirs is made of their seed.
    """
    source = getattr(sample, "source", None)
    if isinstance(source, Source):
        return source
    return SystemSource() if sample.seed is None else SeededSource(derived_seed(sample.seed, 1))
