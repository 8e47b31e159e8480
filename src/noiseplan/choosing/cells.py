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
from noiseplan.queries import Query, Workload
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
    for group in _groups(mechanism, workload):
        query = workload.query(int(group[0]))
        if isinstance(mechanism, ResidualMechanism) and query.joint is None:
            rows = _alike(mechanism, query, _sets(workload, query, group))
        else:
            rows = np.array([mechanism.variance(workload.query(int(q))) for q in group]).T
        result[starts[group][:, None] + np.arange(query.rows)] = rows.T
    return result


def require_all(mechanism: Mechanism, workload: Workload) -> None:
    """Raise `UnanswerableError` unless the mechanism answers every query of a workload."""
    for group in _groups(mechanism, workload):
        query = workload.query(int(group[0]))
        mechanism.require(query)
        if isinstance(mechanism, ResidualMechanism):
            # The first answers for all whose residuals are measured; the others for themselves.
            sets = _sets(workload, query, group)
            inner = (sets[:, list(p)] for p in subset_patterns(sets.shape[1]))
            measured = np.all([np.isfinite(mechanism.blocks.variance(s)) for s in inner], axis=0)
            for position in group[~measured]:
                mechanism.require(workload.query(int(position)))


def _groups(mechanism: Mechanism, workload: Workload) -> list[IntArray]:
    """Queries with the same factors on attributes with the same bases; one by one without."""
    if not isinstance(mechanism, ResidualMechanism):
        return list(np.arange(len(workload))[:, None])
    columns = workload.columns
    bases = np.append(mechanism.blocks.basis_of, -1)[columns.attributes]
    _, kind = unique_rows(np.column_stack([bases, columns.factors, columns.joint]))
    order = np.argsort(kind, kind="stable")
    return np.split(order, np.cumsum(np.bincount(kind))[:-1])


def _sets(workload: Workload, query: Query, group: IntArray) -> IntArray:
    return workload.columns.attributes[group, : len(query.attributes)]


def _alike(mechanism: ResidualMechanism, query: Query, sets: IntArray) -> Array:
    """Row variances of one query asked of many sets of attributes, rows × sets."""
    pairs = []
    for name, factor in zip(query.attributes, query.matrices(), strict=True):
        basis = mechanism.basis(name)
        summed = factor.matmul(basis.centre[:, None])[:, 0] ** 2
        pairs.append(np.column_stack([summed, basis.residual_rows(factor)]))
    return kronecker_apply(pairs, _noise(mechanism, sets)).reshape(query.rows, len(sets))


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
