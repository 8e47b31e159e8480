"""A local plan in words and figures: what `print(plan)` shows."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from noiseplan.escaping import visible
from noiseplan.privacy.rounding import text_up
from noiseplan.texts import duration, percent

if TYPE_CHECKING:
    from noiseplan.local.localplan import LocalPlan

# Targets shown: the root mean squared error of a row, as a share of all users.
SHOWN_ERRORS = (0.1, 0.03, 0.01, 0.003)
# Tables of a split that are listed.
SHOWN_TABLES = 40
# A bound that much below says nothing.
LARGEST_GAP = 100.0


def described(plan: LocalPlan) -> str:
    """The plan on some lines."""
    if plan.split:
        head, facts = "and reports on one of several tables", _split(plan)
    else:
        head, facts = "nobody is trusted", _facts(plan)
    below = _tables(plan) if plan.split else _users(plan)
    lines = [f"  {name:<11} {text}" for name, text in facts.items()]
    return visible("\n".join([f"Local plan: every user randomizes, {head}", *lines, "", *below]))


def _facts(plan: LocalPlan) -> dict[str, str]:
    types, strategy, randomizer = plan.types, plan.strategy, plan.randomizer()
    told = f", {types.count:,} told apart" if types.merged else ""
    delta = getattr(strategy, "delta", 0.0)
    beside = f", δ = {delta:g}" if delta else ""
    return {
        "asks": f"{plan.workload.rows:,} rows over {' × '.join(types.schema.names)}: "
        f"{len(types.kind):,} cells{told}",
        "privacy": f"ε = {text_up(plan.epsilon_met)}{beside} for one report, recomputed from the "
        f"integer table",
        "mechanism": f"{strategy.name}: {short_number(strategy.outputs)} possible reports",
        "variance": f"per user and row {plan.worst_variance / types.rows:.4g} in the worst case, "
        f"{plan.average_variance / types.rows:.4g} on average over types",
        "optimality": _optimality(plan),
        "report": f"{randomizer.report_bytes} bytes; the device's file has "
        f"{len(randomizer.to_bytes()):,} bytes",
        "planned": f"in {duration(plan.seconds)}, no data was read",
    }


def _split(plan: LocalPlan) -> dict[str, str]:
    asked, worst, mean = plan.workload, plan.worst_variance, plan.average_variance
    return {
        "asks": f"{asked.rows:,} rows over {len(asked.schema)} attributes, "
        f"{asked.schema.size:,} cells in all",
        "privacy": f"ε = {text_up(plan.epsilon_met)} for one report, recomputed from the integer "
        f"tables",
        "variance": f"per user and row {worst / plan.rows:.4g} at worst, "
        f"{mean / plan.rows:.4g} on average over cells",
        "splitting": f"at most {1 + plan.gap:.3g} times the variance of any mechanism",
        "users": f"{plan.users_needed():,} for a mean error of 10% of all users per row",
    }


def _tables(plan: LocalPlan) -> list[str]:
    lines = [f"  {'share of users':>14}  {'cells':>7}  table"]
    for part in plan.parts[:SHOWN_TABLES]:
        cells, names = len(part.types.kind), " × ".join(part.names)
        lines.append(f"  {part.share:>14.1%}  {cells:>7,}  {names}")
    more = len(plan.parts) - SHOWN_TABLES
    return [*lines, f"  and {more:,} tables more: plan.parts"] if more > 0 else lines


def short_number(count: int) -> str:
    """A number of outputs, or about how many digits it has."""
    return f"{count:,}" if count < 10**12 else f"about 10^{len(str(count)) - 1}"


def _optimality(plan: LocalPlan) -> str:
    kind = "worst" if plan.worst else "average"
    if plan.gap < 1e-6:
        return f"proved: no unbiased mechanism has a lower {kind} variance"
    if plan.gap > LARGEST_GAP:
        return f"no useful bound is known on the {kind} variance at this ε"
    if plan.gap > 1:
        return f"{kind} variance at most {1 + plan.gap:.2g} times the lower bound"
    return (
        f"{kind} variance at most {percent(plan.gap, 2)} above the lower bound "
        f"{plan.lower_bound / plan.types.rows:.4g}"
    )


def _users(plan: LocalPlan) -> list[str]:
    names = ("error of a row", "users, worst case", "on average", "lower bound")
    lines = ["  " + "  ".join(f"{name:>17}" for name in names)]
    for error in SHOWN_ERRORS:
        cases = [plan.samples(error**2, case=c) for c in ("worst", "average", "bound")]
        cells = [f"{error:.1%}", *(f"{ceil(case * (1 - 1e-12)):,}" for case in cases)]
        lines.append("  " + "  ".join(f"{cell:>17}" for cell in cells))
    return [*lines, "  errors are root mean squares over the rows, as shares of all users"]
