"""Variances of every row of every query of a workload, queries alike handled together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from noiseplan.arrays import IntArray
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.blocks import BATCH_CELLS, batches
from noiseplan.queries import Workload


def variance_batches(mechanism: Mechanism, workload: Workload) -> Iterator[tuple[IntArray, Array]]:
    """Row variances in batches of equal shape: positions, and rows × positions."""
    for group in _groups(mechanism, workload):
        yield group, mechanism.variances_alike(workload, group)


def _groups(mechanism: Mechanism, workload: Workload) -> Iterator[IntArray]:
    """Queries alike, as many as have room for their rows at once."""
    for group in mechanism.alike_queries(workload):
        rows = workload.query(int(group[0])).rows
        for part in batches(len(group), rows, BATCH_CELLS):
            yield group[part]


def sums_and_largest(mechanism: Mechanism, workload: Workload) -> tuple[Array, Array]:
    """Of every query, the sum of its row variances and the largest of them."""
    examples, same = _examples(mechanism, workload)
    sums, largest = np.empty(len(examples)), np.empty(len(examples))
    some = workload.subset(examples)
    for group in _groups(mechanism, some):
        sums[group], largest[group] = mechanism.figures_alike(some, group)
    return sums[same], largest[same]


def _examples(mechanism: Mechanism, workload: Workload) -> tuple[IntArray, IntArray]:
    """One query of each kind that has the same variances, and of every query which one it is."""
    examples: list[IntArray] = []
    same = np.empty(len(workload), dtype=np.int64)
    for group in mechanism.alike_queries(workload):
        kind = mechanism.noise_alike(workload, group)
        first = np.unique(kind, return_index=True)[1]
        same[group] = kind + sum(map(len, examples))
        examples.append(group[first])
    return np.concatenate(examples), same
