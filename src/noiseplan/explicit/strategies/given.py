"""Rows that a user brings: measured as they are, or with the best weights."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from noiseplan.errors import PlanError
from noiseplan.explicit.strategies.norms import Norm, completed
from noiseplan.explicit.strategies.realisation import least_sensitivity
from noiseplan.explicit.strategies.weighting import weighted_rows
from noiseplan.matrices.base import Array


@dataclass(frozen=True, eq=False)
class Strategy:
    """What to measure, given as rows over all cells of the domain (the last attribute fastest).

    Parameters
    ----------
    rows
        One measured number each; numbers × cells.
    weighted
        Whether to weigh the rows as serves the workload best: they are then a *design set*.
    filled
        Whether to add, free of cost, a row for each cell that pays less than others do.
    name
        What the plan calls it.

    Examples
    --------
    >>> import noiseplan as nz
    >>> schema = nz.Schema.from_sizes({"a": 4})
    >>> workload = nz.Workload([nz.Query(schema, {"a": nz.Ranges()})])
    >>> pairs = np.vstack([np.eye(4), [[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]]])
    >>> for strategy in (nz.Strategy(pairs), nz.Strategy(pairs, weighted=True)):
    ...     plan = nz.plan(workload, budget=nz.zCDP(0.5), planner=strategy, noise="gaussian")
    ...     print(round(plan.total_variance, 2))
    20.86
    16.95
    """

    rows: Array
    weighted: bool = False
    filled: bool = False
    name: str = field(default="given strategy", kw_only=True)

    def __post_init__(self) -> None:
        try:
            rows = np.array(self.rows, dtype=np.float64)
        except (TypeError, ValueError):
            raise PlanError(
                f"a strategy is a matrix of numbers, one row for each number to measure; found "
                f"{type(self.rows).__name__}"
            ) from None
        if rows.ndim != 2 or not rows.size:
            raise PlanError(
                f"a strategy has two dimensions, numbers to measure × cells of the domain; found "
                f"the shape {rows.shape}"
            )
        if not np.isfinite(rows).all() or not rows.any():
            raise PlanError("a strategy has finite numbers, and not only zeros")
        rows.setflags(write=False)
        object.__setattr__(self, "rows", rows)

    @classmethod
    def of_profile(cls, profile: Array) -> Strategy:
        """Rows A with AᵀA = `profile` and small L1 columns, for Laplace noise.

        `profile` is the inverse of the covariance wanted of the estimated cells, up to scale.
        """
        return cls(least_sensitivity(np.asarray(profile, dtype=np.float64)), name="given profile")

    def matrix(self, gram: Array, norm: Norm) -> Array:
        """What is measured for a workload with this Gram matrix."""
        if self.rows.shape[1] != len(gram):
            raise PlanError(
                f"the strategy has {self.rows.shape[1]:,} columns, and the domain has "
                f"{len(gram):,} cells: one column for each, the last attribute fastest"
            )
        rows = weighted_rows(self.rows, gram, norm)[0] if self.weighted else self.rows
        return completed(rows, norm) if self.filled else rows
