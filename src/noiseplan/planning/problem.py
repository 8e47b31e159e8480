"""What is to be planned: the arguments of `plan`, checked, and what planners ask of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from noiseplan.errors import BudgetError, PlanError, remedy, setting
from noiseplan.matrices import Matrix
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.product import Factor
from noiseplan.noise import Noise
from noiseplan.planning.given_strategies import check_named, read_strategy
from noiseplan.planning.limits import EXPLICIT_CELLS
from noiseplan.planning.measured_numbers import Numbers, numbers_of
from noiseplan.planning.objectives import ConvexLoss, Objective, TotalVariance, WorstVariance
from noiseplan.planning.workload_types import Design, prepare
from noiseplan.privacy import Budget, Neighbours, PureDP
from noiseplan.queries import Workload
from noiseplan.strategies.catalogue import (
    PURE_STRATEGIES,
    STRATEGIES,
    StrategyName,
    asked_by,
    eigen_weights,
    product_factors,
)
from noiseplan.strategies.column_norms import Norm
from noiseplan.strategies.given_rows import Strategy

if TYPE_CHECKING:
    from noiseplan.mechanisms.partition.partition_settings import Dawa

NOISES: Final = ("discrete", "discrete Gaussian", "discrete Laplace", "gaussian", "laplace")
# Variances go as one over the cost, and their squares must be numbers too.
LEAST_COST: Final = 1e-120


@dataclass(frozen=True)
class Scaling:
    """What planning goes by where noise is scaled to a norm of columns."""

    norm: Norm
    strategies: tuple[str, ...]  # those with names
    exchanged: bool  # whether strategies over classes treat attributes alike that look alike
    not_long: str | None = None  # why an attribute of many values is not planned by trees or series


# By the power of entries that the noise is scaled to.
SCALINGS: Final = {
    1: Scaling("L1", PURE_STRATEGIES, False, "the budget is one of pure DP"),
    2: Scaling("L2", STRATEGIES, True),
}


@dataclass(frozen=True, eq=False)
class Problem:
    """A workload, what may be spent or must be reached, what is to be small, and by which planner.

    Targets are as given at first; an array of one variance for each query once they are read
    (`reductions.Targets`).
    """

    workload: Workload
    budget: Budget | None = None
    targets: Mapping[str, float] | float | Array | None = None
    objective: Objective | None = None
    planner: str | Strategy | Dawa = "auto"
    neighbours: Neighbours = "add-remove"
    noise: str = "discrete"
    max_rows: int = 1
    strategies: Mapping[str, object] | None = None
    rough: bool = False  # whether searches that take long are left out
    public_total: bool = False  # of a problem that stands for one of replaced records
    started: float = field(default_factory=time.perf_counter)

    @property
    def goal(self) -> Objective:
        """What is to be small: the objective, or the largest ratio of a variance to its target."""
        if self.targets is not None:
            return WorstVariance()
        return self.objective or TotalVariance()

    @property
    def name(self) -> str:
        """What the planner that was asked for is called."""
        return str(getattr(self.planner, "name", self.planner))

    @cached_property
    def drawn(self) -> Noise:
        """The noise of the plan, of size one."""
        return Noise.within(self.budget, self.noise)

    @property
    def scaling(self) -> Scaling:
        """What planning with this noise goes by."""
        return SCALINGS[self.drawn.power]

    @property
    def integer(self) -> bool:
        """Whether integers are measured, with exact discrete noise."""
        return self.drawn.exact > 0

    @cached_property
    def numbers(self) -> Numbers:
        """What is measured, and how rows are made of it."""
        return numbers_of(self.drawn)

    @property
    def size(self) -> int:
        """Cells of the whole domain."""
        return self.workload.schema.size

    @cached_property
    def priorities(self) -> Array | None:
        """1/target of each query, where there are targets."""
        return None if self.targets is None else 1.0 / np.asarray(self.targets)

    @cached_property
    def strategy(self) -> StrategyName | Strategy | None:
        """The known strategy that is asked for, or the user's own."""
        if isinstance(self.planner, Strategy):
            return self.planner
        if self.planner == "auto":
            return None
        return asked_by(self.planner, self.scaling.strategies)

    @cached_property
    def factors(self) -> tuple[Factor, ...] | None:
        """The factors of that strategy, one for each attribute, where it is a product."""
        if not isinstance(self.strategy, StrategyName):
            return None
        return product_factors(self.strategy, self.workload.schema)

    @cached_property
    def own(self) -> dict[int, Matrix]:
        """The strategies that were given for attributes, by their numbers."""
        schema, given = self.workload.schema, self.strategies or {}
        return {schema.index(name): read_strategy(schema, name, given[name]) for name in given}

    @cached_property
    def allowed(self) -> float | None:
        """The privacy cost that the budget allows Gaussian noise; None without a budget."""
        return None if self.budget is None else allowed_cost(self.budget, self.noise)

    @property
    def price(self) -> float | None:
        """What a record may cost, as the noise is scaled: 2ρ, or ε; None without a budget."""
        return None if self.budget is None else allowed_cost(self.budget, self.drawn.name)

    @property
    def at_one(self) -> float:
        """How many times larger variances are at a cost of one than within the budget."""
        return self.drawn.times_larger(self.price or 1.0)

    @property
    def faint(self) -> bool:
        """Whether discrete Gaussian noise may be of less than one count.

        Its variance is then far below that of continuous noise, about 2e^(−1/(2σ²)), and smaller on
        rows of small integers than on those of the best plan for continuous noise.
        """
        most = self.drawn.kind.faint_cost
        return most < np.inf and (self.allowed or 0.0) > most

    @cached_property
    def epsilon(self) -> float:
        """ε of pure DP."""
        assert self.budget is not None  # and Laplace noise is within none but pure DP
        return self.budget.own_epsilon

    @cached_property
    def design(self) -> Design:
        """The workload prepared: attributes that look alike are one where nothing tells them apart.

        A strategy may treat them differently, and a loss of one's own sees every query by itself.
        """
        apart = isinstance(self.goal, ConvexLoss)
        if self.strategy is not None:
            by_classes = self.factors is None and self.size > EXPLICIT_CELLS
            by_classes &= eigen_weights(self.strategy) is None
            apart |= not (self.scaling.exchanged and by_classes)
        own = self.own if self.strategies else None
        return prepare(self.workload, self.priorities, not apart, own)

    def check(self) -> None:
        """Refuse arguments that are none, whatever the planner."""
        if hasattr(self.planner, "shape"):
            raise PlanError(
                f"a planner is a name or a Strategy, found {type(self.planner).__name__}: write "
                f"planner=Strategy(rows) to measure rows of your own"
            )
        if not isinstance(self.workload, Workload):
            raise PlanError(
                f"plan() starts with a Workload or a list of queries, found "
                f"{type(self.workload).__name__}; write plan([query, …], …)"
            )
        reach = getattr(self.objective, "at_most", None)
        if self.budget is None and self.targets is None and reach is None:
            raise PlanError(
                "say how much privacy to spend (budget=zCDP(0.5)) or what to reach "
                "(targets={...}, or objective=RMSE(at_most=2.0))"
            )
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise BudgetError(
                f"a budget is zCDP(rho), GDP(mu), ApproxDP(epsilon, delta) or PureDP(epsilon), "
                f"found {self.budget!r}"
            )
        if self.objective is not None and not isinstance(self.objective, Objective):
            raise PlanError(
                f"an objective is TotalVariance(), WorstVariance(), RMSE(), PNormVariance(p), "
                f"ConvexLoss(f) or RelativeError(), "
                f"found {self.objective!r}"
            )
        if self.targets is not None and self.objective is not None:
            raise PlanError("targets are an objective of their own: give one or the other")
        if reach is not None:
            self._check_reach()
        if self.neighbours not in ("add-remove", "replace"):
            raise PlanError(f"neighbours are 'add-remove' or 'replace', found {self.neighbours!r}")
        if self.noise not in NOISES:
            raise PlanError(
                f"noise is 'discrete', 'discrete Gaussian' or 'discrete Laplace', or 'gaussian' or "
                f"'laplace' for simulation, found {self.noise!r}"
            )
        if self.budget is not None and not isinstance(self.budget, self.drawn.kind.budgets):
            raise PlanError(
                setting("noise", self.noise)
                + " goes with a budget of pure DP or of (ε, δ), as in "
                + remedy("pure budget", "PureDP(1.0)", "1.0")
                + f", found {self.budget}; leave out "
                + remedy("argument", "noise=", "[plan] noise")
                + ", or use "
                + setting("noise", "gaussian")
                + " to simulate"
            )
        rows: object = self.max_rows
        if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
            raise PlanError(
                f"max_rows is how many records one person may have, as in 3; found {rows!r}"
            )
        if self.strategies is not None:
            self._check_strategies()

    def _check_strategies(self) -> None:
        """Refuse strategies of attributes for what is no plan of the residual family."""
        check_named(self.workload, self.strategies)
        if self.planner not in ("auto", "residual"):
            raise PlanError(
                f"strategies of attributes are planned by the residual family: leave out "
                f"planner={self.name!r}, or strategies"
            )
        if isinstance(self.budget, PureDP):
            raise PlanError(
                "strategies of attributes are for Gaussian noise: leave them out, or give "
                "budget=zCDP(0.5) or ApproxDP(1.0, 1e-9); rows over all cells go with pure DP, as "
                "planner=Strategy(rows)"
            )
        _ = self.own  # each of them is read, and refused where it is none

    def _check_reach(self) -> None:
        """Refuse a bound beside a budget, and one that no plan meets."""
        if self.budget is not None:
            raise PlanError(
                remedy("argument", "at_most=", "[plan] at_most")
                + f" asks for the least privacy cost, and {self.budget} is one: leave out the "
                + "budget, or "
                + remedy("argument", "at_most=", "at_most")
            )
        self.goal.check_reach(len(self.workload))


def allowed_cost(budget: Budget, noise: str) -> float:
    """The privacy cost a budget allows, where variances are numbers at it."""
    cost = Noise.named(noise).allowed(budget)
    if 0 < cost < LEAST_COST:
        least = f"{LEAST_COST:g}"
        raise BudgetError(
            f"{budget} is so little that variances are no numbers: give "
            + remedy("least budget", f"a budget of at least zCDP({least})", least)
        )
    return cost
