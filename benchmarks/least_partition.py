"""The partition of least cost, by dynamic programming: the yardstick, without any privacy.

C[0] = 0, C[j] = min over buckets that end at j of C[j − L] + cost (Li, section 6.3.2).
"""

from __future__ import annotations

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.partition.interval_spread import IntervalCosts
from noiseplan.mechanisms.partition.partition_prior import Candidates


def least_cost_partition(candidates: Candidates, costs: Array) -> tuple[float, IntArray]:
    """The least sum of costs of buckets that cover all cells, and its edges.

    `costs` belong to `candidates.intervals`, in that order.
    """
    lengths, steps = candidates.lengths.tolist(), candidates.steps.tolist()
    offsets, cost = candidates.intervals[2].tolist(), costs.tolist()
    best, last = [0.0], [0]
    for place in range(1, candidates.cells + 1):
        found, taken = np.inf, 0
        for number, length in enumerate(lengths):
            start = place - length
            if start < 0:
                break
            if start % steps[number] == 0:
                value = best[start] + cost[offsets[number] + start // steps[number]]
                if value < found:
                    found, taken = value, length
        best.append(found)
        last.append(taken)
    edges = [candidates.cells]
    while edges[-1]:
        edges.append(edges[-1] - last[edges[-1]])
    return best[-1], np.array(edges[::-1], dtype=np.int64)


def partition_cost(costs: IntervalCosts, edges: IntArray, charge: float) -> float:
    """Σ deviation + charge for each bucket; the charge is 1/ε₂ (Li, equation 6.4)."""
    deviations = costs.deviation(edges[:-1], edges[1:])
    return float(deviations.sum() + charge * (len(edges) - 1))
