"""Estimates, variances and answerability of all queries of a workload at once.

Queries with the same factors on attributes with the same bases are handled together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from noiseplan.arrays import IntArray, unique_rows
from noiseplan.errors import PlanError, UnanswerableError
from noiseplan.matrices import kronecker_apply
from noiseplan.matrices.base import Array
from noiseplan.mechanisms.blocks import batches, subset_patterns
from noiseplan.mechanisms.mechanism import Mechanism
from noiseplan.mechanisms.residual import BATCH_CELLS, ResidualMechanism
from noiseplan.planning.design import Design
from noiseplan.planning.figures import Figures
from noiseplan.queries import Identity, Query, Workload
from noiseplan.release.release import Release

LIMIT = 50_000_000


# ---------------------------------------------------------------------- every row


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
    for positions, rows in variance_batches(mechanism, workload):
        result[starts[positions][:, None] + np.arange(len(rows))] = rows.T
    return result


def variance_batches(mechanism: Mechanism, workload: Workload) -> Iterator[tuple[IntArray, Array]]:
    """Row variances in batches of equal shape: positions, and rows × positions."""
    for group in _groups(mechanism, workload):
        query = workload.query(int(group[0]))
        for part in batches(len(group), query.rows, BATCH_CELLS):
            if isinstance(mechanism, ResidualMechanism) and query.joint is None:
                yield group[part], _alike(mechanism, query, _sets(workload, query, group[part]))
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
    noise = _noise_inside(mechanism, sets)
    tensor = np.where(np.isfinite(noise), noise, 0.0).reshape((2,) * width + (len(sets),))
    return kronecker_apply(pairs, tensor).reshape(query.rows, len(sets))


def _noise_inside(mechanism: ResidualMechanism, sets: IntArray) -> Array:
    """σ²_A of every A inside each set, 2^width × sets; infinite where it is not measured."""
    width = sets.shape[1]
    found = np.empty((2,) * width + (len(sets),))
    for pattern in subset_patterns(width):
        place = tuple(int(i in pattern) for i in range(width))
        found[place] = mechanism.blocks.variance(sets[:, list(pattern)])
    return found.reshape(-1, len(sets))


# ---------------------------------------------------------------------- what is answered


def answered(mechanism: Mechanism, workload: Workload) -> NDArray[np.bool_]:
    """Which queries of a workload a mechanism answers.

    Of queries alike and with the same residuals measured, one decides for all.
    """
    result = np.zeros(len(workload), dtype=bool)
    for group in _groups(mechanism, workload):
        query = workload.query(int(group[0]))
        kind = np.zeros(len(group), dtype=np.int64)
        if isinstance(mechanism, ResidualMechanism):
            sets = _sets(workload, query, group)
            if (mechanism.blocks.basis_of[sets[0]] < 0).any():
                continue
            if _asks_every_cell(query):  # nothing less than the residual of all attributes will do
                whole = np.isfinite(mechanism.blocks.variance(sets))
                group, sets, kind = group[whole], sets[whole], kind[whole]
            if len(group):
                measured = np.isfinite(_noise_inside(mechanism, sets))
                kind = unique_rows(measured.T.astype(np.int64))[1]
        for number in range(int(kind.max(initial=-1)) + 1):
            mine = group[kind == number]
            result[mine] = _answers(mechanism, workload.query(int(mine[0])))
    return result


def _asks_every_cell(query: Query) -> bool:
    if query.joint is not None:
        return False
    names, factors = query.attributes, query.factors.values()
    sizes = (query.schema[name].size for name in names)
    return all(isinstance(f, Identity) and n > 1 for f, n in zip(factors, sizes, strict=True))


def require_all(mechanism: Mechanism, workload: Workload) -> None:
    """Raise `UnanswerableError` unless the mechanism answers every query of a workload."""
    for position in np.flatnonzero(~answered(mechanism, workload))[:1]:
        mechanism.require(workload.query(int(position)))


def _answers(mechanism: Mechanism, query: Query) -> bool:
    try:
        mechanism.require(query)
    except UnanswerableError:
        return False
    return True


# ---------------------------------------------------------------------- figures of a plan


@dataclass(frozen=True, eq=False)
class CellFigures(Figures):
    """Errors from the rows of one query of each type, in batches."""

    design: Design
    mechanism: Mechanism

    @cached_property
    def _both(self) -> tuple[Array, Array]:
        types, first = np.unique(self.design.roles.type_of_query, return_index=True)
        sums, largest = np.zeros(len(types)), np.zeros(len(types))
        examples = self.design.workload.subset(first)
        for positions, rows in variance_batches(self.mechanism, examples):
            sums[positions], largest[positions] = rows.sum(axis=0), rows.max(axis=0)
        return sums, largest

    def sums(self) -> Array:
        return self._both[0]

    def largest(self) -> Array:
        return self._both[1]


# ---------------------------------------------------------------------- inside


def _groups(mechanism: Mechanism, workload: Workload) -> list[IntArray]:
    """Queries with the same factors on attributes with the same bases; one by one without."""
    if not isinstance(mechanism, ResidualMechanism):
        return list(np.arange(len(workload))[:, None])
    columns = workload.columns
    bases = np.append(mechanism.blocks.basis_of, -1)[columns.attributes]
    named = columns.attributes >= 0  # an attribute without a basis is no padding
    _, kind = unique_rows(np.column_stack([bases, named, columns.factors, columns.joint]))
    order = np.argsort(kind, kind="stable")
    return np.split(order, np.cumsum(np.bincount(kind))[:-1])


def _sets(workload: Workload, query: Query, group: IntArray) -> IntArray:
    return workload.columns.attributes[group, : len(query.attributes)]


def _starts(workload: Workload) -> IntArray:
    if workload.rows > LIMIT:
        raise PlanError(
            f"a rule over {workload.rows:,} rows: the limit is {LIMIT:,}. Name the tables to judge "
            f"by, SignalToNoise(…, cells=workload)"
        )
    return np.concatenate([[0], np.cumsum(workload.sizes)])
