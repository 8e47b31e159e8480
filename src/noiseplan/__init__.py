"""Plan the noise, publish the tables.

Near-optimal differentially private answers to linear queries, each with its exact error:
declare a schema and a workload, plan under a budget or for targets, release, and ask.
"""

import sys
from typing import TYPE_CHECKING

if sys.argv[:1] == ["-m"] and "noiseplan" in sys.orig_argv:
    # `python -m noiseplan` loads all below before its own first line: Ctrl-C shows no traceback.
    sys.excepthook = lambda kind, *found: (
        None if kind is KeyboardInterrupt else sys.__excepthook__(kind, *found)
    )

from noiseplan._doors import on_first_use
from noiseplan.errors import NoiseplanError
from noiseplan.planning.objectives import (
    RMSE,
    ConvexLoss,
    Objective,
    PNormVariance,
    RelativeError,
    TotalVariance,
    WorstVariance,
)
from noiseplan.privacy import GDP, ApproxDP, Guarantee, PureDP, zCDP
from noiseplan.queries import (
    Custom,
    Factor,
    Identity,
    Level,
    Levels,
    Prefix,
    Query,
    Ranges,
    Total,
    Workload,
)
from noiseplan.schema import Binned, Categorical, Hierarchical, Ordinal, Schema

if TYPE_CHECKING:
    from noiseplan import local
    from noiseplan.choosing import adaptive
    from noiseplan.comparing import compare
    from noiseplan.counting import TextFile
    from noiseplan.ledger import Ledger
    from noiseplan.mechanisms.partition.partition_settings import Dawa
    from noiseplan.planning.plan import Plan
    from noiseplan.planning.planner import plan
    from noiseplan.planning.workload_bounds import bounds
    from noiseplan.release.noisy_tables import NoisyTable, from_noisy_tables
    from noiseplan.release.release import Release
    from noiseplan.storage import load
    from noiseplan.strategies.given_rows import Strategy

__version__ = "0.1.0"

# Planning needs SciPy's sparse matrices, which take longer to load than all the rest: on first use.
_LAZY = {
    "Dawa": "noiseplan.mechanisms.partition.partition_settings",
    "Ledger": "noiseplan.ledger",
    "NoisyTable": "noiseplan.release.noisy_tables",
    "Plan": "noiseplan.planning.plan",
    "Release": "noiseplan.release.release",
    "Strategy": "noiseplan.strategies.given_rows",
    "TextFile": "noiseplan.counting",
    "adaptive": "noiseplan.choosing",
    "bounds": "noiseplan.planning.workload_bounds",
    "compare": "noiseplan.comparing",
    "from_noisy_tables": "noiseplan.release.noisy_tables",
    "load": "noiseplan.storage",
    "local": "noiseplan.local",  # a whole room
    "plan": "noiseplan.planning.planner",
}


if not TYPE_CHECKING:  # a checker knows the names above, and that there are no others
    __getattr__ = on_first_use(__name__, _LAZY, globals())


def __dir__() -> list[str]:
    """The public names alone, for completion."""
    return sorted(__all__)


__all__ = [
    "GDP",
    "RMSE",
    "ApproxDP",
    "Binned",
    "Categorical",
    "ConvexLoss",
    "Custom",
    "Dawa",
    "Factor",
    "Guarantee",
    "Hierarchical",
    "Identity",
    "Ledger",
    "Level",
    "Levels",
    "NoiseplanError",
    "NoisyTable",
    "Objective",
    "Ordinal",
    "PNormVariance",
    "Plan",
    "Prefix",
    "PureDP",
    "Query",
    "Ranges",
    "RelativeError",
    "Release",
    "Schema",
    "Strategy",
    "TextFile",
    "Total",
    "TotalVariance",
    "Workload",
    "WorstVariance",
    "adaptive",
    "bounds",
    "compare",
    "from_noisy_tables",
    "load",
    "local",
    "plan",
    "zCDP",
]
