"""Releases of example data, made many times over with known seeds, and how far they are off."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.comparing.error_figures import Errors, Gathered
from noiseplan.counting import Projectable, count_tables, open_source
from noiseplan.errors import PlanError, remedy
from noiseplan.matrices.base import Array
from noiseplan.noise.randomness import derived_seed
from noiseplan.progress import progress
from noiseplan.queries import Query, Workload
from noiseplan.release.release import Release

# Rows whose errors are held at a time, at 24 bytes each.
MOST_ROWS = 1 << 25


@dataclass(frozen=True, eq=False)
class Example:
    """Public data to try plans on, opened once, with the true answers to a workload."""

    data: object
    person: str | None
    workload: Workload
    source: Projectable
    truths: list[Array]

    @classmethod
    def of(cls, data: object, workload: Workload, person: str | None) -> Example:
        if workload.rows > MOST_ROWS:
            raise PlanError(
                f"errors are simulated row by row, for at most {MOST_ROWS:,} rows, and the "
                f"workload has {workload.rows:,}: name fewer "
                + remedy("argument", "queries, compare(…, workload=…)", "tables in the study")
            )
        sets = [attribute_set(query) for query in workload]
        source = count_tables(open_source(data, workload.schema), sets)
        return cls(data, person, workload, source, [true_answer(source, q) for q in workload])

    @property
    def records(self) -> int:
        """How many records the example has."""
        return int(np.asarray(self.source.marginals(np.zeros((1, 0), dtype=np.int64)))[0])

    @property
    def size(self) -> float:
        """Root mean square of the true answers."""
        total = sum(float(truth @ truth) for truth in self.truths)
        return float(np.sqrt(total / self.workload.rows))

    def counted_for(self, plan: Any) -> Projectable:
        """The data with the tables that a plan measures, all records of everybody."""
        sets = getattr(getattr(plan, "mechanism", None), "sets", None)
        opened = open_source(self.data, self.workload.schema)
        return opened if sets is None else count_tables(opened, sets)

    def chosen_for(self, plan: Any, seed: int) -> Projectable:
        """The data with no more records of a person than a plan is priced for."""
        cap, key = getattr(plan, "max_rows", 1), seed.to_bytes(8, "big")
        schema = self.workload.schema
        return open_source(self.data, schema, person=self.person, cap=cap, key=key)


def attribute_set(query: Query) -> IntArray:
    """The attributes of a query as counting asks for them."""
    places = [query.schema.index(name) for name in query.attributes]
    return np.array([places], dtype=np.int64).reshape(1, len(places))


def true_answer(source: Projectable, query: Query) -> Array:
    """The answer without noise, one number per row."""
    counts = np.asarray(source.marginals(attribute_set(query))[0], dtype=np.float64)
    return query.apply(counts)


@dataclass(frozen=True, eq=False)
class Simulated:
    """What the runs of one plan told, and how long one takes."""

    errors: Errors
    seconds: float


def simulated_errors(
    plan: Any,
    after: Callable[[Any], Any] | None,
    example: Example,
    runs: int,
    seed: int,
    number: int,
) -> Simulated:
    """Release the example `runs` times; the same seeds give the same figures."""
    whole = example.counted_for(plan) if example.person is None else None
    gathered = Gathered(example.truths, runs)
    started = time.process_time()
    with progress("simulating", runs) as advance:
        for run in range(runs):
            own = derived_seed(seed, number, run)
            # Which records of a person are counted is chosen anew in every run, as in a release.
            source = example.chosen_for(plan, derived_seed(own, 0)) if whole is None else whole
            release = plan.release(source, seed=own)
            answering = release if after is None else after(release)
            gathered.add([estimates(answering, query) for query in example.workload])
            advance(1)
    return Simulated(gathered.errors(), (time.process_time() - started) / runs)


def estimates(release: Any, query: Query) -> Array:
    """The estimates alone, without the errors that come with them."""
    if isinstance(release, Release):
        return release.plan.mechanism.answer(release.measurements, query)
    ask = getattr(release, "answer", None)
    if ask is None:
        raise PlanError(
            f"what follows a release has answer(query), as in (plan, lambda r: r.valid()); found "
            f"{type(release).__name__}, which has none"
        )
    answer = ask(query)
    found = np.asarray(getattr(answer, "estimate", answer), dtype=np.float64).ravel()
    if len(found) != query.rows:
        raise PlanError(
            f"answer({query.name!r}) of {type(release).__name__} has {len(found):,} numbers, and "
            f"the query {query.rows:,} rows"
        )
    return found
