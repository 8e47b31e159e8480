"""Plan the noise, publish the tables.

Near-optimal differentially private answers to linear queries, each with its exact error:
declare a schema and a workload, plan under a budget or for targets, release, and ask.
"""

from noiseplan.errors import NoiseplanError
from noiseplan.planning.objectives import (
    ConvexLoss,
    Objective,
    PNormVariance,
    TotalVariance,
    WorstVariance,
)
from noiseplan.planning.plan import Plan
from noiseplan.planning.planner import plan
from noiseplan.privacy import GDP, ApproxDP, Guarantee, PureDP, zCDP
from noiseplan.queries import (
    Custom,
    Factor,
    Identity,
    Levels,
    Prefix,
    Query,
    Ranges,
    Total,
    Workload,
)
from noiseplan.release.release import Release
from noiseplan.schema import Binned, Categorical, Ordinal, Schema

__version__ = "0.1.0"

__all__ = [
    "GDP",
    "ApproxDP",
    "Binned",
    "Categorical",
    "ConvexLoss",
    "Custom",
    "Factor",
    "Guarantee",
    "Identity",
    "Levels",
    "NoiseplanError",
    "Objective",
    "Ordinal",
    "PNormVariance",
    "Plan",
    "Prefix",
    "PureDP",
    "Query",
    "Ranges",
    "Release",
    "Schema",
    "Total",
    "TotalVariance",
    "Workload",
    "WorstVariance",
    "plan",
    "zCDP",
]
