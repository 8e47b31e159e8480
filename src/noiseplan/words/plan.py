"""A plan in words and figures: what `print(plan)` shows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.escaping import visible, visible_name
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.agreement import agreement
from noiseplan.noise.law import NAMED, SIMULATED
from noiseplan.planning.certify import (
    Certificate,
    bound_takes_long,
    known_certificate,
    usual_certificate,
)
from noiseplan.planning.objectives import (
    RMSE,
    PNormVariance,
    Recorded,
    TotalVariance,
    WorstVariance,
)
from noiseplan.planning.plan import total_is_exact
from noiseplan.planning.pure_bounds import lower_bounds
from noiseplan.privacy import ApproxDP
from noiseplan.privacy.doubts import NO_PROTECTION, epsilon_of
from noiseplan.texts import counted, duration, error_text, percent, percent_up, shortened
from noiseplan.words.privacy import (
    accounted_words,
    cost_words,
    decided_words,
    neighbours_words,
    words_for,
)

if TYPE_CHECKING:
    from noiseplan.planning.candidate import Considered
    from noiseplan.planning.plan import Plan, TableKind

SHOWN_KINDS = 12
# Measured on one core with 36,051 tables of 60 attributes: noisy numbers drawn and transformed in a
# second, and what every set of attributes takes beside that.
NUMBERS_PER_SECOND, SECONDS_PER_SET = 1.2e7, 1e-5
# The same of counting: records times tables in a second, of small tables (of up to so many cells)
# and of larger ones, and the memory that the engine takes for it.
SMALL_CELLS, SMALL_PER_SECOND, LARGE_PER_SECOND = 256, 2e9, 1e9
COUNTING_MEMORY, MILLION = "0.6 GB", 10**6
# Planners that choose nothing themselves: what other plans have in common, or tell together.
MADE_OF_OTHERS = ("common", "combined", "extended")


def _of_others(plan: Plan) -> bool:
    """Whether nothing was chosen for the plan; a user's strategy may have any name."""
    return plan.planner in MADE_OF_OTHERS and isinstance(plan.objective, Recorded)


# What is said of a plan, which is made from what is declared.
NO_DATA = "no data was read"
# What a release of pure DP means for others of the same people, where (ε, δ) was decided.
LATER = (
    "pure ε adds up release by release; to publish more of these people later, take\n"
    '              noise="discrete Gaussian", whose costs add up by squares'
)
# Certified gaps up to the first are near the best, beyond the second they do not tell how near, and
# beyond the third they say nothing.
NEAR, SOME_USE, NO_USE = 0.05, 1.0, 99.0
TOO_FAR = "too far below to tell how near the best this is"
# A second line of a fact, below the first.
BELOW = " " * 14
WIDTH = 100


def fairness_rows(plan: Plan) -> list[TableKind]:
    """One row per kind of table, the largest standard error first.

    An objective that adds up variances favours large tables; this is where to see what it costs the
    small ones.
    """
    return _kinds(plan, np.argsort(-_mean_variances(plan), kind="stable"))


def table_rows(plan: Plan) -> list[TableKind]:
    """One row per table, in the order of the workload."""
    kinds = _kinds(plan, np.arange(len(plan.type_variances)))
    types = plan.design.roles.type_of_query.tolist()
    rows = [kinds[kind].copy() for kind in types]
    for row, query in zip(rows, plan.workload, strict=True):
        row["table"], row["tables"] = query.name, 1
    return rows


def shown_rows(plan: Plan) -> list[TableKind]:
    """One row per kind of table, by the digits that are shown: equal ones in the workload's order,
    on any machine.
    """
    first = plan.design.roles.type_first
    shown = [float(f"{error:.4g}") for error in np.sqrt(_mean_variances(plan))]
    return _kinds(plan, np.lexsort((first, -np.array(shown))))


def kind_name(kind: TableKind) -> str:
    """The first table of a kind, and how many there are besides."""
    others = kind["tables"] - 1
    return f"{kind['table']} and {others:,} alike" if others else kind["table"]


def _mean_variances(plan: Plan) -> Array:
    return np.asarray(plan.type_variances / plan.design.type_rows)


def _kinds(plan: Plan, order: IntArray) -> list[TableKind]:
    design, mean = plan.design, _mean_variances(plan)
    first = design.roles.type_first
    return [
        {
            "table": plan.workload.query(int(first[t])).name,
            "tables": int(design.roles.type_count[t]),
            "rows": int(design.type_rows[t]),
            "weight": float(design.roles.type_weight[t]),
            "std_error": float(np.sqrt(mean[t])),
            "worst_std_error": _known(np.sqrt(plan.type_worst[t])),
        }
        for t in order
    ]


def _known(error: float) -> float | None:
    return None if np.isnan(error) else float(error)


def largest_text(error: float | None) -> str:
    """The largest standard error, where it is known."""
    return "–" if error is None or np.isnan(error) else error_text(error)


def describe(plan: Plan) -> str:
    """What `print(plan)` shows."""
    return visible("\n".join([*facts(plan), "", *_table(plan)]))


def facts(plan: Plan, read: str = NO_DATA) -> list[str]:
    """What is known of a plan beside its tables; `read` says what was read for it."""
    told = named_facts(plan, read)
    return [headline(plan), *(f"  {name:<11} {text}" for name, text in told.items())]


def headline(plan: Plan) -> str:
    """How much a plan is for."""
    rows = counted(plan.workload.rows, "row")
    return f"Plan for {counted(len(plan.workload), 'query', 'queries')}, {rows}"


def named_facts(plan: Plan, read: str = NO_DATA) -> dict[str, str]:
    """The same by name; a line break within a fact is followed by spaces."""
    exact = total_is_exact(plan) if plan.privacy.neighbours == "replace" else None
    return {
        "objective": _objective(plan, read),
        "privacy": _privacy(plan) + _no_protection(plan),
        "neighbours": neighbours_words(plan, exact),
        "error": _error(plan),
        "optimality": optimality_words(plan),
        **({"considered": _considered(plan.considered)} if plan.considered else {}),
        "measures": _measures(plan),
        "noise": noise_words(plan),
        **({"later": LATER} if takes_all_epsilon(plan) else {}),
    }


def takes_all_epsilon(plan: Plan) -> bool:
    """Return whether Laplace noise was taken for a budget in (ε, δ)."""
    return isinstance(plan.budget, ApproxDP) and plan.privacy.pure_epsilon is not None


def _objective(plan: Plan, read: str) -> str:
    if plan.noise == "given":
        return "none: the measurements were made elsewhere"
    if _of_others(plan):
        return str(plan.objective)
    planned = f"planned in {duration(plan.seconds)}, " if plan.seconds else ""
    return f"{aim(plan)}; {planned}{read}"


def aim(plan: Plan) -> str:
    """What a plan makes small, or how far it meets targets."""
    scale, reach = plan.target_scale, plan.objective.at_most
    if reach is not None:
        return f"least privacy cost at which the {goal_words(plan)} is at most {reach:.6g}"
    if scale is None:
        return f"least {goal_words(plan)}{_conditions_as_tables(plan)}"
    if scale < 1 - 1e-4:
        budget = "" if plan.budget is None else ", for the budget"  # none, or not saved
        return f"variance targets, all met with {scale:.2g} of the variance allowed{budget}"
    if scale <= 1 + 1e-6:
        return "variance targets at the least privacy cost, met"
    errors = f"standard errors are {math.sqrt(scale):.4g} times those asked for"
    return f"variance targets, all relaxed {scale:.4g}-fold to stay within the budget: {errors}"


def _privacy(plan: Plan) -> str:
    asked, spent = decided_words(plan), cost_words(plan.privacy)
    return f"{asked}:\n{BELOW}{spent}" if asked else spent


def _no_protection(plan: Plan) -> str:
    """A word where targets or budgets leave nothing of privacy but the name."""
    if not math.isfinite(plan.privacy.pcost):
        return ""
    return "; this protects nobody" if epsilon_of(plan.privacy) >= NO_PROTECTION else ""


def noise_words(plan: Plan) -> str:
    """What noise would be drawn, and what whole numbers cost."""
    if plan.noise == "given":
        return "as stated by the maker of the measurements"
    if plan.noise == "combined":
        return "that of several measurements, put together"
    what, told = NAMED[plan.noise].words
    if plan.noise in SIMULATED:
        return what + told
    told += accounted_words(plan.privacy)
    loss = percent(max(plan.rounding_loss, 0.0))
    fine = plan.mechanism.noise.exact
    where = "integers" if fine <= 1 else f"multiples of 1/{fine}"
    return f"{what} on {where}{told}; costs {loss} of variance"


def _error(plan: Plan) -> str:
    worst = float(np.sqrt(np.max(plan.type_worst)))
    largest = "" if np.isnan(worst) else f"; largest standard error {error_text(worst)}"
    return f"RMSE {error_text(plan.rmse)} over all rows{largest}"


def optimality_words(plan: Plan) -> str:
    """How near a plan is to the best, as far as that is proved."""
    if plan.noise == "given":
        return "the best linear unbiased answers from these measurements"
    if _of_others(plan):
        total = f"{_weighted(plan)}total variance {plan.total_variance:.6g}"
        return f"{total}, as the plans it comes from make it"
    if bound_takes_long(plan):
        value = f"{_made_small(plan)} {plan.total_variance:.6g}"
        call = lower_bounds(plan.privacy.law).call
        asked = f"a lower bound may take a minute: {call}, and print again"
        return f"{value}\n{BELOW}{asked}{_among_tables(plan)}"
    if plan.optimal and plan.targets is not None:
        return f"proved{_certified(plan)}: no linear Gaussian mechanism meets {_targets_met(plan)}"
    if plan.optimal:
        noise = words_for(plan.privacy).noise
        best = f"no linear {noise} mechanism has a lower {goal_words(plan)} at this privacy"
        return f"proved{_certified(plan)}: {best}"
    known = known_certificate(plan)
    if plan.gap is not None and known is not None and known.gap <= SOME_USE:
        what = "cost for these targets" if plan.targets is not None else goal_words(plan)
        best = f"the least {what} of any linear Gaussian mechanism"
        return f"{_within(known.gap)}, compared with {best}"
    return _standing(plan, usual_certificate(plan)) + _among_tables(plan)


def _among_tables(plan: Plan) -> str:
    """How far a plan of tables may be from the best of its kind, as a line of its own."""
    bound = plan.tables_bound
    if not bound:  # none, or nothing that is a number
        return ""
    gap = max(plan.total_variance / bound - 1.0, 0.0)
    return f"\n{BELOW}at most {percent_up(gap)}% above the best that tables measured so can do"


def _targets_met(plan: Plan) -> str:
    """What a plan for targets is the best at: their cost, or how far a budget goes."""
    scale = plan.target_scale or 1.0
    if 1 - 1e-4 <= scale <= 1 + 1e-6:
        return "these targets at a lower cost"
    return f"these targets times less than {scale:.4g} at this cost"


def _standing(plan: Plan, certificate: Certificate | None) -> str:
    """How far a plan may be from the best, as far as that is proved."""
    if certificate is None:
        return "not proved for this objective; plan.certify() says how good it is"
    symbol = "" if plan.targets is None else words_for(plan.privacy).least_symbol
    value = f"{_made_small(plan)}{symbol} {certificate.value:.6g}"
    if certificate.gap > NO_USE:
        return f"{value}; no bound of any use is known"
    if certificate.gap > SOME_USE:
        return f"{value}\n{BELOW}lower bound {certificate.bound:.6g}, {TOO_FAR}"
    figures = f"{value}, lower bound {certificate.bound:.6g}"
    return f"{_within(certificate.gap)}\n{BELOW}{figures}"


def proved_sentence(plan: Plan) -> str | None:
    """How far what a plan makes small may be above the least there is, as a sentence."""
    certificate = None if plan.noise == "given" else usual_certificate(plan)
    if certificate is None or not certificate.bound > 0:
        return None
    if plan.optimal and plan.targets is not None:
        return f"No linear mechanism meets {_targets_met(plan)}, which is proved."
    if plan.optimal:
        return "No linear mechanism does better, which is proved."
    if certificate.gap > SOME_USE:
        figures = f"{certificate.value:.6g}, and the lower bound {certificate.bound:.6g}"
        return f"The {_made_small(plan)} is {figures} is {TOO_FAR}."
    above = f"at most {percent_up(certificate.gap)} % above the least of any linear mechanism"
    return f"The {_made_small(plan)} is {above}, which is proved."


def _made_small(plan: Plan) -> str:
    if plan.targets is not None:
        return words_for(plan.privacy).least
    if isinstance(plan.objective, RMSE):
        return "total variance"  # figures for it are those of the total, without weights
    return goal_words(plan)


def goal_words(plan: Plan) -> str:
    """What a plan makes small, with a word where weights of queries are in it."""
    by_weight = isinstance(plan.objective, TotalVariance | WorstVariance | PNormVariance)
    if isinstance(plan.objective, RMSE) or not by_weight:
        return str(plan.objective)
    return _weighted(plan) + str(plan.objective)


def _weighted(plan: Plan) -> str:
    return "weighted " if (plan.workload.columns.weights != 1).any() else ""


def _conditions_as_tables(plan: Plan) -> str:
    """A word where every condition counts as much as a whole table, as `weighted("tables")` has it.

    The total is one row too, and a table like any other.
    """
    if not isinstance(plan.objective, TotalVariance) or not _weighted(plan):
        return ""
    rows, columns = plan.workload.sizes, plan.workload.columns
    conditions = (rows == 1) & (columns.attributes >= 0).any(axis=1)
    each, tables = (columns.weights * rows)[conditions], (columns.weights * rows)[rows > 1]
    alike = len(each) > 0 and np.allclose(each, each[0], rtol=1e-9, atol=0.0)
    if not alike or not np.isclose(tables, each[0], rtol=1e-9, atol=0.0).any():
        return ""
    return f", {'each of ' * (len(each) > 1)}{counted(len(each), 'condition')} counting as a table"


def _considered(planners: Considered) -> str:
    """The same in lines that fit a terminal: the other noise begins one."""
    lines = [""]
    for one in considered_words(planners).split("; "):
        longer = f"{lines[-1]}; {one}" if lines[-1] else one
        if len(longer) < WIDTH - len(BELOW) and not one.startswith("discrete "):
            lines[-1] = longer
        else:
            lines.append(one)
    return f";\n{BELOW}".join(filter(None, lines))


def considered_words(planners: Considered) -> str:
    """The planner that was taken, and why others were not.

    Examples
    --------
    >>> considered_words((("residual", "taken"), ("optimal", "not tried, 2,816 cells")))
    'residual (taken); optimal: not tried, 2,816 cells'
    """
    (name, reason), *others = planners
    return "; ".join([f"{name} ({reason})", *(f"{other}: {why}" for other, why in others)])


def _certified(plan: Plan) -> str:
    """The certified gap, where a plan was made to have one."""
    if plan.gap is None or plan.planner == "auto":
        return ""
    return f" to {plan.gap:.1g}"


def _within(gap: float) -> str:
    """A certified gap in words: what is reached above what none is below, as `certify` has it.

    Examples
    --------
    >>> _within(0.0108), _within(0.83)
    ('optimal to 1.1% (certified)', 'at most 83.0% above the best (certified)')
    """
    if gap <= NEAR:
        return f"optimal to {percent_up(gap)}% (certified)"
    return f"at most {percent_up(gap)}% above the best (certified)"


def _measures(plan: Plan) -> str:
    seconds = plan.measured_numbers / NUMBERS_PER_SECOND + _sets(plan) * SECONDS_PER_SET
    from noiseplan.strategies.catalogue import asked_by  # charts start without it

    chosen = words_for(plan.privacy).planner or asked_by(plan.planner) is not None
    how = f"{plan.planner}: " if chosen else ""
    drawing = f"{_bytes(plan.memory)}, about {duration(seconds)} to draw"
    agreeing = agreement(plan.mechanism, plan.workload)
    below = f"\n{BELOW}{agreeing}" if agreeing else ""
    return f"{how}{plan.mechanism.describe()}; {drawing}{_counting(plan)}{below}"


def _counting(plan: Plan) -> str:
    """How long counting takes, where that is more than a moment; records are not known here."""
    tables = _sets(plan)
    small = plan.measured_numbers <= SMALL_CELLS * tables
    seconds = tables * MILLION / (SMALL_PER_SECOND if small else LARGE_PER_SECOND)
    if seconds < 1:
        return ""
    return (
        f";\n{BELOW}counting its {tables:,} tables comes before that: about {duration(seconds)} "
        f"for each million records,\n{BELOW}and some {COUNTING_MEMORY} whatever their number"
    )


def _sets(plan: Plan) -> int:
    """How many sets of attributes are counted and measured."""
    return sum(len(some) for some in plan.mechanism.sets)


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def _table(plan: Plan) -> list[str]:
    rows = shown_rows(plan)
    half, hidden = SHOWN_KINDS // 2, len(rows) - SHOWN_KINDS
    shown = rows if hidden <= 1 else rows[:half] + rows[-half:]
    names = [
        shortened(visible_name(r["table"]), 40) + " and alike" * (r["tables"] != 1) for r in shown
    ]
    width = max(len("table"), *map(len, names))
    columns = ("tables", "rows each", "std. error", "largest")
    lines = [f"  {'table':<{width}}  " + "  ".join(f"{name:>10}" for name in columns)]
    for i, (name, r) in enumerate(zip(names, shown, strict=True)):
        if hidden > 1 and i == half:
            lines.append(f"  … {hidden:,} kinds of tables between …")
        lines.append(
            f"  {name:<{width}}  {r['tables']:>10,}  {r['rows']:>10,}  "
            f"{error_text(r['std_error']):>10}  {largest_text(r['worst_std_error']):>10}"
        )
    return lines
