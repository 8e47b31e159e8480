"""A data-aware plan: what will be done to the data, at what privacy. Its error is not known yet."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, NoReturn

from noiseplan.errors import PlanError
from noiseplan.mechanisms.partition.mechanism import AwareMechanism
from noiseplan.mechanisms.partition.settings import Dawa
from noiseplan.privacy import Budget, Guarantee
from noiseplan.queries import Query, Workload
from noiseplan.schema import Schema
from noiseplan.words.aware_plan import describe

if TYPE_CHECKING:
    from noiseplan.aware.release import AwareRelease
    from noiseplan.ledger import Ledger
    from noiseplan.noise import Source

DEPENDS: Final = (
    'the error of planner="dawa" depends on the data, so it is not known. '
    "release.answer(query).estimated_error estimates it from a release; "
    "nz.compare([plan, …], example_data) simulates it before, on public data"
)
_UNKNOWN: Final = (
    "rmse", "total_variance", "worst_variance", "lower_bound", "efficiency", "optimal", "figures",
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class AwarePlan:
    """Buckets will be chosen from the data, privately, and measured for the workload.

    Answers will be biased, by less than the noise that the buckets save where the data are even;
    how much depends on the data.
    """

    workload: Workload
    mechanism: AwareMechanism
    budget: Budget
    privacy: Guarantee
    settings: Dawa
    noise: str
    max_rows: int = 1
    seconds: float = 0.0
    loaded: bool = False  # read from a folder, so that its cost is hearsay
    planner: str = "dawa"

    @property
    def schema(self) -> Schema:
        """The attributes that may be asked about."""
        return self.workload.schema

    def query(self, query: Query | str) -> Query:
        """A query as it is, or one of the workload by its name."""
        return self.workload.asked(query)

    # ------------------------------------------------------------------ what nobody knows yet

    def variance(self, query: Query | str) -> NoReturn:
        """Refused: it depends on the data."""
        raise PlanError(DEPENDS)

    def covariance(self, query: Query | str, other: Query | str) -> NoReturn:
        """Refused: it depends on the data."""
        raise PlanError(DEPENDS)

    def std_error(self, query: Query | str) -> NoReturn:
        """Refused: it depends on the data."""
        raise PlanError(DEPENDS)

    def __getattr__(self, name: str) -> Any:
        if name in _UNKNOWN:
            raise AttributeError(f"no {name} here: {DEPENDS}")
        raise AttributeError(f"AwarePlan has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"AwarePlan({len(self.workload):,} queries, {self.mechanism.spending.privacy!r})"

    def __str__(self) -> str:
        return describe(self)

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
    ) -> AwareRelease:
        """Count, draw the buckets, add noise once, and return the release.

        The parameters are those of `Plan.release`; a ledger is charged before anything is drawn.
        """
        from noiseplan.aware.release import make_aware_release

        return make_aware_release(
            self, data, seed, ledger, dataset, purpose, randomness, person, details
        )

    def hash(self) -> str:
        """SHA-256 of everything that defines the plan, as a ledger's entry has it."""
        from noiseplan.aware.keeping import plan_hash

        return plan_hash(self)
