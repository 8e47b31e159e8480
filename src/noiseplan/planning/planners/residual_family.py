"""Plans of the residual family: bases of attributes, and noise for every set of them.

| name | bases | noise |
| --- | --- | --- |
| `residual` | every split free, every block its own rows | the best for them |
| `residual+` | τ = 1/n | the best for them |
| `product` | of the best product strategy | that of the product |
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from noiseplan.errors import remedy
from noiseplan.optimize.allocation import Share, spend
from noiseplan.planning.block_choice import make_blocks
from noiseplan.planning.candidate import ASKED, Candidate, Planner, reached
from noiseplan.planning.free_split import optimise_total, optimise_upright
from noiseplan.planning.given_strategies import faithful_bits, given_splits
from noiseplan.planning.measured_numbers import BITS
from noiseplan.planning.objectives import RelativeError, TotalVariance
from noiseplan.planning.planners import optimal
from noiseplan.planning.problem import Problem
from noiseplan.planning.product_split import optimise_product
from noiseplan.planning.replaced_split import replaced_bases
from noiseplan.planning.residual_mechanism import make_residual
from noiseplan.planning.solve import (
    Aim,
    Solution,
    role_bases,
    share_given_bases,
    type_matrix,
)
from noiseplan.planning.solve import (
    solve as best_bases,
)
from noiseplan.planning.threads import one_thread
from noiseplan.planning.workload_types import measured_alone, privacy_rows

_PRODUCT = remedy("setting", 'planner="product"', "planner", "product")
# Planners that give every block a precision of its own where that is better.
BY_BLOCKS: Final = ("auto", "residual")
# The share of the objective below which it is.
CLEARLY_BETTER: Final = 0.999
_AUTO = remedy("setting", 'planner="auto"', "planner", "auto")


def refuses(problem: Problem) -> str | None:
    """Relative errors; for products, other objectives and matrices over several attributes."""
    if isinstance(problem.goal, RelativeError):
        return optimal.refuses(problem)
    if problem.planner != "product":
        return None
    if not isinstance(problem.goal, TotalVariance):
        return _PRODUCT + " plans the total variance only; use " + _AUTO
    if problem.design.joints:
        return _PRODUCT + " takes no dense-matrix queries; use " + _AUTO
    return None


def solve(problem: Problem) -> Candidate:
    """The plan of least cost or error in the family."""
    with one_thread(problem.design):
        candidate = made(problem, planned(problem))
    if not problem.strategies:
        return candidate
    given = f"residual with strategies given for {', '.join(problem.strategies)}"
    return replace(candidate, name="residual", considered=((given, ASKED),))


def planned(problem: Problem) -> Solution:
    """Bases and noise at the budget, or at cost one: everything scales with it."""
    aim = _aim(problem, problem.allowed or 1.0)
    if problem.strategies:
        return _with_given(aim, problem)
    if problem.planner == "residual+":
        return share_given_bases(aim, optimise_upright(problem.design))
    if problem.planner == "product":
        return _product(aim)
    replaced, design = problem.neighbours == "replace", problem.design
    first = replaced_bases if replaced else optimise_total
    return best_bases(aim, first(design) if design.free else {})


def _with_given(aim: Aim, problem: Problem) -> Solution:
    """The better split of the strategies that were given, all other bases the best beside them."""
    splits = given_splits(problem.design, problem.own)
    found = [share_given_bases(aim, optimise_total(problem.design, rows)) for rows in splits]
    return min(found, key=lambda solution: solution.share.value)


def _aim(problem: Problem, cost: float) -> Aim:
    targeted = problem.targets is not None
    return Aim(problem.design, problem.goal, cost, problem.neighbours, problem.name, targeted)


def made(problem: Problem, solution: Solution, blocks: bool = True) -> Candidate:
    """The mechanism; without a budget, at the least cost that meets the targets.

    Blocks have rows of their own where that is better, unless nobody needs them.
    """
    allowed = problem.allowed
    if allowed is None:
        allowed = solution.share.value or 1.0  # 0 where all that is asked costs nothing
        solution = _rescaled(solution, allowed)
    least, aim = problem.allowed is None, _aim(problem, allowed)
    bits = faithful_bits(problem.design) if problem.strategies else BITS
    today = make_residual(aim, solution, problem.numbers, least, bits)
    all_plain = not (problem.design.free or problem.design.joints)  # which need none
    if blocks and not all_plain and _by_blocks(problem):
        own = make_blocks(problem, aim, solution)
        clearly = CLEARLY_BETTER * reached(problem, today)
        if own is not None and reached(problem, own) < clearly:
            today = own
    return today


def _by_blocks(problem: Problem) -> bool:
    """Whether blocks may gain from rows of their own: with one kind of factor on each attribute,
    where pairs of records pay for them."""
    if problem.planner not in BY_BLOCKS or problem.strategies:
        return False
    pairs = problem.neighbours == "replace" and bool(problem.design.free)
    return problem.design.several_kinds or (pairs and not measured_alone(problem.design))


def _product(aim: Aim) -> Solution:
    design = aim.design
    rows, sigma2 = optimise_product(design)
    bases = role_bases(design, rows)
    privacy = privacy_rows(design, bases, aim.neighbours)
    if aim.neighbours == "replace":
        sigma2 = np.where((design.terms.subset_roles < 0).all(axis=1), 0.0, sigma2)
    sigma2 = sigma2 * (spend(privacy, sigma2) / aim.budget)
    value = float(design.type_weight @ (type_matrix(design, bases) @ sigma2))
    return Solution(rows, bases, privacy, Share(sigma2, value, 0.0), rows)


def _rescaled(solution: Solution, factor: float) -> Solution:
    """The same plan at `factor` times the privacy cost, so at 1/factor of every variance."""
    share = solution.share
    scaled = Share(share.sigma2 / factor, share.value / factor, share.bound / factor)
    return replace(solution, share=scaled)


PLANNER: Final = Planner(("residual", "residual+", "product"), solve, refuses)
