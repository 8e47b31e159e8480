"""Local differential privacy: users randomize what they report, and nobody need be trusted.

`plan(workload, epsilon)` designs what users report, for the queries that matter; its
`randomizer()` runs on devices, its `aggregator()` collects reports and answers queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noiseplan.local.aggregator import Aggregator
    from noiseplan.local.keeping import load_aggregator
    from noiseplan.local.localplan import LocalPlan
    from noiseplan.local.memory import Memory
    from noiseplan.local.planner import compare, plan
    from noiseplan.local.randomizer import Randomizer, load_randomizer
    from noiseplan.local.splitplan import SplitPlan

# Devices load the randomizer alone: no planner, no SciPy.
_LAZY = {
    "Aggregator": "noiseplan.local.aggregator",
    "LocalPlan": "noiseplan.local.localplan",
    "Memory": "noiseplan.local.memory",
    "Randomizer": "noiseplan.local.randomizer",
    "SplitPlan": "noiseplan.local.splitplan",
    "compare": "noiseplan.local.planner",
    "load_aggregator": "noiseplan.local.keeping",
    "load_randomizer": "noiseplan.local.randomizer",
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
