"""A release: the noisy measurements, and every answer that follows from them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.counting import Projectable, count_tables, open_source
from noiseplan.errors import PlanError, QueryError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.mechanism import Measurements
from noiseplan.noise import (
    DiscreteLaplaceSampler,
    DiscreteSampler,
    LaplaceSampler,
    NormalSampler,
    SeededSource,
    Source,
    SystemSource,
)
from noiseplan.planning.plan import Plan
from noiseplan.privacy import Guarantee
from noiseplan.progress import progress
from noiseplan.queries import Query
from noiseplan.release.answer import Answer

if TYPE_CHECKING:
    from noiseplan.ledger import Ledger


# What draws the noise of a plan, by its name there.
AnySampler = DiscreteSampler | DiscreteLaplaceSampler | NormalSampler | LaplaceSampler
DISCRETE: dict[str, type[DiscreteSampler | DiscreteLaplaceSampler]] = {
    "discrete": DiscreteSampler,
    "discrete Laplace": DiscreteLaplaceSampler,
}
CONTINUOUS: dict[str, type[NormalSampler | LaplaceSampler]] = {
    "gaussian": NormalSampler,
    "laplace": LaplaceSampler,
}


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
    recorded: str = ""  # where a ledger has it

    def answer(self, query: Query, *, level: float = 0.95, simultaneous: bool = False) -> Answer:
        """The unbiased answer to any query in the span of what was measured, with its exact
        error."""
        if not isinstance(query, Query):
            raise QueryError(
                f"answer() takes a Query, found {query!r}; write "
                f"answer(Query(schema, ['age', 'sex'])), or table('age', 'sex') for a plain table"
            )
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

    def plot(self, *attributes: str, level: float = 0.95) -> Any:
        """A table of one or two attributes with its intervals, as an Altair chart for a notebook.

        The first attribute is laid out along the chart, the second told apart by colour.
        """
        from noiseplan.report.notebook import table_chart

        return table_chart(self, *attributes, level=level)

    def save(
        self, folder: str | os.PathLike[str], *, tables: Sequence[Query] | None = None
    ) -> None:
        """Write everything to a new folder; `noiseplan.load` reads it back, without the data.

        It holds the answers to `tables` (the workload's queries unless given) as CSV and Parquet,
        the noisy measurements, the plan, a certificate as JSON and as text, and hashes of all
        files. The folder appears whole or not at all, and an existing one is never overwritten.
        """
        from noiseplan.storage import save

        save(self, folder, tables)

    def __repr__(self) -> str:
        return f"Release({len(self.plan.workload):,} queries; {self.brand})"

    def __str__(self) -> str:
        plan = self.plan
        return "\n".join(
            [
                f"Release of {len(plan.workload):,} queries, {plan.workload.rows:,} rows",
                f"  privacy  {_promise(plan.privacy)}",
                f"  noise    {self.brand}",
                f"  holds    {plan.measured_numbers:,} noisy numbers; RMSE {plan.rmse:.4g}",
                "  ask      .table('age', 'sex'), .answer(query), .covariance(query, other)",
            ]
        )


def _promise(privacy: Guarantee) -> str:
    if not math.isfinite(privacy.pcost):
        return "not known here: the measurements were made elsewhere"
    return f"{privacy.describe().splitlines()[0]}, spent once"


def make_release(
    plan: Plan,
    data: object,
    seed: int | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    purpose: str = "",
    randomness: Source | None = None,
) -> Release:
    """Open the data, record the spend, count, add noise once.

    The data are opened and checked first: what cannot be read costs nothing. From the record on,
    the cost counts, whatever happens; it is on disk before the first noise is drawn.
    """
    sampler = _sampler(plan.noise, _checked_seed(seed), randomness)
    if ledger is not None and not sampler.private:
        raise PlanError(
            f"a ledger records releases to be published, and this one is {sampler.brand}: "
            f"leave out seed= to publish, or ledger= to test"
        )
    source = open_source(data, plan.workload.schema)
    _refuse_unpriced(plan, source)
    # Counted here: files and databases are checked as they are counted, in one pass.
    source = count_tables(source, plan.mechanism.sets)
    with ExitStack() as stack:
        recorded = ""
        if ledger is not None:
            recorded = stack.enter_context(_recorded(plan, ledger, dataset, purpose))
        advance = stack.enter_context(progress("counting and measuring", plan.mechanism.steps))
        measured = plan.mechanism.measure(source.marginals, sampler, advance)
    return Release(plan, measured, sampler.brand, source.origin, recorded)


def _refuse_unpriced(plan: Plan, source: Projectable) -> None:
    """Refuse data with more records of a person than the plan is priced for."""
    held, priced = getattr(source, "max_rows", 1), getattr(plan, "max_rows", 1)
    if held > priced:
        raise PlanError(
            f"the data hold up to {held} records of one person, and the plan is priced for "
            f"{priced}; open the data with cap={priced}, or plan for {held}"
        )


def _checked_seed(seed: int | None) -> int | None:
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise PlanError(f"a seed is an integer (for tests only), found {seed!r}")
    if seed < 0:
        raise PlanError(f"a seed is not negative, found {seed}")
    return int(seed)


def _sampler(
    noise: str, seed: int | None, randomness: Source | None
) -> AnySampler:
    if noise not in (*DISCRETE, *CONTINUOUS):
        raise PlanError(
            "this plan describes measurements that were made already: it has no noise to draw; "
            "release the plan they came from, or ask for more with another_plan.given(release)"
        )
    if randomness is not None and (seed is not None or noise not in DISCRETE):
        raise PlanError("randomness= is for discrete noise, without a seed")
    if noise in CONTINUOUS:
        return CONTINUOUS[noise](seed)
    source = (randomness or SystemSource()) if seed is None else SeededSource(seed)
    return DISCRETE[noise](source)


@contextmanager
def _recorded(
    plan: Plan, ledger: Ledger | str | os.PathLike[str], dataset: str | None, purpose: str
) -> Iterator[str]:
    """Charge a ledger around the block that makes the release; where it is recorded."""
    from noiseplan.ledger import Ledger
    from noiseplan.storage import plan_hash

    if dataset is None:
        raise PlanError("name the dataset that is charged: release(data, ledger=…, dataset='…')")
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    cost = plan.privacy.as_zcdp  # a ledger adds up zCDP, and pure DP is that too
    charge = book.charge(dataset, cost, purpose=purpose, plan_hash=plan_hash(plan))
    with charge as entry:
        yield f"entry {entry.id} of dataset {entry.dataset!r}, charged {entry.time}"
