"""Local differential privacy: users randomize what they report, and nobody need be trusted.

`plan(workload, epsilon)` designs what users report, for the queries that matter; its
`randomizer()` runs on devices, its `aggregator()` collects reports and answers queries.

Where to find what:

    user_types                  the kinds of users a workload tells apart, and its Gram matrix
    local_planner               arguments and their checks, the choice of a mechanism
    split_planner               domains too large for one matrix: tables and their shares
    localplan, plan_in_words    the plan, of one table or several, made-up users; its printed form
    strategies/                 chances of reports and the errors that follow
        strategy                  any table, the oracle of the others
        subsets, shifts           subsets of a size; all shifts of some patterns, block designs
        classical, additive       the mechanisms known by name; noise added to numbers
    search/                     the best strategy for a workload
        portfolio                 everything that is tried, and the best of it
        descent                   projected gradients, on any array library
        patterns, row_weights, generation   rows of two values, their weights, new rows
        least_favourable          weights against the worst prior: the exact minimax
        shift_search              the same for shifted patterns
        variance_bounds           what no mechanism can beat
    device/                     what runs on devices, NumPy only
        integer_chances           tables of whole numbers with their ε; exact draws
        randomizer, randomizer_file    values to reports; from a file, checked
        counting_randomizers, noisy_sums    the kinds of randomizers
        wire, memory              reports as bytes; repeated collection
    server/                     what collects
        aggregator                counting, merging, keeping on disk
        saved_reconstruction      files of plans and aggregators
        packets                   many reports from bytes that may be damaged
        reconstruction            answers, variances, covariances
        tails                     intervals that hold at every ε and number of users
        consistency               non-negative counts
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noiseplan._doors import on_first_use

if TYPE_CHECKING:
    from noiseplan.local.device.memory import Memory
    from noiseplan.local.device.randomizer import Randomizer
    from noiseplan.local.device.randomizer_file import load_randomizer
    from noiseplan.local.local_planner import compare, plan
    from noiseplan.local.localplan import LocalPlan, load_plan
    from noiseplan.local.server.aggregator import Aggregator, load_aggregator

# Devices load the randomizer alone: no planner, no SciPy.
_LAZY = {
    "Aggregator": "noiseplan.local.server.aggregator",
    "LocalPlan": "noiseplan.local.localplan",
    "Memory": "noiseplan.local.device.memory",
    "Randomizer": "noiseplan.local.device.randomizer",
    "compare": "noiseplan.local.local_planner",
    "load_aggregator": "noiseplan.local.server.aggregator",
    "load_plan": "noiseplan.local.localplan",
    "load_randomizer": "noiseplan.local.device.randomizer_file",
    "plan": "noiseplan.local.local_planner",
}


if not TYPE_CHECKING:  # a checker knows the names above, and that there are no others
    __getattr__ = on_first_use(__name__, _LAZY, globals())


def __dir__() -> list[str]:
    """The public names alone, for completion."""
    return sorted(__all__)


__all__ = [
    "Aggregator",
    "LocalPlan",
    "Memory",
    "Randomizer",
    "compare",
    "load_aggregator",
    "load_plan",
    "load_randomizer",
    "plan",
]
