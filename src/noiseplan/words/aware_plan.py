"""A data-aware plan in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noiseplan.escaping import visible_name
from noiseplan.mechanisms.partition.bucket_tree import storey_price
from noiseplan.privacy import PureDP, zCDP
from noiseplan.privacy.rounding import text_up
from noiseplan.texts import counted
from noiseplan.words.privacy import FLOATING, cost_words, neighbours_words

if TYPE_CHECKING:
    from noiseplan.aware.plan import AwarePlan


def describe(plan: AwarePlan) -> str:
    """What `print(plan)` shows."""
    line, spending = plan.mechanism.line, plan.mechanism.spending
    candidates = spending.selector.candidates
    cells, longest = len(line.order), int(candidates.lengths[-1])
    along = "" if len(line.asked) == 1 else ", along a Hilbert curve"
    lengths = "powers of two" if plan.settings.lengths == "powers" else "any length"
    lines = [
        f"Data-aware plan for {what_is_asked(plan)}",
        f"  cells        {cells:,} of {visible_name(' × '.join(line.asked))}{along}",
        f"  privacy      {cost_words(plan.privacy)}",
        f"  neighbours   {neighbours_words(plan.privacy, plan.max_rows)}",
        f"  first        buckets of {lengths}, at most {longest:,} cells, drawn by the exponential "
        f"mechanism at ε = {text_up(spending.selector.epsilon)}",
        f"  second       their totals, planned for the workload within {_amount(spending.second)}",
    ]
    if spending.gauge is not None:
        cost = storey_price(spending.gauge)
        amount = (
            f"ε = {text_up(cost.pure_epsilon)}" if cost.pure_epsilon else f"ρ = {text_up(cost.rho)}"
        )
        lines.append(f"  gauge        how uneven the buckets are, at {amount}")
    return "\n".join(
        [
            *lines,
            f"  noise        {_noise(plan)}",
            "  error        depends on the data, and answers are biased: a release estimates it",
        ]
    )


def what_is_asked(plan: AwarePlan) -> str:
    """How many queries, and how many rows."""
    queries = counted(len(plan.workload), "query", "queries")
    return f"{queries}, {plan.workload.rows:,} rows"


def _amount(budget: PureDP | zCDP) -> str:
    if isinstance(budget, PureDP):
        return f"ε = {text_up(budget.epsilon)}"
    return f"ρ = {text_up(budget.rho)}"


def _noise(plan: AwarePlan) -> str:
    return {
        "discrete Laplace": "exact discrete Laplace",
        "discrete": "exact discrete Gaussian, accounted by zCDP",
        **FLOATING,
    }[plan.noise]
