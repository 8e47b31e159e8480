"""Estimates and variances of all rows of a workload at once, one after the other."""

from __future__ import annotations

import numpy as np

from noiseplan.arrays import IntArray, unique_rows
from noiseplan.errors import PlanError
from noiseplan.matrices import kronecker_apply
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.blocks import subset_patterns
from noiseplan.mechanisms.mechanism import Mechanism
from noiseplan.mechanisms.residual import ResidualMechanism
from noiseplan.queries import Workload
from noiseplan.release.release import Release

LIMIT = 50_000_000


def estimates(release: Release, workload: Workload) -> Array:
    """The estimate of every row of every query, in the workload's order."""
    starts = _starts(workload)
    result = np.empty(starts[-1])
    mechanism = release.plan.mechanism
    for positions, values in mechanism.batches(release.measurements, workload):
        rows = values.reshape(-1, values.shape[-1])
        result[starts[positions][:, None] + np.arange(len(rows))] = rows.T
    return result


def variances(mechanism: Mechanism, workload: Workload) -> Array:
    """The variance of every row of every query that the mechanism answers, in the same order."""
    starts = _starts(workload)
    result = np.empty(starts[-1])
    if not isinstance(mechanism, ResidualMechanism):
        for position, query in enumerate(workload):
            result[starts[position] : starts[position + 1]] = mechanism.variance(query)
        return result
    columns = workload.columns
    bases = np.append(mechanism.blocks.basis_of, -1)[columns.attributes]
    _, kind = unique_rows(np.column_stack([bases, columns.factors, columns.joint]))
    order = np.argsort(kind, kind="stable")
    for group in np.split(order, np.cumsum(np.bincount(kind))[:-1]):
        query = workload.query(int(group[0]))
        if query.joint is not None:
            for position in group:
                found = mechanism.variance(workload.query(int(position)))
                result[starts[position] : starts[position + 1]] = found
            continue
        pairs = [
            np.column_stack([factor.matmul(basis.centre[:, None])[:, 0] ** 2,
                             basis.residual_rows(factor)])
            for factor, basis in zip(query.matrices(), map(mechanism.basis, query.attributes),
                                     strict=True)
        ]  # fmt: skip
        sets = columns.attributes[group, : len(query.attributes)]
        rows = kronecker_apply(pairs, _noise(mechanism, sets)).reshape(query.rows, len(group))
        result[starts[group][:, None] + np.arange(query.rows)] = rows.T
    return result


def _noise(mechanism: ResidualMechanism, sets: IntArray) -> Array:
    """σ²_A of every A inside each set, shape (2, …, 2, sets); zero where it is not measured."""
    width = sets.shape[1]
    tensor = np.zeros((2,) * width + (len(sets),))
    for pattern in subset_patterns(width):
        found = mechanism.blocks.variance(sets[:, list(pattern)])
        place = tuple(int(i in pattern) for i in range(width))
        tensor[place] = np.where(np.isfinite(found), found, 0.0)
    return tensor


def _starts(workload: Workload) -> IntArray:
    if workload.rows > LIMIT:
        raise PlanError(
            f"a rule over {workload.rows:,} rows: the limit is {LIMIT:,}. Name the tables to judge "
            f"by, SignalToNoise(…, cells=workload)"
        )
    return np.concatenate([[0], np.cumsum(workload.sizes)])
