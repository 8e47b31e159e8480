"""Of which budget a plan would be whose rest, after an earlier release, costs no more than is left.

With t times the budget a plan measures the same rows with variances of 1/t. What is left of it
costs c(t) then, which rises from c(0) = 0 and is convex where precisions are compared one by one:
Σ_A w_A max(0, t/σ²_A − d_A), d_A being those of the earlier release. So the chord between a share
that fits and one that does not leads to one that fits. Nothing is believed of that: each share that
is named was tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from noiseplan.choosing.joined_plans import guarantee_of
from noiseplan.choosing.mechanism_family import Family
from noiseplan.choosing.same_rows import with_variances_times
from noiseplan.errors import PlanError
from noiseplan.mechanisms.base import Mechanism
from noiseplan.noise.law import MOST_LOSS
from noiseplan.planning.objectives import ConvexLoss
from noiseplan.planning.plan import Plan
from noiseplan.privacy import Budget, zCDP
from noiseplan.privacy.rounding import text_down

STEPS: Final = 14
# Of the whole plan's cost: by so much a plan that is made anew may differ from one with other
# noise, since noise is rounded.
ROUNDING: Final = 1e-6
NEARLY: Final = 1e-6  # of the room: what may be left of it


def budget_that_fits(
    plan: Plan, have: Mechanism, family: Family[Any], left: Budget | None
) -> tuple[str, str] | None:
    """Return the budget of a plan like this one of which `left` pays for what `have` does not tell.

    As a call and as a line of a study. None where other budgets would share noise in other ways
    (targets, losses of one's own), where nothing is known of the mechanism with other noise, and
    where what fits would measure nothing.
    """
    whole = plan.privacy.rho
    if left is None:
        return None
    by_zcdp = isinstance(left, zCDP)
    room = left.gaussian_pcost() / 2 / (1.0 if by_zcdp else MOST_LOSS)
    if plan.targets is not None or isinstance(plan.objective, ConvexLoss):
        return None

    def cost(share: float) -> float:
        return _cost_of_rest(plan, have, family, share) + ROUNDING * whole

    share = _largest_share(cost, room)
    rho = float(text_down(share * whole)) if share > 0 else 0.0
    if not rho or not ROUNDING * whole < cost(rho / whole) <= room:
        return None
    if by_zcdp:
        return f"zCDP({text_down(rho)})", f"zcdp = {text_down(rho)}"
    mu = text_down(math.sqrt(2 * rho * MOST_LOSS))
    return f"GDP({mu})", f"gdp = {mu}"


def _cost_of_rest(plan: Plan, have: Mechanism, family: Family[Any], share: float) -> float:
    """ρ of what is left of the plan with such a share of its budget; infinite if not known."""
    target = with_variances_times(plan.mechanism, 1.0 / share)
    if target is None:
        return math.inf
    try:
        rest = family.rest(target, family.shared(target, have))
    except PlanError:
        return math.inf
    return 0.0 if rest is None else guarantee_of(rest, plan).rho


def _largest_share(cost: Callable[[float], float], room: float) -> float:
    """Nearly the largest share below one that costs no more than `room`; 0 if none was found.

    By the chord and by halving, in turn: the chord is exact where the cost is a line, and slow at
    a bend.
    """
    low, high, least, most = 0.0, 1.0, 0.0, cost(1.0)
    aim = room * (1 - NEARLY)  # below the room, so that the end of a chord is not just above it
    for step in range(STEPS):
        if room - least <= 2 * NEARLY * room:
            break
        if not math.isfinite(most) or step % 2:
            share = (low + high) / 2
        else:
            share = low + (high - low) * (aim - least) / (most - least)
        found = cost(share)
        if found <= room:
            low, least = share, found
        else:
            high, most = share, found
    return low
