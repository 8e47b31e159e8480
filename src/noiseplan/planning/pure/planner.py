"""`plan` for a budget of pure differential privacy."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from noiseplan.errors import PlanError, UnanswerableError, remedy, setting
from noiseplan.planning.certificates import Unstated
from noiseplan.planning.limits import EXPLICIT_CELLS as NAMED_CELLS
from noiseplan.planning.named_plans import too_large
from noiseplan.planning.objectives import TotalVariance
from noiseplan.planning.plan import Plan
from noiseplan.planning.pure.made import PureMade
from noiseplan.planning.pure.matrix import EXPLICIT_CELLS, SMALL_CELLS, plan_matrix
from noiseplan.planning.pure.named import laplace_strategy, plan_named_pure
from noiseplan.planning.pure.strategies import STRATEGIES
from noiseplan.planning.pure.tables import WORTH_IT, plan_tables
from noiseplan.planning.smaller_domain import better_equivalent, equivalent_plan
from noiseplan.planning.threads import one_thread
from noiseplan.planning.workload_types import Design, prepare
from noiseplan.privacy import PureDP
from noiseplan.privacy.rounding import text_of
from noiseplan.queries import Workload
from noiseplan.strategies.catalogue import PURE_STRATEGIES
from noiseplan.strategies.given_rows import Strategy

PURE_PLANNERS = ("auto", *STRATEGIES, "matrix", "workload", *PURE_STRATEGIES)
# Planners of one matrix over all cells, or over the classes of cells that queries tell apart.
BY_MATRIX = ("matrix", "workload")
# How the noise of a plan is called in it: discrete by default.
LAPLACE_NOISES = {"discrete": "discrete Laplace", "laplace": "laplace"}
# Variances go as 1/ε², and their squares must be numbers too.
LEAST_EPSILON, MOST_EPSILON = 1e-60, 1e60


def plan_pure(
    workload: Workload, budget: PureDP, objective: object, planner: str | Strategy,
    neighbours: str, noise: str, targets: object,
) -> Plan:  # fmt: skip
    """The plan of least total variance found within ε, with Laplace noise."""
    started = time.perf_counter()
    _check(budget, objective, planner, neighbours, targets)
    strategy = laplace_strategy(planner)
    # A strategy may treat attributes differently that look alike.
    design = prepare(workload, share=strategy is None)
    if planner in BY_MATRIX and workload.schema.size > EXPLICIT_CELLS:
        return _equivalent(design, budget, str(planner), noise, EXPLICIT_CELLS)
    if strategy is not None and too_large(strategy, workload.schema):
        return _equivalent(design, budget, strategy.name, noise, NAMED_CELLS)
    with one_thread(design):
        if strategy is not None:
            made = plan_named_pure(design, budget.epsilon, strategy, noise == "discrete")
        else:
            made = _best(design, budget.epsilon, str(planner), noise == "discrete")
    if not made.privacy.within(budget):  # fail closed
        raise PlanError(f"the plan would cost more than {budget}: this is a bug")
    _require_answers(made.design, made)
    planned = Plan(
        workload=workload,
        mechanism=made.mechanism,
        privacy=made.privacy,
        objective=TotalVariance(),
        planner=made.name,
        noise=LAPLACE_NOISES[noise],
        rounding_loss=made.loss,
        targets=None,
        design=made.design,
        figures=made.figures,
        optimality=Unstated(workload, made.privacy),
        seconds=time.perf_counter() - started,
    )
    if planner != "auto":
        return planned
    return better_equivalent(design, planned, _again(budget, noise)) or planned


def _again(budget: PureDP, noise: str) -> Callable[..., Plan]:
    """`plan` for the smaller domain on which the same can be asked."""
    from noiseplan.planning.planner import plan

    return partial(plan, budget=budget, noise=noise)


def _equivalent(design: Design, budget: PureDP, planner: str, noise: str, most: int) -> Plan:
    again = _again(budget, noise)
    return equivalent_plan(design, planner, TotalVariance(), again, False, most)


def _best(design: Design, epsilon: float, planner: str, integer: bool) -> PureMade:
    if planner == "workload":
        return plan_matrix(design, epsilon, planner, integer)
    tables = plan_tables(design, epsilon, "auto" if planner == "matrix" else planner, integer)
    asked = int((design.roles.of_attribute >= 0).sum())
    small = asked > 1 and design.workload.schema.size <= SMALL_CELLS
    if planner == "matrix" or (planner == "auto" and small):
        try:
            matrix = plan_matrix(design, epsilon, planner, integer, tables)
        except UnanswerableError:  # sizes of weights that differ too much for one matrix
            if planner == "matrix":
                raise
            return tables
        return matrix if planner == "matrix" or matrix.value < WORTH_IT * tables.value else tables
    return tables


def _require_answers(design: Design, made: PureMade) -> None:
    from noiseplan.planning.planner import require_answers

    require_answers(design, made.mechanism)


def _check(
    budget: PureDP, objective: object, planner: object, neighbours: str, targets: object
) -> None:
    if not LEAST_EPSILON <= budget.epsilon <= MOST_EPSILON:
        raise PlanError(
            f"plans of pure DP take ε from {LEAST_EPSILON:g} to {MOST_EPSILON:g}, found "
            f"{text_of(budget.epsilon)}, for which variances are no numbers: try PureDP(1.0)"
        )
    example = f"plan(workload, budget=PureDP({text_of(budget.epsilon)}))"
    if targets is not None:
        raise PlanError(
            f"plans of pure DP take a budget, not targets: try {example} and raise ε until "
            f"plan.variance(query) is low enough, or meet targets with Gaussian noise (zCDP)"
        )
    if objective is not None and not isinstance(objective, TotalVariance):
        raise PlanError(
            f"plans of pure DP minimise the total variance, found the objective {objective}: "
            f"write {example}, and give queries that matter more a larger weight"
        )
    if neighbours == "replace":
        half = text_of(budget.epsilon / 2)
        raise PlanError(
            "plans of pure DP protect against adding or removing a record; replacing one is both, "
            "so "
            + remedy("pure budget", f"PureDP({half})", half)
            + " with "
            + setting("neighbours", "add-remove")
            + f" protects it at ε = {text_of(budget.epsilon)}"
        )
    if laplace_strategy(planner) is None and planner not in PURE_PLANNERS:
        raise PlanError(
            f"planner {planner!r} does not plan pure DP; choose from {', '.join(PURE_PLANNERS)}"
        )
