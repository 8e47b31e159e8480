"""The smallest domain on which the same queries can be asked.

One matrix over the whole domain needs a small domain, and a workload may need no more than a small
one: two hundred predicates on a domain of a million cells tell at most a few hundred classes of
cells apart. What is planned for the classes is a plan for the cells, at the same cost and with the
same least error (dissertation, Proposition 2.1 and Theorem 3.12).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np

from noiseplan.domain.cells import Cells, Classes
from noiseplan.matrices.base import DENSE_LIMIT, Array
from noiseplan.mechanisms.reduced import ReducedMechanism
from noiseplan.planning.candidate import Candidate
from noiseplan.planning.cell_classes import classes_of, merged_values
from noiseplan.planning.limits import GRAM_VALUES
from noiseplan.planning.objectives import ConvexLoss, RelativeError
from noiseplan.planning.problem import Problem
from noiseplan.planning.workload_errors import RowFigures
from noiseplan.planning.workload_types import Design
from noiseplan.queries import Query, Workload

# Cells of the table that a release counts and then sums into classes (256 MB).
TABLE_CELLS: Final = 1 << 25


@dataclass(frozen=True, eq=False)
class SmallerDomain:
    """A smaller domain and the workload on it, of one query for each weight and priority."""

    design: Design  # of the workload on the whole domain
    cells: Cells
    workload: Workload
    priorities: Array

    def forward(self, problem: Problem) -> Problem:
        """The same queries on the smaller domain."""
        targets = None if problem.targets is None else 1.0 / self.priorities
        return replace(problem, workload=self.workload, targets=targets)

    def back(self, candidate: Candidate) -> Candidate:
        """The mechanism that counts classes of cells, and measures those."""
        mechanism = ReducedMechanism(self.cells, candidate.mechanism)
        return replace(candidate, mechanism=mechanism, figures=RowFigures(self.design, mechanism))

    def written_out(self, candidate: Candidate) -> Candidate:
        """The same measurements as rows over all cells, which other rooms can work with."""
        whole = candidate.mechanism.over_cells(self.cells)
        if whole is None:
            return self.back(candidate)
        return replace(candidate, mechanism=whole, figures=RowFigures(self.design, whole))


def smaller(problem: Problem, most: int) -> SmallerDomain | str:
    """The smallest equivalent domain of at most `most` cells, or why there is none."""
    design = problem.design
    values = merged_values(design)
    schema = design.workload.schema
    told = f"the schema has {schema.size:,}"
    if isinstance(problem.goal, RelativeError):
        return told + ", on all of which relative errors depend"
    table = prod(schema.shape[i] for i in values.positions)
    if table > TABLE_CELLS:
        return (
            f"{told}; its queries name attributes whose table has {table:,} cells, more than the "
            f"{TABLE_CELLS:,} that can be counted together"
        )
    cells = classes_of(design, min(most, DENSE_LIMIT // design.workload.rows))
    if cells is not None:
        apart = isinstance(problem.goal, ConvexLoss)  # which sees every query by itself
        return _stacked(design, cells, apart)
    if values.inner.size <= most:
        return carried(design, values)
    return f"{told}, of which its queries tell more than {most:,} apart"


def few_groups(problem: Problem) -> SmallerDomain | None:
    """The groups of values that queries tell apart, where an attribute is too long for matrices.

    Levels of a long attribute without its leaves are such queries; other neighbours and noise are
    planned as trees. Expected counts and the user's own strategies are over the values themselves.
    """
    tree = problem.neighbours == "add-remove" and problem.scaling.not_long is None
    if tree or problem.strategies or isinstance(problem.goal, RelativeError):
        return None
    design = problem.design
    long = (
        not role.plain and role.size > GRAM_VALUES > design.group_count(r)
        for r, role in enumerate(design.roles.roles)
    )
    return carried(design, merged_values(design)) if any(long) else None


def _stacked(design: Design, cells: Classes, apart: bool) -> SmallerDomain:
    """All rows of one weight and one priority as one query: few queries, whatever was asked."""
    pairs = np.column_stack([design.workload.columns.weights, design.priorities])
    kind = np.arange(len(pairs))
    if not apart:
        pairs, kind = np.unique(pairs, axis=0, return_inverse=True)
    rows: list[list[Array]] = [[] for _ in pairs]
    for query, own in zip(design.workload, kind.reshape(-1), strict=True):
        rows[own].append(cells.rows(query))
    queries = [
        Query(cells.inner, ["class"], matrix=np.concatenate(some), weight=weight, name=f"kind {i}")
        for i, (some, (weight, _)) in enumerate(zip(rows, pairs.tolist(), strict=True))
    ]
    return SmallerDomain(design, cells, Workload(queries), pairs[:, 1])


def carried(design: Design, cells: Cells) -> SmallerDomain:
    """Every query on its own, with the structure of its factors."""
    queries = [
        Query(q.schema, q.factors, matrix=q.joint, weight=q.weight, name=f"kind {number}")
        for number, q in enumerate(map(cells.query, design.workload))
    ]
    return SmallerDomain(design, cells, Workload(queries), design.priorities)
