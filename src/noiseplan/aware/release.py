"""A data-aware release: buckets, their noisy totals, and every answer that follows from them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.aware.plan import AwarePlan
from noiseplan.errors import PlanError, QueryError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.partition.estimates import Answering
from noiseplan.mechanisms.partition.mechanism import AwareMeasurements
from noiseplan.noise import Source
from noiseplan.queries import Query
from noiseplan.release.answer import Answer
from noiseplan.release.provenance import Provenance
from noiseplan.release.release import make_release
from noiseplan.schema import Schema
from noiseplan.words.aware_plan import what_is_asked
from noiseplan.words.privacy import cost_words

if TYPE_CHECKING:
    from noiseplan.ledger import Ledger

NOT_MADE_VALID = (
    "a data-aware release is not made valid, and no records are made up from it: its answers come "
    "from one line of cells, release.counts, and agree already; numpy.maximum(release.counts, 0) "
    "has no negative cells. Release tables by a plan that looks at no data for release.valid()"
)


@dataclass(frozen=True, eq=False, repr=False)
class AwareRelease:
    """Everything published: the buckets, the noisy numbers, and answers made of them alone.

    Answers agree with each other and cost no privacy. They are biased, and their errors are
    estimates: see `Answer`.
    """

    plan: AwarePlan
    measurements: AwareMeasurements
    provenance: Provenance
    origin: str = ""

    @property
    def brand(self) -> str:
        """What a reader must know about the noise."""
        return self.provenance.brand

    @property
    def recorded(self) -> str:
        """Where a ledger has the release; nothing if none has."""
        return self.provenance.recorded

    @property
    def schema(self) -> Schema:
        """The attributes that may be asked about."""
        return self.plan.schema

    @property
    def edges(self) -> IntArray:
        """Where the buckets begin and end along the line of cells."""
        return self.measurements.buckets.edges

    @property
    def buckets(self) -> int:
        """How many buckets there are."""
        return len(self.edges) - 1

    @cached_property
    def answering(self) -> Answering:
        """What answers queries."""
        line, measured = self.plan.mechanism.line, self.measurements
        totals = measured.buckets.estimate(measured.values)
        rate = self.plan.mechanism.spending.selector.rate
        return Answering(
            line.asked, tuple(self.schema[name].size for name in line.asked), line.order,
            measured.buckets, totals, 1 / (float(rate.value) * np.log(2)), measured.unevenness,
        )  # fmt: skip

    @property
    def counts(self) -> Array:
        """The estimated counts of all cells, shared evenly within buckets; some may be negative."""
        return self.answering.cells

    def answer(
        self, query: Query | str, *, level: float = 0.95, simultaneous: bool = False
    ) -> Answer:
        """The answer to a query over the measured attributes, with its estimated error."""
        query = self.plan.query(query)
        estimate = self.answering.estimate(query)
        noise, bias = self.answering.errors(query)
        laplace = self.plan.privacy.pure_epsilon is not None
        return Answer(
            query,
            estimate,
            np.sqrt(noise),
            level,
            simultaneous,
            self.origin,
            laplace,
            self.provenance.warning,
            bias_error=np.sqrt(bias),
            approximate=self.answering.approximate(query),
        )

    def table(
        self,
        *attributes: str,
        level: float = 0.95,
        simultaneous: bool = False,
        frame: str | None = None,
    ) -> Any:
        """The table of some attributes: the cells, estimate, estimated_error, lower, upper."""
        if len(attributes) == 1 and isinstance(attributes[0], list | tuple):
            raise QueryError(
                f"table() takes names one by one: table({', '.join(map(repr, attributes[0]))})"
            )
        query = Query(self.schema, list(attributes))
        answer = self.answer(query, level=level, simultaneous=simultaneous)
        return answer.frame(frame, order=attributes)

    def answers(self) -> Iterator[tuple[Query, Array]]:
        """Every query of the workload with its estimates."""
        for query in self.plan.workload:
            yield query, self.answering.estimate(query)

    def variance(self, query: Query | str) -> NoReturn:
        """Refused: it depends on the data."""
        self.plan.variance(query)

    def covariance(self, query: Query | str, other: Query | str) -> NoReturn:
        """Refused: it depends on the data."""
        self.plan.covariance(query, other)

    def valid(self, **options: object) -> NoReturn:
        """Refused: its tables come from one line of cells, and agree already."""
        raise PlanError(NOT_MADE_VALID)

    def microdata(self, **options: object) -> NoReturn:
        """Refused, as `valid` is."""
        raise PlanError(NOT_MADE_VALID)

    def save(
        self, folder: str | os.PathLike[str], *, tables: Sequence[Query | str] | None = None
    ) -> None:
        """Write everything to a new folder; `noiseplan.load` reads it back, without the data."""
        from noiseplan.aware.keeping import save

        chosen = self.plan.workload if tables is None else [self.plan.query(q) for q in tables]
        save(self, folder, list(chosen))

    def __repr__(self) -> str:
        return f"AwareRelease({self.buckets:,} buckets; {self.brand})"

    def __str__(self) -> str:
        line = self.plan.mechanism.line
        cells, first = len(line.order), line.asked[0]
        return "\n".join(
            [
                f"Data-aware release of {what_is_asked(self.plan)}",
                f"  privacy  {cost_words(self.plan.privacy)}, spent once",
                f"  noise    {self.brand}",
                f"  holds    {self.buckets:,} buckets of {cells:,} cells, "
                f"{self.measurements.buckets.numbers:,} noisy numbers",
                "  errors   estimated: answers are biased where buckets are uneven",
                f"  ask      .table({first!r}), .answer(query), .counts",
            ]
        )


def make_aware_release(
    plan: AwarePlan,
    data: object,
    seed: int | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    purpose: str = "",
    randomness: Source | None = None,
    person: str | None = None,
    details: bool = False,
) -> AwareRelease:
    """Ask the ledger, open the data, record the spend, draw the buckets, add noise once.

    It goes the way of every release: `make_release` asks a plan for its noise, its price, and its
    mechanism's sets and measurements, which this one has.
    """
    like_any: Any = plan
    made = make_release(
        like_any, data, seed, ledger, dataset, purpose, randomness, person, details=details
    )
    measured: Any = made.measurements
    return AwareRelease(plan, measured, made.provenance, made.origin)
