"""Local differential privacy: users randomize what they report, and nobody need be trusted.

`plan(workload, epsilon)` designs what users report, for the queries that matter; its
`randomizer()` runs on devices, its `aggregator()` collects reports and answers queries.

Where to find what:

    types                       the kinds of users a workload tells apart, and its Gram matrix
    planner, localplan, report  arguments and their checks; the plan; its printed form
    split, splitplan            domains too large for one matrix: tables, shares, their plan
    planned                     what both kinds of plan have in common
    strategies/                 chances of reports and the errors that follow
        base                      any table, the oracle of the others
        subsets, shifts           subsets of a size; all shifts of some patterns
        classical, designs        the mechanisms known by name; block designs
        additive                  noise added to numbers
    search/                     the best strategy for a workload
        portfolio                 everything that is tried, and the best of it
        objective, projection, descent    gradients; on any array library (namespace)
        patterns, master, generation      rows of two values, their weights, new rows
        orbits, bounds            the same for shifted patterns; what no mechanism can beat
    device/                     what runs on devices, NumPy only
        integers, drawing         tables of whole numbers with their ε; exact draws
        randomizer                values to reports, and the file; kinds in counted, sums, split
        wire, memory, making      reports as bytes; repeated collection; from strategies and back
    server/                     what collects
        aggregator, keeping       counting and merging; on disk
        reconstruction, split     answers, variances, covariances; the same over several tables
        consistency, simulation   non-negative counts; made-up users
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noiseplan.local.device.memory import Memory
    from noiseplan.local.device.randomizer import Randomizer, load_randomizer
    from noiseplan.local.localplan import LocalPlan
    from noiseplan.local.planner import compare, plan
    from noiseplan.local.server.aggregator import Aggregator
    from noiseplan.local.server.aggregator_file import load_aggregator
    from noiseplan.local.splitplan import SplitPlan

# Devices load the randomizer alone: no planner, no SciPy.
_LAZY = {
    "Aggregator": "noiseplan.local.server.aggregator",
    "LocalPlan": "noiseplan.local.localplan",
    "Memory": "noiseplan.local.device.memory",
    "Randomizer": "noiseplan.local.device.randomizer",
    "SplitPlan": "noiseplan.local.splitplan",
    "compare": "noiseplan.local.planner",
    "load_aggregator": "noiseplan.local.server.aggregator_file",
    "load_randomizer": "noiseplan.local.device.randomizer",
    "plan": "noiseplan.local.planner",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'noiseplan.local' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


__all__ = [
    "Aggregator",
    "LocalPlan",
    "Memory",
    "Randomizer",
    "SplitPlan",
    "compare",
    "load_aggregator",
    "load_randomizer",
    "plan",
]
