"""`plan`: from a workload and a budget or targets to a plan. Reads no data."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np

from noiseplan.errors import BudgetError, PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.dense import DenseMechanism
from noiseplan.mechanisms.mechanism import Mechanism
from noiseplan.planning.allocation import Share, spend
from noiseplan.planning.assemble import assemble, role_bases
from noiseplan.planning.bounds import workload_gram
from noiseplan.planning.dense import dense_optimum
from noiseplan.planning.design import Design, prepare
from noiseplan.planning.figures import Figures, ResidualFigures, RowFigures
from noiseplan.planning.neighbours import privacy_rows
from noiseplan.planning.objectives import ConvexLoss, Objective, TotalVariance, WorstVariance
from noiseplan.planning.oblique import optimise_total, optimise_upright
from noiseplan.planning.plan import Plan
from noiseplan.planning.products import optimise_product
from noiseplan.planning.solve import Solution, share_given_bases, solve, type_matrix
from noiseplan.planning.threads import one_thread
from noiseplan.privacy import Budget, Guarantee, Neighbours
from noiseplan.privacy.rounding import product_up
from noiseplan.queries import Workload

PLANNERS = ("auto", "residual", "residual+", "product", "optimal")
# Domains over which a plan may be one explicit matrix: when asked for, and when tried unasked.
EXPLICIT_CELLS = 1024
SMALL_CELLS = 256
# An explicit matrix is preferred if it has less than this share of the residual plan's variance.
WORTH_IT = 0.99
# The cost is a sum of rounded products; this much covers their rounding many times over.
ROUNDING = 1e-12


def plan(
    workload: Workload,
    *,
    budget: Budget | None = None,
    targets: Mapping[str, float] | float | None = None,
    objective: Objective | None = None,
    planner: str = "auto",
    neighbours: Neighbours = "add-remove",
    noise: str = "gaussian",
) -> Plan:
    """Design the noise for a workload, before any data is read.

    Parameters
    ----------
    workload
        What is to be answered.
    budget
        `zCDP(rho)`, `GDP(mu)` or `ApproxDP(epsilon, delta)`: the best error within it.
    targets
        Variances that must be met, by query name or one for all queries: the least privacy cost
        that meets them. With a budget too, the smallest common scaling of the targets within it.
    objective
        `TotalVariance()` (default), `WorstVariance()`, `PNormVariance(p)` or
        `ConvexLoss(function)`.
    planner
        "auto" takes the best. By name: "residual" (every split free), "residual+" (τ = 1/n),
        "product" (one strategy per attribute), "optimal" (one matrix over a small domain).
    neighbours
        "add-remove" one record, or "replace" one record by another (the total is then exact).
    noise
        "gaussian": floating-point Gaussian noise, for simulation; releases made with it say so.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 10, "sex": 2})
    >>> p = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5))
    >>> round(p.rmse, 4), p.privacy.rho <= 0.5
    (1.2493, True)
    """
    started = time.perf_counter()
    _check_arguments(workload, budget, targets, objective, planner, neighbours, noise)
    if targets is not None:
        workload, priorities = _targeted(workload, targets)
        objective = WorstVariance()
    else:
        priorities, objective = None, objective or TotalVariance()
    design = prepare(workload, priorities, share=not isinstance(objective, ConvexLoss))
    allowed = None if budget is None else budget.gaussian_pcost()
    with one_thread(design):
        # Everything scales with the budget, so targets alone are planned at cost one and scaled.
        solution = _solution(design, objective, planner, neighbours, allowed or 1.0)
        explicit = _explicit(design, solution, objective, planner, neighbours, allowed)
    if targets is not None and allowed is None:
        allowed = solution.share.value
        solution = _rescaled(solution, allowed)
    made = explicit or _residual(design, solution, neighbours)
    if budget is not None and not made.privacy.within(budget):  # fail closed
        raise PlanError(f"the plan would cost {made.privacy.pcost}, above {budget}: this is a bug")
    return Plan(
        workload=workload,
        mechanism=made.mechanism,
        privacy=made.privacy,
        objective=objective,
        planner=planner,
        noise=noise,
        targets=None if priorities is None else 1.0 / priorities,
        design=design,
        figures=made.figures,
        share=made.share,
        total_rows=solution.total_rows,
        seconds=time.perf_counter() - started,
    )


@dataclass(frozen=True, eq=False)
class Made:
    """A mechanism with its cost, its figures and what is known of its optimality."""

    mechanism: Mechanism
    privacy: Guarantee
    figures: Figures
    share: Share


def _residual(design: Design, solution: Solution, neighbours: Neighbours) -> Made:
    sigma2 = solution.sigma2 * (1 + 2 * ROUNDING)
    cost = product_up(spend(solution.privacy, sigma2), 1 + ROUNDING)
    return Made(
        assemble(design, solution.rows, sigma2),
        Guarantee(cost, "gaussian", neighbours),
        ResidualFigures(design, solution.bases, sigma2),
        solution.share,
    )


def _explicit(
    design: Design, solution: Solution, objective: Objective, planner: str,
    neighbours: Neighbours, budget: float | None,
) -> Made | None:  # fmt: skip
    """The exact optimum over a small domain: by name, or where it is clearly better.

    One split per attribute must serve all its factors; where they differ much, a matrix over the
    whole domain does better, as long as the domain is small enough to have one.
    """
    wanted, size = planner == "optimal", design.workload.schema.size
    fits = (
        isinstance(objective, TotalVariance) and neighbours == "add-remove" and budget is not None
    )
    if wanted and not (fits and size <= EXPLICIT_CELLS):
        raise PlanError(
            f"planner='optimal' plans the total variance under a budget, for neighbours that add "
            f"or remove a record, over at most {EXPLICIT_CELLS} cells; the schema has {size:,}"
        )
    if not wanted and not (planner == "auto" and fits and design.free and size <= SMALL_CELLS):
        return None
    assert budget is not None
    best = dense_optimum(workload_gram(design), tolerance=1e-6 if wanted else 1e-4)
    if not wanted and best.value / budget > WORTH_IT * solution.share.value:
        return None
    strategy = best.strategy * np.sqrt(budget * (1 - 2 * ROUNDING))
    mechanism = DenseMechanism(design.workload.schema, strategy)
    for query in design.workload:
        mechanism.require(query)
    cost = product_up(float(np.max(np.einsum("ri,ri->i", strategy, strategy))), 1 + ROUNDING)
    return Made(
        mechanism,
        Guarantee(cost, "gaussian", neighbours),
        RowFigures(design, mechanism),
        Share(np.ones(1), best.value / budget, best.bound / budget),
    )


def _solution(
    design: Design, objective: Objective, planner: str, neighbours: str, budget: float
) -> Solution:
    if planner == "residual+":
        rows = optimise_upright(design)
        return share_given_bases(design, rows, objective, budget, neighbours)
    if planner == "product":
        return _product(design, objective, budget, neighbours)
    return solve(design, optimise_total(design), objective, budget, neighbours)


def _product(design: Design, objective: Objective, budget: float, neighbours: str) -> Solution:
    if not isinstance(objective, TotalVariance):
        raise PlanError('planner="product" plans the total variance only; use planner="auto"')
    if design.joints:
        raise PlanError('planner="product" takes no dense-matrix queries; use planner="auto"')
    rows, sigma2 = optimise_product(design)
    bases = role_bases(design, rows)
    privacy = privacy_rows(design, bases, neighbours)
    if neighbours == "replace":
        sigma2 = np.where((design.terms.subset_roles < 0).all(axis=1), 0.0, sigma2)
    sigma2 = sigma2 * (spend(privacy, sigma2) / budget)
    value = float(design.type_weight @ (type_matrix(design, bases) @ sigma2))
    return Solution(rows, bases, privacy, Share(sigma2, value, 0.0), rows)


def _rescaled(solution: Solution, factor: float) -> Solution:
    """The same plan at `factor` times the privacy cost, so at 1/factor of every variance."""
    share = solution.share
    scaled = Share(share.sigma2 / factor, share.value / factor, share.bound / factor)
    return replace(solution, share=scaled)


def _targeted(workload: Workload, targets: Mapping[str, float] | float) -> tuple[Workload, Array]:
    """The queries that have a target, and 1/target of each.

    Queries without a target are not planned for; they may still be answered if they lie in the
    span.
    """
    if not isinstance(targets, Mapping):
        return workload, np.full(len(workload), 1.0 / _checked_target("all queries", targets))
    if not targets:
        raise PlanError("targets is empty: name at least one query, e.g. targets={'age': 25.0}")
    chosen = {workload.position(name): _checked_target(name, t) for name, t in targets.items()}
    positions = sorted(chosen)
    return workload.subset(positions), np.array([1.0 / chosen[i] for i in positions])


def _checked_target(name: str, target: object) -> float:
    if isinstance(target, bool) or not isinstance(target, (Real, np.number)):
        raise PlanError(f"the target of {name!r} is a variance, found {target!r}")
    value = float(target)
    if not (np.isfinite(value) and value > 0):
        raise PlanError(f"the target of {name!r} is a positive finite variance, found {value}")
    return value


def _check_arguments(
    workload: object, budget: object, targets: object, objective: object,
    planner: str, neighbours: str, noise: str,
) -> None:  # fmt: skip
    if not isinstance(workload, Workload):
        raise PlanError(f"plan() starts with a Workload, found {type(workload).__name__}")
    if budget is None and targets is None:
        raise PlanError(
            "say how much privacy to spend (budget=zCDP(0.5)) or what to reach (targets={...})"
        )
    if budget is not None and not isinstance(budget, Budget):
        raise BudgetError(
            f"a budget is zCDP(rho), GDP(mu) or ApproxDP(epsilon, delta), found {budget!r}"
        )
    if objective is not None and not isinstance(objective, Objective):
        raise PlanError(
            f"an objective is TotalVariance(), WorstVariance(), PNormVariance(p) or ConvexLoss(f), "
            f"found {objective!r}"
        )
    if targets is not None and objective is not None:
        raise PlanError("targets are an objective of their own: give one or the other")
    if planner not in PLANNERS:
        raise PlanError(f"unknown planner {planner!r}; choose from {', '.join(PLANNERS)}")
    if neighbours not in ("add-remove", "replace"):
        raise PlanError(f"neighbours are 'add-remove' or 'replace', found {neighbours!r}")
    if noise != "gaussian":
        raise PlanError(f"noise={noise!r} is not available; noise='gaussian' is, for simulation")
