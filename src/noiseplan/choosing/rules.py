"""Rules that turn a look into a choice. They read nothing but the look, and cost nothing.

References
----------
Xiao, Wang, Zhang, Kifer (arXiv 2212.00135), section 6.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from noiseplan.choosing.common_and_rest import EXPLICIT_CELLS, cost_of
from noiseplan.choosing.confidence_region import FEWEST, Region, drawn
from noiseplan.choosing.workload_answers import estimates, require_all, variances
from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.matrices.base import Array
from noiseplan.planning.plan import Plan
from noiseplan.queries import Query, Workload

if TYPE_CHECKING:
    from noiseplan.choosing.choice import Look

Action = Literal["choose", "pass over", "stop"]


@dataclass(frozen=True)
class Recommendation:
    """What a rule advises, and why.

    `action` is "choose" plan number `number`, "pass over" it and look closer at the others, or
    "stop". `figures` are the numbers the rule went by.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> one = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5))
    >>> two = nz.plan(nz.Workload.marginals(schema, k=2), budget=nz.zCDP(0.5))
    >>> choice = nz.adaptive([one, two])
    >>> advice = choice.look({"age": [0, 1, 1] * 99, "sex": [0, 1, 1] * 99}).recommend()
    >>> advice.action, advice.number in (0, 1), len(advice.figures)
    ('choose', True, 4)
    """

    action: Action
    number: int | None
    reasons: str
    figures: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        head = {
            "choose": f"choose plan {self.number}: look.choose({self.number})",
            "pass over": f"pass plan {self.number} over: look.without({self.number})",
            "stop": "stop here",
        }[self.action]
        lines = [head, f"  {self.reasons}"]
        lines += [f"  {name:<46} {_written(value)}" for name, value in self.figures.items()]
        return "\n".join(lines)


def _written(value: float) -> str:
    return f"{value:,.0f}" if value.is_integer() else f"{value:.4g}"


class DecisionRule(ABC):
    """Turns a look into a recommendation.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> one = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5))
    >>> two = nz.plan(nz.Workload.marginals(schema, k=2), budget=nz.zCDP(0.5))
    >>> choice = nz.adaptive([one, two])
    >>> from noiseplan.choosing import Usefulness
    >>> look = choice.look({"age": [0, 1, 1] * 99, "sex": [0, 1, 1] * 99})
    >>> look.recommend(Usefulness(share=0.5, ratio=3.0)).action
    'choose'
    """

    @abstractmethod
    def judge(self, look: Look) -> Recommendation:
        """What to do after this look."""


# A function of the user's may return a plan, its place, a recommendation, or None to stop.
Rule = DecisionRule | Callable[["Look"], "Recommendation | Plan | int | None"]


def recommended(look: Look, rule: Rule) -> Recommendation:
    """What a rule makes of a look."""
    if isinstance(rule, DecisionRule):
        return rule.judge(look)
    if not callable(rule):
        raise PlanError(
            f"a rule is Usefulness(share, ratio), another DecisionRule or a function of the look, "
            f"found {rule!r}"
        )
    name = getattr(rule, "__name__", type(rule).__name__)
    advice = rule(look)
    if isinstance(advice, Recommendation):
        return advice
    if advice is None:
        return Recommendation("stop", None, f"{name} says so")
    return Recommendation("choose", look.choice.number(advice), f"{name} says so")


# ---------------------------------------------------------------------- nested analyses


@dataclass(frozen=True, eq=False)
class SignalToNoise(DecisionRule):
    """Take the finer plan if the coarser one's cells stay precise enough with it.

    For plans ordered from the coarsest analysis to the finest, each answering all that the one
    before does. The first plan's cells are judged by what the second would make of them: if a
    `share` of them has a ratio of count to standard error of at least `ratio`, the first plan is
    not needed.

    Parameters
    ----------
    share, ratio
        x and y of the paper.
    sigmas
        Counts are known from the look only; a cell passes if its lower bound, the estimate less so
        many standard errors, does. With 0 the estimate itself decides.
    cells
        What to judge by, if not all queries of the first plan.

    Notes
    -----
    With L, U = estimate ∓ sigmas · s_look, the ratios lie between L/s and U/s, s the standard error
    with the first or with the second plan: those of its best linear unbiased answers.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> budget = nz.zCDP(0.5)
    >>> coarse = nz.plan(nz.Workload.marginals(schema, k=1), budget=budget)
    >>> fine = nz.plan(nz.Workload.marginals(schema, up_to=2), budget=budget)
    >>> look = nz.adaptive([coarse, fine]).look({"age": [0, 1, 1] * 99, "sex": [0, 1, 1] * 99})
    >>> look.recommend(SignalToNoise(share=0.01, ratio=0.1)).number
    1
    """

    share: float
    ratio: float
    sigmas: float = 3.0
    cells: Workload | None = None

    def __post_init__(self) -> None:
        if not (0 < self.share <= 1 and self.ratio >= 0 and self.sigmas >= 0):
            raise PlanError(
                f"SignalToNoise takes a share in (0, 1], a ratio and sigmas not below 0; found "
                f"share={self.share}, ratio={self.ratio}, sigmas={self.sigmas}"
            )

    def judge(self, look: Look) -> Recommendation:
        first, second = look.choice.plans[:2]
        cells = self.cells or first.workload
        for plan in (look.plan, first, second):
            _require_nested(plan, cells)
        found = estimates(look.release, cells)
        reach = self.sigmas * np.sqrt(variances(look.plan.mechanism, cells))
        errors = [np.sqrt(variances(plan.mechanism, cells)) for plan in (first, second)]
        # A cell passes if count ≥ ratio · s: surely if L does, possibly if U does.
        sure = float(np.mean(found - reach >= self.ratio * errors[1]))
        possible = float(np.mean(found + reach >= self.ratio * errors[1]))
        with_first = float(np.mean(found + reach >= self.ratio * errors[0]))
        figures = {
            "cells judged": float(len(found)),
            "share surely precise enough with the second": sure,
            "share possibly precise enough with the second": possible,
            "share possibly precise enough with the first": with_first,
        }
        wanted = f"{self.share:.4g} of the cells with {self.ratio:g} standard errors"
        if sure >= self.share:
            return self._onward(look, f"the second plan keeps {wanted}: {sure:.4g}", figures)
        if with_first < self.share:
            reasons = f"not even the first plan can reach {wanted}: {with_first:.4g} at most"
            return Recommendation("stop", None, reasons, figures)
        doubt = "; it might, a finer look could tell" if possible >= self.share else ""
        return Recommendation(
            "choose", 0, f"the second plan is not sure to keep {wanted}: {sure:.4g}{doubt}", figures
        )

    def _onward(self, look: Look, reasons: str, figures: dict[str, float]) -> Recommendation:
        if len(look.choice.plans) == 2:
            return Recommendation("choose", 1, reasons, figures)
        return Recommendation("pass over", 0, reasons, figures)


def _require_nested(plan: Plan, cells: Workload) -> None:
    try:
        require_all(plan.mechanism, cells)
    except UnanswerableError as error:
        raise PlanError(
            f"the plans are not nested, or not given from the coarsest to the finest: {error}. "
            f"For other plans take Usefulness(), or name cells="
        ) from None


# ---------------------------------------------------------------------- any analyses


def _require_few_cells(look: Look, rule: str) -> None:
    cells = look.plan.workload.schema.size
    if cells > EXPLICIT_CELLS:
        raise PlanError(
            f"{rule}() writes down the whole domain, up to {EXPLICIT_CELLS:,} cells, and the "
            f"schema has {cells:,}: take Usefulness(), for domains of any size"
        )


@dataclass(frozen=True, eq=False)
class Posterior(DecisionRule):
    """Choose the plan that would reduce what is uncertain about its own queries most.

    Parameters
    ----------
    variance
        Of a Gaussian prior on the counts, independent from cell to cell: one number, or one for
        each cell. Unless given, the look's own estimate of the mean count: what Poisson counts
        have.
    samples
        Instead of a Gaussian prior: a function of the look that returns draws from a posterior of
        your own, draws × cells.

    Notes
    -----
    Given the look, counts have the covariance V = (C_* + S⁻¹)⁻¹, S the prior's; the rows W of plan
    k then have the variances diag(WVWᵀ), which are compared with those the plan would give.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> one = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5))
    >>> two = nz.plan(nz.Workload.marginals(schema, k=2), budget=nz.zCDP(0.5))
    >>> choice = nz.adaptive([one, two])
    >>> from noiseplan.choosing import Posterior
    >>> look = choice.look({"age": [0, 1, 1] * 99, "sex": [0, 1, 1] * 99})
    >>> look.recommend(Posterior()).action
    'choose'
    """

    variance: ArrayLike | None = None
    samples: Callable[[Look], Array] | None = None

    def judge(self, look: Look) -> Recommendation:
        if self.samples is not None:
            draws = np.asarray(self.samples(look), dtype=np.float64)
            size = look.plan.workload.schema.size
            if draws.ndim != 2 or len(draws) < 2 or draws.shape[1] != size:
                raise PlanError(
                    f"samples(look) returns draws × {size} cells, at least two draws; found shape "
                    f"{draws.shape}"
                )
            return largest_reduction(look, lambda w: np.var(draws @ w.T, axis=0, ddof=1))
        _require_few_cells(look, "Posterior")
        prior = self._prior(look)
        covariance = np.linalg.inv(cost_of(look.plan.mechanism) + np.diag(1.0 / prior))
        return largest_reduction(look, lambda w: np.einsum("ij,ij->i", w @ covariance, w))

    def _prior(self, look: Look) -> Array:
        schema = look.plan.workload.schema
        variance = self.variance
        if variance is None:
            total = look.answer(Query(schema, {})).estimate[0]
            variance = max(float(total), 1.0) / schema.size
        prior = np.broadcast_to(np.asarray(variance, dtype=np.float64).ravel(), (schema.size,))
        if not (np.isfinite(prior).all() and (prior > 0).all()):
            raise PlanError("the prior's variance should be positive and finite in every cell")
        return prior


@dataclass(frozen=True, eq=False)
class ConfidenceRegion(DecisionRule):
    """The same without a prior: over all tables of counts that agree with the look.

    Parameters
    ----------
    level
        Of the region: the true counts are in it with this probability.
    draws
        How many independent tables those drawn from it should be worth, for the row that is worst
        off; variances are then right to about √(2/draws) of them.
    steps, seed
        Walks may have so many steps until they are, and are refused then; and start from that
        seed. The draws are of what was published: they need no secret.

    Notes
    -----
    {x ≥ 0 : (x̂ − x)ᵀC_*(x̂ − x) ≤ z}, z the quantile of χ² with rank(C_*) degrees of freedom. Counts
    are not negative, and the total must be part of the look: otherwise the region has no end.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"age": 5, "sex": 2})
    >>> one = nz.plan(nz.Workload.marginals(schema, k=1), budget=nz.zCDP(0.5))
    >>> two = nz.plan(nz.Workload.marginals(schema, k=2), budget=nz.zCDP(0.5))
    >>> choice = nz.adaptive([one, two])
    >>> look = choice.look({"age": [0, 1, 1] * 99, "sex": [0, 1, 1] * 99})
    >>> look.recommend(ConfidenceRegion()).action in ('choose', 'pass over', 'stop')
    True
    """

    level: float = 0.95
    draws: int = FEWEST
    steps: int = 100_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.draws < FEWEST or self.steps < 1:
            raise PlanError(
                f"ConfidenceRegion takes at least {FEWEST} draws, fewer do not show whether walks "
                f"converged, and a step or more; found draws={self.draws}, steps={self.steps}"
            )

    def judge(self, look: Look) -> Recommendation:
        _require_few_cells(look, "ConfidenceRegion")
        region = Region.of(look.release, self.level)
        rows = np.vstack([q.dense() for plan in look.choice.plans for q in plan.workload])
        found = drawn(region, rows, self.draws, self.steps, self.seed)
        advice = largest_reduction(look, lambda w: np.var(found.points @ w.T, axis=0, ddof=1))
        return replace(advice, figures=advice.figures | {"independent tables drawn": found.worth})


def largest_reduction(look: Look, spread: Callable[[Array], Array]) -> Recommendation:
    """The plan whose own queries would gain most, by variance per row.

    `spread(rows)` is the variance of each row of a matrix over the cells, given the look.
    """
    gains, figures = [], {}
    for number, plan in enumerate(look.choice.plans):
        now = spread(np.vstack([query.dense() for query in plan.workload]))
        alone = variances(plan.mechanism, plan.workload)
        then = np.minimum(now, alone)  # what is known of a row already is not lost
        gains.append(float(np.mean(now - then)))
        figures[f"plan {number}: variance of a row now"] = float(np.mean(now))
        figures[f"plan {number}: variance of a row with it"] = float(np.mean(then))
        figures[f"plan {number}: variance of a row by its own noise"] = float(np.mean(alone))
    best = int(np.argmax(gains))
    if gains[best] <= 0:
        return Recommendation("stop", None, "no plan would tell more than is known", figures)
    reasons = f"it takes {gains[best]:.4g} off the variance of its rows, on average"
    return Recommendation("choose", best, reasons, figures)
