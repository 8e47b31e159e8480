"""Which cells the queries of a design tell apart, where there are few classes of them.

Values of single attributes are merged first, as planning does anyway; then cells, query by query.
Merging changes neither the answers nor the least error (dissertation, Proposition 2.1 and Theorem
3.12), and what is searched for over classes takes the cube of their number, not of the cells'.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from noiseplan.domain.cells import Classes, MergedValues
from noiseplan.domain.gram import told_apart
from noiseplan.matrices.base import Array
from noiseplan.planning.workload_types import Design
from noiseplan.queries import Identity, Prefix, Ranges

# Cells, after merging values, among which classes are looked for.
GRID_CELLS: Final = 1 << 22


def classes_of(design: Design, most: int) -> Classes | None:
    """The classes, where they are at most so many."""
    values = merged_values(design)
    if values.inner.size > GRID_CELLS or at_least(design) > most:
        return None
    small = (values.query(query).domain_matrix for query in design.workload)
    cells = Classes(values, told_apart(small, values.inner.size, most))
    return cells if cells.inner.size <= most else None


def class_gram(design: Design, cells: Classes) -> Array:
    """Σ_q w_q W_qᵀW_q over the classes, w being the priorities."""
    total = np.zeros((cells.inner.size,) * 2)
    for query, weight in zip(design.workload, design.priorities, strict=True):
        if query.rows > cells.values.inner.size:  # WᵀW is smaller, and often known
            whole = cells.values.query(query).domain_matrix.gram()
            total += weight * whole[np.ix_(cells.first, cells.first)]
        else:
            rows = cells.rows(query)
            total += (weight * rows.T) @ rows
    return total


def at_least(design: Design) -> float:
    """So many classes at least: what the largest table tells apart by itself."""
    columns = design.workload.columns
    by_value = [isinstance(f, Identity | Prefix | Ranges) for f in columns.distinct]
    counts = [
        1 if r < 0 else int(design.groups[r].max()) + 1 for r in design.roles.of_attribute.tolist()
    ]
    logs = np.log(np.array([*counts, 1], dtype=np.float64))  # last: the padding −1
    asked = np.array([*by_value, False])[columns.factors] & (columns.joint < 0)[:, None]
    return float(np.exp((logs[columns.attributes] * asked).sum(axis=1).max(initial=0.0))) * 0.999


def merged_values(design: Design) -> MergedValues:
    """The attributes that queries name, with the groups that planning finds anyway."""
    named = np.flatnonzero(design.roles.of_attribute >= 0)
    if not len(named):  # nothing but the total is asked: one attribute, all of its values together
        return MergedValues(
            design.workload.schema,
            np.zeros(1, dtype=np.int64),
            (np.zeros(design.workload.schema.shape[0], dtype=np.int64),),
        )
    groups = tuple(design.groups[design.roles.of_attribute[i]] for i in named)
    return MergedValues(design.workload.schema, named, groups)
