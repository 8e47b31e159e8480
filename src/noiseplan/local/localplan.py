"""A plan: what users will report, and every error that answers will have. No data was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from noiseplan.arrays import Arrays, Json
from noiseplan.errors import PlanError, StorageError
from noiseplan.local.device.counting_randomizers import SplitRandomizer
from noiseplan.local.device.randomizer import Randomizer
from noiseplan.local.plan_in_words import described, short_number
from noiseplan.local.server.aggregator import Aggregator
from noiseplan.local.server.reconstruction import Part, Reconstruction
from noiseplan.local.server.saved_reconstruction import (
    Answering,
    check_shares,
    read_whole,
    stated_epsilon,
    write_whole,
)
from noiseplan.local.strategies.strategy import Strategy, TableStrategy
from noiseplan.local.user_types import Types, all_cells, weighted_rows
from noiseplan.matrices.base import Array
from noiseplan.noise.randomness import SeededSource, SystemSource
from noiseplan.privacy.rounding import text_up
from noiseplan.queries import Query, Workload

FORMATS = ("noiseplan local plan 1",)
# Users drawn one by one at a time; for tables, beyond this many, by multinomials.
DRAWN_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class LocalPlan:
    """What users report, at what ε, and how accurate the answers will be.

    Variances are exact. They add up over users, so they are given per user: with N users of the
    least favourable type all rows of the workload together have variance `worst_variance` · N, and
    shares (answers divided by N) have `worst_variance`/N.

    Users report on one table or, where the domain is too large for one matrix, each device draws
    one of several with public chances, and reports on that one only: ε is that of one report. Who
    the users are is then said by `records`, a column of values for each attribute, or by `counts`
    of the cells of all attributes where these are few.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"seconds": 4})
    >>> plan = nz.local.plan(nz.Query(schema, ["seconds"]), epsilon=1.0)
    >>> plan.epsilon, plan.worst_variance >= plan.lower_bound
    (1.0, True)
    """

    workload: Workload
    reconstruction: Reconstruction
    """From reports to answers."""
    epsilon: float
    worst: bool
    """Whether the variance for the least favourable type was minimised, or the mean."""
    priors: tuple[Array, ...]
    """For each table the share of each type that the mean is taken over."""
    lower_bound: float
    """No unbiased mechanism that counts ε-private reports has a lower `value`; where users are
    split none has a lower mean over all cells, split or not."""
    seconds: float = 0.0
    loaded: Randomizer | None = None
    """The integers devices draw from, where the plan was read from a file."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The tables, with the share of users that reports on each."""
        return self.reconstruction.parts

    @property
    def split(self) -> bool:
        """Whether devices draw the table that they report on."""
        return self.reconstruction.split

    @property
    def types(self) -> Types:
        """The kinds of users that the workload tells apart."""
        self._refuse_split()
        return self.parts[0].types

    @property
    def strategy(self) -> Strategy:
        """The chances of reports."""
        self._refuse_split()
        return self.parts[0].strategy

    def _refuse_split(self) -> None:
        if self.split:
            raise PlanError("users are split over tables: see plan.parts for types and strategies")

    # ------------------------------------------------------------------ errors over the workload

    @property
    def rows(self) -> float:
        """Rows of the workload, each counted with its weight."""
        return weighted_rows(self.workload)

    @cached_property
    def _added(self) -> list[Array]:
        return self.reconstruction.added(self.workload)

    @property
    def variances(self) -> Array:
        """What one user of each of `types` adds to the variance of all rows together."""
        self._refuse_split()
        return self._added[0]

    @property
    def worst_variance(self) -> float:
        """What one user adds at most, of whatever type, to the variance of all rows together."""
        return sum(float(added.max()) for added in self._added)

    @property
    def average_variance(self) -> float:
        """The mean of what one user adds, under the prior or over all cells."""
        return sum(float(p @ added) for p, added in zip(self.priors, self._added, strict=True))

    @property
    def value(self) -> float:
        """What was minimised: the worst or the average variance per user."""
        return self.worst_variance if self.worst else self.average_variance

    @property
    def gap(self) -> float:
        """`value / lower_bound − 1`: 0 means proved optimal."""
        if self.lower_bound <= 0:
            return 0.0 if self.value <= 0 and not self.split else inf
        return max(self.value / self.lower_bound - 1, 0.0)

    def samples(self, variance: float = 0.01, *, case: str = "worst") -> float:
        """How many users make the mean variance of the rows, as shares, this small.

        A real number; `users_needed` rounds it up. `case` is "worst", "average" or "bound".
        """
        per_user = {
            "worst": self.worst_variance,
            "average": self.average_variance,
            "bound": self.lower_bound,
        }
        if case not in per_user:
            raise PlanError(f"case is one of {list(per_user)}, found {case!r}")
        if not (isinstance(variance, (Real, np.number)) and 0 < variance < inf):
            raise PlanError(f"a target variance is positive and finite, found {variance!r}")
        return per_user[case] / (self.rows * variance)

    def users_needed(self, variance: float = 0.01) -> int:
        """Users needed, of whatever types, for this mean variance of the rows as shares."""
        return ceil(self.samples(variance) * (1 - 1e-12))

    # ------------------------------------------------------------------ errors of single queries

    def variance(
        self,
        query: Query | str,
        counts: Any = None,
        *,
        records: Any = None,
        users: float | None = None,
    ) -> Array:
        """The variance of each row: exact for given users, or the largest for so many.

        Users are given by `counts` of cells, or by `records` where they are split over tables.
        """
        given = counts if records is None else records
        people = None if given is None else self._counted(given)
        most = None if users is None else _checked_users(users)
        return self.reconstruction.variance(self.workload.asked(query), people, most)

    def covariance(
        self, query: Query | str, other: Query | str, counts: Any = None, *, records: Any = None
    ) -> Array:
        """The exact covariance of all rows of two queries for given users; see `variance`."""
        people = self._counted(counts if records is None else records)
        both = self.workload.asked(query), self.workload.asked(other)
        return self.reconstruction.covariance(*both, people)

    def _counted(self, people: Any) -> list[Array]:
        """For each table how many of these users there are of each type."""
        made = self.randomizer()
        if not isinstance(made, SplitRandomizer):
            return [self.types.users(people)]
        if not isinstance(people, Mapping):
            return self._margins(people)
        codes = made.codes_of(people)
        types = [(table.types_from(codes), table.types) for table in made.tables]
        return [np.bincount(kind, minlength=n).astype(np.float64) for kind, n in types]

    def _margins(self, counts: Any) -> list[Array]:
        """For each table how many there are of each type, from counts of all cells."""
        schema = self.workload.schema
        cube = all_cells(schema, counts)
        axes = [
            [i for i, n in enumerate(schema.names) if n not in part.names] for part in self.parts
        ]
        margins = (cube.sum(axis=tuple(others)) for others in axes)
        return [part.types.users(m) for part, m in zip(self.parts, margins, strict=True)]

    # ------------------------------------------------------------------ using it

    def randomizer(self) -> Randomizer:
        """What runs on users' devices."""
        return self._randomizer

    @cached_property
    def _randomizer(self) -> Randomizer:
        return self.loaded or self.reconstruction.randomizer(self.workload.schema)

    @property
    def epsilon_met(self) -> float:
        """ε of the integer tables devices draw from, exactly recomputed and rounded up."""
        return self.randomizer().epsilon

    def aggregator(self) -> Aggregator:
        """An empty collection of reports."""
        made = self.randomizer()
        nothing = made.tally(made.no_reports)
        return Aggregator(made, self.reconstruction, nothing, workload=self.workload)

    def save(self, path: str | Path) -> Path:
        """Write the plan, for `load_plan`: share the file, and do not plan twice.

        Another machine, or another number of threads, may find another plan that is as good, and
        reports of one plan are foreign to the other.
        """
        known = Answering(self.randomizer(), self.reconstruction, self.workload)
        facts, arrays = known.parts()
        facts |= {
            "format": FORMATS[0],
            "epsilon": self.epsilon,
            "worst": self.worst,
            "lower_bound": self.lower_bound,
            "seconds": self.seconds,
        }
        if not self.split:  # over the tables of a split the mean is that over all cells
            arrays["mean_0"] = self.priors[0]
        return write_whole(path, facts, arrays)

    def simulate(
        self, counts: Any = None, *, records: Any = None, seed: int | None = None
    ) -> Aggregator:
        """The reports of made-up users, collected, for planning studies; see `variance`."""
        return _simulated(self.aggregator(), counts if records is None else records, seed)

    def __repr__(self) -> str:
        if self.split:
            what, outputs = f"{len(self.parts)} tables", ""
        else:
            what = self.strategy.__class__.__name__
            outputs = f"{short_number(self.strategy.outputs)} outputs, "
        return (
            f"LocalPlan({what}, ε = {text_up(self.epsilon)}, {outputs}"
            f"{self.samples():.4g} users for variance 0.01)"
        )

    def __str__(self) -> str:
        return described(self)


def load_plan(path: str | Path) -> LocalPlan:
    """Read a plan written by `LocalPlan.save`: the same reports, the same figures.

    Examples
    --------
    >>> import tempfile
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"seconds": 4})
    >>> plan = nz.local.plan(nz.Query(schema, ["seconds"]), epsilon=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = load_plan(plan.save(f"{folder}/start-up.plan"))
    >>> again.worst_variance == plan.worst_variance
    True
    """
    return read_whole(path, "local plan", FORMATS, _rebuilt)


def _rebuilt(facts: Json, arrays: Arrays) -> LocalPlan:
    known = Answering.of(facts, arrays)
    if known.workload is None:
        raise StorageError("the file of a plan has a workload, and this one has none")
    parts = known.reconstruction.parts
    priors = tuple(part.types.uniform for part in parts)
    if not known.reconstruction.split:
        priors = (arrays["mean_0"],)
        check_shares("mean", priors[0], parts[0].types.count)
    return LocalPlan(
        known.workload,
        known.reconstruction,
        stated_epsilon(facts, known.randomizer),
        bool(facts["worst"]),
        priors,
        float(facts["lower_bound"]),
        float(facts["seconds"]),
        known.randomizer,
    )


def _checked_users(users: object) -> float:
    """A number of users to state a variance for."""
    number = isinstance(users, (Real, np.number)) and not isinstance(users, bool)
    if not number or not 0 <= float(users) < inf:  # type: ignore[arg-type]
        raise PlanError(f"users is a number of users, at least 0 and finite; found {users!r}")
    return float(users)  # type: ignore[arg-type]


def _simulated(made: Aggregator, people: Any, seed: int | None) -> Aggregator:
    """An empty aggregator filled with reports of users; with a seed the same ones every time.

    Users are given by how many there are in each cell or, where they are split over tables, by a
    column of values for each attribute.
    """
    made.brand = "simulated" if seed is None else f"simulated from seed {seed}"
    source = SystemSource() if seed is None else SeededSource(seed)
    split, part = made.reconstruction.split, made.reconstruction.parts[0]
    if split and isinstance(people, Mapping):
        made.add_many(made.randomizer.reports(people, source=source))
        return made
    strategy = part.strategy
    # How many users there are of each type, or in each cell of a split.
    x = all_cells(made.schema, people).ravel() if split else part.types.users(people)
    whole = np.round(x).astype(np.int64)
    if not np.allclose(x, whole, atol=1e-9):
        raise PlanError("counts are whole numbers of users, finite and at least 0 each")
    if isinstance(strategy, TableStrategy) and not split and whole.sum() > DRAWN_AT_ONCE:
        rng = np.random.default_rng(seed)
        chances = strategy.chances / strategy.chances.sum(axis=0)
        for users, column in zip(whole, chances.T, strict=True):
            if users:
                made.tally += rng.multinomial(users, column)
        made.users = int(whole.sum())
        return made
    ends = np.cumsum(whole)
    for start in range(0, int(whole.sum()), DRAWN_AT_ONCE):
        users = np.arange(start, min(start + DRAWN_AT_ONCE, int(whole.sum())))
        drawn = np.searchsorted(ends, users, side="right").astype(np.int64)
        made.add_many(made.randomizer.draw(drawn, source))
    return made
