"""What people want to know: factors on attributes, queries, workloads."""

from noiseplan.queries.factors import Custom, Factor, Identity, Prefix, Ranges, Total
from noiseplan.queries.levels import Levels
from noiseplan.queries.named_levels import Level
from noiseplan.queries.query import Query
from noiseplan.queries.workload import Workload

__all__ = [
    "Custom",
    "Factor",
    "Identity",
    "Level",
    "Levels",
    "Prefix",
    "Query",
    "Ranges",
    "Total",
    "Workload",
]
