"""A data-aware plan and its release in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from noiseplan.escaping import visible_name
from noiseplan.mechanisms.partition.bucket_tree import storey_price
from noiseplan.mechanisms.partition.mechanism import PartitionMeasurements, partition_of
from noiseplan.mechanisms.partition.partition_settings import COMPARED, Comparison
from noiseplan.noise.law import NAMED, SIMULATED
from noiseplan.privacy import Guarantee
from noiseplan.privacy.budgets import Additive
from noiseplan.privacy.rounding import text_up
from noiseplan.texts import counted
from noiseplan.words.privacy import (
    accounted_words,
    brief_cost,
    cost_words,
    counted_words,
    neighbours_words,
)

if TYPE_CHECKING:
    from noiseplan.planning.plan import Plan
    from noiseplan.release.release import Release

LENGTHS: Final = {
    "halves": "by halving",
    "powers": "of powers of two",
    "every": "of any length",
}

TWO: Final = (
    '  advice       two attributes: where most cells differ from the next, planner="auto" is '
    "better,\n               the more so the more cells; nz.compare on similar public data tells"
)


def describe(plan: Plan) -> str:
    """What `print(plan)` shows."""
    mechanism = partition_of(plan.mechanism)
    line, spending = mechanism.line, mechanism.spending
    cells, longest = len(line.order), spending.selector.longest
    along = "" if len(line.asked) == 1 else ", along a Hilbert curve"
    lengths = LENGTHS[mechanism.settings.lengths]
    lines = [
        f"Data-aware plan for {_what_is_asked(plan)}",
        f"  cells        {cells:,} of {visible_name(' × '.join(line.asked))}{along}",
        f"  privacy      {cost_words(plan.privacy)}",
        f"  neighbours   {neighbours_words(plan)}",
        *_compared(spending.comparison),
        f"  first        buckets {lengths}, at most {longest:,} cells, drawn by the exponential "
        f"mechanism at ε = {text_up(spending.selector.epsilon)}",
        f"  second       their totals, planned for the workload within {_amount(spending.second)}",
    ]
    if spending.gauge is not None:
        lines.append(
            f"  gauge        how uneven the buckets are, at "
            f"{brief_cost(storey_price(spending.gauge))}"
        )
    if len(line.asked) > 1 and cells >= COMPARED:
        lines.append(TWO)
    return "\n".join(
        [
            *lines,
            f"  noise        {noise_words(plan)}",
            "  error        depends on the data, and answers are biased: a release estimates it",
        ]
    )


def _compared(comparison: Comparison | None) -> list[str]:
    if comparison is None:
        return []
    return [
        f"  compare      what buckets cost with what single cells cost, at "
        f"{brief_cost(storey_price(comparison.noise))}; where no buckets pay,",
        f"               single cells are measured, within {_amount(comparison.cells)}",
    ]


def describe_release(release: Release) -> str:
    """What `print(release)` shows."""
    line, measured = partition_of(release.plan.mechanism).line, release.measurements
    assert isinstance(measured, PartitionMeasurements)  # as its mechanism made them
    some = [] if release.choice is None else [f"  counted  {counted_words(release.plan)}"]
    return "\n".join(
        [
            f"Data-aware release of {_what_is_asked(release.plan)}",
            f"  privacy  {cost_words(release.plan.privacy)}, spent once",
            f"  noise    {release.brand}",
            f"  holds    {release.buckets:,} buckets of {len(line.order):,} cells, "
            f"{counted(measured.buckets.numbers, 'noisy number')}",
            *some,
            f"  errors   {_errors(measured)}",
            f"  ask      .table({line.asked[0]!r}), .answer(query), .counts",
        ]
    )


def _errors(measured: PartitionMeasurements) -> str:
    """What the stated errors are."""
    if measured.buckets.buckets == len(measured.line.order):
        return "of the noise alone: every cell is a bucket of its own, so nothing is biased"
    known = "together was" if measured.gauge.measured else "was not"
    return (
        "estimated: answers are biased where buckets are uneven; how uneven they are "
        f"{known} measured"
    )


def _what_is_asked(plan: Plan) -> str:
    """How many queries, and how many rows."""
    queries = counted(len(plan.workload), "query", "queries")
    return f"{queries}, {plan.workload.rows:,} rows"


def _amount(budget: Additive) -> str:
    return brief_cost(Guarantee.of_budget(budget))


def noise_words(plan: Plan) -> str:
    """What noise would be drawn."""
    accounted = "" if plan.noise in SIMULATED else accounted_words(plan.privacy)
    return "".join(NAMED[plan.noise].words) + accounted
