"""Everything a workload asks for, over the cells of a small domain: rows, priorities, variances.

A row's priority is its query's weight, or one over its target; priorities multiply variances.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from noiseplan.errors import PlanError, setting
from noiseplan.matrices import DenseMatrix, StackMatrix
from noiseplan.matrices.base import Array, Matrix
from noiseplan.optimize.fitness import FEW_ROWS
from noiseplan.planning.objectives import ConvexLoss, Objective, PNormVariance, RelativeError
from noiseplan.planning.workload_types import Design

# Up to so many numbers rows are written out: then equal ones merge, and separate cells separate.
WRITTEN_OUT = 20_000_000


@dataclass(frozen=True, eq=False)
class Asked:
    """The rows of all queries, one query after the other."""

    design: Design

    @cached_property
    def queries(self) -> list[Matrix]:
        return [query.domain_matrix for query in self.design.workload]

    @cached_property
    def by_query(self) -> Array:
        """The priority of every query."""
        roles = self.design.roles
        return np.asarray(roles.type_priority[roles.type_of_query], dtype=np.float64)

    @cached_property
    def priorities(self) -> Array:
        """The priority of every row."""
        return np.repeat(self.by_query, [rows.shape[0] for rows in self.queries])

    def rows(self) -> Matrix | Array:
        """All rows: written out if they are few or numbers, else a matrix that is never stored."""
        count = len(self.priorities)
        stacked = StackMatrix(tuple(self.queries))
        few = count <= FEW_ROWS or all(isinstance(rows, DenseMatrix) for rows in self.queries)
        if few and count * self.design.workload.schema.size <= WRITTEN_OUT:
            return stacked.dense(WRITTEN_OUT)
        return stacked

    def written_out(self, what: str) -> Array:
        """All rows as numbers, for what needs them so."""
        count, cells = len(self.priorities), self.design.workload.schema.size
        if count * cells > WRITTEN_OUT:
            raise PlanError(
                what + f" works on rows written out, at most {WRITTEN_OUT:,} numbers, and the "
                f"workload has {count:,} rows × {cells:,} cells; use "
                + setting("planner", "optimal")
            )
        return StackMatrix(tuple(self.queries)).dense(WRITTEN_OUT)

    def variances(self, sigma: Array) -> Array:
        """Priority times variance of every row, for a covariance Σ of the cells."""
        forms = [rows.quadratic_rows(sigma) for rows in self.queries]
        return self.priorities * np.maximum(np.concatenate(forms), 0.0)

    def gram(self, weights: Array) -> Array:
        """Σ_j weights_j priority_j w_jᵀw_j over all rows."""
        ends = np.cumsum([rows.shape[0] for rows in self.queries])[:-1]
        total = np.zeros((self.design.workload.schema.size,) * 2)
        for rows, part in zip(self.queries, np.split(weights * self.priorities, ends), strict=True):
            total += rows.weighted_gram(part)
        return total

    def relative_weights(self, objective: RelativeError) -> Array:
        """One over the square each row's error is compared with."""
        squares = [objective.squares(rows.row_squares(), rows.matmul) for rows in self.queries]
        return 1.0 / np.concatenate(squares)


@dataclass(frozen=True, eq=False)
class AskedByQuery:
    """One number per query: priority times the mean variance of its rows."""

    asked: Asked

    @cached_property
    def _scale(self) -> Array:
        rows = np.array([rows.shape[0] for rows in self.asked.queries], dtype=np.float64)
        return self.asked.by_query / rows

    def variances(self, sigma: Array) -> Array:
        sums = [max(float((rows.gram() * sigma).sum()), 0.0) for rows in self.asked.queries]
        return np.asarray(self._scale * np.array(sums))

    def gram(self, weights: Array) -> Array:
        total = np.zeros((self.asked.design.workload.schema.size,) * 2)
        for rows, weight in zip(self.asked.queries, weights * self._scale, strict=True):
            total += weight * rows.gram()
        return total


def loss_terms(asked: Asked, objective: Objective) -> tuple[Asked | AskedByQuery, int]:
    """What a p-norm or a loss of one's own looks at, and how many numbers that is."""
    if isinstance(objective, PNormVariance):
        return asked, len(asked.priorities)
    assert isinstance(objective, ConvexLoss)
    return AskedByQuery(asked), len(asked.queries)
