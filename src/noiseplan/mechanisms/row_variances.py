"""Variances of every row of every query of a workload, queries alike handled together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from noiseplan.arrays import IntArray, unique_rows
from noiseplan.matrices import kronecker_apply
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.blocks import batches, subset_patterns
from noiseplan.mechanisms.residual import BATCH_CELLS, ResidualMechanism
from noiseplan.queries import Query, Workload


def variance_batches(mechanism: Mechanism, workload: Workload) -> Iterator[tuple[IntArray, Array]]:
    """Row variances in batches of equal shape: positions, and rows × positions."""
    for group in alike_queries(mechanism, workload):
        query = workload.query(int(group[0]))
        for part in batches(len(group), query.rows, BATCH_CELLS):
            if isinstance(mechanism, ResidualMechanism) and query.joint is None:
                sets = attribute_sets(workload, query, group[part])
                yield group[part], _alike(mechanism, query, sets)
            else:
                each = [mechanism.variance(workload.query(int(q))) for q in group[part]]
                yield group[part], np.array(each).T


def _alike(mechanism: ResidualMechanism, query: Query, sets: IntArray) -> Array:
    """Row variances of one query asked of many sets of attributes, rows × sets."""
    pairs = []
    for name, factor in zip(query.attributes, query.matrices(), strict=True):
        basis = mechanism.basis(name)
        summed = factor.matmul(basis.centre[:, None])[:, 0] ** 2
        pairs.append(np.column_stack([summed, basis.residual_rows(factor)]))
    width = sets.shape[1]
    noise = noise_inside(mechanism, sets)
    tensor = np.where(np.isfinite(noise), noise, 0.0).reshape((2,) * width + (len(sets),))
    return kronecker_apply(pairs, tensor).reshape(query.rows, len(sets))


def noise_inside(mechanism: ResidualMechanism, sets: IntArray) -> Array:
    """σ²_A of every A inside each set, 2^width × sets; infinite where it is not measured."""
    width = sets.shape[1]
    found = np.empty((2,) * width + (len(sets),))
    for pattern in subset_patterns(width):
        place = tuple(int(i in pattern) for i in range(width))
        found[place] = mechanism.blocks.variance(sets[:, list(pattern)])
    return found.reshape(-1, len(sets))


def sums_and_largest(mechanism: Mechanism, workload: Workload) -> tuple[Array, Array]:
    """Of every query, the sum of its row variances and the largest of them."""
    examples, same = _examples(mechanism, workload)
    sums, largest = np.empty(len(examples)), np.empty(len(examples))
    for positions, rows in variance_batches(mechanism, workload.subset(examples)):
        sums[positions], largest[positions] = rows.sum(axis=0), rows.max(axis=0)
    return sums[same], largest[same]


def _examples(mechanism: Mechanism, workload: Workload) -> tuple[IntArray, IntArray]:
    """One query of each kind that has the same variances, and of every query which one it is.

    Queries alike have them if the noise on every residual inside is the same.
    """
    examples: list[IntArray] = []
    same = np.empty(len(workload), dtype=np.int64)
    for group in alike_queries(mechanism, workload):
        query, kind = workload.query(int(group[0])), np.arange(len(group))
        if isinstance(mechanism, ResidualMechanism) and query.joint is None:
            noise = noise_inside(mechanism, attribute_sets(workload, query, group))
            kind = np.unique(noise, axis=1, return_inverse=True)[1].ravel()
        first = np.unique(kind, return_index=True)[1]
        same[group] = kind + sum(map(len, examples))
        examples.append(group[first])
    return np.concatenate(examples), same


def alike_queries(mechanism: Mechanism, workload: Workload) -> list[IntArray]:
    """Queries with the same factors on attributes with the same bases; one by one without."""
    if not isinstance(mechanism, ResidualMechanism):
        return list(np.arange(len(workload))[:, None])
    columns = workload.columns
    bases = np.append(mechanism.blocks.basis_of, -1)[columns.attributes]
    named = columns.attributes >= 0  # an attribute without a basis is no padding
    _, kind = unique_rows(np.column_stack([bases, named, columns.factors, columns.joint]))
    order = np.argsort(kind, kind="stable")
    return np.split(order, np.cumsum(np.bincount(kind))[:-1])


def attribute_sets(workload: Workload, query: Query, group: IntArray) -> IntArray:
    """The attributes of some queries alike, a set a row."""
    return workload.columns.attributes[group, : len(query.attributes)]
