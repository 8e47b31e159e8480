"""A plan: what will be measured, and every error it will have. No data was read to make it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from noiseplan._doors import through
from noiseplan.errors import NoiseplanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism, told
from noiseplan.noise.law import LEAST_VARIANCE
from noiseplan.noise.moments import half_width_factor
from noiseplan.planning.candidate import Considered
from noiseplan.planning.certificates import Optimality
from noiseplan.planning.certify import (
    Certificate,
    certify,
    known_certificate,
    search_takes_long,
)
from noiseplan.planning.limits import double_precision
from noiseplan.planning.objectives import Objective, TotalVariance
from noiseplan.planning.pure_bounds import SharedTables, lower_bounds
from noiseplan.planning.workload_errors import Figures
from noiseplan.planning.workload_types import Design
from noiseplan.privacy import Budget, Guarantee
from noiseplan.privacy.people import PERSON, checked_unit
from noiseplan.privacy.rounding import text_up
from noiseplan.queries import Query, Workload
from noiseplan.schema import Schema
from noiseplan.texts import counted

if TYPE_CHECKING:
    from noiseplan.choosing.continuation import Continuation
    from noiseplan.ledger import Ledger
    from noiseplan.noise import Source
    from noiseplan.planning.profile import Profile
    from noiseplan.release.rehearsal import Checked
    from noiseplan.release.release import Release


class TableKind(TypedDict):
    """Tables of equal errors: the first of them, how many, and what is known of each."""

    table: str
    tables: int
    rows: int
    weight: float
    std_error: float
    worst_std_error: float | None  # None where it is not known: of all ranges of very many values


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """What will be measured, at what privacy, with what error.

    Variances are exact, not estimates. Every number is about noise only: the data's own errors
    (coverage, sampling, response) come on top.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> workload = nz.Workload.marginals(schema, up_to=2)
    >>> plan = nz.plan(workload, budget=nz.zCDP(0.5))
    >>> plan.privacy.rho <= 0.5, plan.optimal
    (True, True)
    >>> age = workload["age"]
    >>> plan.variance(age).shape, plan.covariance(age, workload["sex"]).shape
    ((5,), (5, 2))
    """

    workload: Workload
    mechanism: Mechanism
    privacy: Guarantee
    objective: Objective
    planner: str
    noise: str
    rounding_loss: float
    targets: Array | None
    figures: Figures
    optimality: Optimality
    seconds: float
    max_rows: int = 1  # records of one person that `privacy` is the price of
    budget: Budget | None = None  # what was asked for, in its own currency; not saved
    loaded: bool = False  # read from a folder, so that its noise and cost are hearsay
    considered: Considered = ()  # planners and why each was taken or not; not saved
    unit: str = PERSON  # whose records they are, in words: a person, a household
    owned: bool = False  # and a column of the data says whose each is, or will

    # ------------------------------------------------------------------ errors over the workload

    @property
    def design(self) -> Design:
        """The workload prepared for planning: its types of queries."""
        return self.figures.design

    @property
    def type_variances(self) -> Array:
        """Sum of the row variances of one query of each type."""
        return self.figures.type_variances

    @property
    def type_worst(self) -> Array:
        """Largest row variance of a query of each type."""
        return self.figures.type_worst

    @property
    def total_variance(self) -> float:
        """Σ weight · variance over all rows of all queries."""
        return self.figures.total_variance

    @property
    def rmse(self) -> float:
        """Root of the mean variance over all rows of all queries (weights play no part)."""
        often = self.figures.design.roles.type_count
        return float(np.sqrt(often @ self.figures.type_variances / self.workload.rows))

    @property
    def worst_variance(self) -> float:
        """max weight · variance over all rows of all queries."""
        return self.figures.worst_variance

    @property
    @double_precision()
    def lower_bound(self) -> float:
        """No linear mechanism with continuous Gaussian noise at this privacy has a lower
        `total_variance`.

        Discrete noise of less than one count can fall below it; then its own variance stands here.
        """
        known = self.certificate
        total = isinstance(self.objective, TotalVariance) and self.targets is None
        if total and lower_bounds(self.privacy.law).of_rows and search_takes_long(self):
            return self.certify().bound
        best = self.optimality.lower_bound
        if known is not None and total:
            best = max(best, known.bound)
        return min(best, self.total_variance)

    @property
    def tables_bound(self) -> float | None:
        """Of a plan of tables with Laplace noise: however ε is shared among tables of attributes
        that are measured so, `total_variance` is no lower. None for other plans.
        """
        tables = getattr(self.optimality, "tables", None)
        return tables.bound if isinstance(tables, SharedTables) else None

    @property
    def efficiency(self) -> float:
        """`lower_bound / total_variance`: 1 means proved optimal for the total."""
        return self.lower_bound / self.total_variance if self.total_variance > 0 else 1.0

    @property
    def optimal(self) -> bool:
        """Whether the plan is proved to be the best of all for its objective (up to rounding).

        True for plain marginals under any objective; for other queries where the bound is met.
        """
        proved = self.optimality.proved
        if proved is not None:
            return proved
        return isinstance(self.objective, TotalVariance) and self.efficiency > 1 - 1e-5

    @property
    def gap(self) -> float | None:
        """How far the objective may be above that of the best linear Gaussian mechanism, relative.

        Certified by plans of one matrix over all cells (`planner="optimal"`) and along long
        attributes; None elsewhere. It is (value − bound)/value; all that is printed is
        value/bound − 1, as `certify` has it. It stays what the plan was made with, as it is saved:
        what `certify` finds is in `certificate`, and in `lower_bound` of plans for the total.
        """
        return self.optimality.gap

    @property
    def certificate(self) -> Certificate | None:
        """What has been proved of the plan's own objective so far; None if nothing."""
        return known_certificate(self)

    @double_precision()
    def certify(self) -> Certificate:
        """How far the plan may be from the best, with the best bound known for its objective.

        Takes up to a minute or so; what is found is kept as `certificate`.
        """
        if "certified" not in self.__dict__:
            self.__dict__["certified"] = certify(self)
        kept: Certificate = self.__dict__["certified"]
        return kept

    @property
    def target_scale(self) -> float | None:
        """How far the targets are met: 1 exactly, above 1 all of them relaxed by this factor."""
        return None if self.targets is None else self.figures.target_scale(self.targets)

    # ------------------------------------------------------------------ errors of single queries

    @property
    def schema(self) -> Schema:
        """The attributes that may be asked about."""
        return self.workload.schema

    def query(self, query: Query | str) -> Query:
        """A query as it is, or one of the workload by its name."""
        return self.workload.asked(query)

    def variance(self, query: Query | str) -> Array:
        """The exact variance of every row of a query the plan can answer."""
        return told(self.query(query), self.mechanism.variance)

    def covariance(self, query: Query | str, other: Query | str) -> Array:
        """The exact covariance of every row of one query with every row of another."""
        one, two, of = self.query(query), self.query(other), self.mechanism.covariance
        return told(one, lambda q: told(two, lambda r: of(q, r)))

    def std_error(self, query: Query | str) -> Array:
        """The exact standard error of every row of a query."""
        return np.sqrt(self.variance(query))

    def half_width(
        self, query: Query | str, level: float = 0.95, simultaneous: bool = False
    ) -> Array:
        """Half the width of the interval around every row: pointwise, or for all rows at once."""
        rows = self.query(query).rows if simultaneous else 1
        return half_width_factor(level, rows, self.privacy.laplace) * self.std_error(query)

    def cost_matrix(self) -> Array:
        """BᵀΣ⁻¹B of what is measured, for small domains; its largest diagonal entry is the cost."""
        return self.mechanism.cost_matrix()

    def profile(self) -> Profile:
        """What a record in each cell pays, up to ten million: costs, ρ, ε, and what is left."""
        found: Profile = through("plan.profile")(self)
        return found

    def free_queries(self, queries: Query | Workload) -> Plan:
        """The plan with these queries too, at the same cost, where cells pay less than promised.

        Further measurements are chosen for them (least total variance) that fit below the cost.
        Answers to all queries use everything that is measured.
        """
        richer: Plan = through("plan.free_queries")(self, queries)
        return richer

    # ------------------------------------------------------------------ looking at it

    def fairness(self) -> list[TableKind]:
        """One row per kind of table: how many, their size, standard errors; the neglected first."""
        kinds: list[TableKind] = through("plan.fairness")(self)
        return kinds

    def with_unit(self, unit: str) -> Plan:
        """The same plan for other units than persons, in words: `with_unit("household")`.

        Release it with `person=` naming the column of these. All that is promised to a person is
        promised to each of them instead.
        """
        unit = checked_unit(unit)
        return replace(self, unit=unit, owned=True, privacy=replace(self.privacy, whose=unit))

    @property
    def of_records(self) -> bool:
        """Whether each record is taken to be a person's only one: nobody says whose it is."""
        return self.max_rows == 1 and self.unit == PERSON and not self.owned

    def tables(self) -> list[TableKind]:
        """The same for every table by itself, in the order of the workload."""
        rows: list[TableKind] = through("plan.tables")(self)
        return rows

    @property
    def measured_numbers(self) -> int:
        """Noisy numbers that a release will hold."""
        return self.mechanism.numbers

    @property
    def memory(self) -> int:
        """Bytes that a release will hold: eight for each measured number."""
        return 8 * self.measured_numbers

    @property
    def data_aware(self) -> bool:
        """Whether the data choose what is measured: then errors are known from a release only."""
        return self.mechanism.data_aware

    def hash(self) -> str:
        """SHA-256 of everything that defines the plan, as a ledger's entry has it."""
        return str(through("plan.hash")(self))

    def __repr__(self) -> str:
        queries, rho = counted(len(self.workload), "query", "queries"), self.privacy.rho
        return f"Plan({queries}, {self.figures.brief(self)}, ρ = {text_up(rho)})"

    def __str__(self) -> str:
        return str(through("plan.describe")(self))

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Draw the expected error of every kind of table, as a picture for a notebook.

        With a `path` it is drawn to that file (.svg or .html), whose path is returned.
        """
        return through("plan.plot")(self, path)

    # ------------------------------------------------------------------ releasing

    def release(
        self,
        data: object,
        *,
        ledger: Ledger | str | PathLike[str] | None = None,
        dataset: str | None = None,
        purpose: str = "",
        person: str | None = None,
        seed: int | None = None,
        randomness: Source | None = None,
        details: bool = False,
    ) -> Release:
        """Count, add noise once, and return the release.

        A plan that was loaded with a release is there to answer queries; to release again, plan
        again: what a folder says of its noise and cost is not taken on trust.

        Parameters
        ----------
        data
            A path, a data frame, a relation, arrays or counts.
        ledger, dataset, purpose
            A ledger (or its path) and the dataset in it that is charged, before any noise is drawn;
            raises `BudgetExceeded`, and reads no record, if the budget does not admit the cost.
        person
            The column that says whose record it is. Of a person with more records than the plan
            allows (`max_rows`), so many are kept, chosen at random.
        seed
            The same noise every time, for tests only; the release says so.
        randomness
            Where the bits of discrete noise come from: the operating system unless given.
        details
            Let a refusal of the data show private details, for a custodian who may see records:
            how many do not fit, and some of their values. A ledger keeps that they were shown.
        """
        released: Release = through("plan.release")(
            self, data, seed, ledger, dataset, purpose, randomness, person, details=details
        )
        return released

    def _repr_html_(self) -> str:
        return str(through("plan.html")(self))

    def check(
        self,
        data: object,
        *,
        ledger: Ledger | str | PathLike[str] | None = None,
        dataset: str | None = None,
        purpose: str = "",
        person: str | None = None,
        details: bool = False,
    ) -> Checked:
        """Look for all that would stop `release`, and spend nothing; print what is returned.

        Parameters
        ----------
        data, ledger, dataset, purpose, person
            As `release` takes them. The ledger is asked first: where it refuses, no record is read.
            Where it does not, that the data were read is entered there.
        details
            Show private details: how many records there are and do not fit, and some values.

        Privacy
        -------
        No noise covers what is told: whether every value is declared, in which columns not, whether
        every record belongs to somebody, and whether there are records. It is for custodians.
        """
        how = {"ledger": ledger, "dataset": dataset, "purpose": purpose, "person": person}
        checked: Checked = through("plan.check")(self, data, how | {"details": details})
        return checked

    def given(self, release: Release) -> Continuation:
        """What this plan still costs after an earlier release of the same data.

        `plan.given(release).privacy` is the cost; `.release(data)` measures only what is missing
        and puts both together.
        """
        continued: Continuation = through("plan.given")(self, release)
        return continued


def total_is_exact(plan: Plan) -> bool | None:
    """Whether a plan tells the total as it is, and not with noise; None where it tells none."""
    if plan.mechanism.priced.public_total:
        return plan.privacy.neighbours == "replace"
    try:
        # Of noise that is never seen to be other than zero, no less is told.
        return bool((plan.variance(Query(plan.schema, [])) <= LEAST_VARIANCE).all())
    except NoiseplanError:
        return None
