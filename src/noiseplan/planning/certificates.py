"""What is known of how good a plan is: a lower bound, and whether it is proved to be reached."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from noiseplan.matrices.base import Array
from noiseplan.optimize.allocation import Share
from noiseplan.optimize.optimum import dense_optimum
from noiseplan.planning.bounds import total_variance_bound
from noiseplan.planning.free_split import optimise_total
from noiseplan.planning.limits import EXPLICIT_CELLS
from noiseplan.planning.pure_bounds import SharedTables, lower_bounds
from noiseplan.planning.threads import one_thread
from noiseplan.planning.workload_types import Design, cost_is_exact, prepare
from noiseplan.privacy import Guarantee
from noiseplan.queries import Workload

# A plan whose certified gap is at most this is proved to be the best, up to rounding.
PROVED = 2e-5
# The gap of a bound on the total variance that is worked out beside another objective.
TOTAL_GAP = 1e-4


class Optimality(Protocol):
    """A bound on the total variance, and a proof for the objective where there is one."""

    @property
    def lower_bound(self) -> float:
        """No linear mechanism with Gaussian noise at this privacy has a lower total variance."""

    @property
    def known(self) -> float | None:
        """The bound, if it has been worked out."""

    @property
    def proved(self) -> bool | None:
        """Whether the plan is the best for its objective; None where only the total's bound can
        tell."""

    @property
    def gap(self) -> float | None:
        """How far the objective may be above the best, relative, where that is certified."""


@dataclass(frozen=True)
class Stated:
    """Numbers that were worked out elsewhere: by an explicit planner, or before saving."""

    lower_bound: float
    proved: bool | None = None
    gap: float | None = None

    @property
    def known(self) -> float:
        return self.lower_bound


@dataclass(frozen=True, eq=False)
class Unstated:
    """Of a plan that comes without a bound: worked out for its workload if it is asked for."""

    workload: Workload
    privacy: Guarantee
    proved: bool | None = None
    gap: float | None = None
    exact: bool = False  # whether noise is of integers
    tables: SharedTables | None = None  # of a plan that measures tables with Laplace noise

    @cached_property
    def lower_bound(self) -> float:
        return _bound_for(self.workload, self.privacy, self.exact)

    @property
    def known(self) -> float | None:
        return self.__dict__.get("lower_bound")


@dataclass(frozen=True, eq=False)
class Certified:
    """Of a plan by one matrix: the certified gap of its objective, and a bound for the total.

    `total` is the bound at cost one where the plan was made for the total variance; else it is
    worked out when asked for.
    """

    workload: Workload
    privacy: Guarantee
    gap: float | None
    total: float | None = None

    @cached_property
    def lower_bound(self) -> float:
        total = self.total
        large = self.workload.schema.size > EXPLICIT_CELLS
        if total is None and (large or self.privacy.neighbours == "replace"):
            return _bound_for(self.workload, self.privacy)
        if total is None:
            design = prepare(self.workload)
            with one_thread(design):
                total = dense_optimum(design.gram(), TOTAL_GAP).bound
        return total / self.privacy.pcost * (1 - 1e-9)

    @property
    def known(self) -> float | None:
        return self.lower_bound if self.total is not None else self.__dict__.get("lower_bound")

    @property
    def proved(self) -> bool | None:
        return True if self.gap is not None and self.gap <= PROVED else None


@dataclass(frozen=True, eq=False)
class Residual:
    """Of a residual plan, computed when it is asked for.

    Plain marginals are planned optimally under any objective, and their allocation has a bound of
    its own; for other queries the bound on the total variance must do.
    """

    design: Design
    share: Share
    total_rows: dict[int, Array]
    privacy: Guarantee
    planner: str
    targeted: bool
    gap: float | None = None

    @cached_property
    def lower_bound(self) -> float:
        if self.targeted:  # planned with other weights than the total's
            return _bound_for(self.design.workload, self.privacy)
        pcost, neighbours = self.privacy.pcost, self.privacy.neighbours
        with one_thread(self.design):
            return total_variance_bound(self.design, self.total_rows, pcost, neighbours)

    @property
    def known(self) -> float | None:
        return self.__dict__.get("lower_bound")

    @property
    def proved(self) -> bool | None:
        if not cost_is_exact(self.design, self.privacy.neighbours):
            return False
        if not self.design.free and self.planner in ("auto", "residual", "residual+"):
            return self.share.value <= self.share.bound * (1 + 1e-6)
        return None


@dataclass(frozen=True, eq=False)
class Kept:
    """What is known of a workload by a plan that another one is better than.

    A bound is about the workload and the privacy, whatever is measured: variances go as one over
    the cost, so `other`, of a plan at `times` this plan's cost that reached `value` times as much,
    tells of this one too.
    """

    other: Optimality
    times: float
    value: float
    proved: bool | None = None

    @cached_property
    def lower_bound(self) -> float:
        return self.other.lower_bound * self.times * (1 - 1e-9)

    @property
    def known(self) -> float | None:
        return None if self.other.known is None else self.lower_bound

    @cached_property
    def gap(self) -> float | None:
        gap = self.other.gap
        return None if gap is None else max(1.0 - (1.0 - gap) * self.value * (1 - 1e-9), 0.0)


@dataclass(frozen=True, eq=False)
class Sharper:
    """What is known of a plan, and what a search for a better one found out: so far the objective
    may be above the best, and the `total` variance, where that is the objective, is no less."""

    other: Optimality
    searched: float | None
    total: float | None = None

    @property
    def proved(self) -> bool | None:
        return self.other.proved

    @cached_property
    def lower_bound(self) -> float:
        return max(self.other.lower_bound, self.total or 0.0)

    @property
    def known(self) -> float | None:
        return None if self.other.known is None else self.lower_bound

    @cached_property
    def gap(self) -> float | None:
        """That of the plan itself, or a smaller one; else who asks may be told of a better one."""
        other = self.other.gap
        return other if other is None or self.searched is None else min(other, self.searched)


def _bound_for(workload: Workload, privacy: Guarantee, exact: bool = False) -> float:
    """The bound at the cost of the noise's variances; `exact`: of integers."""
    design = prepare(workload)
    if any(design.too_long(r) for r in range(len(design.groups))):
        return 0.0  # nothing is known of attributes so long but by their trees
    longest = max((design.group_count(r) for r in design.free), default=0)
    bounds = lower_bounds(privacy.law)
    if longest > bounds.searched:
        return 0.0
    with one_thread(design):
        rows, cost = optimise_total(design), bounds.cost(privacy.amount, exact)
        found = total_variance_bound(design, rows, cost, privacy.neighbours)
    if privacy.neighbours == "replace":
        return found
    return max(found, bounds.direct(workload, privacy.amount, exact))
