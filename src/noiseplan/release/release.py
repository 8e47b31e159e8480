"""A release: the noisy measurements, and every answer that follows from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.counting import open_source
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.mechanism import Measurements
from noiseplan.noise import DiscreteSampler, NormalSampler
from noiseplan.planning.plan import Plan
from noiseplan.progress import progress
from noiseplan.queries import Query
from noiseplan.release.answer import Answer


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """Everything published: noisy measurements, and answers computed from them alone.

    All answers are linear in the same measurements, so they agree with each other: tables add up,
    and a query asked twice gets the same answer. Answering costs no privacy.
    """

    plan: Plan
    measurements: Measurements
    brand: str
    origin: str = ""

    def answer(self, query: Query, *, level: float = 0.95, simultaneous: bool = False) -> Answer:
        """The unbiased answer to any query in the span of what was measured, with its exact
        error."""
        estimate = self.plan.mechanism.answer(self.measurements, query)
        return Answer(query, estimate, self.plan.std_error(query), level, simultaneous, self.origin)

    def table(
        self,
        *attributes: str,
        level: float = 0.95,
        simultaneous: bool = False,
        frame: str | None = None,
    ) -> Any:
        """The table of some attributes as a tidy frame: the cells, estimate, std_error, lower,
        upper.

        `frame` chooses "pandas", "polars" or "pyarrow"; by default the library the data came in.
        """
        query = Query(self.plan.workload.schema, list(attributes))
        return self.answer(query, level=level, simultaneous=simultaneous).frame(frame)

    def variance(self, query: Query) -> Array:
        """The exact variance of every row."""
        return self.plan.variance(query)

    def covariance(self, query: Query, other: Query) -> Array:
        """The exact covariance of every row of one query with every row of another."""
        return self.plan.covariance(query, other)

    def answers(self) -> Iterator[tuple[Query, Array]]:
        """Every query of the workload with its estimates, computed in batches, one at a time in
        memory."""
        for positions, estimates in self.batches():
            for i, position in enumerate(positions):
                yield self.plan.workload.query(int(position)), estimates[..., i].ravel()

    def batches(self) -> Iterator[tuple[IntArray, Array]]:
        """The workload's answers in batches of equal shape: positions and estimates, batch last."""
        return self.plan.mechanism.batches(self.measurements, self.plan.workload)

    def __repr__(self) -> str:
        return f"Release({len(self.plan.workload):,} queries; {self.brand})"

    def __str__(self) -> str:
        plan = self.plan
        return "\n".join(
            [
                f"Release of {len(plan.workload):,} queries, {plan.workload.rows:,} rows",
                f"  privacy  {plan.privacy.describe().splitlines()[0]}, spent once",
                f"  noise    {self.brand}",
                f"  holds    {plan.measured_numbers:,} noisy numbers; RMSE {plan.rmse:.4g}",
                "  ask      .table('age', 'sex'), .answer(query), .covariance(query, other)",
            ]
        )


def make_release(plan: Plan, data: object, seed: int | None) -> Release:
    """Open the data, count, add noise once."""
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer))):
        raise PlanError(f"a seed is an integer (for tests only), found {seed!r}")
    if seed is not None and seed < 0:
        raise PlanError(f"a seed is not negative, found {seed}")
    source = open_source(data, plan.workload.schema)
    sampler = _sampler(plan.noise, None if seed is None else int(seed))
    with progress("counting and measuring", plan.mechanism.steps) as advance:
        measured = plan.mechanism.measure(source.marginals, sampler, advance)
    return Release(plan, measured, sampler.brand, source.origin)


def _sampler(noise: str, seed: int | None) -> DiscreteSampler | NormalSampler:
    return DiscreteSampler.make(seed) if noise == "discrete" else NormalSampler(seed)
