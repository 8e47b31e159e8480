"""`planner="coupled"`: residuals of several tables measured together (`mechanisms.coupled`).

For workloads that ask every attribute in one way, by its total variance: all k-way tables of prefix
sums, for example, where it lies about half as far above the optimum as residuals one by one do. It
is the residual plan with one more freedom, so it begins with that.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, log, prod
from typing import Final

import numpy as np

from noiseplan.errors import PlanError, setting
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.coupled_cost import MOST_HEADS
from noiseplan.optimize.exchangeable_sums import TooLarge
from noiseplan.planning.candidate import (
    ASKED,
    NOT_BETTER,
    TAKEN,
    UNMEASURED,
    WORSE,
    Candidate,
    Planner,
    reached,
)
from noiseplan.planning.certificates import Kept
from noiseplan.planning.coupled_plan import coupled_mechanism
from noiseplan.planning.coupled_split import (
    STEPS,
    Coupled,
    Hopeless,
    coupled_rows,
    letters_of,
    others_seen,
    rows_with_more_heads,
    with_another_head,
)
from noiseplan.planning.coupled_terms import CoupledTerms, several_ways
from noiseplan.planning.limits import COMPARED_CELLS, COMPARED_IN_ALL
from noiseplan.planning.measured_numbers import ALLOWED_LOSS
from noiseplan.planning.objectives import TotalVariance
from noiseplan.planning.planners import residual_family
from noiseplan.planning.problem import Problem
from noiseplan.planning.solve import role_bases
from noiseplan.planning.threads import one_thread
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.privacy import Guarantee
from noiseplan.progress import progress

NAME: Final = "coupled"
# Heads of every attribute, to begin with: with one more a search takes up to thirty times as long.
HEADS: Final = 1
# Unasked, one more is waited for where the plan is more than this above its bound, as the optimum
# is where it is further; the cost then depends on so many moments at most, and so many numbers are
# added up in inverses of rows, some twenty seconds.
FAR, MOST_MOMENTS, MOST_CUBED = 0.015, 1000, 10**7
# Unasked, curvatures take so many products of numbers at most, some ten to twenty seconds.
MOST_PRODUCTS: Final = 2e11
# Values told apart of an attribute whose rows are searched for.
MOST_VALUES: Final = 256
# Parts of tables that are mixed: more take minutes.
MOST_PARTS: Final = 20_000
# Rows of a query, and of all, whose variances are worked out one by one: some seconds.
MOST_QUERY_ROWS, MOST_ROWS = 10**7, 5 * 10**7
# Unasked it is taken where it has less than this share of the variance: its numbers are not
# compared with those of other plans, as those of residuals are.
WORTH_IT: Final = 0.995
# After so many steps this share of what would be worth it is gained, or it is not in the end.
GAINED: Final = {20: 0.5, 40: 0.7}
# Another head makes more numbers that are mixed, so it is taken for less than this share only.
WORTH_A_HEAD: Final = 0.9999


def refuses(problem: Problem) -> str | None:
    """Whatever residuals are not coupled for."""
    reason = _other(problem) or _split_otherwise(problem)
    return None if reason is None else setting("planner", NAME) + " " + reason


def _other(problem: Problem) -> str | None:
    """Other aims, neighbours and strategies."""
    instead = "; use " + setting("planner", "auto")
    if problem.targets is not None or not isinstance(problem.goal, TotalVariance):
        return "plans the total variance under a budget" + instead
    if problem.neighbours == "replace":
        return "plans for neighbours that add or remove a record" + instead
    if problem.strategies:
        return "finds the rows of all attributes itself" + instead
    return None


def _split_otherwise(problem: Problem) -> str | None:
    """Workloads whose attributes have no heads, or are asked in several ways."""
    design, instead = problem.design, "; use " + setting("planner", "auto")
    if several_ways(design):
        return "takes workloads that ask every attribute in one way" + instead
    if not letters_of(design, HEADS):
        return "couples attributes asked by other than single values, and there are none" + instead
    longest = max(design.group_count(r) for r in design.free)
    if longest > MOST_VALUES:
        return (
            f"takes attributes of at most {MOST_VALUES} values, and one has {longest:,}" + instead
        )
    return None


def solve(problem: Problem) -> Candidate:
    """The plan by name, with one head more than unasked where that is better still.

    Residuals one by one are the same with nothing coupled, and better where what records pay can
    hardly be made equal, if at all, or noise is faint.
    """
    split = residual_family.planned(problem)
    with one_thread(problem.design):
        plain, terms = residual_family.made(problem, split), _terms(problem, split.rows)
        made = terms if isinstance(terms, str) else _coupled(problem, plain, split.rows, terms)
    if isinstance(made, Candidate):
        value, known = reached(problem, made), reached(problem, plain)
        if value <= known:
            return made
        made = WORSE if value > (1 + ALLOWED_LOSS) * known else NOT_BETTER
    elif made != UNMEASURED:
        raise PlanError(setting("planner", NAME) + f": {made}; use " + setting("planner", "auto"))
    return replace(plain, considered=(("residual", TAKEN), (NAME, made)))


def _coupled(
    problem: Problem, plain: Candidate, rows: dict[int, Array], terms: CoupledTerms
) -> Candidate | str:
    """What is found however long it takes, with one head or more."""
    found = _searched(problem, rows, terms)
    if found is None:
        return UNMEASURED
    more = _with_another_head(problem, terms)
    return _made(problem, plain, *(found if more is None else _or_further(problem, *found, more)))


def unasked(problem: Problem, best: Candidate) -> Candidate | str | None:
    """The plan if it is clearly better; nothing where residuals are not coupled at all."""
    if _other(problem) or _split_otherwise(problem):
        return None
    if _compared(problem):
        return "not tried, so that other plans go on from its releases"
    worth = WORTH_IT * reached(problem, best)
    with one_thread(problem.design):
        rows = residual_family.planned(problem).rows
        terms = _terms(problem, rows)
        if isinstance(terms, str):
            return terms
        if best.optimality.lower_bound >= worth:
            return NOT_BETTER
        found = _searched(problem, rows, terms, _hopeless(problem, best), MOST_PRODUCTS)
        if found is None:
            return UNMEASURED
        if _at_the_budget(problem, found[1]) >= worth:
            return NOT_BETTER
        cubed = sum(problem.design.group_count(r) ** 3 for r in found[0].heads)
        if _far(best, found[1]) and cubed <= MOST_CUBED:
            more = _with_another_head(problem, found[0], MOST_MOMENTS)
            found = found if more is None else _or_further(problem, *found, more)
        made = _made(problem, best, *found)
    return made if isinstance(made, str) or reached(problem, made) < worth else NOT_BETTER


def _compared(problem: Problem) -> bool:
    """Whether releases can be continued by other queries if nothing is coupled, and only then."""
    shape, design = problem.workload.schema.shape, problem.design
    roles = design.roles.of_attribute.tolist()
    free = prod(n for n, role in zip(shape, roles, strict=True) if role in design.free)
    return free <= COMPARED_CELLS and prod(shape) > COMPARED_IN_ALL


def _hopeless(problem: Problem, best: Candidate) -> Hopeless:
    """Whether a search has not come near what would be worth it, by ln F = ½ ln of the variance."""
    assert problem.allowed is not None  # there is a budget
    begun, worth = log(reached(problem, best) * problem.allowed) / 2, -log(WORTH_IT) / 2
    return lambda steps, value: begun - value < GAINED.get(steps, -np.inf) * worth


def _terms(problem: Problem, rows: dict[int, Array]) -> CoupledTerms | str:
    """What is coupled by one head of each attribute; or why nothing is."""
    design, workload = problem.design, problem.workload
    if workload.rows > MOST_ROWS or workload.sizes.max() > MOST_QUERY_ROWS:
        return f"not tried, {workload.rows:,} rows"
    letters = letters_of(design, HEADS)
    others = others_seen(design, role_bases(design, rows), letters)
    try:
        terms = CoupledTerms(design, letters, others)
    except TooLarge as error:
        return f"not tried, {error.message}"
    return terms if terms.parts <= MOST_PARTS else f"not tried, {terms.parts:,} parts of tables"


def _searched(
    problem: Problem,
    rows: dict[int, Array],
    terms: CoupledTerms,
    hopeless: Hopeless = lambda steps, value: False,
    most: float = inf,
) -> tuple[CoupledTerms, Coupled] | None:
    """The best rows with one head each, from those of residuals; None where none are measured."""
    with progress("Coupling tables", STEPS) as advance:
        found = coupled_rows(
            problem.design, terms, rows, told=advance, hopeless=hopeless, most=most
        )
    return None if found is None else (terms, found)


def _with_another_head(
    problem: Problem, terms: CoupledTerms, most: int | None = None
) -> CoupledTerms | None:
    """The terms with one head more; None where there is none, or too much to look at."""
    try:
        more = with_another_head(problem.design, terms, most)
    except TooLarge:
        return None
    few = more is not None and more.parts <= MOST_PARTS and more.head_count <= MOST_HEADS
    return more if few else None


def _far(plain: Candidate, found: Coupled) -> bool:
    """Whether it is far above the bound that a `plain` plan knows."""
    bound = plain.optimality.lower_bound * plain.privacy.pcost
    return found.value**2 > (1 + FAR) * bound


def _at_the_budget(problem: Problem, found: Coupled) -> float:
    """The total variance before anything is rounded."""
    assert problem.allowed is not None  # there is a budget
    return found.value**2 / problem.allowed


def _or_further(
    problem: Problem, terms: CoupledTerms, found: Coupled, more: CoupledTerms
) -> tuple[CoupledTerms, Coupled]:
    """The same, or with more heads where that is better."""
    further = rows_with_more_heads(problem.design, terms, found, more)
    if further is None or further.value**2 >= WORTH_A_HEAD * found.value**2:
        return terms, found
    return more, further


def _made(
    problem: Problem, plain: Candidate, terms: CoupledTerms, found: Coupled
) -> Candidate | str:
    """What is known of the workload by a `plain` plan is known by this one, too."""
    design, allowed = problem.design, problem.allowed
    assert allowed is not None  # there is a budget
    made = coupled_mechanism(design, terms, found, allowed, problem.numbers)
    if made is None:
        return UNMEASURED
    cost = made.mechanism.record_cost(problem.neighbours)
    figures = RowFigures(design, made.mechanism)
    value = plain.figures.total_variance / figures.total_variance
    known = Kept(plain.optimality, plain.privacy.pcost / cost, value)
    privacy = Guarantee(cost, problem.drawn.accounting, problem.neighbours)
    return Candidate(NAME, made.mechanism, privacy, figures, known, made.loss, ((NAME, ASKED),))


PLANNER: Final = Planner((NAME,), solve, refuses)
