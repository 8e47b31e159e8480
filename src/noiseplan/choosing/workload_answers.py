"""Estimates, variances and answerability of all queries of a workload at once.

Queries with the same factors on attributes with the same bases are handled together.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray
from noiseplan.errors import PlanError
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.base import Mechanism
from noiseplan.mechanisms.row_variances import variance_batches
from noiseplan.queries import Workload
from noiseplan.release.release import Release

LIMIT = 50_000_000


# ---------------------------------------------------------------------- every row


def estimates(release: Release, workload: Workload) -> Array:
    """The estimate of every row of every query, in the workload's order."""
    return _in_order(workload, release.plan.mechanism.batches(release.measurements, workload))


def variances(mechanism: Mechanism, workload: Workload) -> Array:
    """The variance of every row of every query that the mechanism answers, in the same order."""
    return _in_order(workload, variance_batches(mechanism, workload))


def _in_order(workload: Workload, batches: Iterable[tuple[IntArray, Array]]) -> Array:
    """Numbers that come in batches of positions, the batch last."""
    if workload.rows > LIMIT:
        raise PlanError(
            f"a rule over {workload.rows:,} rows: the limit is {LIMIT:,}. Name the tables to judge "
            f"by, cells=workload"
        )
    starts = np.concatenate([[0], np.cumsum(workload.sizes)])
    result = np.empty(starts[-1])
    for positions, values in batches:
        rows = values.reshape(-1, values.shape[-1])
        result[starts[positions][:, None] + np.arange(len(rows))] = rows.T
    return result


# ---------------------------------------------------------------------- what is answered


def answered(mechanism: Mechanism, workload: Workload) -> NDArray[np.bool_]:
    """Which queries of a workload a mechanism answers.

    Of queries alike and with the same residuals measured, one decides for all.
    """
    result = np.zeros(len(workload), dtype=bool)
    for group in mechanism.alike_queries(workload):
        kind = mechanism.answered_alike(workload, group)
        for number in range(int(kind.max(initial=-1)) + 1):
            mine = group[kind == number]
            result[mine] = mechanism.determines(workload.query(int(mine[0])))
    return result


def require_all(mechanism: Mechanism, workload: Workload) -> None:
    """Raise `UnanswerableError` unless the mechanism answers every query of a workload."""
    for position in np.flatnonzero(~answered(mechanism, workload))[:1]:
        mechanism.require(workload.query(int(position)))
