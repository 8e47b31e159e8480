"""`plan`: from a workload and a budget or targets to a plan. Reads no data."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import cast

import numpy as np

from noiseplan.errors import BudgetError, PlanError, UnanswerableError, remedy, setting
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.partition.settings import Dawa
from noiseplan.optimize.allocation import Share, spend
from noiseplan.planning.assemble import role_bases
from noiseplan.planning.certificates import Residual
from noiseplan.planning.explicit import (
    better_explicit,
    by_matrix,
    check_explicit,
    make_explicit,
)
from noiseplan.planning.free_split import optimise_total, optimise_upright
from noiseplan.planning.limits import EXPLICIT, EXPLICIT_CELLS
from noiseplan.planning.named_plans import plan_named, too_large
from noiseplan.planning.neighbours import privacy_rows
from noiseplan.planning.objectives import ConvexLoss, Objective, TotalVariance, WorstVariance
from noiseplan.planning.person_plans import check_people, person_plan, record_budget
from noiseplan.planning.plan import Plan
from noiseplan.planning.product_split import optimise_product
from noiseplan.planning.residual_mechanism import Made, allowed_cost, make_residual
from noiseplan.planning.smaller_domain import better_equivalent, equivalent_plan
from noiseplan.planning.solve import Solution, share_given_bases, solve, type_matrix
from noiseplan.planning.threads import one_thread
from noiseplan.planning.workload_types import Design, prepare
from noiseplan.privacy import Budget, Neighbours, PureDP
from noiseplan.queries import Workload
from noiseplan.strategies.catalogue import STRATEGIES, named_strategy, unknown_planner
from noiseplan.strategies.given_rows import Strategy

PLANNERS = ("auto", "residual", "residual+", "product", *EXPLICIT, *STRATEGIES)
NOISES = ("discrete", "gaussian", "laplace")
# Of so many kinds of queries one each is checked to be answerable; beyond, an even sample.
CHECKED_TYPES = 1000


def plan(
    workload: Workload,
    *,
    budget: Budget | None = None,
    targets: Mapping[str, float] | float | None = None,
    objective: Objective | None = None,
    planner: str | Strategy | Dawa = "auto",
    neighbours: Neighbours = "add-remove",
    noise: str | None = None,
    max_rows: int = 1,
) -> Plan:
    """Design the noise for a workload, before any data is read.

    Parameters
    ----------
    workload
        What is to be answered.
    budget
        `zCDP(rho)`, `ApproxDP(epsilon, delta)` or `PureDP(epsilon)`, or `GDP(mu)` with
        noise="gaussian": the best error within it.
    targets
        Variances that must be met, by query name or one for all queries: the least privacy cost
        that meets them. With a budget too, all of it is spent for the smallest common scaling of
        the targets: above 1 they are relaxed, below 1 they are met with less variance.
    objective
        `TotalVariance()` (default), `WorstVariance()`, `PNormVariance(p)`, `ConvexLoss(function)`
        or, over small domains, `RelativeError(expected)`.
    planner
        "auto" takes the best. By name: "residual" (every split free), "residual+" (τ = 1/n),
        "product" (one strategy per attribute); the exact optimum over a small domain, "optimal",
        for targets also "refined" (least cost to every cell) and "sm2" (for comparison);
        known strategies over it, such as "hierarchical-4", "wavelet", "eigen", "fourier"
        (`noiseplan.strategies.catalogue` lists them all); or a `Strategy`, rows of your own.
        "dawa", or a `Dawa` with its choices: buckets of an ordered attribute, chosen from the
        data. For `PureDP`: "identity", "p-identity", "tree", "wavelet", "matrix", "workload", and
        known strategies.
    neighbours
        "add-remove" one record, or "replace" one record by another (the total is then exact).
    noise
        "discrete" (default): exact discrete noise on integer measurements, Gaussian, or Laplace
        for `PureDP`. "gaussian", and "laplace" for `PureDP`: floating-point noise, for simulation;
        releases made with it say so.
    max_rows
        Records that one person may have. The budget is then a person's: neighbours differ by all
        of them. Release with `plan.release(data, person="id")`, which keeps at most so many.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 10, "sex": 2})
    >>> p = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5))
    >>> round(p.rmse, 4), p.privacy.rho <= 0.5
    (1.2493, True)
    """
    made = _planned(
        workload, budget, targets, objective, planner, neighbours, noise, max_rows
    )  # fmt: skip
    return replace(made, budget=budget) if isinstance(made, Plan) else made


def _planned(
    workload: Workload, budget: Budget | None, targets: Mapping[str, float] | float | None,
    objective: Objective | None, planner: str | Strategy | Dawa, neighbours: Neighbours,
    noise: str | None, max_rows: int,
) -> Plan:  # fmt: skip
    """The plan itself, by the planner that was asked for."""
    started = time.perf_counter()
    noise = "discrete" if noise is None else noise
    _check_planner(planner)
    if planner == "dawa" or isinstance(planner, Dawa):
        from noiseplan.aware.planner import plan_aware

        # It answers the same questions, as far as they make sense before data are seen.
        return cast(Plan, plan_aware(
            workload, budget, targets, objective, planner, neighbours, noise, max_rows
        ))  # fmt: skip
    _check_arguments(workload, budget, targets, objective, planner, neighbours, noise)
    check_people(max_rows, neighbours)
    max_rows = int(max_rows)
    if max_rows > 1:
        record = plan(
            workload, budget=record_budget(budget, max_rows, noise), targets=targets,
            objective=objective, planner=planner, neighbours=neighbours, noise=noise,
        )  # fmt: skip
        return person_plan(record, max_rows, budget)
    if isinstance(budget, PureDP) and noise != "gaussian":
        from noiseplan.planning.pure.planner import plan_pure

        return plan_pure(workload, budget, objective, planner, neighbours, noise, targets)
    again = partial(plan, budget=budget, objective=objective, neighbours=neighbours, noise=noise)
    strategy = named_strategy(planner)
    if strategy is not None and not too_large(strategy, workload.schema):
        return plan_named(workload, budget, strategy, objective, neighbours, noise, targets)
    assert isinstance(planner, str)
    if targets is not None:
        workload, priorities = _targeted(workload, targets)
        objective = WorstVariance()
    else:
        priorities, objective = None, objective or TotalVariance()
    design = prepare(workload, priorities, share=not isinstance(objective, ConvexLoss))
    allowed = None if budget is None else allowed_cost(budget, noise)
    check_explicit(planner, objective, neighbours, workload.schema.size)
    if (planner in EXPLICIT or strategy) and workload.schema.size > EXPLICIT_CELLS:
        return equivalent_plan(design, planner, objective, again, targets is not None)
    with one_thread(design):
        if by_matrix(planner, objective):
            made = make_explicit(design, objective, planner, allowed, noise)
        else:
            made = _made(
                design, objective, planner, neighbours, allowed, noise, priorities is not None
            )
    if budget is not None and not made.privacy.within(budget):  # fail closed
        raise PlanError(f"the plan would cost {made.privacy.pcost}, above {budget}: this is a bug")
    require_answers(design, made.mechanism)
    planned = Plan(
        workload=workload,
        mechanism=made.mechanism,
        privacy=made.privacy,
        objective=objective,
        planner=planner,
        noise=noise,
        rounding_loss=made.loss,
        targets=None if priorities is None else 1.0 / priorities,
        design=design,
        figures=made.figures,
        optimality=made.known(design.workload),
        seconds=time.perf_counter() - started,
    )
    if planner != "auto":
        return planned
    better = better_equivalent(design, planned, partial(again, planner="optimal"))
    return planned if better is None else replace(better, planner=planner)


def require_answers(design: Design, mechanism: Mechanism) -> None:
    """Refuse a plan that cannot answer its own workload, before anything is spent on it."""
    first = np.unique(design.roles.type_of_query, return_index=True)[1]
    step = -(-len(first) // CHECKED_TYPES)
    for number in first[::step]:
        query = design.workload.query(int(number))
        try:
            mechanism.require(query)
        except UnanswerableError:
            raise UnanswerableError(
                f"the plan does not determine {query.name!r}, which it was made for: the sizes of "
                f"weights or of entries differ too much for double precision; bring them nearer "
                f"to each other, or leave out what is negligible"
            ) from None


def _made(
    design: Design, objective: Objective, planner: str, neighbours: Neighbours,
    allowed: float | None, noise: str, targeted: bool,
) -> Made:  # fmt: skip
    """A plan of the residual family, or by one matrix where that is clearly better."""
    # Everything scales with the budget, so targets alone are planned at cost one and scaled.
    solution = _solution(design, objective, planner, neighbours, allowed or 1.0)
    least = allowed is None
    if planner == "auto":
        explicit = better_explicit(
            design, objective, solution.share.value, neighbours, allowed, noise
        )
        if explicit is not None:
            return explicit
    if allowed is None:
        allowed = solution.share.value or 1.0  # 0 where all that is asked costs nothing
        solution = _rescaled(solution, allowed)
    made = make_residual(design, solution, objective, neighbours, allowed, noise, least)
    known = Residual(design, made.share, solution.total_rows, made.privacy, planner, targeted)
    return replace(made, optimality=known)


def _solution(
    design: Design, objective: Objective, planner: str, neighbours: str, budget: float
) -> Solution:
    if planner == "residual+":
        rows = optimise_upright(design)
        return share_given_bases(design, rows, objective, budget, neighbours)
    if planner == "product":
        return _product(design, objective, budget, neighbours)
    return solve(design, optimise_total(design), objective, budget, neighbours)


_PRODUCT = remedy("setting", 'planner="product"', "planner", "product")
_AUTO = remedy("setting", 'planner="auto"', "planner", "auto")


def _product(design: Design, objective: Objective, budget: float, neighbours: str) -> Solution:
    if not isinstance(objective, TotalVariance):
        raise PlanError(_PRODUCT + " plans the total variance only; use " + _AUTO)
    if design.joints:
        raise PlanError(_PRODUCT + " takes no dense-matrix queries; use " + _AUTO)
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
    if isinstance(target, Iterable) and not isinstance(target, str):
        raise PlanError(
            f"the target of {name!r} is one variance for all of its rows, found several; to give "
            f"each row its own, make it a query with a name, Query(schema, matrix=[row], "
            f"name='row 0'), and write targets={{'row 0': 4.0, …}}"
        )
    if isinstance(target, bool) or not isinstance(target, (Real, np.number)):
        raise PlanError(f"the target of {name!r} is a variance, found {target!r}")
    value = float(target)
    if not (np.isfinite(value) and value > 0):
        raise PlanError(f"the target of {name!r} is a positive finite variance, found {value}")
    return value


def _check_planner(planner: object) -> None:
    """Refuse rows in the place of a planner: arrays cannot even be compared with a name."""
    if hasattr(planner, "shape"):
        raise PlanError(
            f"a planner is a name or a Strategy, found {type(planner).__name__}: write "
            f"planner=Strategy(rows) to measure rows of your own"
        )


def _check_arguments(
    workload: object, budget: object, targets: object, objective: object,
    planner: object, neighbours: str, noise: str,
) -> None:  # fmt: skip
    if not isinstance(workload, Workload):
        raise PlanError(
            f"plan() starts with a Workload, found {type(workload).__name__}; write "
            f"plan(Workload([query, …]), …)"
        )
    if budget is None and targets is None:
        raise PlanError(
            "say how much privacy to spend (budget=zCDP(0.5)) or what to reach (targets={...})"
        )
    if budget is not None and not isinstance(budget, Budget):
        raise BudgetError(
            f"a budget is zCDP(rho), GDP(mu), ApproxDP(epsilon, delta) or PureDP(epsilon), "
            f"found {budget!r}"
        )
    if objective is not None and not isinstance(objective, Objective):
        raise PlanError(
            f"an objective is TotalVariance(), WorstVariance(), PNormVariance(p), "
            f"ConvexLoss(f) or RelativeError(), "
            f"found {objective!r}"
        )
    if targets is not None and objective is not None:
        raise PlanError("targets are an objective of their own: give one or the other")
    if not (planner in PLANNERS or named_strategy(planner) or isinstance(budget, PureDP)):
        raise PlanError(unknown_planner(planner, PLANNERS))
    if neighbours not in ("add-remove", "replace"):
        raise PlanError(f"neighbours are 'add-remove' or 'replace', found {neighbours!r}")
    if noise not in NOISES:
        raise PlanError(f"noise is 'discrete' or 'gaussian' (for simulation), found {noise!r}")
    if noise == "laplace" and not isinstance(budget, PureDP):
        raise PlanError(
            setting("noise", "laplace")
            + " goes with a budget of pure DP, as in "
            + remedy("pure budget", "PureDP(1.0)", "1.0")
            + f", found {budget!r}; leave out noise=, or use "
            + setting("noise", "gaussian")
            + " to simulate"
        )
